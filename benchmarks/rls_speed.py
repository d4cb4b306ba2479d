"""RankRLS at the paper's size, 10,000 rows and 2,500 basis vectors with a Gaussian kernel on 50 features, beside the
one matrix product that it cannot avoid; what a path of 50 penalties adds; memory; and equations 7 and 8 in a few lines
of NumPy. Then the three cost series of section 4 of the paper: seconds and memory of a fit against rows and against
basis vectors, with the powers that the paper states. Last, a million rows: kernel widths and penalties chosen by
leave-query-out, with the rows in blocks. Made-up data, one thread on all sides.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.metrics.pairwise import rbf_kernel

from common import (
    Clock,
    machine_facts,
    parse_arguments,
    peak_memory,
    print_facts,
    print_table,
    say_if_disturbed,
    verdict,
    write_json,
)
from tercet.learn.rls import RankRLS, choose_rls

N_FEATURES, N_OF_QUERY = 50, 20
GAMMA = 1 / N_FEATURES
FIT_TARGET, MEMORY_TARGET = 1.75, 600 * 2**20
N_PATH = 50
ROUNDS = 5
WIDTHS, PENALTIES = (0.25 * GAMMA, 0.5 * GAMMA, GAMMA), np.geomspace(0.1, 1000.0, 9)


@dataclass(frozen=True)
class Rows:
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[np.int64]


def made_rows(n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    return Rows(X, y, np.arange(n) // N_OF_QUERY)


def ranker(n_basis: Any) -> RankRLS:
    return RankRLS(kernel="gaussian", gamma=GAMMA, l2=1.0, n_basis=n_basis)


def timed(work: Callable[[], Any]) -> tuple[Any, Clock]:
    with (clock := Clock()).running():
        result = work()
    return result, clock


# -- the paper's size ---------------------------------------------------------------------------------------------


def one_round(rows: Rows, basis: NDArray[np.int64], K: NDArray[np.float64]) -> dict[str, Clock]:
    clocks: dict[str, Clock] = {}
    _, clocks["product"] = timed(lambda: K.T @ K)
    fitted, clocks["fit"] = timed(lambda: ranker(basis).fit(rows.X, rows.y, qid=rows.qid))
    _, clocks["one point"] = timed(lambda: fitted.path([1.0]))
    _, clocks["path"] = timed(lambda: fitted.path(np.geomspace(1e-3, 1e3, N_PATH)))
    return clocks


def paper_size(n: int, n_basis: int, seed: int) -> dict[str, Any]:
    rows = made_rows(n, seed)
    basis = np.sort(np.random.default_rng(seed).choice(n, n_basis, replace=False))
    K = rbf_kernel(rows.X, rows.X[basis], gamma=GAMMA)
    rounds = [one_round(rows, basis, K) for _ in range(ROUNDS)]
    seconds = {name: min(clocks[name].wall for clocks in rounds) for name in rounds[0]}
    over = {name: taken / seconds["product"] for name, taken in seconds.items()}
    table = [
        ["K'K of a kernel matrix that is there (K.T @ K, which is syrk)", "product", ""],
        [
            "RankRLS.fit: kernel, differences, Z'Z, Z't, K_RR and a Cholesky solution",
            "fit",
            f"≤ {FIT_TARGET:g}: {verdict(over['fit'], FIT_TARGET, at_most=True)}",
        ],
        ["path of one: an eigendecomposition", "one point", ""],
        [f"path of {N_PATH} after it", "path", ""],
    ]
    print_table(
        f"{n:,} rows, {n_basis:,} basis vectors, {N_FEATURES} features; the fastest of {ROUNDS} rounds",
        ["", "s", "over K'K", "target"],
        [[title, f"{seconds[name]:.2f}", f"{over[name]:.2f}", target] for title, name, target in table],
    )
    say_if_disturbed([clock for clocks in rounds for clock in clocks.values()])
    return {"seconds": seconds, "over_product": over}


# -- memory -------------------------------------------------------------------------------------------------------


def one_fit(n: int, n_basis: int, seed: int, with_path: bool) -> None:
    """Fit and print what it took as JSON; a process of its own, so that its memory can be told."""
    rows = made_rows(n, seed)
    before = peak_memory()
    fitted = ranker(n_basis).fit(rows.X, rows.y, qid=rows.qid)
    if with_path:
        fitted.path(np.geomspace(1e-3, 1e3, N_PATH))
    print(json.dumps({"before": before, "peak": peak_memory()}))


def memory(n: int, n_basis: int, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, with_path in (("fit", 0), (f"fit and a path of {N_PATH}", 1)):
        options = {"rows": n, "basis": n_basis, "seed": seed, "path": with_path}
        command = [sys.executable, __file__]
        command += [part for key, value in options.items() for part in (f"--{key}", str(value))]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        found[name] = json.loads(run.stdout.splitlines()[-1])
    print_table(
        f"Memory of a process of its own, {n:,} rows and {n_basis:,} basis vectors; K alone would have "
        f"{8 * n * n_basis / 2**20:.0f} MiB",
        ["", "MiB before", "MiB at most", "target"],
        [
            [
                name,
                f"{each['before'] / 2**20:.0f}",
                f"{each['peak'] / 2**20:.0f}",
                f"≤ {MEMORY_TARGET / 2**20:.0f}: {verdict(each['peak'], MEMORY_TARGET, at_most=True)}",
            ]
            for name, each in found.items()
        ],
    )
    return found


# -- against NumPy ----------------------------------------------------------------------------------------------------


def centered(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``√n (v - mean)`` over the rows of each query, which have equal sizes and follow one another."""
    by_query = values.reshape(-1, N_OF_QUERY, values.shape[1])
    return (np.sqrt(N_OF_QUERY) * (by_query - by_query.mean(axis=1, keepdims=True))).reshape(values.shape)


