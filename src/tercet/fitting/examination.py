"""Examination curve of a click log: the chance of a look at each rank, with intervals.

The position-based model: ``P(click) = p[rank] * g[query, document]``. A document is clicked if people look at the
rank and like the document. The curve is p, relative to rank 1. A document shown for a query at two ranks has a single
g, and the click rates at both ranks are in the ratio of the two p (intervention harvesting; Agarwal et al. 2019,
AllPairs). Lists in random order, and lists made of two rankings, move documents on purpose.

Intervals come from a bootstrap over sessions, or over queries if sessions are unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tercet.data.clicks import ClickColumns, ClickLog, Rows, examination_guess, numbered

Array = NDArray[np.float64]

MOST_RANKS = 20  # deeper ranks take the guess
N_RESAMPLES = 200
WIDEST = 0.2  # largest mean width of the intervals of a curve to learn from
FEWEST_CLICKS = 100
LEAST_CHANCE = 0.01
BY_GUESS: Final = "chances of looking at a rank by the guess 1 / log2(1 + rank)"
ADDED = 0.1  # pseudo-counts of clicks, and of documents passed over, at both ranks of a comparison
_NEWTON_STEPS = 50


@dataclass(frozen=True)
class ExaminationCurve:
    """Chance of a look at each rank, relative to the first rank.

    Attributes
    ----------
    values, low, high : chance of each rank, and the ends of the 95 % interval; NaN for unknown ranks. A single session
        or query has no intervals
    n_clicks : clicks behind the estimate
    resampled : units of the bootstrap, sessions or queries
    """

    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n_clicks: int
    resampled: str

    @property
    def width(self) -> float:
        """Mean width of the intervals below rank 1; an unknown rank counts 1."""
        widths = np.array(self.high[1:]) - np.array(self.low[1:])
        return float(np.where(np.isfinite(widths), widths, 1.0).mean()) if widths.size else 1.0


@dataclass(frozen=True)
class Examination:
    """Chances of a look to weigh clicks by, None for the guess, and their source in words."""

    chances: tuple[float, ...] | None
    source: str


def choose_examination(log: ClickLog, curve: ExaminationCurve | None = None) -> Examination:
    """Choose the chances to weigh clicks by: the log's chances, else a curve with narrow intervals, else the guess.

    Parameters
    ----------
    log : the clicks
    curve : result of `estimate_examination`, if already computed
    """
    if log.examination is not None:
        return Examination(log.examination, "chances of looking at a rank as given")
    curve = estimate_examination(log) if curve is None else curve
    if curve is None:
        return Examination(None, f"{BY_GUESS}: no document was seen at several ranks, so nothing compares the ranks")
    if curve.n_clicks < FEWEST_CLICKS:
        why = f"documents seen at several ranks have {curve.n_clicks:,} clicks, and {FEWEST_CLICKS} are needed"
        return Examination(None, f"{BY_GUESS}: {why}")
    if curve.width > WIDEST:
        why = f"the estimated intervals are {curve.width:.2f} wide on average; at most {WIDEST} is usable"
        return Examination(None, f"{BY_GUESS}: {why}")
    values = np.array(curve.values)
    n_known = int(np.isfinite(values).argmin()) if np.isnan(values).any() else values.size
    chances = np.maximum(values[:n_known], LEAST_CHANCE).tolist()
    beyond = range(n_known + 1, MOST_RANKS * 5 + 1)
    chances += [chances[-1] * examination_guess(rank) / examination_guess(n_known) for rank in beyond]
    source = f"chances of looking at a rank estimated from documents seen at several ranks ({curve.n_clicks:,} clicks)"
    return Examination(tuple(chances), source)


def estimate_examination(log: ClickLog, *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> ExaminationCurve | None:
    """Estimate the examination curve of a log; None if no document was seen, and clicked, at several ranks.

    Parameters
    ----------
    log : the clicks
    n_resamples : resamples of the bootstrap

    Notes
    -----
    O(``n_resamples`` × documents shown). Ranks beyond `MOST_RANKS` are left out.

    Examples
    --------
    >>> from tercet.simulate import Traffic, Visitors, simulate_clicks
    >>> lists = {f"q{number}": [["a", "b", "c"], ["c", "b", "a"]] for number in range(9)}
    >>> log = simulate_clicks(lists, {"q1": {"b": 1}}, 5000, Visitors(looking=1.0))
    >>> abs(estimate_examination(log).values[2] - 1 / 3) < 0.1
    True
    """
    moved = _moved(log.columns.take(log.columns.rank < MOST_RANKS))
    if not moved.clicked.any():
        return None
    n_ranks = int(moved.rank.max()) + 1
    fit = _by_moves(moved, n_ranks)
    values = fit(np.ones(moved.rank.size))
    if not np.isfinite(values[0]):
        return None
    session_or_query = numbered(log.sessions)[1] if log.sessions else moved.list_query
    units, unit = np.unique(session_or_query[moved.impression], return_inverse=True)
    rng = np.random.default_rng(seed)
    drawn = np.full((n_resamples, n_ranks), np.nan)
    for number in range(n_resamples):
        times = rng.multinomial(units.size, np.full(units.size, 1 / units.size))
        drawn[number] = fit(times[unit].astype(np.float64))
    low, high = np.full((2, n_ranks), np.nan)
    has_interval = np.isfinite(values) & (np.isfinite(drawn).mean(axis=0) > 0.5)
    has_interval &= units.size > 1  # every resample of a single unit is the same
    if has_interval.any():
        low[has_interval], high[has_interval] = np.nanpercentile(drawn[:, has_interval], (2.5, 97.5), axis=0)
    n_clicks, resampled = int(moved.clicked.sum()), "sessions" if log.sessions else "queries"
    return ExaminationCurve(tuple(values.tolist()), tuple(low.tolist()), tuple(high.tolist()), n_clicks, resampled)


def _moved(rows: ClickColumns) -> ClickColumns:
    """Rows of pairs shown at several ranks."""
    low, high = np.full((2, rows.pair_query.size), -1)
    low[:] = MOST_RANKS
    np.minimum.at(low, rows.pair, rows.rank)
    np.maximum.at(high, rows.pair, rows.rank)
    return rows.take((low < high)[rows.pair])


def _sums(where: Rows, weights: Array, size: int) -> Array:
    return np.asarray(np.bincount(where, weights, size), dtype=np.float64)


def _by_moves(rows: ClickColumns, n_ranks: int) -> Callable[[Array], Array]:
    """Return the AllPairs estimate as a function of the weights of rows, over all pairs shown at two ranks."""
    cells, cell = np.unique(rows.pair * n_ranks + rows.rank, return_inverse=True)
    pair, rank = cells // n_ranks, cells % n_ranks
    # Cells of a pair follow each other. Every two cells of a pair are a comparison.
    last = np.searchsorted(pair, pair, side="right")
    n_later = last - np.arange(cells.size) - 1
    upper = np.repeat(np.arange(cells.size), n_later)
    lower = upper + 1 + np.arange(upper.size) - np.repeat(np.cumsum(n_later) - n_later, n_later)
    two = rank[upper] * n_ranks + rank[lower]

    def fit(weights: Array) -> Array:
        lists, clicks = _sums(cell, weights, cells.size), _sums(cell, weights * rows.clicked, cells.size)
        total = lists[upper] + lists[lower]
        share = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        products = lists[upper] * lists[lower], clicks[upper] * lists[lower], clicks[lower] * lists[upper]
        return all_pairs(*(_sums(two, product * share, n_ranks**2).reshape(n_ranks, n_ranks) for product in products))

    return fit


def all_pairs(both: Array, above: Array, below: Array) -> Array:
    """AllPairs estimate of p, relative to rank 1; NaN for ranks without a connection to rank 1.

    Pairs seen at ranks k < j were clicked ``above[k, j]`` of ``both[k, j]`` times at k, and ``below[k, j]`` times at j.
    Their chances are ``p[k] r[k, j]`` and ``p[j] r[k, j]``, with r the attraction of these pairs. The
    log-likelihood is concave in log p and log r. Newton's method with r eliminated finds the maximum.

    A pair shown n and m times at the two ranks counts ``n m / (n + m)``, as by Mantel and Haenszel. Every pair counts 1
    in the paper, but a pair seen once says less than a pair seen a thousand times.

    Parameters
    ----------
    both, above, below : (n_ranks, n_ranks), above the diagonal
    """
    n_ranks = both.shape[0]
    values = np.full(n_ranks, np.nan)
    k, j = np.nonzero(np.triu(both, 1) * (above + below) > 0)
    graph = sparse.coo_array((np.ones(k.size), (k, j)), shape=(n_ranks, n_ranks))
    label = connected_components(graph, directed=False)[1]
    connected = label == label[0]
    is_connected = connected[k]
    k, j = k[is_connected], j[is_connected]
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

    free = np.flatnonzero(connected)[1:]  # the chance of rank 1 is 1
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
