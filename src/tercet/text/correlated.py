"""Rare words by correlated frequent words: correlated feature hashing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import is_integer, wrong_parameter
from tercet.errors import InputError
from tercet.kernels.correlated import best_by_dice
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds, Shape
from tercet.text.estimator import TextEstimator, check_fitted
from tercet.text.vectorizer import Vectorizer


@dataclass(frozen=True, eq=False)
class _SavedWords:
    """Saved state of correlated words."""

    n_frequent: Annotated[int, Bounds(least=1)]
    n_bins: Annotated[int, Bounds(least=1)]
    frequent: NDArray[np.int32]
    occur: Annotated[NDArray[np.int64], Shape("n_words", bounds=Bounds(least=0))]
    bins: Annotated[NDArray[np.int32], Shape("n_words", "n_bins")]
    dice: Annotated[NDArray[np.float32], Shape("n_words", "n_bins", bounds=Bounds(least=0, most=1))]
    unit: Literal["document", "sentence"] = "document"  # "sentence" in files of earlier versions

    def __post_init__(self) -> None:
        frequent, none = self.frequent, self.bins < 0
        rules = {
            f"'frequent' must be 1 to {self.n_frequent} words": 1 <= frequent.size <= self.n_frequent,
            f"'frequent' must be different columns below {self.occur.size}": (
                np.unique(frequent).size == frequent.size and _within(frequent, 0, self.occur.size)
            ),
            f"'bins' must lie between -1 and {frequent.size - 1}": _within(self.bins, -1, frequent.size),
            "'bins' must be -1 only after a word's last": not (none[:, :-1] & ~none[:, 1:]).any(),
            "'dice' must be 0 where there is no bin": not self.dice[none].any(),
        }
        for rule, holds in rules.items():
            if not holds:
                raise InputError(rule)


class CorrelatedWords(TextEstimator):
    """Replaces every word by its most correlated frequent words.

    Correlation is ``DICE(s, t) = 2 cooccur(s, t) / (occur(s) + occur(t))``. Both count units, such as documents; DICE
    is 1
    for words that always occur together. A word's *bins* are the `n_bins` frequent words with the largest DICE; ties
    go to
    the more frequent word, then to the lower column. A word has only bins with common units, perhaps none.

    A ranker then learns weights between frequent words only. With `matrix` as both maps of a `Mapped` part, the
    weights are
    shared as in Algorithm 1 of Bai et al. (2010); with one `Mapped` part for each of `matrices`, as in their
    equations 6
    and 7.

    Parameters
    ----------
    n_frequent : number of frequent words
    n_bins : number of bins of each word

    Attributes
    ----------
    frequent_ : columns of the frequent words, most frequent first, int32 of shape (n,), at most `n_frequent`
    bins_ : for each word its bins as positions in `frequent_`, best first, -1 for none, int32 of shape (n_words,
        n_bins)
    dice_ : DICE of each bin, float32 of shape (n_words, n_bins)
    occur_ : number of units with each word, int64 of shape (n_words,)
    n_features_in_ : the number of words

    Notes
    -----
    Time: some nanoseconds for each pair of a word and a frequent word of a unit. Memory: the texts' matrix, and 8
    bytes for
    each bin.

    Examples
    --------
    >>> texts = ["pearl harbor battleship", "battleship carriers", "pearl necklace"]
    >>> vectorizer = Vectorizer().fit(texts)
    >>> words = CorrelatedWords(n_frequent=3, n_bins=2).fit(texts, vectorizer=vectorizer)
    >>> [vectorizer.words_[column] for column in words.frequent_]
    ['battleship', 'pearl', 'carriers']
    >>> [(vectorizer.words_[column], round(dice, 2)) for column, dice in words.nearest(vectorizer.index_["harbor"])]
    [('battleship', 0.67), ('pearl', 0.67)]
    """

    frequent_: NDArray[np.int32]
    bins_: NDArray[np.int32]
    dice_: NDArray[np.float32]
    occur_: NDArray[np.int64]
    n_features_in_: int

    def __init__(self, *, n_frequent: int = 30_000, n_bins: int = 5) -> None:
        self.n_frequent = n_frequent
        self.n_bins = n_bins
        self._check_parameters()

    def fit(
        self, units: Any, y: None = None, *, vectorizer: Vectorizer | None = None, among: Any = None
    ) -> CorrelatedWords:
        """Count common occurrences.

        Parameters
        ----------
        units : texts, or a sparse matrix with a row for each unit and a column for each word (or other feature)
        vectorizer : fitted; gives texts their columns
        among : columns of possible frequent words; by default all, without the n-grams of a vectorizer
        """
        self._check_parameters()
        if sparse.issparse(units):
            occurs = sparse.csr_array(units, dtype=bool, copy=True)
        else:
            if vectorizer is None:
                raise InputError("texts have no columns without a fitted vectorizer; pass vectorizer=, or a matrix")
            occurs = vectorizer.transform_docs(units).astype(bool)
        occurs.sum_duplicates()
        occurs.eliminate_zeros()
        n_words = occurs.shape[1]
        if vectorizer is not None and n_words != vectorizer.n_features_in_:
            raise InputError(f"the matrix has {n_words} columns and the vectorizer {vectorizer.n_features_in_} words")
        occur = np.bincount(occurs.indices, minlength=n_words).astype(np.int64)
        candidates = _candidates(among, vectorizer, n_words)
        candidates = candidates[occur[candidates] > 0]
        if not candidates.size:
            raise InputError("none of the words that may serve as frequent words occurs")
        order = np.lexsort((candidates, -occur[candidates]))
        frequent = candidates[order[: self.n_frequent]]
        bins, dice = _best_by_dice(occurs, occur, frequent, self.n_bins)
        self._remember(frequent.astype(np.int32), bins, dice, occur)
        return self

    def matrix(self, variant: str = "mean", *, only_rare: bool = False) -> sparse.csr_array:
        """Return the map from words to bins, CSR float32 of shape ``(len(frequent_), n_words)``.

        ``"mean"`` has 1/√n_bins for each bin: ``(Mq)'W(Md)`` is the score with the features of Algorithm 1,
        ``ab'/n_bins`` with
        a and b the sums over bins. ``"first"`` replaces each word by its best bin alone. With ``only_rare`` the
        frequent words
        themselves are mapped to nothing.
        """
        check_fitted(self, "bins_")
        if variant == "first":
            return self._map(0, 1, 1.0, only_rare)
        if variant == "mean":
            return self._map(0, self.n_bins, 1 / np.sqrt(self.n_bins), only_rare)
        raise InputError(f"variant must be 'mean' or 'first'; got {variant!r}")

    def matrices(self, *, only_rare: bool = False) -> list[sparse.csr_array]:
        """Return one map for each position among the bins, with 1/√n_bins for each word; their sum is `matrix`.

        The sum of ``(M_p q)'W(M_p d)`` is the score with the features of equations 6 and 7: a word's p-th bin meets
        only the
        p-th bins of other words.
        """
        check_fitted(self, "bins_")
        return [self._map(p, p + 1, 1 / np.sqrt(self.n_bins), only_rare) for p in range(self.n_bins)]

    def nearest(self, column: int, k: int | None = None) -> list[tuple[int, float]]:
        """The k frequent words (columns) with the largest DICE to a word, best first; all its bins without k."""
        check_fitted(self, "bins_")
        if not is_integer(column, 0, self.n_features_in_ - 1):
            raise InputError(f"column {column!r} does not exist; there are {self.n_features_in_}")
        if k is not None and not is_integer(k, 1, self.n_bins):
            raise InputError(f"k must be from 1 to the {self.n_bins} bins that are kept; got {k!r}")
        bins = self.bins_[column, :k]
        is_bin = bins >= 0
        return list(zip(self.frequent_[bins[is_bin]].tolist(), self.dice_[column, :k][is_bin].tolist(), strict=True))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the learned state as JSON values and arrays."""
        check_fitted(self, "bins_")
        saved = _SavedWords(
            n_frequent=int(self.n_frequent),
            n_bins=int(self.n_bins),
            frequent=self.frequent_,
            occur=self.occur_,
            bins=self.bins_,
            dice=self.dice_,
        )
        return encode(saved)

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> CorrelatedWords:
        """Return the words of a state; raise `DamagedBundleError` for a bad state."""
        saved = decode(_SavedWords, meta, arrays, where="correlated words")
        words = cls(n_frequent=saved.n_frequent, n_bins=saved.n_bins)
        words._remember(saved.frequent, saved.bins, saved.dice, saved.occur)
        return words

    def _remember(
        self,
        frequent: NDArray[np.int32],
        bins: NDArray[np.int32],
        dice: NDArray[np.float32],
        occur: NDArray[np.int64],
    ) -> None:
        self.frequent_, self.bins_, self.dice_, self.occur_ = frequent, bins, dice, occur
        self.n_features_in_ = occur.size

    def _map(self, first: int, last: int, share: float, only_rare: bool) -> sparse.csr_array:
        is_bin = self.bins_[:, first:last] >= 0
        if only_rare:
            is_bin[self.frequent_] = False
        word, number = np.nonzero(is_bin)
        row = self.bins_[word, first + number]
        shares = np.full(row.size, share, dtype=np.float32)
        shape = (self.frequent_.size, self.n_features_in_)
        return sparse.csr_array((shares, (row, word.astype(np.int32))), shape=shape)

    def _check_parameters(self) -> None:
        for name in ("n_frequent", "n_bins"):
            if not is_integer(getattr(self, name), 1):
                raise wrong_parameter("CorrelatedWords", name, "an integer from 1", getattr(self, name))


