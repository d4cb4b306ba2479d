"""A model in OpenSearch: nDCG kept, index size and latency of BM25, + memory field, + rewritten query, and our index.

Collections: NFCorpus (dev queries), ToolLens (test queries), and NFCorpus among 200,000 documents: the rest are made of
sentences of its own documents, drawn at random, and count as not relevant. Models are learned by ``tc.fit`` from the
training queries of each; the third collection takes the model of the first, with the statistics of its own words.

A node is started on loopback (``make engines`` gets the distribution), or ``--url`` names a cluster. "Plain" is an
index of the texts alone. Queries are asked one by one; times are those of the client, for ten hits. ``--models DIR``
keeps the models and takes them from there the next time; ``--quick`` uses a tenth of the documents and queries.
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
from collections.abc import Callable, Iterator, Mapping
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

K, N_LARGE, MOST_QUERIES = 10, 200_000, 400
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
    """The same queries among n documents, most of them made of sentences of the others."""
    rng = np.random.default_rng(seed)
    sentences = [part for text in small.docs.values() for part in text.split(". ") if len(part) > 20]
    docs = dict(small.docs)
    for i in range(n - len(docs)):
        docs[f"made{i}"] = ". ".join(sentences[j] for j in rng.integers(0, len(sentences), 8))
    words = small.model.doc_vectorizer
    counted = Vectorizer(weighting="bm25", analyzer=words.analyzer).fit(docs.values())
    # W keeps its columns; only the statistics of words are those of all documents.
    at = [counted.index_.get(word, -1) for word in words.words_]  # some words are in queries alone
    frequency = np.array([counted.document_frequency_[i] if i >= 0 else 0 for i in at])
    known = copy(words)
    known.remember(words.words_, frequency, len(docs), counted.mean_length_, words.doc_scale_, 0)
    model = replace(small.model, query_vectorizer=known, doc_vectorizer=known)
    return Collection(f"nfcorpus among {n:,}", small.measure, docs, small.queries, small.qrels, model)


def ask_all(queries: Mapping[str, str], ask: Callable[[str], dict[str, float]]) -> tuple[Any, list[float]]:
    """Return a run and the milliseconds of each query; the queries are asked twice, and the second time counts."""
    run: dict[str, dict[str, float]] = {}
    times = []
    for is_timed in (False, True):
        for qid, text in queries.items():
            start = time.perf_counter()
            run[qid] = ask(text)
            if is_timed:
                times.append(1000 * (time.perf_counter() - start))
    return run, times


def measure(collection: Collection, url: str) -> list[list[Any]]:
    """Rows of the table of a collection."""
    from opensearchpy import OpenSearch, helpers

    client = OpenSearch([url], timeout=120)
    body = index_settings(collection.model)
    body["settings"] |= {"number_of_shards": 1, "number_of_replicas": 0}
    past_queries = dict(memory_updates(collection.model))
    for name in (PLAIN, WITH_MEMORY):
        client.indices.delete(index=name, ignore_unavailable=True)
        client.indices.create(index=name, body=body)

        def source(doc_id: str, text: str, is_plain: bool = name == PLAIN) -> dict[str, str]:
            past = {} if is_plain or doc_id not in past_queries else {MEMORY_FIELD: past_queries[doc_id]}
            return {"text": text} | past

        actions = ({"_index": name, "_id": i, "_source": source(i, text)} for i, text in collection.docs.items())
        helpers.bulk(client, actions, chunk_size=500)
    client.indices.delete(index=OURS, ignore_unavailable=True)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"url": url, "collection": OURS}
        index = OpenSearchIndex.build(collection.docs, collection.model, f"{folder}/index", **settings)
        embedded = tc.Index.build(collection.docs, collection.model)
        sizes = {}
        for name in (PLAIN, WITH_MEMORY, OURS):
            client.indices.forcemerge(index=name, max_num_segments=1)
            client.indices.refresh(index=name)
            client.indices.flush(index=name, wait_if_ongoing=True)  # else merged segments count as well
            sizes[name] = client.indices.stats(index=name)["_all"]["primaries"]["store"]["size_in_bytes"] / 1e6

        def by_engine(name: str, form: Any) -> Callable[[str], dict[str, float]]:
            def ask(text: str) -> dict[str, float]:
                request = search_body(collection.model, text, form=form, size=K) | {"_source": False}
                hits = client.search(index=name, body=request)["hits"]["hits"]
                return {hit["_id"]: hit["_score"] for hit in hits}

            return ask

        def by(searched: Any) -> Callable[[str], dict[str, float]]:
            return lambda text: {hit.doc_id: hit.score for hit in searched.search(text, K, cutoff=False)}

        systems: list[tuple[str, Callable[[str], dict[str, float]], float | None]] = [
            ("BM25", by_engine(PLAIN, "bm25"), sizes[PLAIN]),
            ("+ memory field", by_engine(WITH_MEMORY, "memory"), sizes[WITH_MEMORY]),
            ("+ rewritten query", by_engine(WITH_MEMORY, "words"), sizes[WITH_MEMORY]),
            ("OpenSearchIndex", by(index), sizes[OURS]),
            ("embedded index", by(embedded), None),
        ]
        if collection.model.memory is None:
            del systems[1]
        runs = {label: ask_all(collection.queries, ask) for label, ask, _ in systems}
    for name in (PLAIN, WITH_MEMORY, OURS):
        client.indices.delete(index=name, ignore_unavailable=True)
    return table_rows(collection, systems, runs)


def table_rows(collection: Collection, systems: Any, runs: Any) -> list[list[Any]]:
    values = {
        label: tc.evaluate(collection.qrels, run, [collection.measure]).mean(collection.measure)
        for label, (run, _) in runs.items()
    }
    start, full = values["BM25"], values["embedded index"]
    plain_size, plain_p99 = systems[0][2], float(np.percentile(runs["BM25"][1], 99))
    rows = []
    for label, _, size in systems:
        p50, p99 = np.percentile(runs[label][1], (50, 99))
        kept = "" if label == "BM25" else f"{(values[label] - start) / (full - start):.0%}"
        of_plain = ("", "") if size is None else (f"{size:.1f}", f"{size / plain_size:.2f}")
        times = (f"{p50:.1f}", f"{p99:.1f}", f"{p99 / plain_p99:.1f}")
        rows.append([collection.name, label, f"{values[label]:.4f}", kept, *of_plain, *times])
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
        url = options.url or stack.enter_context(opensearch_cluster()).url
        rows = []
        head = ["collection", "", "nDCG", "of the gain", "MB", "of plain", "p50 ms", "p99 ms", "of BM25"]
        for collection in collections(options):
            measured = measure(collection, url)
            print_table(collection.name, head, measured)
            rows += measured
    names = ["collection", "system", *head[2:]]
    write_json(options.output, {"facts": facts, "rows": [dict(zip(names, row, strict=True)) for row in rows]})


if __name__ == "__main__":
    main()
