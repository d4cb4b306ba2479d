"""Figures of a run as rows for CSV and, where matplotlib is installed, as PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.fronts import front_points
from reproductions.paper_results import PaperResults
from reproductions.plan import Method, Model
from reproductions.plan_items import Curves, Cutoffs, Front, Growth, Precisions, Scatter, TradeOff
from reproductions.plotting import (
    COLOURS,
    MARKERS,
    empty_figure,
    finished,
    log_axis,
    printed_point,
    style,
    with_band,
    with_bars,
)
from reproductions.printed import printed_of
from reproductions.tables import PAST_THE_PAPER, settings_tested
from tercet.errors import MissingExtraError

Rows = list[dict[str, Any]]


@dataclass
class Drawing:
    """One figure: its rows, its picture where it can be drawn, and what bars and marks in it mean."""

    key: str
    title: str
    rows: Rows
    draw: Callable[[], bytes]
    section: str = ""
    caption: str = ""
    dataset: str = ""
    png: bytes | None = None


def make_drawings(results: PaperResults) -> list[Drawing]:
    """All figures of the plan, in its order; nothing is drawn yet, and those without rows never are."""
    return list(_drawings(results))


def _drawings(results: PaperResults) -> Iterator[Drawing]:
    plan = results.plan
    for curves in plan.curves:
        yield from (_curves(results, curves, dataset) for dataset in curves.datasets)
    yield from (_precisions(results, precisions) for precisions in plan.precisions)
    for cutoffs in plan.cutoffs:
        yield from (_cutoffs(results, cutoffs, dataset) for dataset in cutoffs.datasets)
    yield from (_scatter(results, scatter) for scatter in plan.scatters)
    yield from (_tradeoff(results, tradeoff) for tradeoff in plan.tradeoffs)
    yield from (_pareto(results, front) for front in plan.fronts)
    yield from (_growth(results, growth) for growth in plan.growths)


def draw_all(drawings: list[Drawing]) -> None:
    """Fill in the PNGs; without matplotlib a MissingExtraError."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing figures") from error
    for drawing in drawings:
        drawing.png = drawing.draw() if drawing.rows else None


# -- of words ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """The points of one model."""

    method: Method
    model: Model
    points: Rows


def _curves(results: PaperResults, curves: Curves, dataset: str) -> Drawing:
    drawn = _curves_of(results, curves, dataset)
    measures, names = results.plan.measures, ("error", curves.second_measure)
    for name in names if curves.second_measure != "density" else ("error",):
        for point in (point for curve in drawn for point in curve.points):
            error = np.sqrt(point[name] * (1 - point[name]) / curves.test_preferences)
            point[f"standard_error of {name}"] = float(error)
    rows = [{"model": curve.model.title} | point for curve in drawn for point in curve.points]
    for curve in drawn:
        for name in names:
            printed = printed_of(results.plan, dataset, curve.model.key, name)
            if printed is not None:
                point = {"step": curve.method.preferences, name: printed.value, "printed": True}
                rows.append({"model": curve.model.title} | point)

    def draw_series(axes: Any, name: str, factor: float = 1.0, **look: Any) -> None:
        for number, curve in enumerate(drawn):
            points, colour = [point | {name: factor * point[name]} for point in curve.points], COLOURS[number % 6]
            label = curve.model.title + (", training" if name == "training error" else "")
            with_band(axes, points, name, colour, label=label, linewidth=1.4, **look)
            printed = printed_of(results.plan, dataset, curve.model.key, name)
            if printed is not None:
                printed_point(axes, curve.method.preferences, factor * printed.value, colour)
        log_axis(axes, "steps")
        axes.set_ylim(bottom=0)

    def draw() -> bytes:
        figure, every = empty_figure(2 if curves.second_measure == "density" else 1)
        label = measures["error"].title.lower()
        draw_series(every[0], "error")
        every[0].set_ylabel(f"test {label}" if curves.second_measure == "density" else label)
        if curves.second_measure == "density":
            draw_series(every[1], "density", factor=100)
            every[1].set_ylabel("density of W, %")
        else:
            draw_series(every[0], curves.second_measure, linestyle="--")
        return finished(figure, fontsize=8)

    title = f"{curves.position}: {curves.title}, {results.plan.datasets[dataset].title}"
    caption = f"Bands: the binomial standard error over {curves.test_preferences:,} test preferences. "
    caption += "Diamonds: printed in the paper's tables, after the last step. " if _has_printed(rows) else ""
    return Drawing(f"{curves.key}-{dataset}", title, rows, draw, "", caption, dataset)


