"""What results can be narrowed to: values of stored fields, and how many of the first results have each."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tercet.data.roles import TITLES, plain_name
from tercet.search import BaseIndex, Hit
from tercet.search.filtering import Where, range_in

COUNTED: Final = 100  # results that are looked at
_COLUMNS, _VALUES, _VALUE_CHARS = 6, 12, 60
_RANGES, _NUMBERS = 4, 8  # ranges of a column of numbers, and from how many numbers on


def facets(
    index: BaseIndex,
    query: str,
    hits: Sequence[Hit],
    everything: bool,
    where: Where,
    is_late: Callable[[], bool],
) -> list[dict[str, Any]]:
    """Columns with values that some of the first results share, and how many have each; none where it gets late.

    A column that is filtered is counted among what the other filters leave, so that one can choose another value.
    """
    if not index.can_filter:
        return []
    columns = _columns(hits[:COUNTED])
    n_hits = min(len(hits), COUNTED)
    telling = [name for name, column in columns.items() if name not in where and column.tells(n_hits)]
    chosen = {*where, *telling[: max(0, _COLUMNS - len(where))]}
    shown = []
    for name in dict.fromkeys([*columns, *where]):  # in their own order, so that they stay where they are
        if name not in chosen:
            continue
        column, n = columns.get(name, _Column()), n_hits
        if name in where:
            if is_late():  # each of these is a search
                return []
            others = {other: values for other, values in where.items() if other != name}
            rest = index.search(query, COUNTED, cutoff=not everything, where=others)
            column, n = _columns(rest).get(name, _Column()), len(rest)
        shown.append({"column": name, "counted": n, "values": column.choices()})
    return shown


@dataclass
class _Column:
    """Values of some results as texts, and those of them that are numbers."""

    counts: Counter[str] = field(default_factory=Counter)
    numbers: list[float] = field(default_factory=list)

    def tells(self, n: int) -> bool:
        """Whether choosing a value leaves fewer than all n results, and more than one."""
        if len(self.counts) < 2 and self.counts.total() == n:
            return False
        return (self._has_frequent() and max(self.counts.values()) > 1) or self._has_ranges()

    def choices(self) -> list[dict[str, Any]]:
        """The most frequent values, or ranges where there are too many different numbers for that."""
        if not self._has_ranges():
            most = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]
            return [{"value": value, "count": count} for value, count in most]
        ends = np.quantile(self.numbers, np.arange(1, _RANGES) / _RANGES, method="lower").tolist()
        texts = dict.fromkeys(json.dumps(int(end) if end.is_integer() else end) for end in ends)
        ranges = [f"{low}..{high}" for low, high in pairwise(["", *texts, ""])]
        return [{"value": text, "count": self._within(text)} for text in ranges]

    def _has_frequent(self) -> bool:
        """Whether the most frequent values are those of half of the documents or more."""
        return 2 * sum(count for _, count in self.counts.most_common(_VALUES)) >= self.counts.total()

    def _has_ranges(self) -> bool:
        """Whether they are numbers, and either too many to list or mostly different."""
        is_many = len(self.counts) > _VALUES or not self._has_frequent()
        return is_many and len(self.numbers) == self.counts.total() >= _NUMBERS

    def _within(self, text: str) -> int:
        low, high = range_in(text) or (math.inf, -math.inf)
        return sum(low <= number <= high for number in self.numbers)


def _columns(hits: Sequence[Hit]) -> dict[str, _Column]:
    columns: dict[str, _Column] = {}
    for hit in hits:
        for name, value in hit.stored_fields.items():
            text = value if isinstance(value, str) else json.dumps(value)
            if len(text) > _VALUE_CHARS or plain_name(name) in TITLES:
                continue
            column = columns.setdefault(name, _Column())
            column.counts[text] += 1
            if isinstance(value, int | float) and not isinstance(value, bool):
                column.numbers.append(float(value))
    return columns
