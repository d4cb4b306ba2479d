"""Tercet with its core dependencies alone, as after ``pip install .``, or with those of some extras."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import venv
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tercet as tc

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


def needed_distributions(extras: Sequence[str] = ()) -> dict[str, Distribution]:
    """Tercet and the packages it needs with some extras, directly or not, by name."""
    found = {"tercet": distribution("tercet")}
    waiting = [("tercet", ""), *(("tercet", extra) for extra in extras)]
    while waiting:
        name, extra = waiting.pop()
        for requirement in map(Requirement, found[name].requires or []):
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
                continue
            needed = canonicalize_name(requirement.name)
            if needed not in found:
                found[needed] = distribution(needed)
                waiting += [(needed, wanted) for wanted in ("", *requirement.extras)]
    return found


class BareInstall:
    """A virtual environment with links to the core packages of this one, and a folder to work in."""

    def __init__(self, folder: Path, extras: Sequence[str] = ()) -> None:
        self.bin, self.work = folder / "venv" / "bin", folder / "work"
        self.work.mkdir()
        venv.create(folder / "venv")
        [site] = (folder / "venv" / "lib").glob("*/site-packages")
        (site / "tercet").symlink_to(Path(tc.__file__).parent)
        for name, package in needed_distributions(extras).items():
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if name != "tercet" or top.endswith(".dist-info"):
                    (site / top).symlink_to(Path(str(package.locate_file(top))))
        command = self.bin / "tercet"
        command.write_text(f"#!{self.bin / 'python'} -I\nfrom tercet.cli.main import main\nmain()\n")
        command.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(self, *words: str, given: str = "") -> str:
        """Standard output of a process that must succeed."""
        done = subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.work,
            env=self.environment,
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
