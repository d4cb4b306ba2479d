"""The mean of the best settings of a linear ranker by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from tercet.choose import settings_of
from tercet.data.letor_folds import deal_queries
from tercet.errors import DamagedBundleError, DivergedError, ParameterError
from tercet.learn.base import Count, SavedRanker, Seed
from tercet.learn.linear.base import LinearRanker, SparseLinearRanker, scores
from tercet.learn.linear.ftrl import FTRLRanker
from tercet.learn.linear.path import five_digits, penalties_from
from tercet.learn.linear.queries import Queries
from tercet.store.codec import decode, encode
from tercet.store.schema import Shape

Matrix = NDArray[np.float64]

_CELLS_AT_ONCE = 2**22
_HIGHEST_GRADE = 31


@dataclass(eq=False, repr=False, kw_only=True)
class MeanRanker(LinearRanker):
    """The mean of the best settings by cross-validation, optionally cut to its largest weights.

    With few queries the best setting of a grid is nearly a draw; the mean of many good settings depends far less on the
    folds. Queries are dealt into folds, and each fold is left out in turn. The measure over the left-out queries ranks
    the settings of the grid. The ``n_best`` settings learn once more from all queries. Their weights are divided by the
    standard deviation of their scores within queries and averaged.

    Parameters
    ----------
    ranker : learner; ``FTRLRanker()`` by default
    grid : parameter -> values; every combination is tried. Default for an FTRLRanker: five rates, ten penalties and 1,
        2, 3 and 5 passes; for another sparse ranker: 30 penalties
    n_best : number of settings in the mean
    largest : number of weights to keep, the largest for features of the same scale
    folds : number of folds, at most one per query; a single query is measured on itself
    measure : measure of the settings
    random_state : seed of the folds
    scale_features : learn from features divided by their mean range within a query, independent of units; ``coef_``
        applies to the original features

    Attributes
    ----------
    coef_ : weights (n_features,)
    settings_ : the settings in the mean, best first
    held_out_ : mean measure of each setting over the left-out queries (n_best,)

    Notes
    -----
    Costs ``folds`` fits of every setting. All numbers of passes of an FTRLRanker come from one run. The penalty of an
    FTRLRanker is a total: a fold of the cross-validation takes the share of its queries.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.random((120, 6)), np.repeat(np.arange(12), 10)
    >>> y = (X[:, 1] + X[:, 4] > 1).astype(int)
    >>> ranker = MeanRanker(largest=2).fit(X, y, qid=qid)
    >>> np.flatnonzero(ranker.coef_).tolist(), len(ranker.settings_)
    ([1, 4], 20)
    """

    ranker: LinearRanker | None = None
    random_state: Seed = 0
    grid: Annotated[dict[str, Any], dict] | None = None
    n_best: Count = 20
    largest: Count | None = None
    folds: Annotated[int, Interval(Real, 2, None, closed="left")] = 5
    measure: Annotated[str, str] = "nDCG(dcg='exp-log2')@10"

    settings_: list[dict[str, Any]] = field(init=False)
    held_out_: Matrix = field(init=False)

    def _learn(self, X: Any, queries: Queries) -> None:
        from tercet.measure import parse_measure  # imported here: the module loads many others

        measure = parse_measure(self.measure)
        pattern = self._pattern(X)
        settings = settings_of(self._whole_grid(pattern, X, queries))
        values, sizes = [], []
        for learned, held_out in self._parts(len(queries)):
            weights = _learned(pattern, settings, X, queries.subset(learned), len(learned) / len(queries))
            values.append(_measured(weights, X, queries.subset(held_out), str(measure)))
            sizes.append(np.count_nonzero(weights, axis=1))
        means = np.concatenate(values, axis=1).mean(axis=1)
        means = np.where(np.isnan(means), -np.inf, means if measure.higher_is_better else -means)
        # Ties: the sparser setting, then the earlier setting.
        best = np.lexsort((np.mean(sizes, axis=0), -means))[: self.n_best]
        weights = _learned(pattern, [settings[position] for position in best], X, queries)
        is_finite = np.isfinite(means[best]) & np.isfinite(weights).all(axis=1)
        if not is_finite.any():
            raise self._diverged(f"none of {len(settings)} settings gave finite weights")
        best, weights = best[is_finite], weights[is_finite]
        spreads = _score_spreads(weights, X, queries)
        mean = (weights / np.where(spreads > 0, spreads, 1.0)[:, None]).mean(axis=0)
        if self.largest is not None:
            mean[np.argsort(-np.abs(mean), kind="stable")[self.largest :]] = 0.0
        self._keep(mean)
        self.settings_ = [settings[position] for position in best]
        self.held_out_ = means[best] if measure.higher_is_better else -means[best]

    def _pattern(self, X: Any) -> LinearRanker:
        """Return the learner, for scaled rows."""
        pattern = clone(FTRLRanker() if self.ranker is None else self.ranker).set_params(scale_features=False)
        pattern._check_params()
        pattern.n_features_in_ = X.shape[1]
        return pattern

    def _parts(self, n_queries: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return the numbers of the queries to learn from, and of the left-out queries, for each fold."""
        every = np.arange(n_queries)
        if n_queries < 2:
            return [(every, every)]
        return deal_queries(every, n_queries, min(int(self.folds), n_queries), self.random_state)

    def _whole_grid(self, pattern: LinearRanker, X: Any, queries: Queries) -> dict[str, Sequence[Any]]:
        if self.grid is not None:
            parameters = pattern.get_params()
            for name, values in self.grid.items():
                if name not in parameters:
                    raise ParameterError(
                        f"grid: {type(pattern).__name__} has no parameter {name!r}; known: {', '.join(parameters)}"
                    )
                if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str) or not len(values):
                    raise ParameterError(f"grid: {name} needs a list of one or more values; got {values!r}")
            return {name: [_plain(value) for value in values] for name, values in self.grid.items()}
        if isinstance(pattern, FTRLRanker):
            end = clone(pattern).set_params(epochs=1)._first_penalty(X, queries)
            return {
                "rate": [2.0**power for power in (1, -1, -3, -5, -7)],
                "l1": [five_digits(end * 2.0**power) for power in range(2, -8, -1)],
                "epochs": [1, 2, 3, 5],
            }
        if isinstance(pattern, SparseLinearRanker):
            return {pattern._penalty_name: penalties_from(pattern, X, queries).tolist()}
        raise ParameterError(f"{type(pattern).__name__} has no penalty to choose; give a grid of its parameters")

    # -- saving -------------------------------------------------------------------------------------------------

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if self.ranker is not None:
            params["ranker"] = {"class": type(self.ranker).__name__, "params": self.ranker._saved_params()}
        if self.grid is not None:
            params["grid"] = {name: [_plain(value) for value in values] for name, values in self.grid.items()}
        return params

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        if params["ranker"] is not None:
            params = {**params, "ranker": _inner_ranker(params["ranker"], saved)}
        return super()._from_bundle(params, saved)

    def _state_meta(self) -> dict[str, Any]:
        return encode(SavedMean(self.settings_, self.held_out_))[0]

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        return encode(SavedMean(self.settings_, self.held_out_))[1]

    def _restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> None:
        stored = decode(SavedMean, meta, arrays, where=where, copy=True)
        self.settings_, self.held_out_ = stored.settings, stored.held_out


