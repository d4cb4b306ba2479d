"""What the CUDA source computes, as one block of one thread on this machine, against the kernels of the CPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.gpu_rankers import N_TERMS, RANKERS, same, some_preferences, some_texts
from support.host_gpu import COMPILER, HostGpu, on_host_gpu
from support.random_data import random_preferences, random_texts
from tercet.data.sampling import JudgementSampler
from tercet.errors import DeviceError, InputError, MissingExtraError, ParameterError
from tercet.gpu import device, find_gpu
from tercet.gpu.all_pairs import GpuPairs
from tercet.gpu.states import GpuLowRank, shared_words
from tercet.gpu.stepper import GpuStepper
from tercet.learn import HardSource, MultiTaskRanker, SampledSource
from tercet.text import vectorize

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler builds the kernels for this machine")


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKERS)
def test_one_block_takes_the_steps_of_the_cpu(name):
    Q, D, prefs = some_texts(), some_texts(seed=7), some_preferences()
    here = RANKERS[name]().fit(Q, prefs, D)
    gpu = HostGpu()
    with on_host_gpu(gpu):
        there = RANKERS[name]().fit(Q, prefs, D)
    assert len(gpu.launched) >= 2  # once over nothing, and then with steps
    same(there, here)
    assert there.n_steps_ == here.n_steps_
    if hasattr(here, "history_"):
        assert there.history_[-1].violation_rate == pytest.approx(here.history_[-1].violation_rate, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", RANKERS)
def test_steps_with_the_same_bits_every_time(name):
    """As one block of one thread a batch is one preference, so that the way by sums of integers is that of the CPU."""
    Q, D, prefs = some_texts(), some_texts(seed=7), some_preferences(100)
    here = RANKERS[name]().fit(Q, prefs, D)
    gpu = HostGpu()
    gpu.n_processors = 0  # one block at least
    with on_host_gpu(gpu, deterministic=True):
        there = RANKERS[name]().fit(Q, prefs, D)
    same(there, here)


@pytest.mark.parametrize("name", ["dense", "sparse", "sparse, on low rank"])
def test_all_runs_of_a_fit_have_the_same_bits_where_these_are_asked_for(name, monkeypatch):
    began = []
    monkeypatch.setattr("tercet.gpu.find_gpu", HostGpu)
    monkeypatch.setattr(
        GpuStepper, "begin", lambda self, begin=GpuStepper.begin: began.append(self.deterministic) or begin(self)
    )
    for deterministic in (True, False):
        began.clear()
        with device("cuda", deterministic=deterministic):
            RANKERS[name]().fit(some_texts(), some_preferences())
        assert set(began) == {deterministic}


def test_a_support_of_long_rows_is_learned_on_the_card(monkeypatch):
    monkeypatch.setattr("tercet.learn.support.LONG_ROW", 0.0)
    with on_host_gpu():
        there = RANKERS["sparse"]().fit(some_texts(), some_preferences())
    assert (there.weights_.sparse != there.weights_before_refit_.sparse).nnz > 0


def test_batches_of_integer_sums_are_the_sum_of_their_steps(monkeypatch):
    """All steps of a batch see the weights before it, and their changes are added up."""
    Q, rate = some_texts(), 0.3
    prefs = tc.Preferences([0] * 9, [1] * 9, [2] * 9)  # one after the other, a few of them would be enough
    monkeypatch.setattr(GpuPairs, "steps_before", 1e-9)  # the first alone, and then all 8
    monkeypatch.setattr(GpuPairs, "take_as_many_as_texts_allow", lambda *_: None)
    with on_host_gpu(deterministic=True):
        learned = tc.DenseRanker(rate=rate, schedule="constant").fit(Q, prefs).weights_.rows(np.arange(N_TERMS))
    query, better, worse = Q[:3].toarray().astype(np.float64)

    def after_batches(sizes):
        W = np.eye(N_TERMS)
        for size in sizes:
            if query @ W @ (better - worse) < 1:
                W += size * rate * np.outer(query, better - worse)
        return W

    np.testing.assert_allclose(learned, after_batches([1, 8]), rtol=1e-5, atol=1e-6)
    assert not np.allclose(learned, after_batches([1] * 9), rtol=1e-5, atol=1e-6)


def test_weights_margins_and_passes_of_given_preferences():
    Q, rng = some_texts(), np.random.default_rng(3)
    plain = some_preferences()
    prefs = tc.Preferences(
        plain.query, plain.better, plain.worse, weight=rng.random(300) + 0.5, margin=rng.random(300).astype(np.float32)
    )
    make = lambda: tc.LowRankRanker(n_components=5, epochs=3, shuffle=True, rate=0.2)  # noqa: E731
    here = make().fit(Q, prefs)
    with on_host_gpu():
        there = make().fit(Q, prefs)
    same(there, here)


def test_a_refit_by_hand_refuses_rows_that_there_are_not():
    Q, beyond = some_texts(), tc.Preferences([0], [10**6], [1])
    with on_host_gpu():
        ranker = tc.SparseRanker(rate=3.0, l1=2e-3).fit(Q, some_preferences())
        with pytest.raises(InputError, match="1000000"):
            ranker.refit_on_support(Q, beyond)


def test_sources_of_other_kinds_are_drawn_here():
    Q = some_texts()
    second = (some_texts(seed=4), some_preferences(200, seed=5))
    make = lambda: MultiTaskRanker(n_components=5, rate=0.2)  # noqa: E731
    here = make().fit(Q, some_preferences(), Q, second=second)
    with on_host_gpu():
        there = make().fit(Q, some_preferences(), Q, second=second)
    same(there, here)


def judgements() -> JudgementSampler:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 60, (200, 2)), axis=0)
    return JudgementSampler(pairs[:, 0], pairs[:, 1], rng.integers(0, 3, len(pairs)), n_docs=60)


def test_hard_negatives_are_ranked_by_the_weights_of_the_same_steps():
    """Though somebody wants to look at the weights between two rankings."""
    Q = some_texts()

    def fit():
        source, values = HardSource(judgements(), Q, Q, 20_000, depth=5, hard=1.0), iter(range(100))
        ranker = tc.LowRankRanker(n_components=5, rate=0.02, validate_every=5000, patience=None)
        return ranker.fit(Q, source, validation=lambda _: next(values))

    here = fit()
    with on_host_gpu():
        there = fit()
    same(there, here)


class Kill(Exception):
    """The end of a run that is cut short."""


def kill_at(step):
    def listen(event):
        if event.step >= step:
            raise Kill

    return listen


def test_what_is_drawn_on_a_card_is_drawn_the_same_here(tmp_path):
    """A GPU draws by counters; a run that began so goes on so on a CPU, and one that began here goes on by blocks."""
    Q = some_texts()

    def fit(path, *callbacks):
        source = SampledSource(judgements(), 12_000, random_state=3)
        ranker = tc.LowRankRanker(n_components=5, rate=0.02, validate_every=3000, patience=None)
        by_step = iter(range(100))
        checkpoint = tc.Checkpoint(tmp_path / path, every=3000)
        return ranker.fit(Q, source, validation=lambda _: next(by_step), callbacks=[checkpoint, *callbacks])

    with on_host_gpu():
        drawn_there = fit("there")
        with pytest.raises(Kill):
            fit("began-there", kill_at(6000))
    drawn_here = fit("here")
    with pytest.raises(Kill):
        fit("began-here", kill_at(6000))
    same(fit("began-there"), drawn_there)
    with on_host_gpu():
        same(fit("began-here"), drawn_here)
    with pytest.raises(AssertionError):
        same(drawn_here, drawn_there)


def test_checkpoints_of_both_hold_the_same_run(tmp_path):
    Q, prefs = some_texts(), some_preferences(9000)
    make = lambda: tc.DenseRanker(rate=1.0, validate_every=1000, patience=None)  # noqa: E731

    whole = make().fit(Q, prefs)
    value = lambda weights: float(weights.rows(np.arange(N_TERMS)).sum())  # noqa: E731
    with on_host_gpu(), pytest.raises(Kill):
        make().fit(Q, prefs, validation=value, callbacks=[tc.Checkpoint(tmp_path / "a", every=1000), kill_at(5000)])
    there_then_here = make().fit(Q, prefs, validation=value, callbacks=[tc.Checkpoint(tmp_path / "a", every=1000)])
    with pytest.raises(Kill):
        make().fit(Q, prefs, validation=value, callbacks=[tc.Checkpoint(tmp_path / "b", every=1000), kill_at(5000)])
    with on_host_gpu():
        here_then_there = make().fit(Q, prefs, validation=value, callbacks=[tc.Checkpoint(tmp_path / "b", every=1000)])
    assert there_then_here.n_steps_ == here_then_there.n_steps_ <= whole.n_steps_
    same(here_then_there, there_then_here)


@pytest.mark.slow
def test_checkpoints_are_written_and_listeners_told_in_mid_run(tmp_path, monkeypatch):
    """Chunks of a GPU are long, but not so long that a checkpoint comes late, or a curve has one point."""
    Q, prefs, written = some_texts(), some_preferences(200_000), {}

    def write(self, run):
        written.setdefault(run.stepper.name, []).append(run.done)
        self._written_at = run.done

    monkeypatch.setattr(tc.Checkpoint, "write", write)
    fit = lambda: tc.DiagonalRanker().fit(Q, prefs, callbacks=[tc.Checkpoint(tmp_path / "run", every=50_000)])  # noqa: E731
    fit()
    with on_host_gpu():
        there = fit()
        unwatched = tc.DiagonalRanker().fit(Q, prefs)
    assert written["host"] == written[""] == [53_248, 106_496, 159_744, 200_000]
    for ranker in there, unwatched:
        assert 20 <= len(ranker.history_) <= 30
        assert ranker.history_[-1].step == 200_000


def test_the_same_bits_after_a_kill_where_texts_are_gathered(tmp_path, monkeypatch):
    """Which preferences see the same weights depends neither on what was drawn ahead nor on checkpoints."""
    Q, prefs, gpu = some_texts(), some_preferences(9000), HostGpu()
    gpu.n_processors = 4
    monkeypatch.setattr("tercet.gpu.stepper.FROM_HOST", 4096)
    monkeypatch.setattr(GpuStepper, "_texts_fit", lambda *_: False)
    values = iter(range(100))

    def fit(*callbacks):
        ranker = tc.LowRankRanker(n_components=5, rate=0.3, validate_every=3000, patience=None)
        return ranker.fit(Q, prefs, validation=lambda _: next(values), callbacks=callbacks)

    with on_host_gpu(gpu, deterministic=True):
        whole = fit()
        with pytest.raises(Kill):
            fit(tc.Checkpoint(tmp_path / "run", every=3000), kill_at(6000))
        resumed = fit(tc.Checkpoint(tmp_path / "run", every=3000))
    terms = np.arange(N_TERMS)
    np.testing.assert_array_equal(resumed.weights_.rows(terms), whole.weights_.rows(terms))


def test_what_was_learned_on_a_card_is_saved_and_learns_on_here(tmp_path):
    Q, prefs = some_texts(), some_preferences()
    with on_host_gpu():
        ranker = tc.SparseRanker(rate=3.0, l1=2e-3).fit(Q, prefs)
    ranker.save(tmp_path / "ranker")
    again = tc.load(tmp_path / "ranker")
    same(again, ranker)
    again.partial_fit(Q, prefs[:50])
    assert again.n_steps_ == ranker.n_steps_ + 50


def test_vectors_on_disk_are_learned_from_on_a_card(tmp_path, monkeypatch):
    docs = {f"d{at}": f"w{at % 5} w{at % 7} w{at % 11}" for at in range(60)}
    queries = {f"q{at}": f"w{at % 5} w{at % 11}" for at in range(40)}
    vectors = vectorize(docs, queries, tmp_path / "vectors")
    prefs = tc.Preferences.from_qrels({at: {at: 1} for at in range(40)}, 2000, n_docs=60)
    gpu = HostGpu()
    monkeypatch.setattr("tercet.gpu.find_gpu", lambda: gpu)
    here, there = tc.LowRankRanker(n_components=5), tc.LowRankRanker(n_components=5)
    here.fit(vectors.queries, prefs, vectors.docs)
    assert not gpu.launched
    with device("cuda"):
        there.fit(vectors.queries, prefs, vectors.docs)
    assert len(gpu.launched) >= 2
    Q = vectors.queries.copy()
    np.testing.assert_allclose(there.weights_.score(Q, Q), here.weights_.score(Q, Q), rtol=1e-4, atol=1e-5)


def test_without_a_card_what_is_missing_is_named(monkeypatch):
    """CuPy is no package of the tests; where it is installed all the same, there may be a GPU as well."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    find_gpu.cache_clear()
    try:
        with pytest.raises(MissingExtraError, match=r"a GPU needs CuPy: .*gpu"), device("cuda"):
            pass
        with device("auto") as name:
            learned = tc.LowRankRanker(n_components=5).fit(some_texts(), some_preferences())
        assert (name, learned.n_steps_) == ("", 300)
    finally:
        find_gpu.cache_clear()
    with pytest.raises(ParameterError, match="device must be one of"), device("gpu"):
        pass


