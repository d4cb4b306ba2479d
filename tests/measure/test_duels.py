"""Which lists of a log count, and where a duel stands."""

from __future__ import annotations

from datetime import UTC, datetime
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data.ubi import LoggedList
from tercet.errors import InputError
from tercet.measure import duels
from tercet.measure.duels import Assignment, Contest, RunningDuel, Tally
from tercet.measure.interleaving import Duel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0
CONTEST = Contest("served", "candidate")
DOCS = ("a", "b", "c", "d", "e")
TEAMS = ("first", "second", "second", "first", None)


def shown(client="c", query="tea", clicked=(), at=0.0, address=None, contest=CONTEST, docs=DOCS) -> LoggedList:
    meta = Assignment(contest, TEAMS[: len(docs)], address=address).to_meta()
    return LoggedList(NOON + at, "id", client, query, tuple(docs), tuple(clicked), {"interleaved": meta})


def counted(lists):
    """The rules one by one, each list against all before it: slow and obvious."""
    outcomes = []
    n_counting = []  # the lists that count, with their days
    were_odd = set()
    asked = set()
    for i, one in enumerate(lists):
        day = datetime.fromtimestamp(one.shown_at, UTC).date()
        until_now = [other for other in lists[: i + 1] if datetime.fromtimestamp(other.shown_at, UTC).date() == day]
        mine = [other for other in until_now if other.client == one.client]
        n_shown, n_clicked = sum(len(other.shown) for other in mine), sum(len(other.clicked) for other in mine)
        by_client = {}
        for other in until_now:
            by_client[other.client] = by_client.get(other.client, 0) + 1
        usual = sorted(by_client.values())[(len(by_client) - 1) // 2]
        if (n_shown >= 10 and n_clicked >= 0.8 * n_shown) or len(mine) > max(100, 20 * usual):
            were_odd.add((day, one.client))
        odd = (day, one.client) in were_odd
        repeated = (day, one.client, one.query) in asked
        asked.add((day, one.client, one.query))
        meta = one.attributes["interleaved"]
        same_day = [other for other, then in n_counting if then == day]
        of_client = sum(other.client == one.client for other in same_day)
        address = meta.get("address_id")
        of_address = sum(other.attributes["interleaved"].get("address_id") == address for other in same_day)
        if repeated or odd or of_client >= duels.CLIENT_LISTS or (address and of_address >= duels.ADDRESS_LISTS):
            continue
        n_counting.append((one, day))
        owned = zip(one.shown, meta["teams"], strict=True)
        sides = [team for doc, team in owned if doc in one.clicked]
        clicks = [sides.count(1), sides.count(2)]
        outcomes.append((clicks[0] > clicks[1]) - (clicks[0] < clicks[1]))
    return outcomes


visits = st.tuples(
    st.sampled_from("uvw"),
    st.sampled_from(["tea", "oil", "sky"]),
    st.sets(st.sampled_from(DOCS)),
    st.sampled_from([None, "x", "y"]),
)


@settings(max_examples=60)
@given(st.lists(visits, max_size=60), st.sampled_from([60.0, 3600.0, 20_000.0]))
def test_what_counts_is_what_the_rules_say(visited, pause):
    # Few lists are enough here, so that the bounds are reached.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duels, "CLIENT_LISTS", 2)
        patch.setattr(duels, "ADDRESS_LISTS", 3)
        lists = [shown(*visit[:3], i * pause, visit[3]) for i, visit in enumerate(visited)]
        tally = Tally()
        taken = [outcome[1] for one in lists if (outcome := tally.take(one)) is not None]
        assert taken == counted(lists)
    standing = tally.standings[CONTEST]
    assert (standing.wins, standing.losses, standing.ties) == (taken.count(1), taken.count(-1), taken.count(0))
    assert sum(tally.left_out.values()) == len(lists) - len(taken)


def test_one_client_counts_so_often_and_one_address():
    tally = Tally()
    for number in range(100):
        tally.take(shown(query=f"q{number}", clicked=["a"], at=number))
    assert tally.standings[CONTEST].wins == duels.CLIENT_LISTS
    assert tally.left_out["client"] == 80
    for number in range(1000):
        tally.take(shown(f"name-{number}", clicked=["b"], at=200 + number, address="proxy"))
    assert tally.standings[CONTEST].losses == duels.ADDRESS_LISTS
    for number in range(300):  # for whom somebody vouches
        tally.take(shown(f"visitor-{number}", clicked=["b"], at=2000 + number))
    assert tally.standings[CONTEST].losses == duels.ADDRESS_LISTS + 300


def test_what_a_client_asks_whose_lists_count_no_more_is_not_kept():
    tally = Tally()
    for i in range(500):
        tally.take(shown(query=f"tea {i}", at=i))
    assert tally.left_out == {"client": 500 - duels.CLIENT_LISTS}
    assert len(tally._days[0].asked) == duels.CLIENT_LISTS


def test_the_same_search_counts_once_a_day():
    tally = Tally()
    for i in range(4):
        tally.take(shown(clicked=["a"] if i == 0 else ["b"], at=3600.0 * i))
    tally.take(shown(clicked=["b"], at=DAY))
    assert (tally.standings[CONTEST].wins, tally.standings[CONTEST].losses) == (1, 1)
    assert tally.left_out == {"repeated": 3}


def test_who_clicks_everything_or_comes_too_often_is_left_out():
    tally = Tally()
    for i in range(5):
        tally.take(shown("bot", f"q{i}", DOCS, i))
    assert tally.standings[CONTEST].ties == 1  # as yet it was shown five documents
    assert tally.left_out["odd"] == 4
    for i in range(30):
        tally.take(shown(f"visitor-{i}", at=100 + i))
    crowd = median([5] + [1] * 30)
    assert crowd == 1
    for i in range(150):
        tally.take(shown("often", f"q{i}", ["a"], 1000 + i))
    assert tally.left_out["client"] == 80  # up to its hundredth list it may be a person
    assert tally.left_out["odd"] == 4 + 50


def test_a_client_that_was_odd_does_not_count_again_on_that_day():
    tally = Tally()
    for i in range(2):
        tally.take(shown("bot", f"q{i}", DOCS, i))
    for i in range(9):  # by now it has clicked little of what it was shown
        tally.take(shown("bot", f"later-{i}", ["a"], 10 + i))
    assert tally.left_out["odd"] == 10
    tally.take(shown("bot", "tomorrow", ["a"], 86_400))
    assert tally.standings[CONTEST].wins == 1


def test_how_many_more_it_takes_is_not_told_by_one_client():
    first = RunningDuel()
    first.take("a", 1)
    assert first.n_to_go is None
    assert first.duel.n_to_go is not None
    alone = RunningDuel(wins=40, losses=20, by_client={"a": [40, 0]} | {f"b{i}": [0, 1] for i in range(20)})
    assert (alone.winner, alone.n_to_go) == (None, None)
    many = RunningDuel(wins=30, losses=20, by_client={f"c{i}": [1, 0] for i in range(30)})
    assert many.n_to_go == Duel(29, 20).n_to_go


def test_lists_that_are_not_shared_or_broken_do_not_count():
    tally = Tally()
    assert tally.take(LoggedList(NOON, "id", "c", "tea", DOCS, ("a",), {})) is None
    who = {"contenders": ["x", "y"]}
    for broken in (
        7,
        {},
        {"contenders": ["x"]},
        who | {"teams": [1]},
        who | {"teams": [1, 2, 3, 0, 0]},
        who | {"teams": [1] * 5, "promotion": "last"},
        who | {"ranks": [[None] * 5, [1, 2, 3, 4, 5]]},  # of a balanced list, which earlier versions made
    ):
        with pytest.raises(InputError, match="does not say whose"):
            Assignment.from_meta(broken, 5)
        assert tally.take(LoggedList(NOON, "id", "c", "tea", DOCS, ("a",), {"interleaved": broken})) is None
    assert tally.left_out == {"broken": 7}
    assert not tally.standings


def test_contests_are_told_apart():
    tally = Tally()
    contests = [CONTEST, Contest("candidate", "served"), CONTEST._replace(promotion=2), Contest("served", "baseline")]
    for i, contest in enumerate(contests):
        tally.take(shown(f"c{i}", clicked=["a"], contest=contest))
    assert {contest: standing.wins for contest, standing in tally.standings.items()} == dict.fromkeys(contests, 1)


@given(st.lists(st.sampled_from(TEAMS), max_size=8), st.sampled_from([None, "x"]), st.integers(0, 9))
def test_an_assignment_comes_back_from_the_log(teams, address, promotion):
    assignment = Assignment(Contest("a", "b", promotion), tuple(teams), address=address)
    assert Assignment.from_meta(assignment.to_meta(), len(teams)) == assignment


@given(st.lists(st.tuples(st.sampled_from("uvwxyz"), st.sampled_from([-1, 0, 1])), max_size=80))
def test_no_client_decides_alone(outcomes):
    standing = RunningDuel()
    for client, outcome in outcomes:
        standing.take(client, outcome)
    alone = []
    for client in {client for client, _ in outcomes} | {"nobody"}:
        others = [outcome for who, outcome in outcomes if who != client]
        alone.append(Duel(others.count(1), others.count(-1), others.count(0)).winner)
    whole = Duel(standing.wins, standing.losses, standing.ties).winner
    assert standing.winner == (whole if set(alone) == {whole} else None)
    assert (standing.n_to_go == 0) == (standing.winner is not None)
