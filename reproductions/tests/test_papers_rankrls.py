"""The reproduction of sparse RankRLS: rows are drawn, l2 chosen from paths, pairs measured."""

from __future__ import annotations

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproducing import PLANS, results_in, run_quietly
from scored_rows import write_folds, write_parses

from reproductions.datasets import load_dataset
from reproductions.folds import FoldTask, QueryRows, drawn_rows, measure_by_query
from reproductions.plan import Method, PlanData
from reproductions.plan_reading import read_plan
from reproductions.row_jobs import peak_bytes, prepared, try_grid
from tercet.data import query_folds
from tercet.learn.rls import RankRLS, RLSRegressor
from tercet.measure import compare_orders, paired_test

pytestmark = pytest.mark.slow  # make test has it, make check has not

PLAN_FILE = PLANS / "rankrls.toml"
PAPER = "rankrls"
N_JOBS = 4 * (2 + 2 + 1)


def letor(rng: np.random.Generator, queries: range) -> QueryRows:
    X = rng.random((8 * len(queries), 4)).round(3)
    y = np.digitize(np.sin(5 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.random(len(X)), (0.5, 1.0))
    return QueryRows(X, y, np.repeat([f"q{query}" for query in queries], 8))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    parts = [letor(rng, range(5 * at, 5 * at + 5)) for at in range(3)]
    write_folds(folder / "here", parts)
    write_parses(folder / "parses", rng)
    return folder


# -- end to end ----------------------------------------------------------------------------------------------------


def test_everything_is_written(whole):
    output, result = whole
    names = {path.name for path in output.iterdir()}
    assert names >= {f"{name}.csv" for name in ("table-1", "here-1", "orderings", "paired")}
    assert len(re.findall(r": \d+ s$", result.output, re.M)) == N_JOBS == len(list((output / "cache").iterdir()))


def test_our_numbers_are_those_of_a_ranker_that_is_chosen_and_fitted_by_hand(whole, home):
    fold = load_dataset(PlanData("Here", "letor-folds", ("here",)), home).tasks[1]
    rows = drawn_rows(fold.train, 3, 1)
    best = (np.inf, {})
    for gamma in (0.1, 1.0):
        for l2 in (100.0, 1.0, 0.01):
            ranker = RankRLS(kernel="gaussian", gamma=gamma, l2=l2, n_basis=rows)
            ranker.fit(fold.train.X, fold.train.y, qid=fold.train.qid)
            held_out = fold.validation
            error = compare_orders(ranker.predict(held_out.X), held_out.y, held_out.qid).disagreement.mean()
            if error < best[0]:
                best, kept = (error, {"gamma": gamma, "l2": l2}), ranker
    fit = next(
        fit
        for fit in results_in(whole[0])["methods"]
        if (fit["dataset"], fit["method"], fit["seed"], fit["fold"]) == ("here", "sparse", 1, fold.name)
    )
    assert fit["facts"]["chosen"] == best[1]
    expected = compare_orders(kept.predict(fold.test.X), fold.test.y, fold.test.qid)
    assert fit["by_query"]["sparse"]["disagreement"] == pytest.approx(expected.disagreement.tolist())
    assert fit["by_query"]["sparse"]["misordered"] == pytest.approx((1 - expected.concordance).tolist())
    assert (fit["facts"]["n_rows"], fit["facts"]["n_drawn"]) == (len(fold.train), 15)
    assert fit["models"]["sparse"]["megabytes"] > 0


def test_the_basic_form_knows_the_drawn_rows_only(whole):
    fits = [fit for fit in results_in(whole[0])["methods"] if fit["method"] == "basic"]
    assert {(fit["dataset"], fit["facts"]["n_rows"]) for fit in fits} == {("here", 15), ("parses", 18)}
    assert all(fit["facts"]["n_drawn"] == fit["facts"]["n_rows"] for fit in fits)


def test_measures_are_those_that_the_grades_allow(whole):
    found = results_in(whole[0])
    parses = [fit for fit in found["methods"] if fit["dataset"] == "parses"]
    assert all(set(values) == {"disagreement"} for fit in parses for values in fit["by_query"].values())
    assert all(len(values["disagreement"]) == 6 for fit in parses for values in fit["by_query"].values())
    claims = [(record["dataset"], record["measure"]) for record in found["tables"]["orderings"]]
    assert claims == [("parses", "disagreement"), ("here", "disagreement"), ("here", "ndcg10")]


def test_printed_numbers_of_other_data_have_no_verdict(whole):
    first, second = results_in(whole[0])["tables"]["table-1"]
    assert (first["paper"], second["paper"]) == (0.23, 0.21)
    assert {first["verdict"], second["verdict"]} == {"not compared"}
    assert "paper 0.23" in (whole[0] / "index.html").read_text()


def test_tests_are_wilcoxons_over_queries_with_seeds_taken_together(whole):
    found = results_in(whole[0])
    record = found["tables"]["paired"][0]
    assert (record["first"], record["second"], record["test"], record["n"]) == ("basic", "sparse", "wilcoxon", 15)
    by_method = {}
    for method in ("basic", "sparse"):
        fits = [fit for fit in found["methods"] if (fit["dataset"], fit["method"]) == ("here", method)]
        runs = [
            [v for fit in fits if fit["seed"] == s for v in fit["by_query"][method]["disagreement"]] for s in (0, 1)
        ]
        by_method[method] = np.mean(runs, axis=0)
    expected = paired_test(by_method["basic"], by_method["sparse"], "wilcoxon")
    assert record["p"] == pytest.approx(expected.p_value)
    assert record["p_holm"] >= record["p"]


def test_a_quick_run_of_one_data_set(home, tmp_path):
    quick, lines = run_quietly(read_plan(PLAN_FILE), home, tmp_path, quick=True, only=("parses",))
    assert {(dataset, seed) for dataset, _, seed in quick.fits} == {("parses", 0)}
    assert len(lines) == 3


# -- drawing and choosing -------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 5), st.data())
def test_what_is_drawn_of_a_query_depends_on_nothing_but_it_and_the_seed(sizes, n, seed, data):
    qid = np.repeat([f"q{at}" for at in range(len(sizes))], sizes)
    rows = QueryRows(np.arange(len(qid), dtype=float)[:, None], np.zeros(len(qid)), qid)
    drawn = drawn_rows(rows, n, seed)
    assert (np.diff(drawn) > 0).all()
    assert [int((qid[drawn] == q).sum()) for q in rows.qids] == [min(n, size) for size in sizes]
    only = data.draw(st.sampled_from(rows.qids.tolist()))
    alone = rows.take(np.flatnonzero(qid == only))
    assert alone.X[drawn_rows(alone, n, seed), 0].tolist() == drawn[qid[drawn] == only].tolist()


def test_another_seed_draws_other_rows():
    rows = QueryRows(np.zeros((40, 1)), np.zeros(40), np.repeat(["a", "b"], 20))
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
    tried = try_grid(method, fold, "disagreement", 0, method.parameters)
    folds = query_folds(train.qid, 3, 0)
    parts = [(train, vali)] if has_vali else [(train.take(a), train.take(b)) for a, b in folds]
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
    tried = try_grid(method, FoldTask("s", train, None, test), "disagreement", 0, method.parameters)
    assert tried.crossed
    more, rows = prepared(method, train, 0)
    assert len(rows) == (len(train) if drawn_as == "basis" else 4 * 6)
    for trial in tried.trials:
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


# -- memory ----------------------------------------------------------------------------------------------------------


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


# -- the paper, typed a second time -----------------------------------------------------------------------------------


def test_the_printed_numbers_are_the_papers(paper):
    assert paper.tables[0].key == "table-1-made-up"
    for key, end in (("table-1-made-up", "-5"), ("table-1", "")):
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
    data = paper.datasets["made-up"]
    assert (data.train_queries, data.test_queries, data.rows_of_query) == (500, 600, 20)
    assert paper.method_of("sparse-rankrls-5").seeds == 10
    assert paper.measures[paper.choose_by].name == "disagreement"
    assert {comparison.test for comparison in paper.comparisons} == {"wilcoxon"}
