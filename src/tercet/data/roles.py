"""What the columns of a table are for: given by name, or guessed from their names, and told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tercet._validate import did_you_mean
from tercet.data.lines import FilePath
from tercet.data.tables import COLUMNS_PROBLEM, DataTable, open_table
from tercet.errors import FormatError

# Names by which a role is known, the surest first; two columns of the same tier make a guess unclear.
IDS = (
    ("id", "_id"),
    (
        *("doc_id", "docid", "document_id", "docno", "corpus_id", "product_id", "productid", "item_id", "article_id"),
        *("page_id", "post_id", "object_id", "listing_id", "movie_id", "book_id", "recipe_id", "job_id"),
    ),
    ("sku", "asin", "isbn", "ean", "gtin", "uuid", "guid", "identifier", "key", "code", "product_code", "item_code"),
    ("package", "handle", "slug", "url", "uri", "path", "filename"),
)
DOCUMENTS = (("doc", "document", "product", "item"), *IDS[1:3], IDS[0], IDS[3])  # in a table of something else
TITLES = (
    *("title", "name", "headline", "heading", "subject", "product_title", "product_name", "item_name", "doc_title"),
    *("display_name", "full_name"),
)
BODIES = (
    *("text", "body", "description", "content", "contents", "abstract", "summary", "document", "passage", "article"),
    *("product_description", "long_description", "short_description", "item_description", "full_text", "body_text"),
    *("doc_text", "details", "overview", "caption", "message", "question", "answer", "synopsis", "plot"),
)
QUERIES = (
    ("query", "query_text", "search_term", "search_query", "search_text", "user_query", "keyword", "keywords"),
    ("q", "query_string", "term", "search", "question"),
    ("query_id", "qid", "queryid", "topic", "topic_id"),
)
QUERY_TEXTS = (("text", "query", "query_text", "search_term", "search_query"), ("title", "question", "q"))
QUERY_IDS = (("id", "_id", "query_id", "qid", "queryid"), ("topic", "topic_id", "number"))
GRADES = (
    ("grade", "rating", "relevance", "judgement", "judgment", "relevance_grade", "relevance_score"),
    ("rel", "label", "score", "gain", "stars"),
)
BETTER = (
    ("better", "better_id", "better_doc", "better_doc_id", "winner", "preferred", "chosen"),
    ("positive", "pos", "positive_id", "pos_id", "positive_doc_id", "above"),
)
WORSE = (
    ("worse", "worse_id", "worse_doc", "worse_doc_id", "loser", "rejected"),
    ("negative", "neg", "negative_id", "neg_id", "negative_doc_id", "below"),
)

WEIGHTS = (("weight", "weights", "sample_weight"),)
CLICKED = (("clicked", "is_clicked", "was_clicked", "click", "clicks", "clicked_ids", "is_click", "n_clicks"),)
SHOWN = (("shown", "shown_ids", "results", "result_ids", "impressions", "shown_docs", "displayed", "hit_ids"),)
HITS = (("query_response_hit_ids", "query_response_object_ids", "hit_ids"),)
POSITIONS = (("position", "rank", "pos", "ordinal", "slot", "result_position", "result_rank", "place"),)
LISTS = (
    ("list", "list_id", "impression_id", "search_id", "request_id", "serp_id", "search_request_id", "page_view_id"),
)
RANDOMISED = (("randomised", "randomized", "is_randomised", "is_randomized", "shuffled", "is_random", "is_shuffled"),)
TIMES = (
    ("time", "timestamp", "ts", "datetime", "event_time", "created_at", "occurred_at", "event_timestamp", "@timestamp"),
    ("date", "day"),
)
# Of links; ids before what may be a title, and the id of a document where its targets stand in a list.
SOURCES = (
    ("source_id", "from_id", "src_id", "source_doc_id", "from_doc_id", "from_node_id", "citing_id", "_start_id"),
    ("source", "from", "src", "citing", "source_url", "from_url", "referrer", "linking"),
    *DOCUMENTS,
)
TARGET_LISTS = ("links", "links_to", "targets", "outlinks", "out_links", "references", "citations", "cites", "see_also")
TARGETS = (
    *(
        ("target_id", "to_id", "dst_id", "target_doc_id", "to_doc_id", "to_node_id", "cited_id", "_end_id"),
        ("target", "to", "dst", "dest", "destination", "cited", "target_url", "to_url", "linked"),
    ),
    TARGET_LISTS,
)
ACTIONS = (("action", "action_name", "event", "event_type", "event_name"),)

Tiers = Sequence[Sequence[str]]


@lru_cache(maxsize=1024)  # the names of the columns of a table come again with every row
def plain_name(name: str) -> str:
    """A column's name without regard to case and punctuation.

    Examples
    --------
    >>> plain_name("Doc ID"), plain_name("productId"), plain_name("_id")
    ('doc_id', 'product_id', '_id')
    """
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\W_]+", "_", snake).rstrip("_").lower()


def find_column(table: DataTable, role: str, tiers: Tiers, given: str | None = None) -> str | None:
    """The column of a role: the one that is given, else the only one of the surest names there are, else None.

    Raises `FormatError` where the given one is not there, or several names are as sure as each other.
    """
    if given is not None:
        return given_column(table, role, given, tiers[0][0])
    names = {column: plain_name(column) for column in table.columns}
    for tier in tiers:
        columns = [column for column, name in names.items() if name in tier]
        if len(columns) > 1:
            exact = [column for column in columns if column in tier]
            if len(exact) != 1:
                both = " and ".join(map(repr, columns))
                raise column_error(table, role, f"{both} could both be the {role}", tiers[0][0])
            columns = exact
        if columns:
            return columns[0]
    return None


def need_column(table: DataTable, role: str, tiers: Tiers, given: str | None = None) -> str:
    """The same, where there must be one."""
    column = find_column(table, role, tiers, given)
    if column is None:
        raise column_error(table, role, f"no column is called as one that holds the {role}", tiers[0][0])
    return column


def given_column(table: DataTable, role: str, name: str, usual: str) -> str:
    """A column that was named, which must be there."""
    if name not in table.columns:
        raise column_error(table, role, f"there is no column {name!r}{did_you_mean(name, table.columns)}", usual)
    return name


def column_error(table: DataTable, role: str, problem: str, usual: str) -> FormatError:
    """What is wrong, the columns there are, and that one can be named, or called as it is usual."""
    if table.first_problem is not None:
        return table.first_problem
    listed = ", ".join(table.columns)
    message = f"{problem}; the columns are {listed}: name the one of the {role}, or call it {usual!r}"
    return FormatError(table.name, None, message, COLUMNS_PROBLEM)


@dataclass(frozen=True)
class TableSettings:
    """What can be said of a table beforehand, and is found or guessed otherwise.

    Attributes
    ----------
    id, text : of documents, the column of ids and those of texts
    columns : of judgements and triplets, role -> column
    encoding, delimiter : as in `iter_rows`
    """

    id: str | None = None
    text: tuple[str, ...] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    encoding: str | None = None
    delimiter: str | None = None

    def __bool__(self) -> bool:
        """Whether anything is said."""
        return self != TableSettings()

    def open(self, path: FilePath) -> DataTable:
        """The table at a path."""
        return open_table(path, encoding=self.encoding, delimiter=self.delimiter)


@dataclass(frozen=True)
class DocumentRoles:
    """What the columns of a table of documents are for.

    Attributes
    ----------
    id : the column of ids
    text : the columns that are searched, the title first
    stored_fields : the others
    """

    id: str
    text: tuple[str, ...]
    stored_fields: tuple[str, ...]

    def __str__(self) -> str:
        stored_fields = f"; stored: {', '.join(self.stored_fields)}" if self.stored_fields else ""
        return f"id: {self.id}; text: {', '.join(self.text)}{stored_fields}"


def document_roles(table: DataTable, id: str | None = None, text: str | Iterable[str] | None = None) -> DocumentRoles:
    """What the columns of a table of documents are for: those that are given, the others guessed.

    All columns with the name of a title or a body of text are searched.
    """
    id_column = need_column(table, "id", IDS, id)
    if text is not None:
        wanted = [text] if isinstance(text, str) else list(text)
        columns = tuple(dict.fromkeys(given_column(table, "text", name, "text") for name in wanted))
    else:
        others = {column: plain_name(column) for column in table.columns if column != id_column}
        titles = [column for column, name in others.items() if name in TITLES]
        columns = (*titles, *(column for column, name in others.items() if name in BODIES))
    if not columns:
        raise column_error(table, "text", "no column is called as one that holds texts", "text")
    stored_fields = tuple(column for column in table.columns if column not in (id_column, *columns))
    return DocumentRoles(id_column, columns, stored_fields)


# Names that no table of documents has.
_SURE_QUERIES = ("query", "query_text", "search_term", "search_query", "search_text", "user_query", *QUERIES[-1])


def kind_of_columns(columns: Iterable[str]) -> str | None:
    """What a table holds, by the names of its columns: documents, judgements, triplets, a click log, links, or None.

    Examples
    --------
    >>> kind_of_columns(["sku", "name", "rating"]), kind_of_columns(["query", "sku", "rating"])
    ('documents', 'judgements')
    """
    names = {plain_name(column) for column in columns}

    def has(tiers: Tiers) -> bool:
        return any(name in names for tier in tiers for name in tier)

    has_texts = has((TITLES, BODIES))
    if has(QUERIES) and has(BETTER) and has(WORSE):
        return "triplets"
    has_queries = has((_SURE_QUERIES,)) or (has(QUERIES) and not has_texts)
    if has_queries and has(CLICKED) and (has(DOCUMENTS) or has(SHOWN)):
        return "click-log"
    if has_queries and has(DOCUMENTS) and has(GRADES):
        return "judgements"
    if has_queries and has(DOCUMENTS) and has(ACTIONS):  # events
        return "click-log"
    if has(IDS) and has_texts:  # which may have a source, or carry its links
        return "documents"
    is_linked = (has(SOURCES[:2]) and has(TARGETS[:2])) or (has(SOURCES) and has((TARGET_LISTS,)))
    return "links" if is_linked and not has_queries else None
