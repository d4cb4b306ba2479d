"""RankRLS and RLSRegressor as estimators: scikit-learn's checks, saving, the choice of a basis, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import tercet as tc
from support.bundles import arrays_file, reseal
from support.one_query import ONE_QUERY
from tercet.errors import BundleError, DamagedBundleError, InputError, MemoryLimitError, ParameterError
from tercet.fitting.feature_model import FeatureModel
from tercet.learn.rls import RLS_RANKERS, RankRLS, RLSRegressor
from tercet.store import write_bundle

every_ranker = pytest.mark.parametrize("make", RLS_RANKERS.values(), ids=RLS_RANKERS.keys())


def made_rows(seed: int = 0, n: int = 60, n_queries: int = 8):
    """What counts is how far from 0.5 the first feature is, which no linear ranker can tell."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    return X, np.abs(X[:, 0] - 0.5), rng.integers(0, n_queries, n)


def share_in_order(scores, y, qid) -> float:
    better = (y[:, None] > y) & (qid[:, None] == qid)
    return float(((scores[:, None] > scores) & better).sum() / better.sum())


ESTIMATORS = [
    ONE_QUERY["RankRLS"](),
    ONE_QUERY["RankRLS"](kernel="gaussian"),
    ONE_QUERY["RankRLS"](kernel="polynomial", n_basis=2),
    ONE_QUERY["RankRLS"](kernel="precomputed"),
    RLSRegressor(),
    RLSRegressor(kernel="gaussian"),
]


def not_passed(estimator) -> dict[str, str]:
    if estimator.kernel != "precomputed":
        return {}
    # scikit-learn takes X X' for a kernel in most of its checks, but in these gives any matrix.
    reason = "the matrix given is not positive semi-definite, so it is no kernel"
    return {"check_positive_only_tag_during_fit": reason, "check_estimators_dtypes": reason}


@pytest.mark.slow
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=not_passed)
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


@pytest.mark.slow
@every_ranker
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_it_learns_what_no_linear_ranker_can(make, form):
    X, y, qid = made_rows(0, 200, 20)
    new, y_new, qid_new = made_rows(1, 200, 20)
    ranker = make(kernel="gaussian", gamma=1.0, l2=0.01, n_basis=30).fit(form(X), y, qid=qid)
    assert share_in_order(ranker.predict(form(new)), y_new, qid_new) > 0.8
    assert share_in_order(make().fit(form(X), y, qid=qid).predict(form(new)), y_new, qid_new) < 0.7
    assert len(np.unique(ranker.basis_rows_)) == 30
    again = clone(ranker).fit(form(X), y, qid=qid)
    np.testing.assert_array_equal(again.basis_rows_, ranker.basis_rows_)
    other = clone(ranker).set_params(random_state=5).fit(form(X), y, qid=qid)
    assert (other.basis_rows_ != ranker.basis_rows_).any()


# -- saving ---------------------------------------------------------------------------------------------------------

SAVED = {
    "primal": {},
    "linear": {"n_basis": 5},
    "basic": {"kernel": "gaussian"},
    "sparse": {"kernel": "polynomial", "n_basis": np.array([1, 4, 7]), "gamma": np.float64(0.3)},
    "sparse by numbers of NumPy": {"kernel": "gaussian", "n_basis": list(np.array([1, 4, 7]))},
    "sparse by a range": {"kernel": "gaussian", "n_basis": range(3)},
    "precomputed": {"kernel": "precomputed"},
    "precomputed, sparse": {"kernel": "precomputed", "n_basis": 4},
}


