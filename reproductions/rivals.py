"""Rivals of the rankers of words in the tables of the papers, and a combination that only a paper names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Trial, choose
from tercet.data import Preferences
from tercet.learn import CorrelatedRanker, LowRankRanker
from tercet.text import CorrelatedWords
from tercet.weights import Identity, Weights

AT_ONCE = 1000  # preferences whose rows are in memory
BETAS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DEPTHS = (1, 2, 5, 10, 20, 50)
MOST_PREFERENCES = 20_000  # used to choose by; of more, evenly spaced ones


class QueryExpansion:
    """Query expansion before plain word matching: ``q' = q + beta (d_1 + … + d_E)`` (Bai et al. 2010, section 4).

    Documents are ranked by the inner product with the query. The paper speaks of the mean of the documents and prints
    the sum; the sum is taken. ``fit`` chooses beta and E with the least rank loss on the preferences, the first on
    ties.

    Parameters
    ----------
    betas : weights of the documents to choose from
    depths : numbers E of documents to choose from
    """

    def __init__(self, *, betas: Sequence[float] = BETAS, depths: Sequence[int] = DEPTHS) -> None:
        self.betas = betas
        self.depths = depths

    def fit(self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array) -> Self:
        self.docs = D
        if len(prefs) > MOST_PREFERENCES:
            prefs = prefs[np.linspace(0, len(prefs) - 1, MOST_PREFERENCES).astype(np.int64)]
        prefs = prefs[np.argsort(prefs.query, kind="stable")]
        asked, row = np.unique(prefs.query, return_inverse=True)
        queries = Q[asked]
        prefs = Preferences(row.ravel(), prefs.better, prefs.worse, prefs.weight)
        ranked, scores = self.weights_.rank(queries, D, max(self.depths))
        own_margins = _margins(queries, D, prefs)
        trials: list[Trial] = []
        for depth in self.depths:
            added_margins = _margins(_sum_of_docs(ranked[:, :depth], scores[:, :depth], D), D, prefs)
            for beta in self.betas:
                wrong = own_margins + beta * added_margins <= 0  # ties included
                loss = np.average(wrong, weights=prefs.weight)
                trials.append(Trial({"beta_": beta, "n_expanded_": depth}, np.array(loss)))
        self.beta_, self.n_expanded_ = trials[choose(trials, higher_is_better=False)].setting.values()
        return self

    @property
    def weights_(self) -> Weights:
        return Weights([Identity(n_terms=self.docs.shape[1])])

    def represent_queries(self, Q: sparse.csr_array) -> sparse.csr_array:
        """Return expanded queries, CSR float32; a query without results stays unchanged."""
        added = _sum_of_docs(*self.weights_.rank(Q, self.docs, self.n_expanded_), self.docs)
        expanded = sparse.csr_array(Q.astype(np.float64) + self.beta_ * added, dtype=np.float32)
        expanded.sum_duplicates()
        expanded.eliminate_zeros()
        return expanded


def _sum_of_docs(docs: NDArray[np.int32], scores: NDArray[np.float64], D: sparse.csr_array) -> sparse.csr_array:
    """Return the sum of the found documents of each query (n_queries, n_terms)."""
    row, rank = np.nonzero(scores > 0)
    found = sparse.csr_array((np.ones(row.size), (row, docs[row, rank])), shape=(len(docs), D.shape[0]))
    return sparse.csr_array(found @ D.astype(np.float64))


def _margins(Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences) -> NDArray[np.float64]:
    """``q·d+ - q·d-`` of each preference."""
    margins = np.empty(len(prefs))
    for start in range(0, len(prefs), AT_ONCE):
        some = prefs[start : start + AT_ONCE]
        asked = Q[some.query].astype(np.float64)
        better, worse = (asked.multiply(D[rows].astype(np.float64)).sum(axis=1) for rows in (some.better, some.worse))
        margins[start : start + AT_ONCE] = better - worse
    return margins


class CorrelatedLowRank:
    """A low-rank W between correlated frequent words, with the identity: all parameters in one list.

    ``ranker`` parameters are those of a ``LowRankRanker`` without a diagonal.
    """

    def __init__(
        self,
        *,
        n_frequent: int = 30_000,
        n_bins: int = 5,
        variant: Literal["mean", "by-bin", "first"] = "by-bin",
        only_rare: bool = False,
        identity_weight: float = 1.0,
        n_components: int = 50,
        spread: float = 0.1,
        rate: float = 0.1,
        schedule: Literal["constant", "inverse-sqrt", "linear"] = "linear",
        random_state: int = 0,
    ) -> None:
        ranker = LowRankRanker(
            n_components=n_components,
            diagonal=None,
            spread=spread,
            rate=rate,
            schedule=schedule,
            random_state=random_state,
            verbose=False,
        )
        self.schedule = schedule
        self._fitted = CorrelatedRanker(
            words=CorrelatedWords(n_frequent=n_frequent, n_bins=n_bins),
            ranker=ranker,
            variant=variant,
            only_rare=only_rare,
            identity_weight=identity_weight,
        )

    def fit(
        self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array, validation: Any = None, callbacks: Any = ()
    ) -> Self:
        self._fitted.fit(Q, prefs, None if D is Q else D, validation, callbacks)
        return self

    @property
    def weights_(self) -> Weights:
        return self._fitted.weights_

    @property
    def n_steps_(self) -> int:
        steps: int = self._fitted.ranker_.n_steps_
        return steps

    @property
    def history_(self) -> list[Any]:
        events: list[Any] = self._fitted.ranker_.history_
        return events

    def nearest(self, column: int, k: int) -> list[tuple[int, float]]:
        """The frequent words a word is replaced by."""
        return self._fitted.words_.nearest(column)[:k]
