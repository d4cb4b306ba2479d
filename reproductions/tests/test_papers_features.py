"""Reproductions with feature vectors: folds are read, settings chosen without the test parts, tables complete."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reproducing import PLANS, refuse, results_in, run, run_quietly
from scored_rows import write_folds

import reproductions.row_jobs
from reproductions.datasets import load_dataset
from reproductions.folds import FoldTask, QueryRows, in_random_order, measure_by_query
from reproductions.plan import Method, PlanData
from reproductions.plan_reading import read_plan
from reproductions.row_jobs import try_grid
from tercet.data import read_letor_folds
from tercet.learn.linear import FTRLRanker
from tercet.measure import measure_rows

pytestmark = pytest.mark.slow  # make test has it, make check has not

N10 = "nDCG(dcg='exp-log2')@10"

PLAN_FILE = PLANS / "features.toml"
PAPER = "minbatsrank"


N_JOBS = 3 * (1 + 1 + 2 + 1 + 2)


def letor(rng: np.random.Generator, queries: range) -> QueryRows:
    X = rng.random((10 * len(queries), 7)).round(3)
    X[:, 6] = 0.0
    y = np.digitize(X[:, 0] + 0.3 * X[:, 1] + 0.3 * rng.random(len(X)), (0.9, 1.2))
    return QueryRows(X, y, np.repeat([f"q{query}" for query in queries], 10))


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    parts = [letor(rng, range(4 * at, 4 * at + 4)) for at in range(3)]
    write_folds(folder / "here", parts)
    (folder / "elsewhere").mkdir()  # a place without folds is passed over
    return folder


# -- end to end ----------------------------------------------------------------------------------------------------


def test_everything_is_written(whole):
    output, result = whole
    names = {path.name for path in output.iterdir()}
    tables = ["statistics", "accuracy", "away-accuracy", "sparsity", "everything", "orderings", "paired", "pairs"]
    figures = ["figure-1-here"]
    assert names >= {"results.json", "index.html"} | {f"{name}.csv" for name in [*tables, "trade-ceilings"]}
    assert names >= {f"{name}.{end}" for name in figures for end in ("csv", "png")}
    assert not any("away" in name for name in names if name.endswith(".png"))
    assert len(re.findall(r": \d+ s$", result.output, re.M)) == N_JOBS == len(list((output / "cache").iterdir()))
    assert all((output / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in figures)


def test_our_numbers_are_those_of_the_chosen_ranker(whole, home):
    folds = read_letor_folds(home / "here")
    fits = [fit for fit in results_in(whole[0])["methods"] if fit["method"] == "ftrl"]
    means = []
    for fold, fit in zip(folds, fits, strict=True):
        best = (-1.0, 0)
        for rate in (0.5, 0.05):
            for l1 in (64.0, 4.0, 0.25):
                ranker = FTRLRanker(rate=rate, l1=l1).fit(fold.train.X, fold.train.y, qid=fold.train.qid)
                found = measure_rows(fold.vali.y, ranker.predict(fold.vali.X), fold.vali.qid, [N10]).mean(N10)
                key = (found, -np.count_nonzero(ranker.coef_))
                if key > best:
                    best, kept, setting = key, ranker, {"rate": rate, "l1": l1}
        assert fit["facts"]["chosen"] == setting
        assert fit["facts"]["n_used"] == np.count_nonzero(kept.coef_)
        test = measure_rows(fold.test.y, kept.predict(fold.test.X), fold.test.qid, [N10])
        assert fit["by_query"]["ftrl"]["ndcg10"] == pytest.approx(test[N10].tolist())
        means.append(test.mean(N10))
    record = next(r for r in results_in(whole[0])["tables"]["everything"] if r["model"] == "Ftrl")
    assert record["measure"] == "ndcg10"
    assert record["ours"] == pytest.approx(np.mean(means))
    assert record["standard_error"] > 0


def test_printed_numbers_stand_beside_ours(whole):
    tables = results_in(whole[0])["tables"]
    first, _, printed, *rest = tables["accuracy"]
    assert (first["paper"], first["place"]) == (0.1234, "Table 2, Ftrl, N@1")
    assert first["difference"] == pytest.approx(first["ours"] - 0.1234)
    assert first["verdict"] == "better"
    assert printed["verdict"].startswith("short by") == (printed["ours"] < 0.88)
    assert rest[-1]["reason"] == "never published"
    assert rest[-1]["paper"] == 0.5
    assert [record["verdict"] for record in tables["statistics"]] == ["same", "same", "not run"]
    page = (whole[0] / "index.html").read_text()
    assert "A Tiny &lt;Paper&gt;" in page
    assert all(number in page for number in ("paper 0.123", "paper 0.778", "paper 0.667", "Secret: never published"))
    assert first["learned_from"] == "6 settings"


def test_the_row_says_how_it_was_chosen(whole):
    page, fits = (whole[0] / "index.html").read_text(), results_in(whole[0])["methods"]
    assert "Crossed, by cross-validation" in page
    assert {fit["seed"] for fit in fits if fit["method"] == "rs"} == {0, 1}
    assert {fit["seed"] for fit in fits if fit["method"] not in ("rs", "averaged")} == {0}
    ceiling = results_in(whole[0])["tables"]["trade-ceilings"][0]
    assert ceiling["settings"] == 6
    assert ceiling["each_on_test"] >= max(ceiling["one_on_test"], ceiling["chosen"]) - 1e-12


def test_orderings_and_paired_tests_are_by_query(whole):
    tables = results_in(whole[0])["tables"]
    by_query, by_fold = tables["orderings"]
    assert (by_query["n"], by_fold["n"]) == (12, None)
    assert "fold" in by_fold["verdict"]
    assert by_query["paper_percent"] == 3.42
    assert by_query["gain_percent"] == pytest.approx(100 * (by_query["better"] / by_query["worse"] - 1))
    assert len(tables["paired"]) == 2 * 2
    assert {record["second"] for record in tables["paired"]} == {"ftrl"}
    assert all(record["p_holm"] >= record["p"] for record in tables["paired"])
    assert [(r["first"], r["second"]) for r in tables["pairs"]] == [
        ("ftrl", "proximal"),
        ("ftrl", "rs"),
        ("proximal", "rs"),
    ]


# -- cached, quick, missing --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_is_done_twice(whole, home, monkeypatch):
    before = results_in(whole[0])

    monkeypatch.setattr(reproductions.row_jobs, "try_grid", refuse)
    again = run(PLAN_FILE, "--data-home", home, "-o", whole[0])
    assert again.exit_code == 0, again.output
    assert again.output.count(": cached") == N_JOBS
    assert results_in(whole[0]) == before


def test_another_grid_is_run_again_and_another_title_is_not(whole, home):
    plan = read_plan(PLAN_FILE)
    ftrl, proximal, *others = plan.methods
    ftrl = replace(ftrl, title="Renamed")
    proximal = replace(proximal, choose={"l1": (0.1, 0.02)})
    _, lines = run_quietly(replace(plan, methods=(ftrl, proximal, *others)), home, whole[0])
    assert sum("Renamed" in line and ": cached" in line for line in lines) == 3
    assert sum("Proximal" in line and line.endswith(" s") for line in lines) == 3


def test_a_seed_that_lacks_a_fold_is_not_shown(whole, home):
    results, _ = run_quietly(read_plan(PLAN_FILE), home, whole[0])
    whole_run = results.values("here", "rs", "map")
    results.fits["here", "rs", 1].pop()
    assert results.values("here", "rs", "map") == whole_run[:1]


def test_a_quick_run_is_small_and_compares_nothing(home, tmp_path):
    result = run(PLAN_FILE, "--data-home", home, "-o", tmp_path, "--quick")
    assert result.exit_code == 0, result.output
    found = results_in(tmp_path)
    assert {fit["fold"] for fit in found["methods"]} == {"Fold1"}
    assert {fit["seed"] for fit in found["methods"]} == {0}
    assert {record["verdict"] for record in found["tables"]["accuracy"] if record["paper"]} == {"not compared", ""}
    assert "A quick run: little of everything." in (tmp_path / "index.html").read_text()


def test_missing_data_is_named_with_every_place(whole, home):
    positions = " and ".join(str(home / name) for name in ("away", "gone.tar.gz"))
    assert f"Away is skipped: looked for {positions}: not there" in whole[1].output
    assert "looked for away and gone.tar.gz" in (whole[0] / "index.html").read_text()


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


# -- choosing -------------------------------------------------------------------------------------------------------


def test_test_parts_choose_nothing(home):
    split = load_dataset(PlanData("Here", "letor-folds", ("here",)), home).tasks[0]
    method = Method("m", "M", "FTRLRanker", choose={"l1": (64.0, 4.0)}, choose_on="cross-validation", cv_folds=2)
    rng = np.random.default_rng(1)
    other = FoldTask(split.name, split.train, split.validation, letor(rng, range(50, 53)))
    for how in ("validation", "cross-validation"):
        one, two = (try_grid(replace(method, choose_on=how), part, N10, 0, {}).trials for part in (split, other))
        assert [trial.values.tolist() for trial in one] == [trial.values.tolist() for trial in two]
    assert len(one[0].values) == split.train.n_queries + split.validation.n_queries  # each is left out once
    assert [trial.setting for trial in one] == [{"l1": 64.0}, {"l1": 4.0}]


@pytest.mark.parametrize("how", ["validation", "cross-validation"])
def test_passes_of_one_run_are_those_of_runs_of_their_own(home, how):
    split = load_dataset(PlanData("Here", "letor-folds", ("here",)), home).tasks[0]
    grid = {"batch_size": ("none", 3), "l1": (4.0, 0.5), "epochs": (1, 3)}
    method = Method("m", "M", "FTRLRanker", choose=grid, choose_on=how, cv_folds=2)
    trials = try_grid(method, split, N10, 0, {"rate": 0.5}).trials
    assert [trial.setting["epochs"] for trial in trials] == [1, 3] * 4
    for trial in trials:
        alone = replace(method, choose={name: (value,) for name, value in trial.setting.items() if name != "epochs"})
        [other] = try_grid(alone, split, N10, 0, {"rate": 0.5, "epochs": trial.setting["epochs"]}).trials
        np.testing.assert_array_equal(other.values, trial.values)
        assert other.size == trial.size
        if how == "validation":
            np.testing.assert_array_equal(other.result.coef_, trial.result.coef_)
            assert trial.result.epochs == trial.setting["epochs"]


def test_a_row_with_seeds_shows_how_far_they_reach(whole):
    values = [fit for fit in results_in(whole[0])["methods"] if fit["method"] == "averaged"]
    assert {fit["seed"] for fit in values} == {0, 1}
    assert {fit["facts"]["n_used"] for fit in values} == {2}
    assert "seeds 0." in (whole[0] / "index.html").read_text()


# -- the paper, typed a second time -----------------------------------------------------------------------------------

TABLE_2 = {
    "hp2004": [
        ("sparserank", 0.6799, 0.7687, 0.8098, 0.8135, 0.7435),
        ("fenchelrank", 0.6800, 0.7880, 0.8123, 0.8239, 0.7475),
        ("minbatsrank", 0.7200, 0.8213, 0.8321, 0.8474, 0.7795),
    ],
    "np2004": [
        ("sparserank", 0.6133, 0.7734, 0.7972, 0.8180, 0.6837),
        ("fenchelrank", 0.5600, 0.7752, 0.7905, 0.8148, 0.7144),
        ("minbatsrank", 0.5867, 0.7855, 0.8103, 0.8282, 0.7059),
    ],
    "td2004": [
        ("sparserank", 0.3867, 0.3523, 0.3263, 0.3151, 0.2362),
        ("fenchelrank", 0.3866, 0.3763, 0.3524, 0.3214, 0.2241),
        ("minbatsrank", 0.5066, 0.4253, 0.3583, 0.3291, 0.2139),
    ],
    "ohsumed": [
        ("sparserank", 0.5671, 0.5000, 0.4764, 0.4563, 0.4489),
        ("fenchelrank", 0.5453, 0.5131, 0.4879, 0.4608, 0.4480),
        ("minbatsrank", 0.5704, 0.5030, 0.4816, 0.4663, 0.4511),
    ],
}
SETS = ("hp2004", "np2004", "td2004", "ohsumed")
TABLE_3 = {
    "fenchelrank": (0.2031, 0.2625, 0.4875, 0.2844),
    "sparserank": (0.3906, 0.6406, 0.5875, 0.2978),
    "minbatsrank": (0.3469, 0.3781, 0.4625, 0.2311),
}
TABLE_4 = {
    "fenchelrank": (26.97, 48.45, 1585.03, 254.97),
    "sparserank": (15.33, 8.61, 33.02, 18.89),
    "minbatsrank": (0.68, 0.08, 0.53, 0.04),
}


def test_the_papers_tables_are_typed_right(paper):
    tables = {table.key: table for table in paper.tables}
    for dataset, rows in TABLE_2.items():
        found = [(row.model, row.printed) for row in tables[f"table-2-{dataset}"].rows]
        names = ("ndcg1", "ndcg3", "ndcg5", "ndcg10", "map")
        assert found == [(method, dict(zip(names, numbers, strict=True))) for method, *numbers in rows]
    for key, printed in (("table-3", TABLE_3), ("table-4", TABLE_4)):
        found = {row.model: row.printed for row in tables[key].rows}
        assert found == {method: dict(zip(SETS, numbers, strict=True)) for method, numbers in printed.items()}
    rows = {name: tuple(facts.values()) for name, facts in paper.statistics[0].printed.items()}
    assert rows == {
        "td2004": (75, 64, 2, 74146),
        "hp2004": (75, 64, 2, 74409),
        "np2004": (75, 64, 2, 73834),
        "ohsumed": (106, 45, 3, 16140),
    }


def test_the_papers_protocol_is_that_of_the_plan(paper):
    method = paper.method_of("minbatsrank")
    gammas, lambdas = tuple(2.0**k for k in range(1, -11, -1)), tuple(2.0**k for k in range(17, -3, -1))
    assert method.choose == {
        "batch_size": ("none", 1000, 100),
        "rate": gammas,
        "l1": lambdas,
        "epochs": (1, 2, 3, 5),
    }
    assert method.parameters == {"rho": 1.0}
    assert method.choose_on == "validation"
    for passes in (1, 2, 3, 5):
        fixed = paper.method_of(f"minbatsrank-t{passes}")
        assert (fixed.choose, fixed.parameters["epochs"]) == ({"rate": gammas, "l1": lambdas}, passes)
    assert paper.measures[paper.choose_by].name == N10
    assert paper.measures["map2"].name == "AP(rel=2)"
    assert dict(paper.claims[0].printed) == {"hp2004": 20.0, "np2004": 4.77, "td2004": 18.73, "ohsumed": 3.42}
    assert paper.method_of("ours-sparse").parameters["largest"] / 45 <= 0.2311


def test_what_the_paper_compares_is_corrected_by_itself(paper):
    stated = [claim for claim in paper.claims if not claim.position.startswith("not in the paper")]
    *own, others = paper.comparisons
    tested = {model for tests in own for model in (*tests.models, tests.against)} - {""}
    assert tested == {model for claim in stated for model in (claim.better, *claim.worse)}
    assert not tested & set(others.models)
    assert {tests.measures for tests in paper.comparisons} == {("ndcg1", "ndcg10", "map")}
