"""Figures of a run as rows for CSV and, where matplotlib is installed, as PNG."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tercet.errors import MissingExtraError
from tercet.repro.cost_jobs import power
from tercet.repro.paper_results import PaperResults
from tercet.repro.plan import Cost, Curves, Cutoffs, Growth, Precisions, Scatter, TradeOff
from tercet.repro.tables import PAST_THE_PAPER, settings_tested

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
MARKERS = "osD^vP"

Rows = list[dict[str, Any]]


@dataclass
class Drawing:
    """One figure: its rows, and its picture where it can be drawn."""

    key: str
    title: str
    rows: Rows
    draw: Callable[[], bytes]
    section: str = ""
    png: bytes | None = None


def make_drawings(results: PaperResults) -> list[Drawing]:
    """All figures that there are numbers for; nothing is drawn yet."""
    return [drawing for drawing in _drawings(results) if drawing.rows]


def _drawings(results: PaperResults) -> Iterator[Drawing]:
    plan = results.plan
    for curves in plan.curves:
        yield from (_curves(results, curves, dataset) for dataset in curves.datasets)
    for precisions in plan.precisions:
        if all(results.runs(precisions.dataset, model) for model in (precisions.x, precisions.y)):
            yield _precisions(results, precisions)
    for cutoffs in plan.cutoffs:
        yield from (_cutoffs(results, cutoffs, dataset) for dataset in cutoffs.datasets)
    yield from (_scatter(results, scatter) for scatter in plan.scatters)
    yield from (_tradeoff(results, tradeoff) for tradeoff in plan.tradeoffs if tradeoff.dataset in results.data)
    yield from (_growth(results, growth) for growth in plan.growths)
    yield from (_cost(results, cost) for cost in plan.costs)


def draw_all(drawings: list[Drawing]) -> None:
    """Fill in the PNGs; without matplotlib a MissingExtraError."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing figures") from error
    for drawing in drawings:
        drawing.png = drawing.draw()


# -- of words ---------------------------------------------------------------------------------------------------------


def _curves(results: PaperResults, curves: Curves, dataset: str) -> Drawing:
    series: dict[str, Rows] = {}
    for method in results.plan.methods:
        if (curves.key, dataset, method.key) in results.curves:
            by_weights = results.curves[curves.key, dataset, method.key]["series"]
            for model in method.all_models():
                if model.weights in by_weights:
                    series[model.title] = by_weights[model.weights]
    rows = [{"model": title} | point for title, points in series.items() for point in points]
    measures = results.plan.measures

    def draw_training() -> bytes:
        figure, (axes,) = _empty_figure(1)
        for number, (title, points) in enumerate(series.items()):
            for name, style in (("error", "-"), ("training error", "--")):
                label = f"{title}, {'test' if name == 'error' else 'training'}"
                steps, values = [point["step"] for point in points], [point[name] for point in points]
                axes.plot(steps, values, style, color=COLOURS[number % 6], label=label, linewidth=1.4)
        _log_axis(axes, "steps")
        axes.set_ylabel(measures["error"].title.lower())
        axes.set_ylim(bottom=0)
        return _finished(figure)

    def draw() -> bytes:
        figure, (left, right) = _empty_figure(2)
        for number, (title, points) in enumerate(series.items()):
            steps = [point["step"] for point in points]
            style = _style(number) | {"markersize": 3.5, "linewidth": 1.4}
            left.plot(steps, [point["error"] for point in points], label=title, **style)
            right.plot(steps, [100 * point["density"] for point in points], **style)
        for axes, label in ((left, f"test {measures['error'].title.lower()}"), (right, "density of W, %")):
            _log_axis(axes, "steps")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
        return _finished(figure)

    title = f"{curves.place}: {curves.title}, {results.plan.datasets[dataset].title}"
    return Drawing(f"{curves.key}-{dataset}", title, rows, draw if curves.beside == "density" else draw_training)


