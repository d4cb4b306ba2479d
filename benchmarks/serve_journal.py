"""What a long journal costs: a start, with a snapshot and without, and taking back single entries.

Entries are preferences of a teacher over 60 short documents, for made-up queries; one in ten is about two documents and
a query that somebody spoke of before. Times are those of this process (CPU), since others may be at work here.
A start reads the journal and has all of it learned; with a snapshot it has a hundred entries after that left, which in
a long journal are about what was spoken of before, so that learning them costs as much as taking back does. Taking
back is what the learner does; what a service adds is a write and a sync. It costs what comes after the first step that
changes: that of the entry, of an earlier vote on the same question, or of a later one. The costliest entry is that with
the earliest such step. 10,000 entries; `--entries N` for others.

Above 200,000 entries nothing is parsed to make the snapshot: the columns that it consists of are drawn, as below that
they are compared with those of the entries. So a start without a snapshot is not measured there, and what is taken back
is compared with a replay of all columns from nothing.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import hashlib
import itertools
import json
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.kernels.votes import NO_STEP, NOT_LOOKED_UP, ONE_CLICK
from tercet.serve import Journal, LearningBounds
from tercet.serve.allowances import Voter
from tercet.serve.journal import HEADER, entry_of, spelled_entry
from tercet.serve.journal_chain import Chain
from tercet.serve.journal_file import snapshot_folder
from tercet.serve.metrics import resident_bytes
from tercet.serve.replay import Replay
from tercet.serve.snapshots import Snapshots
from tercet.store.bundle import write_bundle
from tercet.store.codec import encode
from tercet.store.digest import digest_of
from tercet.store.kinds import JOURNAL_LINES

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PORTION, TAIL, MOST_PARSED = 100_000, 100, 200_000
CLIENT = "127.0.0.1"
COLOURS, NOUNS = ("green", "blue", "red", "pale", "dark"), ("avocado", "eyes", "sky", "toast", "garden", "river", "oil")


class Drawn(NamedTuple):
    """Preferences by the numbers of queries and documents, and when they came, in milliseconds since 1970."""

    queries: list[str]
    docs: list[str]
    query: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    time: NDArray[np.int64]


def drawn(n: int, docs: list[str], seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    words = np.array([[*rng.choice(COLOURS, 2), *rng.choice(NOUNS, 2)] for _ in range(4096)])
    better = rng.integers(len(docs), size=n)
    three = [rng.integers(len(words), size=n), better, (better + rng.integers(1, len(docs), size=n)) % len(docs)]
    said = np.where(rng.random(n) < 0.1, (rng.random(n) * np.arange(n)).astype(np.int64), np.arange(n))
    while (said[said] != said).any():  # what was said again was itself said again
        said = said[said]
    came = np.datetime64("2026-01-01", "ms").astype(np.int64) + 3600 * np.arange(1, n + 1)
    return Drawn([" ".join(four) for four in words], docs, *(column[said] for column in three), came)


def write_journal(path: Path, given: Drawn) -> Chain:
    """Write a journal; returns what stands where in it."""
    queries, docs = ([json.dumps(text) for text in texts] for texts in (given.queries, given.docs))
    crc, last_sum, lengths = zlib.crc32(HEADER.encode()), "", []
    with open(path, "wb") as file:
        file.write(HEADER.encode())
        for start in range(0, len(given.query), PORTION):
            columns = [column[start : start + PORTION] for column in given[2:5]]
            times = np.datetime_as_string(given.time[start : start + PORTION].astype("datetime64[ms]")).tolist()
            lines = []
            for i, (query, better, worse) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
                body = (
                    f'{{"kind":"prefer","number":{start + i + 1},"time":"{times[i]}Z","client":"{CLIENT}","query":'
                    f'{queries[query]},"better":{docs[better]},"worse":{docs[worse]},"trust":"teacher"}}'
                )
                before, last_sum = last_sum, hashlib.sha256(f"{last_sum}{body}".encode()).hexdigest()[:32]
                lines.append(f'{{"sum":"{last_sum}","entry":{body}}}\n'.encode())
                if start + i == 0:
                    assert (lines[0], last_sum) == spelled_entry(entry_of(json.loads(body)), before)
            data = b"".join(lines)
            crc = zlib.crc32(data, crc)
            lengths += [np.array([len(line) for line in lines])]
            file.write(data)
    chain = Chain(path, 0, "", HEADER.encode())
    stops = len(HEADER) + np.cumsum(np.concatenate(lengths))
    chain.lines.extend(stops, np.full(stops.size, chain.clients.number(CLIENT.encode())), np.ones(stops.size, bool))
    chain.last_sum, chain.crc = last_sum, crc
    return chain


def save_lines(chain: Chain) -> None:
    saved, arrays = chain.arrays()
    write_bundle(snapshot_folder(chain.path) / "lines", kind=JOURNAL_LINES, meta=encode(saved)[0], arrays=arrays)


def costliest(state: Replay) -> int:
    """The entry, of one vote each, whose undo goes back farthest."""
    ballots, last = state._box.ballots, state._box.questions.column("last")[state._box.ballots.column("question")]
    before, own = ballots.column("before"), np.arange(len(ballots))
    changed = np.where(last > own, last, np.where(before >= 0, before, own))
    return int(ballots.column("number")[np.where(ballots.column("counts"), changed, changed.max()).argmin()])


def put_columns(state: Replay, given: Drawn) -> None:
    """Have a new replay take in what was drawn, as it takes in entries."""
    box, n = state._box, len(given.query)
    voter = state.allowances.number_of(Voter.of(CLIENT, "teacher"))
    by_name = np.argsort(np.argsort(given.docs))
    is_first = by_name[given.better] < by_name[given.worse]
    first, second = np.where(is_first, given.better, given.worse), np.where(is_first, given.worse, given.better)
    n_docs, numbers = len(given.docs), np.zeros(len(given.queries), np.int64)
    for text in _by_appearance(given.query):  # some have the same words
        row = state.query_row(given.queries[text])
        numbers[text] = box.query(row, given.queries[text], state.overlay.words_of(row))
    query = numbers[given.query]
    _, at, question = np.unique((query * n_docs + first) * n_docs + second, return_index=True, return_inverse=True)
    asked = np.sort(at)  # questions, by the ballots that ask them first
    question = np.argsort(np.argsort(at))[question]
    for doc in _by_appearance(np.stack([first[asked], second[asked]], axis=1).ravel()):
        box.doc(given.docs[doc])
    order = np.argsort(question, kind="stable")
    is_same = np.diff(question[order], prepend=-1) == 0
    before, last = np.full(n, -1), np.zeros(asked.size, np.int64)
    before[order] = np.where(is_same, np.roll(order, 1), -1)
    last[question] = np.arange(n)  # the last one stays
    columns = [query[asked], *_renumbered(np.stack([first[asked], second[asked]], 1)).T, last]
    nothing = [np.zeros(asked.size)] * 5
    known, none = np.full(asked.size, NOT_LOOKED_UP), np.full(asked.size, NO_STEP)
    box.questions.extend(*columns, known, *nothing[:4], none, nothing[0])
    box._fill_slots()
    box.first_number = 1
    parts = np.where(is_first, 1, -1) * int(state.bounds.preference * ONE_CLICK)
    ones = np.ones(n, bool)
    box.ballots.extend(np.arange(1, n + 1), question, np.full(n, voter), parts, given.time / 1000, before, ones)
    state._look_up(range(asked.size))
    state._advance(0)


def _by_appearance(numbers: NDArray[np.int64]) -> list[int]:
    found, at = np.unique(numbers, return_index=True)
    return found[np.argsort(at)].tolist()


def _renumbered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from 0 in the order in which they appear."""
    order = np.zeros(numbers.max() + 1, np.int64)
    order[_by_appearance(numbers.ravel())] = np.arange(np.unique(numbers).size)
    return order[numbers]


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
        memory = resident_bytes()
        given = drawn(n - TAIL, docs, arguments.seed)
        save_lines(write_journal(path, given))
        clock, whole_start = Clock(), float("nan")
        state = Replay(index, bounds)
        put_columns(state, given)
        del given
        taking = clock.lap()
        is_same = True
        if n <= MOST_PARSED:
            snapshot_folder(path).rename(aside := Path(folder, "aside"))
            clock.lap()
            with Journal(path, 2**40) as journal:
                parsed = Replay(index, bounds)
                parsed.apply(journal.entries)
            whole_start = clock.lap()
            aside.rename(snapshot_folder(path))
            columns = state.arrays()
            is_same = all(array.tobytes() == columns[name].tobytes() for name, array in parsed.arrays().items())
            del parsed, columns
        with Journal(path, 2**40) as journal:
            clock.lap()
            assert Snapshots(journal, 1).keep(state, "model", n - TAIL, 0)
            saving = clock.lap()
            kept = sum(file.stat().st_size for file in snapshot_folder(path).rglob("*") if file.is_file())
            for number in range(n - TAIL + 1, n + 1):
                query = f"{COLOURS[number % 5]} {NOUNS[number % 7]}"
                journal.append(
                    lambda i, query=query: preferred(i, query, docs[i % 50], docs[i % 50 + 1], "::1", "teacher")
                )
        del state
        clock.lap()
        began = time.monotonic()
        with Journal(path, 2**40) as journal:
            reading = clock.lap()
            state = Replay(index, bounds)
            number = Snapshots(journal, 1).restore(state, "model", journal.entries, 0)
            assert number == n - TAIL
            restoring = clock.lap()
            state.apply(journal.entries[number:])
            learning = clock.lap()
            elapsed = time.monotonic() - began
            memory = resident_bytes() - memory
            undo, entries = {}, []
            which = {"newest": n, "middle": n // 2, "oldest": 1, "costliest": None}  # of those that are left then
            for number, (title, gone) in enumerate(which.items(), n + 1):
                entries.append(withdrawn(number, gone or costliest(state)))
                clock.lap()
                state.apply(entries[-1:])
                undo[title] = clock.lap()
            found, steps = digest_of(state.overlay.matrix()), digest_of(state._box.questions.column("share").copy())
            if n <= MOST_PARSED:
                state = Replay(index, bounds)
                state.apply(itertools.chain(journal.entries, entries))
            else:
                state._advance(0)
            is_same = is_same and digest_of(state.overlay.matrix()) == found
            is_same = is_same and digest_of(state._box.questions.column("share").copy()) == steps
    print_table(
        f"a journal of {n:,} entries",
        [
            "start s",
            "reading",
            "restoring",
            "learning",
            "without a snapshot",
            "saving one s",
            "MB",
            *(f"undo {title} s" for title in undo),
            "kB an entry",
            "bits",
        ],
        [
            [
                f"{reading + restoring + learning:.2f}",
                f"{reading:.2f}",
                f"{restoring:.2f}",
                f"{learning:.2f}",
                f"{whole_start:.1f}",
                f"{saving:.2f}",
                f"{kept / 1e6:.1f}",
                *(f"{seconds:.4f}" for seconds in undo.values()),
                f"{memory / n / 1000:.2f}",
                "those of a replay" if is_same else "others",
            ]
        ],
    )
    results = {"entries": n, "reading": reading, "restoring": restoring, "learning": learning, "elapsed": elapsed}
    results |= {"saving": saving, "without": whole_start if n <= MOST_PARSED else None, "taking": taking}
    results |= {"snapshot_bytes": kept, "memory": memory, "undo": undo, "same": is_same}
    write_json(arguments.output, {"machine": facts, **results})
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