@every_ranker
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("params", SAVED.values(), ids=SAVED.keys())
def test_saved_and_loaded_it_is_the_same(make, params, form, tmp_path):
    X, y, qid = made_rows()
    rows = form(X @ X.T if params.get("kernel") == "precomputed" else X)
    ranker = make(**params).fit(rows, y, qid=qid)
    ranker.save(tmp_path / "ranker")
    loaded = tc.load(tmp_path / "ranker")
    assert type(loaded) is make
    np.testing.assert_array_equal(loaded.predict(rows), ranker.predict(rows))
    learned = {name for name in vars(ranker) if name.endswith("_")}
    assert {name for name in vars(loaded) if name.endswith("_")} == learned
    for name, value in ranker.get_params().items():
        assert np.array_equal(loaded.get_params()[name], value)
    np.testing.assert_array_equal(clone(loaded).fit(rows, y, qid=qid).predict(rows), ranker.predict(rows))
    with pytest.raises(InputError, match="not saved with a ranker"):
        loaded.path([1.0])
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "other")


def test_names_of_features_are_kept(tmp_path):
    X, y, qid = made_rows()
    ranker = RankRLS(kernel="gaussian", n_basis=4).fit(X, y, qid=qid)
    ranker.feature_names_in_ = np.array(list("abcde"), dtype=object)  # as scikit-learn notes them from a data frame
    ranker.save(tmp_path / "ranker")
    assert tc.load(tmp_path / "ranker").feature_names_in_.tolist() == list("abcde")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta["params"].update(kernel="linear"),
        lambda meta: meta["params"].update(kernel="precomputed"),
        lambda meta: meta["params"].update(n_basis=None),
        lambda meta: meta["params"].update(l2=-1.0),
        lambda meta: meta["params"].update(unknown=1),
        lambda meta: meta["state"].update(more=1),
        lambda meta: meta.update(feature_names=["only", "two"]),
        lambda meta: meta.update({"class": "FenchelRanker"}),
    ],
    ids=["linear", "precomputed", "basis", "parameter", "unknown", "state", "names", "class"],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_bundle_that_is_not_one_is_refused(change, form, tmp_path):
    X, y, qid = made_rows()
    RankRLS(kernel="gaussian", n_basis=6).fit(form(X), y, qid=qid).save(tmp_path / "ranker")
    reseal(tmp_path / "ranker", lambda manifest: change(manifest["meta"]))
    with pytest.raises(BundleError):
        tc.load(tmp_path / "ranker")


