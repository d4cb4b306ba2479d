"""What goes far back counts at once, and comes to the bits of a replay from nothing, kills in between or not."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.teaching import interim
from support.drawn_journals import journals
from support.serving import checked, eventually, made_docs, made_index, noisy, preferred, served, withdrawn
from tercet.errors import EngineError
from tercet.kernels.votes import LOOKED_UP
from tercet.serve import Learner, LearningBounds, Version, messages, read_journal, replay
from tercet.serve.interim import Interim
from tercet.serve.journal import Entry
from tercet.serve.replay import Replay
from tercet.serve.service import Service
from tercet.serve.snapshots import Stamp
from tercet.store.digest import digest_of

INDEX = made_index()
DOCS = list(made_docs())
TIGHT = LearningBounds(client=0.3, teacher=0.3, step=0.1, weight=0.05, pairs=8)
QUERY = "green avocado"


@pytest.fixture
def always(monkeypatch):
    """Whatever goes back at all is served in the interim way before."""
    monkeypatch.setattr("tercet.serve.learner._INTERIM_SECONDS", 0.0)


@contextmanager
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Exact replays that go back wait for an event, which is set at the end."""
    go_back, free = Replay._go_back, threading.Event()

    def waits(self: Replay, ballot: int) -> int:
        assert free.wait(120)
        return go_back(self, ballot)

    with monkeypatch.context() as patched:
        patched.setattr(Replay, "_go_back", waits)
        try:
            yield free
        finally:
            free.set()


def bits(state: Replay) -> list[object]:
    matrix, served = state.overlay.matrix(), state.matrix()
    assert digest_of(matrix) == digest_of(served)
    return [digest_of(matrix), state.steps(), state.inactive]


def replayed(entries: list[Entry], bounds: LearningBounds) -> Replay:
    whole = Replay(INDEX, bounds)
    whole.apply(entries)
    return whole


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(journals(), st.data(), st.sampled_from([LearningBounds(), TIGHT]))
def test_the_interim_is_what_plain_python_gives_and_then_the_bits_of_a_replay(entries, data, bounds):
    first, second, third = sorted(data.draw(st.integers(0, len(entries))) for _ in range(3))
    portions = [entries[first:second], entries[second:third], entries[third:]]
    state = replayed(entries[:first], bounds)
    state._votes_at_once = lambda: 2
    between = Interim(state)
    come: list[list[Entry]] = []

    def meanwhile() -> None:
        """The next portion comes, at first to who has none of it, then while the one before is learned exactly."""
        if len(come) < 3:
            come.append(portions[len(come)])
            state.prepare(come[-1])
            between.apply(come[-1])
            expected = interim(INDEX, entries[:first], come, bounds)
            assert np.allclose(between.matrix.toarray(), expected, atol=1e-4 * max(1e-3, np.abs(expected).max()))

    meanwhile()
    state.apply(portions[0], meanwhile)
    assert bits(state) == bits(replayed(entries[:second], bounds))
    for _ in portions:
        meanwhile()
    state.apply(entries[second:])
    assert bits(state) == bits(replayed(entries, bounds))
    assert between.inactive == state.inactive


def test_what_is_taken_back_is_out_at_once():
    entries = noisy(300, lambda n: f"10.0.{n % 7}.1", "teacher", hours=300.0)
    state = replayed(entries[:100], LearningBounds())
    before = state.matrix().toarray()
    state.apply([preferred(101, "toast of the dark river", DOCS[3], DOCS[9], trust="teacher", hours=101.0)])
    step = state.matrix().toarray() - before
    state.apply(entries[101:])
    served, own = state.matrix().toarray(), np.nonzero(step)
    within = np.abs(served)[own] < 0.9 * state.overlay.unit
    assert within.any()
    between = Interim(state)
    assert between.apply([withdrawn(301, 101)]) == {301: ()}
    found = between.matrix.toarray()
    assert np.allclose(found[own][within], (served - step)[own][within], atol=1e-6)
    assert (found == served)[step == 0].all()
    assert between.inactive == {101}


