"""``tercet doctor``: what is installed and at hand here, what would fail, and why."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Final, Literal

import click

from tercet import __version__
from tercet._installed import called, install_command
from tercet.cli.options import json_option
from tercet.cli.terminal import echo

State = Literal["fine", "note", "fails"]
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*(?:>=\s*([0-9.]+))?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_FOR_DEVELOPERS: Final = ("test", "bench")
_LITTLE_MEMORY, _LITTLE_DISK = 2e9, 1e9
_SECRET: Final = re.compile("TOKEN|PASSWORD|SECRET|KEY", re.IGNORECASE)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found and, where it is not fine, what to do."""

    about: str
    state: State
    found: str
    advice: str = ""

    def __str__(self) -> str:
        mark = {"fine": "    ", "note": "note", "fails": "FAIL"}[self.state]
        return f"{mark}  {self.about}: {self.found}" + (f"\n        {self.advice}" if self.advice else "")


@click.command()
@json_option
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Say what is installed and at hand here, what would fail, and why.

    Nothing is changed. The exit code is 1 if something would fail.
    """
    checks = examined()
    if as_json:
        echo(json.dumps([asdict(check) for check in checks], ensure_ascii=False, indent=2))
    else:
        echo("\n".join(map(str, checks)))
        n_failing = sum(check.state == "fails" for check in checks)
        echo(f"{n_failing} of {len(checks)} fail" if n_failing else "nothing would fail")
    context.exit(1 if any(check.state == "fails" for check in checks) else 0)


def examined() -> list[Check]:
    """All checks, in order; one that breaks is a failure of its own and ends no other."""
    checks: list[Check] = []
    for look in (_versions, _required, _extras, _device, _compiler, _cache, _folders, _settings):
        try:
            checks += look()
        except Exception as error:
            checks.append(Check(look.__name__.strip("_"), "fails", f"{type(error).__name__}: {error}"))
    return checks


# -- what is installed ------------------------------------------------------------------------------------------------


def _versions() -> Iterator[Check]:
    where = Path(__file__).resolve().parents[1]
    yield Check("Tercet", "fine", f"{__version__}, in {where}, called by {called('tercet')}")
    python = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    is_new = sys.version_info >= (3, 11)
    yield Check("Python", "fine" if is_new else "fails", python, "" if is_new else "Python 3.11 or later is needed")
    is_linux = sys.platform == "linux"
    advice = "" if is_linux else "Tercet is tested on Linux"
    yield Check("system", "fine" if is_linux else "note", platform.platform(), advice)


def _required() -> Iterator[Check]:
    for name, least in _requirements().get("", {}).items():
        yield _package(name, least)


def _package(name: str, least: str) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, "fails", "not installed", f"{called('pip')} install '{name}>={least or 0}'")
    if least and _numbers(found) < _numbers(least):
        return Check(
            name, "fails", f"{found}; {least} or later is needed", f"{called('pip')} install '{name}>={least}'"
        )
    return Check(name, "fine", found)


def _extras() -> Iterator[Check]:
    for extra, packages in _requirements().items():
        if not extra or extra in _FOR_DEVELOPERS:
            continue
        checks = [_package(name, least) for name, least in packages.items()]
        missing = [f"{check.about} ({check.found})" for check in checks if check.state == "fails"]
        if missing:
            advice = f"what needs it would fail; {install_command(extra)}"
            yield Check(f"extra {extra}", "note", f"without {', '.join(missing)}", advice)
        else:
            yield Check(f"extra {extra}", "fine", ", ".join(f"{check.about} {check.found}" for check in checks))


def _requirements() -> dict[str, dict[str, str]]:
    """By extra, "" for what is always needed: packages, and the least version of each."""
    try:
        listed = distribution("tercet").requires or []
    except PackageNotFoundError:
        return {}  # run from a folder of sources, which says nothing of what it needs
    found: dict[str, dict[str, str]] = {}
    for line in listed:
        requirement, _, marker = line.partition(";")
        match = _REQUIREMENT.match(requirement.strip())
        if match is not None:
            extra = (_EXTRA.findall(marker) or [""])[0]
            found.setdefault(extra, {})[match[1]] = match[2] or ""
    return found


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    leading = re.match(r"[0-9.]*", text)
    return tuple(int(part) for part in leading[0].split(".") if part) if leading else ()


# -- what computes ----------------------------------------------------------------------------------------------------


def _device() -> Iterator[Check]:
    n_cores, n_allowed = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    allowed = "" if n_allowed == n_cores else f", of which this process may use {n_allowed}"
    yield Check("processor", "fine", f"{platform.machine()}, {n_cores} cores{allowed}")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _memory_limit()
    shown = f"{memory / 1e9:.1f} GB" + ("" if limit is None else f", of which this container may use {limit / 1e9:.1f}")
    is_little = min(memory, limit or memory) < _LITTLE_MEMORY
    advice = "learning from more than some thousand texts may run out of it" if is_little else ""
    yield Check("memory", "note" if is_little else "fine", shown, advice)
    graphics = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if graphics:
        yield Check("graphics processor", "fine", ", ".join(graphics))


def _memory_limit() -> int | None:
    """What a container may use, where its control group says so."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _compiler() -> Iterator[Check]:
    import numba
    import numpy as np

    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        advice = "kernels run as Python, some hundred times slower; unset it"
        yield Check("compiler", "note", "switched off by NUMBA_DISABLE_JIT", advice)
        return
    doubled: Callable[[object], object] = numba.njit(lambda x: x * 2)
    is_right = bool(np.array_equal(doubled(np.arange(3)), [0, 2, 4]))  # type: ignore[arg-type]
    advice = "" if is_right else "Numba compiles, and what it compiled is wrong; nothing here can be trusted"
    yield Check("compiler", "fine" if is_right else "fails", f"Numba {numba.__version__}", advice)


