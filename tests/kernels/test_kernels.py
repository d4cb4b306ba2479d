"""Compilation: cached between processes, never stale, no index out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

import tercet.kernels.compiler as compiler

SCRIPT = """
import numpy as np, tercet as tc
from scipy import sparse
from tercet.kernels.dense import dense_advance
from tercet.kernels.diagonal import diagonal_advance
from tercet.kernels.lowrank import lowrank_advance
rng = np.random.default_rng(0)
X = sparse.csr_array(rng.random((20, 200)) * (rng.random((20, 200)) < 0.05), dtype=np.float32)
prefs = tc.Preferences.from_labels(np.arange(20) % 3, 300)
for ranker in (
    tc.DenseRanker(),
    tc.DiagonalRanker(),
    tc.LowRankRanker(n_components=3, diagonal="learned"),
    tc.SparseRanker(l1=1e-3, shrink_every=5),
    tc.SparseRanker(l1=1e-3, shrink_every=5, max_memory=4 * 200 * 200 - 1),
):
    ranker.fit(X, prefs).rank(X, X, 20)
print(*(sum(k.stats.cache_hits.values()) for k in (dense_advance, diagonal_advance, lowrank_advance)))
"""


def run(tmp_path: Path, **variables: str) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **variables}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        check=True,
        timeout=300,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def test_a_second_process_finds_compiled_kernels_and_checked_indices_stay_in_bounds(tmp_path):
    # Compiled with bounds checks, which raise IndexError; these must not be mixed up with unchecked code.
    assert run(tmp_path, NUMBA_BOUNDSCHECK="1") == "0 0 0"
    assert run(tmp_path, NUMBA_BOUNDSCHECK="1") == "1 1 1"
    assert len(list((tmp_path / "tercet").iterdir())) == 1


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
