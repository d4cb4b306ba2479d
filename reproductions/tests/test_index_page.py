"""What a reader sees first: a paper at a glance, the index over papers, the summary, and what was left out."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from paper_values import made_plan, made_results
from reproductions.check import known_papers
from reproductions.index_page import UnreadRun, make_index, read_overview, tiles, write_index
from reproductions.overview import PaperOverview, make_overview, planned_overview

from reproductions import find_plan, write_results
from reproductions.plan import Data, PaperMeasure
from reproductions.plan_items import Claim, Cutoffs, PaperTable, Row, Standings
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
    PaperTable("first", "results", ("rows",), ("map",), ROWS, place="Table 1"),
    PaperTable("second", "more results", ("gone",), ("map",), ROWS[:2], place="Table 2"),
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
    measures={"map": PaperMeasure("MAP", True, 0.02, spread="standard error", cutoff=1)},
    tables=TABLES,
    claims=CLAIMS,
    cutoffs=(LINES,),
)


def results_of(plan=PLAN, values=VALUES, **found):
    return made_results(plan, values, **({"missing": {"gone": "looked for gone: not there"}} | found))


def overview_of(**found) -> PaperOverview:
    from reproductions.figures import make_drawings

    results = results_of(**found)
    return make_overview(results, make_tables(results), make_drawings(results))


def test_every_table_and_figure_has_a_status():
    overview = overview_of()
    items = {item.key: item for item in overview.items}
    assert {key: item.status for key, item in items.items()} == {
        "first": "falls short",
        "second": "not to be had",
        "orderings": "falls short",
        "lines-rows": "shown",
        "lines-gone": "not to be had",
        "own": "shown",
    }
    assert items["first"].counts == {"within tolerance": 1, "better": 1, "short": 1, "not run": 1}
    assert items["orderings"].counts == {"hold": 1, "not decided": 1, "opposite": 1}
    assert items["first"].fits == (3, 3)
    assert items["lines-rows"].note == "2 printed points drawn in"
    assert items["lines-gone"].note == "no data: Gone"
    assert overview.fits == (3, 3)
    assert PaperOverview.from_json(json.loads(json.dumps(overview.as_json()))) == overview


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
    shown = str(tiles([overview]))
    assert "1 of 2" in shown
    assert "1 fall short" in shown
    assert "opposite" not in shown


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
    assert f"1 of {1 + len(known_papers())} papers have run" in index
    for key in known_papers():
        assert f"python -m reproductions {key}" in index
        assert find_plan(key).paper.title.replace("'", "&#x27;") in index
    assert str(tmp_path) not in index
    assert 'href="../index.html"' in (tmp_path / "made" / "index.html").read_text()


@pytest.mark.slow  # reads every plan
def test_a_quick_run_gives_way_to_a_complete_one(tmp_path):
    write_results(results_of(quick=True), tmp_path / "made-quick")
    assert "Quick runs, whose numbers mean little: made." in (tmp_path / "index.html").read_text()
    write_results(results_of(), tmp_path / "made")
    index = (tmp_path / "index.html").read_text()
    assert ">quick run<" not in index
    assert "made-quick" not in index


def test_another_s_index_is_left_alone(tmp_path):
    (tmp_path / "index.html").write_text("my home page")
    write_results(results_of(), tmp_path / "made")
    assert (tmp_path / "index.html").read_text() == "my home page"
    assert "../index.html" not in (tmp_path / "made" / "index.html").read_text()


def test_a_folder_of_another_name_gets_no_index(tmp_path):
    write_results(results_of(), tmp_path / "somewhere")
    assert not (tmp_path / "index.html").exists()


@pytest.mark.slow  # reads every plan
def test_results_of_another_version_are_named_as_such(tmp_path):
    older = {"paper": "ssi", "version": "0.0.9", "overview": {"key": "ssi"}}
    mine = {"paper": "made", "overview": overview_of().as_json() | {"colour": "red"}}
    for name, content in (("ssi", older), ("ssi-quick", older), ("made", mine)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps(content))
    assert read_overview(tmp_path / "ssi") == UnreadRun("ssi", "0.0.9")
    path = write_index(tmp_path)
    assert path is not None
    index = path.read_text()
    assert f"0 of {1 + len(known_papers())} papers have run. 2 ran with another version of Tercet" in index
    section = re.search(r'<section><h2 id="ssi">.*?</section>', index, re.DOTALL)
    assert section is not None
    assert "not run" not in section[0]
    assert 'href="ssi/index.html"' in section[0]
    assert "by Tercet 0.0.9 in a form" in section[0]
    assert "<code>python -m reproductions ssi</code> writes them again." in section[0]
    assert "python -m reproductions made" not in index  # a plan of somebody's own
    assert "by an older Tercet in a form" in index
    # One that is read takes their place.
    write_results(results_of(), tmp_path / "made")
    assert f"1 of {1 + len(known_papers())} papers have run. 1 ran with" in path.read_text()


@pytest.mark.slow  # reads every plan
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"paper": 3}', b'{"overview": {"key": 3}}'])
def test_results_that_cannot_be_read_are_left_out(content, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "results.json").write_bytes(content)
    (tmp_path / "empty").mkdir()
    assert read_overview(tmp_path / "old") is None
    path = write_index(tmp_path)
    assert path is not None
    assert f"0 of {len(known_papers())} papers have run" in path.read_text()


@pytest.mark.parametrize("key", known_papers())
def test_a_paper_that_has_not_run_lists_its_tables_and_figures(key):
    plan = find_plan(key)
    items = planned_overview(plan).items
    assert {item.status for item in items} == {"not run"}
    assert {table.key for table in plan.tables} <= {item.key for item in items}
    assert any(item.kind == "figure" for item in items)


def test_the_summary_has_every_number_in_narrow_tables(tmp_path):
    write_results(results_of(), tmp_path / "made")
    text = (tmp_path / "made" / "summary.md").read_text()
    assert text.startswith("# A made-up paper\n")
    assert "3 of 3 fits" in text
    assert "Data that are not here: Gone." in text
    error = float(np.std(B, ddof=1) / np.sqrt(30))
    row = f"| A (200D) | {MEAN + 0.2:.3f} ± {error:.3f} | {MEAN + 0.2:.3f} ± 0.004 | within tolerance |"
    assert row in text.splitlines()
    assert "| d | – | 0.500 |  |" in text.splitlines()
    assert "Table 2" not in text
    assert re.search(r"\| a is best \(Section 1\) \| Rows, MAP \| \+0\.\S+ \(.*\) \| holds \|", text)
    assert "1 hold, 1 not decided, 1 opposite." in text
    assert max(map(len, text.splitlines())) < 150


def test_what_a_budget_cut_is_a_sentence_and_a_folded_list(tmp_path):
    cut = [f"Rows, A, seed {i}: left out" for i in range(5)] + ["Rows, B: cut short after 10 of 100 steps"]
    write_results(results_of(cut=cut, budget=6.0), tmp_path / "made")
    page = (tmp_path / "made" / "index.html").read_text()
    top, end = page.index("The budget of 6 minutes left out 5 of 8 fits and cut 1 short"), page.index(cut[0])
    assert top < page.index("Table 1") < page.index('id="settings"') < end
    assert page.rindex("<details", 0, end) > page.index('id="left-out"')
    assert page.count("left out</li>") == 5
    assert page.index("looked for gone") > page.index('id="left-out"')


def test_a_model_that_was_not_trained_to_the_end_is_marked(tmp_path):
    results = results_of()
    results.cells["rows", "b", 0][0]["facts"]["still_improving"] = True
    write_results(results, tmp_path / "made")
    page = (tmp_path / "made" / "index.html").read_text()
    assert "<td>B\N{NO-BREAK SPACE}†</td>" in page
    assert "<td>A</td>" in page
    assert page.count("† not trained to the end: the best validation was the last.") == 1
    assert "| B † |" in (tmp_path / "made" / "summary.md").read_text()


def test_a_table_says_how_much_of_it_has_run():
    plan = replace(PLAN, methods=tuple(replace(method, seeds=3) for method in PLAN.methods))
    first = make_tables(results_of(plan=plan))[0]
    assert "3 of 9 fits have run." in first.footnotes
    assert "All 3 fits have run." in make_tables(results_of())[0].footnotes
    assert "All 3 fits have run." in make_tables(results_of(plan=plan, seeds=1))[0].footnotes


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1200])
def test_no_page_is_wider_than_the_screen(width, tmp_path):
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
        page = browser.new_page(viewport={"width": width, "height": 800})
        problems: list[str] = []
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
    assert "papers have run" in make_index({})
