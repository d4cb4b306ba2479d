"""Made-up documents, weights of every kind and the answers that an index must give, for the tests of search."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import tercet as tc
from tercet.search import Index
from tercet.weights import Dense, Diagonal, Hashed, Identity, LowRank, Mapped, Part, Sparse, Weights

N_TERMS = 24
KINDS = ("identity", "diagonal", "sparse", "dense", "lowrank", "scaled", "hashed", "mapped", "mapped-lowrank")


def random_rows(rng: np.random.Generator, n: int, n_terms: int = N_TERMS, density: float = 0.25) -> sparse.csr_array:
    """Rows with ties among them: few different values, some rows twice, some empty."""
    X = rng.integers(1, 4, (n, n_terms)) / 4 * (rng.random((n, n_terms)) < density)
    if n:
        X[rng.random(n) < 0.1] = 0
        again = rng.integers(0, n, n // 4)
        X[rng.integers(0, n, n // 4)] = X[again]
    return sparse.csr_array(X.astype(np.float32))


def random_part(rng: np.random.Generator, kind: str, n: int = N_TERMS) -> Part:
    """Signed weights; those of the sparse parts are quarters, so that scores tie."""

    def factors(m: int = n) -> np.ndarray:
        return rng.normal(size=(m, 3)).astype(np.float32)

    quarters = rng.integers(-4, 5, (n, n)) / 4
    thin = sparse.csr_array((quarters * (rng.random((n, n)) < 0.2)).astype(np.float32))
    scale = float(rng.choice([1.0, -0.5, 2.0]))
    if kind == "identity":
        return Identity(n_terms=n, scale=scale)
    if kind == "diagonal":
        return Diagonal(weights=quarters[0].astype(np.float32), scale=scale)
    if kind == "sparse":
        return Sparse(weights=thin, scale=scale)
    if kind == "dense":
        return Dense(weights=quarters.astype(np.float32), scale=scale)
    if kind == "lowrank":
        return LowRank(query_factors=factors(), doc_factors=factors(), scale=scale)
    if kind == "scaled":
        return LowRank(query_factors=factors(), doc_factors=factors(), typical_length=1.5, scale=scale)
    if kind == "hashed":
        table = rng.normal(size=17).astype(np.float32)
        return Hashed(table=table, n_query_terms=n, n_doc_terms=n, multiplier=31, scale=scale)
    A = sparse.csr_array((rng.random((9, n)) * (rng.random((9, n)) < 0.3)).astype(np.float32))
    if kind == "mapped":
        return Mapped(A=A, B=A, part=Sparse(weights=thin[:9, :9]), scale=scale)
    return Mapped(A=A, B=A, part=LowRank(query_factors=factors(9), doc_factors=factors(9), typical_length=2.0))


def random_weights(rng: np.random.Generator, kinds: list[str]) -> Weights:
    return Weights([random_part(rng, kind) for kind in kinds])


def has_latent(weights: Weights) -> bool:
    return any(isinstance(p.innermost if isinstance(p, Mapped) else p, LowRank) for p in weights.parts)


def brute_force(weights: Weights, q: sparse.csr_array, D: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all documents, and which of them count."""
    scores = weights.score(q, D)[0]
    if not q.nnz:
        return scores, np.zeros(len(scores), dtype=bool)
    if has_latent(weights):
        return scores, np.diff(D.indptr) > 0
    weighted = np.zeros(weights.shape[1], dtype=bool)
    for part in weights.parts:
        expanded = part.expand(q)
        row = expanded.toarray()[0] if sparse.issparse(expanded) else expanded[0]
        weighted |= row != 0
    return scores, (D.astype(bool).astype(np.int64) @ weighted.astype(np.int64)) > 0


def assert_same_answer(found: Any, ids: list[str], scores: np.ndarray, counts: np.ndarray, k: int) -> None:
    """The k best of those that count; documents may change places only where rounding makes their scores differ."""
    rows = np.flatnonzero(counts)
    order = rows[np.lexsort((rows, -scores[rows]))][:k]
    assert len(found) == len(order)
    row_of = {doc_id: row for row, doc_id in enumerate(ids)}
    unit = 1e-12 * max(1.0, float(np.abs(scores).max(initial=0.0)))
    for hit, expected in zip(found, order, strict=True):
        row = row_of[hit.doc_id]
        assert counts[row]
        assert abs(hit.score - scores[row]) <= unit
        assert abs(hit.score - scores[expected]) <= unit
    assert len({hit.doc_id for hit in found}) == len(found)


def small_model(docs: dict[str, str], *, latent: bool = False, seed: int = 0) -> tc.TextModel:
    """tf-idf, or tf-idf and a low-rank part that nobody trained."""
    words = tc.Vectorizer().fit(docs.values())
    n = len(words.words_)
    parts: list[Part] = [Identity(n_terms=n)]
    if latent:
        rng = np.random.default_rng(seed)
        factors = [rng.normal(size=(n, 2)).astype(np.float32) / 4 for _ in range(2)]
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1], typical_length=1.0))
    return tc.TextModel(words, words, Weights(parts))


DOCS = {"a": "green avocado", "b": "green eyes", "c": "blue sky", "d": "", "é": "avocado toast with green eyes"}


def answers(index: Index, texts: tuple[str, ...] = ("green avocado", "sky", "toast eyes", "nothing")) -> list[Any]:
    """What an index says, to the bit."""
    return [[(hit.doc_id, hit.score, hit.text) for hit in index.search(text, 4)] for text in texts]
