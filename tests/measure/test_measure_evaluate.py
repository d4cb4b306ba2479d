"""Runs against judgements: the same numbers as ir_measures, and what is refused or counted."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InputError
from tercet.measure import Evaluation, Measure, evaluate, measure_block, measure_rows

NAMES = [
    "AP", "AP@2", "AP(rel=2)", "AP(rel=3)@4", "nDCG", "nDCG@1", "nDCG@5", "P@1", "P@5", "P(rel=2)@3",
    "RR", "RR(rel=2)", "R@2", "R(rel=2)@5", "Success@1", "Success(rel=2)@3",
]  # fmt: skip

# Byte order and code point order of ids must agree, so some are outside ASCII and outside the first plane.
DOC_IDS = st.sampled_from(["a", "aa", "Z", "0", "09", "9", "10", "é", "éa", "\uffff", "\U00010000", "b", "c"])
GRADES = st.integers(-2, 4)
# 1 + 1e-9 and 1 are one float32; 1e300 is infinite there.
TIED_SCORES = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-9, 2.5, -3.0, 1e300, float("inf"), float("-inf")])
SCORES = TIED_SCORES | st.floats(-10, 10)
QIDS = st.sampled_from(["1", "2", "03", "q"])
QRELS = st.dictionaries(QIDS, st.dictionaries(DOC_IDS, GRADES, max_size=12), min_size=1)
RUNS = st.dictionaries(QIDS | st.just("unjudged"), st.dictionaries(DOC_IDS, SCORES, max_size=12), min_size=1)


def without_negative_grades(qrels):
    """What ir_measures is given: with a negative grade the pytrec_eval under it may crash or hang.

    When it does not, it gives the same values as for grade 0, which is the rule that `evaluate` follows.
    """
    return {qid: {doc_id: max(grade, 0) for doc_id, grade in docs.items()} for qid, docs in qrels.items()}


def shares_a_ranked_query(qrels, run):
    return any(run.get(qid) for qid in qrels)


@given(QRELS, RUNS)
@settings(deadline=None, max_examples=50)
def test_agrees_with_ir_measures(qrels, run):
    if not shares_a_ranked_query(qrels, run):
        with pytest.raises(InputError):
            evaluate(qrels, run, NAMES)
        return
    result = evaluate(qrels, run, NAMES)
    theirs = [ir_measures.parse_measure(name) for name in NAMES]
    for metric in ir_measures.iter_calc(theirs, without_negative_grades(qrels), run):
        ours = result[str(metric.measure)][result.qids.index(metric.query_id)]
        assert ours == pytest.approx(metric.value, abs=1e-9), (metric.measure, metric.query_id)
    for measure, mean in ir_measures.calc_aggregate(theirs, without_negative_grades(qrels), run).items():
        assert result.mean(str(measure)) == pytest.approx(mean, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=15)
def test_agrees_with_ir_measures_on_long_rankings(seed):
    # Without ties RR@k can be compared too: the tool behind it in ir_measures breaks ties the other way.
    random = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(150)]
    qrels, run = {}, {}
    for qid in map(str, range(6)):
        judged = random.choice(docs, size=40, replace=False)
        qrels[qid] = dict(zip(judged, random.integers(-1, 4, size=40).tolist(), strict=True))
        ranked = random.choice(docs, size=100, replace=False)
        run[qid] = dict(zip(ranked, random.permutation(1000)[:100].astype(float).tolist(), strict=True))
    del run["5"]
    names = [*NAMES, "RR@3", "RR(rel=3)@10", "AP@100", "nDCG@20", "P@100", "R@50"]
    result = evaluate(qrels, run, names)
    theirs = [ir_measures.parse_measure(name) for name in names]
    for metric in ir_measures.iter_calc(theirs, without_negative_grades(qrels), run):
        ours = result[str(metric.measure)][int(metric.query_id)]
        assert ours == pytest.approx(metric.value, abs=1e-9), metric
    assert result.missing == 1


@given(QRELS, RUNS, st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=50)
def test_rank_loss_counts_wrong_pairs(qrels, run, rel):
    if not shares_a_ranked_query(qrels, run):
        return
    result = evaluate(qrels, run, f"RankLoss(rel={rel})")
    for qid, value in zip(result.qids, result.values[:, 0], strict=True):
        with np.errstate(over="ignore"):
            scores = {doc_id: np.float32(score) for doc_id, score in run.get(qid, {}).items()}
        relevant = {doc_id for doc_id, grade in qrels[qid].items() if grade >= rel}
        irrelevant = set(scores) - relevant
        pairs = [(good, bad) for good in relevant for bad in irrelevant]
        wrong = sum(good not in scores or scores[good] <= scores[bad] for good, bad in pairs)
        nothing = float(bool(relevant) and not scores)
        assert value == pytest.approx(wrong / len(pairs) if pairs else nothing, abs=1e-12)


def test_equal_scores_put_the_larger_id_first():
    qrels = {"q": {"doc10": 1, "doc9": 0}}
    assert evaluate(qrels, {"q": {"doc10": 1.0, "doc9": 1.0}}, "RR").mean("RR") == 0.5
    # Different as float64, equal as float32.
    assert evaluate(qrels, {"q": {"doc10": 1.0 + 1e-9, "doc9": 1.0}}, "RR").mean("RR") == 0.5
    assert evaluate(qrels, {"q": {"doc10": 1.0 + 1e-6, "doc9": 1.0}}, "RR").mean("RR") == 1.0
    assert evaluate(qrels, {"q": {"doc10": 1.0, "doc9": 1.0}}, "RR@5").mean("RR@5") == 0.5


def test_missing_and_unjudged_queries_are_counted():
    qrels = {"b": {"x": 1}, "a": {"x": 1}, "c": {"x": 1}, "none": {"x": 0}}
    run = {"a": {"x": 1.0}, "c": {}, "z": {"x": 1.0}}
    result = evaluate(qrels, run, ["AP", "RankLoss"])
    assert result.qids == ("b", "a", "c", "none")
    assert (result.missing, result.unjudged) == (3, 1)
    assert result["AP"].tolist() == [0.0, 1.0, 0.0, 0.0]
    # Nothing shown is the worst order, not a perfect one; without a relevant document there is no order.
    assert result["RankLoss"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert "4 queries, 3 without results (counted as worst), 1 unjudged left out" in str(result)


@pytest.mark.parametrize(
    ("qrels", "run", "complaint"),
    [
        ({}, {"q": {"a": 1.0}}, "'qrels' is empty"),
        ({"q": {"a": 1}}, {}, "run is empty"),
        ({"q": {"a": 1}}, {"r": {"a": 1.0}}, "no document for any of the 1 judged queries"),
        ({"q": {"a": 1}}, {"q": {}}, "no document for any"),
        (
            {"q": {"a": 1}},
            {"q": {"b": 1.0, "a": float("nan")}},
            "query 'q' and document 'a' must be a number",
        ),
        ({"q": {"a": 1}}, {"q": {"a": "1.0"}}, "Got '1.0'"),
        ({"q": {"a": 1}}, {"q": {"a": None}}, "Got None"),
        ({"q": {"a": 1}}, {"q": {7: 1.0}}, "Got 7 for query 'q' of the run"),
        ({"q": {7: 1}}, {"q": {"7": 1.0}}, "Got 7 for query 'q' of the qrels"),
        ({"q": {"a": 1.0}}, {"q": {"a": 1.0}}, "grade of query 'q' and document 'a' must be an integer"),
        ({"q": {"a": True}}, {"q": {"a": 1.0}}, "Got True"),
        (
            {"q": {"a": 2**63}},
            {"q": {"a": 1.0}},
            "grade of query 'q' and document 'a' is larger than any integer of 64",
        ),
        ({"q": {"a": 10**5000}}, {"q": {"b": 1.0}}, "grade of query 'q' and document 'a' is larger"),
        ({"q": {"a": 1}}, {"q": {"a": 10**400}}, "score of query 'q' is an integer too large"),
    ],
)
def test_wrong_input_says_what_and_where(qrels, run, complaint):
    with pytest.raises(InputError) as caught:
        evaluate(qrels, run, "AP")
    assert complaint in str(caught.value)


def test_what_is_of_preferences_is_not_of_rankings():
    for measured in (
        lambda: evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, ["AP", "PairAccuracy"]),
        lambda: measure_rows([1, 0], [1.0, 0.0], [7, 7], "PairAccuracy"),
        lambda: measure_block([[1.0, 0.0]], [[1, 0]], "PairAccuracy"),
    ):
        with pytest.raises(InputError, match="PairAccuracy is measured on preferences, and not on rankings"):
            measured()


def test_numpy_numbers_are_numbers():
    result = evaluate({"q": {"a": np.int32(2)}}, {"q": {"a": np.float32(1), "b": np.int64(2)}}, "RR")
    assert result.mean("RR") == 0.5


def test_evaluation_summaries():
    values = np.array([[0.0, 1.0], [0.5, 1.0], [1.0, 1.0]])
    result = Evaluation((Measure("AP"), Measure("P", cutoff=1)), ("a", "b", "c"), values)
    assert result.mean("MAP") == 0.5
    assert result.standard_error("AP") == pytest.approx(0.5 / np.sqrt(3))
    low, high = result.interval("AP")
    assert (high - low) / 2 == pytest.approx(4.302652729911275 * 0.5 / np.sqrt(3))  # t table, 2 degrees
    assert (low + high) / 2 == pytest.approx(0.5)
    narrow_low, narrow_high = result.interval("AP", level=0.5)
    assert low < narrow_low < narrow_high < high
    assert result.interval("P@1") == (1.0, 1.0)
    lines = str(result).splitlines()
    assert [line.split()[0] for line in lines] == ["measure", "AP", "P@1", "3"]
    assert len({len(line) for line in lines[:3]}) == 1
    assert "0.5000  0.2887" in lines[1]


def test_one_query_has_no_spread():
    result = evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, "AP")
    assert np.isnan(result.standard_error("AP"))
    assert np.isnan(result.interval("AP")).all()
    assert str(result).splitlines()[1].split() == ["AP", "1.0000", "-", "-"]
    assert str(result).endswith("1 query")


def test_an_evaluation_never_changes():
    values = np.zeros((1, 1))
    result = Evaluation((Measure("AP"),), ("q",), values)
    values[0, 0] = 1.0
    assert result.mean("AP") == 0.0
    with pytest.raises(ValueError, match="read-only"):
        result["AP"][0] = 1.0


def test_wrong_questions_to_an_evaluation():
    result = evaluate({"q": {"a": 1}}, {"q": {"a": 1.0}}, ["AP", "P@5"])
    with pytest.raises(InputError, match="nDCG@10 was not evaluated here; there are AP, P@5"):
        result.mean("nDCG@10")
    with pytest.raises(InputError, match="between 0 and 1"):
        result.interval("AP", level=95)
    with pytest.raises(InputError, match=r"\(1, 1\)\. Got \(1, 2\)"):
        Evaluation((Measure("AP"),), ("q",), np.zeros((1, 2)))
