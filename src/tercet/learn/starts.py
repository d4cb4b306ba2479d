"""Starts of low rank: random factors, latent directions of documents, class scores, other weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from tercet.data.sampling import LabelSampler
from tercet.errors import InputError, ParameterError
from tercet.learn.base import TermPairRanker
from tercet.learn.matrices import by_document_frequency
from tercet.learn.sources import SampledSource, Source
from tercet.weights import Diagonal, Identity, LowRank, Weights

Factors = tuple[
    NDArray[np.float32], NDArray[np.float32]
]  # factors of query words and of document words, one row per word

# Query and document words whose factors stay zero, 1 for each such word.
Rare = tuple[NDArray[np.uint8], NDArray[np.uint8]]


CLASS_PENALTY = 1.0  # ridge penalty of class scores, in units of the mean squared length of the texts
CLASS_SCALE = 3.0  # scale of U'U: texts that the classes separate exceed the margin and cause no steps

# Squared length of a latent direction, over the words of both sides, where cosines are learned from other than noise.
COSINE_SQUARE = 50.0


def normal_factors(n: int, m: int | None, n_components: int, spread: float, seed: int) -> Factors:
    """Random factors of n query and m document words; None: the query's factors are those of the documents."""
    rng = np.random.default_rng(seed)
    U, V = (rng.standard_normal((size, n_components), dtype=np.float32) * np.float32(spread) for size in (n, m or 0))
    return U, U if m is None else V


