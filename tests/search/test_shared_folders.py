"""Two of everything at the same time: writers, a compactor, readers; processes, threads and forks that share one."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.bundles import posix_only
from support.indexes import answers, small_model
from support.random_data import random_texts
from tercet.data import write_rows
from tercet.errors import BundleError
from tercet.search import Index
from tercet.store import read_bundle, write_bundle

pytestmark = [posix_only, pytest.mark.slow]

DOCS = {"first": "green sky", "second": "blue sky"}
MODEL = small_model(DOCS, latent=True)
N_EACH = 6


@contextmanager
def siblings(*works: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Have works done in processes of their own, which must all end well; gives whether one is still at it."""
    children = {}
    for work in works:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)  # nothing of the test process may happen twice
        children[child] = None

    def at_work() -> bool:
        for child in [child for child, status in children.items() if status is None]:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                children[child] = status
        return None in children.values()

    deadline = time.monotonic() + 120
    try:
        yield at_work
    finally:
        while at_work():
            assert time.monotonic() < deadline, "a process does not end"
            time.sleep(0.005)
    assert set(children.values()) == {0}


def all_together(works: list[Callable[[], None]]) -> None:
    """Have works done in threads of this process, which must all end well."""
    problems: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert problems == []


def test_two_writers_a_compactor_and_readers_of_one_index(tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.build(DOCS, MODEL, path, segment_docs=4)

    def write(name: str) -> None:
        index = Index.open(path)  # as it was then; what others commit meanwhile is read before each change
        for i in range(N_EACH):
            index.add({f"{name}{i}": f"{name} sky"})

    def compact() -> None:
        for _ in range(N_EACH):
            Index.open(path).merge()

    held, n_seen = Index.open(path), 0
    expected = answers(held)
    with siblings(lambda: write("a"), lambda: write("b"), compact) as at_work:
        while at_work():
            ids = set(Index.open(path))
            # A commit is there as a whole, and none is lost: of each writer, all documents up to one.
            for name in "ab":
                mine = sorted(int(doc_id[1:]) for doc_id in ids if doc_id[0] == name and doc_id[1:].isdigit())
                assert mine == list(range(len(mine)))
            assert answers(held) == expected  # of one that is open, although its files are gone
            n_seen += 1
    assert n_seen > 0
    index = Index.open(path)
    assert sorted(index) == sorted([*DOCS, *(f"{name}{i}" for name in "ab" for i in range(N_EACH))])
    held.refresh()
    assert answers(held) == answers(index)


def test_threads_share_an_index_that_changes(tmp_path: Path) -> None:
    index = Index.build(DOCS, MODEL, tmp_path / "index", segment_docs=4)
    index.search("sky", 3)
    done = threading.Event()

    def search() -> None:
        while not done.is_set():
            hits = [hit.doc_id for hit in index.search("sky", 50)]
            assert len(set(hits)) == len(hits)
            assert {"first", "second"} <= set(hits)  # which nobody removes

    def change(name: str) -> Callable[[], None]:
        def work() -> None:
            try:
                for i in range(N_EACH):
                    index.add({f"{name}{i}": "sky"})
                    index.remove([f"{name}{i}"])
                index.merge()
            finally:
                done.set()

        return work

    all_together([search, search, change("a"), change("b")])
    assert sorted(index) == sorted(DOCS)
    assert answers(Index.open(tmp_path / "index")) == answers(index)


def test_forks_share_an_index_and_a_model(tmp_path: Path) -> None:
    index = Index.build(DOCS, MODEL, tmp_path / "index")
    expected = answers(index), MODEL.rank({"q": "green"}, DOCS)

    def same() -> None:
        for _ in range(5):
            assert (answers(index), MODEL.rank({"q": "green"}, DOCS)) == expected

    with siblings(same, same) as at_work:
        while at_work():
            same()


def test_threads_and_forks_share_stored_rows(tmp_path: Path) -> None:
    X = random_texts(np.random.default_rng(0), 60, 9)
    rows = write_rows(tmp_path / "rows", [X], n_columns=9)

    def read(seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(30):
            asked = rng.integers(0, 60, 20)
            assert (rows[asked] != X[asked]).nnz == 0

    all_together([lambda seed=seed: read(seed) for seed in range(4)])  # type: ignore[misc]
    with siblings(read, read):
        read(9)


def test_two_processes_save_one_model_and_a_third_reads_it(tmp_path: Path) -> None:
    def save(number: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(N_EACH):
                write_bundle(tmp_path / "model", kind="k", meta={"n": number}, arrays={"a": np.full(500, number)})

        return work

    save(0)()
    with siblings(save(1), save(2)) as at_work:
        while at_work():
            bundle = read_bundle(tmp_path / "model")
            assert (bundle.arrays["a"] == bundle.meta["n"]).all()


def test_without_locks_one_writer_works_and_readers_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system that has none; two writers at a time are then not kept apart."""

    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    index = Index.build(DOCS, MODEL, tmp_path / "index")
    index.add({"c": "blue"})
    assert sorted(Index.open(tmp_path / "index")) == ["c", "first", "second"]


def test_an_index_that_was_replaced_under_a_writer_is_not_mixed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = Index.build(DOCS, MODEL, path)
    Index.build({"x": "red"}, small_model({"x": "red sky"}), path)
    with pytest.raises((BundleError, ValueError)):
        index.add({"c": "blue"})
    assert list(Index.open(path)) == ["x"]
