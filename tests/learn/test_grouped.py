"""GroupSparseRanker: Algorithm 1 with whole rows or columns shrinking together, exactly."""

from __future__ import annotations

from copy import deepcopy

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import DamagedBundleError, MemoryLimitError, ParameterError
from tercet.kernels import grouped as grouped_kernels
from tercet.learn import grouped as grouped_module
from tercet.learn.grouped import GroupedState
from tercet.learn.state import rates

N_TERMS = 70  # four cache lines of a group and a short one
both = pytest.mark.parametrize("by", ["rows", "columns"])


def made_data(seed: int, n: int = 80, n_doc_terms: int = N_TERMS):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS, density=0.1), random_texts(rng, 11, n_doc_terms, density=0.1)
    return Q, D, random_preferences(rng, n, 9, 11)


def make(by: str, **changes) -> tc.learn.GroupSparseRanker:
    usual = {"l1": 0.06, "shrink_every": 7, "rate": 1.3, "refit": False, "refit_start": "identity"}
    return tc.GroupSparseRanker(by=by, **usual | changes)


def etas(n: int, schedule: str = "inverse-sqrt") -> np.ndarray:
    return rates(schedule, 1.3, 0, n, n).astype(float)


def norms(W: np.ndarray, by: str) -> np.ndarray:
    return np.linalg.norm(W, axis=1 if by == "rows" else 0)


def compare(ranker: tc.learn.GroupSparseRanker, expected: np.ndarray, sure: float = 1e-4) -> None:
    """Equal numbers, and the same living groups wherever the oracle is not within float32 of a threshold."""
    found = ranker.weights_.sparse.toarray()
    np.testing.assert_allclose(found, expected, atol=2e-5)
    size = norms(expected, ranker.by)
    groups = ranker.groups_.tolist()
    assert (
        set(np.flatnonzero(size > sure))
        <= set(groups)
        <= set(np.flatnonzero((size > 0) | (norms(found, ranker.by) < sure)))
    )
    assert groups == np.flatnonzero(norms(found, ranker.by)).tolist()
    assert ranker.n_groups_ == len(groups)


# -- against the equations ------------------------------------------------------------------------------------------


@both
@given(
    seed=st.integers(0, 10**6),
    T=st.integers(1, 30),
    l1=st.sampled_from([0.0, 0.02, 0.06, 0.2]),
    schedule=st.sampled_from(["constant", "inverse-sqrt", "linear"]),
)
@settings(max_examples=40)
def test_owed_shrinkage_is_the_full_sweep(by, seed, T, l1, schedule):
    Q, D, prefs = made_data(seed)
    ranker = make(by, l1=l1, shrink_every=T, schedule=schedule).fit(Q, prefs, D)
    vectors = as_vectors(prefs, Q, D)
    compare(ranker, oracles.algorithm_1_by_groups(np.eye(N_TERMS), vectors, etas(80, schedule), l1, T, by))


@both
@given(seed=st.integers(0, 10**6), T=st.integers(1, 10))
@settings(max_examples=20)
def test_two_vocabularies_start_at_zero(by, seed, T):
    Q, D, prefs = made_data(seed, n_doc_terms=40)
    vectors = as_vectors(prefs, Q, D)
    plain = make(by, shrink_every=T).fit(Q, prefs, D)
    compare(plain, oracles.algorithm_1_by_groups(np.zeros((N_TERMS, 40)), vectors, etas(80), 0.06, T, by))
    refitted = plain.refit(Q, prefs, D)
    support = living(refitted.weights_before_refit_, by)
    expected = oracles.refit(support, vectors, etas(80), start=np.zeros((N_TERMS, 40)))
    np.testing.assert_allclose(refitted.weights_.sparse.toarray(), expected, atol=2e-5)


def test_groups_die_and_come_back():
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    # Query word 0 dies while it is not asked for, and wakes without its old weights.
    prefs = tc.Preferences([0, 1, 1, 1, 0], [1, 2, 2, 2, 2], [0, 0, 0, 0, 1])
    ranker = make("rows", l1=0.4, shrink_every=1, rate=1.0, schedule="constant")
    alive = []
    for t in range(5):
        ranker.partial_fit(X, prefs[t : t + 1])
        alive.append(0 in ranker.groups_)
        W = oracles.algorithm_1_by_groups(np.eye(3), as_vectors(prefs[: t + 1], X, X), np.ones(t + 1), 0.4, 1, "rows")
        compare(ranker, W)
    assert alive == [True, True, False, False, True]
    woken = ranker.weights_.sparse.toarray()[0]
    assert woken[0] == 0
    assert woken[1] == -woken[2] != 0


