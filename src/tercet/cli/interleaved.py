"""``tercet eval --interleaved``: the winner of each comparison in a log of interleaved lists."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tercet.cli.terminal import echo
from tercet.data.values import moment_in
from tercet.measure.duels import Contest, LeftOut, RunningDuel, Tally, read_duels
from tercet.measure.interleaving import Duel

_REASONS: dict[LeftOut, str] = {
    "later": "shown after the first visit of their client",
    "broken": "without the model of each document",
}


def show_duels(log: Path, since: str | None, settle_after: float, as_json: bool) -> None:
    """Print the winner by the clicks in a log of interleaved lists, with its confidence."""
    moment = None if since is None else moment_in(since)
    if since is not None and moment is None:
        raise click.UsageError(f"--since {since!r} is not a time; expected ISO 8601: 2026-11-16 or 2026-11-16T12:00Z")
    tally = read_duels(log, 0.0 if moment is None else moment.timestamp(), settle_after)
    if as_json:
        echo(json.dumps(_meta(tally), indent=2))
        return
    n_counted = sum(course.n_lists for course in tally.running.values())
    echo(f"{log}: {tally.n_lists:,} lists, {tally.n_shared:,} of them interleaved, {n_counted:,} count")
    for why, count in tally.left_out.items():
        echo(f"left out: {count:,} {_REASONS[why]}")
    if tally.waits:
        echo("the latest lists wait for their clicks")
    for contest, course in tally.running.items():
        echo()
        for line in _sentences(contest, course, tally.duel(contest)):
            echo(line)


def _meta(tally: Tally) -> dict[str, Any]:
    duels = [
        contest._asdict() | {"began": _time(course.began), "ended": _time(course.ended)} | tally.duel(contest).to_meta()
        for contest, course in tally.running.items()
    ]
    counts = {"lists": tally.n_lists, "interleaved": tally.n_shared, "left_out": dict(tally.left_out)}
    return counts | {"waits": tally.waits, "duels": duels}


def _sentences(contest: Contest, running: RunningDuel, duel: Duel) -> list[str]:
    first, second = contest.first, contest.second
    since = f", since promotion {contest.promotion}" if contest.promotion else ""
    lines = [
        f"{first} (served) against {second}: team-draft lists{since}",
        f"{_time(running.began)} to {_time(running.ended)}: {running.n_lists:,} lists of {duel.n_clients:,} clients; "
        f"{duel.wins:,} prefer {first}, {duel.losses:,} prefer {second}, and {duel.ties:,} neither",
    ]
    if running.n_open:
        lines.append(f"{running.n_open:,} more clients are on a visit that is not settled yet")
    if duel.share is None:
        return [*lines, "no client counts yet"]
    low, high = duel.interval
    leader, share = first, duel.share
    if share < 0.5:
        leader, share, low, high = second, 1 - share, 1 - high, 1 - low
    interval = f"{1 - duel.level:.0%} interval {low:.1%} to {high:.1%}, valid at any time; p = {duel.p_value:.2g}"
    mean = f"{share:.1%} of the lists of a client, on average ({interval})"
    if duel.winner is not None:
        return [*lines, f"{leader} is better: it won {mean}"]
    if share == 0.5:
        return [*lines, f"not decided: nobody leads ({interval})"]
    lines.append(f"not decided: {leader} leads with {mean}")
    to_go = duel.n_to_go
    if to_go is None:
        return [*lines, "a billion more clients like these would not decide it"]
    return [*lines, f"about {to_go:,} more clients like these would decide it"]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")
