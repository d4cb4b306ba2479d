"""W = U'V + I and its relatives: supervised semantic indexing (Bai et al. 2010)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.errors import InputError, ParameterError
from tercet.kernels.lowrank import cosine_advance, lowrank_advance, queries_advance
from tercet.kernels.rows import Chunk, CsrRows
from tercet.learn.base import Count, DirectionsOf, NotNegative, Positive, SgdRanker
from tercet.learn.loop import Callback
from tercet.learn.matrices import KernelInput
from tercet.learn.sources import Source
from tercet.learn.starts import (
    GivenStart,
    LabeledRows,
    Rare,
    class_scores,
    for_cosine,
    labeled_rows,
    latent_directions,
    normal_factors,
    rare_words,
)
from tercet.learn.state import Schedule, State, Steps
from tercet.store.schema import OMIT_DEFAULT, SameAs, Shape
from tercet.weights import Diagonal, Identity, LowRank, Part, Weights

# Most documents, evenly spaced, for the typical length of latent vectors.
_LENGTH_SAMPLE = 2000
_MOST_LATENT = 2**26  # most numbers of stored latent vectors; beyond, latent vectors are computed per chunk

_NO_WORD: Rare = (np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint8))


@dataclass(eq=False)
class LowRankState(State):
    """Factors of words, one array for both sides when tied; a diagonal, empty without a diagonal.

    rare_query_words, rare_doc_words : 1 for each word whose factors stay zero, or None
    cosine : learn and score the cosine of latent vectors
    learn_documents : if False, V stays constant
    """

    U: Annotated[NDArray[np.float32], Shape("n_query_terms", "n_components")]
    V: Annotated[NDArray[np.float32], Shape("n_doc_terms", "n_components"), SameAs("U", "tied")]
    diagonal: Annotated[NDArray[np.float32], Shape("n_diagonal")]
    _: KW_ONLY
    learn_diagonal: bool
    scale_documents: bool
    typical_length: float | None = None
    step: Steps = 0
    rare_query_words: Annotated[NDArray[np.uint8] | None, Shape("n_query_terms")] = None
    rare_doc_words: Annotated[NDArray[np.uint8] | None, Shape("n_doc_terms")] = None
    cosine: Annotated[bool, OMIT_DEFAULT] = False
    learn_documents: Annotated[bool, OMIT_DEFAULT] = True

    def __post_init__(self) -> None:
        self._sample: sparse.csr_array | None = None  # sample of the documents, for the typical length

    @property
    def tied(self) -> bool:
        return self.U is self.V

    @property
    def shape(self) -> tuple[int, int]:
        return self.U.shape[0], self.V.shape[0]

    def observe(self, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        if self.scale_documents:
            self._sample = D[np.arange(0, D.shape[0], -(-D.shape[0] // _LENGTH_SAMPLE))]

    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        inputs = KernelInput.from_matrices(Q, D)
        if self.learn_documents or D.shape[0] * self.V.shape[1] > _MOST_LATENT:
            return inputs
        return replace(inputs, latent=self._latent(inputs.D))

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        if self.cosine:
            latent = np.empty((6, self.U.shape[1]), dtype=np.float32)
            cosine_advance(self.U, self.V, self.rare or _NO_WORD, inputs.Q, inputs.D, chunk, latent, tally)
            return
        if not self.learn_documents:
            self._run_queries(inputs, chunk, tally)
            return
        lowrank_advance(
            self.U,
            self.V,
            self.diagonal,
            self.learn_diagonal,
            self.rare or _NO_WORD,
            inputs.Q,
            inputs.D,
            chunk,
            inputs.scratch,
            tally,
        )

    def _run_queries(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        positions, latent = np.stack((chunk.better, chunk.worse)), inputs.latent
        if latent is None:
            rows, positions = np.unique(positions, return_inverse=True)
            positions = positions.reshape(2, -1).astype(np.int32)
            latent = self._latent(inputs.D, rows)
        rare_q, _ = self.rare or _NO_WORD
        texts = inputs.Q, inputs.D
        queries_advance(
            self.U, latent, positions, self.diagonal, self.learn_diagonal, rare_q, *texts, chunk, inputs.scratch, tally
        )

    def _latent(self, docs: CsrRows, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """Return V d of all documents, or of the given rows."""
        indptr, indices, data = docs
        D = sparse.csr_array((data, indices, indptr), shape=(indptr.size - 1, self.V.shape[0]))
        latent: NDArray[np.float32] = (D if rows is None else D[rows]) @ self.V
        return latent

    def leave_out(self, rare: Rare) -> None:
        """Set the factors of rare words to zero for good."""
        for factors, words in zip((self.U, self.V), rare, strict=True):
            factors[words != 0] = 0
        self.rare_query_words, self.rare_doc_words = rare

    @property
    def rare(self) -> Rare | None:
        """Query and document words with factors of zero."""
        if self.rare_query_words is None or self.rare_doc_words is None:
            return None
        return self.rare_query_words, self.rare_doc_words

    def snapshot(self) -> Weights:
        U = self.U.copy()
        V = U if self.tied else self.V.copy() if self.learn_documents else self.V
        self._measure_length()
        latent = LowRank(query_factors=U, doc_factors=V, typical_length=self.typical_length, unit_queries=self.cosine)
        parts: list[Part] = [latent]
        if self.learn_diagonal:
            parts.append(Diagonal(weights=self.diagonal.copy()))
        elif self.diagonal.size and self.diagonal[0]:
            parts.append(Identity(n_terms=self.diagonal.size, scale=float(self.diagonal[0])))
        return Weights(parts)

    def _measure_length(self) -> None:
        """Compute the root mean square length of the documents' latent vectors; without documents keep the last value.

        The length is 1 for cosines: their target is a margin between cosines.
        """
        if self.cosine:
            self.typical_length = 1.0
        elif self.scale_documents and self._sample is not None:
            latent = self._sample.astype(np.float64) @ self.V.astype(np.float64)
            self.typical_length = float(np.sqrt(np.mean(np.sum(latent**2, axis=1)))) or 1.0

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._measure_length()
        return super().to_state()

    def copy(self) -> Self:
        same = super().copy()
        same._sample = self._sample
        return same

    def check(self) -> None:
        n, m = self.U.shape[0], self.V.shape[0]
        if self.diagonal.size and not self.diagonal.size == n == m:
            raise InputError(f"a diagonal of {self.diagonal.size} does not fit factors of {n} words")
        if self.cosine and self.diagonal.size:
            raise InputError("a cosine of latent vectors has no diagonal beside it")
        if not self.learn_documents and (self.tied or self.cosine):
            raise InputError("a V that stays is neither U nor part of a cosine")
        if (self.rare_query_words is None) != (self.rare_doc_words is None):
            raise InputError("one of the arrays of rare words is there without the other")
        if self.rare is not None:
            rare_q, rare_d = self.rare
            if rare_d.size != m or self.U[rare_q != 0].any() or self.V[rare_d != 0].any():
                raise InputError("a word that is marked as rare has factors other than zero")


@dataclass(eq=False, repr=False, kw_only=True)
class LowRankRanker(SgdRanker):
    """``W = U'V + w I``: a latent space learned for ranking, next to plain word matching.

    Cost of a step: (words of the three texts) times ``n_components``, whatever the size of the vocabulary.

    Parameters
    ----------
    n_components : width of the latent space
    tied : U and V are the same, and W is symmetric; needs one vocabulary
    diagonal : {"identity", "learned", None}
        Keep ``w I``, learn a diagonal from ``w I``, or have no diagonal. Two vocabularies need None.
    identity_weight : float
        w. Scores of unit-length texts lie below 1, therefore a margin of 1 forces large factors. A weight of 5 to 10
        keeps more of word matching and is safer with few preferences.
    start : {"random", "lsi", "classes"}
        Normal factors (Bai et al.), or ``U'V = w L`` with L the leading directions of the documents, weighted by their
        singular values over the largest: latent semantic indexing, which relates words without any preference. Costs
        one randomized decomposition of D.

        ``"classes"`` is for texts with labels: ridge regression of the classes gives each word a score for each class,
        and U'V is the inner product of the class scores of two texts. The width is the number of classes, at most
        ``n_components``. The source has the classes (``SampledSource.from_labels``).

        Two vocabularies start from the weights of ``LSIRanker.fit_parallel`` by ``fit(…, start=)``.
    normalize : {"latent", None}
        ``"latent"`` learns and scores the cosine of latent vectors: texts are scaled to U'q and V'd of length 1. Needs
        ``diagonal=None``; a start from LSI is then LSI, with unweighted directions. Cosines lie below 1: use a small
        margin, about 0.1 to find translations.
    spread : standard deviation of the factors at a random start (Bai et al.: 1)
    scale_documents : divide the latent part of a document's score by the length of its latent vector
    n_frequent : int, optional
        Only the n words in most documents have factors; the factors of all other words stay zero, in U and in V. The
        factors of a word in a single text could fit this text by heart (Bai et al. 2010, section 4.1). The diagonal
        sees all words. With one vocabulary words are counted in D; with two, query words are counted in Q.
    learn_documents : bool
        False leaves V constant: U alone learns, with a learned diagonal. U then maps queries into the space of the
        documents. A document without preferences is scored by the same map as all other documents, and no document
        can be learned by heart. Use a start from the documents, ``"lsi"``, ``"classes"`` or given weights, and a rate
        of 1 in place of 0.1. Excludes ``tied`` and cosines. A step costs the words of the query times
        ``n_components``. Latent vectors of documents in memory take 4 ``n_components`` bytes each; above 256 MB each
        chunk computes its vectors anew.
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

    n_components: Count = 100
    tied: bool = False
    diagonal: Literal["identity", "learned"] | None = "identity"
    identity_weight: NotNegative = 1.0
    start: Literal["random", "lsi", "classes"] = "random"
    spread: Positive = 0.1
    scale_documents: bool = False
    n_frequent: Count | None = None
    normalize: Literal["latent"] | None = None
    learn_documents: bool = True
    rate: Positive = 0.1
    schedule: Schedule = "constant"

    most_steps = 3_000_000  # its steps are short

    _state_class: ClassVar[type[State]] = LowRankState
    _learns_in_rounds = True
    _added_parameters: ClassVar[dict[str, Any]] = {
        "n_frequent": None,
        "normalize": None,
        "learn_documents": True,
    }

    def cost_per_step(self, n_query_words: float, n_doc_words: float) -> float:
        """Return the number of factors of all words; constant latent vectors of documents cost nothing."""
        n_words = n_query_words + 2 * n_doc_words
        if self.keeps_documents:
            return self.n_components * (n_query_words + 2) + n_words
        return self.n_components * n_words

    @property
    def keeps_documents(self) -> bool:
        """True with ``learn_documents=False``."""
        return not self.learn_documents

    @property
    def unit(self) -> float:
        """Weight of the identity at the start, also the weight of a start from LSI; 1 for a weight of 0."""
        return float(self.identity_weight) or 1.0

    def _shared_arguments(self, directions_of: DirectionsOf) -> dict[str, Any]:
        """Return the weights of ``start="lsi"``; with ``n_frequent`` directions are not shared."""
        if self.start != "lsi" or self.n_frequent is not None:
            return {}
        U = self._lsi_factors(*directions_of(self.n_components, self.random_state))
        parts: list[Part] = [LowRank(query_factors=U, doc_factors=U)]
        if self.diagonal is not None:
            parts.append(Identity(n_terms=U.shape[0], scale=self.identity_weight))
        return {"start": Weights(parts)}

    def _lsi_factors(self, size: NDArray[np.float64], directions: NDArray[np.float64]) -> NDArray[np.float32]:
        """Weight directions by their singular values over the largest; cosines need no weights."""
        weight = np.ones(size.size) if self.normalize else self.unit * size / size[0]
        return np.ascontiguousarray((directions * np.sqrt(weight)).astype(np.float32))

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        start: Weights | None = None,
    ) -> Self:
        """Learn from the start; see ``DenseRanker.fit``.

        Parameters
        ----------
        start : Weights, optional
            Start from these weights in place of the parameter ``start``: weights of any ranker with one low-rank part,
            and at most a diagonal. The first scores are the scores of these weights.
        """
        queries, docs, source = self._checked(Q, prefs, D)
        labeled = labeled_rows(source, docs.shape[0]) if self.start == "classes" and start is None else None
        self._train(self._start(queries, docs, start, labeled), queries, docs, source, validation, callbacks)
        return self

    def _start(
        self,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        given: Weights | None = None,
        labeled: LabeledRows | None = None,
    ) -> LowRankState:
        n, m = Q.shape[1], D.shape[1]
        rare: Rare | None = None
        if self.n_frequent is not None:
            rare_d = rare_words(D, self.n_frequent)
            rare = (rare_d if n == m else rare_words(Q, self.n_frequent)), rare_d
        if given is not None:
            return self._state_of(GivenStart.from_weights(given), (n, m), rare)
        cosine = self.normalize == "latent"
        self._check_together(cosine)
        if n != m and (self.tied or self.diagonal is not None or self.start in ("lsi", "classes")):
            what = "tied=True" if self.tied else f"diagonal={self.diagonal!r}"
            what = what if self.tied or self.diagonal is not None else f"start={self.start!r}"
            raise InputError(
                f"Q has {n} columns and D {m}; {what} needs one vocabulary. Use tied=False, diagonal=None and "
                "start='random', or the weights of LSIRanker.fit_parallel as the start of fit"
            )
        keep = None if rare is None else rare[1] == 0
        if self.start == "lsi":
            U = self._lsi_factors(*latent_directions(D, self.n_components, self.random_state, keep))
            V = U if self.tied else U.copy()
            if cosine:
                U, V = for_cosine((U, V))
        elif self.start == "classes":
            if labeled is None:
                raise ParameterError("start='classes' is where fit starts; other ways to learn know of no classes")
            U = class_scores(D, labeled, self.n_components, self.random_state, keep)
            V = U if self.tied else U.copy()
        else:
            U, V = normal_factors(n, None if self.tied else m, self.n_components, self.spread, self.random_state)
        offset = np.full(n if self.diagonal is not None else 0, self.identity_weight, dtype=np.float32)
        return self._state_with(U, V, offset, cosine, rare)

    def _state_of(self, given: GivenStart, shape: tuple[int, int], rare: Rare | None) -> LowRankState:
        """Return the state with the scores of given weights."""
        cosine = given.cosine or self.normalize == "latent"
        self._check_together(cosine)
        U, V = given.factors(self.n_components, shape, self.tied)
        if cosine:
            U, V = for_cosine((U, V))
        if given.scaled and not (self.scale_documents or cosine):
            raise ParameterError("the start divides scores by the length of a document; that is scale_documents=True")
        diagonal = self.diagonal if shape[0] == shape[1] and not cosine else None
        if given.diagonal is not None and (diagonal is None or (given.learned_diagonal and diagonal != "learned")):
            kind = "a learned diagonal" if given.learned_diagonal else "the identity"
            raise ParameterError(f"the start has {kind} beside its low-rank part; diagonal is {self.diagonal!r}")
        offset = np.zeros(shape[0], dtype=np.float32) if given.diagonal is None else given.diagonal.copy()
        return self._state_with(U, V, offset if diagonal is not None else offset[:0], cosine, rare)

    def _check_together(self, cosine: bool) -> None:
        """Refuse parameters that exclude each other; ``cosine`` if cosines are learned, perhaps by a start."""
        implied = cosine and self.normalize is None  # the default is no explicit choice
        if cosine and (self.diagonal == "learned" or (self.diagonal is not None and not implied)):
            what = f"diagonal={self.diagonal!r}"
            raise ParameterError(f"cosines of latent vectors are learned alone, without {what}")
        if not self.learn_documents and (cosine or self.tied):
            what = "tied=True" if self.tied else "normalize='latent'"
            if cosine and self.normalize is None:
                what = "a start whose scores are cosines"
            raise ParameterError(f"learn_documents=False leaves V as it is; it cannot be had with {what}")

    def _state_with(
        self,
        U: NDArray[np.float32],
        V: NDArray[np.float32],
        diagonal: NDArray[np.float32],
        cosine: bool,
        rare: Rare | None,
    ) -> LowRankState:
        state = LowRankState(
            U,
            V,
            diagonal,
            learn_diagonal=self.diagonal == "learned" and diagonal.size > 0,
            scale_documents=self.scale_documents,
            cosine=cosine,
            learn_documents=self.learn_documents,
        )
        if rare is not None:
            state.leave_out(rare)
        return state
