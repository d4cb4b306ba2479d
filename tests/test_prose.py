"""Docstrings name their nouns: pronouns and vague openings, by package, may only become fewer."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

prose = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "prose_check.py"))
PACKAGES = prose["packages"]()

# Pronouns per 1,000 words and vague openings of packages above 30 and 0. Lower a limit when a package improves.
LIMITS: dict[str, tuple[float, int]] = {
    "data": (33, 2),
    "gpu": (98, 11),
    "reproductions": (70, 21),
    "scale": (98, 21),
}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_docstrings_are_plain(package):
    most_pronouns, most_openings = LIMITS.get(package, (prose["MOST_PER_THOUSAND"], 0))
    vague = [text.location for text in PACKAGES[package] if text.opens_vaguely]
    assert prose["per_thousand"](PACKAGES[package]) <= most_pronouns
    assert len(vague) <= most_openings, vague


def test_limits_name_packages():
    assert set(LIMITS) <= set(PACKAGES)


def test_pronouns_and_openings_are_counted():
    text = prose["Docstring"]("a.py:1", "What it is.\n\n>>> those\n\nReturn `which` one.")
    assert (text.pronouns, text.opens_vaguely) == (3, True)
