"""Test time of hash kernels against cached latent vectors (Bai et al. 2010, section 4.4): a match of two texts, and all
documents for a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import Clock, median, print_table
from tercet.weights import Hashed, LowRank, Weights

N_COMPONENTS = 100
BUCKETS = (1_000_000, 3_000_000, 6_000_000)
TEXT_WORDS = 100
PAPER_RATIO = "around 100"  # for texts of 100 words and as many components


@numba.njit(fastmath=True)
def _match_latent(U, V, query, doc, scores):  # type: ignore[no-untyped-def]
    for i in range(scores.size):
        u, v = U[query[i]], V[doc[i]]
        total = u[0] * v[0]
        for k in range(1, u.size):
            total += u[k] * v[k]
        scores[i] = total


def random_texts(n: int, n_words: int, n_terms: int, rng: np.random.Generator) -> sparse.csr_array:
    """Texts of so many different words, all words alike, in unit length."""
    words = np.concatenate([np.sort(rng.choice(n_terms, n_words, replace=False)) for _ in range(n)])
    values = np.full(words.size, n_words**-0.5, dtype=np.float32)
    return sparse.csr_array((values, words.astype(np.int32), np.arange(n + 1) * n_words), shape=(n, n_terms))


@dataclass(frozen=True, eq=False)
class Models:
    """Hash kernels and factors over the same words; what the numbers are does not matter here."""

    hashed: dict[int, Hashed]
    latent: LowRank

    @classmethod
    def draw(cls, n_terms: int, rng: np.random.Generator) -> Models:
        def normal(*shape: int) -> NDArray[np.float32]:
            return rng.standard_normal(shape, dtype=np.float32)

        multiplier = tc.HashedRanker().multiplier
        hashed = {
            H: Hashed(table=normal(H), n_query_terms=n_terms, n_doc_terms=n_terms, multiplier=multiplier)
            for H in BUCKETS
        }
        factors = normal(n_terms, N_COMPONENTS), normal(n_terms, N_COMPONENTS)
        return cls(hashed, LowRank(query_factors=factors[0], doc_factors=factors[1]))


def in_turn(runs: dict[str, tuple[int, Callable[[], Any]]], rounds: int) -> tuple[dict[str, list[float]], list[Clock]]:
    """Seconds of each run by round, over the number of times that one call of it does the work."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    clocks = []
    for _ in range(rounds):
        for name, (times, run) in runs.items():
            with (clock := Clock()).running():
                for _ in range(times):
                    run()
            seconds[name].append(clock.wall / times)
            clocks.append(clock)
    return seconds, clocks


def print_ratios(title: str, seconds: dict[str, list[float]], per: tuple[str, int], operations: float | None) -> None:
    """Hash kernels against each latent way; ``operations`` is the ratio of multiplications."""
    unit, n = per
    print_table(
        title, ["", f"µs a {unit}"], [[name, f"{1e6 * median(found) / n:,.3f}"] for name, found in seconds.items()]
    )
    slow = [name for name in seconds if name.startswith("hash")]
    rows = []
    for name in slow:
        for fast in (name for name in seconds if name not in slow):
            ratio = [a / b for a, b in zip(seconds[name], seconds[fast], strict=True)]
            rows.append([name, fast, f"{median(ratio):,.1f}", f"{min(ratio):,.1f}", f"{max(ratio):,.1f}"])
    head = ["slower", "than", "times (median)", "lowest", "highest"]
    if operations is not None:
        head += ["by operations", "Bai et al."]
        printed = PAPER_RATIO if operations == TEXT_WORDS**2 / N_COMPONENTS else "–"
        rows = [[*row, f"{operations:,.0f}", printed] for row in rows]
    print_table("Ratios of seconds, both measured in the same round", head, rows)


