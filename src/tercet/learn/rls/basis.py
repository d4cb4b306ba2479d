"""Training rows in the role of basis vectors, and the memory of their kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError, MemoryLimitError
from tercet.learn.state import physical_memory

Places = NDArray[np.int64]


def given_rows(n_basis: Any, n_rows: int) -> Places:
    """Check given row numbers of a basis; repeats stay."""
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


def random_rows(n_basis: int, n_rows: int, seed: int) -> Places:
    """Return ``n_basis`` row numbers drawn at random, in rising order."""
    if n_basis > n_rows:
        raise InputError(f"n_basis is {n_basis}, but X has {n_rows} rows (n_samples={n_rows}); None takes them all")
    return np.sort(np.random.default_rng(seed).choice(n_rows, n_basis, replace=False))


def check_memory(n: int, n_matrices: int) -> None:
    """Raise a MemoryLimitError if ``n_matrices`` n × n matrices exceed the memory of this machine."""
    needed, available = 8 * n_matrices * n * n, physical_memory()
    if needed > available:
        raise MemoryLimitError(
            f"a kernel of {n:,} basis vectors, or features, needs {needed / 2**30:.1f} GiB, but this machine has "
            f"{available / 2**30:.1f} GiB; a smaller n_basis needs less"
        )
