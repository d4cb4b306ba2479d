"""Disagreement error and concordance index, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracles import concordance_index, disagreement_error
from tercet.errors import InputError
from tercet.measure import compare_orders, paired_test

rows = st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 2), st.integers(0, 3)), min_size=2, max_size=40)


@settings(max_examples=50)
@given(rows)
def test_it_is_the_papers_equation_query_by_query(given_rows):
    scores, y, qid = (np.array(column) for column in zip(*given_rows, strict=True))
    known = [q for q in dict.fromkeys(qid.tolist()) if (qid == q).sum() > 1]
    if not known:
        with pytest.raises(InputError, match="no query has two rows"):
            compare_orders(scores, y, qid)
        return
    found = compare_orders(scores / 4, y, qid)
    assert found.qids == tuple(str(q) for q in known)
    errors = [disagreement_error(scores[qid == q], y[qid == q]) for q in known]
    np.testing.assert_allclose(found.disagreement, errors, atol=1e-12)
    np.testing.assert_allclose(found.concordance, [concordance_index(scores[qid == q], y[qid == q]) for q in known])
    assert found.disagreement.mean() == pytest.approx(np.mean(errors))


def test_many_rows_agree_with_kendall():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(0, 50, 3000), rng.normal(size=3000).round(2)
    found = compare_orders(scores, y)
    n_pairs, opposite, tied_y, tied_f, both = found.counts[0]
    right = n_pairs - tied_y - tied_f + both - opposite
    tau = (right - opposite) / np.sqrt(float(n_pairs - tied_y) * float(n_pairs - tied_f))
    assert tau == pytest.approx(stats.kendalltau(y, scores).statistic)


def test_what_ties_count():
    assert compare_orders([1, 1], [0, 1]).disagreement[0] == 0.5
    assert compare_orders([0, 1], [1, 1]).disagreement[0] == 0.5
    assert compare_orders([2, 2], [1, 1]).disagreement[0] == 0.0
    assert compare_orders([1, 0], [0, 1]).disagreement[0] == 1.0
    assert np.isnan(compare_orders([1, 0], [1, 1]).concordance[0])
    concordance = compare_orders([1, 0, 0, 1], [1, 1, 0, 1], ["a", "a", "b", "b"]).concordance
    np.testing.assert_array_equal(concordance, [np.nan, 1.0])


def test_methods_are_compared_by_wilcoxon():
    rng = np.random.default_rng(1)
    y, qid = rng.normal(size=300), np.arange(300) // 10
    good, bad = (compare_orders(y + noise * rng.normal(size=300), y, qid) for noise in (0.3, 2.0))
    test = paired_test(good.disagreement, bad.disagreement, "wilcoxon")
    assert test.difference == pytest.approx(good.disagreement.mean() - bad.disagreement.mean())
    assert test.p_value < 0.05
    assert test.n == 30


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, np.nan], [0, 1]), "score of row 1 is NaN"),
        (([0.1, 0.2], [0, np.inf]), "grade of row 1 is inf"),
        (([0.1, 0.2], [0, 1, 2]), "Grades must be real numbers"),
        (([0.1, 0.2], [0, 1], [1]), "Query ids must be"),
        (([], []), "no rows"),
        (([0.1, 0.2], [0, 1], [1, 2]), "no query has two rows or more"),
    ],
)
def test_wrong_rows_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        compare_orders(*arguments)
