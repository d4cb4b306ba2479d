"""Figures of what learning costs, and of what more rows give."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet.repro.drawing import COLOURS, MARKERS, Drawing, as_png, empty_figure, log_axis
from tercet.repro.features.cost_sheets import power
from tercet.repro.features.plan import Cost, Growth
from tercet.repro.features.runner import FeatureResults


def cost_drawing(results: FeatureResults, cost: Cost) -> Drawing:
    """Seconds and memory against rows and against basis vectors, both axes logarithmic."""
    rows: list[dict[str, Any]] = []
    lines: dict[tuple[str, str], tuple[float, float] | None] = {}
    rises_of: dict[str, str] = {}
    for at, series in enumerate(cost.series):
        points = results.costs.get((cost.key, at), [])
        rises_of[series.title] = series.rises
        for what in ("seconds", "megabytes"):
            lines[series.title, what] = power(points, series.rises, what)
        rows += [{"series": series.title, "rises": series.rises} | point for point in points]

    def draw() -> bytes:
        panels = [(rises, what) for rises in ("rows", "n_basis") for what in ("seconds", "megabytes")]
        panels = [(rises, what) for rises, what in panels if any(row["rises"] == rises for row in rows)]
        figure, every = empty_figure(len(panels))
        figure.set_size_inches(4.6 * len(panels), 4.0)
        titles = list(rises_of)
        for axes, (rises, what) in zip(every, panels, strict=True):
            for title in titles:
                x = [row["n_basis" if rises == "n_basis" else "n_rows"] for row in rows if row["series"] == title]
                if rises_of[title] != rises or not x:
                    continue
                colour, marker = COLOURS[titles.index(title) % 6], MARKERS[titles.index(title) % 6]
                y, line = [row[what] for row in rows if row["series"] == title], lines[title, what]
                label = title if line is None else f"{title}: power {line[0]:.2f}"
                axes.plot(x, y, marker, color=colour, markersize=6, label=label)
                if line is not None:
                    ends = np.array([min(x), max(x)], dtype=float)
                    axes.plot(ends, np.exp(line[1]) * ends ** line[0], "-", color=colour, linewidth=1.2, alpha=0.8)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.yaxis.set_minor_formatter("")
            log_axis(axes, "training rows m" if rises == "rows" else "basis vectors r")
            axes.set_ylabel("seconds of a fit" if what == "seconds" else "MB at most")
            axes.grid(alpha=0.25, which="both")
            axes.legend(frameon=False, fontsize=8)
        return as_png(figure)

    return Drawing(f"{cost.key}-figure", f"{cost.place}: {cost.title}", rows, draw)


def growth_drawing(results: FeatureResults, growth: Growth) -> Drawing:
    """A measure against the rows that were drawn, with its standard error over queries."""
    plan = results.plan
    rows: list[dict[str, Any]] = []
    for series in growth.series:
        for method in series.methods:
            runs = results.runs(growth.dataset, method)
            if runs:
                drawn = float(np.mean([cell["n_drawn"] for cells in runs for cell in cells]))
                value = float(np.mean(results.values(growth.dataset, method, growth.measure)))
                error = results.standard_error(growth.dataset, method, growth.measure)
                point = {"drawn": drawn, "value": value, "standard_error": error}
                rows.append({"series": series.title, "method": method} | point)

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1)
        figure.set_size_inches(7.4, 4.4)
        for at, title in enumerate(dict.fromkeys(row["series"] for row in rows)):
            mine = [row for row in rows if row["series"] == title]
            x, y = [row["drawn"] for row in mine], [row["value"] for row in mine]
            axes.plot(x, y, marker=MARKERS[at % 6], color=COLOURS[at % 6], label=title)
        log_axis(
            axes, "rows drawn: all that the basic form learns from, basis vectors of the sparse form (mean of folds)"
        )
        axes.set_ylabel(f"{plan.measures[growth.measure].title} on the test parts")
        axes.grid(alpha=0.25, which="both")
        axes.legend(frameon=False, fontsize=9)
        return as_png(figure)

    return Drawing(growth.key, f"{growth.title}, {plan.datasets[growth.dataset].title}", rows, draw)
