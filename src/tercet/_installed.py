"""How Tercet was installed, so that what it tells its reader to type works there."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import sysconfig
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from urllib.parse import urlparse
from urllib.request import url2pathname

_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
CHECKOUT = Path(__file__).resolve().parents[2]


def called(program: str) -> str:
    """How a program of this environment is called from the working folder: by name only if that finds this one.

    >>> called("no-such-program").endswith("-m no_such_program")
    True
    """
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which(program)
    if found is not None and _same(Path(found).parent, scripts):
        return program
    script = shutil.which(program, path=str(scripts))
    if script is not None:
        return quote(_from_here(Path(script)))
    return f"{quote(_from_here(Path(sys.executable)))} -m {program.replace('-', '_')}"


def install_command(extra: str) -> str:
    """The command that adds what an extra needs to this environment."""
    try:
        installed: Distribution | None = distribution("tercet")
    except PackageNotFoundError:  # run from a folder of sources
        installed = None
    packages = _packages(installed, extra)
    if (Path(sys.prefix) / "pipx_metadata.json").exists() and packages:
        return f"pipx inject tercet {packages}"
    target = _target(installed, extra)
    by_uv = installed is not None and (installed.read_text("INSTALLER") or "").strip() == "uv"
    if by_uv or find_spec("pip") is None:
        pip = f"uv pip install -p {quote(_from_here(Path(sys.executable)))}"
    else:
        pip = f"{called('pip')} install"
    return f"{pip} {target or packages or _tercet(extra)}"


def _target(installed: Distribution | None, extra: str) -> str:
    """What was installed, with an extra; "" if it came from a place that is no more."""
    if installed is None:
        return f"-e {_with_extra(CHECKOUT, extra)}" if (CHECKOUT / "pyproject.toml").exists() else ""
    record = installed.read_text("direct_url.json")
    if record is None:  # by name, so that its name is enough
        return _tercet(extra)
    source = json.loads(record)
    url = urlparse(source["url"])
    if url.scheme != "file":
        address = f"{source['vcs_info']['vcs']}+{source['url']}" if "vcs_info" in source else source["url"]
        return quote(f"tercet[{extra}] @ {address}")
    path = Path(url2pathname(url.path))
    if not path.exists():
        return ""
    editable = source.get("dir_info", {}).get("editable", False)
    return f"{'-e ' if editable else ''}{_with_extra(path, extra)}"


def _packages(installed: Distribution | None, extra: str) -> str:
    """The packages of an extra, ready for a shell."""
    required = [] if installed is None else installed.requires or []
    named = [line.partition(";") for line in required]
    return " ".join(quote(name.strip()) for name, _, marker in named if extra in _EXTRA.findall(marker))


def _tercet(extra: str) -> str:
    return quote(f"tercet[{extra}]")


def _with_extra(path: Path, extra: str) -> str:
    return quote(f"{'.' if _same(path, Path.cwd()) else path}[{extra}]")


def _from_here(path: Path) -> str:
    """A path as it is shortest to type: below the working folder without that."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _same(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
