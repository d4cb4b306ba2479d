"""Which rules learn best from clicks, on clicks that users with a known truth make.

There were two online learners, each with rules of its own: what a click says (how much each "clicked is better than
passed over" counts), by how much the better document is to be ahead, and how far one step goes there. This tries them
against each other and against those that were kept. All start from BM25 and get the same log. Half of the made-up
topics are never clicked for, so that what clicks do to other queries shows; with --data-home, NFCorpus is tried as
well, its judgements being the truth.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.data import read_beir
from tercet.simulate import Visitors

SHOWN = 10
CLICK_CHANCES = (0.7, 0.9)  # of a document that was looked at, of grade 1 and 2; of grade 0, the noise
MARGIN, LEAST_MARGIN = 0.05, 0.01
MOST_PAIRS, LONGEST_STEP, LARGEST_WEIGHT = 64, 1.0, 1.0  # the bounds of the service

# What a click says: every preference counts 1, or 1 / log2(1 + rank) with at most 1 for a list; or half of that.
PLAIN, BY_RANK, HALF_BY_RANK = "plain", "by rank", "half by rank"
# What the better document is to be ahead by where scores are near 0: units of weight, or those times lengths of texts.
UNITS, LENGTHS = "units", "units x lengths"
# How far a step goes, for a rate and a weight: that share of the target, or of the gap to it, or the lesser of both.
OF_TARGET, OF_GAP, UP_TO_TARGET = STEP_RULES = ("of target", "of gap", "up to target")


# -- worlds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class World:
    """Queries and documents as BM25 rows, the grade of every document for every query, and three kinds of queries."""

    Q: sparse.csr_array
    D: sparse.csr_array
    grades: NDArray[np.int8]  # (n_queries, n_docs)
    seen: NDArray[np.int64]  # queries that are clicked for
    held_out: NDArray[np.int64]  # others on the same topics
    untouched: NDArray[np.int64]  # on topics that nobody clicks for

    @cached_property
    def base(self) -> NDArray[np.float64]:
        return np.asarray((self.Q @ self.D.T).todense(), dtype=np.float64)


def made_up(rng: np.random.Generator, quick: bool) -> World:
    """Topics with words that each share with others, and words all have in common.

    A document is about one topic, grade 2, and mentions another, grade 1. A query has two words of its topic, which
    documents use seldom and other topics use as well, so that BM25 errs; what goes with them can be learned.
    """
    n_topics, n_docs, per_topic = (12, 400, 6) if quick else (40, 2000, 12)
    pool = np.array([f"w{i}" for i in range(8 * n_topics)])
    words = np.array([rng.choice(pool, 16, replace=False) for _ in range(n_topics)])
    common = np.array([f"c{i}" for i in range(300)])
    popularity = 1 / np.arange(1, common.size + 1)
    popularity /= popularity.sum()
    topics = rng.integers(n_topics, size=(n_docs, 2))
    docs = []
    for main, other in topics:
        text = [*rng.choice(words[main, 4:], 8), *rng.choice(words[main, :4], 1), *rng.choice(words[other], 4)]
        docs.append(" ".join([*text, *rng.choice(common, 30, p=popularity)]))
    query_topics = np.repeat(np.arange(n_topics), per_topic)
    queries = [
        " ".join([*rng.choice(words[topic, :8], 2, replace=False), *rng.choice(common, 1, p=popularity)])
        for topic in query_topics
    ]
    vectorizer = tc.Vectorizer(weighting="bm25", min_df=1).fit(docs)
    grades = np.where(query_topics[:, None] == topics[:, 0], 2, 0)
    grades = np.where((grades == 0) & (query_topics[:, None] == topics[:, 1]), 1, grades).astype(np.int8)
    clicked_for = query_topics < n_topics // 2
    first_half = np.arange(query_topics.size) % per_topic < per_topic // 2
    return World(
        sparse.csr_array(vectorizer.transform_queries(queries)),
        sparse.csr_array(vectorizer.transform_docs(docs)),
        grades,
        np.flatnonzero(clicked_for & first_half),
        np.flatnonzero(clicked_for & ~first_half),
        np.flatnonzero(~clicked_for),
    )


def nfcorpus(rng: np.random.Generator, folder: Path, quick: bool) -> World:
    """Training queries: half of them are clicked for. Their topics overlap, so no query is untouched by its words."""
    collection = read_beir(folder)
    judged = collection.qrels["train"]
    qids = rng.permutation(sorted(judged))[: 200 if quick else 1200].tolist()
    vectorizer = tc.Vectorizer(weighting="bm25").fit(collection.docs.values())
    grades = np.zeros((len(qids), len(collection.docs)), np.int8)
    columns = {doc_id: column for column, doc_id in enumerate(collection.docs)}
    for row, qid in enumerate(qids):
        for doc_id, grade in judged[qid].items():
            grades[row, columns[doc_id]] = grade
    Q = sparse.csr_array(vectorizer.transform_queries([collection.queries[qid] for qid in qids]))
    D = sparse.csr_array(vectorizer.transform_docs(list(collection.docs.values())))
    half = len(qids) // 2
    return World(Q, D, grades, np.arange(half), np.arange(half, len(qids)), np.empty(0, np.int64))


# -- users --------------------------------------------------------------------------------------------------------


USERS = tuple(
    Visitors(looking=looking, chances=(noise, *CLICK_CHANCES))
    for looking, noise in ((0.5, 0.1), (1.0, 0.2), (None, 0.1))
)


class Log(NamedTuple):
    """Preferences of clicks in their order, the rank of the one passed over, and the impression they came with."""

    query: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    rank: NDArray[np.int64]
    impression: NDArray[np.int64]


def click_log(rng: np.random.Generator, world: World, user: Visitors, n_impressions: int) -> Log:
    shown = np.argsort(-world.base[world.seen], axis=1, kind="stable")[:, :SHOWN]
    rows: list[tuple[int, int, int, int, int]] = []
    for impression in range(n_impressions):
        row = int(rng.integers(world.seen.size))
        query, docs = int(world.seen[row]), shown[row]
        clicked = user.clicks(rng, world.grades[query, docs])
        for better in np.flatnonzero(clicked):
            rows += [(query, docs[better], docs[i], i + 1, impression) for i in range(better) if not clicked[i]]
    return Log(*np.array(rows, np.int64).reshape(-1, 5).T)


# -- rules --------------------------------------------------------------------------------------------------------


def click_weights(log: Log, rule: str) -> NDArray[np.float64]:
    """What each preference of a log counts."""
    if rule == PLAIN:
        return np.ones(log.query.size)
    weights = (0.5 if rule == HALF_BY_RANK else 1.0) / np.log2(1 + log.rank)
    totals = np.bincount(log.impression, weights)
    return weights / np.maximum(1.0, totals)[log.impression]


def targets_of(world: World, log: Log, rule: str) -> NDArray[np.float64]:
    """By how much each better document is to be ahead: a share of the larger score, or of what has no score's size."""
    base = world.base
    larger = np.maximum(np.abs(base[log.query, log.better]), np.abs(base[log.query, log.worse]))
    least = np.full(larger.size, LEAST_MARGIN)  # the unit of BM25 as weights is 1
    if rule == LENGTHS:
        q, d = (np.sqrt(matrix.multiply(matrix).sum(axis=1)) for matrix in (world.Q, world.D))
        least *= q[log.query] * np.maximum(d[log.better], d[log.worse])
    return np.maximum(MARGIN * larger, least)


