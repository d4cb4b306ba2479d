"""Choice of the training rows that are basis vectors: at random or by leverage scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from tercet.errors import InputError, MemoryLimitError
from tercet.learn.rls.kernels import Columns, GivenColumns, Kernel, KernelColumns
from tercet.learn.rls.solving import Alone, Vector, check_finite, parts_of
from tercet.learn.state import physical_memory

Places = NDArray[np.int64]


def given_rows(n_basis: Any, n_rows: int) -> Places:
    """Row numbers that were given for a basis, checked; repeats stay."""
    try:
        rows = np.asarray(n_basis)
    except ValueError:
        raise InputError("n_basis must be a number, or row numbers; got rows of different lengths") from None
    if rows.ndim != 1 or not rows.size or rows.dtype.kind not in "iu":
        raise InputError(
            f"n_basis must be a number, or row numbers, at least one; got shape {rows.shape} of dtype {rows.dtype}"
        )
    wrong = (rows < 0) | (rows >= n_rows)
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"n_basis[{first}] is row {rows[first]}, but X has {n_rows} rows (0 to {n_rows - 1})")
    return rows.astype(np.int64)


def chosen_rows(way: str, n_basis: int, kernel: Kernel, X: Any, seed: int) -> Places:
    """So many rows in rising order.

    Parameters
    ----------
    way : "random" or "leverage", which costs O(n_rows n_basis²)
    """
    n_rows = X.shape[0]
    if n_basis > n_rows:
        raise InputError(f"n_basis is {n_basis}, but X has {n_rows} rows (n_samples={n_rows}); None takes them all")
    rng = np.random.default_rng(seed)
    if way == "random" or n_basis == n_rows:
        return np.sort(rng.choice(n_rows, n_basis, replace=False))
    return _by_leverage(n_basis, kernel, X, rng)


def _by_leverage(n_basis: int, kernel: Kernel, X: Any, rng: np.random.Generator) -> Places:
    """Rows drawn with chances by their ridge leverage, which is how much of the kernel only they and their like say.

    Leverage is found from what a few rows tell of the kernel: first of rows drawn at random, then of rows drawn by the
    leverage that these gave, so that small groups of rows which the first did not see are known at last.
    """
    n_rows = X.shape[0]
    rows = np.sort(rng.choice(n_rows, n_basis, replace=False))
    own = np.asarray(X.diagonal(), dtype=np.float64) if kernel.name == "precomputed" else kernel.diagonal(X)
    for is_last in (False, True):
        columns: Columns
        if kernel.name == "precomputed":
            columns = GivenColumns(X, rows, rows)
        else:
            columns = KernelColumns(kernel, X, X[rows])
        # What is not known is counted in full for every row that has it, though rows may share it: first only.
        rows = _drawn(_leverage(columns, None if is_last else own, n_rows), n_basis, rng)
    return rows


def _leverage(columns: Columns, own: Vector | None, n_rows: int) -> Vector:
    """The ridge leverage of each row, as far as these columns know the kernel.

    The ridge is such that it adds up to half of as many functions as the columns can tell apart. With the kernel's
    diagonal ``own`` comes what the columns do not know, at most 1 for a row.
    """
    own_kernel = columns.gram()
    check_finite(own_kernel)
    values, V = linalg.eigh(own_kernel, check_finite=False)
    good = values > 1e-8 * max(float(values.max(initial=0.0)), np.finfo(np.float64).tiny)
    if not good.any():
        raise InputError("the kernel of the rows drawn for a basis is 0; there is nothing to tell rows apart by")
    root = V[:, good] / np.sqrt(values[good])  # K root are orthonormal functions of the rows
    lower, _ = Alone(np.zeros(n_rows), np.arange(n_rows)).moments(columns)
    check_finite(lower)
    gram = lower + np.tril(lower, -1).T
    values, V = linalg.eigh(root.T @ gram @ root, check_finite=False)
    values = np.maximum(values, 0.0)
    ridge = _ridge_of(values, len(values) / 2)
    ridged = root @ (V / np.sqrt(values + ridge))
    leverage = np.empty(n_rows)
    for part in parts_of(n_rows, columns.n_columns):
        block = columns.block(part)
        leverage[part] = np.minimum(((block @ ridged) ** 2).sum(axis=1), 1.0)
        if own is not None:
            unknown = own[part] - ((block @ root) ** 2).sum(axis=1)
            leverage[part] += np.clip(unknown / ridge, 0.0, 1.0)
    return leverage


def _drawn(leverage: Vector, n: int, rng: np.random.Generator) -> Places:
    """So many different rows, with chances that are proportional to leverage but at most 1.

    Rows are taken where a ladder of even steps meets the sum of the chances up to them: of every run of rows as many
    as their chances add up to, but for one.
    """
    weight = leverage + 1e-9 * float(leverage.max())
    chance = np.zeros(len(weight))
    while True:  # rows that are certain leave the others more
        certain = chance >= 1.0
        left = n - int(certain.sum())
        chance = np.where(certain, 1.0, weight * (left / max(float(weight[~certain].sum()), np.finfo(np.float64).tiny)))
        if not ((chance >= 1.0) & ~certain).any():
            break
    steps = np.floor(np.cumsum(chance) - rng.random()).astype(np.int64)
    drawn = np.flatnonzero(np.diff(steps, prepend=-1) > 0)[:n]
    # Rounding of the sum can leave one too few.
    others = np.setdiff1d(np.arange(len(weight)), drawn)
    return np.sort(np.concatenate([drawn, rng.choice(others, n - len(drawn), replace=False)]))


def _ridge_of(values: Vector, dimension: float) -> float:
    """The ridge with which the sum of ``v / (v + ridge)`` is this dimension, or as little as rounding allows."""
    largest = float(values.max(initial=0.0))
    least = 1e-12 * max(largest, np.finfo(np.float64).tiny)

    def beyond(log_ridge: float) -> float:
        return float((values / (values + np.exp(log_ridge))).sum()) - dimension

    low, high = np.log(least), np.log(least) + 60.0
    if beyond(low) <= 0.0:
        return least
    return float(np.exp(optimize.brentq(beyond, low, high)))


# -- memory -----------------------------------------------------------------------------------------------------------


def check_memory(n: int, n_matrices: int) -> None:
    """Raise a MemoryLimitError where so many n × n matrices are more than this machine has memory for."""
    _check_bytes(
        8 * n_matrices * n * n, f"a kernel of {n:,} basis vectors, or features,", "a smaller n_basis needs less"
    )


def _check_bytes(needed: int, what: str, instead: str) -> None:
    there = physical_memory()
    if needed > there:
        raise MemoryLimitError(
            f"{what} needs {needed / 2**30:.1f} GiB, but this machine has {there / 2**30:.1f} GiB; {instead}"
        )