def numpy_basic(rows: Rows) -> NDArray[np.float64]:
    """Equation 7 by hand: ``(C K C' + I) b = C y``, ``a = C' b``, with ``L = C'C``."""
    half = centered(rbf_kernel(rows.X, gamma=GAMMA))
    both = centered(half.T)
    both[np.diag_indices(len(both))] += 1.0
    b = linalg.cho_solve(
        linalg.cho_factor(both, lower=True, overwrite_a=True, check_finite=False), centered(rows.y[:, None])
    )
    return centered(b)[:, 0]


def numpy_sparse(rows: Rows, basis: NDArray[np.int64]) -> NDArray[np.float64]:
    """Equation 8 by hand: ``(Z'Z + K_RR) a = Z'C y`` with ``Z = C K_MR``."""
    K = rbf_kernel(rows.X, rows.X[basis], gamma=GAMMA)
    Z = centered(K)
    return linalg.solve(Z.T @ Z + K[basis], Z.T @ centered(rows.y[:, None])[:, 0], assume_a="pos", check_finite=False)


def against_numpy(n: int, n_basis: int, seed: int) -> dict[str, Any]:
    rows, new = made_rows(n, seed), made_rows(1000, seed + 1)
    basis = np.sort(np.random.default_rng(seed).choice(n, n_basis, replace=False))
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any], NDArray[np.int64]]] = {
        "all rows": (
            lambda: numpy_basic(rows),
            lambda: ranker(None).fit(rows.X, rows.y, qid=rows.qid),
            np.arange(n),
        ),
        f"{n_basis:,} basis vectors": (
            lambda: numpy_sparse(rows, basis),
            lambda: ranker(basis).fit(rows.X, rows.y, qid=rows.qid),
            basis,
        ),
    }
    found: dict[str, Any] = {}
    for name, (by_hand, ours, vectors) in pairs.items():
        clocks: list[tuple[Clock, Clock]] = []
        for _ in range(ROUNDS):
            solution, theirs = timed(by_hand)
            fitted, clock = timed(ours)
            clocks.append((theirs, clock))
        expected = rbf_kernel(new.X, rows.X[vectors], gamma=GAMMA) @ solution
        apart = float(np.abs(fitted.predict(new.X) - expected).max() / np.abs(expected).max())
        seconds = [min(clock.processor for clock in side) for side in zip(*clocks, strict=True)]
        found[name] = {"numpy": seconds[0], "tercet": seconds[1], "difference": apart}
    print_table(
        f"{n:,} rows, {N_FEATURES} features, beside the same equations in a few lines of NumPy; processor seconds, the "
        f"fastest of {ROUNDS} rounds",
        ["basis", "NumPy, s", "RankRLS, s", "NumPy over RankRLS", "largest difference of scores"],
        [
            [
                name,
                f"{each['numpy']:.3f}",
                f"{each['tercet']:.3f}",
                f"{each['numpy'] / each['tercet']:.2f}",
                f"{each['difference']:.1e}",
            ]
            for name, each in found.items()
        ],
    )
    return found


# -- the cost series of the paper ---------------------------------------------------------------------------------


# Name, rows and basis vectors (None: all rows) of each point, and the power that section 4 states for the seconds.
Series = tuple[str, list[tuple[int, int | None]], float]
COST_SERIES: list[Series] = [
    ("basic", [(n, None) for n in (1_000, 2_000, 4_000, 6_000)], 3.0),
    ("sparse, r = 500", [(n, 500) for n in (1_500, 3_000, 6_000, 12_000, 24_000)], 1.0),
    ("sparse, m = 12,000", [(12_000, r) for r in (500, 1_000, 2_000, 4_000)], 2.0),
]
N_FITTED = 3  # largest points of a series: a small one is mostly overhead
LEEWAY = 0.15  # of a measured power above the stated one


def cost_point(n: int, n_basis: int | None, seed: int) -> dict[str, float]:
    """Processor seconds of the fastest of three fits, and the peak memory of a fourth in MB, without the rows."""
    rows = made_rows(n, seed)
    seconds = []
    for _ in range(3):
        started = time.process_time()
        ranker(n_basis).fit(rows.X, rows.y, qid=rows.qid)
        seconds.append(time.process_time() - started)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    ranker(n_basis).fit(rows.X, rows.y, qid=rows.qid)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return {"seconds": max(min(seconds), 1e-6), "megabytes": peak / 1e6}


