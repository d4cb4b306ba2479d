"""Data sets of feature vectors as splits, from the files their publishers ship."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data import read_letor_folds
from tercet.repro.features.plan import Data
from tercet.repro.files import MissingDataError
from tercet.repro.readers import read_parses
from tercet.repro.tasks import digest_of


class Rows(Protocol):
    """What `LetorData` and `ScoredRows` have: graded feature vectors, the rows of a query together."""

    def __init__(self, X: Any, y: Any, qid: Any) -> None: ...
    def __len__(self) -> int: ...
    @property
    def X(self) -> Any: ...
    @property
    def y(self) -> NDArray[Any]: ...
    @property
    def qid(self) -> NDArray[np.str_]: ...
    @property
    def starts(self) -> NDArray[np.int64]: ...
    @property
    def qids(self) -> NDArray[np.str_]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_queries(self) -> int: ...


R = TypeVar("R", bound=Rows)


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from, to choose on where there are some, and to test on."""

    name: str
    train: Rows
    vali: Rows | None
    test: Rows

    def both(self) -> Rows:
        """Training and validation part together."""
        return self.train if self.vali is None else stacked([self.train, self.vali])


@dataclass(frozen=True, eq=False)
class FoldedSet:
    """The splits of a data set; every query is tested in one of them."""

    splits: tuple[Split, ...]

    def digest(self) -> str:
        """Of everything a learner or a measure sees."""
        found = hashlib.sha256()
        for split in self.splits:
            for part in (split.train, split.vali, split.test):
                rows = ("none",) if part is None else (part.X, part.y, part.qid)
                found.update(digest_of(split.name, *rows).encode())
        return found.hexdigest()

    def statistics(self) -> dict[str, int]:
        """Facts a paper prints about its data; of all queries that are tested."""
        tests = [split.test for split in self.splits]
        grades = np.unique(np.concatenate([test.y for test in tests]))
        return {
            "queries": sum(test.n_queries for test in tests),
            "features": tests[0].n_features,
            "relevance levels": len(grades),
            "query-document pairs": sum(len(test) for test in tests),
        }


def stacked(parts: list[Rows]) -> Rows:
    """Rows one after another; no query may be in two parts."""
    is_sparse = sparse.issparse(parts[0].X)
    X = sparse.vstack([part.X for part in parts], format="csr") if is_sparse else np.vstack([part.X for part in parts])
    return type(parts[0])(X, np.concatenate([part.y for part in parts]), np.concatenate([part.qid for part in parts]))


def rows_of(data: R, rows: NDArray[np.int64]) -> R:
    """Some rows, those of a query together."""
    return type(data)(data.X[rows], data.y[rows], data.qid[rows])


def drawn_rows(data: Rows, per_query: int, seed: int) -> NDArray[np.int64]:
    """So many rows of each query, all where it has fewer, in rising order.

    What is drawn of a query depends on its id and the seed only, and not on which other queries are there.
    """
    drawn = []
    for qid, start, end in zip(data.qids.tolist(), data.starts[:-1], data.starts[1:], strict=True):
        random = np.random.default_rng([seed, zlib.crc32(qid.encode())])
        n = min(per_query, int(end - start))
        drawn.append(start + np.sort(random.choice(int(end - start), n, replace=False)))
    return np.concatenate(drawn)


def load_splits(data: Data, home: Path, n_folds: int | None = None) -> FoldedSet:
    """Read the first place that is there; when there is none, a MissingDataError names them all."""
    holds = {"letor-folds": _holds_folds, "parses": _holds_parses}[data.reader]
    there = [home / name for name in data.files if holds(home / name)]
    if not there:
        raise MissingDataError(f"looked for {' and '.join(str(home / name) for name in data.files)}: not there")
    if data.reader == "parses":
        train, test = read_parses(there[0])
        return FoldedSet((Split("train-test", train, None, test),))
    folds = read_letor_folds(there[0], comments=False)[:n_folds]
    return FoldedSet(tuple(Split(fold.name, fold.train, fold.vali, fold.test) for fold in folds))


def _holds_folds(place: Path) -> bool:
    """Whether there is a file here, or a folder of folds and not one of something else."""
    return place.is_file() or (place.is_dir() and any(place.glob("Fold[0-9]*")))


def _holds_parses(place: Path) -> bool:
    return (place / "rank_train.features").is_file()
