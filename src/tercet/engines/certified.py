"""Exact answers from engines that only bound a score: rank again what they list, and list until nobody can be missing.

An engine lists documents by a bound of their scores. The best of them are ranked by their exact scores. The answer is
exact once every document that was not listed has a bound, rounding included, strictly below the last score of the
answer; equal scores are ordered by row, so a tie must be listed, too. Until then twice as many are asked for.

`certified_search` does so with engines that refuse negative weights: Elasticsearch, OpenSearch, Lucene. Such an engine
is asked with the positive part of the expanded query, which bounds the score from above where documents have no
negative values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.search.documents import checked_rows
from tercet.search.scorer import ExactScores, Scorer

_MORE = 10  # documents asked for at first beyond twice those wanted
_AT_ONCE = 1024  # documents ranked again at a time when all that count are, and whose vectors are asked for together
_SINGLE = 2.0**-24  # how far off a float32 is at most, in parts of its size

RowNumbers = NDArray[np.int64]


class BoundingEngine(Protocol):
    """One query, as an engine sees it.

    Attributes
    ----------
    error : by how much at most a document's score is above its bound
    unlisted : the bound of those documents that count and that `by_bound` never lists; ``-inf`` where there are none
    """

    error: float
    unlisted: float

    def by_bound(self, n: int) -> tuple[RowNumbers, NDArray[np.float64]]:
        """The n documents of largest bound and their bounds, largest first; fewer than n where it lists no more."""
        ...

    def counting(self) -> RowNumbers:
        """All documents that count, in any order; asked for only where `unlisted` ones may belong to the answer."""
        ...

    def scores(self, rows: RowNumbers) -> NDArray[np.float64]:
        """Exact scores of documents."""
        ...


@dataclass(frozen=True, eq=False)
class Certified:
    """An exact answer.

    Attributes
    ----------
    rows, scores : of the best documents, best first, equal scores by row
    depth : how many documents were ranked again for it

    Examples
    --------
    >>> Certified(np.array([3, 1]), np.array([0.9, 0.4]), depth=20).rows.tolist()
    [3, 1]
    """

    rows: RowNumbers
    scores: NDArray[np.float64]
    depth: int


def certified_rerank(engine: BoundingEngine, k: int, first: int | None = None) -> Certified:
    """The k documents with the largest exact scores.

    Costs as many exact scores as it takes to be sure; `Certified.depth` says how many that were.

    Parameters
    ----------
    engine : a query to it
    k : how many
    first : how many documents to ask for at first, then twice as many; at least k. None is 2k + 10, for bounds that are
        not tight

    Examples
    --------
    >>> class Listed:  # bounds are scores that were rounded up
    ...     error, unlisted, true = 0.0, -np.inf, np.array([0.2, 0.9, 0.55, 0.6])
    ...     def by_bound(self, n):
    ...         bounds = np.ceil(self.true * 10) / 10
    ...         rows = np.argsort(-bounds, kind="stable")[:n]
    ...         return rows, bounds[rows]
    ...     def counting(self):
    ...         return np.arange(4)
    ...     def scores(self, rows):
    ...         return self.true[rows]
    >>> certified_rerank(Listed(), 2).rows.tolist()
    [1, 3]
    """
    rows, scores = np.empty(0, dtype=np.int64), np.empty(0)
    depth = 2 * k + _MORE if first is None else max(k, first)
    while True:
        listed, bounds = engine.by_bound(depth)
        new = listed[~np.isin(listed, rows)]
        rows, scores = np.concatenate([rows, new]), np.concatenate([scores, engine.scores(new)])
        rest = float(bounds[-1]) if listed.size >= depth else -np.inf
        last = float(np.partition(scores, -k)[-k]) if scores.size >= k else -np.inf
        if max(rest, engine.unlisted) + engine.error < last or rest == engine.unlisted == -np.inf:
            return Certified(*ranked(rows, scores, k), rows.size)
        if rest <= engine.unlisted:
            break  # documents further down the list are no better than those that are not on it
        depth *= 2
    depth = rows.size
    for portion in _in_portions(np.setdiff1d(engine.counting(), rows)):
        best_rows, best_scores = ranked(rows, scores, k)
        rows = np.concatenate([best_rows, portion])
        scores = np.concatenate([best_scores, engine.scores(portion)])
        depth += portion.size
    return Certified(*ranked(rows, scores, k), depth)


def ranked(rows: RowNumbers, scores: NDArray[np.float64], k: int) -> tuple[RowNumbers, NDArray[np.float64]]:
    """The k best, best first, equal scores by row."""
    order = np.lexsort((rows, -scores))[:k]
    return rows[order], scores[order]


def _in_portions(rows: RowNumbers) -> Iterator[RowNumbers]:
    yield from (rows[start : start + _AT_ONCE] for start in range(0, rows.size, _AT_ONCE))


# -- engines that refuse negative weights ---------------------------------------------------------------------------


class SummingEngine(Protocol):
    """An engine that holds document vectors and adds up weight times value over the words of a query.

    Examples
    --------
    >>> class Engine:
    ...     def __init__(self, model, docs):
    ...         self.ids, self.D, self.words = list(docs), model.docs(docs.values()), model.doc_vectoriser.index_
    ...
    ...     def top(self, weights, n):
    ...         asked = np.zeros(len(self.words))
    ...         for word, weight in weights.items():
    ...             asked[self.words[word]] = weight
    ...         sums = self.D @ asked
    ...         best = np.argsort(-sums, kind="stable")[:n]
    ...         return [(self.ids[row], float(sums[row])) for row in best if sums[row] > 0]
    ...
    ...     def documents(self, doc_ids):
    ...         rows = [self.ids.index(doc_id) for doc_id in doc_ids]
    ...         return rows, self.D[rows]
    >>> from tercet import TextModel
    >>> docs = {"a": "green tea", "b": "black tea"}
    >>> model = TextModel.bm25(docs.values())
    >>> certified_search(model, "green tea", Engine(model, docs), k=1).hits[0][0]
    'a'
    """

    def top(self, weights: Mapping[str, float], n: int) -> Sequence[tuple[str, float]]:
        """The n documents with the largest sums, largest first, as (doc_id, sum); fewer where it finds no more.

        Weights are above 0. A document without one of the words is not found. Sums are in the units of the model: those
        of whole-number impacts times their step.
        """
        ...

    def documents(self, doc_ids: Sequence[str]) -> tuple[Sequence[int], sparse.csr_array]:
        """For documents, the places by which equal scores are ordered, and their vectors, as `TextModel.docs` gives."""
        ...


@dataclass(frozen=True)
class CertifiedHits:
    """The best documents of all.

    Attributes
    ----------
    hits : (doc_id, score), best first
    depth : how many documents were ranked again to be sure
    exact : False where the engine rounds values, so that a document may have lost all words by which it is found
    unknown : words of the query that the model does not know

    Examples
    --------
    >>> CertifiedHits((("a", 0.9), ("b", 0.4)), depth=20, exact=True, unknown=()).hits[0]
    ('a', 0.9)
    """

    hits: tuple[tuple[str, float], ...]
    depth: int
    exact: bool
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class PositiveQuery:
    """A query as an engine without negative weights takes it.

    Attributes
    ----------
    weights : word -> weight, all that are above 0; their sum over a document is at least its score
    words : all words to which the query gives weight; a document that has none of them is never found

    Examples
    --------
    >>> PositiveQuery({"ice": 1.0}, ("ice", "fire")).weights
    {'ice': 1.0}
    """

    weights: dict[str, float]
    words: tuple[str, ...]


def positive_query(model: TextModel, text: str) -> PositiveQuery:
    """All positive weights of the expanded query, none left out.

    Raises
    ------
    InputError
        When the weights have a low-rank part, by which every document counts; thin them first.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import TextModel, Vectoriser, Weights
    >>> from tercet.weights import Sparse
    >>> words = Vectoriser().fit(["ice hockey"])
    >>> W = Weights([Sparse(weights=sparse.csr_array(np.array([[1, 0], [-0.5, 2]], dtype=np.float32)))])
    >>> positive_query(TextModel(words, words, W), "ice").weights
    {'ice': 2.0}
    """
    query = _ExpandedText(model, text)
    return PositiveQuery(query.positive, query.words)


def certified_search(
    model: TextModel, text: str, engine: SummingEngine, k: int = 10, value_error: float = 0.0
) -> CertifiedHits:
    """The k best documents of an engine that refuses negative weights, with the exact scores of the model.

    Documents and scores are those of `Index.search` over the same documents.

    Parameters
    ----------
    model : without low-rank parts; thin it first
    text : the query
    engine : holds the vectors of ``model.docs``, which must not be negative
    k : how many at most
    value_error : by how much at most the engine's value of a word is below that of the model: `Impacts.max_error` for
        exported impacts (with ``expand=False`` and no words left out), 0 for values in single precision

    Notes
    -----
    Asks the engine for 2k + 10 documents, then for twice as many until nobody can be missing. On NFCorpus a few dozen
    are enough (``benchmarks/certified_rerank.py``).

    Examples
    --------
    `SummingEngine` has one.

    >>> from tercet import TextModel
    >>> docs = {"a": "green tea", "b": "black tea"}
    >>> model = TextModel.bm25(docs.values())
    >>> class Engine:
    ...     def top(self, weights, n):
    ...         return [("a", 1.0), ("b", 0.5)][:n]
    ...
    ...     def documents(self, doc_ids):
    ...         return range(len(doc_ids)), model.docs(docs[doc_id] for doc_id in doc_ids)
    >>> certified_search(model, "green tea", Engine(), k=1).hits[0][0]
    'a'
    """
    check_integer(k, "k")
    if not (value_error >= 0 and np.isfinite(value_error)):
        raise InputError(f"value_error must be a number of at least 0; got {value_error!r}")
    expanded = _ExpandedText(model, text)
    unknown = tuple(model.query_vectoriser.unknown_words(text))
    if not expanded.words:
        return CertifiedHits((), 0, True, unknown)
    query = _PositivePart(engine, expanded, value_error)
    best = certified_rerank(query, k)
    hits = tuple((query.ids[row], score) for row, score in zip(best.rows.tolist(), best.scores.tolist(), strict=True))
    return CertifiedHits(hits, best.depth, value_error == 0 or not query.all_were_listed, unknown)


class _ExpandedText:
    """An expanded query, by word, and what scores documents for it."""

    def __init__(self, model: TextModel, text: str) -> None:
        scorer = Scorer(model.weights)
        if scorer.latent:
            raise InputError(
                "the weights have a low-rank part, by which every document counts and which no engine of words can "
                "bound; thin the model first"
            )
        if not isinstance(text, str):
            raise InputError(f"the query is of type {type(text).__name__}; expected a string")
        [query] = scorer.expand(model.queries([text]))
        self.n_terms = scorer.n_terms
        self.scores = ExactScores(scorer, query)
        vocabulary = model.doc_vectoriser.words_
        self.words = tuple(vocabulary[j] for j in self.scores.terms.tolist())
        totals = self.scores.totals.tolist()
        self.positive = {word: total for word, total in zip(self.words, totals, strict=True) if total > 0}


class _PositivePart:
    """A query to a summing engine, a `BoundingEngine`. Rows are the places that the engine gives to documents."""

    error = 0.0  # bounds have it already, since sums of what is not negative round by a part of their size

    def __init__(self, engine: SummingEngine, query: _ExpandedText, value_error: float) -> None:
        self._engine, self._query = engine, query
        self._lost = value_error * sum(query.positive.values())
        self.unlisted = self._lost
        self.ids: dict[int, str] = {}
        self._positions: dict[str, int] = {}
        self.all_were_listed = False
        self._scores: dict[int, float] = {}

    def by_bound(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        weights = self._query.positive
        listed = list(self._engine.top(weights, n)) if weights else []
        # Each of the sum's weights, values, products and additions is rounded once.
        bounds = np.array([score for _, score in listed]) * (1 + 1.01 * (len(weights) + 4) * _SINGLE) + self._lost
        return self._rows([doc_id for doc_id, _ in listed]), bounds

    def counting(self) -> NDArray[np.int64]:
        self.all_were_listed = True
        all_alike = dict.fromkeys(self._query.words, 1.0)
        n = _AT_ONCE
        while len(listed := list(self._engine.top(all_alike, n))) >= n:
            n *= 2
        return self._rows([doc_id for doc_id, _ in listed])

    def scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([self._scores[row] for row in rows.tolist()])

    def _rows(self, doc_ids: list[str]) -> NDArray[np.int64]:
        """The places of documents, whose scores are worked out where they are new."""
        new = [doc_id for doc_id in doc_ids if doc_id not in self._positions]
        for start in range(0, len(new), _AT_ONCE):
            self._score(new[start : start + _AT_ONCE])
        return np.array([self._positions[doc_id] for doc_id in doc_ids], dtype=np.int64)

    def _score(self, doc_ids: list[str]) -> None:
        positions, vectors = self._engine.documents(doc_ids)
        D = checked_rows(vectors, "the documents", self._query.n_terms)
        if not D.shape[0] == len(positions) == len(doc_ids):
            answer = f"{D.shape[0]} vectors and {len(positions)} places"
            raise InputError(f"the engine gave {answer} for {len(doc_ids)} documents; they must agree")
        if D.nnz and D.data.min() < 0:
            i = int(np.searchsorted(D.indptr, np.flatnonzero(D.data < 0)[0], side="right")) - 1
            raise InputError(
                f"document {doc_ids[i]!r} has negative values; the positive part of a query does not bound its score"
            )
        for doc_id, position, score in zip(doc_ids, positions, self._query.scores(D).tolist(), strict=True):
            self._positions[doc_id], self.ids[int(position)], self._scores[int(position)] = int(position), doc_id, score
