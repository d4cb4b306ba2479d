"""Allowances: what bounds an attacker, and does not silence a teacher."""

from __future__ import annotations

import numpy as np
import pytest

from support.serving import TIME, made_docs, made_index, noisy, preferred, withdrawn
from tercet.serve import LearningBounds, replay
from tercet.serve.allowances import Allowances, Moment, Voter
from tercet.serve.journal import Entry, Renewed
from tercet.serve.replay import Replay
from tercet.store.digest import digest_of

pytestmark = pytest.mark.slow  # make test has it, make check has not

INDEX = made_index()
QUERIES = ("green avocado", "blue sky", "avocado", "Green AVOCADO", "toast of the dark garden", "unknownword")


def changed(entries: list[Entry], bounds: LearningBounds) -> float:
    return float(np.abs(replay(INDEX, entries, bounds).overlay.data).sum())


def reasons_of(entries: list[Entry], bounds: LearningBounds) -> set[str]:
    """What came of the votes of entries, each looked at when it was cast."""
    state, reasons = Replay(INDEX, bounds), set()
    for entry in entries:
        state.apply([entry])
        reasons |= {outcome.reason for outcome in state.outcomes(entry)}
    return reasons


@pytest.mark.parametrize("trust", [None, "visitor"])
def test_a_noisy_client_has_a_bounded_effect(trust):
    for client, most in ((lambda _: "10.0.0.1", 0.5), (lambda n: f"10.0.0.1/{n}", 5.0)):
        entries = noisy(200, client, trust)
        assert changed(entries, LearningBounds(client=0.5)) <= most * 1.0001
        assert changed(entries, LearningBounds(client=1e9)) > most


def test_a_noisy_client_that_goes_on_for_days_has_no_more_than_comes_back():
    one, many = (lambda _: "10.0.0.1"), (lambda n: f"10.0.0.1/{n}")
    bounds = LearningBounds(client=0.5, renewal=24.0)
    for hours in (12.0, 24.0, 72.0):
        assert changed(noisy(200, one, "visitor", hours), bounds) <= 0.5 * (1 + hours / 24) * 1.0001
        assert changed(noisy(200, many, "visitor", hours), bounds) <= 5.0 * (1 + hours / 24) * 1.0001
    slowly = changed(noisy(200, one, "visitor", 72.0), bounds)
    assert slowly > changed(noisy(200, one, "visitor"), bounds)
    assert changed(noisy(200, one, None, 72.0), bounds) == changed(noisy(200, one), bounds), "for life, as it was"


def test_names_that_are_vouched_for_have_more_together_and_no_more_each():
    bounds = LearningBounds(client=0.05)
    assert changed(noisy(200, lambda _: "10.0.0.1/ann", "vouched"), bounds) <= 0.05 * 1.0001
    many = noisy(200, lambda n: f"10.0.0.1/{n}", "vouched")
    assert 0.5 < changed(many, bounds) <= 5.0 * 1.0001


def test_many_people_behind_one_proxy_do_not_silence_each_other():
    entries = noisy(310, lambda n: f"10.0.0.1/reader-{n}", "vouched")
    assert "allowance" not in reasons_of(entries, LearningBounds(client=3.0))
    assert "allowance" in reasons_of(
        noisy(310, lambda n: f"10.0.0.1/reader-{n}", "visitor"), LearningBounds(client=3.0)
    )


@pytest.mark.parametrize("trust", [None, "visitor"])
def test_no_name_of_a_client_gives_more_than_another(trust):
    spent = []
    for name in ("10.0.0.1/*", "10.0.0.1/ann", "10.0.0.1/teacher"):
        state = Replay(INDEX, LearningBounds(client=0.5))
        state.apply(noisy(200, lambda _, name=name: name, trust))
        spent.append(state.allowances.spent(Voter(name, trust), Moment(200, 0.0)))
    assert spent[0] == spent[1] == spent[2]
    assert spent[0][0] <= 0.5


