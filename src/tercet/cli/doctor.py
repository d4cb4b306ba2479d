"""``tercet doctor``"""

from __future__ import annotations

import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

import click
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from tercet import __version__
from tercet._installed import install_command
from tercet.cli.groups import examples
from tercet.cli.terminal import echo

_REQUIREMENT: Final = re.compile(r"""([\w.-]+)[^;]*(?:;.*extra\s*==\s*["']([^"']+))?""")


@click.command(epilog=examples("doctor"))
def doctor() -> None:
    """Print versions, missing extras with the command that adds each, the kernel cache and the number of threads."""
    echo(f"Tercet {__version__}, {Path(__file__).resolve().parents[1]}")
    echo(f"Python {platform.python_version()}, {sys.executable}, {platform.platform()}")
    for line in (*_packages(), _kernel_cache()):
        echo(line)
    import numpy  # noqa: F401 (loads the BLAS library)

    echo(f"threads of BLAS: {max((pool['num_threads'] for pool in threadpool_info()), default=1)}")


def _packages() -> Iterator[str]:
    """Yield the versions of required packages, then the state of each extra."""
    packages = _requirements()
    yield from (f"{name} {_version(name) or 'is missing'}" for name in packages.pop("", []))
    for extra, names in packages.items():
        missing = [name for name in names if _version(name) is None]
        if missing:
            yield f"extra {extra}: {', '.join(missing)} missing; {install_command(extra)}"
        else:
            yield f"extra {extra}: {', '.join(f'{name} {_version(name)}' for name in names)}"


def _requirements() -> dict[str, list[str]]:
    """Return the names of packages by extra; "" for the packages that Tercet always needs."""
    try:
        lines = requires("tercet") or []
    except PackageNotFoundError:  # run from a folder of sources
        lines = []
    packages: dict[str, list[str]] = {}
    for line in lines:
        match = _REQUIREMENT.match(line)
        assert match is not None, line
        packages.setdefault(match[2] or "", []).append(match[1])
    return packages


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _kernel_cache() -> str:
    from tercet.kernels.machine_code import cache_folder, cache_problem, make_cache_folder

    folder = cache_folder()
    problem = cache_problem(folder)
    if problem is None:
        try:
            make_cache_folder(folder)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            problem = error.strerror or str(error)
    if problem is not None:
        return f"kernel cache: {folder} is not usable: {problem}. Set NUMBA_CACHE_DIR to a folder of your own"
    return f"kernel cache: {folder}, {len(list(folder.iterdir()))} files"