def _precisions(results: PaperResults, precisions: Precisions) -> Drawing:
    models = precisions.x, precisions.y
    x, y = (results.by_query(precisions.dataset, model, "map")[: precisions.queries] for model in models)
    titles = [results.plan.model(model).title for model in models]
    pairs = enumerate(zip(x.tolist(), y.tolist(), strict=True))
    rows = [{"query": number, titles[0]: first, titles[1]: second} for number, (first, second) in pairs]

    def draw() -> bytes:
        figure, (axes,) = _empty_figure(1)
        axes.plot([0, 1], [0, 1], color="#888888", linewidth=1)
        axes.plot(x, y, "o", color=COLOURS[0], markersize=3, alpha=0.5)
        axes.set_xlabel(f"average precision, {titles[0]} (better in {int((x > y).sum())})")
        axes.set_ylabel(f"{titles[1]} (better in {int((y > x).sum())})")
        axes.set_aspect("equal")
        return _finished(figure)

    return Drawing(precisions.key, f"{precisions.place}: {precisions.title}", rows, draw)


def _scatter(results: PaperResults, scatter: Scatter) -> Drawing:
    rows: Rows = []
    for series in scatter.series:
        for model in series.models:
            x, y = (results.values(scatter.dataset, model, name) for name in (scatter.x, scatter.y))
            if x and y:
                point = {scatter.x: float(np.mean(x)), scatter.y: float(np.mean(y))}
                names = {"series": series.title, "model": results.plan.model(model).title}
                rows.append(names | point | {"lowest": min(y), "highest": max(y)})

    def draw() -> bytes:
        figure, (axes,) = _empty_figure(1)
        factor = 100 if scatter.x == "density" else 1
        middle = float(np.sqrt(np.prod([bound(row[scatter.x] for row in rows) * factor for bound in (min, max)])))
        for number, series in enumerate(scatter.series):
            points = sorted((row[scatter.x] * factor, row[scatter.y]) for row in rows if row["series"] == series.title)
            if len(points) == 1:
                _label_point(axes, series.title, points[0], middle)
            elif points:
                axes.plot(*zip(*points, strict=True), label=series.title, **_style(number))
        for number, (name, height) in enumerate(scatter.lines.items()):
            axes.axhline(height, color="#888888", linewidth=1, linestyle=("--", ":", "-.")[number % 3])
            axes.annotate(name, (0.01, height), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
        labels = {
            "density": "density of W, %",
            "seconds": "seconds of learning, thinning included",
            "memory": "memory, MB",
        }
        _log_axis(axes, labels[scatter.x])
        axes.set_ylabel(results.plan.measures[scatter.y].title)
        return _finished(figure)

    title = f"{scatter.title}, {results.plan.datasets[scatter.dataset].title}"
    return Drawing(scatter.key, title, rows, draw, PAST_THE_PAPER)


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


# -- of rows ----------------------------------------------------------------------------------------------------------


def _cutoffs(results: PaperResults, cutoffs: Cutoffs, dataset: str) -> Drawing:
    plan = results.plan
    rows: Rows = [
        {
            "model": plan.model(model).title,
            "cutoff": plan.measures[name].cutoff,
            "value": float(np.mean(results.values(dataset, model, name))),
            "standard_error": results.standard_error(dataset, model, name),
        }
        for model in cutoffs.models
        if results.runs(dataset, model)
        for name in cutoffs.measures
    ]

    def draw() -> bytes:
        figure, (axes,) = _empty_figure(1)
        for number, title in enumerate(dict.fromkeys(row["model"] for row in rows)):
            x, y = zip(*((row["cutoff"], row["value"]) for row in rows if row["model"] == title), strict=True)
            stands_out = {"linewidth": 2.0, "zorder": 3} if number == 0 else {"linewidth": 1.2, "zorder": 2}
            axes.plot(x, y, label=title, markersize=4, **stands_out, **_style(number))
        axes.set_xticks(sorted({row["cutoff"] for row in rows}))
        axes.set_xlabel("k")
        axes.set_ylabel("mean N@k over the test parts")
        return _finished(figure)

    title = f"{cutoffs.place}: {cutoffs.title}, {plan.datasets[dataset].title}"
    return Drawing(f"{cutoffs.key}-{dataset}", title, rows, draw)


def _tradeoff(results: PaperResults, tradeoff: TradeOff) -> Drawing:
    plan, dataset = results.plan, tradeoff.dataset
    rows: Rows = []
    n_features = results.data[dataset]["statistics"]["features"]
    for model in tradeoff.models:
        for cells in results.runs(dataset, model)[:1]:
            title = plan.model(model).title
            rows += [{"model": title, "what": "setting"} | point for point in settings_tested(cells)]
            rows += [{"model": title, "what": "best on validation"} | point for point in _front(cells, n_features)]
    for model in (*tradeoff.models, *tradeoff.points):
        counts = [cell["facts"]["n_used"] for cells in results.runs(dataset, model) for cell in cells]
        if counts and None not in counts:  # what a kernel ranker uses cannot be counted
            value = float(np.mean(results.values(dataset, model, tradeoff.measure)))
            point = {"used": float(np.mean(counts)), "value": value}
            rows.append({"model": plan.model(model).title, "what": "chosen"} | point)

    def xy(title: str, what: str) -> tuple[list[float], list[float]]:
        points = [row for row in rows if row["model"] == title and row["what"] == what]
        return [point["used"] for point in points], [point["value"] for point in points]

    def draw() -> bytes:
        figure, (axes,) = _empty_figure(1)
        figure.set_size_inches(8.6, 5.0)
        titles = list(dict.fromkeys(row["model"] for row in rows))
        traced = [title for title in titles if xy(title, "setting")[0]]
        for number, title in enumerate(titles):
            colour, marker = COLOURS[number % 6], MARKERS[number % 6]
            if title not in traced:
                colour, marker = "#111111", "*hX"[(number - len(traced)) % 3]
            axes.plot(*xy(title, "setting"), ".", color=colour, alpha=0.35, markersize=5, markeredgewidth=0)
            axes.plot(*xy(title, "best on validation"), "-", color=colour, linewidth=1.5)
            symbol = {"color": colour, "markersize": 9, "markeredgecolor": "#222222", "zorder": 4}
            axes.plot(*xy(title, "chosen"), marker, label=title, **symbol)
        heights = [row["value"] for row in rows if row["what"] != "setting" and row["used"] >= 1]
        if heights:
            room = 0.15 * (max(heights) - min(heights)) + 0.005
            axes.set_ylim(max(min(heights) - room, np.quantile(heights, 0.1) - 8 * room), max(heights) + 2 * room)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"features used of {n_features}, mean over folds")
        axes.set_ylabel(f"{plan.measures[tradeoff.measure].title} on the test parts")
        axes.set_title(
            "symbols: what was chosen; lines: the best on validation with at most so many features; dots: all settings",
            fontsize=8,
        )
        return _finished(figure, fontsize=8, loc="lower right")

    return Drawing(tradeoff.key, f"{tradeoff.title}, {plan.datasets[dataset].title}", rows, draw, PAST_THE_PAPER)


