"""Links between documents: a table with a source and a target, or a list of targets, on each row; pairs in memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tercet.data.cells import Columns, DocumentCheck, id_in, ids_in, read_rows
from tercet.data.frames import MemoryTable, as_table, key_id
from tercet.data.lines import FilePath, Refused, refuse
from tercet.data.roles import TARGET_LISTS, RoleGuess, find_roles, plain_name
from tercet.data.tables import DataTable, open_table
from tercet.data.values import Value
from tercet.errors import FormatError, InputError

NO_LINKS = "the file holds no links between two documents"
_IN_MEMORY = "a mapping, id -> ids it links to, pairs (source, target), records or a frame"


@dataclass(frozen=True)
class ReadLinks:
    """Links of a file.

    Attributes
    ----------
    links : ``{source: [target, …]}``, each link once, in file order
    n_own : number of links of documents to themselves, which are left out
    form : description of the file and its columns

    Examples
    --------
    >>> ReadLinks({"a": ["b", "c"]}, n_own=0, form="CSV").n_links
    2
    """

    links: dict[str, list[str]]
    n_own: int
    form: str

    @property
    def n_links(self) -> int:
        """Number of links."""
        return sum(map(len, self.links.values()))


def read_links(
    path: FilePath,
    docs: Container[str] | None = None,
    *,
    columns: Columns | None = None,
    refused: Refused | None = None,
    encoding: str | None = None,
) -> ReadLinks:
    r"""Read links from a table with a source and a target on each row, or with a list of targets.

    Parameters
    ----------
    path : CSV, TSV, JSONL, each gzipped or not, or Parquet
    docs : known document ids; any other id is an error
    columns : role -> column, for the roles source and target; other roles are guessed
    refused : takes the error of a bad row, and the row is left out
    encoding : as in `iter_rows`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "links.csv")
    ...     _ = file.write_text("Source,Target\n007,1e5\n007,8\n")
    ...     read_links(file).links
    {'007': ['1e5', '8']}
    """
    table = open_table(path, encoding=encoding)
    roles = _link_roles(table, columns)
    check = DocumentCheck(docs, table)
    links: dict[str, dict[str, None]] = {}
    n_own = 0
    for line, source, targets in _links_of(table, roles, refused, "target" not in (columns or {})):
        for target in targets:
            try:
                check(line, source, target)
            except FormatError as problem:
                refuse(problem, refused)
                continue
            if source == target:
                n_own += 1
            else:
                links.setdefault(source, {})[target] = None
    if not links:
        raise FormatError(table.name, None, NO_LINKS)
    lists = {source: list(targets) for source, targets in links.items()}
    return ReadLinks(lists, n_own, f"{table.form}; {roles}")


def _link_roles(table: DataTable, columns: Columns | None = None) -> RoleGuess:
    roles = find_roles(table, "links", columns)
    if roles["source"] == roles["target"]:
        message = f"source and target are both the column {roles['source']!r}; a link has two ends"
        raise table.error(0, message, "columns")
    return roles


def _links_of(
    table: DataTable, roles: RoleGuess, refused: Refused | None = None, may_be_lists: bool = True
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield line, source and targets of each row; a cell of a guessed column of lists holds many targets."""
    has_lists = may_be_lists and plain_name(roles["target"]) in TARGET_LISTS
    table.lists_as_json = True

    def targets_in(cell: Value) -> tuple[str, ...]:
        is_list = has_lists or (table.is_typed and isinstance(cell, str) and cell.startswith("["))
        return ids_in(cell) if is_list else (id_in(cell),)

    yield from read_rows(table, roles, ("source", "target"), refused, {"target": targets_in})


def as_links(links: Any, docs: Container[str], name: str = "links") -> dict[str, list[str]]:
    """Return links by source of a mapping of ids to ids, pairs, records or a frame."""
    table = _table_of(links, name)
    check = DocumentCheck(docs, table)
    gathered: dict[str, list[str]] = {}
    for number, source, targets in _links_of(table, _link_roles(table)):
        check(number, source, *targets)
        gathered.setdefault(source, []).extend(targets)
    return gathered


def _table_of(links: Any, name: str) -> DataTable:
    """Return links in memory as a table of a source and a target, or of a source and a list of targets."""
    if isinstance(links, Mapping):
        for key, targets in links.items():
            if isinstance(targets, str | bytes | Mapping) or not isinstance(targets, Iterable):
                raise InputError(f"{name} of {key!r} must be a list of ids; got {targets!r:.60}")
        records = [{"source": key_id(key, name), "target": list(targets)} for key, targets in links.items()]
        return MemoryTable(name, records, ("source", "target"), [repr(key) for key in links])
    if isinstance(links, str | bytes):
        raise InputError(f"{name} must be {_IN_MEMORY}; got the string {links[:60]!r}: read_links reads a file")
    if isinstance(links, Iterator):
        links = list(links)
    table = as_table(links, name)
    if isinstance(table, DataTable):
        return table
    if not isinstance(links, Iterable):
        raise InputError(f"{name} must be {_IN_MEMORY}; got {type(links).__name__}")
    records = []
    for number, pair in enumerate(links):
        ends = pair.tolist() if hasattr(pair, "tolist") else pair
        if isinstance(ends, str) or not hasattr(ends, "__len__") or len(ends) != 2:
            raise InputError(f"{name}[{number}] must be two ids, those of source and target; got {pair!r:.60}")
        records.append(dict(zip(("source", "target"), ends, strict=True)))
    return MemoryTable(name, records, ("source", "target"))
