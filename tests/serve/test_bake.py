"""What was taught becomes part of a model: the same answers, no entry applied twice, and none lost."""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import tercet as tc
from support.serving import made_docs, made_index, preferred, refused
from tercet.errors import FormatError, InputError, JournalError
from tercet.fitting.text_model import Baked
from tercet.search import Index
from tercet.serve import Journal, Limits, Version, bake, journal_file, read_journal, replay
from tercet.serve.app import create_app
from tercet.serve.generations import IndexSource
from tercet.serve.journal import Clicked, Entry, Renewed, Withdrawn
from tercet.serve.journal_chain import archive_path
from tercet.serve.service import Service

TIME = "2026-01-01T00:00:00Z"
INDEX, LATENT = made_index(), made_index(latent=True)
IDS = list(made_docs())
QUERIES = ["green avocado", "blue sky toast", "lutein", "red stone river"]


@pytest.fixture(autouse=True, scope="module")
def quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def random_entries(seed: int, n: int, first: int = 1) -> list[Entry]:
    rng = np.random.default_rng(seed)
    entries: list[Entry] = []
    for number in range(first, first + n):
        query, shown = QUERIES[rng.integers(len(QUERIES))], [str(doc) for doc in rng.choice(IDS, 3, replace=False)]
        trust = (None, "visitor", "teacher")[rng.integers(3)]
        kind = rng.random()
        if kind < 0.2 and number > first:
            gone = tuple(int(each) for each in rng.integers(first, number, 2))
            entries.append(Withdrawn(number, TIME, "10.0.0.1", "undo", gone))
        elif kind < 0.5:
            entries.append(Clicked(number, TIME, "10.0.0.1", query, tuple(shown), (shown[2],), trust))
        else:
            entries.append(preferred(number, query, shown[0], shown[1], trust=trust, hours=number))
    return entries


def written(path: Path, entries: list[Entry]) -> Path:
    with Journal(path) as journal:
        for entry in entries:
            journal.append(lambda number, entry=entry: entry)
    return path


def scores(index: Index) -> dict[str, dict[str, float]]:
    """All scores of all queries, to the bit."""
    return index.search_many({query: query for query in QUERIES}, k=len(IDS))


def saved(model: tc.TextModel, path: Path) -> tc.TextModel:
    model.save(path)
    return tc.load(path)


def check_baked_twice(folder: Path, seed: int, n: int, index: Index) -> None:
    """Answers after are those of before, also when it is baked again; over the model of before all entries count."""
    path = written(folder / "journal.jsonl", random_entries(seed, n))
    entries = read_journal(path).entries
    before = replay(index, entries)
    once = index.with_model(saved(bake(index, entries), folder / "once"))
    after = replay(once, entries)
    assert (after.number, after.n_baked, after.overlay.nnz) == (n, n, 0)
    assert scores(after.index) == scores(before.index)
    if seed % 2:
        with Journal(path) as journal:
            assert journal.compact(n)
    written(path, random_entries(seed + 1, n, first=n + 1))
    entries = read_journal(path).entries
    before = replay(once, entries)
    assert (before.number, before.n_baked) == (2 * n, n)
    model = saved(bake(once, entries), folder / "twice")
    assert scores(replay(once.with_model(model), entries).index) == scores(before.index)
    assert model.baked == (Baked(2 * n, read_journal(path).last_sum),)
    assert len(model.weights.parts) <= len(index.model.weights.parts) + 1  # one overlay
    whole = random_entries(seed, n) + random_entries(seed + 1, n, first=n + 1)
    assert replay(index, entries).digest == replay(index, whole).digest
    assert entries == whole


@pytest.mark.parametrize(("seed", "index"), [(0, INDEX), (1, LATENT)])
def test_answers_after_are_those_of_before(tmp_path, seed, index):
    check_baked_twice(tmp_path, seed, 8, index)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 25), latent=st.booleans())
def test_answers_after_are_those_of_before_whatever_was_taught(tmp_path_factory, seed, n, latent):
    check_baked_twice(tmp_path_factory.mktemp("bake"), seed, n, LATENT if latent else INDEX)


