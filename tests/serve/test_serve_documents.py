"""Documents added and removed over HTTP: whole, on disk, found at once, and by the write token only."""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.serving import client_of, made_index, refused, running
from tercet.search import Index
from tercet.serve import messages
from tercet.serve.guard import Access
from tercet.serve.service import Service
from tercet.serve.watched import Watched

QUERY = "green avocado"
TEXT = "green avocado green avocado green avocado"
LONG = "of-the-documents"
TOKEN = {"Authorization": f"Bearer {LONG}"}


@contextmanager
def living(tmp_path: Path, index: Index | None = None):
    source = None if index else Watched(tmp_path / "index", lambda: Index.open(tmp_path / "index"))
    opened = source.open() if source else index
    service = Service(
        opened,
        tmp_path / "taught.db",
        source=source,
        look_seconds=0.01,
    )
    try:
        with client_of(service, Access(None, {"ann": LONG})) as api:
            api.headers.update(TOKEN)
            yield api, service
    finally:
        service.close()


def found(api: Any) -> list[str]:
    return [hit["id"] for hit in api.get("/search", params={"q": QUERY, "k": 100}).json()["learned"]]


def posted(*ids: str, text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"documents": [{"id": doc_id, "text": text} for doc_id in ids], **more}


@pytest.mark.slow
def test_documents_are_added_replaced_and_removed_on_disk_and_at_once(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):
        first = found(api)
        api.post("/prefer", json={"query": QUERY, "better": first[3], "worse": first[0]})
        before = found(api)
        given = {"documents": [{"id": "../é", "text": TEXT, "stored_fields": {"year": 2011}}]}
        answer = api.post("/documents", json=given)
        assert answer.status_code == 200, answer.text
        messages.DocumentsChanged.model_validate(answer.json())
        assert (answer.json()["changed"], answer.json()["documents"]) == (1, 61)
        assert set(found(api)) == {*before, "../é"}
        assert api.get("/documents", params={"id": "../é"}).json()["stored_fields"] == {"year": 2011}
        on_disk = Index.open(tmp_path / "index")
        assert (on_disk.text("../é"), on_disk.digest[:12]) == (TEXT, answer.json()["index"])
        assert api.get("/health").json()["index"] == answer.json()["index"]
        refused(api.post("/documents", json=posted("another", "../é")), 409, "already")
        assert "another" not in Index.open(tmp_path / "index")
        assert api.post("/documents", json=posted("../é", text="blue sky", replace=True)).json()["documents"] == 61
        assert api.get("/documents", params={"id": "../é"}).json()["text"] == "blue sky"
        assert api.delete("/documents", params={"id": "../é"}).json()["documents"] == 60
        assert found(api) == before
        refused(api.delete("/documents?id=nobody"), 404, "nobody")
        assert api.delete(f"/documents?id={before[0]}").status_code == 200
        assert before[0] not in Index.open(tmp_path / "index")
        assert not service.reloader.look(anew=True)  # it has what it wrote


@pytest.mark.slow
def test_words_that_only_new_documents_have_are_found_and_taught(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, _):
        first = found(api)
        api.post("/prefer", json={"query": QUERY, "better": first[3], "worse": first[0]})
        taught, label = found(api), api.get("/health").json()["model"]
        assert api.post("/documents", json=posted("x", "y", text="<b>guava</b> juice")).status_code == 200
        assert api.get("/health").json()["model"] == label  # the same model, which knows more words
        answer = api.get("/search", params={"q": "guava"}).json()
        assert ([hit["id"] for hit in answer["learned"]], answer["unknown"]) == (["x", "y"], [])
        assert found(api) == taught
        api.post("/prefer", json={"query": "guava", "better": "y", "worse": "x"})
        assert api.post("/documents", json=posted("z", text="guava kiwi")).status_code == 200
        assert "z" in [hit["id"] for hit in api.get("/search", params={"q": "kiwi"}).json()["learned"]]
        before = found(api), api.get("/search", params={"q": "guava"}).json()["learned"]
    with living(tmp_path) as (api, _):
        assert (found(api), api.get("/search", params={"q": "guava"}).json()["learned"]) == before


