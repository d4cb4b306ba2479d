"""Rows of queries: measures, choices without the test part, and passes, paths and queries left out in one go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reproductions.folds import FoldTask, QueryRows, drawn_rows, in_random_order, measure_by_query
from reproductions.plan import Method
from reproductions.row_jobs import Lesson, peak_bytes, try_grid
from tercet.data import query_folds
from tercet.learn.rls import RankRLS, RLSRegressor

N10 = "nDCG(dcg='exp-log2')@10"


def letor(rng: np.random.Generator, queries: range) -> QueryRows:
    X = rng.random((10 * len(queries), 7)).round(3)
    X[:, 6] = 0.0
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1] + 0.3 * rng.random(len(X)), (0.9, 1.2))
    return QueryRows(X, y, np.repeat([f"q{query}" for query in queries], 10))


def made_fold() -> FoldTask:
    rng = np.random.default_rng(0)
    return FoldTask("Fold1", *(letor(rng, range(4 * at, 4 * at + 4)) for at in range(3)))


def test_the_order_of_a_file_ranks_nothing():
    rng = np.random.default_rng(3)
    rows = letor(rng, range(40))
    best = rows.take(np.lexsort((-rows.y, rows.qid)))  # as a file sorted by grade
    mixed = in_random_order(best, 0)

    def found(data: QueryRows) -> float:
        return float(measure_by_query(np.zeros(len(data)), data, [N10])[N10].mean())

    assert found(best) == pytest.approx(np.mean([rows.y[rows.qid == qid].any() for qid in rows.qids]))
    assert found(mixed) < found(best) - 0.2
    assert mixed.qid.tolist() == best.qid.tolist()
    for qid in best.qids:
        one, two = (data.X[data.qid == qid] for data in (best, mixed))
        assert sorted(map(tuple, one)) == sorted(map(tuple, two))
    alone = best.take(np.flatnonzero(best.qid == "q7"))
    np.testing.assert_array_equal(in_random_order(alone, 0).X, mixed.X[mixed.qid == "q7"])


def test_test_parts_choose_nothing():
    split = made_fold()
    method = Method("m", "M", "FTRLRanker", choose={"l1": (64.0, 4.0)}, choose_on="cross-validation", cv_folds=2)
    rng = np.random.default_rng(1)
    other = FoldTask(split.name, split.train, split.validation, letor(rng, range(50, 53)))
    for how in ("validation", "cross-validation"):
        one, two = (try_grid(replace(method, choose_on=how), part, N10, 0, {}) for part in (split, other))
        assert [trial.values.tolist() for trial in one] == [trial.values.tolist() for trial in two]
    assert len(one[0].values) == split.train.n_queries + split.validation.n_queries  # each is left out once
    assert [trial.setting for trial in one] == [{"l1": 64.0}, {"l1": 4.0}]


@pytest.mark.parametrize("how", ["validation", "cross-validation"])
def test_passes_of_one_run_are_those_of_runs_of_their_own(how):
    split = made_fold()
    grid = {"batch_size": ("none", 3), "l1": (4.0, 0.5), "epochs": (1, 3)}
    method = Method("m", "M", "FTRLRanker", choose=grid, choose_on=how, cv_folds=2)
    trials = try_grid(method, split, N10, 0, {"rate": 0.5})
    assert [trial.setting["epochs"] for trial in trials] == [1, 3] * 4
    for trial in trials:
        alone = replace(method, choose={name: (value,) for name, value in trial.setting.items() if name != "epochs"})
        [other] = try_grid(alone, split, N10, 0, {"rate": 0.5, "epochs": trial.setting["epochs"]})
        np.testing.assert_array_equal(other.values, trial.values)
        assert other.size == trial.size
        if how == "validation":
            np.testing.assert_array_equal(other.result.coef_, trial.result.coef_)
            assert trial.result.epochs == trial.setting["epochs"]


@pytest.mark.parametrize("ranker", [RankRLS, RLSRegressor])
@pytest.mark.parametrize("has_vali", [True, False])
def test_a_path_gives_what_fits_one_by_one_give(ranker, has_vali):
    rng = np.random.default_rng(3)
    train, vali, test = letor(rng, range(6)), letor(rng, range(10, 14)), letor(rng, range(20, 22))
    method = Method(
        "m",
        "M",
        ranker.__name__,
        parameters={"kernel": "gaussian"},
        choose={"l2": (10.0, 0.1), "gamma": (0.1, 2.0)},
        per_query=4,
        drawn_as="basis",
        cv_folds=3,
    )
    fold = FoldTask("s", train, vali if has_vali else None, test)
    tried = try_grid(method, fold, "disagreement", 0, method.parameters)
    folds = query_folds(train.qid, 3, 0)
    parts = [(train, vali)] if has_vali else [(train.take(a), train.take(b)) for a, b in folds]
    assert [trial.setting for trial in tried] == [
        {"gamma": gamma, "l2": l2} for gamma in (0.1, 2.0) for l2 in (10.0, 0.1)
    ]
    for trial in tried:
        values = []
        for learn_from, measured_on in parts:
            basis = drawn_rows(learn_from, 4, 0)
            fitted = ranker(kernel="gaussian", n_basis=basis, **trial.setting)
            fitted.fit(learn_from.X, learn_from.y, qid=learn_from.qid)
            values += measure_by_query(fitted.predict(measured_on.X), measured_on, ["disagreement"])[
                "disagreement"
            ].tolist()
        assert trial.values == pytest.approx(values)


@pytest.mark.parametrize("ranker", [RankRLS, RLSRegressor])
@pytest.mark.parametrize("drawn_as", ["examples", "basis"])
def test_each_query_is_measured_without_itself(ranker, drawn_as):
    rng = np.random.default_rng(3)
    train, test = letor(rng, range(6)), letor(rng, range(20, 22))
    method = Method(
        "m",
        "M",
        ranker.__name__,
        parameters={"kernel": "gaussian"},
        choose={"l2": (10.0, 0.1), "gamma": (0.1, 2.0)},
        choose_on="leave-query-out",
        per_query=4,
        drawn_as=drawn_as,
    )
    tried = try_grid(method, FoldTask("s", train, None, test), "disagreement", 0, method.parameters)
    lesson = Lesson.from_rows(method, train, train, 0)
    more, rows = lesson.more, lesson.rows
    assert len(rows) == (len(train) if drawn_as == "basis" else 4 * 6)
    for trial in tried:
        fitted = ranker(kernel="gaussian", gamma=trial.setting["gamma"], **more).fit(rows.X, rows.y, qid=rows.qid)
        scores = fitted.leave_query_out([trial.setting["l2"]])[:, 0]
        errors = measure_by_query(scores, rows, ["disagreement"])["disagreement"]
        assert trial.values == pytest.approx(errors)


def test_pairs_are_counted_for_every_query_in_its_place():
    rows = QueryRows(
        np.zeros((6, 1)), np.array([1.0, 0.5, 0.7, 0.1, 0.1, 0.2]), np.array(["a", "a", "alone", *["tied"] * 3])
    )
    found = measure_by_query(np.array([0.0, 1.0, 5.0, 1.0, 2.0, 3.0]), rows, ["misordered", "disagreement", "seconds"])
    assert list(found) == ["misordered", "disagreement"]
    assert found["disagreement"].tolist() == pytest.approx([1.0, 0.0, 1 / 6])
    assert found["misordered"].tolist() == [1.0, 0.0, 0.0]


def test_memory_is_what_arrays_hold_at_most():
    def work() -> None:
        first = np.zeros(1_000_000)
        del first
        np.zeros(500_000)

    assert peak_bytes(work) == pytest.approx(8_000_000, rel=0.01)
