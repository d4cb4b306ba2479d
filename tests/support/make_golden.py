"""Write the golden models of this version: small bundles, and what they must answer when read again.

Run by hand, once for each release (``python tests/make_golden.py``); it refuses to overwrite without ``--force``.
``--missing`` adds the kinds of models that a version has no files of yet, and leaves those that are there alone. Each
of the two parts has its own answers: models of terms in ``expected.json``, of feature vectors in ``features.json``.
Bundles of earlier versions stay, and ``test_golden.py`` reads all of them.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import tercet as tc
from tercet.data import LetorData

GOLDEN = Path(__file__).parents[1] / "golden"
N_TERMS, N_DOCS, N_QUERIES = 8, 10, 6

# The query says the first word, the documents the second.
SYNONYMS = (("car", "automobile"), ("film", "movie"), ("stone", "rock"), ("tearoom", "café"))

RANKERS: dict[str, Any] = {
    "cosine": lambda: tc.CosineRanker(),
    "diagonal": lambda: tc.DiagonalRanker(rate=0.7),
    "dense": lambda: tc.DenseRanker(rate=1.5),
    "sparse": lambda: tc.SparseRanker(rate=1.5, l1=0.002, shrink_every=7, refit=False),
    "lowrank": lambda: tc.LowRankRanker(n_components=3, rate=0.2, diagonal="learned", identity_weight=2.0),
    "lowrank-tied": lambda: tc.LowRankRanker(n_components=3, rate=0.2, tied=True, scale_documents=True),
}


FEATURE_RANKERS: dict[str, Any] = {
    "ftrl": lambda: tc.FTRLRanker(l1=0.5, rate=0.5),
    "rankrls": lambda: tc.RankRLS(kernel="gaussian", gamma=0.7, l2=0.3, n_basis=9, random_state=4),
}
FEATURE_MODEL = "features"
EXPECTED, EXPECTED_FEATURES = "expected.json", "features.json"


def synonym_corpus() -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    """Documents, queries and judgements in which word matching finds nothing of use."""
    said = [second for _, second in SYNONYMS]
    docs = {"+".join(words): " ".join(words) for size in (1, 2, 3) for words in combinations(said, size)}
    docs |= {f"only {first}": first for first, _ in SYNONYMS[:2]}  # the other first words only queries use
    meaning = dict(SYNONYMS)
    asked = [words for size in (1, 2) for words in permutations(meaning, size)] + list(combinations(meaning, 3))
    queries = {f"q{at:02d}": " ".join(words) for at, words in enumerate(asked)}
    qrels = {}
    for qid, words in zip(queries, asked, strict=True):
        hits = {d: sum(meaning[w] in text.split() for w in words) for d, text in docs.items()}
        qrels[qid] = {d: n for d, n in hits.items() if n}
    return docs, queries, qrels


def rounded_rows(rng: np.random.Generator, n: int) -> list[list[float]]:
    """Values that JSON and float32 both hold exactly."""
    values = rng.integers(1, 64, (n, N_TERMS)) / 64
    return np.where(rng.random((n, N_TERMS)) < 0.4, values, 0.0).tolist()


def drawn(rng: np.random.Generator, n: int) -> list[list[int]]:
    better = rng.integers(0, N_DOCS, n)
    worse = (better + rng.integers(1, N_DOCS, n)) % N_DOCS
    return [rng.integers(0, N_QUERIES, n).tolist(), better.tolist(), worse.tolist()]


def ranker_answers(ranker: Any, Q: sparse.csr_array, D: sparse.csr_array) -> dict[str, Any]:
    docs, _ = ranker.rank(Q, D, 4)
    return {
        "scores": ranker.score_matrix(Q, D).tolist(),
        "rank": docs.tolist(),
        "related": [ranker.related(column, 3) for column in range(N_TERMS)],
        "pairs": list(ranker.explain(Q[[0]], D[[0]])),
    }


def as_before_verdicts(report: Any) -> str:
    """A report's text without the line of the verdict, which those of 0.1.0 had not yet."""
    return "\n".join(line for line in str(report).splitlines() if not line.startswith("Verdict: "))


def text_answers(model: tc.TextModel, asked: dict[str, Any]) -> dict[str, Any]:
    queries, docs = asked["queries"], asked["docs"]  # all documents, since near ties make the last place a toss-up
    return {
        "words": model.query_vectorizer.words_,
        "run": model.rank(queries, docs, k=len(docs)),
        "report": as_before_verdicts(model.report),
        "related": {word: model.related(word, 5) for word, _ in SYNONYMS},
        "pairs": model.explain(*asked["explained"]).pairs,
        "unknown": model.explain(*asked["explained"]).unknown,
    }


def check_steps_are_clear(ranker: Any, Q: sparse.csr_array, D: sparse.csr_array, prefs: tc.Preferences) -> None:
    """No margin so close to the target that rounding on another machine could decide whether a step is taken."""
    for at in range(len(prefs)):
        weights = ranker.weights_
        W = np.zeros(weights.shape) if weights.sparse is None else weights.sparse.toarray().astype(float)
        W += weights.identity * np.eye(N_TERMS)
        W += 0 if weights.diagonal is None else np.diag(weights.diagonal)
        W += 0 if weights.query_factors is None else weights.query_factors @ weights.doc_factors.T
        one = prefs[at : at + 1]
        margin = (Q[one.query] @ W @ (D[one.better] - D[one.worse]).T)[0, 0]
        if abs(margin - 1) < 1e-3:
            raise SystemExit(f"{type(ranker).__name__}: step {at} has a margin of {margin}; choose another seed")
        ranker.partial_fit(Q, one, D)