def added_up(log: Log, weights: NDArray[np.float64]) -> tuple[Log, NDArray[np.float64]]:
    """One preference for each query and two documents: what all said, in the order of the last who did."""
    sums: dict[tuple[int, int, int], float] = {}
    for query, better, worse, weight in zip(log.query, log.better, log.worse, weights, strict=True):
        first, second = min(better, worse), max(better, worse)
        before = sums.pop((query, first, second), 0.0)
        sums[query, first, second] = before + (weight if better == first else -weight)
    kept = [(q, *((a, b) if net > 0 else (b, a)), abs(net)) for (q, a, b), net in sums.items() if net]
    columns = np.array(kept).reshape(-1, 4).T
    query, better, worse = columns[:3].astype(np.int64)
    return Log(query, better, worse, query, query), columns[3]


@numba.njit(cache=False)
def take_steps(W, Q, D, query, better, worse, base, target, weight, rate, rule, most_pairs, longest, largest):  # type: ignore[no-untyped-def]
    """Steps along ``q (b - w)'``; returns how many preferences asked for one."""
    q_indptr, q_indices, q_data = Q
    d_indptr, d_indices, d_data = D
    x = np.zeros(W.shape[1])
    n_violations = 0
    for s in range(query.size):
        q0, q1 = q_indptr[query[s]], q_indptr[query[s] + 1]
        for row, sign in ((better[s], 1.0), (worse[s], -1.0)):
            for k in range(d_indptr[row], d_indptr[row + 1]):
                x[d_indices[k]] += sign * d_data[k]
        words = np.unique(
            np.concatenate(
                (
                    d_indices[d_indptr[better[s]] : d_indptr[better[s] + 1]],
                    d_indices[d_indptr[worse[s]] : d_indptr[worse[s] + 1]],
                )
            )
        )
        margin = base[s]
        for k in range(q0, q1):
            for j in words:
                margin += q_data[k] * W[q_indices[k], j] * x[j]
        gap = target[s] - margin
        if gap > 0:
            n_violations += 1
            sizes = np.empty((q1 - q0) * words.size)
            for k in range(q0, q1):
                for i in range(words.size):
                    sizes[(k - q0) * words.size + i] = abs(q_data[k] * x[words[i]])
            least = 0.0
            if 0 < most_pairs < sizes.size:
                least = np.sort(sizes)[-most_pairs]
            squared = 0.0
            for size in sizes:
                if size >= least:
                    squared += size * size
            if squared > 0:
                move = rate * weight[s] * (gap if rule == 1 else target[s])
                step = (min(move, gap) if rule == 2 else move) / squared
                if longest > 0:
                    step = min(step, longest / np.sqrt(squared))
                for k in range(q0, q1):
                    for j in words:
                        if abs(q_data[k] * x[j]) >= least:
                            W[q_indices[k], j] += step * q_data[k] * x[j]
                            if largest > 0:
                                W[q_indices[k], j] = min(largest, max(-largest, W[q_indices[k], j]))
        for j in words:
            x[j] = 0.0
    return n_violations


