"""Who can be named in a plan: every ranker of the package, and the rivals it is held against."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import Preferences
from tercet.learn import RANKERS, CorrelatedRanker, LowRankRanker, MultiTaskRanker, QueryExpansion
from tercet.learn.base import SgdRanker
from tercet.measure import HeldOutQueries, blend
from tercet.text import CorrelatedWords
from tercet.weights import Identity, Weights


class LogisticRegression:
    """A classifier, not a ranker: rows become class posteriors, and the score is their inner product.

    It needs the classes, where a ranker needs preferences only.
    """

    def __init__(self, *, C: float = 1.0, max_iter: int = 1000) -> None:
        self.C = C
        self.max_iter = max_iter

    def fit(self, X: sparse.csr_array, y: NDArray[Any]) -> Self:
        from sklearn.linear_model import LogisticRegression as Classifier

        self._classifier = Classifier(C=self.C, max_iter=self.max_iter).fit(X, y)
        return self

    @property
    def weights_(self) -> Weights:
        return Weights([Identity(n_terms=len(self._classifier.classes_))])

    def represent(self, X: sparse.csr_array) -> sparse.csr_array:
        """The posteriors of each row, in the place of its words."""
        return sparse.csr_array(self._classifier.predict_proba(X).astype(np.float32))

    represent_queries = represent_docs = represent


class ExpandedQueries:
    """Query expansion before plain word matching: beta and the number of documents are chosen on the preferences."""

    def fit(self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array) -> Self:
        self._expansion = QueryExpansion().tune(Q, prefs, D)
        self.beta_, self.n_expanded_ = self._expansion.beta_, self._expansion.n_expanded_
        self._width = D.shape[1]
        return self

    @property
    def weights_(self) -> Weights:
        return Weights([Identity(n_terms=self._width)])

    def represent_queries(self, Q: sparse.csr_array) -> sparse.csr_array:
        """The expanded queries."""
        return self._expansion.transform(Q)


class CorrelatedLowRank:
    """A low-rank W between correlated frequent words beside the identity, with the parameters of all three in one list.

    ``ranker`` parameters are those of a ``LowRankRanker`` without a diagonal.
    """

    def __init__(
        self,
        *,
        n_frequent: int = 30_000,
        n_bins: int = 5,
        variant: str = "by-bin",
        only_rare: bool = False,
        identity_weight: float = 1.0,
        n_components: int = 50,
        spread: float = 0.1,
        rate: float = 0.1,
        schedule: str = "linear",
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
        self._fitted = CorrelatedRanker(
            words=CorrelatedWords(n_frequent=n_frequent, n_bins=n_bins),
            ranker=ranker,
            variant=variant,
            only_rare=only_rare,
            identity_weight=identity_weight,
        )

    def fit(self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array, callbacks: Any = ()) -> Self:
        self._fitted.fit(Q, prefs, None if D is Q else D, callbacks=callbacks)
        return self

    @property
    def weights_(self) -> Weights:
        return self._fitted.weights_

    @property
    def n_steps_(self) -> int:
        steps: int = self._fitted.ranker_.n_steps_
        return steps

    def nearest(self, column: int, k: int) -> list[tuple[int, float]]:
        """The frequent words a word is replaced by."""
        return self._fitted.words_.nearest(column)[:k]


class Blend:
    """Two models of other fits, blended by the amount that is best on validation."""

    def fit(self, first: Weights, second: Weights, validation: HeldOutQueries) -> Self:
        self.weights_, self.amount_ = blend(first, second, validation)
        return self


RIVALS = {"LogisticRegression": LogisticRegression}
OTHERS: dict[str, type[Any]] = {
    **RIVALS,
    "QueryExpansion": ExpandedQueries,
    "CorrelatedLowRank": CorrelatedLowRank,
    "Blend": Blend,
}


def known_learners() -> list[str]:
    """Names of all rankers, rivals and baselines."""
    return [*RANKERS, *OTHERS]


def learner_class(name: str) -> type[Any]:
    return OTHERS[name] if name in OTHERS else RANKERS[name]


def make_learner(name: str, parameters: dict[str, Any], seed: int) -> Any:
    """A learner that is silent and seeded, where it draws anything; "none" is None, which TOML does not have."""
    cls = learner_class(name)
    known = inspect.signature(cls).parameters
    own = {"random_state": seed, "verbose": False}
    given = {name: None if value == "none" else value for name, value in parameters.items()}
    return cls(**{name: value for name, value in own.items() if name in known} | given)


def warm_up(name: str) -> None:
    """Compile what the learner runs, so that it is not timed."""
    if name in OTHERS or not issubclass(RANKERS[name], SgdRanker):
        return
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    prefs = Preferences([0], [1], [2])
    more = {"second": (X, prefs)} if RANKERS[name] is MultiTaskRanker else {}
    make_learner(name, {}, 0).fit(X, prefs, X, **more)