def _front(cells: Rows, n_features: int) -> list[dict[str, float]]:
    """The best on validation of those with at most 1, 2, … features; test parts only show how it did."""
    front: list[dict[str, float]] = []
    for most in range(1, n_features + 1):
        chosen = []
        for cell in cells:
            allowed = [point for point in cell["grid"] if 1 <= point["used"] <= most]
            if allowed:
                chosen.append(min(allowed, key=lambda point: (-point["validation"], point["used"])))
        if len(chosen) == len(cells):
            used, value = (float(np.mean([point[name] for point in chosen])) for name in ("used", "test"))
            if not front or front[-1] != {"used": used, "value": value}:
                front.append({"used": used, "value": value})
    return front


def _growth(results: PaperResults, growth: Growth) -> Drawing:
    """A measure against the rows that were drawn, with its standard error over queries."""
    plan = results.plan
    rows: Rows = []
    for series in growth.series:
        for model in series.models:
            runs = results.runs(growth.dataset, model)
            if runs:
                drawn = float(np.mean([cell["facts"]["n_drawn"] for cells in runs for cell in cells]))
                value = float(np.mean(results.values(growth.dataset, model, growth.measure)))
                error = results.standard_error(growth.dataset, model, growth.measure)
                point = {"drawn": drawn, "value": value, "standard_error": error}
                rows.append({"series": series.title, "model": model} | point)

    def draw() -> bytes:
        figure, (axes,) = _empty_figure(1)
        figure.set_size_inches(7.4, 4.4)
        for number, title in enumerate(dict.fromkeys(row["series"] for row in rows)):
            x, y = zip(*((row["drawn"], row["value"]) for row in rows if row["series"] == title), strict=True)
            axes.plot(x, y, label=title, **_style(number))
        _log_axis(
            axes, "rows drawn: all that the basic form learns from, basis vectors of the sparse form (mean of folds)"
        )
        axes.set_ylabel(f"{plan.measures[growth.measure].title} on the test parts")
        return _finished(figure, fontsize=9)

    return Drawing(growth.key, f"{growth.title}, {plan.datasets[growth.dataset].title}", rows, draw)


