"""The service for half an hour at a low load: memory, threads and open files must stay level, and nothing may fail.

A visitor searches 20 times a second and clicks, a teacher teaches each second and undoes all after 20 actions,
documents come and go, models are promoted and taken back. All requests go to one `tercet serve`. The second half of the
time is compared with the first.

    python benchmarks/serve_soak.py            # 30 minutes; --quick: one
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common import machine_facts, parse_arguments, print_facts, print_table, write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

N_DOCS, MOST_ACTIVE = 5_000, 20
PAUSES = {"visitor": 0.05, "teacher": 1.0, "keeper": 4.0, "models": 30.0}
REMEMBERED = 360  # bytes that the log remembers for a list, up to 32 MB in all


class Paced(threading.Thread):
    """Takes a turn, waits, and so on until it is stopped."""

    def __init__(self, name: str, turn: Callable[[], object], stop: threading.Event) -> None:
        super().__init__(name=name)
        self._turn, self._stop_event = turn, stop
        self.times: list[float] = []
        self.failures: list[str] = []

    def run(self) -> None:
        while not self._stop_event.wait(PAUSES[self.name]):
            began = time.perf_counter()
            try:
                self._turn()
            except Exception as error:
                self.failures.append(f"{self.name}: {error!r}")
            self.times.append(1000 * (time.perf_counter() - began))


def sample(process: int) -> dict[str, float]:
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    own = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(("Private_Dirty", "Swap:")))
    threads = len(os.listdir(f"/proc/{process}/task"))
    return {"own_mb": own / 1024, "threads": threads, "files": len(os.listdir(f"/proc/{process}/fd"))}


def main() -> None:
    from support.killing import TOKEN, Keeper, Teacher, Visitor, change_model, louder
    from support.serving import made_docs, made_index, running

    class Undoer(Teacher):
        def turn(self) -> None:
            active = sorted(self.acknowledged.keys() - self.undone)
            if len(active) < MOST_ACTIVE:
                super().turn()
            else:
                self.undone.update(self.ask("POST", "/undo", {"actions": active})["undone"])

    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts()
    print_facts(facts)
    seconds = 60.0 if arguments.quick else 1800.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        louder(made_index(folder / "index", docs=made_docs(N_DOCS)), 0.5).save(folder / "other")
        options = ["--log-impressions", str(folder / "log"), "--look-every", "0.5"]
        environment = {"TERCET_TEACH_TOKEN": TOKEN, "OPENBLAS_NUM_THREADS": "1"}
        with running(folder / "index", *options, patience=seconds + 300, **environment) as service:
            visitor, teacher = Visitor(service.address, arguments.seed), Undoer(service.address, arguments.seed + 1)
            keeper = Keeper(service.address, arguments.seed + 2, set())
            dice, stop = random.Random(arguments.seed + 3), threading.Event()
            turns = {"visitor": visitor.turn, "teacher": teacher.turn, "keeper": keeper.turn}
            turns["models"] = lambda: change_model(folder, dice)
            threads = [Paced(name, turn, stop) for name, turn in turns.items()]
            for thread in threads:
                thread.start()
            samples, end = [], time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(min(10.0, seconds / 20))
                samples.append(sample(service.process.pid))
            stop.set()
            for thread in threads:
                thread.join()
    failures = [failure for thread in threads for failure in thread.failures]
    failures += [fault for asker in (visitor, teacher, keeper) for fault in asker.unexpected]
    parts = [samples[i * len(samples) // 6 : (i + 1) * len(samples) // 6] for i in range(6)]
    print_table(
        f"{seconds / 60:.0f} minutes, the mean of each sixth",
        list(samples[0]),
        [[f"{np.mean([one[key] for one in part]):.1f}" for key in samples[0]] for part in parts],
    )
    half = np.array([one["own_mb"] for one in samples[len(samples) // 2 :]])
    rise = float(np.polyfit(np.linspace(0, seconds / 120, half.size), half, 1)[0])
    lists = 60 * len(visitor.lists) / seconds
    print(f"own memory in the second half: {rise:+.2f} MB a minute, of which remembered lists may take", end=" ")
    print(f"{lists * REMEMBERED / 2**20:.2f}")
    for thread in threads:
        print(f"{thread.name}: {len(thread.times):,} turns, p50 {np.median(thread.times):.0f} ms", end=", ")
        print(f"p99 {np.quantile(thread.times, 0.99):.0f} ms")
    print(f"{len(teacher.acknowledged):,} actions, {len(teacher.undone):,} undone; {len(failures)} failures")
    for failure in failures[:20]:
        print(f"  {failure}")
    write_json(arguments.output, {"machine": facts, "samples": samples, "failures": failures, "rise": rise})
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