def _curves_of(results: PaperResults, curves: Curves, dataset: str) -> list[_Curve]:
    """The curves that were measured."""
    return [
        _Curve(method, model, [dict(point) for point in by_weights[model.weights]])
        for method in results.plan.methods
        for by_weights in [results.curves.get((curves.key, dataset, method.key), {"series": {}})["series"]]
        for model in method.all_models()
        if by_weights.get(model.weights)
    ]


def _has_printed(rows: Rows) -> bool:
    return any(row.get("printed") for row in rows)


def _precisions(results: PaperResults, precisions: Precisions) -> Drawing:
    models = precisions.x, precisions.y
    ran = all(results.runs(precisions.dataset, model) for model in models)
    x, y = (
        results.by_query(precisions.dataset, model, "map")[: precisions.queries] if ran else np.zeros(0)
        for model in models
    )
    titles = [results.plan.model(model).title for model in models]
    pairs = enumerate(zip(x.tolist(), y.tolist(), strict=True))
    rows = [{"query": number, titles[0]: first, titles[1]: second} for number, (first, second) in pairs]
    errors = [float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0 for values in (x, y)]

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1)
        axes.plot([0, 1], [0, 1], color="#888888", linewidth=1)
        axes.plot(x, y, "o", color=COLOURS[0], markersize=3, alpha=0.5)
        look = {"color": COLOURS[3], "marker": "o", "capsize": 3, "linestyle": "none", "label": "mean"}
        axes.errorbar([x.mean()], [y.mean()], xerr=errors[0], yerr=errors[1], zorder=4, **look)
        axes.set_xlabel(f"average precision, {titles[0]} (better in {int((x > y).sum())})")
        axes.set_ylabel(f"{titles[1]} (better in {int((y > x).sum())})")
        axes.set_aspect("equal")
        return finished(figure)

    title, caption = (
        f"{precisions.position}: {precisions.title}",
        "A dot for each query; the mean with its standard errors.",
    )
    return Drawing(precisions.key, title, rows, draw, "", caption, precisions.dataset)


def _scatter(results: PaperResults, scatter: Scatter) -> Drawing:
    plan, names = results.plan, (scatter.x, scatter.y)
    rows: Rows = []
    for series in scatter.series:
        for model in series.models:
            who = {"series": series.title, "model": plan.model(model).title}
            x, y = (results.values(scatter.dataset, model, name) for name in names)
            if x and y:
                point = {scatter.x: float(np.mean(x)), scatter.y: float(np.mean(y))}
                error = results.standard_error(scatter.dataset, model, scatter.y)
                error = (max(y) - min(y)) / 2 if error is None else error
                rows.append(who | point | {"lowest": min(y), "highest": max(y), "standard_error": error})
            printed = [printed_of(plan, scatter.dataset, model, name) for name in names]
            if x and y and None not in printed:
                values = {name: number.value for name, number in zip(names, printed, strict=True) if number}
                rows.append(who | values | {"printed": True})

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1, width=6.6, height=4.4)
        factor = 100 if scatter.x == "density" else 1
        scaled = [row | {scatter.x: row[scatter.x] * factor} for row in rows]
        middle = float(np.sqrt(np.prod([bound(row[scatter.x] for row in scaled) for bound in (min, max)])))
        for number, series in enumerate(scatter.series):
            own = sorted((row for row in scaled if row["series"] == series.title), key=lambda row: row[scatter.x])
            points = [row for row in own if not row.get("printed")]
            colour = "#444444" if len(points) == 1 else COLOURS[number % 6]
            if len(points) == 1:
                with_bars(axes, points, *names, color=colour, marker="o", markersize=4)
                _label_point(axes, series.title, (points[0][scatter.x], points[0][scatter.y]), middle)
            elif points:
                with_bars(axes, points, *names, label=series.title, **style(number))
            for row in own:
                if row.get("printed"):
                    printed_point(axes, row[scatter.x], row[scatter.y], colour)
        for number, (name, height) in enumerate(scatter.lines.items()):
            axes.axhline(height, color="#888888", linewidth=1, linestyle=("--", ":", "-.")[number % 3])
            axes.annotate(name, (0.01, height), xycoords=("axes fraction", "data"), va="bottom", fontsize=8)
        labels = {
            "density": "density of W, %",
            "seconds": "seconds of learning, thinning included",
            "memory": "memory, MB",
        }
        log_axis(axes, labels[scatter.x])
        axes.set_ylabel(plan.measures[scatter.y].title)
        return finished(figure, fontsize=8)

    title = f"{scatter.title}, {plan.datasets[scatter.dataset].title}"
    caption = f"Bars: {_BARS}. " + ("Diamonds: printed in the paper's tables." if _has_printed(rows) else "")
    return Drawing(scatter.key, title, rows, draw, PAST_THE_PAPER, caption, scatter.dataset)


