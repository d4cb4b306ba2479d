"""Compilation: cached between processes, never stale, no index out of bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

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


def test_compiling_once_is_said_only_when_it_takes_time():
    said: list[str] = []

    class Kernel:
        signatures: tuple[str, ...] = ()

    with compiler.announce_compilation((Kernel(),), said.append):
        pass
    assert said == []
    with compiler.announce_compilation((Kernel(),), said.append):
        time.sleep(0.9)
    assert said == ["compiling once …"]
    Kernel.signatures = ("compiled",)
    with compiler.announce_compilation((Kernel(),), said.append):
        time.sleep(0.9)
    assert said == ["compiling once …"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_processes_save_compiled_code_one_after_the_other(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr(compiler, "cache_folder", lambda: tmp_path)
    add_one = compiler.kernel(lambda x: x + 1)
    held = []

    def write(signature, data):
        folder = os.open(add_one._cache.cache_path, os.O_RDONLY)  # as another process would
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.append(signature)
        finally:
            os.close(folder)

    monkeypatch.setattr(add_one._cache, "_save_overload", write)
    assert add_one(1) == 2
    assert len(held) == 1
