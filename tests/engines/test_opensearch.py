"""OpenSearch alone: queries for other clients, and nodes that are killed."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.memories import remember
from support.opensearch import Cluster, opensearch_cluster
from tercet.engines import (
    OpenSearchIndex,
    index_settings,
    memory_updates,
    open_index,
    query_string,
    search_body,
    write_memory_updates,
)
from tercet.engines import engine as engine_module
from tercet.errors import EngineError, InputError
from tercet.memory import MemorySettings
from tercet.weights import Identity, Sparse, Weights

pytestmark = pytest.mark.slow  # make test has it, make check has not

numbers = itertools.count()
WORDS = ["tea", "teas", "green", "black", "pot", "cup", "sky", "blue", "avocado", "eyes", "set", "water", "cat"]
QUERIES = {"q1": "green tea", "q2": "black pots", "q3": "tea set", "q4": "blue sky", "q5": "cup of water"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with opensearch_cluster() as running:
        yield running


def ask(cluster: Cluster, method: str, path: str, body: Any = None) -> Any:
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
    url = f"{cluster.nodes[0].url}{path}"
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def scores_of(cluster: Cluster, name: str, query: Any) -> dict[str, float]:
    hits = ask(cluster, "POST", f"/{name}/_search", {"query": query, "size": 100})["hits"]["hits"]
    return {hit["_id"]: hit["_score"] for hit in hits}


def documents(n: int = 60) -> dict[str, str]:
    rng = np.random.default_rng(3)
    return {f"d{i}": " ".join(rng.choice(WORDS, 4 + i % 5)) for i in range(n)}


def learned(docs: dict[str, str], **settings: Any) -> tc.TextModel:
    model = tc.TextModel.bm25(docs.values())
    n, rng = len(model.doc_vectorizer.words_), np.random.default_rng(0)
    pairs = np.abs(rng.normal(size=(n, n))) * (rng.random((n, n)) < 0.2)
    weights = Weights([Identity(n_terms=n), Sparse(weights=sparse.csr_array(pairs.astype(np.float32)))])
    ids = list(docs)
    answered = {qid: {ids[(7 * j + 13 * i) % len(ids)]: 1.0 for j in range(3)} for i, qid in enumerate(QUERIES)}
    rows = model.queries(list(QUERIES.values()))
    memory = remember(answered, QUERIES, rows, MemorySettings(**settings))
    return replace(model, weights=weights, memory=memory)


# -- queries for other clients ----------------------------------------------------------------------------------------


def test_the_engine_weighs_words_as_the_model(cluster: Cluster) -> None:
    """Without memory, the score of the form "words" is the model's up to a factor of the query."""
    docs = documents()
    model = replace(learned(docs), memory=None)
    name = f"words-{next(numbers)}"
    ask(cluster, "PUT", f"/{name}", index_settings(model))
    bulk = "".join(
        json.dumps({"index": {"_id": doc_id}}) + "\n" + json.dumps({"text": f"<p>{text}</p>"}) + "\n"
        for doc_id, text in docs.items()
    )
    assert not ask(cluster, "POST", f"/{name}/_bulk?refresh=true", bulk.encode())["errors"]
    scores = model.weights.score(model.queries(list(QUERIES.values())), model.docs(list(docs.values())))
    for query, expected in zip(QUERIES.values(), np.asarray(scores), strict=True):
        found = scores_of(cluster, name, search_body(model, query)["query"])
        theirs = np.array([found.get(doc_id, 0.0) for doc_id in docs])
        assert theirs / theirs.max() == pytest.approx(expected / expected.max(), abs=2e-3)
        # The same words in Lucene's syntax; words of the model are stems, which must not be stemmed again.
        written = {"query_string": {"query": query_string(model, query), "analyzer": "keyword"}}
        assert scores_of(cluster, name, written) == pytest.approx(found, rel=1e-4)


