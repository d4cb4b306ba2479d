"""Rivals of the rankers in the tables of the papers, and combinations that only the papers name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reproductions.expansion import QueryExpansion
from tercet.data import Preferences
from tercet.errors import MissingExtraError
from tercet.learn import CorrelatedRanker, LowRankRanker
from tercet.text import CorrelatedWords
from tercet.weights import Identity, Weights

# -- of words ---------------------------------------------------------------------------------------------------------


class ClassPosteriors:
    """Logistic regression: a classifier, not a ranker. Rows become class posteriors, and the score is their inner
    product.

    It needs the classes, where a ranker needs preferences only.
    """

    def __init__(self, *, C: float = 1.0, max_iter: int = 1000) -> None:
        self.C = C
        self.max_iter = max_iter

    def fit(self, X: sparse.csr_array, y: NDArray[Any]) -> Self:
        from sklearn.linear_model import LogisticRegression

        self._classifier = LogisticRegression(C=self.C, max_iter=self.max_iter).fit(X, y)
        return self

    @property
    def weights_(self) -> Weights:
        return Weights([Identity(n_terms=len(self._classifier.classes_))])

    def represent(self, X: sparse.csr_array) -> sparse.csr_array:
        """The posteriors of each row, in the place of its words."""
        return sparse.csr_array(self._classifier.predict_proba(X).astype(np.float32))

    represent_queries = represent_docs = represent


class ExpansionRanker:
    """Query expansion before plain word matching: beta and the number of documents are chosen on the preferences."""

    def fit(self, Q: sparse.csr_array, prefs: Preferences, D: sparse.csr_array) -> Self:
        self._expansion = QueryExpansion.tuned(Q, prefs, D)
        self.beta_, self.n_expanded_ = self._expansion.beta, self._expansion.n_expanded
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


# -- of rows ----------------------------------------------------------------------------------------------------------


class LambdaMART:
    """LightGBM's LambdaMART, one thread, the same bits every time."""

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        num_leaves: int = 8,
        learning_rate: float = 0.05,
        min_child_samples: int = 20,
        random_state: int = 0,
    ) -> None:
        self.parameters: dict[str, Any] = {
            "n_estimators": n_estimators,
            "num_leaves": num_leaves,
            "learning_rate": learning_rate,
            "min_child_samples": min_child_samples,
            "random_state": random_state,
        }

    def fit(self, X: Any, y: NDArray[Any], qid: NDArray[Any]) -> Self:
        try:
            lightgbm = import_module("lightgbm")
        except ImportError as error:
            raise MissingExtraError("lightgbm", "bench", "LambdaMART") from error
        _, starts = np.unique(qid, return_index=True)  # rows of a query stand together
        sizes = np.diff(np.append(np.sort(starts), len(qid)))
        self._model = lightgbm.LGBMRanker(
            objective="lambdarank", n_jobs=1, deterministic=True, force_row_wise=True, verbose=-1, **self.parameters
        ).fit(X, y, group=sizes)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        # The booster, since the estimator of LightGBM wants names of features it made up itself.
        return np.asarray(self._model.booster_.predict(X, num_threads=1), dtype=np.float64)

    @property
    def n_used_(self) -> int:
        """Features that a tree splits by."""
        return int(np.count_nonzero(self._model.feature_importances_))
