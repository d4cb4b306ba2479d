"""What a plan's fits learn from and are measured on: one shape for rows with classes and for queries with links."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import Preferences
from tercet.measure import HeldOutQueries
from tercet.repro.plan import Map
from tercet.weights import Mapped, Weights

_CHUNK = 4096
TEST_SEED = 1000  # added to the seed for test preferences


def _as_they_are(X: sparse.csr_array) -> sparse.csr_array:
    return X


@dataclass(frozen=True)
class Scorer:
    """A weights value, and what queries and documents become before it scores them."""

    weights: Weights
    queries: Callable[[sparse.csr_array], sparse.csr_array] = _as_they_are
    docs: Callable[[sparse.csr_array], sparse.csr_array] = _as_they_are


@dataclass(frozen=True, eq=False)
class WordMap:
    """From the task's words to those a fit sees; ``nearest`` are the words each word is replaced by, where it is."""

    A: sparse.csr_array
    B: sparse.csr_array
    nearest: Callable[[int, int], list[tuple[int, float]]] | None = None

    def lift(self, weights: Weights) -> Weights:
        """The same weights on the task's own words."""
        return Weights([Mapped(A=self.A, B=self.B, part=part) for part in weights.parts])


class Task(ABC):
    """Matrices to learn from, how preferences are drawn, and what is measured."""

    Q: sparse.csr_array
    D: sparse.csr_array
    words: list[str] | None

    @abstractmethod
    def digest(self) -> str:
        """Of everything a learner or a measure sees."""

    @abstractmethod
    def statistics(self) -> dict[str, int]:
        """Facts a paper prints about its data."""

    @abstractmethod
    def train(self, n: int, seed: int, share: float = 1.0, uniform_over: str = "links") -> Preferences:
        """Preferences to learn from, on the rows of Q and D; from a share of what is known."""

    @abstractmethod
    def test(self, n: int, seed: int) -> Preferences:
        """Preferences to measure the error on."""

    @abstractmethod
    def measure(self, scorer: Scorer, prefs: Preferences) -> dict[str, Any]:
        """Average precision of each test query, which test preferences are wrong, and their means."""

    @abstractmethod
    def wrong(self, scorer: Scorer, prefs: Preferences) -> NDArray[np.bool_]:
        """Which test preferences are not ranked right; a tie is not."""

    @property
    def validation(self) -> HeldOutQueries | None:
        """Queries that choose between models; none where a task has none."""
        return None

    def word_map(self, spec: Map) -> WordMap:
        raise NotImplementedError(f"{type(self).__name__} has one set of words")

    def mates(self) -> NDArray[np.int64]:
        """Rows whose query and document mean the same and may be learned from."""
        raise NotImplementedError(f"{type(self).__name__} has no translations")

    def query_block(self, name: str) -> sparse.csr_array:
        """The queries in another vocabulary."""
        raise NotImplementedError(f"{type(self).__name__} has one set of words")


def wrong_preferences(
    scorer: Scorer, Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences
) -> NDArray[np.bool_]:
    """Which preferences on these rows are not ranked right; a tie is not."""
    margins = np.empty(len(prefs))
    for start in range(0, len(prefs), _CHUNK):
        part = prefs[start : start + _CHUNK]
        queries = scorer.queries(Q[part.query])
        better, worse = (scorer.docs(D[rows]) for rows in (part.better, part.worse))
        weights = scorer.weights
        margins[start : start + _CHUNK] = weights.score_rows(queries, better) - weights.score_rows(queries, worse)
    return margins <= 0


def digest_of(*values: Any) -> str:
    """A digest of matrices, arrays, texts and plain values."""
    found = hashlib.sha256()
    for value in values:
        if sparse.issparse(value):
            arrays = value.indptr.astype(np.int64), value.indices.astype(np.int32), value.data
            for array in arrays:
                found.update(array.tobytes())
        elif isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
            found.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, np.ndarray):
            found.update("\n".join(map(str, value.tolist())).encode())
        else:
            found.update(repr(value).encode())
    return found.hexdigest()
