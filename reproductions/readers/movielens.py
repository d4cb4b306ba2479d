"""MovieLens 100K: ratings of films, a query for each user (``u.data``), and what is said of films (``u.item``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reproductions.folds import QueryRows
from reproductions.readers.files import parse_integer, parse_number, read_lines
from tercet.errors import FormatError

_COLUMNS = 24  # of u.item: number, title, two dates, address, 19 genres
_FIRST_GENRE = 5


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings by users of films.

    Attributes
    ----------
    user : (n_ratings,) number of the user, in the order of their ids
    film : (n_ratings,) row of ``films``
    rating : (n_ratings,)
    user_ids : (n_users,) as in the file
    films : (n_films, 20) the year of release, the mean of the others where it is not known, and 19 genres, 0 or 1
    """

    user: NDArray[np.int64]
    film: NDArray[np.int64]
    rating: NDArray[np.float64]
    user_ids: NDArray[np.int64]
    films: NDArray[np.float64]


def read_movielens(folder: str | Path) -> Ratings:
    """Read ``u.data`` (user, film, rating and time between tabs) and ``u.item`` (between bars) of a folder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = Path(name, "u.data").write_text("7\\t2\\t4\\t881250949\\n3\\t1\\t5\\t881250950\\n")
    ...     genres = "|".join("1" + "0" * 18)
    ...     films = (f"{film}|Film|01-Jan-199{film}||http://film|{genres}\\n" for film in (1, 2))
    ...     _ = Path(name, "u.item").write_text("".join(films))
    ...     ratings = read_movielens(name)
    >>> ratings.user_ids.tolist(), ratings.user.tolist(), ratings.rating.tolist(), ratings.films[:, :2].tolist()
    ([3, 7], [1, 0], [4.0, 5.0], [[1991.0, 1.0], [1992.0, 1.0]])
    """
    films, number_of = _read_films(Path(folder) / "u.item")
    path = Path(folder) / "u.data"
    users, rated, ratings = [], [], []
    seen: set[tuple[int, int]] = set()
    for line, text in read_lines(path):
        columns = text.split("\t")
        if len(columns) != 4:
            raise FormatError(path, line, f"{len(columns)} columns; user, film, rating and time are needed")
        user, film = (parse_integer(columns[at], path, line, name) for at, name in enumerate(("user", "film")))
        if film not in number_of:
            raise FormatError(path, line, f"film {film} is not in u.item")
        if (user, film) in seen:
            raise FormatError(path, line, f"user {user} rates film {film} a second time")
        seen.add((user, film))
        users.append(user)
        rated.append(number_of[film])
        ratings.append(parse_number(columns[2], path, line, "rating"))
    if not ratings:
        raise FormatError(path, None, "no ratings")
    user_ids, user_numbers = np.unique(np.array(users), return_inverse=True)
    if len(user_ids) == 1:
        raise FormatError(path, None, f"all ratings are by user {user_ids[0]}; others are needed to test on")
    return Ratings(user_numbers.astype(np.int64), np.array(rated), np.array(ratings), user_ids, films)


def _read_films(path: Path) -> tuple[NDArray[np.float64], dict[int, int]]:
    """Year and genres of each film, and the row of each film's number."""
    rows: list[list[float]] = []
    number_of: dict[int, int] = {}
    # Titles are Latin-1, in which every byte is a character; they are not kept.
    for line, text in enumerate(path.read_bytes().decode("latin-1").split("\n"), start=1):
        if not text.strip():
            continue
        columns = text.rstrip("\r").split("|")
        if len(columns) != _COLUMNS:
            raise FormatError(path, line, f"{len(columns)} columns; {_COLUMNS} are needed")
        film = parse_integer(columns[0], path, line, "film")
        if film in number_of:
            raise FormatError(path, line, f"film {film} is there twice")
        number_of[film] = len(rows)
        date = columns[2].strip()
        year = float(parse_integer(date[-4:], path, line, "year of release")) if date else np.nan
        rows.append([year, *(parse_number(flag, path, line, "genre") for flag in columns[_FIRST_GENRE:])])
    if not rows:
        raise FormatError(path, None, "no films")
    films = np.array(rows)
    is_known = np.isfinite(films[:, 0])
    films[~is_known, 0] = films[is_known, 0].mean() if is_known.any() else 0.0
    return films, number_of


def split_ratings(
    ratings: Ratings, train_queries: int, test_queries: int, rows_of_query: int, seed: int = 0
) -> tuple[QueryRows, QueryRows]:
    """Users to learn from and other users to test on, each a query of so many of their ratings, drawn with the seed.

    A row has the film's year and genres, the mean of its ratings and the logarithm of one more than their number. Mean
    and number are those of the ratings by users to learn from that are no rows: no grade that is learned from or tested
    on is in a feature. Where there is none, the mean is that of all such ratings. Columns have mean 0 and standard
    deviation 1 over the rows to learn from.
    """
    rng = np.random.default_rng(seed)
    n_users = len(ratings.user_ids)
    order = rng.permutation(n_users)
    n_train = min(train_queries, n_users - 1)
    train_users, test_users = order[:n_train], order[n_train : n_train + test_queries]
    # The first of each user's ratings in a random order.
    shuffled = rng.permutation(len(ratings.user))
    by_user = shuffled[np.argsort(ratings.user[shuffled], kind="stable")]
    starts = np.searchsorted(ratings.user[by_user], np.arange(n_users + 1))
    drawn = [by_user[starts[user] : min(starts[user] + rows_of_query, starts[user + 1])] for user in range(n_users)]
    train = np.concatenate([drawn[user] for user in train_users])
    test = np.concatenate([drawn[user] for user in test_users])
    is_other = np.isin(ratings.user, train_users)
    is_other[train] = False
    films = np.column_stack([ratings.films, *_popularity(ratings, is_other)])
    X, X_test = films[ratings.film[train]], films[ratings.film[test]]
    scale = X.std(axis=0)
    X, X_test = (
        np.divide(part - X.mean(axis=0), scale, out=np.zeros_like(part), where=scale > 0) for part in (X, X_test)
    )
    qid = ratings.user_ids[ratings.user].astype(np.str_)
    return (
        QueryRows(X, ratings.rating[train], qid[train]),
        QueryRows(X_test, ratings.rating[test], qid[test]),
    )


def _popularity(ratings: Ratings, counted: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of each film's counted ratings, and the logarithm of one more than their number."""
    film, rating, n_films = ratings.film[counted], ratings.rating[counted], len(ratings.films)
    number = np.bincount(film, minlength=n_films).astype(np.float64)
    total = np.bincount(film, rating, minlength=n_films)
    everyone = float(rating.mean()) if len(rating) else 0.0
    return np.divide(total, number, out=np.full(n_films, everyone), where=number > 0), np.log1p(number)
