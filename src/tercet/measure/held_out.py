"""Held-out queries with known answers, or preferences between documents, to measure weights by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet._validate import is_integer
from tercet.data.preferences import Preferences
from tercet.data.sampling import check_grade
from tercet.errors import InputError
from tercet.measure.evaluation import Evaluation
from tercet.measure.formulas import compute, measure_block, standing_of_block
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure, parse_measures
from tercet.weights import Weights

_PAIR_ACCURACY = Measure(PAIR_ACCURACY)
_AT_ONCE = 4096  # preferences in a block

Block = tuple[slice, NDArray[np.float64]]  # queries, and their scores of all documents


class HeldOut(ABC):
    """Held-out queries, to choose or report on weights.

    A call with weights returns the mean of ``measure`` (negated if lower is better), as ``fit(validation=…)`` expects.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import CosineRanker, HeldOutQueries
    >>> X = sparse.csr_array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> held_out: HeldOut = HeldOutQueries.from_links(np.array([[0, 1]]), X)
    >>> held_out.values(CosineRanker().fit(X).weights_).tolist()
    [1.0]
    """

    measure: Measure
    qids: tuple[str, ...]  # names of the queries, for reports

    @abstractmethod
    def evaluate(self, weights: Weights, measures: Any = None) -> Evaluation:
        """Several measures of each query; by default ``measure`` alone."""

    def values(self, weights: Weights) -> NDArray[np.float64]:
        """The measure of each query (n_q,)."""
        return self.evaluate(weights).values[:, 0]

    def __call__(self, weights: Weights) -> float:
        value = float(self.values(weights).mean())
        return value if self.measure.higher_is_better else -value


@dataclass(frozen=True, eq=False)
class HeldOutQueries(HeldOut):
    """Every document is ranked for every query; ties by lower row.

    Parameters
    ----------
    Q, D : query rows and the whole collection
    grades : CSR integers (n_q, n_d)
    qids : names of the queries, for reports
    measure : measure of a call
    hidden : CSR (n_q, n_d), non-zero for ungraded documents to leave out of a query's ranking, or None

    Examples
    --------
    >>> from tercet import CosineRanker
    >>> X = sparse.csr_array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> held_out = HeldOutQueries.from_links(np.array([[0, 1]]), X)  # of row 0, row 1 is to be found
    >>> held_out(CosineRanker().fit(X).weights_)
    1.0
    """

    Q: sparse.csr_array
    D: sparse.csr_array
    grades: sparse.csr_array
    qids: tuple[str, ...]
    measure: Measure
    hidden: sparse.csr_array | None = None

    @classmethod
    def from_qrels(
        cls,
        qrels: Mapping[Any, Mapping[Any, int]],
        Q: Any,
        D: Any,
        query_rows: Mapping[Any, int] | None = None,
        doc_rows: Mapping[Any, int] | None = None,
        measure: str | Measure = "nDCG@10",
    ) -> HeldOutQueries:
        """Make held-out queries of judgements by id, with the row of each id, or by row numbers of Q and D.

        Examples
        --------
        >>> Q, D = sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 0.0], [0.0, 1.0]])
        >>> held_out = HeldOutQueries.from_qrels({0: {0: 1}}, Q, D, measure="AP")
        >>> from tercet.weights import Identity
        >>> held_out(Weights([Identity(n_terms=2)]))
        1.0
        """
        if not qrels:
            raise InputError("there are no held-out queries")
        rows, columns, grades = [], [], []
        for row, (qid, judged) in enumerate(qrels.items()):
            for doc_id, grade in judged.items():
                rows.append(row)
                columns.append(_row(doc_id, doc_rows, D.shape[0], "document"))
                grades.append(check_grade(qid, doc_id, grade))
        matrix = sparse.csr_array((grades, (rows, columns)), shape=(len(qrels), D.shape[0]), dtype=np.int64)
        chosen = sparse.csr_array(Q)[np.array([_row(qid, query_rows, Q.shape[0], "query") for qid in qrels])]
        return cls(chosen, sparse.csr_array(D), matrix, tuple(map(str, qrels)), parse_measure(measure))

    @classmethod
    def from_links(
        cls,
        links: ArrayLike,
        Q: Any,
        D: Any = None,
        *,
        known: ArrayLike = (),
        exclude_self: bool = True,
        measure: str | Measure = "AP",
    ) -> HeldOutQueries:
        """Make held-out queries of links (row of Q, row of D): each linked row of Q is a query for its link targets.

        Parameters
        ----------
        links : links to find
        Q, D : ``D=None`` means D is Q
        known : links to leave out of the ranking, such as training links
        exclude_self : leave out also the document in the row of the query

        Examples
        --------
        >>> X = sparse.csr_array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
        >>> held_out = HeldOutQueries.from_links([(0, 1)], X, known=[(0, 2)])
        >>> held_out.hidden.toarray().tolist()
        [[1, 0, 1]]
        """
        D = Q if D is None else D
        targets, hidden = (_pairs(*pairs, Q, D) for pairs in ((links, "links"), (known, "known")))
        if exclude_self:
            sources = np.unique(targets[:, 0])
            hidden = np.concatenate([hidden, np.stack([sources, sources], axis=1)[sources < D.shape[0]]])
        keys, hidden_keys = (np.unique(pairs[:, 0] * D.shape[0] + pairs[:, 1]) for pairs in (targets, hidden))
        keys = np.setdiff1d(keys, hidden_keys)
        if not keys.size:
            raise InputError("there are no links to be found")
        queries = np.unique(keys // D.shape[0])

        def matrix(keys: NDArray[np.int64]) -> sparse.csr_array:
            query, doc = np.divmod(keys[np.isin(keys // D.shape[0], queries)], D.shape[0])
            shape = queries.size, D.shape[0]
            return sparse.csr_array(
                (np.ones(query.size, np.int64), (np.searchsorted(queries, query), doc)), shape=shape
            )

        names = tuple(map(str, queries.tolist()))
        chosen = sparse.csr_array(Q)[queries]
        return cls(chosen, sparse.csr_array(D), matrix(keys), names, parse_measure(measure), hidden=matrix(hidden_keys))

    def evaluate(self, weights: Weights, measures: Any = None) -> Evaluation:
        return self.evaluate_scores(weights.score_blocks(self.Q, self.D), measures)

    def evaluate_scores(self, blocks: Iterable[Block], measures: Any = None) -> Evaluation:
        """Several measures of each query from blocks of queries with the scores of all documents."""
        parsed = parse_measures(measures or [self.measure])
        return Evaluation(
            parsed, self.qids, np.concatenate([self.measured(block, scores, parsed) for block, scores in blocks])
        )

    def by_documents(self, chosen: NDArray[np.bool_]) -> Self | None:
        """Keep queries with a chosen answer, and hide all other answers; None without such a query.

        Parameters
        ----------
        chosen : mask of the rows of D

        Examples
        --------
        >>> Q, D = sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 0.0], [0.5, 1.0], [0.4, 0.0]])
        >>> held_out = HeldOutQueries.from_qrels({0: {0: 1, 2: 1}}, Q, D, measure="AP")
        >>> last = held_out.by_documents(np.array([False, False, True]))
        >>> from tercet.weights import Identity
        >>> last(Weights([Identity(n_terms=2)]))  # behind the second document; the first is hidden
        0.5
        """
        grades = self.grades.tocoo()
        answers = grades.data > 0
        measured = answers & chosen[grades.col]
        rows = np.unique(grades.row[measured])
        if not rows.size:
            return None
        shape = self.grades.shape
        unmeasured = answers & ~measured
        hidden = sparse.csr_array(
            (np.ones(int(unmeasured.sum()), np.int64), (grades.row[unmeasured], grades.col[unmeasured])), shape
        )
        remaining = sparse.csr_array(
            (grades.data[~unmeasured], (grades.row[~unmeasured], grades.col[~unmeasured])), shape=shape
        )
        hidden = hidden if self.hidden is None else hidden + self.hidden
        return replace(self, grades=remaining, hidden=hidden)._of_rows(rows)

    def at_most(self, n: int) -> Self:
        """Keep at most n queries, evenly spaced."""
        if len(self.qids) <= n:
            return self
        return self._of_rows(_evenly_spaced(len(self.qids), n))

    def _of_rows(self, rows: NDArray[np.int64]) -> Self:
        return replace(
            self,
            Q=self.Q[rows],
            grades=self.grades[rows],
            qids=tuple(self.qids[row] for row in rows),
            hidden=None if self.hidden is None else self.hidden[rows],
        )

    def measured(self, block: slice, scores: NDArray[np.float64], measures: tuple[Measure, ...]) -> NDArray[np.float64]:
        """Measures (n, n_measures) of a block of queries from scores; scores of hidden documents are overwritten."""
        if self.hidden is None:
            return measure_block(scores, self.grades[block], measures)
        hidden = self.hidden[block]
        scores[hidden.nonzero()] = -np.inf  # below all other documents
        standing = standing_of_block(scores, self.grades[block])
        return compute(replace(standing, n_ranked=standing.n_ranked - np.diff(hidden.indptr)), measures)

    def without(self, own: NDArray[np.int64]) -> Self:
        """Hide the query's text in each ranking, whatever the grade; ``own`` (n_q,) are rows of D."""
        shape, queries = self.grades.shape, np.arange(len(own))
        hidden = sparse.csr_array((np.ones(len(own), np.int64), (queries, own)), shape=shape)
        grades = sparse.csr_array(self.grades - self.grades.multiply(hidden))
        grades.eliminate_zeros()
        return replace(self, grades=grades, hidden=hidden)


