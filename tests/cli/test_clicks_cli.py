"""tercet clicks: a log described before anything is learned from it."""

from __future__ import annotations

import json

import pytest

from support.commands import ok, run
from tercet.simulate import Traffic, Visitors, simulate_clicks

ORDERS = [[*"abcdefghij"[start:], *"abcdefghij"[:start]] for start in (0, 1, 3, 6)]
LISTS = {f"green tea {number}": ORDERS for number in range(8)}
GRADES = {query: {"c": 1} for query in LISTS}


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """JSONL with sessions, a tenth of it by bots."""
    made = simulate_clicks(LISTS, GRADES, 3000, Visitors(looking=0.8), Traffic(bots=0.1, bot_lists=30))
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    rows = zip(made.impressions, made.sessions, strict=True)
    lines = [{"query": q, "shown": shown, "clicked": clicked, "session": who} for (q, shown, clicked), who in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
def test_a_log_is_described(log):
    output = ok("clicks", log)
    assert "of 8 queries in" in output
    assert "left out: bot1: clicks everything: 30 lists, 300 clicks on 300 documents" in output
    assert "learning weighs clicks by chances of looking at a rank estimated from documents seen" in output
    tenth = next(line.split() for line in output.splitlines() if line.startswith("  10 "))
    assert float(tenth[5]) == pytest.approx(10**-0.8, abs=0.08)


def test_options_of_documents_are_none_of_its_own(log):
    assert run("clicks", log, "--text", "title").exit_code == 2


def test_what_is_no_log_is_said(tmp_path):
    (tmp_path / "log.csv").write_text("query,doc\ntea,a\n")
    result = run("clicks", tmp_path / "log.csv")
    assert result.exit_code == 1
    assert "Which column holds the clicks?" in result.output
    assert "(here: --column clicked=NAME)" in result.output


def test_aggregated_clicks_are_read_and_stand_alone(log, tmp_path):
    (tmp_path / "docs.csv").write_text("id,text\na,green tea\nb,milk\n")
    (tmp_path / "evidence.csv").write_text("frage,document,shown,clicked,expected\ntea,a,9,3,1\n")
    fit = ("fit", tmp_path / "docs.csv", "--evidence", tmp_path / "evidence.csv", "-o", tmp_path / "m")
    assert "(here: --column query=NAME)" in run(*fit).output
    result = run(*fit, "--clicks", log)
    assert result.exit_code == 1
    assert "leave out --clicks, or --evidence" in result.output


def test_frequent_queries_without_a_click_are_listed(tmp_path):
    lists = [("usb hub", []), ("usb hub", []), ("usb hub", []), ("tea", []), ("tea", ["a"]), ("tea", []), ("mug", [])]
    lines = [{"query": query, "shown": ["a", "b"], "clicked": clicked} for query, clicked in lists]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "asked often, never clicked: 'usb hub' (3 lists)\n" in ok("clicks", path)
