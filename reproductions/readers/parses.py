"""RLScore's parse-ranking files: features, scores and queries of rows in three files side by side, ids from 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from reproductions.folds import QueryRows
from reproductions.readers.files import parse_integer, parse_number, read_lines
from tercet.errors import FormatError


def read_parses(folder: str | Path) -> tuple[QueryRows, QueryRows]:
    """Read ``rank_train`` and ``rank_test`` (``.features``, ``.labels``, ``.qids``) of a folder.

    A line of features is ``index:value …`` with rising indices from 0. Both sets have as many columns as the larger
    needs. Rows of a query are gathered at its first row.

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
    matrices = {part: _read_features(Path(folder) / f"rank_{part}.features") for part in ("train", "test")}
    n_features = max(X.shape[1] for X in matrices.values())
    parts = []
    for part, X in matrices.items():
        labels, qids = (Path(folder) / f"rank_{part}.{end}" for end in ("labels", "qids"))
        y = np.array([parse_number(text, labels, line, "score") for line, text in read_lines(labels)])
        qid = np.array([text.strip() for _, text in read_lines(qids)])
        for path, n in ((labels, len(y)), (qids, len(qid))):
            if n != X.shape[0]:
                raise FormatError(path, None, f"{n} lines for {X.shape[0]} rows of features")
        X.resize((X.shape[0], n_features))
        _, first, group = np.unique(qid, return_index=True, return_inverse=True)
        order = np.argsort(first[group], kind="stable")
        parts.append(QueryRows(X[order], y[order], qid[order]))
    return parts[0], parts[1]


def _read_features(path: Path) -> sparse.csr_array:
    data: list[float] = []
    indices: list[int] = []
    ends = [0]
    for line, text in read_lines(path):
        before = -1
        for entry in text.split():
            name, _, value = entry.partition(":")
            index = parse_integer(name, path, line, "index")
            if index <= before:
                raise FormatError(path, line, f"index {index} after {before}; indices rise, from 0")
            indices.append(index)
            data.append(parse_number(value, path, line, "value"))
            before = index
        ends.append(len(data))
    if not indices:
        raise FormatError(path, None, "no rows with features")
    shape = (len(ends) - 1, max(indices) + 1)
    return sparse.csr_array((np.array(data), np.array(indices, np.int32), np.array(ends, np.int32)), shape=shape)
