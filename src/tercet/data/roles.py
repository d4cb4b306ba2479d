"""Roles of a table's columns: one description of every kind of table, and guesses from the columns' names.

`TABLE_ROLES` has the roles of each kind, `kind_of_columns` guesses the kind, `guess_roles` the column of each role.
`find_roles` does the same for a reader, and asks for all missing columns in one error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from tercet._validate import did_you_mean
from tercet.data.lines import FilePath
from tercet.data.tables import DataTable, open_table
from tercet.errors import FormatError

Names: TypeAlias = tuple[tuple[str, ...], ...]  # tiers of names, the surest tier first
CellType: TypeAlias = Literal[
    "id", "ids", "text", "texts", "grade", "weight", "count", "position", "truth", "time", "word"
]
Given: TypeAlias = Mapping[str, str | Sequence[str]]  # role -> column, or columns of texts


@dataclass(frozen=True)
class Role:
    """Purpose of a column of a table.

    Attributes
    ----------
    name : name of the role, for users
    meaning : content of the column, for a question
    type : type of the cells; ``"texts"`` may be several columns
    names : names of columns with this role, the surest tier first
    required : True if a table needs the column
    """

    name: str
    meaning: str
    type: CellType
    names: Names
    required: bool = True

    @property
    def usual_column(self) -> str:
        """Name of a column that surely has the role."""
        return self.name if any(self.name in tier for tier in self.names) else self.names[0][0]

    def columns_in(self, plain: Mapping[str, str]) -> tuple[str, ...]:
        """Return the columns of the surest tier; for texts, the columns of all tiers. ``plain`` is column -> plain
        name.
        """
        columns: list[str] = []
        for tier in self.names:
            of_tier = [column for column, name in plain.items() if name in tier]
            if len(of_tier) > 1 and self.type != "texts":
                of_tier = [column for column in of_tier if column in tier] or of_tier
            columns += of_tier
            if columns and self.type != "texts":
                break
        return tuple(columns)


_IDS: Names = (
    ("id", "_id"),
    (
        *("doc_id", "docid", "document_id", "docno", "corpus_id", "product_id", "productid", "item_id", "article_id"),
        *("page_id", "post_id", "object_id", "listing_id", "movie_id", "book_id", "recipe_id", "job_id"),
    ),
    ("sku", "asin", "isbn", "ean", "gtin", "uuid", "guid", "identifier", "key", "code", "product_code", "item_code"),
    ("package", "handle", "slug", "url", "uri", "path", "filename"),
)
TITLES = (
    *("title", "name", "headline", "heading", "subject", "product_title", "product_name", "item_name", "doc_title"),
    *("display_name", "full_name"),
)
_BODIES = (
    *("text", "body", "description", "content", "contents", "abstract", "summary", "document", "passage", "article"),
    *("product_description", "long_description", "short_description", "item_description", "full_text", "body_text"),
    *("doc_text", "details", "overview", "caption", "message", "question", "answer", "synopsis", "plot"),
)
QUERY_ID_NAMES = ("query_id", "qid", "queryid", "topic", "topic_id")
_QUERIES: Names = (
    ("query", "query_text", "search_term", "search_query", "search_text", "user_query", "keyword", "keywords"),
    ("q", "query_string", "term", "search", "question", "anchor"),
)
# Names of a document that answers the query of its row, as in tables of (anchor, positive) or (question, answer).
ANSWER_NAMES = ("positive", "positive_id", "positive_doc_id", "answer", "answer_id")
# Names of ids in tables other than tables of documents.
_DOCUMENTS: Names = (("doc", "document", "product", "item"), *_IDS[1:3], _IDS[0], _IDS[3])
_TARGET_IDS: Names = (
    ("target_id", "to_id", "dst_id", "target_doc_id", "to_doc_id", "to_node_id", "cited_id", "_end_id"),
    ("target", "to", "dst", "dest", "destination", "cited", "target_url", "to_url", "linked"),
)
TARGET_LISTS = ("links", "links_to", "targets", "outlinks", "out_links", "references", "citations", "cites", "see_also")
_SOURCE_IDS: Names = (
    ("source_id", "from_id", "src_id", "source_doc_id", "from_doc_id", "from_node_id", "citing_id", "_start_id"),
    ("source", "from", "src", "citing", "source_url", "from_url", "referrer", "linking"),
)
_CLICK_NAMES: Names = (
    ("clicked", "is_clicked", "was_clicked", "click", "clicks", "clicked_ids", "is_click", "n_clicks"),
)
_LIST_NAMES = ("list", "list_id", "impression_id", "search_id", "request_id", "serp_id", "search_request_id")
_HITS: Names = (("query_response_hit_ids", "query_response_object_ids", "hit_ids"),)

_ID = Role("id", "the id", "id", _IDS)
_TEXT = Role("text", "the texts", "texts", (TITLES, _BODIES))
_QUERY = Role("query", "the query", "text", (*_QUERIES, QUERY_ID_NAMES))
_QUERY_ID = Role("query-id", "the id of the query", "id", (QUERY_ID_NAMES,), required=False)
_DOC = Role("doc", "the document", "id", _DOCUMENTS)
_GRADE = Role(
    "grade",
    "the grade",
    "grade",
    (
        ("grade", "rating", "relevance", "judgement", "judgment", "relevance_grade", "relevance_score"),
        ("rel", "label", "score", "gain", "stars"),
    ),
)
_BETTER = Role(
    "better",
    "the better document",
    "id",
    (
        ("better", "better_id", "better_doc", "better_doc_id", "winner", "preferred", "chosen"),
        (*ANSWER_NAMES, "pos", "pos_id", "above"),
    ),
)
_WORSE = Role(
    "worse",
    "the worse document",
    "id",
    (
        ("worse", "worse_id", "worse_doc", "worse_doc_id", "loser", "rejected"),
        ("negative", "neg", "negative_id", "neg_id", "negative_doc_id", "below"),
    ),
)
_WEIGHT = Role("weight", "the weight", "weight", (("weight", "weights", "sample_weight"),), required=False)
_SOURCE = Role("source", "the source", "id", (*_SOURCE_IDS, *_DOCUMENTS))
_TARGET = Role("target", "the target", "ids", (*_TARGET_IDS, TARGET_LISTS))
_SHOWN = Role(
    "shown",
    "the documents shown",
    "ids",
    (("shown", "shown_ids", "results", "result_ids", "impressions", "shown_docs", "displayed", "hit_ids"),),
)
_CLICKED = Role("clicked", "the clicks", "truth", _CLICK_NAMES)
_ACTION = Role("action", "the action", "word", (("action", "action_name", "event", "event_type", "event_name"),))
_POSITION = Role(
    "position",
    "the position",
    "position",
    (("position", "rank", "pos", "ordinal", "slot", "result_position", "result_rank", "place"),),
    required=False,
)
_LIST = Role("list", "the search", "id", ((*_LIST_NAMES, "page_view_id"),), required=False)
_SESSION = Role(
    "session",
    "the session",
    "id",
    (("session", "session_id", "visit_id", "visit", "sid"), ("user_id", "client_id", "visitor_id", "user")),
    required=False,
)
_RANDOMIZED = Role(
    "randomized",
    "the lists in random order",
    "truth",
    (("randomized", "randomised", "is_randomized", "is_randomised", "shuffled", "is_random", "is_shuffled"),),
    required=False,
)
_TIME = Role(
    "time",
    "the time",
    "time",
    (
        ("time", "timestamp", "_timestamp", "ts", "datetime", "event_time", "created_at", "occurred_at"),
        ("event_timestamp", "date", "day"),
    ),
    required=False,
)
_SEEN = (_SESSION, _RANDOMIZED, _TIME)

TABLE_ROLES: Mapping[str, tuple[Role, ...]] = {
    "documents": (_ID, _TEXT),
    "queries": (
        Role(
            "query",
            "the text of the query",
            "text",
            (("text", "query", "query_text", "search_term", "search_query"), ("title", "question", "q")),
        ),
        Role(
            "query-id",
            "the id of the query",
            "id",
            (("id", "_id", "query_id", "qid", "queryid"), ("topic", "topic_id", "number")),
            required=False,
        ),
    ),
    "judgements": (_QUERY, _QUERY_ID, Role("doc", "the document", "id", (*_DOCUMENTS, ANSWER_NAMES)), _GRADE),
    "answers": (_QUERY, _QUERY_ID, Role("doc", "the answer", "id", (ANSWER_NAMES,))),  # each is relevant
    "triplets": (_QUERY, _BETTER, _WORSE, _WEIGHT),
    "links": (_SOURCE, _TARGET),
    # A click log has a row for each list, each document shown, or each event; UBI has events and searches.
    "lists": (_QUERY, _SHOWN, Role("clicked", "the clicks", "ids", _CLICK_NAMES), *_SEEN),
    "shown": (_QUERY, _DOC, _CLICKED, _POSITION, _LIST, *_SEEN),
    "events": (
        _ACTION,
        Role("query", "the query", "text", _QUERIES),
        Role("doc", "the document", "id", _DOCUMENTS, required=False),
        _POSITION,
        Role("list", "the search", "id", (_LIST.names[0], ("query_id",)), required=False),
        *_SEEN,
    ),
    "ubi-events": (
        _ACTION,
        Role("doc", "the document", "id", _DOCUMENTS, required=False),
        _POSITION,
        Role("list", "the id of the search", "id", (_LIST.names[0], ("query_id",))),
        *_SEEN,
    ),
    "searches": (
        Role("list", "the id of the search", "id", (("query_id",), _LIST.names[0])),
        Role("query", "the query", "text", _QUERIES),
        Role("shown", "the documents shown", "ids", _HITS, required=False),
        *_SEEN,
    ),
    "click-counts": (
        _QUERY,
        _DOC,
        Role("shown", "the times shown", "count", (("shown", "n_shown", "impressions", "views"),)),
        Role("clicked", "the clicks", "count", (("clicked", "clicks", "n_clicks", "n_clicked"),)),
        Role("expected", "the expected clicks", "count", (("expected", "expected_clicks"),)),
    ),
}


@lru_cache(maxsize=1024)  # every row repeats the column names of its table
def plain_name(name: str) -> str:
    """A column's name without regard to case and punctuation."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip().removeprefix("_source."))
    return re.sub(r"[\W_]+", "_", snake).rstrip("_").lower()


