"""A click log as columns: one row for each document shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

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

    Examples
    --------
    >>> columns = ClickColumns.from_lists([("tea", ("a", "b"), ("b",)), ("tea", ("b", "c"), ())])
    >>> columns.pair.tolist(), columns.rank.tolist(), columns.clicked.tolist()
    ([0, 1, 1, 2], [0, 1, 0, 1], [False, True, False, False])
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
        queries, query = numbered([one[0] for one in lists])
        docs, doc = numbered(list(chain.from_iterable(one[1] for one in lists)))
        sizes = np.fromiter((len(one[1]) for one in lists), dtype=np.int64, count=len(lists))
        impression, start = np.repeat(np.arange(sizes.size), sizes), np.cumsum(sizes) - sizes
        width = max(1, len(docs))
        keys, first, pair = np.unique(query[impression] * width + doc, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(keys.size, dtype=np.int64)
        number[order] = np.arange(keys.size)
        clicked = np.zeros(doc.size, dtype=bool)
        for begin, (_, shown, clicks) in zip(start.tolist(), lists, strict=True):
            clicked[[begin + shown.index(doc_id) for doc_id in clicks]] = True
        rank = np.arange(doc.size) - np.repeat(start, sizes)
        pairs = keys[order]
        return cls(queries, docs, query, pairs // width, pairs % width, impression, number[pair.ravel()], rank, clicked)

    def take(self, kept: NDArray[np.bool_]) -> ClickColumns:
        """Some of the rows, with the numbers that all rows have."""
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
