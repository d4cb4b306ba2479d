"""MultiTaskRanker against the printed equations, and what every learner must do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import oracles
import tercet as tc
from support.learners import N_E, N_F, Killed, judged, kill_at, made_tasks, same_bits, step_rates
from support.random_data import as_vectors, random_preferences, random_texts
from support.sources import TopSource
from tercet.data.sampling import JudgementSampler
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.learn.sources import BLOCK, ArraySource, HardSource
from tercet.learn.starts import turned

seeds = st.integers(0, 10**6)
variants = pytest.mark.parametrize(
    "variant",
    [
        {"shared": "both"},
        {"shared": "documents"},
        {"shared": "both", "n_frequent": 5},
        {"shared": "documents", "n_frequent": 5},
    ],
    ids=str,
)


def make(**options):
    return tc.learn.MultiTaskRanker(n_components=4, rate=0.2, spread=0.5, **options)


def made_third(seed, n=23):
    """Queries, preferences and documents in the vocabulary of the first task's queries."""
    rng = np.random.default_rng([seed, 3])
    return random_texts(rng, 7, N_F), random_preferences(rng, n, 7, 13), random_texts(rng, 13, N_F)


def by_the_book(ranker, Q, prefs, D, second, third=None):
    """U_F, U_E and V_E as the printed steps leave them; U_E is None where it is V_E."""
    state = ranker._start(Q, D)
    U, V = state.U.T.astype(float), state.V.T.astype(float)
    both = ranker.shared == "both"
    U_F, U_E, V_E = U[:, :N_F], None if both else U[:, N_F:], V[:, N_F:] if both else V
    (Q2, prefs2), n = second, len(prefs) * ranker.epochs
    again = []
    if third is not None:
        Q3, prefs3, D3 = third
        again = as_vectors(prefs3[np.arange(n) % len(prefs3)], Q3, D3)
    return oracles.sgd_tasks(
        U_F,
        U_E,
        V_E,
        as_vectors(prefs, Q, D) * ranker.epochs,
        as_vectors(prefs2[np.arange(n) % len(prefs2)], Q2, D),
        again,
        step_rates(ranker, (2 if third is None else 3) * n),
        ranker.margin,
    )


@settings(max_examples=40)
@given(
    seed=seeds,
    shared=st.sampled_from(["both", "documents"]),
    schedule=st.sampled_from(["constant", "inverse-sqrt", "linear"]),
    margin=st.sampled_from([0.5, 1.0]),
    n2=st.sampled_from([1, 7, 40, 55]),
    epochs=st.sampled_from([1, 2]),
)
def test_both_tasks_step_as_printed(seed, shared, schedule, margin, n2, epochs):
    Q, prefs, D, second = made_tasks(seed, n2=n2)
    ranker = make(shared=shared, schedule=schedule, margin=margin, epochs=epochs, random_state=seed)
    U_F, U_E, V_E = by_the_book(ranker, Q, prefs, D, second)
    ranker.fit(Q, prefs, D, second=second)
    assert ranker.n_steps_ == 2 * len(prefs) * epochs
    np.testing.assert_allclose(ranker.weights_.query_factors, U_F.T, atol=5e-5)
    np.testing.assert_allclose(ranker.weights_.doc_factors, V_E.T, atol=5e-5)
    np.testing.assert_allclose(ranker.second_weights_.doc_factors, V_E.T, atol=5e-5)
    np.testing.assert_allclose(ranker.second_weights_.query_factors, (V_E if U_E is None else U_E).T, atol=5e-5)
    assert ranker.second_weights_.parts[0].tied == (shared == "both")


@settings(max_examples=30)
@given(
    seed=seeds,
    schedule=st.sampled_from(["constant", "linear"]),
    n2=st.sampled_from([7, 55]),
    n3=st.sampled_from([1, 23, 60]),
    epochs=st.sampled_from([1, 2]),
)
def test_three_tasks_step_as_printed(seed, schedule, n2, n3, epochs):
    Q, prefs, D, second = made_tasks(seed, n2=n2)
    third = made_third(seed, n3)
    ranker = make(schedule=schedule, epochs=epochs, random_state=seed)
    U_F, _, V_E = by_the_book(ranker, Q, prefs, D, second, third)
    ranker.fit(Q, prefs, D, second=second, third=third)
    assert ranker.n_steps_ == 3 * len(prefs) * epochs
    np.testing.assert_allclose(ranker.weights_.query_factors, U_F.T, atol=5e-5)
    np.testing.assert_allclose(ranker.weights_.doc_factors, V_E.T, atol=5e-5)
    np.testing.assert_allclose(ranker.third_weights_.query_factors, U_F.T, atol=5e-5)
    assert ranker.third_weights_.parts[0].tied
    np.testing.assert_allclose(ranker.second_weights_.doc_factors, V_E.T, atol=5e-5)


