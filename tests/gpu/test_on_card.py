"""What only a real card can show. Without one these tests are skipped, and say why."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.card_rankers import N_TERMS, RANKERS, same, some_preferences, some_texts
from support.random_data import random_preferences, random_texts
from tercet.data.counters import Counters, draw_by_counters, placed
from tercet.data.sampling import JudgementSampler, LabelSampler, MixtureSampler
from tercet.errors import DeviceError, MissingExtraError
from tercet.gpu import find_card
from tercet.gpu.scoring import CardScorer
from tercet.gpu.stepper import CardExecutor
from tercet.learn import SampledSource
from tercet.learn.loop import executing_on
from tercet.weights import Dense, Diagonal, Identity, LowRank, Sparse, Weights

try:
    CARD = find_card()
    REASON = ""
except (DeviceError, MissingExtraError) as error:
    CARD, REASON = None, str(error)

pytestmark = pytest.mark.skipif(CARD is None, reason=REASON)


class OneBlock(CardExecutor):
    """Has all steps taken one after the other."""

    def stepper(self, run):
        stepper = super().stepper(run)
        begin = stepper.begin

        def begin_with_one() -> None:
            begin()
            stepper._state.n_blocks = 1

        stepper.begin = begin_with_one
        return stepper


@pytest.mark.parametrize("name", RANKERS)
def test_one_block_is_the_cpu_kernel_to_rounding(name):
    Q, D, prefs = some_texts(), some_texts(seed=7), some_preferences()
    here = RANKERS[name]().fit(Q, prefs, D)
    with executing_on(OneBlock(CARD)):
        there = RANKERS[name]().fit(Q, prefs, D)
    same(there, here)


@pytest.mark.parametrize("name", [name for name in RANKERS if "averaged" not in name])
def test_the_same_bits_every_time(name):
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 500, N_TERMS), random_texts(rng, 500, N_TERMS)
    prefs = random_preferences(rng, 20_000, 500, 500)
    fits = [RANKERS[name](device="cuda", deterministic=True).fit(Q, prefs, D) for _ in range(3)]
    first = fits[0].weights_.rows(np.arange(N_TERMS))
    for other in fits[1:]:
        np.testing.assert_array_equal(other.weights_.rows(np.arange(N_TERMS)), first)


def test_draws_are_those_of_a_cpu():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 300, (4000, 2)), axis=0)
    judged = JudgementSampler(pairs[:, 0], pairs[:, 1], rng.integers(0, 3, len(pairs)), n_docs=300, popular=0.3)
    ones = np.ones(61, np.int64)
    hardly_any_left = JudgementSampler(
        np.arange(61) // 60, np.arange(61), ones, n_docs=64, uniform_over="judgements", popular=1.0
    )
    labels = LabelSampler(rng.integers(0, 5, 300))
    for sampler in (judged, hardly_any_left, labels, MixtureSampler([(judged, 1.0), (labels, 2.0)])):
        steps = np.arange(5_000_000_000, 5_000_100_000)
        here = draw_by_counters(placed(sampler, np), Counters(np, 7, steps))
        there = draw_by_counters(placed(sampler, CARD.xp), Counters(CARD.xp, 7, CARD.xp.asarray(steps)))
        for one, other in zip(here, there, strict=True):
            np.testing.assert_array_equal(one, CARD.to_host(other))


@pytest.mark.parametrize("kind", [tc.DenseRanker, lambda **p: tc.SparseRanker(l1=0.0, refit=False, **p)])
def test_no_change_is_lost_where_all_blocks_change_one_entry(kind):
    Q, D = sparse.csr_array(np.eye(1, 3, dtype=np.float32)), sparse.csr_array(np.eye(3, dtype=np.float32)[1:])
    n = 20_000
    prefs = tc.Preferences(np.zeros(n, np.int32), np.zeros(n, np.int32), np.ones(n, np.int32))
    learned = kind(rate=2.0**-20, schedule="constant", device="cuda").fit(Q, prefs, D).weights_.rows([0])
    np.testing.assert_array_equal(np.asarray(learned)[0, 1:], [n * 2.0**-20, -n * 2.0**-20])


def test_a_product_of_more_terms_than_the_library_for_sparse_matrices_takes(monkeypatch):
    monkeypatch.setattr("tercet.gpu.scoring._LEAST", 0)
    Q, pairs = sparse.csr_array(np.ones((2200, 1000), np.float32)), sparse.csr_array(np.ones((1000, 1000), np.float32))
    D = sparse.csr_array(np.eye(60, 1000, dtype=np.float32))  # the product has 2.2e9 terms
    scores = CardScorer(CARD).score(Weights([Sparse(weights=pairs, scale=0.5)]), Q, D)
    np.testing.assert_array_equal(scores, np.full((2200, 60), 500.0))


def test_scores_and_rankings_are_those_of_a_cpu(monkeypatch):
    monkeypatch.setattr("tercet.gpu.scoring._LEAST", 0)
    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, 30, N_TERMS), random_texts(rng, 400, N_TERMS)
    D = sparse.csr_array(sparse.vstack([D, D[:50]]))  # equal scores
    U, V = rng.standard_normal((2, N_TERMS, 6)).astype(np.float32)
    pairs = sparse.random_array((N_TERMS, N_TERMS), density=0.2, format="csr", dtype=np.float32, rng=rng)
    for parts in (
        [Identity(n_terms=N_TERMS, scale=2.0), LowRank(query_factors=U, doc_factors=V)],
        [LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True)],
        [Sparse(weights=pairs), Diagonal(weights=np.abs(U[:, 0]))],
        [Dense(weights=pairs.toarray())],
    ):
        weights, scorer = Weights(parts), CardScorer(CARD)
        np.testing.assert_allclose(scorer.score(weights, Q, D), weights.score(Q, D), rtol=1e-12, atol=1e-12)
        docs, scores = scorer.rank(weights, Q, D, 20)
        expected = weights.rank(Q, D, 20)
        np.testing.assert_allclose(scores, expected[1], rtol=1e-12, atol=1e-12)
        assert (docs == expected[0]).mean() > 0.95  # sums of other orders may tell equal scores apart


def test_many_blocks_learn_as_well_as_one_core():
    """Texts of 20 topics; the share of test preferences in the right order, over five seeds."""
    rng = np.random.default_rng(2)
    topic = rng.integers(0, 20, 2000)
    word = np.where(
        rng.random((2000, 12)) < 0.5,
        topic[:, None] * 20 + rng.integers(0, 20, (2000, 12)),
        rng.integers(0, 400, (2000, 12)),
    )
    X = sparse.csr_array(
        (np.ones(word.size, np.float32), (np.repeat(np.arange(2000), 12), word.ravel())), shape=(2000, 400)
    )
    X.sum_duplicates()
    test = tc.Preferences.from_labels(topic, 5000, random_state=99)
    for make in (
        lambda **p: tc.LowRankRanker(n_components=20, rate=0.02, **p),
        lambda **p: tc.DenseRanker(rate=0.3, **p),
        lambda **p: tc.SparseRanker(rate=0.3, l1=1e-5, **p),
    ):
        right = {
            device: [
                np.mean(
                    make(device=device, random_state=seed)
                    .fit(X, SampledSource.from_labels(topic, 60_000, random_state=seed))
                    .margins(X, test)
                    > 0
                )
                for seed in range(5)
            ]
            for device in ("cpu", "cuda")
        }
        assert np.mean(right["cuda"]) > np.mean(right["cpu"]) - 0.01, right
