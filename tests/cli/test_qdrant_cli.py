"""``tercet index --backend qdrant`` and what follows: searching, explaining, serving and learning on it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tercet as tc
from support.commands import ok, run
from support.indexes import DOCS, small_model
from support.qdrant_server import FakeQdrant, fake_qdrant
from support.serving import eventually, made_docs, made_index, served
from tercet.data import read_run, write_beir
from tercet.engines import QdrantIndex, open_index
from tercet.engines import engine as engine_module
from tercet.errors import BundleError
from tercet.search import Index
from tercet.serve import TaughtStore, teacher
from tercet.serve.served import Served
from tercet.serve.watched import Watched

pytestmark = pytest.mark.slow  # make test has it, make check has not

numbers = itertools.count()
TEXTS = {doc_id: text for doc_id, text in DOCS.items() if text}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


def filled(server: FakeQdrant, tmp_path: Path) -> Path:
    """Data, a model, and an index of each kind."""
    small_model(TEXTS, latent=True).save(tmp_path / "model")
    write_beir(tmp_path / "data", TEXTS, {"q1": "green avocado", "q2": "sky"}, {"train": {"q1": {"a": 1}}})
    common = ("index", tmp_path / "data", "--model", tmp_path / "model", "-o")
    location = ("--backend", "qdrant", "--url", server.url, "--collection", f"filled-{next(numbers)}")
    assert ok(*common, tmp_path / "index", *location).endswith(f"{tmp_path / 'index'}: 4 documents, 7 words\n")
    ok(*common, tmp_path / "embedded")
    return tmp_path


@pytest.fixture(scope="module")
def folder(server: FakeQdrant, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(server, tmp_path_factory.mktemp("filled"))


def corpus(path: Path, docs: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"_id": d, "text": text}) + "\n" for d, text in docs.items()))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("search", "", "green avocado guava", "--why"),
        ("search", "", "green sky", "-k", 2),
        ("explain", "", "green avocado", "a"),
        ("explain", "", "green avocado", "a", "--versus", "b"),
    ],
    ids=str,
)
def test_the_same_commands_say_the_same(folder: Path, command: tuple[Any, ...]) -> None:
    said = [ok(command[0], folder / name, *command[2:]) for name in ("index", "embedded")]
    assert said[0] == said[1]
    assert len(said[0].splitlines()) > 1


def test_runs(folder: Path) -> None:
    for name in ("index", "embedded"):
        ok("search", folder / name, "--queries", folder / "data" / "queries.jsonl", "-o", folder / f"{name}.trec")
    assert read_run(folder / "index.trec") == read_run(folder / "embedded.trec")


def test_another_model(folder: Path) -> None:
    small_model(TEXTS).save(folder / "plain")
    said = [ok("search", folder / name, "green sky", "--model", folder / "plain") for name in ("index", "embedded")]
    assert said[0] == said[1]
    small_model({"x": "sky and sea"}).save(folder / "other")
    assert "Index the documents again" in run("search", folder / "index", "sky", "--model", folder / "other").output


def test_changes(server: FakeQdrant, tmp_path: Path) -> None:
    folder = filled(server, tmp_path)
    more = corpus(folder / "more.jsonl", {"x": "green green", "y": "sky"})
    assert "4 documents before, 6 now\n" in ok("index", folder / "index", "--update", more)
    corpus(more, {"x": "blue sky"})
    output = ok("index", folder / "index", "--update", more, "--remove", "a")
    assert output.splitlines()[-1] == f"{folder / 'index'}: 6 documents before, 5 now"
    assert list(open_index(folder / "index")) == ["b", "c", "é", "y", "x"]
    result = run("index", folder / "index", "--merge")
    assert result.exit_code == 1
    assert "which merges by itself" in result.output


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--backend", "qdrant"), "--backend (one of opensearch, postgres, qdrant) and --url go together"),
        (("--url", "http://localhost"), "--backend (one of opensearch, postgres, qdrant) and --url go together"),
        (("--backend", "embedded", "--url", "http://localhost"), "'embedded' is not one of"),
        (("--collection", "x"), "--collection needs both"),
        (("--backend", "other"), "'other' is not one of"),
        (("--backend", "qdrant", "--url", "http://localhost", "--no-texts"), "--no-texts is for an embedded index"),
    ],
)
def test_wrong_usage(folder: Path, options: tuple[str, ...], problem: str) -> None:
    result = run("index", folder / "data", "--model", folder / "model", "-o", folder / "new", *options)
    assert result.exit_code == 2
    assert problem in result.output
    result = run("index", folder / "index", "--update", folder / "data", "--backend", "qdrant")
    assert result.exit_code == 2
    assert "--backend is for a new index" in result.output


@pytest.mark.slow
def test_a_server_that_is_away_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)
    location = ("--backend", "qdrant", "--url", "http://127.0.0.1:9", "--collection", "c")
    result = run("index", folder / "data", "--model", folder / "model", "-o", folder / "new", *location)
    assert result.exit_code == 1
    assert result.output.startswith("error: http://127.0.0.1:9 does not answer: asking for its version was tried 3")
    assert len(result.output.splitlines()) == 1


def test_the_model_of_the_index(folder: Path) -> None:
    said = [ok("search", folder / "embedded", "green sky", "--model", folder / name) for name in ("index", "model")]
    assert said[0] == said[1]


def test_load_says_what_opens_it(folder: Path) -> None:
    with pytest.raises(BundleError, match=r"is an index in another engine; open it with tercet\.engines\.open_index"):
        tc.load(folder / "index")


# -- the service ------------------------------------------------------------------------------------------------------


def both(server: FakeQdrant, tmp_path: Path, latent: bool) -> tuple[QdrantIndex, Index]:
    embedded = made_index(latent=latent)
    location = {"url": server.url, "collection": f"served-{next(numbers)}"}
    return QdrantIndex.build(made_docs(), embedded.model, tmp_path / "index", **location), embedded  # type: ignore[arg-type]


@pytest.mark.parametrize("latent", [False, True])
def test_the_service_searches_explains_and_learns(server: FakeQdrant, tmp_path: Path, latent: bool) -> None:
    output = []
    for at, index in enumerate(both(server, tmp_path, latent)):
        with served(tmp_path / f"taught{at}.db", index) as (client, service):

            def ask(path: str) -> Any:
                found = client.get(path).json()
                found.pop("took_ms", None)
                found.pop("exact", None)  # an engine lists candidates
                return found

            answers = [ask("/search?q=green+avocado&k=5"), ask("/explain?q=green&doc=d3"), ask("/documents/d5")]
            first, *_, last = answers[0]["learned"]
            for better in (last, last):
                said = client.post(
                    "/prefer", json={"query": "green avocado", "better": better["id"], "worse": first["id"]}
                )
                assert said.status_code == 202, said.text
            assert eventually(lambda served=service: served.served.version == "v2")
            answers += [ask("/search?q=green+avocado&k=5"), ask("/explain?q=green+avocado&doc=d3&versus=d4")]
            assert answers[3]["version"] == "v2"
            assert answers[3]["learned"] != answers[0]["learned"]
            missing = {"query": "green", "better": "nobody", "worse": "d1"}
            assert client.post("/prefer", json=missing).status_code == 404
            output.append(answers)
    assert output[0] == output[1]


def test_the_service_opens_and_refreshes_it(server: FakeQdrant, tmp_path: Path) -> None:
    folder = filled(server, tmp_path) / "index"
    source = Watched(folder, lambda: open_index(folder))
    opened = source.open()
    assert isinstance(opened, QdrantIndex)
    assert not source.has_news
    QdrantIndex.open(folder).add({"x": "green"})
    assert not source.has_news  # documents are always those of the engine
    assert len(opened) == 5
    QdrantIndex.open(folder).promote(small_model(TEXTS))
    assert source.has_news
    assert not source.open().model.weights.parts[1:]


def test_the_service_says_so_when_qdrant_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)
    model = made_index().model
    with fake_qdrant() as server:
        index = QdrantIndex.build(made_docs(), model, tmp_path / "index", url=server.url)  # type: ignore[arg-type]
        with served(tmp_path / "taught.db", index) as (client, _):
            server.fault = lambda method, path: 503
            for said in (
                client.get("/search?q=red+toast"),
                client.post("/prefer", json={"query": "red", "better": "d1", "worse": "d2"}),
            ):
                assert said.status_code == 503
                assert said.json()["type"] == "urn:tercet:problem:engine"
                assert server.url not in said.text  # where it is, is for the log
                assert int(said.headers["Retry-After"]) >= 1
            assert server.url in caplog.text
            server.fault = None
            assert client.get("/search?q=red+toast").status_code == 200


def test_learning_waits_for_qdrant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)
    monkeypatch.setattr(teacher, "_ENGINE_SECONDS", 0.02)
    model = made_index().model
    with fake_qdrant() as server, TaughtStore(tmp_path / "taught.db") as store:
        index = QdrantIndex.build(made_docs(), model, tmp_path / "index", url=server.url)  # type: ignore[arg-type]
        started = teacher.Teacher(store, Served.from_index(index))
        server.fault = lambda method, path: 503
        learned = [
            started.learn(store.add("ann", "prefer", query, [pair]).revision)
            for query, pair in (("green", ("d1", "d2")), ("sky", ("d3", "d4")))
        ]
        with pytest.raises(TimeoutError):
            learned[0].result(timeout=0.2)
        assert "is not learned yet" in caplog.text
        assert started.failure is None
        server.fault = None
        assert learned[1].result(timeout=20).served.revision == 2
        server.fault = lambda method, path: 503
        started.learn(store.add("ann", "prefer", "sky", [("d5", "d6")]).revision)
        started.close()  # what it cannot learn is in the store
        assert started.now.served.revision == 2
