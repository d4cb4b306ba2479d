"""What a long journal costs: a start, a vote, taking back single entries, until they count and until they are exact.

Entries are preferences of a teacher. By default they are over 60 short documents, for made-up queries of four words out
of twelve, so that nearly all questions of a long journal were asked before; one in ten is about two documents and a
query that somebody spoke of before. With `--documents N --queries M` documents have 30 words of 20,000, queries two of
them, words and queries are as frequent as their ranks have it (Zipf), and all votes on a query are among ten documents.
Times are those of this process (CPU), since others may be at work here.

A start reads the journal, restores the snapshot, and has the hundred entries after that count, in the interim way where
they go far back; then it learns them exactly. Taking back is what the learner does, with the version that is served;
what a service adds is a write and a sync. The exact replay costs what comes after the first step that changes: that of
the entry, of an earlier vote on the same question, or of a later one. The costliest entry is that with the earliest
such step. 10,000 entries; `--entries N` for others. `--undos N` takes N more back, and says how near the interim is.

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

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.kernels.votes import NO_STEP, NOT_LOOKED_UP, ONE_CLICK
from tercet.learn.online import OnlineLearner
from tercet.search import BaseIndex, Index
from tercet.serve import Journal, LearningBounds
from tercet.serve.allowances import Voter
from tercet.serve.interim import Interim
from tercet.serve.journal import HEADER, Entry, entry_of, spelled_entry
from tercet.serve.journal_chain import Chain
from tercet.serve.journal_file import snapshot_folder
from tercet.serve.learner import _INTERIM_SECONDS, _version
from tercet.serve.metrics import resident_bytes
from tercet.serve.replay import Replay
from tercet.serve.snapshots import Snapshots
from tercet.store.bundle import write_bundle
from tercet.store.codec import encode
from tercet.store.digest import digest_of
from tercet.store.kinds import JOURNAL_LINES
from tercet.weights import Identity, Weights

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PORTION, TAIL, MOST_PARSED = 100_000, 100, 200_000
N_WORDS = 20_000
N_SAMPLED = 2_000  # questions
CLIENT = "127.0.0.1"
COLOURS, NOUNS = ("green", "blue", "red", "pale", "dark"), ("avocado", "eyes", "sky", "toast", "garden", "river", "oil")


class Collection(NamedTuple):
    """Documents, queries, and for each of these the documents that are voted on, (n_queries, n); None for any."""

    index: Index
    docs: list[str]
    queries: list[str]
    among: NDArray[np.int64] | None = None


def short_texts(seed: int, folder: Path | None = None) -> Collection:
    from support.serving import made_docs, made_index

    rng = np.random.default_rng(seed)
    queries = [" ".join([*rng.choice(COLOURS, 2), *rng.choice(NOUNS, 2)]) for _ in range(4096)]
    return Collection(made_index(folder), list(made_docs())[:-1], queries)


def many_texts(n_docs: int, n_queries: int, seed: int, folder: Path | None = None) -> Collection:
    rng = np.random.default_rng(seed)
    words, frequencies = np.array([f"word{i}" for i in range(N_WORDS)]), by_rank(N_WORDS, 20)
    texts = {f"d{i}": " ".join(words[rng.choice(N_WORDS, 30, p=frequencies)]) for i in range(n_docs)}
    queries = [" ".join(words[rng.choice(N_WORDS, 2, p=frequencies)]) for _ in range(n_queries)]
    vectoriser = tc.Vectoriser(weighting="bm25").fit(texts.values())
    weights = Weights([Identity(n_terms=len(vectoriser.words_))])
    index = Index.build(texts, tc.TextModel(vectoriser, vectoriser, weights), folder)
    among = np.array([rng.choice(n_docs, 10, replace=False) for _ in range(n_queries)])
    return Collection(index, list(texts), queries, among)


def by_rank(n: int, first: int) -> NDArray[np.float64]:
    frequencies = 1 / np.arange(first, n + first)
    return frequencies / frequencies.sum()


class Drawn(NamedTuple):
    """Preferences by the numbers of queries and documents, and when they came, in milliseconds since 1970."""

    queries: list[str]
    docs: list[str]
    query: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    time: NDArray[np.int64]


def drawn(n: int, collection: Collection, seed: int) -> Drawn:
    rng, (_, docs, queries, among) = np.random.default_rng(seed), collection
    came = np.datetime64("2026-01-01", "ms").astype(np.int64) + 3600 * np.arange(1, n + 1)
    if among is not None:
        query, n_among = rng.choice(len(queries), n, p=by_rank(len(queries), 50)), among.shape[1]
        better = rng.integers(n_among, size=n)
        worse = (better + rng.integers(1, n_among, size=n)) % n_among
        return Drawn(queries, docs, query, among[query, better], among[query, worse], came)
    better = rng.integers(len(docs), size=n)
    three = [rng.integers(len(queries), size=n), better, (better + rng.integers(1, len(docs), size=n)) % len(docs)]
    said = np.where(rng.random(n) < 0.1, (rng.random(n) * np.arange(n)).astype(np.int64), np.arange(n))
    while (said[said] != said).any():  # what was said again was itself said again
        said = said[said]
    return Drawn(queries, docs, *(column[said] for column in three), came)


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
    ballots, last = state.box.ballots, state.box.questions.column("last")[state.box.ballots.column("question")]
    before, own = ballots.column("before"), np.arange(len(ballots))
    changed = np.where(last > own, last, np.where(before >= 0, before, own))
    return int(ballots.column("number")[np.where(ballots.column("counts"), changed, changed.max()).argmin()])


def put_columns(state: Replay, given: Drawn) -> None:
    """Have a new replay take in what was drawn, as it takes in entries."""
    box, n = state.box, len(given.query)
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
    box.questions.extend(*columns, known, *nothing[:4], none, *nothing[:2])
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


class Learning(NamedTuple):
    """How long entries took until they counted, and until they were exact after that, in seconds."""

    counting: float
    exact: float


def learn(state: Replay, index: BaseIndex, entries: list[Entry], clock: Clock) -> Learning:
    """As the learner does it."""
    clock.lap()
    number, counting = entries[-1].number, 0.0
    state.prepare(entries)
    if state.seconds_back(entries) > _INTERIM_SECONDS:
        interim = Interim(state)
        interim.apply(entries)
        _version(state, index, number, 0, interim)
        counting = clock.lap()
    state.apply(entries)
    _version(state, index, number, 0)
    exact = clock.lap()
    return Learning(counting, exact) if counting else Learning(exact, 0.0)


class Agreement(NamedTuple):
    """Of two documents for a query: how often they are in the order that the exact version has, in percent."""

    own_before: float
    own_interim: float
    others_before: float
    others_interim: float


def agreement(state: Replay, first_number: int, n: int, seed: int) -> Agreement:
    """Take back n entries, one after the other; what was taught of the same two documents, and of any others."""
    from support.serving import withdrawn

    rng, box = np.random.default_rng(seed), state.box
    asked = np.flatnonzero((box.questions.column("last") >= 0) & (box.questions.column("n_words") > 0))
    sample = rng.choice(asked, min(N_SAMPLED, asked.size), replace=False).tolist()
    found = []
    for number in range(first_number, first_number + n):
        ballot = int(rng.choice(np.flatnonzero(box.ballots.column("counts"))))
        questions = [int(box.ballots.all.question[ballot]), *sample]
        entry = withdrawn(number, int(box.ballots.all.number[ballot]))
        before = orders(state, state.overlay, questions)
        interim = Interim(state)
        interim.apply([entry])
        between = orders(state, interim._overlay, questions)
        state.apply([entry])
        exact = orders(state, state.overlay, questions)
        same = before == exact, between == exact
        found.append([same[0][0], same[1][0], same[0][1:].mean(), same[1][1:].mean()])
    return Agreement(*(100 * np.mean(found, axis=0)).tolist())


def orders(state: Replay, overlay: OnlineLearner, questions: list[int]) -> NDArray[np.float64]:
    leads = [overlay.lead(*state.box.words_of(question)) for question in questions]
    return np.sign(state.box.questions.column("margin")[questions] + leads)


def main() -> None:
    from support.serving import preferred, withdrawn

    arguments = parse_arguments(__doc__, needs_data=False, entries=int, documents=int, queries=int, undos=int)
    n = arguments.entries or (1_000 if arguments.quick else 10_000)
    facts = machine_facts()
    print_facts(facts)
    bounds = LearningBounds()
    if arguments.documents:
        collection = many_texts(arguments.documents, arguments.queries or 4 * arguments.documents, arguments.seed)
    else:
        collection = short_texts(arguments.seed)
    index = collection.index
    warm = Replay(index, bounds)
    warm.compile()
    first = drawn(1, collection, arguments.seed)
    one = preferred(1, first.queries[first.query[0]], first.docs[first.better[0]], first.docs[first.worse[0]])
    warm.apply([one])  # compiles
    Interim(warm).apply([withdrawn(2, 1)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.jsonl")
        memory = resident_bytes()
        given = drawn(n - TAIL, collection, arguments.seed)
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
            late = drawn(n, collection, arguments.seed + 1)
            for i in range(n - TAIL, n):
                three = late.queries[late.query[i]], late.docs[late.better[i]], late.docs[late.worse[i]]
                journal.append(lambda number, three=three: preferred(number, *three, "::1", "teacher"))
            del late
        del state
        clock.lap()
        began = time.monotonic()
        with Journal(path, 2**40) as journal:
            reading = clock.lap()
            state = Replay(index, bounds)
            number = Snapshots(journal, 1).restore(state, "model", journal.entries, 0)
            assert number == n - TAIL
            state.matrix()
            restoring = clock.lap()
            start = learn(state, index, list(journal.entries[number:]), clock)
            elapsed = time.monotonic() - began
            memory = resident_bytes() - memory
            times, entries = {}, []
            said, gone = journal.entries[n // 3], {"undo newest": n, "undo middle": n // 2, "undo oldest": 1}
            for title in ("new vote", "old question", "undo newest", "undo middle", "undo oldest", "undo costliest"):
                number = n + 1 + len(entries)
                if title == "new vote":  # no query has one word
                    word = collection.queries[0].split()[0]
                    entry = preferred(number, word, *collection.docs[:2], "::1", "teacher", 1e5)
                elif title == "old question":
                    entry = preferred(number, said.query, said.worse, said.better, "::1", "teacher", 1e5)
                else:
                    entry = withdrawn(number, gone.get(title) or costliest(state))
                entries.append(entry)
                times[title] = learn(state, index, entries[-1:], clock)
            found, steps = digest_of(state.overlay.matrix()), digest_of(state.box.questions.column("share").copy())
            clock.lap()
            n_pairs = state.overlay.matrix().nnz
            whole = clock.lap()
            is_same = is_same and digest_of(state.matrix()) == found
            if n <= MOST_PARSED:
                state = Replay(index, bounds)
                state.apply(itertools.chain(journal.entries, entries))
            else:
                state._advance(0)
            is_same = is_same and digest_of(state.overlay.matrix()) == found
            is_same = is_same and digest_of(state.box.questions.column("share").copy()) == steps
            if arguments.undos:
                agreed = agreement(state, n + 1 + len(entries), arguments.undos, arguments.seed)
    print_table(
        f"a journal of {n:,} entries, {n_pairs:,} learned pairs, read from the table in {whole:.2f} s; the bits are "
        f"{'those of a replay' if is_same else 'OTHERS'}",
        [
            "start",
            "reading",
            "restoring",
            "counting",
            "exact after",
            "without a snapshot",
            "saving one",
            "MB",
            "kB an entry",
        ],
        [
            [
                f"{reading + restoring + start.counting:.2f} s",
                f"{reading:.2f}",
                f"{restoring:.2f}",
                f"{start.counting:.2f}",
                f"{start.exact:.2f}",
                f"{whole_start:.1f}",
                f"{saving:.2f}",
                f"{kept / 1e6:.1f}",
                f"{memory / n / 1000:.2f}",
            ]
        ],
    )
    print_table(
        "seconds until it counts, and until it is exact after that",
        ["", *times],
        [[title, *(f"{getattr(one, title):.4f}" for one in times.values())] for title in Learning._fields],
    )
    if arguments.undos:
        print_table(
            f"{arguments.undos} entries taken back: pairs of documents in the order of the exact version, %",
            ["", "own", "others"],
            [
                ["before", f"{agreed.own_before:.1f}", f"{agreed.others_before:.3f}"],
                ["interim", f"{agreed.own_interim:.1f}", f"{agreed.others_interim:.3f}"],
            ],
        )
    results = {"entries": n, "reading": reading, "restoring": restoring, "start": start, "elapsed": elapsed}
    results |= {"saving": saving, "without": whole_start if n <= MOST_PARSED else None, "taking": taking}
    results |= {"snapshot_bytes": kept, "memory": memory, "times": times, "same": is_same, "pairs": n_pairs}
    write_json(arguments.output, {"machine": facts, **results})
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()
