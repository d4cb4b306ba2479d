"""Successive halving: the winner has the bits of a fit that never stopped."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from reproductions.halving import successive_halving
from tercet.errors import DivergedError

RATES = (1e-6, 1e-4, 0.01, 0.3)
N_STEPS = 20_000  # five chunks


@pytest.fixture
def checkerboard() -> tuple[sparse.csr_array, np.ndarray]:
    """Texts of two classes without a common word, each word in few texts: word matching alone cannot rank them."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = np.zeros((120, 40), dtype=np.float32)
    for row, label in enumerate(y):
        X[row, rng.choice(20, 4, replace=False) * 2 + label] = 0.5
    return sparse.csr_array(X), y


@pytest.fixture
def texts(checkerboard) -> tuple[sparse.csr_array, tc.Preferences]:
    X, y = checkerboard
    return X, tc.Preferences.from_labels(y, N_STEPS, random_state=0)


def share_right(X, prefs):
    def measure(weights: tc.Weights) -> float:
        return float((weights.score_rows(X[prefs.query], X[prefs.better]) > 0.5).mean())

    return measure


def low_rank(rate: float, **settings) -> tc.LowRankRanker:
    return tc.LowRankRanker(n_components=3, rate=rate, verbose=False, **settings)


def dense(ranker) -> np.ndarray:
    eye = sparse.eye_array(ranker.weights_.shape[0], format="csr")
    return ranker.weights_.score(eye, eye)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        low_rank,
        lambda rate: low_rank(rate, schedule="linear", shuffle=True),
        lambda rate: tc.SparseRanker(rate=rate, l1=1e-4, verbose=False),  # which refits at the end
        lambda rate: tc.DenseRanker(rate=rate, verbose=False),
    ],
)
@pytest.mark.parametrize("validates", [False, True])
def test_the_winner_has_the_bits_of_a_straight_fit(texts, make, validates):
    X, prefs = texts
    measure = share_right(X, prefs)
    more = {"validation": measure} if validates else {}
    rankers = [make(rate) for rate in RATES]
    fits: list[object] = []

    def fit(ranker, callbacks):
        fits.append(ranker)
        ranker.fit(X, prefs, callbacks=callbacks, **more)

    halving = successive_halving(rankers, fit, measure)
    straight = make(RATES[halving.best]).fit(X, prefs, **more)
    winner = rankers[halving.best]
    np.testing.assert_array_equal(dense(winner), dense(straight))
    assert winner.n_steps_ == straight.n_steps_
    assert [(event.step, event.validation) for event in winner.history_] == [
        (event.step, event.validation) for event in straight.history_
    ]
    if not validates:
        assert sorted(halving.shares) == [0.25, 0.25, 0.5, 0.5]
        assert [fits.count(ranker) for ranker in rankers].count(1) == 2
        assert halving.values[halving.best] == max(
            value for value, share in zip(halving.values, halving.shares, strict=True) if share == 0.5
        )


def test_a_source_that_looks_at_weights_continues_to_the_same_bits(texts, checkerboard):
    X, y = checkerboard
    grades = [(q, d) for q in range(30) for d in range(120) if y[q] == y[d]]
    query, doc = np.array(grades).T

    def source() -> tc.learn.HardSource:
        sampler = tc.data.JudgementSampler(query, doc, np.ones(len(query), dtype=np.int64), n_docs=120)
        return tc.learn.HardSource(sampler, X, X, N_STEPS, random_state=0, depth=10, refresh_every=8192)

    rankers = [low_rank(rate) for rate in (0.01, 0.1)]
    halving = successive_halving(
        rankers, lambda r, callbacks: r.fit(X, source(), callbacks=callbacks), share_right(X, texts[1])
    )
    straight = low_rank((0.01, 0.1)[halving.best]).fit(X, source())
    np.testing.assert_array_equal(dense(rankers[halving.best]), dense(straight))


def test_a_ranker_that_diverges_is_left_out(texts):
    X, prefs = texts
    rankers = [low_rank(rate) for rate in (1e12, 0.1)]
    halving = successive_halving(rankers, lambda r, c: r.fit(X, prefs, callbacks=c), share_right(X, prefs))
    assert halving.best == 1
    assert np.isnan(halving.values[0])
    rankers = [low_rank(rate) for rate in (1e12, 1e13)]
    with pytest.raises(DivergedError, match="every setting diverged"):
        successive_halving(rankers, lambda r, c: r.fit(X, prefs, callbacks=c), share_right(X, prefs))


@pytest.mark.parametrize(
    ("ends", "best", "last_fits"),
    [
        ((100, 100, 100, 100), 3, [3]),
        ((100, 100, 100, 70), 2, [3, 2]),  # after the last rung
        ((100, 80, 70, 70), 0, [3, 2, 1, 0]),
        ((100, 100, 45, 45), 1, [1]),  # all that are left, before it
    ],
)
def test_where_the_winner_diverges_the_next_best_is_fitted_from_the_beginning(texts, ends, best, last_fits):
    """Diverges after so many per cent of the steps (100: never)."""
    X, prefs = texts
    rankers = [tc.DiagonalRanker(rate=rate, verbose=False) for rate in (1e-4, 2e-4, 3e-4, 4e-4)]
    fitted: list[int] = []

    def fit(ranker, callbacks):
        number = rankers.index(ranker)
        fitted.append(number)

        def diverge(event):
            if event.step > ends[number] / 100 * N_STEPS:
                raise DivergedError(f"{number} diverged")

        ranker.fit(X, prefs, callbacks=[diverge, *callbacks])

    def measure(weights: tc.Weights) -> float:
        """Larger for larger rates."""
        eye = sparse.eye_array(X.shape[1], format="csr")
        return float(np.abs(weights.score(eye, eye) - np.eye(X.shape[1])).sum())

    halving = successive_halving(rankers, fit, measure)
    assert halving.best == best
    assert rankers[best].n_steps_ == N_STEPS
    assert fitted == [0, 1, 2, 3, 2, 3, *last_fits]