def test_entries_of_another_journal_are_not_left_out(tmp_path):
    taught = read_journal(written(tmp_path / "one.jsonl", random_entries(1, 9))).entries
    foreign = read_journal(written(tmp_path / "other.jsonl", random_entries(2, 12))).entries
    short = read_journal(written(tmp_path / "short.jsonl", random_entries(1, 5))).entries
    index = INDEX.with_model(bake(INDEX, taught))
    version = replay(index, foreign)
    assert (version.n_baked, version.number) == (0, 12)
    assert version.digest == replay(index, list(foreign)).digest
    assert replay(index, short).n_baked == 0  # it is not known to be the beginning of that one
    both = bake(index, foreign)
    assert both.baked == (Baked(9, taught.sum_after(9)), Baked(12, foreign.sum_after(12)))
    for entries in (taught, foreign):
        assert replay(index.with_model(both), entries).n_baked == len(entries)
    with pytest.raises(InputError, match="nothing to bake"):
        bake(index, taught)


def test_a_journal_is_compacted_and_goes_on(tmp_path):
    entries = random_entries(3, 10)
    path = written(tmp_path / "journal.jsonl", entries)
    with Journal(path) as journal:
        seen = journal.entries
        assert not journal.compact(0)
        assert journal.compact(4)
        assert not journal.compact(4)
        assert not journal.compact(11)
        assert (journal.n_archived, len(journal), len(journal.entries)) == (4, 10, 10)
        journal.append(lambda number: preferred(number, "sky", "d1", "d2"))
        assert journal.compact(7)
        assert seen == entries  # whoever looks at it keeps what it had
        assert journal.n_bytes == path.stat().st_size
        last = journal.append(lambda number: preferred(number, "sky", "d1", "d2"))
        assert last.number == 12
        with pytest.raises(JournalError, match="in use by another"):
            Journal(path)
    kept = read_journal(path)
    assert kept.entries[:10] == entries
    assert kept.entries[10:] == [preferred(number, "sky", "d1", "d2") for number in (11, 12)]
    assert [entry.number for entry in kept.entries[3:9]] == [4, 5, 6, 7, 8, 9]
    assert (kept.entries[0].number, kept.entries[-1].number) == (1, 12)
    archives = ["journal-000000004.jsonl", "journal-000000007.jsonl"]
    assert sorted(os.listdir(tmp_path)) == [*archives, "journal.jsonl", "journal.last"]
    assert all(each.stat().st_mode & 0o077 == 0 for each in tmp_path.iterdir())
    archive = archive_path(path, 4)
    whole = archive.read_bytes()
    assert [entry.number for entry in read_journal(archive).entries] == [1, 2, 3, 4]
    archive.write_bytes(whole[: whole.rfind(b"\n", 0, -1) + 1])
    with pytest.raises(JournalError, match="not the archive"):
        list(read_journal(path).entries)
    archive.unlink()
    with pytest.raises(JournalError, match=r"000000004\.jsonl is missing"):
        list(read_journal(path).entries)
    assert len(read_journal(path).entries[7:]) == len(list(read_journal(path).entries[7:])) == 5
    path.write_bytes(path.read_bytes().replace(b'"archived": 7', b'"archived": 8'))
    with pytest.raises(FormatError, match="expected entry 9"):
        read_journal(path)
    path.write_bytes(b'{"tercet-journal": 2}\n')
    with pytest.raises(FormatError, match="a journal begins with"):
        read_journal(path)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["write", "replace", "close"])
def test_a_kill_at_any_step_of_compaction_loses_nothing(tmp_path, call, monkeypatch):
    """What a kill leaves before and after each step: entries, sums and what is replayed are those of before."""
    entries = random_entries(4, 12)
    whole = read_journal(written(tmp_path / "journal.jsonl", entries))
    index = INDEX.with_model(bake(INDEX, whole.entries[:8]))
    digests = [replay(base, whole.entries).digest for base in (INDEX, index)]
    left: list[dict[str, bytes]] = []
    real = getattr(os, call)

    def noted(*args: Any) -> Any:
        left.append({each.name: each.read_bytes() for each in tmp_path.iterdir()})
        result = real(*args)
        left.append({each.name: each.read_bytes() for each in tmp_path.iterdir()})
        return result

    with Journal(tmp_path / "journal.jsonl") as journal, monkeypatch.context() as patch:
        patch.setattr(journal_file.os, call, noted)
        assert journal.compact(8)
        patch.undo()
        left.append({each.name: each.read_bytes() for each in tmp_path.iterdir()})
    for i, files in enumerate(left):
        folder = tmp_path / f"killed{i}"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        with Journal(folder / "journal.jsonl") as journal:
            assert journal.entries == entries
            assert [replay(base, journal.entries).digest for base in (INDEX, index)] == digests
            journal.append(lambda number: preferred(number, "sky", "d1", "d2"))
            journal.compact(8)
            assert journal.compact(9)
        kept = read_journal(folder / "journal.jsonl").entries
        assert kept[:12] == entries
        assert kept[12].number == 13


