"""An index on a Qdrant server: what an upload survives, and what is refused. The server is one of the test's own."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.indexes import DOCS, KINDS, answers, random_rows, random_weights, small_model
from support.qdrant_server import NAME, Collection, FakeQdrant, Spoil, build, changes, fake_qdrant, puts
from tercet._installed import install_command
from tercet.engines import QdrantIndex, uploading
from tercet.engines import engine as engine_module
from tercet.engines import remote_view as view
from tercet.engines.engine import Patience
from tercet.errors import BundleError, EngineError, InputError, MissingExtraError
from tercet.search import Index

pytestmark = pytest.mark.slow  # make test has it, make check has not


@pytest.fixture
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, of which none is made."""
    made: list[float] = []
    monkeypatch.setattr(engine_module, "pause", made.append)
    return made


# -- the same as embedded ---------------------------------------------------------------------------------------------


def test_what_it_finds(server: FakeQdrant, tmp_path: Path) -> None:
    index = build(server, tmp_path)
    embedded = Index.build(DOCS, small_model(DOCS, latent=True))
    assert answers(index) == answers(embedded)
    for each in (index, QdrantIndex.open(tmp_path / "index")):
        assert list(each) == list(DOCS)
        assert each.explain("green avocado", "é") == embedded.explain("green avocado", "é")
        assert each.search_many({"1": "green", "2": "sky"}, 3) == embedded.search_many({"1": "green", "2": "sky"}, 3)
    for each in (index, embedded):
        each.add({"x": "green green"})
        each.replace({"a": "sky sky", "y": "blue"})
        each.remove(["b", "é"])
    assert list(index) == list(embedded)
    assert answers(index) == answers(embedded)


def test_numbers_survive_the_way_there_and_back(server: FakeQdrant, tmp_path: Path, rng: np.random.Generator) -> None:
    weights, D = random_weights(rng, list(KINDS)), random_rows(rng, 80)
    D.data *= rng.random(D.nnz).astype(np.float32)  # numbers with all their digits
    ids = [str(i) for i in range(80)]
    index = QdrantIndex.build_rows(ids, D, weights, tmp_path / "index", url=server.url)
    embedded = Index.build_rows(ids, D, weights)
    for i in range(5):
        q = random_rows(rng, 5)[i : i + 1]
        found, expected = ([(hit.doc_id, hit.score) for hit in each.search_row(q, 30)] for each in (index, embedded))
        assert found == expected


def test_no_document_is_left_out_where_there_are_several_shards(server: FakeQdrant, tmp_path: Path) -> None:
    docs = {f"d{i}": "green " * (i % 7 + 1) + "sky" for i in range(200)}
    index, embedded = build(server, tmp_path, docs), Index.build(docs, small_model(DOCS, latent=True))
    found, expected = ([(hit.doc_id, hit.score) for hit in each.search("green", 150)] for each in (index, embedded))
    assert found == expected


def test_many_queries_are_asked_together(server: FakeQdrant, tmp_path: Path) -> None:
    index, embedded = build(server, tmp_path), Index.build(DOCS, small_model(DOCS, latent=True))
    texts = ("green", "sky toast", "guava", "", "blue eyes of avocado")
    queries = {str(i): texts[i % 5] for i in range(70)}
    server.seen.clear()
    assert index.search_many(queries, 3) == embedded.search_many(queries, 3)
    asked = [path for _, path in server.seen if path.endswith("/points/query/batch")]
    assert len(asked) == 2  # for 42 queries that have known words, up to 32 at a time


