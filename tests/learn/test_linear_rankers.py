"""What every linear ranker of feature vectors must do, and the path of penalties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import tercet as tc
from support.bundles import reseal
from support.one_query import ONE_QUERY
from tercet.errors import BundleError, InputError, ParameterError
from tercet.learn.linear import (
    LINEAR_RANKERS,
    FenchelRanker,
    FTRLRanker,
    MeanRanker,
    ProximalRanker,
    l1_path,
)
from tercet.learn.linear.queries import Queries, mean_ranges

every_ranker = pytest.mark.parametrize("make", LINEAR_RANKERS.values(), ids=LINEAR_RANKERS.keys())


def made_rows(seed: int = 0, n: int = 80, d: int = 8, n_queries: int = 8):
    """Only features 1 and 4 matter."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    y = np.digitize(X[:, 1] - X[:, 4] + 0.2 * rng.normal(size=n), [-0.3, 0.3])
    return X, y, rng.integers(0, n_queries, n)


def share_in_order(scores, y, qid) -> float:
    better = (y[:, None] > y) & (qid[:, None] == qid)
    return float(((scores[:, None] > scores) & better).sum() / better.sum())


# Many fits in one, most of which the checks need not see.
FEWER_FITS = {"MeanRanker": {"grid": {"l1_share": [0.1, 0.03]}, "folds": 2}}


@pytest.mark.slow
@parametrize_with_checks([ONE_QUERY[name](**FEWER_FITS.get(name, {})) for name in LINEAR_RANKERS])
def test_scikit_learn_agrees(estimator, check):
    check(estimator)  # every one of them: no exceptions are listed, as there are none


@every_ranker
def test_it_learns_what_matters(make):
    X, y, qid = made_rows()
    ranker = make().fit(X, y, qid=qid)
    assert share_in_order(ranker.predict(X), y, qid) > 0.85
    assert ranker.coef_.argmax() == 1
    assert ranker.coef_.argmin() == 4
    assert ranker.n_features_in_ == 8


# A rounding error decides on which side of a kink the hinge is looked at, or which of two features is the steepest;
# both ways end within the tolerance.
HOW_EQUAL = {"FenchelRanker": 5e-3}


def in_parts(X):
    """Every entry twice, each time half of it."""
    whole = sparse.csr_array(X)
    parts = np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr
    return sparse.csr_array(parts, shape=whole.shape)


FORMS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, np.asfortranarray, list, in_parts]


@pytest.mark.slow
@every_ranker
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_rows_gives_the_same(make, form):
    X, y, qid = made_rows(1)
    X[X < 0.3] = 0
    dense, other = make().fit(X, y, qid=qid), make().fit(form(X), y, qid=qid)
    atol = HOW_EQUAL.get(make.__name__, 1e-8)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-6, atol=atol)
    np.testing.assert_allclose(other.predict(form(X)), dense.predict(X), rtol=1e-6, atol=atol)


def test_single_precision_rows_are_scored_in_double(monkeypatch):
    X, y, qid = made_rows(1)
    ranker = FTRLRanker().fit(X, y, qid=qid)
    single = X.astype(np.float32)
    monkeypatch.setattr("tercet.learn.linear.base._BYTES_AT_ONCE", 7 * 8 * 8)  # seven rows
    np.testing.assert_allclose(ranker.predict(single), single.astype(np.float64) @ ranker.coef_, rtol=1e-13)


@pytest.mark.slow
@every_ranker
def test_grades_count_by_their_order_alone(make):
    X, y, qid = made_rows(2)
    spread = np.array([-3.5, 0.25, 1000.0])[y]
    np.testing.assert_allclose(make().fit(X, spread, qid=qid).coef_, make().fit(X, y, qid=qid).coef_, rtol=1e-9)


@every_ranker
def test_ids_count_by_which_are_equal_alone(make):
    X, y, qid = made_rows(3)
    names = [("query", int(i)) for i in qid]
    np.testing.assert_array_equal(make().fit(X, y, qid=names).coef_, make().fit(X, y, qid=qid).coef_)


@every_ranker
def test_rows_that_are_no_pairs_are_an_error(make):
    X, y, _ = made_rows()
    for labels, ids in ((y, np.arange(len(y))), (np.ones(len(y)), np.zeros(len(y)))):
        with pytest.raises(InputError, match="no query has two documents of different grades"):
            make().fit(X, labels, qid=ids)


