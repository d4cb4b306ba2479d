"""Triplets and clicks as sources of evidence: pairs of a better and a worse document, by query."""

from __future__ import annotations

from array import array as growing_array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import float_info
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import is_number
from tercet.data.cells import plain_text
from tercet.data.clicks import ClickLog
from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.errors import InputError
from tercet.fitting.click_evidence import end_of, past_clicks, preferred_rows
from tercet.fitting.judged import QueryNames
from tercet.fitting.leaving_out import Selection
from tercet.measure.held_out import HeldOutPreferences

Rows = NDArray[np.int64]
Triplets = Iterable[tuple[str, str, str] | tuple[str, str, str, float]]  # query, better and worse document, weight


def by_known_names(log: ClickLog, names: QueryNames) -> ClickLog:
    """The click log with each query under a single name: the id of a known query, or the first spelling."""
    spelling: dict[str, str] = {}
    called: dict[str, str] = {}
    for query in dict.fromkeys(impression.query for impression in log.impressions):
        called[query] = names.find(query) or spelling.setdefault(plain_text(query), query)
    return replace(
        log, impressions=tuple(impression._replace(query=called[impression.query]) for impression in log.impressions)
    )


@dataclass(frozen=True, eq=False)
class PreferredPairs:
    """Pairs of documents in columns.

    Attributes
    ----------
    query, better, worse : rows of Q and D
    weight : weight of each pair
    n_docs : rows of D
    """

    name: ClassVar[str] = "triplets"
    columns: ClassVar[tuple[str, ...]] = ("query", "better", "worse", "weight")
    query: Rows
    better: Rows
    worse: Rows
    weight: NDArray[np.float64]
    n_docs: int

    @classmethod
    def from_triplets(
        cls, triplets: Triplets, name: str, names: QueryNames, doc_rows: Mapping[str, int]
    ) -> PreferredPairs:
        """Check triplets; a fourth value is a weight. Errors call the triplets ``name``."""
        if isinstance(triplets, str | bytes | Mapping) or not isinstance(triplets, Iterable):
            kind = type(triplets).__name__
            raise InputError(f"{name} must be triplets (query, better document, worse document); got {kind}")
        rows, weights = tuple(growing_array("q") for _ in range(3)), growing_array("d")
        may_add = names.are_texts
        for number, triplet in enumerate(triplets):
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
            if not may_add and names.find(query) is None:
                raise InputError(f"{name}[{number}] is of query {query!r}, which is not among the queries")
            for doc_id in (better, worse):
                if doc_id not in doc_rows:
                    raise InputError(f"{name}[{number}] names document {doc_id!r}; there is no such document")
            for column, row in zip(rows, (names.add(query), doc_rows[better], doc_rows[worse]), strict=True):
                column.append(row)
            weights.append(float(weight))
        if not weights:
            raise InputError(f"{name} have no preference")
        query_rows, better_rows, worse_rows = (np.array(column, dtype=np.int64) for column in rows)
        return cls(query_rows, better_rows, worse_rows, np.array(weights, dtype=np.float64), len(doc_rows))

    @property
    def rows(self) -> Rows:
        """Row in Q of each pair."""
        return self.query

    @property
    def size(self) -> int:
        return self.query.size

    @property
    def facts(self) -> dict[str, int]:
        return {"n_preferences": self.size}

    def take(self, mask: NDArray[np.bool_]) -> Self:
        return replace(self, **{name: getattr(self, name)[mask] for name in self.columns})

    def select(self, keep: Selection) -> Self:
        """Keep pairs of the selected queries, without pairs of a withheld document."""
        return self.take(keep.queries[self.query] & ~(keep.withheld[self.better] | keep.withheld[self.worse]))

    def preferences(self) -> Preferences:
        """Preferences by rising query."""
        order = np.argsort(self.query, kind="stable")
        weight = None if (self.weight == 1).all() else self.weight[order]
        return Preferences(self.query[order], self.better[order], self.worse[order], weight)

    def sampler(self) -> PreferenceSampler:
        return PreferenceSampler(self.preferences())

    def past(self, n_queries: int) -> tuple[sparse.csr_array, sparse.csr_array | None]:
        """Evidence for memory, ``2 (wins - losses) / (wins + losses + 1)``, with 1 for a single win; no clicks."""
        sides = np.concatenate([self.query, self.query]) * self.n_docs + np.concatenate([self.better, self.worse])
        cells, cell = np.unique(sides, return_inverse=True)
        total = np.bincount(cell.ravel(), np.concatenate([self.weight, self.weight]), cells.size)
        net = np.bincount(cell.ravel(), np.concatenate([self.weight, -self.weight]), cells.size)
        where = cells // self.n_docs, cells % self.n_docs
        evidence = (2 * net / (total + 1)).astype(np.float32)
        return sparse.csr_array((evidence, where), shape=(n_queries, self.n_docs)), None

    def answers(self) -> tuple[Rows, sparse.csr_array]:
        """Queries, and (n_queries, n_docs), non-zero for a better document."""
        rows, query = np.unique(self.query, return_inverse=True)
        ones = np.ones(self.query.size, dtype=np.int64)
        return rows, sparse.csr_array((ones, (query.ravel(), self.better)), shape=(rows.size, self.n_docs))

    def held_out(self, Q: sparse.csr_array, D: sparse.csr_array, qids: Sequence[str]) -> HeldOutPreferences:
        """Preferences to measure by; ``qids`` names the rows of Q."""
        rows, query = np.unique(self.query, return_inverse=True)
        preferences = replace(self, query=query.ravel()).preferences()
        return HeldOutPreferences(Q[rows], D, preferences, tuple(qids[row] for row in rows))

    def by_query(self) -> Self:
        """Return the pairs with weights that sum to 1 for each query."""
        return replace(self, weight=self.weight / np.bincount(self.query, self.weight)[self.query])

    @staticmethod
    def stacked(parts: Sequence[PreferredPairs]) -> PreferredPairs:
        query, better, worse, weight = (
            np.concatenate([getattr(part, name) for part in parts]) for name in PreferredPairs.columns
        )
        return PreferredPairs(query, better, worse, weight, parts[0].n_docs)


