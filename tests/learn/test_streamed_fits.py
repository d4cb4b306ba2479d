"""Every term-pair ranker learns from rows on disk what it learns from the same rows in memory, in bounded memory."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from support.learners import LEARNERS, Killed, every_learner, kill_at, same_bits
from support.memory import fits_within
from support.random_data import random_preferences, random_texts
from tercet.data import write_rows
from tercet.data.sampling import JudgementSampler
from tercet.errors import InputError
from tercet.learn.loop import CHUNK
from tercet.learn.sources import BLOCK

N_TERMS = 30
N_STEPS = 2 * CHUNK + 100


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory):
    """Q, D and preferences, and the first two as rows on disk, in several blocks."""
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 50, N_TERMS), random_texts(rng, 25, N_TERMS)
    folder = tmp_path_factory.mktemp("rows")
    stored = [write_rows(folder / name, [X], n_columns=N_TERMS) for name, X in (("q", Q), ("d", D))]
    return Q, D, random_preferences(rng, N_STEPS, 50, 25), *stored


@pytest.mark.slow
@every_learner()
def test_a_fit_on_stored_rows_has_the_bits_of_one_in_memory(make, data):
    Q, D, prefs, stored_Q, stored_D = data
    expected = make(n_terms=N_TERMS).fit(Q, prefs, D)
    ranker = make(n_terms=N_TERMS).fit(stored_Q, prefs, stored_D)
    assert same_bits(ranker.weights_, expected.weights_)
    assert same_bits(make(n_terms=N_TERMS).fit(Q, prefs, stored_D).weights_, expected.weights_)
    np.testing.assert_array_equal(ranker.margins(stored_Q, prefs, stored_D), expected.margins(Q, prefs, D))
    for found, wanted in zip(ranker.rank(stored_Q, stored_D, 7), expected.rank(Q, D, 7), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@every_learner("learns on")
def test_learning_on_from_stored_rows_has_the_same_bits(make, data):
    Q, D, prefs, stored_Q, stored_D = data
    expected, ranker = (make(n_terms=N_TERMS).fit(Q, prefs, D) for _ in range(2))
    expected.partial_fit(Q, prefs[:5000], D)
    ranker.partial_fit(stored_Q, prefs[:5000], stored_D)
    assert same_bits(ranker.weights_, expected.weights_)


def test_queries_and_documents_may_be_the_same_rows(data):
    _, D, _, _, stored_D = data
    prefs = random_preferences(np.random.default_rng(3), 1000, 25, 25)
    expected = tc.LowRankRanker(n_components=3).fit(D, prefs)
    assert same_bits(tc.LowRankRanker(n_components=3).fit(stored_D, prefs).weights_, expected.weights_)


def test_a_second_task_is_learned_from_stored_rows(data):
    Q, D, prefs, stored_Q, stored_D = data
    ranker, expected = (tc.learn.MultiTaskRanker(n_components=4, rate=0.3) for _ in range(2))
    expected.fit(Q, prefs, D, second=(Q, prefs[::-1]))
    ranker.fit(stored_Q, prefs, stored_D, second=(stored_Q, prefs[::-1]))
    assert same_bits(ranker.weights_, expected.weights_)
    assert same_bits(ranker.second_weights_, expected.second_weights_)


def test_refit_and_thin_take_stored_rows(data):
    Q, D, prefs, stored_Q, stored_D = data
    expected, ranker = (tc.SparseRanker(rate=3.0, l1=1e-3, refit=False).fit(Q, prefs, D) for _ in range(2))
    assert same_bits(
        ranker.refit_on_support(stored_Q, prefs, stored_D).weights_, expected.refit_on_support(Q, prefs, D).weights_
    )
    dense = tc.DenseRanker(rate=3.0).fit(Q, prefs, D)
    thinned = dense.thin(0.2, stored_Q, prefs, stored_D)
    assert same_bits(thinned.weights_, dense.thin(0.2, Q, prefs, D).weights_)


def test_validation_sees_the_same_weights(data):
    Q, D, prefs, stored_Q, stored_D = data
    seen: list[list[float]] = [[], []]
    for values, queries, docs in zip(seen, (Q, stored_Q), (D, stored_D), strict=True):
        tc.LowRankRanker(n_components=3, scale_documents=True, validate_every=1000).fit(
            queries, prefs, docs, validation=lambda weights, to=values: to.append(weights.score(Q, D).sum()) or to[-1]
        )
    assert len(seen[0]) > 3
    assert seen[0] == seen[1]


def judged(n_docs: int) -> JudgementSampler:
    rng = np.random.default_rng(1)
    return JudgementSampler.from_qrels(
        {q: {int(d): int(g) for d, g in zip(rng.permutation(n_docs)[:3], (2, 1, 0), strict=True)} for q in range(50)},
        n_docs=n_docs,
    )


def test_a_source_draws_the_same_from_stored_rows(data):
    Q, D, _, stored_Q, stored_D = data
    expected = tc.LowRankRanker(n_components=3).fit(Q, tc.learn.SampledSource(judged(25), BLOCK), D)
    ranker = tc.LowRankRanker(n_components=3).fit(stored_Q, tc.learn.SampledSource(judged(25), BLOCK), stored_D)
    assert same_bits(ranker.weights_, expected.weights_)


@pytest.mark.parametrize(
    "name",
    ["LowRankRanker scaled", "LowRankRanker of queries alone", "SparseRanker", "PrunedRanker", "CorrelatedRanker"],
)
def test_a_killed_run_goes_on_to_the_same_bits(name, data, tmp_path):
    _, _, prefs, Q, D = data
    make = partial(LEARNERS[name].make, n_terms=N_TERMS)
    expected = make().fit(Q, prefs, D)
    with pytest.raises(Killed):
        make().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "kept", every=1), kill_at(CHUNK + 1)])
    again = [write_rows(tmp_path / name, [X], n_columns=N_TERMS) for name, X in (("q", Q), ("d", D))]
    ranker = make().fit(again[0], prefs, again[1], callbacks=[tc.Checkpoint(tmp_path / "kept")])
    assert same_bits(ranker.weights_, expected.weights_)


def test_a_checkpoint_of_other_rows_is_refused(data, tmp_path):
    _, D, prefs, Q, stored_D = data
    tc.DiagonalRanker().fit(Q, prefs, stored_D, callbacks=[tc.Checkpoint(tmp_path / "kept")])
    other = write_rows(tmp_path / "other", [2 * D], n_columns=N_TERMS)
    with pytest.raises(InputError, match="another run"):
        tc.DiagonalRanker().fit(Q, prefs, other, callbacks=[tc.Checkpoint(tmp_path / "kept")])


# -- directions of the documents -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory):
    """Documents with four strong directions and some noise, in memory and on disk."""
    rng = np.random.default_rng(4)
    X = np.abs(rng.random((900, 4)) ** 3 @ (rng.random((4, 80)) ** 4)) + 0.01 * rng.random((900, 80))
    X[X < 0.05] = 0
    D = sparse.csr_array(X, dtype=np.float32)
    return D, write_rows(tmp_path_factory.mktemp("topics"), [D], n_columns=80)


@pytest.mark.parametrize("exact_up_to", [0, 6000])
def test_directions_of_stored_rows_are_those_in_memory(exact_up_to, topics, monkeypatch):
    monkeypatch.setattr("tercet.data.matrix.BLOCK_ENTRIES", 3000)
    monkeypatch.setattr("tercet.learn.lsi._EXACT_UP_TO", exact_up_to)
    D, stored = topics
    expected, found = (tc.LSIRanker(n_components=4).fit(X).weights_.doc_factors for X in (D, stored))
    np.testing.assert_allclose(np.abs((found * expected).sum(axis=0)), 1, atol=1e-3)


def test_a_start_from_directions_of_stored_rows(topics):
    D, stored = topics
    prefs = random_preferences(np.random.default_rng(6), 1, 900, 900)
    for n_frequent in (None, 30):
        expected, found = (
            tc.LowRankRanker(n_components=4, start="lsi", rate=1e-9, n_frequent=n_frequent).fit(X, prefs)
            for X in (D, stored)
        )
        W, V = expected.weights_.doc_factors, found.weights_.doc_factors
        np.testing.assert_allclose(V @ V.T, W @ W.T, atol=2e-3 * np.abs(W @ W.T).max())
        if n_frequent is not None:
            assert np.count_nonzero(V.any(axis=1)) == n_frequent


def test_what_needs_all_documents_reads_them(data):
    Q, D, prefs, stored_Q, stored_D = data
    ranker, expected = (tc.learn.CorrelatedRanker(words=tc.text.CorrelatedWords(n_frequent=9)) for _ in range(2))
    assert same_bits(ranker.fit(stored_Q, prefs, stored_D).weights_, expected.fit(Q, prefs, D).weights_)
    np.testing.assert_array_equal(ranker.score_matrix(Q, stored_D), expected.score_matrix(Q, D))
    ranker, expected = (tc.LSIRanker(n_components=3) for _ in range(2))
    assert same_bits(ranker.fit_parallel(stored_Q, stored_Q).weights_, expected.fit_parallel(Q, Q).weights_)


def test_wrong_widths_and_rows_are_refused(data):
    Q, _, prefs, stored_Q, stored_D = data
    with pytest.raises(InputError, match="Q has 7 columns and D 30"):
        tc.DiagonalRanker().fit(Q[:, :7], prefs, stored_D)
    with pytest.raises(InputError, match=r"query\[0\] is row 99"):
        tc.DiagonalRanker().fit(stored_Q, tc.Preferences([99], [0], [1]), stored_D)


# -- memory ---------------------------------------------------------------------------------------------------------

FITTING = """
import numpy as np
import tercet as tc
from tercet.data import open_rows
from tercet.data.sampling import LabelSampler
from tercet.learn import SampledSource

