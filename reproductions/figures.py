"""Figures of a run: rows for JSON and, if matplotlib is installed, PNG files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.plan import Curves, Cutoffs, Precisions
from reproductions.results import PaperResults
from reproductions.verdicts import printed_of
from tercet.errors import MissingExtraError

Rows = list[dict[str, Any]]
COLORS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
MARKERS = "osD^vP"
PRINTED = "printed in the paper"
_BARS = "Bars: the standard error over queries. "
_DIAMONDS = "Diamonds: printed in the paper's tables. "
_QUERIES = 500  # of a figure of precisions


@dataclass
class Drawing:
    """One figure: rows, caption, and a function that plots the rows into panels of matplotlib."""

    key: str
    title: str
    rows: Rows
    plot: Callable[[Any], None]
    caption: str = ""
    dataset: str = ""
    n_panels: int = 1
    png: bytes | None = None

    def figure(self) -> Any:
        """Figure of matplotlib with a grid and legends."""
        from matplotlib.figure import Figure  # not pyplot, which keeps state and looks for a screen

        figure = Figure(figsize=(7.0 if self.n_panels == 1 else 11.0, 4.4), layout="constrained")
        panels = figure.subplots(1, self.n_panels, squeeze=False).ravel()
        self.plot(panels if self.n_panels > 1 else panels[0])
        for axes in panels:
            axes.grid(alpha=0.25, which="both")
            named = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: entry[1] == PRINTED)
            if named:
                axes.legend(*zip(*named, strict=True), frameon=False, fontsize=8)
        return figure

    def draw(self) -> bytes:
        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=130, metadata={"Software": None})
        return buffer.getvalue()


def make_drawings(results: PaperResults) -> list[Drawing]:
    """All figures of the plan, in its order, not yet drawn."""
    return list(_drawings(results))


def _drawings(results: PaperResults) -> Iterator[Drawing]:
    plan = results.plan
    for curves in plan.curves:
        yield from (_curves(results, curves, dataset) for dataset in curves.datasets)
    yield from (_precisions(results, precisions) for precisions in plan.precisions)
    for cutoffs in plan.cutoffs:
        yield from (_cutoffs(results, cutoffs, dataset) for dataset in cutoffs.datasets)


def draw_all(drawings: list[Drawing]) -> None:
    """Fill in the PNGs of drawings with rows; without matplotlib a MissingExtraError."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing figures") from error
    for drawing in drawings:
        drawing.png = drawing.draw() if drawing.rows else None


# -- marks ------------------------------------------------------------------------------------------------------------


