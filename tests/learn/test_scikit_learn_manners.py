"""Rankers of feature vectors among scikit-learn's tools: scoring, cross-validation, searches, pipelines, frames."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tercet as tc
from support.letor_data import made_up
from tercet.errors import InputError
from tercet.learn.linear import LINEAR_RANKERS

RANKERS = {**LINEAR_RANKERS, "RankRLS": tc.RankRLS}
# Before, a pipeline's own ``score`` gets no qid from ``cross_val_score``.
PIPELINES_PASS_ON = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
every_ranker = pytest.mark.parametrize("make", RANKERS.values(), ids=RANKERS.keys())


@pytest.fixture(scope="module")
def rows():
    data = made_up(0)
    return data.X, data.y, data.qid


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@every_ranker
def test_score_is_ndcg_at_10_over_queries(make, rows):
    X, y, qid = rows
    ranker = make().fit(X, y, qid=qid)
    expected = tc.measure_rows(y, ranker.predict(X), qid, "nDCG@10").mean("nDCG@10")
    assert ranker.score(X, y, qid=qid) == expected > 0.5
    assert tc.scorer("nDCG@10")(ranker, X, y, qid=qid) == expected
    wrong = tc.measure_rows(y, ranker.predict(X), qid, "RankLoss").mean("RankLoss")
    assert tc.scorer("RankLoss")(ranker, X, y, qid=qid) == -wrong, "for scikit-learn more is better"


@pytest.mark.slow
@every_ranker
def test_cross_validation_routes_qid_by_default(make, rows, routing):
    X, y, qid = rows
    folds = list(tc.query_folds(qid, 3))
    values = cross_val_score(make(), X, y, cv=tc.query_folds(qid, 3), params={"qid": qid}, error_score="raise")
    expected = [
        make().fit(X[train], y[train], qid=qid[train]).score(X[test], y[test], qid=qid[test]) for train, test in folds
    ]
    assert values.tolist() == expected


def test_a_search_by_a_named_measure(rows, routing):
    X, y, qid = rows
    grid = {"l1": [0.1, 1e9]}
    search = GridSearchCV(
        tc.FTRLRanker(), grid, cv=tc.query_folds(qid, 3), scoring=tc.scorer("AP"), error_score="raise"
    )
    search.fit(X, y, qid=qid)
    assert search.best_params_ == {"l1": 0.1}
    assert search.score(X, y, qid=qid) == tc.scorer("AP")(search.best_estimator_, X, y, qid=qid)
    several = {"AP": tc.scorer("AP"), "top": tc.scorer("nDCG(dcg='exp-log2')@3")}
    result = cross_validate(
        tc.FTRLRanker(), X, y, cv=tc.query_folds(qid, 3), scoring=several, params={"qid": qid}, error_score="raise"
    )
    assert result["test_AP"].shape == result["test_top"].shape == (3,)


def test_a_pipeline_with_routing_and_without(rows, routing):
    X, y, qid = rows
    pipeline = make_pipeline(StandardScaler(), tc.FTRLRanker())
    fitted = clone(pipeline).fit(X, y, qid=qid)
    options = {"cv": tc.query_folds(qid, 3), "params": {"qid": qid}, "error_score": "raise"}
    values = cross_val_score(pipeline, X, y, scoring=tc.scorer(), **options)
    assert values.shape == (3,)
    if PIPELINES_PASS_ON:
        assert cross_val_score(pipeline, X, y, **options).tolist() == values.tolist()
    else:
        with pytest.raises(InputError, match=r"before scikit-learn 1\.8 with scoring=tc\.scorer\(\)"):
            cross_val_score(pipeline, X, y, **options)
    by_hand = tc.measure_rows(y, fitted.predict(X), qid, "nDCG@10").mean("nDCG@10")
    assert fitted.score(X, y, qid=qid) == tc.scorer()(fitted, X, y, qid=qid) == by_hand
    with sklearn.config_context(enable_metadata_routing=False):
        again = clone(pipeline).fit(X, y, ftrlranker__qid=qid)
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        assert tc.scorer()(again, X, y, qid=qid) == by_hand


@pytest.mark.parametrize("frame_of", [pandas.DataFrame, polars.DataFrame], ids=["pandas", "polars"])
def test_a_pipeline_that_scales_the_column_of_queries_is_refused(frame_of, rows):
    X, y, qid = rows
    numbers = np.unique(qid, return_inverse=True)[1]
    frame = frame_of({"qid": numbers, **{f"f{j}": X[:, j] for j in range(X.shape[1])}})
    with pytest.raises(InputError, match=r"compares the rows of a query.* ftrlranker__qid="):
        make_pipeline(StandardScaler(), tc.FTRLRanker()).fit(frame, y)
    kind = "pandas" if frame_of is pandas.DataFrame else "polars"
    with pytest.raises(InputError, match=r"row 0 of the column qid is -1\.\d+, which is no query id"):
        make_pipeline(StandardScaler().set_output(transform=kind), tc.FTRLRanker()).fit(frame, y)


def test_rows_are_not_measured_as_one_list(rows):
    X, y, qid = rows
    ranker = tc.FTRLRanker().fit(X, y, qid=qid)
    for learned in (ranker, make_pipeline(StandardScaler(), tc.FTRLRanker()).fit(X, y, ftrlranker__qid=qid)):
        with pytest.raises(InputError, match=r"give qid=.*set_config\(enable_metadata_routing=True\)"):
            tc.scorer()(learned, X, y)
    one = qid == qid[0]
    alone = tc.FTRLRanker().fit(X[one], y[one], group=[one.sum()])
    assert alone.score(X[one], y[one], group=[one.sum()]) == alone.score(X[one], y[one], qid=qid[one])
    with pytest.warns(UserWarning, match="enable_metadata_routing"):
        cross_val_score(tc.FTRLRanker(), X, y, cv=tc.query_folds(qid, 3), params={"qid": qid})


@pytest.mark.slow
@pytest.mark.parametrize("frame_of", [pandas.DataFrame, polars.DataFrame], ids=["pandas", "polars"])
@every_ranker
def test_a_frame_with_a_column_of_queries_needs_no_routing(make, frame_of, rows):
    X, y, qid = rows
    names = [f"f{j}" for j in range(X.shape[1])]
    frame = frame_of({"qid": qid, **{name: X[:, j] for j, name in enumerate(names)}})
    ranker = make().fit(frame, y)
    assert ranker.feature_names_in_.tolist() == names
    np.testing.assert_allclose(ranker.predict(frame), make().fit(X, y, qid=qid).predict(X), rtol=0.01, atol=1e-3)
    np.testing.assert_array_equal(ranker.predict(frame[names]), ranker.predict(frame))
    assert ranker.score(frame, y) == ranker.score(frame, y, qid=qid)
    values = cross_val_score(make(), frame, y, cv=tc.query_folds(qid, 3), error_score="raise")
    assert values.shape == (3,)


@pytest.mark.parametrize("make", [tc.RankRLS, tc.learn.rls.RLSRegressor])
def test_a_grid_takes_the_queries_of_a_frame(make, rows):
    X, y, qid = rows
    frame = pandas.DataFrame({"qid": qid, **{f"f{j}": X[:, j] for j in range(X.shape[1])}})
    found, expected = (
        tc.learn.rls.choose_rls(*given, l2s=[0.1, 10.0], ranker=make()) for given in ((frame, y), (X, y, qid))
    )
    np.testing.assert_allclose(found.errors, expected.errors, atol=1e-9)
    assert found.ranker.l2 == expected.ranker.l2


@pytest.mark.slow
@every_ranker
def test_sizes_of_groups_stand_for_ids(make, rows):
    X, y, qid = rows
    sizes = np.unique(qid, return_counts=True)[1]
    by_id, by_size = make().fit(X, y, qid=qid), make().fit(X, y, group=sizes)
    np.testing.assert_array_equal(by_id.predict(X), by_size.predict(X))
    assert by_id.score(X, y, qid=qid) == by_size.score(X, y, group=sizes.tolist())


def test_a_stream_of_chunks_takes_sizes_of_groups_too(rows):
    X, y, qid = rows
    sizes = np.unique(qid, return_counts=True)[1]
    by_id, by_size = (tc.FTRLRanker(l1=1.0).partial_fit(X, y, **how) for how in ({"qid": qid}, {"group": sizes}))
    np.testing.assert_array_equal(by_id.coef_, by_size.coef_)


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"group": [1, 2]}, r"sum up to 3, but there are 360 rows"),
        ({"group": [-1, 361]}, "whole numbers"),
        ({"group": [180.0, 180.0]}, "whole numbers"),
        ({"group": [360], "qid": ["a"] * 360}, "not both"),
    ],
)
def test_sizes_that_do_not_fit(how, complaint, rows):
    X, y, _ = rows
    assert len(y) == 360
    with pytest.raises(InputError, match=complaint):
        tc.FTRLRanker().fit(X, y, **how)


def test_a_regressor_is_scored_as_one(rows, routing):
    X, y, qid = rows
    values = cross_val_score(tc.RLSRegressor(), X, y, cv=tc.query_folds(qid, 3), params={"qid": qid})
    assert values.max() < 1
    assert tc.RLSRegressor().fit(X, y, qid=qid).score(X, y) < 1
    by_query = cross_val_score(
        tc.RLSRegressor(), X, y, cv=tc.query_folds(qid, 3), params={"qid": qid}, scoring=tc.scorer()
    )
    assert by_query.min() > 0.5


def test_measure_rows_has_the_truth_first():
    assert tc.measure_rows([1, 0, 0], [0.9, 0.5, 0.1], ["a", "a", "a"], "AP").mean("AP") == 1.0
    with pytest.raises(InputError, match=r"y\[0\] is 0.9; grades are whole numbers"):
        tc.measure_rows([0.9, 0.5, 0.1], [1, 0, 0], ["a", "a", "a"], "AP")


# -- what a notebook shows ------------------------------------------------------------------------------------------


def test_threes_in_a_list_or_an_array_are_preferences():
    Q = np.eye(9)
    triplets = [(0, 8, 1), (2, 3, 4)]
    prefs = tc.Preferences(*np.transpose(triplets))
    for given in (triplets, np.array(triplets), tuple(triplets)):
        ranker = tc.LowRankRanker(n_components=2).fit(Q, given, Q)
        expected = tc.LowRankRanker(n_components=2).fit(Q, prefs, Q)
        np.testing.assert_array_equal(ranker.margins(Q, given, Q), expected.margins(Q, prefs, Q))


def test_what_is_shown_in_a_cell_is_short_and_escaped(rows):
    data = made_up(0)
    model = tc.fit_letor(data, test=made_up(1, 20, first_query=100), feature_names=["<b>", *map(str, range(1, 10))])
    evaluation = model.evaluate(data)
    runs = {"a": {"q": {"x": 1.0, "y": 0.5}, "r": {"x": 1.0}}, "b": {"q": {"y": 1.0, "x": 0.5}, "r": {"y": 1.0}}}
    comparison = tc.compare({"q": {"x": 1}, "r": {"x": 1}}, runs, ["AP"])
    path = tc.learn.linear.l1_path(*rows)
    for shown in (data, model, model.report, evaluation, comparison, path):
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 400, repr(shown)
    assert repr(data) == "LetorData(30 queries, 360 rows, 10 features, dense)"
    assert repr(model) == f"FeatureModel(FTRLRanker, {len(model.features())} of 10 features)"
    assert "<b>" not in model._repr_html_()
    assert "&lt;b&gt;" in model._repr_html_() or not any(row.name == "<b>" for row in model.features())
    for one in (model, model.report):
        assert one._repr_html_().count("<table") == one._repr_html_().count("</table>") > 0


def test_frames_out():
    data = made_up(0)
    model = tc.fit_letor(data, test=made_up(1, 20, first_query=100))
    frame = model.evaluate(data, ["AP", "nDCG@10"]).to_frame()
    assert frame.columns.tolist() == ["qid", "AP", "nDCG@10"]
    assert len(frame) == 30
    runs = {"a": {"q": {"x": 1.0}, "r": {"x": 1.0}}, "b": {"q": {"y": 1.0}, "r": {"x": 1.0}}}
    comparison = tc.compare({"q": {"x": 1}, "r": {"x": 1}}, runs, ["AP"])
    assert comparison.to_frame()["wins"].tolist() == [one.wins for one in comparison.contrasts]
