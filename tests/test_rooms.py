"""The house rules that no single room can hold: who imports whom, what an import costs, what is never called."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import tercet

SOURCE = Path(tercet.__file__).parent
PROJECT = Path(__file__).parents[1]

# From low to high. A room may import itself and what stands below it; rooms on one line know nothing of each other.
FLOORS: list[list[str]] = [
    ["errors"],
    ["store", "kernels"],
    ["data"],
    ["text"],
    ["weights"],
    ["learn"],
    ["scale"],
    ["measure"],
    ["report"],
    ["fitting"],
    ["pictures"],
    ["search"],
    ["loading.py"],
    ["repro", "export", "adapters", "serve"],
    ["cli"],
    ["tercet/__init__.py"],
]
TOP_LEVEL_FILES = {"loading": "loading.py"}
ALLOWED: dict[str, set[str]] = {
    room: {room} | {lower for below in FLOORS[:height] for lower in below}
    for height, floor in enumerate(FLOORS)
    for room in floor
}
ALLOWED["kernels"] = {"kernels"}
ALLOWED["cli"].add("__version__")  # the one thing of the package itself that the command line shows
ALLOWED["__version__"] = set()

# Costs seconds to import, or comes with an extra, or belongs to the command line only.
HEAVY = (
    "matplotlib",
    "fastapi",
    "uvicorn",
    "dask",
    "distributed",
    "rich",
    "click",
    "Stemmer",
    "pandas",
    "torch",
    "fugashi",
    "qdrant_client",
    "qdrant_edge",
)
EXECUTES_WHAT_IT_READS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def module_name(path: Path) -> str:
    parts = ["tercet", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
every_module = pytest.mark.parametrize("module", FILES)


def room_of(module: str) -> str:
    """The room a module of ours is in; one that no floor knows is an error here, not a pass."""
    names = module.split(".")
    if names == ["tercet"]:
        return "tercet/__init__.py"
    room = TOP_LEVEL_FILES.get(names[1], names[1])
    assert room in ALLOWED, f"{module} is in a room that FLOORS does not know; say there where it stands"
    return room


def parsed(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"), filename=str(FILES[module]))


def imports(module: str) -> Iterator[tuple[str, int]]:
    """Full names of all imported modules with their lines, also those inside functions and for type checking."""
    package = module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                # "from tercet.kernels import topk" imports a module, "from tercet.errors import InputError" a name.
                inner = f"{base}.{alias.name}"
                yield (inner if inner in FILES or inner == "tercet.__version__" else base), node.lineno


# -- who imports whom -----------------------------------------------------------------------------------------------


@every_module
def test_imports_go_downwards_only(module):
    room = room_of(module)
    for imported, line in imports(module):
        if imported.split(".")[0] == "tercet":
            assert room_of(imported) in ALLOWED[room], (
                f"{FILES[module]}:{line}: {room} must not import {imported}; it may import "
                f"{', '.join(sorted(ALLOWED[room]))}"
            )


def test_the_contract_is_that_of_the_design():
    assert ALLOWED["errors"] == {"errors"}
    assert ALLOWED["store"] == {"store", "errors"}
    assert ALLOWED["kernels"] == {"kernels"}
    assert "measure" not in ALLOWED["learn"]
    assert not any("tercet/__init__.py" in allowed for room, allowed in ALLOWED.items() if room != "tercet/__init__.py")


def test_imports_are_found_wherever_they_stand(tmp_path, monkeypatch):
    source = tmp_path / "made_up.py"
    source.write_text(
        "import tercet.cli\n"
        "from . import report\n"
        "from ..tercet.measure import evaluate\n"
        "def f():\n    from tercet.learn import loop\n"
    )
    monkeypatch.setitem(FILES, "tercet.data.made_up", source)
    found = [name for name, _ in imports("tercet.data.made_up")]
    assert found == ["tercet.cli", "tercet.data", "tercet.tercet.measure", "tercet.learn.loop"]


def test_a_room_nobody_named_is_noticed():
    with pytest.raises(AssertionError, match="FLOORS does not know"):
        room_of("tercet.attic.boxes")


# -- what an import costs -------------------------------------------------------------------------------------------


def test_importing_tercet_compiles_nothing_and_loads_nothing_heavy():
    program = """
import json, sys
import sklearn.base, sklearn.utils  # loads pandas where it is installed; that is not ours to answer for
theirs = set(sys.modules)
import tercet
from numba.core.dispatcher import Dispatcher
kernels = {
    f"{name}.{key}": len(value.signatures)
    for name, module in sorted(sys.modules.items()) if name.startswith("tercet.kernels.")
    for key, value in vars(module).items() if isinstance(value, Dispatcher)
}
ours = set(sys.modules) - theirs
print(json.dumps({"kernels": kernels, "modules": sorted({name.partition(".")[0] for name in ours})}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert "tercet.kernels.lowrank.lowrank_advance" in told["kernels"]
    assert {name for name, n_signatures in told["kernels"].items() if n_signatures} == set()
    assert set(HEAVY) & set(told["modules"]) == set()


# -- what is never called -------------------------------------------------------------------------------------------


@every_module
def test_nothing_executes_what_it_reads(module):
    for imported, line in imports(module):
        assert imported.split(".")[0] not in EXECUTES_WHAT_IT_READS, f"{FILES[module]}:{line}: imports {imported}"
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            assert name not in ("eval", "exec", "compile", "__import__"), f"{FILES[module]}:{node.lineno}: {name}()"
            keywords = {keyword.arg for keyword in node.keywords}
            assert "allow_pickle" not in keywords, f"{FILES[module]}:{node.lineno}: allow_pickle"


@every_module
def test_no_exception_is_swallowed_unnamed(module):
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{FILES[module]}:{node.lineno}: a bare except"


# -- what is public -------------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_project_file():
    with open(PROJECT / "pyproject.toml", "rb") as file:
        assert tercet.__version__ == tomllib.load(file)["project"]["version"]


def test_public_names_are_listed_once_and_in_order():
    assert len(set(tercet.__all__)) == len(tercet.__all__)
    assert tercet.__all__ == sorted(tercet.__all__)


@pytest.mark.parametrize("name", tercet.__all__)
def test_a_public_name_exists_and_says_what_it_is(name):
    thing = getattr(tercet, name)
    doc = inspect.getdoc(thing)
    # A dataclass without a docstring is given its signature for one.
    assert doc, f"{name} has no docstring"
    assert not doc.startswith(f"{name}("), f"{name} has no docstring"
    assert doc != inspect.getdoc(type(thing)), f"{name} has no docstring of its own"
    if isinstance(thing, type):
        assert "__doc__" in vars(thing), f"{name} only inherits a docstring"


@every_module
def test_examples_in_docstrings_run(module):
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