def _cost(results: PaperResults, cost: Cost) -> Drawing:
    """Seconds and memory against rows and against basis vectors, both axes logarithmic."""
    rows: Rows = []
    for number, series in enumerate(cost.series):
        points = results.costs.get((cost.key, number), [])
        rows += [{"series": series.title, "rises": series.rises} | point for point in points]

    def draw() -> bytes:
        panels = [(rises, what) for rises in ("rows", "n_basis") for what in ("seconds", "megabytes")]
        panels = [(rises, what) for rises, what in panels if any(row["rises"] == rises for row in rows)]
        figure, every = _empty_figure(len(panels))
        figure.set_size_inches(4.6 * len(panels), 4.0)
        for axes, (rises, what) in zip(every, panels, strict=True):
            for number, series in enumerate(cost.series):
                points = [row for row in rows if row["series"] == series.title]
                if series.rises == rises and points:
                    _draw_cost(axes, series.title, points, rises, what, number)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.yaxis.set_minor_formatter("")
            _log_axis(axes, "training rows m" if rises == "rows" else "basis vectors r")
            axes.set_ylabel("seconds of a fit" if what == "seconds" else "MB at most")
        return _finished(figure, fontsize=8)

    return Drawing(f"{cost.key}-figure", f"{cost.place}: {cost.title}", rows, draw)


def _draw_cost(axes: Any, title: str, points: Rows, rises: str, what: str, number: int) -> None:
    """The points of a series, and the line of its power through the largest of them."""
    x = [point["n_basis" if rises == "n_basis" else "n_rows"] for point in points]
    line, colour = power(points, rises, what), COLOURS[number % 6]
    label = title if line is None else f"{title}: power {line[0]:.2f}"
    axes.plot(x, [point[what] for point in points], MARKERS[number % 6], color=colour, markersize=6, label=label)
    if line is not None:
        ends = np.array([min(x), max(x)], dtype=float)
        axes.plot(ends, np.exp(line[1]) * ends ** line[0], "-", color=colour, linewidth=1.2, alpha=0.8)


# -- matplotlib -------------------------------------------------------------------------------------------------------


def _style(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number % 6], "marker": MARKERS[number % 6]}


def _empty_figure(n_panels: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # not pyplot, which keeps state and looks for a screen

    figure = Figure(figsize=(5.6 * n_panels, 3.8), layout="constrained")
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def _log_axis(axes: Any, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_minor_formatter("")


def _finished(figure: Any, **legend: Any) -> bytes:
    """The figure as PNG, every panel with a grid, and a legend where something has a name."""
    for axes in figure.axes:
        axes.grid(alpha=0.25, which="both")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, **legend)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()
