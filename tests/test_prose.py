"""Docstrings name their nouns: pronouns and vague openings, by package."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

prose = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "prose_check.py"))
PACKAGES = prose["packages"]()


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_docstrings_are_plain(package):
    assert prose["per_thousand"](PACKAGES[package]) <= prose["MOST_PER_THOUSAND"]
    assert [text.location for text in PACKAGES[package] if text.opens_vaguely] == []


def test_pronouns_and_openings_are_counted():
    text = prose["Docstring"]("a.py:1", "What it is.\n\n>>> those\n\nReturn `which` one.")
    assert (text.pronouns, text.opens_vaguely) == (3, True)
