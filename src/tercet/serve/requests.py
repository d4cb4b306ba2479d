"""Incoming HTTP messages with examples, for validation and the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qs

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

_QUERY_CHARS: Final = 1_000
_MOST_RESULTS: Final = 1_000  # the largest k
_SHOWN: Final = 100  # documents in a taught list
_FILTERS, _FILTER_CHARS = 16, 400
ID_CHARS: Final = 1_000  # of a document's id
_CLIENT_CHARS: Final = 64
_DOCUMENTS_AT_ONCE: Final = 1_000
_ACTIONS_AT_ONCE: Final = 1_000
_UNKNOWN_MEMBERS: Final = 20  # named one by one in errors


def example(**members: Any) -> ConfigDict:
    """Return a configuration without extra members, and with an example."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [members]})


QUERY = Field(max_length=_QUERY_CHARS, description="Text of the query.", examples=["avocado eyes"])
DOC_ID = Field(min_length=1, max_length=ID_CHARS, description="Id of a document.", examples=["MED-10"])
DocId = Annotated[str, Field(min_length=1, max_length=ID_CHARS)]
# Strict: otherwise true would be 1, and undo the first action.
_NUMBER = Annotated[int, Field(ge=1, lt=2**53, strict=True)]
_CLIENT = Field(
    default=None,
    min_length=1,
    max_length=_CLIENT_CHARS,
    description="Name of the client, if an address has many.",
    examples=["reader-7"],
)


class SearchQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @classmethod
    def from_query_string(cls, query_string: bytes) -> Self:
        """Parse a query string; of repeated parameters except filter, the last value counts."""
        values = parse_qs(query_string.decode("latin-1"), keep_blank_values=True)
        return cls.model_validate({name: all_ if name == "filter" else all_[-1] for name, all_ in values.items()})

    q: str = QUERY
    k: int = Field(10, ge=1, le=_MOST_RESULTS, description="Number of documents in each list.", examples=[10])
    all: bool = Field(False, description="Include learned hits below the last match.", examples=[False])
    compare: bool = Field(False, description="Add the list of the baseline.", examples=[True])
    facets: bool = Field(False, description="Add columns and values for filters.", examples=[True])
    filter: list[Annotated[str, Field(max_length=_FILTER_CHARS)]] = Field(
        default_factory=list,
        max_length=_FILTERS,
        description="column:value of a stored field; 10..20 is a range with optional ends. Filters on one column are "
        "alternatives.",
        examples=[["year:2011"]],
    )
    log: bool = Field(
        True,
        description="False keeps the list out of the impressions log.",
        examples=[True],
    )
    client: str | None = _CLIENT


class ExplainQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    q: str = QUERY
    doc: str = DOC_ID
    versus: str | None = Field(
        None, min_length=1, max_length=ID_CHARS, description="Explain the lead over this document.", examples=["MED-14"]
    )
    system: Literal["learned", "baseline"] = Field("learned", description="List of the score.", examples=["learned"])
    k: int = Field(50, ge=1, le=_MOST_RESULTS, description="Number of reasons; the rest is summed.", examples=[9])


class DocumentQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str = DOC_ID


class LimitQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = Field(100, ge=1, le=_MOST_RESULTS, description="Maximum number of actions.", examples=[100])


class Posted(BaseModel):
    """Body of a request. An object with many unknown members is one fault."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + _UNKNOWN_MEMBERS:
            raise ValueError(f"an object of {len(value):,} members; expected {', '.join(cls.model_fields)}")
        return value


class Prefer(Posted):
    """A document is better than another for a query."""

    model_config = example(query="avocado eyes", better="MED-10", worse="MED-14")
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    better: str = DOC_ID
    worse: str = DOC_ID


class Reject(Posted):
    """A document is not relevant for a query: the documents below are better."""

    model_config = example(query="avocado eyes", doc="MED-14", below=["MED-10", "MED-2"])
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    doc: str = DOC_ID
    below: list[DocId] = Field(min_length=1, max_length=_SHOWN, description="Nearest first.")


class Move(Posted):
    """Position of a document for a query: ahead of some documents, behind others."""

    model_config = example(query="avocado eyes", doc="MED-10", ahead_of=["MED-14", "MED-2"], behind=["MED-3"])
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    doc: str = DOC_ID
    ahead_of: list[DocId] = Field(default_factory=list, max_length=_SHOWN, description="Nearest first.")
    behind: list[DocId] = Field(default_factory=list, max_length=_SHOWN, description="Nearest first.")


class Undo(Posted):
    """Undo actions, all or none; by default the last active action."""

    model_config = example(actions=[12])
    actions: list[_NUMBER] | None = Field(None, min_length=1, max_length=_ACTIONS_AT_ONCE, fail_fast=True)


class Click(Posted):
    """Click on a document of a list, for the impressions log; changes no ranking."""

    model_config = example(query_id="0123456789abcdef0123456789abcdef", doc="MED-10")
    query_id: str = Field(min_length=1, max_length=64, description="Id in the answer to the search.")
    doc: str = DOC_ID
    client: str | None = _CLIENT


class Rank(Posted):
    """A query and the documents of another engine."""

    model_config = example(query="avocado eyes", ids=["MED-14", "MED-10"])
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    ids: list[DocId] = Field(min_length=1, max_length=_MOST_RESULTS)
    reasons: int = Field(3, ge=0, le=20, description="Reasons per document; 0 is fastest.")


def _one_fault(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Report a value of a wrong type once instead of once per allowed type."""
    try:
        return check(value)
    except ValidationError:
        raise ValueError("expected a text, true, false, or a finite number from -2^63 to 2^64") from None


_Value = Annotated[
    str | bool | Annotated[int, Field(ge=-(2**63), lt=2**64)] | Annotated[float, Field(allow_inf_nan=False)],
    WrapValidator(_one_fault),
]


class NewDocument(Posted):
    """Document to index."""

    model_config = example(id="MED-10", text="Avocados and eye health\nLutein …", stored_fields={"year": 2011})
    id: str = DOC_ID
    text: str
    stored_fields: dict[str, _Value] = Field(default_factory=dict, description="Stored fields, by column.")


class NewDocuments(Posted):
    """Documents to index, all or none."""

    model_config = example(
        documents=[{"id": "MED-10", "text": "Avocados and eye health", "stored_fields": {"year": 2011}}]
    )
    documents: list[NewDocument] = Field(min_length=1, max_length=_DOCUMENTS_AT_ONCE)
    replace: bool = Field(False, description="Replace documents with the same ids instead of refusing.")
