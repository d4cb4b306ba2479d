"""A click log as it grows: read once, in any portions, through kills, rotations and half lines."""

from __future__ import annotations

import gzip
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tercet as tc
from support.click_data import DOCS, LOG, QUERIES, model, sparse_bits
from support.forking import changed, kill_while
from tercet.data import Impression, watch_reading, write_clicks
from tercet.data.growing import GrowingFile
from tercet.errors import BundleError, FormatError, InputError
from tercet.fitting.click_log import ClickEvent, learn_from_clicks
from tercet.learn.online import OnlineRule


def lines(log: list[Impression]) -> str:
    return "".join(json.dumps(dict(zip(("query", "shown", "clicked"), each, strict=True))) + "\n" for each in log)


def learned(log: list[Impression], path: Path) -> tuple[bytes, bytes]:
    """The bits of learning from all of a log at once."""
    path.write_text(lines(log))
    return sparse_bits(learn_from_clicks(model(), path, DOCS, queries=QUERIES).weights)


def test_tsv_and_packed_logs_are_learned_from_alike(tmp_path):
    expected = learned(LOG * 9, tmp_path / "log.jsonl")
    write_clicks(tmp_path / "log.tsv", LOG * 9)
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(lines(LOG * 9).rstrip("\n").encode()))
    for name in ("log.tsv", "log.jsonl.gz"):
        found = learn_from_clicks(model(), tmp_path / name, DOCS, queries=QUERIES)
        assert sparse_bits(found.weights) == expected
    with pytest.raises(InputError, match="is gzipped and cannot grow"):
        learn_from_clicks(model(), tmp_path / "log.jsonl.gz", DOCS, follow=True)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("name", ["log.jsonl", "log.tsv"])
def test_a_log_that_grows_between_calls_is_learned_from_once(name, in_place, tmp_path):
    expected = learned(LOG * 9, tmp_path / "all.jsonl")
    write_clicks(tmp_path / name, LOG * 9)
    whole = (tmp_path / name).read_bytes()
    model().save(tmp_path / "model")
    output = tmp_path / ("model" if in_place else "out")
    told: list[ClickEvent] = []
    for stop in (0, 40, 41, len(whole) // 2, len(whole) - 1, len(whole), len(whole)):
        (tmp_path / name).write_bytes(whole[:stop])
        found = learn_from_clicks(
            tc.load(tmp_path / "model"),
            tmp_path / name,
            DOCS,
            queries=QUERIES,
            output=output,
            checkpoint=tmp_path / "c",
            on_event=told.append,
        )
    assert sparse_bits(found.weights) == sparse_bits(tc.load(output).weights) == expected
    assert told[-1].tally.n_impressions == 45
    assert any(event.note and "the last line has no end yet" in event.note for event in told)
    assert len(tc.load(output).weights.parts) == len(model().weights.parts) + 1


def test_the_place_belongs_to_one_log_one_model_and_one_pace(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG * 9))
    kept = {"queries": QUERIES, "checkpoint": tmp_path / "c"}
    learn_from_clicks(model(), log, DOCS, **kept)
    with pytest.raises(InputError, match="was learned by"):
        learn_from_clicks(model(), log, DOCS, **kept, skipped="all")
    with pytest.raises(InputError, match="was learned by"):
        learn_from_clicks(model(), log, DOCS, **kept, rule=OnlineRule(rate=0.5))
    other = replace(model(), weights=model().weights * 2.0)
    with pytest.raises(InputError, match="belongs to another model"):
        learn_from_clicks(other, log, DOCS, **kept)
    log.write_text(lines(LOG[::-1] * 9))
    with pytest.raises(InputError, match="it was replaced or changed"):
        learn_from_clicks(model(), log, DOCS, **kept)
    log.write_text(lines(LOG))
    with pytest.raises(InputError, match="it was replaced or changed"):
        learn_from_clicks(model(), log, DOCS, **kept)


