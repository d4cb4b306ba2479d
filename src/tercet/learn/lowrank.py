"""W = U'V + I and its relatives: supervised semantic indexing (Bai et al. 2010)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import randomized_svd

from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.lowrank import lowrank_advance
from tercet.learn.base import COUNT, NOT_NEGATIVE, POSITIVE, SgdRanker
from tercet.learn.matrices import Problem
from tercet.learn.state import Chunk, State
from tercet.store import Fields, take_array
from tercet.weights import Diagonal, Identity, LowRank, Part, Weights

# The typical length of a document's latent vector is taken over at most this many evenly spaced documents.
_LENGTH_SAMPLE = 2000


class LowRankState(State):
    """U (n_query_terms, n_components), V (n_doc_terms, n_components), the same array when tied; a diagonal or none."""

    kernels = (lowrank_advance,)

    def __init__(
        self,
        U: NDArray[np.float32],
        V: NDArray[np.float32],
        diagonal: NDArray[np.float32],
        *,
        learn_diagonal: bool,
        scale_documents: bool,
        typical_length: float | None = None,
        step: int = 0,
    ) -> None:
        self.U, self.V = U, V
        self.diagonal = diagonal  # empty when W has no diagonal part
        self.learn_diagonal = learn_diagonal
        self.scale_documents = scale_documents
        self.typical_length = typical_length
        self.step = step
        self._sample: sparse.csr_array | None = None

    @property
    def tied(self) -> bool:
        return self.U is self.V

    @property
    def shape(self) -> tuple[int, int]:
        return self.U.shape[0], self.V.shape[0]

    def problem(self, Q: sparse.csr_array, D: sparse.csr_array) -> Problem:
        if self.scale_documents:
            self._sample = D[:: -(-D.shape[0] // _LENGTH_SAMPLE)]
        return Problem.of(Q, D)

    def run(self, problem: Problem, chunk: Chunk, margin: np.float32, tally: NDArray[np.float64]) -> None:
        lowrank_advance(
            self.U,
            self.V,
            self.diagonal,
            self.learn_diagonal,
            problem.Q,
            problem.D,
            chunk,
            margin,
            problem.scratch,
            tally,
        )

    def snapshot(self) -> Weights:
        U = self.U.copy()
        V = U if self.tied else self.V.copy()
        self._measure_length()
        parts: list[Part] = [LowRank(query_factors=U, doc_factors=V, typical_length=self.typical_length)]
        if self.learn_diagonal:
            parts.append(Diagonal(weights=self.diagonal))
        elif self.diagonal.size and self.diagonal[0]:
            parts.append(Identity(n_terms=self.diagonal.size, scale=float(self.diagonal[0])))
        return Weights(parts)

    def _measure_length(self) -> None:
        """Root mean square length of the documents' latent vectors; kept when the documents are not at hand."""
        if self.scale_documents and self._sample is not None:
            latent = self._sample.astype(np.float64) @ self.V.astype(np.float64)
            self.typical_length = float(np.sqrt(np.mean(np.sum(latent**2, axis=1)))) or 1.0

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {"U": self.U, "diagonal": self.diagonal}
        return arrays if self.tied else arrays | {"V": self.V}

    def meta(self) -> dict[str, Any]:
        self._measure_length()
        return super().meta() | {
            "tied": self.tied,
            "learn_diagonal": self.learn_diagonal,
            "scale_documents": self.scale_documents,
            "typical_length": self.typical_length,
        }

    def copy(self) -> Self:
        U = self.U.copy()
        copied = type(self)(
            U,
            U if self.tied else self.V.copy(),
            self.diagonal.copy(),
            learn_diagonal=self.learn_diagonal,
            scale_documents=self.scale_documents,
            typical_length=self.typical_length,
            step=self.step,
        )
        copied._sample = self._sample
        return copied

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        tied = fields.take("tied", bool)
        U = take_array(arrays, "U", np.float32, 2).copy()
        V = U if tied else take_array(arrays, "V", np.float32, (None, U.shape[1])).copy()
        diagonal = take_array(arrays, "diagonal", np.float32, 1).copy()
        if diagonal.size and not diagonal.size == U.shape[0] == V.shape[0]:
            raise DamagedBundleError(f"a diagonal of {diagonal.size} does not fit factors of {U.shape[0]} words")
        return cls(
            U,
            V,
            diagonal,
            learn_diagonal=fields.take("learn_diagonal", bool),
            scale_documents=fields.take("scale_documents", bool),
            typical_length=fields.take("typical_length", float | None),
            step=fields.take("step", int),
        )


