"""Documents spread over several servers: the answers of one index, and what happens when a shard is killed."""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.commands import ok, run
from support.databases import DatabaseServer, database_server
from support.indexes import DOCS, KINDS, answers, random_rows, random_weights, small_model
from support.serving import made_docs, made_index, served
from tercet.data import write_beir
from tercet.errors import BundleError, EngineAwayError, EngineError, InputError
from tercet.search import Index, QdrantIndex, open_index
from tercet.search.backends import engine as engine_module
from tercet.search.backends.remote_index import RemoteIndex
from tercet.search.base import BaseIndex
from tercet.serve.bounds import Limits
from tercet.serve.generations import IndexSource

pytestmark = pytest.mark.slow  # make test has it, make check has not

PATIENT = Limits(write_burst=1000, deadline_ms=60_000)  # the machine may be busy
numbers = itertools.count()
MANY = {f"d{i}": ("green sky", "toast", "eyes of blue", "")[i % 4] for i in range(20)}


@pytest.fixture(scope="module")
def servers() -> Iterator[list[DatabaseServer]]:
    with database_server("postgres") as first, database_server("postgres") as second:
        yield [first, second]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "pause", lambda _: None)


def build(servers: list[DatabaseServer], folder: Path, docs: Any = DOCS, **options: Any) -> RemoteIndex:
    options = {"collection": f"shard-{next(numbers)}", "batch_docs": 2} | options
    urls = [server.url for server in servers]
    return servers[0].index_class.build(docs, small_model(DOCS, latent=True), folder / "index", url=urls, **options)


def embedded(docs: Any = DOCS) -> Index:
    return Index.build(docs, small_model(DOCS, latent=True))


def found(index: BaseIndex, q: Any, k: int) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search_row(q, k)]


def held(server: DatabaseServer, index: RemoteIndex) -> list[str]:
    """The documents that one server has of an index."""
    engine = server.index_class.connect(server.url, index.collection, None)
    return [doc_id for _, doc_id in engine.ids_from(1, 1000)]


# -- the same as one --------------------------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    n=st.integers(1, 70),
    n_shards=st.integers(2, 4),
)
def test_any_weights_any_documents_any_number_of_shards(seed: int, kinds: list[str], n: int, n_shards: int) -> None:
    rng = np.random.default_rng(seed)
    weights, D, Q = random_weights(rng, kinds), random_rows(rng, n), random_rows(rng, 4)
    ids = [f"d{i}" for i in range(n)]
    one = Index.build_rows(ids, D, weights)
    with tempfile.TemporaryDirectory() as folder:
        urls = [f"edge:{folder}/{number}" for number in range(n_shards)]
        index = QdrantIndex.build_rows(ids, D, weights, f"{folder}/index", url=urls, batch_docs=9)
        for i, k in itertools.product(range(4), (1, 7, 80)):
            assert found(index, Q[i : i + 1], k) == found(one, Q[i : i + 1], k)


def test_two_servers_are_as_one(servers: list[DatabaseServer], tmp_path: Path) -> None:
    index, one = build(servers, tmp_path, MANY), embedded(MANY)
    parts = [held(server, index) for server in servers]
    assert [len(part) for part in parts] == [10, 10]
    assert sorted(parts[0] + parts[1]) == sorted(MANY)
    for each in (index, open_index(tmp_path / "index")):
        assert answers(each) == answers(one)
        assert (list(each), len(each)) == (list(one), len(one))
        assert each.explain("green sky", "d0") == one.explain("green sky", "d0")
        assert each.search_many({"1": "green", "2": "sky"}, 7) == one.search_many({"1": "green", "2": "sky"}, 7)
        hits = each.search("green", 3)
        assert (hits.exact, hits.absent, hits[0].text) == (True, (), "green sky")
    other = open_index(tmp_path / "index")
    for each in (index, one):
        each.add({"x": "green green"})
        each.replace({"d1": "sky sky", "y": "blue"})
        each.remove(["d0", "d7"])
    assert list(index) == list(one)
    assert answers(index) == answers(one)
    assert other.refresh()
    assert answers(other) == answers(one)
    for each in (index, one):
        with pytest.raises(InputError, match="'x' is in the index already"):
            each.add({"z": "sky", "x": "sky"})
    assert list(index) == list(one)


