"""Made-up English documents and models of their stems, for engines to rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

import tercet as tc
from tercet.fitting.text_model import ordinary_analyzer
from tercet.weights import Identity, LowRank, Sparse

SPOKEN = (
    "milk acne skin diets running studies breast cancer tumours vitamins walnuts heart disease arteries the of with"
)
WORDS = [*SPOKEN.split(), "patients", "risk", "protein", "fibre", "beans", "sugar", "naïve", "2019", "children"]
QUERIES = [
    "acne and milk",
    "the heart disease of children",
    "running patients",
    "sugar sugar beans",
    "walnuts naïve 2019",
]


def texts(seed: int = 0, n: int = 60) -> dict[str, str]:
    """Documents of fewer than 40 words, whose lengths Lucene keeps as they are."""
    rng = np.random.default_rng(seed)
    return {f"d{i:02d}": " ".join(rng.choice(WORDS, rng.integers(3, 30))) for i in range(n)}


def model_of(docs: Mapping[str, str], *, signed: bool = False, low_rank: bool = False, seed: int = 0) -> tc.TextModel:
    """Stems, as `tc.fit` begins with, and a random W."""
    rng = np.random.default_rng(seed)
    words = tc.Vectorizer(analyzer=ordinary_analyzer(), weighting="bm25", k1=1.2, b=0.75).fit(docs.values())
    n = len(words.words_)
    if low_rank:
        U, V = (rng.normal(scale=0.4, size=(n, 4)).astype(np.float32) for _ in range(2))
        learned = LowRank(query_factors=U, doc_factors=V, typical_length=1.5)
    else:
        W = rng.uniform(-0.5 if signed else 0.05, 0.8, size=(n, n)) * (rng.random((n, n)) < 0.2)
        learned = Sparse(weights=sparse.csr_array(W.astype(np.float32)))
    return tc.TextModel(words, words, tc.Weights([Identity(n_terms=n, scale=1.5), learned]))
