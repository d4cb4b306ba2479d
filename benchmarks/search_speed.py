"""Search: the exact top ten against slicing SciPy's columns and against bm25s, also of millions, and reasons.

Documents are made up: words drawn by Zipf's law from 30,000, tf-idf values of unit length. Queries have 300 to 2,000
words, as expanded queries have, each word as likely as any other. At scale (``--only scale --docs 8000000``) documents
have about 60 words of 300,000, weighted by BM25; plain queries have 2 to 8 words, drawn as those of documents are, and
learned ones 300 signed words, of which four count most. bm25s is given the same weights, so that all find the same.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import (
    Clock,
    machine_facts,
    median,
    parse_arguments,
    peak_memory,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    write_json,
)
from tercet.search import Index
from tercet.weights import Identity, LowRank, Weights

N_TERMS, N_WORDS, K = 30_000, 80, 10
DOCS_AT_ONCE = 65_536
Query = tuple[NDArray[np.int32], NDArray[np.float64]]


def documents(n: int, rng: np.random.Generator) -> sparse.csr_array:
    """tf-idf rows of about N_WORDS different words each."""
    share = np.cumsum(1 / (np.arange(N_TERMS) + 10.0))
    draws = np.searchsorted(share / share[-1], rng.random((n, int(1.07 * N_WORDS)))).astype(np.int32)
    draws.sort(axis=1)
    first = np.ones(draws.shape, dtype=bool)
    first[:, 1:] = draws[:, 1:] != draws[:, :-1]
    indptr = np.concatenate(([0], np.cumsum(first.sum(axis=1))))
    terms = draws[first]
    frequency = np.bincount(terms, minlength=N_TERMS)
    values = (1 + np.log(rng.geometric(0.6, terms.size))) * (np.log((1 + n) / (1 + frequency)) + 1)[terms]
    length = np.sqrt(np.add.reduceat(values**2, indptr[:-1]))
    values /= np.repeat(length, np.diff(indptr))
    return sparse.csr_array((values.astype(np.float32), terms, indptr), shape=(n, N_TERMS))


def queries(n: int, signed: bool, rng: np.random.Generator) -> list[Query]:
    found = []
    for _ in range(n):
        terms = np.sort(rng.choice(N_TERMS, rng.integers(300, 2001), replace=False)).astype(np.int32)
        weights = rng.exponential(1, terms.size)
        found.append((terms, weights * rng.choice([-1, 1], terms.size) if signed else weights))
    return found


def as_row(query: Query) -> sparse.csr_array:
    terms, weights = query
    return sparse.csr_array((weights, terms, np.array([0, terms.size])), shape=(1, N_TERMS))


def best_ten(scores: NDArray[Any]) -> list[int]:
    top = np.argpartition(scores, -K)[-K:]
    return top[np.argsort(-scores[top], kind="stable")].tolist()


def in_turn(
    engines: dict[str, Callable[[Any], Any]],
    asked: list[Any],
    rounds: int,
    clock: Clock,
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Milliseconds of each query with each engine, one engine after the other; the fastest of some rounds counts."""
    taken = {name: np.full(len(asked), np.inf) for name in engines}
    for engine in engines.values():
        engine(asked[0])
    with clock.running():
        for _ in range(rounds):
            for at, query in enumerate(asked):
                for name, engine in engines.items():
                    started = now()
                    engine(query)
                    taken[name][at] = min(taken[name][at], 1000 * (now() - started))
    return taken


