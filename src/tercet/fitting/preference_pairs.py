"""Triplets and clicks as pairs of documents, the better one and the worse, by query; and what queries are called."""

from __future__ import annotations

from array import array as growing_array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from sys import float_info
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.data.clicks import ClickLog, Skipped, click_preferences
from tercet.data.judgements import plain_text
from tercet.data.preferences import Preferences
from tercet.errors import InputError
from tercet.fitting.task import Triplets
from tercet.measure.held_out import HeldOutPreferences

# Preferences over what was skipped above a click all contradict the order that was shown: whatever showed the lists has
# every one of them wrong, and a model learned from them alone unlearns matching. Over all that was shown, each weighted
# by the chance that it was looked at, neither order of two equally good documents is favoured.
SKIPPED: Final[Skipped] = "all"

# -- queries ----------------------------------------------------------------------------------------------------------


class QueryNames:
    """Queries of all sources, each under one id: its own, or its text.

    Texts that differ in case and blanks alone are one query. New texts are taken in where there were no queries, or
    where these are called by their texts.
    """

    def __init__(self, queries: Mapping[str, str] | None) -> None:
        if queries is not None and not isinstance(queries, Mapping):
            raise InputError(f"queries must be a mapping, id -> text; got {type(queries).__name__}")
        self.texts: dict[str, str] = dict(queries or {})
        self._by_text: dict[str, str] = {}
        for qid, text in self.texts.items():
            self._by_text.setdefault(plain_text(text), qid)
        self.are_texts = all(qid == text for qid, text in self.texts.items())

    def find(self, query: str) -> str | None:
        """The id of a query that is named by it, or by its text."""
        return query if query in self.texts else self._by_text.get(plain_text(query))

    def take_in(self, query: str) -> str:
        """The id of a query, which is a new text where it is not known."""
        known = self.find(query)
        if known is not None:
            return known
        self.texts[query] = query
        self._by_text[plain_text(query)] = query
        return query


# -- triplets and clicks, as pairs of documents -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PreferredPairs:
    """Which document of two is better, by query, as columns.

    Attributes
    ----------
    qids : the queries, in the order they came, each with its number
    query, better, worse : number of the query, rows of the documents; those of clicks are sorted
    weight : or None where all count the same
    place : of clicks, the number of the list in the log
    """

    qids: dict[str, int]
    query: NDArray[np.int64]
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    position: NDArray[np.int64] | None = None

    @property
    def n_lists(self) -> int:
        """How many lists of a log have some."""
        return 0 if self.position is None else int(np.unique(self.position).size)

    def for_queries(self, qids: Iterable[str], where: NDArray[np.bool_] | None = None) -> PreferredPairs:
        """The pairs of some queries, and of those only the ones that `where` picks."""
        numbers = np.array([self.qids[qid] for qid in qids if qid in self.qids], dtype=np.int64)
        kept = np.isin(self.query, numbers)
        if where is not None:
            kept &= where
        present = set(np.unique(self.query[kept]).tolist())
        columns = (self.query, self.better, self.worse, self.weight, self.position)
        return PreferredPairs(
            {qid: number for qid, number in self.qids.items() if number in present},
            *(None if column is None else column[kept] for column in columns),  # type: ignore[arg-type]
        )

    def preferences(self, query_rows: Mapping[str, int]) -> Preferences:
        """By row of Q and D, queries rising; clicks that say the same are one preference, with all their weight."""
        row_of = np.zeros(max(self.qids.values(), default=-1) + 1, dtype=np.int64)
        for qid, number in self.qids.items():
            row_of[number] = query_rows[qid]
        rows = row_of[self.query]
        order = np.argsort(rows, kind="stable")
        columns = np.stack([rows, self.better, self.worse])[:, order]
        weight = None if self.weight is None else self.weight[order]
        if self.position is not None and weight is not None and order.size:
            # A query that is asked a thousand times shows the same documents: as one, they are drawn as often.
            first = np.flatnonzero(np.r_[True, (np.diff(columns) != 0).any(axis=0)])
            columns, weight = columns[:, first], np.add.reduceat(weight, first)
        return Preferences(columns[0], columns[1], columns[2], weight)

    def held_out(self, Q: sparse.csr_array, D: sparse.csr_array, query_rows: Mapping[str, int]) -> HeldOutPreferences:
        """To measure by, with the rows of these queries only."""
        qids = tuple(sorted(self.qids, key=query_rows.__getitem__))
        preferences = self.preferences({qid: row for row, qid in enumerate(qids)})
        return HeldOutPreferences(Q[[query_rows[qid] for qid in qids]], D, preferences, qids)

    @staticmethod
    def joined(parts: Sequence[PreferredPairs]) -> PreferredPairs:
        """Several sources as one; in the share of a query, each of its sources counts the same."""
        if len(parts) == 1:
            return parts[0]
        qids: dict[str, int] = {}
        columns: list[list[NDArray[Any]]] = [[], [], [], []]
        for part in parts:
            row_of = np.zeros(max(part.qids.values(), default=-1) + 1, dtype=np.int64)
            for qid, number in part.qids.items():
                row_of[number] = qids.setdefault(qid, len(qids))
            weight = np.ones(part.query.size) if part.weight is None else part.weight
            total = np.bincount(part.query, weight, minlength=row_of.size)[part.query]
            for column, values in zip(
                columns, (row_of[part.query], part.better, part.worse, weight / total), strict=True
            ):
                column.append(values)
        query, better, worse, weight = map(np.concatenate, columns)
        return PreferredPairs(qids, query, better, worse, weight)


