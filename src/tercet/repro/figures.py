"""Figures of a plan as rows for CSV and, where matplotlib is installed, as PNG."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet.repro.drawing import COLOURS, MARKERS, Drawing, as_png, empty_figure, log_axis
from tercet.repro.plan import Curves, Precisions, Scatter
from tercet.repro.runner import Results


def make_drawings(results: Results) -> list[Drawing]:
    """All figures that there are numbers for; nothing is drawn yet."""
    found = [
        _curves(results, curves, dataset)
        for curves in results.plan.curves
        for dataset in curves.datasets
        if any((curves.key, dataset, fit) in results.curves for fit in curves.fits)
    ]
    found += [
        _precisions(results, each)
        for each in results.plan.precisions
        if results.cells(each.dataset, each.x) and results.cells(each.dataset, each.y)
    ]
    found += [_scatter(results, scatter) for scatter in results.plan.scatters if scatter.dataset in results.data]
    return found


def _curves(results: Results, curves: Curves, dataset: str) -> Drawing:
    series: dict[str, list[dict[str, Any]]] = {}
    for fit in results.plan.fits:
        if (curves.key, dataset, fit.key) in results.curves:
            found = results.curves[curves.key, dataset, fit.key]["series"]
            for model in fit.all_models():
                if model.weights in found:
                    series[model.title] = found[model.weights]
    rows = [{"model": title} | point for title, points in series.items() for point in points]
    measures = results.plan.measures

    def draw_training() -> bytes:
        figure, (axes,) = empty_figure(1)
        for at, (title, points) in enumerate(series.items()):
            for name, style in (("error", "-"), ("training error", "--")):
                label = f"{title}, {'test' if name == 'error' else 'training'}"
                steps, values = [point["step"] for point in points], [point[name] for point in points]
                axes.plot(steps, values, style, color=COLOURS[at % 6], label=label, linewidth=1.4)
        log_axis(axes, "steps")
        axes.set_ylabel(measures["error"].title.lower())
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        return as_png(figure)

    def draw() -> bytes:
        figure, (left, right) = empty_figure(2)
        for at, (title, points) in enumerate(series.items()):
            steps = [point["step"] for point in points]
            style = {"color": COLOURS[at % 6], "marker": MARKERS[at % 6], "markersize": 3.5, "linewidth": 1.4}
            left.plot(steps, [point["error"] for point in points], label=title, **style)
            right.plot(steps, [100 * point["density"] for point in points], label=title, **style)
        for axes, label in ((left, f"test {measures['error'].title.lower()}"), (right, "density of W, %")):
            log_axis(axes, "steps")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.25)
        left.legend(frameon=False)
        return as_png(figure)

    data = results.plan.datasets[dataset].title
    drawn = draw if curves.beside == "density" else draw_training
    return Drawing(f"{curves.key}-{dataset}", f"{curves.place}: {curves.title}, {data}", rows, drawn)


def _precisions(results: Results, each: Precisions) -> Drawing:
    x, y = (results.by_query(each.dataset, model)[: each.queries] for model in (each.x, each.y))
    titles = [results.plan.model(model).title for model in (each.x, each.y)]
    rows = [
        {"query": at, titles[0]: a, titles[1]: b} for at, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True))
    ]

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1)
        axes.plot([0, 1], [0, 1], color="#888888", linewidth=1)
        axes.plot(x, y, "o", color=COLOURS[0], markersize=3, alpha=0.5)
        above = int((y > x).sum()), int((x > y).sum())
        axes.set_xlabel(f"average precision, {titles[0]} (better in {above[1]})")
        axes.set_ylabel(f"{titles[1]} (better in {above[0]})")
        axes.set_aspect("equal")
        axes.grid(alpha=0.25)
        return as_png(figure)

    return Drawing(each.key, f"{each.place}: {each.title}", rows, draw)


def _scatter(results: Results, scatter: Scatter) -> Drawing:
    rows: list[dict[str, Any]] = []
    for series in scatter.series:
        for model in series.models:
            x, y = (results.values(scatter.dataset, model, name) for name in (scatter.x, scatter.y))
            if x and y:
                title = results.plan.model(model).title
                low, high = min(y), max(y)
                rows.append(
                    {"series": series.title, "model": title, scatter.x: float(np.mean(x)), scatter.y: float(np.mean(y))}
                    | {"lowest": low, "highest": high}
                )
    measure = results.plan.measures[scatter.y]

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1)
        factor = 100 if scatter.x == "density" else 1
        middle = float(np.sqrt(np.prod([bound(row[scatter.x] for row in rows) * factor for bound in (min, max)])))
        for at, series in enumerate(scatter.series):
            points = sorted((row[scatter.x] * factor, row[scatter.y]) for row in rows if row["series"] == series.title)
            if len(points) == 1:
                _label_point(axes, series.title, points[0], middle)
            elif points:
                style = {"color": COLOURS[at % 6], "marker": MARKERS[at % 6]}
                axes.plot(*zip(*points, strict=True), label=series.title, **style)
        for at, (name, height) in enumerate(scatter.lines.items()):
            axes.axhline(height, color="#888888", linewidth=1, linestyle=("--", ":", "-.")[at % 3])
            axes.annotate(name, (0.01, height), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
        labels = {
            "density": "density of W, %",
            "seconds": "seconds of learning, thinning included",
            "memory": "memory, MB",
        }
        log_axis(axes, labels[scatter.x])
        axes.set_ylabel(measure.title)
        axes.grid(alpha=0.25)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
        return as_png(figure)

    return Drawing(scatter.key, f"{scatter.title}, {results.plan.datasets[scatter.dataset].title}", rows, draw, True)


def _label_point(axes: Any, title: str, point: tuple[float, float], middle: float) -> None:
    """A series of one point has its name beside it, not in the legend."""
    axes.plot(*point, color="#444444", marker="o", markersize=4)
    side = -1 if point[0] > middle else 1  # towards the middle of the axis
    axes.annotate(
        title,
        point,
        xytext=(6 * side, 0),
        textcoords="offset points",
        ha="right" if side < 0 else "left",
        va="center",
        fontsize=8,
    )
