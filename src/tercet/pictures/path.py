"""The picture of a feature model: what sparsity costs, and the weights that were chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.choose import pareto_front
from tercet.errors import InputError
from tercet.fitting.feature_model import FeatureModel, weights_of
from tercet.measure import parse_measure
from tercet.pictures.drawing import (
    BLUE,
    GREY,
    INK,
    PALE_BLUE,
    RED,
    SETTINGS,
    TITLE_SIZE,
    import_matplotlib,
    say_instead,
    shortened,
)
from tercet.report.details import FeatureDetails

_LONGEST_NAME = 28


def draw_path(model: FeatureModel, *, n_features: int = 20) -> Any:
    """A ``matplotlib.figure.Figure`` of a model's path and weights.

    On the left every penalty, by the features it uses and the measure it reached on the queries that chose, with the
    Pareto front: nothing is both sparser and better. The band is one standard error of the difference to the best, so
    that points whose band reaches the line of the best are within it. On the right the ``n_features`` largest weights.
    """
    if not isinstance(model, FeatureModel):
        raise InputError(f"the picture of a path is of a FeatureModel; got {type(model).__name__}")
    if model.report is None or model.report.features is None:
        raise InputError("the model has no report, so there is no path to draw; fit_letor makes one")
    if not isinstance(n_features, int) or n_features < 1:
        raise InputError(f"n_features must be a whole number, at least 1; got {n_features!r}")
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        _draw_front(left, model.report.features, model.report.measure)
        _draw_weights(right, model, n_features)
    return figure


def _draw_front(axes: Any, report: FeatureDetails, measure: str) -> None:
    axes.set_title("What sparsity costs", loc="left", fontsize=TITLE_SIZE)
    if report.chosen is None:
        say_instead(axes, "no penalty was chosen: there is no path")
        return
    higher = parse_measure(measure).higher_is_better
    path = report.path
    used, value = np.array([point.n_used for point in path]), np.array([point.value for point in path])
    front = pareto_front(used, value, higher_is_better=higher)
    best = value[front[-1]]
    if all(point.error is not None for point in path):
        errors = np.array([path[number].error for number in front], dtype=float)
        axes.fill_between(
            *(used[front], value[front] - errors, value[front] + errors),
            color=PALE_BLUE,
            alpha=0.6,
            linewidth=0,
            label="± one standard error of the difference to the best",
        )
    axes.axhline(best, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(used[front], value[front], "-", color=BLUE, linewidth=1.5, label="Pareto front")
    axes.plot(used, value, ".", color=INK, markersize=5, alpha=0.55, markeredgewidth=0, label="one penalty each")
    chosen = path[report.chosen]
    axes.plot(chosen.n_used, chosen.value, "o", markersize=9, markerfacecolor="none", markeredgecolor=RED, zorder=4)
    axes.plot(chosen.n_used, chosen.value, "o", markersize=4, color=RED, zorder=4, label=f"chosen, the {report.choose}")
    axes.annotate(
        f"{chosen.n_used} of {report.n_features}: {chosen.value:.4f}",
        (chosen.n_used, chosen.value),
        xytext=(0, 11 if higher else -17),
        textcoords="offset points",
        ha="center",
        color=RED,
    )
    axes.set(xlabel=f"features used, of {report.n_features:,}", ylabel=f"{measure}, queries that chose")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.04, y=0.12)
    _look_closer(axes, used, value)
    axes.legend(frameon=False, loc="lower right" if higher else "upper right", handlelength=1.4)
    axes.spines[["top", "right"]].set_visible(False)


def _look_closer(axes: Any, used: NDArray[Any], value: NDArray[Any]) -> None:
    """Leave the value of no features at all outside where it would press all others into one line."""
    others, nothing = value[used > 0], value[used == 0]
    if not others.size or not nothing.size:
        return
    low, high = others.min(), others.max()
    room = max(high - low, 0.02 * abs(high))
    if nothing.max() < low - 2 * room:
        axes.set_ylim(low - 0.8 * room, high + 0.35 * room)
    elif nothing.min() > high + 2 * room:  # where lower is better
        axes.set_ylim(low - 0.35 * room, high + 0.8 * room)
    else:
        return
    axes.set_xlabel(f"{axes.get_xlabel()} (none: {nothing.mean():.4f}, outside)")


def _draw_weights(axes: Any, model: FeatureModel, most: int) -> None:
    rows = model.features() if weights_of(model.ranker) is not None else []
    shown = rows[:most]
    what = f"{len(rows)} weights" if len(shown) == len(rows) else f"Largest {len(shown)} of {len(rows)} weights"
    axes.set_title(what, loc="left", fontsize=TITLE_SIZE)
    if not shown:
        say_instead(axes, "no feature has a weight")
        return
    positions = np.arange(len(shown))
    weights = [row.weight for row in shown]
    axes.barh(positions, weights, height=0.62, color=[RED if weight > 0 else BLUE for weight in weights])
    labels = [shortened(row.label, _LONGEST_NAME) for row in shown]
    axes.set_yticks(positions, labels, parse_math=False)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set(xlabel="weight", ylabel="feature")
    axes.xaxis.get_major_locator().set_params(nbins=6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
