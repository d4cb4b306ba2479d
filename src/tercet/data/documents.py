"""Documents: searched texts by id, with stored fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from tercet.data.batches import Conversion, Irregular, collector_paused, column_batches
from tercet.data.cells import id_in
from tercet.data.frames import IndexedTexts, as_table
from tercet.data.lines import FilePath, Refused, refuse
from tercet.data.local_formats import NUMBERS, ColumnFormat, column_formats, typed_column, typed_row
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
    """Return documents of a mapping, a list, a frame or a Series.

    Parameters
    ----------
    docs : `Documents`, a mapping of ids to texts or to records (mappings of columns to values), a list of records or
        of texts (ids are positions), a frame of pandas, polars, Arrow or another library of narwhals, or a Series of
        texts with ids as its index
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
    if isinstance(table, IndexedTexts):
        if id is not None or text is not None:
            raise InputError("docs are texts by id, without columns; leave out id and text")
        return Documents(table.ids, {"text": table.texts})
    if table is None:
        wanted = "a mapping of ids to texts or records, a list of records or of texts, or a frame"
        raise InputError(f"docs must be {wanted}; got {type(docs).__name__}")
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
    delimiter: str | None = None,
) -> Documents:
    r"""Read documents from a table: CSV, TSV, JSONL, each gzipped or not, or Parquet.

    Parameters
    ----------
    path : the file
    id, text : the column of ids and the columns of texts; None guesses them from the names of the columns
    skip_bad : number of bad rows to leave out; the next bad row is an error
    encoding, delimiter : of text, as in `iter_rows`

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
    table = open_table(path, encoding=encoding, delimiter=delimiter)
    return gather_documents(table, document_roles(table, id, text), BadRows(skip_bad))


def gather_documents(table: DataTable, roles: DocumentRoles, refused: Refused | None = None) -> Documents:
    """The documents of a table, in memory."""
    if isinstance(table, CsvTable):
        with (
            suppress(Irregular, FormatError),
            collector_paused(),
        ):  # the row reader says what is wrong, or leaves rows out
            return _regular_documents(table, roles)
    ids: list[str] = []
    rows: list[Record] = []
    gathered = GatheredColumns((*roles.text, *roles.stored_fields))  # keys that only later rows of JSONL have come last
    for _, doc_id, row in document_rows(table, roles, refused):
        ids.append(doc_id)
        row.pop(roles.id, None)
        if table.is_typed:
            gathered.add(row, partial(FormatError, table.name, None))
        else:
            rows.append(row)  # columns of CSV are converted when all texts are known
    if not ids:
        raise FormatError(table.name, None, NO_ROWS)
    formats = {} if table.is_typed else column_formats(roles.stored_fields, rows)
    for row in rows:
        gathered.add(typed_row(row, formats), partial(FormatError, table.name, None))
    return Documents(
        ids,
        gathered.finished(),
        roles.text,
        formats=local_names({column: found.name for column, found in formats.items()}),
    )


@collector_paused()
def _regular_documents(table: CsvTable, roles: DocumentRoles) -> Documents:
    """Return the documents of a CSV table without bad rows; else raise `Irregular`."""
    names = (*roles.text, *roles.stored_fields)
    ids: list[str] = []
    columns: dict[str, list[Value]] = {name: [] for name in names}
    for doc_ids, gathered in regular_batches(table, roles):
        ids += doc_ids
        for name, cells in gathered.items():
            columns[name] += cells
    if not ids or len(set(ids)) < len(ids):
        raise Irregular
    formats = {}
    for name in roles.stored_fields:
        columns[name], formats[name] = typed_column(columns[name])
    compact = {name: compact_column(columns[name]) for name in names}
    return Documents(ids, compact, roles.text, formats=local_names(formats))


def local_names(formats: Mapping[str, str | None]) -> dict[str, str]:
    """Return the local formats of columns, such as decimal commas."""
    return {column: name for column, name in formats.items() if name is not None and name != NUMBERS}


def regular_batches(table: CsvTable, roles: DocumentRoles) -> Iterator[tuple[list[str], dict[str, Sequence[Value]]]]:
    """Yield ids and columns of many rows at once; raise `Irregular` for a bad row."""
    names = (*roles.text, *roles.stored_fields)
    texts = range(1, len(roles.text) + 1)
    ids_of = Conversion(0, lambda value, number: id_in(value, table, number, roles.id), are_ids=True)
    for batch in column_batches(table, (roles.id, *names)):
        ids = ids_of(batch)
        if all(None in batch.columns[place] for place in texts):
            rows = zip(*(batch.columns[place] for place in texts), strict=True)
            if not all(any(row) for row in rows):
                raise Irregular
        yield ids, dict(zip(names, batch.columns[1:], strict=True))


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
        roles = self._roles
        if self._formats is None:
            kept = () if self._table.is_typed else document_rows(self._table, roles, self._refused)
            self._formats = column_formats(roles.stored_fields, (row for _, _, row in kept))
            if self._tell is not None:
                self._tell(local_names({column: found.name for column, found in self._formats.items()}))
        is_empty = True
        for _, doc_id, row in document_rows(self._table, roles, self._refused):
            stored_fields = {name: value for name, value in row.items() if name != roles.id and name not in roles.text}
            yield doc_id, joined_text(row.get(name) for name in roles.text), typed_row(stored_fields, self._formats)
            is_empty = False
        if is_empty:
            raise FormatError(self._table.name, None, NO_ROWS)


def document_rows(table: DataTable, roles: DocumentRoles, refused: Refused | None) -> Iterator[tuple[int, str, Record]]:
    """Yield valid rows with ids that are new."""
    number_of: dict[str, int] = {}
    for number, row in table.rows(refused):
        try:
            doc_id = id_in(row.get(roles.id), table, number, roles.id)
            if doc_id in number_of:
                message = f"the id {doc_id!r} is already used at {table.position(number_of[doc_id])}"
                raise table.error(number, message, "duplicate-id")
            if all(value is None or value == "" for value in map(row.get, roles.text)):
                columns = " and ".join(roles.text)
                message = f"document {doc_id!r} has no text: {columns} {'is' if len(roles.text) == 1 else 'are'} empty"
                raise table.error(number, message, "empty-text")
        except FormatError as problem:
            refuse(problem, refused)
        else:
            number_of[doc_id] = number
            for name in roles.left_out:
                row.pop(name, None)
            yield number, doc_id, row
