"""A start from a snapshot gives the bits of a replay from nothing, whatever happened, and whatever became of it."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.serving import TIME, made_docs, made_index, preferred, withdrawn, written
from tercet.errors import DamagedBundleError, FormatError
from tercet.search import Index
from tercet.serve import Journal, LearningBounds, bake, read_journal, replay
from tercet.serve.journal import Clicked, Renewed
from tercet.serve.replay import Replay
from tercet.serve.service import Service
from tercet.serve.snapshots import Snapshots

IDS = list(made_docs())
QUERIES = ("green avocado", "blue sky", "avocado", "toast of the dark garden", "unknownword")
TRUSTS = (None, "visitor", "vouched", "teacher")


@pytest.fixture(autouse=True, scope="module")
def quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        patch.setattr("tercet.serve.learner._INTERIM_SECONDS", 0.0)  # whatever goes back is served in the interim
        yield


class Kept:
    """A service in a folder that is started, ended and killed, with snapshots after every other entry."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, np.random.default_rng(seed)
        self.journal = folder / "journal.jsonl"
        made_index(folder / "index")
        self.n_entries, self.n_docs = 0, 0
        self.service = self._started()

    def _started(self) -> Service:
        return Service(Index.open(self.folder / "index"), self.journal, snapshot_every=2)

    def record(self, make: Any) -> None:
        self.n_entries = self.service.reloader.record(make)[0].number

    def prefer(self) -> None:
        better, worse = (str(doc) for doc in self.rng.choice(IDS[:6], 2, replace=False))
        query, client = QUERIES[self.rng.integers(5)], f"10.0.0.{self.rng.integers(3)}"
        trust = TRUSTS[self.rng.integers(4)]
        self.record(lambda number: preferred(number, query, better, worse, client, trust, float(number)))

    def click(self) -> None:
        shown = tuple(str(doc) for doc in self.rng.choice(IDS[:6], 3, replace=False))
        self.record(lambda number: Clicked(number, TIME, "10.0.0.1", "green avocado", shown, shown[1:], "visitor"))

    def undo(self) -> None:
        gone = int(self.rng.integers(1, self.n_entries + 2))
        self.record(lambda number: withdrawn(number, min(gone, number)))

    def renew(self) -> None:
        self.record(lambda number: Renewed(number, TIME, "local", "promote", f"at {number}"))

    def change_documents(self) -> None:
        index = self.service.index.latest(own_model=False)
        if self.rng.random() < 0.5:
            index.replace([(IDS[int(self.rng.integers(6))], "blue avocado of the garden", {})])
        else:
            index.add({f"new{self.n_docs}": "green toast"})
        self.n_docs += 1
        self.service.reloader._serve(index)

    def wait(self) -> None:
        """Until all is learned that the journal has."""
        end = time.monotonic() + 60
        while self.service.version.number < len(self.service.journal) or not self.service.version.exact:
            assert time.monotonic() < end
            time.sleep(0.002)
        self.n_entries = len(self.service.journal)

    def bake(self) -> None:
        self.wait()
        if self.n_entries > self.service.version.n_baked:
            model = bake(self.service.index, read_journal(self.journal).entries)
            self.service.index.promote(model)
            self.service.reloader._serve(Index.open(self.folder / "index"))
            self.service.reloader.settle()

    def end(self) -> None:
        self.service.close()
        self.service = self._started()

    def kill(self) -> None:
        """What was learned is gone, and so may be what a snapshot is made of."""
        copy = self.folder.with_name(f"{self.folder.name}+")
        shutil.copytree(self.folder, copy, copy_function=copied)  # as it is now, whatever is being written
        self.service.close()
        shutil.rmtree(self.folder)
        copy.rename(self.folder)
        for leftover in self.folder.glob("journal.snapshots/*/*"):
            if self.rng.random() < 0.2:  # as a disk may leave it
                leftover.write_bytes(leftover.read_bytes()[: int(self.rng.integers(200))])
        self.service = self._started()

    def check(self) -> None:
        """All that is served is what the journal gives from nothing, over the documents as they are."""
        self.wait()
        version, index = self.service.version, Index.open(self.folder / "index")
        expected = replay(index, read_journal(self.journal).entries)
        assert (version.number, version.n_baked) == (expected.number, expected.n_baked)
        assert (version.digest, version.inactive) == (expected.digest, expected.inactive)


