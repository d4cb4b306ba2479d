"""Steps a second on a GPU against one core of the same machine, in one run, with the bytes that steps must move and the
share of the GPU's measured bandwidth; what the same bits every time cost; and training at the scale of Wikipedia.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import tercet as tc
from common import (
    add_shared_options,
    check_data_home,
    load_newsgroups,
    machine_facts,
    print_facts,
    print_table,
    write_json,
)
from tercet.data.sampling import JudgementSampler
from tercet.gpu import device, find_gpu
from tercet.learn import SampledSource
from tercet.measure import average_precision_of_classes
from tercet.weights import Identity, Weights

PARTS = ("newsgroups", "words", "deterministic", "wikipedia", "growth")


def bandwidth(gpu: Any) -> float:
    """Bytes read and written in a second by a copy within the GPU's memory, the median of ten."""
    xp = gpu.xp
    source, target = xp.zeros(1 << 30, dtype=xp.float32), xp.zeros(1 << 30, dtype=xp.float32)
    seconds = []
    for _ in range(12):
        began, ended = xp.cuda.Event(), xp.cuda.Event()
        began.record()
        xp.copyto(target, source)
        ended.record()
        ended.synchronize()
        seconds.append(xp.cuda.get_elapsed_time(began, ended) / 1000)
    return 2 * source.nbytes / float(np.median(seconds[2:]))


class Timed:
    """A ranker that was fitted, and how fast: from the first chunk's end to the last's where there are many."""

    def __init__(
        self,
        make: Callable[..., Any],
        X: Any,
        source: SampledSource,
        *,
        there: str,
        deterministic: bool = False,
        **how: Any,
    ) -> None:
        began = time.perf_counter()
        with device(there, strict=True, deterministic=deterministic):
            self.ranker = make(**how).fit(X, source)
        self.seconds = time.perf_counter() - began  # the start, copies to the GPU and back included
        events = self.ranker.history_
        if len(events) > 2:
            first = events[0]
            self.rate = (events[-1].step - first.step) / (events[-1].seconds - first.seconds)
        else:
            self.rate = events[-1].step / events[-1].seconds
        self.violations = float(np.mean([event.violation_rate for event in events]))


