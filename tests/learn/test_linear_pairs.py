"""The losses of one query against the slow loop over its pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

import oracles
from tercet.errors import InputError
from tercet.kernels.pairs import (
    hinge_slopes,
    listnet_slopes,
    pair_curvature,
)
from tercet.learn.linear.queries import Queries

# Few different values, so that scores tie and stand exactly a margin apart; or any.
coarse = st.integers(-6, 6).map(lambda v: v / 4)
scores_of = {"coarse": coarse, "any": st.floats(-50, 50)}


@st.composite
def one_query(draw, n_grades=4):
    n = draw(st.integers(1, 25))
    scores = np.array(draw(st.lists(scores_of[draw(st.sampled_from(["coarse", "any"]))], min_size=n, max_size=n)))
    grades = np.array(draw(st.lists(st.integers(0, n_grades - 1), min_size=n, max_size=n)), dtype=np.int32)
    return scores, grades, draw(st.sampled_from([0.25, 0.5, 1.0, 2.0]))


@settings(max_examples=50)
@given(query=one_query())
def test_loss_and_slopes_are_those_of_the_loop(query):
    scores, grades, margin = query
    slopes = np.full(len(scores), np.nan)
    value = hinge_slopes(scores, grades, 4, margin, slopes)
    wanted, wanted_slopes = oracles.pair_loss(scores, oracles.query_pairs(grades), margin)
    assert value == pytest.approx(wanted, rel=1e-9, abs=1e-8)
    np.testing.assert_allclose(slopes, wanted_slopes, rtol=1e-9, atol=1e-8)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    widest=st.sampled_from([0, 40, 63, 64, 65, 200]),  # in 64ths of the margin
    n_grades=st.sampled_from([2, 5, 8, 9, 25]),
)
def test_scores_within_the_margin_or_just_beyond_are_those_of_the_loop(seed, widest, n_grades):
    rng = np.random.default_rng(seed)
    scores = np.append(rng.integers(0, widest + 1, 20), [0, widest]) / 64 - 3.0
    grades = rng.integers(0, n_grades, 22).astype(np.int32)
    slopes = np.full(22, np.nan)
    value = hinge_slopes(scores, grades, n_grades, 1.0, slopes)
    wanted, wanted_slopes = oracles.pair_loss(scores, oracles.query_pairs(grades))
    assert value == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(slopes, wanted_slopes, rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(query=one_query(n_grades=25))
def test_slopes_of_a_query_sum_to_zero(query):
    scores, grades, margin = query
    slopes = np.empty(len(scores))
    hinge_slopes(scores, grades, 25, margin, slopes)
    assert slopes.sum() == pytest.approx(0, abs=1e-9 * max(1, np.abs(slopes).sum()))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), shift=st.sampled_from([1e3, 1e6, -1e6]))
def test_scores_far_from_zero_keep_their_digits(seed, shift):
    rng = np.random.default_rng(seed)
    scores, grades = np.round(rng.normal(size=30), 3), rng.integers(0, 5, 30).astype(np.int32)
    near, far = np.empty(30), np.empty(30)
    value = hinge_slopes(scores, grades, 5, 1.0, near)
    # The shift itself rounds the scores, by about 1e-10 at the worst.
    assert hinge_slopes(scores + shift, grades, 5, 1.0, far) == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(far, near, atol=1e-7)


@settings(max_examples=30)
@given(query=one_query(), seed=st.integers(0, 10**6))
def test_curvature_is_that_of_the_loop(query, seed):
    scores, grades, margin = query
    direction = np.random.default_rng(seed).normal(size=len(scores))
    wanted = sum(
        2 * (direction[better] - direction[worse]) ** 2
        for better, worse in oracles.query_pairs(grades)
        if scores[worse] > scores[better] - margin
    )
    at_the_kink = np.isclose(np.abs(scores[:, None] - scores), margin, rtol=0, atol=1e-9).any()
    if not at_the_kink:
        assert pair_curvature(scores, direction, grades, 4, margin) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_listnet_is_the_cross_entropy(seed):
    rng = np.random.default_rng(seed)
    scores, labels, slopes = rng.normal(size=12) * 5, rng.integers(0, 3, 12).astype(float), np.empty(12)
    value, wanted = oracles.listnet_loss(scores, labels)
    assert listnet_slopes(scores, labels, slopes) == pytest.approx(value)
    np.testing.assert_allclose(slopes, wanted, atol=1e-12)
    assert check_grad(lambda s: oracles.listnet_loss(s, labels)[0], lambda _: slopes, scores) < 1e-5


def test_listnet_takes_scores_of_any_size():
    slopes = np.empty(2)
    assert listnet_slopes(np.array([5000.0, -5000.0]), np.array([0.0, 3000.0]), slopes) == pytest.approx(10000.0)
    np.testing.assert_allclose(slopes, [1.0, -1.0])


# -- grouping rows by query -----------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["numbers", "words", "tuples", "floats", "runs"]))
def test_queries_hold_every_row_that_has_pairs(seed, kind):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    number = rng.integers(0, 6, n)
    labels = rng.integers(0, 3, n) if kind != "floats" else np.round(rng.normal(size=n), 1)
    ids = {
        "numbers": number,
        "words": np.array([f"q{i}" for i in number]),
        "tuples": [("q", int(i)) for i in number],
        "floats": number / 2,
        "runs": np.sort(number),
    }[kind]
    queries = Queries.from_labels(labels, ids)
    expected = {}
    for row, name in enumerate(ids):
        expected.setdefault(name, []).append(row)
    expected = [rows for rows in expected.values() if oracles.query_pairs(labels[rows])]
    assert len(queries) == len(expected)
    for q, rows in enumerate(expected):
        part = slice(queries.starts[q], queries.starts[q + 1])
        assert queries.rows[part].tolist() == rows
        assert queries.labels[part].tolist() == labels[rows].tolist()
        pairs = oracles.query_pairs(labels[rows])
        assert oracles.query_pairs(queries.grades[part]) == pairs
        assert queries.n_pairs[q] == len(pairs)
        assert queries.grades[part].max() < queries.n_grades[q]


@pytest.mark.parametrize("labels", [[-1e308, 1e308, 0.0], [1 + 2**-52, 1.0, -30.0], [0.1, 1.1, 31.1]], ids=str)
def test_labels_of_any_size_keep_their_order(labels):
    queries = Queries.from_labels(np.array(labels), None)
    assert oracles.query_pairs(queries.grades) == oracles.query_pairs(labels)
    assert queries.n_pairs.tolist() == [3]


def test_one_and_the_word_one_are_two_queries():
    assert len(Queries.from_labels(np.array([0, 1, 0, 1]), [1, "1", 1, "1"])) == 0
    assert len(Queries.from_labels(np.array([0, 1, 0, 1]), [1, 1, "1", "1"])) == 2


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        ([1, 1], "qid has 2 ids, but there are 3 rows"),
        (np.ones((3, 1)), "one id per row; got an array of shape"),
        ("abc", "one id per row; got str"),
        (7, "one id per row; got int"),
        ([1, None, 1], r"qid\[1\] is None"),
        ([1, 1, float("nan")], r"qid\[2\] is nan"),
        (np.array([1, np.nan, 2]), r"qid\[1\] is nan"),
        ([1, [2], 1], r"qid\[1\] is a list, which cannot be an id"),
    ],
)
def test_what_is_no_query_id_is_refused(qid, message):
    with pytest.raises(InputError, match=message):
        Queries.from_labels(np.array([0, 1, 0]), qid)
