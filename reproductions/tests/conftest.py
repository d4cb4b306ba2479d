"""Hypothesis profiles, the same as in tests/conftest.py, and data sets that several files use."""

from pathlib import Path

import pytest
from hypothesis import settings

from support.linked_corpus import write_linked_corpus

settings.register_profile("tercet", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("tercet"), max_examples=10)  # of `make check`
settings.load_profile("tercet")


@pytest.fixture(scope="session")
def linked_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Wikispeedia and a small Kyoto."""
    return write_linked_corpus(tmp_path_factory.mktemp("home"))
