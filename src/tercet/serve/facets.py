"""Facets: values of stored fields for filters, with counts among the first results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tercet.data.roles import TITLES, plain_name
from tercet.search import BaseIndex, Hit
from tercet.search.filtering import Where, range_in

COUNTED: Final = 100  # results
_COLUMNS, _VALUES, _VALUE_CHARS = 6, 12, 60
_RANGES, _NUMBERS = 4, 8  # ranges of a numeric column, and the fewest numbers for ranges


def facets(index: BaseIndex, query: str, hits: Sequence[Hit], everything: bool, where: Where) -> list[dict[str, Any]]:
    """Return up to six columns with shared values, and the number of results per value.

    The counts of a filtered column ignore the filter on the column, because another value may be chosen.
    """
    if not index.can_filter:
        return []
    hits = hits[:COUNTED]
    columns = _columns(hits)
    free = [name for name, column in columns.items() if name not in where and column.narrows(len(hits))]
    chosen = [*where, *free][:_COLUMNS]
    answer = []
    for name in sorted(chosen, key=[*columns, *where].index):  # a filtered column keeps its position
        column, n_counted = columns.get(name, _Column()), len(hits)
        if name in where:
            other_filters = {column: values for column, values in where.items() if column != name}
            unfiltered = index.search(query, COUNTED, cutoff=not everything, where=other_filters)
            column, n_counted = _columns(unfiltered).get(name, _Column()), len(unfiltered)
        answer.append({"column": name, "counted": n_counted, "values": column.choices()})
    return answer


@dataclass
class _Column:
    """Values of a column among some results: counts by text, and numbers."""

    counts: Counter[str] = field(default_factory=Counter)
    numbers: list[float] = field(default_factory=list)

    def narrows(self, n: int) -> bool:
        """Return True if a value is shared by several of ``n`` results, but not by all."""
        if len(self.counts) < 2 and self.counts.total() == n:
            return False
        return self._has_ranges() or (self._is_repetitive() and max(self.counts.values()) > 1)

    def choices(self) -> list[dict[str, Any]]:
        """Return the most frequent values, or ranges of numbers, with counts."""
        if not self._has_ranges():
            most = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]
            return [{"value": value, "count": count} for value, count in most]
        ends = np.quantile(self.numbers, np.arange(1, _RANGES) / _RANGES, method="lower").tolist()
        texts = dict.fromkeys(json.dumps(int(end) if end.is_integer() else end) for end in ends)
        ranges = [f"{low}..{high}" for low, high in pairwise(["", *texts, ""])]
        return [{"value": text, "count": self._count_within(text)} for text in ranges]

    def _count_within(self, text: str) -> int:
        bounds = range_in(text)
        return 0 if bounds is None else sum(bounds[0] <= number <= bounds[1] for number in self.numbers)

    def _is_repetitive(self) -> bool:
        """Return True if the most frequent values cover half of the results."""
        return 2 * sum(count for _, count in self.counts.most_common(_VALUES)) >= self.counts.total()

    def _has_ranges(self) -> bool:
        """Return True for numbers with too many different values for a list."""
        is_many = len(self.counts) > _VALUES or not self._is_repetitive()
        return is_many and len(self.numbers) == self.counts.total() >= _NUMBERS


def _columns(hits: Sequence[Hit]) -> dict[str, _Column]:
    """Return values by column, without titles and long texts."""
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
