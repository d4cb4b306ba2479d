"""How far down people look: the examination curve of a click log, estimated from it, with intervals.

A document is clicked when it is looked at and liked: ``P(click) = p[rank] * g[query, document]``, the position-based
model. What is wanted is p, relative to rank 1. Triplet ways lead there:

- randomised: where lists were shown in random order, every rank of a list had documents alike, and p follows the clicks
- interleaved: where lists were made of two rankings by chance, documents moved by nothing else; as harvested
- harvested: the same document, shown for the same query at two ranks, has one g, so that its click rates are in the
  ratio of the two p (intervention harvesting; Agarwal et al. 2019, AllPairs)

Intervals are of a bootstrap over sessions, or over queries where sessions are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tercet.data.clicks import ClickLog, examination_guess

Method = Literal["randomised", "interleaved", "harvested"]
Array = NDArray[np.float64]
Rows = NDArray[np.int64]

MOST_RANKS = 20  # deeper ones follow the guess from there
N_RESAMPLES = 200
WIDEST = 0.2  # mean width of the intervals up to which a curve is learned from
FEWEST_CLICKS = 100
LEAST_CHANCE = 0.01
BY_GUESS: Final = "chances of looking at a rank by the guess 1 / log2(1 + rank)"
_FROM: Final = {
    "randomised": "lists in random order",
    "interleaved": "lists made of two rankings",
    "harvested": "documents seen at several ranks",
}
ADDED = 0.1  # clicks, and as many documents passed over, at each rank of each two: none is never clicked
_NEWTON_STEPS = 50
_INTERVAL = (2.5, 97.5)


@dataclass(frozen=True)
class ExaminationCurve:
    """The chance that a rank is looked at, relative to the first.

    Attributes
    ----------
    method : how it was estimated
    values, low, high : for each rank, with the ends of 95 % intervals; NaN for ranks that nothing is known of, and all
        intervals where there is one session or query only
    n_clicks : clicks it rests on
    resampled : what the bootstrap drew from, sessions or queries
    """

    method: Method
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_clicks: int
    resampled: str

    @property
    def width(self) -> float:
        """Mean width of the intervals below rank 1; a rank that nothing is known of counts 1."""
        widths = np.array(self.high[1:]) - np.array(self.low[1:])
        return float(np.where(np.isfinite(widths), widths, 1.0).mean()) if widths.size else 1.0

    @property
    def is_learned_from(self) -> bool:
        """Whether learning weighs by it: there are clicks enough, and the intervals are narrow."""
        return self.n_clicks >= FEWEST_CLICKS and self.width <= WIDEST


@dataclass(frozen=True)
class Examination:
    """What clicks are weighed by.

    Attributes
    ----------
    chances : that each rank is looked at; None for the guess
    source : where they come from, for people
    """

    chances: tuple[float, ...] | None
    source: str


def choose_examination(log: ClickLog, curves: Sequence[ExaminationCurve] | None = None) -> Examination:
    """What clicks of a log are weighed by: what it was given, else the narrowest curve to learn from, else the guess.

    Parameters
    ----------
    log : the clicks
    curves : those of `estimate_examination`, where they are there already
    """
    if log.examination is not None:
        return Examination(log.examination, "chances of looking at a rank as given")
    curves = estimate_examination(log) if curves is None else curves
    usable = [curve for curve in curves if curve.is_learned_from]
    if not usable:
        return Examination(None, f"{BY_GUESS}: {_why_not(curves)}")
    best = min(usable, key=lambda curve: curve.width)
    values = np.array(best.values)
    n_known = int(np.isfinite(values).argmin()) if np.isnan(values).any() else values.size
    chances = np.maximum(values[:n_known], LEAST_CHANCE).tolist()
    beyond = range(n_known + 1, MOST_RANKS * 5 + 1)
    chances += [chances[-1] * examination_guess(rank) / examination_guess(n_known) for rank in beyond]
    source = f"chances of looking at a rank estimated from {_FROM[best.method]} ({best.n_clicks:,} clicks)"
    return Examination(tuple(chances), source)


def _why_not(curves: Sequence[ExaminationCurve]) -> str:
    """Why none of the curves is learned from."""
    if not curves:
        return "no documents that were seen at several ranks compare them, and no list was in random order"
    best = min(curves, key=lambda curve: (curve.n_clicks < FEWEST_CLICKS, curve.width))
    if best.n_clicks < FEWEST_CLICKS:
        return f"{_FROM[best.method]} have {best.n_clicks:,} clicks, and {FEWEST_CLICKS} are needed"
    return f"the intervals of {_FROM[best.method]} are {best.width:.2f} wide in the mean, and {WIDEST} is the most"


def estimate_examination(log: ClickLog, *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> list[ExaminationCurve]:
    """The examination curves that a log allows, those of random lists and of documents that moved first.

    Parameters
    ----------
    log : the clicks
    n_resamples : of the bootstrap

    Notes
    -----
    O(``n_resamples`` × documents shown). Ranks beyond `MOST_RANKS` are left out.

    Examples
    --------
    >>> from tercet.simulate import Traffic, Visitors, simulate_clicks
    >>> lists = {f"q{number}": [["a", "b", "c"], ["c", "b", "a"]] for number in range(9)}
    >>> log = simulate_clicks(lists, {"q1": {"b": 1}}, 5000, Visitors(looking=1.0))
    >>> curve = estimate_examination(log)[0]
    >>> curve.method, abs(curve.values[2] - 1 / 3) < 0.1
    ('harvested', True)
    """
    shown = ShownDocuments.from_log(log)
    rng = np.random.default_rng(seed)
    curves = []
    if shown.is_random.any():
        curves.append(shown.estimate("randomised", n_resamples, rng))
    by_coins = shown.subset(shown.is_interleaved)
    moves: dict[Method, ShownDocuments] = {"interleaved": by_coins, "harvested": shown}
    for method, rows in moves.items():
        moved = rows.subset(rows.moved)
        if moved.rank.size:
            curves.append(moved.estimate(method, n_resamples, rng))
    return [curve for curve in curves if curve is not None]


@dataclass(frozen=True, eq=False)
class ShownDocuments:
    """Documents that were shown, as columns; a pair is a query and a document.

    Attributes
    ----------
    pair, rank, unit : numbers, from 0; a unit is a session or a query, what the bootstrap draws
    lowest : the last rank of the list that each was in
    clicked, is_random, is_interleaved : of each
    """

    pair: Rows
    rank: Rows
    unit: Rows
    lowest: Rows
    clicked: NDArray[np.bool_]
    is_random: NDArray[np.bool_]
    is_interleaved: NDArray[np.bool_]
    units: str

    @staticmethod
    def from_log(log: ClickLog) -> ShownDocuments:
        pairs: dict[tuple[str, str], int] = {}
        names: dict[str, int] = {}
        columns: list[tuple[int, int, int, int, bool, bool, bool]] = []
        for number, (query, docs, clicks) in enumerate(log.impressions):
            unit = names.setdefault(log.sessions[number] if log.sessions else query, len(names))
            is_random = bool(log.randomised) and log.randomised[number]
            is_mixed = bool(log.interleaved) and log.interleaved[number]
            shown = docs[:MOST_RANKS]
            same = (unit, len(shown) - 1)
            columns += [
                (pairs.setdefault((query, doc_id), len(pairs)), rank, *same, doc_id in clicks, is_random, is_mixed)
                for rank, doc_id in enumerate(shown)
            ]
        table = np.array(columns, dtype=np.int64).reshape(-1, 7)
        by_column = np.ascontiguousarray(table.T)
        units = "sessions" if log.sessions else "queries"
        pair, rank, unit_of, lowest = by_column[:4]
        clicked, is_random, is_interleaved = by_column[4:] > 0
        return ShownDocuments(pair, rank, unit_of, lowest, clicked, is_random, is_interleaved, units)

    def subset(self, kept: NDArray[np.bool_]) -> ShownDocuments:
        return ShownDocuments(
            self.pair[kept],
            self.rank[kept],
            self.unit[kept],
            self.lowest[kept],
            self.clicked[kept],
            self.is_random[kept],
            self.is_interleaved[kept],
            self.units,
        )

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which of them were shown for their query at another rank, too."""
        if not self.pair.size:
            return np.zeros(0, dtype=bool)
        low, high = np.full((2, self.pair.max() + 1), -1)
        low[:] = self.rank.max() + 1
        np.minimum.at(low, self.pair, self.rank)
        np.maximum.at(high, self.pair, self.rank)
        return np.asarray((low < high)[self.pair])

    def estimate(self, method: Method, n_resamples: int, rng: np.random.Generator) -> ExaminationCurve | None:
        """A curve with its intervals; None where clicks say nothing of it."""
        rows = self.subset(self.is_random) if method == "randomised" else self
        if not rows.clicked.any():
            return None
        n_ranks = int(rows.rank.max()) + 1
        cells = Cells(rows, n_ranks)
        fit = cells.by_rates if method == "randomised" else cells.by_moves
        values = fit(np.ones(rows.rank.size))
        if not np.isfinite(values[0]):
            return None
        names, unit = np.unique(rows.unit, return_inverse=True)
        drawn = np.full((n_resamples, n_ranks), np.nan)
        for number in range(n_resamples):
            times = rng.multinomial(names.size, np.full(names.size, 1 / names.size))
            drawn[number] = fit(times[unit].astype(np.float64))
        low, high = np.full((2, n_ranks), np.nan)
        known = np.isfinite(values) & (np.isfinite(drawn).mean(axis=0) > 0.5)
        known &= names.size > 1  # one alone is drawn again and again, and would seem to be sure
        if known.any():
            low[known], high[known] = np.nanpercentile(drawn[:, known], _INTERVAL, axis=0)
        curve, lowest, highest = (tuple(column.tolist()) for column in (values, low, high))
        return ExaminationCurve(method, curve, lowest, highest, int(rows.clicked.sum()), self.units)


