"""Known answers, new answers, repeated queries: what each fold may remember, and how much each case counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from oracles.clicks import clicks_beyond_expected
from support.corpora import synonyms
from tercet.data import Impression
from tercet.data.clicks import ClickLog
from tercet.fitting.task import KNOWN, NEW, REPEATED, Fold, Past, Task
from tercet.report import Report

CORPUS = synonyms(3, n_pairs=12, n_docs=60, n_queries=80)
CURVE = (1.0, 0.6, 0.3)


def matrices(task: Task) -> tuple[sparse.csr_array, sparse.csr_array]:
    [both] = task.build([tc.Vectorizer(weighting="bm25")])
    return both


def folds_of(task: Task, case: str) -> list[Fold]:
    folds = [fold for fold in task.folds(matrices(task)[1]) if fold.case == case]
    assert folds
    return folds


def held_out(task: Task, fold: Fold):
    return fold.parts(*matrices(task))[0].held_out


def by_name(task: Task, past: Past) -> dict[tuple[str, str], float]:
    """Evidence by query and document."""
    cells = past.evidence.tocoo()
    names = zip((task.qids[past.rows[row]] for row in cells.row), (task.doc_ids[doc] for doc in cells.col), strict=True)
    return dict(zip(names, cells.data.tolist(), strict=True))


def log_of(n: int, n_queries: int = 30, seed: int = 0) -> list[Impression]:
    """Lists of three documents, each clicked by chance, at least one of them; queries and documents come and go."""
    rng = np.random.default_rng(seed)
    log = []
    for number in range(n):
        start = 20 * number // n  # later lists have later documents
        shown = tuple(f"d{start + i}" for i in rng.permutation(30)[:3])
        clicked = tuple(doc for doc in shown if rng.random() < 0.4) or shown[:1]
        log.append(Impression(f"ask{rng.integers(n_queries):02d} common{rng.integers(3):02d}", shown, clicked))
    return log


# -- what a fold may remember -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_memory_of_a_fold_has_neither_its_queries_nor_any_of_the_same_text():
    texts = {qid: f"question {number // 2}" for number, qid in enumerate(CORPUS.qrels)}  # each text twice
    task = Task.from_evidence(CORPUS.docs, texts, qrels=CORPUS.qrels)
    for fold in folds_of(task, KNOWN):
        remembered = {texts[task.qids[row]] for row in fold.past.rows}
        out = {texts[qid] for qid in held_out(task, fold).qids}
        assert out
        assert not out & remembered
        assert out | remembered == set(texts.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qrels", "preferences", "clicks"])
def test_memory_and_words_of_a_new_fold_know_nothing_of_its_answers(kind):
    if kind == "clicks":
        log = ClickLog(tuple(log_of(300)))
        task = Task.from_evidence(CORPUS.docs, None, clicks=log, min_sessions=1)
    elif kind == "preferences":
        triplets = [(q, better, "every word") for q, judged in CORPUS.qrels.items() for better in list(judged)[:2]]
        task = Task.from_evidence(CORPUS.docs, CORPUS.queries, preferences=triplets)
    else:
        task = Task.from_evidence(CORPUS.docs, CORPUS.queries, qrels=CORPUS.qrels)
    for fold in folds_of(task, NEW):
        out = held_out(task, fold)
        if kind == "qrels":
            cells = out.grades.tocoo()
            answers = np.unique(cells.col[cells.data > 0])
        else:
            answers = np.unique(out.preferences.better)
        assert answers.size
        assert not fold.past.known[answers].any()
        _, better, _ = fold.sampler.draw(np.random.default_rng(0), 5000)
        assert not np.isin(answers, better).any()
        assert {task.qids[row] for row in fold.past.rows}.isdisjoint(out.qids)


@pytest.mark.slow
def test_the_last_tenth_is_measured_with_memory_of_everything_before_it_alone():
    log = log_of(200, n_queries=12)
    task = Task.from_evidence(
        CORPUS.docs, None, clicks=ClickLog(tuple(log), is_timed=True, examination=CURVE), min_sessions=1
    )
    [fold] = folds_of(task, REPEATED)
    expected = clicks_beyond_expected(log[:180], CURVE, 1.0, timed=True)
    found = by_name(task, fold.past)
    assert found.keys() == {pair for pair, value in expected.items() if value}
    assert found == pytest.approx({pair: expected[pair] for pair in found}, abs=1e-6)
    out = held_out(task, fold)
    asked = [{one.query for one in part} for part in (log[:180], log[180:])]
    measured = {qid.removesuffix(", the last tenth of the log") for qid in out.qids}
    assert measured
    assert measured <= asked[0] & asked[1]  # queries of the same text stay in memory, and others are not repeated
    lists = {(one.query, doc) for one in log[180:] for doc in one.clicked}
    for number, qid in enumerate(out.qids):
        better = out.preferences.better[out.preferences.query == number]
        assert {(qid.split(",")[0], task.doc_ids[doc]) for doc in better} <= lists


# -- evidence ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
def test_clicks_are_evidence_beyond_what_was_expected(timed):
    log = log_of(150)
    task = Task.from_evidence(
        CORPUS.docs, None, clicks=ClickLog(tuple(log), is_timed=timed, examination=CURVE), min_sessions=1
    )
    expected = clicks_beyond_expected(log, CURVE, 1.0, timed=timed)
    found = by_name(task, task.past)
    assert found == pytest.approx({pair: expected[pair] for pair in found}, abs=1e-6)
    assert min(found.values()) < 0 < max(found.values())
    cells = task.past.evidence.tocoo()
    times = [
        sum(one.query == task.qids[task.past.rows[row]] and task.doc_ids[doc] in one.clicked for one in log)
        for row, doc in zip(cells.row, cells.col, strict=True)
    ]
    assert task.past.times.tolist() == times


@pytest.mark.slow
def test_queries_of_one_session_are_not_remembered():
    log = [Impression(f"query {i}", ("d0", "d1"), ("d1",)) for i in range(20) for _ in range(3)]
    sessions = tuple(f"s{i}" if i % 2 == 0 else f"s{i} {time}" for i in range(20) for time in range(3))
    clicks = ClickLog(tuple(log), sessions=sessions)

    def remembered(min_sessions: int) -> set[str]:
        task = Task.from_evidence(CORPUS.docs, None, clicks=clicks, min_sessions=min_sessions)
        return {task.qids[row] for row in task.past.rows}

    assert remembered(1) == {f"query {i}" for i in range(20)}
    assert remembered(2) == remembered(3) == {f"query {i}" for i in range(1, 20, 2)}
    assert remembered(4) == set()


@pytest.mark.slow
def test_a_model_keeps_no_query_of_one_session():
    log = [Impression(f"say{i % 12:02d} {'ann' if i == 7 else ''}", ("d0", "d1"), ("d1",)) for i in range(120)]
    model = tc.fit(CORPUS.docs, clicks=log, ranker="diagonal", options={"n_steps": 100})
    kept = [part for part in (model.memory, model.learned.other_memory) if part is not None]
    assert kept
    assert all("ann" not in text for memory in kept for text in memory.texts)


def test_the_worse_document_of_a_preference_counts_against_it():
    triplets = [(qid, "d1", "d2") for qid in CORPUS.queries] + [("q0", "d2", "d3"), ("q1", "d1", "d2", 3.0)]
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, preferences=triplets)
    found = by_name(task, task.past)
    # 2 (wins - losses) / (wins + losses + 1), by weight; d2 of the first query has won and lost once.
    assert found["q2", "d1"] == pytest.approx(1.0)
    assert found["q2", "d2"] == pytest.approx(-1.0)
    assert ("q0", "d2") not in found
    assert found["q0", "d3"] == pytest.approx(-1.0)
    assert found["q1", "d1"] == pytest.approx(2 * 4 / 5)
    assert found["q1", "d2"] == pytest.approx(-2 * 4 / 5)


def test_grades_are_evidence_as_shares_of_the_largest():
    qrels = {qid: {"d0": 4, "d1": 2, "d2": 0, "d3": -1} for qid in CORPUS.queries}
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, qrels=qrels)
    found = by_name(task, task.past)
    assert (found["q5", "d0"], found["q5", "d1"]) == (1.0, 0.5)
    assert {doc for _, doc in found} == {"d0", "d1"}


def test_sources_add_up():
    log = [Impression(CORPUS.queries["q0"], ("d0", "d1"), ("d1",)) for _ in range(30)]
    task = Task.from_evidence(
        CORPUS.docs,
        CORPUS.queries,
        qrels=CORPUS.qrels | {"q0": {"d1": 2, "d4": 1}},
        clicks=ClickLog(tuple(log), examination=CURVE),
    )
    found = by_name(task, task.past)
    expected = clicks_beyond_expected(log, CURVE, 1.0, timed=False)
    largest = max(grade for judged in CORPUS.qrels.values() for grade in judged.values())
    assert found["q0", "d1"] == pytest.approx(2 / largest + expected[CORPUS.queries["q0"], "d1"])
    assert found["q0", "d4"] == pytest.approx(1 / largest)


# -- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_new_documents_are_as_given():
    for share in (0.0, 0.25, 1.0):
        task = Task.from_evidence(CORPUS.docs, CORPUS.queries, qrels=CORPUS.qrels, new_documents=share)
        assert task.shares[NEW] == share
        assert sum(task.shares.values()) == pytest.approx(1.0)
        assert task.share_reason == "as given"


@pytest.mark.slow
def test_the_end_of_a_log_says_how_many_answers_are_new_and_how_many_queries_are_repeated():
    early = [Impression(f"query {i % 20}", ("d0", "d1"), ("d1",)) for i in range(90)]
    late = [Impression("query 1", ("d0", "d1"), ("d1",))] * 4  # repeated, known
    late += [Impression("query 2", ("d0", "d5"), ("d5",))] * 3  # repeated, new
    late += [Impression("never asked", ("d0", "d1"), ("d1",))] * 2 + [Impression("query 3", ("d0", "d1"), ())]
    task = Task.from_evidence(CORPUS.docs, None, clicks=ClickLog((*early, *late), is_timed=True))
    new, repeated = 3 / 9, 7 / 9
    assert task.shares == pytest.approx({NEW: new, REPEATED: (1 - new) * repeated, KNOWN: (1 - new) * (1 - repeated)})
    given = Task.from_evidence(CORPUS.docs, None, clicks=ClickLog((*early, *late), is_timed=True), new_documents=0.0)
    assert given.shares[REPEATED] == pytest.approx(repeated)


@pytest.mark.parametrize(("n_alone", "share"), [(0, 0.3), (10, 0.3), (16, 0.4), (40, 1.0)])
def test_otherwise_three_in_ten_are_new_or_as_many_as_no_other_query_has(n_alone, share):
    """Each query has one answer; some share it with another query."""
    qids = list(CORPUS.queries)[:40]
    qrels = {qid: {f"d{number}" if number < n_alone else "d50": 1} for number, qid in enumerate(qids)}
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, qrels=qrels)
    assert task.shares[NEW] == pytest.approx(share)


@pytest.mark.slow
def test_the_verdict_says_the_share_and_where_it_comes_from():
    how = {"ranker": "diagonal", "options": {"n_steps": 100}}
    report = tc.fit(CORPUS.docs, CORPUS.queries, CORPUS.qrels, new_documents=0.25, **how).report
    assert [result.name for result in report.evidence] == [KNOWN, NEW]
    for result in report.evidence:
        share = {KNOWN: "75%", NEW: "25%, as given"}[result.name]
        assert f"{result.name} {share} ({result.change[0]:+.3f} on {result.n_queries} queries)" in report.decision


@pytest.mark.parametrize(
    ("shared", "known"), [(("topic",), "no difference seen"), (("topic", "theme", "matter"), "worse")]
)
def test_a_log_that_repeats_is_decided_by_its_repeated_queries_and_the_report_says_so(shared, known):
    """Two queries of a topic want opposite documents: memory helps a query that returns, and misleads a new one.

    If a similarity of queries does not mislead, the choice takes this similarity, though the share of new queries is 0.
    """
    texts = [" ".join(f"{word}{k}" for word in shared) for k in range(20)]
    docs = {f"{side}{k}": f"{texts[k]} {side}" for k in range(20) for side in ("left", "right")}
    lists = [
        (f"{texts[k]} {who}", (f"left{k}", f"right{k}"), (f"{wanted}{k}",))
        for _ in range(12)
        for k in range(20)
        for who, wanted in (("anna", "left" if k % 2 else "right"), ("bert", "right" if k % 2 else "left"))
    ]
    log = [Impression(*one) for one in lists]
    model = tc.fit(docs, clicks=ClickLog(tuple(log), is_timed=True), ranker="cosine")
    report = model.report
    by_name = {result.name: result for result in report.evidence}
    assert by_name[KNOWN].verdict == known
    assert by_name[REPEATED].verdict == "better"
    assert report.decision.startswith("Used: memory. PairAccuracy is expected to change by +")
    assert "weighing repeated queries 100% (+" in report.decision
    assert f"known answers 0% ({by_name[KNOWN].change[0]:+.3f} on " in report.decision
    assert report.verdict == "better"
    assert "Verdict: better" in str(report)
    assert Report.from_state(*report.to_state()).verdict == "better"
