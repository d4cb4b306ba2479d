"""Measures of LETOR-shaped scores of rows: of the ranking of each query, and of pairs of rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metadata_routing import MetadataRequest

from tercet.data.letor import id_array, whole_grades
from tercet.data.row_queries import queries_of, query_numbers
from tercet.errors import InputError
from tercet.kernels.orders import disagreement, pair_counts
from tercet.measure.evaluation import Evaluation
from tercet.measure.formulas import compute, find_standing, real_scores
from tercet.measure.names import Measure, parse_measure, parse_measures


def measure_rows(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike,
    measures: str | Measure | Iterable[str | Measure] = ("nDCG(dcg='exp-log2')@10", "AP"),
) -> Evaluation:
    """Measure every query's ranking by score; of equal scores the earlier row is first.

    Parameters
    ----------
    y : (n_rows,) grades, whole numbers; 1 or more is relevant unless a measure says otherwise, as in
        ``"AP(rel=2)"``
    scores : (n_rows,) higher is better
    qid : (n_rows,) query ids, strings or integers; rows of a query need not stand together
    measures : names as in ``"nDCG(dcg='letor')@10"``, or a single name

    Returns
    -------
    Evaluation, its queries in the order of their first rows.

    Notes
    -----
    Costs O(n log r) for n rows and r relevant rows per query; rankings are not sorted. A query without a relevant row
    counts 0, as in ir_measures and in LETOR's script.

    Examples
    --------
    >>> result = measure_rows([2, 0, 1], [0.2, 0.7, 0.1], [7, 7, 7], ["AP", "AP(rel=2)", "nDCG(dcg='letor')@3"])
    >>> print(result)
    measure               mean  s.e.  95% interval
    AP                  0.5833     -             -
    AP(rel=2)           0.5000     -             -
    nDCG(dcg='letor')@3 0.9077     -             -
    1 query
    """
    parsed = parse_measures(measures)
    values = _scores_of_rows(scores)
    grades, ids = whole_grades(y, len(values)), _checked_ids(qid, len(values))
    begins = np.concatenate([[True], ids[1:] != ids[:-1]])
    if len(set(ids[begins].tolist())) < begins.sum():
        _, first, query = np.unique(ids, return_index=True, return_inverse=True)
        order = np.argsort(first[query], kind="stable")
        values, grades, ids = values[order], grades[order], ids[order]
        begins = np.concatenate([[True], ids[1:] != ids[:-1]])
    starts = np.flatnonzero(begins)
    row_starts = np.append(starts, len(values))
    relevant = np.flatnonzero(grades > 0)
    query = np.searchsorted(starts, relevant, side="right") - 1
    column = (relevant - starts[query]).astype(np.int32)
    standing = find_standing(values, row_starts, query, column, grades[relevant])
    return Evaluation(parsed, tuple(map(str, ids[starts].tolist())), compute(standing, parsed))


@dataclass(frozen=True)
class RowScorer:
    """A scorer of scikit-learn: the mean of a measure over the queries, higher is better; see `scorer`.

    Examples
    --------
    >>> from tercet import scorer
    >>> isinstance(scorer("AP"), RowScorer)
    True
    """

    measure: Measure

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, qid: Any = None, group: Any = None) -> float:
        """Return the mean measure of ``estimator.predict(X)``, negated if lower is better."""
        ids = queries_of(X, qid, group)
        if ids is None:
            raise InputError(
                "rows are measured by query: give qid=, one query id per row. In cross_val_score, GridSearchCV and "
                "their like scikit-learn passes it on after sklearn.set_config(enable_metadata_routing=True), to a "
                "pipeline before scikit-learn 1.8 with scoring=tc.scorer() only; a frame X with a column qid needs no "
                "switch"
            )
        scores = estimator.predict(X)
        numbers, _ = query_numbers(ids, len(scores))
        mean = measure_rows(y, scores, numbers, self.measure).mean(self.measure)
        return mean if self.measure.higher_is_better else -mean

    def __repr__(self) -> str:
        return f"scorer({str(self.measure)!r})"

    def get_metadata_routing(self) -> MetadataRequest:
        """Request qid from scikit-learn."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="qid", alias=True)
        return request


def scorer(measure: str | Measure = "nDCG@10") -> RowScorer:
    """A measure as ``scoring=`` of scikit-learn's ``cross_val_score``, ``GridSearchCV`` and their like.

    Parameters
    ----------
    measure : a name as in ``"nDCG(dcg='exp-log2')@10"`` or ``"AP"``

    Notes
    -----
    The scorer requests ``qid``: ``params={"qid": qid}`` needs metadata routing and nothing else. Any estimator with a
    predicted score for each row can be scored.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.model_selection import cross_val_score
    >>> from tercet.data import query_folds
    >>> from tercet.learn.linear import FTRLRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.random((60, 4)), np.repeat(np.arange(12), 5)
    >>> y = (X[:, 2] > 0.5).astype(int)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     folds = query_folds(qid, 3)
    ...     values = cross_val_score(FTRLRanker(), X, y, cv=folds, scoring=scorer("AP"), params={"qid": qid})
    >>> bool(values.min() > 0.9)
    True
    """
    return RowScorer(parse_measure(measure))