def test_a_teacher_is_not_silenced_and_does_not_pay_for_visitors():
    """However much others have said: the teacher's word is ahead at once, the thousandth time as the first."""
    state = Replay(INDEX, LearningBounds(client=0.5))
    entries = noisy(200, lambda _: "127.0.0.1", "visitor")
    state.apply(entries)
    spent = [state.outcomes(entry)[0].reason for entry in entries].count("allowance")
    assert spent > 100
    rng = np.random.default_rng(6)
    for number in range(201, 1201):
        better, worse = (str(doc) for doc in rng.choice(list(made_docs())[:-1], 2, replace=False))
        entry = preferred(number, str(rng.choice(QUERIES[:5])), better, worse, "127.0.0.1", "teacher")
        state.apply([entry])
        (outcome,) = state.outcomes(entry)
        assert outcome.is_ahead or outcome.reason == "same", (number, outcome)


def test_allowances_come_back_with_time_and_when_a_model_is_made_of_what_was_taught():
    bounds = LearningBounds(client=1.0, alone=1.0, teacher=4.0, renewal=24.0)
    allowances, ann, teacher = Allowances(bounds, 1.0), Voter("10.0.0.1/ann", "visitor"), Voter("::1", "teacher")
    assert allowances.charge(1.0, {ann: 1}, Moment(1, 0.0)) == 1.0
    before = allowances.to_spent()
    assert allowances.charge(1.0, {ann: 1}, Moment(2, 6 * 3600.0)) == 0.25
    assert allowances.hours_to_renew(ann, Moment(2, 6 * 3600.0)) == 24.0
    assert allowances.charge(1.0, {ann: 1}, Moment(3, 0.0)) == 0.0, "a clock that was set back gives nothing"
    assert allowances.charge(1.0, {ann: 1}, Moment(3, 6 * 3600.0)) == 0.0
    assert allowances.charge(4.0, {teacher: 1}, Moment(3, 0.0)) == 1.0
    allowances.renew(4)
    assert allowances.spent(ann, Moment(3, 6 * 3600.0))[:2] == (1.0, 0.25), (
        "that of the address is larger, and comes back as soon"
    )
    assert allowances.spent(ann, Moment(4, 6 * 3600.0)) == (0.0, 0.0, 0.0)
    assert allowances.charge(4.0, {teacher: 1}, Moment(5, 0.0)) == 1.0
    for_life = Allowances(LearningBounds(client=1.0, renewal=0.0), 1.0)
    for_life.charge(1.0, {ann: 1}, Moment(1, 0.0))
    assert for_life.charge(1.0, {ann: 1}, Moment(2, 1e9)) == 0.0
    assert for_life.hours_to_renew(ann, Moment(2, 1e9)) == np.inf
    allowances.restore(before)
    assert allowances.spent(ann, Moment(2, 6 * 3600.0))[0] == 0.75


# -- many addresses -------------------------------------------------------------------------------------------------


def test_the_addresses_of_a_network_are_one_client_and_those_of_a_site_few():
    bounds = LearningBounds(client=0.05, alone=1.0)
    of_one_network = noisy(200, lambda n: f"2001:db8:1:2::{n:x}", "visitor")
    assert 0 < changed(of_one_network, bounds) <= 0.05 * 1.0001
    of_one_site = noisy(200, lambda n: f"2001:db8:1:{n:x}::1", "visitor")
    assert 0.05 < changed(of_one_site, bounds) <= 40 * 0.05 * 1.0001
    of_many_sites = noisy(200, lambda n: f"2001:db8:{n:x}::1", "visitor")
    assert changed(of_many_sites, bounds) > changed(of_one_site, bounds)