class ColumnsError(FormatError):
    """Columns of a table are missing or unclear; `guess` has the known columns and the missing roles."""

    def __init__(self, name: str, problem: str, guess: RoleGuess) -> None:
        super().__init__(name, None, problem, "columns")
        self.guess = guess


@dataclass(frozen=True)
class RoleGuess:
    """Columns of the roles of a table, and missing or unclear roles.

    Attributes
    ----------
    kind : kind of the table, as in `TABLE_ROLES`
    table_columns : all columns of the table
    columns : role -> its column, or columns of texts
    missing : required roles without a column
    unclear : role -> columns with equally sure names
    absent : given columns missing in the table
    """

    kind: str
    table_columns: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    missing: tuple[Role, ...] = ()
    unclear: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, role: str) -> str:
        """Return the column of a role."""
        return self.columns[role][0]

    def get(self, role: str) -> str | None:
        """The column of a role, or None."""
        return self.columns.get(role, (None,))[0]

    @property
    def wanted(self) -> tuple[str, ...]:
        """Roles for the user to name columns for."""
        names = (*(role for role, _ in self.absent), *self.unclear, *(role.name for role in self.missing))
        return tuple(dict.fromkeys(names))

    def __str__(self) -> str:
        return "; ".join(f"{role}: {', '.join(columns)}" for role, columns in self.columns.items())

    def problem(self) -> str | None:
        """Ask for every column that is missing or unclear, or return None."""
        sentences = [
            f"There is no column {name!r} for {role}{did_you_mean(name, self.table_columns)}"
            for role, name in self.absent
        ]
        for role, columns in self.unclear.items():
            sentences.append(f"{_listed([repr(column) for column in columns])} could each be the {role}")
        sentences = [f"{'; '.join(sentences)}."] if sentences else []
        if self.missing:
            nouns = _listed([role.meaning for role in self.missing])
            sentences.append(f"Which {'columns hold' if len(self.missing) > 1 else 'column holds'} {nouns}?")
        if not sentences:
            return None
        usual = [repr(role.usual_column) for role in TABLE_ROLES[self.kind] if role.name in self.wanted]
        them = "the columns, or rename them" if len(usual) > 1 else "the column, or rename it"
        sentences.append(f"Name {them} to {_listed(usual)}.")
        return f"{' '.join(sentences)} The columns are {', '.join(self.table_columns)}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def guess_roles(columns: Iterable[str], kind: str, given: Given | None = None) -> RoleGuess:
    """Guess the column of each role from the names of the columns, except for ``given`` roles.

    Of two equally sure names, an optional role takes the first; a required role is unclear. A column has one role.

    Examples
    --------
    >>> guess = guess_roles(["sku", "name", "price"], "documents")
    >>> guess["id"], guess.columns["text"], guess.problem()
    ('sku', ('name',), None)
    """
    names = tuple(columns)
    roles = TABLE_ROLES[kind]
    given_names = {role.name: _named(given, role.name) for role in roles}
    taken = {name for named in given_names.values() for name in named}
    columns_of_roles: dict[str, tuple[str, ...]] = {}
    missing: list[Role] = []
    unclear: dict[str, tuple[str, ...]] = {}
    for role in roles:
        matches = given_names[role.name]
        if not matches:
            matches = role.columns_in({name: plain_name(name) for name in names if name not in taken})
            if len(matches) > 1 and role.type != "texts":
                if role.required:
                    unclear[role.name] = matches
                    continue
                matches = matches[:1]
        if matches:
            columns_of_roles[role.name] = matches
            taken.update(matches)
        elif role.required:
            missing.append(role)
    absent = tuple((role, name) for role, named in given_names.items() for name in named if name not in names)
    return RoleGuess(kind, names, columns_of_roles, tuple(missing), unclear, absent)


