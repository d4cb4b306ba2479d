"""What a sparse linear ranker says of itself, so that ``l1_path`` can follow it from few features to many."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from tercet.learn.linear.base import LinearRanker
from tercet.learn.linear.queries import Queries


class SparseLinearRanker(LinearRanker):
    """A linear ranker with one parameter, ``_dial``, that says how many features are worth their while."""

    _dial: ClassVar[str] = "l1"
    _fewer_when_larger: ClassVar[bool] = True
    # Whether the parameter is a total over all steps, so that a ranker that goes on from another takes it once more.
    _dial_is_total: ClassVar[bool] = False

    def _learn(self, X: Any, queries: Queries) -> None:
        self._learn_after(None, X, queries)

    @abstractmethod
    def _learn_after(self, before: Self | None, X: Any, queries: Queries) -> None:
        """Find the weights, on from those of another ranker of the same rows where one is given."""

    @abstractmethod
    def _sparse_end(self, X: Any, queries: Queries, ratio: float) -> float:
        """The value of the parameter with which a path begins that ends ``ratio`` away from it."""
