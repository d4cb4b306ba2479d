"""What is acknowledged survives a power cut; `python -m support.power_cuts` tries more moments."""

from __future__ import annotations

import shutil

import pytest

from support.power_cuts import TAUGHT, WORKS, run, wrong_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("strace") is None, reason="power cuts are made from what strace sees"),
]


@pytest.mark.parametrize("name", WORKS)
def test_no_power_cut_loses_what_was_acknowledged(name):
    program, wrong = WORKS[name]
    n_points, n_states, problems = run(program, wrong, 12, 0)
    assert problems == []
    assert n_states > n_points


def test_a_store_that_does_not_sync_is_found_out():
    careless = TAUGHT.replace(
        ") as store:", ") as store:\n        store._connection.execute('PRAGMA synchronous = OFF')"
    )
    assert careless != TAUGHT
    _, _, problems = run(careless, wrong_store, 40, 0)
    assert any("acknowledged, there are" in problem for problem in problems)
