"""Every learner, data for it, and a kill: what the tests of learners share."""

from __future__ import annotations

import numpy as np

import tercet as tc
from support.random_data import random_preferences, random_texts
from tercet.data.sampling import JudgementSampler
from tercet.learn.schedules import rates

N_TERMS = 12


LEARNERS = {
    "diagonal": lambda: tc.DiagonalRanker(rate=0.7),
    "dense": lambda: tc.DenseRanker(rate=3.0),
    "dense-constant": lambda: tc.DenseRanker(rate=0.4, schedule="constant"),
    "dense-no-diagonal": lambda: tc.DenseRanker(rate=0.4, schedule="constant", diagonal="zero"),
    "sparse": lambda: tc.SparseRanker(rate=3.0, l1=1e-4, shrink_every=7, refit=False),
    "lowrank": lambda: tc.LowRankRanker(n_components=5, rate=0.3),
    "lowrank-scaled": lambda: tc.LowRankRanker(n_components=5, rate=0.3, scale_documents=True),
    "lowrank-learned": lambda: tc.LowRankRanker(n_components=5, rate=0.3, diagonal="learned"),
    "tied": lambda: tc.LowRankRanker(n_components=5, rate=0.3, tied=True, identity_weight=2.0),
}


def made_data(seed: int, n: int = 60):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, N_TERMS)
    return Q, D, random_preferences(rng, n, 9, 11)


def step_rates(ranker, n):
    return rates(ranker.schedule, ranker.rate, 0, n, n).astype(float)


def same_bits(a: tc.Weights, b: tc.Weights) -> bool:
    (meta_a, arrays_a), (meta_b, arrays_b) = a.to_state(), b.to_state()
    return meta_a == meta_b and all(np.array_equal(arrays_a[k], arrays_b[k]) for k in arrays_a | arrays_b)


class Killed(Exception):
    """Stands in for a kill."""


def kill_at(step):
    def callback(event):
        if event.step >= step:
            raise Killed

    return callback


def judged(Q, D):
    rng = np.random.default_rng(1)
    return JudgementSampler.from_qrels(
        {
            q: {int(d): int(g) for d, g in zip(rng.permutation(60)[:6], [2, 2, 1, 1, 0, -1], strict=True)}
            for q in range(50)
        },
        n_docs=D.shape[0],
    )


N_F, N_E = 9, 12  # words of two languages


def made_tasks(seed, n=40, n2=40):
    rng = np.random.default_rng(seed)
    Q, Q2, D = random_texts(rng, 8, N_F), random_texts(rng, 10, N_E), random_texts(rng, 11, N_E)
    return Q, random_preferences(rng, n, 8, 11), D, (Q2, random_preferences(rng, n2, 10, 11))
