"""All variants of Bai et al. (2010) on the links between Wikispeedia articles, 30,000 words, one thread: steps per
second and megabytes of each; then what their section 4.4 says of test time, that a match costs around 100 times more
with hash kernels than with cached latent vectors. Needs 10 GB of memory, for a dense W and a copy of it.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import tercet as tc
from common import (
    Clock,
    machine_facts,
    median,
    parse_arguments,
    print_facts,
    print_table,
    say_if_disturbed,
    violation_rate,
    words_per_step,
    write_json,
)
from reproductions.datasets import load_dataset
from reproductions.links import LinkTask
from reproductions.plan import PlanData, Quick
from ssi_matching import BUCKETS, N_COMPONENTS, test_time
from tercet.learn.loop import CHUNK
from tercet.learn.sparse import SparseState
from tercet.learn.state import rates
from tercet.weights import Weights

N_WORDS = 30_000
WIDTHS = (50, 100, 200, 500)
KEPT = (1000, 100, 10)  # in each row of a pruned W
# Rates as in the reproduction of the paper; those of low rank are the defaults.
CONSTANT: dict[str, Any] = {"schedule": "constant", "rate": 1.0, "verbose": False}
# With these every step writes wherever it reads, and changes nothing.
TOUCHING = {"rate": 1e-12, "margin": 1e6}
YARDSTICK = f"LowRankRanker, N {N_COMPONENTS}"
ROUNDS = 2
# Steps of about 3 to 10 seconds; those of the last three are over the number of components.
STEPS = {
    "diagonal": 200_000,
    "dense": 600,
    "pruned": 1_000_000,  # after each pruning, over the number of entries left in a row
    "hashed": 1_500,
    "low rank": 2_500_000,
    "correlated": 2_000_000,
    "by bin": 600_000,
}
QUICK_STEPS = dict.fromkeys(STEPS, 50_000) | {"diagonal": 5_000, "dense": 300, "hashed": 300}
QUICK = Quick(train_rows=400)


def load_links(data_home: Path, quick: bool) -> LinkTask:
    """Articles as sublinear tf-idf of their most frequent words without English stop words; links are relevant."""
    data = PlanData(
        "Wikispeedia",
        "wikispeedia",
        ("wikispeedia",),
        stop_words="english",
        sublinear_tf=True,
        max_features=QUICK.max_features if quick else N_WORDS,
    )
    [task] = load_dataset(data, data_home, QUICK if quick else None).tasks
    assert isinstance(task, LinkTask)
    return task


# -- training -----------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Some steps of one variant, or the seconds of one without steps."""

    clock: Clock
    seconds: float
    state_bytes: int
    saved_bytes: int
    steps: int = 0
    updates: float = 0.0
    seconds_before: float = 0.0  # of what the steps need and do not count: pruning


Phases = dict[str, Measured]  # by name; a pruned W has several