def test_building_again_and_other_shards(servers: list[DatabaseServer], tmp_path: Path) -> None:
    index = build(servers, tmp_path)
    again = build(servers, tmp_path, {"x": "green sky"}, collection=index.collection)
    assert list(again) == ["x"]
    with pytest.raises(BundleError, match="name that one to replace it"):
        build(servers[::-1], tmp_path, collection=index.collection)
    with pytest.raises(InputError, match="shards must differ"):
        build([servers[0], servers[0]], tmp_path / "other")
    # A name that is taken on the second only: nothing is made on the first.
    taken = build(servers[1:], tmp_path / "taken")
    with pytest.raises(EngineError, match="which is that of another index; nothing in it was changed"):
        build(servers, tmp_path / "new", collection=taken.collection)
    assert servers[0].index_class.connect(servers[0].url, taken.collection, None).problem() == "is not there"


# -- a shard is killed ------------------------------------------------------------------------------------------------


def test_a_shard_that_is_killed(servers: list[DatabaseServer], tmp_path: Path) -> None:
    index = build(servers, tmp_path, MANY)
    patient = open_index(tmp_path / "index", partial=True)
    assert answers(patient) == answers(embedded(MANY))
    there = set(held(servers[0], index))
    servers[1].kill()
    try:
        for whole in (index, open_index):
            with pytest.raises(EngineAwayError, match=rf"127.0.0.1:{servers[1].port}/postgres does not answer"):
                whole.search("green", 5) if isinstance(whole, BaseIndex) else whole(tmp_path / "index")
        for each in (patient, open_index(tmp_path / "index", partial=True)):  # which was open, and which is opened now
            hits = each.search("green", 20, cutoff=False)
            expected = [hit for hit in embedded(MANY).search("green", 20, cutoff=False) if hit.doc_id in there]
            assert [(hit.doc_id, hit.score) for hit in hits] == [(hit.doc_id, hit.score) for hit in expected]
            assert (hits.exact, hits.missed) == (False, np.inf)
            assert hits.absent == (f"postgresql://127.0.0.1:{servers[1].port}/postgres",)
            assert "which did not answer" in hits._repr_html_()
            assert each.search_many({"1": "green"}, 5).absent == hits.absent
        with pytest.raises(EngineAwayError):  # changes are made on all shards or fail
            patient.add({"x": "green"})
        answered = run("search", tmp_path / "index", "green", "--partial")
        assert answered.exit_code == 0
        assert f"partial: without the documents of {hits.absent[0]}, which did not answer" in answered.output
        told = json.loads(run("search", tmp_path / "index", "green", "--partial", "--json").output)
        assert (told["exact"], told["absent"]) == (False, list(hits.absent))
        assert run("search", tmp_path / "index", "green").exit_code == 1
    finally:
        servers[1].start()
    patient.add({"x": "green"})  # goes on where it was
    assert answers(patient) == answers(embedded(MANY | {"x": "green"}))
    assert patient.search("green").absent == ()


