"""Measures of LETOR rows: ir_measures' numbers where definitions coincide, LETOR's script where they do not."""

from __future__ import annotations

import math

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InputError
from tercet.measure import evaluate, measure_block, measure_rows

QUICK = settings(deadline=None, max_examples=50)
CUTOFFS = [1, 2, 3, 5, 10]
GAINS = {0: 0, 1: 1, 2: 3, 3: 7, 4: 15}
# Few scores, all float32, so that ties are common and ir_measures compares the same numbers.
ROWS = st.lists(
    st.tuples(st.sampled_from(["7", "07", "é"]), st.integers(0, 4), st.sampled_from([-1.0, 0.0, 0.5, 2.0])),
    min_size=1,
    max_size=25,
)


def columns(rows):
    qid, y, scores = zip(*rows, strict=True)
    return np.array(scores), np.array(y), np.array(qid)


def as_run(rows):
    """Document ids fall with the row, since trec_eval puts the larger of two equally scored ids first."""
    qrels, run = {}, {}
    for row, (qid, grade, score) in enumerate(rows):
        doc_id = f"{999 - row:03d}"
        qrels.setdefault(qid, {})[doc_id] = grade
        run.setdefault(qid, {})[doc_id] = score
    return qrels, run


@given(ROWS)
@QUICK
def test_agrees_with_ir_measures(rows):
    scores, y, qid = columns(rows)
    same = ["AP", "AP(rel=2)", "AP@3", "P@1", "P(rel=2)@5", "nDCG@5", "nDCG", "RR", "R(rel=3)@4", "Success@2"]
    qrels, run = as_run(rows)
    result = measure_rows(y, scores, qid, same)
    assert result.qids == tuple(qrels)
    for metric in ir_measures.iter_calc([ir_measures.parse_measure(name) for name in same], qrels, run):
        ours = result[str(metric.measure)][result.qids.index(metric.query_id)]
        assert ours == pytest.approx(metric.value, abs=1e-9), metric
    # trec_eval has no gains of 2**grade - 1, but takes any gains in the place of grades.
    ours = measure_rows(y, scores, qid, ["nDCG(dcg='exp-log2')@5", "nDCG(dcg='exp-log2')"])
    theirs = [ir_measures.nDCG(gains=GAINS) @ 5, ir_measures.nDCG(gains=GAINS)]
    for metric in ir_measures.iter_calc(theirs, qrels, run):
        column = theirs.index(metric.measure)
        assert ours.values[ours.qids.index(metric.query_id), column] == pytest.approx(metric.value, abs=1e-9)
    mapped = evaluate(qrels, run, ours.measures)
    np.testing.assert_allclose(mapped.values, ours.values, rtol=0, atol=1e-12)


def discount(rank, form):
    """The weight of a rank, from 1, as each definition is written down."""
    if form == "letor":
        return 1.0 if rank <= 2 else math.log(2) / math.log(rank)
    return 1.0 / math.log2(1 + rank)


def slow_ndcg(labels, k, form):
    """Walk down a ranking's labels adding gains, then down the labels sorted; 0 when the latter has none."""
    best = sorted(labels, reverse=True)
    sums = [
        sum((2 ** max(label, 0) - 1) * discount(rank, form) for rank, label in enumerate(order[:k], start=1))
        for order in (labels, best)
    ]
    return sums[0] / sums[1] if sums[1] else 0.0


@given(ROWS, st.sampled_from(CUTOFFS), st.sampled_from(["letor", "exp-log2"]))
@QUICK
def test_both_exponential_forms_follow_their_definition(rows, k, form):
    scores, y, qid = columns(rows)
    result = measure_rows(y - 1, scores, qid, f"nDCG(dcg='{form}')@{k}")
    for name, value in zip(result.qids, result.values[:, 0], strict=True):
        mine = [(score, grade) for score, grade, one in zip(scores, y - 1, qid, strict=True) if one == name]
        labels = [int(grade) for _, grade in sorted(mine, key=lambda pair: -pair[0])]  # stable: ties by row
        assert value == pytest.approx(slow_ndcg(labels, k, form), abs=1e-12)


