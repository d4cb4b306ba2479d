"""Whose code a number comes from: the files behind some modules, found by their imports."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
# What no number depends on; the settings of a plan are digested as values, and data sets by what was read.
_ASIDE = (
    "tercet._installed",
    "tercet._lazy",
    "tercet._validate",
    "tercet.errors",
    "tercet.learn.progress",
    "tercet.report",
    "reproductions.cache",
    "reproductions.paper_results",
    "reproductions.plan",
    "reproductions.plan_items",
    "reproductions.verdicts",
    "tercet.store",
)
# What a module reads from files beside it, below our root.
_READ = {"tercet.gpu.hardware": ("gpu/kernels", "*.cu*")}
# It knows all rankers; a number depends on those that it names.
_NOT_FOLLOWED = ("tercet.fitting.rankers",)


@cache
def code_digest(modules: tuple[str, ...]) -> str:
    """Of the files behind these modules, so that what one learner gave is never taken for what another gives."""
    digest = hashlib.sha256()
    behind = files_behind(modules)
    for name in behind.keys() & _READ.keys():
        folder, pattern = _READ[name]
        behind |= {f"{folder}/{file.name}": file for file in (_ROOT / folder).glob(pattern)}
    for name, file in sorted(behind.items()):
        digest.update(f"{name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def files_behind(modules: Iterable[str]) -> dict[str, Path]:
    """These modules and all of ours that they import, directly or not, with their files.

    A name that a package only passes on is looked up where it is from: what imports ``Preferences`` from
    ``tercet.data`` depends on ``tercet.data.preferences`` and not on every reader.

    Examples
    --------
    >>> behind = files_behind(["tercet.learn.lowrank"])
    >>> "tercet.kernels.lowrank" in behind, "tercet.learn.rls.ranker" in behind
    (True, False)
    """
    found: dict[str, Path] = {}
    left = list(modules)
    while left:
        name = left.pop()
        if name in found or any(name == aside or name.startswith(f"{aside}.") for aside in _ASIDE):
            continue
        file = _file_of(name)
        assert file is not None, f"{name} is no module of ours"
        found[name] = file
        if name not in _NOT_FOLLOWED:
            left += _imports(name)
    return found


def _file_of(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def _imports(module: str) -> list[str]:
    """Our modules that a module imports, wherever in it that stands."""
    return [
        origin
        for node in _import_statements(module)
        for alias in node.names
        for origin in [_origin(node.module or "", alias.name)]
        if origin.startswith("tercet.")
    ]


def _import_statements(module: str) -> Iterator[ast.ImportFrom]:
    file = _file_of(module)
    assert file is not None
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node


def _origin(module: str, name: str) -> str:
    """The module that a name is from."""
    if not module.startswith("tercet"):
        return ""
    if _file_of(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    file = _file_of(module)
    if file is not None and file.name == "__init__.py":
        for node in _import_statements(module):
            if any((alias.asname or alias.name) == name for alias in node.names):
                return _origin(node.module or "", name)
    return module
