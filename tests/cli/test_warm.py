"""``tercet warm`` compiles what verbs need, so that they compile nothing afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tercet.kernels.compiler as compiler
from support.commands import run
from tercet.cli.warm import WORK, Workshop


def tercet(*arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, with a cache of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tercet", *map(str, arguments)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


@pytest.mark.slow
def test_a_search_compiles_nothing_after_it_even_from_a_cache_that_cannot_be_written_to(tmp_path):
    shop = Workshop(tmp_path / "shop")
    shop.folder.mkdir()
    index = shop.index("low rank")
    cache = tmp_path / "cache"
    done = tercet("warm", "search", cache=cache)
    assert done.stdout.startswith("search: ")
    assert f"compiled kernels are in {cache}" in done.stdout
    for folder in (*cache.rglob("*"), cache):
        if folder.is_dir():
            folder.chmod(0o555)
    try:
        warm = tercet("search", index, "word01", cache=cache)
    finally:
        for folder in (cache, *cache.rglob("*")):
            if folder.is_dir():
                folder.chmod(0o755)
    assert "d60" in warm.stdout
    assert warm.stderr == ""
    for file in cache.rglob("*"):  # code is lost: a search that has to compile says so
        if file.name.startswith("search."):
            file.unlink()
    cold = tercet("search", index, "word01", cache=cache)
    assert (cold.stdout, cold.stderr) == (warm.stdout, "tercet search: compiling kernels, once on this machine …\n")


@pytest.mark.slow
@pytest.mark.parametrize("verb", WORK)
def test_every_verb_of_it_runs(verb):
    result = run("warm", verb)
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"{verb}: ")


def test_it_fails_where_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(compiler._Told, "failing", True)
    monkeypatch.setitem(WORK, "search", lambda shop: None)
    result = run("warm", "search")
    assert result.exit_code == 1
    assert "cannot be written to, so nothing was kept" in result.output


def test_a_verb_it_does_not_know_is_wrong_usage():
    assert run("warm", "dance").exit_code == 2