@pytest.mark.parametrize("in_a_model", [False, True], ids=["ranker", "model"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_every_damaged_byte_is_a_typed_error(in_a_model, form, tmp_path):
    X, y, qid = made_rows(n=12, n_queries=3)
    ranker = RankRLS(kernel="gaussian", n_basis=3).fit(form(X), y, qid=qid)
    (FeatureModel(ranker, tuple("abcde")) if in_a_model else ranker).save(tmp_path / "m")
    loaded = tc.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(form(X)), ranker.predict(form(X)))
    for path in (tmp_path / "m" / "manifest.json", arrays_file(tmp_path / "m")):
        original = path.read_bytes()
        for position in range(0, len(original), 11):
            changed = bytearray(original)
            changed[position] ^= 1
            path.write_bytes(changed)
            with pytest.raises(BundleError):
                tc.load(tmp_path / "m")
        path.write_bytes(original[:-1])
        with pytest.raises(BundleError):
            tc.load(tmp_path / "m")
        path.write_bytes(original)
    tc.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dual_coef": [np.nan, 0.0, 1.0]}, "'dual_coef' has values that are not finite"),
        ({"dual_coef": [0.0, 1.0]}, "basis_rows"),
        ({"basis_rows": [-1, 1, 2]}, "basis_rows must be row numbers"),
        ({"n_features": [0]}, "expected 1 or more"),
        ({"n_features": [4]}, "basis"),
        ({"basis": np.full((3, 5), np.inf)}, "'basis' has values that are not finite"),
        ({"basis_data": np.full(15, np.nan)}, "'basis_data' has values that are not finite"),
        ({"basis_indices": np.full(15, 9, dtype=np.int32)}, "the basis is no matrix"),
        ({"basis_indptr": np.array([0, 9, 5, 15], dtype=np.int32)}, "the basis is no matrix"),
        ({"basis_indptr": np.array([0, 5], dtype=np.int32)}, "basis_indptr"),
        ({"other": [1.0]}, "the arrays are not those of a RankRLS"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_forged_arrays_are_refused(change, message, tmp_path):
    X, y, qid = made_rows(n=12, n_queries=3)
    form = sparse.csr_array if change.keys() & {"basis_data", "basis_indices", "basis_indptr"} else np.asarray
    meta, arrays = RankRLS(kernel="gaussian", n_basis=3).fit(form(X), y, qid=qid).to_state()
    assert change.keys() <= arrays.keys() or "other" in change
    forged = {**arrays, **{name: np.asarray(values) for name, values in change.items()}}
    write_bundle(tmp_path / "m", kind="ranker", meta=meta, arrays=forged)
    with pytest.raises(DamagedBundleError, match=message):
        tc.load(tmp_path / "m")


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel": "rbf"}, "'kernel' parameter of RankRLS"),
        ({"gamma": 0.0}, "'gamma' parameter of RankRLS"),
        ({"l2": 0.0}, "'l2' parameter of RankRLS"),
        ({"l2": np.inf}, "'l2' parameter of RankRLS"),
        ({"degree": 0}, "'degree' parameter of RankRLS"),
        ({"coef0": -1.0}, "'coef0' parameter of RankRLS"),
        ({"n_basis": 0}, "'n_basis' parameter of RankRLS"),
    ],
)
def test_wrong_parameters_are_named(params, message):
    X, y, qid = made_rows()
    with pytest.raises(ParameterError, match=message):
        RankRLS(**params).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    ("n_basis", "message"),
    [
        (61, "n_basis is 61, but X has 60 rows"),
        ([0, 7, 60], r"n_basis\[2\] is row 60, but X has 60 rows \(0 to 59\)"),
        ([0, -1], r"n_basis\[1\] is row -1"),
        ([0.5], "of dtype float64"),
        ([], "at least one"),
        ([[1, 2]], r"got shape \(1, 2\)"),
    ],
)
def test_a_wrong_basis_is_named(n_basis, message):
    X, y, qid = made_rows()
    with pytest.raises(InputError, match=message):
        RankRLS(kernel="gaussian", n_basis=n_basis).fit(X, y, qid=qid)


def test_a_matrix_that_is_no_kernel_is_named():
    X, y, qid = made_rows()
    K = X @ X.T
    given = RankRLS(kernel="precomputed")
    with pytest.raises(InputError, match=r"shape \(60, 59\); .* a column for each of its 60 rows"):
        given.fit(K[:, :59], y, qid=qid)
    with pytest.raises(InputError, match="or for each of the 3 rows of n_basis"):
        RankRLS(kernel="precomputed", n_basis=[1, 2, 3]).fit(K[:, :4], y, qid=qid)
    wrong = K.copy()
    wrong[3, 8] += 1
    with pytest.raises(InputError, match="it is not symmetric"):
        given.fit(wrong, y, qid=qid)
    with pytest.raises(InputError, match="not symmetric"):
        RankRLS(kernel="precomputed", n_basis=[8, 3]).fit(wrong[:, [8, 3]], y, qid=qid)
    with pytest.raises(InputError, match="not symmetric"):
        given.fit(sparse.csr_array(wrong), y, qid=qid)
    with pytest.raises(InputError, match="expecting 60 features"):
        given.fit(K, y, qid=qid).predict(K[:, :5])


