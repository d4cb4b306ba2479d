"""What a long journal costs: a start, with a snapshot and without, and taking back its newest, middle and oldest entry.

Entries are preferences of a teacher over 60 short documents, for made-up queries; one in ten is about two documents and
a query that somebody spoke of before. Times are those of this process (CPU), since others may be at work here.
A start reads the journal and has all of it learned; with a snapshot it has a hundred entries after that left. Taking
back is what the learner does; what a service adds is a write and a sync. 10,000 entries; `--entries N` for others.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import itertools
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.serve import Journal, LearningBounds
from tercet.serve.journal import HEADER, spelled_entry
from tercet.serve.metrics import resident_bytes
from tercet.serve.replay import Replay
from tercet.serve.snapshots import Snapshots
from tercet.store.digest import digest_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PORTION, TAIL = 100_000, 100
COLOURS, NOUNS = ("green", "blue", "red", "pale", "dark"), ("avocado", "eyes", "sky", "toast", "garden", "river", "oil")


def write_journal(path: Path, n: int, doc_ids: list[str], seed: int) -> None:
    from support.serving import preferred

    rng = np.random.default_rng(seed)
    words = np.array([[*rng.choice(COLOURS, 2), *rng.choice(NOUNS, 2)] for _ in range(4096)])
    queries, docs = [" ".join(four) for four in words], np.array(doc_ids)
    last_sum, said = "", []
    with open(path, "wb") as file:
        file.write(HEADER.encode())
        for start in range(0, n, PORTION):
            m = min(PORTION, n - start)
            asked, again = rng.integers(len(queries), size=m).tolist(), (rng.random(m) < 0.1).tolist()
            first, offset = rng.integers(len(docs), size=m), rng.integers(1, len(docs), size=m)
            second, earlier = (first + offset) % len(docs), rng.integers(0, max(1, start), size=m).tolist()
            for i, (query, better, worse) in enumerate(zip(asked, docs[first], docs[second], strict=True)):
                three = said[earlier[i]] if again[i] and start else (query, str(better), str(worse))
                said.append(three)
                number = start + i + 1
                when = number / 1000
                entry = preferred(number, queries[three[0]], three[1], three[2], "127.0.0.1", "teacher", when)
                line, last_sum = spelled_entry(entry, last_sum)
                file.write(line)


class Clock:
    """Seconds of this process."""

    def __init__(self) -> None:
        self._started = time.process_time()

    def lap(self) -> float:
        started, self._started = self._started, time.process_time()
        return self._started - started


def main() -> None:
    from support.serving import made_docs, made_index, preferred, withdrawn

    arguments = parse_arguments(__doc__, needs_data=False, entries=int)
    n = arguments.entries or (1_000 if arguments.quick else 10_000)
    facts = machine_facts()
    print_facts(facts)
    index, bounds = made_index(), LearningBounds()
    docs = list(made_docs())[:-1]
    warm = Replay(index, bounds)
    warm.apply([preferred(1, "green avocado", docs[0], docs[1])])  # compiles
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.jsonl")
        write_journal(path, n - TAIL, docs, arguments.seed)
        memory = resident_bytes()
        clock = Clock()
        with Journal(path, 2**40) as journal:
            reading = clock.lap()
            state = Replay(index, bounds)
            state.apply(journal.entries)
            applying = clock.lap()
            snapshots = Snapshots(journal, 1)
            assert snapshots.keep(state, "model", n - TAIL, 0)
            saving = clock.lap()
            kept = sum(file.stat().st_size for file in path.with_suffix(".snapshots").rglob("*") if file.is_file())
            for number in range(n - TAIL + 1, n + 1):
                query = f"{COLOURS[number % 5]} {NOUNS[number % 7]}"
                journal.append(
                    lambda i, query=query: preferred(i, query, docs[i % 50], docs[i % 50 + 1], "::1", "teacher")
                )
        del state
        clock.lap()
        with Journal(path, 2**40) as journal:
            state = Replay(index, bounds)
            number = Snapshots(journal, 1).restore(state, "model", journal.entries, 0)
            assert number == n - TAIL
            state.apply(journal.entries[number:])
            starting = clock.lap()
            memory = resident_bytes() - memory
            undo, entries = {}, []
            for number, (title, gone) in enumerate((("newest", n), ("middle", n // 2), ("oldest", 1)), n + 1):
                entries.append(withdrawn(number, gone))
                clock.lap()
                state.apply(entries[-1:])
                undo[title] = clock.lap()
            whole = Replay(index, bounds)
            whole.apply(itertools.chain(journal.entries, entries))
            is_same = digest_of(state.overlay.matrix()) == digest_of(whole.overlay.matrix())
            is_same = is_same and (n > 200_000 or state.steps() == whole.steps())
    print_table(
        f"a journal of {n:,} entries",
        [
            "start s",
            "without a snapshot",
            "saving one s",
            "MB",
            *(f"undo {title} s" for title in undo),
            "kB an entry",
            "bits",
        ],
        [
            [
                f"{starting:.2f}",
                f"{reading + applying:.1f}",
                f"{saving:.2f}",
                f"{kept / 1e6:.1f}",
                *(f"{seconds:.4f}" for seconds in undo.values()),
                f"{memory / n / 1000:.2f}",
                "those of a replay" if is_same else "others",
            ]
        ],
    )
    results = {"entries": n, "starting": starting, "reading": reading, "applying": applying, "saving": saving}
    results |= {"snapshot_bytes": kept, "memory": memory, "undo": undo, "same": is_same}
    write_json(arguments.output, {"machine": facts, **results})
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
