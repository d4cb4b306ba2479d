"""Who can be named in a plan: every ranker of the package, and the rivals it is held against."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import Preferences
from tercet.learn import RANKERS
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


RIVALS = {"LogisticRegression": LogisticRegression}


def known_learners() -> list[str]:
    """Names of all rankers and rivals."""
    return [*RANKERS, *RIVALS]


def learner_class(name: str) -> type[Any]:
    return RIVALS[name] if name in RIVALS else RANKERS[name]


def make_learner(name: str, parameters: dict[str, Any], seed: int) -> Any:
    """A learner that is silent and seeded, where it draws anything."""
    cls = learner_class(name)
    known = inspect.signature(cls).parameters
    own = {"random_state": seed, "verbose": False}
    return cls(**{name: value for name, value in own.items() if name in known} | parameters)


def warm_up(name: str) -> None:
    """Compile what the learner runs, so that it is not timed."""
    if name in RIVALS:
        return
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    make_learner(name, {}, 0).fit(X, Preferences([0], [1], [2]))
