"""Files of parses and of ratings, in the layouts of those that the papers have."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_parses(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    for part, first in (("train", 0), ("test", 50)):
        X = (rng.random((30, 12)) < 0.5) * rng.random((30, 12)).round(3)
        y = (X[:, 0] + 0.2 * rng.random(30)).round(6)
        lines = (" ".join(f"{j}:{row[j]}" for j in np.flatnonzero(row)) for row in X)
        (folder / f"rank_{part}.features").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"rank_{part}.labels").write_text("".join(f"{label}\n" for label in y))
        (folder / f"rank_{part}.qids").write_text("".join(f"{first + at // 5}\n" for at in range(30)))


def write_ratings(folder: Path, n_users: int = 6, n_films: int = 30, per_user: int = 12) -> np.ndarray:
    """Films and ratings in the layout of MovieLens 100K; returns user, film and rating of each line."""
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True)
    films = []
    for film in range(1, n_films + 1):
        genres = "|".join(str(flag) for flag in rng.integers(0, 2, 19))
        films.append(f"{film}|Am\xe9lie {film}|{'' if film == 3 else f'01-Jan-{1960 + film}'}||http://x|{genres}\n")
    (folder / "u.item").write_bytes("".join(films).encode("latin-1"))
    lines = [
        (user, film, int(rng.integers(1, 6)))
        for user in rng.permutation(n_users) + 100
        for film in rng.choice(n_films, per_user, replace=False) + 1
    ]
    (folder / "u.data").write_text("".join(f"{user}\t{film}\t{rating}\t8812\n" for user, film, rating in lines))
    return np.array(lines)