def test_a_disk_that_refuses_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    entries = random_entries(5, 6)
    path = written(tmp_path / "journal.jsonl", entries)
    with Journal(path) as journal:
        for nth in (0, 1):
            times = [nth]

            def full(*args: Any, real: Any = os.replace, times: list[int] = times) -> None:
                times[0] -= 1
                if times[0] < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                real(*args)

            with monkeypatch.context() as patch:
                patch.setattr(journal_file.os, "replace", full)
                with pytest.raises(JournalError, match="cannot be compacted: No space left"):
                    journal.compact(3)
            assert (journal.n_archived, journal.entries == entries) == (0, True)
        journal.append(lambda number: preferred(number, "sky", "d1", "d2"))
        assert journal.compact(7)
    assert len(list(read_journal(path).entries)) == 7


# -- the service ----------------------------------------------------------------------------------------------------


@contextmanager
def living(folder: Path):
    source = IndexSource(folder / "index")
    service = Service(
        source.open(),
        folder / "journal.jsonl",
        Limits(write_burst=10_000, deadline_ms=60_000),
        source=source,
        look_seconds=0.0,
    )
    try:
        with TestClient(create_app(service), base_url="http://127.0.0.1:8080", client=("10.0.0.1", 5000)) as api:
            yield api, service
    finally:
        service.close()


def shown(api: Any) -> list[list[tuple[str, float]]]:
    answers = (api.get("/search", params={"q": query, "k": 100}).json() for query in QUERIES)
    return [[(hit["id"], hit["score"]) for hit in answer["learned"]] for answer in answers]


