"""What is imported is declared: every package that the code names is a dependency, or in the extra of its package."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
EXTRAS = PROJECT["optional-dependencies"]
GROUPS = SETTINGS["dependency-groups"]
[TESTED] = re.findall(r"^TESTED := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
# What packages are called that is not said by those which are installed here.
DISTRIBUTIONS = {
    "Stemmer": "pystemmer",
    "sklearn": "scikit-learn",
    "pyterrier": "python-terrier",
    "cupy": "cupy-cuda13x",
    "cupyx": "cupy-cuda13x",
    "stemmer": "pystemmer",
}
# Whoever has one of these has the other, always and by its own declaration.
BROUGHT_BY = {"llvmlite": "numba", "dask": "distributed", "pydantic": "fastapi", "pydantic_core": "fastapi"}
# Frames that are read where somebody has them; nothing needs them.
GUESTS = {"polars"}


def name_of(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def declared(requirements: list[str]) -> set[str]:
    return {name_of(requirement) for requirement in requirements}


@cache
def distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def distribution_of(module: str) -> str:
    names = distributions().get(module, [module])
    found = DISTRIBUTIONS.get(module, names[0].lower().replace("_", "-"))
    return BROUGHT_BY.get(module, found)


def imported(path: Path) -> set[str]:
    """First names of all modules that a file imports, wherever it does, and of those named for ``import_module``."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"tercet"}


SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_every_import_is_declared() -> None:
    known = declared(PROJECT["dependencies"]).union(*(declared(names) for names in EXTRAS.values()))
    missing = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in SOURCES
        for module in imported(path) - GUESTS
        if distribution_of(module) not in known
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("folder", "extra"),
    [
        ("engines/opensearch.py", "opensearch"),
        ("engines/postgres.py", "postgres"),
        ("engines/qdrant.py", "qdrant"),
        ("serve", "serve"),
        ("scale", "scale"),
    ],
)
def test_an_extra_has_all_that_its_package_imports(folder: str, extra: str) -> None:
    position = ROOT / "src" / "tercet" / folder
    paths = [position] if position.is_file() else list(position.rglob("*.py"))
    known = declared(PROJECT["dependencies"] + EXTRAS[extra])
    missing = {module for path in paths for module in imported(path) if distribution_of(module) not in known}
    assert missing == set()


def test_the_tests_name_no_package_that_an_extra_of_theirs_brings() -> None:
    brought = declared(PROJECT["dependencies"]).union(*(declared(EXTRAS[extra]) for extra in TESTED.split()))
    assert declared(GROUPS["test"]) & brought == set()
    assert set(EXTRAS) - set(TESTED.split()) == {"gpu", "pyterrier"}


def test_every_dependency_says_its_oldest_version() -> None:
    for requirements in (PROJECT["dependencies"], *EXTRAS.values(), *GROUPS.values()):
        for requirement in requirements:
            assert ">=" in requirement


LOCKED = {
    "serve.lock": EXTRAS["serve"] + EXTRAS["parquet"],
    "test.lock": GROUPS["test"] + [name for extra in TESTED.split() for name in EXTRAS[extra]],
}


def locked(lock: str) -> dict[str, list[str]]:
    """The packages of a lock with their hashes."""
    entries = re.split(r"^(?=\S)", (ROOT / "requirements" / lock).read_text(encoding="utf-8"), flags=re.M)
    return {name_of(entry): re.findall(r"--hash=sha256:(\w+)", entry) for entry in entries if "==" in entry}


@pytest.mark.parametrize("lock", LOCKED)
def test_a_lock_has_all_that_is_declared(lock: str) -> None:
    assert declared(PROJECT["dependencies"] + LOCKED[lock]) - set(locked(lock)) == set(), "make lock"


@pytest.mark.parametrize("lock", [*LOCKED, "build.lock"])
def test_a_lock_is_good_for_every_interpreter(lock: str) -> None:
    packages = locked(lock)
    assert [name for name, hashes in packages.items() if not hashes] == []
    # What is compiled has a wheel for each interpreter and system; a lock of one machine's files would have one hash.
    compiled = {"numpy", "scipy", "numba", "llvmlite", "scikit-learn", "pystemmer"} & set(packages)
    assert {name: len(packages[name]) for name in compiled if len(packages[name]) < 8} == {}
