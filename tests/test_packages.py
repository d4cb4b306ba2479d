"""Rules that no single package can hold: import order, cost of imports, calls that are forbidden."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import tercet

SOURCE = Path(tercet.__file__).parent
PROJECT = Path(__file__).parents[1]

# From low to high. A package may import itself and what stands below it, but no other package of its line.
LAYERS: list[list[str]] = [
    ["_lazy", "_installed"],
    ["errors"],
    ["_validate"],
    ["store", "kernels", "choose.py"],
    ["data"],
    ["text", "simulate.py"],
    ["weights"],
    ["memory"],
    ["measure"],
    ["learn"],
    ["report"],
    ["fitting"],
    ["search"],
    ["scale", "gpu"],
    ["loading.py"],
    ["engines", "serve"],
    ["adapters"],
    ["cli"],
    ["tercet/__init__.py", "__main__"],
]
TOP_LEVEL_FILES = {"choose": "choose.py", "loading": "loading.py", "simulate": "simulate.py"}
ALLOWED: dict[str, set[str]] = {
    package: {package} | {lower for below in LAYERS[:height] for lower in below}
    for height, layer in enumerate(LAYERS)
    for package in layer
}
ALLOWED["kernels"] = {"kernels"}
ALLOWED["cli"].add("__version__")  # the one thing of the package itself that the command line shows
ALLOWED["__version__"] = set()
# Packages around the core, which passes work to them only through objects that it is given.
AROUND_THE_CORE = ("serve", "engines", "scale", "gpu", "adapters", "reproductions")
ABOVE_THE_CORE = {*AROUND_THE_CORE, "repro", "export", "cli", "tercet/__init__.py", "__main__"}

# Costs seconds to import, or comes with an extra, or belongs to the command line only.
HEAVY = (
    "matplotlib",
    "fastapi",
    "prometheus_client",
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
    "psycopg",
    "cupy",
    "cupyx",
)
EXECUTES_WHAT_IT_READS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}

# Names of files that stand in several packages and mean the same there, and what they mean.
SHARED_STEMS = {
    "base": "what the others of a folder have in common",
    "documents": "ids with texts, as they are read and as an index keeps them",
    "held_out": "queries that nothing was learned from",
    "interleaving": "two rankings in one list, and who is clicked: the method, and the service that does it",
    "letor": "the format, where it is read and as it is measured",
    "page": "HTML for people",
    "path": "a solution for every penalty",
    "scoring": "all scores of texts, here and on a GPU",
    "stored": "rows on disk",
    "tables": "rows under named columns, read and checked in data",
    "taught": "what was taught to a service: the file, and the store that writes it",
    "value": "what the package is about",
}


def module_name(path: Path) -> str:
    parts = ["tercet", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def package_of(module: str) -> str:
    """The package a module of ours is in; one that no layer knows is an error here, not a pass."""
    names = module.split(".")
    if names == ["tercet"]:
        return "tercet/__init__.py"
    package = TOP_LEVEL_FILES.get(names[1], names[1])
    assert package in ALLOWED, f"{module} is in a package that LAYERS does not know; say there where it stands"
    return package


def parsed(module: str) -> ast.Module:
    return parse(FILES[module])


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def location(module: str, line: int) -> str:
    return f"{FILES[module].relative_to(SOURCE)}:{line}"


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


def test_imports_go_downwards_only():
    upwards = [
        f"{location(module, line)}: {package_of(module)} must not import {imported}"
        for module in FILES
        for imported, line in imports(module)
        if imported.split(".")[0] == "tercet" and package_of(imported) not in ALLOWED[package_of(module)]
    ]
    assert upwards == []


def names_around_the_core(module: str) -> list[int]:
    """Lines of string constants that name a package around the core, as an import by name would."""
    pattern = re.compile(rf"tercet\.({'|'.join(AROUND_THE_CORE)})\b")
    strings = (node for node in ast.walk(parsed(module)) if isinstance(node, ast.Constant))
    return [node.lineno for node in strings if isinstance(node.value, str) and pattern.match(node.value)]


def test_the_core_imports_nothing_around_it_not_even_by_name():
    core = [name for name in FILES if package_of(name) not in ABOVE_THE_CORE]
    imported = [
        f"{location(module, line)}: the core must not import {name}"
        for module in core
        for name, line in imports(module)
        if name.split(".")[0] == "tercet" and package_of(name) in AROUND_THE_CORE
    ]
    named = [location(module, line) for module in core for line in names_around_the_core(module)]
    assert (imported, named) == ([], [])


def test_names_in_strings_are_seen(tmp_path, monkeypatch):
    source = tmp_path / "made_up.py"
    source.write_text('from importlib import import_module\n\nimport_module("tercet.gpu").x\nprint("tercet.gpus")\n')
    monkeypatch.setitem(FILES, "tercet.data.made_up", source)
    assert names_around_the_core("tercet.data.made_up") == [3]


def test_the_contract_is_that_of_the_design():
    assert ALLOWED["errors"] == {"errors", "_lazy", "_installed"}
    assert ALLOWED["store"] == {"store", "errors", "_lazy", "_installed", "_validate"}
    assert ALLOWED["kernels"] == {"kernels"}
    assert "learn" not in ALLOWED["measure"]  # a ranker's score is a measure, and measures know no ranker
    assert not any(
        "tercet/__init__.py" in allowed for package, allowed in ALLOWED.items() if package != "tercet/__init__.py"
    )


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


def test_the_packages_are_those_of_the_document():
    text = (PROJECT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^    ([a-z_]+(?:/|\.py)) ", text, re.M)
    packages = {path.name + "/" for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert set(listed) == packages | {path.name for path in SOURCE.glob("*.py")}
    assert len(listed) == len(set(listed))


def test_a_package_nobody_named_is_noticed():
    with pytest.raises(AssertionError, match="LAYERS does not know"):
        package_of("tercet.attic.boxes")


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other by their imports (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for imported in graph[module]:
            if imported not in order:
                visit(imported)
            if imported in stack:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == order[module]:
            start = stack.index(module)
            if len(stack) > start + 1:
                groups.append(sorted(stack[start:]))
            del stack[start:]

    for module in graph:
        if module not in order:
            visit(module)
    return groups


def test_cycles_are_seen():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other_not_even_inside_functions():
    graph = {module: {name for name, _ in imports(module) if name in FILES and name != module} for module in FILES}
    assert cycles(graph) == []


# -- what things are called -----------------------------------------------------------------------------------------


def test_a_class_name_means_one_thing():
    modules = defaultdict(list)
    for module in FILES:
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    doubled = {name: where for name, where in modules.items() if len(where) > 1}
    assert doubled == {}, "one of them is called wrong"


def meaning(module: str) -> str:
    """Meaning of a file's name: a method is one thing in the packages of its learner, weights and words."""
    return "a method" if package_of(module) in ("learn", "scale", "text", "weights") else module


