"""Write the golden models of this version: small bundles, and what they must answer when read again.

Run by hand, once for each release (``python tests/make_golden.py``); it refuses to overwrite without ``--force``.
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

GOLDEN = Path(__file__).parent / "golden"
N_TERMS, N_DOCS, N_QUERIES = 8, 10, 6

# The query says the first word, the documents the second.
SYNONYMS = (("car", "automobile"), ("film", "movie"), ("stone", "rock"), ("tearoom", "café"))

RANKERS: dict[str, Any] = {
    "cosine": lambda: tc.CosineRanker(),
    "diagonal": lambda: tc.DiagonalRanker(rate=0.7),
    "dense": lambda: tc.DenseRanker(rate=1.5),
    "sparse": lambda: tc.SparseRanker(rate=1.5, l1=0.002, shrink_every=7, refit=False),
    "sparse-thinned": lambda: tc.SparseRanker(
        rate=0.5, schedule="constant", sparsify="thin", density=0.4, shrink_towards="identity"
    ),
    "grouped": lambda: tc.GroupSparseRanker(rate=1.5, l1=0.005, shrink_every=7, by="columns"),
    "lowrank": lambda: tc.LowRankRanker(n_components=3, rate=0.2, diagonal="learned", identity_weight=2.0),
    "lowrank-tied": lambda: tc.LowRankRanker(n_components=3, rate=0.2, tied=True, scale_documents=True),
}


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


def text_answers(model: tc.TextModel, asked: dict[str, Any]) -> dict[str, Any]:
    queries, docs = asked["queries"], asked["docs"]  # all documents, since near ties make the last place a toss-up
    return {
        "words": model.query_vectoriser.words_,
        "run": model.rank(queries, docs, k=len(docs)),
        "report": str(model.report),
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
    qids = [sorted(qrels)[i] for i in rng.permutation(len(qrels))]
    train, validation, test = ({q: qrels[q] for q in part} for part in (qids[:10], qids[10:15], qids[15:]))
    model = tc.fit(docs, queries, train, validation=validation, test=test, verbose=False)
    if model.report is None or not model.report.accepted:
        raise SystemExit("learning was declined; the golden text model should have learned something")
    model.save(folder / "text")
    some = dict(list(queries.items())[::5])
    asked = {"docs": docs, "queries": some, "explained": ["Film rock zeppelin", "café movie movie"]}
    expected["text"] = asked | text_answers(model, asked)
    text = json.dumps(rounded(expected), ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Numbers to nine places: the test looks at six."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--force", action="store_true", help="overwrite what is there")
    force = parser.parse_args(arguments).force
    folder = GOLDEN / tc.__version__
    if folder.exists() and not force:
        raise SystemExit(f"{folder} exists; golden files are kept as they were written. Use --force to replace them")
    make(folder)
    print(f"wrote {folder}")


if __name__ == "__main__":
    main()