class Rules(NamedTuple):
    clicks: str
    margin: str
    step: str
    rate: float
    service: bool = False  # votes added up before a step is taken, and steps within the bounds

    def __str__(self) -> str:
        return f"{self.clicks}, {self.margin}, {self.rate:g} {self.step}{', as a service' if self.service else ''}"


def learned(world: World, log: Log, rules: Rules) -> sparse.csr_array:
    """W beside the identity."""
    weights = click_weights(log, rules.clicks)
    if rules.service:
        log, weights = added_up(log, weights)
        if rules.step == OF_GAP:
            weights = np.minimum(weights, 1.0)
    words = np.unique(world.Q[world.seen].indices)  # only their rows can change
    rows = np.full(world.Q.shape[1], -1, np.int64)
    rows[words] = np.arange(words.size)
    Q = (world.Q.indptr, rows[world.Q.indices], world.Q.data.astype(np.float64))
    D = (world.D.indptr, world.D.indices, world.D.data.astype(np.float64))
    W = np.zeros((words.size, world.D.shape[1]))
    base = world.base
    bounds = (MOST_PAIRS, LONGEST_STEP, LARGEST_WEIGHT) if rules.service else (0, 0.0, 0.0)
    take_steps(
        W,
        Q,
        D,
        log.query,
        log.better,
        log.worse,
        base[log.query, log.better] - base[log.query, log.worse],
        targets_of(world, log, rules.margin),
        weights,
        rules.rate,
        STEP_RULES.index(rules.step),
        *bounds,
    )
    to_words = sparse.csr_array((np.ones(words.size), (words, np.arange(words.size))), shape=(rows.size, words.size))
    return sparse.csr_array(to_words @ sparse.csr_array(W))


# -- measures -----------------------------------------------------------------------------------------------------


def best(scores: NDArray[np.float64], k: int = 100) -> NDArray[np.int64]:
    """The k best documents of each query, best first."""
    top = np.argpartition(-scores, k, axis=1)[:, :k]
    return np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable"), axis=1)


def ndcg(top: NDArray[np.int64], grades: NDArray[np.int8], k: int = 10) -> float:
    discounts = 1 / np.log2(np.arange(2, k + 2))
    gained = np.take_along_axis(grades, top[:, :k], axis=1) @ discounts
    ideal = np.take_along_axis(grades, best(grades.astype(float), k), axis=1) @ discounts
    return float(np.mean(gained[ideal > 0] / ideal[ideal > 0]))


