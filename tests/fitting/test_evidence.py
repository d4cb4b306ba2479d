"""Judgements, triplets and clicks, alone and together: what is held out, what is drawn, what is reported."""

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
from tercet.fitting.judged import QueryNames
from tercet.fitting.preference_pairs import ClickPairs
from tercet.fitting.task import EVERY, KNOWN, NEW, REPEATED, Fold, HeldOutPart, Task
from tercet.measure.held_out import HeldOutPreferences
from tercet.report import Report
from tercet.report.page import make_report_page
from tercet.text import Analyzer, Vectorizer
from tercet.weights import Identity

LAST_CLICKS = "clicks, the last tenth of the log"
CORPUS = synonyms(3, n_pairs=12, n_docs=60, n_queries=80)
LOOKS = [1 / math.log2(2 + position) for position in range(10)]


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


def triplets_of(qids) -> list[tuple[str, str, str]]:
    doc_ids = list(CORPUS.docs)
    return [(q, next(iter(CORPUS.qrels[q])), next(d for d in doc_ids if d not in CORPUS.qrels[q])) for q in qids]


def drawn_queries(sampler, n: int = 20_000) -> set[int]:
    query, _, _ = sampler.draw(np.random.default_rng(0), n)
    return set(query.tolist())


def built(task):
    [(Q, D)] = task.build([Vectorizer(analyzer=Analyzer(stop_words="english"), weighting="bm25")])
    return Q, D


def left_out(task) -> list[tuple[Fold, dict[str, HeldOutPart]]]:
    """Each fold with its parts, by name."""
    Q, D = built(task)
    return [(fold, {part.name: part for part in fold.parts(Q, D)}) for fold in task.folds(D)]


LOG = log_of(700)


# -- what is left out -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_query_that_is_left_out_in_one_source_is_learned_from_in_none():
    qids = list(CORPUS.queries)
    task = Task.from_evidence(
        CORPUS.docs,
        CORPUS.queries,
        qrels=CORPUS.part(0, 40),
        preferences=triplets_of(qids[20:60]),
        clicks=as_click_log(LOG),
    )
    assert str(task.measure) == "nDCG@10"
    rows = {qid: row for row, qid in enumerate(CORPUS.queries)}
    times = dict.fromkeys(qids, 0)
    folds = left_out(task)
    for fold, parts in folds:
        if fold.case != KNOWN:
            continue
        assert set(parts) == {EVERY, "judgements", "triplets", "clicks"}
        assert set(parts[EVERY].held_out.qids) == set(parts["judgements"].held_out.qids) <= set(qids[:40])
        out = {qid for part in parts.values() for qid in part.held_out.qids}
        assert not drawn_queries(fold.sampler) & {rows[qid] for qid in out}
        for qid in out:
            times[qid] += 1
    assert set(times.values()) == {2}  # of few judged queries each is left out twice, and so are the others
    [recent] = [parts for fold, parts in folds if fold.case is None]
    assert set(recent) == {LAST_CLICKS}  # reported beside what judgements say, which choose
    assert drawn_queries(task.sampler) == {rows[qid] for qid in qids}
    assert task.facts.n_train == 80
    assert "a query left out of one is left out of all" in task.facts.split


@pytest.mark.slow
def test_documents_that_are_withheld_are_in_none_of_the_preferences():
    """In what is left they would be the worse ones alone, and learning would push them down as no new one is."""
    task = Task.from_evidence(CORPUS.docs, None, clicks=as_click_log(LOG))

    def documents(sampler) -> list[set[int]]:
        return [set(side.tolist()) for side in sampler.draw(np.random.default_rng(0), 40_000)[1:]]

    new = [(fold, parts) for fold, parts in left_out(task) if fold.case == NEW]
    assert new
    for fold, parts in new:
        answers = set(parts[NEW].held_out.preferences.better.tolist())
        assert answers
        assert not answers & set.union(*documents(fold.sampler))