def against_scipy(n_docs: int, n_queries: int, rng: np.random.Generator, clock: Clock) -> dict[str, Any]:
    D = documents(n_docs, rng)
    single, double = D.tocsc(), D.astype(np.float64).tocsc()
    index = Index.build_rows([str(i) for i in range(n_docs)], D, Weights([Identity(n_terms=N_TERMS)]))
    results: dict[str, Any] = {}
    rows = []
    for kind in ("signed", "non-negative"):
        asked = [(query, as_row(query)) for query in queries(n_queries, kind == "signed", rng)]
        engines: dict[str, Callable[[Any], Any]] = {
            "scipy, float64": lambda query: best_ten(double[:, query[0][0]] @ query[0][1]),
            "scipy, float32": lambda query: best_ten(single[:, query[0][0]] @ query[0][1].astype(np.float32)),
            "tercet": lambda query: index.search_row(query[1], K),
        }
        wrong = sum(
            [int(hit.doc_id) for hit in index.search_row(query[1], K)] != engines["scipy, float64"](query)
            for query in asked
        )
        taken = in_turn(engines, asked, 3, clock)
        rival = min(median(taken[name]) for name in engines if name.startswith("scipy"))
        for name, times in taken.items():
            p50, p99 = np.percentile(times, [50, 99])
            results[f"{kind}: {name}"] = {"p50_ms": p50, "p99_ms": p99, "of_scipy": p50 / rival}
            rows.append((f"{kind}, {name}", f"{p50:.2f}", f"{p99:.2f}", f"{p99 / p50:.2f}", f"{p50 / rival:.2f}"))
        results[f"{kind}: other answers"] = wrong
    head = ("", "p50 ms", "p99 ms", "p99/p50", "of scipy")
    print_table(f"{n_docs:,} documents of {D.nnz / n_docs:.0f} words, top {K}, one core", head, rows)
    for kind, target in (("signed", 1.0), ("non-negative", 0.6)):
        ours = results[f"{kind}: tercet"]
        print(
            f"{kind}: {ours['of_scipy']:.2f} of scipy's time, at most {target}: "
            f"{verdict(ours['of_scipy'], target, at_most=True)}; p99 {ours['p99_ms'] / ours['p50_ms']:.2f} of p50, "
            f"below 2: {verdict(ours['p99_ms'] / ours['p50_ms'], 2.0, at_most=True)}; "
            f"{results[f'{kind}: other answers']} of {n_queries} answers differ"
        )
    return results


def made_up_texts(n: int, rng: np.random.Generator) -> list[str]:
    D = documents(n, rng)
    words = np.array([f"w{i}" for i in range(N_TERMS)])
    return [" ".join(rng.permutation(words[D.indices[a:b]])) for a, b in zip(D.indptr[:-1], D.indptr[1:], strict=True)]


def against_bm25s(n_docs: int, n_queries: int, rng: np.random.Generator, clock: Clock) -> dict[str, Any] | None:
    try:
        import bm25s
    except ImportError:
        print("\nbm25s is not installed, so there is no comparison with it: pip install bm25s")
        return None
    texts = made_up_texts(n_docs, rng)
    drawn = rng.choice(n_docs, n_queries)
    asked = {str(q): " ".join(rng.choice(texts[d].split(), rng.integers(2, 9))) for q, d in enumerate(drawn)}
    ids = [str(i) for i in range(n_docs)]
    backends = ["numpy", "numba"]
    taken: dict[str, dict[str, float]] = {}
    found: dict[str, Any] = {}

    def theirs(backend: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        retriever = bm25s.BM25(k1=0.9, b=0.4, backend=backend)

        def index() -> None:
            retriever.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)

        def search() -> Any:
            tokens = bm25s.tokenize(list(asked.values()), stopwords=None, show_progress=False)
            return retriever.retrieve(tokens, k=K, show_progress=False, n_threads=0)

        return index, search

    def ours() -> tuple[Callable[[], Any], Callable[[], Any]]:
        made: list[Index] = []

        def index() -> None:
            vectorizer = tc.Vectorizer(weighting="bm25", k1=0.9, b=0.4)
            D = vectorizer.fit_transform_docs(texts)
            model = tc.TextModel(vectorizer, vectorizer, Weights([Identity(n_terms=D.shape[1])]))
            made[:] = [Index.build_rows(ids, D, model)]

        return index, lambda: made[0].search_many(asked, K)

    engines = {f"bm25s, {backend}": theirs(backend) for backend in backends} | {"tercet": ours()}
    for name, (index, search) in engines.items():
        taken[name] = {"index s": np.inf, "search s": np.inf}
        with clock.running():
            for _ in range(2):
                started = time.perf_counter()
                index()
                taken[name]["index s"] = min(taken[name]["index s"], time.perf_counter() - started)
        found[name] = search()  # compiles, where something is compiled
    with clock.running():
        for _ in range(3):
            for name, (_, search) in engines.items():
                started = time.perf_counter()
                search()
                taken[name]["search s"] = min(taken[name]["search s"], time.perf_counter() - started)
    rows = [
        (name, f"{times['index s']:.2f}", f"{1e6 * times['search s'] / n_queries:.0f}") for name, times in taken.items()
    ]
    title = f"BM25, {n_docs:,} texts, {n_queries:,} queries of 2 to 8 words; cutting texts into words is included"
    print_table(title, ("", "index s", "µs a query"), rows)
    fastest = {each: min(times[each] for name, times in taken.items() if name != "tercet") for each in taken["tercet"]}
    for each, rival in fastest.items():
        ratio = taken["tercet"][each] / rival
        print(f"{each.split()[0]}: {ratio:.2f} of bm25s's time, at most 1: {verdict(ratio, 1.0, at_most=True)}")
    same = np.mean(
        [
            len(set(found["tercet"][qid]) & {str(d) for d in row}) / K
            for qid, row in zip(asked, found[f"bm25s, {backends[-1]}"].documents, strict=True)
        ]
    )
    print(f"{same:.1%} of the documents that bm25s finds are found here too; the rest are ties or differ in idf.")
    return taken | {"same": same}


