"""The one choice between settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.choose import Gain, Trial, choose, settings_of, standard_error
from tercet.errors import InputError

numbers = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 1))  # rounded, so that there are ties


def trials_of(table, sizes) -> list[Trial]:
    return [Trial({"number": i}, np.array(row), size) for i, (row, size) in enumerate(zip(table, sizes, strict=True))]


tables = st.integers(1, 5).flatmap(
    lambda n: st.lists(
        st.tuples(st.lists(numbers, min_size=n, max_size=n), st.sampled_from([0, 1, 2, np.inf])), min_size=1, max_size=6
    )
)


@given(tables, st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_best_is_the_smaller_then_the_earlier_of_equals(listed, higher):
    trials = trials_of(*zip(*listed, strict=True))
    sign = 1 if higher else -1
    best = max(sign * trial.mean for trial in trials)
    expected = min((t.size, i) for i, t in enumerate(trials) if sign * t.mean == best)[1]
    assert choose(trials, higher_is_better=higher) == expected


@given(tables.filter(lambda listed: len(listed[0][0]) > 1), st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_sparsest_is_within_a_standard_error_of_the_best(listed, higher):
    trials = trials_of(*zip(*listed, strict=True))
    sign = 1 if higher else -1
    best = trials[choose(trials, higher_is_better=higher)]
    taken = trials[choose(trials, "sparsest", higher_is_better=higher)]
    assert taken.size <= best.size
    error = standard_error(best.values - taken.values)
    assert sign * taken.mean >= sign * best.mean - error


def test_what_cannot_be_chosen_says_so():
    with pytest.raises(InputError, match="two or more queries"):
        choose(trials_of([[1.0]], [1]), "sparsest")
    with pytest.raises(InputError, match="'best' or 'sparsest'"):
        choose(trials_of([[1.0]], [1]), "cheapest")
    with pytest.raises(InputError, match="no trials to choose from"):
        choose([])


def test_a_grid_is_listed_in_its_order():
    settings = settings_of({"a": (1, 2), "b": (3, 4)})
    assert [tuple(setting.values()) for setting in settings] == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_gain_is_clear_above_one_standard_error():
    before = np.array([0.2, 0.2, 0.2, 0.2])
    assert Gain.between(before, before + np.array([0.1, 0.2, 0.1, 0.2])).is_clear
    assert not Gain.between(before, before + np.array([0.5, -0.4, 0.2, -0.2])).is_clear
    assert Gain.between(before, before - np.array([0.1, 0.2, 0.1, 0.2]), higher_is_better=False).is_clear
    assert not Gain.between(before, before).is_clear
    assert not Gain.between([0.1], [0.9]).is_clear  # one query has no error to compare with


def test_the_standard_error_of_a_mean():
    values = np.array([1.0, 2.0, 4.0])
    assert standard_error(values) == pytest.approx(np.sqrt(((values - values.mean()) ** 2).sum() / 2 / 3))
    assert np.isnan(standard_error([1.0]))
