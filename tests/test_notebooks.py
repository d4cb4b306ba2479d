"""Notebooks: `make docs` runs them; here their code is looked at, which costs nothing."""

from __future__ import annotations

import ast
import json
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from support.documents import PROJECT
from support.public_api import LIST

DOCS = PROJECT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.M | re.S)
# What the extra docs brings, beside Python and Tercet with what it depends on.
AT_HAND = {"IPython", "matplotlib", "numpy", "scipy", "sklearn", "tercet", *sys.stdlib_module_names}
NETWORK = {"ftplib", "http", "socket", "urllib"}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def program(path: Path) -> ast.Module:
    """All cells, one after the other."""
    cells = CELL.findall(path.read_text(encoding="utf-8"))
    assert cells, f"{path.name} has no cell"
    return ast.parse("\n".join(cells), path.name)


def modules_used(tree: ast.AST) -> set[str]:
    """The modules that a program imports."""
    plain = (alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    return {*plain, *(str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))}


def names_used(tree: ast.AST) -> set[str]:
    """Names of Tercet that a program imports, or takes from ``tc``."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "tercet":
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tc":
            names.add(f"tercet.{node.attr}")
    return names


def test_there_are_notebooks():
    assert [path.name[:2] for path in NOTEBOOKS] == ["1-", "2-", "3-"]


@every_notebook
def test_a_notebook_is_one_and_is_listed(path):
    empty, head, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    assert not empty
    assert {"format_name: myst", "name: python3"} <= {line.strip() for line in head.splitlines()}
    listed = [line for line in (DOCS / "index.md").read_text(encoding="utf-8").splitlines() if "/" in line]
    assert any(fnmatch(f"notebooks/{path.stem}", line) for line in listed)


@every_notebook
def test_a_notebook_uses_public_names_and_what_is_at_hand(path):
    tree = program(path)
    public = json.loads(LIST.read_text())["names"]
    demo = "tercet.cli.docstrings.docstring_collection"  # the data that notebooks learn from
    assert sorted(names_used(tree) - {*public, demo}) == []
    roots = {name.partition(".")[0] for name in modules_used(tree)}
    assert sorted(roots - AT_HAND) == []
    assert not roots & NETWORK


def test_what_a_program_uses_is_seen():
    tree = ast.parse("import os.path\nimport tercet as tc\nfrom tercet.data.lines import x\ntc.fit(tc.Index.y)")
    assert names_used(tree) == {"tercet.data.lines.x", "tercet.fit", "tercet.Index"}
    assert modules_used(tree) == {"os.path", "tercet", "tercet.data.lines"}


@every_notebook
def test_links_of_a_notebook_lead_somewhere(path):
    prose = CELL.sub("", path.read_text(encoding="utf-8"))
    for address in re.findall(r"\]\(([^)#\s]+)", prose):
        assert (path.parent / address).exists(), f"{path.name}: {address}"
