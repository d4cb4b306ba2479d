"""The page of a report: what it shows, that it is safe to open, and that a saved model gives it again."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import tercet as tc
from support.corpora import TINY, Corpus, synonyms
from tercet.cli.main import cli
from tercet.errors import DamagedBundleError, InputError
from tercet.report import Report
from tercet.report.charts import bars, intervals, ticks
from tercet.report.details import QueryChange
from tercet.report.html import STYLE, element, page
from tercet.report.page import RULE, make_report_page, write_report_page

GOLDEN = Path(__file__).parents[1] / "golden"


class Reader(HTMLParser):
    """Elements with attributes, and the visible text; complains about what is not closed."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


# -- what the report knows --------------------------------------------------------------------------------------------


def test_the_details_are_what_the_table_says(model, corpus: Corpus):
    report, details = model.report, model.report.details
    assert details.random_state == 0
    assert details.data["n_docs"] == len(corpus.docs)
    assert details.data["n_judgements"] == sum(map(len, corpus.part(0, 200).values()))
    assert details.data["n_words"] == len(model.query_vectorizer.words_)
    assert (details.size.n_query_words, details.size.n_doc_words) == model.weights.shape
    assert details.size.n_stored == model.weights.n_stored
    assert details.size.n_bytes == sum(a.nbytes for a in model.weights.to_state()[1].values())
    assert details.size.density == 1.0
    by_query = details.by_query
    assert by_query.n_better + by_query.n_same + by_query.n_worse == report.n_test == len(by_query.differences)
    assert np.mean(by_query.differences) == pytest.approx(report.change[0], abs=1e-5)
    assert list(by_query.differences) == sorted(by_query.differences, reverse=True)
    assert by_query.gains[0].text == corpus.queries[by_query.gains[0].qid]
    assert by_query.gains[0].after - by_query.gains[0].before == pytest.approx(by_query.differences[0], abs=1e-6)
    assert [c.other for c in details.comparisons] == [s.name for s in (*report.rivals, *report.systems[:-1])]
    start = details.comparisons[-1]
    assert (start.difference, start.low, start.high, start.p_value) == report.change
    assert all(c.p_corrected >= c.p_value for c in details.comparisons)
    known = {(a, b): w for a, b, w in model.strongest_pairs(200, min_docs=1, per_word=50)}
    assert details.pairs
    assert all(known.get(pair[:2], pair[2]) == pair[2] for pair in details.pairs)


def test_few_of_many_queries_are_evenly_spaced_and_keep_their_answers():
    rng = np.random.default_rng(0)
    Q, D = rng.random((30, 4)), rng.random((10, 4))
    held_out = tc.HeldOutQueries.from_qrels({q: {q % 10: 1} for q in range(30)}, Q, D, measure="RR")
    assert held_out.at_most(30) is held_out
    some = held_out.at_most(4)
    assert some.qids == ("0", "9", "19", "29")
    weights = tc.Weights([tc.CosineRanker().fit(Q, tc.Preferences([0], [0], [1]), D).weights_.parts[0]])
    everything = dict(zip(held_out.qids, held_out.values(weights), strict=True))
    assert some.values(weights).tolist() == [everything[qid] for qid in some.qids]


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_every_number_and_the_rule(model):
    report, details = model.report, model.report.details
    text = Reader(make_report_page(report)).text
    for system in (*report.rivals, *report.systems):
        assert system.name in text
        for mean, low, high in system.values.values():
            assert f"{mean:.3f} {low:.3f} to {high:.3f}" in text
    for found in details.comparisons:
        assert f"{found.difference:+.3f} {found.low:+.3f} to {found.high:+.3f}" in text
    assert RULE in text
    assert "learning accepted" not in text
    assert f"{report.verdict} {report.measure} is expected to change by {report.expected[0]:+.3f}; it went from" in text
    for change in (*details.by_query.gains, *details.by_query.losses):
        assert f"{change.text} {change.qid} {change.before:.3f} {change.after:.3f}" in text
    for a, b, weight in details.pairs:
        assert f"{a} → {b} {weight:+.2f}" in text
    assert f"{details.size.n_stored:,}" in text
    assert f"seed {details.random_state}" in text
    assert report.split in text