def _cache() -> Iterator[Check]:
    from tercet.kernels.compiler import cache_folder

    folder = cache_folder()
    problem = _unwritable(folder)
    if problem is not None:
        advice = "every run compiles kernels again; name a folder that can be written to: NUMBA_CACHE_DIR"
        yield Check("compiled kernels", "note", f"cannot be kept in {folder}: {problem}", advice)
    elif not folder.is_dir():
        advice = f"what is called first waits for its kernels; {called('tercet')} warm compiles them beforehand"
        yield Check("compiled kernels", "note", f"none yet in {folder}", advice)
    else:
        files = [path for path in folder.iterdir() if path.suffix == ".nbc"]
        size = sum(path.stat().st_size for path in files)
        yield Check("compiled kernels", "fine", f"{len(files)} in {folder}, {size / 1e6:.1f} MB")


# -- where things are written -----------------------------------------------------------------------------------------


def _folders() -> Iterator[Check]:
    for about, folder in (("working folder", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        problem = _unwritable(folder)
        if problem is not None:
            yield Check(
                about, "fails", f"{folder} cannot be written to: {problem}", "models and indexes go elsewhere: -o"
            )
            continue
        free = shutil.disk_usage(folder).free
        little = "an index or a model may not fit" if free < _LITTLE_DISK else ""
        yield Check(about, "note" if little else "fine", f"{folder}, {free / 1e9:.1f} GB free", little)
        if (unlocked := _unlockable(folder)) is not None:
            advice = "two writers of one index at a time would not notice each other there"
            yield Check(about, "note", f"{folder} has no locks on folders: {unlocked}", advice)


def _unwritable(folder: Path) -> str | None:
    """Why nothing can be written to a folder, or to the nearest one above it that is there; None where it can be."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _unlockable(folder: Path) -> str | None:
    """Why a folder cannot be locked, which keeps writers apart; None where it can be."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.strerror or str(error)
        finally:
            os.close(descriptor)
    return None


def _settings() -> Iterator[Check]:
    named = sorted(name for name in os.environ if name.startswith(("TERCET_", "NUMBA_")))
    for name in named:
        shown = "is set" if _SECRET.search(name) else os.environ[name]
        yield Check(name, "fine", shown)
    home = os.environ.get("TERCET_DATA")
    if home is not None and not Path(home).is_dir():
        advice = "benchmarks and reproductions look there for data; see docs/reference/data-sets.md"
        yield Check("TERCET_DATA", "fails", f"{home} is no folder", advice)
