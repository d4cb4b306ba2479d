"""Outgoing HTTP messages, for the OpenAPI document and tests."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

STORED_FIELDS = Field(description="Shown stored fields by column; long texts are shortened.")
VERSION = Field(
    description="Version of the answer: v12 has all taught changes up to the 12th.",
    examples=["v12"],
    pattern="^v[0-9]+$",
)
INDEX = Field(description="Committed documents and model of the answer.")


class ShownHit(BaseModel):
    id: str
    rank: int
    score: float
    title: str
    snippet: str = Field(description="Plain text.")
    stored_fields: dict[str, str | int | float | bool] = STORED_FIELDS


class LearnedHit(ShownHit):
    baseline_rank: int | None = Field(description="Rank in the other list, down to max(k, 100).")
    moved: int | None = Field(description="Number of ranks above the other list.")


class BaselineHit(ShownHit):
    learned_rank: int | None


class FacetValue(BaseModel):
    value: str = Field(description="Text, number or range for a filter.")
    count: int


class Facet(BaseModel):
    """Column for filters, with the most frequent values or with ranges."""

    column: str
    counted: int = Field(description="Number of counted results, 100 at most.")
    values: list[FacetValue]


class SearchAnswer(BaseModel):
    """Learned list and baseline list for a query."""

    query: str
    query_id: str | None = Field(description="Id of the logged list, for clicks.")
    k: int
    version: str = VERSION
    index: str = INDEX
    unknown: list[str] = Field(description="Query words that the model does not know.")
    stop_words: list[str] = Field(description="Query words that are not searched.")
    compared: bool = Field(description="False without a baseline list, as when nothing is learned.")
    left_off: int = Field(description="Learned hits among the first k below the last match; all=true adds them.")
    interleaved: bool = Field(description="True if the list is interleaved with a rival.")
    exact: bool = Field(description="False if an external engine chose the candidates and may have missed some.")
    took_ms: float
    learned: list[LearnedHit]
    baseline: list[BaselineHit]
    baseline_name: str
    where: dict[str, list[str]] = Field(description="Filters: values by column.")
    facets: list[Facet] = Field(description="Columns for filters; empty unless facets=true.")


class PairShown(BaseModel):
    query_word: str
    doc_word: str
    contribution: float


class Document(BaseModel):
    """Document as indexed."""

    id: str
    title: str
    text: str
    stored_fields: dict[str, str | int | float | bool] = Field(description="All stored fields, by column.")


class DocumentsChanged(BaseModel):
    """The change is on disk and served."""

    changed: int = Field(description="Number of added, replaced or removed documents.")
    documents: int = Field(description="Number of documents.")
    index: str = INDEX
    version: str = VERSION


class Collection(BaseModel):
    """Searched collection."""

    name: str = Field(description="Name of the training data or of the folder; may be empty.")
    documents: int
    baseline_name: str
    examples: list[str] = Field(description="Up to three example queries.")


class ClickLogged(BaseModel):
    """The click is logged."""

    query_id: str
    doc: str
    rank: int


class Health(BaseModel):
    """State of the service. If actions are not learned, the answer is a problem."""

    status: Literal["ok"]
    version: str = VERSION
    damaged: list[int] = Field(description="Numbers of damaged actions, which are skipped.")
    documents: int
    index: str = INDEX
    model: str = Field(description="Fingerprint of words and weights.")
    loaded: str = Field(description="Time of loading index and model.")
    refused: str | None = Field(description="Reason why the index on disk is not served.")
    interleaving: dict[str, Any] | None = Field(description="Compared models and counts; null without interleaving.")
    build: str = Field(description="Version of Tercet.")


class Ready(BaseModel):
    """The service accepts requests."""

    ready: Literal[True]


class ProblemDetails(BaseModel):
    """RFC 9457."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str


class PastShown(BaseModel):
    query: str
    similarity: float
    times: int | None = Field(description="Number of clicks on the document for the past query, if counted.")
    contribution: float


class RestShown(BaseModel):
    count: int
    contribution: float


class Reasons(BaseModel):
    """Contributions of past queries, pairs of words and the rest, which sum to the score."""

    score: float
    past: list[PastShown]
    pairs: list[PairShown]
    rest: RestShown
    unknown: list[str]
    version: str = VERSION


class RankedDocument(BaseModel):
    id: str
    rank: int
    score: float
    reasons: list[str] = Field(description="Largest contributions to the score.")


class Ranked(BaseModel):
    """Documents of another engine in the learned order."""

    query: str
    ranked: list[RankedDocument]
    missing: list[str] = Field(description="Unknown ids, in the given order.")
    version: str = VERSION


class RankChange(BaseModel):
    id: str
    before: int | None = Field(description="Rank in the learned list, down to 100.")
    after: int | None


class Effect(BaseModel):
    """Effect of an action."""

    ahead: bool = Field(description="True if each better document is ahead of the worse document.")
    said: str = Field(description="Summary sentence.")
    ranks: list[RankChange]


class Taught(BaseModel):
    """Action on disk; ``served`` is true if ``version`` has the action."""

    action: int = Field(description="Number of the action, for undo.")
    revision: int = Field(description="Versions from this number on have the action.")
    version: str = VERSION
    served: bool
    effect: Effect | None = Field(description="Null until the action is served.")


class Undone(BaseModel):
    """Undone actions; ``served`` is true if ``version`` is without the actions."""

    undone: list[int]
    revision: int = Field(description="Versions from this number on are without the actions.")
    version: str = VERSION
    served: bool


class TaughtAction(BaseModel):
    """Action of a teacher."""

    action: int
    time: str
    token: str = Field(description="Name of the teaching token.")
    kind: Literal["prefer", "reject", "move"]
    query: str
    pairs: list[tuple[str, str]] = Field(description="Better and worse documents.")
    undone: str | None = Field(description="Time of undo, or null.")
    undone_by: str | None
    in_model: bool = Field(description="True if the model includes the action; then undo is impossible.")


class History(BaseModel):
    """Taught actions, latest first."""

    version: str = VERSION
    total: int
    actions: list[TaughtAction]
