"""Links between documents, whatever they are written as: a source and a target on each row, or a list of targets."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from tercet.data.documents import id_in, ids_in
from tercet.data.frames import as_table, key_id, plain_shown
from tercet.data.judgements import UNKNOWN_ID, Columns, unknown_id
from tercet.data.lines import FilePath, LookAlikes, Refused, id_problem, refuse
from tercet.data.roles import TARGET_LISTS, RoleGuess, find_roles, kind_of_columns, plain_name
from tercet.data.tables import DELIMITERS, DataTable, csv_records, encoding_of, is_parquet, open_table, text_lines
from tercet.data.values import Record
from tercet.errors import FormatError, InputError

LINK_FILE_ENDINGS = (
    *(f".{ending}{packed}" for ending in ("tsv", "csv", "txt", "jsonl") for packed in ("", ".gz")),
    ".parquet",
)
NO_LINKS = "the file holds no links between two documents"
_COMMENT = "#"  # how lists of edges begin that graph collections publish


class PlacedLink(NamedTuple):
    """A link, and what makes an error of a message about it."""

    source: str
    target: str
    error: Any


@dataclass(frozen=True)
class ReadLinks:
    """Links of a file.

    Attributes
    ----------
    links : ``{source: [target, …]}``, each once, in the order they came
    n_own : links of documents to themselves, which are left out
    n_unknown : links that name documents there are not, where these may be left out
    form : what was read and what columns were taken for

    Examples
    --------
    >>> ReadLinks({"a": ["b", "c"]}, n_own=0, n_unknown=0, form="CSV").links["a"]
    ['b', 'c']
    """

    links: dict[str, list[str]]
    n_own: int
    n_unknown: int
    form: str

    @property
    def n_links(self) -> int:
        """How many are kept."""
        return sum(map(len, self.links.values()))


# -- files ------------------------------------------------------------------------------------------------------------


class EdgeList(DataTable):
    """A text file with two ids on each line, whose first line need not name columns; those behind # are comments.

    The ids are separated by a tab, another delimiter of tables, or blanks, as they are on the first line.
    """

    columns = ("source", "target")
    is_typed = False

    def __init__(self, path: FilePath, encoding: str, delimiter: str | None) -> None:
        self.name = str(path)
        self._encoding, self._delimiter = encoding, delimiter
        self.form = f"two ids a line, separated by {DELIMITERS[delimiter] if delimiter else 'blanks'}"

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        lines = _link_lines(self.name, self._encoding, refused)
        cells_of: Iterable[tuple[int, list[str]]] = ((number, text.split()) for number, text in lines)
        if self._delimiter is not None:
            cells_of = csv_records(lines, self.name, self._delimiter, refused)
        is_first = True
        for number, cells in cells_of:
            is_header, is_first = is_first and kind_of_columns(cells) == "links", False
            if is_header:
                continue
            if len(cells) == 2:
                yield number, {name: cell.strip() or None for name, cell in zip(self.columns, cells, strict=True)}
                continue
            found = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            refuse(self.error(number, f"{found}; two ids are needed, {self.form.partition(', ')[2]}"), refused)


def _link_lines(path: FilePath, encoding: str, refused: Refused | None = None) -> Iterator[tuple[int, str]]:
    lines = text_lines(path, encoding, refused)
    return ((number, text) for number, text in lines if text.strip() and not text.startswith(_COMMENT))


def open_links(
    path: FilePath, columns: Columns | None = None, encoding: str | None = None, delimiter: str | None = None
) -> DataTable:
    """The table of links at a path; a text of two ids a line is one, too."""
    if not is_parquet(path) and not {"source", "target"} & set(columns or ()):
        encoding = encoding_of(path, encoding)
        with closing(text_lines(path, encoding)) as lines:
            begins = next((text for _, text in lines if text.strip()), "")
        _, first = next(_link_lines(path, encoding), (0, ""))
        mark, cells = _pair_in(first, delimiter)
        if cells and (begins.startswith(_COMMENT) or kind_of_columns(cells) != "links"):
            return EdgeList(path, encoding, mark)
    return open_table(path, encoding=encoding, delimiter=delimiter)


def _pair_in(text: str, delimiter: str | None) -> tuple[str | None, list[str]]:
    """What separates the two ids of a line, and they; nothing where it has not two."""
    if text.lstrip().startswith(("{", "[")):
        return None, []
    marks = (delimiter,) if delimiter else ("\t", *(mark for mark in DELIMITERS if mark != "\t"))
    for mark in marks:
        if mark in text:
            cells = text.split(mark)
            return mark, [cell.strip() for cell in cells] if len(cells) == 2 and all(map(str.strip, cells)) else []
    cells = text.split()
    return None, cells if len(cells) == 2 and not delimiter else []


def link_roles(table: DataTable, columns: Columns | None = None) -> RoleGuess:
    """Columns of source and target: those that are given, the others guessed."""
    roles = find_roles(table, "links", columns)
    if roles["source"] == roles["target"]:
        message = f"source and target are both the column {roles['source']!r}; a link has two ends"
        raise table.error(0, message, "columns")
    return roles


def link_rows(
    table: DataTable, roles: RoleGuess, refused: Refused | None = None, may_be_lists: bool = True
) -> Iterator[PlacedLink]:
    """The links of a table, each right by itself; a guessed column of lists has many targets in a cell."""
    source_column, target_column = roles["source"], roles["target"]
    has_lists = may_be_lists and plain_name(target_column) in TARGET_LISTS
    table.lists_as_json = True
    for number, row in table.rows(refused):
        try:
            source = id_in(row.get(source_column), table, number, source_column)
            cell = row.get(target_column)
            if has_lists or (table.is_typed and isinstance(cell, str) and cell.startswith("[")):
                targets = ids_in(cell, table, number, target_column)
            else:
                targets = (id_in(cell, table, number, target_column),)
        except FormatError as problem:
            refuse(problem, refused)
        else:
            error = partial(table.error, number)
            yield from (PlacedLink(source, target, error) for target in targets)


def read_links(
    path: FilePath,
    docs: Container[str] | None = None,
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    skip_unknown: bool = False,
    encoding: str | None = None,
    delimiter: str | None = None,
) -> ReadLinks:
    r"""Read links from a table with a source and a target on each row, or with a list of targets.

    Parameters
    ----------
    path : CSV, TSV, JSONL, each gzipped or not, or Parquet. A text of two ids a line needs no header; lines that begin
        with # are passed over in it
    docs : if given, the ids there are; any other is an error
    columns : role -> column, for the roles source and target; others are guessed
    refused : takes what is wrong with a row, which is then left out
    skip_unknown : leave out links that name a document there is not, and count them
    encoding, delimiter : of a table, as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "links.csv")
    ...     _ = file.write_text("Source,Target\n007,1e5\n007,8\n")
    ...     read_links(file).links
    {'007': ['1e5', '8']}
    """
    table = open_links(path, columns, encoding, delimiter)
    roles = link_roles(table, columns)
    rows = link_rows(table, roles, refused, "target" not in (columns or {}))
    if isinstance(table, EdgeList):
        rows, form = _with_advice(rows), table.form
    else:
        form = f"{table.form}; {roles}"
    return _gathered(rows, table.name, docs, refused, skip_unknown, form)


def _with_advice(rows: Iterator[PlacedLink]) -> Iterator[PlacedLink]:
    """The same, where an error in the first row says that it may be a header."""
    first = next(rows, None)
    if first is None:
        return
    source, target, error = first

    def or_header(message: str, kind: str = "format") -> FormatError:
        problem: FormatError = error(message, kind)
        advice = "if this line names the columns, call them source and target"
        return FormatError(problem.path, problem.line, f"{problem.message}; {advice}", problem.kind)

    yield from chain([PlacedLink(source, target, or_header)], rows)


def _gathered(
    rows: Iterable[PlacedLink],
    name: str,
    docs: Container[str] | None,
    refused: Refused | None,
    skip_unknown: bool,
    form: str,
) -> ReadLinks:
    like = LookAlikes(docs if isinstance(docs, Iterable) else ())
    links: dict[str, dict[str, None]] = {}
    n_own = n_unknown = 0
    strange: FormatError | None = None
    for row in rows:
        unknown = None if docs is None else next((one for one in row[:2] if one not in docs), None)
        if unknown is not None:
            problem = row.error(unknown_id("document", unknown) + like.hint(unknown), UNKNOWN_ID)
            if skip_unknown:
                strange, n_unknown = strange or problem, n_unknown + 1
            else:
                refuse(problem, refused)
        elif row.source == row.target:
            n_own += 1
        else:
            links.setdefault(row.source, {})[row.target] = None
    if not links and strange is not None:
        message = f"{strange.message}; no link is between documents: are these the documents that link?"
        raise FormatError(strange.path, strange.line, message, UNKNOWN_ID)
    if not links:
        raise FormatError(name, None, NO_LINKS)
    return ReadLinks({source: list(targets) for source, targets in links.items()}, n_own, n_unknown, form)


# -- in memory --------------------------------------------------------------------------------------------------------


def as_links(links: Any, docs: Container[str], name: str = "links") -> dict[str, list[str]]:
    """Links by source: a mapping of ids to ids, pairs, records or a frame with a source and a target.

    Examples
    --------
    >>> as_links([(1, 2), (1, 3)], {"1", "2", "3"})
    {'1': ['2', '3']}
    >>> as_links([{"source": "a", "target": "b"}], {"a", "b"})
    {'a': ['b']}
    """
    gathered: dict[str, list[str]] = {}
    for source, target, position in _links_in(links, name):
        for one in (source, target):
            if one not in docs:
                hint = LookAlikes(docs if isinstance(docs, Iterable) else ()).hint(one)
                raise InputError(f"{position}: {unknown_id('document', one)}{hint}")
        gathered.setdefault(source, []).append(target)
    return gathered


def _links_in(links: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """Source and target of each link, and where it is."""
    wanted = "a mapping, id -> ids it links to, pairs (source, target), records or a frame"
    if isinstance(links, Mapping):
        for key, targets in links.items():
            source = key_id(key, name)
            if isinstance(targets, str | bytes | Mapping) or not isinstance(targets, Iterable):
                raise InputError(f"{name} of {source!r} must be a list of ids; got {plain_shown(targets)}")
            for target in targets:
                yield source, key_id(target, f"{name} of {source!r}"), f"{name} of {source!r}"
        return
    if isinstance(links, str | bytes):
        raise InputError(f"{name} must be {wanted}; got the string {links[:60]!r}: read_links reads a file")
    if isinstance(links, Iterator):
        links = list(links)
    table = as_table(links, name)
    if isinstance(table, DataTable):
        for source, target, error in link_rows(table, link_roles(table)):
            yield source, target, error("").path
        return
    if not isinstance(links, Iterable):
        raise InputError(f"{name} must be {wanted}; got {type(links).__name__}")
    for number, pair in enumerate(links):
        position = f"{name}[{number}]"
        ends = pair.tolist() if hasattr(pair, "tolist") else pair
        if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
            raise InputError(f"{position} must be two ids, those of source and target; got {plain_shown(pair)}")
        source, target = (key_id(end, position) for end in ends)
        for end in (source, target):
            if (problem := id_problem(end)) is not None:
                raise InputError(f"{position}: an id {problem}")
        yield source, target, position
