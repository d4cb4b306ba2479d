"""Hash kernels on pairs of words: pairs share the weights of one table (Bai et al. 2010, section 2.2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval

from tercet.errors import InputError, MemoryLimitError
from tercet.kernels.hashed import hashed_advance
from tercet.kernels.rows import Chunk
from tercet.learn.base import Count, NotNegative, Positive, SgdRanker
from tercet.learn.matrices import KernelInput
from tercet.learn.state import Schedule, State, Steps, physical_memory
from tercet.store.schema import LENGTH, Bounds, Shape
from tercet.weights import Hashed, Identity, Part, Weights

MULTIPLIER = 1_327_217_909  # a prime far from powers of two; next to a power of two, rows of W would be shifted copies
_LARGEST_MULTIPLIER = 2**31  # multiplier times column number fits 64 bits


@dataclass(eq=False)
class HashedState(State):
    """The table, and the amount of the identity: an array of one number, empty without an identity."""

    shape_lengths: ClassVar[tuple[str, str]] = ("n_query_terms", "n_doc_terms")

    table: Annotated[NDArray[np.float32], Shape("n_buckets")]
    identity: Annotated[NDArray[np.float64], Shape(None)]
    n_query_terms: Annotated[int, LENGTH]
    n_doc_terms: Annotated[int, LENGTH]
    multiplier: Annotated[int, Bounds(least=1, most=_LARGEST_MULTIPLIER)]
    learn_identity: bool
    step: Steps = 0

    def __post_init__(self) -> None:
        self._firsts = np.empty(0, dtype=np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_query_terms, self.n_doc_terms

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        self._firsts = np.empty(int(np.diff(Q.indptr).max(initial=0)), dtype=np.int64)
        return KernelInput.from_matrices(Q, D)

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        hashed_advance(
            self.table,
            self.multiplier,
            self.identity,
            self.learn_identity,
            inputs.Q,
            inputs.D,
            chunk,
            inputs.scratch,
            self._firsts,
            tally,
        )

    def snapshot(self) -> Weights:
        n, m = self.shape
        parts: list[Part] = [
            Hashed(table=self.table.copy(), n_query_terms=n, n_doc_terms=m, multiplier=self.multiplier)
        ]
        if self.identity.size:
            parts.append(Identity(n_terms=n, scale=float(self.identity[0])))
        return Weights(parts)

    def check(self) -> None:
        n_buckets, n_amounts = self.table.size, self.identity.size
        is_square = self.shape[0] == self.shape[1]
        if (
            not n_buckets
            or 0 in self.shape
            or n_amounts > 1
            or (n_amounts and not is_square)
            or self.learn_identity > n_amounts
        ):
            raise InputError(f"W of shape {self.shape} has {n_buckets} buckets and {n_amounts} amounts of the identity")


@dataclass(eq=False, repr=False, kw_only=True)
class HashedRanker(SgdRanker):
    """A weight for every pair of words; pairs with the same hash share the weight of one bucket of a table.

    The weight of query word s and document word t is ``table[(s P + t) mod n_buckets]``. The table starts at zero,
    next to the identity. Memory: 4 bytes for each bucket, whatever the size of the vocabulary. Cost of a step: words of
    the query times words of the two documents. With a bucket for every pair the ranker equals ``DenseRanker``.

    Parameters
    ----------
    n_buckets : H, weights in the table (Bai et al.: 1 to 6 million)
    identity : {"learned"}, float or None
        Amount of the identity next to the table: learned from 1, fixed, or none. Two vocabularies need None.
    multiplier : P, a large prime up to 2^31; next to a multiple of ``n_buckets``, neighboring query words would get
        nearly the same weights
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``

    Attributes
    ----------
    identity_ : amount of the identity, 0 without an identity

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.csr_array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]])
    >>> ranker = HashedRanker(n_buckets=3, multiplier=2, rate=0.5).fit(X, Preferences([0], [1], [2]))
    >>> ranker.weights_.rows([0, 1]).tolist()
    [[0.5, 0.5], [0.0, 0.5]]
    >>> ranker.identity_
    0.75
    """

    n_buckets: Count = 1 << 22
    identity: Literal["learned"] | NotNegative | None = "learned"
    multiplier: Annotated[int, Interval(Integral, 1, _LARGEST_MULTIPLIER, closed="both")] = MULTIPLIER
    rate: Positive = 200.0
    schedule: Schedule = "inverse-sqrt"

    _state_class = HashedState

    @property
    def identity_(self) -> float:
        """Amount of the identity, 0 without an identity."""
        return self.weights_.identity

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> HashedState:
        n, m = Q.shape[1], D.shape[1]
        if n != m and self.identity is not None:
            raise InputError(
                f"Q has {n} columns and D {m}; identity={self.identity!r} needs one vocabulary. Use identity=None"
            )
        needed, allowed = 4 * self.n_buckets, physical_memory() * 3 // 4
        if needed > allowed:
            raise MemoryLimitError(
                f"a table of {self.n_buckets:,} buckets takes {needed:,} bytes; this machine can spare {allowed:,}"
            )
        learned = self.identity == "learned"
        amount = [] if self.identity is None else [1.0 if learned else float(self.identity)]
        return HashedState(
            np.zeros(self.n_buckets, dtype=np.float32),
            np.array(amount, dtype=np.float64),
            n,
            m,
            multiplier=int(self.multiplier),
            learn_identity=learned,
        )
