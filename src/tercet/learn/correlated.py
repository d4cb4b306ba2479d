"""Correlated feature hashing: any ranker, learned between frequent words (Bai et al. 2010, section 2.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences, as_preferences
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.kernels.binned import binned_advance
from tercet.kernels.rows import Chunk
from tercet.learn.base import (
    NotNegative,
    Ranker,
    SavedRanker,
    SgdRanker,
    TermPairRanker,
    load_ranker,
)
from tercet.learn.loop import CHUNK, Callback, Checkpoint
from tercet.learn.lowrank import LowRankRanker, LowRankState
from tercet.learn.matrices import KernelInput
from tercet.learn.sources import Source
from tercet.learn.stored import matching_margins
from tercet.store import Bundle
from tercet.store.digest import digest_of
from tercet.store.fields import described
from tercet.store.schema import Bounds
from tercet.text import CorrelatedWords
from tercet.weights import Identity, Mapped, Part, Weights

Variant = Literal["mean", "by-bin", "first"]


# -- beside the identity of all words ---------------------------------------------------------------------------------


class MarginsLeft(Preferences):
    """Preferences with margins of any sign: negative if the identity exceeds the margin."""

    def __init__(
        self,
        query: ArrayLike,
        better: ArrayLike,
        worse: ArrayLike,
        weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
    ) -> None:
        super().__init__(query, better, worse, weight)
        margin_left = np.array(margin, dtype=np.float32)
        margin_left.flags.writeable = False
        object.__setattr__(self, "margin", margin_left)


@dataclass(frozen=True, eq=False)
class Beside:
    """The identity of all words with a weight: ``(Mq)'W(Md)`` has to reach the margin less ``weight q·(d+ - d-)``."""

    Q: sparse.csr_array
    D: sparse.csr_array
    weight: float
    margin: float

    def margins_left(self, prefs: Preferences) -> Preferences:
        """Return the preferences with the margins left to W."""
        prefs.check_rows(self.Q.shape[0], self.D.shape[0])
        if not self.weight:
            return prefs
        margins = np.full(len(prefs), self.margin) if prefs.margin is None else prefs.margin.astype(np.float64)
        margins = margins - self.weight * matching_margins(self.Q, self.D, prefs)
        return MarginsLeft(prefs.query, prefs.better, prefs.worse, prefs.weight, margins)


class OffsetSource(Source):
    """The preferences of a source, with the margins left to W; ``whole`` makes W weights over all words."""

    def __init__(self, source: Source, beside: Beside, whole: Callable[[Weights], Weights]) -> None:
        self.source, self.beside, self.whole = source, beside, whole
        self.n_steps = source.n_steps
        self.looks_at_weights = source.looks_at_weights

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        drawn = self.source.draw(step, lambda: self.whole(weights()))[
            :CHUNK
        ]  # the loop takes at most CHUNK steps at once
        return self.beside.margins_left(drawn)

    def fingerprint(self) -> str:
        return digest_of("beside", self.source.fingerprint(), self.beside.weight, self.beside.margin)

    def begin(self) -> None:
        self.source.begin()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.source.state()

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.source.restore(meta, arrays)


def seen_whole(callback: Callback, whole: Callable[[Weights], Weights]) -> Callback:
    """Wrap a callback: its events have the weights after ``whole``."""
    if isinstance(callback, Checkpoint):
        return callback
    return lambda event: callback(replace(event, weights=lambda: whole(event.weights())))


# -- bins that meet their like ----------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class BinnedState(LowRankState):
    """State of U and V for texts with ``n_bins`` rows; only rows of the same bin meet."""

    n_bins: Annotated[int, Bounds(least=1)]

    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        latent = np.empty((2, self.n_bins, self.U.shape[1]), dtype=np.float32)
        binned_advance(self.U, self.V, inputs.Q, inputs.D, chunk, inputs.scratch, latent, tally)

    def check(self) -> None:
        super().check()
        if self.rare is not None or self.diagonal.size or not self.learn_documents:
            raise InputError(f"factors of {self.n_bins} bins come alone")


