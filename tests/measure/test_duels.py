"""Which lists of a log count, and where a duel stands."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.data.ubi import CLICK_SECONDS, LoggedList
from tercet.errors import InputError
from tercet.measure.duels import Assignment, Contest, Tally

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0
CONTEST = Contest("served", "candidate")
DOCS = ("a", "b", "c", "d", "e")
TEAMS = ("first", "second", "second", "first", None)


def shown(client="c", query="tea", clicked=(), at=0.0, contest=CONTEST, docs=DOCS) -> LoggedList:
    meta = Assignment(contest, TEAMS[: len(docs)]).to_meta()
    return LoggedList(NOON + at, "id", client, query, tuple(docs), tuple(clicked), {"interleaved": meta})


def counted(lists, settle):
    """The rules one by one, each list against all before it: slow and obvious. Wins less losses by client."""
    first, leads = {}, {}
    for one in lists:
        began = first.setdefault(one.client, one.shown_at)
        if one.shown_at <= began + 3 * settle:
            owned = zip(one.shown, one.attributes["interleaved"]["teams"], strict=True)
            sides = [team for doc, team in owned if doc in one.clicked]
            clicks = [sides.count(1), sides.count(2)]
            leads.setdefault(one.client, []).append((clicks[0] > clicks[1]) - (clicks[0] < clicks[1]))
    return leads


visits = st.tuples(st.sampled_from("uvwxyz"), st.sampled_from(["tea", "oil", "sky"]), st.sets(st.sampled_from(DOCS)))


@settings(max_examples=60)
@given(st.lists(visits, max_size=60), st.sampled_from([60.0, 600.0, 20_000.0]))
def test_counted_lists_are_those_of_the_rules(visited, pause):
    lists = [shown(*visit, i * pause) for i, visit in enumerate(visited)]
    tally = Tally()
    for one in lists:
        tally.take(one)
    tally.close(NOON + 10 * DAY * len(lists))
    leads = counted(lists, CLICK_SECONDS)
    scores = [sum(lead) / max(sum(map(abs, lead)), 1) for lead in leads.values()]
    assert sorted(Counter(scores).items()) == sorted(tally.duel(CONTEST).scores.items())
    assert sum(tally.left_out.values()) == len(lists) - sum(map(len, leads.values()))


def test_a_client_counts_once_by_its_first_visit():
    tally = Tally()
    clicks = ["a", "a", "b", "e"]  # two wins, a loss, a list that nobody won
    for number, doc in enumerate(clicks):
        tally.take(shown(query=f"q{number}", clicked=[doc], at=600.0 * number))
    for number in range(5):
        tally.take(shown(query=f"later {number}", clicked=["b"], at=1801 + DAY * number))
    assert tally.duel(CONTEST).n_clients == 0
    tally.close(NOON + 2399)  # the clicks of a list at the end of the visit are not settled
    assert (tally.duel(CONTEST).n_clients, tally.running[CONTEST].n_open) == (0, 1)
    tally.close(NOON + 2400)
    assert tally.duel(CONTEST).scores == {1 / 3: 1}
    assert (tally.running[CONTEST].n_lists, tally.left_out) == (4, {"later": 5})


def test_no_few_clients_decide_alone():
    tally = Tally()
    for client in range(4):
        for number in range(100):
            tally.take(shown(f"c{client}", f"q{number}", ["a"], number))
    tally.close(NOON + DAY)
    assert tally.duel(CONTEST).winner is None


def test_lists_that_are_not_shared_or_broken_do_not_count():
    tally = Tally()
    tally.take(LoggedList(NOON, "id", "c", "tea", DOCS, ("a",), {}))
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
        tally.take(LoggedList(NOON, "id", "c", "tea", DOCS, ("a",), {"interleaved": broken}))
    assert tally.left_out == {"broken": 7}
    assert not tally.running


def test_contests_are_told_apart():
    tally = Tally()
    contests = [CONTEST, Contest("candidate", "served"), CONTEST._replace(promotion=2), Contest("served", "baseline")]
    for i, contest in enumerate(contests):
        tally.take(shown(f"c{i}", clicked=["a"], contest=contest))
    tally.close(NOON + DAY)
    assert {contest: tally.duel(contest).wins for contest in tally.running} == dict.fromkeys(contests, 1)


@given(st.lists(st.sampled_from(TEAMS), max_size=8), st.integers(0, 9))
def test_an_assignment_comes_back_from_the_log(teams, promotion):
    assignment = Assignment(Contest("a", "b", promotion), tuple(teams))
    assert Assignment.from_meta(assignment.to_meta(), len(teams)) == assignment
