"""What every part of a bilinear form is, and how parts keep and check their arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError
from tercet.store import Fields, take_array
from tercet.weights.scoring import Matrix, score_expanded


class Pairs(NamedTuple):
    """Term pairs and what each adds to a score."""

    query_term: NDArray[np.int32]
    doc_term: NDArray[np.int32]
    contribution: NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part(ABC):
    """One scaled part of W, ``scale * part`` (n_query_terms, n_doc_terms)."""

    kind: ClassVar[str]
    scale: float = 1.0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """How many numbers the part keeps."""

    @abstractmethod
    def expand(self, Q: Matrix) -> Any:
        """Rows ``q'W`` (n_q, n_doc_terms), sparse where W is, dense where W is."""

    @abstractmethod
    def block(self, query_terms: NDArray[Any], doc_terms: NDArray[Any]) -> NDArray[np.float64]:
        """``W[query_terms][:, doc_terms]``, dense, without a per-document scale."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]: ...

    @classmethod
    @abstractmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self: ...

    def meta(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": float(self.scale), "shape": list(self.shape)}

    def score(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """All scores (n_q, n_d), dense, in double precision."""
        return score_expanded(self.expand_block, Q, D)

    def expand_block(self, Q: Matrix) -> Any:
        """``expand``, sparse or dense as is faster to make and to score with."""
        return self.expand(Q)

    def score_rows(self, Q: Matrix, D: Matrix) -> NDArray[np.float64]:
        """Scores (n,) of row i of Q with row i of D."""
        expanded = self.expand(Q)
        if sparse.issparse(expanded):
            return np.asarray(expanded.multiply(D.astype(np.float64)).sum(axis=1)).ravel()
        return np.asarray(D.astype(np.float64).multiply(expanded).sum(axis=1)).ravel()

    def doc_scale(self, D: Matrix) -> NDArray[np.float64] | None:
        """What each document's scores are multiplied by (n_d,); None where W is all there is to a score."""
        return None

    def pairs(self, q: Matrix, d: Matrix) -> Pairs:
        """The pairs behind the score of the one-row matrices q and d; zeros are left out."""
        block = self.block(q.indices, d.indices)
        contribution = q.data[:, None].astype(np.float64) * block * d.data[None, :].astype(np.float64)
        doc_scale = self.doc_scale(d)
        if doc_scale is not None:
            contribution *= doc_scale
        a, b = np.nonzero(contribution)
        return Pairs(q.indices[a].astype(np.int32), d.indices[b].astype(np.int32), contribution[a, b])

    def plain(self) -> Part:
        """The same W as an identity, a diagonal, a dense, a sparse or a low-rank part; the part itself where it is one.

        Where that would be too large, it raises `MemoryLimitError`.
        """
        return self

    def scaled(self, factor: float) -> Self:
        """The same part, its arrays shared, with another scale."""
        other = copy(self)
        object.__setattr__(other, "scale", self.scale * factor)
        return other


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A view nobody can write through; copies only when the caller could still change it."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def check_finite(array: NDArray[Any], what: str) -> None:
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{what}{list(at)} is {array[at]}; weights are finite")


def take_shape(fields: Fields) -> tuple[int, int]:
    shape = fields.take("shape", list)
    if len(shape) != 2 or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
        raise DamagedBundleError(f"a part has shape {shape}; expected two numbers of terms")
    return shape[0], shape[1]


def frozen_csr(matrix: Any, name: str) -> Matrix:
    """A copy as parts keep it: float32, each column of a row once and in order, no zeros, read-only."""
    kept = sparse.csr_array(matrix, dtype=np.float32, copy=True)
    kept.sum_duplicates()
    kept.eliminate_zeros()
    check_finite(kept.data, f"{name}.data")
    kept.indptr, kept.indices = kept.indptr.astype(np.int64), kept.indices.astype(np.int32)
    for array in (kept.data, kept.indices, kept.indptr):
        array.flags.writeable = False
    return kept


def csr_arrays(matrix: Matrix) -> dict[str, NDArray[Any]]:
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}


def take_csr(arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Matrix:
    """The matrix of that shape that `csr_arrays` gave."""
    indptr = take_array(arrays, "indptr", np.int64, (shape[0] + 1,))
    data = take_array(arrays, "data", np.float32, 1)
    indices = take_array(arrays, "indices", np.int32, (data.size,))
    rising = indptr[0] == 0 and indptr[-1] == data.size and not (np.diff(indptr) < 0).any()
    if not rising or (data.size and not (indices.min() >= 0 and indices.max() < shape[1])):
        raise DamagedBundleError("a sparse matrix's row pointers or columns are out of range")
    return sparse.csr_array((data, indices, indptr), shape=shape)
