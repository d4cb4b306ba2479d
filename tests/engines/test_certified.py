"""Certified rerank: what engines that only bound a score list is ranked again until nobody can be missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from support.exports import PositiveOnly
from support.indexes import random_part, random_rows, small_model
from tercet.engines import positive_query_string
from tercet.engines.certified import certified_rerank, certified_search, positive_query
from tercet.errors import InputError
from tercet.search import Index
from tercet.weights import Identity, Sparse, Weights

N_TERMS = 24
WORDS = [f"w{i:02}" for i in range(N_TERMS)]


class Bounding:
    """Scores and their bounds, as lists; documents whose bound is NaN are never listed and count all the same."""

    def __init__(self, true: Sequence[float], bounds: Sequence[float], error: float, unlisted: float) -> None:
        self.true, self.bounds = np.array(true), np.array(bounds)
        self.error, self.unlisted = error, unlisted
        self.asked: list[int] = []

    def by_bound(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append(n)
        # Last first among equals, which is the worst for ties.
        order = np.lexsort((-np.arange(self.true.size), -self.bounds))
        order = order[~np.isnan(self.bounds[order])][:n]
        return order, self.bounds[order]

    def counting(self) -> np.ndarray:
        return np.arange(self.true.size)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        return self.true[rows]


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 300),
    k=st.integers(1, 40),
    error=st.sampled_from([0.0, 0.25, 2.0]),
    hidden=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_the_answer_is_that_of_all_documents(seed: int, n: int, k: int, error: float, hidden: float) -> None:
    rng = np.random.default_rng(seed)
    true = rng.integers(-8, 9, n) / 4  # few values, so many ties
    bounds = true + rng.integers(0, 5, n) / 4 - error
    unlisted = -np.inf
    if hidden:
        gone = rng.random(n) < hidden
        bounds[gone], unlisted = np.nan, float(true[gone].max(initial=-3.0)) - error
    engine = Bounding(true, bounds, error, unlisted)
    found = certified_rerank(engine, k)
    expected = np.lexsort((np.arange(n), -true))[:k]
    assert found.rows.tolist() == expected.tolist()
    assert found.scores.tolist() == true[expected].tolist()
    assert found.depth <= n


def test_a_bound_equal_to_the_last_score_is_not_enough() -> None:
    # All 100 tie; only the strict rule goes on until row 0 is listed, which the engine lists last.
    found = certified_rerank(Bounding([1.0] * 100, [1.0] * 100, 0.0, -np.inf), 1)
    assert (found.rows.tolist(), found.depth) == ([0], 100)


def test_the_rounding_error_counts() -> None:
    bounds = np.linspace(1.0, 0.5, 100)
    true = bounds.copy()
    true[50] = bounds[50] + 0.4  # above every other score
    engine = Bounding(true, bounds, 0.4, -np.inf)
    assert certified_rerank(engine, 1).rows.tolist() == [50]
    assert certified_rerank(replace_error(engine, 0.0), 1).rows.tolist() == [0]  # a smaller error misses it


def replace_error(engine: Bounding, error: float) -> Bounding:
    return Bounding(engine.true, engine.bounds, error, engine.unlisted)


def test_no_more_is_asked_for_than_needed() -> None:
    engine = Bounding(np.arange(1000.0), np.arange(1000.0), 0.0, -np.inf)
    assert certified_rerank(engine, 5).depth == 20
    assert engine.asked == [20]


# -- engines without negative weights ---------------------------------------------------------------------------------


def model_of(weights: Weights) -> tc.TextModel:
    words = tc.Vectoriser().fit([" ".join(WORDS)])
    assert words.words_ == WORDS
    return tc.TextModel(words, words, weights)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.sampled_from(["identity", "diagonal", "sparse", "mapped", "dense"]), min_size=1, max_size=3),
    n=st.integers(1, 150),
    k=st.integers(1, 40),
)
def test_positive_parts_give_the_answer_of_all_weights(seed: int, kinds: list[str], n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    model = model_of(Weights([random_part(rng, kind) for kind in kinds]))
    ids, D = [f"d{i}" for i in range(n)], random_rows(rng, n)
    full = Index.build_rows(ids, D, model)
    engine = PositiveOnly(ids, D, model)
    for _ in range(3):
        text = " ".join(rng.choice(WORDS, 3))
        found = certified_search(model, text, engine, k)
        assert list(found.hits) == [(hit.doc_id, hit.score) for hit in full.search(text, k, cutoff=False)]  # to the bit
        assert found.exact
        assert found.depth <= n


def test_rounded_values_are_allowed_for(rng: np.random.Generator) -> None:
    model = model_of(Weights([random_part(rng, "sparse"), Identity(n_terms=N_TERMS, scale=2.0)]))
    D = sparse.csr_array((rng.random((400, N_TERMS)) * (rng.random((400, N_TERMS)) < 0.5)).astype(np.float32))
    ids = [str(i) for i in range(400)]
    full = Index.build_rows(ids, D, model)
    step = 0.25
    engine = PositiveOnly(ids, D, model, step)
    wrong = 0
    for text in WORDS[:12]:
        expected = [(hit.doc_id, hit.score) for hit in full.search(text, 5)]
        found = certified_search(model, text, engine, 5, value_error=step / 2)
        assert found.exact
        assert list(found.hits) == expected
        wrong += list(certified_search(model, text, engine, 5).hits) != expected
    assert wrong  # so the error that was named is what made it right


def test_documents_that_lost_their_words_to_rounding_are_told_of() -> None:
    model = small_model({"a": "green avocado", "b": "blue sky"})
    D = model.docs(["green avocado", "blue sky", "sky"])
    engine = PositiveOnly(["a", "b", "c"], sparse.csr_array(D), model, step=0.5)
    assert not certified_search(model, "green", engine, 3, value_error=0.25).exact
    assert certified_search(model, "green", engine, 3).exact


def test_all_weights_negative() -> None:
    model = model_of(Weights([Identity(n_terms=N_TERMS, scale=-1.0)]))
    D = sparse.csr_array(np.eye(N_TERMS, dtype=np.float32)[[0, 1, 1, 2]] * np.float32([[1], [2], [1], [1]]))
    found = certified_search(model, "w01 w02", PositiveOnly("abcd", D, model), 9)
    assert [doc_id for doc_id, _ in found.hits] == ["c", "d", "b"]


def test_what_cannot_be_bounded_is_refused() -> None:
    latent = small_model({"a": "green avocado", "b": "blue sky"}, latent=True)
    plain = replace(latent, weights=Weights([Identity(n_terms=4)]))
    D = plain.docs(["green avocado", "blue sky"])
    engine = PositiveOnly(["a", "b"], D, plain)
    for ask in (lambda: certified_search(latent, "green", engine), lambda: positive_query_string(latent, "green")):
        with pytest.raises(InputError, match=r"low-rank part.*thin the model first"):
            ask()
    engine.D = -D
    with pytest.raises(InputError, match="document 'a' has negative values"):
        certified_search(plain, "green", engine)
    engine.documents = lambda doc_ids: ([0, 1], D)  # type: ignore[method-assign]
    with pytest.raises(InputError, match="2 vectors and 2 places for 1 documents"):
        certified_search(plain, "green", engine)
    for k, value_error in ((0, 0.0), (1, -1.0), (1, np.nan)):
        with pytest.raises(InputError):
            certified_search(plain, "green", engine, k, value_error)
    with pytest.raises(InputError, match="type int"):
        certified_search(plain, 3, engine)  # type: ignore[arg-type]


def test_unknown_words_find_nothing() -> None:
    model = small_model({"a": "green avocado"})
    found = certified_search(model, "guava", PositiveOnly(["a"], model.docs(["green"]), model))
    assert (found.hits, found.unknown) == ((), ("guava",))


def test_the_positive_query_is_complete() -> None:
    W = np.zeros((N_TERMS, N_TERMS), dtype=np.float32)
    W[0] = np.linspace(-1, 1.3, N_TERMS)
    W[0, 5] = 0
    model = model_of(Weights([Sparse(weights=sparse.csr_array(W))]))
    found = positive_query(model, "w00")
    expected = {word: weight for word, weight in zip(WORDS, W[0].tolist(), strict=True) if weight > 0}
    assert found.weights == expected
    assert set(found.words) == set(WORDS) - {"w05"}
    clauses = positive_query_string(model, "w00")
    assert clauses.n_left_out == 0
    assert {word: np.float32(float(boost)) for word, boost in parsed(clauses.text).items()} == {
        word: np.float32(weight) for word, weight in expected.items()
    }
    assert dict(clauses.clauses) == expected


def parsed(text: str) -> dict[str, str]:
    return dict(clause.split("^") for clause in text.strip("()").split(" OR "))
