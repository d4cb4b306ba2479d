"""Pages: a paper at a glance, and the index over papers."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from paper_values import made_plan, made_results

from reproductions.figures import make_drawings
from reproductions.pages import Overview, make_index, make_overview, write_results
from reproductions.plan import Claim, Cutoffs, Data, PaperMeasure, PaperTable, Row, Standings
from reproductions.plan_reading import find_plan, known_papers
from reproductions.tables import make_tables

RNG = np.random.default_rng(1)
B = RNG.uniform(0.3, 0.7, 30)
VALUES = {"a": {"map": B + 0.2}, "b": {"map": B}, "c": {"map": B - 0.001 * RNG.normal(size=30)}}
DATA = {
    "rows": Data("Rows", "letor-folds", ("rows",)),
    "gone": Data("Gone", "letor-folds", ("gone",)),
    "other": Data("Other", "letor-folds", ("other",), compare=False),
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
    PaperTable("own", "our own", ("rows",), ("map",), (Row("a"),), kind="ours"),
)
CLAIMS = (
    Claim("a is best", "Section 1", "a", ("b", "c"), ("map",), ("rows",)),
    Claim("b is above c", "Section 2", "b", ("c",), ("map",), ("rows",)),
    Claim("c is above a", "Section 3", "c", ("a",), ("map",), ("rows",)),
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


def overview_of(**found) -> Overview:
    results = results_of(**found)
    return make_overview(results, make_tables(results), make_drawings(results))


def test_every_table_and_figure_has_a_status():
    overview = overview_of()
    items = {item.key: item for item in overview.items}
    assert {key: item.status for key, item in items.items()} == {
        "first": "falls short",
        "second": "not to be had",
        "orderings": "falls short",
        "lines-rows": "drawn",
        "lines-gone": "not to be had",
        "own": "shown",
    }
    assert items["first"].counts == {"within tolerance": 1, "better": 1, "short": 1, "not run": 1}
    assert items["orderings"].counts == {"hold": 1, "not decided": 1, "opposite": 1}
    assert items["lines-rows"].note == "2 printed points drawn in"
    assert items["lines-gone"].note == "no data: Gone"
    assert "3 of 3 fits" in overview.ran
    assert Overview.from_json(json.loads(json.dumps(asdict(overview)))) == overview


def test_without_what_falls_short_it_holds():
    plan = replace(PLAN, tables=(replace(TABLES[0], rows=ROWS[:2]),), claims=CLAIMS[:1], cutoffs=())
    assert [item.status for item in overview_of(plan=plan).items] == ["holds", "holds"]
    wide = {"a": {"map": np.tile([0.0, 1.0], 5)}, "b": {"map": B[:10]}, "c": {"map": B[:10]}}
    short = replace(TABLES[0], rows=(Row("a", printed={"map": 0.6}),))  # with a standard error of .17
    overview = overview_of(plan=replace(plan, tables=(short,), claims=()), values=wide)
    assert [item.status for item in overview.items] == ["within the error"]
    assert overview.items[0].counts == {"short within the error": 1}


def test_a_model_that_is_best_less_often_than_stated_falls_short_and_contradicts_nothing():
    table = replace(TABLES[0], rows=(Row("a", printed={"map": 0.4}), Row("c", printed={"map": 0.5})))
    standings = Standings("places", "how often c is the best", "Section 4", "c", ("first",), best=1, second=0)
    plan = replace(PLAN, tables=(table,), claims=(), cutoffs=(), standings=(standings,))
    overview = overview_of(plan=plan)
    item = next(item for item in overview.items if item.key == "places")
    assert (item.status, item.counts) == ("falls short", {"hold": 1, "fall short": 1})
    assert overview.counts("orderings") == {"hold": 1, "fall short": 1}


def test_quick_runs_and_other_data_are_not_compared():
    overview = overview_of(quick=True)
    assert next(item.status for item in overview.items if item.kind == "table") == "not compared"
    other = replace(PLAN, datasets={"other": DATA["other"]}, cutoffs=(), claims=())
    table = replace(TABLES[0], datasets=("other",))
    [item] = overview_of(plan=replace(other, tables=(table,)), missing={}).items
    # c, the best printed, is not ahead of a
    order = "pairs of rows in the printed order: MAP 2 of 3"
    assert (item.status, item.note) == ("not compared", f"other data than the paper's; {order}")


@pytest.mark.slow  # reads every plan
def test_the_index_names_what_has_run_and_what_has_not(tmp_path):
    write_results(results_of(), tmp_path / "made")
    index = (tmp_path / "index.html").read_text()
    assert not re.search(r"https?:|//|@import|<link|<script", index)
    assert 'href="made/index.html#first"' in index
    assert 'href="made/index.html#second"' not in index  # there is nothing to see
    assert "1 within tolerance, 1 better, 1 short, 1 not run" in index
    for key in known_papers():
        assert f"python -m reproductions {key}" in index
        assert find_plan(key).paper.title.replace("'", "&#x27;") in index
    assert str(tmp_path) not in index


@pytest.mark.slow  # reads every plan
def test_a_quick_run_gives_way_to_a_complete_one(tmp_path):
    write_results(results_of(quick=True), tmp_path / "made-quick")
    assert "A quick run: its numbers mean little." in (tmp_path / "index.html").read_text()
    write_results(results_of(), tmp_path / "made")
    index = (tmp_path / "index.html").read_text()
    assert "A quick run" not in index
    assert "made-quick" not in index


@pytest.mark.slow
def test_another_s_index_is_left_alone(tmp_path):
    (tmp_path / "index.html").write_text("my home page")
    write_results(results_of(), tmp_path / "made")
    assert (tmp_path / "index.html").read_text() == "my home page"


def test_a_folder_of_another_name_gets_no_index(tmp_path):
    write_results(results_of(), tmp_path / "somewhere")
    assert not (tmp_path / "index.html").exists()


@pytest.mark.slow
def test_a_model_that_was_not_trained_to_the_end_is_marked(tmp_path):
    results = results_of()
    results.fits["rows", "b", 0][0]["facts"]["still_improving"] = True
    write_results(results, tmp_path / "made")
    page = (tmp_path / "made" / "index.html").read_text()
    assert "<td>B\N{NO-BREAK SPACE}†</td>" in page
    assert "<td>A</td>" in page
    assert page.count("† not trained to the end: the best validation was the last.") == 1


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
        problems: list[str] = []
        for width in (390, 1200):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("console", lambda message: problems.append(message.text))
            for file in (tmp_path / "index.html", tmp_path / "made" / "index.html"):
                page.goto(Path(file).as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width, file.name
            scrolls = "[...document.querySelectorAll('.scroll')].some(box => box.scrollWidth > box.clientWidth)"
            assert page.evaluate(scrolls)  # a wide table, within its box
            page.get_by_role("link", name="All papers").click()
            page.get_by_role("link", name=re.compile("Table 1")).first.click()
            assert page.url.endswith("made/index.html#first")
        browser.close()
    assert problems == []


@pytest.mark.slow  # reads every plan
def test_an_index_of_nothing_is_a_page():
    assert make_index({}).count("Not run: ") == len(known_papers())


@pytest.mark.slow  # reads every plan
@pytest.mark.parametrize("content", ["", "[]", "{}", '{"overview": {"key": "made"}}'])
def test_results_that_cannot_be_read_are_left_out(content, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.json").write_text(content)
    write_results(results_of(), tmp_path / "made")
    index = (tmp_path / "index.html").read_text()
    assert 'id="made"' in index
    assert 'id="other"' not in index


def test_missing_data_and_failures_are_told(tmp_path):
    write_results(results_of(failed=["Rows, B, seed 0: diverged"]), tmp_path / "somewhere")
    page = (tmp_path / "somewhere" / "index.html").read_text()
    assert "Gone is not here: looked for gone: not there." in page
    assert "Rows, B, seed 0: diverged" in page
