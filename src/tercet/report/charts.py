"""Small SVG charts inside a page, each drawn wide and narrow; the style sheet shows the fitting size."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Final

from tercet.report.html import Html, element, join

WIDE: Final = 900
NARROW: Final = 380
LETTER: Final = 8.2  # room for a letter of a name, in wide fonts

Point = tuple[float, float]


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high, both within.

    Examples
    --------
    >>> ticks(0.13, 0.29)
    [0.15, 0.2, 0.25]
    """
    if not high > low:
        return [low]
    rough = (high - low) / about
    if rough < sys.float_info.min:  # too close for a step of full precision
        return [low]
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((m * size for m in (1, 2, 5) if m * size >= rough * 0.8), 10 * size)
    digits = max(0, -math.floor(math.log10(step)) + 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def intervals(rows: Sequence[tuple[str, float, float | None, float | None]], *, ours: int, label: str) -> Html:
    """Draw the mean of each system as a dot and the interval as a bar, and highlight the system at ``ours``."""

    def draw(width: int) -> Html:
        room = 14 + LETTER * max(len(name) for name, *_ in rows)
        inline = room <= width / 3  # else a name stands above its bar
        left_margin = max(120 if width == WIDE else 78, room) if inline else 14
        right_margin, row_height = 24, 34 if inline else 54
        ends = [end for _, mean, low, high in rows for end in (mean, low, high) if end is not None]
        low, high = _padded(min(ends), max(ends))
        across = _scale(low, high, left_margin, width - right_margin)
        height = row_height * len(rows) + 30
        parts: list[Html] = []
        for tick in ticks(low, high, 6 if width == WIDE else 4):
            x = across(tick)
            parts.append(_line("grid", x, 6, x, height - 24))
            parts.append(_text(f"{tick:g}", x, height - 6, "middle"))
        for row, (name, mean, start, end) in enumerate(rows):
            y = row_height * (row + 1) - 11
            plain = "" if row == ours else " plain"
            strong = "strong" if row == ours else ""
            if inline:
                parts.append(_text(name, left_margin - 14, y + 4.5, f"end {strong}".strip()))
            else:
                parts.append(_text(name, left_margin, y - 17, strong or None))
            if start is not None and end is not None:
                parts.append(_line(f"range{plain}", across(start), y, across(end), y))
            parts.append(element("circle", class_=f"dot{plain}", cx=_px(across(mean)), cy=_px(y), r=6.5))
        return _svg(width, height, parts)

    return _both(draw, label)


def bars(values: Sequence[float], *, label: str, y_label: str, lower_is_better: bool = False) -> Html:
    """Draw a bar for each value, up or down from zero, in the colors of better and worse."""

    def draw(width: int) -> Html:
        left_margin, right_margin, top, bottom, height = 52, 12, 26, 12, 260 if width == WIDE else 220
        low, high = min(0.0, *values), max(0.0, *values)
        if low == high:
            high = 1.0
        across, up = _scale(0, len(values), left_margin, width - right_margin), _scale(low, high, height - bottom, top)
        parts: list[Html] = [_text(y_label, left_margin - 44, 13)]
        for tick in ticks(low, high, 5):
            parts.append(_line("zero" if tick == 0 else "grid", left_margin, up(tick), width - right_margin, up(tick)))
            parts.append(_text(f"{tick:+g}" if tick else "0", left_margin - 10, up(tick) + 4.5, "end"))
        gap = 0.15 if (width - left_margin - right_margin) / len(values) > 3 else 0.0
        above, below = ("worse", "better") if lower_is_better else ("better", "worse")
        for name, chosen in ((above, [v > 0 for v in values]), (below, [v < 0 for v in values])):
            path = "".join(
                f"M{_px(across(bar + gap))} {_px(up(0))}V{_px(up(value))}H{_px(across(bar + 1 - gap))}V{_px(up(0))}z"
                for bar, (value, is_chosen) in enumerate(zip(values, chosen, strict=True))
                if is_chosen
            )
            if path:
                parts.append(element("path", class_=name, d=path))
        return _svg(width, height, parts)

    return _both(draw, label)


def _both(draw: Callable[[int], Html], label: str) -> Html:
    return join(
        element("div", draw(width), class_=name, role="img", aria_label=label)
        for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
    )


def _svg(width: int, height: float, parts: Sequence[Html]) -> Html:
    # The label of the surrounding box describes the chart.
    return element("svg", *parts, viewBox=f"0 0 {width} {height:g}", aria_hidden="true", focusable="false")


def _scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    width = high - low or 1.0
    return lambda value: start + (value - low) / width * (stop - start)


def _padded(low: float, high: float) -> tuple[float, float]:
    """Add a margin on both sides, but not below zero for non-negative values."""
    room = 0.08 * (high - low) or 0.05
    return (max(0.0, low - room) if low >= 0 else low - room), high + room


def _line(name: str, x1: float, y1: float, x2: float, y2: float) -> Html:
    return element("line", class_=name, x1=_px(x1), y1=_px(y1), x2=_px(x2), y2=_px(y2))


def _text(what: str, x: float, y: float, name: str | None = None) -> Html:
    return element("text", what, class_=name, x=_px(x), y=_px(y))


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
