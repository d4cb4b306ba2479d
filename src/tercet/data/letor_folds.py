"""Folds of a LETOR set: ``Fold1``, ``Fold2``, … with ``train.txt``, ``vali.txt`` and ``test.txt`` in each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from tercet.data.archives import archive_members
from tercet.data.letor import LetorData, assemble
from tercet.data.letor_text import Part, check_found, is_dense, read_parts, width_of
from tercet.data.lines import FilePath, open_bytes
from tercet.errors import FormatError

PARTS_OF_A_FOLD = ("train", "vali", "test")
_FOLD_NAME = re.compile(r"Fold(\d+)", re.ASCII)
_LAYOUT = "a set of folds holds Fold1, Fold2, … with train.txt, vali.txt and test.txt in each"


@dataclass(frozen=True, eq=False)
class LetorFold:
    """One fold: a split of the queries into three."""

    name: str
    train: LetorData
    vali: LetorData
    test: LetorData


def read_letor_folds(path: FilePath, *, dense: bool | None = None, comments: bool = True) -> tuple[LetorFold, ...]:
    """Read ``Fold1``, ``Fold2``, … with ``train.txt``, ``vali.txt`` and ``test.txt`` in each.

    Parameters
    ----------
    path : the folder that holds the folds, or a ``.tar`` or ``.tar.gz`` of it, which is read without extracting
    dense, comments : as in `read_letor`, one layout for all

    Returns
    -------
    LetorFold, one a fold, in the order of their numbers; all matrices have the same number of columns.

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
    root = Path(path)
    found = _folds_of_folder(root, comments) if root.is_dir() else _folds_of_archive(path, comments)
    if not found:
        raise FormatError(path, None, f"there is no fold here; {_LAYOUT}")
    for name, members in found.items():
        for part in PARTS_OF_A_FOLD:
            if part not in members:
                raise FormatError(path, None, f"{name} has no {part}.txt; {_LAYOUT}")
    everything = [part for members in found.values() for parts in members.values() for part in parts]
    n_features = width_of(everything)
    if dense is None:
        n_values, n_rows = sum(part.n_values for part in everything), sum(len(part.y) for part in everything)
        dense = is_dense(n_values, n_rows, n_features)
    folds = []
    for name in sorted(found, key=lambda name: int(name.removeprefix("Fold"))):
        train, vali, test = (assemble(found[name][part], n_features, dense) for part in PARTS_OF_A_FOLD)
        folds.append(LetorFold(name, train, vali, test))
    return tuple(folds)


def is_fold_name(name: str) -> bool:
    """Whether a folder of that name is a fold: ``Fold1``, ``Fold2``, …"""
    return _FOLD_NAME.fullmatch(name) is not None


def is_fold(folder: Path) -> bool:
    """Whether a folder is named as a fold and holds its three files, plain or with ``.gz``."""
    if not (_FOLD_NAME.fullmatch(folder.name) and folder.is_dir()):
        return False
    return all(any((folder / f"{part}.txt{end}").is_file() for end in ("", ".gz")) for part in PARTS_OF_A_FOLD)


def _folds_of_folder(root: Path, comments: bool) -> dict[str, dict[str, list[Part]]]:
    found: dict[str, dict[str, list[Part]]] = {}
    for folder in root.iterdir():
        if not (_FOLD_NAME.fullmatch(folder.name) and folder.is_dir()):
            continue
        members = found.setdefault(folder.name, {})
        for part in PARTS_OF_A_FOLD:
            files = [file for file in (folder / f"{part}.txt", folder / f"{part}.txt.gz") if file.is_file()]
            if len(files) == 2:
                raise FormatError(
                    folder, None, f"both {files[0].name} and {files[1].name} are here; remove one of them"
                )
            for file in files:
                with open_bytes(file) as stream:
                    members[part] = _parts_of(stream, file, comments)
    return found


def _folds_of_archive(path: FilePath, comments: bool) -> dict[str, dict[str, list[Part]]]:
    found: dict[str, dict[str, list[Part]]] = {}
    for member, content in archive_members(path):
        fold, part = fold_member(member.name)
        if content is None or part is None:
            continue
        members = found.setdefault(fold, {})
        if part in members:
            raise FormatError(path, None, f"{fold}/{part}.txt is in the archive twice")
        members[part] = _parts_of(cast(BinaryIO, content), f"{path}/{member.name}", comments)
    return found


def fold_member(name: str) -> tuple[str, str | None]:
    """Fold and part of an archive's member such as ``set/Fold1/train.txt``; the part is None for any other.

    Examples
    --------
    >>> fold_member("QueryLevelNorm/Fold1/train.txt")
    ('Fold1', 'train')
    """
    pieces = PurePosixPath(name).parts
    if len(pieces) < 2 or not _FOLD_NAME.fullmatch(pieces[-2]):
        return "", None
    part = pieces[-1].removesuffix(".txt")
    return pieces[-2], part if pieces[-1].endswith(".txt") and part in PARTS_OF_A_FOLD else None


def _parts_of(stream: BinaryIO, path: FilePath, comments: bool) -> list[Part]:
    parts = list(read_parts(stream, path, None, comments=comments, scattered=False))
    check_found(parts, None, path)
    return parts
