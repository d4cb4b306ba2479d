"""What a long journal costs: a start, and taking back its oldest, middle and newest entry.

Entries are preferences of a teacher over 60 short documents, for made-up queries; one in ten is about two documents and
a query that somebody spoke of before. Times are those of this process (CPU), since others may be at work here.
Taking back is what the learner does; what a service adds is a write and a sync. 10,000 entries; `--entries N` for
others.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.serve import LearningBounds, read_journal, replay
from tercet.serve.journal import HEADER, Entry, spelled_entry
from tercet.serve.metrics import resident_bytes
from tercet.serve.replay import Replay
from tercet.store.digest import digest_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

COLOURS, NOUNS = ("green", "blue", "red", "pale", "dark"), ("avocado", "eyes", "sky", "toast", "garden", "river", "oil")


def entries_of(n: int, doc_ids: list[str], seed: int) -> list[Entry]:
    from support.serving import preferred

    rng = np.random.default_rng(seed)
    entries: list[Entry] = []
    for number in range(1, n + 1):
        if number > 1 and rng.random() < 0.1:
            said: Any = entries[int(rng.integers(len(entries)))]
            query, better, worse = said.query, said.better, said.worse
        else:
            query = " ".join([*rng.choice(COLOURS, 2), *rng.choice(NOUNS, 2)])
            better, worse = (str(doc) for doc in rng.choice(doc_ids, 2, replace=False))
        entries.append(preferred(number, query, better, worse, "127.0.0.1", "teacher", number / 1000))
    return entries


def main() -> None:
    from support.serving import made_docs, made_index, withdrawn

    arguments = parse_arguments(__doc__, needs_data=False, entries=int)
    n = arguments.entries or (1_000 if arguments.quick else 10_000)
    facts = machine_facts()
    print_facts(facts)
    index = made_index()
    entries = entries_of(n, list(made_docs())[:-1], arguments.seed)
    replay(index, entries[:10])  # compiles
    with tempfile.TemporaryDirectory() as folder:
        path, last_sum, lines = Path(folder, "journal.jsonl"), "", [HEADER.encode()]
        for entry in entries:
            line, last_sum = spelled_entry(entry, last_sum)
            lines.append(line)
        path.write_bytes(b"".join(lines))
        del lines, entries
        memory = resident_bytes()
        started = time.process_time()
        read = list(read_journal(path).entries)
        reading = time.process_time() - started
    state = Replay(index, LearningBounds())
    state.apply(read)
    applying = time.process_time() - started - reading
    memory = resident_bytes() - memory
    undo = {}
    for number, (title, gone) in enumerate((("newest", n), ("middle", n // 2), ("oldest", 1)), n + 1):
        started = time.process_time()
        state.apply([withdrawn(number, gone)])
        undo[title] = time.process_time() - started
    whole = replay(index, [*read, *(withdrawn(n + 1 + i, gone) for i, gone in enumerate((n, n // 2, 1)))])
    is_same = digest_of(state.overlay.matrix())[:32] == whole.digest
    print_table(
        f"a journal of {n:,} entries",
        ["start s", "ms an entry", "of that reading", "kB an entry", *(f"undo {title} s" for title in undo), "bits"],
        [
            [
                f"{reading + applying:.2f}",
                f"{1000 * (reading + applying) / n:.2f}",
                f"{1000 * reading / n:.2f}",
                f"{memory / n / 1000:.1f}",
                *(f"{seconds:.3f}" for seconds in undo.values()),
                "those of a replay" if is_same else "others",
            ]
        ],
    )
    results = {"entries": n, "reading": reading, "applying": applying, "memory": memory, "undo": undo, "same": is_same}
    write_json(arguments.output, {"machine": facts, **results})
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
