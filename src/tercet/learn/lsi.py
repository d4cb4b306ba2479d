"""Latent semantic indexing: the unsupervised rival of the low-rank learner (Bai et al. 2010, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from tercet.data.matrix import row_blocks
from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.learn.base import Count, SavedRanker, Seed, TermPairRanker
from tercet.learn.loop import current_executor
from tercet.learn.stored import matching_margins
from tercet.store import is_mapped
from tercet.store.codec import decode, encode
from tercet.weights import Identity, LowRank, Part, Weights

# Candidates of "auto": the numbers of components of Bai et al., and alphas of Tercet (the paper lists none).
N_COMPONENTS = (50, 100, 200, 500, 750, 1000)
ALPHAS = tuple(step / 20 for step in range(21))


_EXACT_UP_TO = 6000  # the smaller of the numbers of texts and of words
_PREFERENCES_AT_ONCE = 1024
_LATENT_BYTES = 512 * 2**20  # bytes of latent vectors in memory at once


@dataclass(eq=False, repr=False, kw_only=True)
class LSIRanker(TermPairRanker):
    """Cosine of query and document in the space of the documents' leading directions; alone, or blended with tf-idf.

    With B the leading right singular vectors of the documents D, one row per word, a document scores
    ``(B'q)·(B'd) / (|B'q| |B'd|)``. The length of the query's latent vector changes no ranking, but counts in a blend
    ``alpha LSI + (1 - alpha) TFIDF`` of two cosines.

    Preferences only choose ``n_components`` and ``alpha``, if these are ``"auto"``.

    Parameters
    ----------
    n_components : int or "auto"
        Width of the latent space; cut to the rank of the documents, see ``n_components_``. ``"auto"`` takes the width
        among 50, 100, 200, 500, 750 and 1000 with the least rank loss on the preferences.
    alpha : float from 0 to 1, "auto" or None
        Share of LSI in the blend; None is LSI alone. ``"auto"`` takes the multiple of 0.05 with the least rank loss on
        the preferences, chosen together with ``n_components``; ties go to the smaller value.
    random_state : seed of a randomized decomposition

    Attributes
    ----------
    n_components_, alpha_ : values used
    rank_loss_ : share of the preferences in the wrong order, ties included; only after a choice

    Notes
    -----
    Cost: up to 6,000 texts or words are decomposed exactly, from the inner products of all texts, in time of the third
    power of their number (4,600 texts of 900 words: half a minute); more by a randomized decomposition, about 12
    products of D with ``n_components`` vectors. A choice adds the latent vectors of the texts in the preferences, once
    each within half a gigabyte.

    Examples
    --------
    >>> from scipy import sparse
    >>> X = sparse.csr_array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> ranker = LSIRanker(n_components=2).fit(X)
    >>> docs, _ = ranker.rank(sparse.csr_array([[1.0, 0.0, 0.0, 0.0]]), X, 2)
    >>> sorted(docs[0].tolist())  # the second shares no word with the query
    [0, 1]
    """

    n_components: Count | Literal["auto"] = 100
    alpha: Annotated[float, Interval(Real, 0, 1, closed="both")] | Literal["auto"] | None = None
    random_state: Seed = 0

    _removed_parameters: ClassVar[dict[str, Any]] = {"parallel": "joint"}

    def cost_per_step(self, n_query_words: float, n_doc_words: float) -> float:
        """Return the words of the three texts: nothing learns by steps."""
        return n_query_words + 2 * n_doc_words

    @property
    def takes_sources(self) -> bool:
        """False: preferences choose parameters and teach nothing else."""
        return False

    def fit(
        self, Q: Any, prefs: Preferences | None = None, D: Any = None, validation: Any = None, callbacks: Any = ()
    ) -> Self:
        """Find the directions of the documents D, or of Q without a D.

        Parameters
        ----------
        Q, D : query and document matrices, CSR; Q is only used to choose ``"auto"`` parameters
        prefs : Preferences on the rows of Q and D; needed for ``"auto"``, else ignored
        validation, callbacks : not used; every ranker's ``fit`` takes both
        """
        self._begin(prefs)
        queries, docs = self._check_pair(Q, D)
        if queries.shape[1] != docs.shape[1]:
            raise InputError(
                f"Q has {queries.shape[1]} columns and D {docs.shape[1]}; fit needs one vocabulary. For two, give "
                "pairs of texts with the same meaning to fit_parallel"
            )
        directions = directions_of(docs, "D", self._widest, self.random_state)
        return self._choose(directions, directions, queries, docs, prefs)

    def fit_parallel(self, Q: Any, D: Any, prefs: Preferences | None = None, *, translations: Any = None) -> Self:
        """Find directions common to two vocabularies.

        Parameters
        ----------
        Q, D : matrices in the vocabulary of queries and in the vocabulary of documents
        prefs : Preferences on the rows of the two; needed for ``n_components="auto"``
        translations : integer pairs (n, 2), optional
            A row of Q and a row of D with the same meaning; by default rows i. Other texts do not count.
        """
        self._begin(prefs)
        if self.alpha is not None:
            raise ParameterError(
                f"alpha={self.alpha!r} blends with tf-idf, which pairs each word with itself; parallel texts have two "
                "vocabularies, so alpha must be None"
            )
        queries, docs = self._check_pair(Q, D)
        if translations is None and queries.shape[0] != docs.shape[0]:
            raise InputError(
                f"Q has {queries.shape[0]} rows and D {docs.shape[0]}; rows are parallel texts, so they must agree"
            )
        pairs = None if translations is None else checked_translations(translations, queries.shape[0], docs.shape[0])
        rows = (queries, docs) if pairs is None else (queries[pairs[:, 0]], docs[pairs[:, 1]])
        directions = common_directions(*rows, self._widest, self.random_state)
        return self._choose(*directions, queries, docs, prefs)

    def _begin(self, prefs: Preferences | None) -> None:
        self._check_params()
        current_executor().check(self)
        for name in ("n_features_in_", "n_doc_features_", "_weights", "n_components_", "alpha_", "rank_loss_"):
            if hasattr(self, name):
                delattr(self, name)
        if self._to_choose and not (isinstance(prefs, Preferences) and len(prefs)):
            kind = "none" if prefs is None or isinstance(prefs, Preferences) else type(prefs).__name__
            raise InputError(f"{self._to_choose}='auto' is chosen on Preferences; got {kind}")

    @property
    def _to_choose(self) -> str:
        """Name of a parameter to choose; empty for none."""
        return "n_components" if self.n_components == "auto" else "alpha" if self.alpha == "auto" else ""

    @property
    def _widest(self) -> int:
        return max(N_COMPONENTS) if self.n_components == "auto" else int(self.n_components)

    def _choose(
        self,
        U: NDArray[np.float32],
        V: NDArray[np.float32],
        Q: sparse.csr_array,
        D: sparse.csr_array,
        prefs: Preferences | None,
    ) -> Self:
        n = V.shape[1]
        widths = sorted({min(width, n) for width in N_COMPONENTS}) if self.n_components == "auto" else [n]
        width, alpha = widths[0], self.alpha
        if self._to_choose:
            assert prefs is not None
            prefs.check_rows(Q.shape[0], D.shape[0])
            alphas = ALPHAS if self.alpha == "auto" else (self.alpha,)
            loss = _losses(U, V, Q, D, prefs, widths, [1.0 if a is None else float(a) for a in alphas])
            i, j = np.unravel_index(int(np.argmin(loss)), loss.shape)
            width, alpha = widths[i], alphas[j]
            self.rank_loss_ = float(loss[i, j])
        tied = U is V
        U = np.ascontiguousarray(U[:, :width])
        V = U if tied else np.ascontiguousarray(V[:, :width])
        share = 1.0 if alpha is None else float(alpha)
        cosine = LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True, scale=share)
        parts: list[Part] = [cosine]
        if share < 1:
            parts.append(Identity(n_terms=V.shape[0], scale=1 - share))
        self._keep(Weights(parts), None if alpha is None else share)
        return self

    def _keep(self, weights: Weights, alpha: float | None) -> None:
        self._weights = weights
        self.alpha_ = alpha
        assert isinstance(weights.parts[0], LowRank)
        self.n_components_ = weights.parts[0].query_factors.shape[1]
        self.n_features_in_, self.n_doc_features_ = weights.shape

    @property
    def weights_(self) -> Weights:
        check_is_fitted(self)
        return self._weights

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        check_is_fitted(self)
        weights, arrays = self._weights.to_state()
        meta, _ = encode(SavedLSI(weights, self.alpha_, getattr(self, "rank_loss_", None)))
        return {"class": type(self).__name__, "params": self._saved_params(), **meta}, arrays

    @classmethod
    def _from_bundle(cls, params: dict[str, Any], saved: SavedRanker) -> Self:
        ranker = cls._with_params(params, saved.where)
        stored = decode(SavedLSI, saved.meta, where=saved.where)
        weights = Weights.from_state(stored.weights, saved.arrays)
        kinds = [type(part) for part in weights.parts]
        if kinds not in ([LowRank], [LowRank, Identity]):
            raise DamagedBundleError(f"{saved.where}: an LSIRanker is a low-rank part, or one and the identity")
        ranker._keep(weights, stored.alpha)
        if stored.rank_loss is not None:
            ranker.rank_loss_ = stored.rank_loss
        return ranker


@dataclass(frozen=True)
class SavedLSI:
    """Saved LSIRanker without class and parameters; the arrays belong to its weights."""

    weights: dict[str, Any]
    alpha: float | None
    rank_loss: float | None


def directions_of(texts: sparse.csr_array, name: str, n_components: int, seed: int) -> NDArray[np.float32]:
    """Return the leading right singular vectors, (n_terms, n), at most ``n_components``."""
    n = min(n_components, *texts.shape)
    seed = int(seed) % 2**32  # the largest seed of scikit-learn
    if min(texts.shape) <= _EXACT_UP_TO:
        size, directions = _exact_directions(texts, n)
    else:  # fixes the signs, too
        _, size, directions = randomized_svd(texts, n, n_iter=5, random_state=seed)
    if not size[0] > 0:
        raise InputError(f"{name} has no word in any text; there is no direction to find")
    # Beyond the rank, directions are rounding errors.
    rank = int((size > size[0] * max(texts.shape) * np.finfo(np.float32).eps).sum())
    leading = np.ascontiguousarray(directions[:rank].T.astype(np.float32))
    # Entries this small are rounding errors, too: a text of such words alone must not get a cosine.
    leading[np.abs(leading) < 8 * np.finfo(np.float32).eps] = 0
    return leading


def common_directions(
    queries: sparse.csr_array, docs: sparse.csr_array, n_components: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return factors of query and document words from texts in two vocabularies whose rows i mean the same."""
    side_by_side = sparse.csr_array(sparse.hstack([queries, docs], format="csr"))
    directions = directions_of(side_by_side, "the parallel texts", n_components, seed)
    n = queries.shape[1]
    return directions[:n].copy(), directions[n:].copy()


