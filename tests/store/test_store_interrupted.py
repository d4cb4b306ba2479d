"""Bundles and files: what is interrupted leaves the old or the new, and no trace."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.bundles import NEW, OLD, FailAtCall, arrays_file, is_same, names, posix_only
from support.forking import changed, killed_after, wait_for
from tercet.errors import (
    BundleError,
)
from tercet.store import (
    atomic,
    bundle,
    read_bundle,
    write_bundle,
    write_file_atomically,
)

pytestmark = pytest.mark.slow  # make test has it, make check has not

# Interruptions


FAIL_AT = [
    (os, "replace", True),
    (os, "fsync", True),
    (builtins, "open", True),
    (os, "open", False),  # after it, nobody would hold the descriptor to close it
    (os, "mkdir", False),
    (os, "listdir", False),
]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize(
    ("module", "name", "after"),
    [(module, name, after) for module, name, both in FAIL_AT for after in ([False, True] if both else [False])],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("exists", [True, False], ids=["replacing", "first"])
def test_a_failure_at_any_call_leaves_old_or_new_and_no_litter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    after: bool,
    error: BaseException,
    exists: bool,
) -> None:
    expected = BundleError if isinstance(error, OSError) else KeyboardInterrupt
    path = tmp_path / "folder" / "model"
    failures = 0
    for nth in range(1, 50):
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        if exists:
            write_bundle(path, **OLD)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, FailAtCall(getattr(module, name), nth, error, after))
            try:
                write_bundle(path, **NEW)
            except expected:
                failures += 1
            else:
                break
        if not path.exists():
            assert not exists
            assert names(tmp_path) == []
            continue
        found = read_bundle(path)
        is_new = is_same(found, NEW)
        assert is_new or (exists and is_same(found, OLD))
        # An unconfirmed new bundle keeps the old arrays, which a power cut may yet bring back into use.
        litter = set(names(path)) - {"manifest.json", bundle_file(path)}
        assert litter <= ({bundle_file_of(OLD, tmp_path)} if is_new and exists else set())
    else:
        pytest.fail("the calls never end")
    assert failures or (name == "mkdir" and exists)
    assert is_same(read_bundle(path), NEW)


def bundle_file(path: Path) -> str:
    return json.loads((path / "manifest.json").read_bytes())["file"]["name"]


def bundle_file_of(content: dict[str, Any], tmp_path: Path) -> str:
    write_bundle(tmp_path / "other", **content)
    name = bundle_file(tmp_path / "other")
    shutil.rmtree(tmp_path / "other")
    return name


def test_failing_to_save_the_same_arrays_with_other_meta_keeps_them(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", FailAtCall(os.replace, 2, OSError(5, "I/O error"), False))
        with pytest.raises(BundleError, match="I/O error"):
            write_bundle(saved, **{**OLD, "meta": {}})
    assert is_same(read_bundle(saved), OLD)


KILLED_AT_EVERY_STEP = """
import os, signal, sys
import numpy as np
from tercet.store import read_bundle, write_bundle

path = sys.argv[1]
contents = [dict(kind="k", meta={"n": n}, arrays={"a": np.full(100, n)}) for n in (0, 1)]

def kill_at(nth):
    left = [nth]
    def dying(real):
        def call(*args, **kwargs):
            for _ in range(2):  # once before and once after the real call
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if _ == 0:
                    result = real(*args, **kwargs)
            return result
        return call
    for name in ("replace", "fsync", "unlink", "open", "listdir"):
        setattr(os, name, dying(getattr(os, name)))

write_bundle(path, **contents[0])
seen, nth = set(), 0
while True:
    nth += 1
    before = read_bundle(path).meta["n"]
    child = os.fork()
    if child == 0:
        kill_at(nth)
        write_bundle(path, **contents[1 - before])
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    bundle = read_bundle(path)
    n = bundle.meta["n"]
    assert (bundle.arrays["a"] == n).all()
    seen.add("new" if n != before else "old")
    if status == 0:
        break
    assert os.WIFSIGNALED(status)
files = os.listdir(path)
assert len(files) == 2, files
print(nth, sorted(seen))
"""


@pytest.mark.slow
@posix_only
def test_a_kill_at_every_step_leaves_a_readable_bundle(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    steps, seen = done.stdout.split(maxsplit=1)
    assert int(steps) > 20
    assert seen.strip() == "['new', 'old']"


def save_for_ever(path: Path) -> None:
    for n in count(1):
        arrays = {"a": np.full(20_000, n), "b": np.full(n % 3, n)}
        write_bundle(path, kind=OLD["kind"], meta={"n": n}, arrays=arrays)


@posix_only
def test_reading_while_another_process_saves_and_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for n_seen in (10, 13, 17):
        is_saved, seen = changed(path / "manifest.json"), set()
        with killed_after(lambda: save_for_ever(path)) as is_at_work:
            wait_for(is_saved, is_at_work)
            deadline = time.monotonic() + 60
            while len(seen) < n_seen and time.monotonic() < deadline:
                seen.add(checked_number(path))
        assert len(seen) == n_seen
        checked_number(path)
        write_bundle(path, **OLD)  # the lock died with its holder, and what it left is removed
        assert names(path) == [arrays_file(path).name, "manifest.json"]


def checked_number(path: Path) -> int:
    found = read_bundle(path)
    number = found.meta["n"]
    assert (found.arrays["a"] == number).all()
    assert found.arrays["b"].tolist() == [number] * (number % 3)
    return number


@posix_only
def test_writers_at_the_same_time_do_not_remove_each_others_files(tmp_path: Path) -> None:
    path = tmp_path / "model"
    problems: list[BaseException] = []

    def save(content: dict[str, Any]) -> None:
        try:
            for _ in range(15):
                write_bundle(path, **content)
                read_bundle(path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=save, args=(content,)) for content in (OLD, NEW, OLD, NEW)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(names(path)) == 2


@posix_only
def test_a_writer_does_not_wait_for_ever(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "LOCK_PATIENCE_SECONDS", 0.05)
    with atomic.lock_folder(saved), pytest.raises(BundleError, match="being written by another process"):
        write_bundle(saved, **NEW)
    assert is_same(read_bundle(saved), OLD)


def test_a_bundle_replaced_after_its_manifest_was_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [OLD, NEW] * bundle._READ_ATTEMPTS

    def replacing(times: int) -> Callable[..., Any]:
        left = contents[:times]

        def read_arrays(*args: Any, **options: Any) -> Any:
            if left:
                # The next content differs from what the manifest said, so the file it names is gone.
                write_bundle(saved, **left.pop())
            return real(*args, **options)

        return read_arrays

    real = bundle.read_arrays
    monkeypatch.setattr(bundle, "read_arrays", replacing(4))
    assert is_same(read_bundle(saved), OLD)
    monkeypatch.setattr(bundle, "read_arrays", replacing(2 * bundle._READ_ATTEMPTS))
    with pytest.raises(BundleError, match="was replaced 20 times"):
        read_bundle(saved)


# Files


def test_write_file_atomically(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file_atomically(path, b"one")
    write_file_atomically(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["file"]


def test_write_file_atomically_keeps_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_file_atomically(path, b"one")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, FailAtCall(getattr(os, name), 1, OSError(5, "I/O error"), False))
            with pytest.raises(OSError, match="I/O error"):
                write_file_atomically(path, b"two")
        assert path.read_bytes() == b"one"
        assert names(tmp_path) == ["file"]
