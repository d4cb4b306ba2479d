"""SVMlight and LETOR files: ``target [qid:id] feature:value … [# comment]`` on each line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.letor_text import check_found, check_n_features, read_parts, stack, width_of
from tercet.data.lines import FilePath, open_bytes
from tercet.errors import FormatError


@dataclass(frozen=True, eq=False)
class SvmlightData:
    """What an SVMlight file holds, one row a line.

    Attributes
    ----------
    X : CSR float32; column j is the feature id j + 1, zeros in the file are not stored
    y : float64, the targets
    qid : the query id of each row, or None when the file has none
    comments : what follows ``#`` on each row, without blanks around it, or None when the file has no comments
    """

    X: sparse.csr_matrix
    y: NDArray[np.float64]
    qid: list[str] | None
    comments: list[str] | None


def read_svmlight(path: FilePath, n_features: int | None = None) -> SvmlightData:
    """Read a file strictly: ids start at 1 and ascend, values are finite, ``qid`` is on all lines or on none.

    Parameters
    ----------
    path : a text file, gzipped or not
    n_features : the number of columns; None takes the largest id of the file. A larger id is an error, so
        give the training set's number when reading a test set.

    Returns
    -------
    SvmlightData. Parsed by the loop that `read_letor` uses, at its speed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "train.txt")
    ...     _ = file.write_text("2 qid:007 1:0.5 3:1 # doc 12\\n0 qid:007 2:1\\n")
    ...     data = read_svmlight(file)
    >>> data.X.toarray()
    array([[0.5, 0. , 1. ],
           [0. , 1. , 0. ]], dtype=float32)
    >>> data.y, data.qid, data.comments
    (array([2., 0.]), ['007', '007'], ['doc 12', ''])
    """
    check_n_features(n_features)
    with open_bytes(path) as stream:
        parts = list(read_parts(stream, path, n_features, comments=True, scattered=True, is_svmlight=True))
    check_found(parts, n_features, path)
    has_qid = bool(parts[0].run_qids[0])
    for part in parts:
        for qid, line in zip(part.run_qids, part.run_lines, strict=True):
            if bool(qid) != has_qid:
                found = "a qid here and none" if qid else "no qid here and one"
                raise FormatError(path, line, f"{found} on the lines before; give one on every line or on none")
    X, targets, qids = stack(parts, n_features or width_of(parts), dense=False)
    known: dict[str, str] = {}  # one string object for each id, however many rows have it
    ids = [known.setdefault(qid, qid) for qid in qids.tolist()] if has_qid else None
    comments = [comment for part in parts for comment in part.comments or ()]
    return SvmlightData(sparse.csr_matrix(X), targets, ids, comments if any(comments) else None)