def test_the_last_tenth_of_the_log_is_left_out_of_one_fit():
    early = [Impression(f"early {i % 40}", ("d0", "d1"), ("d1",)) for i in range(900)]
    log = [*early, *(Impression(i.query, ("d4", "d5"), ("d5",)) for i in early[:100])]
    task = Task.from_evidence(CORPUS.docs, None, clicks=ClickLog(tuple(log)))
    assert str(task.measure) == "PairAccuracy"
    rows = {doc_id: row for row, doc_id in enumerate(CORPUS.docs)}
    folds = left_out(task)
    [(recent, last)] = [(fold, parts) for fold, parts in folds if fold.case == REPEATED]
    _, better, worse = recent.sampler.draw(np.random.default_rng(0), 5000)
    assert set(better.tolist()) == {rows["d1"]}
    assert set(worse.tolist()) == {rows["d0"]}
    [part] = last.values()
    assert part.name == REPEATED
    assert set(part.held_out.preferences.better.tolist()) == {rows["d5"]}
    assert (len(part.held_out.preferences), len(part.held_out.qids)) == (40, 40)
    # A query has a value of what came last beside its own.
    names = set(part.held_out.qids)
    by_query = [(fold, parts) for fold, parts in folds if fold.case == KNOWN]
    assert by_query
    for fold, parts in by_query:
        assert not names & set(parts[EVERY].held_out.qids)
        assert len(drawn_queries(fold.sampler)) == 40 - len(parts[EVERY].held_out.qids)
    assert {rows["d1"], rows["d5"]} == set(task.sampler.draw(np.random.default_rng(0), 5000)[1].tolist())
    assert "One fit left out the last tenth of the click log, in the order of the file" in task.facts.split
    assert names <= task.names.keys()


def test_queries_are_one_whether_by_id_or_text_in_any_case():
    text = CORPUS.queries["q3"]
    log = [Impression(query, ("d0", "d1"), ("d1",)) for query in ("q3", text, f"  {text.upper()} ", "new")] * 10
    log += [Impression(f"other {i}", ("d0", "d1"), ("d1",)) for i in range(20)]
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, clicks=ClickLog(tuple(log)))
    assert len(set(task.names.values())) == 80 + 1 + 20
    assert task.names["new"] == "new"


def test_documents_that_are_not_there_are_passed_over_and_counted():
    log = [Impression(f"query {i}", ("d0", "gone", "d1"), ("d1",)) for i in range(30)]
    task = Task.from_evidence(CORPUS.docs, None, clicks=ClickLog(tuple(log)))
    assert any("30 of 90 documents shown in the click log are unknown" in note for note in task.facts.notes)
    with pytest.raises(InputError, match="the log shows 'x', and a document is called 'd0'"):
        Task.from_evidence(CORPUS.docs, None, clicks=ClickLog((Impression("q", ("x", "y"), ("x",)),)))
    with pytest.raises(InputError, match="in no list is a document clicked and another one not"):
        Task.from_evidence(CORPUS.docs, None, clicks=ClickLog((Impression("q", ("d0", "d1"), ()),)))


# -- what is drawn and measured ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_draws_are_shared_in_proportion_and_said():
    one, other = (PreferenceSampler(Preferences([row], [1], [0])) for row in (0, 1))
    mixture = MixtureSampler([(one, 3), (other, 1)])
    query, _, _ = mixture.draw(np.random.default_rng(0), 40_000)
    assert (query == 0).mean() == pytest.approx(0.75, abs=0.01)
    assert mixture.fingerprint() != MixtureSampler([(one, 1), (other, 1)]).fingerprint()
    with pytest.raises(InputError, match="must be positive"):
        MixtureSampler([(one, 0.0)])
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, qrels=CORPUS.qrels, clicks=as_click_log(LOG))
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
    triplets = [(*three, 9.0 if three[0] == "q0" else 1.0) for three in triplets_of(CORPUS.queries)]
    task = Task.from_evidence(CORPUS.docs, CORPUS.queries, preferences=triplets)
    query, _, _ = task.sampler.draw(np.random.default_rng(0), 20_000)
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
    return tc.fit(CORPUS.docs, clicks=LOG, options={"n_steps": 5000, "verbose": False})


