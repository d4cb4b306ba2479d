"""What comes in over HTTP, with an example of each; the OpenAPI document is made of these and of `messages`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tercet.serve.bounds import (
    CLIENT_CHARS,
    DOCUMENTS_AT_ONCE,
    ENTRIES_AT_ONCE,
    FILTER_CHARS,
    FILTERS,
    ID_CHARS,
    MOST_RESULTS,
    QUERY_CHARS,
    SHOWN,
    UNKNOWN_MEMBERS,
)


def example(**members: Any) -> ConfigDict:
    """No other members, and one of these to show."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [members]})


QUERY = Field(max_length=QUERY_CHARS, description="Text of the query.", examples=["avocado eyes"])
DOC_ID = Field(min_length=1, max_length=ID_CHARS, description="Id of a document.", examples=["MED-10"])
# Strict, since true would be 1 otherwise, and take back the first entry.
ENTRY = Annotated[int, Field(ge=1, lt=2**53, strict=True)]
RECEIPT = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,14}\.[\w-]{1,64}$")]
# Thousands may be sent, and only the first that is wrong is named.
MANY = Field(None, min_length=1, max_length=ENTRIES_AT_ONCE, fail_fast=True)
CLIENT = Field(
    default=None,
    min_length=1,
    max_length=CLIENT_CHARS,
    description="Who asks, where one address stands for many; limits are counted by it.",
    examples=["reader-7"],
)


class SearchQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    q: str = QUERY
    k: int = Field(10, ge=1, le=MOST_RESULTS, description="How many documents in each list.", examples=[10])
    all: bool = Field(False, description="Learned hits below the last match, too.", examples=[False])
    filter: list[Annotated[str, Field(max_length=FILTER_CHARS)]] = Field(
        default_factory=list,
        max_length=FILTERS,
        description="column:value, of stored fields; a range of numbers is 10..20, and either end may be left "
        "out. Filters on one column are alternatives, those on others must hold, too.",
        examples=[["year:2011"]],
    )
    log: bool = Field(
        True,
        description="Whether the lists go into the impressions log, where there is one; not those that nobody is shown "
        "or that somebody looks at again.",
        examples=[True],
    )
    client: str | None = CLIENT


class ExplainQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    q: str = QUERY
    doc: str = DOC_ID
    versus: str | None = Field(
        None, min_length=1, max_length=ID_CHARS, description="Explain the lead over this one.", examples=["MED-14"]
    )
    system: Literal["learned", "baseline"] = Field("learned", description="Which list's score.", examples=["learned"])
    k: int = Field(50, ge=1, le=MOST_RESULTS, description="How many pairs to list; others are added up.", examples=[50])


class RelatedQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str = Field(min_length=1, max_length=QUERY_CHARS, description="A query word.", examples=["avocado"])
    k: int = Field(10, ge=1, le=MOST_RESULTS, description="How many words.", examples=[10])


class DocumentQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str = DOC_ID


class LimitQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = Field(100, ge=1, le=MOST_RESULTS, description="How many at most.", examples=[100])


class Posted(BaseModel):
    """What is sent as a body. Objects with far more members than there are get one fault, not one for each of them."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + UNKNOWN_MEMBERS:
            raise ValueError(f"an object of {len(given):,} members; expected {', '.join(cls.model_fields)}")
        return given


class Prefer(Posted):
    """For a query, one document is better than another."""

    model_config = example(query="avocado eyes", better="MED-10", worse="MED-14")
    query: str = Field(min_length=1, max_length=QUERY_CHARS)
    better: str = DOC_ID
    worse: str = DOC_ID
    client: str | None = CLIENT


class Clicks(Posted):
    """A list that somebody saw, from top to bottom, and what of it was clicked."""

    model_config = example(query="avocado eyes", shown=["MED-14", "MED-10", "MED-2"], clicked=["MED-10"])
    query: str = Field(min_length=1, max_length=QUERY_CHARS)
    shown: list[str] = Field(min_length=1, max_length=SHOWN)
    clicked: list[str] = Field(min_length=1, max_length=SHOWN)
    client: str | None = CLIENT


class Click(Posted):
    """A click on a document of a list, for the impressions log; nothing is learned from it at once."""

    model_config = example(query_id="0123456789abcdef0123456789abcdef", doc="MED-10")
    query_id: str = Field(min_length=1, max_length=64, description="As the answer to the search has it.")
    doc: str = DOC_ID
    client: str | None = CLIENT


class Undo(Posted):
    """Take back an entry of one's own, or several, the last one where none is named.

    One's own is what the same address taught without a client's name. What was taught for a client is taken back by the
    receipts that the answers had.
    """

    model_config = example(entry=12) | ConfigDict(extra="forbid")  # a client's name proves nothing
    entry: ENTRY | None = None
    entries: list[ENTRY] | None = MANY
    receipts: list[RECEIPT] | None = Field(
        None,
        min_length=1,
        max_length=ENTRIES_AT_ONCE,
        fail_fast=True,
        description="As the answers to what was taught had them.",
    )


class Revoke(Posted):
    """Take back entries, or all of a client, whoever made them."""

    model_config = example(entries=[11, 12])
    entries: list[ENTRY] | None = MANY
    client: str | None = Field(
        None,
        min_length=1,
        max_length=CLIENT_CHARS + 64,
        description="As the history names it: address, or address/name.",
    )


class NewDocument(Posted):
    """A document to be indexed."""

    model_config = example(id="MED-10", text="Avocados and eye health\nLutein …", stored_fields={"year": 2011})
    id: str = DOC_ID
    text: str
    stored_fields: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Stored fields, by column."
    )


class NewDocuments(Posted):
    """Documents to be indexed, all of them or, where one cannot be, none."""

    model_config = example(
        documents=[{"id": "MED-10", "text": "Avocados and eye health", "stored_fields": {"year": 2011}}]
    )
    documents: list[NewDocument] = Field(min_length=1, max_length=DOCUMENTS_AT_ONCE)
    replace: bool = Field(False, description="Take the place of documents with the same ids; else these are refused.")
