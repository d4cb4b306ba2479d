"""An index on Qdrant beside the embedded one: upload, exact top ten, and what is spent on ranking again.

Qdrant's engine runs in this process (qdrant-edge-py), so no network is in it. Documents and queries are those of
`search_speed.py`: made up, 80 words each, 300 to 2,000 signed weights a query; and once more with 32 latent dimensions.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import tempfile
import time
from typing import Any

import numpy as np

from common import Clock, machine_facts, parse_arguments, print_facts, print_table, say_if_disturbed, write_json
from search_speed import N_TERMS, as_row, documents, in_turn, queries
from tercet.search import Index
from tercet.search.backends.qdrant import QdrantIndex
from tercet.search.backends.remote_view import RemoteQuery
from tercet.weights import Identity, LowRank, Part, Weights

K, N_COMPONENTS = 10, 32


def compared(n_docs: int, n_queries: int, latent: bool, rng: np.random.Generator, clock: Clock) -> dict[str, Any]:
    D, ids = documents(n_docs, rng), [str(i) for i in range(n_docs)]
    parts: list[Part] = [Identity(n_terms=N_TERMS)]
    if latent:
        factors = [rng.normal(size=(N_TERMS, N_COMPONENTS)).astype(np.float32) / 8 for _ in range(2)]
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1]))
    weights = Weights(parts)
    asked = [as_row(query) for query in queries(n_queries, True, rng)]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        embedded = Index.build_rows(ids, D, weights, f"{folder}/embedded")
        embedded_seconds = time.perf_counter() - started
        started = time.perf_counter()
        index = QdrantIndex.build_rows(ids, D, weights, f"{folder}/index", url=f"edge:{folder}/qdrant")
        upload_seconds = time.perf_counter() - started
        view = index._view
        expanded = {id(row): next(iter(view.scorer.expand(row))) for row in asked}
        engines = {
            "embedded": lambda row: embedded.search_row(row, K),
            "on Qdrant": lambda row: index.search_row(row, K),
            "… its engine alone, single precision": lambda row: raw(view, expanded[id(row)]),
        }
        wrong = sum(found(embedded, row) != found(index, row) for row in asked)
        depths = [next(view.certified(expanded[id(row)], K)).depth for row in asked]
        taken = in_turn(engines, asked, 3, clock)
    own = float(np.median(taken["embedded"]))
    rows = []
    for name, times in taken.items():
        p50, p99 = np.percentile(times, [50, 99])
        rows.append((name, f"{p50:.2f}", f"{p99:.2f}", f"{p50 / own:.1f}"))
    kind = f"and {N_COMPONENTS} latent dimensions" if latent else "words alone"
    title = f"{n_docs:,} documents, {kind}, {n_queries} queries, top {K}"
    print_table(title, ("", "p50 ms", "p99 ms", "of embedded"), rows)
    print(
        f"indexed at {n_docs / embedded_seconds:,.0f} documents a second, uploaded at {n_docs / upload_seconds:,.0f}; "
        f"ranked again: {np.median(depths):.0f} documents, at most {max(depths)}; {wrong} answers differ"
    )
    return {
        "p50_ms": {name: float(np.median(times)) for name, times in taken.items()},
        "docs_per_second": {"embedded": n_docs / embedded_seconds, "on Qdrant": n_docs / upload_seconds},
        "depth": {"median": float(np.median(depths)), "largest": int(max(depths))},
        "wrong": wrong,
    }


def raw(view: Any, query: Any) -> Any:
    asked = RemoteQuery(view, query)
    return view.engine.nearest_rows(asked.query, K)


def found(index: Any, row: Any) -> list[tuple[str, float]]:
    return [(hit.doc_id, hit.score) for hit in index.search_row(row, K)]


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    rng, clock = np.random.default_rng(arguments.seed), Clock()
    facts = machine_facts("qdrant-edge-py")
    print_facts(facts)
    n_docs, n_queries = (2_000, 10) if arguments.quick else (50_000, 60)
    results = {str(latent): compared(n_docs, n_queries, latent, rng, clock) for latent in (False, True)}
    say_if_disturbed([clock])
    write_json(arguments.output, {"facts": facts, "results": results})


if __name__ == "__main__":
    main()
