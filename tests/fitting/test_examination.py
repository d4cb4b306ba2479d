"""The examination curve: the same numbers as the equations, and what the simulator put in."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import clicks as oracle
from tercet.data import ClickLog, Impression
from tercet.data.click_sessions import odd_sessions, without_odd_sessions
from tercet.data.clicks import click_preferences, examination_guess
from tercet.fitting.examination import choose_examination, estimate_examination
from tercet.simulate import Traffic, Visitors, simulate_clicks

N_RANKS = 6
PEOPLE = Visitors(looking=0.8, chances=(0.1, 0.7))
TRUTH = PEOPLE.examination(N_RANKS)


def shop(n_queries=60, seed=0):
    """Queries with the orders of two rankers, both better than chance, and what is relevant."""
    rng = np.random.default_rng(seed)
    lists, grades = {}, {}
    for number in range(n_queries):
        docs = [f"{number}-{position}" for position in range(N_RANKS)]
        other = [docs[position] for position in np.argsort(np.arange(N_RANKS) + rng.normal(0, 2, N_RANKS))]
        lists[f"q{number}"] = [docs, other]
        relevant = rng.random(N_RANKS) < np.linspace(0.7, 0.2, N_RANKS)
        grades[f"q{number}"] = {doc_id: 1 for doc_id, is_relevant in zip(docs, relevant, strict=True) if is_relevant}
    return lists, grades


def made(n_lists, visitors=PEOPLE, seed=0, n_rankers=2, **traffic):
    lists, grades = shop()
    lists = {query: orders[:n_rankers] for query, orders in lists.items()}
    return simulate_clicks(lists, grades, n_lists, visitors, Traffic(**traffic), seed=seed)


def error(curve, truth=TRUTH):
    return float(np.abs(np.array(curve.values) - truth)[1:].mean())


GUESS_ERROR = float(np.mean([abs(examination_guess(rank) - TRUTH[rank - 1]) for rank in range(2, N_RANKS + 1)]))


@pytest.mark.parametrize("seed", range(3))
def test_all_pairs_is_the_maximum_of_its_likelihood(seed):
    log = made(150, seed=seed)
    curve = estimate_examination(log, n_resamples=1)
    np.testing.assert_allclose(curve.values, oracle.all_pairs(log, N_RANKS), rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("traffic", [{}, {"shuffled": 0.4}])
def test_what_the_simulator_put_in_is_recovered_better_from_a_longer_log(traffic):
    errors = {}
    for n_lists in (500, 8000):
        curves = [estimate_examination(made(n_lists, seed=seed, **traffic), n_resamples=40) for seed in range(3)]
        errors[n_lists] = np.mean([error(curve) for curve in curves])
    assert errors[8000] < 0.025 < errors[500] < 0.2
    assert errors[8000] < GUESS_ERROR / 2
    within = [low <= true <= high for c in curves for low, true, high in zip(c.low, TRUTH, c.high, strict=True)]
    assert np.mean(within) > 0.8


def test_where_no_document_moves_there_is_no_curve_and_the_guess_is_learned_from():
    log = made(2000, n_rankers=1)
    assert estimate_examination(log) is None
    assert choose_examination(log).chances is None


@pytest.mark.slow
def test_the_rule_that_chooses():
    enough, few = made(3000), made(40)
    assert "documents seen at several ranks" in choose_examination(enough).source
    np.testing.assert_allclose(choose_examination(enough).chances[:N_RANKS], TRUTH, atol=0.12)
    assert choose_examination(few).chances is None
    assert "1 / log2(1 + rank)" in choose_examination(few).source
    output = ClickLog(few.impressions, examination=(1.0, 0.5))
    assert choose_examination(output).chances == (1.0, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [(), ("all",) * 200])
def test_one_query_or_one_session_alone_tells_no_interval(sessions):
    lists = [Impression("q", ("a", "b"), ("a",)), Impression("q", ("b", "a"), ("b",))] * 100
    if sessions:
        lists = [one._replace(query=f"q{number // 2}") for number, one in enumerate(lists)]
    log = ClickLog(tuple(lists), sessions=sessions)
    curve = estimate_examination(log)
    assert curve.values[0] == 1.0
    assert np.isnan(curve.low + curve.high).all()
    assert choose_examination(log).chances is None


def test_ranks_below_those_that_are_known_follow_the_guess():
    chances = choose_examination(made(3000)).chances
    ratio = examination_guess(N_RANKS + 3) / examination_guess(N_RANKS)
    assert chances[N_RANKS + 2] == pytest.approx(chances[N_RANKS - 1] * ratio)


def test_a_log_without_clicks_or_without_rank_1_compared_has_no_curve():
    docs = ("a", "b", "c")
    assert estimate_examination(ClickLog((Impression("q", docs, ()),) * 5)) is None
    moved = [Impression("q", ("a", "b", "c"), ("b",)), Impression("q", ("a", "c", "b"), ("b",))] * 9
    assert estimate_examination(ClickLog(tuple(moved)), n_resamples=5) is None


def test_preferences_are_weighed_by_a_curve():
    weighed = click_preferences("abcd", "b", "all", most=10.0, examination=(1.0, 0.5, 0.25))
    assert weighed == [("b", "a", 1.0), ("b", "c", 0.25), ("b", "d", 0.25)]


def test_sessions_that_no_person_made_are_found_and_left_out():
    log = made(8000, bots=0.05, bot_lists=40, attackers=0.05)
    odd = odd_sessions(log)
    bots = {session for session in log.sessions if session.startswith("bot")}
    assert {one.name for one in odd if one.name.startswith("bot")} == bots
    assert len(odd) <= len(bots) + 0.01 * len(set(log.sessions))
    cleaned = without_odd_sessions(log, odd)
    assert not bots & set(cleaned.sessions)
    assert "(clicks everything)" in cleaned.notes[-1]
    before, after = (estimate_examination(one, n_resamples=2) for one in (log, cleaned))
    assert error(after) < error(before)


def test_a_session_that_comes_a_thousand_times_is_left_out():
    usual = tuple(Impression("q", ("a", "b"), ("a",)) for _ in range(300))
    log = ClickLog(usual * 2, sessions=tuple(f"s{number}" for number in range(300)) + ("crawler",) * 300)
    [odd] = odd_sessions(log)
    assert (odd.name, odd.n_lists, odd.reason) == ("crawler", 300, "comes too often")
    cleaned = without_odd_sessions(log)
    assert len(cleaned.impressions) == 300
    assert "left out 1 session (comes too often)" in cleaned.notes[-1]


def test_a_log_of_nothing_else_is_kept():
    docs = tuple("abcdefghijkl")
    log = ClickLog((Impression("q", docs, docs),))
    assert len(odd_sessions(log)) == 1
    assert without_odd_sessions(log) is log


def test_the_guess_has_a_reason():
    assert "no document was seen at several ranks" in choose_examination(made(300, n_rankers=1)).source
    assert "100 are needed" in choose_examination(made(80)).source
    assert "wide on average" in choose_examination(made(200)).source
