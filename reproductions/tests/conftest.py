"""Hypothesis profiles, the same as in tests/conftest.py, and data sets that several files use."""

from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import settings
from reproducing import run_whole

from reproductions.plan import Plan
from reproductions.plan_reading import find_plan
from support.linked_corpus import write_linked_corpus

settings.register_profile("tercet", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("tercet"), max_examples=10)  # of `make check`
settings.load_profile("tercet")


@pytest.fixture(scope="session")
def linked_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Wikispeedia and a small Kyoto."""
    return write_linked_corpus(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def whole(request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Output folder and output of a whole run of the module's plan on the module's data."""
    return run_whole(request.module.PLAN_FILE, home, tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def paper(request: pytest.FixtureRequest) -> Plan:
    """Plan of the paper that the module types a second time."""
    return find_plan(request.module.PAPER)
