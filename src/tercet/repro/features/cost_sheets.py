"""Tables of what learning costs: every point, and the powers that seconds and memory rise with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet.repro.features.plan import Cost
from tercet.repro.features.runner import FeatureResults
from tercet.repro.sheet import NOT_COMPARED, Cell, Sheet
from tercet.repro.verdicts import Verdict

N_FITTED = 3  # the largest points: what is small is mostly overhead
_ROOM = 0.15  # a power that is above the stated one by less than this is taken for it


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


def cost_sheet(results: FeatureResults, cost: Cost) -> Sheet:
    """A row for each series: its points, the power the paper states and those that were measured."""
    head = ["series", "points: seconds, MB", "stated", "seconds rise with", "memory rises with", "verdict"]
    sheet = Sheet(cost.key, f"{cost.place}: {cost.title}", head)
    every = [point for at in range(len(cost.series)) for point in results.costs.get((cost.key, at), [])]
    if not every:
        sheet.has_numbers = False
        sheet.notes.append("Not run: it belongs to no data set, or the budget was used up.")
        return sheet
    loads = [point["load"] for point in every if point["load"] is not None]
    sheet.notes.append(
        f"{cost.ranker} on made-up rows of {cost.n_features} features, {cost.rows_of_query} rows a query, one thread, "
        f"the fastest of {cost.rounds} fits in seconds of the processor, to which others on the machine add little. "
        f"Powers are fitted to the {N_FITTED} largest points of a series. Memory is the most that arrays hold at once "
        "in a fit, without the rows themselves and without what BLAS keeps."
    )
    sheet.notes.append(
        f"While it ran the machine had a load of {min(loads):.1f} to {max(loads):.1f}, and a timed fit had a processor "
        f"for {min(point['seconds'] / point['wall'] for point in every):.0%} of its time or more."
        if loads
        else "The load of the machine is not known."
    )
    for at, series in enumerate(cost.series):
        points = results.costs.get((cost.key, at), [])
        name, letter = ("n_basis", "r") if series.rises == "n_basis" else ("n_rows", "m")
        shown = "; ".join(f"{p[name]:,}: {p['seconds']:.3g}, {p['megabytes']:.3g}" for p in points) or "–"
        found = {what: power(points, series.rises, what) for what in ("seconds", "megabytes")}
        slopes = {what: None if line is None else line[0] for what, line in found.items()}
        verdict = _verdict(slopes["seconds"], series.stated, results.quick or len(points) < len(series.points()))
        texts = [f"{letter}^{series.stated:g}"]
        texts += ["–" if slope is None else f"{letter}^{slope:.2f}" for slope in slopes.values()]
        cells = [Cell(series.title), Cell(f"{letter} = {shown}"), *map(Cell, texts)]
        sheet.rows.append([*cells, Cell(verdict.text, tone=verdict.tone)])
        record = {"series": series.title, "rises": name, "stated": series.stated, "verdict": verdict.text}
        sheet.records += [
            record | point | {f"power_of_{what}": slope for what, slope in slopes.items()} for point in points
        ]
    return sheet


def _verdict(slope: float | None, stated: float, too_little: bool) -> Verdict:
    if slope is None or too_little:
        return Verdict(NOT_COMPARED, "plain")
    if slope <= stated + _ROOM:
        return Verdict("rises no faster than stated", "good")
    return Verdict(f"rises faster than stated, its power is {slope - stated:.2f} higher", "bad")
