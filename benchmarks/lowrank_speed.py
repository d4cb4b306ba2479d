"""Low-rank models on 20 Newsgroups class preferences, one thread: seconds of learning to the lowest error that LightFM
reaches with its best loss and rate; steps per second beside a NumPy/SciPy loop; and the cost of a step by size.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import (
    Clock,
    Newsgroups,
    error_of,
    load_newsgroups,
    machine_facts,
    median,
    parse_arguments,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    violation_rate,
    words_per_step,
    write_json,
)

N_COMPONENTS = 100
RATE = 0.1
MARGIN = 1.0
LIGHTFM_RATES = (0.02, 0.05, 0.1, 0.2)
LOOP_TARGET = 10.0
# With these every step updates and nothing changes: the cost of a step no longer depends on what was learned.
EVERY_STEP_UPDATES: dict[str, Any] = {"margin": 1e6, "rate": 1e-12}


def scipy_loop(X: sparse.csr_array, prefs: tc.Preferences, U: NDArray[np.float32]) -> int:
    """The obvious loop: row slices of a CSR matrix and a dense U, changed in place; returns the violations."""
    violations = 0
    for query, better, worse in zip(prefs.query, prefs.better, prefs.worse, strict=True):
        q = X[query : query + 1]
        d = X[better : better + 1] - X[worse : worse + 1]
        Uq, Ud = (q @ U)[0], (d @ U)[0]
        z = Uq @ Ud + (q @ d.T).sum()
        if z < MARGIN:
            violations += 1
            U[q.indices] += np.outer(np.float32(RATE) * q.data, Ud)
            U[d.indices] += np.outer(np.float32(RATE) * d.data, Uq)
    return violations


def numpy_loop(X: sparse.csr_array, prefs: tc.Preferences, U: NDArray[np.float32]) -> int:
    """The same without SciPy's slicing: slices of the CSR arrays, a scatter for the shared words."""
    indptr, indices, data = X.indptr, X.indices, X.data
    scattered = np.zeros(X.shape[1], dtype=np.float32)
    violations = 0
    for query, better, worse in zip(prefs.query, prefs.better, prefs.worse, strict=True):
        q, b, w = (slice(indptr[row], indptr[row + 1]) for row in (query, better, worse))
        scattered[indices[b]] = data[b]
        scattered[indices[w]] -= data[w]
        words = np.union1d(indices[b], indices[w])
        values = scattered[words]
        Uq, Ud = data[q] @ U[indices[q]], values @ U[words]
        z = Uq @ Ud + data[q] @ scattered[indices[q]]
        scattered[words] = 0
        if z < MARGIN:
            violations += 1
            U[indices[q]] += np.outer(np.float32(RATE) * data[q], Ud)
            U[words] += np.outer(np.float32(RATE) * values, Uq)
    return violations


def lightfm_model(loss: str, rate: float, seed: int) -> Any:
    try:
        from lightfm import LightFM
    except ImportError:
        raise SystemExit("LightFM is needed: pip install lightfm-next, or tercet with the extra 'bench'") from None
    return LightFM(no_components=N_COMPONENTS, loss=loss, learning_rate=rate, random_state=seed)


def lightfm_error(model: Any, X: sparse.csr_array, prefs: tc.Preferences) -> float:
    rows = sparse.csr_matrix(X)
    _, users = model.get_user_representations(rows)
    biases, items = model.get_item_representations(rows)
    gap = items[prefs.better] - items[prefs.worse]
    return error_of(np.einsum("ij,ij->i", users[prefs.query], gap) + biases[prefs.better] - biases[prefs.worse])


# -- equal quality ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """Processor seconds of learning after each portion, and the errors then."""

    name: str
    seconds: list[float]
    validation: list[float]
    test: list[float]

    def reaches(self, error: float) -> float | None:
        """Seconds until the validation error is at most ``error``."""
        return next((s for s, e in zip(self.seconds, self.validation, strict=True) if e <= error), None)


