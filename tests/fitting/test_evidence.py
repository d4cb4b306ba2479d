"""Judgements, threes and clicks, alone and together: what is held out, what is drawn, what is reported."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import tercet as tc
from support.corpora import synonyms
from tercet.data import Impression
from tercet.data.click_tables import as_click_log
from tercet.data.clicks import ClickLog, click_preferences
from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.data.sampling import MixtureSampler
from tercet.errors import InputError
from tercet.fitting.evidence import evidence_task
from tercet.measure.held_out import HeldOutPreferences
from tercet.report import Report
from tercet.report.page import make_report_page
from tercet.text import Analyser, Vectoriser
from tercet.weights import Identity

CORPUS = synonyms(3, n_pairs=12, n_docs=60, n_queries=80)
LOOKS = [1 / math.log2(2 + place) for place in range(10)]


def log_of(n_lists: int, seed: int = 0, informed: bool = True, by_text: bool = True) -> list[Impression]:
    """Lists in random order of which relevant documents are clicked where they are looked at, or any."""
    rng = np.random.default_rng(seed)
    doc_ids, log = list(CORPUS.docs), []
    for number in rng.integers(0, 80, n_lists):
        qid = f"q{number}"
        relevant = list(CORPUS.qrels[qid])
        shown = {relevant[i] for i in rng.permutation(len(relevant))[:4]}
        shown |= {doc_ids[i] for i in rng.permutation(len(doc_ids))[: 10 - len(shown)]}
        order = [sorted(shown)[i] for i in rng.permutation(len(shown))]
        chances = [0.9 if d in relevant else 0.05 for d in order] if informed else [0.4] * len(order)
        clicked = [d for d, look, g in zip(order, LOOKS, chances, strict=False) if rng.random() < look * g]
        log.append(Impression(CORPUS.queries[qid] if by_text else qid, tuple(order), tuple(clicked)))
    return log


def threes_of(qids) -> list[tuple[str, str, str]]:
    doc_ids = list(CORPUS.docs)
    return [(q, next(iter(CORPUS.qrels[q])), next(d for d in doc_ids if d not in CORPUS.qrels[q])) for q in qids]


def drawn_queries(task, n: int = 20_000) -> set[int]:
    query, _, _ = task.sampler.draw(np.random.default_rng(0), n)
    return set(query.tolist())


def built(task):
    return task.build(Vectoriser(analyser=Analyser(stop_words="english"), weighting="bm25"))


LOG = log_of(1500)


# -- what is held out -------------------------------------------------------------------------------------------------


def test_a_query_that_is_held_out_in_one_source_is_learned_from_in_none():
    qids = list(CORPUS.queries)
    task, measure = evidence_task(
        CORPUS.docs,
        CORPUS.queries,
        qrels=CORPUS.part(0, 40),
        preferences=threes_of(qids[20:60]),
        clicks=as_click_log(LOG),
    )
    assert measure == "nDCG@10"
    Q, D, validation, test = built(task)
    parts = {part.name: part.held_out for part in task.facts.parts(Q, D)}
    assert set(parts) == {
        "judgements",
        "threes",
        "clicks, queries that nothing was learned from",
        "clicks, the last tenth of the log",
    }
    untouched = {qid for name, part in parts.items() if "last tenth" not in name for qid in part.qids}
    assert set(test.qids) <= untouched
    assert not untouched & set(validation.qids)
    rows = {qid: row for row, qid in enumerate(CORPUS.queries)}
    drawn = drawn_queries(task)
    assert not drawn & {rows[qid] for qid in untouched | set(validation.qids)}
    assert len(drawn) == task.facts.n_train
    assert "a query held out in one is held out in all" in task.facts.split


def test_the_last_tenths_of_the_log_are_not_learned_from():
    early = [Impression(f"early {i % 40}", ("d0", "d1"), ("d1",)) for i in range(900)]
    log = [*early[:800], *(Impression(i.query, ("d2", "d3"), ("d3",)) for i in early[:100])]
    log += [Impression(i.query, ("d4", "d5"), ("d5",)) for i in early[:100]]
    task, measure = evidence_task(CORPUS.docs, None, clicks=ClickLog(tuple(log)))
    assert measure == "PairAccuracy"
    rows = {doc_id: row for row, doc_id in enumerate(CORPUS.docs)}
    _, better, worse = task.sampler.draw(np.random.default_rng(0), 5000)
    assert set(better.tolist()) == {rows["d1"]}
    assert set(worse.tolist()) == {rows["d0"]}
    Q, D, validation, test = built(task)
    assert {rows["d1"], rows["d3"]} == set(validation.preferences.better.tolist())
    assert not set(test.qids) & set(validation.qids)
    *_, last = task.facts.parts(Q, D)
    assert last.name == "clicks, the last tenth of the log"
    assert set(last.held_out.preferences.better.tolist()) == {rows["d5"]}
    assert (last.size, len(last.held_out.qids)) == (pytest.approx(100, abs=15), 36)


def test_queries_are_one_whether_by_id_or_text_in_any_case():
    text = CORPUS.queries["q3"]
    log = [Impression(query, ("d0", "d1"), ("d1",)) for query in ("q3", text, f"  {text.upper()} ", "new")] * 10
    log += [Impression(f"other {i}", ("d0", "d1"), ("d1",)) for i in range(20)]
    task, _ = evidence_task(CORPUS.docs, CORPUS.queries, clicks=ClickLog(tuple(log)))
    assert len(task.facts.texts) == 80 + 1 + 20
    assert task.facts.texts["new"] == "new"


def test_documents_that_are_not_there_are_passed_over_and_counted():
    log = [Impression(f"query {i}", ("d0", "gone", "d1"), ("d1",)) for i in range(30)]
    task, _ = evidence_task(CORPUS.docs, None, clicks=ClickLog(tuple(log)))
    assert any("30 of 90 documents shown in the click log are unknown" in note for note in task.facts.notes)
    with pytest.raises(InputError, match="the log shows 'x', and a document is called 'd0'"):
        evidence_task(CORPUS.docs, None, clicks=ClickLog((Impression("q", ("x", "y"), ("x",)),)))
    with pytest.raises(InputError, match="in no list is a document clicked and another one not"):
        evidence_task(CORPUS.docs, None, clicks=ClickLog((Impression("q", ("d0", "d1"), ()),)))
    with pytest.raises(InputError, match="9 queries with clicks are too few"):
        evidence_task(CORPUS.docs, None, clicks=ClickLog(tuple(log[:9])))


# -- what is drawn and measured ---------------------------------------------------------------------------------------


def test_draws_are_shared_in_proportion_and_said():
    one, other = (PreferenceSampler(Preferences([row], [1], [0])) for row in (0, 1))
    mixture = MixtureSampler([(one, 3), (other, 1)])
    query, _, _ = mixture.draw(np.random.default_rng(0), 40_000)
    assert (query == 0).mean() == pytest.approx(0.75, abs=0.01)
    assert mixture.fingerprint() != MixtureSampler([(one, 1), (other, 1)]).fingerprint()
    with pytest.raises(InputError, match="must be positive"):
        MixtureSampler([(one, 0.0)])
    task, _ = evidence_task(CORPUS.docs, CORPUS.queries, qrels=CORPUS.qrels, clicks=as_click_log(LOG))
    shares = [int(share) for share in re.findall(r"(\d+)%", task.facts.data["draws"])]
    sizes = task.facts.data["n_judgements"], task.facts.data["n_lists"]
    assert shares == [round(100 * size / sum(sizes)) for size in sizes]


def test_weights_count_in_the_share_of_a_query_and_in_the_draws():
    Q = D = np.eye(3)
    weights = tc.Weights([Identity(n_terms=3)])
    prefs = Preferences([0, 0, 1], [0, 1, 1], [1, 0, 2], [3.0, 1.0, 2.0])
    sparse = pytest.importorskip("scipy.sparse")
    held_out = HeldOutPreferences(sparse.csr_array(Q), sparse.csr_array(D), prefs, ("a", "b"))
    assert held_out.values(weights).tolist() == [0.75, 1.0]
    assert held_out.at_most(1).values(weights).tolist() == [0.75]
    threes = [(*three, 9.0 if three[0] == "q0" else 1.0) for three in threes_of(CORPUS.queries)]
    task, _ = evidence_task(CORPUS.docs, CORPUS.queries, preferences=threes)
    query, _, _ = task.sampler.draw(np.random.default_rng(0), 20_000)
    if 0 in query:
        assert (query == 0).mean() == pytest.approx(9 / (task.facts.n_train + 8), abs=0.01)


def test_equally_good_documents_are_preferred_alike_wherever_they_are_shown():
    """Over all that was shown, weighted by the chance of looking, clicks say nothing of two documents alike."""
    rng = np.random.default_rng(0)
    total = {"top": 0.0, "bottom": 0.0}
    for _ in range(20_000):
        shown = ["top", *"abc", "bottom"]
        clicked = [d for d, look in zip(shown, LOOKS, strict=False) if rng.random() < 0.1 * look]
        for better, worse, weight in click_preferences(shown, clicked, "all", most=math.inf):
            if {better, worse} == set(total):
                total[better] += weight
    assert total["top"] == pytest.approx(total["bottom"], rel=0.1)


# -- models -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def from_clicks():
    return tc.fit(CORPUS.docs, clicks=LOG, n_steps=40_000, verbose=False)


def test_clicks_alone_teach_what_judgements_would(from_clicks):
    report = from_clicks.report
    assert report.accepted
    assert report.measure == "PairAccuracy"
    assert [result.name for result in report.evidence] == [
        "clicks, queries that nothing was learned from",
        "clicks, the last tenth of the log",
    ]
    assert {result.verdict for result in report.evidence} == {"better"}
    assert report.verdict == "better"
    run = from_clicks.rank(CORPUS.queries, CORPUS.docs)
    start = replace(from_clicks, weights=tc.Weights([Identity(n_terms=from_clicks.weights.shape[0])]))
    before = tc.evaluate(CORPUS.qrels, start.rank(CORPUS.queries, CORPUS.docs), "nDCG@10").mean("nDCG@10")
    assert tc.evaluate(CORPUS.qrels, run, "nDCG@10").mean("nDCG@10") > before + 0.1


def test_the_report_of_each_source_is_printed_saved_and_on_the_page(from_clicks, tmp_path):
    report = from_clicks.report
    from_clicks.save(tmp_path / "m")
    assert tc.load(tmp_path / "m").report == report
    meta = json.loads(report.to_json())
    assert len(meta["evidence"]) == 2
    assert Report.from_state({k: v for k, v in meta.items() if k != "verdict"}, {}) == report
    page = make_report_page(report)
    for result in report.evidence:
        difference, low, high, _ = result.change
        assert f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]" in str(report)
        assert result.about in page
    assert "What each source says" in page
    assert "What each source says" not in make_report_page(replace(report, evidence=()))


def test_clicks_at_random_are_declined_or_claim_nothing():
    report = tc.fit(CORPUS.docs, clicks=log_of(600, informed=False), n_steps=20_000, verbose=False).report
    assert report.verdict != "better"


def test_all_together_are_reported_each_and_the_same_seed_gives_the_same_bits():
    given = {"qrels": CORPUS.qrels, "preferences": threes_of(CORPUS.queries), "clicks": LOG, "n_steps": 10_000}
    model, again = (tc.fit(CORPUS.docs, CORPUS.queries, **given, verbose=False) for _ in range(2))
    names = [result.name for result in model.report.evidence]
    assert names[:2] == ["judgements", "threes"]
    assert len(names) == 4
    assert model.report.measure == "nDCG@10"
    assert [result.measure for result in model.report.evidence] == ["nDCG@10", *["PairAccuracy"] * 3]
    assert model.report.evidence == again.report.evidence
    assert re.fullmatch(r"judgements \d+%, threes \d+%, clicks \d+%", model.report.details.data["draws"])


def test_judgements_to_test_on_tell_what_clicks_brought_in_rankings():
    report = tc.fit(
        CORPUS.docs, CORPUS.queries, clicks=LOG, test=CORPUS.part(0, 20), n_steps=30_000, verbose=False
    ).report
    judged = report.evidence[0]
    assert (judged.name, judged.measure, judged.n_queries) == ("judgements", "nDCG@10", 20)
    assert judged.verdict == "better"
