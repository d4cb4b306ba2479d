"""A bilinear map between the vectors of queries and documents: ``x'Mz``, learned from preferences.

M starts from a multiple of the identity: vectors are first compared unchanged. A batch of preferences is one step: the
better document of each query against the worse documents of the whole batch by the softmax loss, or against its own
worse document alone. The result is the mean of M over all steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.data.sampling import Sampler
from tercet.errors import DivergedError
from tercet.text.fielded import ColumnLayout
from tercet.weights import LowRank, Mapped, Part, Weights

BATCH: Final = 512  # preferences of a step


@dataclass(frozen=True)
class MapSetting:
    """Setting of a learned map.

    Attributes
    ----------
    rate : of the first step, falling to zero at the last; 0 keeps vectors unchanged
    identity_weight : of the start, for vectors of mean length 1: the larger, the more only near misses count
    against : rivals of the better document: the worse documents of the whole batch, or its own
    """

    rate: float
    identity_weight: float = 20.0
    against: Literal["batch", "own"] = "batch"

    @property
    def label(self) -> str:
        """The setting in a few words."""
        if not self.rate:
            return "as they are"
        other = "" if self.against == "batch" else ", each against its own worse document"
        return f"by a map, rate {self.rate:g}{other}"


def learned_map(
    queries: NDArray[np.float32],
    docs: NDArray[np.float32],
    sampler: Sampler,
    setting: MapSetting,
    *,
    n_steps: int,
    random_state: int = 0,
) -> NDArray[np.float32]:
    """Return M (n_dims, n_dims), for the given vectors.

    With ``s_ij = x_i'M z_j`` the loss of query i is ``log(1 + sum_j exp(s_ij - s_i+))`` over the worse documents j.

    Parameters
    ----------
    queries, docs : (n_q, n_dims) and (n_d, n_dims), by the rows of the sampler
    sampler : draws preferences
    n_steps : number of preferences, drawn in batches

    Notes
    -----
    A step costs O(n_dims² + n_dims · batch) for each preference, in products of matrices.

    Examples
    --------
    >>> from tercet.data.preferences import PreferenceSampler
    >>> X, Z = np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[::-1]
    >>> drawn = PreferenceSampler(Preferences([0, 1], [0, 1], [1, 0]))  # document 0 answers query 0
    >>> M = learned_map(X, Z, drawn, MapSetting(20.0, 1.0), n_steps=20_000)
    >>> bool(M[0, 1] > M[0, 0])
    True
    """
    n_dims = queries.shape[1]
    scales = [_mean_length(vectors) for vectors in (queries, docs)]
    M = np.eye(n_dims) * setting.identity_weight
    if not setting.rate:
        return (M / (scales[0] * scales[1])).astype(np.float32)
    X, Z = (vectors / np.float32(scale) for vectors, scale in zip((queries, docs), scales, strict=True))
    total = np.zeros_like(M)
    rng = np.random.default_rng(random_state)
    n_batches = max(1, n_steps // BATCH)
    for step in range(n_batches):
        prefs = Preferences(*sampler.draw(rng, BATCH))
        slope = _slope(M.astype(np.float32), X[prefs.query], Z[prefs.better], Z[prefs.worse], prefs.weight, setting)
        M += setting.rate * (1 - step / n_batches) * slope
        total += M
    if not np.isfinite(total).all():
        raise DivergedError(f"the map between own vectors grew beyond all bounds at a rate of {setting.rate:g}")
    return (total / n_batches / (scales[0] * scales[1])).astype(np.float32)


def _slope(
    M: NDArray[np.float32],
    x: NDArray[np.float32],
    better: NDArray[np.float32],
    worse: NDArray[np.float32],
    weight: NDArray[np.float32] | None,
    setting: MapSetting,
) -> NDArray[np.float32]:
    """By which M has to change for the loss of a batch to fall, for each of its queries in the mean."""
    adapted = x @ M  # (n, n_dims)
    right = np.einsum("ij,ij->i", adapted, better)[:, None]
    wrong = adapted @ worse.T if setting.against == "batch" else np.einsum("ij,ij->i", adapted, worse)[:, None]
    largest = np.maximum(wrong.max(axis=1, keepdims=True), right)
    right, wrong = np.exp(right - largest), np.exp(wrong - largest)
    share = wrong / (right + wrong.sum(axis=1, keepdims=True))  # (n, n_worse), what each worse document has
    if weight is not None:
        share *= weight[:, None]
    pushed = share @ worse if setting.against == "batch" else share * worse
    slope: NDArray[np.float32] = x.T @ (share.sum(axis=1, keepdims=True) * better - pushed) / np.float32(len(x))
    return slope


def _mean_length(vectors: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)).mean()) or 1.0


# -- as a part of W ---------------------------------------------------------------------------------------------------


def vector_map(M: NDArray[np.float32], layout: ColumnLayout) -> Weights:
    """``x'Mz`` as weights between all columns: the latent vector of a document is its own vector, as it was given.

    Examples
    --------
    >>> W = vector_map(np.array([[2]], dtype=np.float32), ColumnLayout(1, 0, 0, 1))
    >>> W.rows(np.array([3])).tolist()  # a word, what all queries have, a document's vector, a query's
    [[0.0, 0.0, 2.0, 0.0]]
    """
    to_docs, to_queries = (_selected(dims, layout) for dims in (layout.doc_dims, layout.query_dims))
    as_given = np.eye(layout.n_dims, dtype=np.float32)
    return Weights([Mapped(A=to_queries, B=to_docs, part=LowRank(query_factors=M, doc_factors=as_given))])


def _selected(dims: slice, layout: ColumnLayout) -> sparse.csr_array:
    ones, rows = np.ones(layout.n_dims, np.float32), np.arange(layout.n_dims)
    return sparse.csr_array((ones, (rows, rows + dims.start)), shape=(layout.n_dims, layout.n_columns))


def is_vector_map(part: Part, layout: ColumnLayout) -> bool:
    """Return True for a part between own vectors alone."""
    first = layout.query_dims.start
    return layout.n_dims > 0 and isinstance(part, Mapped) and bool(part.A.nnz) and part.A.indices.min() >= first


def map_of(weights: Weights, layout: ColumnLayout) -> NDArray[np.float64]:
    """Return M (n_dims, n_dims) of weights between all columns; zeros without a map."""
    rows, columns = (np.arange(dims.start, dims.stop) for dims in (layout.query_dims, layout.doc_dims))
    parts = [part.block(rows, columns) for part in weights.parts if is_vector_map(part, layout)]
    return sum(parts, np.zeros((layout.n_dims, layout.n_dims)))
