"""Ours against printed numbers, targets and stated orderings, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproductions.choosing import ThreeWay
from reproductions.plan import PaperMeasure
from reproductions.plan_items import Target
from reproductions.table import Tone

NOT_COMPARED = "not compared"
SHORT = "short by"
WITHIN_ERROR = "within the standard error"


@dataclass(frozen=True)
class Verdict:
    text: str
    tone: Tone


TONES: dict[ThreeWay, Tone] = {"better": "good", "no difference seen": "plain", "worse": "bad"}
_CLAIMS: dict[ThreeWay, str] = {
    "better": "holds",
    "no difference seen": "not decided",
    "worse": "the opposite holds",
}
SIGNIFICANT = 0.05  # what a corrected p has to be below


def compare(ours: float, printed: float, measure: PaperMeasure, error: float = 0.0) -> Verdict:
    """Within tolerance, better, or short by how much; a difference within the standard error says so.

    Examples
    --------
    >>> measure = PaperMeasure("MAP", higher_is_better=True, tolerance=0.02)
    >>> [compare(ours, 0.4, measure).text for ours in (0.41, 0.45, 0.35)]
    ['within tolerance', 'better', 'short by 0.050']
    >>> compare(0.35, 0.4, measure, error=0.06).text
    'short by 0.050, within the standard error'
    """
    gain = (ours - printed) * (1 if measure.higher_is_better else -1)
    if abs(gain) <= measure.tolerance_for(printed):
        return Verdict("within tolerance", "good")
    if gain > 0:
        return Verdict("better", "good")
    text = f"{SHORT} {shown(-gain, measure)}"
    return Verdict(f"{text}, {WITHIN_ERROR}", "plain") if -gain <= error else Verdict(text, "bad")


def judge_target(values: Sequence[float], target: Target, measure: PaperMeasure, error: float = 0.0) -> Verdict:
    """Met when the worst seed meets it, or is as near as so many of its standard ``error`` as the target allows."""
    if target.at_least is not None:
        missed = target.at_least - min(values)
    else:
        assert target.at_most is not None
        missed = max(values) - target.at_most
    missed -= target.errors * error
    return Verdict("met", "good") if missed <= 0 else Verdict(f"missed by {shown(missed, measure, 4)}", "bad")


def judge_claim(outcome: ThreeWay) -> Verdict:
    """An ordering holds when what is said to be better is."""
    return Verdict(_CLAIMS[outcome], TONES[outcome])


def verdict_of_p(difference: float, p: float, measure: PaperMeasure) -> ThreeWay:
    """Of a difference with its corrected p.

    Examples
    --------
    >>> error = PaperMeasure("Error", higher_is_better=False, tolerance=0.01)
    >>> [verdict_of_p(-0.1, p, error) for p in (0.01, 0.05)]
    ['better', 'no difference seen']
    """
    if p >= SIGNIFICANT or difference == 0:
        return "no difference seen"
    return "better" if (difference > 0) == measure.higher_is_better else "worse"


def judge_folds(gains: Sequence[float]) -> Verdict:
    """What has no value of each query holds when it does in every fold; gains are of what is said to be better."""
    n_holding = sum(gain > 0 for gain in gains)
    if n_holding == len(gains):
        return Verdict("holds in every fold", "good")
    if all(gain < 0 for gain in gains):
        return Verdict("the opposite holds in every fold", "bad")
    return Verdict(f"holds in {n_holding} of {len(gains)} folds", "plain")


# -- counted ----------------------------------------------------------------------------------------------------------

SHORT_WITHIN_ERROR = "short within the error"
# What a verdict counts as, and how it is coloured; the first whose beginning fits.
_COUNTED: tuple[tuple[str, str, Tone], ...] = (
    ("within tolerance", "within tolerance", "good"),
    ("better", "better", "good"),
    (SHORT, "short", "bad"),
    (WITHIN_ERROR, SHORT_WITHIN_ERROR, "plain"),  # that is how it ends
    ("the same", "the same", "good"),
    ("differs", "differ", "bad"),
    ("holds in every fold", "hold", "good"),
    ("holds in", "not decided", "plain"),
    ("holds", "hold", "good"),
    ("the opposite holds", "opposite", "bad"),
    ("not decided", "not decided", "plain"),
    ("one seed", "not decided", "plain"),
    ("falls short", "fall short", "bad"),  # how often a model is the best
    ("met", "met", "good"),
    ("missed by", "missed", "bad"),
    (NOT_COMPARED, NOT_COMPARED, "plain"),
    ("not run", "not run", "plain"),
)
COUNT_TONES: dict[str, Tone] = {name: tone for _, name, tone in _COUNTED}


def count_verdicts(texts: Iterable[str]) -> dict[str, int]:
    """How many verdicts of each kind there are; the order is that of `COUNT_TONES`.

    Examples
    --------
    >>> count_verdicts(["short by 0.05", "better", "better", "short by 0.1, within the standard error", ""])
    {'better': 2, 'short': 1, 'short within the error': 1}
    """
    names = []
    for text in texts:
        name = next((name for beginning, name, _ in _COUNTED if text.startswith(beginning)), "")
        names.append(SHORT_WITHIN_ERROR if name == "short" and text.endswith(WITHIN_ERROR) else name)
    return {name: names.count(name) for name in COUNT_TONES if name in names}


# -- numbers ----------------------------------------------------------------------------------------------------------


def shown(value: float, measure: PaperMeasure, digits: int | None = None, like: float | None = None) -> str:
    """A number with the decimals of its measure, fewer for large ones (or for one ``like`` a large one).

    Examples
    --------
    >>> memory = PaperMeasure("Memory", higher_is_better=False, tolerance=0.1, unit="MB")
    >>> shown(1294, memory), shown(4.301, memory), shown(2.0137, memory, like=1294)
    ('1,294.0', '4.301', '2.0')
    """
    factor = 100 if measure.unit == "%" else 1
    size = factor * abs(value if like is None else like)
    decimals = measure.digits if digits is None else digits
    while decimals > 1 and size >= 10 ** (measure.digits + 1 - decimals):
        decimals -= 1
    return f"{factor * value:,.{decimals}f}" + (" %" if measure.unit == "%" else "")


def signed(value: float, measure: PaperMeasure, digits: int | None = None, like: float | None = None) -> str:
    return ("+" if value >= 0 else "−") + shown(abs(value), measure, digits, like)


def mean_and_half_range(values: Sequence[float], measure: PaperMeasure) -> str:
    """The mean over seeds and half their range; one seed has no range."""
    half = (max(values) - min(values)) / 2 if len(values) > 1 else None
    return with_plus_minus(float(np.mean(values)), half, measure)


def shown_ours(record: Mapping[str, Any], measure: PaperMeasure) -> str:
    """Our number of a table's record, with what stands behind the ± of its measure; one seed has no range."""
    half = record["half_range"] if record["seeds"] > 1 else None
    error = record["standard_error"] if measure.spread == "standard error" else None
    return with_plus_minus(record["ours"], half if error is None else error, measure)


def with_plus_minus(value: float, plus_minus: float | None, measure: PaperMeasure) -> str:
    """A number and its ±, where it has one, with the same decimals.

    Examples
    --------
    >>> with_plus_minus(0.517, 0.009, PaperMeasure("MAP", higher_is_better=True, tolerance=0.02))
    '0.517 ± 0.009'
    """
    if plus_minus is None:
        return shown(value, measure)
    return f"{shown(value, measure).removesuffix(' %')} ± {shown(plus_minus, measure, like=value)}"


def short(value: Any) -> str:
    """A parameter's value with four digits.

    Examples
    --------
    >>> short(0.000123456), short(12), short("sum")
    ('0.0001235', '12', 'sum')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)
