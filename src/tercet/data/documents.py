"""Documents: searched texts by id, with stored fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import Any

from tercet.data.batches import BadCell, Column, Conversion, collector_paused, converted_columns
from tercet.data.cells import id_in
from tercet.data.frames import as_table
from tercet.data.lines import FilePath, Refused, refuse
from tercet.data.local_formats import NUMBERS, ColumnFormat, typed_column
from tercet.data.roles import ColumnsError, DocumentRoles, document_roles
from tercet.data.tables import NO_ROWS, BadRows, CsvTable, DataTable, open_table
from tercet.data.values import GatheredColumns, Record, Value, compact_column
from tercet.errors import FormatError, InputError


class Documents(Mapping[str, str]):
    """Texts by id, as a mapping, made of columns; unsearched columns are stored fields.

    Attributes
    ----------
    text_columns : the columns of the text, the title first
    columns : all columns but the id, with a value for each document, in order
    formats : stored column of CSV with converted texts -> its local format, such as decimal commas

    Examples
    --------
    >>> docs = Documents(["007"], {"title": ["Tea"], "text": ["A green one."], "price": [1.5]}, ("title", "text"))
    >>> docs["007"], docs.stored_fields("007")
    ('Tea\\nA green one.', {'price': 1.5})
    """

    def __init__(
        self,
        ids: Iterable[str],
        columns: Mapping[str, Sequence[Value]],
        text_columns: Sequence[str] = ("text",),
        formats: Mapping[str, str] | None = None,
    ) -> None:
        self._row_of = {doc_id: row for row, doc_id in enumerate(ids)}
        self.columns: Mapping[str, Sequence[Value]] = MappingProxyType(dict(columns))
        self.text_columns = tuple(text_columns)
        self._texts = [self.columns[name] for name in self.text_columns]
        self.formats = dict(formats or {})

    def __getitem__(self, doc_id: str) -> str:
        row = self._row_of[doc_id]
        return joined_text(column[row] for column in self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, doc_id: object) -> bool:
        return doc_id in self._row_of

    def record(self, doc_id: str) -> Record:
        """All values of a document but its id, by column."""
        row = self._row_of[doc_id]
        return {name: column[row] for name, column in self.columns.items()}

    def stored_fields(self, doc_id: str) -> Record:
        """Return the unsearched values of a document, by column."""
        return {name: value for name, value in self.record(doc_id).items() if name not in self.text_columns}

    def part(self, doc_ids: Sequence[str]) -> Documents:
        """Select documents, in the order of the ids."""
        rows = [self._row_of[doc_id] for doc_id in doc_ids]
        columns = {name: [column[row] for row in rows] for name, column in self.columns.items()}
        return Documents(doc_ids, columns, self.text_columns)

    def __repr__(self) -> str:
        stored_fields = [name for name in self.columns if name not in self.text_columns]
        listed = f"; stored: {', '.join(stored_fields)}" if stored_fields else ""
        return f"Documents({len(self):,}; text: {', '.join(self.text_columns)}{listed})"


def joined_text(values: Iterable[Value]) -> str:
    """Join the text columns of a document by line breaks."""
    texts = [value if isinstance(value, str) else str(value) for value in values if value is not None and value != ""]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(text for text in texts if text.strip())


def as_documents(docs: Any, *, id: str | None = None, text: str | Iterable[str] | None = None) -> Documents:
    """Return documents of a mapping, a list or a frame.

    Parameters
    ----------
    docs : `Documents`, a mapping of ids to texts or to records (mappings of columns to values), a list of records or
        of texts (ids are positions), or a frame of pandas, polars, Arrow or another library of narwhals
    id, text : the column of ids and the columns of texts; None guesses them from the names of the columns

    Returns
    -------
    Documents, in the same order. Ids are strings; whole numbers become strings. The error for a missing id, a
    repeated id or an empty text names the row.

    Examples
    --------
    >>> as_documents([{"sku": "007", "name": "Tea", "price": 1.5}])
    Documents(1; text: name; stored: price)
    >>> as_documents(["green tea", "black tea"])["1"]
    'black tea'
    """
    if isinstance(docs, Documents):
        return docs
    if isinstance(docs, str | bytes):
        raise InputError(f"docs must be documents by id; got the string {docs[:60]!r}: read_table reads a file")
    if isinstance(docs, Sequence) and docs and all(isinstance(doc, str) for doc in docs):
        docs = {str(position): doc for position, doc in enumerate(docs)}
    table = as_table(docs, "docs")
    if isinstance(table, dict):
        if id is not None or text is not None:
            raise InputError("docs are texts by id, without columns; leave out id and text")
        return Documents(table, {"text": list(table.values())})
    if table is None:
        expected = "a mapping of ids to texts or records, a list of records or of texts, or a frame"
        raise InputError(f"docs must be {expected}; got {type(docs).__name__}")
    if isinstance(docs, Mapping):
        id = id or table.columns[0]
    try:
        roles = document_roles(table, id, text)
    except ColumnsError as error:
        call = "".join(f", {role}='COLUMN'" for role in error.guess.wanted)
        raise ColumnsError(error.path, f"{error.message} (here: tc.as_documents(docs{call}))", error.guess) from error
    return gather_documents(table, roles)


def read_table(
    path: FilePath,
    id: str | None = None,
    text: str | Iterable[str] | None = None,
    skip_bad: int = 0,
    *,
    encoding: str | None = None,
) -> Documents:
    r"""Read documents from a table: CSV, TSV, JSONL, each gzipped or not, or Parquet.

    Parameters
    ----------
    path : the file
    id, text : the column of ids and the columns of texts; None guesses them from the names of the columns
    skip_bad : number of bad rows to leave out; the next bad row is an error
    encoding : of text, as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "products.csv")
    ...     _ = file.write_text("sku,name,price\n007,Green tea,1.50\n008,Black tea,2\n")
    ...     docs = read_table(file)
    >>> docs
    Documents(2; text: name; stored: price)
    >>> docs.stored_fields("007")
    {'price': 1.5}
    """
    table = open_table(path, encoding=encoding)
    return gather_documents(table, document_roles(table, id, text), BadRows(skip_bad))


def iter_corpus(path: FilePath) -> Iterator[tuple[str, str]]:
    """Yield id and text of each document of a table, such as BEIR's ``corpus.jsonl``; only ids stay in memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "corpus.jsonl")
    ...     _ = file.write_text('{"_id": "1e5", "text": "A spy."}')
    ...     list(iter_corpus(file))
    [('1e5', 'A spy.')]
    """
    table = open_table(path)
    for doc_id, text, _ in DocumentStream(table, replace(document_roles(table), stored_fields=())):
        yield doc_id, text


@collector_paused()
def gather_documents(table: DataTable, roles: DocumentRoles, refused: Refused | None = None) -> Documents:
    """Read the documents of a table into memory."""
    check = _DocumentCheck(table, roles)
    ids: list[str] = []
    formats: dict[str, str | None] = {}
    columns: dict[str, Sequence[Value]]
    if isinstance(table, CsvTable):
        cells: dict[str, list[Value]] = {name: [] for name in (*roles.text, *roles.stored_fields)}
        for doc_ids, batch in _document_columns(table, roles, refused, check):
            ids += doc_ids
            for gathered, column in zip(cells.values(), batch, strict=True):
                gathered += column
        for name in roles.stored_fields:
            cells[name], formats[name] = typed_column(cells[name])
        columns = {name: compact_column(column) for name, column in cells.items()}
    else:  # the columns of JSONL; keys that appear only in later rows come last
        rows = GatheredColumns((*roles.text, *roles.stored_fields))
        for doc_id, row in _document_rows(table, roles, refused, check):
            ids.append(doc_id)
            rows.add(row, partial(FormatError, table.name, None))
        columns = rows.finished()
    if not ids:
        raise FormatError(table.name, None, NO_ROWS)
    return Documents(ids, columns, roles.text, formats=_local_names(formats))


def _local_names(formats: Mapping[str, str | None]) -> dict[str, str]:
    """Return the local formats of columns, such as decimal commas."""
    return {column: name for column, name in formats.items() if name is not None and name != NUMBERS}


class DocumentStream:
    """Iterates over the documents of a table, as often as asked: id, text and stored fields; only ids stay in memory.

    CSV is read once more at the start, to find the formats of its columns; ``tell`` is called with the local formats.
    """

    def __init__(
        self,
        table: DataTable,
        roles: DocumentRoles,
        refused: Refused | None = None,
        tell: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        self._table, self._roles, self._refused, self._tell = table, roles, refused, tell
        self._formats: dict[str, ColumnFormat] | None = None

    def __iter__(self) -> Iterator[tuple[str, str, Record]]:
        is_empty = True
        for document in self._of_csv(self._table) if isinstance(self._table, CsvTable) else self._of_rows():
            yield document
            is_empty = False
        if is_empty:
            raise FormatError(self._table.name, None, NO_ROWS)

    def _check(self) -> _DocumentCheck:
        return _DocumentCheck(self._table, self._roles)

    def _of_rows(self) -> Iterator[tuple[str, str, Record]]:
        texts = self._roles.text
        for doc_id, row in _document_rows(self._table, self._roles, self._refused, self._check()):
            stored_fields = {name: value for name, value in row.items() if name not in texts}
            yield doc_id, joined_text(map(row.get, texts)), stored_fields

    def _of_csv(self, table: CsvTable) -> Iterator[tuple[str, str, Record]]:
        names, n_texts = self._roles.stored_fields, len(self._roles.text)
        if self._formats is None:
            self._formats = {name: ColumnFormat() for name in names}
            batches = _document_columns(table, self._roles, self._refused, self._check()) if names else ()
            for _, columns in batches:
                for name, cells in zip(names, columns[n_texts:], strict=True):
                    self._formats[name].add_column(cells)
            if self._tell is not None:
                self._tell(_local_names({name: column_format.name for name, column_format in self._formats.items()}))
        for doc_ids, columns in _document_columns(table, self._roles, self._refused, self._check()):
            stored_fields = zip(names, columns[n_texts:], strict=True)
            typed = [self._formats[name].convert_column(cells) for name, cells in stored_fields]
            rows = zip(*typed, strict=True) if typed else repeat(())
            for doc_id, *texts, values in zip(doc_ids, *columns[:n_texts], rows):  # noqa: B905
                yield doc_id, joined_text(texts), dict(zip(names, values, strict=True))


class _DocumentCheck:
    """Refuses repeated ids, and documents without text."""

    def __init__(self, table: DataTable, roles: DocumentRoles) -> None:
        self._table, self._roles = table, roles
        self._lines: dict[str, int] = {}

    def add_all(self, lines: Sequence[int], doc_ids: Sequence[str], texts: Sequence[Column]) -> bool:
        """Add many rows; False, and no row is added, if one of them is wrong."""
        if len(set(doc_ids)) < len(doc_ids) or not self._lines.keys().isdisjoint(doc_ids):
            return False
        may_lack = not self._roles.may_be_empty and all(None in column for column in texts)
        if may_lack and not all(map(any, zip(*texts, strict=True))):
            return False
        self._lines.update(zip(doc_ids, lines, strict=True))
        return True

    def add(self, line: int, doc_id: str, texts: Iterable[Value]) -> None:
        """Add a row, or raise its error."""
        if doc_id in self._lines:
            message = f"the id {doc_id!r} is already used at {self._table.position(self._lines[doc_id])}"
            raise self._table.error(line, message, "duplicate-id")
        if not self._roles.may_be_empty and all(value is None or value == "" for value in texts):
            names = self._roles.text
            empty = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} empty"
            raise self._table.error(line, f"document {doc_id!r} has no text: {empty}", "empty-text")
        self._lines[doc_id] = line


def _document_columns(
    table: CsvTable, roles: DocumentRoles, refused: Refused | None, check: _DocumentCheck
) -> Iterator[tuple[Sequence[str], list[Column]]]:
    """Yield ids, and the columns of texts and stored fields, of many valid rows at once."""
    names = (*roles.text, *roles.stored_fields)
    n_texts = len(roles.text)
    conversions = {"": Conversion((roles.id,), id_in, are_ids=True)} | {name: Conversion((name,)) for name in names}
    for lines, (doc_ids, *columns) in converted_columns(table, conversions, refused):
        if check.add_all(lines, doc_ids, columns[:n_texts]):
            yield doc_ids, columns
            continue
        for row, (line, doc_id) in enumerate(zip(lines, doc_ids, strict=True)):
            try:
                check.add(line, doc_id, [column[row] for column in columns[:n_texts]])
            except FormatError as problem:
                refuse(problem, refused)
            else:
                yield [doc_id], [[column[row]] for column in columns]


def _document_rows(
    table: DataTable, roles: DocumentRoles, refused: Refused | None, check: _DocumentCheck
) -> Iterator[tuple[str, Record]]:
    """Yield the ids of valid rows, and the rows without their ids."""
    for line, row in table.rows(refused):
        try:
            try:
                doc_id = id_in(row.pop(roles.id, None))
            except BadCell as problem:
                raise table.error(line, f"{roles.id} {problem.message}", problem.kind) from None
            check.add(line, doc_id, map(row.get, roles.text))
        except FormatError as problem:
            refuse(problem, refused)
        else:
            for name in roles.left_out:
                row.pop(name, None)
            yield doc_id, row