class BinnedRanker(LowRankRanker):
    """``LowRankRanker`` without a diagonal; its matrices have ``n_bins`` consecutive rows for each text."""

    _state_class = BinnedState
    _learns_in_rounds = False
    _n_bins: int

    @classmethod
    def like(cls, ranker: LowRankRanker, n_bins: int) -> BinnedRanker:
        """Make a binned ranker with the parameters of another ranker; unsupported parameters are refused."""
        plain = {
            "diagonal": None,
            "n_frequent": None,
            "scale_documents": False,
            "normalize": None,
            "learn_documents": True,
            "start": "random",
        }
        for name, value in plain.items():
            if getattr(ranker, name) != value:
                raise ParameterError(
                    f"variant='by-bin' needs a LowRankRanker with {name}={value!r}; got {getattr(ranker, name)!r}"
                )
        made = cls(**ranker.get_params())
        made._n_bins = n_bins
        return made

    def _start(self, Q: sparse.csr_array, D: sparse.csr_array, *more: Any) -> BinnedState:
        plain = super()._start(Q, D, *more)
        return BinnedState(
            plain.U, plain.V, plain.diagonal, learn_diagonal=False, scale_documents=False, n_bins=self._n_bins
        )


@dataclass(eq=False, repr=False, kw_only=True)
class CorrelatedRanker(TermPairRanker):
    """Any ranker behind a map of all words to frequent words, next to the identity of the words.

    ``score(q, d) = identity_weight q·d + (Mq)'W(Md)``. M replaces each word by the frequent words with the highest
    correlation, and the ranker learns W between frequent words. The identity counts during learning: W learns nothing
    from a preference with a sufficient margin by word matching alone. ``weights_`` is one value over all words.

    Parameters
    ----------
    words : CorrelatedWords, optional
        Fitted, on texts without labels; unfitted words are fitted on the documents D.
    ranker : term-pair ranker, optional
        Learns W; default ``LowRankRanker(diagonal=None)``. A diagonal of this ranker is between frequent words.
    identity_weight : float
        Weight of the identity of all words. A ranker without steps, such as ``LSIRanker``, ignores the identity.
    variant : {"mean", "by-bin", "first"}
        Pairing of the bins of two words: each with each (Algorithm 1 of Bai et al.), the p-th with the p-th only (their
        equations 6 and 7; for ``LowRankRanker``), or the best with the best alone.
    only_rare : leave the frequent words out of M, for a second model of all other words

    Attributes
    ----------
    words_, ranker_ : fitted; the weights of ``ranker_`` are between frequent words

    Notes
    -----
    Cost: the cost of the ranker with texts of up to ``words.n_bins`` times as many words. Words with a common bin add
    up, therefore mapped texts are longer than unit length (Wikipedia articles: 2 to 5 with five bins). Divide the rate
    by the square of this length.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import Preferences
    >>> from tercet.text import CorrelatedWords
    >>> X = sparse.csr_array([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    >>> words = CorrelatedWords(n_frequent=2, n_bins=1).fit(X)
    >>> ranker = CorrelatedRanker(words=words, ranker=LowRankRanker(n_components=2, diagonal=None, epochs=50))
    >>> ranker.fit(X, Preferences([1, 3], [2, 0], [0, 2])).weights_
    Weights(4 × 4: 1·Identity + 1·Mapped(LowRank))
    """

    words: CorrelatedWords | None = None
    ranker: TermPairRanker | None = None
    identity_weight: NotNegative = 1.0
    variant: Variant = "mean"
    only_rare: bool = False

    @property
    def takes_sources(self) -> bool:
        """True if the ranker between frequent words takes sources."""
        return self.ranker is None or self.ranker.takes_sources

    @property
    def unit(self) -> float:
        """Weight of the identity of all words; 1 without an identity."""
        return float(self.identity_weight) or 1.0

    @property
    def margin(self) -> float:
        """Margin of the ranker between frequent words; 1 for a ranker without a margin."""
        return float(getattr(self.ranker, "margin", 1.0))

    def __sklearn_clone__(self) -> CorrelatedRanker:
        """Return an unfitted ranker with the fitted words, which are no result of ``fit``."""
        params = self.get_params(deep=False)
        return type(self)(**params | {"ranker": None if self.ranker is None else clone(self.ranker)})

    def fit(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        validation: Callable[[Weights], float] | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Map the texts and have the ranker learn from the start; see ``DenseRanker.fit``.

        Validation, callbacks and sources are given the weights over all words.
        """
        self._check_params()
        self._forget()
        queries, docs = self._check_pair(Q, D)
        words = self._fitted_words(queries, docs)
        maps = self._maps(words)
        ranker = self._fresh_ranker(len(maps))
        whole = self._whole_of(maps)
        learn_from: Any = prefs
        if isinstance(ranker, SgdRanker):
            learn_from = self._offset(prefs, queries, docs, float(ranker.margin), whole)
        mapped_queries, mapped_docs = _mapped(queries, docs, maps)
        ranker.fit(
            mapped_queries,
            learn_from,
            mapped_docs,
            validation=None if validation is None else lambda weights: validation(whole(weights)),
            callbacks=[seen_whole(callback, whole) for callback in callbacks],
        )
        self._keep(words, ranker, queries.shape[1])
        return self

    def partial_fit(self, Q: Any, prefs: Preferences, D: Any = None) -> Self:
        """Let the ranker between frequent words take one more step per preference, in their order."""
        self._check_params()
        queries, docs = self._check_pair(Q, D)
        prefs = as_preferences(prefs)
        words = self.words_ if hasattr(self, "words_") else self._fitted_words(queries, docs)
        maps = self._maps(words)
        ranker = self.ranker_ if hasattr(self, "ranker_") else self._fresh_ranker(len(maps))
        if not isinstance(ranker, SgdRanker):
            raise ParameterError(f"partial_fit needs a ranker that learns by steps; got {type(ranker).__name__}")
        learn_from = self._offset(prefs, queries, docs, float(ranker.margin), self._whole_of(maps))
        assert isinstance(learn_from, Preferences)
        mapped_queries, mapped_docs = _mapped(queries, docs, maps)
        try:
            ranker.partial_fit(mapped_queries, learn_from, mapped_docs)
        except BaseException:
            if (
                not ranker.__sklearn_is_fitted__()
            ):  # not fitted: training stopped midway; a refused argument leaves the ranker fitted
                self._forget()
            raise
        self._forget()
        self._keep(words, ranker, queries.shape[1])
        return self

    @property
    def weights_(self) -> Weights:
        check_is_fitted(self)
        if not hasattr(self, "_snapshot"):
            self._snapshot: Weights = self._whole_of(self._maps(self.words_))(self.ranker_.weights_)
        return self._snapshot

    # -- between all words and frequent ones ----------------------------------------------------------------------

    def _fitted_words(self, Q: sparse.csr_array, D: sparse.csr_array) -> CorrelatedWords:
        if Q.shape[1] != D.shape[1]:
            raise InputError(f"Q has {Q.shape[1]} columns and D {D.shape[1]}; a CorrelatedRanker needs one vocabulary")
        words = CorrelatedWords() if self.words is None else self.words
        if not hasattr(words, "bins_"):
            words = clone(words).fit(D)
        if words.n_features_in_ != Q.shape[1]:
            raise InputError(f"Q has {Q.shape[1]} columns, but words were fitted with {words.n_features_in_}")
        return words

    def _maps(self, words: CorrelatedWords) -> list[sparse.csr_array]:
        if self.variant == "by-bin":
            return words.matrices(only_rare=self.only_rare)
        return [words.matrix(self.variant, only_rare=self.only_rare)]

    def _fresh_ranker(self, n_bins: int) -> TermPairRanker:
        ranker = LowRankRanker(diagonal=None) if self.ranker is None else clone(self.ranker)
        if self.variant != "by-bin":
            return ranker
        if type(ranker) is not LowRankRanker:
            raise ParameterError(f"variant='by-bin' needs a LowRankRanker; got {type(ranker).__name__}")
        return BinnedRanker.like(ranker, n_bins)

    def _offset(
        self,
        prefs: Any,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        margin: float,
        whole: Callable[[Weights], Weights],
    ) -> Preferences | Source:
        beside = Beside(Q, D, float(self.identity_weight), margin)
        if isinstance(prefs, Source):
            return OffsetSource(prefs, beside, whole)
        return beside.margins_left(as_preferences(prefs))

    def _whole_of(self, maps: list[sparse.csr_array]) -> Callable[[Weights], Weights]:
        """Return the function from weights between frequent words to weights over all words."""

        def whole(weights: Weights) -> Weights:
            parts: list[Part] = [Mapped(A=M, B=M, part=part) for M in maps for part in weights.parts]
            if self.identity_weight:
                parts.insert(0, Identity(n_terms=maps[0].shape[1], scale=float(self.identity_weight)))
            return Weights(parts)

        return whole

    def _keep(self, words: CorrelatedWords, ranker: TermPairRanker, n_terms: int) -> None:
        self.words_, self.ranker_ = words, ranker
        if isinstance(ranker, SgdRanker):
            self.n_steps_ = ranker.n_steps_
        self.n_features_in_ = self.n_doc_features_ = n_terms

    def _forget(self) -> None:
        for name in ("words_", "ranker_", "_snapshot", "n_steps_", "n_features_in_", "n_doc_features_"):
            if hasattr(self, name):
                delattr(self, name)

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self)
        words, word_arrays = self.words_.to_state()
        ranker, ranker_arrays = self.ranker_.to_state()
        params = self._saved_params() | {"words": words, "ranker": ranker}
        arrays = {f"words.{name}": array for name, array in word_arrays.items()}
        arrays |= {f"ranker.{name}": array for name, array in ranker_arrays.items()}
        return {"class": type(self).__name__, "params": params}, arrays

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        where = saved.where
        if saved.meta:
            raise DamagedBundleError(f"{where} has unknown fields: {', '.join(sorted(saved.meta))}")
        groups: dict[str, dict[str, NDArray[Any]]] = {"words": {}, "ranker": {}}
        for name, array in saved.arrays.items():
            group, _, key = name.partition(".")
            if group not in groups:
                raise DamagedBundleError(f"{where}: unexpected array {name!r}")
            groups[group][key] = array
        words = CorrelatedWords.from_state(params["words"], groups["words"])
        classes = {**saved.classes, BinnedRanker.__name__: BinnedRanker}
        if not isinstance(params["ranker"], dict):
            raise DamagedBundleError(f"{where}: params.ranker is {described(params['ranker'])}; expected a mapping")
        inner = Bundle(kind="ranker", meta=params["ranker"], arrays=groups["ranker"], path=Path(where))
        fitted: Ranker = load_ranker(inner, classes)
        if not isinstance(fitted, TermPairRanker):
            raise DamagedBundleError(f"{where}: {type(fitted).__name__} is no ranker between words")
        kind = LowRankRanker if isinstance(fitted, BinnedRanker) else type(fitted)
        params = params | {"words": words, "ranker": kind(**fitted.get_params(deep=False))}
        ranker = cls._with_params(params, where)
        maps = ranker._maps(words)
        fits = isinstance(fitted, BinnedRanker) == (ranker.variant == "by-bin")
        if not fits or fitted.weights_.shape != 2 * (words.frequent_.size,):
            raise DamagedBundleError(f"{where}: the ranker does not fit the words it stands behind")
        if isinstance(fitted, BinnedRanker):
            fitted._n_bins = len(maps)
        ranker._keep(words, fitted, words.n_features_in_)
        return ranker


def _mapped(
    Q: sparse.csr_array, D: sparse.csr_array, maps: list[sparse.csr_array]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Map the texts to frequent words; with several maps, a text has one row per map, consecutively."""
    turned = [M.T.tocsr() for M in maps]
    queries = _mapped_rows(Q, turned)
    return queries, queries if D is Q else _mapped_rows(D, turned)


def _mapped_rows(texts: sparse.csr_array, turned: list[sparse.csr_array]) -> sparse.csr_array:
    rows = [texts.astype(np.float64) @ M for M in turned]
    if len(rows) == 1:
        return check_matrix(rows[0], "the mapped texts")
    text_by_text = np.arange(len(rows) * texts.shape[0]).reshape(len(rows), -1).T.ravel()
    return check_matrix(sparse.csr_array(sparse.vstack(rows, format="csr"))[text_by_text], "the mapped texts")
