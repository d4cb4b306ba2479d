"""Aggregated clicks: the statement of the guide, and our reader's evidence of the same log."""

import os
import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tercet as tc
from tercet.data import ClickCounts, read_click_counts, read_click_log
from tercet.errors import FormatError, InputError
from tercet.fitting.click_evidence import past_clicks
from tercet.fitting.task import Task

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "clicks.md"
DOCS = {f"p{number}": f"text {number}" for number in range(12)}
N_LISTS = 300


@pytest.fixture
def log(tmp_path):
    """A log in a file: ten documents a list, two sessions or more for most queries, ids that look like numbers."""
    rng = np.random.default_rng(0)
    rows = ["search,session,query,sku,position,clicked"]
    for number in range(N_LISTS):
        shown = rng.permutation(12)[:10]
        query = f"query {int(rng.exponential(6))}"
        for position, doc in enumerate(shown, start=1):
            clicked = int(rng.random() < (0.5 if doc < 3 else 0.1) / np.log2(1 + position))
            rows.append(f"s{number},u{number // 3},{query},p{doc},{position},{clicked}")
    file = tmp_path / "clicks.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


@pytest.fixture
def evidence(log, tmp_path):
    [statement] = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)
    folder = os.getcwd()
    os.chdir(tmp_path)
    try:
        duckdb.connect().execute(statement)
    finally:
        os.chdir(folder)
    return tmp_path / "evidence.parquet"


def by_name(matrix, task):
    coo = matrix.tocoo()
    qids, doc_ids = list(task.texts), list(task.docs)
    return {
        (qids[row], doc_ids[column]): value
        for row, column, value in zip(*coo.coords, coo.data.tolist(), strict=True)
        if value
    }


def test_the_statement_of_the_guide_gives_memory_the_evidence_of_the_log(log, evidence):
    counts = read_click_counts(evidence)
    shown = read_click_log(log).columns
    ours, n_clicks = past_clicks(read_click_log(log), min_sessions=2)
    named = {
        (shown.queries[query], shown.docs[doc]): (value, count)
        for query, doc, value, count in zip(shown.pair_query, shown.pair_doc, ours, n_clicks, strict=True)
    }
    theirs = (counts.clicked - counts.expected) / (counts.expected + 1)
    for query, doc_id, value, count in zip(counts.queries, counts.docs, theirs, counts.clicked, strict=True):
        np.testing.assert_allclose(named[query, doc_id], (value, count), atol=1e-12)
    rare = {query for query, _ in named if query not in counts.queries}
    assert rare
    assert all(value == 0 for (query, _), (value, _) in named.items() if query in rare)
    task = Task.from_evidence(DOCS, None, clicks=counts)
    of_log = Task.from_evidence(DOCS, None, clicks=read_click_log(log))
    from_counts, clicks = task.sources["clicks"].past(len(task.texts))
    from_log, clicks_of_log = of_log.sources["clicks"].past(len(of_log.texts))
    expected = by_name(from_log, of_log)
    assert by_name(from_counts, task) == pytest.approx(expected, abs=1e-5)
    asked = {query for query, _ in expected}
    counted = {pair: count for pair, count in by_name(clicks_of_log, of_log).items() if pair[0] in asked}
    assert by_name(clicks, task) == counted


def test_pairs_of_aggregated_clicks_are_those_of_the_log(log, evidence):
    def net(task):
        prefs = task.sources["clicks"].preferences()
        pairs = {}
        for query, better, worse, weight in zip(prefs.query, prefs.better, prefs.worse, prefs.weight, strict=True):
            key = list(task.texts)[query], min(better, worse), max(better, worse)
            pairs[key] = pairs.get(key, 0.0) + (weight if better < worse else -weight)
        return pairs

    ours = net(Task.from_evidence(DOCS, None, clicks=read_click_log(log)))
    theirs = net(Task.from_evidence(DOCS, None, clicks=read_click_counts(evidence)))
    common = sorted(ours.keys() & theirs.keys())
    assert len(common) > 200
    x, y = (np.array([pairs[key] for key in common]) for pairs in (ours, theirs))
    assert np.corrcoef(x, y)[0, 1] > 0.8
    strong = np.abs(y) > np.quantile(np.abs(y), 0.7)
    assert (np.sign(x) == np.sign(y))[strong].mean() > 0.9


def test_the_weight_of_a_pair_is_the_formula():
    counts = ClickCounts(("q",) * 3, ("a", "b", "c"), *np.array([[10, 10, 8], [6, 1, 0], [3.0, 2.0, 2.0]]))
    pairs = Task.from_evidence({"a": "x", "b": "y", "c": "z"}, {"q": "x"}, clicks=counts).sources["clicks"]
    found = {(int(b), int(w)): v for b, w, v in zip(pairs.better, pairs.worse, pairs.weight, strict=True)}
    assert found == pytest.approx({(0, 1): (6 * 2 - 1 * 3) / 10, (0, 2): 6 * 2 / 10, (1, 2): 1 * 2 / 10})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("query,document,clicked\nq,a,1\n", "hold the times shown and the expected clicks"),
        (
            "query,document,shown,clicked,expected\nq,a,1,2,1\n",
            ":2: document 'a' was shown 1 times and clicked 2 times",
        ),
        ("query,document,shown,clicked,expected\nq,a,3,1,1\nq,b,x,2,1\n", ":3: shown 'x'; a number, 0 or more"),
        ("query,document,shown,clicked,expected\nq,,1,0,1\n", ":2: document is empty"),
        ("query,document,shown,clicked,expected\n", "no rows"),
    ],
)
def test_broken_counts_are_named_with_their_line(tmp_path, rows, message):
    file = tmp_path / "evidence.csv"
    file.write_text(rows)
    with pytest.raises(FormatError, match=message):
        read_click_counts(file)


def test_clicks_that_say_nothing_are_refused(tmp_path):
    file = tmp_path / "evidence.csv"
    file.write_text("query,document,shown,clicked,expected\nq,a,1,0,1\n")
    with pytest.raises(InputError, match="nothing was clicked"):
        read_click_counts(file)
    with pytest.raises(InputError, match="no document that clicks name"):
        tc.fit({"b": "x"}, clicks=[{"query": "q", "doc": "a", "shown": 1, "clicked": 1, "expected": 0.5}])


@pytest.mark.slow
def test_fit_learns_from_aggregated_clicks(log, evidence):
    texts = {doc_id: f"{text} query {int(doc_id[1:]) % 3}" for doc_id, text in DOCS.items()}
    model = tc.fit(texts, clicks=str(evidence), options={"n_steps": 200, "budget": 5})
    assert model.report.details.data["n_clicks"] == read_click_counts(evidence).clicked.sum()
