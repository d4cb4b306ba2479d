"""Queries with known answers over a fixed collection, or preferences between its documents: to judge any weights by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet._validate import is_integer
from tercet.data.preferences import Preferences
from tercet.data.sampling import check_grade
from tercet.errors import InputError
from tercet.measure.blocks import measure_block, standing_of_block
from tercet.measure.evaluation import Evaluation
from tercet.measure.formulas import compute
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure, parse_measures
from tercet.weights import Weights

_PAIR_ACCURACY = Measure(PAIR_ACCURACY)
_N_AMOUNTS = 33  # of the second model in a blend
_AT_ONCE = 4096  # preferences whose texts are fetched together


class HeldOut(ABC):
    """Queries that nothing is learned from, by which weights are chosen or reported on.

    Called with weights, it returns the mean of ``measure`` (negated where lower is better), so ``fit`` takes it as
    ``validation``.

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
    measure : what a call returns
    exclude : row of D to leave out for each query (the query itself), or None
    hidden : CSR (n_q, n_d), not zero where a document is left out of a query's ranking, or None

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
    exclude: NDArray[np.int64] | None = None
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
        """Judgements by id, with the row of each id; by row numbers of Q and D where those are left out.

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
        """Links (row of Q, row of D): each row of Q that has one is a query for the documents it links to.

        Parameters
        ----------
        links : to be found
        Q, D : ``D=None`` means D is Q
        known : links that are left out of the ranking, such as those that were learned from
        exclude_self : leave out the document in the query's own row too

        Examples
        --------
        >>> X = sparse.csr_array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
        >>> held_out = HeldOutQueries.from_links([(0, 1)], X, known=[(0, 2)])
        >>> held_out.hidden.toarray().tolist()
        [[1, 0, 1]]
        """
        D = Q if D is None else D
        wanted, hidden = (_pairs(*pairs, Q, D) for pairs in ((links, "links"), (known, "known")))
        if exclude_self:
            own = np.unique(wanted[:, 0])
            hidden = np.concatenate([hidden, np.stack([own, own], axis=1)[own < D.shape[0]]])
        keys, hidden_keys = (np.unique(pairs[:, 0] * D.shape[0] + pairs[:, 1]) for pairs in (wanted, hidden))
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
        parsed = parse_measures(measures or [self.measure])
        blocks = [self.measured(block, scores, parsed) for block, scores in weights.score_blocks(self.Q, self.D)]
        return Evaluation(parsed, self.qids, np.concatenate(blocks))

    def measures_of_blends(
        self, weights: Weights, other: Weights, factors: Sequence[float], measures: tuple[Measure, ...]
    ) -> NDArray[np.float64]:
        """Measures under ``weights + factor * other``, (n_factors, n_q, n_measures); each is scored once."""
        values = np.empty((len(factors), len(self.qids), len(measures)))
        both = zip(weights.score_blocks(self.Q, self.D), other.score_blocks(self.Q, self.D), strict=True)
        for (block, scores), (_, other_scores) in both:
            for number, factor in enumerate(factors):
                values[number, block] = self.measured(block, scores + factor * other_scores, measures)
        return values

    def by_documents(self, chosen: NDArray[np.bool_]) -> Self | None:
        """The same, of those queries that a chosen document answers; other documents that answer them are hidden.

        Parameters
        ----------
        chosen : by row of D

        Returns
        -------
        None where there is no such query.

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
        wanted = answers & chosen[grades.col]
        rows = np.unique(grades.row[wanted])
        if not rows.size:
            return None
        shape = self.grades.shape
        other = answers & ~wanted
        hidden = sparse.csr_array((np.ones(int(other.sum()), np.int64), (grades.row[other], grades.col[other])), shape)
        kept = sparse.csr_array((grades.data[~other], (grades.row[~other], grades.col[~other])), shape=shape)
        hidden = hidden if self.hidden is None else hidden + self.hidden
        return replace(self, grades=kept, hidden=hidden)._of_rows(rows)

    def at_most(self, n: int) -> Self:
        """The same, of so many queries, evenly spaced."""
        if len(self.qids) <= n:
            return self
        return self._of_rows(_evenly_spaced(len(self.qids), n))

    def _of_rows(self, rows: NDArray[np.int64]) -> Self:
        return replace(
            self,
            Q=self.Q[rows],
            grades=self.grades[rows],
            qids=tuple(self.qids[row] for row in rows),
            exclude=None if self.exclude is None else self.exclude[rows],
            hidden=None if self.hidden is None else self.hidden[rows],
        )

    def measured(self, block: slice, scores: NDArray[np.float64], measures: tuple[Measure, ...]) -> NDArray[np.float64]:
        """Measures (n, n_measures) of a block of queries from their scores; those of hidden documents are lost."""
        exclude = None if self.exclude is None else self.exclude[block]
        grades = self.grades[block]
        if self.hidden is None:
            return measure_block(scores, grades, measures, exclude=exclude)
        query, doc = (positions.astype(np.int64) for positions in self.hidden[block].nonzero())
        scores[query, doc] = -np.inf  # below every other, so that no rank above changes
        standing = standing_of_block(scores, grades, exclude=exclude)
        # Nor are they documents to be ranked above; what is relevant, or excluded, is none of those anyway.
        relevant, answer = (positions.astype(np.int64) for positions in (grades > 0).nonzero())
        is_other = ~np.isin(query * scores.shape[1] + doc, relevant * scores.shape[1] + answer)
        if exclude is not None:
            is_other &= doc != exclude[query]
        n_hidden = np.bincount(query[is_other], minlength=len(scores))
        return compute(replace(standing, n_ranked=standing.n_ranked - n_hidden), measures)


