"""An index in PostgreSQL, on a real server: what it finds is what the embedded index finds."""

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

from support.commands import ok, run
from support.databases import PostgresServer, postgres_server
from support.indexes import DOCS, KINDS, answers, random_rows, random_weights, small_model
from support.serving import eventually, made_docs, made_index, served
from tercet.data import read_run, write_beir
from tercet.engines import PostgresIndex, open_index
from tercet.errors import BundleError, InputError
from tercet.search import Index
from tercet.search.base import BaseIndex
from tercet.serve.service import Limits
from tercet.weights import Identity, LowRank, Sparse, Weights

pytestmark = pytest.mark.slow  # make test has it, make check has not

PATIENT = Limits(deadline_ms=60_000)  # the machine may be busy
numbers = itertools.count()


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def new_name() -> str:
    return f"test-{next(numbers)}"


def in_database(server: PostgresServer, folder: Path | str, ids: list[str], D: Any, weights: Weights) -> PostgresIndex:
    path = Path(folder) / "index"
    return PostgresIndex.build_rows(ids, D, weights, path, url=server.url, collection=new_name(), batch_docs=50)


def of_texts(server: PostgresServer, folder: Path, model: Any, docs: Any = DOCS, **options: Any) -> PostgresIndex:
    options = {"collection": new_name(), "batch_docs": 2} | options
    return PostgresIndex.build(docs, model, folder / "index", url=server.url, **options)


def found(index: BaseIndex, q: Any, k: int) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search_row(q, k)]


# -- what is found ----------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    n=st.integers(1, 70),
)
def test_any_weights_any_documents(database: PostgresServer, seed: int, kinds: list[str], n: int) -> None:
    rng = np.random.default_rng(seed)
    weights, D, Q = random_weights(rng, kinds), random_rows(rng, n), random_rows(rng, 4)
    D.data *= rng.choice([1.0, rng.random()], D.nnz).astype(np.float32)  # numbers with all their digits, and ties
    ids = [f"d{i}" for i in range(n)]
    embedded = Index.build_rows(ids, D, weights)
    with tempfile.TemporaryDirectory() as folder:
        index = in_database(database, folder, ids, D, weights)
        for i, k in itertools.product(range(4), (1, 7, 80)):
            assert found(index, Q[i : i + 1], k) == found(embedded, Q[i : i + 1], k)


def test_documents_that_share_no_word(database: PostgresServer, tmp_path: Path) -> None:
    D = np.zeros((6, 4), dtype=np.float32)
    D[0, 0] = D[1, 1] = D[2, 2] = D[3, 3] = 1  # row 4 has no known word; row 5 has words 0 and 1
    D[5, :2] = 1
    ids = list("abcdef")
    cancel = Sparse(weights=sparse.csr_array(np.array([[1, -1, 0, 0]] + [[0] * 4] * 3, dtype=np.float32)))
    factors = np.array([[1, -1], [0, 0], [0, 0], [0, 0]], dtype=np.float32)
    latent = LowRank(query_factors=np.eye(4, 2, dtype=np.float32), doc_factors=factors)
    q = sparse.csr_array(np.eye(4, dtype=np.float32)[:1])
    for number, (weights, expected) in enumerate(
        (
            (Weights([cancel]), ["a", "f", "b"]),  # f scores 0 and has words that count
            (Weights([Identity(n_terms=4), Identity(n_terms=4, scale=-1.0)]), ["a", "f"]),  # both 0
            (Weights([latent]), ["a", "f", "b", "c", "d"]),  # all but e
        )
    ):
        index = in_database(database, tmp_path / str(number), ids, D, weights)
        assert [doc_id for doc_id, _ in found(index, q, 9)] == expected
        assert found(index, q, 9) == found(Index.build_rows(ids, D, weights), q, 9)
        assert "e" in index
        assert not index.row("e").nnz


def test_what_single_precision_cannot_tell_apart(database: PostgresServer, tmp_path: Path) -> None:
    n = 300
    D = np.stack([np.ones(n), np.arange(n) % 150 + 1.0], axis=1).astype(np.float32)
    weights, ids = Weights([Identity(n_terms=2)]), [f"d{i}" for i in range(n)]
    q = sparse.csr_array(np.array([[1e6, 1e-5]]))  # a rounding of the first hides all of the second
    index = in_database(database, tmp_path, ids, D, weights)
    assert found(index, q, 50) == found(Index.build_rows(ids, D, weights), q, 50)


