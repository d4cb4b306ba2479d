"""Results of a search: hits, runs and explanations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.frames import frame_of
from tercet.data.values import Record
from tercet.errors import InputError
from tercet.fitting.text_model import TextExplanation, TextModel
from tercet.kernels.rows import QueryRow
from tercet.report.html import element, join
from tercet.report.table import Cell, Table
from tercet.search.scorer import ExpandedQueries, Scorer
from tercet.search.stored_fields import shown_record
from tercet.text.markup import plain_text
from tercet.weights import Explanation, Pairs
from tercet.weights.base import merge_pairs
from tercet.weights.scoring import as_matrix

DocRows = NDArray[np.integer[Any]]

_HITS_SHOWN: Final = 3  # in a repr
_ROWS_SHOWN: Final = 50  # in a notebook
_TEXT_SHOWN: Final = 120


class DocumentView(Protocol):
    """Interface of documents for searches and explanations, see `View`. A row stands for a document."""

    @property
    def scorer(self) -> Scorer: ...

    def __len__(self) -> int: ...

    def find(self, doc_id: str) -> int | None: ...

    def ids(self) -> Iterator[str]: ...

    def doc_ids(self, rows: DocRows) -> Sequence[str]: ...

    def text(self, row: int) -> str | None: ...

    def stored_fields(self, row: int) -> Record: ...

    def has_column(self, column: str) -> bool: ...

    def filter(self, where: Mapping[str, Collection[str]]) -> DocumentView: ...

    def terms(self, row: int) -> NDArray[np.int32]: ...

    def matrix(self, row: int) -> sparse.csr_array: ...

    def rescore(self, query: ExpandedQueries, rows: Any) -> NDArray[np.float64]: ...


class HitSource(Protocol):
    """Query and documents by row, for reasons and contents of hits."""

    def why(self, row: int) -> TextExplanation: ...

    def text(self, row: int) -> str | None: ...

    def stored_fields(self, row: int) -> Record: ...


@dataclass(frozen=True, init=False)
class Hit:
    """Document in the results: id, score and, on demand, text, stored fields and reasons.

    ``confidence`` is the probability of an answer to the query; None without a calibrated model.

    Examples
    --------
    >>> from tercet import Index
    >>> [hit] = Index.build([{"id": "a", "text": "green tea", "price": 1.5}]).search("tea")
    >>> hit.doc_id, hit.text, hit.stored_fields
    ('a', 'green tea', {'price': 1.5})
    """

    doc_id: str
    score: float
    # ClassVar hides these attributes of a hit from frames and comparisons: they are no dataclass fields.
    confidence: ClassVar[float | None]
    _query: ClassVar[HitSource]
    _row: ClassVar[int]

    def __init__(self, doc_id: str, score: float, query: HitSource, row: int, confidence: float | None = None) -> None:
        fields = self.__dict__
        fields["doc_id"], fields["score"], fields["confidence"] = doc_id, score, confidence
        fields["_query"], fields["_row"] = query, row

    @property
    def why(self) -> TextExplanation:
        """Contributions of pairs of words, largest first; their sum is the score. Computed on each access."""
        return self._query.why(self._row)

    @property
    def text(self) -> str:
        """Text of the document."""
        return text_of(self.doc_id, self.kept_text)

    @property
    def kept_text(self) -> str | None:
        """Text of the document, or None without stored texts."""
        return self._query.text(self._row)

    @property
    def stored_fields(self) -> Record:
        """Stored fields of the document by column, without empty values."""
        return self._query.stored_fields(self._row)

    def _repr_html_(self) -> str:
        return Results([self])._repr_html_()


def text_of(doc_id: str, kept: str | None) -> str:
    """Return the text of a document, or raise an error for an index without texts."""
    if kept is None:
        raise InputError(f"the index keeps no texts, so there is none of {doc_id!r}")
    return kept


class Results(list[Hit]):
    """Hits, best first. A notebook shows a table; `to_frame` makes a frame.

    Attributes
    ----------
    unknown : unknown words of the query, each once, in order
    exact : False if a missing document could belong among the hits, as in an index in an engine
    left_off : number of hits below the last match, see `BaseIndex.search`

    Examples
    --------
    >>> from tercet import Index
    >>> hits = Index.build({"a": "green tea", "b": "blue sky"}).search("green unicorn")
    >>> [hit.doc_id for hit in hits], hits.unknown, hits.exact
    (['a'], ('unicorn',), True)
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        unknown: tuple[str, ...] = (),
        exact: bool = True,
        left_off: int = 0,
    ) -> None:
        super().__init__(hits)
        self.unknown, self.exact, self.left_off = unknown, exact, left_off

    def to_frame(self) -> Any:
        """Return a frame of pandas, else of polars, else an Arrow table.

        Columns are ``doc_id``, ``score``, ``confidence`` of a calibrated model, ``text`` of an index with texts, and
        stored fields; a field with one of these names is called ``stored_fields.NAME``.

        Examples
        --------
        >>> from tercet import Index
        >>> index = Index.build([{"id": "a", "text": "green tea", "price": 1.5}, {"id": "b", "text": "black tea"}])
        >>> index.search("tea").to_frame().columns.tolist()
        ['doc_id', 'score', 'text', 'price']
        """
        texts = [hit.kept_text for hit in self]
        columns: dict[str, list[Any]] = {"doc_id": [hit.doc_id for hit in self], "score": [hit.score for hit in self]}
        if any(hit.confidence is not None for hit in self):
            columns["confidence"] = [hit.confidence for hit in self]
        if any(text is not None for text in texts):
            columns["text"] = texts
        records = [hit.stored_fields for hit in self]
        for name in dict.fromkeys(name for record in records for name in record):
            column = f"stored_fields.{name}" if name in ("doc_id", "score", "confidence", "text") else name
            while column in columns:  # the name is taken
                column = f"stored_fields.{column}"
            columns[column] = [record.get(name) for record in records]
        return frame_of(columns)

    def __repr__(self) -> str:
        first_hits = ", ".join(f"{hit.doc_id!r}: {hit.score:.4g}" for hit in self[:_HITS_SHOWN])
        rest = f", … {len(self) - _HITS_SHOWN:,} more" if len(self) > _HITS_SHOWN else ""
        return f"Results({first_hits}{rest})"

    def _repr_html_(self) -> str:
        stored_fields = [hit.stored_fields for hit in self[:_ROWS_SHOWN]]
        table = Table(
            "Hits", ["", "score", "document", *(["stored_fields"] if any(stored_fields) else [])], n_labels=None
        )
        for rank, (hit, record) in enumerate(zip(self, stored_fields, strict=False), 1):
            text = " ".join(plain_text((hit.kept_text or "")[: 10 * _TEXT_SHOWN]).split())
            beginning = text if len(text) <= _TEXT_SHOWN else text[: _TEXT_SHOWN - 1] + "…"
            row = [Cell(str(rank)), Cell(f"{hit.score:.4f}"), Cell(hit.doc_id, beginning)]
            table.rows.append([*row, *([Cell(shown_record(record, _TEXT_SHOWN))] if any(stored_fields) else [])])
        notes = [f"{len(self) - _ROWS_SHOWN:,} more hits"] if len(self) > _ROWS_SHOWN else []
        notes += [f"{self.left_off:,} hits below the last match are left off"] if self.left_off else []
        notes += [f"the model does not know: {', '.join(self.unknown)}"] if self.unknown else []
        return join([table.as_html() if self else "nothing found", *(element("p", note) for note in notes)])


