"""The picture of a click log: how far people look, as estimated and as guessed, and the click rates by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tercet.data.clicks import examination_guess
from tercet.fitting.examination import ExaminationCurve
from tercet.pictures.drawing import (
    BLUE,
    GREY,
    PALE_BLUE,
    PALE_RED,
    RED,
    SETTINGS,
    TITLE_SIZE,
    import_matplotlib,
    say_instead,
)


def draw_examination(curves: Sequence[ExaminationCurve], shown: Sequence[int], clicks: Sequence[int]) -> Any:
    """A ``matplotlib.figure.Figure``: on the left the curves with 95 % intervals, on the right clicks by rank.

    Parameters
    ----------
    curves : those of `estimate_examination`
    shown, clicks : documents shown and clicked, by rank
    """
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(10, 4.2), dpi=150, layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
        left.set_title("The chance that a rank is looked at, relative to the first", loc="left", fontsize=TITLE_SIZE)
        n_ranks = max((len(curve.values) for curve in curves), default=len(shown))
        ranks = np.arange(1, n_ranks + 1)
        for curve, colour in zip(curves, (BLUE, RED, PALE_RED), strict=False):
            at = ranks[: len(curve.values)]
            left.plot(at, curve.values, "o-", color=colour, markersize=3, label=curve.method)
            left.fill_between(at, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        guess = [examination_guess(rank) for rank in ranks.tolist()]
        left.plot(ranks, guess, "--", color=GREY, label="the guess 1 / log2(1 + rank)")
        left.set_xlabel("rank")
        left.set_ylim(0, 1.15)
        left.legend(frameon=False)
        right.set_title("Share of the documents shown that were clicked", loc="left", fontsize=TITLE_SIZE)
        if sum(clicks):
            rates = np.array(clicks[:n_ranks]) / np.maximum(shown[:n_ranks], 1)
            right.bar(np.arange(1, rates.size + 1), rates, color=PALE_BLUE, edgecolor=BLUE)
            right.set_xlabel("rank")
        else:
            say_instead(right, "nothing was clicked")
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
    return figure
