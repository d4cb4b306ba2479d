"""A model in OpenSearch: nDCG kept, index size and latency of BM25, + memory field, + rewritten query, and our index.

Collections: NFCorpus (dev queries), ToolLens (test queries), and NFCorpus among 200,000 documents: each of the rest is
made of 8 runs of 20 words of its own documents, drawn at random, and counts as not relevant. Models are learned by
``tc.fit`` from the training queries of each; the third collection takes the model of the first, with the statistics of
its own words.

A node is started on loopback (``make engines`` gets the distribution), or ``--url`` names a cluster. "Plain" is an
index of the texts alone. Queries are asked one by one, each of all systems in turn, so that a busy machine slows all of
them; times are those of the client, for ten hits. ``--models DIR`` keeps the models and takes them from there the next
time; ``--quick`` uses a tenth of the documents and queries.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tercet as tc
from common import add_shared_options, check_data_home, machine_facts, print_facts, print_table, write_json
from tercet.data import read_beir
from tercet.engines import OpenSearchIndex, index_settings, memory_updates, search_body
from tercet.engines.lucene_query import MEMORY_FIELD
from tercet.text import Vectorizer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.opensearch import missing, opensearch_cluster

K, N_LARGE, MOST_QUERIES, ROUNDS = 10, 200_000, 400, 3
RUNS, RUN_WORDS = 8, 20  # of a document that is made
LEAST_GAIN = 0.01  # of which a share is printed
MOST_SECONDS_TO_MERGE = 90.0
JAVA = "-Xms1g -Xmx1g"
PLAIN, WITH_MEMORY, OURS = "tercet-benchmark-plain", "tercet-benchmark-memory", "tercet-benchmark"


@dataclass(frozen=True)
class Collection:
    """Documents, test queries and a model."""

    name: str
    measure: str
    docs: Mapping[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]
    model: tc.TextModel


def collections(options: argparse.Namespace) -> Iterator[Collection]:
    for name, part, measure in (("nfcorpus", "dev", "nDCG@10"), ("toollens", "test", "nDCG@5")):
        data = read_beir(options.data_home / name)
        train, test = data.split("train"), data.split(part)
        qids = list(test)[:: 10 if options.quick else max(1, len(test) // MOST_QUERIES)]
        docs, queries = dict(data.docs), {qid: data.queries[qid] for qid in qids}
        model = learned(options, name, docs, data.queries, train)
        found = Collection(name, measure, docs, queries, {qid: dict(test[qid]) for qid in qids}, model)
        yield found
        if name == "nfcorpus" and options.large:
            yield among_many(found, options.large // (10 if options.quick else 1), options.seed)


@dataclass(frozen=True)
class System:
    """Something that ranks: its name, how to ask it, and the megabytes of its index."""

    name: str
    ask: Callable[[str], dict[str, float]]
    size: float | None


def learned(options: argparse.Namespace, name: str, docs: Any, queries: Any, qrels: Any) -> tc.TextModel:
    folder = None if options.models is None else options.models / name
    if folder is not None and folder.exists():
        model = tc.load(folder)
        assert isinstance(model, tc.TextModel)
        return model
    model = tc.fit(docs, queries, qrels, random_state=options.seed, options={"verbose": False})
    if folder is not None:
        model.save(folder)
    return model


def among_many(small: Collection, n: int, seed: int) -> Collection:
    """The same queries among n documents, most of them as long as the others and made of runs of their words."""
    rng = np.random.default_rng(seed)
    texts = [text.split() for text in small.docs.values() if text.strip()]
    docs = dict(small.docs)
    for i in range(n - len(docs)):
        parts = (texts[j] for j in rng.integers(0, len(texts), RUNS))
        starts = [(words, int(rng.integers(0, max(1, len(words) - RUN_WORDS + 1)))) for words in parts]
        docs[f"made{i}"] = " ".join(word for words, start in starts for word in words[start : start + RUN_WORDS])
    words = small.model.doc_vectorizer
    counted = Vectorizer(weighting="bm25", analyzer=words.analyzer).fit(docs.values())
    # W keeps its columns; only the statistics of words are those of all documents.
    at = [counted.index_.get(word, -1) for word in words.words_]  # some words are in queries alone
    frequency = np.array([counted.document_frequency_[i] if i >= 0 else 0 for i in at])
    known = copy(words)
    known.remember(words.words_, frequency, len(docs), counted.mean_length_, words.doc_scale_, 0)
    model = replace(small.model, query_vectorizer=known, doc_vectorizer=known)
    return Collection(f"nfcorpus among {n:,}", small.measure, docs, small.queries, small.qrels, model)


def ask_all(
    queries: Mapping[str, str], systems: Sequence[System]
) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, list[float]], dict[str, list[float]]]:
    """Return a run of each system, the milliseconds of queries asked for the first time, and asked again.

    Each query goes to all systems in turn, and the first of them changes from query to query.
    """
    runs: dict[str, dict[str, dict[str, float]]] = {system.name: {} for system in systems}
    first: dict[str, list[float]] = {system.name: [] for system in systems}
    again: dict[str, list[float]] = {system.name: [] for system in systems}
    for times in (first, *[again] * ROUNDS):
        for number, (qid, text) in enumerate(queries.items()):
            turn = number % len(systems)
            for system in (*systems[turn:], *systems[:turn]):
                start = time.perf_counter()
                runs[system.name][qid] = system.ask(text)
                times[system.name].append(1000 * (time.perf_counter() - start))
    return runs, first, again


def measure(collection: Collection, url: str) -> list[list[Any]]:
    """Rows of the table of a collection."""
    from opensearchpy import OpenSearch, helpers

    client = OpenSearch([url], timeout=300)
    for name in (PLAIN, WITH_MEMORY, OURS):
        client.indices.delete(index=name, ignore_unavailable=True)
    body = index_settings(collection.model)
    body["settings"] |= {"number_of_shards": 1, "number_of_replicas": 0}
    client.indices.create(index=PLAIN, body=body)
    texts = ({"_index": PLAIN, "_id": doc_id, "text": text} for doc_id, text in collection.docs.items())
    helpers.bulk(client, texts, chunk_size=500)
    client.indices.add_block(index=PLAIN, block="write")
    client.indices.clone(index=PLAIN, target=WITH_MEMORY, body={"settings": {"number_of_replicas": 0}})
    client.indices.put_settings(index=WITH_MEMORY, body={"index.blocks.write": False})
    updates = (
        {"_op_type": "update", "_index": WITH_MEMORY, "_id": doc_id, "doc": {MEMORY_FIELD: past_queries}}
        for doc_id, past_queries in memory_updates(collection.model)
    )
    helpers.bulk(client, updates, chunk_size=500)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"url": url, "collection": OURS}
        index = OpenSearchIndex.build(collection.docs, collection.model, f"{folder}/index", **settings)
        embedded = tc.Index.build(collection.docs, collection.model)
        sizes = {name: merged_megabytes(client, name) for name in (PLAIN, WITH_MEMORY, OURS)}

        def by_engine(name: str, form: Any) -> Callable[[str], dict[str, float]]:
            def ask(text: str) -> dict[str, float]:
                request = search_body(collection.model, text, form=form, size=K) | {"_source": False}
                hits = client.search(index=name, body=request)["hits"]["hits"]
                return {hit["_id"]: hit["_score"] for hit in hits}

            return ask

        def by(searched: Any) -> Callable[[str], dict[str, float]]:
            return lambda text: {hit.doc_id: hit.score for hit in searched.search(text, K, cutoff=False)}

        systems = [
            System("BM25", by_engine(PLAIN, "bm25"), sizes[PLAIN]),
            System("+ memory field", by_engine(WITH_MEMORY, "memory"), sizes[WITH_MEMORY]),
            System("+ rewritten query", by_engine(WITH_MEMORY, "words"), sizes[WITH_MEMORY]),
            System("OpenSearchIndex", by(index), sizes[OURS]),
            System("embedded index", by(embedded), None),
        ]
        if collection.model.memory is None:
            del systems[1]
        rows = table_rows(collection, systems, *ask_all(collection.queries, systems))
    for name in (PLAIN, WITH_MEMORY, OURS):
        client.indices.delete(index=name, ignore_unavailable=True)
    return rows


def merged_megabytes(client: Any, name: str) -> float:
    """Merge the segments of an index and return its size on disk."""
    client.indices.put_settings(index=name, body={"index.blocks.write": False})
    until = time.monotonic() + MOST_SECONDS_TO_MERGE
    while True:
        client.indices.flush(index=name, force=True, wait_if_ongoing=True)  # else merging keeps updated documents
        client.indices.forcemerge(index=name, max_num_segments=1)
        client.indices.refresh(index=name)
        client.indices.flush(index=name, force=True, wait_if_ongoing=True)  # else merged segments count as well
        primaries = client.indices.stats(index=name)["_all"]["primaries"]
        # A node keeps the former versions of updated documents for recoveries, for about half a minute.
        if not primaries["docs"]["deleted"] or time.monotonic() > until:
            return float(primaries["store"]["size_in_bytes"] / 1e6)
        time.sleep(5)


def table_rows(collection: Collection, systems: Sequence[System], runs: Any, first: Any, again: Any) -> list[list[Any]]:
    values = {
        name: tc.evaluate(collection.qrels, run, [collection.measure]).mean(collection.measure)
        for name, run in runs.items()
    }
    plain, full = values["BM25"], values["embedded index"]
    rows = []
    for system in systems:
        value = values[system.name]
        has_gain = system.name != "BM25" and full - plain > LEAST_GAIN
        kept = f"{(value - plain) / (full - plain):.0%}" if has_gain else ""
        sizes = (
            ("", "") if system.size is None else (f"{system.size:.1f}", f"{system.size / (systems[0].size or 1):.2f}")
        )
        times: list[str] = []
        for milliseconds in (again, first):
            p50, p99 = np.percentile(milliseconds[system.name], (50, 99))
            times += f"{p50:.1f}", f"{p99:.1f}", f"{p99 / np.percentile(milliseconds['BM25'], 99):.1f}"
        rows.append([collection.name, system.name, f"{value:.4f}", kept, *sizes, *times])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    parser.add_argument("--url", help="a cluster that runs; without one a node is started")
    parser.add_argument("--large", type=int, default=N_LARGE, help="documents of the third collection; 0 for none")
    parser.add_argument("--models", type=Path, help="folder that keeps the models")
    options = parser.parse_args()
    check_data_home(parser, options)
    if options.url is None and (problem := missing()) is not None:
        sys.exit(problem)
    facts = machine_facts("opensearch-py")
    print_facts(facts)
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(opensearch_cluster(java_options=JAVA)).url
        rows = []
        head = ["collection", "", "nDCG", "of the gain", "MB", "of plain", "p50 ms", "p99 ms", "of BM25"]
        head += [f"first {name}" for name in head[-3:]]
        for collection in collections(options):
            measured = measure(collection, url)
            print_table(collection.name, head, measured)
            rows += measured
    names = ["collection", "system", *head[2:]]
    write_json(options.output, {"facts": facts, "rows": [dict(zip(names, row, strict=True)) for row in rows]})


if __name__ == "__main__":
    main()
