"""What learning costs: seconds of a processor, and the most that arrays hold at once."""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tercet.repro.features.plan import Cost
from tercet.repro.features.rankers import make_ranker


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most that arrays of NumPy and SciPy and Python's objects held at once while this ran, and did not before.

    What a BLAS library keeps for itself is not counted, nor are the rows that are learned from.
    """
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


@dataclass(frozen=True)
class CostJob:
    """One point: so many made-up rows and basis vectors, on one thread."""

    cost: Cost
    n_rows: int
    n_basis: int | None  # None for all rows

    def setting(self) -> dict[str, Any]:
        """Everything the result depends on but the machine."""
        cost = self.cost
        return {
            "what": "cost",
            "ranker": cost.ranker,
            "parameters": cost.parameters,
            "n_features": cost.n_features,
            "rows_of_query": cost.rows_of_query,
            "rounds": cost.rounds,
            "n_rows": self.n_rows,
            "n_basis": self.n_basis,
        }

    def run(self) -> dict[str, Any]:
        """The fastest of some rounds, and memory in a round of its own."""
        X, y, qid = self._rows()
        given = self.cost.parameters | ({} if self.n_basis is None else {"n_basis": self.n_basis})
        ranker = make_ranker(self.cost.ranker, given)
        rounds: list[tuple[float, float]] = []
        with import_module("threadpoolctl").threadpool_limits(1):
            for _ in range(self.cost.rounds):
                processor, wall = time.process_time(), time.perf_counter()
                ranker.fit(X, y, qid=qid)
                rounds.append((time.process_time() - processor, time.perf_counter() - wall))
            n_bytes = peak_bytes(lambda: make_ranker(self.cost.ranker, given).fit(X, y, qid=qid))
        seconds, wall = min(rounds)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        return {"seconds": max(seconds, 1e-6), "wall": wall, "megabytes": n_bytes / 1e6, "load": load}

    def _rows(self) -> tuple[Any, Any, Any]:
        """Grades that a function of the rows makes, which is not linear, with noise."""
        random = np.random.default_rng(0)
        X = random.normal(size=(self.n_rows, self.cost.n_features))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, -1] + 0.3 * random.normal(size=self.n_rows)
        return X, y, np.arange(self.n_rows) // self.cost.rows_of_query
