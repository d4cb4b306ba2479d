"""tercet eval --interleaved: who wins by the clicks in a log, in words and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from support.commands import ok, run
from tercet.measure.duels import Assignment, Contest, read_duels
from tercet.serve.impressions import ImpressionLog

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
DOCS = ["a", "b", "c", "d"]
TEAMS = ("first", "second", "second", "first")


class Clock:
    now = NOON

    def __call__(self) -> float:
        return self.now


def write_log(folder, contest, n_lists, chance, *, rng, clock, who="visitor", clicks=0.6):
    """Visitors of a list each; those who click choose the second side with a chance."""
    with ImpressionLog(folder, keep_days=10_000, clock=clock) as log:
        for number in range(n_lists):
            meta = {"interleaved": Assignment(contest, TEAMS).to_meta()}
            client = who if who == "me" else f"{who}-{number}"
            query_id = log.search(client, f"tea {number}", DOCS, meta)
            if rng.random() < clicks:
                log.click(client, query_id, "b" if rng.random() < chance else "a")
            clock.now += 30
    return folder


@pytest.fixture
def log(tmp_path):
    rng, clock = np.random.default_rng(3), Clock()
    write_log(tmp_path / "log", Contest("served", "better"), 500, 0.7, rng=rng, clock=clock)
    write_log(tmp_path / "log", Contest("better", "served", promotion=1), 100, 0.45, rng=rng, clock=clock)
    return tmp_path / "log"


def test_the_better_one_is_named_in_words(log):
    before = {path: path.read_bytes() for path in log.iterdir()}
    output = ok("eval", "--interleaved", log)
    tally = read_duels(log)
    duel, later = tally.duel(Contest("served", "better")), tally.duel(Contest("better", "served", 1))
    assert f"{log}: 600 lists, 600 of them interleaved, 600 count" in output
    assert "served (served) against better: team-draft lists\n" in output
    assert (
        f"500 lists of 500 clients; {duel.wins} prefer served, {duel.losses} prefer better, and {duel.ties}" in output
    )
    assert f"better is better: it won {1 - duel.share:.1%} of the lists of a client, on average (95% interval" in output
    assert f"{1 - duel.interval[1]:.1%} to {1 - duel.interval[0]:.1%}, valid at any time" in output
    second = output[output.index("since promotion 1") :]
    assert "not decided: better leads with" in second
    assert f"about {later.n_to_go:,} more clients like these would decide it" in second
    assert {path: path.read_bytes() for path in log.iterdir()} == before  # only read


def test_the_same_as_json(log):
    output = json.loads(ok("eval", "--interleaved", log, "--json"))
    duel = read_duels(log).duel(Contest("served", "better"))
    assert (output["lists"], output["interleaved"], output["waits"]) == (600, 600, False)
    first, second = output["duels"]
    assert (first["first"], first["second"], first["promotion"]) == ("served", "better", 0)
    assert (first["wins"], first["losses"], first["ties"]) == (duel.wins, duel.losses, duel.ties)
    assert (first["winner"], second["winner"], second["promotion"]) == ("second", None, 1)


def test_lists_count_from_a_time_on(log):
    since = datetime.fromtimestamp(NOON + 500 * 30, UTC).isoformat()
    output = json.loads(ok("eval", "--interleaved", log, "--json", "--since", since))
    assert [duel["promotion"] for duel in output["duels"]] == [1]
    result = run("eval", "--interleaved", log, "--since", "yesterday")
    assert result.exit_code == 2
    assert "'yesterday' is not a time" in result.output


def test_lists_left_out_and_visits_that_wait_are_counted(tmp_path):
    rng, clock = np.random.default_rng(0), Clock()
    contest = Contest("served", "candidate")
    folder = write_log(tmp_path / "log", contest, 80, 1.0, rng=rng, clock=clock, who="me", clicks=1.0)
    output = ok("eval", "--interleaved", folder)
    assert "left out: 19 shown after the first visit of their client" in output  # of 80 lists, one every 30 seconds
    assert "61 lists of 1 clients; 0 prefer served, 1 prefer candidate, and 0 neither" in output
    assert "not decided: candidate leads with 100.0%" in output
    clock.now = datetime.now(UTC).timestamp() - 15
    write_log(folder, contest, 1, 1.0, rng=rng, clock=clock)
    assert "the latest lists wait for their clicks" in ok("eval", "--interleaved", folder)
    output = ok("eval", "--interleaved", folder, "--settle-after", "10")
    assert "wait" not in output
    assert "1 more clients are on a visit that is not settled yet" in output


def test_a_log_without_interleaved_lists_and_none_at_all(tmp_path):
    clock = Clock()
    with ImpressionLog(tmp_path / "log", keep_days=10_000, clock=clock) as log:
        log.search("me", "tea", DOCS, {})
    assert "1 lists, 0 of them interleaved, 0 count" in ok("eval", "--interleaved", tmp_path / "log")
    (tmp_path / "empty").mkdir()
    result = run("eval", "--interleaved", tmp_path / "empty")
    assert result.exit_code == 1
    assert "no ubi_queries" in result.output