def test_two_halves_of_three_tasks_are_the_whole_and_a_resumed_run_goes_on(tmp_path):
    Q, prefs, D, (Q2, prefs2) = made_tasks(4)
    Q3, prefs3, D3 = made_third(4, 40)
    whole = make().fit(Q, prefs, D, second=(Q2, prefs2), third=(Q3, prefs3, D3))
    halves = make()
    for part in (slice(0, 17), slice(17, None)):
        halves.partial_fit(Q, prefs[part], D, second=(Q2, prefs2[part]), third=(Q3, prefs3[part], D3))
    assert same_bits(whole.weights_, halves.weights_)
    assert same_bits(whole.third_weights_, halves.third_weights_)
    tasks = {"second": (Q2, prefs2), "third": (Q3, prefs3, D3)}
    long = make(epochs=100).fit(Q, prefs, D, **tasks)
    checkpoint = tc.Checkpoint(tmp_path / "c", every=2000)
    with pytest.raises(Killed):
        make(epochs=100).fit(Q, prefs, D, callbacks=[checkpoint, kill_at(5000)], **tasks)
    resumed = make(epochs=100).fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c", every=2000)], **tasks)
    assert same_bits(long.weights_, resumed.weights_)


# -- from translations, in the cosine, in both directions --------------------------------------------------------------


def joined_vectors(prefs, Q, D, first_query, first_doc):
    """Texts over the joined vocabulary, whose words of each side begin at a place."""

    def placed(vector, first):
        joined = np.zeros(N_F + N_E)
        joined[first : first + vector.size] = vector
        return joined

    return [
        (placed(q, first_query), placed(better, first_doc), placed(worse, first_doc))
        for q, better, worse in as_vectors(prefs, Q, D)
    ]


def mated(seed, n=25):
    """Rows of Q and of D that count as translations."""
    rng = np.random.default_rng([seed, 5])
    return np.column_stack([rng.integers(0, made_tasks(seed)[at].shape[0], n) for at in (0, 2)])


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=seeds, two=st.booleans())
def test_from_mates_and_turned_round_it_steps_down_the_gradient_of_the_cosine(seed, two):
    Q, prefs, D, second = made_tasks(seed)
    back = random_preferences(np.random.default_rng([seed, 4]), len(prefs), D.shape[0], Q.shape[0])
    lsi = tc.LSIRanker(n_components=4).fit_parallel(Q, D, translations=mated(seed)).weights_
    ranker = make(margin=0.4, random_state=seed).set_params(rate=0.5)
    F = ranker._start(Q, D, lsi).U.T.astype(float)
    turns = [joined_vectors(prefs, Q, D, 0, N_F)]
    if two:
        turns.append(joined_vectors(second[1][np.arange(len(prefs)) % len(second[1])], second[0], D, N_F, N_F))
    turns.append(joined_vectors(back, D, Q, N_F, 0))
    texts = [text for turn in zip(*turns, strict=True) for text in turn]
    F, _ = oracles.sgd_cosine(F, F, texts, [0.5] * len(texts), 0.4)
    ranker.fit(Q, prefs, D, second=second if two else None, reverse=back, start=lsi)
    np.testing.assert_allclose(ranker.weights_.query_factors, F[:, :N_F].T, atol=2e-4)
    np.testing.assert_allclose(ranker.weights_.doc_factors, F[:, N_F:].T, atol=2e-4)
    q, d = Q.toarray(), D.toarray()
    np.testing.assert_allclose(
        ranker.weights_.score(Q, D), oracles.lsi_cosine(q, d, F[:, :N_F].T, F[:, N_F:].T), atol=1e-3
    )
    np.testing.assert_allclose(
        ranker.second_weights_.score(D, D), oracles.lsi_cosine(d, d, *(F[:, N_F:].T,) * 2), atol=1e-3
    )


