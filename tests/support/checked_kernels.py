"""A workload for every module of kernels, run in a process of its own with index checks on.

``python -m support.checked_kernels letor decimals`` runs the workloads of these modules and prints, as JSON, the
kernels of theirs that no workload has called. An index out of bounds is an IndexError, which nothing here catches.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numba.core import config
from scipy import sparse

import tercet as tc
from support.indexes import KINDS, random_rows, random_weights
from support.learners import LEARNERS, made_data
from support.letor_data import made_up
from support.random_data import random_preferences, random_texts
from tercet.data import LetorStream, read_letor, write_letor
from tercet.errors import FormatError, InputError
from tercet.kernels import compiler
from tercet.kernels.deferred import Deferred
from tercet.learn import RANKERS, linear
from tercet.learn.joint import JointRanker
from tercet.learn.online import OnlineLearner, OnlineRule
from tercet.measure import compare_orders
from tercet.search import Index, in_numpy
from tercet.text import CorrelatedWords
from tercet.text.fielded import ColumnLayout
from tercet.weights import Hashed, Identity, Sparse, Weights

Workload = Callable[[np.random.Generator, Path], None]


# -- bytes that others wrote -----------------------------------------------------------------------------------------

PIECES = [
    *(b" ", b"\t", b"\n", b"\r\n", b"#", b":", b"qid:", b"qid:1", b"0", b"1", b"2 ", b"1:", b"3:0.5", b"\xff", b"\x00"),
    *(b"-", b"+", b".", b"e", b"E-", b"nan", b"inf", b"1e400", b"9" * 25, b"-0.0", b"4294967296:1", b"x" * 90),
    *(b"1 qid:7 1:0.25 2:3 # said\n", b"0 qid:7 5:1e-3\n", b"2 qid:8\n"),
]


def numeral(rng: np.random.Generator) -> str:
    """A number as few would write it: many digits, a far exponent, or both."""
    digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 40))))
    point = rng.integers(0, len(digits) + 1)
    exponent = f"e{rng.integers(-400, 400)}" if rng.random() < 0.5 else ""
    return f"{'-' if rng.random() < 0.3 else ''}{digits[:point]}.{digits[point:]}{exponent}"


def read_anyhow(path: Path) -> None:
    """As a whole and in chunks; that a file is refused is no fault."""
    for read in (
        lambda: read_letor(path),
        lambda: list(LetorStream(path, chunk_bytes=64)),
    ):
        with suppress(FormatError, InputError):
            read()


def letor_files(rng: np.random.Generator, folder: Path) -> None:
    path = folder / "a.txt"
    for is_sparse in (False, True):
        for comments in (False, True):
            data = made_up(int(rng.integers(100)), n_queries=3, is_sparse=is_sparse, comments=comments)
            write_letor(path, data)
            assert read_letor(path).y.tolist() == data.y.tolist()
            read_anyhow(path)
    whole = path.read_bytes()[:400]
    for stop in range(0, len(whole), 7):  # as a broken download leaves it
        path.write_bytes(whole[:stop])
        read_anyhow(path)
    for _ in range(150):  # a few bytes changed
        broken = bytearray(whole)
        for position in rng.integers(0, len(broken), 3):
            broken[position] = rng.integers(0, 256)
        path.write_bytes(broken)
        read_anyhow(path)
    for _ in range(300):  # rubbish
        path.write_bytes(b"".join(PIECES[piece] for piece in rng.integers(0, len(PIECES), rng.integers(0, 12))))
        read_anyhow(path)


def numbers_in_files(rng: np.random.Generator, folder: Path) -> None:
    path = folder / "numbers.txt"
    for _ in range(100):
        cells = [numeral(rng) for _ in range(8)]
        path.write_text("1 qid:1 " + " ".join(f"{column}:{cell}" for column, cell in enumerate(cells, 1)) + "\n")
        with suppress(FormatError):
            values = read_letor(path).X
            values = values.toarray() if sparse.issparse(values) else values
            assert values[0].tolist() == np.array([float(cell) for cell in cells], np.float32).tolist()
        path.write_text(f"1 qid:1 1:{numeral(rng)[: rng.integers(1, 20)]}")  # ends within a number, without a line end
        read_anyhow(path)


# -- scoring, searching and measuring --------------------------------------------------------------------------------


def searches(rng: np.random.Generator, folder: Path) -> None:
    in_numpy.budget.left = 0  # short work is kernels' work, too
    for kinds in ([kind] for kind in KINDS):
        for n, n_segment in ((1, 1), (60, 7), (300, 1000)):
            weights, D, Q = random_weights(rng, kinds), random_rows(rng, n), random_rows(rng, 6)
            ids = [f"d{row}" for row in range(n)]
            index = Index.build_rows(ids, D, weights, segment_docs=n_segment)
            for k in (1, 5, n + 3):
                for row in range(6):
                    index.search_row(Q[row : row + 1], k)
            index.remove(ids[: n // 3])
            index.search_row(Q[:1], n)
    # Long queries over many documents, so that bounds leave some unread.
    D = random_texts(rng, 6000, 80, density=0.1)
    index = Index.build_rows([str(row) for row in range(6000)], D, random_weights_of(80, rng), segment_docs=2500)
    Q = sparse.csr_array(rng.exponential(1, (5, 80)) ** 4 * rng.choice([-1, 1], (5, 80), p=[0.2, 0.8]))
    for k in (1, 10, 500, 7000):
        for row in range(5):
            index.search_row(Q[row : row + 1], k)
        for block in index._view.scorer.expand(Q.astype(np.float32)):
            index._view.search(block, k)  # the queries side by side


def random_weights_of(n: int, rng: np.random.Generator) -> Weights:
    W = sparse.random_array((n, n), density=0.05, format="csr", dtype=np.float32, rng=rng)
    return Weights([Identity(n_terms=n), Sparse(weights=W)])


def scores(rng: np.random.Generator, folder: Path) -> None:
    for kind in KINDS:
        for n_docs in (1, 7, 900):
            weights, Q, D = random_weights(rng, [kind]), random_rows(rng, 7), random_rows(rng, n_docs)
            weights.score(Q, D)
            weights.rank(Q, D, 5)
            weights.rank(Q, D, n_docs + 2)
            weights.score_rows(Q[np.zeros(n_docs, int)], D)
            weights.rows(np.arange(24))
            weights.related(3, 5)
            weights.explain(Q[[0]], D[[0]])
    thin = random_texts(rng, 90, 200, density=0.01)
    random_weights_of(200, rng).score(thin, thin)  # by the documents of each word
    table = rng.normal(size=17).astype(np.float32)
    Weights([Hashed(table=table, n_query_terms=200, n_doc_terms=200, multiplier=31)]).score(thin, thin[:3])
    run_learners(rng, "LSIRanker")  # which scores listed pairs to choose its share of the identity


def measures(rng: np.random.Generator, folder: Path) -> None:
    Q, D = random_texts(rng, 20, 15), random_texts(rng, 50, 15)
    qrels = {q: {int(d): int(rng.integers(0, 3)) for d in rng.permutation(50)[:8]} for q in range(20)}
    held_out = tc.HeldOutQueries.from_qrels(qrels, Q, D)
    weights = tc.CosineRanker().fit(Q, D=D).weights_
    held_out.evaluate(weights, ["nDCG@10", "AP", "P@5", "RR", "Success@1"])
    links = np.array([(a, b) for a in range(20) for b in rng.permutation(50)[:4]])
    tc.HeldOutQueries.from_links(links[40:], Q, D, known=links[:40]).values(weights)


def orders(rng: np.random.Generator, folder: Path) -> None:
    for n in (2, 3, 64, 257):
        y, predicted = rng.integers(0, 4, n), np.round(rng.random(n), 1)
        compare_orders(predicted, y)
        compare_orders(predicted, y, qid=np.arange(n) // 5)


# -- learning --------------------------------------------------------------------------------------------------------


def run_learners(rng: np.random.Generator, *classes: str) -> None:
    """Every setting of the table of learners, on rows with and without words."""
    for name, learner in LEARNERS.items():
        if name.split()[0] in classes:
            Q, D, prefs = made_data(int(rng.integers(1000)), n=300)
            ranker = learner.make().fit(Q, prefs, D)
            ranker.margins(Q, prefs, D)
            if "learns on" not in learner.cannot:
                ranker.partial_fit(Q, prefs[::-1], D)


def learners(*classes: str) -> Workload:
    return lambda rng, folder: run_learners(rng, *classes)


def correlated_words(rng: np.random.Generator, folder: Path) -> None:
    for n_words in (1, 11, 40):
        CorrelatedWords(n_frequent=9, n_bins=3).fit(random_texts(rng, 60, n_words, density=0.5))


def sparse_weights(rng: np.random.Generator, folder: Path) -> None:
    run_learners(rng, "SparseRanker")
    X = random_texts(rng, 60, 200, density=0.05)
    prefs = random_preferences(rng, 5000, 60, 60)
    for l1, shrink_every in ((1e-5, 50), (1e-3, 5), (1e-2, 1)):
        ranker = tc.SparseRanker(rate=1.0, l1=l1, shrink_every=shrink_every)
        ranker.fit(X, prefs).save(folder / "model")
        tc.load(folder / "model").partial_fit(X, prefs[:100]).thin(0.01, X, prefs)
    tc.DenseRanker(rate=1.0).fit(X, prefs).thin(0.1, X, prefs)


def feature_rankers(rng: np.random.Generator, folder: Path) -> None:
    for is_sparse in (False, True):
        data = made_up(int(rng.integers(100)), n_queries=8, is_sparse=is_sparse)
        for make in linear.LINEAR_RANKERS.values():
            make().fit(data.X, data.y, qid=data.qid)
        for parameters in ({"batch_size": 3}, {"loss": "listnet"}):
            linear.FTRLRanker(**parameters).fit(data.X, data.y, qid=data.qid)


def words_and_numbers(rng: np.random.Generator, folder: Path) -> None:
    """W and the weights of fields and numbers, on rows with and without some of them."""
    layout = ColumnLayout(12, 2, 3)
    Q, D = random_texts(rng, 9, layout.n_columns), random_texts(rng, 14, layout.n_columns)
    prefs = random_preferences(rng, 300, 9, 14)
    for ranker in (None, tc.LowRankRanker(n_components=3), tc.DiagonalRanker()):
        JointRanker(layout=layout, ranker=ranker, chunk_size=7).fit(Q, prefs, D)


def online_steps(rng: np.random.Generator, folder: Path) -> None:
    """Many at once, until the table grows."""
    Q, D, prefs = random_texts(rng, 9, 60), random_texts(rng, 14, 60), random_preferences(rng, 300, 9, 14)
    base = Weights([Identity(n_terms=60)])
    for rule in (OnlineRule(margin=0.4), OnlineRule(margin=0.4, pairs=5, step=0.1, weight=0.05)):
        OnlineLearner(base, rule).learn(Q, prefs, D)


# The workload of each module. Those of a group run in one process: compiling takes the time, and two groups can be
# compiled side by side.
GROUPS: dict[str, dict[str, Workload]] = {
    "bytes": {
        "correlated": correlated_words,
        "decimals": numbers_in_files,
        "letor": letor_files,
        "orders": orders,
        "ranking": measures,
    },
    "search": {
        "scoring": scores,
        "leading": searches,
        "postings": searches,
        "search": searches,
        "topk": searches,
    },
    "features": {
        "ftrl": feature_rankers,
        "pairs": feature_rankers,
        "joint": words_and_numbers,
    },
    "steps": {
        "binned": learners("CorrelatedRanker"),
        "dense": learners("DenseRanker"),
        "diagonal": learners("DiagonalRanker"),
        "support": learners("PrunedRanker"),
        "hashed": learners("HashedRanker"),
        "lowrank": learners("LowRankRanker", "MultiTaskRanker"),
        "prefetch": learners("DenseRanker"),
        "rows": learners("DiagonalRanker"),
    },
    "sparse": {
        "online": online_steps,
        "sparse": sparse_weights,
    },
}
# Kernels of a learner without a workload of their own are met by fits of all learners.
NO_KERNELS = {"__init__", "compiler", "deferred", "machine_code"}
_MODULES = {path.stem for path in Path(compiler.__file__).parent.glob("*.py")} - NO_KERNELS
_OF_LEARNERS = _MODULES - {module for group in GROUPS.values() for module in group}
GROUPS["steps"] |= {module: learners(*RANKERS) for module in sorted(_OF_LEARNERS)}
WORKLOADS = {module: workload for group in GROUPS.values() for module, workload in group.items()}


def kernels_of(module: str) -> dict[str, Deferred]:
    """The kernels that are written in a module, by name."""
    where = importlib.import_module(f"tercet.kernels.{module}")
    return {
        name: value
        for name, value in vars(where).items()
        if isinstance(value, Deferred) and value.__module__ == where.__name__ and hasattr(value.compiled, "signatures")
    }


def reached(kernel: Deferred, seen: set[Deferred]) -> None:
    """Add a kernel and those that its code names: code from the cache brings its helpers without compiling them."""
    if kernel not in seen:
        seen.add(kernel)
        function = kernel.__wrapped__
        for name in function.__code__.co_names:
            helper = function.__globals__.get(name)
            if isinstance(helper, Deferred):
                reached(helper, seen)


def never_called(modules: list[str]) -> list[str]:
    called: set[Deferred] = set()
    for module in WORKLOADS:
        for kernel in kernels_of(module).values():
            if kernel.compiled.signatures:
                reached(kernel, called)
    return [
        f"{module}.{name}" for module in modules for name, kernel in kernels_of(module).items() if kernel not in called
    ]


if __name__ == "__main__":
    assert config.BOUNDSCHECK, "indices are not checked"
    for workload in dict.fromkeys(WORKLOADS[module] for module in sys.argv[1:]):
        with tempfile.TemporaryDirectory() as made:
            workload(np.random.default_rng(0), Path(made))
    print(json.dumps(never_called(sys.argv[1:])))
