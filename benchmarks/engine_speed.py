"""Indexes in other engines beside the embedded one: upload, exact top ten, and what is ranked again.

PostgreSQL is a server that this script starts on loopback and ends (``make engines`` installs it); ``--qdrant URL``
names a Qdrant server. Documents and queries are those of `search_speed.py`: made up, 80 words each, 300 to 2,000 signed
weights a query; and once more with 32 latent dimensions. ``--docs`` and ``--asked`` say how many documents and queries
(50,000 and 60).
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
from tercet.engines.opening import BACKENDS
from tercet.engines.remote_view import RemoteQuery
from tercet.search import Index
from tercet.weights import Identity, LowRank, Part, Weights

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.databases import PACKAGES, postgres_server

K, N_COMPONENTS = 10, 32
TABLE_BYTES = "SELECT pg_total_relation_size('\"speed\"')"


def compared(
    n_docs: int, n_queries: int, latent: bool, urls: dict[str, str], rng: np.random.Generator, clock: Clock
) -> dict[str, Any]:
    D, ids = documents(n_docs, rng), [str(i) for i in range(n_docs)]
    parts: list[Part] = [Identity(n_terms=N_TERMS)]
    if latent:
        factors = [rng.normal(size=(N_TERMS, N_COMPONENTS)).astype(np.float32) / 8 for _ in range(2)]
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1]))
    weights = Weights(parts)
    asked = [as_row(query) for query in queries(n_queries, True, rng)]
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        embedded = Index.build_rows(ids, D, weights, f"{folder}/embedded")
        results["embedded"] = {"docs_per_second": n_docs / (time.perf_counter() - started)}
        searched: dict[str, Any] = {"embedded": lambda row: embedded.search_row(row, K)}
        for name, url in urls.items():
            started = time.perf_counter()
            index = BACKENDS[name].build_rows(ids, D, weights, f"{folder}/{name}", url=url, collection="speed")
            seconds = time.perf_counter() - started
            view = index._view
            depths = [next(view.certified(next(iter(view.scorer.expand(row))), K)).depth for row in asked[:20]]
            results[name] = {
                "docs_per_second": n_docs / seconds,
                "depth": {"median": float(np.median(depths)), "largest": int(max(depths))},
                "wrong": sum(found(embedded, row) != found(index, row) for row in asked),
                "mb": float(view.engine._ask("measuring", TABLE_BYTES)[0][0]) / 1e6 if name == "postgres" else None,
            }
            searched[name] = lambda row, index=index: index.search_row(row, K)
            searched[f"… {name}, its engine alone"] = lambda row, view=view: raw(view, row)
        taken = in_turn(searched, asked, 2, clock)
        for name, url in urls.items():
            BACKENDS[name].connect(url, "speed", None, is_named=True).drop()
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
    return results


def raw(view: Any, row: Any) -> Any:
    query = RemoteQuery(view, next(iter(view.scorer.expand(row))))
    return view.engine.nearest_rows(query.query, K)


def found(index: Any, row: Any) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search_row(row, K)]


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, docs=int, asked=int, qdrant=str)
    rng, clock = np.random.default_rng(arguments.seed), Clock()
    facts = machine_facts("qdrant-client")
    print_facts(facts)
    n_docs, n_queries = (2_000, 10) if arguments.quick else (arguments.docs or 50_000, arguments.asked or 60)
    with contextlib.ExitStack() as servers:
        urls = {} if arguments.qdrant is None else {"qdrant": arguments.qdrant}
        if all(importlib.util.find_spec(package) for package in PACKAGES):
            urls["postgres"] = servers.enter_context(postgres_server()).url
        results = {str(latent): compared(n_docs, n_queries, latent, urls, rng, clock) for latent in (False, True)}
    say_if_disturbed([clock])
    write_json(arguments.output, {"facts": facts, "results": results})


if __name__ == "__main__":
    main()