_BARS = "the standard error over queries"


def _label_point(axes: Any, title: str, point: tuple[float, float], middle: float) -> None:
    """A series of one point has its name beside it, not in the legend."""
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
    rows: Rows = []
    for model in cutoffs.models:
        for name in cutoffs.measures if results.runs(dataset, model) else ():
            who = {"model": plan.model(model).title, "cutoff": plan.measures[name].cutoff}
            value = float(np.mean(results.values(dataset, model, name)))
            rows.append(who | {"value": value, "standard_error": results.standard_error(dataset, model, name)})
            printed = printed_of(plan, dataset, model, name)
            if printed is not None:
                rows.append(who | {"value": printed.value, "standard_error": printed.plus_minus, "printed": True})

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1, width=6.6, height=4.4)
        titles = list(dict.fromkeys(row["model"] for row in rows))
        for number, title in enumerate(titles):
            own = [row for row in rows if row["model"] == title]
            shift = 0.12 * (number - (len(titles) - 1) / 2)  # bars of one cut-off stand side by side
            stands_out = {"linewidth": 2.0, "zorder": 3} if number == 0 else {"linewidth": 1.2, "zorder": 2}
            points = [row for row in own if not row.get("printed")]
            look = {"markersize": 4} | stands_out | style(number)
            with_bars(axes, points, "cutoff", "value", shift=shift, label=title, **look)
            for row in own:
                if row.get("printed"):
                    printed_point(axes, row["cutoff"] + shift, row["value"], COLOURS[number % 6], row["standard_error"])
        axes.set_xticks(sorted({row["cutoff"] for row in rows}))
        axes.set_xlabel("k")
        axes.set_ylabel("mean N@k over the test parts")
        return finished(figure, fontsize=8)

    title = f"{cutoffs.position}: {cutoffs.title}, {plan.datasets[dataset].title}"
    caption = f"Bars: {_BARS}. " + ("Diamonds: printed in the paper's tables." if _has_printed(rows) else "")
    return Drawing(f"{cutoffs.key}-{dataset}", title, rows, draw, "", caption, dataset)


def _tradeoff(results: PaperResults, tradeoff: TradeOff) -> Drawing:
    plan, dataset = results.plan, tradeoff.dataset
    rows: Rows = []
    n_features = results.data.get(dataset, {}).get("statistics", {}).get("features", 0)
    for model in tradeoff.models:
        for folds in results.runs(dataset, model)[:1]:
            title = plan.model(model).title
            rows += [{"model": title, "what": "setting"} | point for point in settings_tested(folds)]
            rows += [{"model": title, "what": "best on validation"} | point for point in _front(folds, n_features)]
    for model in (*tradeoff.models, *tradeoff.points):
        counts = [fit["facts"]["n_used"] for folds in results.runs(dataset, model) for fit in folds]
        if counts and None not in counts:  # what a kernel ranker uses cannot be counted
            value = float(np.mean(results.values(dataset, model, tradeoff.measure)))
            error = results.standard_error(dataset, model, tradeoff.measure)
            point = {"used": float(np.mean(counts)), "value": value, "standard_error": error}
            rows.append({"model": plan.model(model).title, "what": "chosen"} | point)

    def points_of(title: str, what: str) -> Rows:
        return [row for row in rows if row["model"] == title and row["what"] == what]

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1, width=8.6, height=5.0)
        titles = list(dict.fromkeys(row["model"] for row in rows))
        traced = [title for title in titles if points_of(title, "setting")]
        for number, title in enumerate(titles):
            colour, marker = COLOURS[number % 6], MARKERS[number % 6]
            if title not in traced:
                colour, marker = "#111111", "*hX"[(number - len(traced)) % 3]
            for what, look in (("setting", {"marker": ".", "alpha": 0.35}), ("best on validation", {"linewidth": 1.5})):
                points = points_of(title, what)
                joined = {"linestyle": "none", "markersize": 5, "markeredgewidth": 0} if what == "setting" else {}
                axes.plot([p["used"] for p in points], [p["value"] for p in points], color=colour, **joined, **look)
            symbol: dict[str, Any] = {
                "color": colour,
                "markersize": 9,
                "markeredgecolor": "#222222",
                "zorder": 4,
                "linestyle": "none",
            }
            with_bars(axes, points_of(title, "chosen"), "used", "value", marker=marker, label=title, **symbol)
        shown = [row for row in rows if row["what"] != "setting" and row["used"] >= 1]
        if shown:
            lows, highs = (
                [row["value"] + sign * (row.get("standard_error") or 0) for row in shown] for sign in (-1, 1)
            )
            room = 0.05 * (max(highs) - min(lows)) + 0.005
            axes.set_ylim(max(min(lows) - room, np.quantile(lows, 0.1) - 8 * room), max(highs) + room)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"features used of {n_features}, mean over folds")
        axes.set_ylabel(f"{plan.measures[tradeoff.measure].title} on the test parts")
        return finished(figure, fontsize=8)

    caption = (
        f"Symbols: what was chosen, with {_BARS}. Lines: the best on validation with at most so many features. Dots: "
        "all settings."
    )
    title = f"{tradeoff.title}, {plan.datasets[dataset].title}"
    return Drawing(tradeoff.key, title, rows, draw, PAST_THE_PAPER, caption, dataset)


