"""The reproduction of sparse RankRLS: parses are read, rows drawn, l2 chosen from paths, pairs and costs measured."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet.repro.row_jobs
from support.reproducing import Quiet, results_in, run, run_whole
from tercet.data import LetorData, query_folds, write_letor
from tercet.errors import FormatError, InputError, MissingDataError
from tercet.learn.rls import RankRLS, RLSRegressor
from tercet.measure import paired_test
from tercet.measure.orders import compare_orders
from tercet.repro import find_plan, known_papers, read_plan, reproduce
from tercet.repro.cache import RunDeadline
from tercet.repro.cost_jobs import CostJob, power
from tercet.repro.datasets import load_dataset
from tercet.repro.folds import FoldTask, drawn_rows, measure_by_query, rows_of
from tercet.repro.plan import Cost, CostSeries, Data, Method, Quick
from tercet.repro.quick import first_points
from tercet.repro.readers import ScoredRows, make_offsets, read_movielens, read_parses, split_ratings
from tercet.repro.row_jobs import peak_bytes, prepared, try_grid

pytestmark = pytest.mark.slow  # make test has it, make check has not

PLAN = """
choose_by = "disagreement"

[paper]
key = "tiny"
title = "A Tiny Paper"
authors = "A. Nobody"
venue = "Nowhere 2000"

[quick]
cost_points = 2

[measures.disagreement]
title = "Disagreement"
name = "disagreement"
higher_is_better = false
tolerance = 0.01
spread = "standard error"

[measures.misordered]
title = "Misordered"
name = "misordered"
higher_is_better = false
tolerance = 0.01

[measures.ndcg10]
title = "N@10"
name = "nDCG(dcg='exp-log2')@10"
higher_is_better = true
tolerance = 0.02

[measures.seconds]
title = "Seconds"
name = "seconds"
higher_is_better = false
tolerance = 0.5

[measures.megabytes]
title = "Memory"
name = "megabytes"
higher_is_better = false
tolerance = 0.5
unit = "MB"

[datasets.parses]
title = "Parses"
files = ["parses"]
reader = "parses"
compare = false
measures = ["disagreement", "seconds"]

[datasets.here]
title = "Here"
reader = "letor-folds"
files = ["here"]

[[methods]]
key = "basic"
title = "Basic"
ranker = "RankRLS"
per_query = 3
cv_folds = 3
seeds = 2
parameters = { kernel = "gaussian" }
choose = { gamma = [0.1, 1.0], l2 = [100.0, 1.0, 0.01] }

[[methods]]
key = "sparse"
title = "Sparse"
ranker = "RankRLS"
per_query = 3
drawn_as = "basis"
cv_folds = 3
seeds = 2
parameters = { kernel = "gaussian" }
choose = { gamma = [0.1, 1.0], l2 = [100.0, 1.0, 0.01] }

[[methods]]
key = "rls"
title = "Regressor"
ranker = "RLSRegressor"
parameters = { kernel = "gaussian" }
cv_folds = 3
choose = { gamma = [0.1], l2 = [100.0, 1.0, 0.01] }

[[tables]]
key = "table-1"
title = "Errors"
place = "Table 1"
datasets = ["parses"]
measures = ["disagreement"]
rows = [
  { model = "basic", printed = { disagreement = 0.23 } },
  { model = "sparse", printed = { disagreement = 0.21 } },
]

[[tables]]
key = "here-1"
title = "Errors here"
place = "Table 1"
datasets = ["here"]
measures = ["disagreement", "misordered", "ndcg10", "seconds", "megabytes"]
chosen = true
rows = [{ model = "basic" }, { model = "sparse" }, { model = "rls" }]

[[claims]]
text = "Sparse wins"
place = "Section 5"
better = "sparse"
worse = ["basic"]
measures = ["disagreement", "ndcg10"]
datasets = ["parses", "here"]

[[comparisons]]
key = "paired"
title = "All pairs"
dataset = "here"
measures = ["disagreement"]
models = ["basic", "sparse", "rls"]
test = "wilcoxon"

[[growths]]
key = "growth"
title = "Growth"
dataset = "here"
measure = "misordered"
series = [{ title = "basic", models = ["basic", "rls"] }, { title = "sparse", models = ["sparse"] }]

