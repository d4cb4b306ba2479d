"""An index on Qdrant: what it finds is what the embedded index finds. The server is one of the test's own."""

from __future__ import annotations

import itertools
import re
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from support.indexes import DOCS, KINDS, N_TERMS, answers, random_part, random_rows, random_weights, small_model
from support.qdrant_server import FakeQdrant, fake_qdrant
from tercet.engines import QdrantIndex, open_index
from tercet.engines.records import VectorLimits
from tercet.errors import BundleError, EngineError, InputError, MissingBundleError
from tercet.search import BaseIndex, Index
from tercet.weights import Identity, LowRank, Sparse, Weights

pytestmark = pytest.mark.slow  # make test has it, make check has not


numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[FakeQdrant]:
    with fake_qdrant() as running:
        yield running


def on_qdrant(
    server: FakeQdrant, folder: Path | str, ids: list[str], D: Any, weights: Weights, **options: Any
) -> QdrantIndex:
    options = {"url": server.url, "collection": new_name()} | options
    return QdrantIndex.build_rows(ids, D, weights, Path(folder) / "index", **options)


def of_texts(server: FakeQdrant, folder: Path | str, model: Any, docs: Any = DOCS, **options: Any) -> QdrantIndex:
    options = {"url": server.url, "collection": new_name()} | options
    return QdrantIndex.build(docs, model, Path(folder) / "index", **options)


def new_name() -> str:
    return f"test-{next(numbers)}"


def found(index: BaseIndex, q: Any, k: int, max_terms: int | None = None) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search_row(q, k, max_terms)]


def assert_alike(ours: BaseIndex, theirs: BaseIndex, q: Any, k: int) -> None:
    mine, expected = found(ours, q, k), found(theirs, q, k)
    assert [doc_id for doc_id, _ in mine] == [doc_id for doc_id, _ in expected]
    assert np.allclose([score for _, score in mine], [score for _, score in expected], rtol=0, atol=1e-5)