@pytest.mark.parametrize("n_words", [15_999, 16_000, 16_001, 40_000])
def test_queries_of_very_many_signed_words(database: PostgresServer, tmp_path: Path, n_words: int) -> None:
    rng = np.random.default_rng(n_words)
    n_terms = 40_000
    D = sparse.random_array((60, n_terms), density=0.01, rng=rng, dtype=np.float32, format="csr")
    q = np.zeros((1, n_terms))
    q[0, rng.choice(n_terms, n_words, replace=False)] = rng.normal(size=n_words)
    weights, ids = Weights([Identity(n_terms=n_terms)]), [f"d{i}" for i in range(60)]
    index = in_database(database, tmp_path, ids, D, weights)
    assert found(index, q, 20) == found(Index.build_rows(ids, D, weights), q, 20)


def test_documents_of_very_many_words(database: PostgresServer, tmp_path: Path) -> None:
    n_terms = 16_001
    D = sparse.csr_array(np.ones((1, n_terms), dtype=np.float32))
    weights = Weights([Identity(n_terms=n_terms)])
    with pytest.raises(InputError, match=r"'a' has 16,001 different words .*; PostgreSQL takes 16,000"):
        in_database(database, tmp_path, ["a"], D, weights)
    assert not (tmp_path / "index").exists()


# -- texts, reasons, other models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("latent", [False, True])
def test_texts_and_reasons(database: PostgresServer, tmp_path: Path, latent: bool) -> None:
    model = small_model(DOCS, latent=latent)
    index, embedded = of_texts(database, tmp_path, model), Index.build(DOCS, model)
    for each in (index, PostgresIndex.open(tmp_path / "index"), open_index(tmp_path / "index")):
        assert type(each) is PostgresIndex
        assert answers(each) == answers(embedded)
        assert list(each) == list(embedded) == list(DOCS)
        assert ("a" in each, "z" in each, len(each)) == (True, False, 5)
        assert (each.text("é"), each.text("d")) == (DOCS["é"], "")
        assert (each.row("é") != embedded.row("é")).nnz == 0
        assert each.explain("green avocado", "é") == embedded.explain("green avocado", "é")
        assert each.versus("green avocado", "é", "a") == embedded.versus("green avocado", "é", "a")
        queries = {"1": "green", "2": "sky toast", "3": "guava"}
        assert each.search_many(queries, 3) == embedded.search_many(queries, 3)
    n = model.weights.shape[0]
    overlay = Sparse(weights=sparse.csr_array(np.triu(np.full((n, n), -0.25, dtype=np.float32))))
    other = replace(model, weights=model.weights + Weights([overlay]))
    assert answers(index.with_model(other)) == answers(embedded.with_model(other))
    with pytest.raises(InputError, match="documents in PostgreSQL with the latent dimensions of"):
        index.with_model(replace(model, weights=small_model(DOCS, latent=True, seed=9).weights))


def test_odd_strings(database: PostgresServer, tmp_path: Path) -> None:
    """Ids that a collation would take for the same, quotes, long ones, and letters of four bytes."""
    ids = ["a", "A", "a ", "á", "%s", "'\"`\\", "😀", "x" * 5000, "{}"]
    docs = [(doc_id, f"green {doc_id} \\ ' % \u2028 😀", {"name": doc_id}) for doc_id in ids]
    index = of_texts(database, tmp_path, small_model(DOCS), docs)
    assert list(index) == ids
    for doc_id, text, stored_fields in docs:
        assert (index.text(doc_id), index.stored_fields(doc_id)) == (text, stored_fields)
    index.remove(["a", "'\"`\\"])
    assert list(index) == [doc_id for doc_id in ids if doc_id not in ("a", "'\"`\\")]
    with pytest.raises(InputError, match=r"'n' has a NUL character, which PostgreSQL does not take"):
        index.add({"m": "fine", "n": "green\0"})
    assert "m" not in index


# -- changes ----------------------------------------------------------------------------------------------------------

CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "replace", "remove"]), st.lists(st.sampled_from("abcdefgh"), unique=True)),
    max_size=5,
)


@settings(max_examples=5, deadline=None)
@given(changes=CHANGES, latent=st.booleans())
def test_the_same_changes_give_the_same(
    database: PostgresServer, changes: list[tuple[str, list[str]]], latent: bool
) -> None:
    model = small_model(DOCS, latent=latent)
    with tempfile.TemporaryDirectory() as folder:
        index, embedded = of_texts(database, Path(folder), model), Index.build(DOCS, model)
        for step, (change, ids) in enumerate(changes):
            docs = {doc_id: ("green sky", "toast eyes blue", "")[(step + i) % 3] for i, doc_id in enumerate(ids)}
            outcomes = []
            for each in (index, embedded):
                try:
                    getattr(each, change)(ids if change == "remove" else docs)
                    outcomes.append("done")
                except InputError as error:
                    outcomes.append(re.sub(r"'.'", "?", str(error)))  # any of several may be named
            assert outcomes[0] == outcomes[1]
            assert list(index) == list(embedded)
            assert answers(index) == answers(embedded)
        assert answers(open_index(f"{folder}/index")) == answers(embedded)