def reasons(n_pairs: int, rng: np.random.Generator) -> dict[str, Any]:
    """The largest difference between a score and the sum of its reasons, in parts of the sum of their sizes."""
    D = documents(2000, rng)
    factors = rng.normal(size=(N_TERMS, 50)).astype(np.float32) / 10
    weights = Weights(
        [Identity(n_terms=N_TERMS), LowRank(query_factors=factors, doc_factors=factors, typical_length=1)]
    )
    index = Index.build_rows([str(i) for i in range(D.shape[0])], D, weights)
    worst, done = 0.0, 0
    while done < n_pairs:
        row = D[[int(rng.integers(D.shape[0]))]]
        for hit in index.search_row(row, 100):
            why = index.explain_row(row, hit.doc_id)
            worst = max(worst, abs(why.contribution.sum() - hit.score) / np.abs(why.contribution).sum())
            done += 1
    print(f"\nReasons of {done:,} scores: sums differ by at most {worst:.1e} of the sizes; at most 1e-6: ", end="")
    print(verdict(worst, 1e-6, at_most=True))
    return {"pairs": done, "worst": worst}


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def chunks(n_docs: int, seed: int) -> Iterator[tuple[list[str], sparse.csr_array]]:
    for start in range(0, n_docs, DOCS_AT_ONCE):
        n = min(DOCS_AT_ONCE, n_docs - start)
        yield [str(i) for i in range(start, start + n)], documents(n, np.random.default_rng((seed, start)))


def build_large(path: Path, n_docs: int, seed: int) -> dict[str, float]:
    weights = Weights([Identity(n_terms=N_TERMS)])
    index, taken = None, 0.0
    for ids, D in chunks(n_docs, seed):
        started = time.perf_counter()
        if index is None:
            index = Index.build_rows(ids, D, weights, path)
        else:
            index.add_rows(ids, D)
        taken += time.perf_counter() - started
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {"index s": taken, "gigabytes": size / 2**30}


def search_large(path: Path, n_queries: int, seed: int) -> None:
    """In a process of its own, whose memory is that of the search alone."""
    rng = np.random.default_rng(seed)
    before = resident_mb()
    started = time.perf_counter()
    Index.open(path)
    verified = time.perf_counter() - started
    started = time.perf_counter()
    index = Index.open(path, verify="never")
    opened = time.perf_counter() - started
    rows = [("open, every byte checked", f"{verified:.2f} s", ""), ("open, unchecked", f"{opened:.3f} s", "")]
    rows.append(("resident after opening", "", f"{resident_mb() - before:.0f} MB"))
    for kind in ("signed", "non-negative"):
        asked = [as_row(query) for query in queries(n_queries, kind == "signed", rng)]
        for q in asked:
            index.search_row(q, K)
        times = []
        for q in asked:
            started = time.perf_counter()
            index.search_row(q, K)
            times.append(1000 * (time.perf_counter() - started))
        p50, p99 = np.percentile(times, [50, 99])
        rows.append((f"{kind}, p50 / p99", f"{p50:.1f} / {p99:.1f} ms", f"{resident_mb() - before:.0f} MB"))
    few = [as_row((terms[:5], weights[:5])) for terms, weights in queries(n_queries, False, rng)]
    times = []
    for q in few:
        started = time.perf_counter()
        index.search_row(q, K)
        times.append(1000 * (time.perf_counter() - started))
    rows.append(("five words, p50 / p99", "{:.2f} / {:.2f} ms".format(*np.percentile(times, [50, 99])), ""))
    print_table(f"{len(index):,} documents, mapped", ("", "time", "resident since start"), rows)