def equal_quality(data: Newsgroups, seed: int, quick: bool) -> dict[str, Any]:
    """Time until the validation error that LightFM's best setting reaches; the test error is looked at once."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(data.y), dtype=bool)
    held[rng.permutation(len(data.y))[: len(data.y) // 5]] = True
    X, y, X_held, y_held = data.X[~held], data.y[~held], data.X[held], data.y[held]
    validation = tc.Preferences.from_labels(y_held, 20_000, random_state=seed + 2)
    test = tc.Preferences.from_labels(data.y_test, 20_000, random_state=seed + 1)
    portion, n_portions = (2_000, 2) if quick else (20_000, 10)
    prefs = tc.Preferences.from_labels(y, portion * n_portions, random_state=seed)
    features = sparse.csr_matrix(X)

    def learn_lightfm(loss: str, rate: float, portions: int) -> Curve:
        model, curve = lightfm_model(loss, rate, seed), Curve(f"LightFM {loss}, rate {rate:g}", [], [], [])
        for k in range(portions):
            some = prefs[k * portion : (k + 1) * portion]
            pairs = some.query.copy(), some.better.copy()  # copies: LightFM does not take read-only arrays
            answers = sparse.coo_matrix((np.ones(portion, dtype=np.float32), pairs), shape=(X.shape[0], X.shape[0]))
            with (clock := Clock()).running():
                model.fit_partial(answers, user_features=features, item_features=features, num_threads=1)
            curve.seconds.append(clock.processor + (curve.seconds[-1] if curve.seconds else 0.0))
            curve.validation.append(lightfm_error(model, X_held, validation))
            curve.test.append(lightfm_error(model, data.X_test, test))
        return curve

    def learn_ours(name: str, **settings: Any) -> Curve:
        ranker = tc.LowRankRanker(n_components=N_COMPONENTS, margin=MARGIN, random_state=seed, **settings)
        curve, step = Curve(f"Tercet, {name}", [], [], []), portion // 8
        for k in range(0, portion * n_portions, step):
            with (clock := Clock()).running():
                ranker.partial_fit(X, prefs[k : k + step])
            curve.seconds.append(clock.processor + (curve.seconds[-1] if curve.seconds else 0.0))
            curve.validation.append(error_of(ranker.margins(X_held, validation)))
            curve.test.append(error_of(ranker.margins(data.X_test, test)))
        return curve

    settings = [(loss, rate) for loss in ("warp", "bpr") for rate in LIGHTFM_RATES]
    tried = [learn_lightfm(*setting, portions=2) for setting in settings]
    best = int(np.argmin([curve.validation[-1] for curve in tried]))
    rival = learn_lightfm(*settings[best], portions=n_portions)
    goal = min(rival.validation)
    ours = [
        learn_ours("two factors, no identity", rate=RATE, diagonal=None),
        learn_ours("tied, identity", rate=RATE, tied=True),
    ]
    rows = []
    for curve in (rival, *ours):
        seconds = curve.reaches(goal)
        at = curve.seconds.index(seconds) if seconds is not None else -1
        rows.append(
            [
                curve.name,
                "not reached" if seconds is None else f"{seconds:.2f}",
                f"{curve.validation[at]:.4f}",
                f"{curve.test[at]:.4f}",
                "–" if seconds is None else f"{(rival.reaches(goal) or 0.0) / seconds:.1f}",
            ]
        )
    print_table(
        f"Processor seconds of learning to LightFM's lowest validation error in {portion * n_portions:,} answers; its "
        f"loss and rate are the best of {len(tried)} after {2 * portion:,}",
        ["engine", "seconds", "validation error", "test error", "faster"],
        rows,
    )
    print("; ".join(f"{curve.name}: {curve.validation[-1]:.3f}" for curve in tried), f"after {2 * portion:,} answers.")
    return {"tried": [asdict(curve) for curve in tried], "curves": [asdict(curve) for curve in (rival, *ours)]}


def compare(data: Newsgroups, seed: int, quick: bool) -> dict[str, Any]:
    n, n_loop, rounds = (10_000, 2_000, 1) if quick else (100_000, 20_000, 3)
    prefs = tc.Preferences.from_labels(data.y, n, random_state=seed)
    test = tc.Preferences.from_labels(data.y_test, 20_000, random_state=seed + 1)
    query_words, doc_words = words_per_step(data.X, prefs)
    print(f"{n:,} preferences; {query_words:.0f} words in a query, {doc_words:.0f} in its two documents.")

    with (compiling := Clock()).running():
        tc.LowRankRanker().fit(data.X, prefs[:1])
    print(f"Loading the compiled kernel, or compiling it once: {compiling.wall:.1f} s, not timed below.")

    tied: dict[str, Any] = {"n_components": N_COMPONENTS, "rate": RATE, "margin": MARGIN, "tied": True}
    tied |= {"random_state": seed}
    rankers = {
        "Tercet, tied, identity": (tc.LowRankRanker(**tied), n),
        "… every step updates": (tc.LowRankRanker(**tied | EVERY_STEP_UPDATES), n),
        "… two factors, no identity": (tc.LowRankRanker(**tied | {"tied": False, "diagonal": None}), n),
        "… the loop's preferences": (tc.LowRankRanker(**tied), n_loop),
    }
    start = tc.LowRankRanker(**tied | EVERY_STEP_UPDATES).fit(data.X, prefs[:1]).weights_.query_factors
    loops: dict[str, Callable[..., int]] = {"SciPy loop": scipy_loop, "NumPy loop": numpy_loop}

    clocks: dict[str, list[Clock]] = {}
    facts: dict[str, dict[str, Any]] = {}

    def timed(name: str, steps: int, run: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        with (clock := Clock()).running():
            result = run(*arguments, **options)
        clocks.setdefault(name, []).append(clock)
        facts[name] = {"steps": steps}
        return result

    for _ in range(rounds):  # engines take turns, so that a slow moment of the machine meets them all
        for name, (ranker, steps) in rankers.items():
            timed(name, steps, ranker.fit, data.X, prefs[:steps])
            facts[name] |= {"updates": violation_rate(ranker), "error": ranker_error(ranker, data, test)}
        for name, loop in loops.items():
            U = np.array(start, dtype=np.float32)
            violations = timed(name, n_loop, loop, data.X, prefs[:n_loop], U)
            same = np.asarray(rankers["… the loop's preferences"][0].weights_.query_factors)
            facts[name] |= {
                "updates": violations / n_loop,
                "error": None,
                "largest_difference": float(np.abs(U - same).max()),
            }

    for name, fact in facts.items():
        fact["steps_per_second"] = [fact["steps"] / clock.wall for clock in clocks[name]]
    print_table(
        f"Low rank, {N_COMPONENTS} components, one thread, median of {rounds} rounds taken in turns",
        ["engine", "steps", "updates", "steps/s", "slowest", "fastest", "test error"],
        [
            [
                name,
                f"{fact['steps']:,}",
                f"{fact['updates']:.1%}",
                f"{median(fact['steps_per_second']):,.0f}",
                f"{min(fact['steps_per_second']):,.0f}",
                f"{max(fact['steps_per_second']):,.0f}",
                "–" if fact["error"] is None else f"{fact['error']:.4f}",
            ]
            for name, fact in facts.items()
        ],
    )
    return {"engines": facts, "ratios": print_ratios(facts), "clocks": clocks}


def ranker_error(ranker: Any, data: Newsgroups, test: tc.Preferences) -> float | None:
    """Test error; None for the ranker whose steps change nothing."""
    return error_of(ranker.margins(data.X_test, test)) if ranker.margin == MARGIN else None


def print_ratios(facts: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    wanted: list[tuple[str, str, float | None]] = [
        ("… the loop's preferences", "SciPy loop", LOOP_TARGET),
        ("… the loop's preferences", "NumPy loop", None),
    ]
    ratios: list[dict[str, Any]] = []
    for ours, theirs, target in wanted:
        both = zip(facts[ours]["steps_per_second"], facts[theirs]["steps_per_second"], strict=True)
        by_round = [a / b for a, b in both]
        ratios.append({"of": ours, "over": theirs, "target": target, "by_round": by_round})
    print_table(
        "Ratios of steps per second, both measured in the same round",
        ["Tercet", "over", "median", "lowest", "highest", "target", ""],
        [
            [
                r["of"],
                r["over"],
                f"{median(r['by_round']):.1f}",
                f"{min(r['by_round']):.1f}",
                f"{max(r['by_round']):.1f}",
                "–" if r["target"] is None else f"{r['target']:g}",
                "" if r["target"] is None else verdict(median(r["by_round"]), r["target"]),
            ]
            for r in ratios
        ],
    )
    differences = [f["largest_difference"] for f in facts.values() if "largest_difference" in f]
    print(f"Largest difference between a loop's U and Tercet's after the same steps: {max(differences):.1e}.")
    return ratios


# -- what a step costs --------------------------------------------------------------------------------------------


def step_cost(settings: dict[Any, tuple[sparse.csr_array, int]], prefs: tc.Preferences, rounds: int) -> dict:
    """Microseconds a step, every step an update: fastest of rounds in turns, without the setting up of U."""
    found: dict[Any, list[float]] = {key: [] for key in settings}
    for _ in range(rounds):
        for key, (X, n_components) in settings.items():
            ranker = tc.LowRankRanker(n_components=n_components, tied=True, **EVERY_STEP_UPDATES)
            ranker.fit(X, prefs)
            found[key].append(1e6 * ranker.history_[-1].seconds / len(prefs))
    return {key: min(values) for key, values in found.items()}


def thinned_texts(X: sparse.csr_array, share: float, seed: int) -> sparse.csr_array:
    """The same texts, each with that share of its words, drawn at random."""
    rng = np.random.default_rng(seed)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    by_row_at_random = np.lexsort((rng.random(X.nnz), row))
    position = np.arange(X.nnz) - X.indptr[row]
    kept = by_row_at_random[position < np.ceil(share * np.diff(X.indptr)[row])]
    thinned = sparse.csr_array((X.data[kept], (row[kept], X.indices[kept])), shape=X.shape)
    thinned.sort_indices()
    return thinned


def widened(X: sparse.csr_array, n_columns: int, seed: int) -> sparse.csr_array:
    """The same texts with their columns spread at random, in order, over a wider matrix."""
    to = np.sort(np.random.default_rng(seed).permutation(n_columns)[: X.shape[1]])
    return sparse.csr_array((X.data, to[X.indices], X.indptr), shape=(X.shape[0], n_columns))


def print_line(title: str, unit: str, points: list[tuple[float, float]]) -> dict[str, Any]:
    """Cost against size, with the straight line of least relative squares."""
    x, cost = np.array(points).T
    slope, start = np.polyfit(x, cost, 1, w=1 / cost)
    worst = float(np.max(np.abs((start + slope * x) / cost - 1)))
    print_table(
        title,
        [unit, "µs/step", "per " + unit.split()[0], "line"],
        [[f"{a:,.0f}", f"{b:.2f}", f"{b / a:.4f}", f"{start + slope * a:.2f}"] for a, b in points],
    )
    print(f"Line: {start:.2f} + {slope:.4f} × {unit.split()[0]} µs; a point is off by at most {worst:.0%}.")
    return {"points": points, "start": start, "slope": slope, "worst": worst}


def scaling(data: Newsgroups, seed: int, quick: bool) -> dict[str, Any]:
    n, rounds = (2_000, 1) if quick else (30_000, 5)
    prefs = tc.Preferences.from_labels(data.y, n, random_state=seed)
    widths = (25, 50, 100, 200, 400)
    by_width = step_cost({width: (data.X, width) for width in widths}, prefs, rounds)
    texts = {share: thinned_texts(data.X, share, seed) for share in (0.125, 0.25, 0.5, 1.0)}
    by_share = step_cost({share: (X, N_COMPONENTS) for share, X in texts.items()}, prefs, rounds)
    by_words = [(sum(words_per_step(texts[share], prefs)), cost) for share, cost in by_share.items()]
    vocabularies = (10_000, 30_000, 100_000)
    by_vocabulary = step_cost({D: (widened(data.X, D, seed), N_COMPONENTS) for D in vocabularies}, prefs, rounds)
    print(f"\nCost of a step when every step updates; {n:,} steps, fastest of {rounds} rounds taken in turns.")
    results = {
        "components": print_line("Linear in the components", "N components", sorted(by_width.items())),
        "words": print_line(
            f"Linear in the words of the three texts (N = {N_COMPONENTS}; texts cut to 1/8, 1/4, 1/2 and 1)",
            "words of three texts",
            by_words,
        ),
    }
    print_table(
        f"Independent of the vocabulary (N = {N_COMPONENTS}; the same texts, columns spread over a wider matrix)",
        ["D words", "µs/step", "over 10,000 words"],
        [[f"{D:,}", f"{cost:.2f}", f"{cost / by_vocabulary[10_000]:.2f}"] for D, cost in by_vocabulary.items()],
    )
    return results | {"vocabulary": sorted(by_vocabulary.items())}


def main() -> None:
    arguments = parse_arguments(__doc__)
    facts = machine_facts("lightfm-next")
    print_facts(facts)
    with (loading := Clock()).running():
        data = load_newsgroups(arguments.data_home)
    print(f"20 Newsgroups read and vectorized in {loading.wall:.1f} s.")
    with (equal := Clock()).running():
        curves = equal_quality(data, arguments.seed, arguments.quick)
    compared = compare(data, arguments.seed, arguments.quick)
    with (whole := Clock()).running():
        scaled = scaling(data, arguments.seed, arguments.quick)
    print()
    say_if_disturbed([equal, whole, *(clock for clocks in compared["clocks"].values() for clock in clocks)])
    write_json(
        arguments.output, {"machine": facts, "equal_quality": curves, "compared": compared, "cost_of_a_step": scaled}
    )


if __name__ == "__main__":
    main()