def test_a_module_name_means_one_thing():
    meanings = defaultdict(set)
    for module, path in FILES.items():
        # A kernel is called as what calls it, and a verb of the command line as what it calls.
        if path.name != "__init__.py" and package_of(module) not in ("kernels", "cli"):
            meanings[path.stem].add(meaning(module))
    shared = {stem: sorted(what) for stem, what in meanings.items() if len(what) > 1}
    assert {stem: what for stem, what in shared.items() if stem not in SHARED_STEMS} == {}


def test_only_the_command_line_knows_its_options():
    option = re.compile(r"(?<![\w-])(?<!var\()--[a-z][a-z-]*+(?!\s*:)")  # not those of CSS
    named = [
        location(module, node.lineno)
        for module in FILES
        if package_of(module) not in ("cli", "tercet/__init__.py")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and option.search(node.value)
    ]
    assert named == [], "say what is wrong, and let cli/ say which option puts it right"


# -- what an import costs -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_public_names_compile_nothing_and_load_nothing_heavy():
    program = """
import json, sys
import sklearn.base, sklearn.utils  # loads pandas where it is installed; that is not ours to answer for
theirs = set(sys.modules)
import tercet
for name in tercet.__all__:
    getattr(tercet, name)
ours = set(sys.modules) - theirs
print(json.dumps(sorted({name.partition(".")[0] for name in ours})))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert {"numba", *HEAVY} & set(json.loads(done.stdout)) == set()


def test_importing_tercet_loads_nothing():
    program = "import json, sys, tercet; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    modules = json.loads(done.stdout)
    assert [name for name in modules if name.split(".")[0] == "tercet"] == ["tercet", "tercet._lazy"]
    assert {"numpy", "scipy", "numba", "sklearn"} & set(modules) == set()


def lazy_tables(module: str) -> Iterator[tuple[dict[str, tuple[str, ...]], ast.If]]:
    """The table of a package's lazy names, and the imports of the same names for type checkers."""
    for node in parsed(module).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for call in (inner for other in node.orelse for inner in ast.walk(other) if isinstance(inner, ast.Call)):
                if isinstance(call.func, ast.Name) and call.func.id == "lazy_names":
                    yield ast.literal_eval(call.args[1]), node