@dataclass(frozen=True, eq=False)
class HeldOutPreferences(HeldOut):
    """Held-out preferences, measured by the weighted share in the right order of each query.

    Equal scores count a half, as a guess would on average.

    Parameters
    ----------
    Q, D : query rows and the whole collection, in memory or mapped
    preferences : by rows of Q and D
    qids : names of the queries with preferences, by rising row of Q

    Examples
    --------
    >>> Q, D = sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    >>> held_out = HeldOutPreferences(Q, D, Preferences([0, 0], [0, 1], [1, 2]), ("q",))
    >>> from tercet.weights import Identity
    >>> held_out(Weights([Identity(n_terms=2)]))
    0.75
    """

    Q: sparse.csr_array
    D: sparse.csr_array
    preferences: Preferences
    qids: tuple[str, ...]
    measure: Measure = _PAIR_ACCURACY

    def evaluate(self, weights: Weights, measures: Any = None) -> Evaluation:
        """Share of each query's preferences in the right order, the only measure of preferences."""
        return self._evaluation(self._margins(weights), measures)

    def evaluate_scores(self, blocks: Iterable[Block], measures: Any = None) -> Evaluation:
        """Shares from blocks of queries with the scores of all documents."""
        prefs, margins = self.preferences, np.empty(len(self.preferences))
        for block, scores in blocks:
            chosen = (prefs.query >= block.start) & (prefs.query < block.stop)
            rows = prefs.query[chosen] - block.start
            margins[chosen] = scores[rows, prefs.better[chosen]] - scores[rows, prefs.worse[chosen]]
        return self._evaluation(margins, measures)

    def _evaluation(self, margins: NDArray[np.float64], measures: Any) -> Evaluation:
        parsed = parse_measures(measures or [self.measure])
        if parsed != (self.measure,):
            raise InputError(f"preferences are measured by {self.measure} alone; got {', '.join(map(str, parsed))}")
        return Evaluation(parsed, self.qids, self.shares(margins)[:, None])

    def by_documents(self, chosen: NDArray[np.bool_]) -> Self | None:
        """Keep preferences with a chosen better document; None without any."""
        is_chosen = chosen[self.preferences.better]
        if not is_chosen.any():
            return None
        return self._of(is_chosen)

    def at_most(self, n: int) -> Self:
        """Keep at most n queries, evenly spaced."""
        if len(self.qids) <= n:
            return self
        _, number = np.unique(self.preferences.query, return_inverse=True)
        return self._of(np.isin(number.ravel(), _evenly_spaced(len(self.qids), n)))

    def _of(self, mask: NDArray[np.bool_]) -> Self:
        """Keep the masked preferences."""
        selected = self.preferences[mask]
        taken, query = np.unique(selected.query, return_inverse=True)
        rows = np.searchsorted(np.unique(self.preferences.query), taken)
        return replace(
            self,
            Q=self.Q[taken],
            preferences=selected.renumbered(query.ravel(), selected.better, selected.worse),
            qids=tuple(self.qids[row] for row in rows),
        )

    def _margins(self, weights: Weights) -> NDArray[np.float64]:
        margins = np.empty(len(self.preferences))
        for start in range(0, len(margins), _AT_ONCE):
            block = self.preferences[start : start + _AT_ONCE]
            queries = self.Q[block.query]
            better, worse = (weights.score_rows(queries, self.D[rows]) for rows in (block.better, block.worse))
            margins[start : start + _AT_ONCE] = better - worse
        return margins

    def shares(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of each query's preferences in the right order, from the margin of each preference, (n_q,)."""
        _, number = np.unique(self.preferences.query, return_inverse=True)
        right, weight = 0.5 * (np.sign(margins) + 1.0), self.preferences.weight
        if weight is None:
            return np.bincount(number.ravel(), right) / np.bincount(number.ravel())
        return np.bincount(number.ravel(), right * weight) / np.bincount(number.ravel(), weight)


def _evenly_spaced(n: int, n_chosen: int) -> NDArray[np.int64]:
    """Evenly spaced numbers below n, with the first and the last."""
    return np.linspace(0, n - 1, n_chosen).astype(np.int64)


def _row(key: Any, rows: Mapping[Any, int] | None, n: int, what: str) -> int:
    """The row of an id, or the key itself as a row number."""
    row = key if rows is None else rows.get(key)
    if not is_integer(row, 0, n - 1):
        raise InputError(f"the {what} {key!r} has no row; there are {n} (0 to {n - 1})")
    return int(row)  # type: ignore[arg-type]


def _pairs(links: ArrayLike, name: str, Q: Any, D: Any) -> NDArray[np.int64]:
    """Links as pairs of rows, checked."""
    pairs = np.asarray(links)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InputError(f"{name} must be integer pairs (from, to); got shape {pairs.shape}, {pairs.dtype}")
    bad = ((pairs < 0) | (pairs >= (Q.shape[0], D.shape[0]))).any(axis=1)
    if bad.any():
        first = int(bad.argmax())
        raise InputError(
            f"{name}[{first}] is {tuple(pairs[first].tolist())}; Q has {Q.shape[0]} rows and D {D.shape[0]}, from 0"
        )
    return pairs.astype(np.int64)


def average_precision_of_classes(
    weights: Weights, X: Any, labels: ArrayLike, queries: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Average precision of each row of X as a query against all other rows; its own class is relevant.

    With ``queries`` only these rows are queries. Scores are held for a block of queries at a time.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import CosineRanker
    >>> X = sparse.csr_array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> average_precision_of_classes(CosineRanker().fit(X).weights_, X, [0, 0, 1, 1]).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    y = np.asarray(labels)
    rows = np.arange(len(y)) if queries is None else np.asarray(queries)
    values = []
    for block, scores in weights.score_blocks(X if queries is None else X[rows], X):
        block_rows, same = rows[block], y[rows[block], None] == y
        at = np.arange(len(block_rows)), block_rows
        scores[at], same[at] = -np.inf, False
        values.append(measure_block(scores, same, "AP"))
    return np.concatenate(values)[:, 0]