def bytes_of(arrays: dict[str, NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays.values())


def state_bytes(state: Any) -> int:
    """What a learner carries from step to step."""
    return state.dense.nbytes if isinstance(state, SparseState) else bytes_of(state.to_state()[1])


def saved_bytes(weights: Weights) -> int:
    return bytes_of(weights.to_state()[1])


def fitted(ranker: Any, Q: sparse.csr_array, prefs: tc.Preferences, **more: Any) -> Measured:
    """The steps of a fit, without what comes before the first of them."""
    with (clock := Clock()).running():
        ranker.fit(Q, prefs, **more)
    learner = getattr(ranker, "ranker_", ranker)
    return Measured(
        clock=clock,
        seconds=learner.history_[-1].seconds,
        state_bytes=state_bytes(learner._state),
        saved_bytes=saved_bytes(ranker.weights_),
        steps=learner.n_steps_,
        updates=violation_rate(learner),
    )


def run_steps(state: Any, inputs: Any, prefs: tc.Preferences, *, rate: float, margin: float) -> Measured:
    """One pass as ``fit`` makes it, on a state that may have been used before; bytes are for the caller to note."""
    rate_of_step = rates("constant", rate, 0, len(prefs), None)
    tally = np.zeros(2)
    with (clock := Clock()).running():
        for start in range(0, len(prefs), CHUNK):
            here = slice(start, start + CHUNK)
            state.advance(inputs, prefs[here], rate_of_step[here], margin, tally)
    if not np.isfinite(tally).all():
        raise SystemExit(f"{type(state).__name__} diverged; a rate below {rate:g} is needed")
    return Measured(clock, clock.wall, state_bytes(state), 0, len(prefs), tally[0] / len(prefs))


def touched(ranker: Any, X: sparse.csr_array, prefs: tc.Preferences) -> tuple[Any, Any]:
    """A fresh state that has all the memory these preferences will write to: getting gigabytes takes seconds."""
    state = ranker._start(X, X)
    inputs = state.kernel_input(X, X)
    run_steps(state, inputs, prefs, **TOUCHING)
    state.step = 0
    return state, inputs


def whole(name: str, ranker: Any, X: sparse.csr_array, prefs: tc.Preferences) -> Phases:
    """A ranker with a weight for every pair of words."""
    state, inputs = touched(ranker, X, prefs)
    measured = run_steps(state, inputs, prefs, rate=ranker.rate, margin=ranker.margin)
    if isinstance(state, SparseState):  # 8 bytes for a non-zero and for a row; as a value it would fill the memory
        measured.saved_bytes = 8 * (state.n_live + X.shape[1] + 1)
    else:
        measured.saved_bytes = saved_bytes(state.snapshot())
    return {name: measured}


def pruned(X: sparse.csr_array, first: tc.Preferences, then: tc.Preferences, n_entries: int) -> Phases:
    """Algorithm 2 of Bai et al.: a pass over all of W, then, for each number of entries left, ``n_entries`` over it."""
    ranker = tc.PrunedRanker(**CONSTANT)
    ranker.fit(X[:, :2], first[:1])  # loads compiled kernels, or compiles them once
    state, inputs = touched(ranker, X, first)
    settings = {"rate": ranker.rate, "margin": ranker.margin}
    phases = {"PrunedRanker, before pruning": run_steps(state, inputs, first, **settings)}
    for kept in KEPT:
        with (pruning := Clock()).running():
            state.prune(kept)
        measured = run_steps(state, inputs, then[: n_entries // kept], **settings)
        measured.seconds_before = pruning.wall
        measured.saved_bytes = saved_bytes(state.snapshot())
        phases[f"… {kept:,} entries a row"] = measured
    return phases


def variants(task: LinkTask, seed: int, steps: dict[str, int]) -> dict[str, Callable[[], Phases]]:
    """What measures each variant; each call starts afresh."""
    X = task.Q
    prefs = task.train(max(steps["diagonal"], steps["low rank"] // WIDTHS[0]), seed)
    second = task.train(steps["low rank"] // N_COMPONENTS, seed + 1)
    few = prefs[: steps["dense"]]
    found: dict[str, Callable[[], Phases]] = {}

    def add(name: str, n: int, make: Callable[[], Any], **more: Any) -> None:
        make().fit(X, prefs[:1], **more)  # loads compiled kernels, or compiles them once
        found[name] = lambda: {name: fitted(make(), X, prefs[:n], **more)}

    add("DiagonalRanker", steps["diagonal"], partial(tc.DiagonalRanker, **CONSTANT | {"rate": 1000.0}))
    found["DenseRanker"] = lambda: whole("DenseRanker", tc.DenseRanker(**CONSTANT), X, few)
    found["DenseRanker, zero diagonal"] = lambda: whole(
        "DenseRanker, zero diagonal", tc.DenseRanker(diagonal="zero", **CONSTANT), X, few
    )
    found["PrunedRanker"] = lambda: pruned(X, few, prefs, steps["pruned"])

    def sparse_ranker() -> Any:
        ranker = tc.SparseRanker(refit=False, **CONSTANT)
        ranker.l1_ = ranker.l1  # as fit does where no density is asked for
        return ranker

    found["SparseRanker"] = lambda: whole("SparseRanker, l1 5e-6", sparse_ranker(), X, few)
    for n_buckets in BUCKETS:
        for identity, rate in ((None, 10.0), ("learned", 1.0)):
            parameters = CONSTANT | {"n_buckets": n_buckets, "identity": identity, "rate": rate}
            add(
                f"HashedRanker, {n_buckets // 10**6}M{'' if identity is None else ' + identity'}",
                steps["hashed"],
                partial(tc.HashedRanker, **parameters),
            )
    quiet: dict[str, Any] = {"random_state": seed, "verbose": False}
    for n in WIDTHS:
        for tied in (True, False):
            parameters = quiet | {"n_components": n, "tied": tied}
            add(
                f"LowRankRanker, N {n}{', tied' if tied else ''}",
                steps["low rank"] // n,
                partial(tc.LowRankRanker, **parameters),
            )
    n_frequent = X.shape[1] // 3
    extras: dict[str, dict[str, Any]] = {
        f"{n_frequent:,} frequent words": {"n_frequent": n_frequent},
        "learned diagonal": {"diagonal": "learned"},
        "no diagonal": {"diagonal": None},
        "scaled documents": {"scale_documents": True},
    }
    for title, extra in extras.items():
        parameters = quiet | {"n_components": N_COMPONENTS} | extra
        name = f"… N {N_COMPONENTS}, {title}"
        n_steps = steps["low rank"] // N_COMPONENTS
        add(name, n_steps, partial(tc.LowRankRanker, **parameters))
    with (clock := Clock()).running():
        words = tc.text.CorrelatedWords(n_frequent=n_frequent, n_bins=5).fit(X)
    print(f"CorrelatedWords of {n_frequent:,} frequent words, 5 bins: {clock.wall:.1f} s to fit.")
    behind = tc.LowRankRanker(n_components=N_COMPONENTS, diagonal=None, **quiet)
    for variant in ("mean", "by-bin", "first"):
        add(
            f"CorrelatedRanker, N {N_COMPONENTS}, {variant}",
            steps["by bin" if variant == "by-bin" else "correlated"] // N_COMPONENTS,
            partial(tc.learn.CorrelatedRanker, words=words, ranker=behind, variant=variant),
        )
    for shared in ("both", "documents"):
        n_steps = steps["low rank"] // N_COMPONENTS // 2  # of each task
        add(
            f"MultiTaskRanker, N {N_COMPONENTS}, shared {shared}",
            n_steps,
            partial(tc.learn.MultiTaskRanker, n_components=N_COMPONENTS, shared=shared, **quiet),
            second=(X, second[:n_steps]),
        )
    return found


def over(runs: list[Measured], others: list[Measured]) -> float:
    """Ratio of steps per second, round by round; the median."""
    return median([a.steps / a.seconds * b.seconds / b.steps for a, b in zip(runs, others, strict=True)])


def training(task: LinkTask, seed: int, quick: bool) -> tuple[dict[str, Any], list[Clock]]:
    steps, rounds = (QUICK_STEPS, 1) if quick else (STEPS, ROUNDS)
    query_words, doc_words = words_per_step(task.Q, task.train(10_000, seed))
    print(f"{task.Q.shape[0]:,} articles, {task.Q.shape[1]:,} words, {len(task.train_links):,} links to learn from;")
    print(f"{query_words:.0f} words in a query, {doc_words:.0f} in its two documents.")
    found: dict[str, list[Measured]] = {}
    measures = variants(task, seed, steps)
    for _ in range(rounds):  # variants take turns, so that a slow moment of the machine meets them all
        for measure in measures.values():
            for name, measured in measure().items():
                found.setdefault(name, []).append(measured)
    print_table(
        f"Training, one thread, seed {seed}, fastest of {rounds} rounds taken in turns",
        ["model", "steps", "updates", "steps/s", "slowest", "µs/step", "ratio", "MB while learning", "MB saved"],
        [
            [
                name,
                f"{runs[0].steps:,}",
                f"{runs[0].updates:.0%}",
                f"{speeds[-1]:,.0f}",
                f"{speeds[0]:,.0f}",
                f"{1e6 / speeds[-1]:,.1f}",
                f"{over(runs, found[YARDSTICK]):.3g}",
                f"{runs[0].state_bytes / 1e6:,.2f}",
                f"{runs[0].saved_bytes / 1e6:,.2f}" if runs[0].saved_bytes else "–",
            ]
            for name, runs in found.items()
            for speeds in [sorted(run.steps / run.seconds for run in runs)]
        ],
    )
    print(
        f"Ratio: of steps per second to those of {YARDSTICK} in the same round, median.\n"
        "A step whose preference has its margin updates nothing. MB while learning: the arrays of the learner, of a\n"
        "sparse W the most its rows took; MB saved: the arrays of its weights. Memory of a dense, pruned or\n"
        "sparse W is written to once before the clock starts. MultiTaskRanker: the articles are the queries of both\n"
        "tasks, for the first as if in a vocabulary of their own; a step is one preference of either."
    )
    pruning = {name: min(run.seconds_before for run in runs) for name, runs in found.items() if runs[0].seconds_before}
    print("Pruning itself:", "; ".join(f"{name} {seconds:.1f} s" for name, seconds in pruning.items()))
    found |= decompositions(task)
    clocks = [run.clock for runs in found.values() for run in runs]
    return {name: [vars(run) for run in runs] for name, runs in found.items()}, clocks


def decompositions(task: LinkTask) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {}
    for n in (N_COMPONENTS, WIDTHS[-1]):
        ranker = tc.LSIRanker(n_components=min(n, *task.D.shape))
        with (clock := Clock()).running():
            ranker.fit(task.Q)
        size = saved_bytes(ranker.weights_)
        found[f"LSIRanker, N {ranker.n_components_}"] = [Measured(clock, clock.wall, size, size)]
    print_table(
        "Latent semantic indexing, which has no steps; one fit each",
        ["model", "seconds", "MB saved"],
        [[name, f"{run.seconds:.1f}", f"{run.saved_bytes / 1e6:,.1f}"] for name, [run] in found.items()],
    )
    return found


def main() -> None:
    arguments = parse_arguments(__doc__)
    facts = machine_facts()
    print_facts(facts)
    with (loading := Clock()).running():
        task = load_links(arguments.data_home, arguments.quick)
    print(f"Wikispeedia read and vectorized in {loading.wall:.1f} s.")
    trained, clocks = training(task, arguments.seed, arguments.quick)
    tested, more_clocks = test_time(task.Q, task.D, arguments.seed, arguments.quick)
    print()
    say_if_disturbed(clocks + more_clocks)
    write_json(arguments.output, {"machine": facts, "seed": arguments.seed, "training": trained, "test_time": tested})


if __name__ == "__main__":
    main()