def newsgroups(arguments: argparse.Namespace, gpu: Any, peak: float) -> list[dict[str, Any]]:
    """20 Newsgroups, 10,000 words: every kind of W, on the GPU and on one core."""
    data = load_newsgroups(arguments.data_home)
    queries = np.arange(0, len(data.y_test), max(1, len(data.y_test) // 1000))[:1000]
    lengths = np.diff(data.X.indptr)
    rows, found = [], []
    quick = 50 if arguments.quick else 1
    kinds = {
        "low rank, tied, 100": (
            lambda **p: tc.LowRankRanker(n_components=100, tied=True, rate=0.1, **p),
            60_000_000,
            300_000,
        ),
        "low rank, 100": (lambda **p: tc.LowRankRanker(n_components=100, rate=0.1, **p), 60_000_000, 300_000),
        "dense": (lambda **p: tc.DenseRanker(**p), 10_000_000, 100_000),
        "sparse, l1 = 5e-6": (lambda **p: tc.SparseRanker(refit=False, **p), 10_000_000, 100_000),
        "sparse, l1 = 5e-6, refit": (lambda **p: tc.SparseRanker(**p), 2_000_000, 50_000),
        "diagonal": (lambda **p: tc.DiagonalRanker(**p), 40_000_000, 1_000_000),
    }
    for name, (make, n_gpu, n_core) in kinds.items():
        runs = {}
        for there, n in (("cuda", n_gpu), ("cpu", n_core)):
            source = SampledSource.from_labels(data.y, max(1000, n // quick), random_state=arguments.seed)
            Timed(make, data.X, SampledSource.from_labels(data.y, 2000), there=there)  # compiles
            runs[there] = Timed(make, data.X, source, there=there, random_state=arguments.seed)
        few = SampledSource.from_labels(data.y, max(1000, n_core // quick), random_state=arguments.seed)
        same = Timed(make, data.X, few, there="cuda").ranker
        with device("cuda"):
            maps = [
                average_precision_of_classes(ranker.weights_, data.X_test, data.y_test, queries).mean()
                for ranker in (runs["cuda"].ranker, same, runs["cpu"].ranker)
            ]
        ratio = runs["cuda"].rate / runs["cpu"].rate
        found.append(
            {
                "model": name,
                "steps_per_second": runs["cuda"].rate,
                "steps_per_second_core": runs["cpu"].rate,
                "ratio": ratio,
                "violations": runs["cuda"].violations,
                "map": maps[0],
                "map_same_steps": maps[1],
                "map_core": maps[2],
            }
        )
        rows.append(
            [
                name,
                f"{runs['cuda'].rate / 1e6:.2f} M",
                f"{runs['cpu'].rate:,.0f}",
                f"{ratio:,.0f}",
                f"{runs['cuda'].violations:.0%}",
                f"{maps[0]:.3f} ({n_gpu // quick:,})",
                f"{maps[1]:.3f}, {maps[2]:.3f} ({n_core // quick:,})",
            ]
        )
    print_table(
        f"20 Newsgroups, 10,000 words, {lengths.mean():.0f} a text",
        ["W", "steps/s, GPU", "steps/s, one core", "times", "violations", "MAP (steps)", "MAP, GPU and core (steps)"],
        rows,
    )
    return found


def topical(gpu: Any, n_docs: int, n_words: int, n_topics: int, length: int, seed: int) -> tuple[Any, Any]:
    """Texts of Zipf words, one in eight from about 200 words of the text's topic; unit length, weighed by rareness.

    Two texts of a topic seldom share one of its words, and each of these is also a word of other topics.
    """
    xp = gpu.xp
    rng = xp.random.default_rng(seed)
    topic = rng.integers(0, n_topics, n_docs)
    per_block, blocks = 1 << 18, []
    for start in range(0, n_docs, per_block):
        n = min(per_block, n_docs - start)
        # Zipf with exponent about 1: ranks are spread evenly on a logarithmic scale.
        common = xp.exp(rng.random((n, length)) * np.log(n_words)).astype(xp.int64) - 1
        inner = rng.integers(0, 200, (n, length))
        scattered = (topic[start : start + n, None] * 200 + inner) * 2654435761 % n_words
        word = xp.where(rng.random((n, length)) < 0.125, scattered, common).clip(0, n_words - 1)
        blocks.append(xp.unique((xp.arange(start, start + n)[:, None] * n_words + word).reshape(-1)))
    keys = xp.concatenate(blocks)
    doc, word = keys // n_words, (keys % n_words).astype(xp.int32)
    weight = xp.log(n_docs / xp.maximum(xp.bincount(word, minlength=n_words), 1))[word]
    length_of = xp.sqrt(xp.bincount(doc, weights=weight**2, minlength=n_docs))
    data = (weight / length_of[doc]).astype(xp.float32)
    indptr = xp.concatenate((xp.zeros(1, dtype=xp.int64), xp.cumsum(xp.bincount(doc, minlength=n_docs))))
    arrays = [gpu.to_host(array) for array in (data, word, indptr)]
    return sparse.csr_array(tuple(arrays), shape=(n_docs, n_words)), gpu.to_host(topic)


def precision_at_10(weights: Any, X: Any, topic: Any, queries: Any) -> float:
    """The share of the ten best, the text itself left out, that are of its topic; ranked on the card."""
    with device("cuda"):
        docs, _ = weights.rank(X[queries], X, 11)
    others = docs != queries[:, None]
    right = (topic[docs] == topic[queries][:, None]) & others
    return float(np.mean([found[kept][:10].mean() for found, kept in zip(right, others, strict=True)]))


def bytes_of_step(X: Any, n_components: int, violations: float) -> float:
    """That a low-rank step must move: rows of the words of three texts are read, and where it learns written."""
    row = 4 * -(-n_components // 8) * 8
    return 3 * X.nnz / X.shape[0] * row * (1 + violations)


def words(arguments: argparse.Namespace, gpu: Any, peak: float) -> list[dict[str, Any]]:
    """Low rank where the factors do not fit the GPU's cache."""
    rows, found = [], []
    shrink = 20 if arguments.quick else 1
    for n_words in (100_000, 1_000_000, 2_500_000):
        X, topic = topical(gpu, 400_000 // shrink, n_words // shrink, 4000 // shrink, 60, arguments.seed)
        steps = 30_000_000 // shrink**2
        # With a margin that nothing reaches and steps that change next to nothing, every step learns.
        for tied, learns in ((True, "few"), (False, "few"), (True, "all"), (False, "all")):
            how = {"rate": 0.1} if learns == "few" else {"rate": 1e-7, "margin": 1e6}
            source = SampledSource.from_labels(topic, steps, random_state=arguments.seed)
            run = Timed(tc.LowRankRanker, X, source, n_components=100, tied=tied, there="cuda", **how)
            moved = bytes_of_step(X, 100, run.violations) * run.rate
            found.append(
                {
                    "words": X.shape[1],
                    "tied": tied,
                    "steps_per_second": run.rate,
                    "violations": run.violations,
                    "bytes_per_second": moved,
                    "share": moved / peak,
                }
            )
            rows.append(
                [
                    f"{X.shape[1]:,}",
                    "U'U" if tied else "U'V",
                    f"{X.shape[1] * 416 * (2 - tied) / 1e6:,.0f} MB",
                    f"{run.rate / 1e6:.1f} M",
                    f"{run.violations:.0%}",
                    f"{moved / 1e12:.2f} TB/s",
                    f"{moved / peak:.0%}",
                ]
            )
    print_table(
        f"Low rank, 100 components, synthetic texts of about {X.nnz / X.shape[0]:.0f} words; bandwidth of a copy "
        f"{peak / 1e12:.2f} TB/s",
        ["words", "W", "factors", "steps/s", "violations", "bytes moved", "of the bandwidth"],
        rows,
    )
    return found


def deterministic(arguments: argparse.Namespace, gpu: Any, peak: float) -> list[dict[str, Any]]:
    """What the same bits every time cost."""
    data = load_newsgroups(arguments.data_home)
    rows, found = [], []
    quick = 50 if arguments.quick else 1
    for name, make, n in (
        ("low rank, tied, 100", lambda **p: tc.LowRankRanker(n_components=100, tied=True, **p), 10_000_000),
        ("dense", lambda **p: tc.DenseRanker(**p), 2_000_000),
        ("sparse", lambda **p: tc.SparseRanker(refit=False, **p), 2_000_000),
    ):
        runs = [
            Timed(make, data.X, SampledSource.from_labels(data.y, n // quick), there="cuda", deterministic=same)
            for same in (False, True, True)
        ]
        one, other = (run.ranker.weights_ for run in runs[1:])
        alike = bool((one.rows(np.arange(200)) == other.rows(np.arange(200))).all())
        found.append({"model": name, "rates": [run.rate for run in runs], "alike": alike})
        rows.append(
            [name, *(f"{run.rate / 1e6:.2f} M" for run in runs[:2]), f"{runs[0].rate / runs[1].rate:.1f}", str(alike)]
        )
    print_table("The same bits every time", ["W", "steps/s", "deterministic", "times slower", "bits alike"], rows)
    return found


def wikipedia(arguments: argparse.Namespace, gpu: Any, peak: float) -> list[dict[str, Any]]:
    """1.8 million texts, 25 million links planted by topic, 2.5 million words, 250 million steps."""
    shrink = 50 if arguments.quick else 1
    n_docs, n_words, n_links, steps = (n // shrink for n in (1_800_000, 2_500_000, 25_000_000, 250_000_000))
    X, topic = topical(gpu, n_docs, n_words, 18_000 // shrink, 60, arguments.seed)
    rng = np.random.default_rng(arguments.seed)
    order = np.argsort(topic, kind="stable")
    start = np.searchsorted(topic[order], np.arange(topic.max() + 2))
    source_doc = rng.integers(0, n_docs, n_links)
    of = topic[source_doc]
    target = order[start[of] + (rng.random(n_links) * (start[of + 1] - start[of])).astype(np.int64)]
    began = time.perf_counter()
    sampler = JudgementSampler.from_links(np.stack((source_doc, target), axis=1), n_docs)
    sorted_in = time.perf_counter() - began
    source = SampledSource(sampler, steps, random_state=arguments.seed)
    queries = rng.choice(n_docs, 500, replace=False)
    before = precision_at_10(Weights([Identity(n_terms=n_words)]), X, topic, queries)
    run = Timed(
        tc.LowRankRanker,
        X,
        source,
        n_components=100,
        tied=True,
        rate=0.05,
        schedule="linear",
        spread=0.03,
        there="cuda",
    )
    after = precision_at_10(run.ranker.weights_, X, topic, queries)
    moved = bytes_of_step(X, 100, run.violations) * run.rate
    print_table(
        f"{n_docs:,} texts of about {X.nnz / n_docs:.0f} of {n_words:,} words, {n_links:,} links",
        [
            "steps",
            "training",
            "with start and copies",
            "sorting links",
            "steps/s",
            "violations",
            "bytes moved",
            "P@10 tf-idf",
            "P@10 learned",
        ],
        [
            [
                f"{steps:,}",
                f"{run.ranker.history_[-1].seconds:.0f} s",
                f"{run.seconds:.0f} s",
                f"{sorted_in:.0f} s",
                f"{run.rate / 1e6:.2f} M",
                f"{run.violations:.0%}",
                f"{moved / 1e12:.2f} TB/s ({moved / peak:.0%})",
                f"{before:.3f}",
                f"{after:.3f}",
            ]
        ],
    )
    return [
        {
            "steps": steps,
            "seconds": run.seconds,
            "training": run.ranker.history_[-1].seconds,
            "steps_per_second": run.rate,
            "violations": run.violations,
            "share": moved / peak,
            "p10_tfidf": before,
            "p10_learned": after,
        }
    ]


def growth(arguments: argparse.Namespace, gpu: Any, peak: float) -> list[dict[str, Any]]:
    """Cost of a step as documents, words and components grow."""
    rows, found = [], []
    shrink = 20 if arguments.quick else 1
    settings = [(n, 1_000_000, 100) for n in (100_000, 400_000, 1_600_000)]
    settings += [(400_000, n, 100) for n in (10_000, 100_000, 4_000_000)]
    settings += [(400_000, 1_000_000, n) for n in (25, 50, 200, 400)]
    for n_docs, n_words, width in settings:
        X, topic = topical(gpu, n_docs // shrink, n_words // shrink, n_docs // shrink // 100, 60, arguments.seed)
        source = SampledSource.from_labels(topic, 12_000_000 // shrink**2, random_state=arguments.seed)
        run = Timed(tc.LowRankRanker, X, source, n_components=width, tied=True, rate=0.1, there="cuda")
        moved = bytes_of_step(X, width, run.violations) * run.rate
        found.append(
            {"docs": n_docs, "words": n_words, "components": width, "steps_per_second": run.rate, "share": moved / peak}
        )
        rows.append(
            [
                f"{X.shape[0]:,}",
                f"{X.shape[1]:,}",
                str(width),
                f"{run.rate / 1e6:.2f} M",
                f"{run.violations:.0%}",
                f"{moved / peak:.0%}",
            ]
        )
    print_table("U'U", ["documents", "words", "components", "steps/s", "violations", "of the bandwidth"], rows)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts alone; may be repeated")
    arguments = parser.parse_args()
    wanted = arguments.only or PARTS
    if {"newsgroups", "deterministic"} & set(wanted):
        check_data_home(parser, arguments)
    gpu = find_gpu()
    peak = bandwidth(gpu)
    print_facts({**machine_facts(), "GPU": gpu.describe(), "copy": f"{peak / 1e12:.2f} TB/s"})
    results = {}
    for part in wanted:
        results[part] = globals()[part](arguments, gpu, peak)
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
