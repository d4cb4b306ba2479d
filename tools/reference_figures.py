"""The figures of `tools/reference.py`: one function per part, through public names only."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from reference_record import Figure
from scipy import sparse
from shop import make_shop, read_packages, read_truth
from sklearn.linear_model import SGDClassifier

import tercet as tc
from common import Clock, error_of, load_newsgroups, machine_facts, median, read_newsgroups
from lowrank_speed import numpy_loop
from search_speed import N_TERMS, K, as_row, best_ten, documents, in_turn, queries
from tercet.data import LetorFold, read_beir, read_letor_folds
from tercet.errors import BundleError
from tercet.measure import average_precision_of_classes, measure_rows
from tercet.weights import Identity, Weights

ROOT = Path(__file__).resolve().parents[1]
SEED = 0
NDCG = "nDCG@10"
LETOR_NDCG = "nDCG(dcg='exp-log2')@10"
GROUPS = ("comp.graphics", "rec.autos", "sci.med", "sci.space", "talk.politics.guns")  # of `fit_labeled`
N_PREFERENCES, N_TEST_PREFERENCES = 100_000, 20_000
N_LISTS = 30_000  # of the shop's click log


def machine() -> dict[str, Any]:
    """Facts that bits depend on; the demo's documents are docstrings of these packages."""
    facts = machine_facts("scikit-learn")
    return {name: value for name, value in facts.items() if name not in ("load_average", "tercet")}


# -- kinds of figures -------------------------------------------------------------------------------------------------