class _Columns:
    """Collects pairs as they come."""

    def __init__(self) -> None:
        self.qids: dict[str, int] = {}
        self._rows = tuple(growing_array("q") for _ in range(4))
        self._weight = growing_array("d")

    def add(self, qid: str, better: int, worse: int, weight: float = 1.0, position: int = 0) -> None:
        number = self.qids.setdefault(qid, len(self.qids))
        for column, value in zip(self._rows, (number, better, worse, position), strict=True):
            column.append(value)
        self._weight.append(weight)

    def pairs(self, *, are_placed: bool) -> PreferredPairs:
        query, better, worse, position = (np.array(column, dtype=np.int64) for column in self._rows)
        weight = np.array(self._weight, dtype=np.float64)
        if not are_placed:
            return PreferredPairs(self.qids, query, better, worse, None if (weight == 1.0).all() else weight)
        order = np.lexsort((worse, better, query))
        return PreferredPairs(self.qids, query[order], better[order], worse[order], weight[order], position[order])


def pairs_of_triplets(part: Triplets, name: str, names: QueryNames, doc_rows: Mapping[str, int]) -> PreferredPairs:
    """Triplets, checked; a fourth number is a weight."""
    if isinstance(part, str | bytes | Mapping) or not isinstance(part, Iterable):
        raise InputError(f"{name} must be triplets (query, better document, worse document); got {type(part).__name__}")
    columns = _Columns()
    may_add = names.are_texts
    for number, triplet in enumerate(part):
        if isinstance(triplet, str) or not isinstance(triplet, Sequence) or len(triplet) not in (3, 4):
            raise InputError(f"{name}[{number}] must be a query, a better and a worse document; got {triplet!r}")
        query, better, worse = triplet[:3]
        if not all(isinstance(side, str) for side in (query, better, worse)):
            raise InputError(f"{name}[{number}] must be three strings; got {triplet!r}")
        if better == worse:
            raise InputError(f"{name}[{number}] says that document {better!r} is better than itself")
        weight = triplet[3] if len(triplet) == 4 else 1.0
        if not is_number(weight, 0, float_info.max) or not weight > 0:
            raise InputError(f"{name}[{number}] has the weight {weight!r}; a positive number is needed")
        qid = names.take_in(query) if may_add else names.find(query)
        if qid is None:
            raise InputError(f"{name}[{number}] is of query {query!r}, which is not among the queries")
        for doc_id in (better, worse):
            if doc_id not in doc_rows:
                raise InputError(f"{name}[{number}] names document {doc_id!r}; there is no such document")
        columns.add(qid, doc_rows[better], doc_rows[worse], float(weight))
    if not columns.qids:
        raise InputError(f"{name} have no preference")
    return columns.pairs(are_placed=False)


def pairs_of_clicks(
    log: ClickLog, names: QueryNames, doc_rows: Mapping[str, int], examination: Sequence[float] | None = None
) -> PreferredPairs:
    """Preferences of clicks, between documents that are known, each with the place of its list.

    What each counts follows `examination`, the chance that each rank is looked at, or the guess.
    """
    columns = _Columns()
    any_known = False
    for position, impression in enumerate(log.impressions):
        any_known = any_known or any(doc_id in doc_rows for doc_id in impression.shown)
        weighed = click_preferences(impression.shown, impression.clicked, SKIPPED, most=inf, examination=examination)
        for better, worse, weight in weighed:
            if better in doc_rows and worse in doc_rows:
                columns.add(names.take_in(impression.query), doc_rows[better], doc_rows[worse], weight, position)
    if not any_known and log.impressions:
        shown, known = log.impressions[0].shown[0], next(iter(doc_rows), "")
        raise InputError(
            f"no document that clicks name is among the documents: the log shows {shown!r}, and a document is called "
            f"{known!r}; are these the documents that the log is about?"
        )
    if not columns.qids:
        raise InputError("clicks say nothing: in no list is a document clicked and another one not")
    return columns.pairs(are_placed=True)
