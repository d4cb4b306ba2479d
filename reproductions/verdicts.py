"""Our numbers against printed numbers, bounds and orderings: verdicts, their counts, and the format of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from reproductions.plan import PaperMeasure, PaperTable, Plan, Row
from tercet.choose import ThreeWay

Tone = Literal["good", "bad", "plain"]
SIGNIFICANT = 0.05  # upper bound of a corrected p
SHORT_WITHIN_ERROR = "short within the error"
# Kinds of verdicts as pages count them, in this order, and their tones.
KINDS: dict[str, Tone] = {
    "same": "good",
    "better": "good",
    "short": "bad",
    SHORT_WITHIN_ERROR: "plain",
    "differ": "bad",
    "hold": "good",
    "not decided": "plain",
    "opposite": "bad",
    "worse": "bad",
    "not compared": "plain",
    "not run": "plain",
}


@dataclass(frozen=True)
class Verdict:
    """A kind of verdict, and its text if that is not the kind."""

    kind: str
    text: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text or self.kind)

    @property
    def tone(self) -> Tone:
        return KINDS[self.kind]

    def as_record(self) -> dict[str, str]:
        return {"verdict": self.text, "kind": self.kind}


NOT_COMPARED = Verdict("not compared")


def compare(ours: float, printed: float, measure: PaperMeasure, error: float = 0.0) -> Verdict:
    """The same (within the tolerance), better, or short by how much; a difference within the standard error says so.

    Examples
    --------
    >>> measure = PaperMeasure("MAP", higher_is_better=True, tolerance=0.02)
    >>> [compare(ours, 0.4, measure).text for ours in (0.41, 0.45, 0.35)]
    ['same', 'better', 'short by 0.050']
    >>> compare(0.35, 0.4, measure, error=0.06).text
    'short by 0.050, within the standard error'
    """
    gain = (ours - printed) * (1 if measure.higher_is_better else -1)
    if abs(gain) <= measure.tolerance_for(printed):
        return Verdict("same")
    if gain > 0:
        return Verdict("better")
    text = f"short by {shown(-gain, measure)}"
    if -gain <= error:
        return Verdict(SHORT_WITHIN_ERROR, f"{text}, within the standard error")
    return Verdict("short", text)


def judge_pair(outcome: ThreeWay, is_claim: bool = False) -> Verdict:
    """Verdict of a paired test, or of an ordering: it holds if the model that is said to be better is."""
    if outcome == "no difference seen":
        return Verdict("not decided", "" if is_claim else outcome)
    if not is_claim:
        return Verdict(outcome)
    return Verdict("hold", "holds") if outcome == "better" else Verdict("opposite", "the opposite holds")


def outcome_of_p(difference: float, p: float, measure: PaperMeasure) -> ThreeWay:
    """Outcome of a difference with its corrected p.

    Examples
    --------
    >>> error = PaperMeasure("Error", higher_is_better=False, tolerance=0.01)
    >>> [outcome_of_p(-0.1, p, error) for p in (0.01, 0.05)]
    ['better', 'no difference seen']
    """
    if p >= SIGNIFICANT or difference == 0:
        return "no difference seen"
    return "better" if (difference > 0) == measure.higher_is_better else "worse"


def judge_folds(gains: Sequence[float]) -> Verdict:
    """Verdict on a measure without values of queries, from the gain in each fold."""
    n_holding = sum(gain > 0 for gain in gains)
    if n_holding == len(gains):
        return Verdict("hold", "holds in every fold")
    if all(gain < 0 for gain in gains):
        return Verdict("opposite", "the opposite holds in every fold")
    return Verdict("not decided", f"holds in {n_holding} of {len(gains)} folds")


def count_kinds(kinds: Iterable[str]) -> dict[str, int]:
    """Number of verdicts of each kind, in the order of `KINDS`.

    Examples
    --------
    >>> count_kinds(["short", "better", "better", ""])
    {'better': 2, 'short': 1}
    """
    listed = list(kinds)
    return {kind: listed.count(kind) for kind in KINDS if kind in listed}


# -- printed numbers --------------------------------------------------------------------------------------------------


class PrintedNumber(NamedTuple):
    value: float
    plus_minus: float | None = None


def printed_in(table: PaperTable, row: Row, dataset: str, measure: str) -> PrintedNumber | None:
    """Printed number of a row, if the paper has one."""
    name = dataset if len(table.datasets) > 1 else measure
    if name not in row.printed:
        return None
    return PrintedNumber(row.printed[name], row.plus_minus.get(name))


def printed_of(plan: Plan, dataset: str, model: str, measure: str) -> PrintedNumber | None:
    """Printed number of a model in any table of the paper; None if the data are not the paper's.

    Examples
    --------
    >>> from reproductions.plan import find_plan
    >>> printed_of(find_plan("chen2010"), "mnist", "sparse-r", "error").value
    0.075
    """
    if not plan.datasets[dataset].compare:
        return None
    for table in plan.tables:
        for row in table.rows:
            has_it = row.model == model and measure in table.measures and dataset in table.datasets
            if table.kind == "paper" and has_it and row.dataset in ("", dataset):
                printed = printed_in(table, row, dataset, measure)
                if printed is not None:
                    return printed
    return None


# -- numbers ----------------------------------------------------------------------------------------------------------


def shown(value: float, measure: PaperMeasure, digits: int | None = None, like: float | None = None) -> str:
    """Format a number with the decimals of the measure, fewer for large numbers or a large ``like``.

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


def with_plus_minus(value: float, plus_minus: float | None, measure: PaperMeasure) -> str:
    """Format a number and the ±, if any, with the same decimals.

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