def test_weights_that_a_step_alone_made_are_gone_without_a_trace():
    entries = [preferred(1, QUERY, DOCS[3], DOCS[9]), preferred(2, "blue sky", DOCS[1], DOCS[4])]
    between = Interim(replayed(entries, LearningBounds()))
    between.apply([withdrawn(3, 1)])
    only = replayed(entries[1:], LearningBounds())
    assert between.matrix.nnz == only.matrix().nnz
    assert np.allclose(between.matrix.toarray(), only.matrix().toarray(), atol=1e-7)


def test_a_learner_serves_the_interim_then_the_exact(always, monkeypatch):
    entries = noisy(60, lambda n: f"10.0.0.{n % 5}", "teacher", hours=60.0)
    learner = Learner(INDEX, entries)
    monkeypatch.setattr(Replay, "_votes_at_once", lambda _: 7)
    said = entries[1]
    coming = [
        preferred(62, said.query, said.better, said.worse, "10.0.0.9", "teacher", 61.0),
        preferred(63, "pale oil", DOCS[2], DOCS[3]),
        withdrawn(64, 62),
        withdrawn(65, 63, 5),
    ]
    came: list[Entry] = []
    seen = []
    serve_later = learner._serve_later

    def later() -> bool:
        """While the first is learned again, an old question is asked, then a new one, and both are taken back."""
        if len(came) == len(coming):
            return serve_later()
        number = learner.current.number
        came.append(coming[len(came)])
        applied = learner.tell(came[-1])
        assert serve_later()
        version = applied.result(timeout=0)
        assert (version.number, version.exact, version.name) == (number + 1, False, f"v{number + 1}~")
        seen.append(version)
        return True

    monkeypatch.setattr(learner, "_serve_later", later)
    try:
        first = learner.tell(withdrawn(61, 2)).result(timeout=120)
        assert (first.name, first.exact, first.inactive) == ("v61~", False, {2})
        assert eventually(lambda: learner.current.exact)
        found, expected = learner.current, replay(INDEX, [*entries, withdrawn(61, 2), *came])
        assert [version.inactive for version in seen] == [{2}, {2}, {2, 62}, {2, 62, 63, 5}]
        assert seen[0].outcomes[62][0].reason in ("learned", "ahead", "bounded")
        assert (found.number, found.digest, found.inactive) == (65, expected.digest, expected.inactive)
    finally:
        learner.close()


def test_an_undo_that_goes_far_back_is_told_and_seen_at_once(tmp_path, always, monkeypatch):
    with served(tmp_path / "journal.jsonl", INDEX) as (api, service):
        first, second, *_ = (hit["id"] for hit in api.get("/search", params={"q": QUERY}).json()["learned"])
        given = {"query": QUERY, "better": second, "worse": first}
        taught = checked(api.post("/prefer", json=given), messages.Taught, 202)
        assert api.get("/search", params={"q": QUERY}).json()["learned"][0]["id"] == second
        for other in ("d4", "d5", "d6"):
            api.post("/prefer", json={"query": "blue sky", "better": other, "worse": "d8"})
        with held(monkeypatch):
            output = checked(api.post("/undo", json={"entry": taught["entry"]}), messages.TakenBack, 202)
            assert (output["version"], output["applied"], output["ready_in"], output["exact_in"]) == (
                "v5~",
                True,
                0.0,
                0.1,
            )
            answer = checked(api.get("/search", params={"q": QUERY}), messages.SearchAnswer)
            assert answer["version"] == "v5~"
            assert [hit["id"] for hit in answer["learned"][:2]] == [first, second]
            health = checked(api.get("/health"), messages.Health)
            assert (health["version"], health["exact_in"]) == ("v5~", 0.1)
            assert "tercet_version_exact 0.0" in api.get("/metrics").text
        assert eventually(lambda: api.get("/health").json()["version"] == "v5")
        assert api.get("/health").json()["exact_in"] == 0.0
        assert service.version.digest == replay(INDEX, read_journal(tmp_path / "journal.jsonl").entries).digest


