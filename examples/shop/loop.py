"""The whole loop on the shop: serve, visitors, log, learn, interleave, promote; and the quality over time.

    python examples/shop/loop.py shop/                       # honest visitors, then 5 % and 20 % attackers
    python examples/shop/loop.py shop/ --attackers 0 --rounds 2 --lists 2000
    python examples/shop/loop.py shop/ --only-draw           # the courses that are there

The shop is that of shop.py, made where it is missing. Its index begins as BM25. In each round visitors search and click
over HTTP, the service logs what they were shown, ``tercet fit`` learns a candidate from the log of all rounds so far,
and the service shows it to the next visitors, interleaved with what it serves, and promotes it when the test of who
wins is decided. Nobody restarts it for that.

Visitors look and click as in shop.py. Attackers look like them, come as often, each under a name of its own, and click
what is not relevant as others click what is. Quality is nDCG@10 by the truth of what is served: of the queries that no
visitor asks, and of those they do. Each course is kept beside its index, in course.json, and all that are there are
drawn, so that they may be run side by side.
"""

from __future__ import annotations

import os

os.environ |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}  # more would only wait for each other

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import urlencode

import numpy as np
from shop import SHOWN, VISITORS, make_shop, read_packages, read_truth, run

import tercet as tc
from tercet.data.lines import write_atomically
from tercet.search import Index
from tercet.simulate import Traffic, Visitors

N_THREADS = 4
TRAFFIC = Traffic()
ATTACKERS = Visitors(VISITORS.looking, chances=tuple(reversed(VISITORS.chances)))
FIT_OPTIONS = ""  # of `tercet fit`, beside those of the loop
SETTLE_SECONDS = 3  # people here click at once
IDLE_SECONDS = 3
TOKEN = "of-the-shop-alone"  # with it the shop vouches for the names of its visitors
MEASURE = "nDCG@10"
COURSE = "course.json"


@dataclass
class Course:
    """What was served after how many lists, and how good it was."""

    attackers: float
    n_lists: list[int] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    untouched: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)

    def save(self, path: Path) -> None:
        with write_atomically(path) as stream:
            stream.write(json.dumps(asdict(self)) + "\n")


def read_courses(shop: Path) -> list[Course]:
    """As far as they have come, with the fewest attackers first."""
    paths = shop.glob(f"loop-*/{COURSE}")
    return sorted((Course(**json.loads(path.read_text("utf-8"))) for path in paths), key=lambda one: one.attackers)


class Truth:
    """What is relevant, and how good an index is by it."""

    def __init__(self, shop: Path) -> None:
        self.untouched, self.asked = read_truth(shop), read_truth(shop, untouched=False)

    def quality(self, index: Index) -> tuple[float, float]:
        untouched, asked = (
            float(
                tc.evaluate(truth, index.search_many({query: query for query in truth}, SHOWN), MEASURE)[MEASURE].mean()
            )
            for truth in (self.untouched, self.asked)
        )
        return untouched, asked


# -- visitors ---------------------------------------------------------------------------------------------------------