def reciprocal_rank(top: NDArray[np.int64], grades: NDArray[np.int8]) -> float:
    relevant = np.take_along_axis(grades, top, axis=1) > 0
    return float(np.mean(np.where(relevant.any(axis=1), 1 / (1 + relevant.argmax(axis=1)), 0)))


def kept_in_top(top: NDArray[np.int64], before: NDArray[np.int64], k: int = 10) -> float:
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(top[:, :k], before[:, :k], strict=True)]))


def measured(world: World, log: Log, W: sparse.csr_array) -> dict[str, float]:
    """Gains over BM25 on queries clicked for and others, and what became of what was clicked and what was not."""
    base = world.base
    scores = base + np.asarray((world.Q @ W @ world.D.T).todense())
    values = {}
    for name in ("seen", "held_out", "untouched"):
        rows = getattr(world, name)
        if rows.size:
            now, then, grades = best(scores[rows]), best(base[rows]), world.grades[rows]
            values[f"{name} nDCG@10"] = ndcg(now, grades) - ndcg(then, grades)
            values[f"{name} MRR"] = reciprocal_rank(now, grades) - reciprocal_rank(then, grades)
            if name != "seen":
                values[f"{name} top 10 kept"] = kept_in_top(now, then)
    ahead = scores[log.query, log.better] > scores[log.query, log.worse]
    right = world.grades[log.query, log.better] > world.grades[log.query, log.worse]
    values["clicks held"], values["true ones held"] = float(ahead.mean()), float(ahead[right].mean())
    return values


def interval(values: NDArray[np.float64]) -> str:
    """The mean over seeds and half its 95 % interval (Student's t)."""
    half = stats.t.ppf(0.975, values.size - 1) * values.std(ddof=1) / sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():+.4f} ±{half:.4f}"


# -- the experiment -----------------------------------------------------------------------------------------------

NAMED = {
    "logs before": Rules(PLAIN, LENGTHS, OF_TARGET, 0.1),
    "the service before": Rules(HALF_BY_RANK, UNITS, OF_GAP, 1.0, service=True),
    "one by one": Rules(BY_RANK, LENGTHS, UP_TO_TARGET, 0.4),
    "the service now": Rules(BY_RANK, LENGTHS, UP_TO_TARGET, 0.4, service=True),
    "margin in units": Rules(PLAIN, UNITS, OF_TARGET, 0.1),
}
RATES = {(PLAIN, OF_TARGET): (0.03, 0.1, 0.3), (BY_RANK, OF_TARGET): (0.1, 0.2, 0.4)}
RATES |= {(PLAIN, OF_GAP): (0.01, 0.03, 0.1), (BY_RANK, OF_GAP): (0.03, 0.1, 0.3)}


def tried() -> Iterator[tuple[str, Rules]]:
    """The named ones, and every click rule with every step rule at three rates each."""
    yield from NAMED.items()
    for clicks, step in product((PLAIN, BY_RANK), (OF_TARGET, OF_GAP)):
        for rate in RATES[clicks, step]:
            rules = Rules(clicks, LENGTHS, step, rate)
            yield str(rules), rules


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    quick = arguments.quick
    folder = arguments.data_home / "nfcorpus" if arguments.data_home is not None else None
    worlds = ["made up", *(["NFCorpus"] if folder is not None and folder.exists() else [])]
    results: dict[str, Any] = {"machine": machine_facts()}
    print_facts(results["machine"])
    for name, user in product(worlds, USERS):
        tally: dict[str, list[dict[str, float]]] = {}
        n_seeds, n_impressions = (2, 500) if quick else (10, 10_000) if name == "made up" else (4, 10_000)
        for seed in range(arguments.seed, arguments.seed + n_seeds):
            rng = np.random.default_rng([seed, USERS.index(user)])
            world = made_up(rng, quick) if folder is None or name == "made up" else nfcorpus(rng, folder, quick)
            log = click_log(rng, world, user, n_impressions)
            for title, rules in tried():
                tally.setdefault(title, []).append(measured(world, log, learned(world, log, rules)))
        head = list(next(iter(tally.values()))[0])
        rows = [
            [title, *(interval(np.array([value[key] for value in values])) for key in head)]
            for title, values in tally.items()
        ]
        print_table(f"{name}; {user}; {n_seeds} seeds, {n_impressions:,} impressions", ["rules", *head], rows)
        results[f"{name}; {user}"] = tally
        sys.stdout.flush()
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
