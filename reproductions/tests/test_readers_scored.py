"""Rows with scores: parses as shipped, and made-up rows with planted properties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scored_rows import write_parses

from reproductions.datasets import load_dataset
from reproductions.folds import QueryRows
from reproductions.plan import PlanData, Quick
from reproductions.readers import make_offsets, read_parses
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


def test_made_up_rows_are_a_task(tmp_path):
    data = PlanData("M", "made-up", n_features=3, train_queries=4, test_queries=2, rows_of_query=5)
    [fold] = load_dataset(data, tmp_path).tasks
    assert (len(fold.train), len(fold.test), fold.validation, fold.test.n_features) == (20, 10, None, 3)
    [few] = load_dataset(data, tmp_path, Quick(queries=1)).tasks
    assert (few.train.n_queries, few.test.n_queries, len(few.train)) == (1, 1, 5)
    with pytest.raises(MissingDataError, match="elsewhere: not there"):
        load_dataset(PlanData("P", "parses", ("elsewhere",)), tmp_path)


def test_rows_that_do_not_fit_together_are_refused():
    for y, qid, message in (
        ([1.0], ["a", "a"], "X has 2 rows"),
        ([1.0, 2.0, 3.0], ["a", "b", "a"], "must follow one another"),
    ):
        with pytest.raises(InputError, match=message):
            QueryRows(np.zeros((max(2, len(y)), 1)), np.array(y), np.array(qid))
