"""Learning on from a click log leaves out what no person made, and says by what clicks are weighed."""

from __future__ import annotations

import json
from functools import partial

import pytest

from support.click_data import DOCS, LOG, QUERIES, model, sparse_bits
from tercet.data import Impression
from tercet.errors import InputError
from tercet.fitting.click_log import learn_from_clicks

MANY = (*DOCS, *(f"unknown {number}" for number in range(8)))
BOT = Impression("avocado", MANY, MANY[1:])
PERSON = [(impression, f"s{number % 7}") for number, impression in enumerate(LOG * 20)]


def lines(log):
    keys = ("query", "shown", "clicked", "session")
    return "".join(json.dumps(dict(zip(keys, (*each, who), strict=True))) + "\n" for each, who in log)


def learned(path, log, **options):
    """The bits of what was learned, and what was told."""
    told = []
    path.write_text(lines(log))
    found = learn_from_clicks(model(), path, DOCS, queries=QUERIES, on_event=told.append, **options)
    return sparse_bits(found.weights), told


def mixed(bots, at=(3, 40, 41, 90)):
    """The lists of people with others between them."""
    log = list(PERSON)
    for place, bot in zip(at, bots, strict=True):
        log.insert(place, bot)
    return log


@pytest.mark.parametrize("who", ["bot", None])
def test_lists_that_click_everything_are_left_out(who, tmp_path):
    expected, _ = learned(tmp_path / "log.jsonl", PERSON)
    bits, told = learned(tmp_path / "log.jsonl", mixed([(BOT, who)] * 4))
    assert bits == expected
    assert (told[-1].tally.n_left_out, told[-1].tally.n_impressions) == (4, len(PERSON))


def test_who_comes_too_often_is_left_out_from_the_first_list_on(tmp_path):
    crawler = [(impression, "crawler") for impression in LOG * 60]
    expected, _ = learned(tmp_path / "log.jsonl", [(each, f"s{number}") for number, each in enumerate(LOG * 20)])
    people = [(each, f"s{number}") for number, each in enumerate(LOG * 20)]
    bits, told = learned(tmp_path / "log.jsonl", crawler[:100] + people + crawler[100:])
    assert bits == expected
    assert "left out 1 sessions as of one who comes too often" in told[0].note


def test_what_comes_after_learning_began_is_left_out_from_where_on_it_is_odd(tmp_path):
    log, kept = tmp_path / "log.jsonl", {"queries": QUERIES, "checkpoint": tmp_path / "c"}
    people = [(each, f"s{number}") for number, each in enumerate(LOG * 20)]
    crawler = [(impression, "crawler") for impression in LOG * 60]
    expected, _ = learned(tmp_path / "all.jsonl", people + [(each, "nobody") for each, _ in crawler[:100]])
    log.write_text(lines(people))
    learn_from_clicks(model(), log, DOCS, **kept)
    log.write_text(lines(people + crawler))
    told = []
    found = learn_from_clicks(model(), log, DOCS, **kept, on_event=told.append)
    assert sparse_bits(found.weights) == expected  # a hundred lists may be those of a person
    assert told[-1].tally.n_left_out == 200


def test_portions_and_interruptions_change_nothing(tmp_path):
    bots = [(BOT, "bot")] * 2 + [(BOT, None)] * 2
    expected, _ = learned(tmp_path / "all.jsonl", mixed(bots))
    log = tmp_path / "log.jsonl"
    whole = lines(mixed(bots))
    log.write_text(whole)
    for number in range(20):
        answers = iter([False] * (number % 3 + 1))
        stopped = partial(next, answers, True)
        found = learn_from_clicks(
            model(), log, DOCS, queries=QUERIES, checkpoint=tmp_path / "c", every=7, stopped=stopped
        )
    assert sparse_bits(found.weights) == expected


def test_the_guess_is_said_with_the_reason(tmp_path):
    _, told = learned(tmp_path / "log.jsonl", PERSON[:3])
    [note] = [event.note for event in told if event.note]
    assert note.startswith("clicks are weighed by chances of looking at a rank by the guess 1 / log2(1 + rank): ")
    assert "are needed" in note or "no documents that were seen" in note
    _, told = learned(tmp_path / "log.jsonl", PERSON[:3], examination=(1.0, 0.5))
    assert not any(event.note for event in told)


def test_a_checkpoint_goes_on_by_its_own_chances_and_by_no_others(tmp_path):
    path, kept = tmp_path / "log.jsonl", {"checkpoint": tmp_path / "kept"}
    learned(path, PERSON[:3], examination=(1.0, 0.5), **kept)
    expected, _ = learned(path, PERSON[:9], examination=(1.0, 0.5))
    with pytest.raises(InputError, match="was learned with other chances of looking at a rank"):
        learned(path, PERSON[:9], examination=(1.0, 0.25), **kept)
    assert learned(path, PERSON[:6], **kept)[0] != expected
    assert learned(path, PERSON[:9], examination=[1, 0.5], **kept)[0] == expected
