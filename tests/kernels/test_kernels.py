"""Compilation: cached between processes, never stale, no index out of bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import filelock
import numba
import pytest

import tercet.kernels.compiler as compiler
from support.checked_kernels import GROUPS, WORKLOADS, kernels_of

TESTS = Path(__file__).parents[1]

WITHOUT_KERNELS = {"__init__", "compiler"}  # the latter is the decorator itself


def in_another_process(*arguments: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), **variables}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, timeout=600, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- indices stay in bounds -----------------------------------------------------------------------------------------


def test_every_module_with_kernels_has_a_workload():
    modules = {path.stem for path in Path(compiler.__file__).parent.glob("*.py")} - WITHOUT_KERNELS
    assert set(WORKLOADS) == modules
    assert [module for module in modules if not kernels_of(module)] == []


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_no_index_is_out_of_bounds(group):
    # Compiled with checks, which raise IndexError, and kept apart from code without them: see `compiler.fingerprint`.
    never_called = in_another_process("-m", "support.checked_kernels", *GROUPS[group], NUMBA_BOUNDSCHECK="1")
    assert json.loads(never_called) == []


@pytest.mark.slow
def test_an_index_out_of_bounds_would_be_noticed(tmp_path):
    (tmp_path / "past.py").write_text(
        "import numpy as np\n"
        "from tercet.kernels.compiler import kernel\n"
        "@kernel\ndef past(x):\n    return x[x.size]\n"
        "try:\n    past(np.zeros(3))\nexcept IndexError:\n    print('noticed')\n"
    )
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert in_another_process(str(tmp_path / "past.py"), NUMBA_BOUNDSCHECK="1", **cache) == "noticed"


# -- compiled once --------------------------------------------------------------------------------------------------

HITS = """
import numpy as np, tercet as tc
from tercet.kernels.diagonal import diagonal_advance
X = np.eye(3, dtype=np.float32)
tc.DiagonalRanker().fit(X, tc.Preferences([0], [1], [2]))
print(sum(diagonal_advance.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_what_two_processes_compile_has_other_names():
    """Numba's own names begin anew in each process, and code from its cache is linked with code that is new."""
    script = (
        "import tercet.kernels.compiler\n"
        "from numba.core.bytecode import FunctionIdentity\n"
        "print(FunctionIdentity.from_function(lambda: 0).unique_name)\n"
    )
    assert in_another_process("-c", script) != in_another_process("-c", script)


@pytest.mark.slow
def test_a_second_process_finds_compiled_kernels(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert in_another_process("-c", HITS, XDG_CACHE_HOME=str(tmp_path)) == "0"
    assert in_another_process("-c", HITS, XDG_CACHE_HOME=str(tmp_path)) == "1"
    assert in_another_process("-c", HITS, XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="1") == "0"
    assert len(list((tmp_path / "tercet").iterdir())) == 2


def test_an_edit_anywhere_in_the_room_gives_another_cache(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    before = compiler.fingerprint(tmp_path)
    assert compiler.fingerprint(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 2")
    assert compiler.fingerprint(tmp_path) != before


def test_other_users_of_numba_keep_their_cache_setting():
    before = numba.core.config.CACHE_DIR
    compiler.kernel(lambda x: x + 1)
    assert before == numba.core.config.CACHE_DIR


@pytest.fixture
def fresh(tmp_path, monkeypatch) -> Path:
    """A cache folder of its own, and a process that has said nothing so far; what it says is in ``said.txt``."""
    folder = tmp_path / "0123456789abcdef"
    monkeypatch.setattr(compiler, "cache_folder", lambda: folder)
    for what in ("compiling", "failing", "marked", "removed"):
        monkeypatch.setattr(compiler._Told, what, False)
    return folder


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def add_one(x):
    return x + 1


def test_compiling_is_said_once_and_only_if_the_cache_has_nothing(fresh, caplog, monkeypatch):
    caplog.set_level("INFO", "tercet.kernels")
    assert compiler.kernel(add_one)(1) == 2
    assert compiler.kernel(lambda x: x + 2)(1) == 3
    assert said(caplog) == ["compiling kernels, once on this machine …"]
    caplog.clear()
    monkeypatch.setattr(compiler._Told, "compiling", False)
    again = compiler.kernel(add_one)
    assert again(1) == 2  # as in another process: the entry is there, however long it takes to load
    assert sum(again.stats.cache_hits.values()) == 1
    assert said(caplog) == []


def test_on_a_terminal_it_is_said_without_logging_too(fresh, capsys, monkeypatch):
    compiler.tell("compiling")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    compiler.tell("compiling")
    assert capsys.readouterr().err == "tercet: compiling\n"


def test_a_cache_that_cannot_be_written_to_is_told_once(fresh, caplog, tmp_path):
    caplog.set_level("INFO", "tercet.kernels")
    fresh.write_text("a file where the folder should be")
    before = set(Path(tempfile.gettempdir()).glob("tercet-*"))
    assert compiler.kernel(add_one)(1) == 2
    assert compiler.kernel(lambda x: x + 2)(1) == 3
    assert said(caplog)[1:] == [
        f"compiled kernels cannot be kept in {fresh} (File exists), so every run compiles them again; NUMBA_CACHE_DIR "
        "names another folder"
    ]
    assert set(Path(tempfile.gettempdir()).glob("tercet-*")) == before


def test_damaged_code_is_compiled_again(fresh):
    assert compiler.kernel(add_one)(1) == 2
    for path in fresh.glob("*.nb*"):
        path.write_bytes(path.read_bytes()[:20])
    assert compiler.kernel(add_one)(1) == 2


def test_folders_of_other_versions_go_when_nobody_used_them_for_long(fresh, tmp_path):
    old = [tmp_path / name for name in ("f" * 16, "tercet-" + "e" * 16)]
    kept = [tmp_path / name for name in ("d" * 16, "mine", "f" * 15, "x" + "f" * 16)]
    for folder in (*old, *kept):
        folder.mkdir()
        (folder / "code.nbc").touch()
        os.utime(folder, (0, 0) if folder.name != "d" * 16 else None)
    held = tmp_path / ("c" * 16)
    held.mkdir()
    with compiler._locked(held):
        os.utime(held, (0, 0))
        assert compiler.kernel(add_one)(1) == 2
        assert {path.name for path in tmp_path.iterdir()} == {fresh.name, held.name, *(path.name for path in kept)}


def test_use_is_marked_for_others_to_see(fresh, monkeypatch):
    assert compiler.kernel(add_one)(1) == 2
    os.utime(fresh, (0, 0))
    assert compiler.kernel(add_one)(1) == 2
    assert fresh.stat().st_mtime > 0


def test_the_cache_is_where_the_system_has_it(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    where = compiler.cache_folder.__wrapped__()
    assert where.name == compiler.own_fingerprint()
    if sys.platform == "linux":
        assert where.parent == tmp_path / "tercet"
    monkeypatch.setattr(compiler.config, "CACHE_DIR", str(tmp_path))
    assert compiler.cache_folder.__wrapped__() == tmp_path / f"tercet-{compiler.own_fingerprint()}"


def test_processes_save_compiled_code_one_after_the_other(fresh, monkeypatch):
    compiled = compiler.kernel(add_one)
    held = []

    def write(signature, data):
        with pytest.raises(filelock.Timeout):
            compiler._locked(fresh).acquire(timeout=0)  # as another process would
        held.append(signature)

    monkeypatch.setattr(compiled._cache, "_save_overload", write)
    assert compiled(1) == 2
    assert len(held) == 1


# -- helpers --------------------------------------------------------------------------------------------------------


def test_python_cannot_call_a_helper_but_kernels_can(fresh):
    inner = compiler.helper(add_one)
    outer = compiler.kernel(lambda x: 2 * inner(x))
    assert outer(1) == 4
    with pytest.raises(TypeError, match="add_one is a helper, which only kernels call"):
        inner(1)