@pytest.mark.slow
@pytest.mark.parametrize("at_start", [False, True])
def test_a_kill_before_it_is_exact_gives_the_exact_bits(tmp_path, always, monkeypatch, at_start):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    journal = tmp_path / "one" / "journal.jsonl"
    journal.parent.mkdir()
    service = Service(INDEX, journal, snapshot_every=5)
    for entry in noisy(32, lambda n: f"10.0.0.{n % 3}", "teacher", hours=32.0):
        service.reloader.record(lambda _, entry=entry: entry)[1].result(timeout=120)
        assert eventually(lambda: service.version.exact)  # so that none is being saved after the last one
    with held(monkeypatch):
        interim_version = service.reloader.record(lambda number: withdrawn(number, 4))[1].result(timeout=120)
        assert not interim_version.exact
        shutil.copytree(tmp_path / "one", tmp_path / "two")  # what a kill leaves
        killed = tmp_path / "two" / "journal.jsonl"
        if at_start:  # another one, while the start has not learned it exactly
            again = Service(INDEX, killed, snapshot_every=5)
            assert again.version.number == 33
            shutil.copytree(tmp_path / "two", tmp_path / "three")
            killed = tmp_path / "three" / "journal.jsonl"
    service.close()
    if at_start:
        again.close()
    last = Service(INDEX, killed, snapshot_every=5)
    try:
        assert eventually(lambda: last.version.exact)
        expected = replay(INDEX, read_journal(killed).entries)
        assert (last.version.number, last.version.digest) == (33, expected.digest)
        assert last.version.inactive == {4}
        assert interim_version.digest != expected.digest  # or this would show nothing
    finally:
        last.close()


def test_a_start_serves_what_came_after_the_snapshot_at_once(tmp_path, always, monkeypatch):
    journal = tmp_path / "journal.jsonl"
    service = Service(INDEX, journal, snapshot_every=10)
    for entry in noisy(10, lambda n: "10.0.0.1", "teacher", hours=10.0):
        service.reloader.record(lambda _, entry=entry: entry)[1].result(timeout=120)
    service.close()
    folder = journal.with_name("journal.snapshots")
    shutil.copytree(folder, tmp_path / "aside")
    service = Service(INDEX, journal, snapshot_every=10)
    service.reloader.record(lambda number: withdrawn(number, 2))
    service.reloader.record(lambda number: preferred(number, "blue sky", DOCS[1], DOCS[2]))
    service.close()
    shutil.rmtree(folder)
    (tmp_path / "aside").rename(folder)
    with held(monkeypatch):
        service = Service(INDEX, journal, snapshot_every=10)
        assert (service.version.name, service.version.inactive) == ("v12~", {2})
        assert service.learner.exact_in(service.version) > 0
    try:
        assert eventually(lambda: service.version.exact)
        assert service.version.digest == replay(INDEX, read_journal(journal).entries).digest
    finally:
        service.close()