def sums_by(where: Rows, weights: Array, size: int) -> Array:
    """The sum of weights at each of so many places."""
    return np.asarray(np.bincount(where, weights, size), dtype=np.float64)


class Cells:
    """Counts by pair and rank, for any weights of the rows."""

    def __init__(self, rows: ShownDocuments, n_ranks: int) -> None:
        self.rows, self.n_ranks = rows, n_ranks
        names, self.cell = np.unique(rows.pair * n_ranks + rows.rank, return_inverse=True)
        self.pair = np.unique(names // n_ranks, return_inverse=True)[1]
        self.rank = names % n_ranks
        # Cells of one pair follow each other; each two of them are a comparison of two ranks.
        first = np.flatnonzero(np.r_[True, self.pair[1:] != self.pair[:-1]])
        last = np.repeat(np.r_[first[1:], names.size], np.diff(np.r_[first, names.size]))
        n_later = last - np.arange(names.size) - 1
        self.upper = np.repeat(np.arange(names.size), n_later)
        before = np.repeat(np.cumsum(n_later) - n_later, n_later)
        self.lower = self.upper + 1 + np.arange(self.upper.size) - before

    def counts(self, weights: Array) -> tuple[Array, Array]:
        """How often each cell was shown, and clicked."""
        size = self.rank.size
        return sums_by(self.cell, weights, size), sums_by(self.cell, weights * self.rows.clicked, size)

    def by_rates(self, weights: Array) -> Array:
        """Clicks at each rank, relative to those at the first rank of the lists that go as far.

        Those of all lists would not do: where a query has few results, these may be liked more, or less.
        """
        rows, clicks = self.rows, weights * self.rows.clicked
        at_top = rows.rank == 0
        by_end = sums_by(rows.lowest[at_top], clicks[at_top], self.n_ranks)
        top = by_end[::-1].cumsum()[::-1]
        at_rank = sums_by(rows.rank, clicks, self.n_ranks)
        return np.divide(at_rank, top, out=np.full(self.n_ranks, np.nan), where=top > 0)

    def by_moves(self, weights: Array) -> Array:
        """AllPairs, of all comparisons between two ranks."""
        shown, clicks = self.counts(weights)
        total = shown[self.upper] + shown[self.lower]
        share = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        size = self.n_ranks**2
        two = self.rank[self.upper] * self.n_ranks + self.rank[self.lower]
        both, above, below = (
            sums_by(two, column * share, size).reshape(self.n_ranks, self.n_ranks)
            for column in (
                shown[self.upper] * shown[self.lower],
                clicks[self.upper] * shown[self.lower],
                clicks[self.lower] * shown[self.upper],
            )
        )
        return all_pairs(both, above, below)


def all_pairs(both: Array, above: Array, below: Array) -> Array:
    """The AllPairs estimate of p, relative to rank 1, NaN for ranks that no comparison connects with it.

    For ranks k < j, the likelihood of what pairs seen at both were clicked there, ``above[k, j]`` of ``both[k, j]`` at
    k and ``below[k, j]`` at j, is that of chances ``p[k] r[k, j]`` and ``p[j] r[k, j]``, r being how good these pairs
    are. Its logarithm is concave in log p and log r, and Newton's method with r eliminated finds its maximum.

    A pair counts ``n m / (n + m)`` where it was shown n and m times at the two ranks, as by Mantel and Haenszel, and
    not 1 as in the paper: one that was seen once says less than one seen a thousand times.

    Parameters
    ----------
    both, above, below : (n_ranks, n_ranks), above the diagonal
    """
    n_ranks = both.shape[0]
    values = np.full(n_ranks, np.nan)
    k, j = np.nonzero(np.triu(both, 1) * (above + below) > 0)
    connected = _connected(k, j, n_ranks)
    kept = connected[k]
    k, j = k[kept], j[kept]
    if not k.size:
        return values
    n = both[k, j] + 2 * ADDED
    c = np.stack([above[k, j], below[k, j]]) + ADDED  # (2, n_comparisons)
    log_p = np.zeros(n_ranks)
    log_r = np.log(np.minimum(c.sum(axis=0) / (2 * n), 0.4))

    def value(log_p: Array, log_r: Array) -> float:
        u = np.stack([log_p[k], log_p[j]]) + log_r
        if u.max() >= 0:
            return -np.inf
        return float((c * u + (n - c) * np.log1p(-np.exp(u))).sum())

    free = np.flatnonzero(connected)[1:]  # rank 1 is 1
    now = value(log_p, log_r)
    for _ in range(_NEWTON_STEPS):
        q = np.exp(np.stack([log_p[k], log_p[j]]) + log_r)
        slope = c - (n - c) * q / (1 - q)
        bend = (n - c) * q / (1 - q) ** 2  # minus the second derivative
        total = bend.sum(axis=0)
        coupling = bend[0] * bend[1] / total
        gradient = np.zeros(n_ranks)
        laplacian = np.zeros((n_ranks, n_ranks))
        for side, rank in enumerate((k, j)):
            np.add.at(gradient, rank, slope[side] - bend[side] * slope.sum(axis=0) / total)
            np.add.at(laplacian, (rank, rank), coupling)
        np.add.at(laplacian, (k, j), -coupling)
        np.add.at(laplacian, (j, k), -coupling)
        step_p = np.zeros(n_ranks)
        step_p[free] = np.linalg.solve(laplacian[np.ix_(free, free)], gradient[free])
        step_r = (slope.sum(axis=0) - bend[0] * step_p[k] - bend[1] * step_p[j]) / total
        size = 1.0
        while (then := value(log_p + size * step_p, log_r + size * step_r)) < now and size > 1e-8:
            size /= 2
        gained, now = then - now, max(then, now)
        if gained <= 0:
            break
        log_p, log_r = log_p + size * step_p, log_r + size * step_r
        if gained < 1e-9 * abs(now):
            break
    values[connected] = np.exp(log_p[connected])
    return values


def _connected(k: Rows, j: Rows, n_ranks: int) -> NDArray[np.bool_]:
    """Ranks that comparisons connect with the first."""
    reached = np.zeros(n_ranks, dtype=bool)
    reached[0] = True
    for _ in range(n_ranks):
        either = reached[k] | reached[j]
        before = reached.sum()
        reached[k[either]] = reached[j[either]] = True
        if reached.sum() == before:
            break
    return reached
