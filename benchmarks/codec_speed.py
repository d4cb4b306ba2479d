"""Time to encode and decode one plain record, as journals have millions; msgspec beside it where installed.

Both start from and end at JSON values, so that only the checks of types and fields are timed; msgspec also reads bytes.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.errors import InputError
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Entry:
    """Fields of every entry."""

    kind: ClassVar[str]
    number: int
    time: str
    client: str


@dataclass(frozen=True)
class Preferred(Entry):
    """A better and a worse document of a query."""

    kind = "prefer"
    query: str
    better: str
    worse: str
    trust: Annotated[Literal["visitor", "teacher"] | None, OMIT_DEFAULT] = None
    receipt: Annotated[str, OMIT_DEFAULT] = ""

    def __post_init__(self) -> None:
        if self.better == self.worse:
            raise InputError(f"better and worse are both {self.better!r}")


@dataclass(frozen=True)
class Clicked(Entry):
    """A list and its clicked documents."""

    kind = "clicks"
    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]


KINDS = {Entry: {cls.kind: cls for cls in (Preferred, Clicked)}}
CLIENT, TIME = "203.0.113.7/anna", "2026-11-15T18:20:00.123Z"
ENTRIES: dict[str, Entry] = {
    "preference": Preferred(120_331, TIME, CLIENT, "green tea", "sku-10377", "sku-99811", None, "8c7ab01f"),
    "clicks, list of 10": Clicked(7, TIME, CLIENT, "green tea", tuple(map(str, range(10))), ("3",)),
}


def read(meta: dict[str, Any]) -> Entry:
    return decode(Entry, meta, where="entry", kinds=KINDS)


def microseconds(call: Callable[[], Any], n_calls: int) -> float:
    """Processor time of a call, best of seven rounds."""
    return min(timeit.repeat(call, timer=time.process_time, number=n_calls, repeat=7)) / n_calls * 1e6


def rival_times(entry: Entry, n_calls: int) -> dict[str, float]:
    """Microseconds of msgspec for a struct with the fields of the entry."""
    hints = [(name, type(value) if value is not None else Any) for name, value in vars(entry).items()]
    typed = [(name, tuple[str, ...] if hint is tuple else hint) for name, hint in hints]
    struct = msgspec.defstruct("Rival", typed, frozen=True, forbid_unknown_fields=True)
    value = struct(**vars(entry))
    meta, data = msgspec.to_builtins(value), msgspec.json.encode(value)
    decoder = msgspec.json.Decoder(struct)
    return {
        "msgspec encode": microseconds(lambda: msgspec.to_builtins(value), n_calls),
        "msgspec decode": microseconds(lambda: msgspec.convert(meta, struct), n_calls),
        "msgspec decode bytes": microseconds(lambda: decoder.decode(data), n_calls),
    }


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    n_calls = 2_000 if arguments.quick else 20_000
    results = {}
    for name, entry in ENTRIES.items():
        meta = encode(entry)[0]
        assert read(meta) == entry
        results[name] = {
            "encode": microseconds(lambda entry=entry: encode(entry), n_calls),  # type: ignore[misc]
            "decode": microseconds(lambda meta=meta: read(meta), n_calls),  # type: ignore[misc]
        }
        if msgspec is not None:
            results[name] |= rival_times(entry, n_calls)
    columns = list(next(iter(results.values())))
    rows = [[name, *(f"{us:.2f}" for us in row.values())] for name, row in results.items()]
    print_table("Microseconds of a record (best of seven)", ["record", *columns], rows)
    write_json(arguments.output, {"machine": facts, "microseconds": results})


if __name__ == "__main__":
    main()