def test_no_document_is_read_twice_for_a_run(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = {f"d{i}": ("green", "sky toast", "eyes blue")[i % 3] + " avocado" * (i // 3) for i in range(60)}
    index, embedded = build(server, tmp_path, docs), Index.build(docs, small_model(DOCS))
    index = index.with_model(small_model(DOCS))
    queries = {"1": "green", "2": "sky", "3": "blue"}
    monkeypatch.setattr(view, "_KEPT", 15)  # fewer than the run has
    server.seen.clear()
    assert index.search_many(queries, 5) == embedded.search_many(queries, 5)
    assert [path.rpartition("/")[2] for _, path in server.seen] == ["batch"]
    monkeypatch.setattr(view, "_KEPT_IDS", 2)  # then they are read
    assert QdrantIndex.open(tmp_path / "index").search_many(queries, 5).keys() == queries.keys()


def test_the_texts_of_a_page_of_hits_are_read_together(server: FakeQdrant, tmp_path: Path) -> None:
    index = build(server, tmp_path, {f"d{i}": "green" for i in range(40)}, batch_docs=100)
    hits = index.search("green", 40)
    server.seen.clear()
    assert [hit.text for hit in hits] == ["green"] * 40
    assert len(server.seen) == 3  # of up to 16 each


# -- trouble on the way -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoilt",
    [
        Spoil("/points", 503, 500, 502, "lost", 429, method="PUT"),
        Spoil("/points/scroll", 504, "lost"),
        Spoil(NAME, "lost", 503, method="PUT"),
        Spoil("/index", "lost"),
        Spoil("/", 503, 503),
        Spoil("/points/count", 500),
    ],
    ids=lambda spoilt: spoilt.ending,
)
def test_passing_trouble_is_sat_out(server: FakeQdrant, tmp_path: Path, pauses: list[float], spoilt: Spoil) -> None:
    n = len(spoilt.faults)
    server.fault = spoilt
    index = build(server, tmp_path)
    assert len(pauses) == n
    assert spoilt.faults == []
    assert answers(index) == answers(Index.build(DOCS, small_model(DOCS, latent=True)))


def test_pauses_grow_and_a_server_may_ask_for_longer_ones(
    server: FakeQdrant, tmp_path: Path, pauses: list[float]
) -> None:
    server.fault = Spoil("/points", *[503] * 6, 429, method="PUT")
    build(server, tmp_path)
    for pause, most in zip(pauses[:6], (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), strict=True):
        assert 0.75 * most <= pause <= most
    server.fault = Spoil("/points/count", 429)
    pauses.clear()
    QdrantIndex.open(tmp_path / "index")
    assert pauses == [1.0]  # as Retry-After says, and not a tenth of a second


def test_long_texts_go_in_requests_of_their_own(
    server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploading, "_REQUEST_BYTES", 2000)
    docs = {f"d{i}": "green " * (200 if i % 3 == 1 else 1) for i in range(9)}
    index = build(server, tmp_path, docs, batch_docs=9)
    assert puts(server) == 7 + 3  # each long text by itself; the marker at first, for its limits, and at last
    assert {doc_id: index.text(doc_id) for doc_id in index} == docs


def test_a_server_that_is_away(tmp_path: Path, pauses: list[float]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EngineError, match=rf"{url} does not answer: asking for its version was tried 3 times.*Connect"):
        QdrantIndex.build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert not (tmp_path / "index").exists()
    assert len(pauses) == 2


def test_a_server_that_goes_away_while_searching(server: FakeQdrant, tmp_path: Path, pauses: list[float]) -> None:
    index = build(server, tmp_path)
    server.fault = lambda method, path: 503
    with pytest.raises(EngineError, match=r"searching was tried 3 times.*status 503: spoilt for the test"):
        index.search("green", 2)
    server.fault = None
    assert index.search("green", 2)


@pytest.mark.parametrize("version", ["1.9.7", "0.11.0", "2.0.0", "hello"])
def test_other_versions_are_refused(server: FakeQdrant, tmp_path: Path, version: str) -> None:
    server.version = version
    with pytest.raises(EngineError, match=rf"{version}.*(supported are 1\.10 and later, before 2\.0|is it a Qdrant)"):
        build(server, tmp_path)
    assert changes(server) == []


@pytest.mark.parametrize("version", ["1.10.0", "1.17.1-dev"])
def test_versions_that_are_supported(server: FakeQdrant, tmp_path: Path, version: str) -> None:
    server.version = version
    assert len(build(server, tmp_path)) == 5


def test_a_server_that_is_something_else(server: FakeQdrant, tmp_path: Path) -> None:
    server.fault = lambda method, path: 404
    with pytest.raises(EngineError, match="asking for its version: status 404"):
        build(server, tmp_path)


def test_keys(server: FakeQdrant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.api_key = "secret"
    with pytest.raises(EngineError, match="status 401: no key; set QDRANT_API_KEY"):
        build(server, tmp_path)
    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    with pytest.warns(UserWarning, match="insecure connection"):
        build(server, tmp_path)
    with pytest.warns(UserWarning, match="insecure connection"):
        assert len(QdrantIndex.open(tmp_path / "index")) == 5
    written = [path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file()]
    assert not any(b"secret" in each for each in written)


# -- collections of others --------------------------------------------------------------------------------------------

SPARSE = {"sparse_vectors": {"words": {}}}
FOREIGN = {
    "dense": ({"vectors": {"v": {"size": 2, "distance": "Dot"}}}, r"has dense vectors \('v'\)"),
    "other names": ({"sparse_vectors": {"text": {}}}, r"has the sparse vectors \['text'\]"),
    "idf": ({"sparse_vectors": {"words": {"modifier": "idf"}}}, "changes values: modifier 'idf'"),
    "half": ({"sparse_vectors": {"words": {"index": {"datatype": "float16"}}}}, "datatype 'float16'"),
    "no marker": (SPARSE, "was not made by Tercet"),
    "empty": (SPARSE, "was not made by Tercet"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_collections_of_others_are_not_touched(server: FakeQdrant, tmp_path: Path, kind: str) -> None:
    config, problem = FOREIGN[kind]
    server.collections[NAME] = foreign = Collection(config)
    if kind == "no marker":
        foreign.put([{"id": 0, "vector": {}, "payload": {"mine": 1}}])
    with pytest.raises(
        EngineError, match=rf"has a collection 'tercet-index' already, which .*{problem}.*nothing in it"
    ):
        build(server, tmp_path)
    assert changes(server) == []
    assert server.collections == {NAME: foreign}
    assert not (tmp_path / "index").exists()


def test_the_collection_of_another_index(server: FakeQdrant, tmp_path: Path) -> None:
    build(server, tmp_path)
    (tmp_path / "index").rename(tmp_path / "first")
    before = len(changes(server))
    with pytest.raises(EngineError, match="is that of another index; nothing in it was changed"):
        build(server, tmp_path)
    assert len(changes(server)) == before
    assert len(QdrantIndex.open(tmp_path / "first")) == 5


def test_a_collection_that_was_swapped(server: FakeQdrant, tmp_path: Path) -> None:
    index = build(server, tmp_path)
    del server.collections[NAME]
    with pytest.raises(EngineError, match="collection 'tercet-index', is not there"):
        QdrantIndex.open(tmp_path / "index")
    with pytest.raises(EngineError, match="status 404"):
        index.search("green")
    server.collections[NAME] = Collection(SPARSE)
    with pytest.raises(EngineError, match="was not made by Tercet; it is not the one of this index"):
        QdrantIndex.open(tmp_path / "index")
    del server.collections[NAME]
    (tmp_path / "index").rename(tmp_path / "first")
    build(server, tmp_path)
    before = len(changes(server))
    with pytest.raises(EngineError, match="belongs to another index of Tercet"):
        QdrantIndex.open(tmp_path / "first")
    for change in (lambda: index.add({"x": ""}), lambda: index.remove(["a"]), index.refresh):
        with pytest.raises((EngineError, BundleError)):
            change()
    assert len(changes(server)) == before


def test_whoever_searches_a_collection_that_was_built_anew_is_told(server: FakeQdrant, tmp_path: Path) -> None:
    before = build(server, tmp_path)
    assert before.search("green", 2)
    other = dict.fromkeys("vwxyz", "green sky toast") | {"a": "green"}
    index = build(server, tmp_path, other)
    for ask in (lambda: before.search("green", 2), lambda: before.explain("green", "a"), lambda: list(before)):
        with pytest.raises(EngineError, match="belongs to another index by now; open this one again"):
            ask()
    with pytest.raises(EngineError, match="belongs to another index of Tercet"):
        before.refresh()
    assert answers(index) == answers(Index.build(other, small_model(DOCS, latent=True)))


def test_a_marker_of_the_future(server: FakeQdrant, tmp_path: Path) -> None:
    build(server, tmp_path)
    collection = server.collections[NAME]
    output = collection.points[0]["payload"]["tercet"]
    for payload, problem in (
        (output | {"format": 2}, "has format 2; this version"),
        ({"format": 1}, "index is missing"),
    ):
        collection.put([{"id": 0, "vector": {}, "payload": {"tercet": payload}}])
        with pytest.raises(EngineError, match=problem):
            QdrantIndex.open(tmp_path / "index")


# -- without the extra ------------------------------------------------------------------------------------------------


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    monkeypatch.delitem(sys.modules, "tercet.engines.qdrant_engine", raising=False)  # which imports it
    with pytest.raises(MissingExtraError, match=re.escape(install_command("qdrant"))):
        QdrantIndex.connect("http://127.0.0.1:1", "name", None)


def test_pauses_are_really_made(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    calls = iter([engine_module.Passing("busy"), engine_module.Passing("busy", after=99.0)])

    def call() -> str:
        problem = next(calls, None)
        if problem is not None:
            raise problem
        return "done"

    assert engine_module.retried(call, "trying", "here", Patience(3, 0.1, 2.0)) == "done"
    assert len(slept) == 2
    assert slept[1] == 2.0  # what a server asks for is bounded, too
    with pytest.raises(InputError):
        QdrantIndex.connect("nonsense", "name", None)