def test_a_broken_line_is_told_and_what_was_written_before_stays(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG) + '{"query": "sky"}\n' + lines(LOG))
    with pytest.raises(FormatError, match=r'log\.jsonl:6: the key "shown" is missing'):
        learn_from_clicks(model(), log, DOCS, checkpoint=tmp_path / "c", every=2)
    assert tc.store.read_bundle(tmp_path / "c").meta["line"] == 4


@pytest.mark.parametrize("half", ["", '{"query": "sk'])
def test_a_log_of_blank_lines_so_far_can_be_gone_on_in(half, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("\n \n" + half)
    kept = {"queries": QUERIES, "checkpoint": tmp_path / "c"}
    for _ in range(2):
        learn_from_clicks(model(), log, DOCS, **kept)
    assert tc.store.read_bundle(tmp_path / "c").meta["line"] == 2
    log.write_text("\n \n" + lines(LOG))
    found = learn_from_clicks(model(), log, DOCS, **kept)
    assert sparse_bits(found.weights) == learned(LOG, tmp_path / "all.jsonl")


def test_a_pipe_is_no_log(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="pipe: this is a pipe or a device; a file is needed"):
        learn_from_clicks(model(), tmp_path / "pipe", DOCS)


def test_a_new_log_is_learned_from_after_the_one_before(tmp_path):
    expected = learned(LOG * 2 + LOG[::-1] * 3, tmp_path / "all.jsonl")
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG * 2))
    kept = {"queries": QUERIES, "checkpoint": tmp_path / "c"}
    learn_from_clicks(model(), log, DOCS, **kept)
    log.rename(tmp_path / "log.1")  # which nobody followed
    log.write_text(lines(LOG[::-1] * 3))
    with pytest.raises(InputError, match="say that this is a new log"):
        learn_from_clicks(model(), log, DOCS, **kept)
    found = learn_from_clicks(model(), log, DOCS, **kept, new_log=True)
    assert sparse_bits(found.weights) == expected
    assert sparse_bits(learn_from_clicks(model(), log, DOCS, **kept).weights) == expected


def test_one_run_at_a_time_learns_for_an_output_and_from_a_checkpoint(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG))
    refusals = []

    def second(**others: Path) -> None:
        with pytest.raises(BundleError, match="another run is learning for") as refused:
            learn_from_clicks(model(), log, DOCS, **others)
        refusals.append(str(refused.value))

    def meanwhile(event: ClickEvent) -> None:
        if not refusals:
            second(output=tmp_path / "new" / "out", checkpoint=tmp_path / "c")
            second(output=tmp_path / "new" / "out", checkpoint=tmp_path / "d")
            second(output=tmp_path / "other", checkpoint=tmp_path / "c")

    first = {"output": tmp_path / "new" / "out", "checkpoint": tmp_path / "c"}
    learn_from_clicks(model(), log, DOCS, **first, on_event=meanwhile)
    assert [refusal.split(";")[0].rsplit("/", 1)[1] for refusal in refusals] == ["out", "out", "c"]
    learn_from_clicks(model(), log, DOCS, **first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "log.jsonl", "new"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"], "nothing is left of the claims"
    with pytest.raises(FormatError):
        learn_from_clicks(model(), tmp_path / "none", DOCS, output=tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


def test_a_model_that_a_kill_left_behind_its_checkpoint_is_written_at_once(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG * 3))
    kept = {"queries": QUERIES, "output": tmp_path / "out", "checkpoint": tmp_path / "c"}
    expected = sparse_bits(learn_from_clicks(model(), log, DOCS, **kept).weights)
    model().save(tmp_path / "out")
    written = []

    def stopped() -> bool:
        written.append(sparse_bits(tc.load(tmp_path / "out").weights))
        return True

    learn_from_clicks(model(), log, DOCS, **kept, follow=True, stopped=stopped)
    assert written == [expected]


class Ticks:
    """Stops following after so many looks, and does something to the log before each."""

    def __init__(self, *deeds) -> None:
        self.deeds = list(deeds)

    def __call__(self) -> bool:
        if not self.deeds:
            return True
        self.deeds.pop(0)()
        return False


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr("tercet.fitting.click_log.POLL_SECONDS", 0.0)


def append(path: Path, text: str):
    def deed() -> None:
        with open(path, "a") as file:
            file.write(text)

    return deed


def nothing() -> None:
    pass


def test_a_followed_log_is_learned_from_as_it_grows_and_half_a_line_waits(tmp_path, at_once):
    expected = learned(LOG * 3, tmp_path / "all.jsonl")
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG)[:-10])
    told: list[ClickEvent] = []
    rest = lines(LOG)[-10:] + lines(LOG * 2)
    ticks = Ticks(nothing, nothing, append(log, rest[:30]), nothing, append(log, rest[30:]), nothing)
    found = learn_from_clicks(model(), log, DOCS, queries=QUERIES, follow=True, stopped=ticks, on_event=told.append)
    assert sparse_bits(found.weights) == expected
    assert [event.tally.n_impressions for event in told if event.note is None][:2] == [4, 5]
    assert told[-1].written