def test_the_page_needs_nothing_and_runs_nothing(model):
    written = make_report_page(model.report)
    read = Reader(written)
    assert {name for name, _ in read.elements}.isdisjoint({"script", "link", "img", "iframe", "object", "a", "form"})
    for _, attributes in read.elements:
        assert not {"src", "href", "style", "srcset", "action"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
    assert "url(" not in written
    assert "@import" not in written
    assert "http:" not in written
    assert "https:" not in written
    policy = next(a["content"] for a in read.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    style = re.search(r"<style>(.*?)</style>", written, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"


def test_the_page_can_be_read_without_seeing_it(model):
    read = Reader(make_report_page(model.report))
    assert read.elements[0][1] == {"lang": "en"}
    assert len(read.all("h1")) == 1
    assert all(a.get("scope") in ("col", "row") for a in read.all("th"))
    pictures = [a for a in read.all("div") if a.get("role") == "img"]
    assert len(pictures) == 4
    assert all(len(a["aria-label"]) > 20 for a in pictures)
    assert all(a.get("aria-hidden") == "true" for a in read.all("svg"))
    assert all(a.get("tabindex") == "0" and a.get("aria-label") for a in read.all("div") if a.get("class") == "scroll")
    assert "prefers-color-scheme: dark" in STYLE


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_texts_stand_out_from_their_ground_in_light_and_in_dark():
    themes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
    ]
    assert len(themes) == 2
    for theme in themes:
        for text in ("ink", "soft", "good", "bad", "accent"):
            for ground in ("paper", "card", "head"):
                light, dark = sorted((luminance(theme[text]), luminance(theme[ground])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground, theme)


@pytest.mark.parametrize(
    "bad", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b < c", "\x00\x1b"]
)
def test_texts_are_shown_and_never_run(model, bad):
    details = model.report.details
    by_query = replace(details.by_query, gains=(QueryChange(bad, bad, 0.0, 1.0),), other=bad)
    changed = replace(details, name=bad, by_query=by_query, pairs=((bad, bad, 1.0),), data={"kind": bad, bad: bad})
    systems = (replace(model.report.systems[0], name=bad), *model.report.systems[1:])
    report = replace(model.report, details=changed, systems=systems, split=bad, decision=bad, chosen={"vectors": bad})
    read = Reader(make_report_page(report))
    plain = {name for name, _ in Reader(make_report_page(model.report)).elements}
    assert {name for name, _ in read.elements} == plain
    if bad.isprintable():
        assert " ".join(bad.split()) in read.text
    else:
        assert not set("\x00\x1b") & set(read.text)


def test_a_declined_fit_has_a_page(rejected):
    report = rejected.report
    text = Reader(make_report_page(report)).text
    assert "learning rejected" in text
    assert f"The model is {report.systems[-1].name}" in text
    assert report.details.by_query is None
    assert "Query by query" not in text
    assert [c.other for c in report.details.comparisons] == [s.name for s in (*report.rivals, *report.systems[:-1])]
    mean, low, high, _ = report.change
    assert report.rejected.values[report.measure][0] == pytest.approx(
        report.systems[-1].values[report.measure][0] + mean
    )
    assert f"(95 % interval of the difference {low:+.3f} to {high:+.3f}): {report.verdict}." in text


GAINS = [
    ((0.02, 0.01, 0.03, 0.001), "nDCG@10", "better", "good"),
    ((0.0, 0.0, 0.0, 1.0), "nDCG@10", "no difference seen", "soft"),
    ((0.004, -0.001, 0.009, 0.12), "nDCG@10", "no difference seen", "soft"),
    ((-0.02, -0.03, -0.01, 0.001), "nDCG@10", "worse", "bad"),
    ((-0.02, -0.03, -0.01, 0.001), "RankLoss", "better", "good"),
]


@pytest.mark.parametrize(("change", "measure", "verdict", "tone"), GAINS)
def test_the_verdict_is_that_of_the_interval_on_untouched_queries(model, tmp_path, change, measure, verdict, tone):
    start, learned = (replace(s, values={measure: (0.5, 0.4, 0.6)}) for s in model.report.systems[-2:])
    report = replace(
        model.report,
        measure=measure,
        systems=(start, learned),
        rivals=(),
        details=None,
        crossed=False,
        changes={measure: change},
    )
    assert report.verdict == verdict
    assert f"Verdict: {verdict}\nUsed: " in str(report)
    badge = re.search(r'<span class="badge (\w+)">([^<]*)<', make_report_page(report))
    assert badge.groups() == (tone, verdict)
    meta = json.loads(report.to_json())
    assert meta.pop("verdict") == verdict
    assert Report.from_state(meta, {}) == report
    rejected = replace(report, accepted=False, systems=(start,), rejected=learned)
    assert f"Verdict: {verdict}; rejected, so the model is {start.name}" in str(rejected)
    assert f"learned (rejected) against {start.name}" in str(rejected)
    assert 'class="badge soft">learning rejected<' in make_report_page(rejected)
    meta = json.loads(rejected.to_json())
    assert meta.pop("verdict") == verdict
    assert Report.from_state(meta, {}) == rejected
    del meta["systems"][:]
    with pytest.raises(DamagedBundleError, match="must have systems"):
        Report.from_state(meta, {})


def test_a_report_of_queries_left_out_in_turn_says_so(rejected):
    report = rejected.report
    text = Reader(make_report_page(report)).text
    assert report.crossed
    assert "100 training queries, each measured by models that learned without it" in text
    assert "untouched" not in text
    twice = replace(report, n_test=130)  # as where the last clicks of a log are left out, too
    assert "100 training queries, 130 times in all, each measured by" in Reader(make_report_page(twice)).text
    assert "100 training queries, left out 130 times in turn." in str(twice)
    untouched = Reader(make_report_page(replace(report, crossed=False))).text
    assert "100 queries that nothing was learned from or chosen on" in untouched
    for result in report.evidence:
        assert result.about in text


def test_a_report_of_an_earlier_version_has_a_page_of_its_table():
    for version in GOLDEN.iterdir():
        report = tc.load(version / "text").report
        text = Reader(make_report_page(report)).text
        assert report.decision in text
        for system in report.systems:
            assert f"{system.values[report.measure][0]:.3f}" in text
        if report.details is None:
            assert report.to_state()[0].keys().isdisjoint({"rivals", "details"})


@pytest.mark.slow
def test_labeled_texts_have_a_page():
    rng = np.random.default_rng(0)
    labels = [f"class {i % 4}" for i in range(100)]
    texts = [" ".join(f"c{i % 4}w{j}" for j in rng.choice(20, 3, replace=False)) for i in range(100)]
    report = tc.fit_labeled(texts, labels, options={"name": "four classes", "n_steps": 5000}).report
    read = Reader(make_report_page(report))
    assert "four classes" in read.text
    assert "classes 4" in read.text
    assert report.details.by_query.gains[0].text in texts
    mirrored = {(b, a) for a, b, _ in report.details.pairs}
    assert mirrored.isdisjoint({(a, b) for a, b, _ in report.details.pairs}) or not report.chosen.get("tied")


# -- saved and written again ------------------------------------------------------------------------------------------


def test_a_saved_model_gives_the_same_page(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert loaded.report.details == model.report.details
    assert make_report_page(loaded.report) == make_report_page(model.report)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("details", "pairs"), [["a", "b"]]),
        (("details", "pairs"), [["a", "b", "much"]]),
        (("details", "size", "n_stored"), "many"),
        (("details", "by_query", "differences"), [None]),
        (("details", "by_query", "gains"), [[1, "text", 0.0, 1.0]]),
        (("details", "comparisons"), [{"other": "BM25"}]),
        (("details", "glory"), 1),
        (("rivals",), [{"name": "appended", "values": []}]),
        (("measure",), "P@5"),
    ],
)
def test_details_that_do_not_fit_are_refused(model, where, value):
    meta = json.loads(json.dumps(model.report.to_state()[0]))
    inside = meta
    for key in where[:-1]:
        inside = inside[key]
    inside[where[-1]] = value
    with pytest.raises(DamagedBundleError):
        Report.from_state(meta, {})


@pytest.mark.slow
def test_fit_writes_the_page_and_report_writes_it_again(tmp_path):
    corpus = synonyms(3, n_pairs=8, n_docs=25, n_queries=30)
    folder = tmp_path / "made up"
    (folder / "qrels").mkdir(parents=True)
    rows = [{"_id": d, "title": "", "text": t} for d, t in corpus.docs.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rows = [{"_id": q, "text": t} for q, t in corpus.queries.items()]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = [f"{q}\t{d}\t{g}" for q, judged in corpus.qrels.items() for d, g in judged.items()]
    (folder / "qrels" / "train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    model = tmp_path / "model"
    run = CliRunner()
    done = run.invoke(cli, ["fit", str(folder), "-o", str(model), "--steps", "500"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "with report.html" in done.output
    written = (model / "report.html").read_text(encoding="utf-8")
    assert "<h1>made up</h1>" in written
    assert run.invoke(cli, ["report", str(model), "-o", str(tmp_path / "again.html")]).exit_code == 0
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == written
    as_json = json.loads(run.invoke(cli, ["report", str(model), "--json"]).output)
    assert as_json["verdict"] == tc.load(model).report.verdict
    printed = run.invoke(cli, ["report", str(model)])
    assert printed.output == f"{tc.load(model).report}\n"
    # Saving over the model leaves the page alone, and loading does not mind it.
    tc.load(model).save(model)
    assert (model / "report.html").exists()


def test_a_page_is_not_written_where_there_is_no_folder(model, tmp_path):
    with pytest.raises(InputError, match=r"page\.html: cannot write: No such file"):
        write_report_page(model.report, tmp_path / "nowhere" / "page.html")
    with pytest.raises(InputError, match="name is what the report calls the data"):
        tc.fit(TINY.docs, TINY.queries, TINY.qrels, options={"name": 3})


# -- the parts of a page ----------------------------------------------------------------------------------------------


@given(st.text())
def test_any_text_comes_through_an_element_and_a_page(text):
    read = Reader(page(text, element("p", text, title=text)))
    assert [name for name, _ in read.elements] == [
        "html",
        "head",
        "meta",
        "meta",
        "meta",
        "meta",
        "title",
        "style",
        "body",
        "p",
    ]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_charts_of_any_numbers_have_finite_places(values):
    drawn = [
        bars(values, label="bars", y_label="y"),
        intervals([(f"s{i}", v, None, None) for i, v in enumerate(values)], ours=0, label="intervals"),
    ]
    for chart in drawn:
        for _, attributes in Reader(chart).elements:
            for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "d"):
                assert not re.search("nan|inf", attributes.get(name) or "")


@pytest.mark.parametrize("name", ["tf-idf", "BM25 .9/.4 unstemmed", "BM25 .9/.4 without stop words, a long name"])
def test_no_name_of_a_chart_is_cut_off(name):
    drawn = intervals([(name, 0.3, 0.2, 0.4), ("learned", 0.4, 0.3, 0.5)], ours=1, label="intervals")
    labels = re.findall(r"<text(?: class=\"([^\"]*)\")? x=\"([\d.]+)\"[^>]*>([^<]*)</text>", drawn)
    widths = [float(width) for width in re.findall(r'viewBox="0 0 (\d+)', drawn)]
    positions = [(classes, float(x)) for classes, x, text in labels if text == name]
    assert len(positions) == len(widths) == 2
    for (classes, x), width in zip(positions, widths, strict=True):
        start = x - 8 * len(name) if "end" in classes else x
        assert start >= 0
        assert start + 8 * len(name) <= width


@pytest.mark.parametrize(("lower_is_better", "above", "below"), [(False, "better", "worse"), (True, "worse", "better")])
def test_bars_have_the_color_of_what_they_mean(lower_is_better, above, below):
    for value, name in ((0.5, above), (-0.5, below)):
        drawn = bars([value], label="bars", y_label="y", lower_is_better=lower_is_better)
        assert [path["class"] for path in Reader(drawn).all("path")] == [name, name]  # wide and narrow
        assert f"svg .{name} {{" in STYLE


@pytest.mark.slow
def test_a_page_of_a_measure_where_lower_is_better_says_so():
    small = synonyms(3, n_pairs=12, n_docs=40, n_queries=60)
    report = tc.fit(small.docs, small.queries, small.qrels, measure="RankLoss", options={"n_steps": 1000}).report
    found = report.details.by_query
    assert found.n_better > found.n_worse
    assert np.mean(found.differences) < 0
    read = Reader(make_report_page(report))
    assert "sorted; lower is better" in read.text
    classes = [path.get("class") for path in read.all("path")]
    assert ("better" in classes, "worse" in classes) == (found.n_better > 0, found.n_worse > 0)


@pytest.mark.parametrize("high", [5e-324, 1e-323, 2.3e-308, 1e-300])
def test_ticks_of_next_to_nothing(high):
    found = ticks(0.0, high)
    assert found[0] == 0.0
    assert 1 <= len(found) <= 12
    assert all(tick <= high * (1 + 1e-6) for tick in found)
    assert "nan" not in bars([high], label="bars", y_label="y")


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_round_and_within(low, width):
    found = ticks(low, low + width)
    assert 1 <= len(found) <= 12 or width < 1e-3 * abs(low)
    assert all(
        low - 1e-6 * width - 1e-9 * abs(low) <= tick <= low + width * (1 + 1e-6) + 1e-9 * abs(low) for tick in found
    )


def test_the_page_of_the_service_has_the_same_colors():
    served = files("tercet.serve").joinpath("page/style.css").read_text(encoding="utf-8")

    def colors(sheet: str) -> list[dict[str, str]]:
        blocks = re.findall(r":root \{(.*?)\}", sheet, re.S)
        return [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]

    assert len(colors(STYLE)) == 2
    for ours, theirs in zip(colors(STYLE), colors(served), strict=True):
        assert ours.items() <= theirs.items()