@dataclass(frozen=True, slots=True, eq=False)
class Orders:
    """Pairs of rows of each query by the orders of scores and grades; made by `compare_orders`.

    Attributes
    ----------
    qids : the queries with two rows or more, in the order of their first rows
    counts : (n_queries, 5) pairs in all, in opposite order, of equal grade, of equal score, of both

    Examples
    --------
    >>> from tercet.measure import compare_orders
    >>> compare_orders([0.9, 0.1, 0.5], [1, 0, 1], ["q", "q", "q"]).concordance.tolist()
    [1.0]
    """

    qids: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def disagreement(self) -> NDArray[np.float64]:
        """The disagreement error of each query (n_queries,), from 0 to 1: ``½ |sign(y_i - y_j) - sign(f_i - f_j)|``.

        The mean over pairs i ≠ j (Tsivtsivadze et al. 2008, equation 1). A tie of scores or of grades alone counts a
        half; a tie of both counts as right.
        """
        return disagreement(self.counts)

    @property
    def concordance(self) -> NDArray[np.float64]:
        """The concordance index of each query (n_queries,): the share of pairs of different grades in the right order.

        A tie of scores counts a half. NaN for a query of equal grades.
        """
        n_pairs, opposite, tied_grades, tied_scores, tied_both = self.counts.T
        different = n_pairs - tied_grades
        right = different - opposite - 0.5 * (tied_scores - tied_both)
        return np.divide(right, different, out=np.full(len(right), np.nan), where=different > 0)


def compare_orders(scores: ArrayLike, y: ArrayLike, qid: ArrayLike | None = None) -> Orders:
    """Compare the order of scores with the order of grades within each query.

    Parameters
    ----------
    scores : (n_rows,) higher is better
    y : (n_rows,) grades, any finite numbers
    qid : (n_rows,) query ids, strings or integers, in any order; None for a single query

    Notes
    -----
    Compare two methods by ``paired_test(a.disagreement, b.disagreement, "wilcoxon")``: the trials are the queries.
    Costs O(n log n) for queries of n rows.

    Examples
    --------
    >>> orders = compare_orders([0.1, 0.3, 0.2, 0.2], [0, 1, 2, 1], [7, 7, 7, 8])
    >>> orders.qids, orders.disagreement.round(3).tolist(), orders.concordance.round(3).tolist()
    (('7',), [0.333], [0.667])
    """
    values = _scores_of_rows(scores)
    grades = _checked_grades(y, len(values))
    ids = np.zeros(len(values), dtype=np.int64) if qid is None else _checked_ids(qid, len(values))
    query, n_queries = query_numbers(ids, len(values))
    counts = pair_counts(values, grades, query, n_queries)
    has_rows = counts[:, 0] > 0
    if not has_rows.any():
        raise InputError(f"no query has two rows or more, so there are no pairs to compare ({n_queries} queries)")
    names = ids[np.unique(query, return_index=True)[1]].astype(str)
    return Orders(tuple(names[has_rows].tolist()), counts[has_rows])


def _scores_of_rows(scores: ArrayLike) -> NDArray[np.float64]:
    values = real_scores(scores, 1)
    if not len(values):
        raise InputError("There are no rows to measure.")
    return values


def _checked_ids(qid: ArrayLike, n_rows: int) -> NDArray[np.generic]:
    """Check query ids: a string or integer per row."""
    ids = id_array(qid)
    if ids.shape != (n_rows,) or ids.dtype.kind not in "iuU":
        raise InputError(
            f"Query ids must be strings or integers, one per score, shape {(n_rows,)}. "
            f"Got shape {ids.shape}, dtype {ids.dtype}."
        )
    return ids


def _checked_grades(y: Any, n_rows: int) -> NDArray[np.float64]:
    """Check grades: a finite number per row."""
    grades = np.asarray(y)
    if grades.shape != (n_rows,) or grades.dtype.kind not in "iufb":
        raise InputError(
            f"Grades must be real numbers, one per score, shape {(n_rows,)}. "
            f"Got shape {grades.shape}, dtype {grades.dtype}."
        )
    if not np.isfinite(grades).all():
        row = int((~np.isfinite(grades)).argmax())
        raise InputError(f"The grade of row {row} is {grades[row]}; grades must be finite.")
    return grades.astype(np.float64)
