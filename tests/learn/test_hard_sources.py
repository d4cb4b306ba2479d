"""HardSource and WarpSource: used again, in either way of scoring, and with matrices that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from support.random_data import random_texts
from tercet.data.sampling import JudgementSampler
from tercet.errors import InputError
from tercet.learn import sources
from tercet.weights import Identity, Weights

both = pytest.mark.parametrize("kind", [tc.HardSource, tc.WarpSource])


@pytest.fixture
def judged(rng):
    Q, D = random_texts(rng, 12, 20), random_texts(rng, 30, 20)
    links = np.column_stack((rng.integers(0, 12, 40), rng.integers(0, 30, 40)))
    return JudgementSampler.from_links(links, 30), Q, D


@both
def test_a_source_that_was_used_before_gives_the_same_again(kind, judged):
    sampler, Q, D = judged
    source = kind(sampler, Q, D, 5000)
    fits = [tc.LowRankRanker(n_components=2).fit(Q, source, D) for _ in range(2)]
    fresh = tc.LowRankRanker(n_components=2).fit(Q, kind(sampler, Q, D, 5000), D)
    for ranker in fits:
        np.testing.assert_array_equal(ranker.score_matrix(Q, D), fresh.score_matrix(Q, D))
    # And its worse documents are those that the weights of its own run rank high.
    other = Weights([Identity(n_terms=20, scale=-1.0)])
    used = kind(sampler, Q, D, 9000)
    used.draw(0, lambda: Weights([Identity(n_terms=20)]))
    used.draw(4096, lambda: Weights([Identity(n_terms=20)]))
    again = used.draw(0, lambda: other)
    assert again == kind(sampler, Q, D, 9000).draw(0, lambda: other)


def test_few_scores_are_looked_up_and_many_are_made_as_needed(judged, monkeypatch):
    sampler, Q, D = judged
    weights = Weights([Identity(n_terms=20)])
    looked_up = tc.WarpSource(sampler, Q, D, 100, margin=0.1).draw(0, lambda: weights)
    monkeypatch.setattr(sources, "_SCORES_BYTES", 0)
    as_needed = tc.WarpSource(sampler, Q, D, 100, margin=0.1).draw(0, lambda: weights)
    assert looked_up == as_needed


@both
def test_matrices_are_those_the_row_numbers_are_of(kind, judged):
    sampler, Q, D = judged
    for call, message in (
        (lambda: kind(sampler, Q, D[:29], 10), "D has 29 rows, but the sampler draws from 30 documents"),
        (lambda: kind(sampler, Q[:5], D, 10), "Q has 5 rows, but the sampler has judgements of query 11"),
        (lambda: kind(sampler, Q, D, 10, refresh_every=0), "refresh_every must be at least 1; got 0"),
        (lambda: kind(sampler, None, D, 10), "Q is None"),
    ):
        with pytest.raises(InputError, match=message):
            call()
