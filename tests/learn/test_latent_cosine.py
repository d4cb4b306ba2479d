"""Low rank in the cosine of latent vectors, its start from translations, and hard negatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import tercet as tc
from support.learners import Killed, kill_at, made_data, same_bits, step_rates
from support.random_data import as_vectors, random_preferences, random_texts
from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler
from tercet.errors import InputError, ParameterError
from tercet.learn import ArraySource, Checkpoint, HardSource, LSIRanker
from tercet.learn.correlated import Beside, OffsetSource
from tercet.learn.multitask import TakingTurns, Turn
from tercet.weights import Diagonal, Identity, LowRank, Weights

seeds = st.integers(0, 10**6)


def make(**options):
    return tc.LowRankRanker(
        **{"n_components": 4, "diagonal": None, "normalize": "latent", "margin": 0.3, "rate": 0.1} | options
    )


def two_languages(seed=0, n=40):
    """Texts in 14 words, and the same in 9 others, on one of three subjects."""
    rng = np.random.default_rng(seed)
    return random_texts(rng, n, 14), random_texts(rng, n, 9), random_preferences(rng, 60, n, n)


# -- the step ---------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    seed=seeds,
    tied=st.booleans(),
    margin=st.sampled_from([0.1, 0.6]),
    schedule=st.sampled_from(["constant", "linear"]),
    n=st.sampled_from([None, 5]),
)
def test_steps_are_those_of_the_gradient_of_the_cosine(seed, tied, margin, schedule, n):
    Q, D, prefs = made_data(seed)
    ranker = make(tied=tied, margin=margin, schedule=schedule, n_frequent=n, random_state=seed)
    start = ranker._start(Q, D)
    U = start.U.T.astype(float)
    V = U if tied else start.V.T.astype(float)
    kept = np.ones(D.shape[1]) if n is None else start.rare_doc_words == 0
    texts = [(q * kept, better * kept, worse * kept) for q, better, worse in as_vectors(prefs, Q, D)]
    U, V = oracles.sgd_cosine(U, V, texts, step_rates(ranker, len(prefs)), margin)
    weights = ranker.fit(Q, prefs, D).weights_
    np.testing.assert_allclose(weights.query_factors, U.T, atol=1e-4)
    np.testing.assert_allclose(weights.doc_factors, V.T, atol=1e-4)
    np.testing.assert_allclose(weights.score(Q, D), oracles.lsi_cosine(Q.toarray(), D.toarray(), U.T, V.T), atol=1e-4)


def test_a_step_goes_down_the_slope_that_differences_show():
    Q, D, prefs = made_data(3)
    ranker, step, small = make(margin=5.0, rate=1e-3), prefs[:1], 1e-5
    start = ranker._start(Q, D)
    [(q, better, worse)] = as_vectors(step, Q, D)

    def gap(U):
        V = start.V.astype(float)
        u, b, w = q @ U, better @ V, worse @ V
        return u @ b / np.linalg.norm(u) / np.linalg.norm(b) - u @ w / np.linalg.norm(u) / np.linalg.norm(w)

    U = start.U.astype(float)
    slope = np.zeros_like(U)
    for position in np.ndindex(*U.shape):
        nudge = np.zeros_like(U)
        nudge[position] = small
        slope[position] = (gap(U + nudge) - gap(U - nudge)) / (2 * small)
    moved = ranker.fit(Q, step, D).weights_.query_factors - start.U
    np.testing.assert_allclose(moved, 1e-3 * slope, atol=1e-5)


def test_a_text_without_words_neither_moves_nor_breaks_anything():
    Q, D, prefs = made_data(4)
    empty = D.tolil()
    empty[int(prefs.better[0])] = 0
    weights = make().fit(Q, prefs, empty.tocsr()).weights_
    assert np.isfinite(weights.query_factors).all()
    assert np.isfinite(weights.doc_factors).all()


def test_saved_and_explained_it_gives_the_same_scores(tmp_path):
    Q, D, prefs = two_languages()
    ranker = make().fit(Q, prefs, D)
    ranker.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert loaded.get_params() == ranker.get_params()
    assert same_bits(loaded.weights_, ranker.weights_)
    scores = ranker.score_matrix(Q, D)
    explanation = loaded.explain(Q[[0]], D[[1]])
    assert explanation.score == pytest.approx(scores[0, 1])
    assert explanation.contribution.sum() == pytest.approx(scores[0, 1])
    for one in (loaded, ranker):
        one.partial_fit(Q, prefs, D)
    assert same_bits(loaded.weights_, ranker.weights_)


def test_what_it_does_not_go_with_is_refused():
    Q, D, prefs = made_data(0)
    with pytest.raises(ParameterError, match="without diagonal='identity'"):
        make(diagonal="identity").fit(Q, prefs, D)


# -- from two languages ------------------------------------------------------------------------------------------


def test_where_learning_does_not_help_validation_gives_the_start_back():
    Q, D, prefs = two_languages()
    values = iter([0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, -0.1, -0.2, -0.3, -0.4])
    lsi = LSIRanker(n_components=4).fit_parallel(Q, D).weights_
    ranker = make().fit(Q, prefs, D, start=lsi, validation=lambda weights: next(values))
    assert ranker.n_steps_ == 0
    np.testing.assert_allclose(ranker.weights_.score(Q, D), lsi.score(Q, D), atol=1e-6)
    squares = [np.square(F).sum() for F in (ranker.weights_.query_factors, ranker.weights_.doc_factors)]
    assert sum(squares) / 4 == pytest.approx(50, rel=1e-5)  # so that a rate of 0.1 is a small one


def test_a_start_whose_scores_are_cosines_is_learned_as_such():
    Q, D, prefs = two_languages()
    lsi = LSIRanker(n_components=4).fit_parallel(Q, D).weights_
    output = make().fit(Q, prefs, D, start=lsi)
    implied = make(normalize=None, diagonal="identity").fit(Q, prefs, D, start=lsi)
    assert same_bits(output.weights_, implied.weights_)
    with pytest.raises(ParameterError, match="without diagonal='learned'"):
        make(normalize=None, diagonal="learned").fit(Q, prefs, D, start=lsi)
    with pytest.raises(InputError, match=r"start='lsi' needs one vocabulary\. .* LSIRanker.fit_parallel"):
        make(start="lsi").fit(Q, prefs, D)


# -- given weights ----------------------------------------------------------------------------------------------------


def low_rank(rng, n=14, m=9, **options):
    U, V = (rng.standard_normal((size, 4)).astype(np.float32) for size in (n, m))
    return LowRank(query_factors=U, doc_factors=V, **options)


@pytest.mark.parametrize(
    ("options", "ranker"),
    [
        ({"typical_length": 1.0, "unit_queries": True}, {"normalize": None}),
        ({"typical_length": 1.0, "unit_queries": True}, {}),
        ({"scale": 2.5}, {"normalize": None}),
    ],
)
def test_before_the_first_step_scores_are_those_of_given_weights(rng, options, ranker):
    Q, D, prefs = two_languages()
    weights = Weights([low_rank(rng, **options)])
    start = make(rate=1e-30, **ranker).fit(Q, prefs, D, start=weights).weights_
    np.testing.assert_allclose(start.score(Q, D), weights.score(Q, D), atol=1e-5)
    again = make(**ranker, rate=0.01, margin=1.0).fit(Q, prefs, D, start=weights)
    assert not np.shares_memory(again.weights_.query_factors, weights.parts[0].query_factors)


@pytest.mark.parametrize(
    "offset", [None, Identity(n_terms=9, scale=3.0), Diagonal(weights=np.arange(9, dtype=np.float32))]
)
def test_what_stands_beside_a_low_rank_part_is_started_from_too(rng, offset):
    D, prefs = random_texts(rng, 40, 9), random_preferences(rng, 60, 40, 40)
    weights = Weights([low_rank(rng, n=9), *([] if offset is None else [offset])])
    learned = isinstance(offset, Diagonal)
    plain = tc.LowRankRanker(n_components=4, diagonal="learned" if learned else "identity", rate=1e-30)
    np.testing.assert_allclose(plain.fit(D, prefs, start=weights).score_matrix(D, D), weights.score(D, D), atol=1e-4)
    if offset is not None:
        with pytest.raises(ParameterError, match="beside its low-rank part; diagonal is None"):
            plain.set_params(diagonal=None).fit(D, prefs, start=weights)


def test_a_start_with_a_document_scale_or_tied_factors(rng):
    D, prefs = random_texts(rng, 40, 9), random_preferences(rng, 60, 40, 40)
    weights = tc.LowRankRanker(n_components=4, tied=True, scale_documents=True).fit(D, prefs).weights_
    again = tc.LowRankRanker(n_components=4, tied=True, scale_documents=True, rate=1e-30)
    again.fit(D, prefs, start=weights)
    np.testing.assert_allclose(again.score_matrix(D, D), weights.score(D, D), atol=1e-4)
    assert again.weights_.parts[0].tied
    with pytest.raises(ParameterError, match="scale_documents=True"):
        tc.LowRankRanker(n_components=4).fit(D, prefs, start=weights)


def test_weights_that_cannot_be_started_from_are_refused(rng):
    Q, D, prefs = two_languages()
    part = low_rank(rng)
    cosine = low_rank(rng, n=9, typical_length=1.0, unit_queries=True)
    for ranker, start, error, message in (
        (make(), "lsi", InputError, "start must be Weights"),
        (make(), Weights([part, part]), InputError, "a start has one low-rank part"),
        (make(), Weights([Identity(n_terms=9)]), InputError, "a start has one low-rank part"),
        (make(), Weights([part]) * -1.0, InputError, "it must count"),
        (make(), Weights([cosine, Identity(n_terms=9)]), InputError, "a cosine of latent vectors is learned alone"),
        (make(), Weights([cosine]), InputError, r"of 9 × 9 words, Q and D have \(14, 9\)"),
        (make(n_components=3), Weights([part]), InputError, "the start has 4 components; n_components is 3"),
        (make(tied=True), Weights([part]), ParameterError, "tied=True needs a start"),
    ):
        with pytest.raises(error, match=message):
            ranker.fit(Q, prefs, D, start=start)


# -- hard negatives ---------------------------------------------------------------------------------------------------


@pytest.fixture
def judged(rng):
    Q, D = random_texts(rng, 12, 20), random_texts(rng, 30, 20)
    links = np.column_stack((rng.integers(0, 12, 40), rng.integers(0, 30, 40)))
    return JudgementSampler.from_links(links, 30), Q, D


def test_hard_documents_are_among_the_best_that_are_not_as_good(judged):
    sampler, Q, D = judged
    weights = Weights([Identity(n_terms=20)])
    drawn = HardSource(sampler, Q, D, 5000, depth=4, hard=0.7).draw(0, lambda: weights)
    top, _ = weights.rank(Q, D, 4)
    hard = (top[drawn.query] == drawn.worse[:, None]).any(axis=1)
    relevant = np.array([sampler.grade_of(np.full(4, q), top[q]).astype(bool) | (top[q] == q) for q in range(12)])
    # Any document may be one of the best by chance, and a draw that is no worse one is replaced.
    expected = 0.7 * (1 - relevant.mean(axis=1))[drawn.query].mean()
    assert expected - 0.03 < hard.mean() < expected + 0.3 * 4 / 25 + 0.03
    assert (sampler.grade_of(drawn.query, drawn.worse) == 0).all()
    assert (drawn.worse != drawn.query).all()


def test_the_ranking_is_made_anew_every_so_many_steps(judged):
    sampler, Q, D = judged
    models = [Weights([Identity(n_terms=20, scale=scale)]) for scale in (1.0, -1.0)]
    source = HardSource(sampler, Q, D, 50_000, depth=3, hard=1.0, refresh_every=16_384)
    later = HardSource(sampler, Q, D, 50_000, depth=3, hard=1.0, refresh_every=16_384)
    for first, model in ((0, 0), (8192, 1), (16_384, 1), (24_576, 0)):
        drawn = source.draw(first, lambda model=model: models[model])
        refreshed = first // 16_384
        assert drawn == later.draw(first, lambda refreshed=refreshed: models[refreshed])


@pytest.mark.parametrize("n_steps", [3_000, 20_000])  # the fewer are drawn at once, so that no step is ever gone back
@pytest.mark.parametrize("again", [{}, {"identity_weight": 0.0}, {"random_state": 7}])
def test_a_source_that_was_used_before_gives_what_a_fresh_one_does(judged, n_steps, again):
    sampler, Q, D = judged
    source = HardSource(sampler, Q, D, n_steps, depth=3, hard=1.0)
    tc.LowRankRanker(n_components=2).fit(Q, source, D)
    used = tc.LowRankRanker(n_components=2, **again).fit(Q, source, D)
    fresh = tc.LowRankRanker(n_components=2, **again).fit(Q, HardSource(sampler, Q, D, n_steps, depth=3, hard=1.0), D)
    assert same_bits(used.weights_, fresh.weights_)


def test_sources_around_others_begin_these_anew(judged):
    sampler, Q, D = judged
    before, after = (Weights([Identity(n_terms=20, scale=scale)]) for scale in (1.0, -1.0))

    def offset():
        hard = HardSource(sampler, Q, D, 1_000, depth=3, hard=1.0)
        return OffsetSource(hard, Beside(Q, D, 1.0, 1.0), lambda weights: weights)

    def turns():
        hard = HardSource(sampler, Q, D, 1_000, depth=3, hard=1.0)
        return TakingTurns([Turn(hard, 12, 30), Turn(ArraySource(Preferences([0], [1], [2])), 12, 30)], 1.0)

    for make_source in (offset, turns):
        used = make_source()
        assert used.draw(0, lambda: before) != make_source().draw(0, lambda: after)
        used.begin()
        assert used.draw(0, lambda: after) == make_source().draw(0, lambda: after)


def test_a_killed_fit_goes_on_with_the_same_hard_documents(judged, tmp_path):
    sampler, Q, D = judged

    def source():
        return HardSource(sampler, Q, D, 20_000, refresh_every=16_384)

    whole = make(n_components=2).fit(Q, source(), D)
    with pytest.raises(Killed):
        make(n_components=2).fit(Q, source(), D, callbacks=[Checkpoint(tmp_path / "run", every=1), kill_at(12_288)])
    again = make(n_components=2).fit(Q, source(), D, callbacks=[Checkpoint(tmp_path / "run", every=1)])
    assert same_bits(whole.weights_, again.weights_)


def test_matrices_are_those_the_row_numbers_are_of(judged):
    sampler, Q, D = judged
    for call, message in (
        (lambda: HardSource(sampler, Q, D[:29], 10), "D has 29 rows, but the sampler draws from 30 documents"),
        (lambda: HardSource(sampler, Q[:5], D, 10), "Q has 5 rows, but the sampler has judgements of query 11"),
        (lambda: HardSource(sampler, Q, D, 10, hard=1.5), "hard must lie between 0 and 1; got 1.5"),
        (lambda: HardSource(sampler, Q, D, 10, depth=0), "depth"),
    ):
        with pytest.raises(InputError, match=message):
            call()
