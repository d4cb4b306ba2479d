"""Interleaved lists, and who wins by clicks."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InputError
from tercet.measure.interleaving import Duel, Interleaved, credit, evidence, team_draft

rankings = st.lists(st.integers(0, 9), unique=True, max_size=8)


class Coins:
    """A generator whose numbers are given."""

    def __init__(self, heads: list[bool]) -> None:
        self._left = list(heads)

    def random(self) -> float:
        return 0.0 if self._left.pop(0) else 1.0


# -- lists ------------------------------------------------------------------------------------------------------------


def written_out(first, second, k, heads):
    """Team draft as Radlinski et al. (2008) write it: the team with fewer documents is next, a coin between equals."""
    shown, members = [], {"first": [], "second": []}
    coins = iter(heads)
    while len(shown) < k:
        best = {"first": [d for d in first if d not in shown], "second": [d for d in second if d not in shown]}
        if not best["first"] and not best["second"]:
            break
        n_first, n_second = len(members["first"]), len(members["second"])
        team = "first" if n_first < n_second else "second"
        if n_first == n_second:
            team = "first" if next(coins) else "second"
        shown.append(best[team][0])
        members[team].append(best[team][0])
    alike = [len(shown)] + [rank for rank, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    teams = ["first" if d in members["first"] else "second" for d in shown]
    return tuple(shown), tuple(None if rank < min(alike) else team for rank, team in enumerate(teams))


@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(0, 6), st.lists(st.booleans(), min_size=6))
def test_team_draft_is_the_algorithm_as_written_where_nobody_runs_dry(first, second, k, heads):
    ours = team_draft(first, second, k, Coins(heads))
    assert (ours.docs, ours.teams) == written_out(first, second, k, heads)


@given(rankings, rankings, st.integers(0, 12), st.integers(0, 100))
def test_a_list_has_what_it_can_of_both_once(first, second, k, seed):
    docs = team_draft(first, second, k, np.random.default_rng(seed)).docs
    assert len(set(docs)) == len(docs) == min(k, len(set(first) | set(second)))
    assert set(docs) <= set(first) | set(second)
    # Nobody skips: what a ranking has before one of its documents is above it, or is not shown yet by anybody.
    for ranking in (first, second):
        for doc in docs:
            if doc in ranking and doc not in (second if ranking is first else first):
                above = docs[: docs.index(doc)]
                assert all(better in above for better in ranking[: ranking.index(doc)])


def test_rankings_share_their_documents_fairly():
    rng = np.random.default_rng(0)
    at_top = Counter(team_draft("abc", "bac", 3, rng).teams[0] for _ in range(2000))
    assert abs(at_top["first"] - 1000) < 3 * np.sqrt(500)


@given(rankings, rankings, st.integers(0, 12), st.integers(0, 100))
def test_where_rankings_begin_alike_documents_are_nobodys(first, second, k, seed):
    shown = team_draft(first, second, k, np.random.default_rng(seed))
    n_alike = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    n_alike = min(len(first), len(second)) if n_alike is None else n_alike
    assert set(shown.teams[:n_alike]) <= {None}
    assert shown.docs[:n_alike] == tuple(first[: min(n_alike, k)])
    if n_alike < min(k, len(first), len(second)):
        assert shown.teams[n_alike] is not None
    assert Interleaved(("a", "b"), (None, "first")).credit({"a"}) == 0


few = st.lists(st.integers(0, 5), unique=True, max_size=5)


@given(few, few, st.integers(0, 7))
def test_no_ranking_wins_by_being_longer(first, second, k):
    """Over all coins each has as many documents; one that only goes on where the other ends has none."""
    lists = [team_draft(first, second, k, Coins(list(heads))) for heads in product((True, False), repeat=6)]
    owned = Counter(team for shown in lists for team in shown.teams)
    assert owned["first"] == owned["second"]
    n = min(len(first), len(second))
    if first[:n] == second[:n]:
        assert not owned["first"]


def test_who_has_more_clicks_wins():
    shown = Interleaved(("a", "b", "c", "d"), ("first", "second", "second", "first"))
    assert [shown.credit(clicked) for clicked in ({"a"}, {"b", "c"}, {"a", "b"}, set(), {"a", "d", "c"})] == [
        1, -1, 0, 0, 1,
    ]  # fmt: skip
    assert credit(("first",), (True,)) == 1


# -- the test ---------------------------------------------------------------------------------------------------------


def stake(scores: list[Fraction], share: Fraction = Fraction(1, 2)) -> Fraction:
    """Growth of a stake that is divided among 199 chances q as q²(1 - q)², each bet on all scores, in whole numbers."""
    chances = [Fraction(number, 200) for number in range(1, 200)]
    parts = [(chance * (1 - chance)) ** 2 for chance in chances]
    grown = [
        part * prod((1 + s) / 2 * chance / share + (1 - s) / 2 * (1 - chance) / (1 - share) for s in scores)
        for chance, part in zip(chances, parts, strict=True)
    ]
    return sum(grown, Fraction(0)) / sum(parts)


some_scores = st.lists(st.fractions(-1, 1, max_denominator=6), max_size=8)
standings = st.dictionaries(st.sampled_from([-1.0, -0.5, 0.0, 1 / 3, 1.0]), st.integers(0, 300))


@pytest.mark.slow
@settings(max_examples=30)
@given(some_scores)
def test_the_p_value_is_one_over_the_growth_of_the_stake(scores):
    duel = Duel(Counter(map(float, scores)))
    assert duel.p_value == pytest.approx(min(1.0, float(1 / stake(scores))), rel=1e-9)


@pytest.mark.slow
@settings(max_examples=30)
@given(some_scores, st.fractions(-1, 0, max_denominator=6), st.fractions(0, 1, max_denominator=6))
def test_the_stake_is_a_fair_game_for_any_scores_with_the_mean_zero(scores, low, high):
    """On average the stake after one more client is the stake before, so no time to look is better than another."""
    if low == high:
        return
    chance = -low / (high - low)  # of the high score, so that the mean is zero
    assert chance * stake([*scores, high]) + (1 - chance) * stake([*scores, low]) == stake(scores)


@given(standings, st.sampled_from([0.01, 0.05, 0.2]))
def test_the_interval_excludes_one_half_just_if_there_is_a_winner(scores, level):
    duel = Duel(scores, level)
    low, high = duel.interval
    assert 0 <= low <= high <= 1
    if duel.share is not None:
        assert low <= duel.share <= high
    assert (duel.winner is None) == (low <= 0.5 <= high)
    mirrored = Duel({-score: count for score, count in scores.items()}, level)
    assert mirrored.interval == pytest.approx((1 - high, 1 - low), abs=1e-9)
    assert {duel.winner, mirrored.winner} in ({None}, {"first", "second"})
    assert (mirrored.wins, mirrored.losses, mirrored.ties) == (duel.losses, duel.wins, duel.ties)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from([-1.0, -0.5, 0.0, 1 / 3, 1.0]), st.integers(0, 60)))
def test_so_many_more_clients_decide_it(scores):
    duel = Duel(scores)
    assert (duel.n_to_go == 0) == (duel.winner is not None)
    if duel.share in (None, 0.5):
        assert duel.n_to_go is None
    elif duel.n_to_go and duel.n_to_go < 10**6:
        counts = np.array([*scores.values()]) / duel.n_clients
        sooner, later = (
            evidence([*scores], (duel.n_clients + more) * counts) for more in (duel.n_to_go - 1, duel.n_to_go)
        )
        assert sooner < -np.log(0.05) + 1e-9
        assert later > -np.log(0.05) - 1e-9


def test_looking_after_each_client_is_wrong_no_more_often_than_promised():
    """100 duels without a difference, of 50 clients with tastes of their own and 20 lists each."""
    rng = np.random.default_rng(7)
    wins = rng.binomial(20, rng.random((100, 50)))
    kinds = np.linspace(-1, 1, 21)
    counts = np.cumsum(np.eye(21)[wins], axis=1)
    decided = evidence(kinds, counts) >= -np.log(0.05)
    most = 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)
    assert decided.any(axis=1).mean() <= most
    by_lists = evidence([1, -1], np.stack([wins.cumsum(axis=1), (20 - wins).cumsum(axis=1)], axis=-1))
    assert (by_lists >= -np.log(0.05)).any(axis=1).mean() > 2 * most  # with each list as a client, the bound fails
    for duel in range(0, 100, 10):
        standing = Duel(dict(zip(kinds.tolist(), counts[duel, -1].astype(int).tolist(), strict=True)))
        assert (standing.winner is not None) == decided[duel, -1]


def test_scores_that_are_not_fair_coins_hold_the_level_too():
    """One client in five likes the first ranking a lot, the others dislike it a little: the mean is zero."""
    rng = np.random.default_rng(3)
    liked = rng.random((100, 300)) < 0.2
    counts = np.cumsum(np.stack([liked, ~liked], axis=-1), axis=1)[:, ::15]
    decided = (evidence([0.8, -0.2], counts) >= -np.log(0.05)).any(axis=1).mean()
    assert decided <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)
    by_signs = (evidence([1, -1], counts) >= -np.log(0.05)).any(axis=1).mean()
    assert by_signs > 0.9


def test_a_better_ranking_is_found():
    wins = np.random.default_rng(1).random((100, 400)) < 0.6
    counts = np.cumsum(np.stack([wins, ~wins], axis=-1), axis=1)[:, ::20]
    assert (evidence([1, -1], counts) >= -np.log(0.05)).any(axis=1).mean() > 0.8


@pytest.mark.parametrize(
    "given_duel", [{"scores": {1.0: -1}}, {"scores": {1.5: 1}}, {"scores": {np.nan: 1}}, {"scores": {}, "level": 0.0}]
)
def test_an_impossible_score_count_or_level_is_refused(given_duel):
    with pytest.raises(InputError, match="got"):
        Duel(**given_duel)
