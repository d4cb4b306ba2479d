"""What our figures share: panels, error bars, printed points, axes with enough labels, PNG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
MARKERS = "osD^vP"
PRINTED = "printed in the paper"
MOST_LABELS = 7  # of a logarithmic axis


def style(number: int) -> dict[str, Any]:
    """Colour and marker of a series."""
    return {"color": COLOURS[number % 6], "marker": MARKERS[number % 6]}


def empty_figure(n_panels: int, width: float = 5.6, height: float = 3.8) -> tuple[Any, Any]:
    """A figure and its panels, two side by side; ``width`` and ``height`` are those of one of them."""
    from matplotlib.figure import Figure  # not pyplot, which keeps state and looks for a screen

    n_columns = min(n_panels, 2)
    n_lines = -(-n_panels // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_lines), layout="constrained")
    return figure, figure.subplots(n_lines, n_columns, squeeze=False).ravel()[:n_panels]


def with_bars(
    axes: Any, points: Sequence[Mapping[str, Any]], x: str, y: str, *, shift: float = 0.0, **look: Any
) -> None:
    """Points joined by a line, each with its ``standard_error`` as a bar where it has one."""
    heights = [point[y] for point in points]
    errors = [point.get("standard_error") or 0.0 for point in points]
    bars = {"yerr": errors, "elinewidth": 0.9, "capsize": 2.0} if any(errors) else {}
    axes.errorbar([point[x] + shift for point in points], heights, **bars, **look)


def with_band(axes: Any, points: Sequence[Mapping[str, Any]], y: str, colour: str, **look: Any) -> None:
    """A line over steps, with a band as wide as the standard error of each point."""
    steps, heights = [point["step"] for point in points], np.array([point[y] for point in points])
    errors = np.array([point.get(f"standard_error of {y}") or 0.0 for point in points])
    axes.plot(steps, heights, color=colour, **look)
    if errors.any():
        axes.fill_between(steps, heights - errors, heights + errors, color=colour, alpha=0.18, linewidth=0)


def printed_point(axes: Any, x: float, y: float, colour: str, plus_minus: float | None = None) -> None:
    """A hollow diamond, with the printed ± where there is one; the legend has it once."""
    seen = PRINTED in axes.get_legend_handles_labels()[1]
    look = {"marker": "D", "markersize": 7, "markerfacecolor": "#ffffff", "markeredgewidth": 1.6, "linestyle": "none"}
    axes.errorbar([x], [y], yerr=plus_minus, color=colour, zorder=5, label=None if seen else PRINTED, **look)


def log_axis(axes: Any, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(label)


def log_ticks(low: float, high: float) -> list[float]:
    """Where a logarithmic axis has labels: powers of ten, else 1, 2, 5, else every digit; two at least.

    Examples
    --------
    >>> log_ticks(900, 120_000), log_ticks(3, 40), log_ticks(1.2, 3.4)
    ([1000.0, 10000.0, 100000.0], [5.0, 10.0, 20.0], [2.0, 3.0])
    """
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for digits, least in (((1,), 3), ((1, 2, 5), 3), (range(1, 10), 2)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= least:
            return inside[:: int(np.ceil(len(inside) / MOST_LABELS))]
    # No whole digit lies in between: the ends, rounded inwards to what still tells them apart.
    step = 10.0 ** np.floor(np.log10(high - low))
    while np.floor(high / step) - np.ceil(low / step) < 1:
        step /= 2
    return [float(np.ceil(low / step) * step), float(np.floor(high / step) * step)]


def _label(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 and value == round(value) else f"{value:g}"


def finished(figure: Any, **legend: Any) -> bytes:
    """The figure as PNG, every panel with a grid, labels on logarithmic axes, and a legend where something has a
    name."""
    for axes in figure.axes:
        for axis, scale, limits in (
            (axes.xaxis, axes.get_xscale(), axes.get_xlim()),
            (axes.yaxis, axes.get_yscale(), axes.get_ylim()),
        ):
            if scale == "log":
                ticks = log_ticks(*limits)
                axis.set_ticks(ticks, [_label(tick) for tick in ticks])
                axis.set_minor_formatter("")
        axes.grid(alpha=0.25, which="both")
        named = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: entry[1] == PRINTED)
        if named:
            axes.legend(*zip(*named, strict=True), frameon=False, **legend)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()
