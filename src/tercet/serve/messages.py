"""Messages that go out over HTTP; the OpenAPI document is made of these and of `requests`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

STORED_FIELDS = Field(description="Stored fields of the document, by column; some of many, long texts shortened.")
VERSION = Field(
    description="The version that answered: v12 has all changes of what was taught up to the 12th.",
    examples=["v12"],
    pattern="^v[0-9]+$",
)
INDEX = Field(description="The index that answered: documents and model, as they were committed.")


class ShownHit(BaseModel):
    id: str
    rank: int
    score: float
    title: str
    snippet: str = Field(description="Plain text, to be shown as such.")
    stored_fields: dict[str, str | int | float | bool] = STORED_FIELDS


class LearnedHit(ShownHit):
    baseline_rank: int | None = Field(description="Its rank in the other list, looked for down to max(k, 100).")
    moved: int | None = Field(description="By how many ranks it is higher than there.")


class BaselineHit(ShownHit):
    learned_rank: int | None


class SearchAnswer(BaseModel):
    """Two lists for a query: the learned one, and that of matching words alone."""

    query: str
    query_id: str | None = Field(description="Where impressions are logged: what clicks name this list by.")
    k: int
    version: str = VERSION
    index: str = INDEX
    unknown: list[str] = Field(description="Words of the query that the model does not know.")
    stop_words: list[str] = Field(description="Words of the query that are too frequent to be searched.")
    compared: bool = Field(description="False where nothing is learned: then there is one list, and no baseline.")
    left_off: int = Field(description="Learned hits among the first k that are no matches; all=true gives them.")
    interleaved: bool = Field(description="True where the learned list is shared with another model's.")
    exact: bool = Field(description="False if an external engine chose the candidates and may have missed some.")
    took_ms: float
    learned: list[LearnedHit]
    baseline: list[BaselineHit]
    baseline_name: str
    where: dict[str, list[str]] = Field(description="The filters, as they were understood: values by column.")


class PairShown(BaseModel):
    query_word: str
    doc_word: str
    contribution: float


class RelatedWord(BaseModel):
    word: str
    weight: float


class RelatedWords(BaseModel):
    """The document words that count most for a query word, by size, sign kept."""

    word: str
    known_as: str = Field(description="The word as the model spells it.")
    related: list[RelatedWord]
    version: str = VERSION


class Document(BaseModel):
    """A document as it was indexed."""

    id: str
    title: str
    text: str
    stored_fields: dict[str, str | int | float | bool] = Field(description="All stored fields, by column.")


class DocumentsChanged(BaseModel):
    """The change is on disk, and the index named has it."""

    changed: int = Field(description="How many documents were added, replaced or removed.")
    documents: int = Field(description="How many there are now.")
    index: str = INDEX
    version: str = VERSION


class Collection(BaseModel):
    """What is searched."""

    name: str = Field(
        description="Of the data that was learned from, or of the folder where it tells something, or empty."
    )
    documents: int
    baseline_name: str
    examples: list[str] = Field(description="Up to three queries that find something.")


class ClickLogged(BaseModel):
    """The click is in the log."""

    query_id: str
    doc: str
    rank: int


class Health(BaseModel):
    """The service is well. Where what is taught is not learned, the answer is a problem."""

    status: Literal["ok"]
    version: str = VERSION
    damaged: list[int] = Field(description="Numbers of taught actions that are damaged on disk, and so are skipped.")
    documents: int
    index: str = INDEX
    model: str = Field(description="Known by it: the same words and weights have the same.")
    loaded: str = Field(description="When this index and model were taken up.")
    refused: str | None = Field(description="Why what is new on disk is not served, where something is.")
    interleaving: dict[str, Any] | None = Field(
        description="Who is compared by shared lists, and how it stands; null where lists are not shared."
    )
    build: str = Field(description="The version of Tercet.")


class Ready(BaseModel):
    """Requests may be sent here."""

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
    times: int | None = Field(description="How often people chose the document for it, where somebody counted.")
    contribution: float


class RestShown(BaseModel):
    count: int
    contribution: float


class Reasons(BaseModel):
    """Past queries and pairs of words with what each adds; with the rest they sum to the score."""

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
    reasons: list[str] = Field(description="What adds most to the score, each with how much.")


class Ranked(BaseModel):
    """The documents of another engine in the learned order."""

    query: str
    ranked: list[RankedDocument]
    missing: list[str] = Field(description="Ids that the index lacks, in the order in which they came.")
    version: str = VERSION


class RankChange(BaseModel):
    id: str
    before: int | None = Field(description="Its rank in the learned list, looked for down to 100.")
    after: int | None


class Effect(BaseModel):
    """The change that an action made."""

    ahead: bool = Field(description="Whether every better document is ahead of the worse one now.")
    said: str = Field(description="The same as a sentence.")
    ranks: list[RankChange]


class Taught(BaseModel):
    """An action that is on disk. ``served`` says whether ``version`` has it already; else it will, soon."""

    action: int = Field(description="Its number, by which it can be undone.")
    revision: int = Field(description="Versions from this number on have it.")
    version: str = VERSION
    served: bool
    effect: Effect | None = Field(description="Null where it is not served yet.")


class Undone(BaseModel):
    """The actions that count no more; ``served`` says whether ``version`` is without them already."""

    undone: list[int]
    revision: int = Field(description="Versions from this number on are without them.")
    version: str = VERSION
    served: bool


class TaughtAction(BaseModel):
    """An action of a teacher."""

    action: int
    time: str
    token: str = Field(description="Name of the token that taught.")
    kind: Literal["prefer", "reject", "move"]
    query: str
    pairs: list[tuple[str, str]] = Field(description="Better and worse documents.")
    undone: str | None = Field(description="When it was undone; null while it counts.")
    undone_by: str | None
    in_model: bool = Field(description="Whether the model has learned from it, so that it cannot be undone.")


class History(BaseModel):
    """What was taught, latest first."""

    version: str = VERSION
    total: int
    actions: list[TaughtAction]
