"""Compilation: cached between processes, never stale, no index out of bounds."""

from __future__ import annotations

import errno
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
from numba.core.errors import NumbaWarning

from support.bundles import posix_only
from support.checked_kernels import GROUPS, WORKLOADS, kernels_of
from tercet.kernels import compiler, machine_code
from tercet.kernels.topk import sort_heap

TESTS = Path(__file__).parents[1]


def in_another_process(*arguments: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), **variables}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, timeout=600, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- indices stay in bounds -----------------------------------------------------------------------------------------


def test_every_workload_is_of_a_module_with_kernels():
    assert [module for module in WORKLOADS if not kernels_of(module)] == []


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_no_index_is_out_of_bounds(group):
    # Compiled with checks, which raise IndexError, and kept apart from other code: see `machine_code.fingerprint`.
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

# Not a kernel of the package: those take seconds to compile.
HITS = """
from tercet.kernels.compiler import kernel
@kernel
def add_one(x):
    return x + 1
add_one(1)
print(sum(add_one.compiled.stats.cache_hits.values()))
"""


@pytest.fixture
def hits(tmp_path) -> str:
    """A script that prints how often compiled code was found."""
    (tmp_path / "hits.py").write_text(HITS)
    return str(tmp_path / "hits.py")


@pytest.mark.slow
def test_what_two_processes_compile_has_other_names():
    """Numba's own names begin anew in each process, and code from its cache is linked with code that is new."""
    script = (
        "import tercet.kernels.machine_code\n"
        "from numba.core.bytecode import FunctionIdentity\n"
        "print(FunctionIdentity.from_function(lambda: 0).unique_name)\n"
    )
    assert in_another_process("-c", script) != in_another_process("-c", script)


