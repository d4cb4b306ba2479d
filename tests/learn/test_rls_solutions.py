"""RankRLS and the regression beside it against the paper's equations, solved densely."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet.learn.rls.solving as solving
from oracles import kernel_matrix, query_laplacian, rank_rls, sparse_rank_rls
from tercet.errors import InputError
from tercet.learn.rls import RankRLS, RLSRegressor

KERNELS = [
    {"kernel": "linear"},
    {"kernel": "gaussian", "gamma": 0.4},
    {"kernel": "polynomial", "gamma": 0.3, "degree": 2, "coef0": 0.5},
    {"kernel": "cosine"},
]
FORMS = [np.asarray, sparse.csr_array]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=[each["kernel"] for each in KERNELS])
every_form = pytest.mark.parametrize("form", FORMS, ids=["dense", "csr"])
# Where the equations' condition is at most 1e8, solutions must be the same to 1e-8.
CONDITION, SAME = 1e8, 1e-8


def made_rows(seed: int, n: int = 40, d: int = 5, n_queries: int = 6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    return X, rng.normal(size=n).round(1), rng.integers(0, n_queries, n)


def matrix_of(A, B, kernel):
    return kernel_matrix(A, B, kernel["kernel"], **{key: value for key, value in kernel.items() if key != "kernel"})


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=SAME * max(1e-300, np.abs(expected).max()))


# -- equations 7 and 8 ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_kernel
@every_form
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), l2=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_the_basic_form_is_equation_7(kernel, form, seed, l2):
    X, y, qid = made_rows(seed)
    X[0], qid[0] = X[1], qid[1]  # K has no inverse
    new = made_rows(seed + 1)[0]
    K, L = matrix_of(X, X, kernel), query_laplacian(qid)
    assume(np.linalg.cond(L @ K + l2 * np.eye(len(K))) <= CONDITION)
    expected = matrix_of(new, X, kernel) @ rank_rls(K, L, L @ y, l2)
    ranker = RankRLS(**kernel, l2=l2).fit(form(X), y, qid=qid)
    assert_same(ranker.predict(form(new)), expected)
    assert_same(ranker.path([l2]).predict(form(new))[:, 0], expected)


@pytest.mark.slow
@every_kernel
@every_form
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), l2=st.sampled_from([1e-6, 0.1, 1.0, 1e6]))
def test_the_sparse_form_is_equation_8(kernel, form, seed, l2):
    X, y, qid = made_rows(seed)
    R = np.random.default_rng(seed).choice(len(X), 5, replace=False)
    new = made_rows(seed + 1)[0]
    K, L = matrix_of(X, X, kernel), query_laplacian(qid)
    assume(np.linalg.cond(K[R] @ L @ K[:, R] + l2 * K[np.ix_(R, R)]) <= CONDITION)
    expected = matrix_of(new, X[R], kernel) @ sparse_rank_rls(K, R, L, L @ y, l2)
    ranker = RankRLS(**kernel, l2=l2, n_basis=R).fit(form(X), y, qid=qid)
    assert_same(ranker.predict(form(new)), expected)
    assert_same(ranker.path([l2]).predict(form(new))[:, 0], expected)


@every_kernel
@pytest.mark.parametrize("n_basis", [None, 4])
def test_the_regression_is_the_same_without_comparisons(kernel, n_basis):
    X, y, qid = made_rows(3)
    ranker = RLSRegressor(**kernel, n_basis=n_basis, l2=0.5).fit(X, y, qid=qid)
    K, nothing = matrix_of(X, X, kernel), np.eye(len(X))
    if n_basis is None:
        expected = K @ rank_rls(K, nothing, y, 0.5)
    else:
        R = ranker.basis_rows_
        expected = K[:, R] @ sparse_rank_rls(K, R, nothing, y, 0.5)
    assert_same(ranker.predict(X), expected)


# -- the same function, however it is found -------------------------------------------------------------------------


@every_form
@pytest.mark.parametrize("cls", [RankRLS, RLSRegressor])
def test_a_linear_kernel_has_weights_however_it_is_solved(cls, form):
    X, y, qid = made_rows(0, n=30, d=6)
    wide = np.hstack([X, np.zeros((30, 40))])  # more features than rows: in the dual
    primal, dual = (cls(l2=0.2).fit(form(each), y, qid=qid) for each in (X, wide))
    np.testing.assert_allclose(dual.coef_[:6], primal.coef_, atol=1e-10)
    assert not dual.coef_[6:].any()
    whole = cls(l2=0.2, n_basis=np.arange(30)).fit(form(X), y, qid=qid)
    np.testing.assert_allclose(whole.coef_, primal.coef_, atol=1e-9)
    assert not hasattr(primal, "dual_coef_")
    np.testing.assert_allclose(primal.path([0.2]).coefficients[0], primal.coef_, atol=1e-12)
    np.testing.assert_allclose(dual.path([0.2]).coefficients[0], dual.coef_, atol=1e-10)


@every_kernel
@pytest.mark.parametrize("n_basis", [None, 9, [3, 3, 17, 20, 1]])
def test_a_given_kernel_is_the_kernel(kernel, n_basis):
    X, y, qid = made_rows(1)
    new = made_rows(2)[0]
    usual = RankRLS(**kernel, n_basis=n_basis).fit(X, y, qid=qid)
    K, K_new = matrix_of(X, X, kernel), matrix_of(new, X, kernel)
    for form in FORMS:
        given_one = RankRLS(kernel="precomputed", n_basis=n_basis).fit(form(K), y, qid=qid)
        np.testing.assert_allclose(given_one.predict(form(K_new)), usual.predict(new), atol=1e-9)
    if isinstance(n_basis, list):
        narrow = RankRLS(kernel="precomputed", n_basis=n_basis).fit(K[:, n_basis], y, qid=qid)
        np.testing.assert_allclose(narrow.predict(K_new[:, n_basis]), usual.predict(new), atol=1e-9)


@pytest.mark.parametrize("bytes_at_once", [1, 8 * 64 * 7, 2**24])
def test_the_size_of_blocks_changes_nothing(bytes_at_once, monkeypatch):
    X, y, qid = made_rows(4, n=400)
    for ids in (qid, np.zeros(400), np.arange(400) // 100):  # queries smaller, and larger, than a block
        expected = RankRLS(kernel="gaussian", n_basis=60, l2=0.1).fit(X, y, qid=ids).dual_coef_
        with monkeypatch.context() as patch:
            patch.setattr(solving, "BYTES_AT_ONCE", bytes_at_once)
            patch.setattr(solving, "_NUMBERS_AT_ONCE", 500)
            found = RankRLS(kernel="gaussian", n_basis=60, l2=0.1).fit(X, y, qid=ids)
            np.testing.assert_allclose(found.dual_coef_, expected, atol=1e-9 * np.abs(expected).max())
            full = RankRLS(kernel="gaussian").fit(X[:90], y[:90], qid=ids[:90])
        again = RankRLS(kernel="gaussian").fit(X[:90], y[:90], qid=ids[:90])
        np.testing.assert_allclose(full.predict(X), again.predict(X), atol=1e-10)


@pytest.mark.slow
def test_wide_sparse_rows_are_never_made_dense():
    rng = np.random.default_rng(0)
    X = sparse.random_array((600, 200_000), density=5e-5, rng=rng, format="csr")
    y, qid = rng.normal(size=600), np.arange(600) // 6
    for params in ({}, {"n_basis": 50}, {"kernel": "gaussian", "n_basis": 50}, {"kernel": "cosine", "n_basis": 20}):
        with peak_memory() as peak:
            ranker = RankRLS(**params).fit(X, y, qid=qid)
            assert np.isfinite(ranker.predict(X)).all()
        assert peak.megabytes < 60, "50 rows alone would be 80 MB"
        if params.get("kernel", "linear") == "linear":
            assert ranker.coef_.shape == (200_000,)
    expected = X.T @ RankRLS(kernel="precomputed").fit((X @ X.T).toarray(), y, qid=qid).dual_coef_
    np.testing.assert_allclose(RankRLS().fit(X, y, qid=qid).coef_, expected, atol=1e-9)


@pytest.mark.slow
def test_of_the_kernel_of_all_rows_with_the_basis_only_blocks_are_held(monkeypatch):
    monkeypatch.setattr(solving, "BYTES_AT_ONCE", 2**18)
    X, y, _ = made_rows(0, n=20_000)
    ranker = RankRLS(kernel="gaussian", n_basis=100)
    for qid in (np.arange(20_000) // 10, np.zeros(20_000)):  # many queries, and one that is larger than a block
        with peak_memory() as peak:
            ranker.fit(X, y, qid=qid).predict(X)
        assert peak.megabytes < 8, "all of it would be 16 MB"


@dataclass
class Peak:
    megabytes: float = np.nan


@contextmanager
def peak_memory() -> Iterator[Peak]:
    peak = Peak()
    tracemalloc.start()
    try:
        yield peak
        peak.megabytes = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def test_queries_count_by_which_rows_they_hold_alone():
    X, y, qid = made_rows(6)
    names = [("query", int(i)) for i in qid]
    first = RankRLS(kernel="gaussian", n_basis=8).fit(X, y, qid=qid)
    np.testing.assert_array_equal(
        RankRLS(kernel="gaussian", n_basis=8).fit(X, y, qid=names).dual_coef_, first.dual_coef_
    )
    shifted = y + np.random.default_rng(0).normal(size=6)[qid]  # by query: no difference within one changes
    np.testing.assert_allclose(
        RankRLS(kernel="gaussian", n_basis=8).fit(X, shifted, qid=qid).predict(X), first.predict(X), atol=1e-10
    )


# -- hard cases -----------------------------------------------------------------------------------------------------


def hard(name: str):
    X, y, qid = made_rows(7)
    kernel = {"kernel": "gaussian", "gamma": 0.4}
    if name == "duplicates":
        X = np.repeat(X[:10], 4, axis=0)
    elif name == "one point":
        X = np.ones_like(X)
        X[0] = 2.0
    elif name == "flat kernel":
        kernel["gamma"] = 1e-9
    elif name == "no kernel":
        kernel["gamma"] = 1e6
    elif name == "far away":
        X = X + 1e5
    elif name == "steep":
        kernel = {"kernel": "polynomial", "gamma": 1.0, "degree": 9, "coef0": 1.0}
    elif name == "linear, rank one":
        X, kernel = np.outer(X[:, 0], np.ones(5)), {"kernel": "linear"}
    return X, y, qid, kernel


HARD = ["duplicates", "one point", "flat kernel", "no kernel", "far away", "steep", "linear, rank one"]
L2S = [1e-300, 1e-30, 1e-12, 1e-6, 1.0, 1e6, 1e30, 1e300]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("n_basis", [None, 40, [5] * 3 + [6] * 2 + list(range(20))], ids=["all", "40", "repeats"])
def test_hard_cases_are_finite_and_no_worse_than_nothing(name, n_basis):
    X, y, qid, kernel = hard(name)
    L = query_laplacian(qid)
    nothing = y @ L @ y
    path = RankRLS(**kernel, n_basis=n_basis).fit(X, y, qid=qid).path(L2S)
    for l2, along in zip(L2S, path.predict(X).T, strict=True):
        scores = RankRLS(**kernel, n_basis=n_basis, l2=l2).fit(X, y, qid=qid).predict(X)
        for each in (scores, along):
            assert np.isfinite(each).all()
            # The best function is never worse than none; of huge coefficients rounding leaves a little.
            assert (y - each) @ L @ (y - each) <= nothing * (1 + 1e-4)
        if l2 >= 1e30:
            assert np.abs(scores).max() < 1e-6


@pytest.mark.parametrize("name", ["duplicates", "one point", "flat kernel"])
def test_repeats_in_the_basis_change_nothing(name):
    X, y, qid, kernel = hard(name)
    once = np.arange(0, 40, 3)
    for l2 in (1e-4, 1.0, 100.0):
        expected = RankRLS(**kernel, n_basis=once, l2=l2).fit(X, y, qid=qid).predict(X)
        repeated = RankRLS(**kernel, n_basis=np.concatenate([once, once[::-1], once]), l2=l2).fit(X, y, qid=qid)
        scale = max(1e-12, np.abs(expected).max())
        np.testing.assert_allclose(repeated.predict(X), expected, atol=1e-6 * scale)


def test_all_rows_as_the_basis_are_the_basic_form():
    X, y, qid = made_rows(8)
    for l2 in (1e-3, 1.0):
        basic = RankRLS(kernel="gaussian", gamma=0.4, l2=l2).fit(X, y, qid=qid)
        sparse_one = RankRLS(kernel="gaussian", gamma=0.4, l2=l2, n_basis=np.arange(40)).fit(X, y, qid=qid)
        np.testing.assert_allclose(sparse_one.predict(X), basic.predict(X), atol=1e-7)


@pytest.mark.parametrize("n_basis", [None, 20])
def test_what_is_no_kernel_is_refused(n_basis):
    X, y, qid = made_rows(9)
    with pytest.raises(InputError, match="not positive semi-definite"):
        RankRLS(kernel="precomputed", n_basis=n_basis).fit(
            np.abs(X[:, :1] - X[:, 0]) + 0.1 * np.eye(len(X)), y, qid=qid
        )
