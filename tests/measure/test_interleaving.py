"""Interleaved lists, and who wins by clicks."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given
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


def exact_evidence(wins: int, losses: int) -> Fraction:
    """How much more likely the flips are by coins of Beta(10, 10) than by a fair one, in whole numbers.

    With B(a, b) = 1 / ((a + b - 1) C(a + b - 2, a - 1)) for whole a and b.
    """

    def beta(a: int, b: int) -> Fraction:
        return Fraction(1, (a + b - 1) * comb(a + b - 2, a - 1))

    return beta(wins + 10, losses + 10) / beta(10, 10) * 2 ** (wins + losses)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_p_value_is_one_over_the_evidence_of_the_mixture(wins, losses):
    assert Duel(wins, losses).p_value == pytest.approx(min(1.0, float(1 / exact_evidence(wins, losses))), rel=1e-9)


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_evidence_is_a_fair_game(wins, losses):
    """Under a fair coin it is tomorrow, on average, what it is today: so no time to look is better than another."""
    tomorrow = (exact_evidence(wins + 1, losses) + exact_evidence(wins, losses + 1)) / 2
    assert tomorrow == exact_evidence(wins, losses)


@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([0.01, 0.05, 0.2]))
def test_the_interval_excludes_no_difference_just_where_there_is_a_winner(wins, losses, level):
    duel = Duel(wins, losses, 7, level)
    low, high = duel.interval
    assert 0 <= low <= high <= 1
    if wins + losses:
        assert low <= duel.share <= high
    assert (duel.winner is None) == (low <= 0.5 <= high)
    mirrored = Duel(losses, wins, 7, level)
    assert mirrored.interval == pytest.approx((1 - high, 1 - low), abs=1e-9)
    assert {duel.winner, mirrored.winner} in ({None}, {"first", "second"})


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 100))
def test_so_many_more_lists_decide_it(wins, losses, ties):
    duel = Duel(wins, losses, ties)
    if wins == losses:
        assert duel.n_to_go is None
        return
    n_lists = wins + losses + ties
    assert (duel.n_to_go == 0) == (duel.winner is not None)
    if duel.winner is None and duel.n_to_go is not None and duel.n_to_go < 10**6:
        # Whole lists are at most one off the share of them so far.
        later, sooner = (1 + (duel.n_to_go + more * n_lists) / n_lists for more in (0.1, -0.1))
        assert Duel(round(wins * later) + (wins > losses), round(losses * later) + (losses > wins)).winner is not None
        if sooner >= 1:
            behind = Duel(round(wins * sooner) - (wins > losses), round(losses * sooner) - (losses > wins))
            assert behind.winner is None


def test_looking_again_and_again_is_wrong_no_more_often_than_promised():
    """Three hundred duels of equals, looked at after each of 1,500 lists."""
    flips = np.random.default_rng(7).random((300, 1500)) < 0.5
    wins = flips.cumsum(axis=1)
    losses = np.arange(1, 1501) - wins
    decided = evidence(wins, losses) >= -np.log(0.05)
    assert decided.any(axis=1).mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 300)
    for duel, look in [*zip(*np.nonzero(decided), strict=True)][::40] + [(i, 7 * i % 1500) for i in range(300)]:
        winner = Duel(int(wins[duel, look]), int(losses[duel, look])).winner
        assert (winner is not None) == decided[duel, look]


@pytest.mark.parametrize("counts", [{"wins": -1, "losses": 0}, {"wins": 1, "losses": 0, "level": 0.0}])
def test_what_is_no_count_and_no_chance_is_refused(counts):
    with pytest.raises(InputError, match="got"):
        Duel(**counts)