def checked_translations(translations: Any, n_queries: int, n_docs: int) -> NDArray[np.int64]:
    """Check pairs (row of Q, row of D)."""
    pairs = np.asarray(translations)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu" or not len(pairs):
        raise InputError(f"translations must be integer pairs (row of Q, row of D); got {pairs.dtype} of {pairs.shape}")
    outside = (pairs < 0) | (pairs >= (n_queries, n_docs))
    if outside.any():
        first = int(outside.any(axis=1).argmax())
        raise InputError(
            f"translations[{first}] is {tuple(pairs[first].tolist())}; there are {n_queries} and {n_docs} rows"
        )
    return pairs.astype(np.int64)


def _exact_directions(texts: sparse.csr_array, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the n largest singular values, and right singular vectors in rows, from the inner products of all texts.

    A randomized decomposition would mix hundreds of directions of nearly the same strength.
    """
    by_words = texts.shape[1] <= texts.shape[0]
    if by_words and is_mapped(texts.data):
        products = np.zeros(2 * (texts.shape[1],))
        for block in row_blocks(texts):
            rows = block.astype(np.float64)
            products += (rows.T @ rows).toarray()
    else:  # mapped texts: a sample, processed at once
        X = texts.astype(np.float64)
        products = (X.T @ X if by_words else X @ X.T).toarray()
    last = products.shape[0] - 1
    squares, vectors = eigh(products, subset_by_index=[last + 1 - n, last], overwrite_a=True, check_finite=False)
    size = np.sqrt(np.maximum(squares[::-1], 0.0))
    directions = vectors[:, ::-1] if by_words else X.T @ vectors[:, ::-1]
    length = np.linalg.norm(directions, axis=0)
    directions = np.divide(directions, length, out=np.zeros_like(directions), where=length > 0)
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(n)]
    return size, (
        directions * np.where(largest < 0, -1.0, 1.0)
    ).T  # signs: the largest entry of each direction is positive


def _rank_loss(margins: NDArray[np.float64], weight: NDArray[np.float32] | None) -> float:
    """Return the share of preferences in the wrong order, ties included."""
    return float(np.average(margins <= 0, weights=weight))


def _losses(
    U: NDArray[np.float32],
    V: NDArray[np.float32],
    Q: sparse.csr_array,
    D: sparse.csr_array,
    prefs: Preferences,
    widths: list[int],
    alphas: list[float],
) -> NDArray[np.float64]:
    """Rank losses (n_widths, n_alphas): a text is folded in once, and each width is a part of the widest."""
    latent = np.empty((len(widths), len(prefs)))
    # Sort by query and better document: each block then needs few different texts.
    order = np.lexsort((prefs.worse, prefs.better, prefs.query))
    prefs = prefs[order]
    starts = [0, *widths[:-1]]  # first direction that each width adds
    buffers = max(1, _LATENT_BYTES // (8 * V.shape[1]))
    everything = np.unique(prefs.query).size + np.unique([prefs.better, prefs.worse]).size
    step = len(prefs) if everything <= buffers else max(1, buffers // 3)
    U, V = U.astype(np.float64), V.astype(np.float64)
    for start in range(0, len(prefs), step):
        piece = prefs[start : start + step]
        queries_met, query = np.unique(piece.query, return_inverse=True)
        used, doc = np.unique(np.stack([piece.better, piece.worse]), return_inverse=True)
        better, worse = doc.reshape(2, -1)
        uq, vd = Q[queries_met].astype(np.float64) @ U, D[used].astype(np.float64) @ V
        length, query_length = (np.sqrt(_by_width(latent * latent, starts)) for latent in (vd, uq))  # (n, n_widths)
        for first in range(0, len(piece), _PREFERENCES_AT_ONCE):
            part = slice(first, first + _PREFERENCES_AT_ONCE)
            cosine = [
                np.divide(inner, lengths, out=np.zeros_like(inner), where=lengths > 0)
                for rows in (better[part], worse[part])
                for inner in (_by_width(uq[query[part]] * vd[rows], starts),)
                for lengths in (length[rows] * query_length[query[part]],)
            ]
            latent[:, start + first : start + first + len(cosine[0])] = (cosine[0] - cosine[1]).T
    matching = matching_margins(Q, D, prefs) if min(alphas) < 1 else np.zeros(len(prefs))
    return np.array([[_rank_loss(a * row + (1 - a) * matching, prefs.weight) for a in alphas] for row in latent])


def _by_width(products: NDArray[np.float64], starts: list[int]) -> NDArray[np.float64]:
    """Sums over the first directions of each row, as many as each width has (n, n_widths)."""
    return np.cumsum(np.add.reduceat(products, starts, axis=1), axis=1)