def mean(values: NDArray[Any]) -> Figure:
    """Mean over queries, with its standard error."""
    return Figure("quality", float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def share(value: float, n: int) -> Figure:
    """Share of n draws, with its standard error."""
    return Figure("quality", value, float(np.sqrt(value * (1 - value) / n)))


def digest(values: Iterable[Any]) -> Figure:
    """SHA-256 over the sorted digests of arrays or JSON values; names of fields do not matter."""
    return Figure("exact", _sha256("".join(sorted(map(_digest, values))).encode()))


def _digest(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _sha256(f"{value.dtype.str} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    return _sha256(json.dumps(value).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -- quality ----------------------------------------------------------------------------------------------------------


def nfcorpus(data_home: Path | None) -> dict[str, Figure]:
    """nDCG@10 on the dev queries: BM25, and the model of `tc.fit` on the training queries."""
    assert data_home is not None
    data = read_beir(data_home / "nfcorpus")
    dev = data.split("dev")
    asked = {query: data.queries[query] for query in dev}
    models = {
        "BM25": tc.TextModel.bm25(data.docs.values()),
        "tc.fit": tc.fit(data.docs, data.queries, data.split("train"), random_state=SEED, options={"verbose": False}),
    }
    return {
        f"nfcorpus dev {NDCG}, {name}": mean(tc.evaluate(dev, model.rank(asked, data.docs), NDCG)[NDCG])
        for name, model in models.items()
    }


def newsgroups(data_home: Path | None) -> dict[str, Figure]:
    """MAP of test posts as queries, and error on test preferences: two rankers, and `fit_labeled` on five groups."""
    assert data_home is not None
    data = load_newsgroups(data_home)
    prefs = tc.Preferences.from_labels(data.y, N_PREFERENCES, random_state=SEED)
    rankers = {
        "low rank": tc.LowRankRanker(n_components=100, tied=True, random_state=SEED),
        "dense": tc.DenseRanker(rate=1.0, schedule="constant", random_state=SEED),
    }
    figures: dict[str, Figure] = {}
    for name, ranker in rankers.items():
        weights = ranker.fit(data.X, prefs).weights_
        figures |= _class_figures(f"20 Newsgroups, {name}", weights, data.X_test, data.y_test)
    train, test = (
        [(text, label) for text, label in zip(part.texts, part.labels, strict=True) if label in GROUPS]
        for part in read_newsgroups(data_home)
    )
    model = tc.fit_labeled(*zip(*train, strict=True), random_state=SEED, options={"verbose": False})
    texts, labels = zip(*test, strict=True)
    X_test = model.docs(dict(enumerate(texts)))
    return figures | _class_figures("20 Newsgroups, fit_labeled", model.weights, X_test, np.array(labels))


def _class_figures(name: str, weights: Weights, X: sparse.csr_array, y: NDArray[Any]) -> dict[str, Figure]:
    test = tc.Preferences.from_labels(y, N_TEST_PREFERENCES, random_state=SEED + 1)
    margins = weights.score_rows(X[test.query], X[test.better]) - weights.score_rows(X[test.query], X[test.worse])
    return {
        f"{name}: MAP": mean(average_precision_of_classes(weights, X, y)),
        f"{name}: error": share(error_of(margins), N_TEST_PREFERENCES),
    }


def ohsumed(data_home: Path | None) -> dict[str, Figure]:
    """N@10 over the test queries of the five folds: the default path of penalties, and `MeanRanker`."""
    assert data_home is not None
    [archive] = (data_home / "letor3-ohsumed").glob("*.tar.gz")
    folds = read_letor_folds(archive, comments=False)
    return {
        f"OHSUMED N@10, {name}": mean(np.concatenate([values_of(fold) for fold in folds]))
        for name, values_of in (("fit_letor", _fit_letor_values), ("MeanRanker", _mean_ranker_values))
    }


def _fit_letor_values(fold: LetorFold) -> NDArray[Any]:
    """N@10 of each test query, at the penalty that the validation rows choose."""
    model = tc.fit_letor(fold.train, validation=fold.vali, random_state=SEED)
    return measure_rows(fold.test.y, model.predict(fold.test.X), fold.test.qid, LETOR_NDCG)[LETOR_NDCG]


def _mean_ranker_values(fold: LetorFold) -> NDArray[Any]:
    """N@10 of each test query, learned from the training and the validation rows."""
    X, y, qid = (
        np.concatenate([getattr(part, name) for part in (fold.train, fold.vali)]) for name in ("X", "y", "qid")
    )
    scores = tc.MeanRanker(random_state=SEED).fit(X, y, qid).predict(fold.test.X)
    return measure_rows(fold.test.y, scores, fold.test.qid, LETOR_NDCG)[LETOR_NDCG]


def shop(data_home: Path | None) -> dict[str, Figure]:
    """nDCG@10 by the truth on queries without evidence: BM25, and `tc.fit` on clicks, judgements and both.

    The package lists of this machine make the shop: with other lists, the digest of its files differs, and the figures
    cannot be compared.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_shop(read_packages(None), folder, n_lists=N_LISTS, seed=SEED)
        figures = {"shop, its files": digest(path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()))}
        docs, truth = tc.read_table(folder / "products.csv"), read_truth(folder)
        with (folder / "judged.csv").open(newline="", encoding="utf-8") as stream:
            judged = [{**row, "grade": int(row["grade"])} for row in csv.DictReader(stream)]
        evidence: dict[str, dict[str, Any]] = {
            "clicks": {"clicks": folder / "clicks.csv"},
            "judgements": {"qrels": judged},
            "both": {"clicks": folder / "clicks.csv", "qrels": judged},
        }
        models = {"BM25": tc.TextModel.bm25(docs.values())}
        models |= {
            name: tc.fit(docs, **given, random_state=SEED, options={"verbose": False})
            for name, given in evidence.items()
        }
        asked = {query: query for query in truth}
        return figures | {
            f"shop {NDCG}, {name}": mean(tc.evaluate(truth, model.rank(asked, docs), NDCG)[NDCG])
            for name, model in models.items()
        }


# -- bits -------------------------------------------------------------------------------------------------------------


def golden(data_home: Path | None) -> dict[str, Figure]:
    """Order and scores that every golden bundle answers to the inputs stored with it."""
    figures = {}
    for version in sorted((ROOT / "tests" / "golden").iterdir()):
        stored = json.loads((version / "expected.json").read_text(encoding="utf-8"))
        rows = json.loads((version / "features.json").read_text(encoding="utf-8"))["test"]["X"]
        for folder in sorted(path for path in version.iterdir() if path.is_dir()):
            figures |= _answers(folder, lambda model: _model_scores(model, stored, np.array(rows)))  # noqa: B023
    for version in sorted((ROOT / "tests" / "golden-index").iterdir()):
        asked = json.loads((version / "expected.json").read_text(encoding="utf-8"))["hits"]
        figures |= _answers(version / "index", lambda index: _index_scores(index, list(asked)))  # noqa: B023
    return figures


def _answers(folder: Path, scores_of: Callable[[Any], list[tuple[list[Any], list[float]]]]) -> dict[str, Figure]:
    """Digests of the answers; none for a bundle that this version does not read."""
    try:
        model = tc.load(folder)
    except BundleError as error:
        print(f"{folder.relative_to(ROOT)} does not load: {error}", file=sys.stderr)
        return {}
    name = folder.relative_to(ROOT / "tests").as_posix()
    answers = scores_of(model)
    return {
        f"{name}: order": digest([[ids for ids, _ in answers]]),
        f"{name}: scores": digest([[scores for _, scores in answers]]),
    }


def _model_scores(model: Any, stored: dict[str, Any], rows: NDArray[Any]) -> list[tuple[list[Any], list[float]]]:
    """Ids and scores for each query, best first, of a term ranker, a text model or a ranker of feature vectors."""
    if isinstance(model, tc.TextModel):
        docs = stored["text"]["docs"]
        run = model.rank(stored["text"]["queries"], docs, k=len(docs))
        return [(list(ranked), list(ranked.values())) for ranked in run.values()]
    if hasattr(model, "weights_"):
        Q, D = (sparse.csr_array(np.array(stored["data"][name], dtype=np.float32)) for name in ("Q", "D"))
        scores = model.weights_.score(Q, D)  # (n_q, n_d)
    else:
        scores = model.predict(rows)[np.newaxis]  # (1, n_rows)
    return [(np.argsort(-row, kind="stable").tolist(), row.tolist()) for row in scores]


def _index_scores(index: tc.Index, asked: list[str]) -> list[tuple[list[Any], list[float]]]:
    hits = [index.search(text, cutoff=False) for text in asked]
    return [([hit.doc_id for hit in found], [float(hit.score) for hit in found]) for found in hits]


def demo(data_home: Path | None) -> dict[str, Figure]:
    """Bits of the weights that `tercet demo` learns, and the printed MRR on its test queries."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tercet", "demo", "-o", folder, "--seed", str(SEED)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        weights = tc.load(Path(folder, "model")).weights
    rows = re.findall(r"^(\S+) {2,}([\d.]+) \[", printed.partition("other queries")[2], re.M)
    return {"demo, bits of the weights": digest(_arrays(weights))} | {
        f"demo MRR, {system}": Figure("exact", value) for system, value in rows
    }


def _arrays(weights: Weights) -> Iterable[NDArray[Any]]:
    """Arrays and scales of all parts."""
    for part in weights.parts:
        yield np.array(part.scale, dtype=np.float64)
        for value in (getattr(part, one.name) for one in fields(part)):
            if sparse.issparse(value):
                yield from (value.data, value.indices, value.indptr)
            elif isinstance(value, np.ndarray):
                yield value


# -- speed ------------------------------------------------------------------------------------------------------------


def speed(data_home: Path | None) -> dict[str, Figure]:
    """How many times as fast as the plain alternative, each pair side by side on made-up data, median of rounds."""
    ratios = {
        "low-rank steps against a NumPy loop": _lowrank_ratio(),
        "search against SciPy": _search_ratio(),
        "FTRL against scikit-learn's SGD on pairs": _ftrl_ratio(),
    }
    return {f"speed, {name}": Figure("ratio", round(float(ratio), 3)) for name, ratio in ratios.items()}


def _times_as_fast(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = 5) -> float:
    ours()  # compiles, or loads compiled code
    ratios = []
    for _ in range(rounds):
        clocks = []
        for work in (ours, theirs):
            with (clock := Clock()).running():
                work()
            clocks.append(clock)
        ratios.append(clocks[1].processor / clocks[0].processor)
    return median(ratios)


def _lowrank_ratio() -> float:
    rng = np.random.default_rng(SEED)
    X = documents(2_000, rng)
    prefs = tc.Preferences.from_labels(rng.integers(0, 10, 2_000), 5_000, random_state=SEED)
    ranker = tc.LowRankRanker(n_components=100, rate=0.1, margin=1.0, tied=True, random_state=SEED)
    start = np.array(ranker.fit(X, prefs[:1]).weights_.query_factors, dtype=np.float32)
    return _times_as_fast(lambda: ranker.fit(X, prefs), lambda: numpy_loop(X, prefs, start.copy()), rounds=3)


def _search_ratio() -> float:
    rng = np.random.default_rng(SEED)
    D = documents(20_000, rng)
    columns = D.astype(np.float64).tocsc()
    index = tc.Index.build_rows([str(row) for row in range(D.shape[0])], D, Weights([Identity(n_terms=N_TERMS)]))
    asked = [(query, as_row(query)) for query in queries(100, True, rng)]
    engines: dict[str, Callable[[Any], Any]] = {
        "tercet": lambda query: index.search_row(query[1], K),
        "scipy": lambda query: best_ten(columns[:, query[0][0]] @ query[0][1]),
    }
    taken = in_turn(engines, asked, 3, Clock(), now=process_time)
    return median(taken["scipy"]) / median(taken["tercet"])


def _ftrl_ratio() -> float:
    rng = np.random.default_rng(SEED)
    n_queries, n_docs, n_features = 1_000, 20, 40
    X = rng.random((n_queries * n_docs, n_features)).astype(np.float32)
    y = (X[:, 1] + X[:, 4] > 1.2).astype(int)
    qid = np.repeat(np.arange(n_queries), n_docs)
    pairs = [(np.flatnonzero((qid == q) & (y == 1)), np.flatnonzero((qid == q) & (y == 0))) for q in range(n_queries)]
    better = np.concatenate([np.repeat(good, len(bad)) for good, bad in pairs])
    worse = np.concatenate([np.tile(bad, len(good)) for good, bad in pairs])
    sign = rng.choice([-1, 1], len(better))
    differences = (X[better] - X[worse]) * sign[:, np.newaxis]
    ranker = tc.FTRLRanker()
    rival = SGDClassifier(loss="squared_hinge", penalty="l1", max_iter=1, tol=None, random_state=SEED)
    return _times_as_fast(lambda: ranker.fit(X, y, qid), lambda: rival.fit(differences, sign))


PARTS: dict[str, Callable[[Path | None], dict[str, Figure]]] = {
    part.__name__: part for part in (nfcorpus, newsgroups, ohsumed, shop, golden, demo, speed)
}
DATA = {"nfcorpus": "nfcorpus/", "newsgroups": "20news-bydate.tar.gz", "ohsumed": "letor3-ohsumed/"}
