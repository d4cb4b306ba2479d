"""Checks of what comes in, and rows grouped by their query."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError, InputError, MemoryLimitError
from tercet.learn.rls.comparisons import parts_of
from tercet.learn.state import physical_memory
from tercet.store import take_array

Places = NDArray[np.int64]


def check_memory(n: int, n_matrices: int) -> None:
    """Raise a MemoryLimitError where so many n × n matrices are more than this machine has memory for."""
    _check_bytes(
        8 * n_matrices * n * n, f"a kernel of {n:,} basis vectors, or features,", "a smaller n_basis needs less"
    )


def check_centres(n_basis: int, n_features: int) -> None:
    """The same for the centres of k-means, which are dense and held twice."""
    what = f"k-means with {n_basis:,} centres of {n_features:,} features"
    _check_bytes(16 * n_basis * n_features, what, "basis='random' and 'leverage' need less")


def _check_bytes(needed: int, what: str, instead: str) -> None:
    there = physical_memory()
    if needed > there:
        raise MemoryLimitError(
            f"{what} needs {needed / 2**30:.1f} GiB, but this machine has {there / 2**30:.1f} GiB; {instead}"
        )


def checked_folds(folds: Any, query: Places) -> Places:
    """The fold of each row; an InputError where one query is in two, or all are in one."""
    try:
        fold_of_row = np.asarray(folds)
    except ValueError:
        raise InputError(f"folds must have a whole number for each of {len(query)} rows; got rows of numbers") from None
    if fold_of_row.shape != query.shape or fold_of_row.dtype.kind not in "iu":
        raise InputError(f"folds must have a whole number for each of {len(query)} rows; got shape {fold_of_row.shape}")
    first = np.unique(query, return_index=True)[1]
    apart = fold_of_row != fold_of_row[first[query]]
    if apart.any():
        row = int(apart.argmax())
        other = int(first[query[row]])
        raise InputError(
            f"folds[{row}] is {fold_of_row[row]}, but row {other} of the same query is in fold {fold_of_row[other]}; "
            "a query must be in one fold"
        )
    return fold_of_row.astype(np.int64)


def check_kernel_matrix(K: Any, basis: Places | None) -> None:
    """Raise an InputError where a given matrix cannot be the kernel of its rows, or of its rows with the basis."""
    n_rows, n_columns = K.shape
    if n_columns != n_rows:
        if basis is None or n_columns != len(basis):
            raise InputError(
                f"X has shape {K.shape}; with kernel='precomputed' it must have a column for each of its {n_rows} rows"
                + ("" if basis is None else f", or for each of the {len(basis)} rows of n_basis")
            )
        K, names = K[basis], basis
    else:
        names = np.arange(n_rows)
    for part in parts_of(len(names), len(names)):
        block, mirrored = K[part], K[:, part].T
        block, mirrored = (each.toarray() if sparse.issparse(each) else each for each in (block, mirrored))
        wrong = np.abs(block - mirrored) > 1e-8 * max(float(np.abs(block).max()), np.finfo(np.float64).tiny)
        if wrong.any():
            row, column = (int(index) for index in np.argwhere(wrong)[0])
            raise InputError(
                f"the kernel of rows {names[part][row]} and {names[column]} is {block[row, column]}, but the other way "
                f"round {mirrored[row, column]}; a kernel matrix is symmetric"
            )
    own = K.diagonal()
    if (own < 0).any():
        index = int((own < 0).argmax())
        raise InputError(f"the kernel of row {names[index]} with itself is {own[index]}; it must not be below 0")


def saved_basis(arrays: dict[str, NDArray[Any]], shape: tuple[int, int], where: str) -> Any:
    """The basis vectors of a bundle, dense or CSR, checked."""
    if "basis" in arrays:
        return take_array(arrays, "basis", np.float64, shape, where=where).copy()
    whole = (np.int32, np.int64)
    data = take_array(arrays, "basis_data", np.float64, 1, where=where).copy()
    indices = take_array(arrays, "basis_indices", whole, 1, where=where).copy()
    indptr = take_array(arrays, "basis_indptr", whole, (shape[0] + 1,), where=where).copy()
    try:
        basis = sparse.csr_array((data, indices, indptr), shape=shape)
        basis.check_format(full_check=True)
    except ValueError as error:
        raise DamagedBundleError(f"{where}: the basis is no matrix: {error}") from error
    return basis
