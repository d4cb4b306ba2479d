"""The numbers of a report, each computed again in the plainest way."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from tercet.fitting import outcome
from tercet.measure import Evaluation
from tercet.measure.names import parse_measure


def evaluation(values: list[float], measure: str = "AP") -> Evaluation:
    qids = tuple(f"q{i}" for i in range(len(values)))
    return Evaluation((parse_measure(measure),), qids, np.array(values)[:, None])


def test_p_values_are_those_of_paired_tests_corrected_after_holm(rng):
    final = rng.random(12)
    others = {"C": final - rng.normal(0.10, 0.1, 12), "A": final - rng.normal(0.06, 0.1, 12), "B": rng.random(12)}
    found = outcome._comparisons(
        evaluation(list(final)), {name: evaluation(list(v)) for name, v in others.items()}, "AP"
    )
    p = {name: stats.ttest_rel(final, values).pvalue for name, values in others.items()}
    first, second, third = sorted(p, key=lambda name: p[name])
    corrected = {first: 3 * p[first]}
    corrected[second] = max(corrected[first], 2 * p[second])
    corrected[third] = max(corrected[second], p[third])
    assert [c.other for c in found] == list(others)
    for comparison in found:
        paired = stats.ttest_rel(final, others[comparison.other])
        interval = paired.confidence_interval()
        assert comparison.p_value == pytest.approx(paired.pvalue)
        assert comparison.p_corrected == pytest.approx(min(1.0, corrected[comparison.other]))
        assert (comparison.low, comparison.high) == pytest.approx((interval.low, interval.high))
        assert comparison.difference == pytest.approx((final - others[comparison.other]).mean())
    assert corrected[first] > p[first] * 2.5  # or the correction could be left out unseen


@pytest.mark.parametrize(("measure", "sign"), [("AP", 1), ("RankLoss", -1)])
def test_wins_and_losses_are_counted_and_the_largest_come_first(measure, sign):
    gains = [0.0, 0.2, -0.3, 1e-12, 0.4, -0.1, -1e-12, 0.1]
    before = np.full(len(gains), 0.5)
    after = before + sign * np.array(gains)
    space = SimpleNamespace(name="BM25")
    texts = {f"q{i}": f"text {i}" for i in range(len(gains))}
    found = outcome._by_query(
        space, evaluation(list(after), measure), evaluation(list(before), measure), measure, texts
    )
    assert (found.n_better, found.n_same, found.n_worse) == (3, 3, 2)
    assert [change.qid for change in found.gains] == ["q4", "q1", "q7"]
    assert [change.qid for change in found.losses] == ["q2", "q5"]
    assert found.gains[0].text == "text 4"
    assert (found.gains[0].before, found.gains[0].after) == pytest.approx((0.5, 0.5 + sign * 0.4))
    # Model less start, as it was measured; the best first, which is the lowest where lower is better.
    assert found.differences == pytest.approx([sign * g for g in sorted(gains, reverse=True)], abs=1e-6)
