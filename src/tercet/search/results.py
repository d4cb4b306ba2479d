"""What a search gives back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.values import Record
from tercet.errors import InputError
from tercet.fitting.text_model import TextExplanation, TextModel
from tercet.search.scorer import ExpandedQueries, Scorer
from tercet.weights import Explanation, Pairs
from tercet.weights.explanation import merge_pairs

DocRows = NDArray[np.integer[Any]]


class DocumentView(Protocol):
    """What searching and explaining ask of documents, wherever they are kept. A row stands for a document."""

    @property
    def scorer(self) -> Scorer: ...

    def __len__(self) -> int: ...

    def find(self, doc_id: str) -> int | None:
        """The row of a document, or None."""
        ...

    def ids(self) -> Iterator[str]:
        """The ids, in the order in which the documents came."""
        ...

    def doc_ids(self, rows: DocRows) -> Sequence[str]: ...

    def text(self, row: int) -> str | None:
        """The text, or None where texts are not kept."""
        ...

    def carried(self, row: int) -> Record:
        """The values that a document carries along, by column."""
        ...

    def matrix(self, row: int) -> sparse.csr_array:
        """The words of a document, (1, n_terms)."""
        ...

    def search(self, queries: ExpandedQueries, k: int) -> Sequence[tuple[DocRows, NDArray[np.float64]]]:
        """Rows and exact scores of the k best of each query, best first, ties by lower row."""
        ...

    def rescore(self, query: ExpandedQueries, rows: Any) -> NDArray[np.float64]:
        """Exact scores of documents for a lone query."""
        ...

    def largest_values(self, terms: NDArray[np.int32]) -> NDArray[np.float64]:
        """By how much at most each term occurs in a document, by size."""
        ...


@dataclass(frozen=True)
class Hit:
    """A document that was found: its id, its score and, when asked for, its text and the reasons for the score."""

    doc_id: str
    score: float
    _query: SearchedQuery = field(repr=False, compare=False)
    _row: int = field(repr=False, compare=False)

    @property
    def why(self) -> TextExplanation:
        """The pairs of words behind the score, largest first; they sum to it. Worked out anew each time."""
        return self._query.why(self._row)

    @property
    def text(self) -> str:
        """The document, as it was indexed."""
        text = self.kept_text
        if text is None:
            raise InputError(f"the index keeps no texts, so there is none of {self.doc_id!r}")
        return text

    @property
    def kept_text(self) -> str | None:
        """The document, or None where the index keeps no texts."""
        return self._query.view.text(self._row)

    @property
    def carried(self) -> Record:
        """What the document carries along, by column: what its table had beside the text; empty values are left out."""
        return self._query.view.carried(self._row)


class Results(list[Hit]):
    """Hits, best first.

    Attributes
    ----------
    unknown : words of the query that the model does not know, each once, in order
    exact : False when ``max_terms`` left words out, so that a document that belongs here may be missing
    missed : by how much at most a missing document's score is above that of the last hit; 0 when exact
    left_off : how many hits below the last match were left off, see `BaseIndex.search`
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        unknown: tuple[str, ...] = (),
        exact: bool = True,
        missed: float = 0.0,
        left_off: int = 0,
    ) -> None:
        super().__init__(hits)
        self.unknown, self.exact, self.missed, self.left_off = unknown, exact, missed, left_off


class SearchRun(dict[str, dict[str, float]]):
    """``{qid: {doc_id: score}}``, best first, of the queries it was made for."""

    def __init__(self, queries: Mapping[str, str], model: TextModel) -> None:
        super().__init__()
        self._queries, self._model = queries, model

    @cached_property
    def unknown(self) -> dict[str, tuple[str, ...]]:
        """The words that the model does not know, of each query that has some; worked out when asked for."""
        unknown_words = self._model.query_vectoriser.unknown_words
        unknown = {qid: tuple(unknown_words(text)) for qid, text in self._queries.items()}
        return {qid: words for qid, words in unknown.items() if words}


@dataclass(frozen=True, eq=False)
class SearchedQuery:
    """A query and the documents it was asked of; hits keep it for whoever wants reasons."""

    view: DocumentView
    model: TextModel | None
    query: sparse.csr_array
    unknown: tuple[str, ...]

    def pairs(self, row: int) -> Explanation:
        return self.view.scorer.weights.explain(self.query, self.view.matrix(row))

    def why(self, row: int) -> TextExplanation:
        doc = self.view.matrix(row)
        return self._worded(self.view.scorer.weights.explain(self.query, doc), doc)

    def versus(self, row: int, other: int) -> TextExplanation:
        """What one document has over another: the pairs add up to the difference of their scores."""
        mine, theirs = self.pairs(row), self.pairs(other)
        merged = merge_pairs(
            [
                Pairs(mine.query_term, mine.doc_term, mine.contribution),
                Pairs(theirs.query_term, theirs.doc_term, -theirs.contribution),
            ]
        )
        kept = np.flatnonzero(merged.contribution)
        pairs = (merged.query_term[kept], merged.doc_term[kept], merged.contribution[kept])
        return self._worded(Explanation(mine.score - theirs.score, *pairs))

    def _worded(self, why: Explanation, doc: sparse.csr_array | None = None) -> TextExplanation:
        if self.model is None:
            raise InputError("the index has weights without words; explain_row gives the pairs as columns")
        return self.model.worded(why, self.unknown, doc)