def test_known_values():
    y, scores = [0, 2, 1, 0], [4.0, 3.0, 2.0, 1.0]
    got = measure_rows(y, scores, [1, 1, 1, 1], ["nDCG(dcg='letor')@3", "nDCG(dcg='exp-log2')@3", "nDCG@3"])
    # Ranked 0, 2, 1; best 2, 1, 0.
    assert got.values[0, 0] == pytest.approx((3 + 1 / math.log2(3)) / (3 + 1))
    assert got.values[0, 1] == pytest.approx((3 / math.log2(3) + 1 / 2) / (3 + 1 / math.log2(3)))
    assert got.values[0, 2] == pytest.approx((2 / math.log2(3) + 1 / 2) / (2 + 1 / math.log2(3)))
    block = measure_block([scores], [y], got.measures)
    np.testing.assert_array_equal(block, got.values)


@given(ROWS)
@QUICK
def test_queries_need_not_stand_together(rows):
    # Sorting by query without changing the order inside any of them changes nothing.
    scores, y, qid = columns(rows)
    together = np.argsort(qid, kind="stable")
    a = measure_rows(y, scores, qid, ["AP", "nDCG(dcg='letor')@3"])
    b = measure_rows(y[together], scores[together], qid[together], ["AP", "nDCG(dcg='letor')@3"])
    assert sorted(zip(a.qids, a.values.tolist(), strict=True)) == sorted(zip(b.qids, b.values.tolist(), strict=True))


def test_equal_scores_rank_in_row_order():
    assert measure_rows([0, 0, 1], [1, 1, 1], [1, 1, 1], "RR").mean("RR") == pytest.approx(1 / 3)
    assert measure_rows([1, 0, 0], [1, 1, 1], [1, 1, 1], "RR").mean("RR") == 1.0
    # Unlike a run of ids, rows are compared in the precision they have.
    assert measure_rows([1, 0], [1.0, 1 + 1e-12], [1, 1], "RR").mean("RR") == 0.5


def test_integer_ids_are_named_as_they_print():
    assert measure_rows([1, 0], [1.0, 2.0], [7, 8], "AP").qids == ("7", "8")


def test_queries_without_a_relevant_document_count_0():
    scores, y, qid = [1.0, 0.0, 1.0, 0.0, 1.0], [2, 0, 1, 0, 0], ["a", "a", "b", "b", "c"]
    counted = measure_rows(y, scores, qid, ["AP", "AP(rel=2)"])
    assert (counted.qids, counted["AP"].tolist(), counted["AP(rel=2)"].tolist()) == (
        ("a", "b", "c"), [1, 1, 0], [1, 0, 0],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"scores": [1.0, float("nan")]}, "score of row 1 is NaN"),
        ({"scores": [[1.0, 2.0]]}, "one per row. Got shape (1, 2)"),
        ({"scores": ["a", "b"]}, "real numbers"),
        ({"scores": [], "y": [], "qid": []}, "no rows to measure"),
        ({"y": [1]}, "2 grades, one per row. Got shape (1,)"),
        ({"y": [1, 0.5]}, "y[1] is 0.5; grades are whole numbers"),
        ({"y": [1, float("inf")]}, "y[1] is inf"),
        ({"qid": [1.0, 1.0]}, "strings or integers, one per score, shape (2,). Got shape (2,), dtype float64"),
        ({"qid": ["a"]}, "Got shape (1,)"),
        ({"y": [1, 1001]}, "Grade 1001 is too large for nDCG(dcg='letor')"),
    ],
)
def test_wrong_input_says_what_and_where(change, complaint):
    good = {"scores": [1.0, 2.0], "y": [1.0, 0.0], "qid": ["a", "a"], "measures": "nDCG(dcg='letor')"}
    assert measure_rows(**good).mean("nDCG(dcg='letor')") == 1.0
    with pytest.raises(InputError) as caught:
        measure_rows(**{**good, **change})
    assert complaint in str(caught.value)


def test_ids_of_a_column_of_a_frame_are_taken():
    rows = [2, 0, 1], [0.1, 0.2, 0.3]
    from_list = measure_rows(*rows, ["b", "b", "a"], "nDCG@10")
    from_column = measure_rows(*rows, np.array(["b", "b", "a"], dtype=object), "nDCG@10")
    assert from_column.qids == from_list.qids == ("b", "a")
    np.testing.assert_array_equal(from_column.values, from_list.values)
    with pytest.raises(InputError, match="dtype object"):
        measure_rows(*rows, np.array(["b", 1, "a"], dtype=object), "nDCG@10")