def large(n_docs: int, n_queries: int, seed: int) -> dict[str, float]:
    folder = Path(tempfile.mkdtemp(prefix="tercet-search-"))
    try:
        made = build_large(folder / "index", n_docs, seed)
        print(f"\n{n_docs:,} documents: indexed in {made['index s']:.0f} s, {made['gigabytes']:.2f} GB on disk")
        command = [sys.executable, __file__, "--large", str(folder / "index"), "--asked", str(n_queries)]
        sys.stdout.flush()
        subprocess.run(command, check=True)
        return made
    finally:
        shutil.rmtree(folder)


# -- at scale ---------------------------------------------------------------------------------------------------------

MANY_TERMS, MEAN_LENGTH, LEARNED_WORDS = 300_000, 60, 300
_ZIPF = 1 / (np.arange(MANY_TERMS) + 10.0)
SHARES = np.cumsum(_ZIPF) / _ZIPF.sum()


def drawn_words(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.searchsorted(SHARES, rng.random(n))


def bm25_documents(n: int, n_all: int, rng: np.random.Generator) -> sparse.csr_array:
    """BM25 weights (k1 .9, b .4) of documents of 30 to 90 words; idf by how often words are expected."""
    lengths = rng.integers(MEAN_LENGTH // 2, 3 * MEAN_LENGTH // 2 + 1, n)
    keys = np.repeat(np.arange(n), lengths) * MANY_TERMS + drawn_words(lengths.sum(), rng)
    keys, counts = np.unique(keys, return_counts=True)
    rows, terms = keys // MANY_TERMS, (keys % MANY_TERMS).astype(np.int32)
    frequency = n_all * (1 - (1 - _ZIPF / _ZIPF.sum()) ** MEAN_LENGTH)
    idf = np.log(1 + (n_all - frequency + 0.5) / (frequency + 0.5))
    values = idf[terms] * counts * 1.9 / (counts + 0.9 * (0.6 + 0.4 * lengths[rows] / MEAN_LENGTH))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n))))
    return sparse.csr_array((values.astype(np.float32), terms, indptr), shape=(n, MANY_TERMS))


def learned_query(rng: np.random.Generator) -> Query:
    words = np.concatenate((drawn_words(2 * LEARNED_WORDS, rng), rng.integers(0, MANY_TERMS, 2 * LEARNED_WORDS)))
    terms = np.sort(rng.permutation(np.unique(words))[:LEARNED_WORDS]).astype(np.int32)
    weights = rng.exponential(1, terms.size) * rng.choice([-1, 1], terms.size)
    weights[rng.choice(terms.size, 4, replace=False)] = 8.0
    return terms, weights


def at_scale(n_docs: int, n_queries: int, seed: int, clock: Clock) -> dict[str, Any]:
    """Plain and learned queries against bm25s and SciPy, all on the same weights, one query at a time and together.

    Times are of the processor, which others on the machine disturb less than those of the wall.
    """
    folder = Path(tempfile.mkdtemp(prefix="tercet-scale-"))
    path = folder / "index"
    try:
        # In a process of its own, whose memory is that of indexing.
        command = [sys.executable, __file__, "--build", str(path), "--docs", str(n_docs), "--seed", str(seed)]
        summary = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        made: dict[str, float] = json.loads(summary)
        print(
            f"\n{n_docs:,} documents, {made['entries']:,} entries: indexed in {made['seconds']:.0f} processor s; "
            f"{made['gigabytes']:.2f} GB on disk; {made['peak_mb']:.0f} MB of memory at most, the making of documents "
            f"included",
            flush=True,
        )
        return {"index": made, **_at_scale(path, n_docs, n_queries, seed, clock)}
    finally:
        shutil.rmtree(folder)