class Crowd:
    """People who search and click over HTTP, some at a time."""

    def __init__(self, grades: dict[str, dict[str, int]], attackers: float, seed: int) -> None:
        self.grades, self.attackers, self.seed = grades, attackers, seed
        self.queries = list(grades)
        popularity = np.arange(1, len(self.queries) + 1) ** -TRAFFIC.popularity
        self.popularity = popularity / popularity.sum()
        self.n_shown = 0
        self._numbers, self._lock = count(1), threading.Lock()
        self._failures: list[BaseException] = []

    def come(self, address: str, n_lists: int) -> threading.Thread:
        """Begin to visit; the thread that is given back ends when so many more lists were shown."""
        whole = threading.Thread(target=self._come, args=(address, self.n_shown + n_lists))
        whole.start()
        return whole

    def check(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _come(self, address: str, until: int) -> None:
        threads = [threading.Thread(target=self._visit, args=(address, until)) for _ in range(N_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _visit(self, address: str, until: int) -> None:
        connection = Connection(address, timeout=60)
        try:
            while not self._failures:
                with self._lock:
                    number = next(self._numbers)
                rng = np.random.default_rng((self.seed, number))
                people = ATTACKERS if rng.random() < self.attackers else VISITORS
                for _ in range(rng.geometric(1 / TRAFFIC.per_session)):
                    with self._lock:
                        if self.n_shown >= until:
                            return
                        self.n_shown += 1
                    self._search(connection, f"visitor-{number}", people, rng)
        except BaseException as error:
            self._failures.append(error)
        finally:
            connection.close()

    def _search(self, connection: Any, client: str, people: Visitors, rng: np.random.Generator) -> None:
        query = self.queries[rng.choice(len(self.queries), p=self.popularity)]
        asked = urlencode({"q": query, "k": SHOWN, "client": client})
        found = ask(connection, "GET", f"/search?{asked}")
        shown = [hit["id"] for hit in found["learned"]]
        if not shown:
            return
        relevant = self.grades[query]
        clicked = people.clicks(rng, [relevant.get(sku, 0) for sku in shown])
        for sku in np.array(shown)[clicked].tolist():
            ask(connection, "POST", "/events", {"query_id": found["query_id"], "doc": sku, "client": client})


class Connection(http.client.HTTPConnection):
    """One that is opened again where nobody used it: the service closes it after five seconds."""

    used = 0.0

    def request(self, *args: Any, **options: Any) -> None:
        if time.monotonic() - self.used > IDLE_SECONDS:
            self.close()
        super().request(*args, **options)
        self.used = time.monotonic()


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    found = json.loads(answer.read())
    if answer.status not in (200, 202):
        raise RuntimeError(f"{method} {path} was answered by {answer.status}: {found}")
    return found


def model_of(address: str) -> str:
    """What is served."""
    connection = Connection(address, timeout=60)
    try:
        return str(ask(connection, "GET", "/health")["model"])
    finally:
        connection.close()


# -- the loop ---------------------------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """The address of a service in a process of its own, which must end well."""
    command = [
        sys.executable,
        "-m",
        "tercet",
        "serve",
        "index",
        "--port",
        "0",
        "--log-impressions",
        "log",
        "--teach-token",
        TOKEN,
    ]
    command += ["--look-every", "0.5", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            yield service.stdout.readline().strip().removeprefix("http://").rstrip("/")
        finally:
            service.terminate()
            code = service.wait(60)
    if code:
        raise SystemExit(f"the service ended with exit code {code}")


class Loop:
    """Rounds of visitors and learning on one copy of the shop."""

    def __init__(self, shop: Path, attackers: float, n_lists: int, seed: int) -> None:
        self.shop, self.n_lists = shop, n_lists
        self.folder = shop / f"loop-{round(100 * attackers):02d}"
        rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.truth = Truth(shop)
        self.crowd = Crowd(self.truth.asked, attackers, seed)
        self.course = Course(attackers)
        run("tercet index ../products.csv -o index/", self.folder, show=False)

    def go(self, n_rounds: int) -> None:
        with served(self.folder) as address:
            self.visit(address)
        self.learn()
        compared = ["--interleave", "candidate", "--promote", "--settle-after", str(SETTLE_SECONDS)]
        with served(self.folder, *compared) as address:
            for number in range(1, n_rounds):
                self.visit(address)
                if number < n_rounds - 1:
                    self.learn()
        run(f"tercet eval --interleaved log/ --settle-after {SETTLE_SECONDS}", self.folder)
        run("tercet index index/", self.folder)

    def visit(self, address: str) -> None:
        """A round of visitors; what is served is looked at meanwhile."""
        whole = self.crowd.come(address, self.n_lists)
        while whole.is_alive():
            self.note(model_of(address))
            whole.join(0.5)
        self.crowd.check()
        time.sleep(5 * SETTLE_SECONDS)  # for the visits of the last clients to count
        self.note(model_of(address))
        self.note(self.course.models[-1], always=True)

    def learn(self) -> None:
        replace = " --replace" if (self.folder / "candidate").exists() else ""
        run(
            f"tercet fit ../products.csv --clicks log/ --vocabulary index/ -o candidate/{FIT_OPTIONS}{replace}",
            self.folder,
            show=False,
        )
        candidate = tc.load(self.folder / "candidate")
        untouched, asked = self.truth.quality(Index.open(self.folder / "index", candidate))
        print(
            f"  candidate: learning was {'accepted' if candidate.report.accepted else 'rejected'}; "
            f"{MEASURE} {untouched:.3f}, of queries that were asked {asked:.3f}",
            flush=True,
        )

    def note(self, model: str, always: bool = False) -> None:
        course, n_shown = self.course, self.crowd.n_shown  # more are shown while the quality is measured
        if course.models and course.models[-1] == model and not always:
            return
        if course.models and course.models[-1] == model:
            untouched, asked = course.untouched[-1], course.asked[-1]
        else:
            untouched, asked = self.truth.quality(Index.open(self.folder / "index"))
        course.n_lists.append(n_shown)
        course.models.append(model)
        course.untouched.append(untouched)
        course.asked.append(asked)
        course.save(self.folder / COURSE)
        print(
            f"  after {n_shown:>7,} lists model {model} is served: {MEASURE} {untouched:.3f}, "
            f"of queries that were asked {asked:.3f}",
            flush=True,
        )


def draw(courses: Sequence[Course], path: Path) -> None:
    """The quality of what is served by the number of lists that were shown."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(10, 4.2), dpi=150, layout="constrained")
    for axes, (name, values) in zip(
        figure.subplots(1, 2, sharey=True),
        (("queries that visitors ask", "asked"), ("queries that nobody has asked", "untouched")),
        strict=True,
    ):
        axes.set_title(f"{MEASURE} of what is served, {name}", loc="left", fontsize=9.5)
        for course, color in zip(courses, ("tab:blue", "tab:gray", "tab:red"), strict=False):
            label = f"{course.attackers:.0%} attackers" if course.attackers else "honest visitors"
            axes.step(course.n_lists, getattr(course, values), where="post", color=color, label=label)
            changed = [at for at in range(1, len(course.models)) if course.models[at] != course.models[at - 1]]
            axes.plot(
                [course.n_lists[at] for at in changed],
                [getattr(course, values)[at] for at in changed],
                "o",
                color=color,
                markersize=4,
            )
        axes.set_xlabel("lists shown; a dot is a promotion")
        axes.xaxis.set_major_formatter(lambda n_lists, _: f"{n_lists:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[1].legend(frameon=False, loc="upper left")  # lists of queries that nobody asked gain less
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the shop; made where it is missing")
    parser.add_argument("--packages", type=Path, metavar="FILE", help="a package list, instead of apt's")
    parser.add_argument("--attackers", type=float, nargs="+", default=[0.0, 0.05, 0.2], help="shares of visitors")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--lists", type=int, default=3_000, help="that visitors are shown in a round")
    parser.add_argument("--only-draw", action="store_true", help="draw the courses that are there, and run none")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shop = options.folder.resolve()
    if not (shop / "products.csv").exists():
        make_shop(read_packages(options.packages), shop, seed=options.seed)
    for share in [] if options.only_draw else options.attackers:
        print(f"{share:.0%} attackers", flush=True)
        Loop(shop, share, options.lists, options.seed).go(options.rounds)
        draw(read_courses(shop), shop / "loop.png")
    if options.only_draw:
        draw(read_courses(shop), shop / "loop.png")
    print(f"{shop / 'loop.png'}: written")


if __name__ == "__main__":
    main()