@pytest.mark.parametrize("shared", ["both", "documents"])
def test_a_start_from_mates_is_cross_language_lsi_and_validation_gives_it_back(shared):
    Q, prefs, D, second = made_tasks(1)
    translations = mated(1)
    worse = iter(range(0, -100, -1))
    lsi = tc.LSIRanker(n_components=4).fit_parallel(Q, D, translations=translations).weights_
    ranker = make(shared=shared)
    ranker.fit(Q, prefs, D, lambda weights: next(worse), second=second, start=lsi)
    assert ranker.n_steps_ == 0
    np.testing.assert_allclose(ranker.weights_.score(Q, D), lsi.score(Q, D), atol=1e-6)
    unmoved = make(shared=shared).set_params(rate=1e-30).fit(Q, prefs, D, second=second, start=lsi)
    np.testing.assert_allclose(unmoved.weights_.score(Q, D), lsi.score(Q, D), atol=1e-6)


def test_turned_round_hard_documents_are_ranked_by_the_model_turned_round(tmp_path):
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 50, 30), random_texts(rng, 60, 20)
    pairs = np.column_stack([rng.integers(0, 50, 40), np.arange(40)])

    def sources():
        there = JudgementSampler(*pairs.T, np.ones(40, dtype=int), n_docs=60)
        back = JudgementSampler(*pairs.T[::-1], np.ones(40, dtype=int), n_docs=50)
        return HardSource(there, Q, D, 2 * BLOCK, hard=1.0, depth=3), HardSource(
            back, D, Q, 2 * BLOCK, hard=1.0, depth=3
        )

    lsi = tc.LSIRanker(n_components=4).fit_parallel(Q, D, translations=pairs).weights_
    options = {"n_components": 4, "rate": 0.5, "margin": 0.2}
    there, back = sources()
    top, _ = turned(lsi).rank(D[:40], Q, 3)
    np.testing.assert_allclose(turned(lsi).score(D, Q), lsi.score(Q, D).T, atol=1e-12)
    seen = back.draw(0, lambda: turned(lsi))
    hard = (top[seen.query] == seen.worse[:, None]).any(axis=1)
    assert hard.mean() > 0.6
    whole = tc.learn.MultiTaskRanker(**options).fit(Q, there, D, reverse=sources()[1], start=lsi)
    there, back = sources()
    with pytest.raises(Killed):
        tc.learn.MultiTaskRanker(**options).fit(
            Q, there, D, callbacks=[tc.Checkpoint(tmp_path / "c", every=1), kill_at(12_288)], reverse=back, start=lsi
        )
    there, back = sources()
    again = tc.learn.MultiTaskRanker(**options).fit(
        Q, there, D, callbacks=[tc.Checkpoint(tmp_path / "c", every=1)], reverse=back, start=lsi
    )
    assert same_bits(whole.weights_, again.weights_)


def test_a_task_turned_round_needs_shared_factors():
    Q, prefs, D, second = made_tasks(1)
    with pytest.raises(ParameterError, match="turned round needs shared='both'"):
        make(shared="documents").fit(Q, prefs, D, second=second, reverse=prefs)


@pytest.mark.parametrize("shared", ["both", "documents"])
def test_the_second_task_tells_the_first_about_words_it_never_saw(shared):
    rng = np.random.default_rng(0)
    topic = np.arange(40) % 2
    D, Q = np.zeros((40, 20)), np.zeros((40, 6))
    for row in range(40):
        words = rng.choice(5, 2, replace=False) * 2 + topic[row]
        D[row, words + (10 if row >= 20 else 0)] = 1  # later documents use other words
        Q[row, rng.choice(3) * 2 + topic[row]] = 1
    Q2 = D.copy()
    Q2[:, :10] += D[:, 10:]  # English queries use the words of both
    prefs = tc.Preferences.from_labels(topic[:20], 2000)
    prefs2 = tc.Preferences.from_labels(topic, 2000)
    test = tc.Preferences.from_labels(topic, 500, random_state=1)
    test = test[(test.better >= 20) & (test.worse >= 20)]
    options = {"shared": shared, "n_components": 4, "spread": 0.05, "rate": 0.05}
    alone = tc.learn.MultiTaskRanker(**options).fit(Q, prefs, D)
    helped = tc.learn.MultiTaskRanker(**options).fit(Q, prefs, D, second=(Q2, prefs2))
    errors = [(ranker.margins(Q, test, D) <= 0).mean() for ranker in (alone, helped)]
    assert errors[1] < 0.05 < 0.2 < errors[0]