@dataclass(frozen=True, eq=False)
class HeldOutPreferences(HeldOut):
    """Preferences of queries that nothing is learned from; measured is the share in the right order, by query.

    Where preferences have weights, each counts by its own in the share of its query.

    Equal scores count a half: where a query shares no word with either document, plain matching has no opinion, and a
    model that guesses is no better.

    Parameters
    ----------
    Q, D : query rows and the whole collection, in memory or mapped
    preferences : by rows of Q and D
    qids : a name for each query that has some, by its row in Q, rising

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
        """The share of each query's preferences in the right order, the one measure there is."""
        parsed = parse_measures(measures or [self.measure])
        self._check(parsed)
        return Evaluation(parsed, self.qids, self.shares(self._margins(weights))[:, None])

    def _check(self, measures: tuple[Measure, ...]) -> None:
        if measures != (self.measure,):
            raise InputError(f"preferences are measured by {self.measure} alone; got {', '.join(map(str, measures))}")

    def by_documents(self, chosen: NDArray[np.bool_]) -> Self | None:
        """The same, of those preferences whose better document is a chosen one; None where there is none."""
        kept = chosen[self.preferences.better]
        if not kept.any():
            return None
        return self._of(kept)

    def at_most(self, n: int) -> Self:
        """The same, of so many queries, evenly spaced."""
        if len(self.qids) <= n:
            return self
        _, number = np.unique(self.preferences.query, return_inverse=True)
        return self._of(np.isin(number.ravel(), _evenly_spaced(len(self.qids), n)))

    def _of(self, kept: NDArray[np.bool_]) -> Self:
        """The same, of some preferences."""
        some = self.preferences[kept]
        taken, query = np.unique(some.query, return_inverse=True)
        rows = np.searchsorted(np.unique(self.preferences.query), taken)
        return replace(
            self,
            Q=self.Q[taken],
            preferences=some.renumbered(query.ravel(), some.better, some.worse),
            qids=tuple(self.qids[row] for row in rows),
        )

    def _margins(self, weights: Weights) -> NDArray[np.float64]:
        margins = np.empty(len(self.preferences))
        for start in range(0, len(margins), _AT_ONCE):
            some = self.preferences[start : start + _AT_ONCE]
            queries = self.Q[some.query]
            better, worse = (weights.score_rows(queries, self.D[rows]) for rows in (some.better, some.worse))
            margins[start : start + _AT_ONCE] = better - worse
        return margins

    def shares(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of each query's preferences in the right order, from the margin of each preference, (n_q,)."""
        _, number = np.unique(self.preferences.query, return_inverse=True)
        right, weight = 0.5 * (np.sign(margins) + 1.0), self.preferences.weight
        if weight is None:
            return np.bincount(number.ravel(), right) / np.bincount(number.ravel())
        return np.bincount(number.ravel(), right * weight) / np.bincount(number.ravel(), weight)


def _evenly_spaced(n: int, some: int) -> NDArray[np.int64]:
    """Some of the numbers below n, the first and the last among them."""
    return np.linspace(0, n - 1, some).astype(np.int64)


def _row(key: Any, rows: Mapping[Any, int] | None, n: int, what: str) -> int:
    """The row of an id, or the key itself where it is a row number."""
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
    values = [
        measure_block(scores, y[rows[block], None] == y, "AP", exclude=rows[block])
        for block, scores in weights.score_blocks(X if queries is None else X[rows], X)
    ]
    return np.concatenate(values)[:, 0]


def blend(first: Weights, second: Weights, validation: HeldOutQueries) -> tuple[Weights, float]:
    """Blend two models: ``first + amount * second`` with the amount that is best on validation, and that amount.

    The amounts are none, and 33 from a hundredth to a hundred times how much wider the scores of the first spread, so
    that neither one's scale matters. Equal ones go to the smaller. This is ``alpha second + (1 - alpha) first`` with
    ``alpha = amount / (1 + amount)``, up to a factor that changes no ranking.

    Cost: each model scores the collection twice for the validation queries, and 34 blends of the scores are measured.

    Examples
    --------
    >>> from tercet.weights import Diagonal, Identity
    >>> D = sparse.csr_array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> q = sparse.csr_array([[1.0, 1.0, 1.0]])
    >>> validation = HeldOutQueries.from_qrels({0: {1: 1}}, q, D, measure="AP")
    >>> second = Weights([Diagonal(weights=np.array([0.0, 3.0, 0.0], dtype=np.float32))])
    >>> weights, amount = blend(Weights([Identity(n_terms=3)]), second, validation)
    >>> validation(weights), amount > 0
    (1.0, True)
    """
    if first.shape != second.shape:
        raise InputError(f"weights of shapes {first.shape} and {second.shape} cannot be blended; they must agree")
    widths = _spread(first, validation), _spread(second, validation)
    if not widths[1]:  # it changes no ranking
        return first, 0.0
    ratio = widths[0] / widths[1] if widths[0] else 1.0
    amounts = [0.0, *(ratio * np.geomspace(0.01, 100, _N_AMOUNTS)).tolist()]
    values = validation.measures_of_blends(first, second, amounts, (validation.measure,)).mean(axis=1)[:, 0]
    best = int(np.argmax(values if validation.measure.higher_is_better else -values))
    return (first + second * amounts[best] if best else first), amounts[best]


def _spread(weights: Weights, validation: HeldOutQueries) -> float:
    """Typical standard deviation of a query's scores."""
    blocks = weights.score_blocks(validation.Q, validation.D)
    return float(np.mean(np.concatenate([scores.std(axis=1) for _, scores in blocks])))