[[costs]]
key = "cost"
title = "Cost"
place = "Section 4"
ranker = "RankRLS"
parameters = { kernel = "gaussian", gamma = 0.02 }
n_features = 3
rows_of_query = 5
rounds = 1
series = [
  { title = "basic", rows = [20, 40, 80], stated = 3.0 },
  { title = "sparse, by rows", rows = [40, 80, 160], n_basis = [10], stated = 1.0 },
  { title = "sparse, by basis", rows = [160], n_basis = [5, 10, 20], stated = 2.0 },
]
"""
N_CELLS = 4 * (2 + 2 + 1) + 9


def letor(rng: np.random.Generator, queries: range) -> LetorData:
    X = rng.random((8 * len(queries), 4)).round(3)
    y = np.digitize(np.sin(5 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.random(len(X)), (0.5, 1.0))
    return LetorData(X, y, np.repeat([f"q{query}" for query in queries], 8))


def write_parses(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    for part, first in (("train", 0), ("test", 50)):
        X = (rng.random((30, 12)) < 0.5) * rng.random((30, 12)).round(3)
        y = (X[:, 0] + 0.2 * rng.random(30)).round(6)
        lines = (" ".join(f"{j}:{row[j]}" for j in np.flatnonzero(row)) for row in X)
        (folder / f"rank_{part}.features").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"rank_{part}.labels").write_text("".join(f"{label}\n" for label in y))
        (folder / f"rank_{part}.qids").write_text("".join(f"{first + at // 5}\n" for at in range(30)))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    parts = [letor(rng, range(5 * at, 5 * at + 5)) for at in range(3)]
    for fold in range(3):
        (folder / "here" / f"Fold{fold + 1}").mkdir(parents=True)
        for at, name in enumerate(("train", "vali", "test")):
            write_letor(folder / "here" / f"Fold{fold + 1}" / f"{name}.txt", parts[(fold + at) % 3])
    write_parses(folder / "parses", rng)
    return folder


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "tiny.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def whole(home, plan_file, tmp_path_factory) -> tuple[Path, Result]:
    return run_whole(plan_file, home, tmp_path_factory.mktemp("whole"))


# -- end to end ----------------------------------------------------------------------------------------------------


def test_everything_is_written(whole):
    output, result = whole
    names = {path.name for path in output.iterdir()}
    assert names >= {f"{name}.csv" for name in ("table-1", "here-1", "orderings", "paired", "cost")}
    assert names >= {f"{name}.{end}" for name in ("growth", "cost-figure") for end in ("csv", "png")}
    assert result.output.count(": done in ") == N_CELLS == len(list((output / "cells").iterdir()))


def test_our_numbers_are_those_of_a_ranker_that_is_chosen_and_fitted_by_hand(whole, home):
    fold = load_dataset(Data("Here", "letor-folds", ("here",)), home).tasks[1]
    rows = drawn_rows(fold.train, 3, 1)
    best = (np.inf, {})
    for gamma in (0.1, 1.0):
        for l2 in (100.0, 1.0, 0.01):
            ranker = RankRLS(kernel="gaussian", gamma=gamma, l2=l2, n_basis=rows)
            ranker.fit(fold.train.X, fold.train.y, qid=fold.train.qid)
            held_out = fold.validation
            error = compare_orders(ranker.predict(held_out.X), held_out.y, held_out.qid).mean_disagreement
            if error < best[0]:
                best, kept = (error, {"gamma": gamma, "l2": l2}), ranker
    cell = next(
        cell
        for cell in results_in(whole[0])["methods"]
        if (cell["dataset"], cell["method"], cell["seed"], cell["fold"]) == ("here", "sparse", 1, fold.name)
    )
    assert cell["facts"]["chosen"] == best[1]
    expected = compare_orders(kept.predict(fold.test.X), fold.test.y, fold.test.qid)
    assert cell["by_query"]["sparse"]["disagreement"] == pytest.approx(expected.disagreement.tolist())
    assert cell["by_query"]["sparse"]["misordered"] == pytest.approx((1 - expected.concordance).tolist())
    assert (cell["facts"]["n_rows"], cell["facts"]["n_drawn"]) == (len(fold.train), 15)
    assert cell["models"]["sparse"]["megabytes"] > 0


def test_the_basic_form_knows_the_drawn_rows_only(whole):
    cells = [cell for cell in results_in(whole[0])["methods"] if cell["method"] == "basic"]
    assert {(cell["dataset"], cell["facts"]["n_rows"]) for cell in cells} == {("here", 15), ("parses", 18)}
    assert all(cell["facts"]["n_drawn"] == cell["facts"]["n_rows"] for cell in cells)


def test_measures_are_those_that_the_grades_allow(whole):
    found = results_in(whole[0])
    parses = [cell for cell in found["methods"] if cell["dataset"] == "parses"]
    assert all(set(values) == {"disagreement"} for cell in parses for values in cell["by_query"].values())
    assert all(len(values["disagreement"]) == 6 for cell in parses for values in cell["by_query"].values())
    claims = [(record["dataset"], record["measure"]) for record in found["tables"]["orderings"]]
    assert claims == [("parses", "disagreement"), ("here", "disagreement"), ("here", "ndcg10")]


def test_printed_numbers_of_other_data_have_no_verdict(whole):
    first, second = results_in(whole[0])["tables"]["table-1"]
    assert (first["paper"], second["paper"]) == (0.23, 0.21)
    assert {first["verdict"], second["verdict"]} == {"not compared"}
    assert "paper 0.23" in (whole[0] / "table.txt").read_text()


def test_tests_are_wilcoxons_over_queries_with_seeds_taken_together(whole):
    found = results_in(whole[0])
    record = found["tables"]["paired"][0]
    assert (record["first"], record["second"], record["test"], record["n"]) == ("basic", "sparse", "wilcoxon", 15)
    by_method = {}
    for method in ("basic", "sparse"):
        cells = [cell for cell in found["methods"] if (cell["dataset"], cell["method"]) == ("here", method)]
        runs = [
            [v for cell in cells if cell["seed"] == s for v in cell["by_query"][method]["disagreement"]] for s in (0, 1)
        ]
        by_method[method] = np.mean(runs, axis=0)
    expected = paired_test(by_method["basic"], by_method["sparse"], "wilcoxon")
    assert record["p"] == pytest.approx(expected.p_value)
    assert record["p_holm"] >= record["p"]


def test_costs_have_every_point_and_their_powers(whole):
    output, _ = whole
    found = results_in(output)
    assert [(p["n_rows"], p["n_basis"]) for p in found["costs"]] == [
        *((20, 20), (40, 40), (80, 80)),
        *((40, 10), (80, 10), (160, 10)),
        *((160, 5), (160, 10), (160, 20)),
    ]
    basic = [record for record in found["tables"]["cost"] if record["series"] == "basic"]
    slope = np.polyfit(np.log([20, 40, 80]), np.log([record["seconds"] for record in basic]), 1)[0]
    assert basic[0]["power_of_seconds"] == pytest.approx(slope)
    page = (output / "index.html").read_text()
    assert f"m^{slope:.2f}" in page
    assert ("the machine had a load of" in page) == hasattr(os, "getloadavg")


@pytest.mark.slow
def test_what_is_done_is_kept(whole, home, plan_file, monkeypatch):
    before = results_in(whole[0])
    monkeypatch.setattr(tercet.repro.row_jobs, "try_grid", None)
    again = run(plan_file, "--data-home", home, "-o", whole[0])
    assert again.exit_code == 0, again.output
    assert again.output.count(": kept") == N_CELLS
    assert results_in(whole[0]) == before


def test_a_quick_run_and_one_data_set_and_a_budget(home, plan_file, tmp_path):
    plan, listener = read_plan(plan_file), Quiet()
    quick = reproduce(plan, home, tmp_path / "quick", listener=listener, quick=True)
    assert {len(points) for points in quick.costs.values()} == {2}
    assert {seed for _, _, seed in quick.cells} == {0}
    one = reproduce(plan, home, tmp_path / "one", listener=listener, only=("parses",), seeds=1)
    assert not one.costs
    assert listener.total == 3
    none = reproduce(plan, home, tmp_path / "none", listener=listener, budget=1e-9)
    assert (len(none.cut), none.costs, none.cells) == (N_CELLS, {}, {})
    assert not (tmp_path / "none").exists()


# -- drawing and choosing -------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 5), st.data())
def test_what_is_drawn_of_a_query_depends_on_nothing_but_it_and_the_seed(sizes, n, seed, data):
    qid = np.repeat([f"q{at}" for at in range(len(sizes))], sizes)
    rows = ScoredRows(np.arange(len(qid), dtype=float)[:, None], np.zeros(len(qid)), qid)
    drawn = drawn_rows(rows, n, seed)
    assert (np.diff(drawn) > 0).all()
    assert [int((qid[drawn] == q).sum()) for q in rows.qids] == [min(n, size) for size in sizes]
    only = data.draw(st.sampled_from(rows.qids.tolist()))
    alone = rows_of(rows, np.flatnonzero(qid == only))
    assert alone.X[drawn_rows(alone, n, seed), 0].tolist() == drawn[qid[drawn] == only].tolist()


def test_another_seed_draws_other_rows():
    rows = ScoredRows(np.zeros((40, 1)), np.zeros(40), np.repeat(["a", "b"], 20))
    assert drawn_rows(rows, 5, 0).tolist() != drawn_rows(rows, 5, 1).tolist()


def test_both_forms_are_given_the_same_rows():
    data = letor(np.random.default_rng(0), range(4))
    method = Method("m", "M", "RankRLS", per_query=3)
    nothing, few = prepared(method, data, 1)
    basis, every = prepared(replace(method, drawn_as="basis"), data, 1)
    assert nothing == {}
    assert every is data
    assert few.X.tolist() == data.X[basis["n_basis"]].tolist()


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
    tried = try_grid(method, fold, "disagreement", 0, method.parameters, RunDeadline())
    folds = query_folds(train.qid, 3, 0)
    parts = [(train, vali)] if has_vali else [(rows_of(train, a), rows_of(train, b)) for a, b in folds]
    assert [trial.setting for trial in tried.trials] == [
        {"gamma": gamma, "l2": l2} for gamma in (0.1, 2.0) for l2 in (10.0, 0.1)
    ]
    assert tried.crossed != has_vali
    for trial in tried.trials:
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
    tried = try_grid(method, FoldTask("s", train, None, test), "disagreement", 0, method.parameters, RunDeadline())
    assert tried.crossed
    more, rows = prepared(method, train, 0)
    assert len(rows) == (len(train) if drawn_as == "basis" else 4 * 6)
    for trial in tried.trials:
        fitted = ranker(kernel="gaussian", gamma=trial.setting["gamma"], **more).fit(rows.X, rows.y, qid=rows.qid)
        scores = fitted.leave_query_out([trial.setting["l2"]])[:, 0]
        errors = measure_by_query(scores, rows, ["disagreement"])["disagreement"]
        assert trial.values == pytest.approx(errors)


def test_pairs_are_counted_for_every_query_in_its_place():
    rows = ScoredRows(np.zeros((6, 1)), [1.0, 0.5, 0.7, 0.1, 0.1, 0.2], ["a", "a", "alone", "tied", "tied", "tied"])
    found = measure_by_query(np.array([0.0, 1.0, 5.0, 1.0, 2.0, 3.0]), rows, ["misordered", "disagreement", "seconds"])
    assert list(found) == ["misordered", "disagreement"]
    assert found["disagreement"].tolist() == pytest.approx([1.0, 0.0, 1 / 6])
    assert found["misordered"].tolist() == [1.0, 0.0, 0.0]


# -- costs ----------------------------------------------------------------------------------------------------------


def test_memory_is_what_arrays_hold_at_most():
    def work() -> None:
        first = np.zeros(1_000_000)
        del first
        np.zeros(500_000)

    assert peak_bytes(work) == pytest.approx(8_000_000, rel=0.01)
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        held = np.zeros(4_000_000)
        assert peak_bytes(work) == pytest.approx(8_000_000, rel=0.01)  # what is there before does not count
        assert tracemalloc.is_tracing()
        assert len(held)
    finally:
        tracemalloc.stop()


def test_memory_of_the_two_forms_goes_with_rows_and_with_basis_vectors():
    cost = Cost("c", "C", "", "RankRLS", (), {"kernel": "gaussian", "gamma": 0.1}, n_features=3, rounds=1)
    basic, twice = (CostJob(cost, 0, n, None).run()["megabytes"] for n in (300, 600))
    sparse_form = CostJob(cost, 0, 600, 60).run()["megabytes"]
    assert 3.0 < twice / basic < 4.5
    assert basic > 8 * 300 * 300 / 1e6
    assert sparse_form < twice / 3


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 4), st.floats(1e-6, 1e3))
def test_a_power_is_found_again(slope, height):
    points = [{"n_rows": 7, "n_basis": n, "seconds": height * n**slope} for n in (10, 30, 100)]
    found = power([{"n_rows": 7, "n_basis": 1, "seconds": 1e9}, *points], "n_basis", "seconds")  # the smallest is left
    assert found == pytest.approx((slope, np.log(height)), abs=1e-6)
    assert power(points[:1], "n_basis", "seconds") is None


def test_points_of_a_series():
    by_rows = CostSeries("s", (10, 20, 40), 1.0, (5,))
    assert by_rows.points() == [(10, 5), (20, 5), (40, 5)]
    assert first_points(by_rows, 2).points() == [(10, 5), (20, 5)]
    assert first_points(CostSeries("s", (40,), 2.0, (5, 10)), 1).points() == [(40, 5)]
    assert CostSeries("s", (10, 20), 3.0).points() == [(10, None), (20, None)]


# -- reading --------------------------------------------------------------------------------------------------------


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
        ("features", "1:2\n5\n", r"rank_test.features:2: '5'; index:value"),
        ("features", "1:x\n", r"rank_test.features:1: value 'x'"),
        ("features", "", r"rank_test.features: no rows"),
        ("labels", "0.5\n", r"rank_test.labels: 1 lines, but rank_test.features has 30"),
        ("labels", "nan\n" * 30, r"rank_test.labels:1: score 'nan'"),
        ("qids", "\n" * 30, r"rank_test.qids:1: the qid is empty"),
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
        ([1.0], ["a", "a"], "one per row"),
        ([1.0, np.inf], ["a", "a"], "finite"),
        ([1.0, 2.0, 3.0], ["a", "b", "a"], "stand together"),
    ):
        with pytest.raises(InputError, match=message):
            ScoredRows(np.zeros((max(2, len(y)), 1)), y, qid)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "misordered"', 'name = "mislaid"', "Or one of disagreement, misordered, features used"),
        ('measures = ["disagreement", "seconds"]', 'measures = ["luck"]', r"datasets.parses.measures: 'luck'"),
        ('dataset = "here"\nmeasures = ["disagreement"]', 'dataset = "parses"\nmeasures = ["ndcg10"]', "'ndcg10'"),
        ("per_query = 3\ndrawn_as", "drawn_as", "a basis needs at least 1"),
        (
            'key = "rls"\ntitle = "Regressor"\nranker = "RLSRegressor"',
            'key = "rls"\ntitle = "R"\nranker = "Luck"',
            "Luck",
        ),
        ('models = ["basic", "rls"] }', 'models = ["nobody"] }', r"growths\[0\].series: 'nobody'"),
        ("rows = [20, 40, 80]", "rows = [40, 20]", "needs two rising numbers"),
        ("rows = [40, 80, 160], n_basis = [10]", "rows = [40, 80], n_basis = [50]", "larger n_basis than rows"),
        ("rows = [160]", "rows = [80, 160]", "one of them must be one number"),
        ("gamma = 0.02", "width = 0.02", r"costs\[0\] \(cost\).parameters: 'width'"),
        ('key = "growth"', 'key = "cost"', "the key 'cost' is there twice"),
    ],
)
def test_a_plan_that_does_not_fit_together_is_refused(tmp_path, old, new, message):
    assert old in PLAN
    path = tmp_path / "bad.toml"
    path.write_text(PLAN.replace(old, new, 1))
    with pytest.raises(FormatError, match=message):
        read_plan(path)


# -- the paper, typed a second time -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paper():
    assert "rankrls" in known_papers()
    return find_plan("rankrls")


def test_the_printed_numbers_are_the_papers(paper):
    assert paper.tables[0].key == "table-1-made-up"
    for key, end in (("table-1-made-up", "-5"), ("table-1-movielens", "-5"), ("table-1", "")):
        table = next(table for table in paper.tables if table.key == key)
        printed = {row.model: row.printed["disagreement"] for row in table.rows if row.printed}
        assert printed == {
            f"rls{end}": 0.27,
            f"sparse-rls{end}": 0.24,
            f"rankrls{end}": 0.23,
            f"sparse-rankrls{end}": 0.21,
        }
    assert not any(data.compare for data in paper.datasets.values())


def test_the_papers_protocol_is_that_of_the_plan(paper):
    for kind in ("rls", "rankrls"):
        for size in ("", "-2", "-4", "-5", "-8", "-16"):
            basic, sparse_form = paper.method_of(f"{kind}{size}"), paper.method_of(f"sparse-{kind}{size}")
            # The basis vectors of the sparse methods are the training examples of the others; all else is the same.
            same = {"key": "", "title": "", "drawn_as": "examples"}
            assert replace(basic, **same) == replace(sparse_form, **same)
            assert (basic.drawn_as, sparse_form.drawn_as) == ("examples", "basis")
            assert basic.per_query == int(size[1:] or 2)
    assert all(method.cv_folds == 10 for method in paper.methods if method.datasets == ("parses",))
    # 500 sentences with 20 parses to learn from, 5 of each drawn: m = 10,000, r = 2,500; 600 to test on.
    for name in ("made-up", "movielens"):
        data = paper.datasets[name]
        assert (data.train_queries, data.test_queries, data.rows_of_query) == (500, 600, 20)
    assert paper.method_of("sparse-rankrls-5").seeds == 10
    assert paper.measures[paper.choose_by].name == "disagreement"
    assert {comparison.test for comparison in paper.comparisons} == {"wilcoxon"}
    stated = {series.title: series.stated for series in paper.costs[0].series}
    assert stated == {"basic": 3.0, "sparse, r = 500": 1.0, "sparse, m = 12,000": 2.0}
