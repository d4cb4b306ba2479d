"""Rows with scores: parses and ratings are read as they are, and made-up ones have what was planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scored_rows import write_parses, write_ratings

from reproductions.datasets import load_dataset
from reproductions.folds import QueryRows
from reproductions.plan import Data, Quick
from reproductions.readers import make_offsets, read_movielens, read_parses, split_ratings
from tercet.errors import FormatError, InputError, MissingDataError

pytestmark = pytest.mark.slow  # make test has it, make check has not


def test_parses_are_read_as_they_are(tmp_path):
    write_parses(tmp_path / "p", np.random.default_rng(5))
    (tmp_path / "p" / "rank_test.features").write_text("3:0.5 20:1e-3\n\n0:2\n")
    (tmp_path / "p" / "rank_test.labels").write_text("0.25\n-1\n0.5\n")
    (tmp_path / "p" / "rank_test.qids").write_text("7\n007\n7\n")
    train, test = read_parses(tmp_path / "p")
    assert train.n_features == test.n_features == 21
    assert sparse.issparse(train.X)
    assert (len(train), train.n_queries) == (30, 6)
    assert test.qid.tolist() == ["7", "7", "007"]
    assert test.y.tolist() == [0.25, 0.5, -1.0]
    assert test.X.toarray()[:, [0, 3, 20]].tolist() == [[0.0, 0.5, 0.001], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("end", "content", "message"),
    [
        ("features", "1:2 1:3\n", r"rank_test.features:1: index 1 after 1; indices rise"),
        ("features", "-1:2\n", r"rank_test.features:1: index -1 after -1"),
        ("features", "1:2\n5\n", r"rank_test.features:2: value ''; a number"),
        ("features", "1:x\n", r"rank_test.features:1: value 'x'"),
        ("features", "", r"rank_test.features: no rows"),
        ("labels", "0.5\n", r"rank_test.labels: 1 lines for 30 rows"),
        ("labels", "nan\n" * 30, r"rank_test.labels:1: score 'nan'"),
        ("qids", "7\n", r"rank_test.qids: 1 lines for 30 rows"),
    ],
)
def test_broken_parses_are_refused_with_file_and_line(tmp_path, end, content, message):
    write_parses(tmp_path / "p", np.random.default_rng(5))
    (tmp_path / "p" / f"rank_test.{end}").write_text(content)
    with pytest.raises(FormatError, match=message):
        read_parses(tmp_path / "p")


def test_made_up_queries_have_the_offsets_that_were_planted():
    train, test = make_offsets(400, 100, 10, 5, seed=3)
    again, _ = make_offsets(400, 100, 10, 5, seed=3)
    assert (train.X.tolist(), train.y.tolist()) == (again.X.tolist(), again.y.tolist())
    assert not {*train.qids.tolist()} & {*test.qids.tolist()}
    assert (train.n_queries, test.n_queries, len(train), train.n_features) == (400, 100, 4000, 5)
    # Half of the variance of features is the query's.
    assert train.X.var() == pytest.approx(1.0, abs=0.05)
    of_query = np.add.reduceat(train.X, train.starts[:-1], axis=0) / 10
    assert of_query.var() == pytest.approx(0.5 + 0.5 / 10, abs=0.05)
    # Grades: 1 of the offset, 1/4 of noise, and of the function what rows, or rows of one query, do not have in common.
    of_all, within_queries = [], []
    for seed in range(60):
        rows, _ = make_offsets(60, 1, 10, 5, seed)
        within = rows.y - np.repeat(np.add.reduceat(rows.y, rows.starts[:-1]) / 10, 10)
        of_all.append(rows.y.var())
        within_queries.append(within.var() * 10 / 9)
    assert np.mean(of_all) == pytest.approx(1.0 - (1 + 4 / 5) ** -2.5 + 1.0 + 0.25, abs=0.15)
    assert np.mean(within_queries) == pytest.approx(1.0 - (1 + 2 / 5) ** -2.5 + 0.25, abs=0.06)


def test_ratings_are_read_as_they_are(tmp_path):
    lines = write_ratings(tmp_path / "r")
    ratings = read_movielens(tmp_path / "r")
    assert ratings.user_ids.tolist() == [100, 101, 102, 103, 104, 105]
    assert (
        np.column_stack([ratings.user_ids[ratings.user], ratings.film + 1, ratings.rating]).tolist() == lines.tolist()
    )
    assert ratings.films.shape == (30, 20)
    known = [1960 + film for film in range(1, 31) if film != 3]
    assert ratings.films[:4, 0].tolist() == [1961.0, 1962.0, np.mean(known), 1964.0]
    assert {*ratings.films[:, 1:].ravel().tolist()} == {0.0, 1.0}


def test_no_grade_of_a_row_is_in_a_feature(tmp_path):
    write_ratings(tmp_path / "r")
    ratings = read_movielens(tmp_path / "r")
    train, test = split_ratings(ratings, 4, 9, 5, seed=2)
    assert (train.n_queries, len(train), test.n_queries, len(test), train.n_features) == (4, 20, 2, 10, 22)
    np.testing.assert_allclose(train.X.mean(axis=0), 0.0, atol=1e-12)
    is_row = np.zeros(len(ratings.user), bool)
    for part in (train, test):  # a film of a user is known by its features, but for grades: find the ratings again
        for qid in part.qids:
            own = ratings.rating[ratings.user_ids[ratings.user] == int(qid)]
            assert len(own) == 12
            assert {*part.y[part.qid == qid].tolist()} <= {*own.tolist()}
    # Grades of test users, and of rows, may be what they like: features stay the same.
    changed = replace(ratings, rating=ratings.rating.copy())
    is_test = np.isin(ratings.user_ids[ratings.user].astype(str), test.qids)
    changed.rating[is_test] += 100.0
    others = ratings.rating + np.arange(len(ratings.rating)) / 1000.0  # every rating has a value of its own
    marked, _ = split_ratings(replace(ratings, rating=others), 4, 9, 5, seed=2)
    is_row[np.searchsorted(np.sort(others), marked.y)] = True
    again, again_test = split_ratings(changed, 4, 9, 5, seed=2)
    assert again.X.tolist() == train.X.tolist()
    assert again_test.X.tolist() == test.X.tolist()
    assert (again_test.y - test.y).tolist() == [100.0] * 10
    of_rows = replace(ratings, rating=ratings.rating.copy())
    of_rows.rating[np.isin(others, marked.y)] += 100.0
    assert split_ratings(of_rows, 4, 9, 5, seed=2)[0].X.tolist() == train.X.tolist()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("u.data", "1\t2\t3\n", r"u.data:1: 3 columns; user, film"),
        ("u.data", "1\t2\tx\t4\n", r"u.data:1: rating 'x'"),
        ("u.data", "1\t99\t3\t4\n", r"u.data:1: film 99 is not in u.item"),
        ("u.data", "1\t2\t3\t4\n1\t2\t4\t5\n", r"u.data:2: user 1 rates film 2 a second time"),
        ("u.data", "", r"u.data: no ratings"),
        ("u.data", "7\t2\t3\t4\n7\t3\t4\t5\n", r"u.data: all ratings are by user 7; others are needed to test on"),
        ("u.item", "1|x|1990\n", r"u.item:1: 3 columns; 24"),
        ("u.item", "\n", r"u.item: no films"),
    ],
)
def test_broken_ratings_are_refused_with_file_and_line(tmp_path, name, content, message):
    write_ratings(tmp_path / "r")
    (tmp_path / "r" / name).write_text(content)
    with pytest.raises(FormatError, match=message):
        read_movielens(tmp_path / "r")


def test_data_sets_of_both_readers_are_tasks(tmp_path):
    write_ratings(tmp_path / "ml")
    sizes = {"train_queries": 4, "test_queries": 2, "rows_of_query": 5}
    for data, n_features in (
        (Data("R", "movielens", ("ml",), **sizes), 22),
        (Data("M", "made-up", n_features=3, **sizes), 3),
    ):
        [fold] = load_dataset(data, tmp_path).tasks
        assert (len(fold.train), len(fold.test), fold.validation, fold.test.n_features) == (20, 10, None, n_features)
        [few] = load_dataset(data, tmp_path, Quick(queries=1)).tasks
        assert (few.train.n_queries, few.test.n_queries, len(few.train)) == (1, 1, 5)
    with pytest.raises(MissingDataError, match="elsewhere: not there"):
        load_dataset(Data("R", "movielens", ("elsewhere",)), tmp_path)


def test_rows_that_do_not_fit_together_are_refused():
    for y, qid, message in (
        ([1.0], ["a", "a"], "X has 2 rows"),
        ([1.0, 2.0, 3.0], ["a", "b", "a"], "must follow one another"),
    ):
        with pytest.raises(InputError, match=message):
            QueryRows(np.zeros((max(2, len(y)), 1)), np.array(y), np.array(qid))
