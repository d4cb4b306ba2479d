"""Names that are documented stay: one changes on purpose, by the rules of CONTRIBUTING.md, or not at all."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

import tercet
from support.public_api import LIST, changes, public_api

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def now():
    return json.loads(json.dumps(public_api()))


def test_no_documented_name_is_gone_or_takes_other_parameters(now):
    problems = changes(json.loads(LIST.read_text()), now)
    assert not problems, "\n".join([*problems, "CONTRIBUTING.md, Names that people use, says how names change"])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda api: api["names"].pop("tercet.fit"), "tercet.fit is gone"),
        (lambda api: api["names"]["tercet.fit"].remove("*measure"), "tercet.fit takes"),
        (lambda api: api["names"]["tercet.fit"].insert(0, "first"), "tercet.fit takes"),
        (lambda api: api["names"]["tercet.Index"].pop("search"), "tercet.Index.search is gone"),
        (lambda api: api["names"]["tercet.Index"]["search"].remove("k"), "tercet.Index.search takes"),
        (lambda api: api["verbs"].pop("tercet export ltr"), "tercet export ltr is gone"),
        (lambda api: api["verbs"]["tercet fit"].remove("--ranker"), "tercet fit has no --ranker any more"),
    ],
)
def test_a_change_is_noticed(now, change, problem):
    after = copy.deepcopy(now)
    change(after)
    [found] = changes(now, after)
    assert found.startswith(problem)


def test_what_is_new_is_no_change(now):
    after = copy.deepcopy(now)
    after["names"]["tercet.new"] = []
    after["names"]["tercet.fit"].append("*more")
    after["names"]["tercet.Index"]["search"].append("last")
    after["verbs"]["tercet fit"].append("--more")
    assert not changes(now, after)


def test_the_version_is_the_same_everywhere():
    citation = re.search(r"^version: (\S+)$", (PROJECT / "CITATION.cff").read_text(), re.M)
    heading = re.search(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text(), re.M)
    assert citation is not None
    assert heading is not None
    assert citation[1] == heading[1] == tercet.__version__