def living(weights: tc.Weights, by: str) -> np.ndarray:
    """True on every entry of a row, or column, that is not all zero."""
    W = weights.sparse.toarray() != 0
    return np.broadcast_to(W.any(axis=1 if by == "rows" else 0, keepdims=True), W.shape)


@both
@given(seed=st.integers(0, 10**6), T=st.integers(1, 20))
@settings(max_examples=20)
def test_refit_learns_the_living_groups_from_the_identity(by, seed, T):
    Q, D, prefs = made_data(seed)
    ranker = make(by, shrink_every=T, refit=True).fit(Q, prefs, D)
    support = living(ranker.weights_before_refit_, by)
    assert 0 < support.sum() < support.size
    expected = oracles.refit(support, as_vectors(prefs, Q, D), etas(80))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), expected, atol=2e-5)
    assert not ranker.weights_.sparse.toarray()[~support].any()
    parts = make(by, shrink_every=T).fit(Q, prefs, D)
    assert same_bits(parts.weights_, ranker.weights_before_refit_)
    assert same_bits(parts.refit(Q, prefs, D).weights_, ranker.weights_)


@both
def test_a_refitted_ranker_learns_on_from_its_weights(by):
    Q, D, prefs = made_data(1, n=120)
    ranker = make(by, refit=True, schedule="constant", shrink_every=40).fit(Q, prefs[:80], D)
    start = ranker.weights_.sparse.toarray().astype(float)
    assert ranker.n_steps_ == 80
    ranker.partial_fit(Q, prefs[80:], D)
    vectors = as_vectors(prefs[80:], Q, D)
    compare(ranker, oracles.algorithm_1_by_groups(start, vectors, np.full(40, 1.3), 0.06, 40, by), sure=1e-3)


@both
def test_without_penalty_it_is_the_dense_ranker(by):
    Q, D, prefs = made_data(2, n=400)
    dense = tc.DenseRanker(rate=1.3).fit(Q, prefs, D)
    for refit in (False, True):
        grouped = make(by, l1=0.0, refit=refit).fit(Q, prefs, D)
        np.testing.assert_allclose(
            grouped.weights_.sparse.toarray(), dense.weights_.sparse.toarray(), rtol=1e-5, atol=1e-5
        )


@both
def test_a_heavy_penalty_leaves_exact_zeros(by):
    Q, D, prefs = made_data(3)
    used = {"rows": Q, "columns": D}[by]
    never = np.setdiff1d(np.arange(N_TERMS), used.indices)
    assert never.size
    some = make(by, l1=0.1).fit(Q, prefs, D)
    assert some.n_groups_
    assert not set(never) & set(some.groups_)
    none = make(by, l1=10.0, shrink_every=80, refit=True).fit(Q, prefs, D)
    assert none.weights_.sparse.nnz == none.n_groups_ == none.groups_.size == 0
    assert not none.score_matrix(Q, D).any()


# -- cutting, saving, looking ---------------------------------------------------------------------------------------


@pytest.mark.slow
@both
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 79), T=st.integers(1, 30), l1=st.sampled_from([0.0, 0.06, 0.2]))
@settings(max_examples=25)
def test_two_halves_are_the_whole_even_through_a_file(by, seed, cut, T, l1, tmp_path_factory):
    Q, D, prefs = made_data(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped_module, "REFRESH_EVERY", 33)
        whole = make(by, l1=l1, shrink_every=T).fit(Q, prefs, D)
        half = make(by, l1=l1, shrink_every=T).partial_fit(Q, prefs[:cut], D)
        path = tmp_path_factory.mktemp("half") / "model"
        half.save(path)
        loaded = tc.load(path)
        assert same_bits(loaded.weights_, half.weights_)
        assert loaded.get_params() == half.get_params()
        assert same_bits(whole.weights_, half.partial_fit(Q, prefs[cut:], D).weights_)
        assert same_bits(whole.weights_, loaded.partial_fit(Q, prefs[cut:], D).weights_)


