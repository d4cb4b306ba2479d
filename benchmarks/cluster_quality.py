"""How well models rank that were learned in rounds by 2 and by 8 workers, beside one: mean average precision on 20
Newsgroups after the same number of steps. Shares are taken one after the other in this process, which gives the bits of
a cluster with as many workers.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tercet as tc
from common import (
    Newsgroups,
    load_newsgroups,
    machine_facts,
    parse_arguments,
    print_facts,
    print_table,
    verdict,
    write_json,
)
from tercet.measure import average_precision_of_classes
from tercet.scale import Cluster

WORKERS = (1, 2, 8)
LOWRANK: dict[str, Any] = {"n_components": 100, "tied": True}


@dataclass
class Row:
    """One model, by the number of workers and seed; ``weights`` names those of a fit that it is."""

    name: str
    n_steps: int
    within: float | None
    weights: str = "weights_"
    map: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in WORKERS})
    rounds: dict[int, int] = field(default_factory=dict)
    megabytes: dict[int, float] = field(default_factory=dict)

    def loss(self, n_workers: int) -> float:
        """How much lower than with one worker, mean over seeds."""
        return float(np.mean(self.map[1]) - np.mean(self.map[n_workers]))


def measure(ranker: Any, rows: list[Row], data: Newsgroups, seed: int) -> None:
    prefs = tc.Preferences.from_labels(data.y, rows[0].n_steps, random_state=seed)
    for n_workers in WORKERS:
        ranker.set_params(random_state=seed, verbose=False)
        with Cluster(f"here:{n_workers}") if n_workers > 1 else nullcontext() as cluster:
            ranker.fit(data.X, prefs)
        for row in rows:
            values = average_precision_of_classes(getattr(ranker, row.weights), data.X_test, data.y_test)
            row.map[n_workers].append(float(values.mean()))
            print(f"{row.name}, {n_workers} workers, seed {seed}: MAP {row.map[n_workers][-1]:.4f}", flush=True)
            if cluster is not None:
                sent = [facts.bytes_down + facts.bytes_up for facts in cluster.rounds]
                row.rounds[n_workers], row.megabytes[n_workers] = len(sent), float(np.mean(sent) / 1e6)


def main() -> None:
    arguments = parse_arguments(__doc__, seeds=int)
    facts = machine_facts()
    print_facts(facts)
    data = load_newsgroups(arguments.data_home)
    many = 20_000 if arguments.quick else 300_000
    seeds = range(arguments.seed, arguments.seed + (arguments.seeds or (1 if arguments.quick else 3)))
    models: list[tuple[Any, list[Row]]] = [
        (tc.LowRankRanker(**LOWRANK), [Row("low rank, tied, 100", many, 0.01)]),
        (tc.LowRankRanker(**LOWRANK, scale_documents=True), [Row("… documents scaled", many, 0.01)]),
    ]
    for ranker, some in models:
        for seed in seeds:
            measure(ranker, some, data, seed)
    rows = [row for _, some in models for row in some]
    print_table(
        f"20 Newsgroups, MAP over {len(data.y_test):,} test queries, mean of seeds {seeds[0]} to {seeds[-1]}",
        ["", "steps", *(f"{n} worker{'s' * (n > 1)}" for n in WORKERS), "lost, 2", "lost, 8", "within", ""],
        [
            [
                row.name,
                f"{row.n_steps:,}",
                *(f"{np.mean(row.map[n]):.4f}" for n in WORKERS),
                *(f"{row.loss(n):+.4f}" for n in WORKERS[1:]),
                f"{row.within}" if row.within else "–",
                verdict(max(row.loss(n) for n in WORKERS[1:]), row.within, at_most=True) if row.within else "",
            ]
            for row in rows
        ],
    )
    print_table(
        "Rounds, and MB that a round sends down and up",
        ["", *(f"{n} workers: rounds" for n in WORKERS[1:]), *(f"{n} workers: MB" for n in WORKERS[1:])],
        [
            [row.name, *(str(row.rounds[n]) for n in WORKERS[1:]), *(f"{row.megabytes[n]:.1f}" for n in WORKERS[1:])]
            for row in rows
        ],
    )
    write_json(arguments.output, {"machine": facts, "rows": [vars(row) for row in rows]})


if __name__ == "__main__":
    main()
