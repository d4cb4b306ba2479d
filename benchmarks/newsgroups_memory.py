"""Memory of past queries on 20 Newsgroups, the paper's 100,000 preferences: MAP of three rankers, each with memory.

A test post is the query. In *known posts* it ranks the training posts: the memory of post d for query q is
``m = Σ cos(q, a)^p r(a, d)`` over training queries a, with r(a, d) the preferences of a for d less those against d.
In *new posts*, the paper's task, it ranks the other test posts, for which nobody has a preference; there memory needs
the similarity of documents, too: ``Σ cos(q, a)^p r(a, e) cos(e, d)^p``. The score is ``s(q, d) + weight · m``, both
divided by their largest amount for the query; power and weight are chosen on a fifth of the training posts.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import machine_facts, parse_arguments, print_facts, print_table, write_json
from reproductions.datasets import load_dataset
from reproductions.plan import find_plan
from reproductions.tasks import ClassTask
from tercet.measure import paired_test
from tercet.weights import Weights

POWERS, WEIGHTS = (1.0, 2.0, 4.0, 8.0), (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
N_QUERIES = 1_000
Matrix = NDArray[np.float64]


def learners(seed: int) -> dict[str, Callable[[], Any]]:
    sparse_r = {"rate": 200.0, "schedule": "inverse-sqrt", "shrink_every": 100, "l1": 5e-6, "refit": True}
    return {
        "Identity": tc.CosineRanker,
        "Sparse-R, l1 = 5e-6": lambda: tc.SparseRanker(**sparse_r, verbose=False),
        "U'U, 100 components, five passes": lambda: tc.LowRankRanker(
            n_components=100, tied=True, rate=0.1, schedule="linear", epochs=5, random_state=seed, verbose=False
        ),
    }


def average_precision(scores: Matrix, same: NDArray[np.bool_]) -> Matrix:
    """Average precision of each row of scores (n_queries, n_docs)."""
    order = np.argsort(-scores, axis=1, kind="stable")
    relevant = np.take_along_axis(same, order, axis=1)
    ranks = np.arange(1, scores.shape[1] + 1)
    return np.asarray((relevant * np.cumsum(relevant, axis=1) / ranks).sum(axis=1) / relevant.sum(axis=1))


class Part:
    """Training posts with preferences, and queries that rank the training posts or other posts."""

    def __init__(self, X: Any, y: Any, Q: Any, y_queries: Any, others: Any, y_others: Any, seed: int, n: int) -> None:
        self.X, self.Q = X, Q
        self.prefs = tc.Preferences.from_labels(y, n, random_state=seed)
        size = len(y), len(y)
        better, worse = (
            sparse.csr_array((np.ones(n), (self.prefs.query, side)), shape=size)
            for side in (self.prefs.better, self.prefs.worse)
        )
        self.evidence = better - worse
        self.docs = {"known posts": X, "new posts": others}
        self.same = {"known posts": y_queries[:, None] == y, "new posts": y_queries[:, None] == y_others}
        similarity = (Q @ X.T).toarray()
        self.memories: dict[tuple[str, float], Matrix] = {}
        for power in POWERS:
            known = np.asarray((self.evidence.T @ (similarity**power).T).T)
            self.memories["known posts", power] = known
            self.memories["new posts", power] = known @ (X @ others.T).toarray() ** power
        for memory in self.memories.values():
            memory /= np.maximum(np.abs(memory).max(axis=1, keepdims=True), 1e-12)

    def scores(self, weights: Weights, kind: str) -> Matrix:
        scores = np.concatenate([block for _, block in weights.score_blocks(self.Q, self.docs[kind])])
        return scores / np.abs(scores).max(axis=1, keepdims=True)

    def measured(self, scores: Matrix, kind: str) -> Matrix:
        itself = 0.0
        if kind == "new posts":  # the first of them are the queries
            itself = np.zeros_like(scores)
            np.fill_diagonal(itself, np.inf)
            same = self.same[kind].copy()
            np.fill_diagonal(same, False)
            return average_precision(scores - itself, same)
        return average_precision(scores, self.same[kind])


def main() -> None:
    arguments = parse_arguments(__doc__)
    print_facts(machine_facts())
    plan = find_plan("chen2010")
    [task] = load_dataset(plan.datasets["20ng"], arguments.data_home, plan.quick if arguments.quick else None).tasks
    assert isinstance(task, ClassTask)
    seed, n = arguments.seed, 5_000 if arguments.quick else 100_000
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(task.y))
    held, rest = order[: len(order) // 5], order[len(order) // 5 :]
    asked = held[: N_QUERIES // 2]
    choosing = Part(task.Q[rest], task.y[rest], task.Q[asked], task.y[asked], task.Q[held], task.y[held], seed, n)
    tested = rng.permutation(len(task.y_test))
    queries = tested[:N_QUERIES]
    X_test, y_test = task.Q_test[tested], task.y_test[tested]
    final = Part(task.Q, task.y, task.Q_test[queries], task.y_test[queries], X_test, y_test, seed, n)
    rows, found = [], []
    for name, make in learners(seed).items():
        fitted = [make().fit(part.X, part.prefs).weights_ for part in (choosing, final)]
        for kind in ("known posts", "new posts"):
            alone = [part.scores(weights, kind) for part, weights in zip((choosing, final), fitted, strict=True)]
            values = {
                (power, weight): choosing.measured(alone[0] + weight * choosing.memories[kind, power], kind).mean()
                for power, weight in product(POWERS, WEIGHTS)
            }
            power, weight = max(values, key=lambda each: values[each])
            before = final.measured(alone[1], kind)
            after = final.measured(alone[1] + weight * final.memories[kind, power], kind)
            test = paired_test(after, before)
            gain = f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"
            rows.append([kind, name, f"{before.mean():.3f}", f"{after.mean():.3f}", gain, f"{power:g}, {weight:g}"])
            found.append({"task": kind, "model": name, "alone": before.mean(), "with memory": after.mean()})
            print(rows[-1], flush=True)
    for kind in ("known posts", "new posts"):
        alone = final.measured(final.memories[kind, 4.0], kind).mean()
        rows.append([kind, "memory alone, power 4", f"{alone:.3f}", "", "", ""])
    head = ["task", "model", "MAP", "with memory", "difference", "power, weight"]
    print_table(f"20 Newsgroups, {len(queries):,} test queries, {n:,} preferences", head, rows)
    write_json(arguments.output, {"rows": found})


if __name__ == "__main__":
    main()
