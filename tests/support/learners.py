"""Every learner, data for it, and a kill: what the tests of learners share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import tercet as tc
from support.random_data import random_preferences, random_texts
from tercet.data.sampling import JudgementSampler
from tercet.learn import (
    RANKERS,
    CorrelatedRanker,
    CosineRanker,
    DenseRanker,
    DiagonalRanker,
    HashedRanker,
    LowRankRanker,
    LSIRanker,
    MultiTaskRanker,
    PrunedRanker,
    SparseRanker,
    TermPairRanker,
)
from tercet.learn.state import rates
from tercet.text import CorrelatedWords

N_TERMS = 12


@dataclass(frozen=True)
class Learner:
    """How a term-pair ranker of ``n_terms`` words is made, and which contracts it cannot keep, and why."""

    make: Callable[..., TermPairRanker]
    cannot: dict[str, str] = field(default_factory=dict)


CONTRACTS = {
    "halves": "two halves of partial_fit are the whole fit",
    "learns on": "partial_fit goes on where a fit ended",
    "seed": "the same seed gives the same bits, another seed another order",
    "checkerboard": "it ranks texts that share no word",
    "margin": "each preference may have a margin of its own",
    "resumes": "a killed fit goes on from its checkpoint to the same bits",
}


@cache
def some_words(n_terms: int) -> CorrelatedWords:
    rng = np.random.default_rng(5)
    return CorrelatedWords(n_frequent=10, n_bins=3).fit(random_texts(rng, 60, n_terms))


def few_factors() -> LowRankRanker:
    return LowRankRanker(n_components=4, diagonal=None)


ENDS_OTHERWISE = {"halves": "a fit ends with a step of its own: refitting, pruning or averaging"}
HAS_FEW_WORDS = {"checkerboard": "it has weights for too few of the words"}
CHOOSES_ITS_WORDS = {
    "checkerboard": "its words are those of other texts",
    "margin": "the margin is that of the ranker inside",
    "seed": "shuffle and epochs are those of the ranker inside",
}

# The first word of a name is the class. test_every_ranker_is_in_the_table holds that each has one.
LEARNERS: dict[str, Learner] = {
    "CosineRanker": Learner(
        lambda **_: CosineRanker(), dict.fromkeys(CONTRACTS, "it has nothing to learn, and no such parameter")
    ),
    "DiagonalRanker": Learner(
        lambda **_: DiagonalRanker(rate=0.7), {"checkerboard": "a diagonal cannot match words that are never shared"}
    ),
    "DenseRanker": Learner(lambda **_: DenseRanker(rate=3.0)),
    "DenseRanker at a constant rate": Learner(lambda **_: DenseRanker(rate=0.4, schedule="constant")),
    "DenseRanker without a diagonal": Learner(lambda **_: DenseRanker(rate=0.4, schedule="constant", diagonal="zero")),
    "SparseRanker": Learner(lambda **_: SparseRanker(rate=3.0, l1=1e-4, shrink_every=7, refit=False)),
    "SparseRanker refitted": Learner(lambda **_: SparseRanker(rate=3.0, l1=1e-4, shrink_every=7), ENDS_OTHERWISE),
    "LowRankRanker of cosines": Learner(
        lambda **_: LowRankRanker(n_components=4, diagonal=None, normalize="latent", margin=0.5, rate=0.05)
    ),
    "LowRankRanker": Learner(lambda **_: LowRankRanker(n_components=5, rate=0.3)),
    "LowRankRanker scaled": Learner(lambda **_: LowRankRanker(n_components=5, rate=0.3, scale_documents=True)),
    "LowRankRanker with a diagonal": Learner(lambda **_: LowRankRanker(n_components=5, rate=0.3, diagonal="learned")),
    "LowRankRanker tied": Learner(lambda **_: LowRankRanker(n_components=5, rate=0.3, tied=True, identity_weight=2.0)),
    "LowRankRanker of frequent words": Learner(
        lambda **_: LowRankRanker(n_components=5, rate=0.3, n_frequent=9), HAS_FEW_WORDS
    ),
    "LowRankRanker of queries alone": Learner(
        lambda **_: LowRankRanker(n_components=20, rate=1.0, spread=0.3, diagonal="learned", learn_documents=False)
    ),
    "MultiTaskRanker": Learner(lambda **_: MultiTaskRanker(n_components=4, rate=0.3, n_frequent=11), HAS_FEW_WORDS),
    "MultiTaskRanker documents": Learner(lambda **_: MultiTaskRanker(n_components=4, rate=0.3, shared="documents")),
    "PrunedRanker": Learner(lambda **_: PrunedRanker(n_kept=5, n_rounds=3, rate=3.0), ENDS_OTHERWISE | HAS_FEW_WORDS),
    "HashedRanker": Learner(
        lambda **_: HashedRanker(n_buckets=101, rate=0.5), {"checkerboard": "its pairs of words share few buckets"}
    ),
    "CorrelatedRanker": Learner(
        lambda n_terms=N_TERMS: CorrelatedRanker(words=some_words(n_terms), ranker=few_factors()), CHOOSES_ITS_WORDS
    ),
    "CorrelatedRanker by bin": Learner(
        lambda n_terms=N_TERMS: CorrelatedRanker(words=some_words(n_terms), variant="by-bin", ranker=few_factors()),
        CHOOSES_ITS_WORDS,
    ),
    "CorrelatedRanker sparse": Learner(
        lambda n_terms=N_TERMS: CorrelatedRanker(
            words=some_words(n_terms), ranker=SparseRanker(rate=3.0, l1=1e-4, refit=False)
        ),
        CHOOSES_ITS_WORDS,
    ),
    # The inner products of few texts are taken as a whole.
    "LSIRanker": Learner(
        lambda **_: LSIRanker(n_components="auto", alpha="auto"),
        dict.fromkeys(CONTRACTS, "it takes no steps: its directions are those of the documents"),
    ),
}
# A ranker without a line above is tested as its defaults have it, and must keep every contract.
_named = {name.split()[0] for name in LEARNERS}
LEARNERS |= {name: Learner(lambda cls=cls, **_: cls()) for name, cls in RANKERS.items() if name not in _named}


def every_learner(contract: str | None = None) -> pytest.MarkDecorator:
    """Runs a test for each learner as ``make``; of a contract, for each that can keep it."""
    kept = {name: learner.make for name, learner in LEARNERS.items() if contract not in learner.cannot}
    return pytest.mark.parametrize("make", kept.values(), ids=kept.keys())


def made_data(seed: int, n: int = 60):
    rng = np.random.default_rng(seed)
    Q, D = random_texts(rng, 9, N_TERMS), random_texts(rng, 11, N_TERMS)
    return Q, D, random_preferences(rng, n, 9, 11)


def step_rates(ranker, n):
    return rates(ranker.schedule, ranker.rate, 0, n, n).astype(float)


def start_of(ranker: LowRankRanker, Q, D) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U, V (n_components × n_terms) and the diagonal before the first step, which validation is asked about, too."""
    seen: list[tc.Weights] = []
    clone(ranker).fit(Q, tc.Preferences([0], [1], [2]), D, validation=lambda weights: seen.append(weights) or 0.0)
    weights = seen[0]
    learned = 0.0 if weights.diagonal is None else weights.diagonal
    n_diagonal = Q.shape[1] if Q.shape[1] == D.shape[1] else 0  # two vocabularies have none
    factors = (weights.query_factors, weights.doc_factors)
    return *(array.T.astype(float) for array in factors), np.full(n_diagonal, weights.identity) + learned


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