@every_ranker
def test_a_failed_fit_leaves_nothing_behind(make):
    X, y, qid = made_rows()
    ranker = make().fit(X, y, qid=qid)
    with pytest.raises(InputError):
        ranker.fit(X[:, :3], np.ones(len(y)), qid=qid)
    with pytest.raises(NotFittedError):
        ranker.predict(X)


@every_ranker
def test_wrong_rows_are_refused(make):
    X, y, qid = made_rows()
    with pytest.raises(NotFittedError):
        make().predict(X)
    ranker = make().fit(X, y, qid=qid)
    with pytest.raises(InputError, match="8 features"):
        ranker.predict(X[:, :3])
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        make().fit(X[:5], y, qid=qid)
    with pytest.raises(InputError, match=f"{make.__name__} compares the rows of a query.* Add qid=.*qid=\\[0\\] "):
        make().fit(X, y)
    for value, name in ((np.nan, "NaN"), (np.inf, "infinity")):
        X[3, 2] = value
        for broken in (X, sparse.csr_array(X)):
            with pytest.raises(InputError, match=name):
                make().fit(broken, y, qid=qid)
            with pytest.raises(InputError, match=name):
                ranker.predict(broken)


@every_ranker
def test_saved_and_loaded_it_is_the_same(make, tmp_path):
    X, y, qid = made_rows()
    ranker = make().fit(X, y, qid=qid)
    ranker.save(tmp_path / "ranker")
    loaded = tc.load(tmp_path / "ranker")
    assert type(loaded) is make
    assert loaded.get_params() == ranker.get_params()
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))
    learned = {name for name in vars(ranker) if name.endswith("_")}
    assert {name for name in vars(loaded) if name.endswith("_")} == learned
    assert clone(loaded).get_params() == ranker.get_params()
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "other")


class Frame:
    """As much of a data frame's column as we look at."""

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values


def test_a_column_of_a_data_frame_is_taken_for_ids():
    X, y, qid = made_rows()
    np.testing.assert_array_equal(FTRLRanker().fit(X, y, qid=Frame(qid)).coef_, FTRLRanker().fit(X, y, qid=qid).coef_)


def test_names_of_features_are_kept(tmp_path):
    X, y, qid = made_rows()
    names = [f"f{i}" for i in range(8)]
    ranker = FTRLRanker().fit(X, y, qid=qid)
    ranker.feature_names_in_ = np.array(names, dtype=object)  # as scikit-learn notes them from a data frame
    ranker.save(tmp_path / "ranker")
    assert tc.load(tmp_path / "ranker").feature_names_in_.tolist() == names


@pytest.mark.parametrize("per_feature", [True, False])
def test_a_loaded_one_learns_on_to_the_bit(per_feature, tmp_path):
    X, y, qid = made_rows()
    first, second = qid < 4, qid >= 4
    ranker = FTRLRanker(per_feature=per_feature).fit(X[first], y[first], qid=qid[first])
    ranker.save(tmp_path / "ranker")
    loaded = tc.load(tmp_path / "ranker")
    for each in (ranker, loaded):
        each.partial_fit(X[second], y[second], qid=qid[second])
    np.testing.assert_array_equal(loaded.coef_, ranker.coef_)
    assert loaded.n_steps_ == ranker.n_steps_


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta["state"].update(step=-1),
        lambda meta: meta["state"].update(rate=0.0),
        lambda meta: meta["state"].update(more=1),
        lambda meta: meta["params"].update(rate=-1.0),
        lambda meta: meta["params"].update(unknown=1),
        lambda meta: meta.update(feature_names=["only", "two"]),
        lambda meta: meta.update({"class": "FenchelRanker"}),
    ],
    ids=["step", "rate", "state", "parameter", "unknown", "names", "class"],
)
def test_a_bundle_that_is_not_one_is_refused(change, tmp_path):
    X, y, qid = made_rows()
    FTRLRanker().fit(X, y, qid=qid).save(tmp_path / "ranker")
    reseal(tmp_path / "ranker", lambda manifest: change(manifest["meta"]))
    with pytest.raises(BundleError):
        tc.load(tmp_path / "ranker")


