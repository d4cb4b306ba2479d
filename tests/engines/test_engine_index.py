"""Indexes in OpenSearch, PostgreSQL and Qdrant: the answers of an embedded index, interruptions, foreign collections.

OpenSearch and PostgreSQL are real servers; Qdrant is a server of the tests that speaks its REST interface.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.databases import free_port, postgres_server
from support.indexes import DOCS, small_model
from support.memories import remember
from support.opensearch import opensearch_cluster
from support.qdrant_server import fake_qdrant
from tercet.data.documents import as_documents
from tercet.engines import OpenSearchIndex, PostgresIndex, QdrantIndex, open_index, opensearch
from tercet.engines import engine as engine_module
from tercet.engines import engine_index as engine_index_module
from tercet.engines.engine_index import EngineIndex
from tercet.errors import BundleError, EngineAwayError, EngineError, InputError
from tercet.memory import MemorySettings
from tercet.store import read_bundle, write_bundle
from tercet.text import FieldedVectorizer
from tercet.weights import Identity, Sparse, Weights

pytestmark = pytest.mark.slow  # make test has it, make check has not

numbers = itertools.count()
WORDS = ["tea", "green", "black", "pot", "cup", "sky", "blue", "avocado", "eyes", "set", "water", "cat"]
QUERIES = {"q1": "green tea", "q2": "black pot", "q3": "tea set", "q4": "blue sky", "q5": "cup of water"}


@dataclass(frozen=True)
class Backend:
    """An engine under test."""

    index: type[EngineIndex]
    url: str
    away: Callable[[], Any]  # makes the server fail from now on
    back: Callable[[], Any]

    def build(self, docs: Any, model: Any, folder: Path, **options: Any) -> EngineIndex:
        options = {"url": self.url, "collection": f"test-{next(numbers)}"} | options
        return self.index.build(docs, model, folder / "index", **options)


def _opensearch(stack: ExitStack) -> Backend:
    cluster = stack.enter_context(opensearch_cluster())
    [node] = cluster.nodes
    return Backend(OpenSearchIndex, cluster.url, node.pause, node.go_on)


def _postgres(stack: ExitStack) -> Backend:
    server = stack.enter_context(postgres_server())
    return Backend(PostgresIndex, server.url, server.kill, server.start)


def _qdrant(stack: ExitStack) -> Backend:
    server = stack.enter_context(fake_qdrant())

    def fail(fault: Any) -> Callable[[], None]:
        return lambda: setattr(server, "fault", fault)

    return Backend(QdrantIndex, server.url, fail(lambda *_: 503), fail(None))


@pytest.fixture(scope="module", params=[_opensearch, _postgres, _qdrant], ids=lambda make: make.__name__[1:])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with ExitStack() as stack:
        yield request.param(stack)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)


def documents(n: int = 200) -> dict[str, str]:
    rng = np.random.default_rng(3)
    return {f"d{i}": " ".join(rng.choice(WORDS, 6)) for i in range(n)}


def learned(docs: dict[str, str], seed: int = 0, is_signed: bool = False) -> tc.TextModel:
    """BM25 with learned pairs of words, positive unless signed, and memory."""
    model = tc.TextModel.bm25(docs.values())
    n, rng = len(model.doc_vectorizer.words_), np.random.default_rng(seed)
    pairs = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.2)
    pairs = pairs if is_signed else np.abs(pairs)
    weights = Weights([Identity(n_terms=n), Sparse(weights=sparse.csr_array(pairs.astype(np.float32)))])
    ids = list(docs)
    answers = {qid: {ids[(7 * j + 13 * i) % len(ids)]: j + 1.0 for j in range(4)} for i, qid in enumerate(QUERIES)}
    rows = model.queries(list(QUERIES.values()))
    memory = remember(answers, QUERIES, rows, MemorySettings(weight=2.0, unseen=0.3, pooled=0.4))
    return replace(model, weights=weights, memory=memory)


def hits(index: Any, text: str, k: int = 20) -> list[tuple[str, float, str]]:
    return [(hit.doc_id, hit.score, hit.text) for hit in index.search(text, k)]


def assert_same(index: Any, embedded: Any) -> None:
    for text in (*QUERIES.values(), "green", "pot tea green sky", "unheard"):
        assert hits(index, text) == hits(embedded, text), text
    assert index.search_many(QUERIES, 5) == embedded.search_many(QUERIES, 5)


# -- the same as embedded ---------------------------------------------------------------------------------------------


def test_answers_are_those_of_an_embedded_index(backend: Backend, tmp_path: Path) -> None:
    docs = documents()
    model = learned(docs, is_signed=backend.index is not OpenSearchIndex)  # whose queries have no negative weights
    index, embedded = backend.build(docs, model, tmp_path), tc.Index.build(docs, model)
    for each in (index, open_index(tmp_path / "index")):
        assert_same(each, embedded)
        assert list(each) == list(docs)
        assert len(each) == len(docs)
    [hit, *_] = index.search("green tea")
    [expected, *_] = embedded.search("green tea")
    assert hit.why == expected.why
    assert hit.why.past
    assert index.explain("green tea", hit.doc_id) == expected.why
    assert index.versus("green tea", hit.doc_id, "d5") == embedded.versus("green tea", hit.doc_id, "d5")


def test_answers_by_candidates_do_not_claim_to_be_exact(backend: Backend, tmp_path: Path) -> None:
    docs = documents(400)
    index = backend.build(docs, learned(docs, is_signed=True), tmp_path)
    assert not index.search("green tea", 10).exact
    assert index.search("unheard").exact


@pytest.mark.parametrize("latent", [False, True])
def test_models_without_memory(backend: Backend, tmp_path: Path, latent: bool) -> None:
    model = small_model(DOCS, latent=latent)
    index, embedded = backend.build(DOCS, model, tmp_path), tc.Index.build(DOCS, model)
    for text in ("green avocado", "sky", "toast eyes", "unheard"):
        assert hits(index, text, 4) == hits(embedded, text, 4)


def test_stored_fields_and_html_come_back(backend: Backend, tmp_path: Path) -> None:
    docs = [
        {"id": "007", "text": "<p>green <b>tea</b>&amp; milk</p>", "price": 1.5, "color": None},
        {"id": "ß/é", "text": "black tea", "price": 2.0, "color": "dark"},
    ]
    index = backend.build(docs, None, tmp_path)
    [hit] = index.search("milk")
    assert (hit.doc_id, hit.text, hit.stored_fields) == ("007", docs[0]["text"], {"price": 1.5})
    assert index.stored_fields("ß/é") == {"price": 2.0, "color": "dark"}
    assert "ß/é" in index
    assert "7" not in index
    with pytest.raises(InputError, match="cannot be filtered by stored fields; asked for 'price'"):
        index.search("tea", where={"price": "1.5"})
    with pytest.raises(InputError, match="no document 'x'"):
        index.text("x")


def test_documents_are_added_replaced_and_removed(backend: Backend, tmp_path: Path) -> None:
    docs = documents(40)
    model = learned(docs)
    index, embedded = backend.build(docs, model, tmp_path), tc.Index.build(docs, model)
    for each in (index, embedded):
        each.add({"x": "green green", "y": "sky"})
        each.replace({"x": "blue sky"})
        each.remove(["d3", "y"])
    assert_same(index, embedded)
    assert set(index) == set(embedded)
    for change, problem in (
        (lambda: index.add({"z": "tea", "d5": "other"}), "document 'd5' is in the index already; replace takes it"),
        (lambda: index.remove(["d7", "d3"]), "no document 'd3'"),
        (lambda: index.remove("d7"), "remove takes ids, found the string 'd7'"),
        (lambda: index.replace([("t", "tea"), ("t", "pot")]), "document 't' is there twice"),
    ):
        with pytest.raises(InputError, match=problem):
            change()
    assert "d7" in index
    assert "t" not in index


def test_a_promotion_changes_model_and_memory(backend: Backend, tmp_path: Path) -> None:
    docs = documents(60)
    model, other = learned(docs), learned(docs, seed=5)
    index, embedded = backend.build(docs, model, tmp_path), tc.Index.build(docs, other)
    watching = open_index(tmp_path / "index")
    assert hits(index.with_model(other), "green tea") == hits(embedded, "green tea")
    entry = index.promote(other)
    assert entry.number == 1
    assert_same(index, embedded)
    assert watching.refresh()
    assert not watching.refresh()
    assert_same(watching, embedded)
    with pytest.raises(InputError, match=r"is the model of .* already"):
        index.promote(other)
    assert index.take_back().undoes == 1
    assert_same(open_index(tmp_path / "index"), tc.Index.build(docs, model))
    with pytest.raises(InputError, match="no promotion to take back"):
        index.take_back()


def test_models_with_other_words_are_refused(backend: Backend, tmp_path: Path) -> None:
    index = backend.build(documents(20), None, tmp_path)
    other = tc.TextModel.bm25(["sky and sea"])
    for change in (index.with_model, index.promote, lambda model: open_index(tmp_path / "index", model)):
        with pytest.raises(InputError, match=r"another vectori[sz]er"):
            change(other)
    with pytest.raises(InputError, match="model is of type Weights; expected a TextModel"):
        index.with_model(other.weights)


# -- interruptions ----------------------------------------------------------------------------------------------------


def test_a_build_goes_on_after_an_interruption(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_index_module, "_BATCH_DOCS", 10)
    docs = documents(60)
    model = learned(docs)
    first = {**dict(itertools.islice(docs.items(), 40)), "gone": "green tea"}

    def stop(sent: int) -> None:
        if sent >= 30:
            raise KeyboardInterrupt

    name = f"test-{next(numbers)}"
    with pytest.raises(KeyboardInterrupt):
        backend.build(dict(reversed(first.items())), model, tmp_path, collection=name, progress=stop)
    with pytest.raises(BundleError, match="has not ended; give the same command again"):
        open_index(tmp_path / "index")
    sent: list[int] = []
    monkeypatch.setattr(engine_index_module, "_requests", lambda new: (sent.append(len(new)), [new] if new else [])[1])
    index = backend.build(docs, model, tmp_path, collection=name)
    assert sum(sent) == 60 - 29  # of the 30 that were sent, one is no longer among the documents
    assert set(index) == set(docs)
    embedded = tc.Index.build(docs, model)
    for text in QUERIES.values():  # documents of equal scores may stand in the order in which they came first
        assert sorted(hits(index, text, 60)) == sorted(hits(embedded, text, 60))


def test_a_server_that_is_away(backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opensearch, "_TIMEOUT_SECONDS", 3)
    docs = documents(30)
    index = backend.build(docs, learned(docs), tmp_path)
    expected = hits(index, "green tea")
    backend.away()
    try:
        with pytest.raises(EngineAwayError, match=r"does not answer: searching was tried 3 times"):
            index.search("green tea")
        with pytest.raises(EngineAwayError):
            open_index(tmp_path / "index")
    finally:
        backend.back()
    assert hits(index, "green tea") == expected == hits(open_index(tmp_path / "index"), "green tea")


@pytest.mark.parametrize("kind", [OpenSearchIndex, PostgresIndex, QdrantIndex])
def test_an_address_where_nobody_answers(kind: type[EngineIndex], tmp_path: Path, caplog: Any) -> None:
    scheme, rest = ("postgresql", "/papers") if kind is PostgresIndex else ("http", "")
    url = f"{scheme}://127.0.0.1:{free_port()}{rest}"
    with caplog.at_level(logging.CRITICAL), pytest.raises(EngineAwayError, match="asking for its version was tried 3"):
        kind.build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert not (tmp_path / "index").exists()


# -- what belongs to others -------------------------------------------------------------------------------------------


def test_collections_of_others_are_not_touched(backend: Backend, tmp_path: Path) -> None:
    index = backend.build(documents(20), None, tmp_path / "one", collection=f"taken-{next(numbers)}")
    with pytest.raises(EngineError, match="already, which is that of another index; nothing in it was changed"):
        backend.build(DOCS, None, tmp_path / "two", collection=index.collection)
    assert not (tmp_path / "two" / "index").exists()
    assert len(index) == 20
    again = backend.build(DOCS, None, tmp_path / "one", collection=index.collection)  # its own is replaced
    assert list(again) == list(DOCS)
    with pytest.raises(EngineError, match="belongs to another index of Tercet; this one's is gone or was replaced"):
        index.add({"new": "tea"})
    with pytest.raises(BundleError, match=r"is an index in the collection .*name that one to replace it"):
        backend.build(DOCS, None, tmp_path / "one", collection=f"other-{next(numbers)}")
    again._view.engine.drop()
    with pytest.raises(EngineError, match="is not there"):
        open_index(tmp_path / "one" / "index")


@pytest.mark.parametrize("collection", ['x"; DROP TABLE papers; --', "../x", "x" * 201, ""])
def test_a_folder_that_names_no_collection(backend: Backend, tmp_path: Path, collection: str) -> None:
    backend.build(DOCS, None, tmp_path)
    folder = tmp_path / "index"
    meta = read_bundle(folder).meta | {"collection": collection}
    write_bundle(folder, kind=backend.index.kind, meta=meta, arrays={}, siblings=("models",))
    with pytest.raises(InputError, match="collection is"):
        open_index(folder)


def test_columns_are_refused(backend: Backend, tmp_path: Path) -> None:
    docs = as_documents({"a": {"text": "green tea", "price": 2}, "b": {"text": "black tea", "price": 1}})
    words = FieldedVectorizer(features=["price"]).fit(docs)
    model = tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
    with pytest.raises(InputError, match="engines keep words alone"):
        backend.build(docs, model, tmp_path)


def test_the_manifest_holds_no_secret(backend: Backend, tmp_path: Path) -> None:
    index = backend.build(DOCS, None, tmp_path)
    meta = json.loads((tmp_path / "index" / "manifest.json").read_text())["meta"]
    assert meta["url"] == index.url
    assert set(meta) == {
        "url",
        "collection",
        "owner",
        "vectorizer",
        "model",
        "model_digest",
        "is_complete",
        "promotions",
    }