def test_without_a_second_task_it_is_a_low_rank_ranker_from_the_same_start():
    Q, prefs, D, _ = made_tasks(2)
    ranker = make(shared="documents").fit(Q, prefs, D)
    start = ranker._start(Q, D)
    U, V, _ = oracles.sgd_lowrank(
        start.U[:N_F].T.astype(float), start.V.T.astype(float), np.empty(0), as_vectors(prefs, Q, D), [0.2] * len(prefs)
    )
    np.testing.assert_allclose(ranker.weights_.query_factors, U.T, atol=5e-5)
    np.testing.assert_allclose(ranker.weights_.doc_factors, V.T, atol=5e-5)
    assert np.array_equal(ranker.second_weights_.query_factors, start.U[N_F:])


@variants
def test_rare_words_have_no_factors(variant):
    Q, prefs, D, second = made_tasks(3)
    ranker = make(**variant).fit(Q, prefs, D, second=second)
    n = variant.get("n_frequent", N_E)
    for factors, texts in (
        (ranker.weights_.query_factors, Q),
        (ranker.weights_.doc_factors, D),
        (ranker.second_weights_.query_factors, D),
    ):
        rare = oracles.ranking((texts.toarray() != 0).sum(axis=0))[n:]
        assert not factors[rare].any()
        assert factors.any(axis=1).sum() == min(n, texts.shape[1])


@variants
@pytest.mark.parametrize("split", [1, 17, 39])
def test_two_halves_of_partial_fit_are_the_whole(variant, split):
    Q, prefs, D, (Q2, prefs2) = made_tasks(4)
    whole = make(**variant).fit(Q, prefs, D, second=(Q2, prefs2))
    halves = make(**variant).partial_fit(Q, prefs[:split], D, second=(Q2, prefs2[:split]))
    halves.partial_fit(Q, prefs[split:], D, second=(Q2, prefs2[split:]))
    assert same_bits(whole.weights_, halves.weights_)
    assert same_bits(whole.second_weights_, halves.second_weights_)


@variants
def test_saved_and_loaded_it_learns_on_with_the_same_bits(variant, tmp_path):
    Q, prefs, D, second = made_tasks(5)
    ranker = make(**variant).fit(Q, prefs, D, second=second)
    ranker.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert loaded.get_params() == ranker.get_params() == clone(ranker).get_params()
    assert (loaded.n_features_in_, loaded.n_doc_features_, loaded.n_steps_) == (N_F, N_E, 80)
    for _ in range(2):
        assert same_bits(loaded.weights_, ranker.weights_)
        assert same_bits(loaded.second_weights_, ranker.second_weights_)
        for one in (loaded, ranker):
            one.partial_fit(Q, prefs, D, second=second)


@variants
def test_validation_sees_the_first_task_and_the_best_is_kept_whole(variant):
    Q, prefs, D, (Q2, prefs2) = made_tasks(6)
    seen, values = [], iter([0.1, 0.9, 0.5, 0.4, 0.3])

    def validation(weights):
        seen.append(weights)
        return next(values)

    ranker = make(validate_every=20, **variant).fit(Q, prefs, D, validation, second=(Q2, prefs2))
    upto = make(**variant).fit(Q, prefs[:10], D, second=(Q2, prefs2[:10]))
    assert {weights.shape for weights in seen} == {(N_F, N_E)}
    assert same_bits(seen[1], upto.weights_)
    assert same_bits(ranker.weights_, upto.weights_)
    assert same_bits(ranker.second_weights_, upto.second_weights_)


@pytest.mark.parametrize("shuffle", [False, True])
def test_weights_of_preferences_count_in_their_own_task(shuffle):
    Q, prefs, D, (Q2, prefs2) = made_tasks(7)
    faint = tc.Preferences(prefs2.query, prefs2.better, prefs2.worse, np.full(40, 1e-30))
    options = {"shared": "documents", "shuffle": shuffle, "random_state": 3}
    light = make(**options).fit(Q, prefs, D, second=(Q2, faint))
    alone = make(**options).fit(Q, prefs, D)
    np.testing.assert_allclose(light.weights_.query_factors, alone.weights_.query_factors, atol=1e-6)