def test_a_request_is_taken_whole_or_not_at_all(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, _):
        health = api.get("/health").json()
        refused(api.post("/documents", json=posted("a", "b", "a")), 422, "twice")
        refused(api.post("/documents", json={"documents": []}), 422, "at least")
        half = {"Content-Type": "application/json"}
        sent = json.dumps(posted("a", text="\ud800"))
        assert api.post("/documents", content=sent, headers=half).status_code == 422
        refused(api.post("/documents", json={"documents": [{"id": "a"}]}), 422, "text")
        assert api.get("/health").json() == health
        assert Index.open(tmp_path / "index").digest[:12] == health["index"]


def test_what_is_told_of_a_collection_in_memory_is_of_its_documents_now(tmp_path):
    with living(tmp_path, made_index()) as (api, _):
        assert api.get("/collection").json()["documents"] == 60
        assert api.post("/documents", json=posted("new")).json()["documents"] == 61
        assert api.get("/collection").json()["documents"] == 61


@pytest.mark.slow
def test_only_a_teaching_token_changes_documents(tmp_path):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, _):
        api.headers.pop("Authorization")
        refused(api.post("/documents", json=posted("a")), 401, "token")
        refused(api.delete("/documents?id=d1"), 401, "token")
        refused(api.delete("/documents?id=d1", headers=TOKEN | {"Origin": "http://other.example"}), 403, "another site")
    service = Service(Index.open(tmp_path / "index"), tmp_path / "taught.db")
    try:
        with client_of(service) as api:
            refused(api.post("/documents", json=posted("a")), 403, "teaching token")
            refused(api.delete("/documents?id=d1"), 403, "teaching token")
    finally:
        service.close()


def test_an_index_in_memory_changes_in_memory(tmp_path):
    index = made_index()
    with living(tmp_path, index) as (api, _):
        assert api.post("/documents", json=posted("new")).status_code == 200
        assert "new" in found(api)
    assert "new" not in index


def test_an_index_that_cannot_be_written_says_so_and_goes_on(tmp_path, monkeypatch):
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, _):
        before = found(api)

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("os.replace", full)
            body = refused(api.post("/documents", json=posted("new")), 507, "cannot be written")
            assert str(tmp_path) not in str(body)
        assert found(api) == before
        assert api.post("/documents", json=posted("new")).status_code == 200


@pytest.mark.slow
def test_writers_of_other_processes_and_of_requests_lose_nothing(tmp_path):
    """Requests from three threads while another writer adds to the same folder: every document is there."""
    made_index(tmp_path / "index")
    with living(tmp_path) as (api, service):

        def post(name: str) -> None:
            for i in range(4):
                assert api.post("/documents", json=posted(f"{name}-{i}")).status_code == 200

        threads = [threading.Thread(target=post, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        writer = Index.open(tmp_path / "index")
        for i in range(4):
            writer.add({f"own-{i}": TEXT})
        for thread in threads:
            thread.join(60)
        service.reloader.look(anew=True)
        expected = {f"{name}-{i}" for name, i in itertools.product(("a", "b", "c", "own"), range(4))}
        assert expected <= set(found(api))
        assert expected <= set(Index.open(tmp_path / "index"))
        assert service.reloader.refused is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_acknowledged_documents_survive_kills(tmp_path):
    made_index(tmp_path / "index")
    acknowledged: list[str] = []
    for round_number in range(3):
        with running(tmp_path / "index", TERCET_TEACH_TOKEN=LONG) as service:
            killer = threading.Timer(0.2 + 0.3 * round_number, service.process.kill)
            try:
                for i in itertools.count():
                    ids = [f"{round_number}-{i}-{part}" for part in "ab"]
                    if service.ask("/documents", posted(*ids), TOKEN).status == 200:
                        acknowledged += ids
                    if i == 0:  # a busy machine may take long to answer the first request
                        killer.start()
            except (OSError, http.client.HTTPException):
                pass  # killed
            finally:
                killer.join()
        there = set(Index.open(tmp_path / "index"))
        assert there >= set(acknowledged)
        assert len(there) % 2 == 0  # both of a request, or none; 60 were there before
    assert acknowledged