# -- the path -------------------------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6), params=st.sampled_from([{}, {"epochs": 3}, {"per_feature": False}, {"batch_size": 4}])
)
def test_a_path_is_one_fit_after_another(seed, params):
    X, y, qid = made_rows(seed)
    path = l1_path(X, y, qid, n_l1s=5, ranker=FTRLRanker(**params))
    for l1, coef, ranker in zip(path.l1s, path.coefs, path.rankers, strict=True):
        np.testing.assert_array_equal(coef, FTRLRanker(l1=l1, **params).fit(X, y, qid=qid).coef_)
        np.testing.assert_allclose(ranker.predict(X), X @ coef, atol=1e-12)


@pytest.mark.parametrize("ranker", [FTRLRanker(), ProximalRanker(), FenchelRanker()], ids=str)
def test_a_path_begins_with_the_fewest_features(ranker):
    X, y, qid = made_rows()
    path = l1_path(X, y, qid, l1s=[0.5, 4.0, 1.0], ranker=ranker)
    assert path.l1s.tolist() == ([0.5, 1.0, 4.0] if hasattr(ranker, "radius") else [4.0, 1.0, 0.5])
    assert path.l1s.tolist() == [getattr(each, ranker._penalty_name) for each in path.rankers]
    for value, coef in zip(path.l1s, path.coefs, strict=True):
        alone = clone(ranker).set_params(**{ranker._penalty_name: value})
        np.testing.assert_array_equal(alone.fit(X, y, qid=qid).coef_, coef)
    with pytest.raises(InputError, match="8 features"):
        path.rankers[-1].predict(X[:, :3])


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), params=st.sampled_from([{}, {"epochs": 3}, {"loss": "listnet"}, {"shuffle": True}]))
def test_the_first_penalty_is_the_weakest_that_leaves_nothing(seed, params):
    X, y, qid = made_rows(seed)
    path = l1_path(X, y, qid, n_l1s=3, ratio=0.01, ranker=FTRLRanker(**params))
    assert path.n_used[0] == 0
    assert path.n_used[-1] > 0
    assert path.l1s[-1] == pytest.approx(0.01 * path.l1s[0], rel=1e-3)
    assert [f"{l1:.5g}" for l1 in path.l1s] == [f"{l1:g}" for l1 in path.l1s], "what is printed is what was used"
    weaker = path.l1s[0] * (1 - 2e-4)  # five digits are kept, and the first is rounded up
    assert l1_path(X, y, qid, l1s=[weaker], ranker=FTRLRanker(**params)).coefs.any() or _ever_used(
        X, y, qid, weaker, params
    )


def _ever_used(X, y, qid, l1, params) -> bool:
    """Whether a weight left zero at any step: then later steps differ from those of a ranker without weights."""
    ranker, without = (FTRLRanker(**{**params, "l1": each}).fit(X, y, qid=qid) for each in (l1, 1e12))
    return bool((ranker._state.z != without._state.z).any())


def test_a_path_of_penalties_begins_where_a_feature_enters():
    X, y, qid = made_rows()
    ranker = ProximalRanker(tolerance=1e-6)
    path = l1_path(X, y, qid, ranker=ranker, n_l1s=6, ratio=0.01)
    assert path.l1s[-1] == pytest.approx(0.01 * path.l1s[0], rel=1e-3)
    assert path.n_used[0] == 0
    assert path.n_used[-1] > 4
    assert clone(ranker).set_params(l1=0.98 * path.l1s[0]).fit(X, y, qid=qid).coef_.any()


def test_a_path_where_nothing_can_be_learned_uses_nothing():
    _, y, qid = made_rows()
    for ranker in (FTRLRanker(), ProximalRanker()):
        assert not l1_path(np.ones((len(y), 3)), y, qid, ranker=ranker, n_l1s=3).coefs.any()
    assert not FenchelRanker().fit(np.ones((len(y), 3)), y, qid=qid).coef_.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: l1_path(np.ones((2, 1)), [0, 1], [7, 7], l1s=[]), "one or more finite numbers"),
        (lambda: l1_path(np.ones((2, 1)), [0, 1], [7, 7], l1s=[1.0, -1.0]), "one or more finite numbers"),
        (lambda: l1_path(np.ones((2, 1)), [0, 1], [7, 7], ratio=0.0), r"ratio in \(0, 1\]"),
        (lambda: l1_path(np.ones((2, 1)), [1, 1], [7, 7]), "no query has two documents"),
        (
            lambda: l1_path(np.ones((2, 1)), [0, 1], [7, 7], ranker=MeanRanker()),
            "MeanRanker has no path; expected",
        ),
        (
            lambda: l1_path(np.ones((2, 1)), [0, 1], [7, 7], l1s=[0.0], ranker=FenchelRanker()),
            "'radius' parameter",
        ),
        (lambda: l1_path(np.ones((2, 1)), [0, 1], [7, 7], ranker=FenchelRanker()), "give the radii"),
    ],
)
def test_what_is_no_path_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