def test_all_visitors_together_have_a_bounded_effect_until_a_model_is_made_of_it():
    bounds = LearningBounds(client=1.0, alone=1.0, crowd=2.0)
    entries = noisy(200, lambda n: f"10.0.{n}.1", "visitor", hours=240.0)
    assert 1.9 < changed(entries, bounds) <= 4.0 * 1.0001  # alone and not, whatever the time that passes
    renewed: list[Entry] = [*entries[:100], Renewed(101, TIME, "local", "promote"), *entries[101:]]
    assert changed(entries, bounds) < changed(renewed, bounds) <= 8.0 * 1.0001
    assert changed(noisy(200, lambda n: f"10.0.0.1/{n}", "vouched"), bounds) > 2.0, "somebody vouches for these"
    state = Replay(INDEX, bounds)
    state.apply(entries[:-1])
    state.apply(entries[-1:])
    outcomes = [outcome for outcome in state.outcomes(entries[-1]) if outcome.reason == "allowance"]
    assert [outcome.renewed_in for outcome in outcomes] == [float("inf")] * len(outcomes)


def test_whoever_agreed_with_somebody_elsewhere_pays_less():
    bounds = LearningBounds(client=1.0, alone=4.0)
    ann, bob = Voter("10.0.0.1", "visitor"), Voter("10.0.0.2", "visitor")
    near = Voter("2001:db8:1:1::", "visitor"), Voter("2001:db8:1:2::", "visitor")
    allowances = Allowances(bounds, 1.0)
    assert allowances.charge(1.0, {ann: 1}, Moment(1, 0.0)) == 0.25
    allowances = Allowances(bounds, 1.0)
    share = allowances.charge(0.1, {ann: 1, bob: 1}, Moment(1, 0.0))
    assert (share, allowances.spent(ann, Moment(1, 0.0))[0]) == (1.0, pytest.approx(0.05))
    assert allowances.charge(0.5, {ann: 1}, Moment(2, 0.0)) == 1.0
    assert allowances.charge(0.4, {ann: 1}, Moment(3, 0.0)) < 1.0, "alone in two of three, it pays more again"
    allowances = Allowances(bounds, 1.0)
    before = allowances.to_spent()
    allowances.charge(0.1, {ann: 1, bob: 1}, Moment(1, 0.0))
    allowances.restore(before)
    assert allowances.charge(1.0, {ann: 1}, Moment(2, 0.0)) == 0.25, "taken back, it counts no more"
    allowances = Allowances(bounds, 1.0)
    allowances.charge(0.1, dict.fromkeys(near, 1), Moment(1, 0.0))
    assert allowances.charge(4.0, {near[0]: 1}, Moment(2, 0.0)) < 0.25, "two networks of one site are one place"


def test_those_who_are_alone_cannot_spend_what_the_others_have():
    bounds = LearningBounds(client=10.0, alone=4.0, crowd=8.0)
    allowances = Allowances(bounds, 1.0)
    alone = [Voter(f"10.0.0.{i}", "visitor") for i in range(9)]
    shares = [allowances.charge(1.0, {voter: 1}, Moment(at, 0.0)) for at, voter in enumerate(alone)]
    assert shares == [1.0, 1.0] + [0.0] * 7
    together = dict.fromkeys((Voter("10.1.0.1", "visitor"), Voter("10.1.0.2", "visitor")), 1)
    assert [allowances.charge(4.0, together, Moment(at, 0.0)) for at in (10, 11, 12)] == [1.0, 1.0, 0.0]


def test_agreement_replays_to_the_same_bits_in_any_portions():
    rng = np.random.default_rng(3)
    docs = list(made_docs())[:6]
    entries: list[Entry] = []
    for number in range(1, 60):
        if number % 9 == 0:
            entries.append(withdrawn(number, int(rng.integers(1, number))))
            continue
        better, worse = (str(doc) for doc in rng.choice(docs, 2, replace=False))
        client = f"2001:db8:{rng.integers(2)}:{rng.integers(3)}::{rng.integers(9)}"
        entries.append(preferred(number, QUERIES[rng.integers(2)], better, worse, client, "visitor", number / 10))
    bounds = LearningBounds(client=0.2, crowd=1.0)
    expected = replay(INDEX, entries, bounds).digest
    state = Replay(INDEX, bounds)
    for entry in entries:
        state.apply([entry])
    assert digest_of(state.overlay.matrix())[:32] == expected