@dataclass(frozen=True, eq=False)
class SavedMean:
    """Learned state of a saved MeanRanker without its weights."""

    settings: list[dict[str, Any]]
    held_out: Annotated[Matrix, Shape(None)]


def _inner_ranker(stated: Any, saved: SavedRanker) -> LinearRanker:
    """Restore the learner from a file."""
    ranker_class = saved.classes.get(str(stated.get("class"))) if isinstance(stated, dict) else None
    if ranker_class is None or not issubclass(ranker_class, LinearRanker) or not isinstance(stated.get("params"), dict):
        raise DamagedBundleError(f"{saved.where}: its ranker is not a linear ranker with parameters")
    params = {**ranker_class._added_parameters, **stated["params"]}
    if set(params) != set(ranker_class._get_param_names()):
        raise DamagedBundleError(f"{saved.where}: the parameters of its ranker do not fit a {ranker_class.__name__}")
    return ranker_class._with_params(params, saved.where)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _learned(
    pattern: LinearRanker, settings: Sequence[dict[str, Any]], X: Any, queries: Queries, share: float = 1.0
) -> Matrix:
    """Return the weights of every setting (n_settings, n_features); NaN after divergence.

    ``share`` is the share of these queries among all: the penalty of FTRL is a total over all queries. Settings of FTRL
    with different numbers of passes share a run.
    """
    weights = np.full((len(settings), X.shape[1]), np.nan)
    runs: dict[str, dict[int, int]] = {}  # settings without passes -> passes -> position
    for position, setting in enumerate(settings):
        whole = {**pattern.get_params(), **setting}
        goes_on = isinstance(pattern, FTRLRanker) and not whole["shuffle"] and whole["l1"] is not None
        passes = whole.pop("epochs") if goes_on else 0  # 0 for the end of ``fit``
        runs.setdefault(repr(whole), {})[passes] = position
    for positions in runs.values():
        ranker = clone(pattern).set_params(**settings[next(iter(positions.values()))])
        ranker._check_params()
        ranker._note_features(pattern)
        if isinstance(ranker, FTRLRanker) and ranker.l1 is not None:
            ranker.l1 *= share
        try:
            if 0 in positions:
                ranker._learn(X, queries)
                weights[positions[0]] = ranker.coef_
            for number in range(1, max(positions) + 1):
                assert isinstance(ranker, FTRLRanker)
                ranker._go_on(X, queries)
                if number in positions:
                    weights[positions[number]] = ranker.coef_
        except DivergedError:
            continue
    return weights


