"""Commands for the user to type in the current environment."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from shlex import quote


def called(program: str) -> str:
    """Return the command for a program of this environment: the name if on PATH, else the path."""
    script = Path(sysconfig.get_path("scripts"), program)
    if shutil.which(program) == str(script):
        return program
    return quote(str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script))


def install_command(extra: str) -> str:
    """Return the command to install an extra in this environment."""
    return f"{called('pip')} install 'tercet[{extra}]'"
