"""Ours against printed numbers, targets and stated orderings, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tercet.measure import PairedTest, paired_test
from tercet.repro.plan import Claim
from tercet.repro.runner import Results
from tercet.repro.values import Bounded, Measure

Tone = Literal["good", "bad", "plain"]


@dataclass(frozen=True)
class Verdict:
    text: str
    tone: Tone


def compare(ours: float, printed: float, measure: Measure) -> Verdict:
    """Within tolerance, better, or short by how much.

    Examples
    --------
    >>> measure = Measure("MAP", higher_is_better=True, tolerance=0.02)
    >>> [compare(ours, 0.4, measure).text for ours in (0.41, 0.45, 0.35)]
    ['within tolerance', 'better', 'short by 0.050']
    """
    gain = (ours - printed) * (1 if measure.higher_is_better else -1)
    if abs(gain) <= measure.tolerance_for(printed):
        return Verdict("within tolerance", "good")
    if gain > 0:
        return Verdict("better", "good")
    return Verdict(f"short by {shown(-gain, measure)}", "bad")


def judge_target(values: Sequence[float], target: Bounded, measure: Measure) -> Verdict:
    """Met when the worst seed meets it."""
    if target.at_least is not None:
        missed = target.at_least - min(values)
    else:
        assert target.at_most is not None
        missed = max(values) - target.at_most
    return Verdict("met", "good") if missed <= 0 else Verdict(f"missed by {shown(missed, measure, 4)}", "bad")


def claim_test(results: Results, claim: Claim, dataset: str, name: str) -> PairedTest | None:
    """Better minus worse, by query; by seed for sizes. None where there is only one."""
    models = claim.better, claim.worse
    seeds = min(len(results.cells(dataset, model)) for model in models)  # a budget may have left some out
    if name in ("map", "p10"):
        a, b = (results.by_query(dataset, model, name, seeds) for model in models)
    elif name == "error":
        (a, of), (b, _) = (results.wrong_by_query(dataset, model, seeds) for model in models)
        a, b = (wrong * of.size / of.sum() for wrong in (a, b))  # whose means are the errors
    else:
        a, b = (np.array(results.values(dataset, model, name)[:seeds]) for model in models)
    return paired_test(a, b) if len(a) > 1 else None


def judge_claim(test: PairedTest, measure: Measure) -> Verdict:
    """It holds when the whole interval is on its side."""
    low, high = (test.low, test.high) if measure.higher_is_better else (-test.high, -test.low)
    if low > 0:
        return Verdict("holds", "good")
    return Verdict("the opposite holds", "bad") if high < 0 else Verdict("not decided", "plain")


def shown(value: float, measure: Measure, digits: int | None = None, like: float | None = None) -> str:
    """A number with the decimals of its measure, fewer for large ones (or for one ``like`` a large one).

    Examples
    --------
    >>> memory = Measure("Memory", higher_is_better=False, tolerance=0.1, unit="MB")
    >>> shown(1294, memory), shown(4.301, memory), shown(2.0137, memory, like=1294)
    ('1,294.0', '4.301', '2.0')
    """
    factor = 100 if measure.unit == "%" else 1
    size = factor * abs(value if like is None else like)
    decimals = measure.digits if digits is None else digits
    while decimals > 1 and size >= 10 ** (measure.digits + 1 - decimals):
        decimals -= 1
    return f"{factor * value:,.{decimals}f}" + (" %" if measure.unit == "%" else "")


def standard_error(results: Results, dataset: str, model: str, name: str) -> float | None:
    """Over queries, seeds taken together; None for other measures."""
    if name in ("map", "p10"):
        values = results.by_query(dataset, model, name)
    elif name == "error":
        wrong, of = results.wrong_by_query(dataset, model)
        values = (wrong - of * wrong.sum() / of.sum()) * of.size / of.sum()  # of a ratio of two sums
    else:
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def mean_and_half_range(values: Sequence[float], measure: Measure) -> str:
    """The mean over seeds and half their range; one seed has no range."""
    mean = float(np.mean(values))
    if len(values) == 1:
        return shown(mean, measure)
    half = shown((max(values) - min(values)) / 2, measure, like=mean)
    return f"{shown(mean, measure).removesuffix(' %')} ± {half}"