def test_a_rotated_log_is_read_to_its_end_and_then_the_new_one(tmp_path, at_once):
    expected = learned(LOG * 4, tmp_path / "all.jsonl")
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG))
    told: list[ClickEvent] = []

    def rotate() -> None:
        append(log, lines(LOG))()
        log.rename(tmp_path / "log.1")

    ticks = Ticks(
        nothing, nothing, rotate, nothing, append(log, lines(LOG)), nothing, nothing, append(log, lines(LOG)), nothing
    )
    kept = {"queries": QUERIES, "checkpoint": tmp_path / "c"}
    found = learn_from_clicks(model(), log, DOCS, **kept, follow=True, stopped=ticks, on_event=told.append)
    assert sparse_bits(found.weights) == expected
    notes = [event.note for event in told if event.note and "is another file now" in event.note]
    assert len(notes) == 1
    assert "the one before was read to line 10" in notes[0]
    append(log, lines(LOG))()
    again = learn_from_clicks(model(), log, DOCS, **kept)
    assert sparse_bits(again.weights) == learned(LOG * 5, tmp_path / "all.jsonl")


def test_a_log_that_is_renamed_and_not_there_yet_disturbs_no_writing(tmp_path, at_once):
    expected = learned(LOG * 3, tmp_path / "all.jsonl")
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG))
    kept = {"queries": QUERIES, "output": tmp_path / "out", "checkpoint": tmp_path / "c"}

    def rotate() -> None:
        append(log, lines(LOG * 2))()
        log.rename(tmp_path / "log.1")

    learn_from_clicks(model(), log, DOCS, **kept, follow=True, stopped=Ticks(nothing, rotate, nothing, nothing))
    assert sparse_bits(tc.load(tmp_path / "out").weights) == expected
    again = learn_from_clicks(model(), tmp_path / "log.1", DOCS, **kept)
    assert sparse_bits(again.weights) == expected, "the checkpoint knows the file it has read"


def test_a_followed_log_is_waited_for(tmp_path, at_once):
    expected = learned(LOG, tmp_path / "all.jsonl")
    log = tmp_path / "log.jsonl"
    told: list[ClickEvent] = []
    common = {"queries": QUERIES, "follow": True, "on_event": told.append, "output": tmp_path / "out"}
    learn_from_clicks(model(), log, DOCS, **common, stopped=Ticks(nothing, nothing))
    guessed = "clicks are weighed by chances of looking at a rank by the guess 1 / log2(1 + rank): there is no file yet"
    assert told[0].note.startswith(guessed)
    assert [event.note for event in told[1:]] == [f"there is no {log} yet; waiting for it"]
    assert not (tmp_path / "out").exists()
    ticks = Ticks(nothing, append(log, lines(LOG)), nothing, nothing)
    assert sparse_bits(learn_from_clicks(model(), log, DOCS, **common, stopped=ticks).weights) == expected


