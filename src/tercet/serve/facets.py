"""What results can be narrowed to: values that documents carry, and how many of the first results have each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from scipy import sparse

from tercet.data.roles import TITLES, plain_name
from tercet.search import BaseIndex, Hit
from tercet.search.filtering import Where

COUNTED: Final = 100  # results that are looked at
_COLUMNS, _VALUES, _VALUE_CHARS = 6, 12, 60


def facets(
    index: BaseIndex, row: sparse.csr_array, hits: Sequence[Hit], everything: bool, where: Where
) -> list[dict[str, Any]]:
    """Columns with values that some of the first results share, and how many have each.

    A column that is filtered is counted among what the other filters leave, so that one can choose another value.
    """
    if not index.can_filter:
        return []
    counted = hits[:COUNTED]
    columns = _counts(counted)
    telling = [column for column, counts in columns.items() if column not in where and _tells(counts, len(counted))]
    shown = []
    for column in [*where, *telling][:_COLUMNS]:
        counts, n = columns.get(column, Counter()), len(counted)
        if column in where:
            others = {name: values for name, values in where.items() if name != column}
            rest = index.search_row(row, COUNTED, cutoff=not everything, where=others)
            counts, n = _counts(rest).get(column, Counter()), len(rest)
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_VALUES]
        values = [{"value": value, "count": count} for value, count in most]
        shown.append({"column": column, "counted": n, "values": values})
    return shown


def _tells(counts: Counter[str], n: int) -> bool:
    """Whether choosing a value leaves fewer than all results, and more than one."""
    return bool(counts) and max(counts.values()) > 1 and (len(counts) > 1 or counts.total() < n)


def _counts(hits: Sequence[Hit]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for hit in hits:
        for column, value in hit.carried.items():
            text = value if isinstance(value, str) else json.dumps(value)
            if len(text) <= _VALUE_CHARS and plain_name(column) not in TITLES:
                counts.setdefault(column, Counter())[text] += 1
    return counts
