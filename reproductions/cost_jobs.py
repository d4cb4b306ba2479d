"""What learning costs: seconds and memory on made-up rows, point by point, and the table of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from reproductions.paper_results import PaperResults
from reproductions.plan import Plan
from reproductions.plan_items import Cost
from reproductions.row_jobs import peak_bytes
from reproductions.verdicts import NOT_COMPARED, Verdict, judge_power
from tercet.fitting.rankers import make_ranker
from tercet.report.table import Cell, Table

N_FITTED = 3  # the largest points of a cost curve: what is small is mostly overhead


def cost_jobs(plan: Plan) -> Iterator[CostJob]:
    """Every point of every series."""
    for cost in plan.costs:
        for number, series in enumerate(cost.series):
            for n_rows, n_basis in series.points():
                yield CostJob(cost, number, n_rows, n_basis)


@dataclass(frozen=True)
class CostJob:
    """One point: so many made-up rows and basis vectors, on one thread."""

    cost: Cost
    series: int
    n_rows: int
    n_basis: int | None  # None for all rows

    @property
    def key(self) -> str:
        return f"{self.cost.key}-{self.series}-{self.n_rows}-{self.n_basis or 'all'}"

    @property
    def title(self) -> str:
        basis = "" if self.n_basis is None else f", {self.n_basis:,} basis vectors"
        return f"{self.cost.title}, {self.cost.series[self.series].title}, {self.n_rows:,} rows{basis}"

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
        """The fastest of some rounds in seconds of the processor, and memory in a round of its own."""
        X, y, qid = self._rows()
        parameters = self.cost.parameters | ({} if self.n_basis is None else {"n_basis": self.n_basis})
        ranker = make_ranker(self.cost.ranker, parameters)
        rounds: list[tuple[float, float]] = []
        with import_module("threadpoolctl").threadpool_limits(1):
            for _ in range(self.cost.rounds):
                processor, wall = time.process_time(), time.perf_counter()
                ranker.fit(X, y, qid=qid)
                rounds.append((time.process_time() - processor, time.perf_counter() - wall))
            n_bytes = peak_bytes(lambda: make_ranker(self.cost.ranker, parameters).fit(X, y, qid=qid))
        seconds, wall = min(rounds)
        slowest = max(processor for processor, _ in rounds)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        times = {"seconds": max(seconds, 1e-6), "slowest": max(slowest, 1e-6), "wall": wall}
        return times | {"megabytes": n_bytes / 1e6, "load": load}

    def _rows(self) -> tuple[Any, Any, Any]:
        """Grades that a function of the rows makes, which is not linear, with noise."""
        random = np.random.default_rng(0)
        X = random.normal(size=(self.n_rows, self.cost.n_features))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, -1] + 0.3 * random.normal(size=self.n_rows)
        return X, y, np.arange(self.n_rows) // self.cost.rows_of_query


def power(points: list[dict[str, Any]], rises: str, what: str) -> tuple[float, float] | None:
    """Slope and height of the line through the logarithms of the largest points; None where there are too few.

    Examples
    --------
    >>> points = [{"n_rows": n, "seconds": 2.0 * n**3} for n in (1, 2, 4)]
    >>> slope, height = power(points, "rows", "seconds")
    >>> round(slope, 6), round(float(np.exp(height)), 6)
    (3.0, 2.0)
    """
    last = points[-N_FITTED:]
    if len(last) < 2:
        return None
    name = "n_basis" if rises == "n_basis" else "n_rows"
    slope, height = np.polyfit(np.log([p[name] for p in last]), np.log([p[what] for p in last]), 1)
    return float(slope), float(height)


def cost_table(results: PaperResults, cost: Cost) -> Table:
    """A row for each series: its points, the power the paper states and those that were measured."""
    head = ["series", "points: seconds, MB", "stated", "seconds rise with", "memory rises with", "verdict"]
    table = Table(f"{cost.place}: {cost.title}", head, key=cost.key)
    every = [point for number in range(len(cost.series)) for point in results.costs.get((cost.key, number), [])]
    if not every:
        table.has_numbers = False
        table.notes.append("Not run: it belongs to no data set, or the budget was used up.")
        return table
    table.notes += _notes_on_costs(cost, every)
    for number, series in enumerate(cost.series):
        points = results.costs.get((cost.key, number), [])
        name, letter = ("n_basis", "r") if series.rises == "n_basis" else ("n_rows", "m")
        listed = "; ".join(f"{p[name]:,}: {p['seconds']:.3g}, {p['megabytes']:.3g}" for p in points) or "–"
        lines = {what: power(points, series.rises, what) for what in ("seconds", "megabytes")}
        slopes = {what: None if line is None else line[0] for what, line in lines.items()}
        slope = slopes["seconds"]
        verdict = Verdict(NOT_COMPARED, "plain")
        if slope is not None and not results.quick and len(points) == len(series.points()):
            verdict = judge_power(slope, series.stated)
        texts = [f"{letter}^{series.stated:g}"]
        texts += ["–" if slope is None else f"{letter}^{slope:.2f}" for slope in slopes.values()]
        cells = [Cell(series.title), Cell(f"{letter} = {listed}"), *map(Cell, texts)]
        table.rows.append([*cells, Cell(verdict.text, tone=verdict.tone)])
        record = {"series": series.title, "rises": name, "stated": series.stated, "verdict": verdict.text}
        record |= {f"power_of_{what}": slope for what, slope in slopes.items()}
        table.records += [record | point for point in points]
    return table


def _notes_on_costs(cost: Cost, points: list[dict[str, Any]]) -> list[str]:
    loads = [point["load"] for point in points if point["load"] is not None]
    busy = min(point["seconds"] / point["wall"] for point in points)
    return [
        f"{cost.ranker} on made-up rows of {cost.n_features} features, {cost.rows_of_query} rows a query, one thread, "
        f"the fastest of {cost.rounds} fits in seconds of the processor, to which others on the machine add little. "
        f"Powers are fitted to the {N_FITTED} largest points of a series. Memory is the most that arrays hold at once "
        "in a fit, without the rows themselves and without what BLAS keeps.",
        f"While it ran the machine had a load of {min(loads):.1f} to {max(loads):.1f}, and a timed fit had a processor "
        f"for {busy:.0%} of its time or more."
        if loads
        else "The load of the machine is not known.",
    ]
