"""Uploads to a Qdrant server that are interrupted go on where they were, and only with the same documents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.indexes import DOCS, answers, small_model
from support.qdrant_server import NAME, FakeQdrant, Spoil, build, changes, fake_qdrant, puts
from tercet.cli.main import cli
from tercet.engines import QdrantIndex
from tercet.engines import engine as engine_module
from tercet.engines import remote_index as module
from tercet.engines.records import RemoteFolder, Upload
from tercet.errors import BundleError, EngineError, InputError, MissingBundleError
from tercet.search import Index

pytestmark = pytest.mark.slow  # make test has it, make check has not


@pytest.fixture
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


MANY = {f"d{i}": ("green sky", "toast", "eyes blue", "")[i % 4] for i in range(20)}


def interrupted(server: FakeQdrant, tmp_path: Path, after: int, fault: int | str = 400, **options: Any) -> None:
    """An upload whose later writes fail."""
    n = 0

    def fail(method: str, path: str) -> int | str | None:
        nonlocal n
        n += method == "PUT" and path.endswith("/points")
        return fault if n > after else None

    server.fault = fail
    with pytest.raises(EngineError):
        build(server, tmp_path, MANY, **options)
    server.fault = None
    server.seen.clear()


@pytest.mark.parametrize("after", [0, 1, 2, 7])
def test_an_upload_goes_on_where_it_was(server: FakeQdrant, tmp_path: Path, after: int) -> None:
    interrupted(server, tmp_path, after)
    output = json.loads((tmp_path / "index" / "upload.json").read_text())
    with pytest.raises(MissingBundleError, match="has not ended; give the same command again"):
        QdrantIndex.open(tmp_path / "index")
    index = build(server, tmp_path, iter(MANY.items()), batch_docs=7)  # batches stay as they were
    rest = (len(MANY) - output["sent"]) // 2
    assert puts(server) - rest in (1, 2, 3)  # the marker: at first, when limits grow, and at the end
    assert list(index) == list(MANY)
    assert answers(index) == answers(Index.build(MANY, small_model(DOCS, latent=True)))
    assert not (tmp_path / "index" / "upload.json").exists()


@pytest.mark.parametrize("ending", [f"/{NAME}", "/index"])
def test_a_collection_that_was_only_begun(server: FakeQdrant, tmp_path: Path, ending: str) -> None:
    server.fault = lambda method, path: 400 if method == "PUT" and path.endswith(ending) else None
    with pytest.raises(EngineError):
        build(server, tmp_path, MANY)
    server.fault = None
    assert list(build(server, tmp_path, MANY)) == list(MANY)
    assert server.collections[NAME].indexed == {"doc_id"}


def test_a_batch_whose_answer_was_lost_is_sent_again(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)
    interrupted(server, tmp_path, 3, "lost")
    index = build(server, tmp_path, MANY)
    assert list(index) == list(MANY)
    assert len(index) == 20


def test_other_documents_models_and_places_are_refused(server: FakeQdrant, tmp_path: Path) -> None:
    interrupted(server, tmp_path, 5)
    before = dict(MANY)
    other = before | {"d1": "other text"}
    for docs in (other, dict(list(MANY.items())[:3]), dict(reversed(MANY.items())), {}):
        with pytest.raises(BundleError, match="of other documents than these"):
            build(server, tmp_path, docs)
    for options in ({"model": small_model(DOCS)}, {"collection": "elsewhere"}, {"keep_texts": False}):
        with pytest.raises(BundleError, match="has an upload that has not ended: build of"):
            build(server, tmp_path, MANY, **options)
    assert changes(server) == []
    assert list(build(server, tmp_path, MANY)) == list(MANY)


def test_documents_beyond_those_sent_may_differ(server: FakeQdrant, tmp_path: Path) -> None:
    interrupted(server, tmp_path, 5)
    longer = MANY | {"new": "green"}
    assert list(build(server, tmp_path, longer)) == list(longer)


@pytest.mark.parametrize("what", ["add", "replace"])
def test_adding_goes_on_where_it_was(
    server: FakeQdrant, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCS", 2)
    index, embedded = build(server, tmp_path), Index.build(DOCS, small_model(DOCS, latent=True))
    docs = MANY | ({"a": "blue", "b": "sky"} if what == "replace" else {})
    n = 0

    def fail(method: str, path: str) -> int | str | None:
        nonlocal n
        n += method == "PUT" and path.endswith("/points")
        return 400 if n > 4 else None

    server.fault = fail
    with pytest.raises(EngineError, match="spoilt"):
        getattr(index, what)(docs)
    server.fault = None
    reader = QdrantIndex.open(tmp_path / "index")  # what is there may be searched meanwhile
    assert len(reader) > 5
    with pytest.raises(BundleError, match=f"has an upload that has not ended \\({what}, "):
        getattr(reader, "add" if what == "replace" else "replace")({"x": "sky"})
    with pytest.raises(BundleError, match="of other documents than these"):
        getattr(reader, what)({"x": "sky"})
    getattr(reader, what)(docs)
    getattr(embedded, what)(docs)
    assert list(reader) == list(embedded)
    assert answers(reader) == answers(embedded)
    assert index.refresh()
    assert answers(index) == answers(embedded)


@pytest.mark.parametrize("n", [4, 5, 7, 20])
def test_what_was_sent_and_not_noted_is_gone(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)
    interrupted(server, tmp_path, 4, "lost")  # the server has the batch, and its answer never came
    sent = json.loads((tmp_path / "index" / "upload.json").read_text())["sent"]
    assert sent == 4
    assert len(server.collections[NAME].points) == 1 + 6
    rest = [pair for pair in list(MANY.items())[4:][::-1] if pair[0] not in ("d6", "d7")]
    docs = dict(list(MANY.items())[:4] + rest[: n - 4])  # in another order, and fewer
    index = build(server, tmp_path, docs)
    assert list(index) == list(docs)
    assert answers(index) == answers(Index.build(docs, small_model(DOCS, latent=True)))


def test_documents_that_were_taken_back_are_not_remembered_as_others(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCS", 2)
    index, reader = build(server, tmp_path), QdrantIndex.open(tmp_path / "index")

    def refused() -> Iterator[tuple[str, str]]:
        yield from (("x0", "green"), ("x1", "green"), ("x2", "sky"))
        assert {"x0", "x1"} <= {hit.doc_id for hit in reader.search("green", 10)}
        yield "a", "is there"

    with pytest.raises(InputError, match="'a' is in the index already"):
        index.add(refused())
    embedded = Index.build(DOCS, small_model(DOCS, latent=True))
    for each in (index, embedded):
        each.add({"y0": "toast", "y1": "green green", "y2": "sky"})
    assert answers(reader) == answers(index) == answers(embedded)


@pytest.mark.parametrize("n_noted", [0, 2])
def test_documents_that_were_sent_and_not_noted_are_not_remembered_as_others(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_noted: int
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCS", 2)
    index, reader = build(server, tmp_path), QdrantIndex.open(tmp_path / "index")

    def die(folder: RemoteFolder, upload: Upload, keep: Any = RemoteFolder.keep) -> None:
        if upload.sent > n_noted:
            raise KeyboardInterrupt
        keep(folder, upload)

    noted = {"s0": "toast", "s1": "sky"} if n_noted else {}
    for sent in ({"x0": "green", "x1": "green green"}, {"y0": "green sky", "y1": "green"}):
        with monkeypatch.context() as patch:
            patch.setattr(RemoteFolder, "keep", die)
            with pytest.raises(KeyboardInterrupt):
                index.add(noted | sent)
        assert set(sent) <= {hit.doc_id for hit in reader.search("green", 10)}
    embedded, docs = Index.build(DOCS, small_model(DOCS, latent=True)), noted | {"z0": "toast", "z1": "green green"}
    for each in (index, embedded):
        each.add(docs)
    assert answers(reader) == answers(index) == answers(embedded)
    assert list(index) == list(embedded)


def test_an_upload_that_was_given_up(server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_DOCS", 2)
    index = build(server, tmp_path)
    server.fault = Spoil("/points", *[400] * 1, method="PUT")
    with pytest.raises(EngineError):
        index.add(MANY)
    (tmp_path / "index" / "upload.json").unlink()
    server.fault = None
    index.add({"x": "sky"})
    assert list(index)[-1] == "x"
    assert len(set(index)) == len(index)


def test_numbers_of_documents_are_not_used_again(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_DOCS", 2)
    index = build(server, tmp_path)
    interrupting = iter([("x0", "sky"), ("x1", "sky"), ("x2", "sky"), 3])
    with pytest.raises(RuntimeError):
        index.add(pair if pair != 3 else broken() for pair in interrupting)  # type: ignore[misc]
    (tmp_path / "index" / "upload.json").unlink()
    last = max(index._view.find(doc_id) or 0 for doc_id in ("x0", "x1"))
    index.remove(["x0", "x1"])
    index.add({"y": "green"})
    assert (index._view.find("y") or 0) > last


def broken() -> tuple[str, str]:
    raise RuntimeError("the documents cannot be read")


@pytest.mark.slow
def test_a_killed_upload(server: FakeQdrant, tmp_path: Path) -> None:
    """SIGKILL in the middle; the same command goes on and ends with all documents."""
    small_model(DOCS, latent=True).save(tmp_path / "model")
    docs = {f"d{i}": ("green sky", "toast", "eyes blue")[i % 3] for i in range(2000)}
    with open(tmp_path / "corpus.jsonl", "w") as file:
        file.writelines(json.dumps({"_id": doc_id, "text": text}) + "\n" for doc_id, text in docs.items())
    program = "import sys; from tercet.cli.main import main; sys.argv[0] = 'tercet'; main()"
    arguments = [
        "index",
        tmp_path / "corpus.jsonl",
        "--model",
        tmp_path / "model",
        "-o",
        tmp_path / "index",
    ]
    command = [sys.executable, "-c", program, *map(str, arguments), "--backend", "qdrant", "--url", server.url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def kill(method: str, path: str) -> int | str | None:
        if puts(server) == 5:
            os.kill(process.pid, signal.SIGKILL)
        return None

    server.fault = kill
    try:
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGKILL
    sent = json.loads((tmp_path / "index" / "upload.json").read_text())["sent"]
    assert 0 < sent < 2000
    server.fault = None
    server.seen.clear()
    done = CliRunner().invoke(cli, command[3:])
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'index'}: 2,000 documents, 7 words\n")
    assert puts(server) <= -(-(2000 - sent) // 256) + 2
    index = QdrantIndex.open(tmp_path / "index")
    assert list(index) == list(docs)
    assert answers(index) == answers(Index.build(docs, small_model(DOCS, latent=True)))
