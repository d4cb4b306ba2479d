"""Weights seen as plain matrices and factors, whatever their parts are; and how they are shared and saved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tercet.errors import DamagedBundleError, MemoryLimitError
from tercet.weights import Dense, Diagonal, Hashed, Identity, LowRank, Mapped, Sparse, Weights


def dense_of(part) -> np.ndarray:
    """W of one part."""
    return part.block(*(np.arange(n) for n in part.shape))


def any_part(kind, rng, n, m):
    """A part of any kind, mapped ones included: "mapped sparse", "mapped mapped hashed"."""
    if kind.startswith("mapped "):
        A = sparse.random_array((4, n), density=0.5, rng=rng)
        B = A if n == m and rng.random() < 0.5 else sparse.random_array((4, m), density=0.5, rng=rng)
        return Mapped(A=A, B=B, part=any_part(kind.removeprefix("mapped "), rng, 4, 4), scale=rng.uniform(-2, 2))
    scale = rng.uniform(-2, 2)
    if kind == "identity":
        return Identity(n_terms=n, scale=scale)
    if kind == "diagonal":
        return Diagonal(weights=rng.standard_normal(n).astype(np.float32), scale=scale)
    if kind == "sparse":
        return Sparse(weights=sparse.random_array((n, m), density=0.4, rng=rng), scale=scale)
    if kind == "dense":
        return Dense(weights=rng.standard_normal((n, m)).astype(np.float32), scale=scale)
    if kind == "lowrank":
        U, V = (rng.standard_normal((size, 3)).astype(np.float32) for size in (n, m))
        return LowRank(query_factors=U, doc_factors=U if n == m and rng.random() < 0.5 else V, scale=scale)
    table = rng.standard_normal(int(rng.integers(1, 30))).astype(np.float32)
    return Hashed(table=table, n_query_terms=n, n_doc_terms=m, multiplier=int(rng.integers(1, 50)), scale=scale)


PLAIN = ("identity", "diagonal", "sparse", "dense", "lowrank", "hashed")
KINDS = st.sampled_from([*PLAIN, *(f"mapped {kind}" for kind in PLAIN), *(f"mapped mapped {kind}" for kind in PLAIN)])


@settings(max_examples=50)
@given(kinds=st.lists(KINDS, min_size=1, max_size=4), seed=st.integers(0, 10**6), m=st.sampled_from([7, 9]))
def test_views_together_are_all_of_w(kinds, seed, m):
    rng = np.random.default_rng(seed)
    kinds = [kind for kind in kinds if m == 7 or kind not in ("identity", "diagonal")] or ["mapped identity"]
    weights = Weights([any_part(kind, rng, 7, m) for kind in kinds])
    W = weights.rows(np.arange(7))
    total = np.zeros((7, m))
    if weights.identity:
        total += weights.identity * np.eye(7)
    if weights.diagonal is not None:
        total += np.diag(weights.diagonal)
    if weights.sparse is not None:
        total += weights.sparse.toarray()
    if weights.query_factors is not None:
        total += weights.query_factors.astype(float) @ weights.doc_factors.T
    np.testing.assert_allclose(total, W, atol=1e-4)
    for part in weights.parts:
        plain = part.plain()
        assert plain.kind in ("identity", "diagonal", "sparse", "dense", "lowrank")
        np.testing.assert_allclose(dense_of(plain), dense_of(part), atol=1e-5)
    if all(part.is_sparse for part in weights.parts):
        assert weights.density * W.size == pytest.approx(np.count_nonzero(W), abs=3)
    else:
        assert weights.density == 1.0


def test_a_mapped_part_keeps_its_document_scale_when_made_plain(rng):
    U, V = (rng.standard_normal((4, 3)).astype(np.float32) for _ in range(2))
    A, B = (sparse.random_array((4, 7), density=0.6, rng=rng) for _ in range(2))
    mapped = Mapped(A=A, B=B, part=LowRank(query_factors=U, doc_factors=V, typical_length=2.0))
    X = sparse.csr_array(rng.random((5, 7)))
    np.testing.assert_allclose(mapped.plain().score(X, X), mapped.score(X, X), atol=1e-5)


def test_a_matrix_that_would_not_fit_is_refused_with_its_size():
    table = np.ones(3, dtype=np.float32)
    hashed = Hashed(table=table, n_query_terms=10**6, n_doc_terms=10**6, multiplier=7)
    all_to_one = sparse.csr_array(np.ones((1, 20_000)))
    weights = Weights([hashed])
    with pytest.raises(MemoryLimitError, match="1,000,000 × 1,000,000 pairs of words, 4,000,000,000,000 bytes"):
        _ = weights.sparse
    assert weights.identity == 0.0
    assert weights.query_factors is None
    assert len(weights.related(5, 3)) == 3
    wide = Mapped(A=all_to_one, B=all_to_one, part=Identity(n_terms=1))
    assert not wide.is_sparse
    with pytest.raises(MemoryLimitError, match="may have 400,000,000 entries as a matrix; 100,000,000 are allowed"):
        _ = Weights([wide]).sparse
    assert Weights([wide]).density == 1.0
    narrow = Mapped(A=all_to_one[:, :50], B=all_to_one[:, :50], part=Identity(n_terms=1))
    assert narrow.is_sparse
    assert Weights([narrow]).sparse.nnz == 2500


def test_a_scaled_part_shares_its_arrays(rng):
    bins = sparse.random_array((4, 9), density=0.5, rng=rng)
    part = Mapped(A=bins, B=bins, part=Sparse(weights=sparse.random_array((4, 4), density=0.5, rng=rng)))
    doubled = 2 * Weights([part])
    assert doubled.parts[0].A is part.A
    assert (doubled.parts[0].scale, part.scale) == (2.0, 1.0)


def test_saved_weights_that_repeat_what_is_not_there_are_refused(rng):
    part = LowRank(
        query_factors=rng.random((3, 2)).astype(np.float32), doc_factors=rng.random((3, 2)).astype(np.float32)
    )
    bins = sparse.csr_array(rng.random((3, 5)))
    meta, arrays = Weights([Mapped(A=bins, B=bins, part=part), Mapped(A=2 * bins, B=2 * bins, part=part)]).to_state()
    assert meta["repeated"]["1.part.query_factors"] == "0.part.query_factors"
    for repeated in (
        {"1.part.query_factors": "9.x"},
        {"0.A.data": "0.part.query_factors"},
        {"1.part.query_factors": 3},
    ):
        with pytest.raises(DamagedBundleError, match=r"it cannot be|expected text"):
            Weights.from_state(meta | {"repeated": meta["repeated"] | repeated}, arrays)
