"""New documents and models are served without a restart, as a whole; what is bad is refused, and the old goes on."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tercet as tc
from support.serving import client_of, eventually, made_docs, made_index, running
from tercet.errors import InputError
from tercet.search import Index
from tercet.search.promotions import Evidence
from tercet.serve import messages, read_taught
from tercet.serve.service import Service
from tercet.serve.watched import Watched
from tercet.weights import Identity, Weights

QUERY = "green avocado"
NEW = {"new": "green avocado green avocado green avocado"}


@contextmanager
def living(tmp_path: Path, look_seconds: float = 0.0):
    """A service of an index on disk, which looks when it is told to."""
    source = Watched(tmp_path / "index", lambda: Index.open(tmp_path / "index"))
    service = Service(source.open(), tmp_path / "taught.db", source=source, look_seconds=look_seconds)
    try:
        with client_of(service) as api:
            yield api, service
    finally:
        service.close()


def found(api: Any, k: int = 10) -> list[str]:
    return [hit["id"] for hit in api.get("/search", params={"q": QUERY, "k": k}).json()["learned"]]


@pytest.mark.slow
def test_new_documents_are_served_and_what_was_taught_is_kept(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        before = found(api)
        api.post("/prefer", json={"query": QUERY, "better": before[4], "worse": before[0]})
        api.post("/prefer", json={"query": QUERY, "better": "gone", "worse": before[0]})
        health = api.get("/health").json()
        messages.Health.model_validate(health)
        assert not service.reloader.look()
        Index.open(tmp_path / "index").add(NEW)
        assert "new" not in found(api)
        assert service.reloader.look()
        assert found(api)[0] == "new"
        after = api.get("/health").json()
        assert (after["documents"], after["refused"]) == (health["documents"] + 1, None)
        assert after["index"] != health["index"]
        assert after["model"] == health["model"]
        assert api.get("/search", params={"q": QUERY}).json()["index"] == after["index"]
        assert api.get("/collection").json()["documents"] == after["documents"]
        assert api.get("/documents?id=new").json()["text"] == NEW["new"]
        Index.open(tmp_path / "index").remove([before[4]])
        assert service.reloader.look()
        assert before[4] not in found(api, 100)
        assert api.get("/explain", params={"q": QUERY, "doc": before[4]}).status_code == 404
        expected = found(api, 100)
    with living(tmp_path) as (api, _):
        assert found(api, 100) == expected, "a restart learns the same"


def test_a_preference_after_a_reload_is_learned_over_the_new_documents(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        last = found(api)[-1]
        Index.open(tmp_path / "index").add(NEW)
        service.reloader.look()
        answer = api.post("/prefer", json={"query": QUERY, "better": last, "worse": "new"}).json()
        assert answer["served"]
        ranked = found(api, 100)
        assert ranked.index(last) < ranked.index("new")


def test_a_damaged_index_is_refused_and_a_repaired_one_taken(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        before = found(api)
        Index.open(tmp_path / "index").add(NEW)
        segments = sorted((tmp_path / "index" / "segments").iterdir())
        arrays = next(segments[-1].glob("*.safetensors"))
        whole = arrays.read_bytes()
        arrays.write_bytes(whole[:-8] + bytes(8 * [255]))
        assert not service.reloader.look()
        health = api.get("/health")
        assert health.status_code == 200
        assert health.json()["refused"].startswith("DamagedBundleError")
        assert str(tmp_path) not in health.text
        assert found(api) == before
        assert "tercet_refused 1.0\n" in api.get("/metrics").text
        arrays.write_bytes(whole)
        assert not service.reloader.look()  # no manifest has changed
        assert service.reloader.look(anew=True)
        assert found(api)[0] == "new"
        assert api.get("/health").json()["refused"] is None
        shutil.rmtree(tmp_path / "index")
        assert not service.reloader.look()
        assert api.get("/health").json()["refused"] is not None
        assert found(api)[0] == "new"


def test_an_index_that_is_made_anew_brings_its_own_model(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        model = api.get("/health").json()["model"]
        Index.build({"a": "zebra crossing", "b": "zebra"}, path=tmp_path / "index")
        assert service.reloader.look()
        assert [hit["id"] for hit in api.get("/search", params={"q": "zebra"}).json()["learned"]] == ["b", "a"]
        assert api.get("/health").json()["model"] != model


@pytest.mark.slow
def test_readers_and_teachers_move_from_one_version_to_the_next_as_a_whole(tmp_path):
    """While an index changes eight times, each answer is that of the index it names, and no preference is lost."""
    made_index(tmp_path / "index")
    ids = list(made_docs())
    documents: dict[str, set[str]] = {}
    answers: list[dict[str, Any]] = []
    acknowledged: list[int] = []
    stopping = threading.Event()
    with living(tmp_path, look_seconds=0.01) as (api, service):

        def note(index: Index) -> None:
            documents[index.digest[:12]] = set(index)

        def read() -> None:
            while not stopping.is_set():
                answers.append(api.get("/search", params={"q": QUERY, "k": 100}).json())

        def teach() -> None:
            for i in range(40):
                said = api.post("/prefer", json={"query": QUERY, "better": ids[i], "worse": ids[i + 1]})
                assert said.status_code == 202
                acknowledged.append(said.json()["action"])

        note(Index.open(tmp_path / "index"))
        threads = [threading.Thread(target=job) for job in (read, read, teach)]
        for thread in threads:
            thread.start()
        writer = Index.open(tmp_path / "index")
        for i in range(8):
            if i % 2:
                writer.remove(["new"])
            else:
                writer.add({"new": f"{QUERY} {i}"})
            note(writer)
            assert eventually(lambda: service.served.base.digest == writer.digest)
        threads[-1].join(60)
        stopping.set()
        for thread in threads:
            thread.join(60)
        assert service.reloader.refused is None
        actions = read_taught(tmp_path / "taught.db").actions
        assert acknowledged == [action.number for action in actions] == list(range(1, 41))
    assert {answer["index"] for answer in answers} <= set(documents)
    assert len({answer["index"] for answer in answers}) > 1
    for answer in answers:
        shown = {hit["id"] for system in ("learned", "baseline") for hit in answer[system]}
        assert shown <= documents[answer["index"]]
        assert ("new" in shown) == ("new" in documents[answer["index"]])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
def test_a_signal_has_the_index_looked_at(tmp_path):
    made_index(tmp_path / "index")
    with running(tmp_path / "index", "--look-every", "0", patience=240) as service:
        Index.open(tmp_path / "index").add(NEW)
        assert "new" not in service.ask("/search?q=green+avocado").body.decode()
        service.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: service.ask("/search?q=green+avocado").json()["learned"][0]["id"] == "new")
        # Made anew, so that nothing of what it began with is there any more, neither on disk nor mapped.
        Index.build({"other": "green avocado"}, Index.open(tmp_path / "index").model, tmp_path / "index")
        service.process.send_signal(signal.SIGHUP)
        assert eventually(lambda: service.ask("/search?q=green+avocado").json()["learned"][0]["id"] == "other")
        if sys.platform == "linux":
            assert mapped_files(service.process.pid, tmp_path / "index")
            assert eventually(
                lambda: not any("(deleted)" in line for line in mapped_files(service.process.pid, tmp_path / "index")),
                seconds=20.0,
            )
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0


def mapped_files(process: int, folder: Path) -> list[str]:
    """What a process has mapped of the files of a folder, those that are deleted marked as such."""
    return [line for line in Path(f"/proc/{process}/maps").read_text().splitlines() if str(folder) in line]


def other_model(index: Index, scale: float = 3.0) -> tc.TextModel:
    return replace(index.model, weights=Weights([Identity(n_terms=index.model.weights.shape[0], scale=scale)]))


@pytest.mark.slow
def test_a_promotion_is_served_without_a_restart_and_what_was_taught_counts_on(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        learned = found(api)
        api.post("/prefer", json={"query": QUERY, "better": learned[4], "worse": learned[0]})
        taught, label = found(api), api.get("/health").json()["model"]
        index.promote(other_model(index))
        assert service.reloader.look()
        assert not service.reloader.look(anew=True)
        ranked = found(api, 60)
        assert ranked.index(learned[4]) < ranked.index(learned[0])
        assert api.get("/health").json()["model"] == index.promotions[0].after[:12] != label
        index.take_back()
        assert service.reloader.look()
        assert found(api) == taught


@pytest.mark.slow
def test_a_rule_promotes_over_what_is_served_and_nothing_else(tmp_path):
    index = made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        entry = service.reloader.promote(other_model(index), Evidence(30, 10, 2))
        assert (entry.by, entry.evidence) == ("rule", Evidence(30, 10, 2))
        assert api.get("/health").json()["model"] == entry.after[:12]
        assert found(api) == [hit.doc_id for hit in Index.open(tmp_path / "index").search(QUERY)]
        assert not service.reloader.look(anew=True)
        by_hand = Index.open(tmp_path / "index").promote(other_model(index, 5.0))
        with pytest.raises(InputError, match="nothing was changed"):
            service.reloader.promote(other_model(index, 7.0), Evidence(30, 10, 2))
        assert Index.open(tmp_path / "index").promotions == (entry, by_hand)
        assert service.reloader.look()
