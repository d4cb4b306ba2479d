"""Time to encode and decode one plain record, an entry of a service's journal; msgspec beside it where installed.

Both start from and end at JSON values, so that only the checks of types and fields are timed; msgspec also reads bytes.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import timeit
from collections.abc import Callable
from typing import Any

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.serve.journal import Clicked, Entry, Preferred, entry_of

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

CLIENT, TIME = "203.0.113.7/anna", "2026-11-15T18:20:00.123Z"
ENTRIES: dict[str, Entry] = {
    "preference": Preferred(120_331, TIME, CLIENT, "green tea", "sku-10377", "sku-99811", None, "8c7ab01f"),
    "clicks, list of 10": Clicked(7, TIME, CLIENT, "green tea", tuple(map(str, range(10))), ("3",), None, "8c7ab01f"),
}


def microseconds(call: Callable[[], Any], n_calls: int) -> float:
    """Best of seven rounds: the other rounds shared the processor."""
    return min(timeit.repeat(call, number=n_calls, repeat=7)) / n_calls * 1e6


def rival_times(entry: Entry, n_calls: int) -> dict[str, float]:
    """Microseconds of msgspec for a struct with the fields of the entry."""
    hints = [(name, type(value) if value is not None else Any) for name, value in vars(entry).items()]
    typed = [(name, tuple[str, ...] if hint is tuple else hint) for name, hint in hints]
    struct = msgspec.defstruct("Rival", typed, frozen=True, forbid_unknown_fields=True)
    value = struct(**vars(entry))
    meta, data = msgspec.to_builtins(value), msgspec.json.encode(value)
    read = msgspec.json.Decoder(struct).decode
    return {
        "msgspec encode": microseconds(lambda: msgspec.to_builtins(value), n_calls),
        "msgspec decode": microseconds(lambda: msgspec.convert(meta, struct), n_calls),
        "msgspec decode bytes": microseconds(lambda: read(data), n_calls),
    }


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    n_calls = 2_000 if arguments.quick else 20_000
    results = {}
    for name, entry in ENTRIES.items():
        meta = entry.to_meta()
        assert entry_of(meta) == entry
        results[name] = {
            "encode": microseconds(entry.to_meta, n_calls),
            "decode": microseconds(lambda meta=meta: entry_of(meta), n_calls),  # type: ignore[misc]
        }
        if msgspec is not None:
            results[name] |= rival_times(entry, n_calls)
    columns = list(next(iter(results.values())))
    rows = [[name, *(f"{us:.2f}" for us in row.values())] for name, row in results.items()]
    print_table("Microseconds of a record (best of seven)", ["record", *columns], rows)
    write_json(arguments.output, {"machine": facts, "microseconds": results})


if __name__ == "__main__":
    main()
