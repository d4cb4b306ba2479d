"""The journal: what was acknowledged is kept, and what is damaged is named."""

from __future__ import annotations

import errno
import os
import sys

import pytest

from support.serving import TIME, clicked, preferred, withdrawn, written
from tercet.errors import FormatError, InputError, JournalError
from tercet.serve import Journal, journal_chain, read_journal
from tercet.serve import journal_file as journal_room
from tercet.serve.journal import Renewed, entry_of
from tercet.serve.journal_tail import Last, read_last, tail_path
from tercet.store.bundle import UNCONFIRMED

pytestmark = pytest.mark.slow  # make test has it, make check has not

ENTRIES = [
    preferred(1, "avocado \u202e é \U0001f951", "a", "b"),
    clicked(2, "eyes", ("a", "b"), "b"),
    withdrawn(3, 1, 2),
    preferred(4, 'quotes " and \\ and \n', "c", "d", "10.0.0.1/ann"),
    preferred(5, "green", "a", "b", "10.0.0.1/ann", "vouched"),
    Renewed(6, TIME, "local", "bake"),
]


def test_a_journal_gives_back_what_was_appended(tmp_path):
    path = written(tmp_path / "new" / "journal.jsonl", ENTRIES)
    assert list(read_journal(path).entries) == ENTRIES
    with Journal(path) as journal:
        assert journal.entries == ENTRIES
        assert journal.n_bytes == path.stat().st_size
        journal.append(lambda number: preferred(number, "q", "a", "b"))
    assert [entry.number for entry in read_journal(path).entries] == [1, 2, 3, 4, 5, 6, 7]


def test_a_journal_cut_short_anywhere_keeps_every_whole_line(tmp_path):
    whole = written(tmp_path / "whole.jsonl", ENTRIES).read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    path = tmp_path / "cut.jsonl"
    near = {end + off for end in ends for off in (-2, -1, 0, 1)}
    for size in sorted(near & set(range(len(whole) + 1)) | set(range(0, len(whole), 23))):
        path.write_bytes(whole[:size])
        tail_path(path).unlink(missing_ok=True)
        kept = [end for end in ends if end <= size or (end == size + 1 > ends[0] + 1)]  # or but for its newline
        with Journal(path) as journal:
            assert journal.entries == ENTRIES[: max(0, len(kept) - 1)]
            assert journal.torn_bytes == max(0, size - (kept[-1] if kept else 0))
            journal.append(lambda number: preferred(number, "again", "a", "b"))
        assert len(read_journal(path).entries) == max(0, len(kept) - 1) + 1


