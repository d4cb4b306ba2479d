"""Made-up corpora whose answers are known, for the tests of text models and of the recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

import tercet as tc
from oracles.memory import mixed_scores

Qrels = dict[str, dict[str, int]]


@dataclass
class Corpus:
    docs: dict[str, str]
    queries: dict[str, str]
    qrels: Qrels

    def part(self, start: int, stop: int | None = None) -> Qrels:
        return dict(list(self.qrels.items())[start:stop])


def synonyms(seed: int, n_pairs: int, n_docs: int, n_queries: int, n_common: int = 30) -> Corpus:
    """Queries say ``ask07`` where documents say ``say07``; shared words match at random, so matching words misleads."""
    rng = np.random.default_rng(seed)

    def pick(kind: str, n: int, size: int) -> list[str]:
        return [f"{kind}{j:02d}" for j in rng.choice(n, size, replace=False)]

    docs = {
        f"d{i}": " ".join(pick("say", n_pairs, 4) + pick("common", n_common, 1 + int(rng.integers(4))))
        for i in range(n_docs)
    }
    queries, qrels = {}, {}
    for i in range(n_queries):
        asked = pick("ask", n_pairs, 2)
        queries[f"q{i}"] = " ".join(asked + pick("common", n_common, 1))
        hits = {d: sum(word.replace("ask", "say") in text for word in asked) for d, text in docs.items()}
        qrels[f"q{i}"] = {d: n for d, n in hits.items() if n}
    docs["every word"] = " ".join(f"ask{j:02d}" for j in range(n_pairs))  # so that fresh queries are known
    return Corpus(docs, queries, qrels)


def matching(seed: int) -> Corpus:
    """Each query is two words, and the documents with both are relevant: nothing is left to learn."""
    rng = np.random.default_rng(seed)
    docs = {f"d{i}": " ".join(f"w{j:02d}" for j in rng.choice(40, 6, replace=False)) for i in range(60)}
    queries, qrels = {}, {}
    for i in range(100):
        answer = f"d{rng.integers(60)}"
        words = set(rng.choice(docs[answer].split(), 2, replace=False).tolist())
        queries[f"q{i}"] = " ".join(sorted(words))
        qrels[f"q{i}"] = {d: 1 for d, text in docs.items() if words <= set(text.split())}
    return Corpus(docs, queries, qrels)


def with_random_answers(corpus: Corpus, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    ids = list(corpus.docs)
    return replace(corpus, qrels={q: {ids[d]: 1 for d in rng.choice(len(ids), 3, False)} for q in corpus.qrels})


TINY = Corpus(
    {"a": "cats purr", "b": "dogs bark", "c": "fish swim"},
    {f"q{i}": ["purr", "bark", "swim"][i % 3] for i in range(30)},
    {f"q{i}": {"abc"[i % 3]: 1} for i in range(30)},
)


def bits(weights: tc.Weights) -> tuple[dict, dict[str, bytes]]:
    meta, arrays = weights.to_state()
    return meta, {name: array.tobytes() for name, array in arrays.items()}


def oracle_scores(model: tc.TextModel, docs: Mapping[str, str], queries: Sequence[str]) -> np.ndarray:
    """Scores of every document by words and memory, from the equations."""
    Q, D = (rows.toarray().astype(float) for rows in (model.queries(list(queries)), model.docs(docs)))
    W = model.weights.rows(np.arange(model.weights.shape[0])).astype(float)
    if model.memory is None:
        return Q @ W @ D.T
    memory, P = model.memory, model.memory.queries.toarray().astype(float)
    column_of = {doc_id: column for column, doc_id in enumerate(memory.doc_ids)}
    columns = [column_of.get(doc_id, -1) for doc_id in docs]
    return mixed_scores(Q, D, W, P, memory.evidence.toarray().astype(float), columns, **asdict(memory.settings))