def latent_directions(
    D: sparse.csr_array, n_components: int, seed: int, keep: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest singular values of the documents, and their right singular vectors in columns."""
    if n_components >= min(D.shape):
        raise InputError(
            f"start='lsi' finds fewer than {min(D.shape)} directions in documents of shape {D.shape}; "
            f"n_components is {n_components}"
        )
    seed = int(seed) % 2**32  # the largest seed of scikit-learn
    if keep is not None:
        D = sparse.csr_array((D.data * keep[D.indices], D.indices, D.indptr), shape=D.shape)
    _, size, directions = randomized_svd(D, n_components, n_iter=2, random_state=seed)
    if not size[0] > 0:
        raise InputError("start='lsi' finds no direction in documents without a word; use start='random'")
    return size, directions.T


def shared_arguments(rankers: Iterable[TermPairRanker], D: sparse.csr_array) -> list[dict[str, Any]]:
    """Return arguments for the ``fit`` of each ranker; the documents are decomposed once for all rankers."""

    @cache
    def directions_of(n_components: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return latent_directions(D, n_components, seed, None)

    return [ranker._shared_arguments(directions_of) for ranker in rankers]


class LabeledRows(NamedTuple):
    """Documents with a known class: their rows, and the number of the class of each."""

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]


def labeled_rows(source: Source, n_docs: int) -> LabeledRows:
    """Return the rows and classes of the documents of a source that draws from labels."""
    if not (isinstance(source, SampledSource) and isinstance(source.sampler, LabelSampler)):
        raise ParameterError(
            "start='classes' needs the classes of documents: preferences drawn by SampledSource.from_labels"
        )
    sampler = source.sampler
    if sampler.classes.size != n_docs:
        raise InputError(f"there are {sampler.classes.size} labels and {n_docs} documents; each document has one")
    return LabeledRows(sampler.rows, sampler.classes[sampler.rows])


def class_scores(
    D: sparse.csr_array, labeled: LabeledRows, n_components: int, seed: int, keep: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """Return factors of words (n_terms, n) whose inner product with a text estimates its classes: ridge regression.

    With y a 1 for the class of a text and 0 for all others, less the share of each class, a column b minimizes
    ``sum over texts (b'x - y)^2 + penalty |b|^2``. z = B'x is then the linear estimate of a classifier's posteriors,
    and z(q)'z(d) of the chance that two texts belong to the same class. Each class has a column. More classes than
    ``n_components`` share columns: each class has a random direction of length 1, nearly orthogonal to the others.
    """
    from sklearn.linear_model import (
        Ridge,
    )  # imported here: the module loads many others, and few fits start from classes

    texts = sparse.csr_array(D[labeled.rows], dtype=np.float64)
    if keep is not None:
        texts.data *= keep[texts.indices]
    length = float(texts.power(2).sum()) / texts.shape[0]
    if length == 0:
        raise InputError("start='classes' finds nothing in documents without a word; use start='random'")
    _, codes = np.unique(labeled.classes, return_inverse=True)
    n_classes = int(codes.max()) + 1
    of_class = np.eye(n_classes)
    if n_classes > n_components:
        of_class = np.random.default_rng(seed).standard_normal((n_classes, n_components))
        of_class /= np.linalg.norm(of_class, axis=1, keepdims=True)
    target = of_class[codes]
    ridge = Ridge(alpha=CLASS_PENALTY * length, fit_intercept=False, solver="sparse_cg", tol=1e-3)
    B = np.atleast_2d(ridge.fit(texts, target - target.mean(axis=0)).coef_).T  # (n_terms, n)
    return np.ascontiguousarray((B * np.sqrt(CLASS_SCALE)).astype(np.float32))


def rare_words(texts: sparse.csr_array, n_frequent: int) -> NDArray[np.uint8]:
    """1 for each word that is not among the n in most texts; ties by column."""
    rare = np.zeros(texts.shape[1], dtype=np.uint8)
    rare[by_document_frequency(texts)[n_frequent:]] = 1
    return rare


def for_cosine(factors: Factors) -> Factors:
    """Scale factors to a length at which rates such as 0.1 are small steps; cosines stay the same.

    Directions of latent semantic indexing have length 1, and the effect of a rate grows with the inverse square length.
    """
    U, V = factors
    square = sum(float(np.einsum("ij,ij->", F, F, dtype=np.float64)) for F in (U, V)) / U.shape[1]
    scale = np.float32(np.sqrt(COSINE_SQUARE / square)) if square else np.float32(1)
    scaled = U * scale
    return scaled, scaled if U is V else V * scale


@dataclass(frozen=True)
class GivenStart:
    """Weights as the start of low rank: their factors and the form of their scores.

    diagonal : weight of each word, or None
    learned_diagonal : True if the diagonal is no multiple of the identity
    cosine, scaled : scores are cosines of latent vectors, or divided by the length of a document's latent vector
    """

    U: NDArray[np.float32]
    V: NDArray[np.float32]
    tied: bool
    diagonal: NDArray[np.float32] | None
    learned_diagonal: bool
    cosine: bool
    scaled: bool

    @classmethod
    def from_weights(cls, weights: Weights) -> GivenStart:
        """Return the start with the scores of these weights: one low-rank part, and at most a diagonal."""
        if not isinstance(weights, Weights):
            raise InputError(
                f"start must be Weights, such as the weights_ of a fitted ranker; got {type(weights).__name__}"
            )
        latent = [part for part in weights.parts if isinstance(part, LowRank)]
        offset = [part for part in weights.parts if isinstance(part, Identity | Diagonal)]
        if len(latent) != 1 or len(latent) + len(offset) != len(weights.parts):
            raise InputError(f"a start has one low-rank part, and at most a diagonal beside it; got {weights!r}")
        [part] = latent
        if part.scale <= 0:
            raise InputError(f"the low-rank part of a start counts {part.scale:g} times; it must count")
        cosine = part.unit_queries and part.typical_length is not None
        if cosine and offset:
            raise InputError(f"a cosine of latent vectors is learned alone, without what is beside it in {weights!r}")
        root = np.float32(1.0 if cosine else np.sqrt(part.scale))
        U = part.query_factors * root
        each = [
            summand.scale * (summand.weights if isinstance(summand, Diagonal) else np.ones(summand.shape[0]))
            for summand in offset
        ]
        diagonal = np.sum(each, axis=0).astype(np.float32) if offset else None
        return cls(
            U,
            U if part.tied else part.doc_factors * root,
            part.tied,
            diagonal,
            any(isinstance(summand, Diagonal) for summand in offset),
            cosine,
            part.typical_length is not None and not cosine,
        )

    def factors(self, n_components: int, shape: tuple[int, int], tied: bool) -> Factors:
        """Return copies of the factors, a single copy for a tied model."""
        if (self.U.shape[0], self.V.shape[0]) != shape:
            raise InputError(f"the start is of {self.U.shape[0]} × {self.V.shape[0]} words, Q and D have {shape}")
        if self.U.shape[1] != n_components:
            raise InputError(f"the start has {self.U.shape[1]} components; n_components is {n_components}")
        if tied and not self.tied:
            raise ParameterError("tied=True needs a start whose query and document factors are the same")
        U = self.U.copy()
        return U, U if tied else self.V.copy()


def turned(weights: Weights) -> Weights:
    """The same scores with queries and documents in each other's place; of low-rank weights.

    Examples
    --------
    >>> U, V = np.ones((2, 1), dtype=np.float32), np.ones((3, 1), dtype=np.float32)
    >>> turned(Weights([LowRank(query_factors=U, doc_factors=V)])).shape
    (3, 2)
    """
    parts = []
    for part in weights.parts:
        if not isinstance(part, LowRank) or (part.typical_length is not None) != part.unit_queries:
            raise InputError(f"{weights!r} has more than low-rank parts that treat queries and documents alike")
        parts.append(
            LowRank(
                query_factors=part.doc_factors,
                doc_factors=part.query_factors,
                typical_length=part.typical_length,
                unit_queries=part.unit_queries,
                scale=part.scale,
            )
        )
    return Weights(parts)