def teach(api: Any, n: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(n):
        better, worse = (str(doc) for doc in rng.choice(IDS, 2, replace=False))
        query = QUERIES[rng.integers(len(QUERIES))]
        assert api.post("/prefer", json={"query": query, "better": better, "worse": worse}).status_code == 202


def settled(service: Service) -> Version:
    """The version that has all entries, also those that nobody waited for."""
    end = time.monotonic() + 20
    while service.version.number < len(service.journal):
        assert time.monotonic() < end
        time.sleep(0.01)
    return service.version


def renewals(service: Service) -> list[str]:
    return [entry.reason for entry in service.journal.entries if isinstance(entry, Renewed)]


def replayed(folder: Path) -> Version:
    return replay(Index.open(folder / "index"), read_journal(folder / "journal.jsonl").entries)


@pytest.mark.slow
def test_a_service_takes_up_a_baked_model_and_gets_it_back_when_that_is_taken_back(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        teach(api, 8)
        before = shown(api)
        index.promote(bake(service.index, read_journal(tmp_path / "journal.jsonl").entries))
        assert service.reloader.look()
        assert (service.version.n_baked, service.version.overlay.nnz, service.journal.n_archived) == (8, 0, 8)
        assert shown(api) == before
        assert renewals(service) == ["promote", "bake"]
        assert settled(service).name == "v10"
        assert "tercet_learner_backlog 0" in api.get("/metrics").text
        said = refused(api.post("/undo", json={"entry": 3}), 409, "entry 3 cannot be taken back")
        assert "take the promotion of that model back" in said["detail"]
        assert said["type"].endswith("baked")
        refused(api.post("/undo", json={}), 409, "after entry 8")
        refused(api.post("/revoke", json={"entries": [2]}), 409, "entry 2")
        refused(api.post("/revoke", json={"client": "10.0.0.1"}), 409, "none of these")
        refused(api.post("/undo", json={"entry": 99}), 404, "entry 99")
        assert [each["entry"] for each in api.get("/versions").json()["versions"]] == [10, 9]
        teach(api, 3, seed=1)
        assert api.post("/undo", json={}).json()["withdrawn"] == [13]
        after = shown(api)
        assert after != before
        assert service.version.digest == replayed(tmp_path).digest
    with living(tmp_path) as (api, service):  # all of it again, from the disk
        assert shown(api) == after
        assert renewals(service) == ["promote", "bake"]
        index.take_back()
        assert service.reloader.look()
        assert settled(service).n_baked == 0
        assert service.version.digest == replayed(tmp_path).digest
        assert api.post("/undo", json={"entry": 3}).json()["withdrawn"] == [3]  # from the archive
        refused(api.post("/undo", json={"entry": 3}), 409, "not an active one")
        assert renewals(service) == ["promote", "bake", "promote"]
    entries = read_journal(tmp_path / "journal.jsonl").entries
    assert replay(made_index(), list(entries)).digest == replayed(tmp_path).digest
    with living(tmp_path) as (api, service):
        refused(api.post("/undo", json={"entry": 3}), 409, "not an active one")


@pytest.mark.slow
def test_what_was_baked_while_nothing_was_served(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        teach(api, 5)
        before = shown(api)
    with Journal(tmp_path / "journal.jsonl") as journal:
        model = bake(index, journal.entries)
        journal.compact(5)
    with living(tmp_path) as (api, service):  # not promoted: they come from the archive
        assert shown(api) == before
        assert (service.version.n_baked, service.version.number) == (0, 5)
        assert api.post("/undo", json={"entry": 2}).json()["withdrawn"] == [2]
        api.post("/prefer", json={"query": QUERIES[0], "better": IDS[0], "worse": IDS[1]})
    index.promote(model)
    with living(tmp_path) as (api, service):
        assert (settled(service).n_baked, service.version.number) == (5, 9)
        assert renewals(service) == ["promote", "bake"]
        assert service.version.digest == replayed(tmp_path).digest


def promote_what_was_taught(index: Index, service: Service) -> None:
    index.promote(bake(service.index, service.journal.entries))
    assert service.reloader.look()


@pytest.mark.slow
def test_a_lost_archive_that_no_model_needs_is_not_missed(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        teach(api, 4)
        promote_what_was_taught(index, service)
        archive_path(tmp_path / "journal.jsonl", 4).unlink()
        teach(api, 3, seed=1)
        settled(service)
        promote_what_was_taught(index, service)
        assert (service.version.n_baked, service.journal.n_archived) == (9, 9)
        assert [entry.reason for entry in service.journal.entries[9:]] == ["promote", "bake"]
    with living(tmp_path) as (_, service):
        assert len(service.journal) == 11


@pytest.mark.slow
def test_allowances_are_renewed_once_also_where_the_entry_is_archived(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        teach(api, 4)
        promote_what_was_taught(index, service)
        teach(api, 2, seed=1)
        settled(service)
        promote_what_was_taught(index, service)
        assert service.journal.n_archived == 8
    archive_path(tmp_path / "journal.jsonl", 4).unlink()  # which the model before the last one has
    with living(tmp_path) as (_, service):
        index.take_back()
        assert service.reloader.look()
        assert (settled(service).n_baked, service.version.number) == (4, 11)
        kept = service.journal.entries[4:]
        assert [entry.reason for entry in kept if isinstance(entry, Renewed)] == ["promote", "bake"] * 2 + ["promote"]
    with living(tmp_path) as (_, service):
        assert len(service.journal) == 11


@pytest.mark.slow
def test_without_its_archive_a_model_that_needs_it_is_refused(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        teach(api, 4)
        index.promote(bake(service.index, service.journal.entries))
        assert service.reloader.look()
        before = shown(api)
    archive_path(tmp_path / "journal.jsonl", 4).unlink()
    with living(tmp_path) as (api, service):
        assert shown(api) == before
        index.take_back()
        assert not service.reloader.look()
        assert shown(api) == before
        assert api.get("/health").json()["refused"].startswith("JournalError")
