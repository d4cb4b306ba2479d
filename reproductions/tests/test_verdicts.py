"""Ours against printed numbers and orderings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.plan import PaperMeasure
from reproductions.verdicts import compare, judge_claim
from tercet.choose import verdict_of

NUMBERS = st.floats(-1000, 1000, allow_nan=False)


@given(NUMBERS, NUMBERS, st.floats(0, 10), st.booleans(), st.booleans())
def test_exactly_one_verdict_holds(ours, printed, tolerance, higher, relative):
    measure = PaperMeasure("m", higher, tolerance, relative)
    verdict = compare(ours, printed, measure)
    allowed = tolerance * abs(printed) if relative else tolerance
    near = abs(ours - printed) <= allowed
    ahead = ours > printed if higher else ours < printed
    assert verdict.text.startswith("same" if near else "better" if ahead else "short by ")
    assert verdict.tone == ("good" if near or ahead else "bad")


@pytest.mark.parametrize(
    ("low", "high", "higher", "text"),
    [
        (0.1, 0.2, True, "holds"),
        (0.1, 0.2, False, "the opposite holds"),
        (-0.2, -0.1, False, "holds"),
        (-0.1, 0.1, True, "not decided"),
        (0.0, 0.0, True, "not decided"),
    ],
)
def test_an_ordering_needs_its_whole_interval(low, high, higher, text):
    assert judge_claim(verdict_of(low, high, higher_is_better=higher)).text == text