def test_others_see_changes_after_a_refresh(database: PostgresServer, tmp_path: Path) -> None:
    index = of_texts(database, tmp_path, small_model(DOCS))
    other = open_index(tmp_path / "index")
    assert not other.refresh()
    index.add({"x": "sky"})
    assert (len(other), other.refresh(), len(other)) == (5, True, 6)
    assert "x" in [hit.doc_id for hit in other.search("sky")]


def test_building_again_replaces(database: PostgresServer, tmp_path: Path) -> None:
    name = new_name()
    of_texts(database, tmp_path, small_model(DOCS), collection=name)
    again = of_texts(database, tmp_path, small_model(DOCS), {"x": "green sky"}, collection=name)
    assert list(again) == ["x"]
    with pytest.raises(BundleError, match="is an index in the collection"):
        of_texts(database, tmp_path, small_model(DOCS), collection=new_name())


def test_threads(database: PostgresServer, tmp_path: Path) -> None:
    index = of_texts(database, tmp_path, small_model(DOCS, latent=True))
    expected = answers(Index.build(DOCS, small_model(DOCS, latent=True)))
    wrong = []

    def ask() -> None:
        for _ in range(5):
            if answers(index) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- the service ------------------------------------------------------------------------------------------------------


def test_the_service_searches_explains_and_learns(database: PostgresServer, tmp_path: Path) -> None:
    one = made_index(latent=True)
    other = PostgresIndex.build(made_docs(), one.model, tmp_path / "index", url=database.url, collection=new_name())
    output = []
    for at, index in enumerate((one, other)):
        with served(tmp_path / f"taught{at}.db", index, PATIENT) as (client, service):
            asked = ["/search?q=green+avocado&k=5", "/explain?q=green&doc=d3", "/documents/d5"]
            answers = [client.get(path).json() for path in asked]
            first, *_, last = answers[0]["learned"]
            liked = {"query": "green avocado", "better": last["id"], "worse": first["id"]}
            assert client.post("/prefer", json=liked).status_code == 202
            assert eventually(lambda: service.served.revision == 1)  # an answer waits for half a second only
            answers.append(client.get(asked[0]).json())
            assert answers[3]["learned"] != answers[0]["learned"]
            for answer in answers:
                answer.pop("took_ms", None)
            output.append(answers)
    assert output[0] == output[1]


# -- the command line -------------------------------------------------------------------------------------------------


def test_commands(database: PostgresServer, tmp_path: Path) -> None:
    texts = {doc_id: text for doc_id, text in DOCS.items() if text}
    small_model(texts, latent=True).save(tmp_path / "model")
    write_beir(tmp_path / "data", texts, {"q1": "green avocado", "q2": "sky"}, {"train": {"q1": {"a": 1}}})
    common = ("index", tmp_path / "data", "--model", tmp_path / "model", "-o")
    location = ("--backend", "postgres", "--url", database.url, "--collection", new_name())
    assert ok(*common, tmp_path / "index", *location) == f"{tmp_path / 'index'}: 4 documents, 7 words\n"
    ok(*common, tmp_path / "embedded")
    for command in (
        ("search", "green avocado guava", "--why"),
        ("search", "green sky", "-k", 2),
        ("explain", "green avocado", "a", "--versus", "b"),
    ):
        said = [ok(command[0], tmp_path / name, *command[1:]) for name in ("index", "embedded")]
        assert said[0] == said[1]
    for name in ("index", "embedded"):
        ok("search", tmp_path / name, "--queries", tmp_path / "data" / "queries.jsonl", "-o", tmp_path / f"{name}.trec")
    assert read_run(tmp_path / "index.trec") == read_run(tmp_path / "embedded.trec")
    output = ok("index", tmp_path / "index", "--update", tmp_path / "data", "--remove", "a")
    assert output == f"{tmp_path / 'index'}: 4 documents before, 4 now\n"
    again = run(*common, tmp_path / "other", *location)
    assert again.exit_code == 1
    assert "is that of another index; nothing in it was changed" in again.output