def copied(source: str, target: str) -> None:
    with suppress(FileNotFoundError):  # a temporary file that was renamed just now
        shutil.copy2(source, target)


OPERATIONS = ("prefer", "prefer", "prefer", "click", "undo", "undo", "renew", "change_documents", "bake", "end", "kill")


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(OPERATIONS), min_size=8, max_size=20))
def test_whatever_happens_a_start_gives_the_bits_of_a_replay(tmp_path_factory, seed, operations):
    kept = Kept(tmp_path_factory.mktemp("kept") / "service", seed)
    try:
        for operation in operations:
            getattr(kept, operation)()
            if operation in ("end", "kill", "bake"):
                kept.check()
        kept.check()
        kept.kill()
        kept.check()
        kept.end()
        kept.check()
    finally:
        kept.service.close()


# -- one snapshot ---------------------------------------------------------------------------------------------------

ENTRIES = [preferred(n, QUERIES[n % 3], IDS[n % 7], IDS[n % 5 + 7], "10.0.0.1", "teacher", n) for n in range(1, 41)]


@pytest.fixture
def kept(tmp_path):
    """A journal with a snapshot of its first 30 entries, and the index of both."""
    index, path = made_index(tmp_path / "index"), written(tmp_path / "journal.jsonl", ENTRIES[:30])
    with Journal(path) as journal:
        state = Replay(index, LearningBounds())
        state.apply(journal.entries)
        assert Snapshots(journal, 30).keep(state, "model", 30, 0)
        for entry in ENTRIES[30:]:
            journal.append(lambda number, entry=entry: entry)
    return index, path


def restored(index: Index, path: Path, model: str = "model", bounds: LearningBounds | None = None) -> int | None:
    """Up to which entry a snapshot is taken; with the rest of the journal it gives the bits of a replay."""
    with Journal(path) as journal:
        state, entries = Replay(index, bounds or LearningBounds()), journal.entries
        number = Snapshots(journal, 30).restore(state, model, entries, 0)
        if number is not None:
            state.apply(entries[number:])
            whole = Replay(index, bounds or LearningBounds())
            whole.apply(entries)
            assert state.steps() == whole.steps()
            assert (state.overlay.matrix() != whole.overlay.matrix()).nnz == 0
    return number


def test_a_snapshot_is_taken_by_who_it_is_of(kept, tmp_path, monkeypatch):
    index, path = kept
    assert restored(index, path) == 30
    assert restored(index, path, model="another") is None
    assert restored(index, path, bounds=LearningBounds(client=1.0)) is None
    other = written(tmp_path / "other" / "journal.jsonl", [preferred(1, "blue sky", IDS[0], IDS[1])])
    shutil.copytree(path.with_suffix(".snapshots"), other.with_suffix(".snapshots"))
    assert restored(index, other) is None
    monkeypatch.setattr("tercet.serve.snapshots.code_fingerprint", lambda: "later")
    assert restored(index, path) is None


def test_a_snapshot_is_taken_over_documents_that_changed(kept):
    index, path = kept
    index.replace([(IDS[3], "blue avocado sky", {})])
    index.remove([IDS[8]])
    index.add({"new": "green avocado"})
    assert restored(index, path) == 30


