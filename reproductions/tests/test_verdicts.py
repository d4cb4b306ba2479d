"""Ours against printed numbers, targets and orderings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.plan import PaperMeasure, Target
from reproductions.tasks import entries_of_megabytes, megabytes
from reproductions.verdicts import compare, judge_claim, judge_target
from tercet.choose import verdict_of

NUMBERS = st.floats(-1000, 1000, allow_nan=False)


@given(NUMBERS, NUMBERS, st.floats(0, 10), st.booleans(), st.booleans())
def test_exactly_one_verdict_holds(ours, printed, tolerance, higher, relative):
    measure = PaperMeasure("m", higher, tolerance, relative)
    verdict = compare(ours, printed, measure)
    allowed = tolerance * abs(printed) if relative else tolerance
    near = abs(ours - printed) <= allowed
    ahead = ours > printed if higher else ours < printed
    assert verdict.text.startswith("within tolerance" if near else "better" if ahead else "short by ")
    assert verdict.tone == ("good" if near or ahead else "bad")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.floats(0, 1))
def test_a_target_is_held_against_the_worst_seed(values, bound):
    measure = PaperMeasure("m", True, 0.0)
    assert (judge_target(values, Target("d", "m", "map", at_least=bound), measure).text == "met") == (
        min(values) >= bound
    )
    assert (judge_target(values, Target("d", "m", "map", at_most=bound), measure).text == "met") == (
        max(values) <= bound
    )


def test_a_target_may_allow_standard_errors():
    measure = PaperMeasure("MAP", higher_is_better=True, tolerance=0.0)
    near = Target("d", "m", "map", at_least=0.57, errors=1.0)
    assert judge_target([0.52, 0.6], near, measure, error=0.06).text == "met"
    assert judge_target([0.52, 0.6], near, measure, error=0.04).text == "missed by 0.0100"
    assert judge_target([0.25], Target("d", "m", "map", at_most=0.2, errors=2.0), measure, error=0.03).text == "met"


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


@given(st.integers(0, 10**8), st.integers(1, 10**5))
def test_densities_can_be_read_off_memory(entries, n_rows):
    assert entries_of_megabytes(megabytes(entries, n_rows), n_rows) == pytest.approx(entries, abs=0.01)