@pytest.mark.parametrize("shuffle", [False, True])
def test_few_preferences_are_repeated_pass_after_pass(shuffle):
    _, _, _, (_, few) = made_tasks(8, n2=7)
    source = ArraySource(few, shuffle=shuffle, random_state=2)
    for step in (0, 3, 7, 20):
        taken = source.take(step, 25)
        assert len(taken) == 25
        for at in range(25):
            assert taken[at : at + 1] == source.draw(step + at, lambda: None)[:1]


@pytest.mark.slow
@pytest.mark.parametrize("shared", ["both", "documents"])
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(shared, tmp_path):
    rng = np.random.default_rng(0)
    Q, Q2, D = random_texts(rng, 50, 30), random_texts(rng, 40, 30), random_texts(rng, 60, 30)
    few = random_preferences(rng, 11, 40, 60)

    def fit(*callbacks, seed=0):
        source = TopSource(judged(Q, D), Q, D, 2 * BLOCK, random_state=seed)
        ranker = tc.learn.MultiTaskRanker(n_components=4, shared=shared, shuffle=shared == "both")
        return ranker.fit(Q, source, D, callbacks=callbacks, second=(Q2, few))

    whole = fit()
    for stop in (9001, 25_000):
        with pytest.raises(Killed):
            fit(tc.Checkpoint(tmp_path / "c", every=2000), kill_at(stop))
    resumed = fit(tc.Checkpoint(tmp_path / "c", every=2000))
    assert same_bits(whole.weights_, resumed.weights_)
    assert resumed.history_[0].step > 9000, "nothing was resumed"
    assert len(whole.history_) < 20, "few preferences make short chunks"
    with pytest.raises(InputError, match="another run"):
        fit(tc.Checkpoint(tmp_path / "c"), seed=1)


# -- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_is_named():
    Q, prefs, D, (Q2, prefs2) = made_tasks(0)
    beyond = tc.Preferences([9], [0], [1])  # a row of Q2, and of both queries together, but not of Q
    looking = TopSource(JudgementSampler.from_qrels({0: {1: 1}}, n_docs=11), Q2, D, 10)
    for arguments, second, message in (
        ((Q, prefs, D), (Q2[:, :5], prefs2), "Q2 has 5 columns and D 12; both must have one vocabulary"),
        ((Q, beyond, D), (Q2, prefs2), r"query\[0\] is row 9, but Q has 8 rows"),
        ((Q, prefs, D), (Q2, tc.Preferences([10], [0], [1])), r"query\[0\] is row 10, but Q2 has 10 rows"),
        ((Q, prefs, D), (Q2, tc.Preferences([], [], [])), "prefs is empty"),
        ((Q, prefs, D), (Q2, None), "prefs must be Preferences, .*; got NoneType"),
        ((Q, prefs, D), (Q2, looking), "a source that looks at the weights, which are those of the first"),
    ):
        with pytest.raises(InputError, match=message):
            make().fit(*arguments, second=second)
    third = made_third(0)
    for options, tasks in (({"shared": "documents"}, {"second": (Q2, prefs2)}), ({}, {})):
        with pytest.raises(ParameterError, match="a third task comes beside a second one, and needs shared='both'"):
            make(**options).fit(Q, prefs, D, third=third, **tasks)
    with pytest.raises(InputError, match="D3 has 4 columns and Q 9; both must have one vocabulary"):
        make().fit(Q, prefs, D, second=(Q2, prefs2), third=(third[0], third[1], third[2][:, :4]))
    with pytest.raises(ParameterError, match="The 'shared' parameter of MultiTaskRanker must be"):
        make(shared="all").fit(Q, prefs, D, second=(Q2, prefs2))
    with pytest.raises(ParameterError, match="partial_fit does not know"):
        make(schedule="linear").partial_fit(Q, prefs, D, second=(Q2, prefs2))
    with pytest.raises(InputError, match="Q has 5 columns, but this MultiTaskRanker was fitted with 9"):
        make().fit(Q, prefs, D, second=(Q2, prefs2)).partial_fit(Q[:, :5], prefs, D)


@pytest.mark.parametrize("n_first", [0, N_F + N_E, N_F - 1])
def test_a_damaged_border_between_the_tasks_is_refused(n_first):
    Q, prefs, D, second = made_tasks(0)
    state = make(shared="documents").fit(Q, prefs, D, second=second)._state
    meta, arrays = state.to_state()
    with pytest.raises(DamagedBundleError, match=f"{n_first} words of a first task do not fit"):
        type(state).from_state(meta | {"n_first": n_first}, arrays, "state")
