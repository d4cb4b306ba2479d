"""Trust bias: what is clicked at the top for its place alone, told from how far down people look.

Where people trust a ranking, a click at rank r has the chance ``alpha[r] * g + beta[r]`` (Agarwal et al. 2019, Vardasbi
et al. 2020), and not ``p[r] * g``. How good documents are, g, is not known, and may be measured from any zero and in
any unit; so what a log can tell is the line that leads from clicks at rank 1 to those at rank r::

    a[r] * G + b[r],  a[r] = alpha[r] / alpha[1],  b[r] = beta[r] - a[r] * beta[1],  G the chance at rank 1

Without trust, all lines go through zero: a document that is clicked half as often as another at rank 1 is so at all
ranks. With it, what nobody likes loses more on the way down. That takes documents that were seen at several ranks, and
some that are liked more than others. Trust that is in the same proportion to looking at every rank cannot be told from
how good documents are; it does no harm, since it favours no rank.

Which documents are liked is told from one half of their impressions, and the line from the other half, so that the
chance that put one among the liked is not in what is then counted. Errors are in both click rates of a comparison, and
the line is fitted as for such (Deming regression). Intervals are of a jackknife over twenty groups of sessions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from tercet.data.clicks import ClickLog
from tercet.fitting.examination import ADDED, FEWEST_CLICKS, Array, Cells, ShownDocuments, sums_by

WIDEST = 0.2  # interval of the excess beyond which a log that shows no trust does not tell
_N_GROUPS, _N_SPLITS = 20, 2
_LARGEST = 3.0  # a[r]: how much further down than rank 1 people may look
_FEWEST_COMPARED = 1.0  # impressions of a comparison of two ranks
_STANDARD_ERRORS = 1.96


@dataclass(frozen=True)
class Trust:
    """The line from clicks at rank 1 to clicks at each rank.

    Attributes
    ----------
    slopes, offsets : a and b of each rank; 1 and 0 of the first
    excess : chance of a click that rank 1 has for its place alone, over the ranks below: the shift of G that takes
        ``b`` closest to zero
    low, high : ends of its 95 % interval
    n_clicks : clicks it rests on
    """

    slopes: tuple[float, ...]
    offsets: tuple[float, ...]
    excess: float
    low: float
    high: float
    n_clicks: int

    @property
    def is_shown(self) -> bool:
        """Whether the log shows that the top is trusted."""
        return self.low > 0

    def __str__(self) -> str:
        interval = f"{self.excess:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        if self.is_shown:
            return f"rank 1 is clicked for its place alone, {interval} more than ranks below: trust, not only looking"
        if self.high - self.low > WIDEST:
            return f"the log is too short to tell trust in the top from looking: {interval}"
        return f"no sign of trust in the top beyond looking: {interval}"


def estimate_trust(log: ClickLog, *, seed: int = 0) -> Trust | None:
    """Whether the top is trusted, by documents that were seen at several ranks; None where too few were.

    Nothing is learned from it: `choose_examination` takes all of a click for looking and liking.

    Notes
    -----
    O(`_N_GROUPS` × documents shown).

    Examples
    --------
    >>> from tercet.simulate import Visitors, simulate_clicks
    >>> lists = {f"q{number}": [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] for number in range(9)}
    >>> wanted = {f"q{number}": {"abc"[number % 3]: 1} for number in range(9)}
    >>> for trust in (0.0, 0.4):
    ...     found = estimate_trust(simulate_clicks(lists, wanted, 5000, Visitors(trust=trust)))
    ...     found.is_shown
    False
    True
    """
    shown = ShownDocuments.of(log)
    moved = shown.some(shown.moved)
    if moved.clicked.sum() < FEWEST_CLICKS:
        return None
    cells = Cells(moved, int(moved.rank.max()) + 1)
    rng = np.random.default_rng(seed)
    halves = rng.random((_N_SPLITS, moved.rank.size)) < 0.5
    lines = fit_lines(cells, np.ones(moved.rank.size), halves)
    if lines is None:
        return None
    names, unit = np.unique(moved.unit, return_inverse=True)
    group = rng.permutation(names.size)[unit] % _N_GROUPS
    others = [fit_lines(cells, (group != left_out).astype(np.float64), halves) for left_out in range(_N_GROUPS)]
    excesses = np.array([excess_of(*some) for some in others if some is not None])
    if excesses.size < _N_GROUPS:
        return None
    spread = (_N_GROUPS - 1) / _N_GROUPS * ((excesses - excesses.mean()) ** 2).sum()
    excess, error = excess_of(*lines), _STANDARD_ERRORS * float(np.sqrt(spread))
    slopes, offsets = (tuple(column.tolist()) for column in lines)
    return Trust(slopes, offsets, excess, excess - error, excess + error, int(moved.clicked.sum()))


def excess_of(slopes: Array, offsets: Array) -> float:
    """The shift x of G by least squares, ``a * x + b = 0`` at the ranks below the first."""
    return float(-(slopes[1:] @ offsets[1:]) / (slopes[1:] @ slopes[1:]))


def fit_lines(cells: Cells, weights: Array, halves: NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """a and b of the ranks that comparisons connect with the first; None where they are none but itself.

    Parameters
    ----------
    weights : of the rows of cells
    halves : (n_splits, n_rows), which rows tell what is liked; the others are counted, and then the other way round
    """
    p = cells.by_moves(weights)
    n_ranks = int(np.isfinite(p).argmin()) if np.isnan(p).any() else p.size
    if n_ranks < 2:
        return None
    comparisons = _comparisons(cells, weights, halves, np.nan_to_num(p, nan=p[n_ranks - 1]))
    both, above, below = (column[:, :n_ranks, :n_ranks] for column in comparisons)
    which, k, j = np.nonzero((both > _FEWEST_COMPARED) & (above + below > 0))
    if not which.size:
        return None
    n = both[which, k, j] + 2 * ADDED
    rate_k, rate_j = (above[which, k, j] + ADDED) / n, (below[which, k, j] + ADDED) / n
    noise_k, noise_j = rate_k * (1 - rate_k) / n, rate_j * (1 - rate_j) / n

    def residuals(free: Array) -> Array:
        a, b = np.r_[1.0, np.exp(free[: n_ranks - 1])], np.r_[0.0, free[n_ranks - 1 :]]
        off = a[k] * (rate_j - b[j]) - a[j] * (rate_k - b[k])  # G, which is free for each comparison, is eliminated
        return np.asarray(off / np.sqrt(a[k] ** 2 * noise_j + a[j] ** 2 * noise_k))

    least = np.log(0.01)
    start = np.r_[np.clip(np.log(p[1:n_ranks]), least + 0.1, np.log(_LARGEST) - 0.1), np.zeros(n_ranks - 1)]
    lower, upper = np.repeat([least, -1.0], n_ranks - 1), np.repeat([np.log(_LARGEST), 1.0], n_ranks - 1)
    found = optimize.least_squares(residuals, start, bounds=(lower, upper), xtol=1e-6, ftol=1e-6).x
    return np.r_[1.0, np.exp(found[: n_ranks - 1])], np.r_[0.0, found[n_ranks - 1 :]]


def _comparisons(cells: Cells, weights: Array, halves: NDArray[np.bool_], p: Array) -> list[Array]:
    """`Cells.compared`, of pairs that are liked less than the mean and of the others, (2, n_ranks, n_ranks) each."""
    n_pairs = int(cells.pair.max()) + 1
    totals = np.zeros((3, 2, cells.n_ranks, cells.n_ranks))
    for half in halves:
        for told in (half, ~half):
            shown, clicks = cells.counts(weights * told)
            expected = sums_by(cells.pair, shown * p[cells.rank], n_pairs)
            liking = sums_by(cells.pair, clicks, n_pairs)
            mean = liking.sum() / max(expected.sum(), 1e-12)
            is_liked = liking > mean * expected
            counted = cells.counts(weights * ~told)
            for which, chosen in enumerate((~is_liked & (expected > 0), is_liked)):
                totals[:, which] += cells.compared(*counted, chosen)
    return list(totals / len(halves))
