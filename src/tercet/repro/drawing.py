"""A figure as a value: its rows for CSV and, where matplotlib is installed, its picture as PNG."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tercet.errors import MissingExtraError

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")
MARKERS = "osD^vP"


@dataclass
class Drawing:
    """One figure: its rows, and its picture where it can be drawn."""

    key: str
    title: str
    rows: list[dict[str, Any]]
    draw: Callable[[], bytes]
    past_the_paper: bool = False
    png: bytes | None = None


def draw_all(drawings: list[Drawing]) -> None:
    """Fill in the PNGs; without matplotlib a MissingExtraError."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing figures") from error
    for drawing in drawings:
        drawing.png = drawing.draw()


def empty_figure(n_panels: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # not pyplot, which keeps state and looks for a screen

    figure = Figure(figsize=(5.6 * n_panels, 3.8), layout="constrained")
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def log_axis(axes: Any, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.xaxis.set_minor_formatter("")


def as_png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()
