"""Queries of rows of features: an id per row, the sizes of groups, or a column of a frame."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from tercet.errors import InputError

QUERY_COLUMN = "qid"


def without_query_column(X: Any) -> Any:
    """Return rows without the column ``qid``, which is never a feature."""
    names = list(getattr(X, "columns", ()))
    if not any(isinstance(name, str) and name == QUERY_COLUMN for name in names):
        return X
    return X[[name for name in names if name != QUERY_COLUMN]]


def queries_of(X: Any, qid: Any = None, group: Any = None) -> Any:
    """Return an id per row, of ``qid``, from the sizes ``group`` or from a frame's column ``qid``, or None."""
    if group is None:
        if qid is not None or without_query_column(X) is X:
            return qid
        ids = X[QUERY_COLUMN]
        _check_unscaled(np.asarray(ids))
        return ids
    if qid is not None:
        raise InputError("give qid, an id per row, or group, the number of rows of each query, not both")
    sizes, n_rows = np.asarray(group), _num_samples(X)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        raise InputError(f"group must be whole numbers, the rows of each query; got {group!r}"[:200])
    if sizes.sum() != n_rows:
        raise InputError(f"the sizes in group sum up to {sizes.sum()}, but there are {n_rows} rows")
    return np.repeat(np.arange(len(sizes)), sizes)


def _check_unscaled(ids: NDArray[Any]) -> None:
    """Refuse fractions as query ids: a step of a pipeline has transformed the column."""
    if ids.dtype.kind == "f" and (fractions := np.isfinite(ids) & (ids != np.rint(ids))).any():
        row = int(fractions.argmax())
        raise InputError(
            f"row {row} of the column qid is {ids[row]}, which is no query id; a scaler, or another step of a "
            "pipeline, has changed the column. Give the steps the other columns only, and the queries by qid="
        )


def query_numbers(qid: Any, n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Return the query of each row as a number in the order of first appearance, and the number of queries."""
    if qid is None:
        return np.zeros(n_rows, dtype=np.int64), 1
    ids = qid.to_numpy() if hasattr(qid, "to_numpy") else qid
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise InputError(f"qid must have one id per row; got an array of shape {ids.shape}")
    elif isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InputError(f"qid must have one id per row; got {type(qid).__name__}")
    else:
        ids = ids if isinstance(ids, Sequence) else list(ids)
    if len(ids) != n_rows:
        raise InputError(f"qid has {len(ids)} ids, but there are {n_rows} rows; expected one id per row")
    if not isinstance(ids, np.ndarray) or ids.dtype.kind == "O":
        # Ids stay Python objects: an array would convert 1 and "1" to the same string.
        return _numbered(ids)
    if ids.dtype.kind == "f" and np.isnan(ids).any():
        raise InputError(f"qid[{int(np.isnan(ids).argmax())}] is nan; every row needs a query id")
    first = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))  # first row of each run of equal ids
    numbers, n_queries = _numbered(ids[first].tolist())
    return np.repeat(numbers, np.diff(np.append(first, n_rows))), n_queries


def _numbered(ids: Sequence[Hashable] | NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    numbers_of: dict[Hashable, int] = {}
    numbers = np.empty(len(ids), dtype=np.int64)
    for row, name in enumerate(ids):
        if name is None or name != name:
            raise InputError(f"qid[{row}] is {name}; every row needs a query id")
        try:
            numbers[row] = numbers_of.setdefault(name, len(numbers_of))
        except TypeError:
            raise InputError(f"qid[{row}] is a {type(name).__name__}, which cannot be an id: not hashable") from None
    return numbers, len(numbers_of)