def _front(folds: Rows, n_features: int) -> list[dict[str, float]]:
    """The best on validation of those with at most 1, 2, … features; test parts only show how it did."""
    front: list[dict[str, float]] = []
    for most in range(1, n_features + 1):
        chosen = []
        for fit in folds:
            allowed = [point for point in fit["grid"] if 1 <= point["used"] <= most]
            if allowed:
                chosen.append(min(allowed, key=lambda point: (-point["validation"], point["used"])))
        if len(chosen) == len(folds):
            used, value = (float(np.mean([point[name] for point in chosen])) for name in ("used", "test"))
            if not front or front[-1] != {"used": used, "value": value}:
                front.append({"used": used, "value": value})
    return front


def _pareto(results: PaperResults, front: Front) -> Drawing:
    """The front where it was chosen, and on the test parts with its standard error over queries."""
    plan, rows = results.plan, front_points(results, front)

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1, width=7.4, height=4.4)
        used, chosen = ([row[name] for row in rows] for name in ("used", "chosen_by"))
        axes.plot(used, chosen, "--", color=COLOURS[1], linewidth=1.2, label="where it was chosen")
        with_bars(axes, rows, "used", "value", color=COLOURS[0], marker="o", label="on the test parts")
        axes.set_xlim(left=0)
        axes.set_xlabel("features used, mean over folds")
        axes.set_ylabel(plan.measures[front.measure].title)
        return finished(figure, fontsize=9)

    title, caption = f"{front.title}, {plan.datasets[front.dataset].title}", f"Bars: {_BARS}."
    return Drawing(front.key, title, rows, draw, PAST_THE_PAPER, caption, front.dataset)


def _growth(results: PaperResults, growth: Growth) -> Drawing:
    """A measure against the rows that were drawn, with its standard error over queries."""
    plan = results.plan
    rows: Rows = []
    for series in growth.series:
        for model in series.models:
            runs = results.runs(growth.dataset, model)
            if runs:
                drawn = float(np.mean([fit["facts"]["n_drawn"] for folds in runs for fit in folds]))
                value = float(np.mean(results.values(growth.dataset, model, growth.measure)))
                error = results.standard_error(growth.dataset, model, growth.measure)
                point = {"drawn": drawn, "value": value, "standard_error": error}
                rows.append({"series": series.title, "model": model} | point)

    def draw() -> bytes:
        figure, (axes,) = empty_figure(1, width=7.4, height=4.4)
        for number, title in enumerate(dict.fromkeys(row["series"] for row in rows)):
            apart = 1 + 0.03 * number  # so that bars at the same number of rows stand side by side
            points = [row | {"drawn": row["drawn"] * apart} for row in rows if row["series"] == title]
            with_bars(axes, points, "drawn", "value", label=title, **style(number))
        log_axis(
            axes, "rows drawn: all that the basic form learns from, basis vectors of the sparse form (mean of folds)"
        )
        axes.set_ylabel(f"{plan.measures[growth.measure].title} on the test parts")
        return finished(figure, fontsize=9)

    title, caption = f"{growth.title}, {plan.datasets[growth.dataset].title}", f"Bars: {_BARS}."
    return Drawing(growth.key, title, rows, draw, "", caption, growth.dataset)
