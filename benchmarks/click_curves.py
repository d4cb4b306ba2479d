"""What correcting for position brings: nDCG@10 by the truth, on the shop of examples/, by what clicks are weighed by.

    python benchmarks/click_curves.py --shop shop/            # made by examples/shop/shop.py shop/ --make-only
    python benchmarks/click_curves.py                         # the estimators alone, on a made-up shop

A shorter log is the beginning of the longer one. Without a shop, the error of the estimators is printed by log size.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import tercet as tc
from common import print_table
from tercet.data import ClickLog, read_table
from tercet.data.click_tables import read_click_log
from tercet.data.clicks import examination_guess
from tercet.fitting.examination import choose_examination, estimate_examination
from tercet.measure import paired_test
from tercet.simulate import Traffic, Visitors, simulate_clicks
from tercet.text import Vectoriser
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
        errors: dict[str, list[list[float]]] = {}
        for column, n_lists in enumerate(sizes):
            for seed in range(n_seeds):
                log = made_up(n_rankers, n_lists, people, traffic, seed)
                for curve in estimate_examination(log, n_resamples=20, seed=seed):
                    of_size = errors.setdefault(curve.method, [[] for _ in sizes])
                    of_size[column].append(error(curve.values))
        for method, of_sizes in errors.items():
            rows.append([world, method, *(f"{np.mean(each):.3f}" if each else "" for each in of_sizes)])
    rows.append(["all", "the guess", *([f"{error(GUESS):.3f}"] * len(sizes))])
    rows.append(["all", "no correction", *([f"{error(np.ones(SHOWN)):.3f}"] * len(sizes))])
    print_table("mean error of the curve", ["log", "estimator", *(f"{size:,}" for size in sizes)], rows)


def made_up(n_rankers: int, n_lists: int, people: Visitors, traffic: Traffic, seed: int) -> ClickLog:
    rng = np.random.default_rng(seed)
    lists, grades = {}, {}
    for query in map(str, range(1000)):
        docs = [f"{query}-{place}" for place in range(SHOWN)]
        other = [docs[place] for place in np.argsort(np.arange(SHOWN) + rng.normal(0, 3, SHOWN))]
        lists[query] = [docs, other][:n_rankers]
        relevant = rng.random(SHOWN) < np.linspace(0.6, 0.2, SHOWN)
        grades[query] = {doc_id: 1 for doc_id, is_relevant in zip(docs, relevant, strict=True) if is_relevant}
    return simulate_clicks(lists, grades, n_lists, people, traffic, seed=seed)


def rankings(shop: Path, sizes: list[int]) -> None:
    """nDCG@10 on queries that are in no log."""
    docs = read_table(shop / "products.csv")
    log = read_click_log(shop / "clicks.csv")
    truth: dict[str, dict[str, int]] = {}
    with (shop / "truth.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["clicked_or_judged"] == "0":
                truth.setdefault(row["query"], {})[row["sku"]] = int(row["grade"])
    queries = {query: query for query in truth}
    base = None
    for n_lists in sizes:
        part = log.some(range(n_lists))
        found = choose_examination(part)
        curves = {
            "no correction": (1.0,),
            "fixed guess": tuple(GUESS.tolist()),
            "estimated": found.chances or tuple(GUESS.tolist()),
            "true curve": tuple(TRUTH.tolist()),
        }
        for name, chances in curves.items():
            if name == "estimated" and found.chances is None:
                print(f"{n_lists:>7,}  {name:<14} the same as the guess: {found.source}", flush=True)
                continue
            began = time.process_time()
            model = tc.fit(docs, clicks=replace(part, examination=chances), verbose=False)
            seconds = time.process_time() - began
            if base is None:
                analyser = model.doc_vectoriser.analyser
                words = Vectoriser(analyser=analyser, weighting="bm25").fit(docs.values())
                start = tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
                base = tc.evaluate(truth, start.rank(queries, docs), "nDCG@10")["nDCG@10"]
                print(f"         BM25           {base.mean():.3f}", flush=True)
            values = tc.evaluate(truth, model.rank(queries, docs), "nDCG@10")["nDCG@10"]
            test = paired_test(values, base)
            curve = f"curve off by {error((*chances, *chances[-1:] * SHOWN)[:SHOWN]):.3f}"
            gain = f"{test.difference:+.3f} [{test.low:+.3f}, {test.high:+.3f}]"
            print(f"{n_lists:>7,}  {name:<14} {values.mean():.3f}  {gain}  {curve}  {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shop", type=Path, help="folder of examples/shop/shop.py")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 30_000])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.shop is None:
        estimators(options.sizes, options.seeds)
    else:
        rankings(options.shop, options.sizes)


if __name__ == "__main__":
    main()