def make(folder: Path) -> None:
    rng = np.random.default_rng(2010)
    data = {"Q": rounded_rows(rng, N_QUERIES), "D": rounded_rows(rng, N_DOCS)}
    first, more = drawn(rng, 60), drawn(rng, 25)
    Q, D = (sparse.csr_array(np.array(data[name], dtype=np.float32)) for name in ("Q", "D"))
    expected: dict[str, Any] = {"data": data, "more": more, "rankers": {}}
    for name, create in RANKERS.items():
        ranker = create().fit(Q, tc.Preferences(*first), D)
        ranker.save(folder / name)
        answers = {"class": type(ranker).__name__, "params": ranker.get_params(), **ranker_answers(ranker, Q, D)}
        if name != "cosine":
            check_steps_are_clear(tc.load(folder / name), Q, D, tc.Preferences(*more))
        ranker.partial_fit(Q, tc.Preferences(*more), D)
        expected["rankers"][name] = answers | {"after_more": ranker_answers(ranker, Q, D)}

    docs, queries, qrels = synonym_corpus()
    model = tc.fit(docs, queries, qrels, options={"verbose": False})
    if model.report is None or not model.report.accepted:
        raise SystemExit("learning was rejected; the golden text model should have learned something")
    model.save(folder / "text")
    some = dict(list(queries.items())[::5])
    asked = {"docs": docs, "queries": some, "explained": ["Film rock zeppelin", "café movie movie"]}
    expected["text"] = asked | text_answers(model, asked)
    write_answers(folder / EXPECTED, expected)


def feature_rows(rng: np.random.Generator, first_query: int, n_queries: int = 6, n_docs: int = 7) -> dict[str, Any]:
    """Rows of four features, of which the second and the last say how good a document is."""
    n = n_queries * n_docs
    X = rng.integers(0, 65, (n, 4)) / 64
    y = np.clip(np.rint(1 + 2 * (X[:, 1] - X[:, 3]) + 0.2 * rng.standard_normal(n)), 0, 2).astype(int)
    qid = [f"q{first_query + row // n_docs}" for row in range(n)]
    return {"X": X.tolist(), "y": y.tolist(), "qid": qid}


def as_letor(rows: dict[str, Any]) -> LetorData:
    return LetorData(rows["X"], rows["y"], rows["qid"])


def feature_answers(model: Any, rows: dict[str, Any]) -> dict[str, Any]:
    """What a ranker of feature vectors, or a model of one, says."""
    answers: dict[str, Any] = {"scores": model.predict(np.array(rows["X"])).tolist()}
    if isinstance(model, tc.fitting.FeatureModel):
        evaluation = model.evaluate(as_letor(rows))
        answers["features"] = [list(row) for row in model.features()]
        answers["report"] = as_before_verdicts(model.report)
        answers["measured"] = {str(measure): evaluation.mean(measure) for measure in evaluation.measures}
    return answers


def make_features(folder: Path) -> None:
    rng = np.random.default_rng(2018)
    train, validation, test = (feature_rows(rng, first) for first in (0, 100, 200))
    expected: dict[str, Any] = {"more": validation, "test": test, "rankers": {}}
    for name, create in FEATURE_RANKERS.items():
        ranker = create().fit(np.array(train["X"]), train["y"], train["qid"])
        ranker.save(folder / name)
        answers = {"class": type(ranker).__name__, "params": ranker.get_params(), **feature_answers(ranker, test)}
        if hasattr(ranker, "partial_fit"):
            ranker.partial_fit(np.array(validation["X"]), validation["y"], validation["qid"])
            answers["after_more"] = feature_answers(ranker, test)
        expected["rankers"][name] = answers
    model = tc.fit_letor(
        as_letor(train),
        validation=as_letor(validation),
        test=as_letor(test),
        l1s=[8.0, 2.0, 0.5, 0.0],
        feature_names=["length", "BM25", "café", "age"],
    )
    model.save(folder / FEATURE_MODEL)
    expected["model"] = feature_answers(model, test)
    write_answers(folder / EXPECTED_FEATURES, expected)


def write_answers(path: Path, expected: dict[str, Any]) -> None:
    path.write_text(json.dumps(rounded(expected), ensure_ascii=False) + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Numbers to nine places: the test looks at six."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--force", action="store_true", help="overwrite what is there")
    how.add_argument("--missing", action="store_true", help="write the parts that are not there, and no other")
    given = parser.parse_args(arguments)
    folder = GOLDEN / tc.__version__
    if folder.exists() and not (given.force or given.missing):
        raise SystemExit(
            f"{folder} exists; golden files are kept as they were written. Use --force to replace them, --missing to "
            "write what is not there"
        )
    for part, answers in ((make, EXPECTED), (make_features, EXPECTED_FEATURES)):
        if not (given.missing and (folder / answers).exists()):
            part(folder)
            print(f"wrote {folder / answers} and its models")


if __name__ == "__main__":
    main()
