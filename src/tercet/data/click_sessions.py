"""Sessions of a click log that no person made, by rules that anyone can check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from tercet.data.clicks import ClickLog

CLICKED_SHARE, FEWEST_SHOWN = 0.8, 10  # of what they were shown, who clicks everything
MOST_LISTS, TIMES_THE_MEDIAN = 100, 20


@dataclass(frozen=True)
class OddSession:
    """A session that is left out.

    Attributes
    ----------
    name : the session
    n_lists, n_shown, n_clicked : its lists, the documents in them, and those of them that were clicked
    reason : why it is left out
    """

    name: str
    n_lists: int
    n_shown: int
    n_clicked: int
    reason: str


def oddness(n_lists: int, n_shown: int, n_clicked: int, usual_lists: Callable[[], float]) -> str | None:
    """Why no person made a session of so many lists, documents shown and clicks; None where one may have.

    ``usual_lists`` gives the number of lists of the median session, and is asked only where that matters.

    Examples
    --------
    >>> oddness(1, 10, 9, lambda: 1.0), oddness(500, 5000, 400, lambda: 2.0), oddness(500, 5000, 400, lambda: 30.0)
    ('clicks everything', 'comes too often', None)
    """
    if n_shown >= FEWEST_SHOWN and n_clicked >= CLICKED_SHARE * n_shown:
        return "clicks everything"
    if n_lists > MOST_LISTS and n_lists > TIMES_THE_MEDIAN * usual_lists():
        return "comes too often"
    return None


class SessionCounts:
    """What sessions did so far, as lists come.

    Attributes
    ----------
    seen : lists, documents shown and clicks of each session
    odd : sessions that no person made, by what they had done at some time

    Examples
    --------
    >>> counts = SessionCounts()
    >>> counts.note("s1", 10, 2), counts.note("s2", 10, 9), counts.note("s2", 10, 0)
    (False, True, True)
    """

    def __init__(self) -> None:
        self.odd: set[str] = set()
        self.seen: dict[str, list[int]] = {}
        self._sizes: Counter[int] = Counter()  # sessions that have so many lists

    def note(self, session: str, n_shown: int, n_clicked: int) -> bool:
        """Take in a list of a session; whether it is odd now."""
        seen = self.seen.setdefault(session, [0, 0, 0])
        self._sizes[seen[0]] -= 1
        seen[0], seen[1], seen[2] = seen[0] + 1, seen[1] + n_shown, seen[2] + n_clicked
        self._sizes[seen[0]] += 1
        if session not in self.odd and oddness(seen[0], seen[1], seen[2], self._median) is not None:
            self.odd.add(session)
        return session in self.odd

    def _median(self) -> float:
        half, n_sessions = 0, len(self.seen)
        for size in sorted(self._sizes):
            half += max(0, self._sizes[size])
            if 2 * half >= n_sessions:
                return float(size)
        return 0.0


def odd_sessions(log: ClickLog) -> list[OddSession]:
    """The sessions that are left out, those with most lists first.

    A session clicks everything when it clicked `CLICKED_SHARE` of at least `FEWEST_SHOWN` documents shown. It comes too
    often when it has more than `MOST_LISTS` lists, and `TIMES_THE_MEDIAN` times as many as the median session. Without
    sessions, each list is one of its own.

    Examples
    --------
    >>> from tercet.data import Impression
    >>> docs = tuple("abcdefghij")
    >>> log = ClickLog((Impression("tea", docs, docs), Impression("tea", docs, ("a",))), sessions=("s1", "s2"))
    >>> [(odd.name, odd.reason) for odd in odd_sessions(log)]
    [('s1', 'clicks everything')]
    """
    sessions = _names(log)
    lists = Counter(sessions)
    shown: Counter[str] = Counter()
    clicked: Counter[str] = Counter()
    for session, impression in zip(sessions, log.impressions, strict=True):
        shown[session] += len(impression.shown)
        clicked[session] += len(impression.clicked)
    usual = median(lists.values()) if lists else 0
    odd = []
    for session, n_lists in lists.items():
        reason = oddness(n_lists, shown[session], clicked[session], lambda: usual)
        if reason is not None:
            odd.append(OddSession(session, n_lists, shown[session], clicked[session], reason))
    return sorted(odd, key=lambda one: (-one.n_lists, one.name))


def without_odd_sessions(log: ClickLog, odd: list[OddSession] | None = None) -> ClickLog:
    """A log without the lists of sessions that no person made, with a note on them; as it is where all would go."""
    odd = odd_sessions(log) if odd is None else odd
    left_out = {one.name for one in odd}
    kept = [row for row, session in enumerate(_names(log)) if session not in left_out]
    if not left_out or not kept:
        return log
    n_lists = len(log.impressions) - len(kept)
    reasons = Counter(one.reason for one in odd)
    what = "sessions" if log.sessions else "lists"
    summary = " and ".join(f"{count:,} {what} as of one who {reason}" for reason, count in sorted(reasons.items()))
    note = f"click log: left out {summary}, {n_lists:,} of {len(log.impressions):,} lists."
    return replace(log.subset(kept), notes=(*log.notes, note))


def _names(log: ClickLog) -> list[str]:
    return list(log.sessions) if log.sessions else [f"list {number}" for number in range(1, len(log.impressions) + 1)]
