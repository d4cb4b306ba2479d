"""Sessions of a click log that are left out as machines, by two simple rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from tercet.data.clicks import ClickLog

CLICKED_SHARE, FEWEST_SHOWN = (
    0.8,
    10,
)  # least share of clicked documents, and fewest documents shown, of a session that clicks everything
MOST_LISTS, TIMES_THE_MEDIAN = 100, 20


@dataclass(frozen=True)
class OddSession:
    """A session that is left out.

    Attributes
    ----------
    name : the session
    n_lists, n_shown, n_clicked : numbers of lists, of documents shown, and of documents clicked
    reason : the rule
    """

    name: str
    n_lists: int
    n_shown: int
    n_clicked: int
    reason: str


def oddness(n_lists: int, n_shown: int, n_clicked: int, usual_lists: Callable[[], float]) -> str | None:
    """Return the rule that leaves a session out, or None; ``usual_lists`` returns the median number of lists."""
    if n_shown >= FEWEST_SHOWN and n_clicked >= CLICKED_SHARE * n_shown:
        return "clicks everything"
    if n_lists > MOST_LISTS and n_lists > TIMES_THE_MEDIAN * usual_lists():
        return "comes too often"
    return None


def odd_sessions(log: ClickLog) -> list[OddSession]:
    """Return the sessions to leave out, by falling number of lists.

    A session clicks everything when at least `CLICKED_SHARE` of at least `FEWEST_SHOWN` documents shown were clicked.
    A
    session comes too often with more than `MOST_LISTS` lists, and more than `TIMES_THE_MEDIAN` times the median.
    Without
    sessions, each list is a session.
    """
    sessions = _names(log)
    lists = Counter(sessions)
    n_shown: Counter[str] = Counter()
    clicked: Counter[str] = Counter()
    for session, impression in zip(sessions, log.impressions, strict=True):
        n_shown[session] += len(impression.shown)
        clicked[session] += len(impression.clicked)
    usual = median(lists.values()) if lists else 0
    odd = []
    for session, n_lists in lists.items():
        reason = oddness(n_lists, n_shown[session], clicked[session], lambda: usual)
        if reason is not None:
            odd.append(OddSession(session, n_lists, n_shown[session], clicked[session], reason))
    return sorted(odd, key=lambda one: (-one.n_lists, one.name))


def without_odd_sessions(log: ClickLog, odd: list[OddSession] | None = None) -> ClickLog:
    """Return the log without odd sessions, with a note on them; unchanged if nothing would remain."""
    odd = odd_sessions(log) if odd is None else odd
    left_out = {odd_session.name for odd_session in odd}
    rows = [row for row, session in enumerate(_names(log)) if session not in left_out]
    if not left_out or not rows:
        return log
    n_lists = len(log.impressions) - len(rows)
    reasons = Counter(odd_session.reason for odd_session in odd)
    noun = "session" if log.sessions else "list"
    summary = " and ".join(
        f"{count:,} {noun}{'' if count == 1 else 's'} ({reason})" for reason, count in sorted(reasons.items())
    )
    note = f"click log: left out {summary}, {n_lists:,} of {len(log.impressions):,} lists."
    return replace(log.subset(rows), notes=(*log.notes, note))


def _names(log: ClickLog) -> list[str]:
    return list(log.sessions) if log.sessions else [f"list {number}" for number in range(1, len(log.impressions) + 1)]