# -- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    n=st.integers(1, 70),
    batch=st.integers(1, 80),
)
def test_any_weights_any_documents(server: FakeQdrant, seed: int, kinds: list[str], n: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    weights, D, Q = random_weights(rng, kinds), random_rows(rng, n), random_rows(rng, 4)
    ids = [f"d{i}" for i in range(n)]
    embedded = Index.build_rows(ids, D, weights)
    with tempfile.TemporaryDirectory() as folder:
        index = on_qdrant(server, folder, ids, D, weights, batch_docs=batch)
        for i in range(4):
            for k in (1, 7, 80):
                assert_alike(index, embedded, Q[i : i + 1], k)


@pytest.fixture(scope="module")
def many(server: FakeQdrant, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[QdrantIndex, Index]]:
    """Each kind of weights over the same 300 documents, embedded and on Qdrant."""
    made = {}
    for kind in (*KINDS, "blend"):
        rng = np.random.default_rng(3)
        kinds = [kind] if kind != "blend" else ["sparse", "scaled", "identity", "mapped-lowrank"]
        weights = random_weights(rng, kinds)
        D, ids = random_rows(rng, 300), [f"d{i}" for i in range(300)]
        index = on_qdrant(server, tmp_path_factory.mktemp(kind), ids, D, weights)
        made[kind] = (index, Index.build_rows(ids, D, weights))
    return made


@pytest.mark.parametrize("kind", [*KINDS, "blend"])
def test_every_kind_of_weights(many: dict[str, tuple[QdrantIndex, Index]], kind: str) -> None:
    index, embedded = many[kind]
    Q = random_rows(np.random.default_rng(5), 12)
    for i in range(12):
        for k in (1, 10, 100, 400):
            assert_alike(index, embedded, Q[i : i + 1], k)


@pytest.mark.parametrize("kind", ["sparse", "blend"])
def test_few_terms(many: dict[str, tuple[QdrantIndex, Index]], kind: str) -> None:
    index, embedded = many[kind]
    q = random_rows(np.random.default_rng(6), 1, density=0.6)
    everything = dict(found(embedded, q, 400))
    for max_terms in (1, 3, 8):
        hits = index.search_row(q, 10, max_terms)
        assert all(everything[hit.doc_id] == hit.score for hit in hits)
        assert not hits.exact
        better = sorted(set(everything.values()) - {hit.score for hit in hits}, reverse=True)[0]
        assert better <= hits[-1].score + hits.missed
    assert found(index, q, 10, max_terms=1000) == found(embedded, q, 10)


def test_documents_that_share_no_word(server: FakeQdrant, tmp_path: Path) -> None:
    D = np.zeros((6, 4), dtype=np.float32)
    D[0, 0] = D[1, 1] = D[2, 2] = D[3, 3] = 1  # row 4 has no known word; row 5 has words 0 and 1
    D[5, :2] = 1
    ids = list("abcdef")
    cancel = Sparse(weights=sparse.csr_array(np.array([[1, -1, 0, 0]] + [[0] * 4] * 3, dtype=np.float32)))
    factors = np.zeros((4, 2), dtype=np.float32)
    factors[0] = [1, -1]
    queries = np.eye(4, dtype=np.float32)
    # d has latent dimensions of zero, and a word all the same: with a low-rank part it counts.
    latent = LowRank(query_factors=queries[:, :2].copy(), doc_factors=factors)
    q = sparse.csr_array(np.eye(4, dtype=np.float32)[:1])
    for at, (weights, expected) in enumerate(
        (
            (Weights([cancel]), ["a", "f", "b"]),  # f scores 0 and has words that count
            (Weights([Identity(n_terms=4), Identity(n_terms=4, scale=-1.0)]), ["a", "f"]),  # both 0
            (Weights([latent]), ["a", "f", "b", "c", "d"]),  # all but e
            (Weights([cancel, latent]), ["a", "f", "c", "d", "b"]),
        )
    ):
        index = on_qdrant(server, tmp_path / str(at), ids, D, weights)
        assert [doc_id for doc_id, _ in found(index, q, 9)] == expected
        assert found(index, q, 9) == found(Index.build_rows(ids, D, weights), q, 9)
        assert "e" in index
        assert len(index) == 6
        assert not index.row("e").nnz


def test_what_single_precision_cannot_tell_apart(server: FakeQdrant, tmp_path: Path) -> None:
    n = 300
    D = np.stack([np.ones(n), np.arange(n) % 150 + 1.0], axis=1).astype(np.float32)
    weights = Weights([Identity(n_terms=2)])
    q = sparse.csr_array(np.array([[1e6, 1e-5]]))  # a rounding of the first hides all of the second
    ids = [f"d{i}" for i in range(n)]
    index = on_qdrant(server, tmp_path, ids, D, weights)
    assert [doc_id for doc_id, _ in found(index, q, 4)] == ["d149", "d299", "d148", "d298"]
    assert found(index, q, 50) == found(Index.build_rows(ids, D, weights), q, 50)
    [query] = index._view.scorer.expand(q)
    assert next(index._view.certified(query, 4)).depth == n


def test_only_a_few_are_ranked_again(server: FakeQdrant, tmp_path: Path, rng: np.random.Generator) -> None:
    D = sparse.csr_array((rng.random((500, N_TERMS)) * (rng.random((500, N_TERMS)) < 0.4)).astype(np.float32))
    index = on_qdrant(server, tmp_path, [str(i) for i in range(500)], D, random_weights(rng, ["sparse", "lowrank"]))
    [query] = index._view.scorer.expand(random_rows(rng, 1, density=0.5))
    assert next(index._view.certified(query, 5)).depth == 15


def test_weights_beyond_single_precision_are_refused(server: FakeQdrant, tmp_path: Path) -> None:
    index = on_qdrant(server, tmp_path, ["a"], np.ones((1, 1), np.float32), Weights([Identity(n_terms=1, scale=1e32)]))
    with pytest.raises(InputError, match="too much for the single precision of Qdrant"):
        index.search_row(np.ones((1, 1)))


@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(0, 9), max_size=4), latent=st.booleans())
def test_limits_hold_for_every_document(seed: int, sizes: list[int], latent: bool) -> None:
    rng = np.random.default_rng(seed)
    blocks = [(random_rows(rng, n), rng.normal(size=(n, 3)).astype(np.float32) if latent else None) for n in sizes]
    limits = VectorLimits()
    for D, factors in blocks:
        limits = limits.with_documents(D, factors)
    for D, factors in blocks:
        whole = D.toarray() if factors is None else np.hstack([D.toarray(), factors])
        assert (np.linalg.norm(whole, axis=1) <= limits.length).all()
        assert ((whole != 0).sum(axis=1) <= limits.dimensions).all()
        assert D.max() <= limits.value if D.nnz else True