@pytest.mark.slow
def test_a_damaged_snapshot_is_left_alone(kept, caplog):
    index, path = kept
    files = [file for file in path.with_suffix(".snapshots").rglob("*") if file.is_file()]
    assert {file.parent.name for file in files} == {"lines", "replay-model"}
    rng = np.random.default_rng(0)
    for file in files:
        whole = file.read_bytes()
        for place in rng.integers(0, len(whole), 3).tolist():
            for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
                file.write_bytes(damaged)
                caplog.clear()
                expected = None if "replay" in str(file) else 30
                assert restored(index, path) == expected
                assert "cannot be used" in caplog.text
        file.write_bytes(whole)
    assert restored(index, path) == 30


def test_a_damaged_journal_is_named_though_there_is_a_snapshot_of_it(kept):
    _, path = kept
    whole = path.read_bytes()
    for at in (60, len(whole) // 3, len(whole) // 2):  # before the end of what the snapshot is of
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FormatError) as caught:
            Journal(path)
        assert caught.value.line == whole[:at].count(b"\n") + 1


def test_a_journal_that_is_known_is_read_from_there_on(kept, monkeypatch):
    _, path = kept
    with Journal(path) as journal:
        expected = list(journal.entries)
        monkeypatch.setattr("tercet.serve.journal_chain.parsed_line", None)
        assert journal.entries.votes_of("10.0.0.1").tolist() == list(range(1, 41))
    monkeypatch.undo()
    read = []
    from tercet.serve import journal_chain

    real = journal_chain.parsed_line
    monkeypatch.setattr(journal_chain, "parsed_line", lambda *given: read.append(given[-1]) or real(*given))
    with Journal(path) as journal:
        assert read == list(range(32, 42))  # lines of entries 31 to 40
        assert list(journal.entries) == expected
        assert [journal.entries[i] for i in (0, 29, 39)] == [ENTRIES[i] for i in (0, 29, 39)]


def test_what_does_not_fit_together_is_refused(kept):
    """Right checksums, and rows that speak of others that there are not: kernels would look there."""
    index, path = kept
    with Journal(path) as journal:
        state = Replay(index, LearningBounds())
        state.apply(journal.entries[:30])
        arrays = {name: np.array(array) for name, array in state.arrays().items()}
    for name, array in arrays.items():
        for hostile in (-7, 2**30):
            if array.dtype.kind == "i" and array.size and name not in ("inactive", "renewals", "box"):
                forged = array.copy()
                forged[-1] = min(hostile, np.iinfo(array.dtype).max)
                other = Replay(index, LearningBounds())
                try:
                    other.restore(arrays | {name: forged}, same_documents=True)
                except DamagedBundleError:
                    continue
                other.apply(ENTRIES[30:])  # what is not refused does no harm


def test_a_disk_that_cannot_be_read_while_a_snapshot_is_due_is_no_matter(tmp_path, monkeypatch, caplog):
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    service = Service(made_index(), tmp_path / "journal.jsonl", snapshot_every=2)
    try:
        with monkeypatch.context() as patched:
            patched.setattr("tercet.serve.journal_chain.Chain._read", broken)
            for entry in ENTRIES[:6]:
                service.reloader.record(lambda number, entry=entry: entry)[1].result(timeout=30)
            assert service.learner.failure is None
    finally:
        service.close()
    assert "no snapshot of the journal is saved: [Errno 5] Input/output error" in caplog.text
    assert service.version.digest == replay(made_index(), ENTRIES[:6]).digest


def test_a_snapshot_that_cannot_be_written_is_no_matter(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    service = Service(made_index(), tmp_path / "journal.jsonl", snapshot_every=2)
    (tmp_path / "journal.snapshots").write_bytes(b"in the way")
    try:
        for entry in ENTRIES[:6]:
            service.reloader.record(lambda number, entry=entry: entry)[1].result(timeout=30)
    finally:
        service.close()
    assert "no snapshot of the journal is saved" in caplog.text
    assert service.version.digest == replay(made_index(), ENTRIES[:6]).digest
