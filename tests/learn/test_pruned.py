"""PrunedRanker: Algorithm 2 of Bai et al. 2010, exactly, in memory that falls with every round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.learners import same_bits
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.errors import DamagedBundleError, MemoryLimitError, ParameterError
from tercet.learn import DivergedError
from tercet.learn import pruned as pruned_module
from tercet.learn.dense import DenseState
from tercet.learn.matrices import by_document_frequency
from tercet.learn.pruned import PrunedState
from tercet.learn.sources import ArraySource
from tercet.learn.state import rates
from tercet.learn.support import SupportState
from tercet.store import read_bundle, write_bundle

N_TERMS = 150


def made_data(seed: int, n: int = 40, n_doc_terms: int = N_TERMS, density: float = 0.06):
    """Texts whose sums are not rounded, so that sizes compare as they do in double precision."""
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS, density), random_texts(rng, 11, n_doc_terms, density)
    for texts in (Q, D):
        texts.data[:] = rng.choice([0.25, 0.5, 0.75], texts.nnz)
    return Q, D, random_preferences(rng, n, 9, 11)


def expected(ranker, Q, D, prefs, start):
    """The oracle's weights and support, with the rounds as the ranker's documentation has them."""
    left = ranker._entries_left(D.shape[1])
    vectors = as_vectors(prefs, Q, D) * ranker.epochs * (len(left) + 1)
    a_round = len(prefs) * ranker.epochs
    return oracles.algorithm_2(
        start,
        vectors,
        rates(ranker.schedule, ranker.rate, 0, len(vectors), len(vectors)).astype(float),
        {a_round * k: kept for k, kept in enumerate(left, start=1)},
        by_document_frequency(D),
        ranker.margin,
    )


def support_of(ranker):
    """The entries that may have a weight, in the given order of columns."""
    state = ranker._state.inner
    support = np.zeros(state.shape, dtype=bool)
    support[np.repeat(np.arange(len(support)), np.diff(state.entries.indptr)), state.order[state.entries.indices]] = (
        True
    )
    return support


# -- against the paper ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_kept=st.sampled_from([1, 3, 20, 149]),
    how=st.sampled_from([{"n_rounds": 1}, {"n_rounds": 3}, {"n_rounds": 9}]),
    epochs=st.sampled_from([1, 2]),
    entries_at_once=st.sampled_from([1, 1000, 1 << 22]),
)
def test_pruned_is_algorithm_2(seed, n_kept, how, epochs, entries_at_once):
    Q, D, prefs = made_data(seed)
    ranker = tc.PrunedRanker(n_kept=n_kept, rate=0.5, schedule="constant", epochs=epochs, **how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pruned_module, "_ENTRIES_AT_ONCE", entries_at_once)
        ranker.fit(Q, prefs, D)
    W, active = expected(ranker, Q, D, prefs, np.eye(N_TERMS))
    np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), W)
    np.testing.assert_array_equal(support_of(ranker), active)
    assert (active.sum(axis=1) == n_kept).all()
    assert ranker.density_ == np.count_nonzero(W) / W.size <= n_kept / N_TERMS
    assert ranker.n_steps_ == len(prefs) * epochs * (len(ranker._entries_left(N_TERMS)) + 1)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), n_doc_terms=st.sampled_from([70, 300]))
def test_two_vocabularies_start_at_zero(seed, n_doc_terms):
    Q, D, prefs = made_data(seed, n_doc_terms=n_doc_terms)
    ranker = tc.PrunedRanker(n_kept=5, n_rounds=2, rate=0.5, schedule="constant", margin=0.5).fit(Q, prefs, D)
    W, _ = expected(ranker, Q, D, prefs, np.zeros((N_TERMS, n_doc_terms)))
    np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), W)


@pytest.mark.parametrize("schedule", ["inverse-sqrt", "linear"])
def test_a_falling_rate_falls_over_all_rounds(schedule):
    Q, D, prefs = made_data(1)
    ranker = tc.PrunedRanker(n_kept=10, n_rounds=2, rate=1.3, schedule=schedule).fit(Q, prefs, D)
    W, _ = expected(ranker, Q, D, prefs, np.eye(N_TERMS))
    np.testing.assert_allclose(ranker.weights_.sparse.toarray(), W, atol=2e-5)


def test_preference_weights_scale_the_step(rng):
    Q, D, prefs = made_data(2)
    weight = rng.choice([0.25, 0.5, 2.0], len(prefs)).astype(np.float32)
    weighted = tc.Preferences(prefs.query, prefs.better, prefs.worse, weight)
    ranker = tc.PrunedRanker(n_kept=10, n_rounds=1, rate=0.5, schedule="constant").fit(Q, weighted, D)
    W, _ = oracles.algorithm_2(
        np.eye(N_TERMS),
        as_vectors(prefs, Q, D) * 2,
        np.tile(0.5 * weight.astype(float), 2),
        {len(prefs): 10},
        by_document_frequency(D),
    )
    np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), W)


@pytest.mark.parametrize(
    ("parameters", "left"),
    [
        ({"n_kept": 1, "n_rounds": 2}, [10, 1]),
        ({"n_kept": 98, "n_rounds": 7}, [99, 98]),
        ({"n_kept": 100}, []),
    ],
)
def test_entries_of_a_row_of_100_that_stay(parameters, left):
    assert tc.PrunedRanker(**parameters)._entries_left(100) == left


@settings(max_examples=50)
@given(m=st.integers(1, 10**6), n_kept=st.integers(1, 2000), n_rounds=st.integers(1, 40))
def test_rounds_fall_to_what_is_to_be_kept(m, n_kept, n_rounds):
    left = tc.PrunedRanker(n_kept=n_kept, n_rounds=n_rounds)._entries_left(m)
    assert len(left) <= n_rounds
    assert all(a > b for a, b in zip([m, *left], left, strict=False))
    assert left[-1:] == ([n_kept] if n_kept < m else [])


def test_a_vocabulary_that_is_small_enough_is_not_pruned():
    Q, D, prefs = made_data(3)
    ranker = tc.PrunedRanker(n_kept=N_TERMS, rate=0.5).fit(Q, prefs, D)
    dense = tc.DenseRanker(rate=0.5).fit(Q, prefs, D)
    assert same_bits(ranker.weights_, tc.Weights([tc.weights.Sparse(weights=dense.weights_.sparse)]))
    assert ranker.density_ == dense.weights_.sparse.nnz / N_TERMS**2
    assert ranker.n_steps_ == len(prefs)
    assert ranker.partial_fit(Q, prefs, D).n_steps_ == 2 * len(prefs)


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "needed", "message"),
    [
        ({}, 255_600, "its first pruning takes 255,600 bytes; 255,599 are allowed"),
        ({"n_kept": 50, "n_rounds": 1}, 150_000, "takes 150,000 bytes.*Use fewer words, fewer rounds or Sparse"),
        ({"n_kept": 150}, 90_000, "takes 90,000 bytes"),
    ],
)
def test_a_w_that_does_not_fit_is_refused_with_the_figures(how, needed, message):
    Q, D, prefs = made_data(0)
    with pytest.raises(MemoryLimitError, match=message):
        tc.PrunedRanker(max_memory=needed - 1, **how).fit(Q, prefs, D)
    tc.PrunedRanker(max_memory=needed, rate=0.5, **how).fit(Q, prefs, D)


def test_memory_is_eight_bytes_for_each_entry_left():
    Q, D, prefs = made_data(0)
    for n_kept in (140, 8, 1):
        ranker = tc.PrunedRanker(n_kept=n_kept, n_rounds=1, rate=0.5).fit(Q, prefs, D)
        _, arrays = ranker._state.to_state()
        assert arrays["values"].nbytes + arrays["columns"].nbytes == 8 * n_kept * N_TERMS


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 9),
    m=st.integers(2, 60),
    at_once=st.integers(1, 300),
    spread=st.booleans(),
    data=st.data(),
)
def test_pruning_takes_the_largest_and_of_equal_ones_the_first(seed, n, m, at_once, spread, data):
    first = data.draw(st.integers(1, m - 1))
    second = data.draw(st.integers(1, first))
    rng = np.random.default_rng(seed)
    W = rng.integers(-5, 6, (n, m)).astype(np.float32)  # many of equal size
    if spread:  # and many that differ in their last bits only, or by all that a number can
        W = np.nextafter(W, rng.choice([np.float32(-9), np.float32(9)], W.shape)) * 10.0 ** rng.integers(
            -45, 38, (n, 1)
        )
        W = W.astype(np.float32)
    state = PrunedState(DenseState(W.copy(), np.arange(m, dtype=np.int32)))
    for kept in (first, second):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pruned_module, "_ENTRIES_AT_ONCE", at_once)
            state.prune(kept)
        expected = np.sort(np.argsort(-np.abs(W), axis=1, kind="stable")[:, :kept], axis=1)
        np.testing.assert_array_equal(state.inner.entries.indices.reshape(n, kept), expected)
        np.testing.assert_array_equal(
            state.inner.entries.data.reshape(n, kept), np.take_along_axis(W, expected, axis=1)
        )


# -- learning on ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), split=st.integers(1, 39), n_kept=st.sampled_from([2, 30, 140]))
def test_partial_fit_learns_the_support_on_even_through_a_file(seed, split, n_kept, tmp_path_factory):
    Q, D, prefs = made_data(seed)
    more = random_preferences(np.random.default_rng(seed + 1), 40, 9, 11)

    def fitted():
        return tc.PrunedRanker(n_kept=n_kept, n_rounds=2, rate=0.9).fit(Q, prefs, D)

    ranker = fitted()
    support, before = support_of(ranker), ranker.weights_
    whole = fitted().partial_fit(Q, more, D)
    assert not whole.weights_.sparse.toarray()[~support].any()
    step_sizes = rates("inverse-sqrt", 0.9, ranker.n_steps_, 40, None).astype(float)
    on = oracles.refit(support, as_vectors(more, Q, D), step_sizes, start=before.sparse.toarray().astype(float))
    np.testing.assert_allclose(whole.weights_.sparse.toarray(), on, atol=2e-5)
    half = ranker.partial_fit(Q, more[:split], D)
    path = tmp_path_factory.mktemp("half") / "model"
    half.save(path)
    loaded = tc.load(path)
    assert loaded.get_params() == half.get_params()
    assert same_bits(loaded.weights_, half.weights_)
    assert loaded.density_ == half.density_
    assert same_bits(half.partial_fit(Q, more[split:], D).weights_, whole.weights_)
    assert same_bits(loaded.partial_fit(Q, more[split:], D).weights_, whole.weights_)
    assert loaded.n_steps_ == whole.n_steps_


def test_partial_fit_needs_a_support():
    Q, D, prefs = made_data(0)
    with pytest.raises(ParameterError, match="call fit first"):
        tc.PrunedRanker().partial_fit(Q, prefs, D)


class Killed(Exception):
    """Stands in for a kill."""


@pytest.mark.parametrize("validated", [False, True])
def test_a_run_resumed_in_any_round_has_the_bits_of_an_unbroken_one(validated, tmp_path, monkeypatch):
    monkeypatch.setattr("tercet.learn.loop.CHUNK", 64)
    Q, D, prefs = made_data(5, n=300)
    validation = (lambda weights: -abs(weights.score(Q, D).mean())) if validated else None

    def fit(path=None, kill_at=None):
        def kill(event):
            if kill_at is not None and event.step >= kill_at:
                raise Killed

        ranker = tc.PrunedRanker(n_kept=5, n_rounds=3, rate=0.5, shuffle=True, validate_every=70, patience=None)
        callbacks = [] if path is None else [tc.Checkpoint(path, every=50), kill]
        return ranker.fit(Q, prefs, D, validation, callbacks)

    whole = fit()
    for stop in (200, 500, 800, 1100):
        with pytest.raises(Killed):
            fit(tmp_path / "c", stop)
    resumed = fit(tmp_path / "c")
    assert resumed.history_[0].step > 1000, "nothing was resumed"
    assert same_bits(whole.weights_, resumed.weights_)
    assert whole.n_steps_ == resumed.n_steps_


def test_validation_watches_the_last_round():
    Q, D, prefs = made_data(6, n=100)
    seen = []

    def validation(weights):
        seen.append(weights)
        return -float(len(seen))  # the first is the best

    ranker = tc.PrunedRanker(n_kept=5, n_rounds=3, rate=0.5, validate_every=50, patience=1)
    ranker.fit(Q, prefs, D, validation)
    assert all(np.diff(weights.sparse.indptr).max() <= 5 for weights in seen)
    assert len(seen) == 3  # at the last pruning, and twice without a better value
    assert same_bits(ranker.weights_, seen[0])
    assert ranker.n_steps_ == 300
    assert [event.step for event in ranker.history_ if event.validation is not None] == [300, 350, 400]


def test_a_callback_that_stops_leaves_w_as_it_is():
    Q, D, prefs = made_data(7, n=5000)
    ranker = tc.PrunedRanker(n_kept=5, rate=0.5).fit(Q, prefs, D, callbacks=[lambda event: True])
    dense = tc.DenseRanker(rate=0.5).fit(Q, prefs, D, callbacks=[lambda event: True])
    assert same_bits(ranker.weights_, dense.weights_)
    assert isinstance(ranker._state.inner, DenseState)


def test_another_seed_is_another_order():
    Q, D, prefs = made_data(8)
    weights = [
        tc.PrunedRanker(n_kept=9, rate=0.5, shuffle=True, random_state=seed).fit(Q, prefs, D).weights_
        for seed in (1, 1, 2)
    ]
    assert same_bits(weights[0], weights[1])
    assert not same_bits(weights[0], weights[2])


def test_weights_do_not_change_under_a_reader():
    Q, D, prefs = made_data(9)
    ranker = tc.PrunedRanker(n_kept=9, rate=0.5).fit(Q, prefs, D)
    weights = ranker.weights_
    before = weights.sparse.toarray().copy()
    ranker.partial_fit(Q, prefs[::-1], D)
    assert not same_bits(weights, ranker.weights_)
    np.testing.assert_array_equal(weights.sparse.toarray(), before)


def test_learns_a_checkerboard(checkerboard):
    X, y = checkerboard
    ranker = tc.PrunedRanker(n_kept=10, rate=3.0).fit(X, tc.Preferences.from_labels(y, 4000))
    held_out = tc.Preferences.from_labels(y, 500, random_state=1)
    assert (tc.CosineRanker().fit(X).margins(X, held_out) <= 0).mean() > 0.3
    assert (ranker.margins(X, held_out) <= 0).mean() < 0.05
    assert ranker.density_ <= 10 / 40


# -- what is refused --------------------------------------------------------------------------------------------------


class Endless(ArraySource):
    def __init__(self, prefs):
        super().__init__(prefs)
        self.n_steps = None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_kept": 0}, "'n_kept' parameter of PrunedRanker"),
        ({"n_rounds": 0}, "'n_rounds' parameter of PrunedRanker"),
        ({}, "this source has no end"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, message):
    Q, D, prefs = made_data(0)
    with pytest.raises(ParameterError, match=message):
        tc.PrunedRanker(**parameters).fit(Q, Endless(prefs), D)


def support(width, value, D):
    """The first columns of every row, with the same weight."""
    columns = np.tile(np.arange(width, dtype=np.int32), N_TERMS)
    values, indptr = np.full(columns.size, value, np.float32), np.arange(N_TERMS + 1) * width
    return SupportState(by_document_frequency(D), sparse.csr_array((values, columns, indptr), (N_TERMS, N_TERMS)))


@pytest.mark.parametrize("first", [True, False])
def test_divergence_before_a_pruning_is_told_as_such(first):
    Q, D, prefs = made_data(0)
    if first:
        state = PrunedState(DenseState.start(N_TERMS, by_document_frequency(D)), [(5, 3)])
        state.inner.W[:] = np.inf
    else:
        state = PrunedState(support(4, np.inf, D), [(5, 3)])
    ranker = tc.PrunedRanker(n_kept=3)
    ranker._state = state
    with pytest.raises(DivergedError, match="no longer finite"):
        ranker.partial_fit(Q, prefs, D)
    assert not hasattr(ranker, "n_steps_")


def test_a_step_beyond_all_numbers_is_told_after_the_pruning_it_meets():
    Q, D, prefs = made_data(0)
    ranker = tc.PrunedRanker(n_kept=3, rate=3e38, schedule="constant")
    ranker._state = PrunedState(support(40, 0.0, D), [(1, 3)])
    with pytest.raises(DivergedError, match="no longer finite"):
        ranker.partial_fit(Q * 100, prefs[[0, 0]], D)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.update(cuts=[[40]]), r"cuts\.0 is \[40\] .*; expected a list of 2"),
        (lambda state: state.update(cuts=[40]), r"cuts\.0 is 40 .*; expected a list of 2"),
        (lambda state: state.update(cuts=[[40, 20], [30, 10]]), "steps rise and entries fall"),
        (lambda state: state.update(cuts=[[40, 10], [80, 20]]), "steps rise and entries fall"),
        (lambda state: state.update(cuts=[[40, 7]]), "has not 7 entries in each row"),
        (lambda state: state.update(cuts=[]), "has not 150 entries in each row"),
        (lambda state: state.update(step=81), "at step 81, its weights at 80"),
        (lambda state: state["inner"].update(frozen=False), "inner.frozen is unknown"),
        (lambda state: state.update(dense=True), "no array 'W'"),
    ],
)
def test_a_damaged_file_is_refused(change, message, tmp_path):
    Q, D, prefs = made_data(0)
    ranker = tc.PrunedRanker(n_kept=10, n_rounds=1, rate=0.5).fit(Q, prefs, D)
    assert isinstance(ranker._state.inner, SupportState)
    ranker.save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    meta = dict(bundle.meta)
    change(meta["state"])
    write_bundle(tmp_path / "changed", kind=bundle.kind, meta=meta, arrays=bundle.arrays)
    with pytest.raises(DamagedBundleError, match=message):
        tc.load(tmp_path / "changed")


def swapped(columns):
    columns[[30, 31]] = columns[[31, 30]]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("columns", swapped, "not in ascending order"),
        ("columns", lambda columns: columns.__setitem__(1, columns[0]), "not in ascending order"),
        ("columns", lambda columns: columns.__setitem__(70, -1), "not from 0 to"),
        ("columns", lambda columns: columns.__setitem__(79, N_TERMS), "not from 0 to"),
        ("columns", lambda columns: columns.__setitem__(slice(78, 80), [2**31 - 1, -(2**31)]), "not from 0 to"),
        ("order", lambda order: order.__setitem__(0, order[1]), "no permutation"),
        ("values", lambda values: values.__setitem__(0, np.nan), "finite"),
    ],
)
def test_damaged_arrays_are_refused(name, change, message, tmp_path):
    Q, D, prefs = made_data(0)
    tc.PrunedRanker(n_kept=10, n_rounds=1, rate=0.5).fit(Q, prefs, D).save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    arrays = dict(bundle.arrays)
    arrays[name] = arrays[name].copy()
    change(arrays[name])
    write_bundle(tmp_path / "changed", kind=bundle.kind, meta=bundle.meta, arrays=arrays)
    with pytest.raises(DamagedBundleError, match=message):
        tc.load(tmp_path / "changed")
