"""Aggregated clicks as a source of evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.click_counts import ClickCounts
from tercet.data.clicks import numbered
from tercet.errors import InputError
from tercet.fitting.click_evidence import PRIOR
from tercet.fitting.judged import QueryNames
from tercet.fitting.leaving_out import Selection
from tercet.fitting.preference_pairs import ClickPairs, PreferredPairs

_MOST_PAIRS = 1000  # of a query, the heaviest


@dataclass(frozen=True, eq=False)
class CountedPairs(PreferredPairs):
    """Pairs of documents that aggregated clicks tell apart, and evidence of each document for memory.

    Document a is better than document b if a has more clicks per expected click. With clicks c, expected clicks e and n
    lists, the weight of the pair is ``(c_a e_b - c_b e_a) / n``. In a click log whose lists all show both documents,
    this weight is proportional to the weight of the preferences for a less the weight of the preferences for b.

    Attributes
    ----------
    n_clicks : clicks on known documents
    cells : evidence and number of clicks of each query and document, (n_queries, n_docs)
    unknown : pairs whose document is unknown
    """

    name: ClassVar[str] = ClickPairs.name
    n_clicks: int
    cells: tuple[sparse.csr_array, sparse.csr_array]
    unknown: int

    @classmethod
    def from_counts(cls, counts: ClickCounts, names: QueryNames, doc_rows: Mapping[str, int]) -> CountedPairs:
        """Pairs of known documents; the queries are added to the names."""
        doc = np.array([doc_rows.get(doc_id, -1) for doc_id in counts.docs], dtype=np.int64)
        if (doc < 0).all():
            raise InputError(
                f"no document that clicks name is among the documents: {counts.docs[0]!r} was shown, and a document is "
                f"called {next(iter(doc_rows), '')!r}; are these the documents that the clicks are on?"
            )
        texts, query = numbered(counts.queries)
        pairs = np.flatnonzero(doc >= 0)
        pairs = pairs[np.argsort(query[pairs], kind="stable")]
        rows = np.full(len(texts), -1, dtype=np.int64)
        parts = []
        for group in np.split(pairs, np.flatnonzero(np.diff(query[pairs])) + 1):
            better, worse, weight = _preferred(counts.clicked[group], counts.expected[group], counts.shown[group].max())
            if better.size:  # a query without a preference is no past query
                row = rows[query[group[0]]] = names.add(texts[query[group[0]]])
                parts.append((np.full(better.size, row), doc[group[better]], doc[group[worse]], weight))
        if not parts:
            raise InputError("clicks say nothing: for no query is one document better than another")
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        pairs = pairs[rows[query[pairs]] >= 0]
        where, shape = (rows[query[pairs]], doc[pairs]), (len(names.texts), len(doc_rows))
        evidence = (counts.clicked - counts.expected) / (counts.expected + PRIOR)
        # Texts that differ in case and blanks alone are one query, with the mean of their evidence.
        total, n_rows, n_clicks = (
            sparse.csr_array((numbers[pairs], where), shape=shape)
            for numbers in (evidence, np.ones(evidence.size), counts.clicked)
        )
        total.data /= n_rows.data
        cells = total.astype(np.float32), n_clicks.astype(np.int32)
        order = np.argsort(columns[0], kind="stable")
        query_row, better_row, worse_row, weights = (column[order] for column in columns)
        return cls(
            query_row,
            better_row,
            worse_row,
            weights,
            len(doc_rows),
            int(counts.clicked[pairs].sum()),
            cells,
            int((doc < 0).sum()),
        )

    @property
    def size(self) -> int:
        """Number of clicks, in place of the number of lists with a click."""
        return self.n_clicks if self.query.size else 0

    @property
    def facts(self) -> dict[str, int]:
        return {"n_clicks": self.n_clicks, "n_click_preferences": self.query.size}

    def select(self, keep: Selection) -> CountedPairs:
        evidence, n_clicks = self.cells
        n_queries = evidence.shape[0]
        selection = sparse.dia_array(
            (keep.queries[:n_queries][None].astype(np.float32), [0]), shape=(n_queries, n_queries)
        )
        cells = sparse.csr_array(selection @ evidence), sparse.csr_array((selection @ n_clicks).astype(np.int32))
        part = super(CountedPairs, replace(self, cells=cells)).select(keep)
        return replace(part, n_clicks=int(cells[1].sum()))

    def past(self, n_queries: int) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Evidence for memory, ``(clicks - expected) / (expected + 1)``, and numbers of clicks, (n_queries, n_docs)."""
        evidence, n_clicks = (matrix.copy() for matrix in self.cells)
        for matrix in (evidence, n_clicks):
            matrix.resize((n_queries, self.n_docs))
        return evidence, n_clicks

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.unknown:
            return ()
        return (f"{self.unknown:,} pairs of a query and an unknown document in the clicks were passed over.",)


def _preferred(
    clicked: NDArray[np.float64], expected: NDArray[np.float64], n_lists: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Better and worse position, and the weight, of the pairs of one query."""
    chosen = np.flatnonzero(clicked)
    net = np.outer(clicked[chosen], expected) - np.outer(expected[chosen], clicked)
    better, worse = np.nonzero(net > 0)
    weight = net[better, worse] / max(n_lists, 1.0)
    if weight.size > _MOST_PAIRS:
        heaviest = np.sort(np.argsort(-weight, kind="stable")[:_MOST_PAIRS])
        better, worse, weight = better[heaviest], worse[heaviest], weight[heaviest]
    return chosen[better], worse, weight