def test_a_card_and_a_cluster_are_not_both_asked_for():
    with tc.Cluster("here:2"), pytest.raises(ParameterError, match="a cluster shares them"), device("cuda"):
        pass


def test_a_failure_in_mid_run_leaves_the_last_checkpoint(tmp_path):
    """A GPU that fails at a launch: what was written before is there, and a CPU goes on from it."""
    Q, prefs = some_texts(), some_preferences(9000)

    class Failing(HostGpu):
        def launch(self, *args):
            if len(looked) == 5:
                raise DeviceError("the GPU failed")
            super().launch(*args)

    looked = []
    make = lambda: tc.LowRankRanker(n_components=5, rate=0.02, validate_every=1000, patience=None)  # noqa: E731
    steps = iter(range(1000))
    how = {
        "validation": lambda _: looked.append(1) or next(steps),
        "callbacks": [tc.Checkpoint(tmp_path / "run", every=1000)],
    }
    with on_host_gpu(Failing()), pytest.raises(DeviceError):
        make().fit(Q, prefs, **how)
    whole = make().fit(Q, prefs, validation=lambda _: next(steps))
    began_again = []
    resumed = make().fit(
        Q, prefs, validation=how["validation"], callbacks=[*how["callbacks"], lambda e: began_again.append(e.step)]
    )
    assert began_again[0] > 4000
    same(resumed, whole)