def _plot_bars(axes: Any, points: Rows, x: str, y: str, number: int, **look: Any) -> None:
    """Points joined by a line, each with its standard error as a bar, in the style of series ``number``."""
    errors = [point.get("standard_error") or 0.0 for point in points]
    bars = {"yerr": errors, "elinewidth": 0.9, "capsize": 2.0} if any(errors) else {}
    style = {"color": COLORS[number % 6], "marker": MARKERS[(number + number // 6) % 6], "markersize": 4}
    axes.errorbar([point[x] for point in points], [point[y] for point in points], **bars, **(style | look))


def _plot_printed(axes: Any, points: Rows, x: str, y: str, number: int) -> None:
    """Draw printed points as hollow diamonds with the printed ±; the legend has one entry."""
    look = {"marker": "D", "markersize": 7, "markerfacecolor": "#ffffff", "markeredgewidth": 1.6, "linestyle": "none"}
    for point in points:
        label = None if PRINTED in axes.get_legend_handles_labels()[1] else PRINTED
        look |= {"color": COLORS[number % 6], "yerr": point.get("standard_error"), "zorder": 5}
        axes.errorbar([point[x]], [point[y]], label=label, **look)


def _split(rows: Rows, **fixed: Any) -> tuple[Rows, Rows]:
    """Our rows and the printed rows with these values."""
    own = [row for row in rows if all(row[name] == value for name, value in fixed.items())]
    return [row for row in own if not row.get("printed")], [row for row in own if row.get("printed")]


def _diamonds(rows: Rows) -> str:
    return _DIAMONDS if any(row.get("printed") for row in rows) else ""


# -- words ------------------------------------------------------------------------------------------------------------


def _curves(results: PaperResults, curves: Curves, dataset: str) -> Drawing:
    """Error against steps; density in a panel beside it, or the training error as dashed lines."""
    plan, beside = results.plan, curves.second_measure == "density"
    names = ("error", curves.second_measure)
    rows: Rows = []
    printed_rows: Rows = []
    for method in plan.methods:
        series = results.curves.get((curves.key, dataset, method.key), {"series": {}})["series"]
        for model in (model for model in method.all_models() if series.get(model.weights)):
            for point in series[model.weights]:
                row = {"model": model.title} | point
                for name in names[:1] if beside else names:
                    variance = point[name] * (1 - point[name]) / curves.test_preferences
                    row[f"standard_error of {name}"] = float(np.sqrt(variance))
                rows.append(row)
            for name in names:
                printed = printed_of(plan, dataset, model.key, name)
                if printed is not None:
                    point = {"step": method.preferences, name: printed.value, "printed": True}
                    printed_rows.append({"model": model.title} | point)
    rows += printed_rows

    def plot_lines(axes: Any, name: str, **look: Any) -> None:
        for number, title in enumerate(dict.fromkeys(row["model"] for row in rows)):
            points, printed = _split(rows, model=title)
            steps, heights = [point["step"] for point in points], np.array([point[name] for point in points])
            errors = np.array([point.get(f"standard_error of {name}", 0.0) for point in points])
            label = title + (", training" if name == "training error" else "")
            axes.plot(steps, heights, color=COLORS[number % 6], label=label, linewidth=1.4, **look)
            if errors.any():
                axes.fill_between(steps, heights - errors, heights + errors, color=COLORS[number % 6], alpha=0.18)
            _plot_printed(axes, [point for point in printed if name in point], "step", name, number)
        axes.set_xscale("log")
        axes.set_xlabel("steps")
        axes.set_ylim(bottom=0)
        axes.set_ylabel("density of W" if name == "density" else plan.measures["error"].title.lower())

    def plot(panels: Any) -> None:
        if beside:
            plot_lines(panels[0], "error")
            plot_lines(panels[1], "density")
        else:
            plot_lines(panels, "training error", linestyle="--")
            plot_lines(panels, "error")

    title = f"{curves.position}: {curves.title}, {plan.datasets[dataset].title}"
    caption = f"Bands: the binomial standard error over {curves.test_preferences:,} test preferences. "
    caption += _diamonds(rows)
    return Drawing(f"{curves.key}-{dataset}", title, rows, plot, caption, dataset, 2 if beside else 1)


def _precisions(results: PaperResults, precisions: Precisions) -> Drawing:
    models = precisions.x, precisions.y
    ran = all(results.runs(precisions.dataset, model) for model in models)
    x, y = (results.by_query(precisions.dataset, model, "map")[:_QUERIES] if ran else np.zeros(0) for model in models)
    titles = [results.plan.model(model).title for model in models]
    pairs = enumerate(zip(x.tolist(), y.tolist(), strict=True))
    rows = [{"query": number, titles[0]: first, titles[1]: second} for number, (first, second) in pairs]

    def plot(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color="#888888", linewidth=1)
        axes.plot(x, y, "o", color=COLORS[0], markersize=3, alpha=0.5)
        axes.plot([x.mean()], [y.mean()], "o", color=COLORS[3], label="mean")
        axes.set_xlabel(f"average precision, {titles[0]} (better in {int((x > y).sum())})")
        axes.set_ylabel(f"{titles[1]} (better in {int((y > x).sum())})")
        axes.set_aspect("equal")

    title, caption = f"{precisions.position}: {precisions.title}", "A dot for each query, and their mean."
    return Drawing(precisions.key, title, rows, plot, caption, precisions.dataset)


# -- rows -------------------------------------------------------------------------------------------------------------


def _cutoffs(results: PaperResults, cutoffs: Cutoffs, dataset: str) -> Drawing:
    plan = results.plan
    rows: Rows = []
    for model in cutoffs.models:
        for name in cutoffs.measures if results.runs(dataset, model) else ():
            who = {"model": plan.model(model).title, "cutoff": plan.cutoff(name)}
            value = float(np.mean(results.values(dataset, model, name)))
            rows.append(who | {"value": value, "standard_error": results.standard_error(dataset, model, name)})
            printed = printed_of(plan, dataset, model, name)
            if printed is not None:
                rows.append(who | {"value": printed.value, "standard_error": printed.plus_minus, "printed": True})

    def plot(axes: Any) -> None:
        titles = list(dict.fromkeys(row["model"] for row in rows))
        for number, title in enumerate(titles):
            shift = 0.12 * (number - (len(titles) - 1) / 2)  # bars of one cut-off stand side by side
            shifted = [row | {"cutoff": row["cutoff"] + shift} for row in rows]
            points, printed = _split(shifted, model=title)
            _plot_bars(axes, points, "cutoff", "value", number, label=title, linewidth=1.2 if number else 2.0)
            _plot_printed(axes, printed, "cutoff", "value", number)
        axes.set_xticks(sorted({row["cutoff"] for row in rows}))
        axes.set_xlabel("k")
        axes.set_ylabel("mean N@k over the test parts")

    title = f"{cutoffs.position}: {cutoffs.title}, {plan.datasets[dataset].title}"
    return Drawing(f"{cutoffs.key}-{dataset}", title, rows, plot, _BARS + _diamonds(rows), dataset)