def test_the_field_of_past_queries_adds_what_memory_adds(cluster: Cluster, tmp_path: Path) -> None:
    docs = documents()
    model = learned(docs, weight=3.0, pooled=0.5, threshold=0.3)
    index = OpenSearchIndex.build(
        docs, replace(model, memory=None), tmp_path / "index", url=cluster.url, collection=f"memory-{next(numbers)}"
    )
    written = write_memory_updates(tmp_path / "memory.ndjson", model)
    lines = (tmp_path / "memory.ndjson").read_text().splitlines()
    assert len(lines) == 2 * written == 2 * len(dict(memory_updates(model)))
    path = f"/{index.collection}/_bulk?refresh=true"
    assert not ask(cluster, "POST", path, (tmp_path / "memory.ndjson").read_bytes())["errors"]
    plain = replace(model, weights=Weights([Identity(n_terms=model.weights.shape[0])]), memory=None)
    answered = (model.memory.evidence > 0).toarray()
    expected = found = 0.0
    for query in QUERIES.values():
        clauses = search_body(model, query, form="memory")["query"]["bool"]["should"]
        by_text, by_memory = (scores_of(cluster, index.collection, clause) for clause in clauses)
        doc_id = next(iter(by_text))
        unit = by_text[doc_id] / plain.rank({"q": query}, {doc_id: docs[doc_id]})["q"][doc_id]
        amounts = dict(zip(model.memory.doc_ids, model.memory.scores(model.queries([query])).toarray()[0], strict=True))
        for column in np.flatnonzero(answered[model.memory.texts.index(query)]).tolist():
            doc_id = model.memory.doc_ids[column]
            expected += amounts[doc_id] * unit
            found += by_memory[doc_id]
    assert found == pytest.approx(expected, rel=0.05)  # Lucene keeps lengths in one byte


def test_forms_that_a_model_cannot_have_are_refused() -> None:
    docs = documents()
    plain = tc.TextModel.bm25(docs.values())
    with pytest.raises(InputError, match="the model has no memory; use the form 'words' or 'bm25'"):
        search_body(plain, "tea", form="memory")
    with pytest.raises(InputError, match="form must be one of 'bm25', 'memory', 'words'; got 'x'"):
        search_body(plain, "tea", form="x")  # type: ignore[arg-type]
    assert search_body(plain, "unheard")["query"] == {"match_none": {}}
    ngrams = tc.TextModel.bm25(docs.values(), tc.Analyzer(ngrams=(1, 2)))
    with pytest.raises(InputError, match="an engine cannot tokenize texts as"):
        index_settings(ngrams)


def test_documents_without_past_queries_get_their_extra_weight(cluster: Cluster, tmp_path: Path) -> None:
    docs = documents()
    model = learned(docs, weight=1.0, unseen=2.0)
    index = OpenSearchIndex.build(docs, model, tmp_path / "index", url=cluster.url, collection=f"x-{next(numbers)}")
    write_memory_updates(tmp_path / "memory.ndjson", model)
    path = f"/{index.collection}/_bulk?refresh=true"
    assert not ask(cluster, "POST", path, (tmp_path / "memory.ndjson").read_bytes())["errors"]
    [*_, extra] = search_body(model, "sky", form="memory")["query"]["bool"]["should"]
    known = set(model.memory.doc_ids)
    assert (
        set(scores_of(cluster, index.collection, extra))
        == {doc_id for doc_id, text in docs.items() if "sky" in text} - known
    )


def test_past_queries_are_few_words_of_many_queries() -> None:
    """A word stands as often as queries have it, at most 8 times; words are spelled as in the queries."""
    asked = {f"q{i}": f"{'pots' if i < 3 else 'cups'} {' '.join(f'x{i}y{j}' for j in range(9))}" for i in range(20)}
    model = tc.TextModel.bm25(["a pot of tea", "a cup of tea"])
    rows = model.queries(list(asked.values()))
    memory = remember({qid: {"a": 1.0} for qid in asked}, asked, rows, MemorySettings())
    [(doc_id, words)] = memory_updates(replace(model, memory=memory))
    found = words.split()
    assert doc_id == "a"
    assert len(set(found)) == 56
    assert (found.count("cups"), found.count("pots")) == (8, 3)


# -- the guide --------------------------------------------------------------------------------------------------------


def log_clicks(cluster: Cluster, docs: dict[str, str], asked: dict[str, str], n_clients: int = 6) -> None:
    """Put a log of UBI into the cluster: clients click the document that answers their query, second in the list."""
    lines: dict[str, list[Any]] = {"ubi_queries": [], "ubi_events": []}
    ids = list(docs)
    for number, (query, answer) in enumerate(asked.items()):
        for client in range(n_clients):
            qid, who = f"{number}-{client}", f"client{(number + client) % 40}"
            others = [ids[(5 * number + j + client) % len(ids)] for j in range(3)]
            page = [others[0], answer, *(doc_id for doc_id in others[1:] if doc_id != answer)]
            common = {
                "timestamp": f"2026-11-{1 + client:02d}T10:{number % 60:02d}:00.000Z",
                "query_id": qid,
                "client_id": who,
            }
            lines["ubi_queries"].append(common | {"user_query": query, "query_response_hit_ids": page})
            clicked = {"object": {"object_id": answer}, "position": {"ordinal": 2}}
            lines["ubi_events"].append(common | {"action_name": "click", "event_attributes": clicked})
    for name, rows in lines.items():
        bulk = "".join(f'{{"index": {{}}}}\n{json.dumps(row)}\n' for row in rows)
        assert not ask(cluster, "POST", f"/{name}/_bulk?refresh=true", bulk.encode())["errors"]


