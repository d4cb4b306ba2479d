"""Plans over queries with links: choices, blends, figures, and what Bai et al. printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from reproducing import PLANS, results_in, run

from reproductions.plan_reading import read_plan
from reproductions.results import PaperResults
from tercet.measure import paired_test

pytestmark = pytest.mark.slow  # make test has it, make check has not


# -- a plan --------------------------------------------------------------------------------------------------------

PLAN_FILE = PLANS / "links.toml"
PLAN = PLAN_FILE.read_text(encoding="utf-8")
PAPER = "ssi"


@pytest.fixture(scope="module")
def home(linked_home) -> Path:
    return linked_home


def test_every_row_has_numbers_or_a_reason(whole):
    found = results_in(whole[0])
    main = found["tables"]["main"]
    assert [record["model"] for record in main[::3]] == [
        "TFIDF",
        "QE",
        "another title",
        "CFH",
        "Japanese",
        "Impossible",
        "Slow",
    ]
    for record in main:
        assert (record["ours"] is None) == (record["model"] == "Impossible")
        assert record.get("reason", "") == ("needs what nobody has" if record["model"] == "Impossible" else "")
    page = (whole[0] / "index.html").read_text()
    assert "needs what nobody has" in page
    assert re.search(r"\d\.\d{3}\s±\s0\.\d{3}", page)
    assert {row["word"] for row in found["tables"]["near"]} == {"only3"}
    assert found["tables"]["near"][0]["ours"]


def test_what_the_first_seed_chose_is_given_to_the_second(whole):
    methods = results_in(whole[0])["methods"]
    fits = {(fit["method"], fit["seed"]): fit for fit in methods}
    assert fits["chosen", 0]["facts"]["chosen"] == {"rate": 0.1}
    assert [one["rate"] for one in fits["chosen", 0]["facts"]["tried"]] == [1e-6, 0.1]
    assert fits["chosen", 1]["facts"]["chosen"] == {}
    assert fits["chosen", 1]["models"]["chosen"]["map"] == pytest.approx(
        fits["chosen", 0]["models"]["chosen"]["map"], abs=0.2
    )
    assert ("slow", 1) not in fits


def test_a_blend_is_measured_from_its_components_also_when_those_are_cached(whole, linked_home, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    for file in (whole[0] / "cache").iterdir():
        if not file.name.startswith("wiki-cfh"):
            (cache / file.name).write_bytes(file.read_bytes())
    result = run(PLAN_FILE, "--data-home", linked_home, "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert len(re.findall(r": \d+ s$", result.output, re.M)) == 2
    assert (tmp_path / "main.csv").read_text() == (whole[0] / "main.csv").read_text()


def test_figures_have_their_numbers(whole):
    results = results_in(whole[0])
    found, found_queries = results["figures"], results["data"]["wiki"]["statistics"]["test queries"]
    walk = found["walk-kyoto"]
    assert [point["step"] for point in walk] == [100, 632, 4000]
    assert walk[-1]["training error"] < walk[0]["training error"]
    points = found["points"]
    assert len(points) == found_queries
    assert set(points[0]) == {"query", "TFIDF", "Chosen rate"}


def test_a_fit_that_diverges_is_named_and_the_others_go_on(linked_home, tmp_path):
    path = tmp_path / "wild.toml"
    path.write_text(PLAN.replace("parameters = { n_components = 3 }", "parameters = { n_components = 3, rate = 1e12 }"))
    result = run(path, "--data-home", linked_home, "-o", tmp_path / "out", "--only", "wiki")
    assert result.exit_code == 0, result.output
    found = results_in(tmp_path / "out")
    assert [line.split(":")[0] for line in found["failed"]] == [
        "Wiki, Rare, seed 0",
        "Wiki, CFH, seed 0",
        "Wiki, Rare, seed 1",
        "Wiki, CFH, seed 1",
    ]
    assert "Failed: Wiki, Rare, seed 0: the loss is no longer finite" in result.output
    assert "the loss is no longer finite" in (tmp_path / "out" / "index.html").read_text()
    assert {fit["method"] for fit in found["methods"]} == {"tfidf", "qe", "chosen", "slow"}


# -- Bai et al. 2010, typed from the paper a second time -----------------------------------------------------------

PRINTED = {
    "table-1": """1.62 .329 .163|1.62 .330 .163|4.79 .158 .098|1.28 .346 .170|1.41 .355 .177|.41 .477 .212|.41 .461 .213
        |.40 .462 .209|.53 .425 .197|.41 .506 .225|.30 .517 .229""",
    "table-2": """.842 .432 .193|.842 .432 .193|.721 .433 .193|.200 .503 .220|.178 .536 .233|.172 .541 .232
        |.158 .547 .239|2.98 .239 .127|1.75 .301 .152|1.37 .335 .164|.525 .466 .207|.370 .474 .211|.347 .485 .215
        |.149 .559 .249|.119 .614 .263""",
    "table-3": ".407 .506 .225|.401 .503 .225",
    "table-4": """.407 .506 .225|.387 .514 .225|.380 .510 .226|.302 .517 .229|.374 .495 .221|.310 .514 .228""",
    "table-5-k5": "21.6 .047 .023|14.2 .049 .023|4.80 .161 .079|4.37 .166 .083",
    "table-5-k10": "14.0 .083 .035|9.73 .089 .037|3.10 .2138 .095|2.91 .229 .100",
    "table-5-k20": "9.14 .128 .054|6.36 .133 .059|1.87 .287 .126|1.80 .302 .130",
    "table-6": "12.86 .128 .035|8.95 .133 .051|3.02 .261 .113|2.02 .315 .135",
    "table-9": """4.78 .319 .259|8.27 .115 .103|4.83 .290 .243|7.54 .169 .150|3.71 .300 .253|9.29 .190 .161
        |3.31 .275 .212|1.72 .399 .325|.96 .438 .351|.75 .493 .377|.63 .524 .386""",
    "table-10": "4.16 .346 .311|4.21 .338 .280|3.24 .365 .309|1.53 .443 .367|.78 .499 .380|.60 .527 .391",
}


@pytest.mark.parametrize("key", PRINTED)
def test_printed_numbers_are_those_of_the_paper(paper, key):
    [table] = [table for table in paper.tables if table.key == key]
    typed = [tuple(map(float, row.split())) for row in PRINTED[key].split("|")]
    rows = [row.printed for row in table.rows if "error" in row.printed]
    assert [pytest.approx((100 * row["error"], row["map"], row["p10"])) for row in rows] == typed


# The ± of MAP and P@10, in thousandths.
PRINTED_ERRORS = {
    "table-1": "10 6|10 6|6 5|11 7|9 7|11 7|10 7|10 7|11 7|12 7|11 7",
    "table-2": "12 7|12 7|12 7|12 7|12 8|12 8|12 8|9 5|10 6|10 7|11 7|12 7|11 7|12 7|12 8",
    "table-3": "12 7|10 6",
    "table-4": "12 7|12 7|12 8|12 7|12 7|12 7",
    "table-5-k5": "4 .7|4 .7|7 3|7 3",
    "table-5-k10": "6 1|6 1|.9 4|9 4",
    "table-5-k20": "7 2|7 2|10 5|10 5",
    "table-6": "8 3|8 3|10 4|11 5",
    "table-9": "9 8|5 5|8 8|7 7|8 8|7 7|9 8|9 9|9 9|9 9|9 9",
    "table-10": "9 9|9 8|9 9|9 9|9 9|9 9",
}


@pytest.mark.parametrize("key", PRINTED_ERRORS)
def test_printed_standard_errors_are_those_of_the_paper(paper, key):
    [table] = [table for table in paper.tables if table.key == key]
    rows = [row.plus_minus for row in table.rows if "error" in row.printed]
    typed = [tuple(map(float, row.split())) for row in PRINTED_ERRORS[key].split("|")]
    assert [pytest.approx((1000 * row["map"], 1000 * row["p10"])) for row in rows] == typed


PRINTED_PARAMS = {
    "table-1": "0|2|1000D|200D+1|D|D²|1000D|100D|10D|200D|400D",
    "table-2": "0|2|200 × 30k + 1|50D|100 × 100k|100 × 60k|200 × 30k|1M|3M|6M|1M+1|3M+1|6M+1|300 × 30k|300 × 30k",
    "table-5-k5": "0|200D+1|200D|400D",
    "table-5-k10": "0|200D+1|200D|400D",
    "table-5-k20": "0|200D+1|200D|400D",
    "table-6": "0|200 × 30k+1|400 × 30k|500 × 30k",
}


@pytest.mark.parametrize("key", PRINTED_PARAMS)
def test_printed_parameters_are_those_of_the_paper(paper, key):
    [table] = [table for table in paper.tables if table.key == key]
    assert [row.params for row in table.rows if "error" in row.printed] == PRINTED_PARAMS[key].split("|")


def test_low_rank_rows_have_the_setting_of_the_paper_but_for_the_start(paper):
    rows = {
        row.model
        for table in paper.tables
        for row in table.rows
        if row.model and row.printed and "wiki" in table.datasets[0]
    }
    low_rank = [paper.method_of(key) for key in sorted(rows) if paper.method_of(key).ranker == "LowRankRanker"]
    ours = [method for method in low_rank if "start" not in method.parameters]
    assert len(ours) > 15
    for method in ours:
        assert method.early_stop
        assert method.seeds is None
        assert method.parameters["spread"] == 0.1
        if method.key == "uu-all":  # with the rate at which it runs to its end
            continue
        assert not {"identity_weight", "schedule", "rate"} & {*method.parameters}
        assert method.chosen_by is not None or method.choose_on == "training"


def test_every_table_and_figure_of_the_paper_is_there(paper):
    positions = " ".join([t.position for t in paper.tables] + [w.position for w in paper.words])
    for number in range(1, 12):
        assert re.search(rf"Table {number}\b", positions)
    figures = {c.position for c in paper.curves} | {p.position for p in paper.precisions}
    assert figures == {f"Figure 1 ({x})" for x in "ab"} | {f"Figure 2 ({x})" for x in "abcd"}
    [eleven] = [table for table in paper.tables if table.key == "table-11"]
    printed = [row for row in eleven.rows if row.printed]
    assert [row.printed["error"] for row in printed] == [0.4560, 0.2615, 0.2556, 0.2583, 0.2668, 0.2698]
    sizes = ["50 × 10k = 0.5M", "50 × 20k = 1M", "50 × 30k = 1.5M"]
    assert [row.params for row in printed] == ["0", "1M", "10M", *sizes]


def test_mates_are_compared_at_every_width_and_learned_from_the_same(paper):
    [table] = [table for table in paper.tables if table.key == "translations"]
    rows = [row.model for row in table.rows]
    assert rows[:2] == ["cl-lsi", "translations"]
    assert [row.printed["error"] for row in table.rows[:2]] == [0.0081, 0.0053]
    assert paper.method_of("cl-lsi").choose_on == "validation"
    assert {50, 100, 200, 500} <= set(paper.method_of("cl-lsi").choose["n_components"])
    chosen = paper.method_of("translations").chosen_by
    assert chosen is not None
    assert chosen.method == "cl-lsi"
    for n in (50, 100, 200):
        lsi, ssi = paper.method_of(f"cl-lsi-{n}"), paper.method_of(f"translations-{n}")
        assert lsi.parallel
        assert ssi.parallel
        assert lsi.parameters["n_components"] == ssi.parameters["n_components"] == n
        assert ssi.negatives == "hard"
        assert ssi.early_stop


# -- standard errors -----------------------------------------------------------------------------------------------


def test_standard_errors_of_the_rank_loss_count_queries_not_tuples():
    plan = read_plan(PLAN_FILE)
    results = PaperResults(plan, False, "0", data={"wiki": {}})
    tested = [50] * 20
    # All preferences of a quarter of the queries.
    some = {"means": {"error": 0.25}, "by_query": {}, "wrong": [50] * 5 + [0] * 15}
    none = {"means": {"error": 0.0}, "by_query": {}, "wrong": [0] * 20}
    results.fits["wiki", "tfidf", 0] = [{"models": {"tfidf": some}, "tested": tested}]
    results.fits["wiki", "slow", 0] = [{"models": {"slow": none}, "tested": tested}]
    by_query = np.r_[np.ones(5), np.zeros(15)]
    assert results.standard_error("wiki", "tfidf", "error") == pytest.approx(by_query.std(ddof=1) / np.sqrt(20))
    test = results.paired("wiki", "slow", "tfidf", "error")
    assert test.difference == pytest.approx(-0.25)
    assert test.n == 20
    assert test.low == pytest.approx(paired_test(np.zeros(20), by_query).low)
