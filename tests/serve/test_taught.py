"""The store of what was taught: on disk when it is acknowledged, one writer, damage named, copies made meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.serving import made_index, running, served
from tercet.cli.main import cli
from tercet.data.taught import is_taught
from tercet.errors import FormatError, StoreError, StoreInUseError, VersionError
from tercet.serve import TaughtStore, back_up, read_taught
from tercet.serve.taught import NotActiveError

PAIRS = [("a", "b")]


def filled(path: Path, n: int = 3) -> list[tuple[int, str]]:
    """Write n actions; return their numbers and queries."""
    with TaughtStore(path) as store:
        return [(store.add("ann", "prefer", f"query {i}", PAIRS).number, f"query {i}") for i in range(n)]


def fill(store: TaughtStore) -> None:
    for _ in range(200):
        store.add("ann", "prefer", "tea" * 300, PAIRS)


def listed(path: Path) -> list[tuple[int, str]]:
    return [(action.number, action.query) for action in read_taught(path).actions]


def test_actions_are_read_as_they_were_written_while_the_store_is_open(tmp_path):
    path = tmp_path / "taught.db"
    with TaughtStore(path) as store:
        store.add("ann", "move", "grüner Tee 🥑", [("é", "<b>"), ("x" * 1000, "é")])
        store.add("bob", "prefer", "tea", PAIRS)
        [undone] = store.undo("bob", [1])
        taught = read_taught(path)
    assert taught.store == store.id
    assert [action.token for action in taught.actions] == ["ann", "bob"]
    assert (taught.actions[0].query, taught.actions[0].pairs) == ("grüner Tee 🥑", (("é", "<b>"), ("x" * 1000, "é")))
    assert (undone.revision, taught.actions[0].undone_by, taught.actions[0].is_active) == (3, "bob", False)
    assert taught.triplets == [("tea", "a", "b")]
    assert (taught.last, taught.damaged) == (2, [])
    with TaughtStore(path) as again:
        assert (again.id, again.n_actions, again.revision) == (store.id, 2, 3)


def test_undo_marks_all_or_none(tmp_path):
    filled(tmp_path / "taught.db")
    with TaughtStore(tmp_path / "taught.db") as store:
        with pytest.raises(NotActiveError) as problem:
            store.undo("ann", [1, 9])
        assert problem.value.number == 9
        assert [action.is_active for action in store.since(0).actions] == [True] * 3
        assert [action.number for action in store.undo("ann", [3, 1, 3])] == [3, 1]
        assert [action.number for action in store.since(4).actions] == [1]
        assert [action.number for action in store.undo("ann")] == [2]
        with pytest.raises(NotActiveError):
            store.undo("ann")
        assert [action.number for action in store.latest(2).actions] == [2, 3]


def test_one_service_writes_and_a_second_is_refused_by_name(tmp_path):
    with TaughtStore(tmp_path / "taught.db"):
        with pytest.raises(StoreInUseError, match=f"is held by process {os.getpid()} on "):
            TaughtStore(tmp_path / "taught.db")
        assert read_taught(tmp_path / "taught.db").actions == []
    TaughtStore(tmp_path / "taught.db").close()


@pytest.mark.parametrize("column", ["query", "pairs", "time", "undone", "revision", "checksum", "token", "kind"])
def test_a_row_that_was_changed_is_skipped_and_named(tmp_path, caplog, column):
    filled(tmp_path / "taught.db")
    with sqlite3.connect(tmp_path / "taught.db") as connection:
        connection.execute(f"UPDATE taught SET {column} = 77 WHERE number = 2")
    connection.close()
    with TaughtStore(tmp_path / "taught.db") as store:
        assert store.damaged == (2,)
        assert [action.number for action in store.since(0).actions] == [1, 3]
        with pytest.raises(NotActiveError):
            store.undo("ann", [2])
        assert store.add("ann", "prefer", "tea", PAIRS).number == 4
    assert "rows 2 are damaged and skipped" in caplog.text
    taught = read_taught(tmp_path / "taught.db")
    assert (taught.damaged, len(taught.triplets)) == ([2], 3)


def test_health_shows_a_damaged_row_and_the_rest_is_served(tmp_path):
    with served(tmp_path / "taught.db") as (api, _):
        first, *_, last = (hit["id"] for hit in api.get("/search", params={"q": "green avocado"}).json()["learned"])
        for better in (last, "d3"):
            api.post("/prefer", json={"query": "green avocado", "better": better, "worse": first})
    with sqlite3.connect(tmp_path / "taught.db") as connection:
        connection.execute("UPDATE taught SET query = 'other' WHERE number = 2")
    connection.close()
    with served(tmp_path / "taught.db") as (api, _):
        assert api.get("/health").json()["damaged"] == [2]
        ids = [hit["id"] for hit in api.get("/search", params={"q": "green avocado"}).json()["learned"]]
        assert ids.index(last) < ids.index(first)


def test_any_other_file_is_refused(tmp_path):
    other, newer, text, cut = (tmp_path / name for name in ("other.db", "newer.db", "text.db", "cut.db"))
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE things (name)")
    connection.close()
    filled(newer)
    filled(cut, 40)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    text.write_text("not a database" * 100)
    whole = cut.read_bytes()
    cut.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    for path, error, words in (
        (other, FormatError, "does not hold what was taught"),
        (newer, VersionError, "has schema 2"),
        (text, FormatError, "put a backup in its place"),
        (cut, FormatError, "put a backup in its place"),
        (tmp_path / "nobody.db", FormatError, "unable to open"),
    ):
        with pytest.raises(error, match=words):
            read_taught(path)
        if path.exists():
            with pytest.raises(error, match=words):
                TaughtStore(path)
    assert is_taught(other)
    assert not is_taught(text)
    assert not is_taught(tmp_path / "nobody.db")


def test_a_first_start_that_was_interrupted_anywhere_is_completed_by_the_next(tmp_path):
    """Kill the first start before each of its statements."""
    program = (
        "import os, sys, sqlite3\nfrom tercet.serve import taught\n"
        "class Dying:\n"
        "    def __init__(self, real): self.real, self.left = real, int(sys.argv[2])\n"
        "    def execute(self, *given):\n"
        "        if self.left == 0: os.kill(os.getpid(), 9)\n"
        "        self.left -= 1\n"
        "        return self.real.execute(*given)\n"
        "    def __getattr__(self, name): return getattr(self.real, name)\n"
        "connect = taught.connect\n"
        "taught.connect = lambda *given: Dying(connect(*given))\n"
        "taught.TaughtStore(sys.argv[1]); print('done')\n"
    )
    ends = []
    for n_statements in range(0, 30, 3):
        path = tmp_path / str(n_statements) / "taught.db"
        done = subprocess.run(
            [sys.executable, "-c", program, path, str(n_statements)], capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, -9), done.stderr
        ends.append(done.returncode)
        with TaughtStore(path) as store:
            assert store.add("ann", "prefer", "tea", PAIRS).number == 1
    assert -9 in ends
    assert ends[-1] == 0


def test_a_log_that_was_torn_by_a_power_cut_loses_nothing_that_was_synced(tmp_path):
    """Cut the write-ahead log at each page and within: whole transactions are there, and the next start goes on."""
    live = tmp_path / "live" / "taught.db"
    sizes: list[tuple[int, int]] = []
    with TaughtStore(live) as store:
        log = live.with_name("taught.db-wal")
        for i in range(12):
            store.add("ann", "prefer", f"query {i}", PAIRS)
            sizes.append((log.stat().st_size, i + 1))
        shutil.copytree(live.parent, tmp_path / "copy")
    whole = (tmp_path / "copy" / "taught.db-wal").read_bytes()
    for size in sorted({*range(0, len(whole), 1361), *(size for size, _ in sizes)}):
        for torn in (whole[:size], whole[:size] + b"\0" * (len(whole) - size)):
            cut = tmp_path / "cut"
            shutil.rmtree(cut, ignore_errors=True)
            shutil.copytree(tmp_path / "copy", cut)
            (cut / "taught.db-shm").unlink(missing_ok=True)  # which never outlives the power
            (cut / "taught.db-wal").write_bytes(torn)
            n_synced = max((n for end, n in sizes if end <= size), default=0)
            with TaughtStore(cut / "taught.db") as store:
                actions = store.since(0).actions
                assert len(actions) >= n_synced
                assert [action.query for action in actions] == [f"query {i}" for i in range(len(actions))]
                assert store.add("ann", "prefer", "more", PAIRS).number == len(actions) + 1


def test_a_full_disk_acknowledges_nothing_and_goes_on_when_there_is_room(tmp_path):
    with TaughtStore(tmp_path / "taught.db") as store:
        store.add("ann", "prefer", "tea", PAIRS)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="full"):
            fill(store)
        kept = len(store.since(0).actions)
        store._connection.execute("PRAGMA max_page_count = 100000")
        assert store.add("ann", "prefer", "more", PAIRS).number == kept + 1 == store.n_actions


def test_a_backup_is_made_while_a_service_writes(tmp_path):
    made_index(tmp_path / "index")
    with TaughtStore(tmp_path / "index.taught.db") as store:
        for i in range(50):
            store.add("ann", "prefer", f"query {i}", PAIRS)
        assert back_up(store.path, tmp_path / "copy.db") == 50
        with pytest.raises(FormatError, match="is there already"):
            back_up(store.path, tmp_path / "copy.db")
        command = ["serve", str(tmp_path / "index"), "--back-up", str(tmp_path / "second.db")]
        done = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert (done.exit_code, "50 actions" in done.output) == (0, True)
    assert listed(tmp_path / "copy.db") == listed(tmp_path / "second.db") == listed(tmp_path / "index.taught.db")
    with TaughtStore(tmp_path / "copy.db") as store:
        assert store.id == read_taught(tmp_path / "index.taught.db").store


@pytest.mark.slow
def test_two_services_of_one_index_and_what_the_second_says(tmp_path):
    made_index(tmp_path / "index")
    with running(tmp_path / "index") as service:
        done = CliRunner().invoke(cli, ["serve", str(tmp_path / "index"), "--port", "0"])
        assert done.exit_code == 1
        assert f"is held by process {service.process.pid} on " in done.output
