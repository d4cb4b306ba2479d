"""What `make check` promises of properties: ten examples of each, whatever number of their own they have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

TRIED: list[int] = []


@settings(max_examples=40)
@given(st.integers())
def test_a_property_with_a_number_of_its_own(n):
    TRIED.append(n)


def test_the_quick_profile_has_the_last_word(request):
    TRIED.clear()
    test_a_property_with_a_number_of_its_own()
    is_quick = request.config.getoption("--hypothesis-profile") == "quick"
    assert len(TRIED) == (10 if is_quick else 40)
