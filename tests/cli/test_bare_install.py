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

import pytest
from packaging.requirements import Requirement

import tercet
from support.bundles import posix_only
from support.documents import PROJECT, write_data

pytestmark = [pytest.mark.slow, posix_only]

EVERY_HELP = """
import json
import click
from click.testing import CliRunner
from tercet.cli.main import cli

def paths(group, *above):
    yield above
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from paths(command, *above, name)
        else:
            yield (*above, name)

results = {" ".join(path): CliRunner().invoke(cli, [*path, "--help"], prog_name="tercet") for path in paths(cli)}
print(json.dumps({name: [result.exit_code, result.output] for name, result in results.items()}))
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
        (site / "tercet").symlink_to(Path(tercet.__file__).parent)
        for name, package in core_distributions().items():
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if name != "tercet" or top.endswith(".dist-info"):
                    (site / top).symlink_to(Path(str(package.locate_file(top))))
        command = self.bin / "tercet"
        command.write_text(f"#!{self.bin / 'python'} -I\nfrom tercet.cli.main import main\nmain()\n")
        command.chmod(0o755)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def check_serve(self, *words: str) -> None:
        """Serving ends with one line, which has the command that adds the extra."""
        done = self.run(*words)
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("error: tercet serve needs ")
        assert line.endswith(f": {self.bin}/pip install 'tercet[serve]'")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareInstall:
    made = BareInstall(tmp_path_factory.mktemp("bare"))
    assert made.ok("python", "-I", "-c", INSTALLED).split() == ["tercet"]
    return made


def test_every_help_works(bare: BareInstall) -> None:
    results = json.loads(bare.ok("python", "-I", "-c", EVERY_HELP))
    assert {"", "index", "serve", "letor", "letor fit"} <= set(results)
    assert {name: output for name, (code, output) in results.items() if code != 0} == {}
    assert all(output.startswith(f"Usage: tercet {name}".rstrip()) for name, (_, output) in results.items())


def test_the_tutorial_works_up_to_serve(bare: BareInstall) -> None:
    write_data(bare.work)
    tutorial = (PROJECT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    verbs = []
    for command, script in re.findall(r"(?ms)^    (tercet [^\n]+)$|^```python\n(.+?)^```$", tutorial):
        words = shlex.split(command, comments=True)
        if script:
            bare.ok("python", "-I", "-c", script)
        elif words[1] == "serve":
            bare.check_serve(*words)
            break
        else:
            bare.ok(*words)
            verbs.append(words[1])
    else:
        pytest.fail("the tutorial has no tercet serve")
    assert {"fit", "index", "search"} <= set(verbs)


def test_the_commands_that_the_demo_ends_with_work(bare: BareInstall) -> None:
    output = bare.ok("tercet", "demo")
    commands = [line.strip() for line in output.partition("Now ask:")[2].splitlines() if line.startswith("    ")]
    assert f"{bare.bin}/pip install 'tercet[serve]'" in commands
    verbs = []
    for program, verb, *words in map(shlex.split, commands):
        if program == f"{bare.bin}/pip":
            continue
        assert program == f"{bare.bin}/tercet"
        verbs.append(verb)
        if verb == "serve":
            bare.check_serve("tercet", verb, *words)
        else:
            bare.ok("tercet", verb, *words)
    assert {"search", "serve"} <= set(verbs)