@pytest.mark.parametrize("package", [name for name, path in FILES.items() if "lazy_names(" in path.read_text("utf-8")])
def test_lazy_names_are_those_that_type_checkers_see(package):
    for table, block in lazy_tables(package):
        typed = {(node.module, name.name) for node in block.body for name in node.names}  # type: ignore[attr-defined]
        assert typed == {(module, name) for module, names in table.items() for name in names}
        for name in importlib.import_module(package).__all__:
            assert f"{package}.{name}" not in FILES, f"{package}.{name} is a module, and takes the place of the name"
            assert getattr(importlib.import_module(package), name) is not None


# -- what is never called -------------------------------------------------------------------------------------------


def executing_calls(module: str) -> list[str]:
    """Locations of imports, calls and arguments that could execute what a file holds."""
    found = [location(module, line) for name, line in imports(module) if name.split(".")[0] in EXECUTES_WHAT_IT_READS]
    for call in (node for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        arguments = {keyword.arg for keyword in call.keywords}
        if name in ("eval", "exec", "compile", "__import__") or "allow_pickle" in arguments:
            found.append(location(module, call.lineno))
    return found


def test_nothing_executes_what_it_reads():
    assert [where for module in FILES for where in executing_calls(module)] == []


def test_what_could_execute_a_file_is_seen(monkeypatch):
    source = SOURCE / "made_up.py"
    monkeypatch.setitem(FILES, "tercet.data.made_up", source)
    program = "import pickle\nexec('1')\nload(x, allow_pickle=False)\nload(x)\n"
    monkeypatch.setitem(globals(), "parse", lambda path: ast.parse(program))
    assert executing_calls("tercet.data.made_up") == ["made_up.py:1", "made_up.py:2", "made_up.py:3"]


def test_no_exception_is_swallowed_unnamed():
    bare = [
        location(module, node.lineno)
        for module in FILES
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


# -- what is public -------------------------------------------------------------------------------------------------


def test_public_names_are_listed_once_and_in_order():
    assert len(set(tercet.__all__)) == len(tercet.__all__)
    assert tercet.__all__ == sorted(tercet.__all__)


def test_a_public_name_exists_and_says_what_it_is():
    for name in tercet.__all__:
        thing = getattr(tercet, name)
        doc = inspect.getdoc(thing)
        # A dataclass without a docstring is given its signature for one.
        assert doc, f"{name} has no docstring"
        assert not doc.startswith(f"{name}("), f"{name} has no docstring"
        assert doc != inspect.getdoc(type(thing)), f"{name} has no docstring of its own"
        if isinstance(thing, type):
            assert "__doc__" in vars(thing), f"{name} only inherits a docstring"


@pytest.mark.slow
@pytest.mark.parametrize("module", [name for name, path in FILES.items() if ">>> " in path.read_text("utf-8")])
def test_examples_in_docstrings_run(module):
    failed, _ = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
