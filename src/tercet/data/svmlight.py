"""SVMlight and LETOR files: ``target [qid:id] feature:value … [# comment]`` on each line."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.lines import FilePath, open_lines, parse_float, parse_int, read_id, split_columns
from tercet.errors import FormatError, InputError

LARGEST_ID = np.iinfo(np.int32).max
LARGEST_VALUE = float(np.finfo(np.float32).max)


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
    SvmlightData. Takes about a second for a million values.

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
    if n_features is not None and not 1 <= n_features <= LARGEST_ID:
        raise InputError(f"n_features must be a whole number from 1 to {LARGEST_ID}. Got {n_features!r} instead.")
    largest_allowed = LARGEST_ID if n_features is None else n_features
    targets, indices, values, ends = array("d"), array("i"), array("f"), array("q", [0])
    qids: list[str] = []
    comments: list[str] = []
    known_qids: dict[str, str] = {}  # one string object for each id, however many rows have it
    largest = 0
    for line, text in open_lines(path):
        body, _, comment = text.partition("#")
        tokens = split_columns(body)
        if not tokens:
            continue
        targets.append(parse_float(tokens[0], path, line, "target"))
        comments.append(comment.strip())
        first = 1
        if len(tokens) > 1 and tokens[1].startswith("qid:"):
            qid = read_id(tokens[1][4:], path, line, "qid")
            qids.append(known_qids.setdefault(qid, qid))
            first = 2
        if qids and len(qids) != len(targets):
            found = "no qid here and one" if first == 1 else "a qid here and none"
            raise FormatError(path, line, f"{found} on the lines before; give one on every line or on none")
        features = tokens[first:]
        if "_" in body or not body.isascii():  # int() and float() take 1_0 and ١; no other tool would
            for token in features:
                if "_" in token or not token.isascii():
                    raise FormatError(path, line, f"{token!r}; id:value in plain digits is needed")
        previous = 0
        for token in features:
            key, _, number = token.partition(":")
            try:
                feature, value = int(key), float(number)
            except ValueError as error:
                raise _broken_feature(token, path, line) from error
            if not previous < feature <= largest_allowed:
                raise FormatError(path, line, _wrong_id(feature, previous, n_features))
            if not -LARGEST_VALUE <= value <= LARGEST_VALUE:  # false for nan, too
                message = f"feature {feature} has value {number!r}; a finite number within float32 is needed"
                raise FormatError(path, line, message)
            previous = feature
            if value:
                indices.append(feature - 1)
                values.append(value)
        largest = max(largest, previous)
        ends.append(len(indices))
    if not targets:
        raise FormatError(path, None, "the file holds no rows")
    if not (n_features or largest):
        raise FormatError(path, None, "no line has a feature; features are written id:value")
    X = sparse.csr_matrix(
        (np.array(values, np.float32), np.array(indices, np.int32), np.array(ends, np.int64)),
        shape=(len(targets), n_features or largest),
    )
    X.eliminate_zeros()  # values too small for float32
    return SvmlightData(X, np.array(targets), qids or None, comments if any(comments) else None)


def _broken_feature(token: str, path: FilePath, line: int) -> FormatError:
    key, colon, number = token.partition(":")
    if key == "qid":
        return FormatError(path, line, f"{token!r} is out of place; qid comes once, right after the target")
    if not colon:
        return FormatError(path, line, f"{token!r}; features are written id:value")
    try:
        parse_int(key, path, line, "feature id")
        parse_float(number, path, line, f"feature {key} has value")
    except FormatError as error:
        return error
    raise AssertionError(f"{token!r} parses after all")


def _wrong_id(feature: int, previous: int, n_features: int | None) -> str:
    if feature < 1:
        return f"feature id {feature}; ids start at 1"
    if feature == previous:
        return f"feature id {feature} occurs twice"
    if feature < previous:
        return f"feature id {feature} after {previous}; ids must ascend within a line"
    if n_features is None:
        return f"feature id {feature}; the largest possible is {LARGEST_ID}"
    return f"feature id {feature}; n_features={n_features} was asked for"