def _measured(weights: Matrix, X: Any, queries: Queries, measure: str) -> Matrix:
    """Return the measure of each query by each row of weights (n_settings, n_queries); NaN for NaN weights."""
    from tercet.measure import measure_rows

    grades = _whole_grades(queries)
    lengths = np.diff(queries.starts)
    query = np.repeat(np.arange(len(queries)), lengths)
    rows = X[queries.rows]
    blocks = []
    at_once = max(1, _CELLS_AT_ONCE // len(query))
    for start in range(0, len(weights), at_once):
        block = np.nan_to_num(weights[start : start + at_once])
        # Each setting's queries get separate numbers, so that one call measures all settings.
        groups = (query + len(queries) * np.arange(len(block))[:, None]).ravel()
        block_scores = np.ascontiguousarray(scores(rows, block.T).T).ravel()
        values = measure_rows(np.tile(grades, len(block)), block_scores, groups, measure).values
        blocks.append(values.reshape(len(block), len(queries)))
    table = np.concatenate(blocks)
    table[~np.isfinite(weights).all(axis=1)] = np.nan
    return table


def _whole_grades(queries: Queries) -> NDArray[np.int32]:
    """Return the labels if all are whole numbers from 0 to 31, as in LETOR files, or else their order from 0 up."""
    labels = queries.labels
    is_grade = (labels == np.floor(labels)) & (labels >= 0) & (labels <= _HIGHEST_GRADE)
    return labels.astype(np.int32) if is_grade.all() else queries.grades


def _score_spreads(weights: Matrix, X: Any, queries: Queries) -> Matrix:
    """The standard deviation of the scores within queries, over all rows (n_settings,)."""
    values = scores(X[queries.rows], weights.T)  # (n_rows, n_settings)
    lengths = np.diff(queries.starts)
    means = np.add.reduceat(values, queries.starts[:-1], axis=0) / lengths[:, None]
    return np.sqrt(np.square(values - np.repeat(means, lengths, axis=0)).mean(axis=0))
