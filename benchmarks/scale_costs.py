"""What a document, a preference and a query cost, in bytes and seconds, at 10⁴, 10⁵ and 10⁶ documents.

Documents are made up: 120 words each, drawn by Zipf's law from 200,000, in 50 classes that share words. Every cell is a
process of its own, so that its peak memory is its own. Then simulations of what these sizes do not show: a vocabulary
of 2.5 million words, documents that are no longer in the system's memory, rounds of training with up to 32 workers, and
an index in ten pieces whose answers are merged.

``scale_projection.py`` reads the JSON of this and says what larger collections would take.
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
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import Clock, machine_facts, median, parse_arguments, peak_memory, print_facts, print_table, write_json
from tercet.data.sampling import LabelSampler
from tercet.learn import SampledSource
from tercet.text.vectors import Vectors, vectorize
from tercet.weights import Identity, LowRank, Sparse, Weights

N_WORDS, WORDS_A_DOC, N_CLASSES = 200_000, 120, 50
N_QUERIES, WORDS_A_QUERY, K = 200, 4, 10
N_COMPONENTS = 100
N_FREQUENT = 30_000  # words that models learn about, as the SSI paper's limited dictionary
PAIRS_A_WORD = 60  # of a learned sparse W
SIZES = (10_000, 100_000, 1_000_000)
STEPS = {"low rank": 100_000, "sparse": 20_000, "diagonal": 400_000}
DOCS_AT_ONCE = 8192


# -- what is made up ----------------------------------------------------------------------------------------------


def words_of(first: int, n: int, rng: np.random.Generator, n_words: int = N_WORDS) -> NDArray[np.int64]:
    """Words (n, WORDS_A_DOC) by Zipf's law; half of them are frequent in the document's class and rare elsewhere."""
    share = np.cumsum(1 / (np.arange(n_words) + 10.0))
    words = np.searchsorted(share / share[-1], rng.random((n, WORDS_A_DOC)))
    own = (first + np.arange(n)) % N_CLASSES * (n_words // (2 * N_CLASSES))
    words[:, ::2] = (words[:, ::2] + own[:, None] + n_words // 2) % n_words
    return words


def texts(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """(id, text), the same at every pass."""
    spelled = np.array([f"w{word:x}" for word in range(N_WORDS)], dtype=object)
    for start in range(0, n, DOCS_AT_ONCE):
        rng = np.random.default_rng([seed, start])
        for at, row in enumerate(words_of(start, min(DOCS_AT_ONCE, n - start), rng)):
            yield f"doc{start + at}", " ".join(spelled[row])


def question_texts(seed: int) -> dict[str, str]:
    rng = np.random.default_rng([seed, 10**9])
    rows = words_of(0, N_QUERIES, rng)[:, :WORDS_A_QUERY]
    return {f"q{at}": " ".join(f"w{word:x}" for word in row) for at, row in enumerate(rows)}


class Texts:
    """Documents that can be read again and again."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return texts(self.n, self.seed)


def seconds_of_reading(n: int, seed: int) -> float:
    """What making up the texts takes, which is no cost of ours."""
    started = time.perf_counter()
    for _ in texts(n, seed):
        pass
    return time.perf_counter() - started


def percentiles(index: Any, seed: int) -> dict[str, float]:
    """Seconds of one query after the other, after a first pass over all of them that brings the index to memory."""
    asked = list(question_texts(seed).values())
    for text in asked:
        index.search(text, K)
    seconds = []
    for text in asked:
        started = time.perf_counter()
        index.search(text, K)
        seconds.append(time.perf_counter() - started)
    return {"p50": median(seconds), "p99": sorted(seconds)[int(0.99 * len(seconds))]}


