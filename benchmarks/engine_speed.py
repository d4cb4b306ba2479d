"""Indexes in other engines beside the embedded one: upload, size, exact top ten, and what is ranked again.

Qdrant's engine runs in this process (qdrant-edge-py), so no network is in it; PostgreSQL and seekdb are servers that
this script starts on loopback and ends (``make engines`` installs them), PostgreSQL once more as two shards. Documents
and queries are those of `search_speed.py`: made up, 80 words each, 300 to 2,000 signed weights a query; and once more
with 32 latent dimensions. For seekdb also what its own index of sparse vectors finds, which promises nothing and is not
used. ``--docs`` and ``--asked`` say how many documents and queries (50,000 and 60).
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import contextlib
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import Clock, machine_facts, parse_arguments, print_facts, print_table, say_if_disturbed, write_json
from search_speed import N_TERMS, as_row, documents, in_turn, queries
from tercet.search import Index
from tercet.engines import backend_class
from tercet.engines.remote_view import RemoteQuery
from tercet.weights import Identity, LowRank, Part, Weights

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.databases import NEEDED, database_server

K, N_COMPONENTS = 10, 32
TABLE_BYTES = {
    "postgres": "SELECT pg_total_relation_size('\"speed\"')",
    "seekdb": "SELECT sum(occupy_size) FROM oceanbase.DBA_OB_TABLET_REPLICAS",
}


def compared(
    n_docs: int, n_queries: int, latent: bool, urls: dict[str, list[str]], rng: np.random.Generator, clock: Clock
) -> dict[str, Any]:
    D, ids = documents(n_docs, rng), [str(i) for i in range(n_docs)]
    parts: list[Part] = [Identity(n_terms=N_TERMS)]
    if latent:
        factors = [rng.normal(size=(N_TERMS, N_COMPONENTS)).astype(np.float32) / 8 for _ in range(2)]
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1]))
    weights = Weights(parts)
    asked = [as_row(query) for query in queries(n_queries, True, rng)]
    results: dict[str, Any] = {}
    indexes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        embedded = Index.build_rows(ids, D, weights, f"{folder}/embedded")
        results["embedded"] = {"docs_per_second": n_docs / (time.perf_counter() - started)}
        searched: dict[str, Any] = {"embedded": lambda row: embedded.search_row(row, K)}
        for name, shards in urls.items():
            backend = name.split(",")[0]
            url: str | list[str] = f"edge:{folder}/{name}" if backend == "qdrant" else shards
            started = time.perf_counter()
            index = backend_class(backend).build_rows(
                ids,
                D,
                weights,
                f"{folder}/{name}-{latent}",
                url=url,
                collection="speed",
            )
            seconds = time.perf_counter() - started
            indexes[name] = index
            view = index._view
            depths = [next(view.certified(next(iter(view.scorer.expand(row))), K)).depth for row in asked[:20]]
            results[name] = {
                "docs_per_second": n_docs / seconds,
                "depth": {"median": float(np.median(depths)), "largest": int(max(depths))},
                "wrong": sum(found(embedded, row) != found(index, row) for row in asked),
                "mb": megabytes(view.engine, backend, Path(f"{folder}/{name}")),
            }
            searched[name] = lambda row, index=index: index.search_row(row, K)
            searched[f"… {name}, its engine alone"] = lambda row, view=view: raw(view, row)
        taken = in_turn(searched, asked, 2, clock)
        indexed = by_its_index(indexes["seekdb"], asked, embedded) if "seekdb" in indexes else None
        for name in urls:
            drop(name, urls[name])
    rows = []
    for name, times in taken.items():
        p50, p99 = np.percentile(times, [50, 99])
        result = results.setdefault(name, {})
        result |= {"p50_ms": float(p50), "p99_ms": float(p99)}
        uploaded = f"{result['docs_per_second']:,.0f}" if "docs_per_second" in result else ""
        again = f"{result['depth']['median']:.0f}, {result['depth']['largest']}" if "depth" in result else ""
        size = f"{result['mb']:.0f}" if result.get("mb") else ""
        wrong = str(result.get("wrong", ""))
        rows.append((name, f"{p50:.2f}", f"{p99:.2f}", uploaded, size, again, wrong))
    kind = f"and {N_COMPONENTS} latent dimensions" if latent else "words alone"
    title = f"{n_docs:,} documents, {kind}, {n_queries} queries, top {K}"
    print_table(title, ("", "p50 ms", "p99 ms", "documents/s", "MB", "ranked again, at most", "answers differ"), rows)
    if indexed is not None:
        results["seekdb by its index"] = indexed
        print("seekdb by its own index: " + ", ".join(f"{name} {value}" for name, value in indexed.items()))
    return results


def raw(view: Any, row: Any) -> Any:
    query = RemoteQuery(view, next(iter(view.scorer.expand(row))))
    return view.engine.nearest_rows(query.query, K)


def found(index: Any, row: Any) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search_row(row, K)]


def megabytes(engine: Any, backend: str, folder: Path) -> float:
    if backend == "qdrant":
        return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e6
    if backend == "postgres":
        tables = getattr(engine, "shards", (engine,))
        return sum(float(table._ask("measuring", TABLE_BYTES[backend])[0][0]) for table in tables) / 1e6
    return 0.0  # seekdb says no size before it has merged


def drop(name: str, urls: list[str]) -> None:
    if not name.startswith("qdrant"):
        for url in urls:
            backend_class(name.split(",")[0]).connect(url, "speed", None).drop()


def by_its_index(index: Any, asked: list[Any], embedded: Any) -> dict[str, Any]:
    """What seekdb finds by its index of sparse vectors: of how many queries all K, and how fast."""
    engine = getattr(index._view.engine, "shards", (index._view.engine,))[0]
    started = time.perf_counter()
    create = "CREATE VECTOR INDEX speed_words ON speed (words) WITH (distance=inner_product, type=sindi, lib=vsag)"
    engine._ask("indexing", create)
    built = time.perf_counter() - started
    same, times = 0, []
    for row in asked:
        query = RemoteQuery(index._view, next(iter(index._view.scorer.expand(row))))
        [text] = engine._pieces(query.query)
        product = "negative_inner_product(words, %s)"
        statement = f"SELECT number, doc_id FROM speed ORDER BY {product} APPROXIMATE LIMIT {K}"
        started = time.perf_counter()
        listed = engine._ask("searching", statement, [text])
        times.append(1000 * (time.perf_counter() - started))
        same += {doc_id for _, doc_id in listed} == {doc_id for doc_id, _ in found(embedded, row)}
    p50 = round(float(np.median(times)), 1)
    return {"same": f"{same} of {len(asked)}", "p50_ms": p50, "seconds to build": round(built, 1)}


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, docs=int, asked=int)
    rng, clock = np.random.default_rng(arguments.seed), Clock()
    facts = machine_facts("qdrant-edge-py")
    print_facts(facts)
    n_docs, n_queries = (2_000, 10) if arguments.quick else (arguments.docs or 50_000, arguments.asked or 60)
    with contextlib.ExitStack() as servers:
        urls: dict[str, list[str]] = {"qdrant": []}
        for backend, packages in NEEDED.items():
            if all(importlib.util.find_spec(package) for package in packages):
                urls[backend] = [servers.enter_context(database_server(backend)).url]
        if "postgres" in urls:
            urls["postgres, two shards"] = [servers.enter_context(database_server("postgres")).url for _ in range(2)]
        results = {str(latent): compared(n_docs, n_queries, latent, urls, rng, clock) for latent in (False, True)}
    say_if_disturbed([clock])
    write_json(arguments.output, {"facts": facts, "results": results})


if __name__ == "__main__":
    main()