@pytest.mark.parametrize("n_basis", [None, 5])
def test_what_grows_beyond_all_bounds_is_named(n_basis):
    X, y, qid = made_rows()
    X[9] *= 1e60
    with pytest.raises(InputError, match="beyond what a float64 holds"):
        RankRLS(kernel="polynomial", degree=20, n_basis=n_basis).fit(X, y, qid=np.arange(60) // 6)
    with pytest.raises(InputError, match="beyond what a float64 holds"):
        RankRLS(n_basis=n_basis).fit(X * 1e200, y, qid=qid)


@pytest.mark.slow
def test_a_kernel_that_no_memory_holds_is_refused_at_once():
    X = sparse.csr_array(([1.0, 2.0], ([1, 2], [4, 4])), shape=(2_000_000, 3_000_000))
    y = np.arange(X.shape[0])
    with pytest.raises(MemoryLimitError, match="a smaller n_basis needs less"):
        RankRLS().fit(X, y, group=[len(y)])
    ranker = RankRLS(n_basis=[1, 2, 3]).fit(X[:9], y[:9], group=[9])
    assert ranker.coef_.shape == (3_000_000,)


@every_ranker
def test_wrong_rows_are_refused(make):
    X, y, qid = made_rows()
    with pytest.raises(NotFittedError):
        make().predict(X)
    for ask in ("path", "leave_query_out"):
        with pytest.raises(NotFittedError):
            getattr(make(), ask)([1.0])
    ranker = make().fit(X, y, qid=qid)
    with pytest.raises(InputError, match="5 features"):
        ranker.predict(X[:, :3])
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        make().fit(X[:5], y, qid=qid)
    with pytest.raises(InputError, match="qid has 3 ids, but there are 60 rows"):
        make().fit(X, y, qid=qid[:3])
    broken = X.copy()
    broken[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        make().fit(broken, y, qid=qid)
    ranker = make().fit(X, y, qid=qid)
    with pytest.raises(InputError, match="NaN"):
        ranker.predict(broken)
    with pytest.raises(InputError):
        ranker.fit(broken, y, qid=qid)
    with pytest.raises(NotFittedError):  # a failed fit leaves nothing behind
        ranker.predict(X)


@pytest.mark.parametrize(
    "learn", [RankRLS().fit, lambda X, y: tc.learn.rls.choose_rls(X, y, None, l2s=[1.0])], ids=["fit", "choose_rls"]
)
def test_differences_within_queries_need_queries(learn):
    X, y, _ = made_rows()
    with pytest.raises(InputError, match="RankRLS compares the rows of a query"):
        learn(X, y)


@every_ranker
def test_grades_that_are_no_numbers_are_refused(make):
    X, y, qid = made_rows()
    with pytest.raises(InputError, match="y must have a real number for each row"):
        make().fit(X, [f"grade {value}" for value in y], qid=qid)
    with pytest.raises(InputError, match=r"y\[2\] is nan; every grade must be a finite number"):
        make().fit(X, [1.0, 0.0, None, *y[3:]], qid=qid)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("scale", [1e-9, 1e100])
def test_the_cosine_takes_no_notice_of_how_long_rows_are(scale, form):
    X, y, qid = made_rows()
    X[3] = 0.0
    for params in ({}, {"n_basis": 9}):
        usual = RankRLS(kernel="cosine", **params).fit(form(X), y, qid=qid).predict(form(X))
        scaled = RankRLS(kernel="cosine", **params).fit(form(X * scale), y, qid=qid).predict(form(X * scale))
        np.testing.assert_allclose(scaled, usual, atol=1e-9)
    assert usual[3] == 0.0


def test_the_sharpest_gaussian_is_silent():
    X, y, qid = made_rows()
    ranker = RankRLS(kernel="gaussian", gamma=1e308).fit(X, y, qid=qid)
    assert not ranker.predict(X + 1.0).any()


def test_rows_that_are_no_pairs_are_an_error():
    X, y, _ = made_rows()
    for labels, ids in ((y, np.arange(60)), (np.ones(60), np.zeros(60))):
        with pytest.raises(InputError, match="no query has two documents of different grades"):
            RankRLS().fit(X, labels, qid=ids)