def test_queries_without_a_word_find_nothing(many: dict[str, tuple[QdrantIndex, Index]]) -> None:
    assert found(many["blend"][0], np.zeros((1, N_TERMS)), 5) == []


# -- texts, reasons, other models -------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["plain", "latent"])
def both(request: pytest.FixtureRequest, server: FakeQdrant, tmp_path: Path) -> tuple[QdrantIndex, Index]:
    model = small_model(DOCS, latent=request.param)
    return of_texts(server, tmp_path, model, batch_docs=2), Index.build(DOCS, model)


def test_texts_and_reasons(both: tuple[QdrantIndex, Index], tmp_path: Path) -> None:
    index, embedded = both
    for each in (index, QdrantIndex.open(tmp_path / "index"), open_index(tmp_path / "index")):
        assert isinstance(each, QdrantIndex)
        assert answers(each) == answers(embedded)
        assert list(each) == list(embedded) == list(DOCS)
        assert len(each) == 5
        assert "a" in each
        assert "z" not in each
        assert 3 not in each
        assert each.text("é") == DOCS["é"]
        assert each.text("d") == ""
        assert (each.row("é") != embedded.row("é")).nnz == 0
        assert each.explain("green avocado", "é") == embedded.explain("green avocado", "é")
        assert each.versus("green avocado", "é", "a") == embedded.versus("green avocado", "é", "a")
        assert each.search("green avocado")[0].why == embedded.search("green avocado")[0].why
        run = each.search_many({"1": "green", "2": "sky toast", "3": "guava"}, 3)
        assert run == embedded.search_many({"1": "green", "2": "sky toast", "3": "guava"}, 3)
        assert run.unknown == {"3": ("guava",)}
        q = index.model.queries(["green"])
        assert list(each.explain_row(q, "a")) == list(embedded.explain_row(q, "a"))
        with pytest.raises(InputError, match="no document 'z' among the 5"):
            each.explain("green", "z")
    assert f"5 documents, 7 words, {index.collection!r} at http://127.0.0.1:" in repr(index)


def test_without_texts(server: FakeQdrant, tmp_path: Path) -> None:
    index = of_texts(server, tmp_path, small_model(DOCS), keep_texts=False)
    assert index.search("green")[0].kept_text is None
    with pytest.raises(InputError, match="keeps no texts"):
        index.text("a")
    index.add({"x": "green green"})
    assert index.search("green")[0].kept_text is None


def test_what_documents_carry_and_where_matches_end(server: FakeQdrant, tmp_path: Path) -> None:
    docs = [(doc_id, text, {"price": i, "name": "é"} if i % 2 else {}) for i, (doc_id, text) in enumerate(DOCS.items())]
    model, collection = small_model(DOCS, latent=True), new_name()
    embedded = Index.build(docs, model)
    for keep_texts in (True, False):
        index = of_texts(server, tmp_path, model, docs, collection=collection, keep_texts=keep_texts)
        index.replace([("a", "green avocado", {"price": 99})])
        embedded.replace([("a", "green avocado", {"price": 99})])
        for each in (index, QdrantIndex.open(tmp_path / "index")):
            assert {doc_id: each.stored_fields(doc_id) for doc_id in DOCS} == {
                d: embedded.stored_fields(d) for d in DOCS
            }
            ours, theirs = each.search("sky"), embedded.search("sky")
            assert ([hit.doc_id for hit in ours], ours.left_off) == ([hit.doc_id for hit in theirs], theirs.left_off)
            assert [hit.stored_fields for hit in ours] == [hit.stored_fields for hit in theirs]