def _named(given: Given | None, role: str) -> tuple[str, ...]:
    named = (given or {}).get(role, ())
    return (named,) if isinstance(named, str) else tuple(dict.fromkeys(named))


def find_roles(table: DataTable, kind: str, given: Given | None = None) -> RoleGuess:
    """Return the columns of a table's roles; one error asks for all missing or unclear columns."""
    guess = guess_roles(table.columns, kind, given)
    problem = guess.problem()
    if problem is not None:
        raise table.first_problem or ColumnsError(table.name, problem, guess)
    return guess


@dataclass(frozen=True)
class TableSettings:
    """Settings of a table; the rest is guessed.

    Attributes
    ----------
    id, text : of documents, the column of ids and the columns of texts
    columns : of judgements and triplets, role -> column
    encoding : as in `iter_rows`
    """

    id: str | None = None
    text: tuple[str, ...] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None

    def __bool__(self) -> bool:
        """Return True for any setting."""
        return self != TableSettings()

    def open(self, path: FilePath) -> DataTable:
        """The table at a path."""
        return open_table(path, encoding=self.encoding)


@dataclass(frozen=True)
class DocumentRoles:
    """Roles of the columns of a table of documents.

    Attributes
    ----------
    id : the column of ids
    text : the searched columns, the title first
    stored_fields : the other columns
    left_out : columns to drop
    may_be_empty : True for BEIR, where a document may have no text
    """

    id: str
    text: tuple[str, ...]
    stored_fields: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    may_be_empty: bool = False

    def __str__(self) -> str:
        stored_fields = f"; stored: {', '.join(self.stored_fields)}" if self.stored_fields else ""
        return f"id: {self.id}; text: {', '.join(self.text)}{stored_fields}"


