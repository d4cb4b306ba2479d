"""Tables in memory: lists and mappings of records, and frames of pandas, polars and Arrow, read by narwhals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from tercet._validate import first_repeated
from tercet.data.lines import Refused, id_problem, refuse, surrogate_problem
from tercet.data.tables import RECORDS_LOOKED_AT, DataTable, check_names
from tercet.data.values import Record, plain_record, plain_value
from tercet.errors import FormatError, InputError, MissingExtraError

KEY = "id"  # column of the keys of a mapping of records


class MemoryTable(DataTable):
    """Records in memory; errors name a row by its position, from 0."""

    form = "records"

    def __init__(
        self, name: str, records: Sequence[Mapping[Any, Any]], columns: Sequence[str], positions: Sequence[Any] = ()
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self._records = records
        self._positions = positions  # names of the rows of a mapping, for errors
        check_names(self, -1)

    def rows(self, refused: Refused | None = None) -> Iterator[tuple[int, Record]]:
        for number, record in enumerate(self._records):
            try:
                if not isinstance(record, Mapping):
                    raise self.error(number, f"is a {type(record).__name__}; a record is needed, column -> value")
                row = plain_record(record, partial(self.error, number), lists_as_json=self.lists_as_json)
            except FormatError as problem:
                refuse(problem, refused)
            else:
                yield number, row

    def error(self, number: int, message: str, kind: str = "format") -> FormatError:
        return FormatError(self.name if number < 0 else self.position(number), None, message, kind)

    def position(self, number: int) -> str:
        return f"{self.name}[{self._positions[number] if self._positions else number}]"


def as_table(thing: Any, name: str) -> DataTable | dict[str, str] | None:
    """Return records as a table, or texts by id as a dict; None for other objects.

    Parameters
    ----------
    thing : a mapping of ids to texts or records, a list of records or a frame
    name : name in errors
    """
    if isinstance(thing, Mapping):
        return _of_mapping(thing, name)
    if isinstance(thing, Sequence) and not isinstance(thing, str | bytes):
        records = list(thing)
        if not records:
            raise InputError(f"{name} is empty")
        return MemoryTable(name, records, _keys(records)) if isinstance(records[0], Mapping) else None
    return _of_frame(thing, name)


def _keys(records: Iterable[Any]) -> list[str]:
    keys: dict[str, None] = {}
    for number, record in enumerate(records):
        if number >= RECORDS_LOOKED_AT:
            break
        if isinstance(record, Mapping):
            for key, value in record.items():
                inner = [f"{key}.{inner_key}" for inner_key in value] if isinstance(value, Mapping) else [str(key)]
                keys |= dict.fromkeys(inner)
    return list(keys)


def _of_mapping(thing: Mapping[Any, Any], name: str) -> DataTable | dict[str, str]:
    first = next(iter(thing.values()), "")
    if not isinstance(first, Mapping):
        for key, text in thing.items():
            if not isinstance(text, str):
                raise InputError(f"{name}[{key!r}] is {plain_shown(text)}; a text, a string, is needed")
            problem = surrogate_problem(text)
            if problem is not None:
                raise InputError(f"{name}[{key!r}] {problem}")
        ids = _distinct([_checked_key(key, name) for key in thing], name)
        return dict(zip(ids, thing.values(), strict=True))
    key = KEY
    columns = _keys(thing.values())
    while any(isinstance(record, Mapping) and key in record for record in thing.values()):
        key = f"_{key}"
    records = [{key: doc_id, **record} if isinstance(record, Mapping) else record for doc_id, record in thing.items()]
    return MemoryTable(name, records, [key, *columns], [repr(doc_id) for doc_id in thing])


def plain_shown(value: object) -> str:
    """Return the repr of a value for a message, shortened to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _of_frame(thing: Any, name: str) -> DataTable | None:
    if type(thing).__module__.partition(".")[0] in ("builtins", "numpy") or not _may_be_frame(thing):
        return None
    import narwhals as nw

    if not nw.dependencies.is_into_dataframe(thing):
        frame = nw.from_native(thing, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise InputError(f"{name} is a lazy frame; collect it first")
        return None
    try:
        frame = nw.from_native(thing, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = [str(column) for column in thing.columns]
        raise InputError(_two_columns(name, names)) from None
    columns = {str(column): frame.get_column(column).to_list() for column in frame.columns}
    names = [str(column) for column in frame.columns]
    index = nw.maybe_get_index(frame)
    if index is not None and getattr(index, "name", None) is not None and str(index.name) not in columns:
        columns = {str(index.name): list(index), **columns}
        names = [str(index.name), *names]
    if len(columns) < len(names):
        raise InputError(_two_columns(name, names))
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if not rows:
        raise InputError(f"{name} is empty")
    return MemoryTable(name, rows, _keys(rows))  # each key of an object in a cell becomes a column


def _two_columns(name: str, columns: Sequence[str]) -> str:
    return f"{name} has two columns called {first_repeated(columns)!r}; each needs a name of its own"


def _may_be_frame(thing: Any) -> bool:
    """Return True for objects like frames, before narwhals is loaded."""
    return any(hasattr(type(thing), name) for name in ("columns", "column_names", "__narwhals_dataframe__"))


def key_id(key: Any, name: str) -> str:
    """Return the key of a mapping as an id: a string unchanged, or a whole number in its digits."""
    if isinstance(key, str):
        return key
    plain = plain_value(key)
    if type(plain) is not int:
        raise InputError(f"{name} has the id {plain_shown(key)}; ids are strings or whole numbers")
    return str(plain)


def _checked_key(key: Any, name: str) -> str:
    identifier = key_id(key, name)
    problem = id_problem(identifier)
    if problem is not None:
        raise InputError(f"{name}: an id {problem}")
    return identifier


def _distinct(ids: list[str], name: str) -> list[str]:
    if len(set(ids)) < len(ids):
        raise InputError(f"{name} has the id {first_repeated(ids)!r} twice")
    return ids


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return a frame of columns: of pandas if installed, else of polars, else an Arrow table."""
    for package, maker in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")):
        try:
            return getattr(import_module(package), maker)(dict(columns))
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
    raise MissingExtraError("pandas, polars or pyarrow", "parquet", "a frame")
