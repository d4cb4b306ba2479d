"""``tercet eval --interleaved``: the duels in a log of interleaved lists."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from tercet.cli.terminal import echo
from tercet.data.values import moment_in
from tercet.measure.duels import ADDRESS_LISTS, CLIENT_LISTS, Contest, DuelCourse, DuelReport, LeftOut, read_duels

_WHY: dict[LeftOut, str] = {
    "repeated": "asked for again by the same client on the same day",
    "odd": "of clients that clicked everything or came too often on that day",
    "client": f"beyond {CLIENT_LISTS} of a client on a day",
    "address": f"beyond {ADDRESS_LISTS} of an address on a day; the write token vouches for the clients it names",
    "broken": "whose documents are not said to be anybody's",
}


def show_duels(log: Path, since: str | None, settle_after: float, as_json: bool) -> None:
    """Print who wins by the clicks in a log of interleaved lists, and with which confidence."""
    report = read_duels(log, _moment(since), settle_after)
    if as_json:
        echo(json.dumps(_meta(report), indent=2))
    else:
        _print_report(log, report)


def _moment(text: str | None) -> float:
    if text is None:
        return 0.0
    moment = moment_in(text)
    if moment is None:
        raise click.UsageError(f"--since {text!r} is no time; expected ISO 8601, as 2026-11-16 or 2026-11-16T12:00Z")
    return moment.timestamp()


def _meta(report: DuelReport) -> dict[str, Any]:
    duels = [
        dict(contest._asdict(), began=_time(course.began), ended=_time(course.ended), **course.duel.to_meta())
        for contest, course in report.courses.items()
    ]
    counts = {"lists": report.n_lists, "interleaved": report.n_shared, "left_out": dict(report.left_out)}
    return counts | {"waits": report.waits, "duels": duels}


def _print_report(log: Path, report: DuelReport) -> None:
    n_counted = sum(len(course.outcomes) for course in report.courses.values())
    echo(f"{log}: {report.n_lists:,} lists, {report.n_shared:,} of them interleaved, {n_counted:,} count")
    for why, count in report.left_out.items():
        echo(f"left out: {count:,} {_WHY[why]}")
    if report.waits:
        echo("the latest lists wait for their clicks")
    for contest, course in report.courses.items():
        echo()
        for line in _sentences(contest, course):
            echo(line)


def _sentences(contest: Contest, course: DuelCourse) -> list[str]:
    duel, first, second = course.duel.duel, contest.first, contest.second
    since = f", since promotion {contest.promotion}" if contest.promotion else ""
    lines = [
        f"{first}, which was served, against {second}: team-draft lists{since}",
        f"{_time(course.began)} to {_time(course.ended)}: {duel.wins + duel.losses + duel.ties:,} lists; "
        f"{first} won {duel.wins:,}, {second} won {duel.losses:,}, and {duel.ties:,} nobody",
    ]
    if not duel.n_decided:
        return [*lines, "nobody won a list yet, so nothing can be said"]
    mirrored = replace(duel, wins=duel.losses, losses=duel.wins)
    ahead, leading = (first, duel) if duel.wins >= duel.losses else (second, mirrored)
    low, high = leading.interval
    share = f"{leading.share:.1%} of the lists that somebody won"
    interval = f"{1 - duel.level:.0%} interval {low:.1%} to {high:.1%}, whenever one looks; p = {duel.p_value:.2g}"
    if course.duel.winner is not None:
        net = 100 * (leading.wins - leading.losses) / len(course.outcomes)
        lines.append(f"{ahead} is better: it won {share} ({interval}); in 100 lists, {net:.1f} more than it lost")
        return lines
    if duel.wins == duel.losses:
        return [*lines, f"not decided: nobody leads ({interval})"]
    lines.append(f"not decided: {ahead} leads with {share} ({interval})")
    if duel.winner is not None:
        lines.append("it would be decided, but for one client who did much of it: without that one it is open")
    to_go = course.duel.n_to_go
    if to_go is not None:
        lines.append(f"about {to_go:,} more lists would decide it, if they go on so")
    elif duel.n_to_go is None:
        lines.append("it is so close that a billion more lists like these would not decide it")
    else:
        lines.append("all of the lead is one client's, so how many more lists it takes cannot be told")
    return lines


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")