class SearchRun(dict[str, dict[str, float]]):
    """Results of many queries: ``{qid: {doc_id: score}}``, best first.

    Examples
    --------
    >>> from tercet import Index
    >>> run = Index.build({"a": "green tea", "b": "blue sky"}).search_many({"q": "tea"}, k=5)
    >>> isinstance(run, SearchRun), list(run["q"])
    (True, ['a'])
    """

    def __init__(self, queries: Mapping[str, str], model: TextModel) -> None:
        super().__init__()
        self._queries, self._model = queries, model

    def to_frame(self) -> Any:
        """A frame with a row for each hit: ``qid``, ``doc_id``, ``score``; see `Results.to_frame`."""
        rows = [(qid, doc_id, score) for qid, hits in self.items() for doc_id, score in hits.items()]
        names = ("qid", "doc_id", "score")
        return frame_of({name: [row[i] for row in rows] for i, name in enumerate(names)})

    def __repr__(self) -> str:
        return f"SearchRun({len(self):,} queries, {sum(map(len, self.values())):,} hits)"

    @cached_property
    def unknown(self) -> dict[str, tuple[str, ...]]:
        """Unknown words by query, for queries with unknown words; computed on demand."""
        unknown_words = self._model.query_vectorizer.unknown_words
        unknown = {qid: tuple(unknown_words(text)) for qid, text in self._queries.items()}
        return {qid: words for qid, words in unknown.items() if words}


