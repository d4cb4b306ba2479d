"""Draws by counters: any part of a run can be drawn by itself, and what is drawn is what the sampler says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.data.counters import Counters
from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.data.sampling import JudgementSampler, LabelSampler, MixtureSampler


def some_judgements(**how) -> JudgementSampler:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 30, (150, 2)), axis=0)
    return JudgementSampler(pairs[:, 0], pairs[:, 1], rng.integers(0, 3, len(pairs)), **how)


SAMPLERS = {
    "labels": LabelSampler(np.arange(40) % 3),
    "judged documents alone": some_judgements(),
    "all documents": some_judgements(n_docs=35),
    "uniform over judgements": some_judgements(n_docs=35, uniform_over="judgements", exclude_self=True),
    "popular": some_judgements(n_docs=35, popular=0.5),
    # Query 0 has judged nearly all that are ever relevant, so that rejection often finds no other.
    "popular, nearly all judged": JudgementSampler(
        np.arange(61) // 60, np.arange(61), np.ones(61, np.int64), n_docs=64, uniform_over="judgements", popular=1.0
    ),
    # There is no other.
    "popular, all judged": JudgementSampler(
        np.zeros(30, np.int64), np.arange(30), np.ones(30, np.int64), n_docs=35, popular=0.5
    ),
    "some withheld": some_judgements(n_docs=35, popular=0.2, without_docs=[1, 2, 34]),
    "triplets": PreferenceSampler(Preferences([0, 1, 2], [1, 2, 3], [3, 0, 1])),
    "weighted triplets": PreferenceSampler(Preferences([0, 1, 2], [1, 2, 3], [3, 0, 1], weight=[1.0, 3.0, 0.5])),
}
SAMPLERS["mixture"] = MixtureSampler([(SAMPLERS["labels"], 1.0), (SAMPLERS["popular"], 3.0)])


def drawn(name: str, start: int, stop: int, seed: int = 0):
    return SAMPLERS[name].placed(np).drawn(Counters(np, seed, np.arange(start, stop)))


@pytest.mark.parametrize("name", SAMPLERS)
@given(start=st.integers(0, 2**40), cut=st.integers(1, 39), seed=st.integers(0, 2**32))
def test_any_part_is_drawn_by_itself(name, start, cut, seed):
    whole = drawn(name, start, start + 40, seed)
    parts = zip(drawn(name, start, start + cut, seed), drawn(name, start + cut, start + 40, seed), strict=True)
    for one, halves in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, np.concatenate(halves))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_are_as_often_what_the_generator_draws(name):
    """Counts of (query, better) and of worse documents: a chi-squared test."""
    n = 60_000
    by_counters, by_generator = drawn(name, 0, n), SAMPLERS[name].draw(np.random.default_rng(1), n)
    for keys in (lambda q, b, w: q.astype(np.int64) * 64 + b, lambda q, b, w: w):
        ours, theirs = (np.bincount(keys(*some), minlength=64 * 64) for some in (by_counters, by_generator))
        seen = (ours + theirs) > 0
        chi = ((ours - theirs)[seen] ** 2 / (ours + theirs)[seen]).sum()
        degrees = seen.sum() - 1
        assert chi < degrees + 5 * np.sqrt(2 * degrees), (chi, degrees)


def test_the_worse_document_is_worse_even_where_nearly_all_are_judged():
    n = 2000
    sampler = JudgementSampler(np.zeros(n - 1), np.arange(n - 1), np.ones(n - 1, dtype=np.int64), n_docs=n)
    _, better, worse = sampler.drawn(Counters(np, 0, np.arange(50)))
    assert set(worse.tolist()) == {n - 1}
    assert better.max() < n - 1


def test_bits_are_those_of_splitmix64():
    """Of seed s, number i is the i-th output of SplitMix64 that starts from the spread seed."""
    from tercet.data.counters import _seed_bits

    state, expected = _seed_bits(5), []
    for _ in range(3 * 128):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        expected.append(z ^ (z >> 31))
    counters = Counters(np, 5, np.arange(3))
    for slot in (0, 1, 127):
        assert counters.bits(slot).tolist() == [expected[128 * t + slot] for t in range(3)]
