"""Tercet with its core dependencies alone, as after ``pip install .``: help, tutorial and demo work without extras."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import tercet as tc
from support.bundles import posix_only
from support.commands import commands
from support.documents import PROJECT, write_data
from tercet.cli import demo
from tercet.cli.main import cli

pytestmark = [pytest.mark.slow, posix_only]

# One process for many jobs, since to start Python and import Numba takes longer than most of them: words of a command
# line, or the text of a script. A result is the exit code, standard output and standard error.
JOBS = """
import json, sys, traceback
from click.testing import CliRunner
from tercet.cli.main import cli
import click

@click.command()
@click.argument("script")
def script(script):
    exec(script, {"__name__": "__main__"})

def done(job):
    if isinstance(job, str):
        result = CliRunner().invoke(script, [job])
    else:
        result = CliRunner().invoke(cli, job[1:], prog_name="tercet")
    error = "" if result.exit_code in (0, 2) else "".join(traceback.format_exception(*result.exc_info))
    return result.exit_code, result.stdout, result.stderr, error

print(json.dumps([done(job) for job in json.load(sys.stdin)]))
"""
INSTALLED = """
from importlib.util import find_spec
names = ("tercet", "starlette", "fastapi", "pyarrow", "matplotlib", "pandas", "pytest")
print(*(name for name in names if find_spec(name)))
"""


def core_distributions() -> dict[str, Distribution]:
    """Tercet and the packages it needs without extras, directly or not, by name."""
    found = {"tercet": distribution("tercet")}
    waiting = [("tercet", "")]
    while waiting:
        name, extra = waiting.pop()
        for requirement in map(Requirement, found[name].requires or []):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            if requirement.name not in found:
                found[requirement.name] = distribution(requirement.name)
                waiting += [(requirement.name, wanted) for wanted in ("", *requirement.extras)]
    return found


class BareInstall:
    """A virtual environment with links to the core packages of this one, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.work = folder / "venv" / "bin", folder / "work"
        self.work.mkdir()
        venv.create(folder / "venv")
        [site] = (folder / "venv" / "lib").glob("*/site-packages")
        (site / "tercet").symlink_to(Path(tc.__file__).parent)
        for name, package in core_distributions().items():
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if name != "tercet" or top.endswith(".dist-info"):
                    (site / top).symlink_to(Path(str(package.locate_file(top))))
        command = self.bin / "tercet"
        command.write_text(f"#!{self.bin / 'python'} -I\nfrom tercet.cli.main import main\nmain()\n")
        command.chmod(0o755)

    def run(self, *words: str, given: str = "") -> str:
        """Standard output of a process that must succeed."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.work,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def check(self, jobs: list[Any]) -> list[str]:
        """Run jobs one after the other, see `JOBS`: each succeeds, except that serving names the extra it needs."""
        results = json.loads(self.run("python", "-I", "-c", JOBS, given=json.dumps(jobs)))
        for job, (code, output, error, trace) in zip(jobs, results, strict=True):
            if job[:2] == ["tercet", "serve"] and "--help" not in job:
                assert code == 1, output
                [line] = error.splitlines()
                assert line.startswith("error: tercet serve needs ")
                assert line.endswith(f": {self.bin}/pip install 'tercet[serve]'")
            else:
                assert code == 0, f"{job}: {output}{error}{trace}"
        return [output for _, output, _, _ in results]


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
    bare.check(jobs[:n_jobs])


def test_the_demo_shows_a_real_gain_and_ends_with_commands_that_work(bare: BareInstall) -> None:
    output = bare.run("tercet", "demo")
    for heading in ("held-out queries", "Strongest learned pairs", "helped most", "hurt most", "why"):
        assert heading in output
    folder = bare.work / "out" / "demo"
    assert json.loads((folder / "model" / "manifest.json").read_text())["kind"] == "text-model"
    report = tc.load(folder / "model").report
    assert report.accepted
    difference, low, _, _ = report.change
    assert 0 < low < difference, "the gain on untouched queries is within chance"
    # The README says of its first search: the right class is first, for pairs of learned words, and was not before.
    assert f'searching the index: "{demo.QUERY}"' in output
    before = output.partition("before learning: ")[2].partition("\n")[0]
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