def power(sizes: list[int], values: list[float]) -> float:
    """Slope of the line through the logarithms of the largest points."""
    slope, _ = np.polyfit(np.log(sizes[-N_FITTED:]), np.log(values[-N_FITTED:]), 1)
    return float(slope)


def cost_series(seed: int, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    table = []
    for name, all_points, stated in COST_SERIES:
        points = all_points[:2] if quick else all_points
        costs = [cost_point(n, n_basis, seed) for n, n_basis in points]
        rises = "m" if len({n for n, _ in points}) > 1 else "r"
        sizes = [n if rises == "m" else int(n_basis or n) for n, n_basis in points]
        powers = {what: power(sizes, [cost[what] for cost in costs]) for what in ("seconds", "megabytes")}
        listed = "; ".join(
            f"{size:,}: {cost['seconds']:.3g} s, {cost['megabytes']:.3g} MB"
            for size, cost in zip(sizes, costs, strict=True)
        )
        holds = verdict(powers["seconds"], stated + LEEWAY, at_most=True)
        row = [f"{rises}^{stated:g}: {holds}", *(f"{rises}^{value:.2f}" for value in powers.values())]
        table.append([name, f"{rises} = {listed}", *row])
        found[name] = {"sizes": sizes, "costs": costs, "powers": powers, "stated": stated}
    head = ["series", "points", "stated", "seconds rise with", "memory rises with"]
    print_table(f"Cost of a fit, section 4; powers of the {N_FITTED} largest points", head, table)
    return found


# -- a million rows -----------------------------------------------------------------------------------------------


def one_grid(n: int, n_basis: int, seed: int) -> None:
    """Choose among all widths and penalties, and print what it took as JSON."""
    rows = made_rows(n, seed)
    # What is compiled, or imported late, is there before it is measured.
    few = made_rows(1000, seed)
    pattern = RankRLS(kernel="gaussian", n_basis=20)
    choose_rls(few.X, few.y, few.qid, l2s=PENALTIES, parameters={"gamma": WIDTHS[:1]}, ranker=pattern)
    before = peak_memory()
    grid, clock = timed(
        lambda: choose_rls(
            rows.X,
            rows.y,
            rows.qid,
            l2s=PENALTIES,
            parameters={"gamma": WIDTHS},
            ranker=RankRLS(kernel="gaussian", n_basis=n_basis),
        )
    )
    found = {"gamma": grid.ranker.gamma, "l2": grid.ranker.l2, "error": float(grid.means[grid.best])}
    print(json.dumps({"wall": clock.wall, "cpu": clock.processor, "before": before, "peak": peak_memory(), **found}))


def million(n: int, n_basis: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--grid", "1", "--rows", str(n), "--basis", str(n_basis), "--seed", str(seed)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    print_table(
        f"Leave-query-out over {len(WIDTHS)} widths and {len(PENALTIES)} penalties, and the fit that is chosen: {n:,} "
        f"rows, {N_FEATURES} features, {n_basis:,} basis vectors; K would have {8 * n * n_basis / 2**30:.1f} GiB",
        ["s", "s of the processor", "MiB before", "MiB at most", "chosen", "error"],
        [
            [
                f"{found['wall']:.0f}",
                f"{found['cpu']:.0f}",
                f"{found['before'] / 2**20:.0f}",
                f"{found['peak'] / 2**20:.0f}",
                f"gamma {found['gamma']:g}, l2 {found['l2']:.3g}",
                f"{found['error']:.4f}",
            ]
        ],
    )
    return found


def main() -> None:
    arguments = parse_arguments(__doc__, needs_data=False, rows=int, basis=int, path=int, grid=int)
    if arguments.rows and arguments.grid:
        one_grid(arguments.rows, arguments.basis, arguments.seed)
        return
    if arguments.rows:
        one_fit(arguments.rows, arguments.basis, arguments.seed, bool(arguments.path))
        return
    facts = machine_facts("scikit-learn")
    print_facts(facts)
    n, n_basis, sizes = (
        (1_000, 250, [(600, 60)]) if arguments.quick else (10_000, 2_500, [(1_000, 100), (3_000, 300), (5_000, 800)])
    )
    n_many, n_few = (5_000, 50) if arguments.quick else (1_000_000, 500)
    results = {
        "paper_size": paper_size(n, n_basis, arguments.seed),
        "memory": memory(n, n_basis, arguments.seed),
        "against_numpy": {size: against_numpy(size, few, arguments.seed) for size, few in sizes},
        "cost_series": cost_series(arguments.seed, arguments.quick),
        "million": million(n_many, n_few, arguments.seed),
    }
    write_json(arguments.output, {"machine": facts, **results})


if __name__ == "__main__":
    main()