def folder_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def made_up_model(words: tc.Vectorizer, kind: str, rng: np.random.Generator) -> tc.TextModel:
    n = len(words.words_)
    if kind == "low rank":
        U, V = rng.normal(0, 0.05, (2, n, N_COMPONENTS)).astype(np.float32)
        parts = [LowRank(query_factors=U, doc_factors=V), Identity(n_terms=n)]
    elif kind == "sparse":
        rows = np.repeat(np.arange(n), PAIRS_A_WORD)
        pairs = (rng.normal(0, 0.1, rows.size).astype(np.float32), (rows, rng.integers(0, n, rows.size)))
        parts = [Identity(n_terms=n), Sparse(weights=sparse.csr_array(pairs, shape=(n, n)))]
    else:
        parts = [Identity(n_terms=n)]
    return tc.TextModel(words, words, Weights(parts))


# -- jobs, each in a process of its own -----------------------------------------------------------------------------


def job_nothing(n: int, folder: Path, seed: int) -> dict[str, Any]:
    return {}


def job_vectorize(n: int, folder: Path, seed: int) -> dict[str, Any]:
    """Texts to vectors on disk; making up the texts is timed apart and taken off."""
    started = time.perf_counter()
    characters = sum(len(text) for _, text in texts(n, seed))
    made_up = time.perf_counter() - started
    started = time.perf_counter()
    vectors = vectorize(Texts(n, seed), question_texts(seed), folder / "vectors")
    seconds = time.perf_counter() - started - made_up
    return {
        "seconds": seconds,
        "text_bytes": characters,
        "bytes": folder_bytes(folder / "vectors"),
        "entries": vectors.docs.nnz,
        "words": vectors.docs.shape[1],
    }


def job_fit(n: int, folder: Path, seed: int, kind: str) -> dict[str, Any]:
    """Learning from preferences drawn on the fly, documents from mapped rows."""
    vectors = Vectors.open(folder / "vectors")
    y = np.arange(n) % N_CLASSES
    rankers = {
        "low rank": tc.LowRankRanker(n_components=N_COMPONENTS, n_frequent=N_FREQUENT, rate=0.02),
        "sparse": tc.SparseRanker(l1=1e-5, refit=False, rate=2.0, max_memory=4 * 2**30),
        "diagonal": tc.DiagonalRanker(rate=1.0),
    }
    ranker = rankers[kind].set_params(verbose=False)
    warm = SampledSource(LabelSampler(y), 1, random_state=seed)
    ranker.fit(vectors.docs, warm)
    before = peak_memory()
    n_steps = STEPS[kind]
    source = SampledSource(LabelSampler(y), n_steps, random_state=seed)
    with (clock := Clock()).running():
        ranker.fit(vectors.docs, source)
    meta, arrays = ranker._state.to_state()
    return {
        "seconds": clock.wall,
        "steps": n_steps,
        "model_bytes": sum(array.nbytes for array in arrays.values()),
        "peak_before": before,
        "violations": float(np.mean([event.violation_rate for event in ranker.history_])),
        "step": meta["step"],
    }


def job_index(n: int, folder: Path, seed: int) -> dict[str, Any]:
    words = Vectors.open(folder / "vectors").vectorizer
    model = made_up_model(words, "identity", np.random.default_rng(seed))
    made_up = seconds_of_reading(n, seed)
    started = time.perf_counter()
    index = tc.Index.build(Texts(n, seed), model, folder / "index", keep_texts=False)
    seconds = time.perf_counter() - started - made_up
    return {"seconds": seconds, "bytes": folder_bytes(folder / "index" / "segments"), "segments": index.n_segments}


