"""The simulator puts in what it says: every estimator is held against it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.errors import InputError
from tercet.simulate import Traffic, Visitors, simulate_clicks

LISTS = {f"q{number}": [[f"{number}-{position}" for position in range(6)]] for number in range(20)}
GRADES = {query: {docs[0]: 1, docs[3]: 1} for query, [docs] in LISTS.items()}


def rates(log, position=None):
    """How often each rank was clicked, of all documents or of those at one place of the first order."""
    shown, clicked = np.zeros(6), np.zeros(6)
    for impression in log.impressions:
        for rank, doc_id in enumerate(impression.shown):
            if position is None or doc_id.endswith(f"-{position}"):
                shown[rank] += 1
                clicked[rank] += doc_id in impression.clicked
    return clicked / np.maximum(shown, 1)


def test_clicks_follow_looking_and_grade():
    log = simulate_clicks(LISTS, GRADES, 20_000, Visitors(looking=1.0, chances=(0.2, 0.8)))
    np.testing.assert_allclose(rates(log), [0.8, 0.1, 0.2 / 3, 0.2, 0.04, 0.2 / 6], atol=0.012)


def test_trust_adds_clicks_at_the_top_to_what_would_not_be_clicked():
    log = simulate_clicks(LISTS, {}, 20_000, Visitors(looking=0.0, chances=(0.2,), trust=0.5))
    expected = 0.2 + 0.8 * 0.5 / np.arange(1, 7)
    np.testing.assert_allclose(rates(log), expected, atol=0.012)


def test_a_cascade_ends_at_a_click_unless_it_goes_on():
    sure = Visitors(looking=None, chances=(0.0, 1.0), going_on=0.0)
    log = simulate_clicks(LISTS, GRADES, 500, sure)
    assert {len(impression.clicked) for impression in log.impressions} == {1}
    log = simulate_clicks(LISTS, GRADES, 5_000, Visitors(looking=None, chances=(0.0, 1.0), going_on=0.25))
    assert rates(log)[3] == pytest.approx(0.25, abs=0.02)
    with pytest.raises(InputError, match="no examination curve"):
        sure.examination(3)


def test_sessions_bots_attackers_and_random_orders_are_marked():
    traffic = Traffic(bots=0.1, attackers=0.2, bot_lists=50, per_session=3.0, shuffled=0.3)
    log = simulate_clicks(LISTS, GRADES, 10_000, traffic=traffic, seed=1)
    crowd = Counter(session.rstrip("0123456789") for session in log.sessions)
    assert crowd["bot"] / 10_000 == pytest.approx(0.1, abs=0.01)
    assert crowd["attacker"] / 10_000 == pytest.approx(0.2, abs=0.015)
    honest = Counter(session for session in log.sessions if session.startswith("s"))
    assert np.mean(list(honest.values())) == pytest.approx(3.0, abs=0.2)
    assert np.mean(log.randomized) == pytest.approx(0.3, abs=0.02)
    for impression, session, is_random in zip(log.impressions, log.sessions, log.randomized, strict=True):
        if session.startswith("bot"):
            assert impression.clicked == impression.shown
        if session.startswith("attacker"):
            assert set(impression.clicked) == set(impression.shown) - set(GRADES[impression.query])
        assert is_random or list(impression.shown) == LISTS[impression.query][0]


def test_a_session_sees_one_ranker():
    orders = {query: [docs, docs[::-1]] for query, [docs] in LISTS.items()}
    log = simulate_clicks(orders, GRADES, 2_000)
    ranker = {}
    for impression, session in zip(log.impressions, log.sessions, strict=True):
        order = orders[impression.query].index(list(impression.shown))
        assert ranker.setdefault(session, order) == order
    assert Counter(ranker.values())[0] / len(ranker) == pytest.approx(0.5, abs=0.05)


def test_tastes_drift_from_the_first_truth_to_the_later():
    later = {query: {docs[5]: 1} for query, [docs] in LISTS.items()}
    log = simulate_clicks(LISTS, GRADES, 10_000, Visitors(looking=0.0, chances=(0.0, 1.0)), later=later)
    first, last = log.subset(range(1_000)), log.subset(range(9_000, 10_000))
    assert rates(first)[5] < 0.1 < 0.9 < rates(last)[5]


@given(st.integers(0, 100), st.integers(1, 40))
def test_the_same_seed_gives_the_same_log(seed, n_lists):
    traffic = Traffic(bots=0.1, attackers=0.1, shuffled=0.2)
    made = [simulate_clicks(LISTS, GRADES, n_lists, traffic=traffic, seed=seed) for _ in range(2)]
    assert made[0] == made[1]
    assert len(made[0].impressions) == n_lists


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LISTS, GRADES, 0), "at least one list"),
        (({}, GRADES, 5), "at least one list"),
        ((LISTS, GRADES, 5, None, Traffic(bots=0.7, attackers=0.7)), r"bots \+ attackers at most 1"),
        ((LISTS, GRADES, 5, None, Traffic(per_session=0.5)), "per_session must be at least 1"),
    ],
)
def test_what_cannot_be_simulated_is_said(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate_clicks(*arguments)
