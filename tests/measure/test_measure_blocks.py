"""Measures of score blocks, against a twin that sorts every row, and the ranking kernel under them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tercet.errors import InputError
from tercet.kernels.ranking import rank_chosen
from tercet.measure import average_precision_of_classes, measure_block
from tercet.weights import Identity, Weights

NAMES = [
    "AP", "AP@3", "AP(rel=2)", "nDCG", "nDCG@3", "P@1", "P@5", "P(rel=2)@3",
    "RR", "RR@2", "R@3", "R(rel=2)@4", "Success@2", "RankLoss", "RankLoss(rel=2)",
]  # fmt: skip


def sorted_twin(scores, grades, name, exclude=-1):
    """One query, one measure, by sorting the whole row and reading the definition."""
    base, _, cutoff = name.partition("@")
    base, _, level = base.partition("(rel=")
    rel = int(level.rstrip(")") or 1)
    kept = [d for d in range(len(scores)) if d != exclude]
    ranking = sorted(kept, key=lambda d: (-scores[d], d))
    gains = [max(int(grades[d]), 0) for d in ranking]
    ideal = sorted(gains, reverse=True)
    k = int(cutoff) if cutoff else len(ideal)
    hits = [g >= rel for g in gains]
    n_relevant = sum(g >= rel for g in ideal)
    if base == "RankLoss":
        good = [scores[d] for d in kept if grades[d] >= rel]
        bad = [scores[d] for d in kept if grades[d] < rel]
        wrong = sum(g <= b for g in good for b in bad) + (n_relevant - len(good)) * len(bad)
        if not kept and n_relevant:
            return 1.0
        return wrong / (n_relevant * len(bad)) if n_relevant and bad else 0.0
    if base == "P":
        return sum(hits[:k]) / k
    if n_relevant == 0:
        return 0.0
    if base == "AP":
        return sum(sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits[:k]) if hit) / n_relevant
    if base == "R":
        return sum(hits[:k]) / n_relevant
    if base == "Success":
        return float(any(hits[:k]))
    if base == "RR":
        return 1 / (hits.index(True) + 1) if any(hits[:k]) else 0.0
    assert base == "nDCG"
    dcg, best = (sum(g / np.log2(i + 2) for i, g in enumerate(x[:k])) for x in (gains, ideal))
    return dcg / best


@st.composite
def blocks(draw):
    """Scores from few distinct values, so that ties are common, with grades."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 12)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    values = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 0.25, 1.0, 1.0 + 1e-9, np.inf])
    scores = draw(hnp.arrays(np.float64, shape, elements=values)).astype(dtype)
    grades = draw(hnp.arrays(np.int64, shape, elements=st.integers(-2, 3)))
    return scores, grades


@given(blocks())
@settings(deadline=None, max_examples=50)
def test_agrees_with_sorting(block):
    scores, grades = block
    got = measure_block(scores, grades, NAMES)
    want = [[sorted_twin(*row, name) for name in NAMES] for row in zip(scores, grades, strict=True)]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    assert np.all((got >= 0) & (got <= 1 + 1e-12))


@given(blocks())
@settings(deadline=None, max_examples=25)
def test_sparse_grades_are_dense_grades(block):
    scores, grades = block
    want = measure_block(scores, grades, NAMES)
    for form in (sp.csr_array, sp.coo_matrix, sp.csc_array):
        np.testing.assert_array_equal(measure_block(scores, form(grades), NAMES), want)


def test_sparse_grades_are_not_changed():
    unsorted = sp.csr_array((np.array([1, 2]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    value = measure_block([[3.0, 2.0, 1.0]], unsorted, "nDCG@1")
    assert value == [[1.0]]
    assert unsorted.indices.tolist() == [2, 0]


@given(
    n=st.integers(1, 12),
    n_classes=st.integers(1, 4),
    chosen=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=50)
def test_by_class_is_average_precision_of_the_other_rows_of_a_class(n, n_classes, chosen, seed):
    random = np.random.default_rng(seed)
    X = sp.csr_array(random.integers(0, 3, size=(n, 4)).astype(np.float32))  # with ties
    labels = random.integers(0, n_classes, size=n)
    queries = np.flatnonzero(random.random(n) < 0.7) if chosen else np.arange(n)
    if not queries.size:
        return
    scores, same = (X @ X.T).toarray(), (labels[:, None] == labels).astype(int)
    want = [sorted_twin(scores[row], same[row], "AP", exclude=row) for row in queries.tolist()]
    names = np.array(["sci.med", "rec", "alt", "comp"])[labels]
    for given_labels in (labels, names):
        got = average_precision_of_classes(Weights([Identity(n_terms=4)]), X, given_labels, queries if chosen else None)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_many_equal_scores_stay_fast():
    # Word overlap gives zero to most documents: a scan of every tie would need 10^10 steps here.
    grades = np.zeros((40, 30_000), bool)
    grades[:, ::2] = True
    got = measure_block(np.zeros((40, 30_000), np.float32), grades, "AP")
    hits = np.arange(1, 15_001)
    np.testing.assert_allclose(got[:, 0], np.mean(hits / (2 * hits - 1)))


def test_rank_chosen_fills_ranks_and_ties():
    scores = np.array([0.5, 0.9, 0.5, 0.5, 0.1, 0.9])
    starts, columns = np.array([0, 3]), np.array([0, 3, 4], np.int32)
    rank, at_least = np.full(3, -9), np.full(3, -9)
    rank_chosen(scores, np.array([0, 6]), starts, columns, columns, rank, at_least)
    assert rank.tolist() == [2, 4, 5]
    assert at_least.tolist() == [5, 5, 6]


def test_no_queries_and_no_documents():
    assert measure_block(np.empty((0, 4)), np.empty((0, 4), int), ["AP", "P@1"]).shape == (0, 2)
    assert measure_block(np.empty((2, 0)), np.empty((2, 0), int), NAMES).tolist() == [[0.0] * len(NAMES)] * 2


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"scores": [[1.0, float("nan")]]}, "query 0 and document 1 is NaN"),
        ({"scores": [1.0, 2.0]}, "Got shape (2,)"),
        ({"scores": [["a", "b"]]}, "real numbers"),
        ({"scores": [[1j, 2.0]]}, "real numbers"),
        ({"grades": [[1, 0, 1]]}, "shape of the scores, (1, 2). Got (1, 3)"),
        ({"grades": [[1.0, 0.0]]}, "Grades must be integers"),
        ({"measures": ["Foo"]}, "not known"),
    ],
)
def test_wrong_input_says_what_and_where(change, complaint):
    good = {"scores": [[1.0, 2.0]], "grades": [[1, 0]], "measures": ["AP"]}
    with pytest.raises(InputError) as caught:
        measure_block(**{**good, **change})
    assert complaint in str(caught.value)