@both
def test_looking_copying_and_saving_change_nothing(by, tmp_path):
    Q, D, prefs = made_data(4)
    quiet, watched = make(by), make(by)
    for t in range(0, 80, 5):
        quiet.partial_fit(Q, prefs[t : t + 5], D)
        watched.partial_fit(Q, prefs[t : t + 5], D)
        assert watched.weights_.shape == (N_TERMS, N_TERMS)
        watched.save(tmp_path / "model")
        copied = watched._state.copy()
        assert same_bits(copied.snapshot(), watched.weights_)
        copied.V[:] = np.nan  # belongs to the copy alone
    assert same_bits(quiet.weights_, watched.weights_)
    assert np.array_equal(quiet._state.groups, watched._state.groups)


@both
def test_refreshing_and_folding_change_no_weight(by, monkeypatch):
    Q, D, prefs = made_data(5, n=400)
    plain = make(by).fit(Q, prefs, D)
    monkeypatch.setattr(grouped_module, "REFRESH_EVERY", 5)
    refreshed = make(by).fit(Q, prefs, D)
    np.testing.assert_allclose(refreshed.weights_.sparse.toarray(), plain.weights_.sparse.toarray(), atol=2e-5)
    assert refreshed.groups_.tolist() == plain.groups_.tolist()


@both
def test_norms_are_those_of_the_weights_and_marks_miss_nothing(by):
    Q, D, prefs = made_data(6, n=600)
    state = make(by, shrink_every=3).fit(Q, prefs, D)._state
    lines = np.sqrt(np.sum(state.V.astype(float) ** 2, axis=1))
    alive = state.scales() > 0
    assert 0 < alive.sum() < alive.size
    np.testing.assert_allclose(state.groups[alive, grouped_kernels.NORM], lines[alive], rtol=1e-9)
    written = np.zeros_like(state.marks)
    grouped_kernels.mark_written(state.V, written)
    assert written.any()
    assert not (written & ~state.marks).any()


def test_clearing_a_group_visits_its_marked_lines_only():
    group = np.ones(2100, dtype=np.float32)  # 132 lines: two whole words of marks and a part
    marks = np.zeros(3, dtype=np.int64)
    mark, clear = (numba.njit(helper.py_func) for helper in (grouped_kernels.mark, grouped_kernels.clear))
    for line in (0, 63, 64, 127, 131):
        mark(marks, line)
    clear(group, marks)
    assert set(np.flatnonzero(group == 0) // 16) == {0, 63, 64, 127, 131}
    assert np.count_nonzero(group == 0) == 4 * 16 + 4
    assert not marks.any()


def test_a_small_scale_is_folded_into_the_group():
    rng = np.random.default_rng(0)
    line = rng.standard_normal(37).astype(np.float32)
    line[16:32] = 0
    expected = line * np.float32(2**-12)
    square = numba.njit(grouped_kernels.fold.py_func)(line, np.array([0b101]), 2.0**-12)
    np.testing.assert_array_equal(line, expected)
    assert square == pytest.approx(np.sum(expected.astype(float) ** 2), rel=1e-12)


def test_a_group_near_its_end_keeps_its_weights():
    # Row 1 owes all but a ten-thousandth of its norm when its update comes.
    X = sparse.csr_array(np.eye(3, dtype=np.float32))
    prefs = tc.Preferences([0, 1], [2, 2], [1, 0])
    ranker = make("rows", l1=0.9999, shrink_every=1, rate=1.0, schedule="constant", margin=2.0)
    ranker.partial_fit(X, prefs)
    assert ranker._state.groups[1, grouped_kernels.SCALE] == 1
    W = oracles.algorithm_1_by_groups(np.eye(3), as_vectors(prefs, X, X), np.ones(2), 0.9999, 1, "rows", margin=2.0)
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=1e-6)
    assert W[1, 1] != 0


# -- what every ranker does -----------------------------------------------------------------------------------------


@both
def test_explanations_sum_to_the_score(by):
    Q, D, prefs = made_data(7)
    ranker = make(by, refit=True).fit(Q, prefs, D)
    scores = ranker.score_matrix(Q, D)
    assert scores.any()
    for i in range(Q.shape[0]):
        why = ranker.explain(Q[[i]], D[[i]])
        assert abs(why.contribution.sum() - scores[i, i]) <= 1e-6 * np.abs(why.contribution).sum()


