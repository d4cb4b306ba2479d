"""What correcting for position brings: nDCG@10 by the truth, on the shop of examples/, by what clicks are weighed by.

    python examples/shop/shop.py shop/ --make-only --lists 300000
    python benchmarks/click_curves.py --shop shop/ --output curves.jsonl    # a quarter of an hour
    python benchmarks/click_curves.py                                       # the estimators alone, on a made-up shop

A shorter log is the beginning of the longer one. Each fit is written to the output when it is done, and one that is
there is not made again. Without a shop, the error of the estimators is printed by log size.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
import csv
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import tercet as tc
from common import print_table
from tercet.data import ClickLog, read_table
from tercet.data.click_sessions import without_odd_sessions
from tercet.data.click_tables import read_click_log
from tercet.data.clicks import examination_guess
from tercet.fitting.examination import choose_examination, estimate_examination
from tercet.measure import paired_test
from tercet.simulate import Traffic, Visitors, simulate_clicks
from tercet.text import Analyzer, Vectorizer
from tercet.weights import Identity, Weights

SHOWN = 10
VISITORS = Visitors(looking=0.7, chances=(0.1, 0.8))
TRUTH = VISITORS.examination(SHOWN)
GUESS = np.array([examination_guess(rank) for rank in range(1, SHOWN + 1)])


def error(values: object) -> float:
    """Mean absolute error at ranks 2 and below."""
    return float(np.abs(np.asarray(values)[:SHOWN] - TRUTH)[1:].mean())


def estimators(sizes: list[int], n_seeds: int) -> None:
    """The error of each estimator by log size, on queries with two rankings, or one, or some lists at random."""
    rows = []
    worlds = {
        "two rankings": (2, Traffic()),
        "one ranking, 5 % at random": (1, Traffic(shuffled=0.05)),
        "one ranking": (1, Traffic()),
        "two rankings, trust 0.3": (2, Traffic()),
    }
    for world, (n_rankers, traffic) in worlds.items():
        people = replace(VISITORS, trust=0.3 if "trust" in world else 0.0)
        cells = []
        for n_lists in sizes:
            logs = (made_up(n_rankers, n_lists, people, traffic, seed) for seed in range(n_seeds))
            curves = [estimate_examination(log, n_resamples=1, seed=seed) for seed, log in enumerate(logs)]
            errors = [error(curve.values) for curve in curves if curve is not None]
            cells.append(f"{np.mean(errors):.3f}" if errors else "")
        rows.append([world, "the estimate", *cells])
    rows.append(["all", "the guess", *([f"{error(GUESS):.3f}"] * len(sizes))])
    rows.append(["all", "no correction", *([f"{error(np.ones(SHOWN)):.3f}"] * len(sizes))])
    print_table("mean error of the curve", ["log", "estimator", *(f"{size:,}" for size in sizes)], rows)


def made_up(n_rankers: int, n_lists: int, people: Visitors, traffic: Traffic, seed: int) -> ClickLog:
    rng = np.random.default_rng(seed)
    lists, grades = {}, {}
    for query in map(str, range(1000)):
        docs = [f"{query}-{position}" for position in range(SHOWN)]
        other = [docs[position] for position in np.argsort(np.arange(SHOWN) + rng.normal(0, 3, SHOWN))]
        lists[query] = [docs, other][:n_rankers]
        relevant = rng.random(SHOWN) < np.linspace(0.6, 0.2, SHOWN)
        grades[query] = {doc_id: 1 for doc_id, is_relevant in zip(docs, relevant, strict=True) if is_relevant}
    return simulate_clicks(lists, grades, n_lists, people, traffic, seed=seed)


@dataclass(frozen=True)
class Learned:
    """What clicks of some lists brought, weighed by a curve: nDCG@10 of each untouched query."""

    n_lists: int
    curve: str
    values: list[float]
    off: float  # mean error of the curve
    seconds: float  # of processor time
    accepted: bool


def rankings(shop: Path, sizes: list[int], output: Path) -> None:
    """nDCG@10 on queries that are in no log; each fit is a line of the output, and is not made again."""
    docs = read_table(shop / "products.csv")
    log = read_click_log(shop / "clicks.csv")
    truth: dict[str, dict[str, int]] = {}
    with (shop / "truth.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["clicked_or_judged"] == "0":
                truth.setdefault(row["query"], {})[row["sku"]] = int(row["grade"])
    queries = {query: query for query in truth}

    def values_of(model: tc.TextModel) -> list[float]:
        return tc.evaluate(truth, model.rank(queries, docs), "nDCG@10")["nDCG@10"].tolist()

    words = Vectorizer(analyzer=Analyzer(stop_words="english"), weighting="bm25").fit(docs.values())
    base = values_of(tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))])))
    made = {(one.n_lists, one.curve): one for one in earlier(output)}
    for n_lists in sizes:
        if n_lists > len(log.impressions):
            print(f"the log has {len(log.impressions):,} lists; {n_lists:,} are left out (shop.py --lists)")
            continue
        part = without_odd_sessions(log.subset(range(n_lists)))
        found = choose_examination(part)
        curves = {
            "no correction": (1.0,),
            "guess": tuple(GUESS),
            "estimated": found.chances,
            "true curve": tuple(TRUTH),
        }
        for name, chances in curves.items():
            if (n_lists, name) in made:
                continue
            if chances is None:
                one = replace(made[n_lists, "guess"], curve=name, seconds=0.0)
                print(f"{n_lists:,} lists: {found.source}", flush=True)
            else:
                began = time.process_time()
                model = tc.fit(docs, clicks=replace(part, examination=chances), options={"verbose": False})
                seconds = time.process_time() - began
                accepted = model.report.accepted
                off = error((*chances, *chances[-1:] * SHOWN)[:SHOWN])
                one = Learned(n_lists, name, values_of(model), off, seconds, accepted)
            made[n_lists, name] = one
            with output.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(one)) + "\n")
            print(f"{n_lists:,} lists, {name}: {np.mean(one.values):.3f}, {one.seconds:.0f} s", flush=True)
    rows = [["", "BM25", f"{np.mean(base):.3f}", "", "", "", ""]]
    for (n_lists, name), one in sorted(made.items(), key=lambda each: each[0][0]):
        rows.append(
            [
                f"{n_lists:,}",
                name,
                f"{np.mean(one.values):.3f}{'' if one.accepted else ' rejected'}",
                difference(one.values, base),
                "" if name == "guess" else difference(one.values, made[n_lists, "guess"].values),
                f"{one.off:.3f}",
                f"{one.seconds:.0f}",
            ]
        )
    head = ["lists", "clicks weighed by", "nDCG@10", "to BM25", "to the guess", "curve off by", "CPU s"]
    print_table(f"nDCG@10 by the truth, {len(truth)} untouched queries, 95 % intervals", head, rows)


def earlier(output: Path) -> list[Learned]:
    """What an earlier run has written; half a line at the end is one that was killed while it wrote."""
    if not output.exists():
        return []
    lines = output.read_text(encoding="utf-8").split("\n")
    return [Learned(**json.loads(line)) for line in lines[:-1]]


def difference(values: list[float], others: list[float]) -> str:
    if values == others:
        return "+0.000"
    test = paired_test(np.array(values), np.array(others))
    return f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shop", type=Path, help="folder of examples/shop/shop.py")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 30_000, 300_000])
    parser.add_argument("--output", type=Path, default=Path("click_curves.jsonl"), help="what was learned, as it comes")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.shop is None:
        estimators(options.sizes, options.seeds)
    else:
        rankings(options.shop, options.sizes, options.output)


if __name__ == "__main__":
    main()
