"""The picture of duels: the share of lists that the challenger won, with its interval, as the lists came."""

from __future__ import annotations

from typing import Any

import numpy as np

from tercet.measure.duels import Contest, DuelCourse, DuelReport
from tercet.measure.interleaving import Duel
from tercet.pictures.drawing import BLUE, GREY, PALE_BLUE, RED, SETTINGS, TITLE_SIZE, import_matplotlib, say_instead

_DUELS, _POINTS = 4, 150  # the latest of them, and at how many places each is drawn


def draw_duels(report: DuelReport) -> Any:
    """A ``matplotlib.figure.Figure``: for each of the latest duels, the share of the challenger over the lists.

    The band is where the share is, at the confidence 1 - level, at all times at once: the duel is decided where it
    leaves one half.
    """
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    courses = list(report.courses.items())[-_DUELS:]
    with matplotlib.rc_context(SETTINGS):
        figure: Any = Figure(figsize=(8, 2.6 * max(1, len(courses)) + 0.6), dpi=150, layout="constrained")
        panels = figure.subplots(max(1, len(courses)), 1, squeeze=False)[:, 0]
        if not courses:
            say_instead(panels[0], "no list was made of two rankings")
        for axes, (contest, course) in zip(panels, courses, strict=False):
            _draw_course(axes, contest, course)
    return figure


def _draw_course(axes: Any, contest: Contest, course: DuelCourse) -> None:
    lists, shares, low, high = course_points(course)
    axes.fill_between(lists, low, high, color=PALE_BLUE, linewidth=0, label="where it is, at all times at once")
    axes.plot(lists, shares, color=BLUE, label="share of the lists that somebody won")
    axes.axhline(0.5, color=GREY, linestyle="--", linewidth=0.8)
    decided = [n for n, bottom, top in zip(lists, low, high, strict=True) if bottom > 0.5 or top < 0.5]
    if decided and course.duel.winner is not None:  # else one client decides it
        axes.axvline(decided[0], color=RED, linewidth=0.8, label=f"decided after {decided[0]:,} lists")
    since = f", since promotion {contest.promotion}" if contest.promotion else ""
    axes.set_title(
        f"{contest.second} against {contest.first}, which was served{since}", loc="left", fontsize=TITLE_SIZE
    )
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"{contest.method} lists")
    axes.set_ylabel("won by the challenger")
    axes.legend(frameon=False, loc="upper right" if shares[-1] < 0.5 else "lower right")
    axes.spines[["top", "right"]].set_visible(False)


def course_points(course: DuelCourse) -> tuple[list[int], list[float], list[float], list[float]]:
    """Numbers of lists, and after each of them the challenger's share and the ends of its interval."""
    n_lists = len(course.outcomes)
    losses, wins = (np.cumsum(course.outcomes == side) for side in (1, -1))
    lists = np.unique(np.linspace(1, n_lists, min(n_lists, _POINTS)).astype(int)).tolist()
    duels = [Duel(int(wins[n - 1]), int(losses[n - 1]), 0, course.duel.level) for n in lists]
    shares = [np.nan if duel.share is None else duel.share for duel in duels]
    intervals = [duel.interval for duel in duels]
    return lists, shares, [low for low, _ in intervals], [high for _, high in intervals]