@pytest.mark.slow
def test_clicks_alone_teach_what_judgements_would(from_clicks):
    report = from_clicks.report
    assert report.accepted
    assert report.measure == "PairAccuracy"
    by_name = {result.name: result for result in report.evidence}
    assert by_name.keys() == {KNOWN, NEW, REPEATED}
    assert by_name[KNOWN].verdict == by_name[REPEATED].verdict == "better"
    assert by_name[KNOWN].n_queries == 80
    assert report.verdict == "better"
    run = from_clicks.rank(CORPUS.queries, CORPUS.docs)
    start = from_clicks.with_parts([])
    before = tc.evaluate(CORPUS.qrels, start.rank(CORPUS.queries, CORPUS.docs), "nDCG@10").mean("nDCG@10")
    assert tc.evaluate(CORPUS.qrels, run, "nDCG@10").mean("nDCG@10") > before + 0.1


@pytest.mark.slow
def test_the_report_of_each_source_is_printed_saved_and_on_the_page(from_clicks, tmp_path):
    report = from_clicks.report
    from_clicks.save(tmp_path / "m")
    assert tc.load(tmp_path / "m").report == report
    meta = json.loads(report.to_json())
    assert len(meta["evidence"]) == len(report.evidence) >= 2
    assert Report.from_state({k: v for k, v in meta.items() if k != "verdict"}, {}) == report
    page = make_report_page(report)
    for result in report.evidence:
        difference, low, high, _ = result.change
        assert f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]" in str(report)
        assert result.about in page
    assert "Where the gain comes from" in page
    assert "Where the gain comes from" not in make_report_page(replace(report, evidence=()))


@pytest.mark.slow
def test_clicks_at_random_are_declined_or_claim_nothing():
    report = tc.fit(CORPUS.docs, clicks=log_of(400, informed=False), options={"n_steps": 2000, "verbose": False}).report
    assert report.verdict != "better"


@pytest.mark.slow
def test_all_together_are_reported_each_and_the_same_seed_gives_the_same_bits():
    given = {
        "qrels": CORPUS.qrels,
        "preferences": triplets_of(CORPUS.queries),
        "clicks": LOG,
        "options": {"n_steps": 2000, "verbose": False},
    }
    model, again = (tc.fit(CORPUS.docs, CORPUS.queries, **given) for _ in range(2))
    names = [result.name for result in model.report.evidence]
    by_judgements, by_pairs = {KNOWN, NEW, "judgements"}, {"triplets", "clicks", LAST_CLICKS}
    assert set(names) == by_judgements | by_pairs
    assert model.report.measure == "nDCG@10"
    for result in model.report.evidence:
        assert result.measure == ("nDCG@10" if result.name in by_judgements else "PairAccuracy")
    assert model.report.evidence == again.report.evidence
    assert re.fullmatch(r"judgements \d+%, triplets \d+%, clicks \d+%", model.report.details.data["draws"])


def test_clicks_that_say_the_same_are_one_preference_with_all_their_weight():
    lists = tuple(log_of(400, by_text=False)) * 2
    names, doc_rows = QueryNames(CORPUS.queries), {doc_id: row for row, doc_id in enumerate(CORPUS.docs)}
    pairs = ClickPairs.from_log(ClickLog(lists), names, doc_rows)
    query_rows = {qid: row for row, qid in enumerate(CORPUS.queries)}
    expected: dict[tuple[int, int, int], float] = {}
    for query, shown, clicked in lists:
        for better, worse, weight in click_preferences(shown, clicked, "all", most=math.inf):
            three = query_rows[query], doc_rows[better], doc_rows[worse]
            expected[three] = expected.get(three, 0.0) + weight
    made = pairs.preferences()
    triplets = list(zip(made.query.tolist(), made.better.tolist(), made.worse.tolist(), strict=True))
    assert triplets == sorted(expected)
    np.testing.assert_allclose(made.weight, [expected[three] for three in triplets], rtol=1e-6)
    assert pairs.size == 2 * len({number for number in pairs.impression.tolist() if number < 400})
