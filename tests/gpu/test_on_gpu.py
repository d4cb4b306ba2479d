"""What only a real GPU can show. Without one these tests are skipped, and say why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.gpu_rankers import N_TERMS, RANKERS, same, some_preferences, some_texts
from support.random_data import random_preferences, random_texts
from tercet.data.counters import Counters
from tercet.data.sampling import JudgementSampler, LabelSampler, MixtureSampler
from tercet.errors import DeviceError, InputError, MemoryLimitError, MissingExtraError
from tercet.gpu import device, find_gpu
from tercet.gpu.scoring import GpuScorer
from tercet.gpu.stepper import GpuExecutor, GpuStepper
from tercet.learn import HardSource, SampledSource
from tercet.learn.loop import executing_on
from tercet.text import vectorize
from tercet.weights import Dense, Diagonal, Identity, LowRank, Sparse, Weights, scoring_by

try:
    GPU = find_gpu()
    REASON = ""
except (DeviceError, MissingExtraError) as error:
    GPU, REASON = None, str(error)

pytestmark = pytest.mark.skipif(GPU is None, reason=REASON)


class OneBlock(GpuExecutor):
    """Has all steps taken one after the other."""

    def stepper(self, run):
        stepper = super().stepper(run)
        begin = stepper.begin

        def begin_with_one() -> None:
            begin()
            stepper._state.n_blocks = 1

        stepper.begin = begin_with_one
        return stepper


@contextmanager
def no_memory_left() -> Iterator[None]:
    """Within the block, CuPy has no memory for another array."""
    pool = GPU.xp.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=max(1, pool.total_bytes()))
    try:
        yield
    finally:
        pool.set_limit(size=0)


@pytest.mark.parametrize("name", RANKERS)
def test_one_block_is_the_cpu_kernel_to_rounding(name):
    Q, D, prefs = some_texts(), some_texts(seed=7), some_preferences()
    here = RANKERS[name]().fit(Q, prefs, D)
    with executing_on(OneBlock(GPU)):
        there = RANKERS[name]().fit(Q, prefs, D)
    same(there, here)


@pytest.mark.parametrize("name", RANKERS)
def test_the_same_bits_every_time(name):
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 500, N_TERMS), random_texts(rng, 500, N_TERMS)
    prefs = random_preferences(rng, 20_000, 500, 500)
    with device("cuda", strict=True, deterministic=True):
        fits = [RANKERS[name]().fit(Q, prefs, D) for _ in range(3)]
    first = fits[0].weights_.rows(np.arange(N_TERMS))
    for other in fits[1:]:
        np.testing.assert_array_equal(other.weights_.rows(np.arange(N_TERMS)), first)


@pytest.mark.parametrize("name", ["low rank", "low rank, documents stay", "dense", "sparse"])
def test_texts_that_are_gathered_while_the_card_is_at_work_give_the_same_bits(name, monkeypatch):
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 5000, N_TERMS), random_texts(rng, 5000, N_TERMS)
    prefs = random_preferences(rng, 100_000, 5000, 5000)
    fits = []
    for fits_there in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(GpuStepper, "_texts_fit", lambda *_, fits_there=fits_there: fits_there)
            with device("cuda", strict=True, deterministic=True):
                fits.append(RANKERS[name]().fit(Q, prefs, D))
    there, gathered = (ranker.weights_.rows(np.arange(N_TERMS)) for ranker in fits)
    np.testing.assert_array_equal(gathered, there)


@pytest.mark.parametrize("name", ["low rank", "low rank, tied", "sparse"])
def test_what_is_learned_is_brought_back_a_few_rows_at_a_time(name, monkeypatch):
    Q, prefs = some_texts(), some_preferences()
    here = RANKERS[name]().fit(Q, prefs)
    for module in ("states", "all_pairs"):
        monkeypatch.setattr(f"tercet.gpu.{module}.AT_ONCE", 100)
    with executing_on(OneBlock(GPU)):
        there = RANKERS[name]().fit(Q, prefs)
    same(there, here)


def test_a_refit_by_hand_refuses_rows_that_there_are_not():
    with device("cuda", strict=True):
        ranker = tc.SparseRanker(rate=3.0, l1=2e-3).fit(some_texts(), some_preferences())
        with pytest.raises(InputError, match="1000000"):
            ranker.refit_on_support(some_texts(), tc.Preferences([0], [10**6], [1]))


def test_hard_negatives_are_ranked_by_the_weights_of_the_same_steps():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 60, (200, 2)), axis=0)
    sampler = JudgementSampler(pairs[:, 0], pairs[:, 1], rng.integers(0, 3, len(pairs)), n_docs=60)
    Q = some_texts()
    fit = lambda: (  # noqa: E731
        tc.LowRankRanker(n_components=5, rate=0.02)
        .fit(Q, HardSource(sampler, Q, Q, 20_000, depth=5, hard=1.0))
        .weights_.rows(np.arange(N_TERMS))
    )
    here = fit()
    with executing_on(OneBlock(GPU)):
        there = fit()
    # Rounding may turn a rank around, so that a few of the preferences are others.
    assert np.corrcoef(here.ravel(), there.ravel())[0, 1] > 0.99


class Kill(Exception):
    """The end of a run that is cut short."""


def kill_at_5000(event) -> None:
    if event.step >= 5000:
        raise Kill


@pytest.mark.parametrize("begins_there", [True, False])
def test_a_run_goes_on_on_a_card_and_on_a_cpu(tmp_path, begins_there):
    Q, prefs = some_texts(), some_preferences(9000)

    def fit(on_gpu, *callbacks):
        ranker = tc.DenseRanker(rate=1.0)
        if not on_gpu:
            return ranker.fit(Q, prefs, callbacks=callbacks)
        with executing_on(OneBlock(GPU)):
            return ranker.fit(Q, prefs, callbacks=callbacks)

    whole, checkpoint = fit(False), tc.Checkpoint(tmp_path / "run", every=1000)
    with pytest.raises(Kill):
        fit(begins_there, checkpoint, kill_at_5000)
    resumed = fit(not begins_there, checkpoint)
    assert resumed.n_steps_ == whole.n_steps_
    same(resumed, whole)


def test_without_memory_in_mid_run_the_last_checkpoint_is_kept(tmp_path, monkeypatch):
    Q, prefs = some_texts(), some_preferences(200_000)
    monkeypatch.setattr(GpuStepper, "_texts_fit", lambda *_: False)
    checkpoint = tc.Checkpoint(tmp_path / "run", every=50_000)
    pool, output = GPU.xp.get_default_memory_pool(), []

    def fill(event):
        if event.step >= 100_000:
            pool.free_all_blocks()  # what was freed before would serve
            pool.set_limit(size=1)

    try:
        with device("cuda"), pytest.raises(MemoryLimitError, match="no memory left"):
            tc.DiagonalRanker().fit(Q, prefs, callbacks=[checkpoint, fill])
    finally:
        pool.set_limit(size=0)
    with device("cuda"):
        resumed = tc.DiagonalRanker().fit(Q, prefs, callbacks=[checkpoint, lambda e: output.append(e.step)])
    assert output[0] > 100_000
    assert resumed.n_steps_ == 200_000


@pytest.mark.parametrize("strict", [True, False])
def test_a_w_that_fits_nowhere_is_refused(strict):
    Q = sparse.csr_array((np.ones(60, np.float32), (np.arange(60), np.arange(60) * 7000)), shape=(60, 420_000))
    with device("cuda", strict=strict), pytest.raises(MemoryLimitError, match=r"420,000"):
        tc.SparseRanker().fit(Q, some_preferences())


def test_what_there_is_no_memory_to_score_is_scored_here(monkeypatch):
    monkeypatch.setattr("tercet.gpu.scoring._LEAST", 0)
    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, 300, N_TERMS), random_texts(rng, 4000, N_TERMS)
    weights = Weights([Dense(weights=rng.standard_normal((N_TERMS, N_TERMS)).astype(np.float32))])
    scores, ranked = weights.score(Q, D), weights.rank(Q, D, 20)
    with scoring_by(GpuScorer(GPU)):
        with no_memory_left():
            np.testing.assert_array_equal(weights.score(Q, D), scores)
            for one, other in zip(weights.rank(Q, D, 20), ranked, strict=True):
                np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(weights.score(Q, D), scores, rtol=1e-12, atol=1e-12)


def test_vectors_on_disk_are_learned_from(tmp_path):
    docs = {f"d{at}": f"w{at % 5} w{at % 7} w{at % 11}" for at in range(60)}
    queries = {f"q{at}": f"w{at % 5} w{at % 11}" for at in range(40)}
    vectors = vectorize(docs, queries, tmp_path / "vectors")
    prefs = tc.Preferences.from_qrels({at: {at: 1} for at in range(40)}, 2000, n_docs=60)
    here, there = (tc.LowRankRanker(n_components=5) for _ in range(2))
    here.fit(vectors.queries, prefs, vectors.docs)
    with executing_on(OneBlock(GPU)):
        there.fit(vectors.queries, prefs, vectors.docs)
    Q = vectors.queries.copy()
    np.testing.assert_allclose(there.weights_.score(Q, Q), here.weights_.score(Q, Q), rtol=1e-3, atol=1e-4)


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
        here = sampler.drawn(Counters(np, 7, steps))
        there = sampler.placed(GPU.xp).drawn(Counters(GPU.xp, 7, GPU.xp.asarray(steps)))
        for one, other in zip(here, there, strict=True):
            np.testing.assert_array_equal(one, GPU.to_host(other))


@pytest.mark.parametrize("kind", [tc.DenseRanker, lambda **p: tc.SparseRanker(l1=0.0, refit=False, **p)])
def test_no_change_is_lost_where_all_blocks_change_one_entry(kind):
    Q, D = sparse.csr_array(np.eye(1, 3, dtype=np.float32)), sparse.csr_array(np.eye(3, dtype=np.float32)[1:])
    n = 20_000
    prefs = tc.Preferences(np.zeros(n, np.int32), np.zeros(n, np.int32), np.ones(n, np.int32))
    with device("cuda", strict=True):
        learned = kind(rate=2.0**-20, schedule="constant").fit(Q, prefs, D).weights_.rows([0])
    np.testing.assert_array_equal(np.asarray(learned)[0, 1:], [n * 2.0**-20, -n * 2.0**-20])


def test_a_product_of_more_terms_than_the_library_for_sparse_matrices_takes(monkeypatch):
    monkeypatch.setattr("tercet.gpu.scoring._LEAST", 0)
    Q, pairs = sparse.csr_array(np.ones((2200, 1000), np.float32)), sparse.csr_array(np.ones((1000, 1000), np.float32))
    D = sparse.csr_array(np.eye(60, 1000, dtype=np.float32))  # the product has 2.2e9 terms
    scores = GpuScorer(GPU).score(Weights([Sparse(weights=pairs, scale=0.5)]), Q, D)
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
        weights, scorer = Weights(parts), GpuScorer(GPU)
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
        right: dict[str, list[float]] = {"cpu": [], "cuda": []}
        for name, seed in product(right, range(5)):
            with device(name, strict=True):
                ranker = make(random_state=seed).fit(X, SampledSource.from_labels(topic, 60_000, random_state=seed))
            right[name].append(np.mean(ranker.margins(X, test) > 0))
        assert np.mean(right["cuda"]) > np.mean(right["cpu"]) - 0.01, right
