"""Pages: a paper's tables and counts, and the index over papers."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from paper_values import made_plan, made_results

from reproductions.pages import make_index, make_overview, write_results
from reproductions.plan import Claim, Cutoffs, PaperMeasure, PaperTable, PlanData, Row
from reproductions.plan_reading import find_plan, known_papers
from reproductions.tables import make_tables

RNG = np.random.default_rng(1)
B = RNG.uniform(0.3, 0.7, 30)
VALUES = {"a": {"map": B + 0.2}, "b": {"map": B}, "c": {"map": B - 0.001 * RNG.normal(size=30)}}
DATA = {
    "rows": PlanData("Rows", "letor-folds", ("rows",)),
    "gone": PlanData("Gone", "letor-folds", ("gone",)),
    "other": PlanData("Other", "letor-folds", ("other",), compare=False),
}
MEAN = float(B.mean())
ROWS = (
    Row("a", printed={"map": MEAN + 0.2}, plus_minus={"map": 0.004}, params="200D"),
    Row("b", printed={"map": MEAN - 0.1}),
    Row("c", printed={"map": MEAN + 0.5}),
    Row(title="d", reason="it was never described", printed={"map": 0.5}),
)
TABLES = (
    PaperTable("first", "results", ("rows",), ("map",), ROWS, position="Table 1"),
    PaperTable("second", "more results", ("gone",), ("map",), ROWS[:2], position="Table 2"),
)
CLAIMS = (
    Claim("a is best", "Section 1", "a", ("b", "c"), ("map",), ("rows",)),
    Claim("b is above c", "Section 2", "b", ("c",), ("map",), ("rows",)),
    Claim("c is above a", "Section 3", "c", ("a",), ("map",), ("rows",)),
    Claim("a is above b, ours", "Section 3", "a", ("b",), ("map",), ("rows",), ours=True),
)
LINES = Cutoffs("lines", "lines", "Figure 1", ("rows", "gone"), ("map",), ("a", "b"))
PLAN = made_plan(
    "abc",
    datasets=DATA,
    measures={"map": PaperMeasure("MAP", True, 0.02, spread="standard error", name="nDCG@1")},
    tables=TABLES,
    claims=CLAIMS,
    cutoffs=(LINES,),
)


def results_of(plan=PLAN, values=VALUES, **found):
    return made_results(plan, values, **({"missing": {"gone": "looked for gone: not there"}} | found))


def counts_of(**found):
    results = results_of(**found)
    return make_overview(results, make_tables(results))["counts"]


def test_numbers_and_orderings_are_counted_by_kind_and_ours_apart():
    counts = counts_of()
    assert counts["table"] == {"same": 1, "better": 1, "short": 1, "not run": 3}  # two of them are of missing data
    assert counts["orderings"] == {"hold": 1, "not decided": 1, "opposite": 1}
    assert counts["our-orderings"] == {"hold": 1}


def test_what_is_short_within_the_standard_error_says_so():
    wide = {"a": {"map": np.tile([0.0, 1.0], 5)}, "b": {"map": B[:10]}, "c": {"map": B[:10]}}
    short = replace(TABLES[0], rows=(Row("a", printed={"map": 0.6}),))  # with a standard error of .17
    plan = replace(PLAN, tables=(short,), claims=(), cutoffs=())
    assert counts_of(plan=plan, values=wide)["table"] == {"short within the error": 1}


def test_quick_runs_other_data_and_measures_that_say_nothing_are_not_compared():
    assert "same" not in counts_of(quick=True)["table"]
    other = replace(PLAN, datasets={"other": DATA["other"]}, cutoffs=(), claims=())
    table = replace(TABLES[0], datasets=("other",))
    assert counts_of(plan=replace(other, tables=(table,)), missing={})["table"] == {"not compared": 3, "not run": 1}
    measures = {"map": replace(PLAN.measures["map"], compare=False)}
    first = replace(PLAN, measures=measures, tables=TABLES[:1])
    assert counts_of(plan=first)["table"] == {"not compared": 3, "not run": 1}


@pytest.mark.slow  # reads every plan
def test_the_index_names_what_has_run_and_what_has_not(tmp_path):
    write_results(results_of(quick=True), tmp_path / "made-quick")
    assert "A quick run: its numbers mean little." in (tmp_path / "index.html").read_text()
    write_results(results_of(), tmp_path / "made")
    index = (tmp_path / "index.html").read_text()
    assert "made-quick" not in index  # a complete run takes its place
    assert not re.search(r"https?:|//|@import|<link|<script", index)
    assert "Printed numbers: 1 same, 1 better, 1 short" in index
    for key in known_papers():
        assert f"python -m reproductions {key}" in index
        assert find_plan(key).paper.title.replace("'", "&#x27;") in index
    assert str(tmp_path) not in index
    assert make_index({}).count("Not run: ") == len(known_papers())


def test_another_page_is_left_alone_and_a_folder_of_another_name_gets_none(tmp_path):
    (tmp_path / "index.html").write_text("my home page")
    write_results(results_of(), tmp_path / "made")
    assert (tmp_path / "index.html").read_text() == "my home page"
    write_results(results_of(), tmp_path / "sub" / "somewhere")
    assert not (tmp_path / "sub" / "index.html").exists()


def test_the_page_tells_what_was_not_trained_to_the_end_what_is_missing_and_what_failed(tmp_path):
    results = results_of(failed=["Rows, B, seed 0: diverged"])
    results.fits["rows", "b", 0][0]["facts"]["still_improving"] = True
    write_results(results, tmp_path / "somewhere")
    page = (tmp_path / "somewhere" / "index.html").read_text()
    assert "<td>B\N{NO-BREAK SPACE}†</td>" in page
    assert "<td>A</td>" in page
    assert page.count("† not trained to the end: the best validation was the last.") == 1
    assert "Gone is not here: looked for gone: not there." in page
    assert "Rows, B, seed 0: diverged" in page


def test_a_table_says_how_much_of_it_has_run():
    plan = replace(PLAN, methods=tuple(replace(method, seeds=3) for method in PLAN.methods))
    first = make_tables(results_of(plan=plan))[0]
    assert "3 of 9 fits have run." in first.footnotes
    assert "All 3 fits have run." in make_tables(results_of())[0].footnotes


@pytest.mark.slow
def test_no_page_is_wider_than_the_screen(tmp_path):
    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    playwright = pytest.importorskip("playwright.sync_api")
    if browser_path is None:
        pytest.skip("no browser is here")
    wide = PaperTable(
        "wide", "wide", ("rows",), tuple(f"m{i}" for i in range(12)), tuple(Row(model) for model in "abc"), "ours"
    )
    measures = PLAN.measures | {f"m{i}": PaperMeasure(f"Measure {i}", True, 0.1) for i in range(12)}
    values = {model: measured | dict.fromkeys(wide.measures, B) for model, measured in VALUES.items()}
    plan = replace(PLAN, tables=(*TABLES, wide), measures=measures)
    write_results(results_of(plan=plan, values=values), tmp_path / "made")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for width in (390, 1200):
            page = browser.new_page(viewport={"width": width, "height": 800})
            for file in (tmp_path / "index.html", tmp_path / "made" / "index.html"):
                page.goto(Path(file).as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width, file.name
            scrolls = "[...document.querySelectorAll('.scroll')].some(box => box.scrollWidth > box.clientWidth)"
            assert page.evaluate(scrolls)  # a wide table, within its box
        browser.close()