def test_no_model_is_bm25_here_too(server: FakeQdrant, tmp_path: Path) -> None:
    index = of_texts(server, tmp_path, None)
    assert answers(index) == answers(Index.build(DOCS))


def test_other_models_over_the_same_words(both: tuple[QdrantIndex, Index], tmp_path: Path) -> None:
    index, embedded = both
    model = index.model
    n = model.weights.shape[0]
    overlay = Sparse(weights=sparse.csr_array(np.triu(np.full((n, n), -0.25, dtype=np.float32))))
    for weights in (model.weights + Weights([overlay]), Weights([Identity(n_terms=n)]), Weights([overlay])):
        other = replace(model, weights=weights)
        assert answers(index.with_model(other)) == answers(embedded.with_model(other))
        assert answers(QdrantIndex.open(tmp_path / "index", other)) == answers(embedded.with_model(other))
    foreign = replace(model, weights=small_model(DOCS, latent=True, seed=9).weights)
    with pytest.raises(InputError, match=r"latent dimensions of (another model|none)"):
        index.with_model(foreign)
    with pytest.raises(InputError, match="another vectoriser"):
        index.with_model(small_model({"a": "other words"}))
    with pytest.raises(InputError, match="expected a TextModel or Weights"):
        index.with_model(3)  # type: ignore[arg-type]


# -- changes ----------------------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "replace", "remove"]), st.lists(st.sampled_from("abcdefgh"), unique=True)),
    max_size=6,
)


@settings(max_examples=20)
@given(changes=CHANGES, latent=st.booleans())
def test_the_same_changes_give_the_same(server: FakeQdrant, changes: list[tuple[str, list[str]]], latent: bool) -> None:
    model = small_model(DOCS, latent=latent)
    with tempfile.TemporaryDirectory() as folder:
        index = of_texts(server, folder, model)
        embedded = Index.build(DOCS, model)
        for at, (what, ids) in enumerate(changes):
            given_docs = {doc_id: ("green sky", "toast eyes blue", "")[(at + i) % 3] for i, doc_id in enumerate(ids)}
            outcomes = []
            for each in (index, embedded):
                try:
                    getattr(each, what)(ids if what == "remove" else given_docs)
                    outcomes.append("done")
                except InputError as error:
                    outcomes.append(re.sub(r"'.'", "?", str(error)))  # any of several may be named
            assert outcomes[0] == outcomes[1]
            assert list(index) == list(embedded)
            assert len(index) == len(embedded)
            assert answers(index) == answers(embedded)
        assert answers(QdrantIndex.open(f"{folder}/index")) == answers(embedded)


def test_refused_documents_leave_what_was_there(both: tuple[QdrantIndex, Index]) -> None:
    index, embedded = both
    many_docs = {f"n{i}": "green" for i in range(300)}  # more than a batch
    for what, docs, problem in (
        ("add", [*many_docs.items(), ("a", "sky")], "'a' is in the index already"),
        ("add", [*many_docs.items(), ("n3", "sky")], "'n3' is there twice"),
        ("replace", [("a", "sky"), *many_docs.items(), ("a", "sky")], "'a' is there twice"),
        ("replace", [("a", "sky"), ("a", "sky")], "'a' is there twice"),
        ("add", [*many_docs.items(), ("x", 3)], "of type int"),
        ("add", [*many_docs.items(), ("", "")], "the id of document 300"),
    ):
        with pytest.raises(InputError, match=problem):
            getattr(index, what)(docs)
        assert list(index) == list(DOCS)
        assert answers(index) == answers(embedded)
    with pytest.raises(InputError, match="no document 'z'"):
        index.remove(["a", "z"])
    with pytest.raises(InputError, match="found the string"):
        index.remove("a")
    assert list(index) == list(DOCS)


def test_others_see_changes_after_a_refresh(both: tuple[QdrantIndex, Index], tmp_path: Path) -> None:
    index, _ = both
    other = QdrantIndex.open(tmp_path / "index")
    assert not other.refresh()
    index.add({"x": "sky"})
    assert len(other) == 5
    assert other.refresh()
    assert len(other) == 6
    assert "x" in [hit.doc_id for hit in other.search("sky")]
    index.add({f"n{i}": "sky" for i in range(30)})
    assert len(other.search("sky", 20)) == 20  # those that were added since are found, whatever its length says


