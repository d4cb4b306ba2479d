"""How much faster two workers learn than one process: the same fit here and on ``local:2``, in turn, on 20 Newsgroups
class preferences; what a round sends, and where its time goes. Wants a machine with two idle cores, for nine minutes.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from dataclasses import dataclass, field
from typing import Any

import tercet as tc
from common import (
    Clock,
    Newsgroups,
    load_newsgroups,
    machine_facts,
    median,
    parse_arguments,
    print_facts,
    print_table,
    verdict,
    write_json,
)
from tercet.scale import Cluster, RoundFacts

N_WORKERS = 2
TARGET = 1.6
LOWRANK: dict[str, Any] = {"n_components": 100, "tied": True}


@dataclass
class Job:
    """One fit, here and on the workers, as often as there are turns."""

    name: str
    ranker: type
    parameters: dict[str, Any]
    n_steps: int
    here: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)
    rounds: list[RoundFacts] = field(default_factory=list)
    bytes_broadcast: int = 0

    @property
    def gains(self) -> list[float]:
        return [here / there for here, there in zip(self.here, self.there, strict=True)]

    def fit(self, data: Newsgroups, seed: int) -> float:
        source = tc.learn.SampledSource.from_labels(data.y, self.n_steps, random_state=seed)
        ranker = self.ranker(**self.parameters, random_state=seed, verbose=False)
        with (clock := Clock()).running():
            ranker.fit(data.X, source)
        return clock.wall


def run(data: Newsgroups, jobs: list[Job], turns: int, seed: int) -> None:
    with (starting := Clock()).running():
        cluster = Cluster(f"local:{N_WORKERS}").__enter__()
    cluster.__exit__(None, None, None)
    print(f"Starting and stopping {N_WORKERS} workers: {starting.wall:.1f} s, not timed below.")
    for job in jobs:
        warm_up = Job("", job.ranker, job.parameters, 300)
        warm_up.fit(data, seed)
        for _ in range(turns):
            job.here.append(job.fit(data, seed))
            with Cluster(f"local:{N_WORKERS}") as cluster:
                warm_up.fit(data, seed)
                known, sent = len(cluster.rounds), cluster.bytes_broadcast
                job.there.append(job.fit(data, seed))
                job.rounds, job.bytes_broadcast = cluster.rounds[known:], cluster.bytes_broadcast - sent


def report(jobs: list[Job]) -> None:
    print_table(
        f"One process against {N_WORKERS} workers, the same steps; medians of {len(jobs[0].here)} turns",
        ["", "steps", "here s", "there s", "times as fast", "lowest", "highest", "target", ""],
        [
            [
                job.name,
                f"{job.n_steps:,}",
                f"{median(job.here):.1f}",
                f"{median(job.there):.1f}",
                f"{median(job.gains):.2f}",
                f"{min(job.gains):.2f}",
                f"{max(job.gains):.2f}",
                f"≥ {TARGET}",
                verdict(median(job.gains), TARGET) if median(job.here) >= 60 else "too short a job",
            ]
            for job in jobs
        ],
    )
    rows = []
    for job in jobs:
        for name, some in (("all rounds", job.rounds), ("last but one", job.rounds[-2:-1])):
            n = max(len(some), 1)
            rows.append(
                [
                    f"{job.name}, {name}",
                    str(len(some)),
                    f"{sum(facts.steps for facts in some) / n:,.0f}",
                    *(
                        f"{sum(getattr(f, f'bytes_{way}') for f in some) / n / 1e6:.2f}"
                        for way in ("down", "up", "between")
                    ),
                    *(f"{sum(getattr(facts, part) for facts in some) / n:.3f}" for part in PARTS),
                    f"{sum(f.driver_seconds for f in some) / (sum(f.seconds for f in some) or 1):.1%}",
                ]
            )
    print_table(
        "A round, on average: MB down to the workers, up from them and between them; seconds of it, of the slowest "
        "share, of the driver",
        ["", "rounds", "steps", "down", "up", "between", "s", "share s", "driver s", "driver's part"],
        rows,
    )
    for job in jobs:
        print(f"{job.name}: {job.bytes_broadcast / 1e6:.1f} MB of texts were sent at the start.")


PARTS = ("seconds", "worker_seconds", "driver_seconds")


def main() -> None:
    arguments = parse_arguments(__doc__)
    facts = machine_facts("distributed")
    print_facts(facts)
    data = load_newsgroups(arguments.data_home)
    n_steps = 500_000 if arguments.quick else 9_000_000
    jobs = [Job("low rank, tied, 100", tc.LowRankRanker, LOWRANK, n_steps)]
    run(data, jobs, 1 if arguments.quick else 2, arguments.seed)
    report(jobs)
    write_json(
        arguments.output,
        {
            "machine": facts,
            "jobs": [
                vars(job) | {"ranker": job.ranker.__name__, "rounds": [vars(facts) for facts in job.rounds]}
                for job in jobs
            ],
        },
    )


if __name__ == "__main__":
    main()
