"""The path of l2, rows left out in closed form, and the grid that chooses by them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

from oracles import disagreement_error, query_laplacian
from tercet.errors import InputError, ParameterError
from tercet.learn.linear import FTRLRanker
from tercet.learn.rls import RankRLS, RLSRegressor, choose_rls, solving
from tercet.learn.rls.kernels import Columns

L2S = [1e-3, 0.1, 2.0, 50.0]
PARAMS = [
    {"kernel": "gaussian", "gamma": 0.3},
    {"kernel": "gaussian", "gamma": 0.3, "n_basis": 12},
    {"kernel": "gaussian", "gamma": 1e-3, "n_basis": [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]},
    {"kernel": "linear"},
    {"kernel": "linear", "n_basis": 3},
    {"kernel": "cosine", "n_basis": 2},
]
NAMES = ["basic", "sparse", "repeats", "primal", "linear", "two vectors"]
every_way = pytest.mark.parametrize("params", PARAMS, ids=NAMES)
either = pytest.mark.parametrize("cls", [RankRLS, RLSRegressor])


def made_rows(seed: int, n: int = 45, n_queries: int = 7):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, rng.normal(size=n).round(1), rng.integers(0, n_queries, n)


def without(cls, params, fitted, X, y, qid, is_left_out, l2):
    """Scores of some rows under a ranker that is fitted to the others, with the same basis."""
    rows, kept = np.flatnonzero(is_left_out), np.flatnonzero(~is_left_out)
    if params.get("n_basis") is None:
        return clone(fitted).set_params(l2=l2).fit(X[kept], y[kept], qid=qid[kept]).predict(X[rows])
    # Basis vectors that are left out as examples are kept as rows that nothing is compared with.
    R = fitted.basis_rows_
    K = RankRLS(**{**params, "n_basis": None})._kernel(4).gram(X)
    if cls is RankRLS:
        L = query_laplacian(qid)[np.ix_(kept, kept)]
    else:
        L = np.eye(len(kept))
    Z = K[np.ix_(kept, R)]
    a = np.linalg.lstsq(
        np.vstack([np.linalg.cholesky(L + 1e-13 * np.eye(len(L))).T @ Z, np.sqrt(l2) * _root(K[np.ix_(R, R)])]),
        np.concatenate([np.linalg.cholesky(L + 1e-13 * np.eye(len(L))).T @ y[kept], np.zeros(len(R))]),
        rcond=1e-12,
    )[0]
    return K[np.ix_(rows, R)] @ a


def _root(gram):
    values, V = np.linalg.eigh(gram)
    return np.sqrt(np.maximum(values, 0))[:, None] * V.T


# -- leaving out ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@every_way
@either
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6))
def test_leaving_a_query_out_is_fitting_without_it(cls, params, seed):
    X, y, qid = made_rows(seed)
    ranker = cls(**params).fit(X, y, qid=qid)
    found = ranker.leave_query_out(L2S)
    assert found.shape == (45, 4)
    for j, l2 in enumerate(L2S):
        for query in np.unique(qid):
            expected = without(cls, params, ranker, X, y, qid, qid == query, l2)
            np.testing.assert_allclose(found[qid == query, j], expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


def test_a_regression_without_queries_leaves_out_one_row_after_another():
    X, y, _ = made_rows(2)
    ranker = RLSRegressor(kernel="gaussian", n_basis=10).fit(X, y)
    by_row = RLSRegressor(kernel="gaussian", n_basis=10).fit(X, y, qid=np.arange(45))
    np.testing.assert_array_equal(ranker.leave_query_out(L2S), by_row.leave_query_out(L2S))


@pytest.mark.parametrize("n_basis", [None, 12, 45, [0] * 5 + list(range(15))])
def test_a_tiny_l2_is_finite_when_a_query_is_left_out(n_basis):
    X, y, qid = made_rows(3)
    found = RankRLS(kernel="gaussian", n_basis=n_basis).fit(X, y, qid=qid).leave_query_out([1e-300, 1e-20, 1e300])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 2], 0, atol=1e-9)


@pytest.mark.parametrize("l2", [1e-10, 1e-8])
def test_with_all_rows_as_the_basis_a_small_l2_is_a_fit(l2):
    X, y, qid = made_rows(3)
    X[1], X[2] = X[0], X[0]
    found = RankRLS(kernel="gaussian", gamma=1e-3).fit(X, y, qid=qid).leave_query_out([l2])
    assert np.isfinite(found).all()
    refitted = np.empty(45)
    for query in np.unique(qid):
        kept = qid != query
        refitted[~kept] = (
            RankRLS(kernel="gaussian", gamma=1e-3, l2=l2).fit(X[kept], y[kept], qid=qid[kept]).predict(X[~kept])
        )
    np.testing.assert_allclose(found[:, 0], refitted, atol=1e-3 * np.abs(refitted).max())


def test_closed_form_where_one_query_decides_nearly_all():
    X, y, qid = made_rows(4)
    X[qid != 0] *= 1e-3  # functions that only the rows of query 0 can tell apart
    params = {"kernel": "linear", "n_basis": [0, 1, 2]}
    ranker = RankRLS(**params).fit(X, y, qid=qid)
    found = ranker.leave_query_out([1e-8])
    expected = without(RankRLS, params, ranker, X, y, qid, qid == 0, 1e-8)
    np.testing.assert_allclose(found[qid == 0, 0], expected, atol=1e-6 * np.abs(expected).max())


# -- the path -------------------------------------------------------------------------------------------------------


@every_way
@either
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_every_point_of_a_path_is_a_fit(cls, params, form):
    X, y, qid = made_rows(5)
    new = made_rows(6)[0]
    path = cls(**params).fit(form(X), y, qid=qid).path(L2S)
    scores = path.predict(form(new))
    assert scores.shape == (45, 4)
    for i, l2 in enumerate(L2S):
        alone = cls(**params, l2=l2).fit(form(X), y, qid=qid)
        np.testing.assert_allclose(scores[:, i], alone.predict(form(new)), atol=1e-7)


@every_way
@either
def test_a_path_stays_what_it_was_when_its_ranker_is_fitted_again(cls, params):
    X, y, qid = made_rows(5)
    ranker = cls(**params).fit(X, y, qid=qid)
    path = ranker.path(L2S)
    scores = path.predict(X)
    ranker.set_params(gamma=9.0).fit(X[::-1] * 2, y, qid=qid)
    np.testing.assert_array_equal(path.predict(X), scores)


def test_the_decomposition_is_made_once_and_not_by_fit(monkeypatch):
    X, y, qid = made_rows(7)
    calls = []
    block = Columns.block
    monkeypatch.setattr(Columns, "block", lambda self, rows: calls.append(1) or block(self, rows))
    ranker = RankRLS(kernel="gaussian", gamma=1.0, n_basis=5).fit(X, y, qid=qid)
    assert "spectrum" not in vars(ranker._training.system)
    made = len(calls)
    first = ranker.path([1.0]).coefficients
    spectrum = ranker._training.system.spectrum
    np.testing.assert_allclose(ranker.path([1.0, 2.0]).coefficients[:1], first, rtol=1e-12)
    assert ranker._training.system.spectrum is spectrum
    assert len(calls) == made  # the rows' kernel is not made again


# -- the grid -------------------------------------------------------------------------------------------------------


@either
def test_the_grid_is_each_setting_by_itself(cls):
    X, y, qid = made_rows(8)
    pattern = cls(kernel="gaussian", n_basis=10)
    grid = choose_rls(X, y, qid, l2s=L2S, parameters={"gamma": [0.01, 0.5, 2.0]}, ranker=pattern)
    assert grid.errors.shape == (3, 4, 7)
    assert [setting["gamma"] for setting in grid.settings] == [0.01, 0.5, 2.0]
    for i, setting in enumerate(grid.settings):
        alone = clone(pattern).set_params(**setting).fit(X, y, qid=qid)
        scores = alone.leave_query_out(L2S)
        for j in range(4):
            expected = [disagreement_error(scores[qid == q, j], y[qid == q]) for q in dict.fromkeys(qid)]
            np.testing.assert_allclose(grid.errors[i, j], expected, atol=1e-12)
    i, j = grid.best
    assert grid.means[i, j] == grid.means.min()
    assert (grid.ranker.gamma, grid.ranker.l2) == (grid.settings[i]["gamma"], grid.l2s[j])
    assert pattern.gamma is None


def test_the_grid_over_kernels_is_each_kernel_by_itself():
    X, y, qid = made_rows(9)
    for params, parameters in (
        ({"kernel": "gaussian"}, {"gamma": [0.2, 1.0]}),
        ({"kernel": "polynomial", "n_basis": 6}, {"degree": [1, 2], "coef0": [0.0, 1.0]}),
        ({"kernel": "linear"}, {}),
    ):
        grid = choose_rls(X, y, qid, l2s=[1.0, 5.0], parameters=parameters, ranker=RankRLS(**params))
        for i, setting in enumerate(grid.settings):
            alone = choose_rls(X, y, qid, l2s=[1.0, 5.0], ranker=RankRLS(**params, **setting))
            np.testing.assert_allclose(grid.errors[i], alone.errors[0], atol=1e-12)


def test_the_grid_goes_over_the_basis():
    X, y, qid = made_rows(9)
    parameters = {"gamma": [0.2, 1.0], "n_basis": [5, 12]}
    grid = choose_rls(X, y, qid, l2s=[1.0, 5.0], parameters=parameters, ranker=RankRLS(kernel="gaussian"))
    assert len(grid.settings) == 4
    for setting, errors in zip(grid.settings, grid.errors, strict=True):
        alone = choose_rls(X, y, qid, l2s=[1.0, 5.0], ranker=RankRLS(kernel="gaussian", **setting))
        np.testing.assert_allclose(errors, alone.errors[0], atol=1e-12)
    best = grid.settings[grid.best[0]]
    assert (grid.ranker.n_basis, grid.ranker.gamma) == (best["n_basis"], best["gamma"])


# -- a block of rows at a time --------------------------------------------------------------------------------------


@either
@pytest.mark.parametrize("gamma", [0.3, 1e-3], ids=["well conditioned", "nearly singular"])
def test_the_size_of_blocks_changes_nothing_of_what_is_left_out(cls, gamma, monkeypatch):
    X, y, qid = made_rows(10, n=300, n_queries=40)
    grids = []
    for size in (solving.BYTES_AT_ONCE, 8 * 12 * 64, 1):  # all rows, some 64, 64 at least
        with monkeypatch.context() as patch:
            patch.setattr(solving, "BYTES_AT_ONCE", size)
            ranker = cls(kernel="gaussian", gamma=gamma, n_basis=12).fit(X, y, qid=qid)
            found = ranker.leave_query_out(L2S)
            pattern = cls(kernel="gaussian", n_basis=12)
            parameters = {"gamma": [gamma, 2 * gamma]}
            grids.append((found, choose_rls(X, y, qid, l2s=L2S, parameters=parameters, ranker=pattern)))
    for found, grid in grids[1:]:
        np.testing.assert_allclose(found, grids[0][0], atol=1e-6 * np.abs(found).max())
        np.testing.assert_allclose(grid.means, grids[0][1].means, atol=1e-3)


@pytest.mark.slow
def test_memory_does_not_go_with_rows_times_basis_vectors(monkeypatch):
    X, y, qid = made_rows(11, n=12_000, n_queries=200)
    monkeypatch.setattr(solving, "BYTES_AT_ONCE", 2**18)
    pattern = RankRLS(kernel="gaussian", n_basis=100)
    choose_rls(X[:300], y[:300], qid[:300], l2s=[1.0], ranker=pattern)  # compiles
    tracemalloc.start()
    try:
        choose_rls(X, y, qid, l2s=[1.0], parameters={"gamma": [0.1, 0.3]}, ranker=pattern)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12_000 * 100 * 8 / 3


# -- what cannot be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda ranker: ranker.path([]), "l2s must be one or more finite numbers above 0; got "),
        (lambda ranker: ranker.path([1.0, 0.0]), r"above 0; got \[1.0, 0.0\]"),
        (lambda ranker: ranker.leave_query_out([np.nan]), r"above 0; got \[nan\]"),
        (lambda ranker: ranker.path("many"), "above 0; got 'many'"),
        (lambda ranker: ranker.path([10**400]), "above 0; got"),
        (lambda ranker: ranker.path([[1.0], [1.0, 2.0]]), "above 0; got"),
    ],
)
def test_wrong_questions_are_named(ask, message):
    X, y, qid = made_rows(0)
    with pytest.raises(InputError, match=message):
        ask(RankRLS().fit(X, y, qid=qid))


def test_one_query_cannot_be_left_out():
    X, y, _ = made_rows(0)
    with pytest.raises(InputError, match="one query"):
        RankRLS().fit(X, y, group=[len(y)]).leave_query_out([1.0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"l2": [1.0]}, "expected some of gamma"),
        ({"gamma": []}, "one or more values"),
        ({"gamma": [-1.0]}, "gamma"),
        ({"gamma": [[1.0], [1.0, 2.0]]}, "one or more values"),
    ],
)
def test_wrong_grids_are_named(parameters, message):
    X, y, qid = made_rows(0)
    with pytest.raises(ParameterError, match=message):
        choose_rls(X, y, qid, l2s=[1.0], parameters=parameters)


@pytest.mark.parametrize("ranker", [3, RankRLS, FTRLRanker()], ids=["a number", "a class", "another ranker"])
def test_a_grid_over_what_has_no_kernel_is_refused(ranker):
    X, y, qid = made_rows(0)
    with pytest.raises(ParameterError, match="ranker must be a RankRLS or an RLSRegressor"):
        choose_rls(X, y, qid, l2s=[1.0], ranker=ranker)


def test_rows_that_are_no_pairs_cannot_choose():
    X, y, _ = made_rows(0)
    with pytest.raises(InputError, match="no query has two rows or more"):
        choose_rls(X, y, np.arange(45), l2s=[1.0], ranker=RLSRegressor())


@either
@pytest.mark.parametrize(
    "ask",
    [
        lambda ranker, *rows: ranker.set_params(l2=1e-12).fit(*rows).dual_coef_,
        lambda ranker, *rows: ranker.fit(*rows).path([1e-12, 1.0]).coefficients,
        lambda ranker, *rows: ranker.fit(*rows).path([1e-12, 1.0]).predict(100 * rows[0]),
    ],
    ids=["fit", "path", "scores"],
)
def test_what_no_double_holds_is_named_and_never_nan(cls, ask):
    X, y, qid = made_rows(1)
    assert np.isfinite(ask(cls(kernel="gaussian", l2=100.0), X, y * 1e290, qid)).all()
    with pytest.raises(InputError, match="grows beyond what a float64 holds"):
        ask(cls(kernel="gaussian", l2=100.0), X, y * 1e306, qid)
    held_out = cls(kernel="gaussian", l2=100.0).fit(X, y * 1e306, qid).leave_query_out([100.0])
    assert np.isfinite(held_out).all()