@both
def test_learns_a_checkerboard(by, checkerboard):
    X, y = checkerboard
    ranker = tc.learn.GroupSparseRanker(by=by, rate=3.0, l1=1e-4).fit(X, tc.Preferences.from_labels(y, 4000))
    held_out = tc.Preferences.from_labels(y, 500, random_state=1)
    assert (ranker.margins(X, held_out) <= 0).mean() < 0.05


def test_the_best_validated_weights_are_kept_and_refitted():
    Q, D, prefs = made_data(8)
    seen = []

    def validation(weights: tc.Weights) -> float:
        seen.append(weights)
        return -abs(len(seen) - 3.0)

    ranker = make("rows", validate_every=20, refit=True).fit(Q, prefs, D, validation=validation)
    assert same_bits(ranker.weights_before_refit_, seen[2])


def test_parameters_survive_cloning_and_setting():
    ranker = tc.learn.GroupSparseRanker(refit=False, l1=0.1, by="columns")
    assert ranker.get_params()["refit"] is False
    assert clone(ranker).get_params() == ranker.get_params()
    assert bool(ranker.set_params(refit=True).refit) is True


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_memory": 21_839}, MemoryLimitError, "by rows, takes 21,840 bytes; 21,839 are allowed"),
        ({"l1": -1.0}, ParameterError, "'l1' parameter of GroupSparseRanker"),
        ({"by": "words"}, ParameterError, "'by' parameter of GroupSparseRanker must be a str among"),
        ({"shrink_every": 0}, ParameterError, "'shrink_every'"),
    ],
)
def test_what_makes_no_sense_is_refused(change, error, message):
    Q, D, prefs = made_data(9)
    with pytest.raises(error, match=message):
        make(**{"by": "rows"} | change).fit(Q, prefs, D)


def test_exactly_enough_memory_is_enough():
    Q, D, prefs = made_data(9)
    assert make("rows", max_memory=21_840).fit(Q, prefs, D).n_groups_


@both
def test_a_penalty_set_between_calls_takes_effect(by):
    Q, D, prefs = made_data(9)
    half, tree = len(prefs) // 2, [["a", "b"][word % 2] for word in range(N_TERMS)]
    for first, then in (
        ({"l1": 0.0}, {"l1": 10.0}),
        ({"shrink_every": 1000}, {"shrink_every": 1}),
        ({"tree": tree, "word_share": 1.0}, {"word_share": 0.0}),
    ):
        ranker = make(by, **first).partial_fit(Q, prefs[:half], D)
        same = deepcopy(ranker).partial_fit(Q, prefs[half:], D)
        ranker.set_params(**then).partial_fit(Q, prefs[half:], D)
        assert not same_bits(ranker.weights_, same.weights_)
        assert "l1" not in then or ranker.n_groups_ < same.n_groups_


def test_the_grouping_cannot_change_while_learning_on():
    Q, D, prefs = made_data(9)
    ranker = make("rows").partial_fit(Q, prefs, D).set_params(by="columns")
    with pytest.raises(ParameterError, match="by='columns' cannot be set between calls of partial_fit"):
        ranker.partial_fit(Q, prefs, D)
    assert ranker.fit(Q, prefs, D).partial_fit(Q, prefs, D).n_steps_ == 160


@pytest.mark.parametrize(
    ("meta", "arrays", "message"),
    [
        ({"by": "words"}, {}, "state.by is 'words' .*; expected one of 'rows', 'columns'"),
        ({}, {"order": np.zeros(N_TERMS, dtype=np.int32)}, "no permutation"),
        ({"n_groups": 3}, {}, "not rising numbers below 3"),
        ({}, {"living": -1}, "not rising"),
        ({}, {"groups": -1}, "not positive"),
    ],
)
def test_a_damaged_state_is_refused(meta, arrays, message):
    Q, D, prefs = made_data(10)
    state = make("rows").fit(Q, prefs, D)._state
    own, held = state.to_state()
    arrays = arrays if "order" in arrays else {name: -held[name] for name in arrays}
    with pytest.raises(DamagedBundleError, match=message):
        GroupedState.from_state(own | meta, held | arrays, "state")