def build_at_scale(path: Path, n_docs: int, seed: int) -> dict[str, float]:
    """Index documents as they are made, a segment at a time."""
    index, taken, n_entries = None, 0.0, 0
    for start in range(0, n_docs, DOCS_AT_ONCE):
        D = documents_at(start, n_docs, seed)
        n_entries += D.nnz
        ids = [str(row) for row in range(start, start + D.shape[0])]
        started = time.process_time()
        if index is None:
            index = Index.build_rows(ids, D, Weights([Identity(n_terms=MANY_TERMS)]), path)
        else:
            index.add_rows(ids, D)
        taken += time.process_time() - started
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {"entries": n_entries, "seconds": taken, "gigabytes": size / 2**30, "peak_mb": peak_memory() / 2**20}


def documents_at(start: int, n_docs: int, seed: int) -> sparse.csr_array:
    return bm25_documents(min(DOCS_AT_ONCE, n_docs - start), n_docs, np.random.default_rng((seed, start)))


def columns_of(index: Index, n_docs: int, seed: int) -> sparse.csc_array:
    """What the others search: the documents of an index as columns, without ever holding them twice."""
    segments = [entry.segment.kernel_arrays for entry in index._view.entries]
    counts = sum(np.diff(segment.postings.indptr.astype(np.int64)) for segment in segments)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    docs, values = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
    position = indptr[:-1].copy()
    for number, segment in enumerate(segments):
        starts, rows, weights = segment.postings
        n = np.diff(starts.astype(np.int64))
        at = np.repeat(position - starts[:-1], n) + np.arange(rows.size)
        docs[at], values[at] = rows.astype(np.int32) + number * DOCS_AT_ONCE, weights
        position += n
    columns = sparse.csc_array((values, docs, indptr.astype(np.int32)), shape=(n_docs, MANY_TERMS))
    for start in {0, (n_docs - 1) // DOCS_AT_ONCE * DOCS_AT_ONCE}:  # they are those that were made
        D = documents_at(start, n_docs, seed)
        assert (columns[start : start + D.shape[0]].tocsr() != D).nnz == 0, "the index has other documents"
    return columns


def mapped_gigabytes(path: Path) -> float:
    """How much of the files below a folder this process has mapped and in memory."""
    resident, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            counts = str(path) in line
        elif counts and line.startswith("Rss:"):
            resident += int(line.split()[1])
    return resident / 2**20


def _at_scale(path: Path, n_docs: int, n_queries: int, seed: int, clock: Clock) -> dict[str, Any]:
    index = Index.open(path, verify="never")
    columns = columns_of(index, n_docs, seed)
    index = Index.open(path, verify="never")  # with nothing of it in memory that a search has not read
    rng = np.random.default_rng(seed)
    plain = [np.unique(drawn_words(rng.integers(2, 9), rng)).astype(np.int32) for _ in range(n_queries)]
    learned = [learned_query(rng) for _ in range(n_queries // 4)]

    def row(terms: NDArray[Any], weights: NDArray[Any]) -> sparse.csr_array:
        return sparse.csr_array((weights, terms, np.array([0, terms.size])), shape=(1, MANY_TERMS))

    asked = {"plain": [(one, np.ones(one.size)) for one in plain], "learned": learned}
    theirs = bm25s_over(columns)
    found: dict[str, dict[str, float]] = {}
    for kind, some in asked.items():
        engines: dict[str, Callable[[Any], Any]] = {
            "tercet": lambda query: index.search_row(query[1], K),
        }
        if kind == "learned":
            engines["scipy"] = lambda query: best_ten(columns[:, query[0][0]] @ query[0][1].astype(np.float32))
        elif theirs is not None:
            engines["bm25s, numba"] = lambda query: theirs([query[0][0].tolist()])
        rows = [(query, row(*query)) for query in some]
        for query in rows[:20]:
            values = columns[:, query[0][0]] @ query[0][1]
            hits = np.array([values[int(hit.doc_id)] for hit in index.search_row(query[1], K)])
            assert np.allclose(hits, np.sort(values)[::-1][: hits.size], rtol=1e-5), "another answer than SciPy's"
        for name, times in in_turn(engines, rows, 3, clock, time.process_time).items():
            found[f"{kind}, {name}"] = {
                "mean ms": times.mean(),
                "p50 ms": median(times),
                "p99 ms": np.percentile(times, 99),
            }
    together = sparse.vstack([row(one, np.ones(one.size)) for one in plain]).tocsr()
    batches: dict[str, Callable[[], Any]] = {
        "tercet": lambda: [index._view.search(block, K) for block in index._view.scorer.expand(together)]
    }
    if theirs is not None:
        batches["bm25s, numba"] = lambda: theirs([one.tolist() for one in plain])
    for name, search in batches.items():
        search()  # compiles
        best = np.inf
        with clock.running():
            for _ in range(3):
                started = time.process_time()
                search()
                best = min(best, time.process_time() - started)
        found[f"plain together, {name}"] = {"mean ms": 1000 * best / n_queries}
    lines = [
        (name, *(f"{times[each]:.3f}" if each in times else "" for each in ("mean ms", "p50 ms", "p99 ms")))
        for name, times in found.items()
    ]
    print_table(f"{n_docs:,} documents, top {K}, one core", ("", "mean ms", "p50 ms", "p99 ms"), lines)
    for kind, rival, most in (
        ("plain", "bm25s, numba", 1 / 3),
        ("plain together", "bm25s, numba", 1 / 3),
        ("learned", "scipy", 1 / 3),
    ):
        if f"{kind}, {rival}" in found:
            ratio = found[f"{kind}, tercet"]["mean ms"] / found[f"{kind}, {rival}"]["mean ms"]
            print(f"{kind}: {ratio:.2f} of the time of {rival}, at most .33: {verdict(ratio, most, at_most=True)}")
    held = sum(array.nbytes for array in (columns.data, columns.indices, columns.indptr)) / 2**30
    resident = mapped_gigabytes(path)
    print(f"In memory after all queries: {resident:.2f} GB of the mapped index; columns of the others {held:.2f} GB.")
    return found | {"memory": {"mapped gb": resident, "columns gb": held}}


def bm25s_over(columns: sparse.csc_array) -> Callable[[list[list[int]]], Any] | None:
    """bm25s over weights that are there already; None where it is not installed."""
    try:
        import bm25s
    except ImportError:
        print("\nbm25s is not installed, so there is no comparison with it: pip install bm25s")
        return None
    retriever = bm25s.BM25(backend="numba")
    retriever.scores = {
        "data": columns.data,
        "indices": columns.indices,
        "indptr": columns.indptr.astype(np.int64),
        "num_docs": columns.shape[0],
    }
    retriever.nonoccurrence_array = None
    retriever.vocab_dict = {str(term): term for term in range(columns.shape[1])}
    retriever.unique_token_ids_set = set(range(columns.shape[1]))
    return lambda queries: retriever.retrieve(queries, k=K, show_progress=False, n_threads=0)


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, large=Path, asked=int, only=str, docs=int, build=Path)
    if arguments.large is not None:
        search_large(arguments.large, arguments.asked, arguments.seed)
        return
    if arguments.build is not None:
        print(json.dumps(build_at_scale(arguments.build, arguments.docs, arguments.seed)))
        return
    quick, rng = arguments.quick, np.random.default_rng(arguments.seed)
    facts, clock = machine_facts(), Clock()
    print_facts(facts)
    results: dict[str, Any] = {"machine": facts}
    wanted = arguments.only.split(",") if arguments.only else ["scipy", "bm25s", "reasons", "large"]
    if "scipy" in wanted:
        results["scipy"] = against_scipy(5_000 if quick else 50_000, 20 if quick else 200, rng, clock)
    if "bm25s" in wanted:
        results["bm25s"] = against_bm25s(2_000 if quick else 50_000, 100 if quick else 1_000, rng, clock)
    if clock.wall:
        print()
        say_if_disturbed([clock])
    if "reasons" in wanted:
        results["reasons"] = reasons(500 if quick else 10_000, rng)
    if "scale" in wanted:
        n_docs = arguments.docs or (50_000 if quick else 1_000_000)
        results["scale"] = at_scale(n_docs, arguments.asked or (100 if quick else 400), arguments.seed, clock)
        say_if_disturbed([clock])
    if "large" in wanted:
        results["large"] = large(20_000 if quick else 1_000_000, 20 if quick else 100, arguments.seed)
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
