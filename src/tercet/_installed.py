"""Commands that Tercet tells its user to type, for the environment that runs."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from shlex import quote


def called(program: str) -> str:
    """Return the command that runs a program of this environment: its name if PATH finds it, else its path."""
    script = Path(sysconfig.get_path("scripts"), program)
    if shutil.which(program) == str(script):
        return program
    return quote(str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script))


def install_command(extra: str) -> str:
    """Return the command that adds the packages of an extra to this environment."""
    return f"{called('pip')} install 'tercet[{extra}]'"