@dataclass(frozen=True, eq=False)
class ClickPairs(PreferredPairs):
    """Pairs of a click log, sorted by query, better and worse document.

    Attributes
    ----------
    impression : list of each pair
    log : the clicks
    examination : chance of a look at each rank; None is the guess
    min_sessions : fewest sessions with a query before memory keeps the query
    query_row, doc_row : row of each query and document of the log, or -1
    n_lists : number of first lists of the log to keep
    """

    name: ClassVar[str] = "clicks"
    columns: ClassVar[tuple[str, ...]] = (*PreferredPairs.columns, "impression")
    impression: Rows
    log: ClickLog
    examination: Sequence[float] | None
    min_sessions: int
    query_row: Rows
    doc_row: Rows
    n_lists: int

    @classmethod
    def from_log(
        cls,
        log: ClickLog,
        names: QueryNames,
        doc_rows: Mapping[str, int],
        examination: Sequence[float] | None = None,
        min_sessions: int = 2,
    ) -> ClickPairs:
        """Pairs of known documents; the queries of the pairs are added to the names."""
        columns = log.columns
        doc_row = np.array([doc_rows.get(doc_id, -1) for doc_id in columns.docs], dtype=np.int64)
        if log.impressions and (doc_row < 0).all():
            raise InputError(
                f"no document that clicks name is among the documents: the log shows {columns.docs[0]!r}, and a "
                f"document is called {next(iter(doc_rows), '')!r}; are these the documents that the log is about?"
            )
        better, worse, weight = preferred_rows(columns, examination)
        row_doc = doc_row[columns.pair_doc[columns.pair]]
        has_docs = (row_doc[better] >= 0) & (row_doc[worse] >= 0)
        if not has_docs.any():
            raise InputError("clicks say nothing: in no list is a document clicked and another one not")
        better, worse, weight = better[has_docs], worse[has_docs], weight[has_docs]
        impression = columns.impression[better]
        query_row = np.full(len(columns.queries), -1, dtype=np.int64)
        lists = np.flatnonzero(np.bincount(impression))
        for number in dict.fromkeys(columns.list_query[lists].tolist()):
            query_row[number] = names.add(columns.queries[number])
        query, better, worse = query_row[columns.list_query[impression]], row_doc[better], row_doc[worse]
        order = np.lexsort((impression, worse, better, query))
        pairs = query[order], better[order], worse[order], weight[order], len(doc_rows), impression[order]
        return cls(*pairs, log, examination, min_sessions, query_row, doc_row, len(log.impressions))

    @property
    def size(self) -> int:
        """Number of lists."""
        return int(np.count_nonzero(np.bincount(self.impression)))

    @property
    def facts(self) -> dict[str, int]:
        return {"n_lists": self.size, "n_click_preferences": self.query.size}

    def select(self, keep: Selection) -> ClickPairs:
        query_row = np.where(keep.queries[self.query_row] & (self.query_row >= 0), self.query_row, -1)
        part = replace(self, query_row=query_row, n_lists=int(min(self.n_lists, keep.before)))
        part = super(ClickPairs, part).select(keep)
        return part.take(part.impression < part.n_lists)

    def preferences(self) -> Preferences:
        """Preferences by rising query; equal preferences of several lists are merged, with the sum of their weights."""
        columns = np.stack([self.query, self.better, self.worse])
        first = np.flatnonzero(np.r_[True, (np.diff(columns) != 0).any(axis=0)])
        query, better, worse = columns[:, first]
        return Preferences(query, better, worse, np.add.reduceat(self.weight, first))

    def past(self, n_queries: int) -> tuple[sparse.csr_array, sparse.csr_array | None]:
        """Evidence for memory, and numbers of clicks, (n_queries, n_docs)."""
        columns, shape = self.log.columns, (n_queries, self.n_docs)
        evidence, n_clicks = past_clicks(
            self.log, self.examination, n_lists=self.n_lists, min_sessions=self.min_sessions
        )
        rows, docs = self.query_row[columns.pair_query], self.doc_row[columns.pair_doc]
        has_rows = (rows >= 0) & (docs >= 0)
        where = rows[has_rows], docs[has_rows]
        return (
            sparse.csr_array((evidence[has_rows].astype(np.float32), where), shape=shape),
            sparse.csr_array((n_clicks[has_rows], where), shape=shape),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the log, and the number of unknown documents in its lists."""
        columns = self.log.columns
        is_unknown = self.doc_row[columns.pair_doc[columns.pair]] < 0
        unknown = (
            f"{is_unknown.sum():,} of {is_unknown.size:,} documents shown in the click log are unknown and were passed "
            "over."
        )
        return (*self.log.notes, *([unknown] if is_unknown.any() else []))

    def shares_at_end(self) -> tuple[float, float] | None:
        """Shares of repeated queries, and of new documents among the clicks, in the last tenth of the log.

        None if the last tenth has no click.
        """
        columns, end = self.log.columns, end_of(self.log)
        is_last = columns.impression >= end
        lists = np.unique(columns.impression[is_last & columns.clicked])
        if not lists.size:
            return None
        is_repeated = np.isin(columns.list_query[lists], columns.list_query[:end])
        doc = columns.pair_doc[columns.pair]
        clicked = doc[is_last & columns.clicked]
        clicked = clicked[self.doc_row[clicked] >= 0]
        n_new = (~np.isin(clicked, doc[~is_last & columns.clicked])).sum()
        return float(is_repeated.mean()), n_new / max(1, clicked.size)