def test_a_failed_build_leaves_nothing(server: FakeQdrant, tmp_path: Path) -> None:
    bad_rows = sparse.csr_array(np.array([[1.0], [-1.0]]))
    with pytest.raises(InputError, match="document 'b' has negative values"):
        on_qdrant(server, tmp_path, ["a", "b"], bad_rows, Weights([Identity(n_terms=1)]), collection="failed")
    twice = [("a", ""), ("a", "")]
    with pytest.raises(InputError, match="'a' is there twice"):
        of_texts(server, tmp_path, small_model(DOCS), twice, collection="failed", batch_docs=1)
    assert not (tmp_path / "index").exists()
    assert "failed" not in server.collections
    of_texts(server, tmp_path, small_model(DOCS), collection="failed")


def test_building_again_replaces(server: FakeQdrant, both: tuple[QdrantIndex, Index], tmp_path: Path) -> None:
    collection = both[0].collection
    again = of_texts(server, tmp_path, small_model(DOCS), {"x": "green sky"}, collection=collection)
    assert list(again) == ["x"]
    with pytest.raises(EngineError, match="open this one again"):
        both[0].search("green")
    assert list(QdrantIndex.open(tmp_path / "index")) == ["x"]
    assert len(list((tmp_path / "index" / "models").iterdir())) == 1
    with pytest.raises(BundleError, match=f"is an index in the collection {collection!r}"):
        of_texts(server, tmp_path, small_model(DOCS), collection="other")


def test_folders_of_another_kind_are_left_alone(server: FakeQdrant, tmp_path: Path) -> None:
    url, model = server.url, small_model(DOCS)
    Index.build(DOCS, model, tmp_path / "embedded")
    with pytest.raises(BundleError, match="holds a bundle of kind 'index'"):
        QdrantIndex.build(DOCS, model, tmp_path / "embedded", url=url)
    QdrantIndex.build(DOCS, model, tmp_path / "there", url=url)
    with pytest.raises(BundleError):
        Index.build(DOCS, model, tmp_path / "there")
    with pytest.raises(MissingBundleError):
        QdrantIndex.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("url", ["", "ftp://host", "localhost:6333", "http://me:secret@host", "http://h:99999", 3])
def test_urls_that_are_none(tmp_path: Path, url: Any) -> None:
    with pytest.raises(InputError, match="url"):
        QdrantIndex.build(DOCS, small_model(DOCS), tmp_path / "index", url=url)
    assert not (tmp_path / "index").exists()


def test_names_of_collections(server: FakeQdrant, tmp_path: Path) -> None:
    for name in ("", "a/b", "..", "é", "x" * 201, 3):
        with pytest.raises(InputError, match="collection is"):
            QdrantIndex.build(DOCS, small_model(DOCS), tmp_path / "i", url=server.url, collection=name)
    made = QdrantIndex.build(DOCS, small_model(DOCS), tmp_path / "my index", url=server.url)
    assert made.collection == "tercet-my-index"


def test_threads(both: tuple[QdrantIndex, Index]) -> None:
    index, embedded = both
    expected = answers(embedded)
    wrong = []

    def ask() -> None:
        for _ in range(20):
            if answers(index) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_documents_than_are_remembered(
    server: FakeQdrant, tmp_path: Path, rng: np.random.Generator, monkeypatch: Any
) -> None:
    from tercet.engines import remote_view as view

    monkeypatch.setattr(view, "_KEPT", 5)
    monkeypatch.setattr(view, "PAGE", 7)
    weights = Weights([random_part(rng, "sparse"), random_part(rng, "lowrank")])
    D, ids = random_rows(rng, 60), [f"d{i}" for i in range(60)]
    index, embedded = on_qdrant(server, tmp_path, ids, D, weights), Index.build_rows(ids, D, weights)
    for q in random_rows(rng, 3):
        assert_alike(index, embedded, q.reshape(1, -1), 60)
    assert list(index) == ids
