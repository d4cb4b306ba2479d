"""Trust in the top: the same numbers as the equations, and what the simulator put in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracles import clicks as oracle
from tercet.data import ClickLog, Impression
from tercet.fitting.examination import Cells, ShownDocuments
from tercet.fitting.trust import Trust, estimate_trust, excess_of, fit_lines
from tercet.simulate import Traffic, Visitors, simulate_clicks

N_RANKS = 5
PEOPLE = Visitors(looking=0.7, chances=(0.1, 0.8))


def made(n_lists, trust=0.0, seed=0, n_rankers=3, shuffled=0.0, people=PEOPLE):
    rng = np.random.default_rng(seed)
    lists, grades = {}, {}
    for query in map(str, range(60)):
        docs = [f"{query}-{place}" for place in range(N_RANKS)]
        lists[query] = [[docs[place] for place in rng.permutation(N_RANKS)] for _ in range(n_rankers)]
        grades[query] = {doc_id: 1 for doc_id in docs if rng.random() < 0.4}
    traffic = Traffic(shuffled=shuffled)
    return simulate_clicks(lists, grades, n_lists, replace(people, trust=trust), traffic, seed=seed)


def truth(trust):
    """a and b of the simulator: the chance of a click is p (g + (1 - g) t)."""
    ranks = np.arange(1, N_RANKS + 1)
    p, t = ranks**-0.7, trust / ranks
    a = p * (1 - t) / (1 - t[0])
    return a, p * t - a * t[0]


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_the_lines_are_those_of_the_equations(seed):
    log = made(1500, trust=0.3, seed=seed)
    shown = ShownDocuments.of(log)
    moved = shown.some(shown.moved)
    cells = Cells(moved, N_RANKS)
    halves = np.random.default_rng(seed).random((2, moved.rank.size)) < 0.5
    weights = np.ones(moved.rank.size)
    slopes, offsets = fit_lines(cells, weights, halves)
    a, b = oracle.lines_of_trust(log, halves, cells.by_moves(weights))
    np.testing.assert_allclose(slopes, a, atol=2e-3)
    np.testing.assert_allclose(offsets, b, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("trust", [0.0, 0.3])
def test_what_the_simulator_put_in_is_recovered_better_from_a_longer_log(trust):
    a, b = truth(trust)
    errors = {}
    for n_lists in (1000, 16_000):
        found = [estimate_trust(made(n_lists, trust, seed)) for seed in range(3)]
        errors[n_lists] = np.mean([np.abs(np.r_[one.slopes - a, one.offsets - b]).mean() for one in found])
    assert errors[16_000] < 0.02 < errors[1000]
    assert all(one.is_shown == (trust > 0) for one in found)
    assert np.mean([abs(one.excess - excess_of(a, b)) for one in found]) < 0.04


def test_lists_in_random_order_tell_it_too():
    assert estimate_trust(made(8000, 0.3, n_rankers=1, shuffled=0.3)).is_shown
    assert not estimate_trust(made(8000, n_rankers=1, shuffled=0.3)).is_shown


def test_trust_in_proportion_to_looking_cannot_be_told_from_liking():
    noisier = replace(PEOPLE, chances=(0.37, 0.86))  # what a trust of 0.3 at all ranks alike comes to
    assert not estimate_trust(made(16_000, people=noisier)).is_shown


def test_where_no_document_moves_or_few_are_clicked_nothing_is_said():
    assert estimate_trust(made(4000, 0.3, n_rankers=1)) is None
    assert estimate_trust(ClickLog((Impression("q", ("a", "b"), ("a",)), Impression("q", ("b", "a"), ("a",))))) is None


def test_what_it_says():
    line = (1.0, 0.5), (0.0, -0.1)
    assert "for its place alone, +0.200 [+0.150, +0.250]" in str(Trust(*line, 0.2, 0.15, 0.25, 500))
    assert "no sign of trust" in str(Trust(*line, 0.01, -0.04, 0.06, 500))
    assert "too short to tell" in str(Trust(*line, 0.1, -0.3, 0.5, 500))
