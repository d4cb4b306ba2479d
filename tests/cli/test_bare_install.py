"""Tercet with its core dependencies alone, as after ``pip install .``: help, tutorial and demo work without extras."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

import tercet as tc
from support.bare_install import BareInstall
from support.bundles import posix_only
from support.commands import commands
from support.documents import PROJECT, write_data
from tercet.cli import demo
from tercet.cli.main import cli

pytestmark = [pytest.mark.slow, posix_only]

INSTALLED = """
from importlib.util import find_spec
names = ("tercet", "starlette", "fastapi", "pyarrow", "matplotlib", "pandas", "pytest")
print(*(name for name in names if find_spec(name)))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareInstall:
    made = BareInstall(tmp_path_factory.mktemp("bare"))
    assert made.run("python", "-I", "-c", INSTALLED).split() == ["tercet"]
    return made


def test_every_help_works(bare: BareInstall) -> None:
    paths = list(commands(cli))
    assert {(), ("index",), ("serve",), ("letor",), ("letor", "fit")} <= set(paths)
    for path, output in zip(paths, bare.check([["tercet", *path, "--help"] for path in paths]), strict=True):
        assert output.startswith(" ".join(("Usage: tercet", *path)))


def test_the_tutorial_works_up_to_serve(bare: BareInstall) -> None:
    write_data(bare.work)
    tutorial = (PROJECT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    found = re.findall(r"(?ms)^    (tercet [^\n]+)$|^```python\n(.+?)^```$", tutorial)
    jobs: list[Any] = [script or shlex.split(command, comments=True) for command, script in found]
    verbs = ["" if isinstance(job, str) else job[1] for job in jobs]
    n_jobs = verbs.index("serve") + 1
    assert {"fit", "index", "search"} <= set(verbs[:n_jobs])
    up = next(job for job in jobs if job[1] == "up")
    up += ["--yes", "--no-serve"]  # nobody answers, and the service is not installed
    bare.check(jobs[:n_jobs])


def test_the_demo_shows_a_real_gain_and_ends_with_commands_that_work(bare: BareInstall) -> None:
    output = bare.run("tercet", "demo")
    for heading in ("Verdict: better", "Strongest learned pairs"):
        assert heading in output
    low, high = map(float, re.search(r"^difference \S+ \[(\S+), (\S+)\]", output, re.M).groups())
    assert 0 < low < high, "the gain on other queries is within chance"
    folder = bare.work / "out" / "demo"
    assert json.loads((folder / "model" / "manifest.json").read_text())["kind"] == "text-model"
    assert tc.load(folder / "model").report.accepted
    # The README says of its first search: the right class is first, for pairs of learned words, and was not before.
    assert f'Searching the index: "{demo.QUERY}"' in output
    before = output.partition("    BM25: ")[2].partition("\n")[0]
    answer = "sklearn.linear_model.LogisticRegression"
    assert before
    assert not before.startswith(f"1. {answer} ")
    first = tc.Index.open(folder / "index").search(demo.QUERY, k=3)[0]
    assert first.doc_id == answer
    assert any(query_word != doc_word for query_word, doc_word, _ in first.why.pairs[:6])
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    assert f'tercet search out/demo/index "{demo.QUERY}" --why -k 1' in readme
    printed = [line.strip() for line in output.partition("Now ask:")[2].splitlines() if line.startswith("    ")]
    assert f"{bare.bin}/pip install 'tercet[serve]'" in printed
    jobs = [shlex.split(line) for line in printed if not line.startswith(f"{bare.bin}/pip")]
    assert {words[0] for words in jobs} == {f"{bare.bin}/tercet"}
    assert {"search", "explain", "serve"} == {words[1] for words in jobs}
    bare.check([["tercet", *words[1:]] for words in jobs])
