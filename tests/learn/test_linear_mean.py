"""The mean of the best by cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import oracles
import tercet as tc
from tercet.choose import settings_of
from tercet.data import query_folds
from tercet.errors import BundleError
from tercet.learn.linear import FenchelRanker, FTRLRanker, ProximalRanker
from tercet.learn.linear.queries import Queries


def made_rows(seed: int = 0, n_queries: int = 12, n: int = 10, d: int = 8):
    """Only features 1 and 4 matter."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_queries * n, d))
    y = np.digitize(X[:, 1] - X[:, 4] + 0.2 * rng.normal(size=len(X)), [-0.3, 0.3])
    return X, y, np.repeat(np.arange(100, 100 + n_queries), n)  # the same order as numbers and as strings


def by_ftrl(setting):
    def learn(X, y, qid, share):
        return FTRLRanker(**setting | {"l1": setting["l1"] * share}, scale_features=False).fit(X, y, qid=qid).coef_

    return learn


GRID = {"rate": [0.5, 0.05], "l1": [40.0, 4.0], "epochs": [1, 3]}


@pytest.mark.parametrize("largest", [None, 3])
def test_the_mean_is_that_of_the_oracle(largest):
    X, y, qid = made_rows()
    settings = settings_of(GRID)
    folds = [qid[left][::10] for _, left in query_folds(qid, 3, 5)]
    mean, best = oracles.mean_of_best(X, y, qid, [by_ftrl(setting) for setting in settings], folds, 4, largest)
    ranker = tc.MeanRanker(grid=GRID, n_best=4, folds=3, largest=largest, random_state=5, scale_features=False)
    ranker.fit(X, y, qid=qid)
    assert ranker.settings_ == [settings[position] for position in best]
    np.testing.assert_allclose(ranker.coef_, mean, rtol=1e-9, atol=1e-12)
    assert np.all(np.diff(ranker.held_out_) <= 0)


@pytest.mark.slow
def test_another_deal_of_the_queries_is_another_seed():
    X, y, qid = made_rows(3)
    one, same, other = (tc.MeanRanker(n_best=3, random_state=seed).fit(X, y, qid=qid).coef_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_settings_that_diverge_are_left_out():
    X, y, qid = made_rows()
    grid = {"rate": [1e200, 0.5], "l1": [4.0], "epochs": [1, 5]}
    with np.errstate(all="ignore"):
        ranker = tc.MeanRanker(ranker=FTRLRanker(per_feature=False), grid=grid, folds=2).fit(1e150 * X, y, qid=qid)
    assert np.isfinite(ranker.coef_).all()
    assert 0 < len(ranker.settings_) < 4


@pytest.mark.parametrize(
    ("inner", "grid"),
    [(ProximalRanker(), None), (FenchelRanker(), {"radius": [2.0, 4.0]}), (FTRLRanker(), {"rate": [1.0]})],
)
def test_other_rankers_can_be_averaged(inner, grid):
    X, y, qid = made_rows(n_queries=6)
    ranker = tc.MeanRanker(ranker=inner, grid=grid, n_best=2, folds=2).fit(X, y, qid=qid)
    assert (ranker.coef_.argmax(), ranker.coef_.argmin()) == (1, 4)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"grid": {"l9": [1]}}, "FTRLRanker has no parameter 'l9'"),
        ({"grid": {"l1": []}}, "l1 needs a list"),
        ({"grid": {"l1": 3}}, "l1 needs a list"),
        ({"ranker": tc.MeanRanker()}, "MeanRanker has no penalty to choose"),
        ({"measure": "Luck"}, "Luck"),
        ({"folds": 1}, "folds"),
    ],
)
def test_a_wrong_grid_is_refused(how, message):
    X, y, qid = made_rows()
    with pytest.raises(ValueError, match=message):
        tc.MeanRanker(**how).fit(X, y, qid=qid)


def test_the_inner_ranker_is_saved(tmp_path):
    X, y, qid = made_rows(n_queries=6)
    ranker = tc.MeanRanker(ranker=FTRLRanker(loss="listnet"), grid={"l1": np.array([4.0, 1.0])})
    ranker.fit(sparse.csr_array(X), y, qid=qid)
    ranker.save(tmp_path / "ranker")
    loaded = tc.load(tmp_path / "ranker")
    assert loaded.ranker.get_params() == ranker.ranker.get_params()
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))
    np.testing.assert_array_equal(loaded.fit(X, y, qid=qid).coef_, ranker.fit(X, y, qid=qid).coef_)
    meta, arrays = ranker.to_state()
    from tercet.store import write_bundle

    write_bundle(
        tmp_path / "bad",
        kind="ranker",
        meta=meta | {"params": meta["params"] | {"ranker": {"class": "X"}}},
        arrays=arrays,
    )
    with pytest.raises(BundleError, match="its ranker is not a linear ranker"):
        tc.load(tmp_path / "bad")


def test_some_queries_are_those_of_their_rows_alone():
    _, y, qid = made_rows(n_queries=5)
    y[qid == 102] = 1  # no pairs
    queries = Queries.from_labels(y, qid)
    part, alone = queries.subset(np.array([3, 1])), Queries.from_labels(y[10:20], None)
    assert (len(part), part.rows[:3].tolist()) == (2, [40, 41, 42])
    np.testing.assert_array_equal(part.labels[10:], alone.labels)
    np.testing.assert_array_equal(part.n_pairs[1:], alone.n_pairs)