def matching(
    title: str, Q: sparse.csr_array, D: sparse.csr_array, models: Models, n: int, rounds: int, rng: Any
) -> tuple[dict[str, Any], list[Clock]]:
    """Score pairs of texts one by one: hash every pair of words, or multiply cached latent vectors."""
    query, doc = rng.integers(0, Q.shape[0], n), rng.integers(0, D.shape[0], n)
    queries, docs = Q[query], D[doc]
    operations = float(np.mean(np.diff(queries.indptr) * np.diff(docs.indptr))) / N_COMPONENTS
    U, V = models.latent.latent_queries(Q), models.latent.latent_docs(D)
    single = U.astype(np.float32), V.astype(np.float32)
    scores, single_scores = np.empty(n), np.empty(n, dtype=np.float32)
    weights = {H: Weights([part]) for H, part in models.hashed.items()}
    _match_latent(U, V, query, doc, scores)
    _match_latent(*single, query, doc, single_scores)
    if not np.allclose(scores[:100], Weights([models.latent]).score_rows(queries[:100], docs[:100])):
        raise SystemExit("cached latent vectors do not give the scores of the model")
    for one in weights.values():
        one.score_rows(queries[:1], docs[:1])
    times = max(1, 3_000_000 // n)  # so that a run takes some tenths of a second
    runs: dict[str, tuple[int, Callable[[], Any]]] = {
        f"hash kernels, {H // 10**6}M": (1, partial(one.score_rows, queries, docs)) for H, one in weights.items()
    }
    runs |= {
        "latent, compiled": (times, lambda: _match_latent(U, V, query, doc, scores)),
        "latent, compiled, float32": (times, lambda: _match_latent(*single, query, doc, single_scores)),
        "latent, NumPy": (max(1, times // 5), lambda: np.einsum("ij,ij->i", U[query], V[doc])),
    }
    seconds, clocks = in_turn(runs, rounds)
    print_ratios(f"A match of two texts, N {N_COMPONENTS}: {title}; {n:,} pairs", seconds, ("match", n), operations)
    return {"pairs": n, "operations": operations, "seconds": seconds}, clocks


def ranking(
    title: str, Q: sparse.csr_array, D: sparse.csr_array, models: Models, n: int, rounds: int
) -> tuple[dict[str, Any], list[Clock]]:
    """Score all documents for one query after the other."""
    rows = [Q[i : i + 1] for i in range(n)]
    docs = D.astype(np.float64)
    U = models.latent.query_factors.astype(np.float64)
    asked, V = models.latent.latent_queries(Q[:n]), models.latent.latent_docs(D)
    exact = [row.astype(np.float64) for row in rows]
    for part in models.hashed.values():
        part.expand(rows[0])  # loads the compiled kernel, or compiles it once

    def expanded(part: Hashed) -> Callable[[], Any]:
        return lambda: [docs @ part.expand(row)[0] for row in rows]

    runs: dict[str, tuple[int, Callable[[], Any]]] = {
        f"hash kernels, {H // 10**6}M: expanded query, sparse product": (1, expanded(part))
        for H, part in models.hashed.items()
    }
    runs |= {
        "latent, query cached too": (10, lambda: [V @ u for u in asked]),
        "latent, query not cached": (10, lambda: [V @ (row @ U)[0] for row in exact]),
    }
    seconds, clocks = in_turn(runs, rounds)
    print_ratios(
        f"All {D.shape[0]:,} documents for a query, N {N_COMPONENTS}: {title}", seconds, ("query", n), operations=None
    )
    return {"queries": n, "documents": D.shape[0], "seconds": seconds}, clocks


def test_time(Q: sparse.csr_array, D: sparse.csr_array, seed: int, quick: bool) -> tuple[dict[str, Any], list[Clock]]:
    """The case the paper reckons with, random texts of 100 words each, and then the given texts."""
    n_texts, n_pairs, n_article_pairs, n_queries, rounds = (
        (500, 1_000, 100, 5, 2) if quick else (10_000, 100_000, 5_000, 100, 5)
    )
    rng = np.random.default_rng(seed)
    models = Models.draw(D.shape[1], rng)
    short_queries, short_docs = (random_texts(n_texts, TEXT_WORDS, D.shape[1], rng) for _ in range(2))
    cases = {
        f"random texts of {TEXT_WORDS} words": (short_queries, short_docs, n_pairs),
        f"articles of {D.nnz / D.shape[0]:.0f} words": (Q, D, n_article_pairs),
    }
    results: dict[str, Any] = {}
    clocks: list[Clock] = []
    for title, (queries, docs, n) in cases.items():
        matched, spent = matching(title, queries, docs, models, n, rounds, rng)
        ranked, spent_too = ranking(title, queries, docs, models, n_queries, rounds)
        results[title] = {"matching": matched, "ranking": ranked}
        clocks += spent + spent_too
    print(
        "\nBai et al., section 4.4: with Uq and Vd cached a match takes N multiplications; hash kernels take |q||d|\n"
        "hashing operations and multiplications, around 100 times as long for |q| = |d| = N = 100."
    )
    return results, clocks
