"""Who can be named in a plan of feature vectors: every ranker of them in the package, and one rival of trees."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tercet.errors import MissingExtraError
from tercet.learn.linear import LINEAR_RANKERS
from tercet.learn.rls import RLS_RANKERS


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


def known_rankers() -> dict[str, type[Any]]:
    """Names and classes."""
    return {**LINEAR_RANKERS, **RLS_RANKERS, "LambdaMART": LambdaMART}


def make_ranker(name: str, parameters: dict[str, Any]) -> Any:
    """A ranker that is not fitted yet; the text "none" stands for None, which TOML lacks."""
    given = {key: None if isinstance(value, str) and value == "none" else value for key, value in parameters.items()}
    return known_rankers()[name](**given)


def n_used(ranker: Any) -> int | None:
    """How many features a fitted ranker uses; None where that cannot be said."""
    if hasattr(ranker, "coef_"):
        return int(np.count_nonzero(ranker.coef_))
    found: int | None = getattr(ranker, "n_used_", None)
    return found