@contextmanager
def saving_held(monkeypatch: pytest.MonkeyPatch, service: Service) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Snapshots wait for the second event, which is set at the end; the first one says that one waits."""
    entered, free = threading.Event(), threading.Event()
    save = service.reloader._snapshots._write

    def slow(*given: object) -> bool:
        entered.set()
        assert free.wait(120)
        return save(*given)

    with monkeypatch.context() as patched:
        patched.setattr(service.reloader._snapshots, "_write", slow)
        try:
            yield entered, free
        finally:
            free.set()
            service.close()


def test_what_comes_while_a_snapshot_is_saved_counts_meanwhile(tmp_path, monkeypatch):
    service = Service(INDEX, tmp_path / "journal.jsonl", snapshot_every=3)
    with saving_held(monkeypatch, service) as (entered, free):
        for entry in noisy(3, lambda n: "10.0.0.1", "teacher", hours=3.0):
            service.reloader.record(lambda _, entry=entry: entry)[1].result(timeout=120)
        assert entered.wait(120)
        version = service.reloader.record(lambda number: withdrawn(number, 1))[1].result(timeout=120)
        assert (version.name, version.inactive) == ("v4~", {1})
        free.set()
        assert eventually(lambda: service.version.exact)
        expected = replay(INDEX, read_journal(tmp_path / "journal.jsonl").entries)
        assert service.version.digest == expected.digest
    again = Service(INDEX, Path(tmp_path / "journal.jsonl"), snapshot_every=3)
    assert again.version.digest == expected.digest
    again.close()


def test_what_counted_in_an_interim_goes_on_to_count_while_a_snapshot_is_saved(tmp_path, always, monkeypatch):
    service = Service(INDEX, tmp_path / "journal.jsonl", snapshot_every=10)

    def take_back(entry: int) -> Future[Version]:
        return service.reloader.record(lambda number: withdrawn(number, entry))[1]

    with saving_held(monkeypatch, service) as (entered, free):
        for entry in noisy(9, lambda n: "10.0.0.1", "teacher", hours=9.0):
            service.reloader.record(lambda _, entry=entry: entry)[1].result(timeout=120)
        with held(monkeypatch):
            assert take_back(2).result(timeout=120).name == "v10~"
            second = take_back(3)  # counts as soon as the first is learned, and is itself not learned then
        assert (second.result(timeout=120).name, second.result().inactive) == ("v11~", {2, 3})
        assert entered.wait(120)  # what has the first only is saved
        third = take_back(4).result(timeout=120)
        assert (third.name, third.inactive) == ("v12~", {2, 3, 4})
        free.set()
        assert eventually(lambda: service.version.exact)
        assert service.version.digest == replay(INDEX, read_journal(tmp_path / "journal.jsonl").entries).digest


def test_nothing_is_saved_that_looking_up_would_change_meanwhile(tmp_path, always, monkeypatch):
    service = Service(INDEX, tmp_path / "journal.jsonl", snapshot_every=3)
    write, look_up = service.reloader._snapshots._write, Replay._look_up_some
    saved: list[tuple[int, set[int]]] = []
    refused: list[int] = []
    there = threading.Event()

    def look_up_where_it_is_there(self: Replay, some: np.ndarray) -> None:
        if not there.is_set():
            refused.append(some.size)
            raise EngineError("the engine is away")
        look_up(self, some)

    def note(stamp: Stamp, arrays: dict[str, np.ndarray]) -> bool:
        saved.append((stamp.number, set(arrays["questions.known"].tolist())))
        return write(stamp, arrays)

    monkeypatch.setattr("tercet.serve.learner._ENGINE_AWAY_SECONDS", 0.01)
    monkeypatch.setattr(service.reloader._snapshots, "_write", note)
    try:
        for entry in noisy(2, lambda n: "10.0.0.1", "teacher", hours=2.0):
            service.reloader.record(lambda _, entry=entry: entry)[1].result(timeout=120)
        monkeypatch.setattr(Replay, "_look_up_some", look_up_where_it_is_there)
        with held(monkeypatch):
            assert service.reloader.record(lambda number: withdrawn(number, 1))[1].result(timeout=120).name == "v3~"
            last = service.reloader.record(lambda number: preferred(number, QUERY, DOCS[7], DOCS[8]))[1]
        assert eventually(lambda: len(refused) > 1)  # while the first was learned, and when it was
        there.set()
        last.result(timeout=120)
    finally:
        there.set()
        service.close()
    assert saved == [(4, {LOOKED_UP})]
