"""Figures of a plan of feature vectors: measures at rising cut-offs, and accuracy against features used."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet.repro.drawing import COLOURS, MARKERS, Drawing, as_png, empty_figure
from tercet.repro.features.cost_figures import cost_drawing, growth_drawing
from tercet.repro.features.plan import Lines, TradeOff
from tercet.repro.features.runner import FeatureResults
from tercet.repro.features.sheets import full_title, settings_tested


def make_drawings(results: FeatureResults) -> list[Drawing]:
    """All figures that there are numbers for; nothing is drawn yet."""
    found = [
        _lines(results, lines, dataset)
        for lines in results.plan.lines
        for dataset in lines.datasets
        if any(results.runs(dataset, method) for method in lines.methods)
    ]
    found += [
        _tradeoff(results, tradeoff)
        for tradeoff in results.plan.tradeoffs
        if any(results.runs(tradeoff.dataset, method) for method in tradeoff.methods)
    ]
    found += [
        growth_drawing(results, growth)
        for growth in results.plan.growths
        if any(results.runs(growth.dataset, method) for series in growth.series for method in series.methods)
    ]
    found += [
        cost_drawing(results, cost) for cost in results.plan.costs if any(key == cost.key for key, _ in results.costs)
    ]
    return found


def _lines(results: FeatureResults, lines: Lines, dataset: str) -> Drawing:
    plan = results.plan
    rows: list[dict[str, Any]] = [
        {
            "method": full_title(plan.method(method)),
            "cutoff": plan.measures[name].cutoff,
            "value": float(np.mean(results.values(dataset, method, name))),
            "standard_error": results.standard_error(dataset, method, name),
        }
        for method in lines.methods
        if results.runs(dataset, method)
        for name in lines.measures
    ]

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1)
        titles = list(dict.fromkeys(row["method"] for row in rows))
        for at, title in enumerate(titles):
            x, y = zip(*((row["cutoff"], row["value"]) for row in rows if row["method"] == title), strict=True)
            style: dict[str, Any] = {"color": COLOURS[at % 6], "marker": MARKERS[at % 6], "markersize": 4}
            axes.plot(x, y, label=title, linewidth=2.0 if at == 0 else 1.2, zorder=3 if at == 0 else 2, **style)
        axes.set_xticks(sorted({row["cutoff"] for row in rows}))
        axes.set_xlabel("k")
        axes.set_ylabel("mean N@k over the test parts")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        return as_png(figure)

    title = f"{lines.place}: {lines.title}, {plan.datasets[dataset].title}"
    return Drawing(f"{lines.key}-{dataset}", title, rows, draw)


def _tradeoff(results: FeatureResults, tradeoff: TradeOff) -> Drawing:
    plan, dataset = results.plan, tradeoff.dataset
    rows: list[dict[str, Any]] = []
    n_features = results.data[dataset]["statistics"]["features"]
    for method in tradeoff.methods:
        runs = results.runs(dataset, method)
        if runs:
            title = full_title(plan.method(method))
            rows += [{"method": title, "what": "setting"} | point for point in settings_tested(runs[0])]
            rows += [{"method": title, "what": "best on validation"} | point for point in _front(runs[0], n_features)]
    for method in (*tradeoff.methods, *tradeoff.points):
        runs = results.runs(dataset, method)
        if runs:
            counts = [cell["n_used"] for cells in runs for cell in cells]
            if None in counts:  # what a kernel ranker uses cannot be counted
                continue
            value = float(np.mean(results.values(dataset, method, tradeoff.measure)))
            point = {"used": float(np.mean(counts)), "value": value}
            rows.append({"method": full_title(plan.method(method)), "what": "chosen"} | point)
    label = plan.measures[tradeoff.measure].title

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1)
        figure.set_size_inches(8.6, 5.0)
        titles = list(dict.fromkeys(row["method"] for row in rows))
        traced = [title for title in titles if any(row["method"] == title and row["what"] == "setting" for row in rows)]
        for at, title in enumerate(titles):
            colour, marker = COLOURS[at % 6], MARKERS[at % 6]
            if title not in traced:
                colour, marker = "#111111", "*hX"[(at - len(traced)) % 3]
            points = {what: _xy(rows, title, what) for what in ("setting", "best on validation", "chosen")}
            axes.plot(*points["setting"], ".", color=colour, alpha=0.35, markersize=5, markeredgewidth=0)
            axes.plot(*points["best on validation"], "-", color=colour, linewidth=1.5)
            axes.plot(
                *points["chosen"], marker, color=colour, label=title, markersize=9, markeredgecolor="#222222", zorder=4
            )
        shown = [row["value"] for row in rows if row["what"] != "setting" and row["used"] >= 1]
        if shown:
            room = 0.15 * (max(shown) - min(shown)) + 0.005
            axes.set_ylim(max(min(shown) - room, np.quantile(shown, 0.1) - 8 * room), max(shown) + 2 * room)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"features used of {n_features}, mean over folds")
        axes.set_ylabel(f"{label} on the test parts")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
        axes.set_title(
            "symbols: what was chosen; lines: the best on validation with at most so many features; dots: all settings",
            fontsize=8,
        )
        return as_png(figure)

    title = f"{tradeoff.title}, {plan.datasets[dataset].title}"
    return Drawing(tradeoff.key, title, rows, draw, past_the_paper=True)


def _xy(rows: list[dict[str, Any]], title: str, what: str) -> tuple[list[float], list[float]]:
    found = [row for row in rows if row["method"] == title and row["what"] == what]
    return [row["used"] for row in found], [row["value"] for row in found]


def _front(cells: list[dict[str, Any]], n_features: int) -> list[dict[str, float]]:
    """The best on validation of those with at most 1, 2, … features; test parts only show how it did."""
    found: list[dict[str, float]] = []
    for most in range(1, n_features + 1):
        chosen = []
        for cell in cells:
            allowed = [point for point in cell["grid"] if 1 <= point["used"] <= most]
            if allowed:
                chosen.append(min(allowed, key=lambda point: (-point["validation"], point["used"])))
        if len(chosen) == len(cells):
            used, value = (float(np.mean([point[name] for point in chosen])) for name in ("used", "test"))
            if not found or found[-1] != {"used": used, "value": value}:
                found.append({"used": used, "value": value})
    return found