def test_fewer_steps_at_once_where_texts_share_their_words(monkeypatch):
    """A hundred blocks are too many where all texts have the same words, and not where each has its own."""
    same_words, own_words = np.ones((50, 20), np.float32), np.eye(50, 50, dtype=np.float32)
    taken = {}
    for name, rows in (("same", same_words), ("own", own_words)):
        texts = sparse.csr_array(rows)
        for ranker in (tc.LowRankRanker(n_components=2), tc.DenseRanker(), tc.DiagonalRanker()):
            gpu = HostGpu()
            gpu.n_processors = 100
            noted = []

            def begin_and_note(self, begin=GpuStepper.begin, noted=noted):
                begin(self)
                noted.append(self._state.n_blocks)

            with on_host_gpu(gpu), monkeypatch.context() as patch:
                patch.setattr(GpuStepper, "begin", begin_and_note)
                ranker.fit(texts, random_preferences(np.random.default_rng(0), 100, 50, 50))
            taken[name, type(ranker).__name__] = noted[0]
    assert taken["same", "DenseRanker"] == taken["same", "DiagonalRanker"] == GpuPairs.most_at_a_weight
    assert taken["same", "LowRankRanker"] == GpuLowRank.most_at_a_weight
    assert taken["own", "DenseRanker"] == taken["own", "LowRankRanker"] == 800
    assert taken["own", "DiagonalRanker"] == 1600


def test_shared_words_are_counted_over_pairs_of_texts():
    rng = np.random.default_rng(3)
    texts = random_texts(rng, 40, N_TERMS)
    has = texts.toarray() != 0
    both = sum((one & other).sum() for one in has for other in has)
    assert shared_words(texts) == pytest.approx(both / (40 * has.sum()))
    assert shared_words(sparse.csr_array((3, 5), dtype=np.float32)) == 0


@pytest.mark.parametrize("deterministic", [False, True])
def test_few_steps_at_once_at_the_beginning(deterministic):
    """A GPU of many blocks begins with one, and has at most so many at once as a share of the steps before."""

    class Noting(HostGpu):
        def launch(self, name, n_blocks, *args):
            asked.append(n_blocks)
            super().launch(name, n_blocks, *args)

    asked, gpu = [], Noting()
    gpu.n_processors = 100
    X = sparse.csr_array(np.eye(50, dtype=np.float32))
    with on_host_gpu(gpu, deterministic=deterministic):
        tc.LowRankRanker(n_components=2).fit(X, random_preferences(np.random.default_rng(0), 20_000, 50, 50))
    assert asked[:9] == [1] * 9
    assert 200 < max(asked) <= 1 + 20_000 // 64
