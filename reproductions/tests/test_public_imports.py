"""The reproductions import exported names of Tercet only."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import tercet

FOLDER = Path(__file__).parents[1]
FILES = [path for path in sorted(FOLDER.rglob("*.py")) if "tests" not in path.relative_to(FOLDER).parts]


def exports(module: str) -> set[str]:
    """Exported names of a package, or names of top-level modules."""
    imported = importlib.import_module(module)
    if module in ("tercet.errors", "tercet.choose"):
        return set(vars(imported))
    assert hasattr(imported, "__path__"), f"{module} is no package"
    return {*imported.__all__, *(["__version__"] if imported is tercet else [])}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_exported_names_are_imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names if alias.name.partition(".")[0] == "tercet"]
            assert modules in ([], ["tercet"]), f"{path}:{node.lineno}: import {', '.join(modules)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tercet":
            unknown = {alias.name for alias in node.names} - exports(node.module)
            assert not unknown, f"{path}:{node.lineno}: {node.module} does not export {', '.join(sorted(unknown))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_examples_in_docstrings_run(path):
    name = ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
