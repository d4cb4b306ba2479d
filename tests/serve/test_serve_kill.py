"""Killed at any moment, the service keeps what it acknowledged. benchmarks/serve_kill.py does this 100 times."""

from __future__ import annotations

import sys

import pytest

from support.killing import kill_again_and_again


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9 and no fork")
def test_what_was_acknowledged_survives_kills(tmp_path):
    tally = kill_again_and_again(tmp_path, 10)
    assert tally.problems == []
    assert tally.restarts == 10
    assert tally.acknowledged > 10
    assert tally.actions >= tally.acknowledged
    assert min(tally.lists, tally.documents, len(tally.models)) > 0