@pytest.mark.slow
def test_a_second_process_finds_compiled_kernels(hits, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert in_another_process(hits, XDG_CACHE_HOME=str(tmp_path)) == "0"
    assert in_another_process(hits, XDG_CACHE_HOME=str(tmp_path)) == "1"
    assert in_another_process(hits, XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="1") == "0"
    assert len(list((tmp_path / "tercet").iterdir())) == 2


def test_an_edit_anywhere_in_the_room_gives_another_cache(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    before = machine_code.fingerprint(tmp_path)
    assert machine_code.fingerprint(tmp_path) == before
    (tmp_path / "b.py").write_text("y = 2")
    assert machine_code.fingerprint(tmp_path) != before


def test_other_users_of_numba_keep_their_cache_setting():
    before = numba.core.config.CACHE_DIR
    compiler.kernel(lambda x: x + 1)
    assert before == numba.core.config.CACHE_DIR


@pytest.fixture
def fresh(tmp_path, monkeypatch) -> Path:
    """A cache folder of its own, in a process that has said nothing so far."""
    folder = tmp_path / f"tercet-{'0' * 16}"
    monkeypatch.setattr(machine_code, "cache_folder", lambda: folder)
    machine_code.say_once.cache_clear()
    return folder


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def add_one(x):
    return x + 1


def hits_of(kernel) -> int:
    return sum(kernel.compiled.stats.cache_hits.values())


def test_compiling_is_said_once_and_only_if_the_cache_has_nothing(fresh, caplog):
    caplog.set_level("INFO", "tercet.kernels")
    assert compiler.kernel(add_one)(1) == 2
    assert compiler.kernel(lambda x: x + 2)(1) == 3
    assert said(caplog) == ["compiling kernels, once on this machine …"]
    caplog.clear()
    machine_code.say_once.cache_clear()
    again = compiler.kernel(add_one)
    assert again(1) == 2  # as in another process
    assert hits_of(again) == 1
    assert said(caplog) == []


def test_on_a_terminal_it_is_said_without_logging_too(fresh, capsys, monkeypatch):
    machine_code.say_once("compiling")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    machine_code.say_once("compiling again")
    assert capsys.readouterr().err == "tercet: compiling again\n"


def test_a_cache_that_cannot_be_written_to_gives_one_warning(fresh, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr(machine_code, "cache_folder", lambda: tmp_path / "file" / "folder")
    assert compiler.kernel(add_one)(1) == 2
    assert compiler.kernel(lambda x: x + 2)(1) == 3
    [line] = capsys.readouterr().err.splitlines()
    assert "not cached in" in line
    assert "NUMBA_CACHE_DIR" in line


def test_the_oldest_folders_of_other_versions_go(fresh, tmp_path):
    others = [tmp_path / f"tercet-{number:016x}" for number in range(1, machine_code.KEPT_FOLDERS + 3)]
    for age, folder in enumerate(others):
        folder.mkdir()
        (folder / "code.nbc").touch()
        os.utime(folder, (age, age))
    (tmp_path / "tercet-mine").mkdir()
    os.utime(tmp_path / "tercet-mine", (0, 0))
    assert compiler.kernel(add_one)(1) == 2
    assert {path.name for path in tmp_path.iterdir()} == {
        fresh.name,
        "tercet-mine",
        *(path.name for path in others[2:]),
    }


def test_the_cache_is_where_the_system_has_it(monkeypatch, tmp_path):
    name = f"tercet-{machine_code.own_fingerprint()}"
    monkeypatch.setattr(machine_code.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    where = machine_code.cache_folder.__wrapped__()
    assert where.name == name
    if sys.platform == "linux":
        assert where.parent == tmp_path / "tercet"
    monkeypatch.setattr(machine_code.config, "CACHE_DIR", str(tmp_path))
    assert machine_code.cache_folder.__wrapped__() == tmp_path / name


# -- damage, and folders of others ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["emptied", "zeroed", "cut"])
def test_a_damaged_file_is_compiled_and_written_again(fresh, damage):
    compiler.kernel(add_one)(1)
    [file] = fresh.iterdir()
    content = file.read_bytes()
    file.write_bytes({"emptied": b"", "zeroed": bytes(len(content)), "cut": content[:-100]}[damage])
    compiled = compiler.kernel(add_one)
    assert compiled(1) == 2
    assert hits_of(compiled) == 0
    again = compiler.kernel(add_one)
    assert again(1) == 2
    assert hits_of(again) == 1


class Planted:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_the_code_of_another_signature_is_not_taken(fresh):
    compiler.kernel(add_one)(1)
    [whole] = fresh.iterdir()
    compiler.kernel(add_one)(1.5)
    [fractional] = [file for file in fresh.iterdir() if file != whole]
    fractional.write_bytes(whole.read_bytes())
    assert compiler.kernel(add_one)(1.5) == 2.5


@posix_only
@pytest.mark.parametrize("who", ["user", "group", "others", "owner", "link"])
def test_no_code_is_taken_from_where_others_can_write(fresh, who, tmp_path, monkeypatch, capsys):
    compiler.kernel(add_one)(1)
    [file] = fresh.iterdir()
    planted = tmp_path / "planted"
    file.write_bytes(pickle.dumps(Planted(planted)))
    if who in ("group", "others"):
        fresh.chmod(0o770 if who == "group" else 0o707)
    elif who == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        monkeypatch.setattr(machine_code, "_ROOT", -1)
    elif who == "link":
        fresh.rename(tmp_path / "elsewhere")
        fresh.symlink_to(tmp_path / "elsewhere")
    assert compiler.kernel(add_one)(1) == 2
    assert planted.exists() == (who == "user")  # the user's own folder is trusted
    assert ("not cached in" in capsys.readouterr().err) == (who != "user")


@posix_only
def test_the_cache_is_this_users_alone(fresh):
    mask = os.umask(0)
    try:
        compiler.kernel(add_one)(1)
    finally:
        os.umask(mask)
    assert fresh.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["mkdir", "replace"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_fails_stores_nothing_and_stops_nobody(fresh, monkeypatch, name, number, capsys):
    def failing(*arguments, **options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing)
        assert compiler.kernel(add_one)(1) == 2
    assert "not cached in" in capsys.readouterr().err
    assert not fresh.exists() or list(fresh.iterdir()) == []


FULL = """
import os, resource, signal, sys
import numpy as np
from tercet.kernels.diagonal import diagonal_advance
import tercet as tc
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as a disk that is full after so many bytes
X = np.eye(3, dtype=np.float32)
tc.DiagonalRanker().fit(X, tc.Preferences([0], [1], [2]))
print(len(diagonal_advance.compiled.signatures))
"""


@pytest.mark.slow
@posix_only
def test_a_full_cache_disk_stops_nobody(tmp_path):
    assert in_another_process("-c", FULL, NUMBA_CACHE_DIR=str(tmp_path)) == "1"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_two_first_runs_compile_at_the_same_time(hits, tmp_path):
    # Each waits until the other has loaded what it needs.
    meeting = f"""
import os, time, numba
open({str(tmp_path)!r} + f"/ready-{{os.getpid()}}", "x").close()
while sum(name.startswith("ready-") for name in os.listdir({str(tmp_path)!r})) < 2:
    time.sleep(0.001)
"""
    Path(hits).write_text(meeting + HITS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    environment["NUMBA_CACHE_DIR"] = str(tmp_path)
    both = [
        subprocess.Popen([sys.executable, hits], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    found = {one.communicate(timeout=300)[0].strip() for one in both}
    assert "0" in found
    assert found <= {"0", "1"}  # one of them may have been so slow that the other was done
    assert in_another_process(hits, NUMBA_CACHE_DIR=str(tmp_path)) == "1"
    assert list(tmp_path.rglob("*.tmp.*")) == []


# -- helpers --------------------------------------------------------------------------------------------------------


def test_python_cannot_call_a_helper_but_kernels_can(fresh):
    inner = compiler.helper(add_one)
    outer = compiler.kernel(lambda x: 2 * inner(x))
    assert outer(1) == 4
    with pytest.raises(TypeError, match="add_one is a helper, which only kernels call"):
        inner(1)


def test_code_that_cannot_be_kept_is_named_by_numba():
    """As it is with NUMBA_OPT=0, where some code holds addresses of this process."""
    library, called = SimpleNamespace(has_dynamic_globals=True), SimpleNamespace(qualname="sort_heap")
    code = SimpleNamespace(lifted=(), library=library, fndesc=called)
    with pytest.warns(NumbaWarning, match=r"Cannot cache compiled function \"sort_heap\" as it uses dynamic globals"):
        assert not machine_code.KernelCacheImpl(sort_heap.__wrapped__).check_cachable(code)
