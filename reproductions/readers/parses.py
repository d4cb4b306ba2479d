"""RLScore's parse-ranking files: features, scores and queries of rows in three files side by side, ids from 0."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.letor import QueryRows, gathered
from tercet.data.lines import FilePath, open_lines, parse_float, parse_int, read_id, split_columns
from tercet.errors import FormatError, InputError


@dataclass(frozen=True, eq=False, repr=False)
class ScoredRows(QueryRows):
    """Rows with real scores; `LetorData` has whole grades.

    Examples
    --------
    >>> rows = ScoredRows(np.eye(3), [0.5, 0.25, 1.0], ["7", "7", "8"])
    >>> rows.qids.tolist(), rows.starts.tolist()
    (['7', '8'], [0, 2, 3])
    """

    def __post_init__(self) -> None:
        y, qid = np.asarray(self.y, np.float64), np.asarray(self.qid, np.str_)
        if y.shape != (self.X.shape[0],) or qid.shape != y.shape:
            raise InputError(f"X has {self.X.shape[0]} rows, y has shape {y.shape} and qid {qid.shape}; one per row")
        if not len(y) or not np.isfinite(y).all():
            raise InputError("y must hold finite numbers, at least one")
        self._hold(self.X, y, qid)


def read_parses(folder: FilePath) -> tuple[ScoredRows, ScoredRows]:
    """Read ``rank_train`` and ``rank_test`` (``.features``, ``.labels``, ``.qids``) of a folder.

    A line of features is ``index:value …`` with rising indices from 0; one of the others a number, or an id. Both sets
    have as many columns as the larger needs. Rows of a query are gathered where its first one is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for part in ("train", "test"):
    ...         _ = Path(name, f"rank_{part}.features").write_text("0:1 2:0.5\\n1:2\\n")
    ...         _ = Path(name, f"rank_{part}.labels").write_text("0.25\\n1.0\\n")
    ...         _ = Path(name, f"rank_{part}.qids").write_text("7\\n7\\n")
    ...     train, test = read_parses(name)
    >>> train.X.toarray().tolist(), train.y.tolist(), train.qid.tolist()
    ([[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]], [0.25, 1.0], ['7', '7'])
    """
    parts = [_read_part(Path(folder), part) for part in ("train", "test")]
    n_features = max(X.shape[1] for X, *_ in parts)
    rows = []
    for X, y, qid in parts:
        X.resize((X.shape[0], n_features))
        order = gathered(qid)
        rows.append(ScoredRows(X[order], y[order], qid[order]))
    return rows[0], rows[1]


def _read_part(folder: Path, part: str) -> tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.str_]]:
    features, labels, qids = (folder / f"rank_{part}.{end}" for end in ("features", "labels", "qids"))
    X = _read_features(features)
    y = [parse_float(text.strip(), labels, line, "score") for line, text in open_lines(labels)]
    qid = [read_id(text.strip(), qids, line, "qid") for line, text in open_lines(qids)]
    for path, n in ((labels, len(y)), (qids, len(qid))):
        if n != X.shape[0]:
            raise FormatError(
                path, None, f"{n} lines, but {features.name} has {X.shape[0]}; one for each row is needed"
            )
    return X, np.array(y), np.array(qid)


def _read_features(path: Path) -> sparse.csr_array:
    data: list[float] = []
    indices: list[int] = []
    ends = [0]
    for line, text in open_lines(path):
        before = -1
        for entry in split_columns(text):
            name, colon, value = entry.partition(":")
            if not colon:
                raise FormatError(path, line, f"{entry[:40]!r}; index:value is needed")
            index = parse_int(name, path, line, "index")
            if not before < index < 2**31 - 1:
                raise FormatError(path, line, f"index {index} after {before}; indices rise, from 0")
            indices.append(index)
            data.append(parse_float(value, path, line, "value"))
            before = index
        ends.append(len(data))
    if len(ends) == 1 or not indices:
        raise FormatError(path, None, "no rows with features")
    shape = (len(ends) - 1, max(indices) + 1)
    return sparse.csr_array((np.array(data), np.array(indices, np.int32), np.array(ends, np.int32)), shape=shape)
