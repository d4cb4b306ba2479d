"""Click logs: the documents shown for a query, in order, and the documents clicked; their preferences and columns."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, islice
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet._validate import first_repeated
from tercet.errors import InputError

MOST_PREFERENCES = 64  # that one list gives

Doc = TypeVar("Doc")
Skipped = Literal["above", "all"]


class Impression(NamedTuple):
    """A list of results shown to a person.

    Attributes
    ----------
    query : id of the query, or its text in a log without ids
    shown : ids of the documents, from top to bottom, each once
    clicked : ids of the clicked documents, each once, in the order of the clicks

    Examples
    --------
    >>> seen = Impression("green tea", shown=("a", "b", "c"), clicked=("b",))
    >>> seen.shown[0], seen.clicked
    ('a', ('b',))
    """

    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]


@dataclass(frozen=True)
class ClickLog:
    """Impressions in the order of time.

    Attributes
    ----------
    impressions : the lists shown
    is_timed : True if times give the order; False for the order of the file
    notes : messages about rows left out and about guesses
    form : description of the file
    sessions : session of each list; empty if unknown
    randomized : True for lists in random order; empty if no list is random
    interleaved : True for lists made of two rankings by chance; empty if no list is interleaved
    examination : probability that each rank is looked at; None to estimate them

    Examples
    --------
    >>> log = ClickLog((Impression("tea", ("a", "b"), ("b",)),), sessions=("s1",))
    >>> len(log.impressions), log.is_timed
    (1, False)
    """

    impressions: tuple[Impression, ...]
    is_timed: bool = False
    notes: tuple[str, ...] = ()
    form: str = ""
    sessions: tuple[str, ...] = ()
    randomized: tuple[bool, ...] = ()
    examination: tuple[float, ...] | None = None
    interleaved: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        columns = {"sessions": self.sessions, "randomized": self.randomized, "interleaved": self.interleaved}
        for name, column in columns.items():
            if column and len(column) != len(self.impressions):
                raise InputError(f"{name} are of {len(column):,} lists, and there are {len(self.impressions):,}")

    @cached_property
    def columns(self) -> ClickColumns:
        """Documents shown as columns; an invalid list is refused."""
        for number, impression in enumerate(self.impressions):
            problem = impression_problem(impression)
            if problem is not None:
                raise InputError(f"impressions[{number}]: {problem}")
        return ClickColumns.from_lists(self.impressions)

    def subset(self, kept: Sequence[int]) -> ClickLog:
        """Select the lists at the given positions."""
        return replace(
            self,
            impressions=tuple(self.impressions[row] for row in kept),
            sessions=tuple(self.sessions[row] for row in kept) if self.sessions else (),
            randomized=tuple(self.randomized[row] for row in kept) if self.randomized else (),
            interleaved=tuple(self.interleaved[row] for row in kept) if self.interleaved else (),
        )

    @classmethod
    def joined(cls, logs: Sequence[ClickLog]) -> ClickLog:
        """Join logs, the earliest first; sessions are dropped unless every log has them.

        Examples
        --------
        >>> one = ClickLog((Impression("tea", ("a", "b"), ("b",)),), randomized=(True,))
        >>> ClickLog.joined([one, ClickLog((Impression("milk", ("c",), ()),))]).randomized
        (True, False)
        """
        if len(logs) == 1:
            return logs[0]
        lists = tuple(chain.from_iterable(log.impressions for log in logs))

        def flags(name: str) -> tuple[bool, ...]:
            flags_of_logs: list[tuple[bool, ...]] = [getattr(log, name) for log in logs]
            columns = (flags or (False,) * len(log.impressions) for flags, log in zip(flags_of_logs, logs, strict=True))
            return tuple(chain.from_iterable(columns)) if any(flags_of_logs) else ()

        return cls(
            lists,
            is_timed=all(log.is_timed for log in logs),
            notes=tuple(chain.from_iterable(log.notes for log in logs)),
            form="; ".join(log.form for log in logs),
            sessions=tuple(chain.from_iterable(log.sessions for log in logs))
            if all(log.sessions for log in logs)
            else (),
            randomized=flags("randomized"),
            interleaved=flags("interleaved"),
        )

    def __repr__(self) -> str:
        n_clicked = sum(bool(impression.clicked) for impression in self.impressions)
        lists = "1 list" if len(self.impressions) == 1 else f"{len(self.impressions):,} lists"
        return f"ClickLog({lists}, {n_clicked:,} with a click)"


def examination_guess(rank: int) -> float:
    """Return the default probability that a rank is looked at: 1 / log2(1 + rank)."""
    return 1 / math.log2(1 + rank)


def click_preferences(
    shown: Sequence[Doc],
    clicked: Iterable[Doc],
    skipped: Skipped = "above",
    *,
    most: float = 1.0,
    examination: Sequence[float] | None = None,
) -> list[tuple[Doc, Doc, float]]:
    """Return the preferences of a list as (better, worse, weight): a clicked document over a document passed over.

    People look from the top down, so clicks agree with judgements mostly for documents passed over above the click.
    The
    weight is the probability that the rank of the worse document was looked at. At most `MOST_PREFERENCES`
    preferences are
    returned, those of largest weight, with weights of at most ``most`` together.

    Parameters
    ----------
    shown : documents from top to bottom
    clicked : the clicked documents
    skipped : a clicked document is better than the documents without a click ``"above"`` the click, or than ``"all"``
        of them
    most : bound of the sum of the weights; infinite leaves the weights unchanged
    examination : probability that each rank is looked at, the last for all lower ranks; by default
        `examination_guess`

    Notes
    -----
    With ``skipped="all"`` and ``most=inf``, two equally good documents are preferred to each other alike, whichever
    was
    shown above: with probabilities p of looking and g of a click, rank i over rank j has the probability
    ``p_i g (1 - p_j g)`` and the weight ``p_j``, and rank j over rank i ``p_j g (1 - p_i g)`` and ``p_i``. Such
    preferences
    can measure a ranking; preferences of ``"above"`` all contradict the order shown.

    Examples
    --------
    >>> [(better, worse, round(weight, 2)) for better, worse, weight in click_preferences("abcd", "d")]
    [('d', 'a', 0.47), ('d', 'b', 0.3), ('d', 'c', 0.23)]
    """
    chosen = list(dict.fromkeys(clicked))
    if examination is None:
        looked = [examination_guess(rank) for rank in range(1, len(shown) + 1)]
    else:
        looked = [examination[min(rank, len(examination)) - 1] for rank in range(1, len(shown) + 1)]
    ranks = {doc: rank for rank, doc in enumerate(shown, start=1)}
    # Clicked document -> last rank of the documents passed over for the clicked document.
    last = {doc: len(shown) if skipped == "all" else ranks[doc] for doc in chosen}
    lowest = max(last.values(), default=0)
    was_clicked = set(chosen)
    passed = [
        (rank, doc) for rank, doc in enumerate(shown, start=1) if rank <= lowest and doc not in was_clicked
    ]  # each is worse than at least one clicked document
    positions = [rank for rank, _ in passed]
    if sum(bisect_right(positions, last[better]) for better in chosen) <= MOST_PREFERENCES:
        preferences = list(_pairs(chosen, last, passed, looked))
    else:
        # The largest weights belong to the ranks of largest weight: only pairs of these ranks are made.
        by_weight = groupby(
            sorted(passed, key=lambda position: -looked[position[0] - 1]), lambda position: looked[position[0] - 1]
        )
        alike = (_pairs(chosen, last, list(group), looked) for _, group in by_weight)
        preferences = list(islice(chain.from_iterable(alike), MOST_PREFERENCES))
    total = math.fsum(weight for _, _, weight in preferences)
    if total > most:
        preferences = [(better, worse, weight / total * most) for better, worse, weight in preferences]
    return preferences


def _pairs(
    chosen: Sequence[Doc], last: Mapping[Doc, int], passed: Sequence[tuple[int, Doc]], looked: Sequence[float]
) -> Iterator[tuple[Doc, Doc, float]]:
    """Yield each clicked document over the documents passed over up to its last rank."""
    for better in chosen:
        for rank, worse in passed:
            if rank > last[better]:
                break
            yield better, worse, looked[rank - 1]


def impression_problem(impression: Impression) -> str | None:
    """Return an error message for an invalid list, or None."""
    if not impression.shown:
        return "no document is shown; an impression needs at least one"
    shown_ids = set(impression.shown)
    for what, ids in (("shown", impression.shown), ("clicked", impression.clicked)):
        if len(set(ids)) < len(ids):
            return f"document {first_repeated(ids)!r} is {what} twice; name it once"
    for doc_id in impression.clicked:
        if doc_id not in shown_ids:
            return f"document {doc_id!r} is clicked and was not shown"
    return None


# -- a log as columns -------------------------------------------------------------------------------------------------


Rows = NDArray[np.int64]
Shown = tuple[str, tuple[str, ...], tuple[str, ...]]  # query, shown documents, clicked documents


@dataclass(frozen=True, eq=False)
class ClickColumns:
    """Documents shown, list after list; a pair is a query and a document.

    Attributes
    ----------
    queries, docs : distinct names, in the order of their first appearance
    list_query : query of each list, (n_lists,)
    pair_query, pair_doc : query and document of each pair, pairs in the order of their first appearance, (n_pairs,)
    impression, pair, rank : number of the list, the pair and the rank of each row, all from 0
    clicked : whether the document was clicked
    """

    queries: tuple[str, ...]
    docs: tuple[str, ...]
    list_query: Rows
    pair_query: Rows
    pair_doc: Rows
    impression: Rows
    pair: Rows
    rank: Rows
    clicked: NDArray[np.bool_]

    @classmethod
    def from_lists(cls, lists: Sequence[Shown]) -> ClickColumns:
        queries, query = numbered([entry[0] for entry in lists])
        docs, doc = numbered(list(chain.from_iterable(entry[1] for entry in lists)))
        sizes = np.fromiter((len(entry[1]) for entry in lists), dtype=np.int64, count=len(lists))
        impression, start = np.repeat(np.arange(sizes.size), sizes), np.cumsum(sizes) - sizes
        width = max(1, len(docs))
        keys, first, pair = np.unique(query[impression] * width + doc, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(keys.size, dtype=np.int64)
        number[order] = np.arange(keys.size)
        clicked = np.zeros(doc.size, dtype=bool)
        for begin, (_, doc_ids, clicks) in zip(start.tolist(), lists, strict=True):
            clicked[[begin + doc_ids.index(doc_id) for doc_id in clicks]] = True
        rank = np.arange(doc.size) - np.repeat(start, sizes)
        pairs = keys[order]
        return cls(queries, docs, query, pairs // width, pairs % width, impression, number[pair.ravel()], rank, clicked)

    def take(self, kept: NDArray[np.bool_]) -> ClickColumns:
        """Select rows; the numbers of lists and pairs stay."""
        columns = {name: getattr(self, name)[kept] for name in ("impression", "pair", "rank", "clicked")}
        return replace(self, **columns)


def numbered(names: Sequence[str]) -> tuple[tuple[str, ...], Rows]:
    """Distinct names in the order of their first appearance, and the number of each name.

    Examples
    --------
    >>> numbered(["tea", "milk", "tea"])
    (('tea', 'milk'), array([0, 1, 0]))
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(numbers), np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