small, large = (open_rows(path) for path in sys.argv[1:3])
make = {
    "low-rank": lambda: tc.LowRankRanker(n_components=10, verbose=False),
    "diagonal": lambda: tc.DiagonalRanker(verbose=False),
}[sys.argv[4]]
source = lambda rows, n: SampledSource(LabelSampler(np.arange(rows.shape[0]) % 7), n)
make().fit(small, source(small, 100))  # compiles
drawn = source(large, 20_000)
with Limited(int(sys.argv[3])):
    make().fit(large.copy() if sys.argv[5] == "loaded" else large, drawn)
"""
MB = 2**20
N_COLUMNS, WORDS_A_ROW = 20_000, 100
# Rows of a chunk: those of its queries and of its documents, copied and laid out anew.
CHUNK_BYTES = 3 * CHUNK * WORDS_A_ROW * 8


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)

    def blocks(n: int):
        for _ in range(n):
            within = rng.integers(0, N_COLUMNS // WORDS_A_ROW, (5000, WORDS_A_ROW), dtype=np.int32)
            columns = within + np.arange(WORDS_A_ROW, dtype=np.int32) * (N_COLUMNS // WORDS_A_ROW)
            indptr = np.arange(5001) * WORDS_A_ROW
            yield sparse.csr_array((np.full(columns.size, 0.1, np.float32), columns.ravel(), indptr), (5000, N_COLUMNS))

    write_rows(folder / "small", blocks(1), n_columns=N_COLUMNS)
    assert write_rows(folder / "large", blocks(48), n_columns=N_COLUMNS).nnz * 8 > 180 * MB
    return folder


def allowed(model: int) -> int:
    """The model while it learns and as a value, two chunks, and some blocks of a pass over all rows."""
    return 2 * model + 2 * CHUNK_BYTES + 16 * MB


@pytest.mark.slow
@pytest.mark.parametrize(("ranker", "model"), [("low-rank", 2 * 10 * 4 * N_COLUMNS), ("diagonal", 4 * N_COLUMNS)])
def test_memory_is_the_model_and_some_chunks(ranker, model, large):
    assert allowed(model) < 72 * MB  # of 183
    assert fits_within(FITTING, large / "small", large / "large", allowed(model), ranker, "mapped")


@pytest.mark.slow
def test_memory_of_all_rows_would_be_noticed(large):
    assert not fits_within(FITTING, large / "small", large / "large", allowed(4 * N_COLUMNS), "diagonal", "loaded")