def _best_by_dice(
    occurs: sparse.csr_array, occur: NDArray[np.int64], frequent: NDArray[np.int64], n_bins: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the bins of every word and their DICE, (n_words, n_bins) each."""
    bins = np.full((occurs.shape[1], n_bins), -1, dtype=np.int32)
    dice = np.zeros((occurs.shape[1], n_bins), dtype=np.float32)
    counts, seen = np.zeros((2, frequent.size), dtype=np.int32)
    by_word, by_unit = (
        (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
        for matrix in (occurs.T.tocsr(), occurs[:, frequent])
    )
    best_by_dice(by_word, by_unit, occur, occur[frequent], counts, seen, np.empty(n_bins), bins, dice)
    return bins, dice


def _candidates(among: Any, vectorizer: Vectorizer | None, n_words: int) -> NDArray[np.int64]:
    """Return the columns of possible frequent words."""
    if among is not None:
        columns = np.asarray(among)
        if columns.ndim != 1 or columns.dtype.kind not in "iu" or not _within(columns, 0, n_words):
            raise InputError(f"among must be columns, integers from 0 to {n_words - 1} in a row")
        return np.unique(columns).astype(np.int64)
    if vectorizer is None or vectorizer.analyzer is None or vectorizer.analyzer.ngrams == (1, 1):
        return np.arange(n_words)
    single = np.flatnonzero([" " not in word for word in vectorizer.words_])
    if not single.size:
        raise InputError(
            f"the vectorizer has no single words to serve as frequent words, but ngrams={vectorizer.analyzer.ngrams}; "
            "begin with 1, or pass among="
        )
    return single


def _within(values: NDArray[Any], least: int, end: int) -> bool:
    return not values.size or bool(values.min() >= least and values.max() < end)
