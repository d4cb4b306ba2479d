"""Learning from feature vectors: folds, the recipe, the choice and the report."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import tercet as tc
from support.letor_data import RELEVANT, made_up
from tercet.data import LetorData, query_folds
from tercet.errors import InputError, ParameterError
from tercet.fitting import letor
from tercet.fitting.feature_model import FeatureModel, fit_width
from tercet.fitting.letor import MEASURE, best_feature, fit_letor, mixed_rows
from tercet.learn.linear import (
    FenchelRanker,
    FTRLRanker,
    MeanRanker,
    ProximalRanker,
    l1_path,
)
from tercet.learn.rls import RankRLS, RLSRegressor, choose_rls
from tercet.measure import compare_orders, measure_rows, paired_test, parse_measure

NAMES = tuple(f"name {j}" for j in range(1, 11))


@pytest.fixture(scope="module")
def train() -> LetorData:
    return made_up(0)


@pytest.fixture(scope="module")
def vali() -> LetorData:
    return made_up(1, 20, first_query=100)


@pytest.fixture(scope="module")
def held() -> LetorData:
    return made_up(2, 25, first_query=200)


@pytest.fixture(scope="module")
def model(train, vali, held) -> FeatureModel:
    return fit_letor(train, validation=vali, test=held, feature_names=NAMES)


# -- folds by query ---------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    qid=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    n_folds=st.integers(2, 5),
    seed=st.integers(0, 9),
    as_text=st.booleans(),
)
def test_folds_cover_every_row_once_split_no_query_and_are_balanced(qid, n_folds, seed, as_text):
    ids = np.array(qid).astype(str) if as_text else np.array(qid)
    n_queries = len(set(qid))
    if n_folds > n_queries:
        with pytest.raises(InputError, match=f"from 2 to the {n_queries} queries"):
            query_folds(ids, n_folds, seed)
        return
    folds = query_folds(ids, n_folds, seed)
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(len(qid)))
    sizes = []
    for learned, left in folds:
        assert not set(ids[learned].tolist()) & set(ids[left].tolist())
        assert len(learned) + len(left) == len(qid)
        assert (np.diff(left) > 0).all()
        sizes.append(len(set(ids[left].tolist())))
    assert max(sizes) - min(sizes) <= 1
    again = query_folds(ids, n_folds, seed)
    assert all((a[1] == b[1]).all() for a, b in zip(folds, again, strict=True))


def test_another_seed_deals_otherwise(train):
    assert (query_folds(train.qid, 5, 0)[0][1].tolist()) != (query_folds(train.qid, 5, 1)[0][1].tolist())


@pytest.mark.parametrize("wrong", [1, 0, 2.5, True, None])
def test_a_number_of_folds_that_is_none_is_refused(train, wrong):
    with pytest.raises(InputError, match="n_folds must be an"):
        query_folds(train.qid, wrong)
    with pytest.raises(InputError, match="qid must hold strings or integers"):
        query_folds(np.array([0.5, 1.5]))


def test_scikit_learn_takes_the_folds(train):
    def top_grade(ranker, X, y):
        return float(y[ranker.predict(X).argmax()])

    found = cross_val_score(
        FTRLRanker(rate=1.0),
        train.X,
        train.y,
        params={"qid": train.qid},
        cv=query_folds(train.qid, 3),
        scoring=top_grade,
        error_score="raise",
    )
    assert found.shape == (3,)
    assert found.mean() > train.y.mean()


# -- learning and choosing --------------------------------------------------------------------------------------------


def test_the_known_answer_is_found(model, held):
    strongest = model.features()[:2]
    assert {row.feature - 1: np.sign(row.weight) for row in strongest} == {
        column: np.sign(weight) for column, weight in RELEVANT.items()
    }
    assert strongest[0].name == NAMES[strongest[0].feature - 1]
    assert [abs(row.weight) for row in model.features()] == sorted(
        (abs(row.weight) for row in model.features()), reverse=True
    )
    report = model.report
    assert report.features.n_used == len(model.features()) == np.count_nonzero(model.ranker.coef_)
    assert report.features.sparsity_ratio == report.features.n_used / 10
    baseline, learned = report.systems
    assert baseline.name == "best feature: 2 name 2"
    assert learned.values[MEASURE][0] > baseline.values[MEASURE][0] + 0.05


def test_the_table_is_what_measuring_gives(model, held):
    baseline, learned = model.report.systems
    evaluation = model.evaluate(held)
    single = measure_rows(held.y, held.X[:, 1], held.qid, evaluation.measures)
    for position, measure in enumerate(evaluation.measures):
        assert learned.values[str(measure)] == (evaluation.mean(measure), *evaluation.interval(measure))
        assert baseline.values[str(measure)] == (single.mean(measure), *single.interval(measure))
        test = paired_test(evaluation, single, measure=measure)
        assert list(model.report.changes.values())[position] == (test.difference, test.low, test.high, test.p_value)
    assert "25 test queries, which nothing was chosen on" in str(model.report)


def test_validation_chooses_the_best_of_the_path(model, train, vali):
    path = l1_path(train.X, train.y, train.qid)
    means = [measure_rows(vali.y, s, vali.qid, MEASURE).mean(MEASURE) for s in (vali.X @ path.coefs.T).T]
    assert [point.l1 for point in model.report.features.path] == path.l1s.tolist()
    assert [point.n_used for point in model.report.features.path] == path.n_used.tolist()
    # Only where all weights are zero do the rows' places matter, and there the two may differ.
    assert [p.value for p in model.report.features.path if p.n_used] == pytest.approx(
        [m for m, n in zip(means, path.n_used, strict=True) if n]
    )
    chosen = model.report.features.path[model.report.features.chosen]
    assert chosen.value == max(means[1:])
    assert (model.ranker.coef_ == path.coefs[model.report.features.chosen]).all()
    assert model.report.features.path[model.report.features.chosen].error == 0


@pytest.mark.parametrize(
    ("ranker", "l1s"),
    [(None, None), (FTRLRanker(loss="listnet", epochs=2), None), (ProximalRanker(), [0.1, 0.02])],
    ids=str,
)
def test_the_ranker_of_a_fit_fits_again_to_the_model_that_was_reported(ranker, l1s, train, vali, held):
    model = fit_letor(train, validation=vali, test=held, ranker=ranker, l1s=l1s)
    details = model.report.features
    assert model.ranker.l1 == details.path[details.chosen].l1
    again = clone(model.ranker).fit(train.X, train.y, qid=train.qid)
    np.testing.assert_array_equal(again.coef_, model.ranker.coef_)
    # The penalty as it is printed, typed in, gives the figures that were reported.
    printed = float(re.search(r"with the penalty ([^,]+),", str(model.report))[1])
    typed = fit_letor(train, test=held, ranker=ranker, l1s=[printed])
    np.testing.assert_array_equal(typed.ranker.coef_, model.ranker.coef_)
    assert typed.report.systems[1] == model.report.systems[1]


def test_the_sparsest_is_within_one_standard_error_of_the_best(train, vali, model):
    sparsest = fit_letor(train, validation=vali, choose="sparsest").report.features
    best = model.report.features.path[model.report.features.chosen]
    point = sparsest.path[sparsest.chosen]
    assert point.value >= best.value - point.error
    assert point.n_used <= best.n_used
    sparser = [each for each in sparsest.path if each.n_used < point.n_used]
    assert sparser, "the rule had nothing to reject"
    assert all(each.value < best.value - each.error for each in sparser)
    assert "the sparsest within one standard error" in sparsest.decision("AP")


def test_cross_validation_by_query_then_all_rows(train):
    model = fit_letor(train, folds=3, random_state=4)
    whole = l1_path(train.X, train.y, train.qid)
    scores = np.empty((len(train), len(whole.l1s)))
    for learned, left in query_folds(train.qid, 3, 4):
        share = len(set(train.qid[learned])) / train.n_queries
        own = l1_path(train.X[learned], train.y[learned], train.qid[learned], l1s=whole.l1s * share)
        scores[left] = train.X[left] @ own.coefs.T
    best = max(
        (measure_rows(train.y, scores[:, i], train.qid, MEASURE).mean(MEASURE), -int(whole.n_used[i]), -i)
        for i in range(1, len(whole.l1s))
    )
    assert model.report.features.chosen == -best[2]
    assert (model.ranker.coef_ == whole.coefs[model.report.features.chosen]).all()
    assert model.report.systems[1].values[MEASURE][0] == pytest.approx(best[0])
    text = str(model.report)
    assert "Cross-validation by query in 3 folds chose" in text
    assert "30 queries, each held out in one of 3 folds" in text
    assert "which flatters it" in text


def test_without_test_rows_the_report_is_on_validation_and_says_so(train, vali):
    text = str(fit_letor(train, validation=vali).report)
    assert "Means over 20 validation queries, with" in text
    assert "which flatters it" in text


def test_rows_sorted_by_grade_do_not_make_a_ranker_without_features_the_best(train, vali):
    order = np.lexsort((-vali.y, np.repeat(np.arange(20), 12)))
    sorted_rows = LetorData(vali.X[order], vali.y[order], vali.qid[order])
    model = fit_letor(train, validation=sorted_rows)
    assert model.report.features.n_used >= 2
    assert model.report.features.path[0].n_used == 0
    assert model.report.features.path[0].value < model.report.features.path[model.report.features.chosen].value
    assert any("sorted by grade" in note for note in model.report.notes)


def test_the_same_call_gives_the_same_bits_and_sparse_rows_the_same_model(train, vali):
    one, two = (fit_letor(train, validation=vali).ranker.coef_ for _ in range(2))
    assert (one == two).all()
    as_sparse = [LetorData(sparse.csr_array(part.X), part.y, part.qid) for part in (train, vali)]
    model = fit_letor(as_sparse[0], validation=as_sparse[1])
    np.testing.assert_allclose(model.ranker.coef_, one, rtol=1e-6, atol=1e-9)
    assert model.report.systems[0].name == "best feature: 2"


@pytest.mark.parametrize(
    ("ranker", "l1s", "name"),
    [
        (FTRLRanker(loss="listnet"), None, "FTRLRanker, listnet"),
        (ProximalRanker(), None, "ProximalRanker"),
        (ProximalRanker(), [0.3, 0.003, 0.03], "ProximalRanker"),
        (FenchelRanker(), None, "FenchelRanker"),
    ],
    ids=str,
)
def test_other_rankers(ranker, l1s, name, train, vali, held, tmp_path):
    model = fit_letor(train, validation=vali, test=held, ranker=ranker, l1s=l1s)
    assert model.report.features.ranker == name
    has_path = isinstance(ranker, FTRLRanker) or l1s is not None
    assert bool(model.report.features.path) == has_path
    if l1s is not None:
        assert [point.l1 for point in model.report.features.path] == sorted(l1s, reverse=True)
    assert ("Nothing was chosen" in str(model.report)) != has_path
    model.save(tmp_path / "m")
    assert (tc.load(tmp_path / "m").predict(held.X) == model.predict(held.X)).all()


def test_one_penalty_is_exactly_that_ranker_and_nothing_is_chosen(train, held):
    model = fit_letor(train, test=held, l1s=[2.0])
    assert (model.ranker.coef_ == FTRLRanker(l1=2.0).fit(train.X, train.y, qid=train.qid).coef_).all()
    assert model.report.features.path == ()
    assert "FTRLRanker, l1=2: " in str(model.report)
    fenchel = fit_letor(train, test=held, l1s=[2.0], ranker=FenchelRanker())
    assert "FenchelRanker, radius=2: " in str(fenchel.report)
    measured = fit_letor(train, l1s=[2.0])
    assert (measured.ranker.coef_ == model.ranker.coef_).all()
    assert "flatters" not in str(measured.report), "what was not chosen is not flattered"


L2S = [1e-2, 1.0, 1e2, 1e4]


@pytest.mark.parametrize(
    "ranker", [RankRLS(), RankRLS(kernel="gaussian", n_basis=60), RLSRegressor(kernel="gaussian")], ids=str
)
def test_training_queries_left_out_choose_the_penalty_of_a_kernel_ranker(ranker, train, vali, held, tmp_path):
    model = fit_letor(train, validation=vali, test=held, ranker=ranker, l2s=L2S)
    fitted = clone(ranker).fit(train.X, train.y, train.qid)
    left_out = fitted.leave_query_out(L2S)
    errors = [compare_orders(column, train.y, train.qid).disagreement.mean() for column in left_out.T]
    best = min(range(4), key=lambda i: (errors[i], -L2S[i]))
    assert model.ranker.l2 == L2S[best]
    np.testing.assert_array_equal(
        model.predict(held.X), clone(ranker).set_params(l2=L2S[best]).fit(train.X, train.y, train.qid).predict(held.X)
    )
    text = str(model.report)
    assert "Training queries, left out one after another, chose l2 from 4." in text
    kernel = "" if ranker.kernel == "linear" else ", gaussian"
    used = "10 of 10 features (sparsity ratio 1.0000)" if ranker.kernel == "linear" else "no weights of features"
    assert f"{type(ranker).__name__}{kernel}, l2={L2S[best]:g}: {used}." in text
    assert model.report.features.path == ()
    model.save(tmp_path / "m")
    again = tc.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(held.X), model.predict(held.X))
    assert again.report == model.report
    # What validation rows say changes nothing, as they do not choose.
    other = fit_letor(train, validation=held, test=held, ranker=ranker, l2s=L2S)
    np.testing.assert_array_equal(other.predict(held.X), model.predict(held.X))


def test_every_fold_chooses_the_penalty_of_a_kernel_ranker_for_itself(train):
    pattern = RankRLS(kernel="gaussian", n_basis=40)
    model = fit_letor(train, folds=3, ranker=pattern, l2s=L2S)
    assert model.features() == [], "a kernel has no weights of features"
    scores = np.empty(len(train))
    for learned, left in query_folds(train.qid, 3):
        rows = train.X[learned], train.y[learned], train.qid[learned]
        scores[left] = choose_rls(*rows, l2s=L2S, ranker=pattern).ranker.predict(train.X[left])
    expected = measure_rows(train.y, scores, train.qid, MEASURE).mean(MEASURE)
    assert model.report.systems[1].values[MEASURE][0] == pytest.approx(expected)
    assert model.ranker.l2 == choose_rls(train.X, train.y, train.qid, l2s=L2S, ranker=pattern).ranker.l2


def test_a_measure_of_another_form_and_one_where_less_is_better(train, vali):
    letor = fit_letor(train, validation=vali, measure="nDCG(dcg='letor')@3").report
    assert list(letor.systems[0].values) == [f"nDCG(dcg='letor')@{k}" for k in (1, 3, 5, 10)] + ["AP"]
    loss = fit_letor(train, validation=vali, measure="RankLoss").report
    path = loss.features.path
    assert path[loss.features.chosen].value == min(point.value for point in path)
    assert list(loss.systems[0].values)[-1] == "RankLoss"


# -- data that is thin or odd -----------------------------------------------------------------------------------------


def rows_of(y, qid, n_features=3) -> LetorData:
    return LetorData(np.random.default_rng(0).random((len(y), n_features)), y, qid)


@pytest.mark.parametrize(
    "data",
    [rows_of([1, 0, 2], ["a", "b", "c"]), rows_of([1, 1, 0, 0], ["a", "a", "b", "b"])],
    ids=["one document a query", "one grade a query"],
)
def test_training_data_without_pairs_is_refused(data, vali):
    with pytest.raises(InputError, match=r"the training data: none of its \d queries has two documents of different"):
        fit_letor(data)


def test_a_fold_without_pairs_is_named():
    data = rows_of([1, 0, 1, 1, 0, 0], ["a", "a", "b", "b", "c", "c"])
    with pytest.raises(InputError, match=r"fold \d of 3, training part: none of its 2 queries"):
        fit_letor(data)
    assert fit_letor(data, validation=rows_of([1, 0], ["x", "x"])).n_features == 3


def test_held_out_queries_of_one_document_or_grade_are_measured(train):
    vali = rows_of([0, 2, 1], ["x", "y", "z"], 10)
    report = fit_letor(train, validation=vali).report
    assert report.systems[1].values["AP"][0] == pytest.approx(2 / 3)
    assert any("1 of 3 validation queries have no relevant document and count 0" in note for note in report.notes)


def test_features_that_are_all_zero():
    data = LetorData(np.zeros((8, 4)), [1, 0] * 4, np.repeat(list("abcd"), 2))
    model = fit_letor(data)
    assert model.features() == []
    assert model.predict(np.ones((2, 4))).tolist() == [0, 0]
    assert any("no feature has a weight" in note for note in model.report.notes)
    assert model.report.systems[0].values == {**model.report.systems[1].values}


def test_one_query_cannot_be_cross_validated_but_can_be_learned_from(vali):
    one = rows_of([1, 0, 2], ["a"] * 3, 10)
    with pytest.raises(InputError, match="one query cannot be cross-validated"):
        fit_letor(one)
    assert fit_letor(one, validation=vali).report.n_train == 1
    with pytest.raises(InputError, match="two or more queries"):
        fit_letor(vali, validation=one, choose="sparsest")
    report = fit_letor(vali, validation=one).report
    assert report.changes == {}
    assert report.features.path[0].error is None
    assert "nan" not in str(report)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("width", [7, 13])
def test_rows_of_another_width_are_cut_or_filled(train, width, is_sparse):
    other = made_up(3, 10, n_features=width, first_query=300, is_sparse=is_sparse)
    model = fit_letor(train, validation=other, test=other)
    dense = other.X.toarray() if is_sparse else other.X
    by_hand = np.zeros((len(other), 10))
    by_hand[:, : min(width, 10)] = dense[:, :10]
    expected = measure_rows(other.y, by_hand @ model.ranker.coef_, other.qid, MEASURE).mean(MEASURE)
    assert model.report.systems[1].values[MEASURE][0] == pytest.approx(expected)
    assert model.evaluate(other).mean(MEASURE) == pytest.approx(expected)
    what = "the others are left out" if width > 10 else "the missing ones are taken as 0"
    assert f"the test data has features up to {width}, training up to 10: {what}." in model.report.notes
    with pytest.raises(InputError, match=f"{width} features"):
        model.predict(other.X)
    assert fit_width(train, 10, "x") == (train, None)


def test_queries_in_two_parts_are_noted(train, vali):
    notes = fit_letor(train, validation=vali, test=made_up(9, 40, first_query=110)).report.notes
    assert any("10 query ids are in both the validation and the test data" in note for note in notes)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"choose": "worst"}, InputError, "choose must be 'best' or 'sparsest'"),
        ({"l1s": []}, InputError, "l1s must be one or more finite numbers"),
        ({"l1s": [-1.0]}, InputError, "none below 0"),
        ({"l1s": [1.0], "ranker": MeanRanker()}, InputError, "MeanRanker has no path; expected an FTRLRanker"),
        ({"l1s": "many"}, InputError, "l1s must be one or more finite numbers"),
        ({"l1s": [[1.0], [1.0, 2.0]]}, InputError, "l1s must be one or more finite numbers"),
        ({"l2s": [1.0]}, ParameterError, "ranker must be a RankRLS or an RLSRegressor; got FTRLRanker"),
        ({"l1s": [1.0], "l2s": [1.0]}, InputError, "l1s for a sparse ranker or l2s for a kernel ranker, not both"),
        ({"l2s": [1.0, 0.0], "ranker": RankRLS()}, InputError, "l2s must be one or more finite numbers above 0"),
        ({"l1s": [1.0], "ranker": RankRLS()}, InputError, "RankRLS has no path"),
        ({"ranker": "ftrl"}, ParameterError, "ranker must be a ranker of feature vectors, as FTRLRanker.*; got 'ftrl'"),
        ({"ranker": FTRLRanker}, ParameterError, "ranker must be a ranker of feature vectors"),
        ({"ranker": tc.SparseRanker()}, ParameterError, "ranker must be a ranker of feature vectors"),
        ({"measure": "nDCG@x"}, InputError, "nDCG@x"),
        ({"random_state": -1}, InputError, "random_state"),
        ({"folds": 1}, InputError, "n_folds must be"),
        ({"folds": 3, "validation": made_up(1)}, InputError, "not both"),
        ({"feature_names": ["a"]}, InputError, "1 feature names and 10 features"),
        ({"feature_names": ["a"] * 10}, InputError, "'a' is there twice"),
        ({"feature_names": ["a", " "] * 5}, InputError, "none of them blank"),
        ({"validation": np.zeros((3, 3))}, InputError, "the validation data must be LetorData"),
        ({"test": LetorData(np.zeros((0, 3)), [], [])}, InputError, "the test data have no rows"),
    ],
    ids=str,
)
def test_wrong_arguments(more, error, message, train):
    with pytest.raises(error, match=message):
        fit_letor(train, **more)


# -- the best single feature ------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), n_features=st.integers(1, 4), is_sparse=st.booleans())
def test_the_best_single_feature_is_found_upwards_and_downwards(seed, n_features, is_sparse):
    data = made_up(seed, 4, 6, n_features, is_sparse=is_sparse)
    found = best_feature(data, parse_measure(MEASURE))
    dense = data.X.toarray() if is_sparse else data.X
    mixed = np.random.default_rng(1).permutation(len(data))
    assert (found.predict(data.X) == found.sign * dense[:, found.column]).all()
    rows = mixed_rows(np.repeat(np.arange(4), 6), 0)
    values = {
        (column, sign): measure_rows(data.y[rows], sign * dense[rows, column], data.qid[rows], MEASURE).mean(MEASURE)
        for column in range(n_features)
        for sign in (1, -1)
        if dense[:, column].any()
    }
    assert values[found.column, found.sign] == max(values.values())
    assert sorted(mixed_rows(data.qid[mixed], 3).tolist()) == list(range(len(data)))


def test_of_a_large_set_some_queries_are_looked_at(train, monkeypatch):
    monkeypatch.setattr(letor, "MOST_CELLS", 10 * 12 * 8)
    seen = []
    monkeypatch.setattr(
        letor,
        "measure_rows",
        lambda y, s, qid, m: seen.append(len(set(qid))) or measure_rows(y, s, qid, m),
    )
    assert best_feature(train, parse_measure(MEASURE)).column in RELEVANT
    assert set(seen) == {8}


@pytest.mark.parametrize("is_sparse", [False, True])
def test_of_a_wide_set_the_features_that_most_rows_have_are_looked_at(monkeypatch, is_sparse):
    data = made_up(0, 10, 12, 40)
    X = data.X.copy()
    X[:, 5:] = 0
    X[:, 20] = data.y  # ranks perfectly, and relevant rows alone have a value
    wide = LetorData(sparse.csr_array(X) if is_sparse else X, data.y, data.qid)
    assert best_feature(wide, parse_measure(MEASURE)).column == 20
    monkeypatch.setattr(letor, "MOST_FEATURES", 5)
    assert best_feature(wide, parse_measure(MEASURE)).column < 5