@dataclass(frozen=True, eq=False)
class SearchedQuery:
    """Query and searched documents, for reasons and contents of hits."""

    view: DocumentView
    model: TextModel | None
    row: QueryRow
    unknown: tuple[str, ...]

    @property
    def query(self) -> sparse.csr_array:
        """The query as a matrix (1, n_terms)."""
        return as_matrix(self.row)

    def text(self, row: int) -> str | None:
        return self.view.text(row)

    def stored_fields(self, row: int) -> Record:
        return self.view.stored_fields(row)

    def pairs(self, row: int) -> Explanation:
        return self.view.scorer.weights.explain(self.query, self.view.matrix(row))

    def why(self, row: int) -> TextExplanation:
        doc = self.view.matrix(row)
        why = self._worded(self.pairs(row), doc)
        if self.model is None or self.model.memory is None:
            return why
        return self.model.with_memory_reasons(why, self.query, self.view.doc_ids(np.array([row]))[0], doc)

    def versus(self, row: int, other: int) -> TextExplanation:
        """Explain the lead of a document over another; the pairs sum to the difference."""
        row_pairs, other_pairs = self.pairs(row), self.pairs(other)
        merged = merge_pairs(
            [
                Pairs(row_pairs.query_term, row_pairs.doc_term, row_pairs.contribution),
                Pairs(other_pairs.query_term, other_pairs.doc_term, -other_pairs.contribution),
            ]
        )
        nonzero = np.flatnonzero(merged.contribution)
        pairs = (merged.query_term[nonzero], merged.doc_term[nonzero], merged.contribution[nonzero])
        why = self._worded(Explanation(row_pairs.score - other_pairs.score, *pairs))
        if self.model is None or self.model.memory is None:
            return why
        added, taken = (
            self.model.with_memory_reasons(replace(why, pairs=()), self.query, doc_id, self.view.matrix(each))
            for each, doc_id in zip((row, other), self.view.doc_ids(np.array([row, other])), strict=True)
        )
        amounts = {(a, b): amount for a, b, amount in added.pairs}
        for a, b, amount in taken.pairs:
            amounts[a, b] = amounts.get((a, b), 0.0) - amount
        of_memory = ((a, b, amount) for (a, b), amount in amounts.items() if amount)
        opposite = tuple(replace(past, contribution=-past.contribution) for past in taken.past)
        return replace(
            why,
            score=why.score + added.score - taken.score,
            pairs=tuple(sorted((*why.pairs, *of_memory), key=lambda pair: -abs(pair[2]))),
            past=tuple(sorted((*added.past, *opposite), key=lambda past: -abs(past.contribution))),
        )

    def _worded(self, why: Explanation, doc: sparse.csr_array | None = None) -> TextExplanation:
        if self.model is None:
            raise InputError("the index has weights without words; explain_row gives the pairs as columns")
        return self.model.worded(why, self.unknown, doc)