def job_query(n: int, folder: Path, seed: int, kind: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    words = Vectors.open(folder / "vectors").vectorizer
    index = tc.Index.open(folder / "index", made_up_model(words, kind, rng), verify="never")
    latent = 4 * N_COMPONENTS * n if kind == "low rank" else 0
    return {**percentiles(index, seed), "latent_bytes": latent}


# -- simulations -----------------------------------------------------------------------------------------------------


def matrix_of(n_docs: int, n_words: int, seed: int) -> sparse.csr_array:
    """Documents as rows, every word of one with the same weight."""
    rows = np.sort(words_of(0, n_docs, np.random.default_rng(seed), n_words), axis=1)
    first = np.ones(rows.shape, dtype=bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    indptr = np.concatenate(([0], np.cumsum(first.sum(axis=1))))
    values = np.full(indptr[-1], WORDS_A_DOC**-0.5, dtype=np.float32)
    return sparse.csr_array((values, rows[first].astype(np.int32), indptr), shape=(n_docs, n_words))


def job_workers(n: int, folder: Path, seed: int) -> dict[str, Any]:
    """Three rounds of low-rank training with ``n`` shares of 4,096 steps, taken one after the other in this process."""
    D = matrix_of(50_000, N_WORDS, seed)
    steps = 4096 * n
    source = SampledSource(LabelSampler(np.arange(D.shape[0]) % N_CLASSES), 3 * steps, random_state=seed)
    with tc.Cluster(f"here:{n}", steps_per_round=steps) as cluster:
        tc.LowRankRanker(n_components=N_COMPONENTS, rate=0.02, verbose=False).fit(D, source)
    facts = cluster.rounds[1:]  # the first one compiles
    return {
        "bytes_down": float(np.mean([each.bytes_down for each in facts])),
        "bytes_up": float(np.mean([each.bytes_up for each in facts])),
        "bytes_between": float(np.mean([each.bytes_between for each in facts])),
        "share_seconds": float(np.mean([each.worker_seconds for each in facts])),
        "driver_seconds": float(np.mean([each.driver_seconds for each in facts])),
    }


def job_vocabulary(n: int, folder: Path, seed: int) -> dict[str, Any]:
    """Steps of a low-rank model over ``n`` words, factors for all of them: what a large vocabulary does to a step."""
    D = matrix_of(20_000, n, seed)
    ranker = tc.LowRankRanker(n_components=N_COMPONENTS, rate=0.02, verbose=False)
    sampler = LabelSampler(np.arange(D.shape[0]) % N_CLASSES)
    ranker.fit(D, SampledSource(sampler, 1, random_state=seed))
    with (clock := Clock()).running():
        ranker.fit(D, SampledSource(sampler, 20_000, random_state=seed))
    starting = Clock()
    with starting.running():
        ranker.fit(D, SampledSource(sampler, 1, random_state=seed))
    return {"seconds": clock.wall - starting.wall, "steps": 20_000, "model_bytes": 2 * 4 * n * N_COMPONENTS}


def job_cold_rows(n: int, folder: Path, seed: int) -> dict[str, Any]:
    """Rows of documents at random places, from memory and after the system was told to drop the files from it."""
    rows = Vectors.open(folder / "vectors").docs
    rng, count, rounds = np.random.default_rng(seed), 4096, 5
    rows[: min(count, n)]
    times: dict[str, list[float]] = {"warm": [], "cold": []}
    for kind in times:
        for _ in range(rounds):
            numbers = rng.integers(0, n, count)
            if kind == "cold":
                rows = Vectors.open(folder / "vectors").docs  # lets go of pages that are still mapped
                for file in (folder / "vectors").rglob("*.safetensors"):
                    descriptor = os.open(file, os.O_RDONLY)
                    os.fsync(descriptor)
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(descriptor)
            started = time.perf_counter()
            rows[numbers]
            times[kind].append(time.perf_counter() - started)
    return {f"{kind}_seconds_a_row": median(seconds) / count for kind, seconds in times.items()}


def job_pieces(n: int, folder: Path, seed: int) -> dict[str, Any]:
    """One index against ten of a tenth each, whose best ten are merged: same answers, and what merging costs."""
    vectors = Vectors.open(folder / "vectors")
    model = made_up_model(vectors.vectorizer, "identity", np.random.default_rng(seed))
    whole = tc.Index.open(folder / "index", model, verify="never")
    n_pieces = 10
    every = -(-n // n_pieces)
    documents = texts(n, seed)
    pieces = [
        tc.Index.build(islice(documents, every), model, folder / f"piece{at}", keep_texts=False)
        for at in range(n_pieces)
    ]
    same, merging, slowest, alone = 0, [], [], []
    asked = list(question_texts(seed).values())
    for text in asked:  # once to bring them to memory
        whole.search(text, K), [piece.search(text, K) for piece in pieces]
    for text in asked:
        started = time.perf_counter()
        expected = [(hit.doc_id, hit.score) for hit in whole.search(text, K)]
        alone.append(time.perf_counter() - started)
        times, found = [], []
        for at, piece in enumerate(pieces):
            started = time.perf_counter()
            found.extend((-hit.score, at, rank, hit.doc_id) for rank, hit in enumerate(piece.search(text, K)))
            times.append(time.perf_counter() - started)
        slowest.append(max(times))
        started = time.perf_counter()
        merged = [(doc_id, -score) for score, _, _, doc_id in sorted(found)[:K]]
        merging.append(time.perf_counter() - started)
        same += merged == expected
    return {
        "same_answers": same,
        "queries": len(asked),
        "whole_p50": median(alone),
        "slowest_piece_p50": median(slowest),
        "merging_p50": median(merging),
    }


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "nothing": job_nothing,
    "vectorize": job_vectorize,
    "fit low rank": lambda n, folder, seed: job_fit(n, folder, seed, "low rank"),
    "fit sparse": lambda n, folder, seed: job_fit(n, folder, seed, "sparse"),
    "fit diagonal": lambda n, folder, seed: job_fit(n, folder, seed, "diagonal"),
    "index": job_index,
    "query identity": lambda n, folder, seed: job_query(n, folder, seed, "identity"),
    "query sparse": lambda n, folder, seed: job_query(n, folder, seed, "sparse"),
    "query low rank": lambda n, folder, seed: job_query(n, folder, seed, "low rank"),
    "cold rows": job_cold_rows,
    "vocabulary": job_vocabulary,
    "workers": job_workers,
    "pieces": job_pieces,
}
PER_SIZE = tuple(name for name in JOBS if name not in ("nothing", "vocabulary", "workers", "pieces"))


def run_job(name: str, n: int, folder: Path, seed: int) -> dict[str, Any]:
    """A job in a new process; its peak memory is told with what it gives."""
    command = [sys.executable, __file__, "--job", name, "--size", str(n), "--folder", str(folder), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} at {n:,} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    brief = ", ".join(f"{key} {value:.6g}" for key, value in found.items())
    print(f"  {n:>9,}  {name}: {brief}", flush=True)
    return found


# -- tables -----------------------------------------------------------------------------------------------------------


def print_costs(results: dict[str, dict[str, dict[str, Any]]], sizes: Iterable[int], nothing: int) -> None:
    columns = [results[str(n)] for n in sizes]
    head = ["", *(f"{n:,}" for n in sizes)]

    def row(title: str, value: Callable[[dict[str, Any], int], str]) -> list[str]:
        return [title, *(value(column, n) for column, n in zip(columns, sizes, strict=True))]

    def memory(job: str) -> Callable[[dict[str, Any], int], str]:
        return lambda c, n: f"{(c[job]['peak_memory'] - nothing) / 2**20:,.0f}"

    print_table(
        "Per document",
        head,
        [
            row("vectorize, µs", lambda c, n: f"{1e6 * c['vectorize']['seconds'] / n:.0f}"),
            row("vectors on disk, bytes", lambda c, n: f"{c['vectorize']['bytes'] / n:.0f}"),
            row("text, bytes", lambda c, n: f"{c['vectorize']['text_bytes'] / n:.0f}"),
            row("different words", lambda c, n: f"{c['vectorize']['entries'] / n:.0f}"),
            row("index, µs", lambda c, n: f"{1e6 * c['index']['seconds'] / n:.0f}"),
            row("index on disk, bytes", lambda c, n: f"{c['index']['bytes'] / n:.0f}"),
        ],
    )
    print_table(
        "Per preference",
        head,
        [
            row(f"{kind}, µs a step", lambda c, n, k=kind: f"{1e6 * c[f'fit {k}']['seconds'] / STEPS[k]:.1f}")
            for kind in STEPS
        ],
    )
    print_table(
        "Per query, ms, 50th / 99th percentile",
        head,
        [
            row(title, lambda c, n, j=job: f"{1e3 * c[j]['p50']:.2f} / {1e3 * c[j]['p99']:.2f}")
            for title, job in (
                ("identity", "query identity"),
                ("sparse W", "query sparse"),
                ("low rank", "query low rank"),
            )
        ],
    )
    print_table(
        f"Most memory, MB more than the {nothing / 2**20:.0f} of a process that only imports",
        head,
        [row(job, memory(job)) for job in PER_SIZE],
    )


def print_simulations(results: dict[str, Any]) -> None:
    print_table(
        "A low-rank step by the size of the vocabulary, factors for all words",
        ["words", "µs", "factors, MB"],
        [
            (f"{int(n):,}", f"{1e6 * job['seconds'] / job['steps']:.1f}", f"{job['model_bytes'] / 1e6:,.0f}")
            for n, job in results["vocabulary"].items()
        ],
    )
    print_table(
        f"A round of 4,096 steps a share, low rank of {N_COMPONENTS} over {N_WORDS:,} words",
        ["shares", "MB down", "MB up", "MB between workers", "s a share", "s of the driver"],
        [
            (
                n,
                *(f"{job[f'bytes_{way}'] / 1e6:,.0f}" for way in ("down", "up", "between")),
                f"{job['share_seconds']:.2f}",
                f"{job['driver_seconds']:.2f}",
            )
            for n, job in results["workers"].items()
        ],
    )
    pieces = results["pieces"]
    print(
        f"\nTen pieces: {pieces['same_answers']} of {pieces['queries']} answers as from one index, whose median is "
        f"{1e3 * pieces['whole_p50']:.2f} ms;\nthe slowest piece has {1e3 * pieces['slowest_piece_p50']:.2f} ms, and "
        f"merging takes {1e3 * pieces['merging_p50']:.3f} ms."
    )


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, job=str, size=int, folder=str)
    if arguments.job:
        found = JOBS[arguments.job](arguments.size, Path(arguments.folder or "."), arguments.seed)
        print(json.dumps(found | {"peak_memory": peak_memory()}))
        return
    sizes = (2_000, 5_000) if arguments.quick else SIZES
    facts = machine_facts()
    print_facts(facts)
    nothing = run_job("nothing", 0, Path("."), arguments.seed)["peak_memory"]
    results: dict[str, Any] = {}
    scratch = Path(tempfile.mkdtemp(prefix="tercet-scale-"))
    try:
        for n in sizes:
            folder = scratch / str(n)
            folder.mkdir()
            results[str(n)] = {name: run_job(name, n, folder, arguments.seed) for name in PER_SIZE}
            if n == sizes[-1]:
                results["pieces"] = run_job("pieces", n, folder, arguments.seed)
            shutil.rmtree(folder)
        results["vocabulary"] = {
            str(n): run_job("vocabulary", n, scratch, arguments.seed)
            for n in ((10_000, 30_000) if arguments.quick else (30_000, 200_000, 2_500_000))
        }
        results["workers"] = {
            str(n): run_job("workers", n, scratch, arguments.seed) for n in ((2, 4) if arguments.quick else (2, 8, 32))
        }
    finally:
        shutil.rmtree(scratch)
    print_costs(results, sizes, nothing)
    print_simulations(results)
    write_json(arguments.output, {"facts": facts, "seed": arguments.seed, "nothing": nothing, "results": results})


if __name__ == "__main__":
    main()