_BEIR = ("_id", "text")  # keys of every BEIR document


def document_roles(table: DataTable, id: str | None = None, text: str | Iterable[str] | None = None) -> DocumentRoles:
    """Return the roles of the columns of a table of documents, given or guessed.

    All columns with the name of a title or a body of text are searched; of BEIR's corpus, title and text alone.
    """
    if id is None and text is None and set(_BEIR) <= set(table.columns):
        texts = tuple(name for name in ("title", "text") if name in table.columns)
        stored_columns = tuple(name for name in table.columns if name not in (*_BEIR, "title"))
        return DocumentRoles("_id", texts, stored_columns, may_be_empty=True)
    given_columns: dict[str, str | Sequence[str]] = {} if id is None else {"id": id}
    if text is not None:
        given_columns["text"] = text if isinstance(text, str) else tuple(text)
    roles = find_roles(table, "documents", given_columns)
    used = (roles["id"], *roles.columns["text"])
    return DocumentRoles(roles["id"], roles.columns["text"], tuple(name for name in table.columns if name not in used))


# Names that no table of documents has.
_SURE_QUERIES = (*_QUERIES[0][:6], *QUERY_ID_NAMES)


def kind_of_columns(columns: Iterable[str]) -> str | None:
    """Guess the content of a table: documents, judgements, triplets, click-log, click-counts, links, or None.

    Examples
    --------
    >>> kind_of_columns(["sku", "name", "rating"]), kind_of_columns(["query", "sku", "rating"])
    ('documents', 'judgements')
    >>> kind_of_columns(["anchor", "positive", "negative"]), kind_of_columns(["question", "answer"])
    ('triplets', 'judgements')
    """
    names = {plain_name(column) for column in columns}

    def has(tiers: Iterable[Iterable[str]]) -> bool:
        return any(name in names for tier in tiers for name in tier)

    if not has(_BETTER.names):
        names.discard("anchor")  # the text of a link
    has_ids, has_answers = has(_IDS), has((ANSWER_NAMES,))
    has_texts = has(_TEXT.names) and not ({"question", "answer"} <= names and not has_ids)
    has_queries = has((_SURE_QUERIES,)) or (has(_QUERIES) and not has_texts)
    if has(_QUERY.names) and has(_BETTER.names) and has(_WORSE.names):
        return "triplets"
    if has_queries and guess_roles(names, "click-counts").problem() is None:
        return "click-counts"
    if has_queries and has(_CLICK_NAMES) and (has(_DOCUMENTS) or has(_SHOWN.names)):
        return "click-log"
    if has_queries and (has(_DOCUMENTS) or has_answers) and has(_GRADE.names):
        return "judgements"
    if has_queries and has(_DOCUMENTS) and has(_ACTION.names):  # events
        return "click-log"
    if has_ids and has_texts:  # a document may have a source, or a list of links
        return "documents"
    if has_queries and has_answers:
        return "judgements"
    is_linked = (has(_SOURCE_IDS) and has(_TARGET_IDS)) or (has(_SOURCE.names) and has((TARGET_LISTS,)))
    return "links" if is_linked and not has_queries else None


def kind_of_click_log(columns: Iterable[str], given: Given | None = None) -> str:
    """Return ``"lists"``, ``"shown"`` or ``"events"``, the kind of the rows of a click log."""
    names = tuple(columns)
    lists = guess_roles(names, "lists", given)
    roles_of_lists = lists.columns.keys() | lists.unclear.keys()
    if "shown" in roles_of_lists:
        return "lists"
    has_actions = "action" in guess_roles(names, "events", given).columns
    return "events" if has_actions and "clicked" not in roles_of_lists else "shown"
