"""Paired tests against scipy's, their corner cases, and Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from tercet.errors import InputError
from tercet.measure import Evaluation, Measure, PairedTest, holm, paired_test

METHODS = ["t", "wilcoxon", "permutation"]


def two_systems(n_queries=40, gain=0.05, seed=0):
    random = np.random.default_rng(seed)
    b = random.random(n_queries)
    return b + random.normal(gain, 0.1, n_queries), b


def as_evaluation(values, qids=None, measure="AP"):
    qids = tuple(map(str, range(len(values)))) if qids is None else tuple(qids)
    return Evaluation((Measure(measure),), qids, np.asarray(values, float)[:, None])


def test_t_is_the_t_test():
    a, b = two_systems()
    got, want = paired_test(a, b), stats.ttest_rel(a, b)
    assert got.p_value == pytest.approx(want.pvalue, rel=1e-9)
    assert (got.low, got.high) == pytest.approx(tuple(want.confidence_interval(0.95)), rel=1e-9)
    assert got.difference == pytest.approx((a - b).mean())
    assert (got.n, got.method) == (40, "t")


def test_wilcoxon_is_scipys():
    a, b = two_systems()
    b[:5] = a[:5]
    assert paired_test(a, b, "wilcoxon").p_value == pytest.approx(stats.wilcoxon(a[5:], b[5:]).pvalue)


def test_permutation_is_near_the_exact_one():
    a, b = two_systems(n_queries=10)
    exact = stats.permutation_test((a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf)
    got = paired_test(a, b, "permutation", n=40_000)
    assert got.p_value == pytest.approx(exact.pvalue, abs=5 * np.sqrt(0.25 / 40_000))
    assert 0.001 < exact.pvalue < 0.9  # or the comparison says nothing


def test_permutation_counts_equally_extreme_signs():
    # The sum is 0 but for the last bit of 0.1 + 0.2, so every pattern of signs is at least as extreme.
    got = paired_test([0.1, 0.2, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0], "permutation", n=2000)
    assert got.p_value == 1.0


def test_batches_only_save_memory(monkeypatch):
    a, b = two_systems()
    whole = paired_test(a, b, "permutation", n=1000)
    monkeypatch.setattr("tercet.measure.significance._NUMBERS_AT_ONCE", 40 * 300)
    parts = paired_test(a, b, "permutation", n=1000)
    assert parts.p_value == pytest.approx(whole.p_value, abs=0.05)


@given(
    hnp.arrays(np.float64, st.integers(2, 30), elements=st.integers(-4, 4).map(lambda x: x / 4)),
    st.sampled_from(METHODS),
)
@settings(deadline=None, max_examples=50)
def test_what_holds_for_every_test(differences, method):
    zeros = np.zeros_like(differences)
    forward = paired_test(differences, zeros, method, n=200)
    assert 0 <= forward.p_value <= 1
    assert forward.low <= forward.difference + 1e-12
    assert forward.difference <= forward.high + 1e-12
    assert forward == paired_test(differences, zeros, method, n=200)  # same seed, same bits
    if method in ("t", "wilcoxon"):
        backward = paired_test(zeros, differences, method)
        assert backward.p_value == pytest.approx(forward.p_value)
        assert (backward.low, backward.high) == pytest.approx((-forward.high, -forward.low))


@pytest.mark.parametrize("method", METHODS)
def test_no_difference_at_all(method):
    assert paired_test([0.3, 0.5], [0.3, 0.5], method) == PairedTest(0.0, 0.0, 0.0, 1.0, 2, method)


@pytest.mark.parametrize("method", METHODS)
def test_rounding_is_no_difference(method):
    assert paired_test([0.1 + 0.2] * 6, [0.3] * 6, method) == PairedTest(0.0, 0.0, 0.0, 1.0, 6, method)
    some = paired_test([0.1 + 0.2] * 6 + [0.5], [0.3] * 6 + [0.25], "wilcoxon")
    assert (some.difference, some.p_value) == (0.25 / 7, 1.0)  # one query says nothing
    assert paired_test([1e-15, 2e-15, 3e-15], [0.0, 0.0, 0.0], method).difference > 0  # small, and no rounding


def test_the_same_difference_everywhere():
    constant = paired_test([0.5, 0.75, 1.0], [0.25, 0.5, 0.75])
    assert (constant.difference, constant.low, constant.high, constant.p_value) == (0.25, 0.25, 0.25, 0.0)
    nearly = paired_test([0.1 + 0.2, 0.3, 0.3], [0.0, 0.0, 0.0])
    assert nearly.p_value < 1e-20


def test_random_state_is_used():
    a, b = two_systems(gain=0.01)
    first, second, again = (paired_test(a, b, "permutation", n=500, random_state=seed) for seed in (1, 2, 1))
    assert first != second
    assert first == again


def test_evaluations_are_matched_by_query():
    a, b = two_systems(5)
    forward = paired_test(as_evaluation(a, "abcde"), as_evaluation(b[::-1], "edcba"))
    assert forward == paired_test(a, b)


def test_evaluations_with_several_measures_need_a_choice():
    both = Evaluation((Measure("AP"), Measure("RR")), ("1", "2"), np.array([[0.1, 0.5], [0.4, 0.25]]))
    with pytest.raises(InputError, match="share AP, RR"):
        paired_test(both, both)
    with pytest.raises(InputError, match="share none"):
        paired_test(both, as_evaluation([0.1, 0.2], ["1", "2"], "nDCG"))
    other = as_evaluation([0.5, 0.75], ["1", "2"], "RR")
    assert paired_test(both, other) == paired_test([0.5, 0.25], [0.5, 0.75])
    assert paired_test(other, both, measure="MRR").difference == 0.25


@pytest.mark.parametrize(
    ("first", "second", "complaint"),
    [
        ("abc", "abd", "Query 'c' is in one evaluation only"),
        ("ab", "abz", "Query 'z' is in one evaluation only"),
    ],
)
def test_different_queries_name_the_first(first, second, complaint):
    with pytest.raises(InputError, match=complaint):
        paired_test(as_evaluation(np.zeros(len(first)), first), as_evaluation(np.zeros(len(second)), second))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([0.1, 0.2], [0.1, 0.2], "sign"), "'method' must be one of 't', 'wilcoxon'"),
        (([0.1, 0.2], [0.1, 0.2], "t", 0), "'n', the number of permutations"),
        (([0.1, 0.2], [0.1, 0.2, 0.3]), r"Got shapes \(2,\) and \(3,\)"),
        (([0.1], [0.2]), "at least two queries"),
        (([0.1, float("nan")], [0.1, 0.2]), "Value 1 of the first system is nan"),
        (([0.1, 0.2], [float("inf"), 0.2]), "Value 0 of the second system is inf"),
        ((as_evaluation([0.1, 0.2]), [0.1, 0.2]), "not one of each"),
    ],
)
def test_wrong_input_says_what(arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        paired_test(*arguments)


def test_a_measure_of_arrays_is_refused():
    with pytest.raises(InputError, match="arrays have none"):
        paired_test([0.1, 0.2], [0.1, 0.3], measure="AP")


def test_a_test_prints_itself():
    text = str(PairedTest(0.0123, -0.001, 0.0256, 0.0312, 323, "t"))
    assert text == "+0.0123 (95% interval -0.0010 to +0.0256), p = 0.0312, 323 queries, t test"


def test_holm_known_answer():
    # Sorted: 0.005 × 4, 0.01 × 3, 0.03 × 2, 0.04 × 1, never falling.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), max_size=20))
@settings(deadline=None, max_examples=50)
def test_holm_never_lowers_and_keeps_order(p_values):
    p, adjusted = np.array(p_values), holm(p_values)
    assert np.all((adjusted >= p) & (adjusted <= 1))
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(adjusted[order]) >= 0)
    assert np.all(adjusted <= np.minimum(p * max(len(p), 1), 1) + 1e-15)  # no stricter than Bonferroni


@pytest.mark.parametrize("p_values", [[0.1, -0.1], [0.1, 1.5], [0.1, float("nan")], [[0.1], [0.2]]])
def test_holm_refuses_what_is_no_p_value(p_values):
    with pytest.raises(InputError, match="P-values must be"):
        holm(p_values)