def test_a_log_that_is_cut_off_is_an_error_and_what_was_learned_is_kept(tmp_path, at_once):
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG))
    kept = {"queries": QUERIES, "output": tmp_path / "out", "checkpoint": tmp_path / "c"}
    ticks = Ticks(nothing, lambda: log.write_text("x"), nothing, nothing)
    with pytest.raises(FormatError, match="it was cut off or written anew"):
        learn_from_clicks(model(), log, DOCS, **kept, follow=True, stopped=ticks)
    assert sparse_bits(tc.load(tmp_path / "out").weights) == learned(LOG, tmp_path / "all.jsonl")
    with pytest.raises(FormatError, match="it was cut off or written anew"):
        learn_from_clicks(model(), log, DOCS, **kept)
    log.write_text(lines(LOG * 4))
    with pytest.raises(InputError, match="it was replaced or changed"):
        learn_from_clicks(model(), log, DOCS, **kept)
    found = learn_from_clicks(model(), log, DOCS, **kept, new_log=True)
    assert sparse_bits(found.weights) == learned(LOG * 5, tmp_path / "all.jsonl")


def test_lines_before_a_broken_one_are_not_passed_over(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one\n\xff\nthree\n")
    with GrowingFile(path) as file:
        with pytest.raises(FormatError, match=r"file:2: byte 0xff"):
            file.read(9)
        assert file.position == (0, 0)


def test_a_watched_log_is_followed_alike(tmp_path, at_once):
    expected = learned(LOG * 3, tmp_path / "all.jsonl")
    log = tmp_path / "log.jsonl"
    log.write_text(lines(LOG))
    told = []
    with watch_reading(lambda *seen: told.append(seen)):
        ticks = Ticks(nothing, nothing, append(log, lines(LOG * 2)), nothing)
        found = learn_from_clicks(model(), log, DOCS, queries=QUERIES, follow=True, stopped=ticks)
    assert sparse_bits(found.weights) == expected
    assert told


def test_lines_come_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\ntw")
    with GrowingFile(path) as file:
        assert file.read(1) == [(1, "one")]
        assert file.read(9) == [(2, "")]
        assert (file.read(9), file.n_waiting, file.position) == ([], 2, (9, 2))


@pytest.mark.slow
def test_a_killed_follower_ends_with_the_bits_of_one_that_was_not(tmp_path):
    rng = np.random.default_rng(0)
    many = [LOG[at] for at in rng.integers(0, len(LOG), 600)]
    expected = learned(many, tmp_path / "all.jsonl")
    text, log = lines(many), tmp_path / "log.jsonl"
    log.write_text("")
    model().save(tmp_path / "model")
    kept = {"queries": QUERIES, "output": tmp_path / "model", "checkpoint": tmp_path / "c"}

    def follow() -> None:
        slowly = lambda event: time.sleep(0.002)  # noqa: E731
        learn_from_clicks(tc.load(tmp_path / "model"), log, DOCS, **kept, follow=True, every=7, on_event=slowly)

    for at, after in enumerate((0.0, 0.01, 0.03, 0.05)):
        append(log, text[len(text) * at // 5 : len(text) * (at + 1) // 5])()
        kill_while(follow, changed(tmp_path / "c" / "manifest.json"), after)
    reached = tc.store.read_bundle(tmp_path / "c").meta["line"]
    assert 0 < reached < 600
    append(log, text[len(text) * 4 // 5 :])()
    found = learn_from_clicks(tc.load(tmp_path / "model"), log, DOCS, **kept)
    assert sparse_bits(found.weights) == sparse_bits(tc.load(tmp_path / "model").weights) == expected
