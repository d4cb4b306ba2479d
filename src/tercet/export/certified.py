"""Exact search with engines that refuse negative weights: Elasticsearch, OpenSearch, Lucene.

Such an engine is asked with the positive part of the expanded query, which bounds the score from above where documents
have no negative values. What it lists is ranked again with all weights, see `tercet.search.certified`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer
from tercet.errors import InputError
from tercet.export.queries import BoostedQuery, boosted_query
from tercet.fitting.model import TextModel
from tercet.search.certified import certified_rerank
from tercet.search.documents import checked_rows
from tercet.search.exact import ExactScores
from tercet.search.scorer import Scorer

_AT_ONCE = 1024  # documents whose vectors are asked for together
_SINGLE = 2.0**-24  # how far off a float32 is at most, in parts of its size
_DIGITS = 9  # which tell all float32 numbers apart


class SummingEngine(Protocol):
    """An engine that holds document vectors and adds up weight times value over the words of a query."""

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
    found = _Expanded(model, text)
    return PositiveQuery(found.positive, found.words)


def positive_query_string(model: TextModel, text: str, field: str | None = None) -> BoostedQuery:
    """`positive_query` in Lucene's query-string syntax, for documents exported as impacts.

    Parameters
    ----------
    model : without low-rank parts; thin it first
    text : the query
    field : to search in, as in ``body:(…)``

    Examples
    --------
    >>> from tercet import TextModel, Vectoriser, Weights
    >>> from tercet.weights import Identity
    >>> words = Vectoriser().fit(["ice hockey"])
    >>> positive_query_string(TextModel(words, words, Weights([Identity(n_terms=2)])), "ice", "body").text
    'body:(ice^1)'
    """
    positive_query(model, text)  # refuses what words cannot bound
    return boosted_query(model, text, max_terms=None, field=field, index="impact", digits=_DIGITS)


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
    """
    check_integer(k, "k")
    if not (value_error >= 0 and np.isfinite(value_error)):
        raise InputError(f"value_error must be a number of at least 0; got {value_error!r}")
    expanded = _Expanded(model, text)
    unknown = tuple(model.query_vectoriser.unknown_words(text))
    if not expanded.words:
        return CertifiedHits((), 0, True, unknown)
    asked = _Asked(engine, expanded, value_error)
    found = certified_rerank(asked, k)
    hits = tuple((asked.ids[row], score) for row, score in zip(found.rows.tolist(), found.scores.tolist(), strict=True))
    return CertifiedHits(hits, found.depth, value_error == 0 or not asked.all_were_listed, unknown)


class _Expanded:
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


class _Asked:
    """A query to such an engine. Rows are the places that it gives."""

    error = 0.0  # bounds have it already, since sums of what is not negative round by a part of their size

    def __init__(self, engine: SummingEngine, query: _Expanded, value_error: float) -> None:
        self._engine, self._query = engine, query
        self._lost = value_error * sum(query.positive.values())
        self.unlisted = self._lost
        self.ids: dict[int, str] = {}
        self._places: dict[str, int] = {}
        self.all_were_listed = False
        self._scores: dict[int, float] = {}

    def by_bound(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        weights = self._query.positive
        found = list(self._engine.top(weights, n)) if weights else []
        # Each of the sum's weights, values, products and additions is rounded once.
        bounds = np.array([score for _, score in found]) * (1 + 1.01 * (len(weights) + 4) * _SINGLE) + self._lost
        return self._rows([doc_id for doc_id, _ in found]), bounds

    def counting(self) -> NDArray[np.int64]:
        self.all_were_listed = True
        each_once = dict.fromkeys(self._query.words, 1.0)
        n = 1024
        while len(found := list(self._engine.top(each_once, n))) >= n:
            n *= 2
        return self._rows([doc_id for doc_id, _ in found])

    def scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.array([self._scores[row] for row in rows.tolist()])

    def _rows(self, doc_ids: list[str]) -> NDArray[np.int64]:
        """The places of documents, whose scores are worked out where they are new."""
        new = [doc_id for doc_id in doc_ids if doc_id not in self._places]
        for start in range(0, len(new), _AT_ONCE):
            self._score(new[start : start + _AT_ONCE])
        return np.array([self._places[doc_id] for doc_id in doc_ids], dtype=np.int64)

    def _score(self, doc_ids: list[str]) -> None:
        places, vectors = self._engine.documents(doc_ids)
        D = checked_rows(vectors, "the documents", self._query.n_terms)
        if not D.shape[0] == len(places) == len(doc_ids):
            found = f"{D.shape[0]} vectors and {len(places)} places"
            raise InputError(f"the engine gave {found} for {len(doc_ids)} documents; they must agree")
        if D.nnz and D.data.min() < 0:
            at = int(np.searchsorted(D.indptr, np.flatnonzero(D.data < 0)[0], side="right")) - 1
            raise InputError(
                f"document {doc_ids[at]!r} has negative values; the positive part of a query does not bound its score"
            )
        for doc_id, place, score in zip(doc_ids, places, self._query.scores(D).tolist(), strict=True):
            self._places[doc_id], self.ids[int(place)], self._scores[int(place)] = int(place), doc_id, score
