"""Write files of LETOR rows and of parses in the published layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reproductions.folds import QueryRows
from tercet.data import LetorData, write_letor


def write_parses(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    for part, first in (("train", 0), ("test", 50)):
        X = (rng.random((30, 12)) < 0.5) * rng.random((30, 12)).round(3)
        y = (X[:, 0] + 0.2 * rng.random(30)).round(6)
        lines = (" ".join(f"{j}:{row[j]}" for j in np.flatnonzero(row)) for row in X)
        (folder / f"rank_{part}.features").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"rank_{part}.labels").write_text("".join(f"{label}\n" for label in y))
        (folder / f"rank_{part}.qids").write_text("".join(f"{first + at // 5}\n" for at in range(30)))


def write_folds(folder: Path, parts: list[QueryRows]) -> None:
    """Three folds in the layout of LETOR, each with another of the parts to train, validate and test on."""
    for fold in range(3):
        (folder / f"Fold{fold + 1}").mkdir(parents=True)
        for at, name in enumerate(("train", "vali", "test")):
            part = parts[(fold + at) % 3]
            write_letor(folder / f"Fold{fold + 1}" / f"{name}.txt", LetorData(part.X, part.y, part.qid))
