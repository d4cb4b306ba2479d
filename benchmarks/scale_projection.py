"""What larger collections would take, worked out from what ``scale_costs.py`` measured (its JSON is the argument).

    python benchmarks/scale_costs.py -o costs.json
    python benchmarks/scale_projection.py costs.json

Everything here is arithmetic on measured costs. What is assumed is printed with it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import print_table

GIB, HOUR = 2**30, 3600.0
N_COMPONENTS = 100
USED_OF_MEMORY = 0.8  # of a machine's memory, the rest is the system's


@dataclass(frozen=True)
class Collection:
    name: str
    docs: float
    words_a_doc: float  # different ones
    vocabulary: float
    preferences: float


WIKIPEDIA = Collection("Wikipedia of Bai et al. 2010", 1_828_645, 250, 2.5e6, 0.7 * 24_667_286)
BILLION = Collection("10⁹ documents", 1e9, 100, 2.5e6, 1e9)
MACHINE_GIB, MACHINE_CORES = 24, 2


@dataclass(frozen=True)
class Costs:
    """Measured at the largest size: seconds and bytes, per entry (a word of a document), step and query."""

    docs: int
    vectorize_entry: float
    vector_bytes_entry: float
    index_entry: float
    index_bytes_entry: float
    step_entry: float  # a low-rank step, by the words of its three documents
    large_vocabulary: float  # how much slower a step over 2.5 million words is than over 200,000
    warm_row: float
    cold_row: float
    query_doc: float  # one over the number of documents that a second of a query looks at
    latent_query_doc: float
    merging: float

    @classmethod
    def from_dict(cls, measured: dict[str, Any]) -> Costs:
        results = measured["results"]
        sizes = [int(name) for name in results if name.isdigit()]
        n = max(sizes)
        at = results[str(n)]
        entries = at["vectorize"]["entries"]
        step = at["fit low rank"]["seconds"] / at["fit low rank"]["steps"]
        by_words = {int(v): job["seconds"] / job["steps"] for v, job in results["vocabulary"].items()}
        smaller = sorted(by_words)[-2]
        return cls(
            docs=n,
            vectorize_entry=at["vectorize"]["seconds"] / entries,
            vector_bytes_entry=at["vectorize"]["bytes"] / entries,
            index_entry=at["index"]["seconds"] / entries,
            index_bytes_entry=at["index"]["bytes"] / entries,
            step_entry=step / (3 * entries / n),
            large_vocabulary=by_words[max(by_words)] / by_words[smaller],
            warm_row=at["cold rows"]["warm_seconds_a_row"],
            cold_row=at["cold rows"]["cold_seconds_a_row"],
            query_doc=at["query identity"]["p50"] / n,
            latent_query_doc=at["query low rank"]["p50"] / n,
            merging=results["pieces"]["merging_p50"],
        )


def projection(of: Collection, costs: Costs) -> list[tuple[str, str]]:
    entries = of.docs * of.words_a_doc
    vectors, index = entries * costs.vector_bytes_entry, entries * costs.index_bytes_entry
    latent = of.docs * 4 * N_COMPONENTS
    model = 2 * 4 * of.vocabulary * N_COMPONENTS
    room = USED_OF_MEMORY * MACHINE_GIB * GIB
    step = 3 * of.words_a_doc * costs.step_entry * costs.large_vocabulary
    fits = vectors < room - model
    row = 0.0 if fits else 3 * (costs.cold_row - costs.warm_row)
    searching, with_latent = max(1.0, index / room), max(1.0, (index + latent) / room)
    piece, latent_piece = of.docs / searching, of.docs / with_latent
    return [
        ("vectorize, core-hours", f"{entries * costs.vectorize_entry / HOUR:,.1f}"),
        ("vectors on disk, GiB", f"{vectors / GIB:,.0f}"),
        ("index, core-hours", f"{entries * costs.index_entry / HOUR:,.1f}"),
        ("index on disk, GiB", f"{index / GIB:,.0f}"),
        ("latent documents, GiB", f"{latent / GIB:,.1f}"),
        ("factors of all words, GiB", f"{model / GIB:,.1f}"),
        ("a low-rank step, µs", f"{1e6 * step:,.0f}"),
        ("  and reading rows that are not in memory, µs", f"{1e6 * row:,.0f}"),
        ("one pass over the preferences, core-hours", f"{of.preferences * (step + row) / HOUR:,.1f}"),
        ("machines that hold the index in memory", f"{_whole(searching):,}"),
        ("  with latent documents", f"{_whole(with_latent):,}"),
        ("a query of four words, ms", f"{1e3 * (piece * costs.query_doc + costs.merging * searching / 10):,.1f}"),
        (
            "  of a low-rank model, ms",
            f"{1e3 * (latent_piece * costs.latent_query_doc + costs.merging * with_latent / 10):,.1f}",
        ),
    ]


def _whole(machines: float) -> int:
    return int(-(-machines // 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("costs", type=Path, help="the JSON that scale_costs.py wrote")
    costs = Costs.from_dict(json.loads(parser.parse_args().costs.read_text()))
    print(
        f"From costs at {costs.docs:,} documents, for machines of {MACHINE_CORES} cores and {MACHINE_GIB} GiB, of which"
    )
    print(
        f"{USED_OF_MEMORY:.0%} are used. A step over 2.5 million words takes {costs.large_vocabulary:.2f} times one "
        f"over 200,000; a row\nthat is not in memory takes {1e6 * costs.cold_row:.0f} µs instead of "
        f"{1e6 * costs.warm_row:.1f}."
    )
    for collection in (WIKIPEDIA, BILLION):
        print(
            f"\n{collection.name}: {collection.docs:,.0f} documents; assumed: {collection.words_a_doc:.0f} different "
            f"words in each,\n{collection.vocabulary:,.0f} words in all, {collection.preferences:,.0f} preferences "
            f"a pass, {N_COMPONENTS} components"
        )
        print_table("", ["", "projected"], projection(collection, costs))


if __name__ == "__main__":
    main()
