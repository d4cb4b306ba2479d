"""Simulate click logs with known relevance and known examination of ranks.

Honest visitors look from the top down and click documents by relevance. Bots click every document. Attackers click
only irrelevant documents. Session names show the kind of visitor: ``s12``, ``bot3`` or ``attacker4``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.data.clicks import ClickLog, Impression
from tercet.errors import InputError

__all__ = ["Traffic", "Visitors", "simulate_clicks"]

Grades = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Visitors:
    """Examination and clicks of a visitor.

    Attributes
    ----------
    looking : rank r is examined with probability ``r ** -looking``; None for a cascade from the top down
    going_on : in a cascade, probability to continue after a click
    chances : probability of a click on an examined document, by grade; the first is the noise
    trust : a document without its own click is still clicked at rank r with probability ``trust / r``

    Examples
    --------
    >>> Visitors(looking=1.0).examination(4).tolist()
    [1.0, 0.5, 0.3333333333333333, 0.25]
    """

    looking: float | None = 0.7
    going_on: float = 0.5
    chances: tuple[float, ...] = (0.1, 0.8)
    trust: float = 0.0

    def __str__(self) -> str:
        name = "cascade" if self.looking is None else f"r^-{self.looking:g}"
        return f"{name}, noise {self.chances[0]:g}{f', trust {self.trust:g}' if self.trust else ''}"

    def examination(self, n_ranks: int) -> NDArray[np.float64]:
        """Return the probability of examination of each rank, (n_ranks,); a cascade has no curve."""
        if self.looking is None:
            raise InputError("a cascade has no examination curve; set looking= to a number")
        return np.arange(1, n_ranks + 1, dtype=np.float64) ** -self.looking

    def clicks(self, rng: np.random.Generator, grades: ArrayLike) -> NDArray[np.bool_]:
        """Draw clicks from grades in the order of ranks, (..., n_ranks)."""
        grades = np.asarray(grades)
        n_ranks = grades.shape[-1]
        chances = np.array(self.chances)[grades]
        if self.trust:
            chances = chances + (1 - chances) * self.trust / np.arange(1, n_ranks + 1)
        attracted = rng.random(grades.shape) < chances
        if self.looking is not None:
            return np.asarray(attracted & (rng.random(grades.shape) < self.examination(n_ranks)))
        leaves = attracted & (rng.random(grades.shape) < 1 - self.going_on)
        last = np.where(leaves.any(axis=-1), leaves.argmax(axis=-1), n_ranks)
        return np.asarray(attracted & (np.arange(n_ranks) <= last[..., None]))


@dataclass(frozen=True)
class Traffic:
    """Mix of visitors and lists.

    Attributes
    ----------
    per_session : mean number of lists of an honest session, geometrically distributed
    popularity : the n-th query is asked in proportion to ``n ** -popularity``
    shuffled : share of lists in random order, marked as random
    bots, attackers : share of lists of bots and attackers
    bot_lists : number of lists of each bot or attacker session

    Examples
    --------
    >>> traffic = Traffic(bots=0.5, bot_lists=10)
    >>> log = simulate_clicks({"tea": [["a", "b"]]}, {"tea": {"b": 1}}, 1000, traffic=traffic)
    >>> 400 < sum(session.startswith("bot") for session in log.sessions) < 600
    True
    """

    per_session: float = 2.0
    popularity: float = 0.6
    shuffled: float = 0.0
    bots: float = 0.0
    attackers: float = 0.0
    bot_lists: int = 50


def simulate_clicks(
    lists: Mapping[str, Sequence[Sequence[str]]],
    grades: Grades,
    n_lists: int,
    visitors: Visitors | None = None,
    traffic: Traffic | None = None,
    *,
    later: Grades | None = None,
    seed: int = 0,
) -> ClickLog:
    """Simulate a click log of ``n_lists`` lists in the order of time.

    Parameters
    ----------
    lists : for each query, rankings of its documents by several rankers; a session sees the rankings of one ranker
    grades : for each query, documents above grade 0
    n_lists : number of lists
    visitors, traffic : behavior of visitors; mix of visitors and lists
    later : grades at the end of the log; the probability of a click by ``later`` rises from 0 to 1

    Notes
    -----
    O(``n_lists`` × documents in a list).

    Examples
    --------
    >>> log = simulate_clicks({"tea": [["a", "b", "c"]]}, {"tea": {"b": 1}}, 1000)
    >>> sum("b" in impression.clicked for impression in log.impressions) > 400
    True
    """
    visitors, traffic = visitors or Visitors(), traffic or Traffic()
    if n_lists < 1 or not lists:
        raise InputError(f"simulate at least one list of one query; got {n_lists} and {len(lists)} queries")
    if traffic.per_session < 1 or not 0 <= traffic.bots + traffic.attackers <= 1:
        raise InputError(f"per_session must be at least 1, and bots + attackers at most 1; got {traffic}")
    rng = np.random.default_rng(seed)
    queries = list(lists)
    popularity = np.arange(1, len(queries) + 1) ** -float(traffic.popularity)
    asked = rng.choice(len(queries), n_lists, p=popularity / popularity.sum())
    sessions = _sessions(n_lists, traffic, rng)
    n_rankers = max(map(len, lists.values()))
    ranker_of = {session: int(rng.integers(n_rankers)) for session in dict.fromkeys(sessions)}
    is_shuffled = rng.random(n_lists) < traffic.shuffled
    is_later = rng.random(n_lists) < (0.0 if later is None else np.arange(n_lists) / n_lists)
    shown: list[Sequence[str]] = []
    for row, session, in_any_order in zip(asked.tolist(), sessions, is_shuffled.tolist(), strict=True):
        orders = lists[queries[row]]
        order = orders[ranker_of[session] % len(orders)]
        shown.append([order[position] for position in rng.permutation(len(order))] if in_any_order else order)
    graded = np.zeros((n_lists, max(map(len, shown))), dtype=np.int64)
    for number, (row, docs, drifted) in enumerate(zip(asked.tolist(), shown, is_later.tolist(), strict=True)):
        truth = later if drifted and later is not None else grades
        wanted = truth.get(queries[row], {})
        graded[number, : len(docs)] = [wanted.get(doc_id, 0) for doc_id in docs]
    clicked = visitors.clicks(rng, graded)
    is_bot, is_attacker = (np.array([name.startswith(kind) for name in sessions]) for kind in ("bot", "attacker"))
    clicked[is_bot] = True
    clicked[is_attacker] = graded[is_attacker] == 0
    impressions = tuple(
        Impression(queries[row], tuple(docs), tuple(compress(docs, clicks)))
        for row, docs, clicks in zip(asked.tolist(), shown, clicked.tolist(), strict=True)
    )
    marked = tuple(is_shuffled.tolist()) if traffic.shuffled else ()
    return ClickLog(impressions, True, form="simulated", sessions=tuple(sessions), randomized=marked)


def _sessions(n_lists: int, traffic: Traffic, rng: np.random.Generator) -> list[str]:
    """Return the session of each list; lists of bots and attackers are spread over the log."""
    crowd = rng.random(n_lists)
    names = []
    numbers = {"s": 0, "bot": 0, "attacker": 0}
    left = dict.fromkeys(numbers, 0)
    for chance in crowd.tolist():
        who = "bot" if chance < traffic.bots else "attacker" if chance < traffic.bots + traffic.attackers else "s"
        if not left[who]:
            numbers[who] += 1
            left[who] = int(rng.geometric(1 / traffic.per_session)) if who == "s" else traffic.bot_lists
        left[who] -= 1
        names.append(f"{who}{numbers[who]}")
    return names