def test_a_service_goes_on_without_a_shard_where_it_was_told_to(servers: list[DatabaseServer], tmp_path: Path) -> None:
    docs = made_docs()
    urls = [server.url for server in servers]
    model: Any = made_index(latent=True).model
    index = servers[0].index_class.build(docs, model, tmp_path / "index", url=urls, collection="served")
    there = set(held(servers[0], index))
    opened = [IndexSource(tmp_path / "index", partial=partial).open() for partial in (True, False)]
    asked = "/search?q=green+avocado&k=60&all=true"
    journals = [tmp_path / name / "j.jsonl" for name in "ab"]
    with served(journals[0], opened[0], PATIENT) as (client, _), served(journals[1], opened[1], PATIENT) as (strict, _):
        whole = client.get(asked).json()
        assert (whole["partial"], whole["absent"]) == (False, 0)
        servers[1].kill()
        try:
            rest = client.get(asked).json()
            assert (rest["partial"], rest["exact"], rest["absent"]) == (True, False, 1)
            listed = [(hit["id"], hit["score"]) for hit in whole["learned"] if hit["id"] in there]
            assert [(hit["id"], hit["score"]) for hit in rest["learned"]] == listed
            assert listed
            assert strict.get(asked).status_code == 503
        finally:
            servers[1].start()
        assert client.get(asked).json()["absent"] == 0
        assert strict.get(asked).json()["learned"] == whole["learned"]


def test_all_shards_away_is_an_error(servers: list[DatabaseServer], tmp_path: Path) -> None:
    build(servers, tmp_path)
    index = open_index(tmp_path / "index", partial=True)
    for server in servers:
        server.kill()
    try:
        with pytest.raises(EngineAwayError):
            index.search("green")
    finally:
        for server in servers:
            server.start()


def test_a_shard_that_is_killed_in_the_middle_of_a_query(
    servers: list[DatabaseServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the second server is searching, it is killed."""
    index = build(servers, tmp_path, MANY)
    there = set(held(servers[0], index))
    for partial in (True, False):
        opened: Any = open_index(tmp_path / "index", partial=partial)
        shard = opened._view.engine.shards[1]
        execute, killed = shard._execute, []

        def slowly(
            connection: Any,
            statement: str,
            parameters: Any,
            execute: Any = execute,
            killed: list[threading.Timer] = killed,
        ) -> Any:
            if "<#>" in statement and not killed:
                killed.append(threading.Timer(0.3, servers[1].kill))
                killed[0].start()
                return execute(connection, "SELECT pg_sleep(30)", ())
            return execute(connection, statement, parameters)

        monkeypatch.setattr(shard, "_execute", slowly)
        try:
            if partial:
                hits = opened.search("green", 20, cutoff=False)
                assert {hit.doc_id for hit in hits} < there
                assert len(hits.absent) == 1
            else:
                with pytest.raises(EngineAwayError, match="searching was tried 3 times"):
                    opened.search("green", 20)
            assert killed
        finally:
            for timer in killed:
                timer.join()
            servers[1].start()
    assert answers(open_index(tmp_path / "index")) == answers(embedded(MANY))


def test_an_upload_goes_on_after_a_shard_was_killed(servers: list[DatabaseServer], tmp_path: Path) -> None:
    def kill(sent: int) -> None:
        if sent == 8:
            servers[1].kill()

    with pytest.raises(EngineAwayError):
        build(servers, tmp_path, MANY, collection="killed", progress=kill)
    servers[1].start()
    index = build(servers, tmp_path, MANY, collection="killed")
    assert list(index) == list(MANY)
    assert answers(index) == answers(embedded(MANY))
    assert len(held(servers[0], index)) == len(held(servers[1], index)) == 10


def test_commands(servers: list[DatabaseServer], tmp_path: Path) -> None:
    texts = {doc_id: text for doc_id, text in DOCS.items() if text}
    small_model(texts, latent=True).save(tmp_path / "model")
    write_beir(tmp_path / "data", texts, {"q1": "green"}, {"train": {"q1": {"a": 1}}})
    common = ("index", tmp_path / "data", "--model", tmp_path / "model", "-o")
    urls = [word for server in servers for word in ("--url", server.url)]
    ok(*common, tmp_path / "index", "--backend", "postgres", *urls, "--collection", "commands")
    ok(*common, tmp_path / "embedded")
    said = [ok("search", tmp_path / name, "green avocado", "--why") for name in ("index", "embedded")]
    assert said[0] == said[1]
