"""Folds: ``Fold1``, … of a LETOR set with ``train.txt``, ``vali.txt``, ``test.txt``, and queries dealt at random."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._validate import check_seed, is_integer
from tercet.data.archives import archive_members
from tercet.data.letor import LetorData, assemble, id_array
from tercet.data.letor_text import Readable, TextBlock, check_not_empty, is_dense, read_blocks, width_of
from tercet.data.lines import FilePath, open_bytes
from tercet.errors import FormatError, InputError

PARTS_OF_A_FOLD = ("train", "vali", "test")
_FOLD_NAME = re.compile(r"Fold(\d+)", re.ASCII)
_LAYOUT = "a set of folds holds Fold1, Fold2, … with train.txt, vali.txt and test.txt in each"


@dataclass(frozen=True, eq=False)
class LetorFold:
    """A split of the queries into three.

    Examples
    --------
    >>> rows = LetorData(X=np.eye(2, dtype=np.float32), y=np.array([1, 0]), qid=["q", "q"], comments=None)
    >>> LetorFold("Fold1", rows, rows, rows).name
    'Fold1'
    """

    name: str
    train: LetorData
    vali: LetorData
    test: LetorData


def read_letor_folds(path: FilePath, *, dense: bool | None = None, comments: bool = True) -> tuple[LetorFold, ...]:
    """Read ``Fold1``, ``Fold2``, … with ``train.txt``, ``vali.txt`` and ``test.txt`` in each.

    Parameters
    ----------
    path : the folder of the folds, or a ``.tar`` or ``.tar.gz`` of the folder, which is read without extracting
    dense, comments : as in `read_letor`, for all folds

    Returns
    -------
    A LetorFold for each fold, in the order of their numbers; all matrices have the same number of columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "Fold1").mkdir()
    ...     for name in ("train", "vali", "test"):
    ...         _ = pathlib.Path(folder, "Fold1", f"{name}.txt").write_text("1 qid:7 1:0.5 2:1\\n")
    ...     [(fold.name, fold.train.X.shape) for fold in read_letor_folds(folder)]
    [('Fold1', (1, 2))]
    """
    blocks_of: dict[str, dict[str, list[TextBlock]]] = {}
    for fold, part, where, stream in _parts_of_folder(Path(path)) if Path(path).is_dir() else _parts_of_archive(path):
        parts = blocks_of.setdefault(fold, {})
        if part in parts:
            raise FormatError(path, None, f"{fold}/{part}.txt is here twice; remove one of them")
        parts[part] = list(read_blocks(stream, where, None, comments=comments))
        check_not_empty(parts[part], None, where)
    if not blocks_of:
        raise FormatError(path, None, f"there is no fold here; {_LAYOUT}")
    for fold, parts in blocks_of.items():
        for part in PARTS_OF_A_FOLD:
            if part not in parts:
                raise FormatError(path, None, f"{fold} has no {part}.txt; {_LAYOUT}")
    all_blocks = [block for parts in blocks_of.values() for blocks in parts.values() for block in blocks]
    n_features = width_of(all_blocks)
    if dense is None:
        n_values, n_rows = sum(block.n_values for block in all_blocks), sum(len(block.y) for block in all_blocks)
        dense = is_dense(n_values, n_rows, n_features)
    folds = []
    for name in sorted(blocks_of, key=lambda name: int(name.removeprefix("Fold"))):
        train, vali, test = (assemble(blocks_of[name][part], n_features, dense) for part in PARTS_OF_A_FOLD)
        folds.append(LetorFold(name, train, vali, test))
    return tuple(folds)


def is_fold(folder: Path) -> bool:
    """Return True for a folder with the name and the three files of a fold, plain or with ``.gz``."""
    if not (_FOLD_NAME.fullmatch(folder.name) and folder.is_dir()):
        return False
    return all(any((folder / f"{part}.txt{end}").is_file() for end in ("", ".gz")) for part in PARTS_OF_A_FOLD)


Part = tuple[str, str, FilePath, Readable]  # fold, part, name in errors, text


def _parts_of_folder(root: Path) -> Iterator[Part]:
    for folder in root.iterdir():
        if not (_FOLD_NAME.fullmatch(folder.name) and folder.is_dir()):
            continue
        for part in PARTS_OF_A_FOLD:
            for file in (folder / f"{part}.txt", folder / f"{part}.txt.gz"):
                if file.is_file():
                    with open_bytes(file) as stream:
                        yield folder.name, part, file, stream


def _parts_of_archive(path: FilePath) -> Iterator[Part]:
    for member, content in archive_members(path):
        fold, part = fold_member(member.name)
        if content is not None and part is not None:
            yield fold, part, f"{path}/{member.name}", content


def fold_member(name: str) -> tuple[str, str | None]:
    """Fold and part of an archive's member such as ``set/Fold1/train.txt``; the part is None for any other."""
    pieces = PurePosixPath(name).parts
    if len(pieces) < 2 or not _FOLD_NAME.fullmatch(pieces[-2]):
        return "", None
    part = pieces[-1].removesuffix(".txt")
    return pieces[-2], part if pieces[-1].endswith(".txt") and part in PARTS_OF_A_FOLD else None


def query_folds(
    qid: ArrayLike, n_folds: int = 5, random_state: int = 0
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Deal queries into folds at random, for cross-validation by whole queries.

    Parameters
    ----------
    qid : (n_rows,) the query id of each row, strings or integers, in any order. The number 7 and the string "7" are
        the same id
    n_folds : number of folds, from 2 to the number of queries; numbers of queries differ by 1 at most
    random_state : seed of the deal

    Returns
    -------
    (rows to learn from, rows to test on) for each fold, rising. scikit-learn takes the list as ``cv=``.

    Examples
    --------
    >>> for train, test in query_folds(["a", "a", "b", "c", "c"], n_folds=3):
    ...     print(train, test)
    [0 1 2] [3 4]
    [2 3 4] [0 1]
    [0 1 3 4] [2]
    """
    seed = check_seed(random_state)
    ids = id_array(qid)
    if ids.ndim != 1 or (ids.dtype.kind not in "iuU" and ids.size):
        raise InputError(f"qid must hold strings or integers, one per row. Got shape {ids.shape}, dtype {ids.dtype}.")
    names, query = np.unique(ids.astype(np.str_), return_inverse=True)
    if not is_integer(n_folds, 2, len(names)):
        raise InputError(f"n_folds must be an integer from 2 to the {len(names)} queries; got {n_folds!r}")
    return deal_queries(query, len(names), n_folds, seed)


def deal_queries(
    query: NDArray[np.int64], n_queries: int, n_folds: int, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Deal queries into folds as `query_folds` does, given the number of each row's query, counted from 0."""
    fold_of_query = np.empty(n_queries, np.int64)
    fold_of_query[np.random.default_rng(seed).permutation(n_queries)] = np.arange(n_queries) % n_folds
    fold = fold_of_query[query]
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(n_folds)]
