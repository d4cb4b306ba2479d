"""Messages that come in over HTTP, with an example of each; the OpenAPI document is made of these and of `messages`."""

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
_SHOWN: Final = 100  # documents of a list that is taught from, and of one that is ranked again
_FILTERS, _FILTER_CHARS = 16, 400
ID_CHARS: Final = 1_000  # of a document's id
_CLIENT_CHARS: Final = 64
_DOCUMENTS_AT_ONCE: Final = 1_000
_ACTIONS_AT_ONCE: Final = 1_000
_UNKNOWN_MEMBERS: Final = 20  # of an object, each of which is named; more are refused as a whole


def example(**members: Any) -> ConfigDict:
    """No other members, and one of these to show."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [members]})


QUERY = Field(max_length=_QUERY_CHARS, description="Text of the query.", examples=["avocado eyes"])
DOC_ID = Field(min_length=1, max_length=ID_CHARS, description="Id of a document.", examples=["MED-10"])
DocId = Annotated[str, Field(min_length=1, max_length=ID_CHARS)]
# Strict, since true would be 1 otherwise, and undo the first action.
_NUMBER = Annotated[int, Field(ge=1, lt=2**53, strict=True)]
_CLIENT = Field(
    default=None,
    min_length=1,
    max_length=_CLIENT_CHARS,
    description="Who asks, where one address stands for many.",
    examples=["reader-7"],
)


class SearchQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @classmethod
    def of(cls, query_string: bytes) -> Self:
        """Return the parameters of a query string; the last value of a parameter counts, of filters all."""
        values = parse_qs(query_string.decode("latin-1"), keep_blank_values=True)
        return cls.model_validate({name: all_ if name == "filter" else all_[-1] for name, all_ in values.items()})

    q: str = QUERY
    k: int = Field(10, ge=1, le=_MOST_RESULTS, description="How many documents in each list.", examples=[10])
    all: bool = Field(False, description="Learned hits below the last match, too.", examples=[False])
    compare: bool = Field(False, description="With the list of matching words alone beside it.", examples=[True])
    filter: list[Annotated[str, Field(max_length=_FILTER_CHARS)]] = Field(
        default_factory=list,
        max_length=_FILTERS,
        description="column:value, of stored fields; a range of numbers is 10..20, and either end may be left "
        "out. Filters on one column are alternatives, those on others must hold, too.",
        examples=[["year:2011"]],
    )
    log: bool = Field(
        True,
        description="Whether the list goes into the impressions log, where there is one; not one that nobody is shown "
        "or that somebody looks at again.",
        examples=[True],
    )
    client: str | None = _CLIENT


class ExplainQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    q: str = QUERY
    doc: str = DOC_ID
    versus: str | None = Field(
        None, min_length=1, max_length=ID_CHARS, description="Explain the lead over this one.", examples=["MED-14"]
    )
    system: Literal["learned", "baseline"] = Field("learned", description="Which list's score.", examples=["learned"])
    k: int = Field(50, ge=1, le=_MOST_RESULTS, description="How many pairs to list; others are added up.", examples=[9])


class RelatedQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str = Field(min_length=1, max_length=_QUERY_CHARS, description="A query word.", examples=["avocado"])
    k: int = Field(10, ge=1, le=_MOST_RESULTS, description="How many words.", examples=[10])


class DocumentQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: str = DOC_ID


class LimitQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = Field(100, ge=1, le=_MOST_RESULTS, description="How many at most.", examples=[100])


class Posted(BaseModel):
    """A body. Objects with far more members than there are get one fault, instead of one for each of them."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + _UNKNOWN_MEMBERS:
            raise ValueError(f"an object of {len(given):,} members; expected {', '.join(cls.model_fields)}")
        return given


class Prefer(Posted):
    """For a query, one document is better than another."""

    model_config = example(query="avocado eyes", better="MED-10", worse="MED-14")
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    better: str = DOC_ID
    worse: str = DOC_ID


class Reject(Posted):
    """For a query, a document is not relevant: those below it are better."""

    model_config = example(query="avocado eyes", doc="MED-14", below=["MED-10", "MED-2"])
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    doc: str = DOC_ID
    below: list[DocId] = Field(min_length=1, max_length=_SHOWN, description="Nearest first.")


class Move(Posted):
    """For a query, a document belongs elsewhere: ahead of some, behind others."""

    model_config = example(query="avocado eyes", doc="MED-10", ahead_of=["MED-14", "MED-2"], behind=["MED-3"])
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    doc: str = DOC_ID
    ahead_of: list[DocId] = Field(default_factory=list, max_length=_SHOWN, description="Nearest first.")
    behind: list[DocId] = Field(default_factory=list, max_length=_SHOWN, description="Nearest first.")


class Undo(Posted):
    """Undo actions, all of them or none; the last one that counts where none is named."""

    model_config = example(actions=[12])
    actions: list[_NUMBER] | None = Field(None, min_length=1, max_length=_ACTIONS_AT_ONCE, fail_fast=True)


class Click(Posted):
    """A click on a document of a list, for the impressions log; no ranking changes by it."""

    model_config = example(query_id="0123456789abcdef0123456789abcdef", doc="MED-10")
    query_id: str = Field(min_length=1, max_length=64, description="As the answer to the search has it.")
    doc: str = DOC_ID
    client: str | None = _CLIENT


class Rank(Posted):
    """A query, and documents that another engine found."""

    model_config = example(query="avocado eyes", ids=["MED-14", "MED-10"])
    query: str = Field(min_length=1, max_length=_QUERY_CHARS)
    ids: list[DocId] = Field(min_length=1, max_length=_MOST_RESULTS)
    reasons: int = Field(3, ge=0, le=20, description="How many reasons for each document; 0 is fastest.")


def _one_fault(given: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Have a value of no kind told once, and not once for each kind."""
    try:
        return check(given)
    except ValidationError:
        raise ValueError("expected a text, true, false, or a finite number from -2^63 to 2^64") from None


_Value = Annotated[
    str | bool | Annotated[int, Field(ge=-(2**63), lt=2**64)] | Annotated[float, Field(allow_inf_nan=False)],
    WrapValidator(_one_fault),
]


class NewDocument(Posted):
    """A document to be indexed."""

    model_config = example(id="MED-10", text="Avocados and eye health\nLutein …", stored_fields={"year": 2011})
    id: str = DOC_ID
    text: str
    stored_fields: dict[str, _Value] = Field(default_factory=dict, description="Stored fields, by column.")


class NewDocuments(Posted):
    """Documents to be indexed, all of them or, where one cannot be, none."""

    model_config = example(
        documents=[{"id": "MED-10", "text": "Avocados and eye health", "stored_fields": {"year": 2011}}]
    )
    documents: list[NewDocument] = Field(min_length=1, max_length=_DOCUMENTS_AT_ONCE)
    replace: bool = Field(False, description="Take the place of documents with the same ids; else these are refused.")