class LowRankRanker(SgdRanker):
    """``W = U'V + w I``: a latent space learned for ranking, next to plain word matching.

    Cost of a step: (words of the three texts) times ``n_components``, whatever the size of the vocabulary.

    Parameters
    ----------
    n_components : width of the latent space
    tied : U and V are the same, so that W is symmetric; needs one vocabulary
    diagonal : {"identity", "learned", None}
        Keep ``w I``, learn a diagonal that starts from it, or have none. Two vocabularies need None.
    identity_weight : float
        w. Scores of unit-length texts lie below 1, so a margin of 1 forces large factors; a weight of 5 to 10 holds
        on to word matching, which is the safer choice when preferences are few.
    start : {"random", "lsi"}
        Normal factors (Bai et al.), or ``U'V = w L`` with L the leading directions of the documents, weighted by their
        singular values over the largest: latent semantic indexing, which relates words no preference has seen. It
        needs one vocabulary and costs one randomised decomposition of D.
    spread : standard deviation of the factors at a random start (Bai et al.: 1)
    scale_documents : divide the latent part of a document's score by the length of its latent vector
    rate, schedule, margin, epochs, shuffle, validate_every, patience, random_state, verbose : see ``DenseRanker``

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> X = sparse.eye_array(4, format="csr")
    >>> prefs = Preferences([0, 1], [2, 3], [3, 2])
    >>> ranker = LowRankRanker(n_components=2, epochs=200).fit(X, prefs)
    >>> bool((ranker.margins(X, prefs) > 0).all())
    True
    """

    _state_class = LowRankState
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SgdRanker._parameter_constraints,
        "n_components": [COUNT],
        "tied": ["boolean"],
        "diagonal": [StrOptions({"identity", "learned"}), None],
        "identity_weight": [NOT_NEGATIVE],
        "start": [StrOptions({"random", "lsi"})],
        "spread": [POSITIVE],
        "scale_documents": ["boolean"],
    }

    def __init__(
        self,
        *,
        n_components: int = 100,
        tied: bool = False,
        diagonal: str | None = "identity",
        identity_weight: float = 1.0,
        start: str = "random",
        spread: float = 0.1,
        scale_documents: bool = False,
        rate: float = 0.1,
        schedule: str = "constant",
        margin: float = 1.0,
        epochs: int = 1,
        shuffle: bool = False,
        validate_every: int | None = None,
        patience: int | None = 3,
        random_state: int = 0,
        verbose: bool | None = None,
    ) -> None:
        self.n_components = n_components
        self.tied = tied
        self.diagonal = diagonal
        self.identity_weight = identity_weight
        self.start = start
        self.spread = spread
        self.scale_documents = scale_documents
        self.rate = rate
        self.schedule = schedule
        self.margin = margin
        self.epochs = epochs
        self.shuffle = shuffle
        self.validate_every = validate_every
        self.patience = patience
        self.random_state = random_state
        self.verbose = verbose

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array) -> LowRankState:
        n, m = Q.shape[1], D.shape[1]
        if n != m and (self.tied or self.diagonal is not None or self.start == "lsi"):
            what = "tied=True" if self.tied else f"diagonal={self.diagonal!r}"
            what = what if self.tied or self.diagonal is not None else "start='lsi'"
            raise InputError(
                f"Q has {n} columns and D {m}; {what} needs one vocabulary. Use tied=False, diagonal=None and "
                "start='random'"
            )
        U, V = self._latent_directions(D) if self.start == "lsi" else self._normal_factors(n, m)
        return LowRankState(
            U,
            V,
            np.full(n if self.diagonal is not None else 0, self.identity_weight, dtype=np.float32),
            learn_diagonal=self.diagonal == "learned",
            scale_documents=self.scale_documents,
        )

    def _normal_factors(self, n: int, m: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        rng = np.random.default_rng(self.random_state)
        U, V = (
            rng.standard_normal((size, self.n_components), dtype=np.float32) * np.float32(self.spread)
            for size in (n, m if not self.tied else 0)
        )
        return U, U if self.tied else V

    def _latent_directions(self, D: sparse.csr_array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        if self.n_components >= min(D.shape):
            raise InputError(
                f"start='lsi' finds fewer than {min(D.shape)} directions in documents of shape {D.shape}; "
                f"n_components is {self.n_components}"
            )
        seed = int(self.random_state) % 2**32  # scikit-learn takes no larger one
        _, size, directions = randomized_svd(D, self.n_components, n_iter=2, random_state=seed)
        if not size[0] > 0:
            raise InputError("start='lsi' finds no direction in documents without a word; use start='random'")
        weight = (self.identity_weight or 1.0) * size / size[0]
        F = np.ascontiguousarray((directions.T * np.sqrt(weight)).astype(np.float32))
        return F, F if self.tied else F.copy()