def test_the_guide_goes_round(cluster: Cluster, tmp_path: Path) -> None:
    """All commands of the guide, in order, as they stand on the page."""
    things = [
        f"{color} {thing}"
        for thing in ("kettle", "mug", "lamp", "chair", "rug", "clock", "vase", "shelf")
        for color in WORDS[:10]
    ]
    nicknames = {"kettle": "boiler", "mug": "beaker", "lamp": "light", "chair": "seat", "rug": "mat", "clock": "timer"}
    docs = {f"p{i}": text for i, text in enumerate(things)}
    (tmp_path / "products.csv").write_text("id,text\n" + "".join(f"{i},{text}\n" for i, text in docs.items()))
    asked = {}
    for doc_id, text in docs.items():
        color, thing = text.split()
        if thing in nicknames:
            asked[f"{color} {nicknames[thing]}"] = doc_id
    log_clicks(cluster, docs, asked)
    page = (Path(__file__).parents[2] / "docs" / "guides" / "opensearch.md").read_text(encoding="utf-8")
    commands = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    assert len(commands) >= 12
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"OPENSEARCH": cluster.url, "PATH": path}
    script = "set -e -o pipefail\n" + "\n".join(commands)
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads((tmp_path / "body.json").read_text())
    hits = scores_of(cluster, "products", body["query"])
    assert hits
    index = open_index(tmp_path / "learned")
    model = index.model
    assert isinstance(model, tc.TextModel)
    assert model.memory is not None
    by_text = search_body(model, "green boiler", form="bm25")["query"]
    by_memory = search_body(model, "green boiler", form="memory")["query"]
    by_words = scores_of(cluster, "products", by_text)
    assert len([score for score in by_words.values() if score == by_words[asked["green boiler"]]]) > 1
    assert next(iter(scores_of(cluster, "products", by_memory))) == asked["green boiler"]
    assert index.search("green boiler")[0].doc_id == asked["green boiler"]


# -- nodes that are killed --------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    not os.environ.get("TERCET_LONG_TESTS"), reason="kills nodes of a cluster for minutes: make test-long"
)
def test_nodes_are_killed_during_a_load_and_during_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes, three shards, a replica of each: nothing acknowledged is lost, and answers stay the same."""
    docs = documents(3000)
    model = learned(docs)
    embedded = tc.Index.build(docs, model)
    with opensearch_cluster(3) as cluster:
        first, second, _ = cluster.nodes

        def kill_one(sent: int) -> None:
            if sent > 1000 and second.process is not None:
                second.kill()

        options: dict[str, Any] = {"url": cluster.url, "collection": "lossy", "shards": 3, "replicas": 1}
        index = OpenSearchIndex.build(docs, model, tmp_path / "index", progress=kill_one, **options)
        assert second.process is None
        assert list(index) == list(docs)

        def answers(opened: Any) -> list[Any]:
            return [[(hit.doc_id, hit.score) for hit in opened.search(query, 5)] for query in QUERIES.values()]

        def attempt() -> Any:
            try:
                return answers(index)
            except EngineError as error:
                return error

        # Shards have statistics of their own, so candidates differ; documents that both list have the same scores.
        expected = answers(index)
        scores = {query: dict(pairs) for query, pairs in zip(QUERIES, answers(embedded), strict=True)}
        for query, pairs in zip(QUERIES, expected, strict=True):
            assert all(score == scores[query][doc_id] for doc_id, score in pairs if doc_id in scores[query])
        second.start()
        cluster.wait(first, "/_cluster/health?wait_for_nodes=3&wait_for_status=green&timeout=5s")
        for at in range(30):
            if at == 10:
                cluster.nodes[2].kill()
            assert answers(index) == expected
        second.kill()  # one of three cannot elect a cluster manager: an error, and not a shorter answer
        monkeypatch.setattr(engine_module, "pause", lambda _: None)
        outcomes = [attempt() for _ in range(5)]
        assert all(outcome == expected or isinstance(outcome, EngineError) for outcome in outcomes)
        for node in (second, cluster.nodes[2]):
            node.start()
        cluster.wait(first, "/_cluster/health?wait_for_nodes=3&wait_for_status=green&timeout=5s")
        assert list(open_index(tmp_path / "index")) == list(docs)
        assert answers(index) == expected
