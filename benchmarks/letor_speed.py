"""Linear rankers of LETOR feature vectors, one thread: a pass of FTRLRanker over OHSUMED, XGBoost's linear booster
beside it, and a made-up set of 1,000,000 rows from disk.

OHSUMED is LETOR 3.0's, in the folder letor3-ohsumed; without it, or without XGBoost, those parts are left out.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tercet as tc
from common import (
    Clock,
    machine_facts,
    median,
    parse_arguments,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    write_json,
)
from letor_large import large_set
from letor_rival import (
    RivalFold,
    RivalSetting,
    rival_rows,
    rival_settings,
    train_rival,
    try_settings,
    weights_of,
    xgboost,
)
from tercet.data import LetorData, LetorFold, read_letor_folds
from tercet.learn.linear.queries import Queries
from tercet.measure import measure_rows, paired_test

OHSUMED = "letor3-ohsumed"
NDCG = "nDCG(dcg='exp-log2')@10"  # the paper's formula
PASS_MS, PAPER_PASS_MS = 2.0, 40.0
TIMES_FASTER = 100.0
NEARLY = 0.001
TURN_SECONDS = 0.02

# As many settings as XGBoost gets. The gradient of a query is divided by its pairs throughout: settled beforehand, by
# runs on these same folds that were better with it, on test parts too.
L1S = tuple(np.geomspace(0.05, 15, 14).round(3).tolist())
RATES = tuple(np.geomspace(0.003, 3, 9).round(4).tolist())
VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's: squared hinge": {},
    "plain rate (Nonfea)": {"per_feature": False},
    "divided by pairs": {"normalize_pairs": True},
    "listnet": {"loss": "listnet"},
    "batches of 100 pairs": {"batch_size": 100},
}


def read_ohsumed(data_home: Path | None) -> tuple[LetorFold, ...]:
    """The five folds, extracted or as the archive they come in; none when they are not there."""
    folder = Path() if data_home is None else data_home / OHSUMED
    if data_home is None or not folder.is_dir():
        print(f"\nThere is no folder {OHSUMED} in the data folder: the parts about OHSUMED are left out.")
        return ()
    extracted = next((path.parent for path in sorted(folder.rglob("Fold1"))), None)
    source = extracted or next(iter(sorted(folder.glob("*.tar.gz"))), folder)
    folds = read_letor_folds(source, comments=False)
    n_queries = sum(fold.test.n_queries for fold in folds)
    print(f"\nOHSUMED: {len(folds)} folds, {n_queries} queries, {folds[0].train.n_features} features, {source.name}.")
    return folds


def ndcg(scores: NDArray[Any], data: LetorData) -> NDArray[np.float64]:
    """Of each query."""
    return np.asarray(measure_rows(data.y, scores, data.qid, NDCG).values).ravel()


def seconds_of(work: Callable[[], Any], at_least: float = 0.0) -> float:
    """Of one call, or the mean of as many as take that long; then what another engine left in the caches is gone."""
    start, calls = time.perf_counter(), 0
    while True:
        work()
        calls += 1
        taken = time.perf_counter() - start
        if taken >= at_least:
            return taken / calls


# -- one pass -----------------------------------------------------------------------------------------------------


def time_pass(folds: tuple[LetorFold, ...], repeats: int) -> dict[str, Any]:
    """The pass itself, from checked and grouped rows to weights, and the whole call of ``fit``, fold after fold."""
    clock, found, rows = Clock(), {}, []
    for name, parameters in VARIANTS.items():
        ranker = tc.FTRLRanker(**parameters)
        passes, fits = [], []
        grouped = [Queries.from_labels(fold.train.y, fold.train.qid) for fold in folds]
        ranker.fit(folds[0].train.X, folds[0].train.y, folds[0].train.qid)  # compiled, or loaded
        with clock.running():
            for _ in range(max(3, repeats // 10) if "batch_size" in parameters else repeats):
                for fold, queries in zip(folds, grouped, strict=True):
                    train = fold.train
                    passes.append(seconds_of(lambda: ranker._learn(train.X, queries)))  # noqa: B023
                    fits.append(seconds_of(lambda: ranker.fit(train.X, train.y, train.qid)))  # noqa: B023
        one, whole = 1e3 * median(passes), 1e3 * median(fits)
        found[name] = {"pass_ms": one, "fit_ms": whole, "fastest_pass_ms": 1e3 * min(passes)}
        is_paper = not parameters
        judged = f"≤ {PASS_MS:g}: {verdict(one, PASS_MS, at_most=True)}" if is_paper else "–"
        rows.append([name, f"{one:.2f}", f"{1e3 * min(passes):.2f}", f"{whole:.2f}", judged])
    size = f"{folds[0].train.X.shape[0]:,} rows, {folds[0].train.n_queries} queries"
    print_table(
        f"One pass over the training part of a fold ({size} in the first), medians over the folds: milliseconds",
        ["FTRLRanker", "pass", "fastest", "whole fit", "target for the pass"],
        rows,
    )
    print(f"The paper reports {PAPER_PASS_MS:g} ms for its pass, on another machine.")
    say_if_disturbed([clock])
    return found


# -- against XGBoost ----------------------------------------------------------------------------------------------

OURS, RIVAL, CHEAPEST = "Tercet", "XGBoost", f"XGBoost, cheapest within {NEARLY:g}"
# From rows that are checked and grouped, as a DMatrix is; and from the arrays.
READY, WHOLE = "from ready rows", "from arrays"


@dataclass(frozen=True)
class Tried:
    """Every setting of XGBoost on every fold: validation and test measure, seconds (n_folds, n_settings)."""

    settings: list[RivalSetting]
    vali: NDArray[np.float64]
    test: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def best(self) -> list[RivalSetting]:
        """Of each fold, on validation."""
        return [self.settings[s] for s in self.vali.argmax(axis=1)]

    def cheapest(self) -> list[RivalSetting]:
        """Of each fold, the one that took the least time of all that are nearly as good on validation as the best."""
        is_good = self.vali >= self.vali.max(axis=1, keepdims=True) - NEARLY
        return [self.settings[s] for s in np.where(is_good, self.seconds, np.inf).argmin(axis=1)]


def our_ranker(setting: tuple[float, float]) -> tc.FTRLRanker:
    return tc.FTRLRanker(l1=setting[0], rate=setting[1], normalize_pairs=True)


def fit_ours(setting: tuple[float, float], fold: LetorFold) -> tc.FTRLRanker:
    return our_ranker(setting).fit(fold.train.X, fold.train.y, fold.train.qid)


def choose_ours(folds: tuple[LetorFold, ...]) -> list[tuple[float, float]]:
    """The setting with the best validation measure of each fold; of equals the one with the strongest penalty."""
    chosen = []
    for fold in folds:
        settings = list(product(L1S, RATES))
        values = [ndcg(fit_ours(setting, fold).predict(fold.vali.X), fold.vali).mean() for setting in settings]
        chosen.append(max(zip(values, settings, strict=True))[1])
    return chosen


def try_theirs(folds: tuple[LetorFold, ...], matrices: list[RivalFold], quick: bool) -> Tried:
    settings = rival_settings(quick)
    vali, test, seconds = np.empty((3, len(folds), len(settings)))
    for f, (fold, matrix) in enumerate(zip(folds, matrices, strict=True)):
        for s, (vali_scores, test_scores, taken) in enumerate(try_settings(settings, matrix)):
            vali[f, s], test[f, s] = ndcg(vali_scores, fold.vali).mean(), ndcg(test_scores, fold.test).mean()
            seconds[f, s] = taken
    return Tried(settings, vali, test, seconds)


def compare(folds: tuple[LetorFold, ...], seed: int, quick: bool) -> dict[str, Any]:
    repeats = 1 if quick else 5
    matrices = [RivalFold.from_fold(fold) for fold in folds]
    grouped = [Queries.from_labels(fold.train.y, fold.train.qid) for fold in folds]
    with (choosing := Clock()).running():
        ours = choose_ours(folds)
    with (trying := Clock()).running():
        tried = try_theirs(folds, matrices, quick)
    print(
        f"\nChosen on each fold's validation part by {NDCG}: ours from {len(L1S) * len(RATES)} settings in "
        f"{choosing.wall:.1f} s, XGBoost's from {len(tried.settings)} in {trying.wall:.0f} s."
    )
    theirs, cheapest = tried.best(), tried.cheapest()
    engines: dict[tuple[str, str], Callable[[int], Any]] = {
        (OURS, READY): lambda f: our_ranker(ours[f])._learn(folds[f].train.X, grouped[f]),
        (OURS, WHOLE): lambda f: fit_ours(ours[f], folds[f]),
        (RIVAL, READY): lambda f: train_rival(theirs[f], matrices[f].train),
        (RIVAL, WHOLE): lambda f: train_rival(theirs[f], rival_rows(folds[f].train)),
        (CHEAPEST, READY): lambda f: train_rival(cheapest[f], matrices[f].train),
        (CHEAPEST, WHOLE): lambda f: train_rival(cheapest[f], rival_rows(folds[f].train)),
    }
    clock = Clock()
    taken: dict[tuple[str, str], list[list[float]]] = {engine: [[] for _ in folds] for engine in engines}
    with clock.running():
        for _ in range(repeats):
            for f, (engine, train) in product(range(len(folds)), engines.items()):
                taken[engine][f].append(seconds_of(lambda: train(f), TURN_SECONDS))  # noqa: B023
    seconds = {engine: np.array([median(found) for found in times]) for engine, times in taken.items()}

    values: dict[str, list[NDArray[np.float64]]] = {name: [] for name in (OURS, RIVAL, CHEAPEST)}
    used: dict[str, list[int]] = {name: [] for name in values}
    for name, (f, fold) in product(values, enumerate(folds)):
        model = engines[name, WHOLE](f)
        values[name].append(ndcg(model.predict(fold.test.X if name == OURS else matrices[f].test), fold.test))
        used[name].append(int(np.count_nonzero(model.coef_ if name == OURS else weights_of(model))))
    means = {name: float(np.mean([value.mean() for value in found])) for name, found in values.items()}
    print_chosen(folds, ours, theirs, seconds, values)
    ratios = print_ratios(seconds, used, means, repeats)
    a, b = np.concatenate(values[OURS]), np.concatenate(values[RIVAL])
    difference = paired_test(a, b, "permutation", random_state=seed)
    print(f"Tercet less XGBoost, all test queries: {difference}.")
    by_rounds = print_by_rounds(tried, float(seconds[OURS, READY].mean()), means[OURS])
    updaters = compare_updaters(theirs[0], matrices[0])
    equal = to_equal_quality(folds, matrices, [s for s in tried.settings if s.pairs == "top 32"], 20)
    say_if_disturbed([clock])
    return {
        "settings": {"tercet": ours, "xgboost": [*map(str, theirs)], "cheapest": [*map(str, cheapest)]},
        "seconds": {", ".join(engine): found.tolist() for engine, found in seconds.items()},
        "ratios": ratios,
        "ndcg": means,
        "weights": used,
        "difference": str(difference),
        "by_rounds": by_rounds,
        "updaters": updaters,
        "equal_quality": equal,
    }


def to_equal_quality(
    folds: tuple[LetorFold, ...], matrices: list[RivalFold], settings: list[RivalSetting], repeats: int
) -> dict[str, Any]:
    """XGBoost's best setting, the same for all folds, and the cheapest as good on validation; Tercet's defaults beside.

    Processor seconds of a whole training from ready rows, the fastest of so many; test queries are looked at once.
    """
    vali, test, seconds = np.empty((3, len(folds), len(settings)))
    for f, (fold, matrix) in enumerate(zip(folds, matrices, strict=True)):
        for s, (vali_scores, test_scores, taken) in enumerate(try_settings(settings, matrix)):
            vali[f, s], test[f, s] = ndcg(vali_scores, fold.vali).mean(), ndcg(test_scores, fold.test).mean()
            seconds[f, s] = taken
    best = int(vali.mean(axis=0).argmax())
    good = vali.mean(axis=0) >= vali.mean(axis=0)[best] - NEARLY
    cheapest = int(np.where(good, seconds.mean(axis=0), np.inf).argmin())
    fastest, our_test = [], []
    for fold in folds:
        times = []
        for _ in range(repeats):
            start = time.process_time()
            ranker = tc.FTRLRanker().fit(fold.train.X, fold.train.y, fold.train.qid)
            times.append(time.process_time() - start)
        fastest.append(min(times))
        our_test.append(ndcg(ranker.predict(fold.test.X), fold.test).mean())
    ours = float(np.mean(fastest))
    found = {"FTRLRanker(), whole fit": {"seconds": ours, "ndcg": float(np.mean(our_test)), "ratio": 1.0}}
    for name, s in (("XGBoost, best setting", best), ("XGBoost, cheapest as good", cheapest)):
        taken = float(seconds[:, s].mean())
        found[f"{name}: {settings[s]}"] = {"seconds": taken, "ndcg": float(test[:, s].mean()), "ratio": taken / ours}
    print_table(
        "One setting for all folds, chosen on validation; processor milliseconds a fold",
        ["", "ms", "times ours", "test NDCG@10"],
        [
            [name, f"{1e3 * each['seconds']:.1f}", f"{each['ratio']:.0f}", f"{each['ndcg']:.4f}"]
            for name, each in found.items()
        ],
    )
    return found


Seconds = dict[tuple[str, str], NDArray[np.float64]]


def print_chosen(
    folds: tuple[LetorFold, ...],
    ours: list[tuple[float, float]],
    theirs: list[RivalSetting],
    seconds: Seconds,
    values: dict[str, list[NDArray[np.float64]]],
) -> None:
    rows = []
    for f, fold in enumerate(folds):
        l1, rate = ours[f]
        our_ms, their_ms = 1e3 * seconds[OURS, READY][f], 1e3 * seconds[RIVAL, READY][f]
        cells = [fold.name, f"l1 {l1:g}, rate {rate:g}", f"{our_ms:.2f}", f"{values[OURS][f].mean():.4f}"]
        cells += [str(theirs[f]), f"{their_ms:.1f}", f"{values[RIVAL][f].mean():.4f}"]
        rows.append([*cells, f"{their_ms / our_ms:.0f}"])
    print_table(
        "Chosen settings; milliseconds from ready rows, test NDCG@10",
        ["fold", "Tercet", "ms", "NDCG@10", "XGBoost", "ms", "NDCG@10", "times faster"],
        rows,
    )


def print_ratios(
    seconds: Seconds, used: dict[str, list[int]], means: dict[str, float], repeats: int
) -> dict[str, dict[str, float]]:
    rows, ratios = [], {}
    for name in (OURS, RIVAL, CHEAPEST):
        cells = [name, f"{np.mean(used[name]):.1f}", f"{means[name]:.4f}"]
        cells.append("–" if name == OURS else verdict(means[OURS], means[name]))
        ratios[name] = {
            start: float(seconds[name, start].sum() / seconds[OURS, start].sum()) for start in (READY, WHOLE)
        }
        for start, ratio in ratios[name].items():
            judged = "–" if name == OURS else f"{ratio:.0f}, ≥ {TIMES_FASTER:g}: {verdict(ratio, TIMES_FASTER)}"
            cells += [f"{1e3 * seconds[name, start].mean():.2f}", judged]
        rows.append(cells)
    print_table(
        f"Means over the folds, median of {repeats} turns of {1e3 * TURN_SECONDS:g} ms or more; "
        "Tercet's NDCG@10 should be equal or better",
        ["", "weights", "test NDCG@10", "", "ms from ready rows", "times ours", "ms from arrays", "times ours"],
        rows,
    )
    print("Ready rows are checked and grouped, or a DMatrix; from arrays is the whole fit, or DMatrix and train.")
    return ratios


def print_by_rounds(tried: Tried, our_seconds: float, our_ndcg: float) -> list[dict[str, float]]:
    """What XGBoost reaches with a given number of rounds, the rest chosen on validation, and what that takes."""
    found, rows = [], []
    each = np.arange(len(tried.vali))
    for rounds in sorted({setting.rounds for setting in tried.settings}):
        positions = np.array([s for s, setting in enumerate(tried.settings) if setting.rounds == rounds])
        at = positions[tried.vali[:, positions].argmax(axis=1)]
        reached, taken = float(tried.test[each, at].mean()), float(tried.seconds[each, at].mean())
        found.append({"rounds": rounds, "seconds": taken, "ndcg": reached, "ratio": taken / our_seconds})
        cells = [str(rounds), f"{1e3 * taken:.1f}", f"{taken / our_seconds:.0f}", f"{reached:.4f}"]
        rows.append([*cells, f"{our_ndcg - reached:+.4f}"])
    print_table(
        "XGBoost by its number of rounds, all else chosen on validation (timed once, while choosing)",
        ["rounds", "ms from ready rows", "times ours", "test NDCG@10", "Tercet's, less that"],
        rows,
    )
    return found


def compare_updaters(setting: RivalSetting, fold: RivalFold) -> dict[str, float]:
    """Whether the updater that was timed is the faster one, and learns the same."""
    seconds, weights = {}, {}
    for updater in ("shotgun", "coord_descent"):
        start = time.perf_counter()
        booster = train_rival(setting, fold.train, updater)
        seconds[updater] = time.perf_counter() - start
        weights[updater] = weights_of(booster)
    apart = float(np.abs(weights["shotgun"] - weights["coord_descent"]).max())
    slower = seconds["coord_descent"] / seconds["shotgun"]
    print(
        f"XGBoost's updater is shotgun; coord_descent takes {slower:.2f} times as long on the first fold, and its "
        f"weights differ by at most {apart:.1g}."
    )
    return {"coord_descent_times_as_long": slower, "largest_difference": apart}


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False)
    facts = machine_facts("scikit-learn", *(["xgboost"] if xgboost else []))
    print_facts(facts)
    results: dict[str, Any] = {"machine": facts, "seed": arguments.seed}
    with (whole := Clock()).running():
        folds = read_ohsumed(arguments.data_home)
        if folds:
            results["pass"] = time_pass(folds, 3 if arguments.quick else 50)
        if folds and xgboost:
            results["xgboost"] = compare(folds, arguments.seed, arguments.quick)
        elif folds:
            print("\nXGBoost is not installed: the comparison with it is left out. pip install xgboost adds it.")
        results["large"] = large_set(arguments.seed, arguments.quick)
    print(f"\nEverything took {whole.wall:.0f} s.")
    write_json(arguments.output, results)


if __name__ == "__main__":
    main()
