"""SVMlight and LETOR files: ``target [qid:id] feature:value … [# comment]`` on each line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.letor_text import check_n_features, check_not_empty, read_blocks, stack, width_of
from tercet.data.lines import FilePath, open_bytes


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
        blocks = list(read_blocks(stream, path, n_features, comments=True, scattered=True, is_svmlight=True))
    check_not_empty(blocks, n_features, path)
    has_qid = bool(blocks[0].run_qids[0])
    X, targets, qids = stack(blocks, n_features or width_of(blocks), dense=False)
    kept: dict[str, str] = {}  # one string object for each id, however many rows have it
    ids = [kept.setdefault(qid, qid) for qid in qids.tolist()] if has_qid else None
    comments = [comment for block in blocks for comment in block.comments or ()]
    return SvmlightData(sparse.csr_matrix(X), targets, ids, comments if any(comments) else None)
