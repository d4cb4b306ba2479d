"""What a GPU has room for, what it is left with, and what is learned and scored on the CPU instead."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.gpu_rankers import N_TERMS, RANKERS, same, some_preferences, some_texts
from support.host_gpu import COMPILER, HostGpu, on_host_gpu
from support.random_data import random_texts
from tercet.errors import MemoryLimitError, ParameterError
from tercet.gpu.scoring import GpuScorer
from tercet.gpu.states import GpuLowRank
from tercet.gpu.stepper import ON_GPU, seconds_on_a_core
from tercet.learn import ArraySource, HashedRanker
from tercet.learn.diagonal import DiagonalState
from tercet.learn.loop import Run
from tercet.learn.progress import ProgressBar
from tercet.learn.state import Sgd
from tercet.weights import Dense, Diagonal, Identity, LowRank, Sparse, Weights, scoring_by

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler builds the kernels for this machine")


@pytest.mark.slow
def test_texts_that_do_not_fit_are_gathered_chunk_by_chunk():
    Q, prefs = some_texts(600), some_preferences(2000)
    make = lambda: tc.LowRankRanker(n_components=5, rate=0.2)  # noqa: E731
    here = make().fit(Q, prefs)
    small = HostGpu(memory=(4 + 8) * 2 * N_TERMS * 8)  # the factors, and what is copied of them at once
    assert 0.8 * small.memory < 8 * Q.nnz
    with on_host_gpu(small):
        there = make().fit(Q, prefs)
    same(there, here)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["low rank", "low rank, tied", "sparse"])
def test_what_is_learned_is_brought_back_a_few_rows_at_a_time(name, monkeypatch):
    """The GPU makes copies of what it brings back, and may have little room for them."""

    class Noting(HostGpu):
        def to_host(self, array):
            sizes.append(array.size)
            return super().to_host(array)

    sizes = []
    Q, prefs = some_texts(), some_preferences()
    here = RANKERS[name]().fit(Q, prefs)
    for module in ("states", "all_pairs"):
        monkeypatch.setattr(f"tercet.gpu.{module}.AT_ONCE", 100)
    with on_host_gpu(Noting()):
        there = RANKERS[name]().fit(Q, prefs)
    same(there, here)
    assert max(sizes) <= 100


@pytest.mark.slow
def test_a_sparse_w_is_refused_where_there_is_no_room_to_bring_it_back():
    memory = 4 * N_TERMS**2
    with on_host_gpu(HostGpu(memory)):
        tc.DenseRanker().fit(some_texts(), some_preferences())
        with pytest.raises(MemoryLimitError, match=rf"W of 40 by 40 words takes [\d,]+ bytes .* {memory:,} are free"):
            tc.SparseRanker().fit(some_texts(), some_preferences())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["low rank", "low rank, documents stay", "dense", "sparse"])
def test_texts_are_counted_as_they_are_put_on_a_card(name):
    """Documents that are the queries are there once, unless their columns are in another order."""
    Q, ranker = some_texts(), RANKERS[name]()
    ranker.l1_ = 0.0
    state = ranker._start(Q, Q)
    on_gpu = ON_GPU[type(state)](HostGpu(), state, deterministic=False)
    texts = on_gpu.lay_out(Q, Q)
    latent = () if texts.latent is None else (texts.latent,)
    n_bytes = sum({id(array): array.nbytes for array in (*texts.args, *latent)}.values())
    assert n_bytes - 32 <= on_gpu.bytes_of_texts(Q, Q) <= n_bytes  # less the ends of the last rows


@pytest.mark.slow
def test_latent_vectors_of_texts_stay_theirs_while_the_next_are_laid_out():
    """Though a kernel may still read them then."""
    state = tc.LowRankRanker(n_components=5, start="lsi", learn_documents=False)._start(some_texts(), some_texts())
    on_gpu = GpuLowRank(HostGpu(), state, deterministic=False)
    first, last = (on_gpu.lay_out(D, D) for D in (some_texts(), some_texts(20, seed=7)))
    for texts, D in ((first, some_texts()), (last, some_texts(20, seed=7))):
        np.testing.assert_allclose(texts.latent[:, :5], D @ state.V, rtol=1e-5)
        assert texts.latent is on_gpu.args(texts)[-2]


def test_what_a_card_cannot_take_is_refused_or_left_to_the_cpu():
    Q, prefs = some_texts(), some_preferences()
    with on_host_gpu(), pytest.raises(ParameterError, match="HashedRanker does not learn on a GPU"):
        HashedRanker(n_buckets=64).fit(Q, prefs)
    gpu = HostGpu()
    with on_host_gpu(gpu, strict=False):
        HashedRanker(n_buckets=64).fit(Q, prefs)
    assert not gpu.launched
    with on_host_gpu(HostGpu(memory=100)), pytest.raises(MemoryLimitError, match=r"W of 40 by 40 words takes 6,400"):
        tc.DenseRanker().fit(Q, prefs)


@pytest.mark.parametrize("how", [{"auto": True}, {"strict": False}])
@pytest.mark.parametrize("name", ["dense", "sparse", "low rank"])
def test_what_a_card_has_no_room_for_is_left_to_the_cpu(name, how, monkeypatch):
    monkeypatch.setattr("tercet.gpu.stepper.REPAID", 0.0)
    Q, prefs, gpu = some_texts(), some_preferences(), HostGpu(memory=100)
    with on_host_gpu(gpu, **how):
        there = RANKERS[name]().fit(Q, prefs)
    assert not gpu.launched
    same(there, RANKERS[name]().fit(Q, prefs))


@pytest.mark.slow
def test_progress_names_the_card_where_it_is_at_work(monkeypatch):
    titles = []

    class Noting(ProgressBar):
        def __init__(self, title, *args):
            titles.append(title)
            super().__init__(title, *args)

    monkeypatch.setattr("tercet.learn.loop.ProgressBar", Noting)
    with on_host_gpu(strict=False):
        tc.DiagonalRanker().fit(some_texts(), some_preferences())
        HashedRanker(n_buckets=64).fit(some_texts(), some_preferences())
    assert titles == ["DiagonalRanker on host", "HashedRanker"]


def test_a_step_of_a_diagonal_costs_the_words_of_its_texts():
    texts = sparse.csr_array(np.ones((60, 100), np.float32))
    state = DiagonalState(np.ones(100, np.float32))
    run = Run(state, ArraySource(some_preferences()), texts, texts, Sgd(1.0, "constant", 1.0), total=1_000_000)
    assert 1 < seconds_on_a_core(run) < 10


def test_auto_leaves_little_work_to_the_cpu():
    Q, prefs = some_texts(), some_preferences()
    gpu = HostGpu()
    with on_host_gpu(gpu, auto=True):
        tc.LowRankRanker(n_components=5).fit(Q, prefs)
    assert not gpu.launched


@pytest.mark.slow
def test_scores_and_rankings_are_those_without_a_scorer(monkeypatch):
    """The arithmetic of `GpuScorer`, by NumPy and SciPy in the place of CuPy."""
    monkeypatch.setattr("tercet.gpu.scoring._LEAST", 0)
    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, 30, N_TERMS), random_texts(rng, 80, N_TERMS)
    U, V = rng.standard_normal((2, N_TERMS, 6)).astype(np.float32)
    pairs = sparse.random_array((N_TERMS, N_TERMS), density=0.2, format="csr", dtype=np.float32, rng=rng)
    for parts in (
        [Identity(n_terms=N_TERMS, scale=2.0), LowRank(query_factors=U, doc_factors=V, scale=-0.5)],
        [LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True, scale=-2.0)],
        [Sparse(weights=pairs), Diagonal(weights=np.abs(U[:, 0]))],
        [Dense(weights=pairs.toarray())],
    ):
        weights, scorer = Weights(parts), GpuScorer(HostGpu())
        np.testing.assert_allclose(scorer.score(weights, Q, D), weights.score(Q, D), rtol=1e-10, atol=1e-12)
        with scoring_by(scorer):
            docs, scores = weights.rank(Q, D, 20)
        expected = weights.rank(Q, D, 20)
        np.testing.assert_array_equal(docs, expected[0])
        np.testing.assert_allclose(scores, expected[1], rtol=1e-10, atol=1e-12)


def test_what_a_card_has_no_memory_to_score_is_scored_here(monkeypatch):
    monkeypatch.setattr("tercet.gpu.scoring._LEAST", 0)

    class Full(HostGpu):
        freed = 0

        def launch(self, *args):
            raise MemoryLimitError("the GPU has no memory left")

        def free_unused(self):
            self.freed += 1

    rng = np.random.default_rng(1)
    Q, D = random_texts(rng, 30, N_TERMS), random_texts(rng, 80, N_TERMS)
    pairs = sparse.random_array((N_TERMS, N_TERMS), density=0.2, format="csr", dtype=np.float32, rng=rng)
    weights, gpu = Weights([Sparse(weights=pairs)]), Full()
    scorer = GpuScorer(gpu)
    scores, ranked = weights.score(Q, D), weights.rank(Q, D, 20)
    with scoring_by(scorer):
        np.testing.assert_array_equal(weights.score(Q, D), scores)
        for one, other in zip(weights.rank(Q, D, 20), ranked, strict=True):
            np.testing.assert_array_equal(one, other)
    assert gpu.freed >= 2
    assert not scorer._docs
    assert scorer._last is None