# -- penalties and units by default ---------------------------------------------------------------------------------


@pytest.mark.slow
@every_ranker
def test_units_of_features_do_not_matter(make):
    X, y, qid = made_rows()
    units = 10.0 ** np.random.default_rng(0).uniform(-3, 4, X.shape[1])
    plain, scaled = (make().fit(rows, y, qid=qid) for rows in (X, X * units))
    np.testing.assert_allclose(scaled.coef_ * units, plain.coef_, rtol=0.02, atol=0.02)
    from_sparse = make().fit(sparse.csr_array(X * units), y, qid=qid)
    np.testing.assert_allclose(from_sparse.predict(X * units), plain.predict(X), rtol=0.02, atol=0.02)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), is_sparse=st.booleans())
def test_a_scale_is_the_mean_reach_within_queries(seed, is_sparse):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.4)
    y, qid = rng.integers(0, 3, 40), rng.integers(0, 6, 40)
    expected = []
    for column in X.T:
        parts = [column[qid == q] for q in range(6) if len(set(y[qid == q])) > 1]
        reach = [part.max() - part.min() for part in parts if part.max() > part.min()]
        expected.append(np.mean(reach) if reach else 1.0)
    found = mean_ranges(sparse.csr_array(X) if is_sparse else X, Queries.from_labels(y, qid))
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("make", [FTRLRanker, ProximalRanker, FenchelRanker])
def test_the_default_penalty_is_a_share_of_the_weakest_that_leaves_nothing(make, tmp_path):
    X, y, qid = made_rows()
    ranker = make(l1_share=0.2).fit(X, y, qid=qid)
    if make is FenchelRanker:
        assert ranker.radius_ == pytest.approx(
            np.abs(ProximalRanker(l1_share=0.2, scale_features=False).fit(X / ranker._scale, y, qid=qid).coef_).sum()
        )
        same = make(radius=ranker.radius_)
    else:
        first = l1_path(X, y, qid, ranker=make(), n_l1s=1).l1s[0]
        assert ranker.l1_ == pytest.approx(0.2 * first, rel=1e-3)
        same = make(l1=ranker.l1_)
        assert not make(l1_share=1.0).fit(X, y, qid=qid).coef_.any()
    np.testing.assert_array_equal(same.fit(X, y, qid=qid).coef_, ranker.coef_)
    # Ten times the queries, the same ones: the same order of things.
    ids = np.arange(10 * len(y)) // len(y) * 99 + np.tile(qid, 10)
    many = make(l1_share=0.2).fit(np.tile(X, (10, 1)), np.tile(y, 10), qid=ids)
    assert share_in_order(many.predict(X), y, qid) > 0.85
    ranker.save(tmp_path / "m")
    again = tc.load(tmp_path / "m")
    assert getattr(again, f"{make._penalty_name}_") == getattr(ranker, f"{make._penalty_name}_")
    with pytest.raises(ParameterError, match="'l1_share' parameter"):
        make(l1_share=0.0).fit(X, y, qid=qid)


def test_ftrl_goes_on_at_the_scale_and_the_penalty_of_its_first_rows(tmp_path):
    X, y, qid = made_rows()
    units = np.array([1e4, 1e-3, 1, 10, 1e-2, 3, 5, 1e3])
    ranker = FTRLRanker().partial_fit(X * units, y, qid=qid)
    np.testing.assert_array_equal(ranker.coef_, FTRLRanker().fit(X * units, y, qid=qid).coef_)
    l1 = ranker.l1_
    ranker.save(tmp_path / "m")
    again = tc.load(tmp_path / "m").partial_fit(X * units, y, qid=qid)
    ranker.partial_fit(X * units, y, qid=qid)
    np.testing.assert_array_equal(again.coef_, ranker.coef_)
    assert ranker.l1_ == again.l1_ == pytest.approx(2 * l1)
