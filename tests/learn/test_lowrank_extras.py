"""Rare words and documents that stay as they are, of LowRankRanker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import tercet as tc
from support.learners import N_TERMS, Killed, judged, kill_at, made_data, same_bits, start_of, step_rates
from support.random_data import as_vectors, random_preferences, random_texts
from support.sources import TopSource
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.learn.loop import CHUNK
from tercet.learn.sources import BLOCK
from tercet.store import read_bundle
from tercet.weights import Diagonal, Identity, LowRank, Weights

seeds = st.integers(0, 10**6)
VARIANTS = [
    {"n_frequent": 5},
    {"n_frequent": 7, "diagonal": "learned"},
    {"n_frequent": 7, "tied": True, "scale_documents": True},
    {"learn_documents": False, "start": "lsi", "scale_documents": True},
    {"learn_documents": False, "n_frequent": 7, "diagonal": "learned"},
]
variants = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def frequent(D, n):
    """1.0 for the n words in most documents, ties by column."""
    count = (D.toarray() != 0).sum(axis=0)
    kept = np.zeros(D.shape[1])
    kept[oracles.ranking(count)[:n]] = 1.0
    return kept


def iterates(ranker, Q, D, prefs, kept=None):
    plain = tc.LowRankRanker(**{k: v for k, v in ranker.get_params().items() if k != "n_frequent"})
    return oracles.lowrank_iterates(
        *start_of(plain, Q, D),
        as_vectors(prefs, Q, D),
        step_rates(ranker, len(prefs)),
        margin=ranker.margin,
        learn_diagonal=ranker.diagonal == "learned",
        kept=kept,
    )


# -- rare words -------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, N_TERMS + 3), diagonal=st.sampled_from(["identity", "learned", None]))
def test_rare_words_have_no_factors_and_the_rest_learns_as_written(seed, n, diagonal):
    Q, D, prefs = made_data(seed)
    ranker = tc.LowRankRanker(n_components=4, n_frequent=n, rate=0.2, diagonal=diagonal, random_state=seed)
    kept = frequent(D, n)
    U, V, learned = iterates(ranker, Q, D, prefs, (kept, kept))[-1]
    weights = ranker.fit(Q, prefs, D).weights_
    np.testing.assert_allclose(weights.query_factors, U.T, atol=2e-5)
    np.testing.assert_allclose(weights.doc_factors, V.T, atol=2e-5)
    assert not weights.query_factors[kept == 0].any()
    assert not weights.doc_factors[kept == 0].any()
    if diagonal == "learned":
        np.testing.assert_allclose(weights.diagonal, learned, atol=2e-5)  # of all words
    else:
        assert weights.identity == (1.0 if diagonal else 0.0)


@pytest.mark.parametrize("tied", [False, True])
def test_rare_words_stay_out_of_latent_directions_too(tied):
    Q, D, prefs = made_data(1)
    weights = tc.LowRankRanker(n_components=3, n_frequent=6, start="lsi", tied=tied).fit(Q, prefs, D).weights_
    kept = frequent(D, 6)
    for factors in (weights.query_factors, weights.doc_factors):
        assert not factors[kept == 0].any()
        assert factors[kept == 1].any(axis=1).all()


def test_with_two_vocabularies_words_are_counted_on_their_own_side():
    rng = np.random.default_rng(3)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, 7)
    prefs = random_preferences(rng, 40, 9, 11)
    ranker = tc.LowRankRanker(n_components=4, n_frequent=3, diagonal=None, rate=0.2)
    kept = frequent(Q, 3), frequent(D, 3)
    U, V, _ = iterates(ranker, Q, D, prefs, kept)[-1]
    weights = ranker.fit(Q, prefs, D).weights_
    np.testing.assert_allclose(weights.query_factors, U.T, atol=2e-5)
    np.testing.assert_allclose(weights.doc_factors, V.T, atol=2e-5)


# -- documents as they are --------------------------------------------------------------------------------------------

BESIDE = {
    "identity": Identity(n_terms=N_TERMS, scale=2.0),
    "learned": Diagonal(weights=np.linspace(0.5, 2.0, N_TERMS, dtype=np.float32)),
}
QUERIES_ALONE = [
    {"start": "lsi"},
    {"diagonal": "learned"},
    {"diagonal": None, "n_frequent": 20, "start": "lsi"},
    {"scale_documents": True},
]


def low_rank(seed, n, m):
    rng = np.random.default_rng(seed)
    U, V = (rng.normal(0, 0.4, (size, 4)).astype(np.float32) for size in (n, m))
    return LowRank(query_factors=U, doc_factors=V)


def check_queries_alone(ranker, Q, prefs, D, start, kept, given_start=None):
    """U, and a diagonal where it is learned, are those of the equations, and V has the bits it had."""
    kept = (1.0, 1.0) if kept is None else kept
    U, V, learned = oracles.lowrank_iterates(
        *start,
        as_vectors(prefs, Q, D),
        step_rates(ranker, len(prefs)),
        kept=kept,
        margin=ranker.margin,
        learn_diagonal=ranker.diagonal == "learned",
        learn_documents=False,
    )[-1]
    weights = ranker.fit(Q, prefs, D, start=given_start).weights_
    np.testing.assert_allclose(weights.query_factors, U.T, atol=5e-5)
    np.testing.assert_array_equal(weights.doc_factors, (start[1] * kept[1]).T)
    np.testing.assert_array_equal(weights.doc_factors, V.T)
    if ranker.diagonal == "learned":
        np.testing.assert_allclose(weights.diagonal, learned, atol=5e-5)
    else:
        assert weights.identity == (start[2][0] if start[2].size else 0.0)


@settings(max_examples=60)
@given(
    seed=seeds,
    diagonal=st.sampled_from(["identity", "learned", None]),
    n=st.sampled_from([None, 5, 9]),
    start=st.sampled_from(["lsi", "random", "weights"]),
    schedule=st.sampled_from(["constant", "linear"]),
    margin=st.sampled_from([0.5, 1.0]),
)
def test_queries_learn_as_written_and_documents_stay(seed, diagonal, n, start, schedule, margin):
    Q, D, prefs = made_data(seed)
    params = {"n_components": 4, "diagonal": diagonal, "n_frequent": n, "random_state": seed}
    params |= {"rate": 0.5, "margin": margin, "schedule": schedule, "learn_documents": False}
    kept = None if n is None else (frequent(D, n), frequent(D, n))
    if start == "weights":
        part = low_rank(seed, N_TERMS, N_TERMS)
        weights = Weights([part] if diagonal is None else [part, BESIDE[diagonal]])
        offset = np.full(N_TERMS, weights.identity) + (0 if weights.diagonal is None else weights.diagonal)
        factors = part.query_factors.T.astype(float), part.doc_factors.T.astype(float), offset
        check_queries_alone(tc.LowRankRanker(**params), Q, prefs, D, factors, kept, weights)
    else:
        ranker = tc.LowRankRanker(start=start, **params)
        check_queries_alone(ranker, Q, prefs, D, start_of(ranker, Q, D), kept)


@settings(max_examples=20)
@given(seed=seeds, n=st.sampled_from([None, 5]))
def test_queries_of_another_vocabulary_learn_in_the_space_of_documents(seed, n):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, 7)
    prefs = random_preferences(rng, 60, 9, 11)
    part = low_rank(seed, N_TERMS, 7)
    ranker = tc.LowRankRanker(n_components=4, n_frequent=n, diagonal=None, rate=0.5, learn_documents=False)
    start = part.query_factors.T.astype(float), part.doc_factors.T.astype(float), np.empty(0)
    kept = None if n is None else (frequent(Q, n), frequent(D, n))
    check_queries_alone(ranker, Q, prefs, D, start, kept, Weights([part]))


@pytest.mark.parametrize("options", QUERIES_ALONE, ids=str)
def test_latent_vectors_of_all_documents_or_of_a_chunk_give_the_same_bits(options, monkeypatch):
    rng = np.random.default_rng(8)
    Q, D = random_texts(rng, 50, 30), random_texts(rng, 60, 30)
    prefs = random_preferences(rng, CHUNK + 500, 50, 60)
    found = []
    for most in (60 * 4, 60 * 4 - 1, 0):
        monkeypatch.setattr("tercet.learn.lowrank._MOST_LATENT", most)
        ranker = tc.LowRankRanker(n_components=4, rate=0.5, learn_documents=False, **options).fit(Q, prefs, D)
        assert (ranker._state.kernel_input(Q, D).latent is None) == (most < 60 * 4)
        found.append(ranker.weights_)
    assert same_bits(found[0], found[1])
    assert same_bits(found[0], found[2])


def test_given_weights_that_are_tied_or_learn_documents_can_be_gone_on_from():
    Q, D, prefs = made_data(3)
    tied = tc.LowRankRanker(n_components=4, tied=True).fit(Q, prefs, D).weights_
    weights = tc.LowRankRanker(n_components=4, learn_documents=False, rate=1.0).fit(Q, prefs, D, start=tied).weights_
    np.testing.assert_array_equal(weights.doc_factors, tied.doc_factors)
    assert np.abs(weights.query_factors - tied.query_factors).max() > 0.01


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"tied": True}, "tied=True"),
        ({"diagonal": None, "normalize": "latent"}, "normalize='latent'"),
    ],
)
def test_what_needs_v_to_learn_is_refused(options, what):
    Q, D, prefs = made_data(0)
    ranker = tc.LowRankRanker(n_components=4, learn_documents=False, **options)
    with pytest.raises(ParameterError, match=f"learn_documents=False leaves V as it is; it cannot be had with {what}$"):
        ranker.fit(Q, prefs, D)


def test_given_weights_whose_scores_are_cosines_are_refused():
    Q, D, prefs = made_data(0)
    lsi = tc.LSIRanker(n_components=4).fit(D).weights_
    with pytest.raises(ParameterError, match="it cannot be had with a start whose scores are cosines"):
        tc.LowRankRanker(n_components=4, learn_documents=False).fit(Q, prefs, D, start=lsi)


# -- what every learner must do ------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=seeds, diagonal=st.sampled_from(["identity", "learned", None]), tied=st.booleans())
def test_when_no_word_is_rare_nothing_changes_to_the_bit(seed, diagonal, tied):
    Q, D, prefs = made_data(seed)
    same = {"n_components": 4, "rate": 0.2, "diagonal": diagonal, "tied": tied, "random_state": seed}
    plain = tc.LowRankRanker(**same).fit(Q, prefs, D).weights_
    assert same_bits(plain, tc.LowRankRanker(n_frequent=N_TERMS, **same).fit(Q, prefs, D).weights_)


@variants
@pytest.mark.parametrize("split", [1, 30, 59])
def test_two_halves_of_partial_fit_are_the_whole(variant, split):
    Q, D, prefs = made_data(4)
    whole = tc.LowRankRanker(n_components=4, rate=0.2, **variant).fit(Q, prefs, D)
    halves = tc.LowRankRanker(n_components=4, rate=0.2, **variant)
    halves.partial_fit(Q, prefs[:split], D).partial_fit(Q, prefs[split:], D)
    assert same_bits(whole.weights_, halves.weights_)


@variants
def test_saved_and_loaded_it_learns_on_with_the_same_bits(variant, tmp_path):
    Q, D, prefs = made_data(5)
    ranker = tc.LowRankRanker(n_components=4, rate=0.2, **variant).partial_fit(Q, prefs[:30], D)
    ranker.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert loaded.get_params() == ranker.get_params()
    assert same_bits(loaded.weights_, ranker.weights_)
    assert same_bits(loaded.partial_fit(Q, prefs[30:], D).weights_, ranker.partial_fit(Q, prefs[30:], D).weights_)


def test_a_file_from_before_these_parameters_is_read_and_one_without_them_is_written(tmp_path):
    Q, D, prefs = made_data(5)
    tc.LowRankRanker(n_components=4).fit(Q, prefs, D).save(tmp_path / "plain")
    assert tc.load(tmp_path / "plain").get_params() == tc.LowRankRanker(n_components=4).get_params()
    written = read_bundle(tmp_path / "plain", kind="ranker").meta["params"]
    assert not {"n_frequent", "learn_documents"} & set(written)
    assert "learn_documents" not in read_bundle(tmp_path / "plain", kind="ranker").meta["state"]


@variants
def test_the_best_state_is_kept_whole(variant):
    Q, D, prefs = made_data(6)
    values = iter([0.1, 0.9, 0.5, 0.4])
    ranker = tc.LowRankRanker(n_components=4, rate=0.2, validate_every=20, **variant)
    ranker.fit(Q, prefs, D, validation=lambda weights: next(values))
    upto = tc.LowRankRanker(n_components=4, rate=0.2, **variant).fit(Q, prefs[:20], D)
    assert ranker.n_steps_ == 20
    assert same_bits(ranker.weights_, upto.weights_)
    # It learns on from there, not from where training ended.
    more = ranker.partial_fit(Q, prefs[20:], D).weights_
    assert same_bits(more, upto.partial_fit(Q, prefs[20:], D).weights_)


@variants
def test_weights_do_not_change_under_a_reader(variant):
    Q, D, prefs = made_data(2)
    ranker = tc.LowRankRanker(n_components=4, rate=0.2, **variant).partial_fit(Q, prefs[:30], D)
    weights = ranker.weights_
    scores = weights.score(Q, D)
    ranker.partial_fit(Q, prefs[30:], D)
    assert not same_bits(weights, ranker.weights_)
    assert np.array_equal(weights.score(Q, D), scores)


@pytest.mark.parametrize("change", [{"n_frequent": 0}, {"n_frequent": 1.5}, {"learn_documents": "no"}])
def test_parameters_out_of_range_are_named(change):
    Q, D, prefs = made_data(0)
    [name] = change
    with pytest.raises(ParameterError, match=f"The '{name}' parameter of LowRankRanker must be"):
        tc.LowRankRanker(**change).fit(Q, prefs, D)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a: a["U"].__setitem__(a["rare_query_words"] == 1, 1), "marked as rare has factors"),
        (lambda a: a.pop("rare_doc_words"), "of rare words is there without the other"),
        (lambda a: a.__setitem__("V", a["V"][:, :2]), "'V' has shape"),
    ],
)
def test_damaged_state_is_refused(damage, message):
    Q, D, prefs = made_data(0)
    state = tc.LowRankRanker(n_components=4, n_frequent=5).fit(Q, prefs, D)._state
    meta, arrays = state.to_state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    damage(arrays)
    with pytest.raises(DamagedBundleError, match=message):
        type(state).from_state(meta, arrays, "state")


@pytest.mark.parametrize("options", [{"tied": True}, {"diagonal": None, "normalize": "latent"}], ids=str)
def test_a_state_whose_documents_stay_and_learn_is_refused(options):
    Q, D, prefs = made_data(0)
    state = tc.LowRankRanker(n_components=4, **options).fit(Q, prefs, D)._state
    meta, arrays = state.to_state()
    with pytest.raises(DamagedBundleError, match="state: a V that stays is neither U nor part of a cosine"):
        type(state).from_state(meta | {"learn_documents": False}, arrays, "state")


# -- resuming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: tc.DenseRanker(rate=5.0),
        lambda: tc.LowRankRanker(n_components=4, n_frequent=20),
        lambda: tc.LowRankRanker(n_components=4, tied=True),
        lambda: tc.LowRankRanker(n_components=4, learn_documents=False, diagonal="learned", start="lsi", rate=1.0),
    ],
)
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(make, tmp_path):
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 50, 30), random_texts(rng, 60, 30)

    def source(n_steps=3 * BLOCK):
        return TopSource(judged(Q, D), Q, D, n_steps)

    whole = make().fit(Q, source(), D)
    for stop in (9000, 20_000):
        with pytest.raises(Killed):
            make().fit(Q, source(), D, callbacks=[tc.Checkpoint(tmp_path / "c", every=2000), kill_at(stop)])
    resumed = make().fit(Q, source(), D, callbacks=[tc.Checkpoint(tmp_path / "c", every=2000)])
    assert same_bits(whole.weights_, resumed.weights_)
    assert resumed.history_[0].step > 9000, "nothing was resumed"
    with pytest.raises(InputError, match="another run"):
        make().fit(Q, source(2 * BLOCK), D, callbacks=[tc.Checkpoint(tmp_path / "c")])
