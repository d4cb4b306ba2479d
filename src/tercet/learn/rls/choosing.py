"""A grid over kernel parameters, the basis and l2, measured on held-out queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from tercet.choose import settings_of
from tercet.data.row_queries import query_numbers
from tercet.errors import InputError, ParameterError
from tercet.kernels.orders import disagreement, pair_counts
from tercet.learn.rls.kernels import Matrix
from tercet.learn.rls.ranker import KernelLeastSquares, RankRLS, checked_l2s, held_out_scores

_PARAMETERS = ("gamma", "degree", "coef0", "n_basis")


@dataclass(frozen=True, eq=False)
class RLSGrid:
    """Result of `choose_rls`.

    Attributes
    ----------
    settings : parameters of the kernel and of the basis, one dict each (n_settings,)
    l2s : penalties (n_l2s,)
    errors : the disagreement error of each held-out query (n_settings, n_l2s, n_queries)
    ranker : the best ranker, fitted to all rows

    Examples
    --------
    >>> import numpy as np
    >>> from tercet.learn.rls import choose_rls
    >>> X, y = np.arange(8.0).reshape(8, 1), np.arange(8) % 2
    >>> grid = choose_rls(X, y, np.repeat(["a", "b", "c", "d"], 2), l2s=[0.1, 1.0])
    >>> grid.means.shape
    (1, 2)
    """

    settings: tuple[dict[str, Any], ...]
    l2s: NDArray[np.float64]
    errors: NDArray[np.float64]
    ranker: Any

    def __repr__(self) -> str:
        return f"RLSGrid({len(self.settings)} settings, {len(self.l2s)} penalties; {self.ranker!r})"

    @property
    def means(self) -> Matrix:
        """The mean error over queries (n_settings, n_l2s)."""
        return self.errors.mean(axis=2)

    @property
    def best(self) -> tuple[int, int]:
        """Positions of the setting and the l2 with the lowest mean error; of equals the larger l2."""
        return _best(self.means, self.l2s)


def choose_rls(
    X: Any,
    y: Any,
    qid: Any = None,
    *,
    l2s: ArrayLike,
    parameters: Mapping[str, Sequence[Any]] | None = None,
    ranker: KernelLeastSquares | None = None,
) -> RLSGrid:
    """Choose kernel parameters, the basis and l2 by the disagreement error of held-out queries.

    Parameters
    ----------
    X, y, qid : as in ``RankRLS.fit``
    l2s : penalties to try
    parameters : values to try of ``gamma``, ``degree``, ``coef0`` and ``n_basis`` (numbers), in all combinations
    ranker : the other parameters; ``RankRLS()`` by default, and never changed

    Returns
    -------
    RLSGrid

    Notes
    -----
    Each setting needs one decomposition for all l2. Rows are read a block at a time, two or three times for a setting:
    memory holds some n_basis × n_basis matrices, a block of rows and the scores (n_rows, n_l2s).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 2)), np.repeat(np.arange(12), 5)
    >>> grid = choose_rls(
    ...     X, np.sin(3 * X[:, 0]), qid, l2s=[0.01, 1.0], parameters={"gamma": [0.01, 3.0]},
    ...     ranker=RankRLS(kernel="gaussian", n_basis=30),
    ... )
    >>> grid.ranker.gamma, grid.errors.shape
    (3.0, (2, 2, 12))
    """
    if ranker is not None and not isinstance(ranker, KernelLeastSquares):
        raise ParameterError(f"ranker must be a RankRLS or an RLSRegressor; got {ranker!r}")
    pattern = clone(RankRLS() if ranker is None else ranker)
    settings, penalties = _combinations(parameters), checked_l2s(l2s)
    qid = pattern._queries(X, qid)  # a frame may have a column of them
    rows, labels, comparisons, queries = pattern._prepared(X, y, qid)
    query, n_queries = query_numbers(qid, len(labels))  # a regression's rows may stand alone; errors are of queries
    if n_queries == len(labels):
        raise InputError("no query has two rows or more, so there are no pairs to choose by")
    errors: list[Any] = [None] * len(settings)
    for position, setting in enumerate(settings):
        candidate = clone(pattern).set_params(**setting)
        candidate._check_params()
        scores = held_out_scores(candidate._posed(rows, comparisons, queries), penalties)
        errors[position] = [disagreement(pair_counts(column, labels, query, n_queries)) for column in scores.T]
    by_query = np.array(errors)
    setting_row, penalty_row = _best(by_query.mean(axis=2), penalties)
    chosen = clone(pattern).set_params(**settings[setting_row], l2=float(penalties[penalty_row]))
    return RLSGrid(settings, penalties, by_query, chosen.fit(X, y, qid=qid))


def _best(means: Matrix, l2s: NDArray[np.float64]) -> tuple[int, int]:
    """Positions of the lowest error; of equals the larger l2, then the earlier setting."""
    setting, l2 = np.indices(means.shape).reshape(2, -1)
    order = np.lexsort((setting, -l2s[l2], means.ravel()))
    return int(setting[order[0]]), int(l2[order[0]])


def _combinations(parameters: Mapping[str, Sequence[Any]] | None) -> tuple[dict[str, Any], ...]:
    grid = {} if parameters is None else dict(parameters)
    for name, values in grid.items():
        if name not in _PARAMETERS:
            raise ParameterError(f"parameters has {name!r}; expected some of {', '.join(_PARAMETERS)}")
        is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
        if not is_list or not len(values) or any(np.ndim(value) for value in values):
            raise ParameterError(f"parameters[{name!r}] must be one or more values in a list; got {values!r}")
    return tuple(settings_of(grid))