def test_a_damaged_line_is_named(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(1, len(lines)):
        for place in range(0, len(lines[at]) - 1, 7):
            broken = bytearray(lines[at])
            broken[place] ^= 1
            path.write_bytes(b"".join([*lines[:at], bytes(broken), *lines[at + 1 :]]))
            with pytest.raises(FormatError) as caught:
                Journal(path)
            # A byte that became a line break makes two bad lines of one; the first is named.
            assert caught.value.line == at + 1
            assert str(path) in str(caught.value)


def test_lines_that_were_moved_or_taken_out_are_noticed(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    lines = path.read_bytes().splitlines(keepends=True)
    for broken in (lines[:2] + lines[3:], [lines[0], lines[2], lines[1], *lines[3:]], lines[1:], [lines[0], *lines]):
        path.write_bytes(b"".join(broken))
        with pytest.raises(FormatError):
            read_journal(path)


def test_one_service_has_a_journal_at_a_time(tmp_path):
    with Journal(tmp_path / "journal.jsonl"), pytest.raises(JournalError, match="in use by another"):
        Journal(tmp_path / "journal.jsonl")
    Journal(tmp_path / "journal.jsonl").close()


def test_new_folders_are_synced_where_they_are_listed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(journal_room, "sync_folder", synced.append)
    Journal(tmp_path / "new" / "newer" / "journal.jsonl").close()
    assert set(synced) == {tmp_path, tmp_path / "new", tmp_path / "new" / "newer"}


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be moved there")
def test_a_journal_that_is_not_at_its_place_takes_nothing(tmp_path):
    path, aside = tmp_path / "journal.jsonl", tmp_path / "journal.jsonl.1"

    def append(journal):
        journal.append(lambda number: preferred(number, "q", "a", "b"))

    with Journal(path) as journal:
        append(journal)
        path.rename(aside)
        with pytest.raises(JournalError, match="not at its place"):
            append(journal)
        path.write_bytes(aside.read_bytes())
        with pytest.raises(JournalError, match="another file"):
            append(journal)
        aside.replace(path)
        append(journal)
        whole = path.read_bytes()
        for changed in (whole + b"more", whole[:-5], b""):
            path.write_bytes(changed)
            with pytest.raises(JournalError, match="somebody else changed"):
                append(journal)
            assert path.read_bytes() == changed
        path.write_bytes(whole)
        append(journal)
    assert [entry.number for entry in read_journal(path).entries] == [1, 2, 3]


def test_the_sum_after_an_entry_stays_while_the_next_is_taken_in(tmp_path, monkeypatch):
    """Another thread may ask for it then: a model whose sum does not fit would be taken for one without the entries."""
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    with Journal(path) as journal:
        lines, before, meanwhile = journal._chain.lines, journal.entries.sum_after(6), []
        take_in = lines.append

        def looked_at(*row):
            meanwhile.append(journal.entries.sum_after(6))
            return take_in(*row)

        monkeypatch.setattr(lines, "append", looked_at)
        journal.append(lambda number: preferred(number, "q", "a", "b"))
        assert meanwhile == [before]
        assert journal.entries.sum_after(6) == before
        assert journal.entries.sum_after(7) == read_journal(path).last_sum


def test_a_lost_end_is_named(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for n_kept in range(len(ENTRIES)):
        path.write_bytes(b"".join(lines[: n_kept + 1]))
        for open_one in (Journal, read_journal):
            with pytest.raises(JournalError, match=f"ends after entry {n_kept}, but entry 6 was acknowledged"):
                open_one(path)
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="ends after entry 0"):
        Journal(path)
    path.write_bytes(whole)
    assert len(read_journal(path).entries) == 6
    path.write_bytes(b"".join(lines[:4]))
    tail_path(path).unlink()  # as the message says
    with Journal(path) as journal:
        assert len(journal) == 3
    assert read_last(path) == Last(3, journal.entries.sum_after(3))


def test_another_journal_is_not_taken_for_this_one(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES[:3])
    other = written(tmp_path / "other.jsonl", [preferred(at, "other", "a", "b") for at in range(1, 6)])
    path.write_bytes(other.read_bytes())
    with pytest.raises(JournalError, match="entry 3 is not the one that was acknowledged"):
        Journal(path)


def test_the_note_of_the_last_entry_survives_a_kill_while_it_is_written(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    noted = tail_path(path).read_bytes()
    half = len(noted) // 2
    for size in range(half):  # entry 7 would be written over entry 5
        tail_path(path).write_bytes(noted[:half] + b"x" * size + noted[half + size :])
        assert read_last(path).number == 6
    tail_path(path).write_bytes(b"x" * len(noted))
    with pytest.raises(JournalError, match="is damaged, so nobody can tell"):
        Journal(path)


def test_a_journal_may_be_ahead_of_the_note(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES[:4])
    before = tail_path(path).read_bytes()
    with Journal(path) as journal:
        journal.append(lambda number: preferred(number, "q", "a", "b"))
    tail_path(path).write_bytes(before)  # a kill between the two: nobody was told of entry 5
    with Journal(path) as journal:
        assert len(journal) == 5
    assert read_last(path).number == 5


def test_compaction_keeps_the_note(tmp_path):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    with Journal(path) as journal:
        assert journal.compact(4)
        journal.append(lambda number: preferred(number, "q", "a", "b"))
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(JournalError, match="ends after entry 6, but entry 7"):
        Journal(path)
    path.write_bytes(b"".join(lines[:1]))
    with pytest.raises(JournalError, match="ends after entry 4, but entry 7"):
        read_journal(path)


def broken_disk(*_, **__):
    raise OSError(errno.EIO, "Input/output error")


def test_a_journal_goes_on_where_the_disk_did_not_confirm_its_compaction(tmp_path, monkeypatch):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    with Journal(path) as journal:
        real, synced = journal_room.sync_folder, []

        def fails_after_the_archive(folder):
            synced.append(folder)
            (real if len(synced) == 1 else broken_disk)(folder)

        with monkeypatch.context() as patched:
            patched.setattr(journal_room, "sync_folder", fails_after_the_archive)
            with pytest.raises(JournalError, match=UNCONFIRMED):
                journal.compact(4)
            assert journal.n_archived == 4
            with pytest.raises(JournalError, match="written: Input/output error"):  # a power cut could take the entry
                journal.append(lambda number: preferred(number, "q", "a", "b"))
        assert journal.append(lambda number: preferred(number, "q", "a", "b")).number == 7
        assert journal.entries[:6] == ENTRIES
        assert journal.compact(6)
    with Journal(path) as journal:
        assert journal.entries == [*ENTRIES, preferred(7, "q", "a", "b")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are counted in /proc")
def test_a_compaction_that_cannot_open_its_file_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    path = written(tmp_path / "journal.jsonl", ENTRIES)
    with Journal(path) as journal:
        before, n_open = path.read_bytes(), len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patched:
            patched.setattr(journal_chain, "open", broken_disk, raising=False)
            with pytest.raises(JournalError, match="cannot be compacted: Input/output error"):
                journal.compact(4)
        assert len(os.listdir("/proc/self/fd")) == n_open
        assert (path.read_bytes(), journal.entries == ENTRIES, journal.n_archived) == (before, True, 0)
        assert not path.with_name("journal.jsonl.tmp").exists()
        journal.append(lambda number: preferred(number, "q", "a", "b"))
        assert journal.compact(4)


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("which", [1, 2])
def test_what_the_disk_refuses_is_not_kept(tmp_path, monkeypatch, call, which):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append(lambda number: preferred(number, "q", "a", "b"))
        before = path.read_bytes()
        real, times = getattr(os, call), []

        def full(file, *rest):
            times.append(1)
            if len(times) == which:  # that of the entry, or that of its note
                if call == "write":
                    real(file, rest[0][:10])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(file, *rest)

        monkeypatch.setattr(os, call, full)
        with pytest.raises(JournalError, match="No space"):
            journal.append(lambda number: preferred(number, "lost", "a", "b"))
        assert path.read_bytes() == before
        assert read_last(path).number == 1
        journal.append(lambda number: preferred(number, "kept", "a", "b"))
    assert [entry.query for entry in read_journal(path).entries] == ["q", "kept"]


@pytest.mark.parametrize(("which", "kept"), [(1, []), (2, ["q"])])
def test_a_journal_that_cannot_be_put_right_takes_no_more(tmp_path, monkeypatch, which, kept):
    """An entry whose note may be on disk stays, and the error says so: without it the next start would be refused."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        real, times = os.fsync, []

        def broken(file):
            times.append(1)
            if len(times) >= which:  # that of the entry, or that of its note, and from then on
                raise OSError(errno.EIO, "Input/output error")
            return real(file)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", broken)
            with pytest.raises(JournalError) as output:
                journal.append(lambda number: preferred(number, "q", "a", "b"))
        assert (UNCONFIRMED in str(output.value)) == bool(kept)
        with pytest.raises(JournalError, match="until a restart"):
            journal.append(lambda number: preferred(number, "q", "a", "b"))
    with Journal(path) as journal:
        assert [entry.query for entry in journal.entries] == kept


def test_a_full_journal_takes_no_more(tmp_path):
    with Journal(tmp_path / "journal.jsonl", most_bytes=300) as journal:
        journal.append(lambda number: preferred(number, "q", "a", "b"))
        with pytest.raises(JournalError, match="300 are the most"):
            journal.append(lambda number: preferred(number, "q", "a", "b"))
        assert len(journal) == 1


@pytest.mark.parametrize(
    "meta",
    [
        None,
        [],
        {"kind": []},
        {"kind": "praise"},
        {"kind": "prefer"},
        ENTRIES[0].to_meta() | {"more": 1},
        ENTRIES[0].to_meta() | {"number": True},
        ENTRIES[1].to_meta() | {"shown": "ab"},
        ENTRIES[2].to_meta() | {"entries": [1, "2"]},
        ENTRIES[4].to_meta() | {"trust": "everybody"},
        ENTRIES[4].to_meta() | {"time": "yesterday"},
        ENTRIES[5].to_meta() | {"reason": "undo"},
    ],
)
def test_what_is_no_entry_is_refused(meta):
    with pytest.raises(InputError):
        entry_of(meta)
