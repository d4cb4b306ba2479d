"""Names of queries; graded judgements, and labels of texts, as sources of evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.cells import plain_text
from tercet.data.sampling import JudgementSampler, LabelSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.leaving_out import Selection
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import Measure

Qrels = Mapping[str, Mapping[str, int]]


class QueryNames:
    """Queries of all sources by row, each under a single id: a given id, or the text.

    Texts with the same words, apart from case and blanks, are the same query. New texts are added if no queries were
    given, or if all ids are texts.
    """

    def __init__(self, queries: Mapping[str, str] | None) -> None:
        if queries is not None and not isinstance(queries, Mapping):
            raise InputError(f"queries must be a mapping, id -> text; got {type(queries).__name__}")
        self.texts: dict[str, str] = dict(queries or {})
        self.rows = {qid: row for row, qid in enumerate(self.texts)}
        self._by_text: dict[str, str] = {}
        for qid, text in self.texts.items():
            self._by_text.setdefault(plain_text(text), qid)
        self.are_texts = all(qid == text for qid, text in self.texts.items())

    def find(self, query: str) -> str | None:
        """Find the id of a query by its id or text."""
        return query if query in self.texts else self._by_text.get(plain_text(query))

    def add(self, query: str) -> int:
        """Row of a query; an unknown query is a new text."""
        qid = self.find(query)
        if qid is None:
            qid = self.texts[query] = self._by_text[plain_text(query)] = query
            self.rows[query] = len(self.rows)
        return self.rows[qid]


@dataclass(frozen=True, eq=False)
class Judgements:
    """Judgements by row.

    Attributes
    ----------
    rows : row in Q of each judged query
    grades : CSR integers (n_judged, n_docs)
    measure : measure of held-out queries
    linked : True if queries are documents, each left out of its own ranking
    """

    name: ClassVar[str] = "judgements"
    rows: NDArray[np.int64]
    grades: sparse.csr_array
    measure: Measure
    linked: bool = False

    @classmethod
    def from_qrels(
        cls,
        qrels: Qrels,
        query_rows: Mapping[str, int],
        doc_rows: Mapping[str, int],
        measure: Measure,
        linked: bool = False,
    ) -> Judgements:
        indptr = np.cumsum([0, *map(len, qrels.values())])
        columns = [doc_rows[doc_id] for judged in qrels.values() for doc_id in judged]
        grades = [grade for judged in qrels.values() for grade in judged.values()]
        matrix = sparse.csr_array(
            (np.array(grades, dtype=np.int64), np.array(columns, dtype=np.int64), indptr),
            shape=(len(qrels), len(doc_rows)),
        )
        rows = np.array([query_rows[qid] for qid in qrels], dtype=np.int64)
        return cls(rows, matrix, measure, linked)

    @property
    def size(self) -> int:
        return int(self.grades.nnz)

    @property
    def facts(self) -> dict[str, int]:
        return {"n_judgements": self.size}

    def _take(self, mask: NDArray[np.bool_]) -> Judgements:
        return replace(self, rows=self.rows[mask], grades=self.grades[np.flatnonzero(mask)])

    def select(self, keep: Selection) -> Judgements:
        """Judgements of selected queries and documents; a query without an answer is left out."""
        selected = self._take(keep.queries[self.rows])
        if not keep.withheld.any():
            return selected
        cells = selected.grades.tocoo()
        is_selected = ~keep.withheld[cells.col]
        grades = sparse.csr_array(
            (cells.data[is_selected], (cells.row[is_selected], cells.col[is_selected])), shape=cells.shape
        )
        rest = replace(selected, grades=grades)
        return rest._take(np.diff(rest.answers()[1].indptr) > 0)

    def sampler(self) -> JudgementSampler:
        """Draws preferences; the worse document is any document of a lower grade."""
        cells = self.grades.tocoo()
        return JudgementSampler(self.rows[cells.row], cells.col, cells.data, n_docs=cells.shape[1])

    def past(self, n_queries: int) -> tuple[sparse.csr_array, None]:
        """Evidence for memory, (n_queries, n_docs): grades as shares of the largest; judgements count no clicks."""
        cells = self.grades.tocoo()
        relevant = cells.data > 0
        values = cells.data[relevant] / max(1, cells.data.max(initial=1))
        where, shape = (self.rows[cells.row[relevant]], cells.col[relevant]), (n_queries, cells.shape[1])
        return sparse.csr_array((values.astype(np.float32), where), shape=shape), None

    def answers(self) -> tuple[NDArray[np.int64], sparse.csr_array]:
        """Queries, and (n_judged, n_docs), non-zero for answers."""
        answers = sparse.csr_array(self.grades > 0, dtype=np.int8)
        answers.eliminate_zeros()
        return self.rows, answers

    def held_out(self, Q: sparse.csr_array, D: sparse.csr_array, qids: Sequence[str]) -> HeldOutQueries:
        """Queries to measure by; ``qids`` names the rows of Q."""
        names = tuple(qids[row] for row in self.rows)
        held_out = HeldOutQueries(Q[self.rows], D, self.grades, names, self.measure)
        return held_out.without(self.rows) if self.linked else held_out  # a query and its document have the same row


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of texts: each text is a query for the other texts of its class.

    Attributes
    ----------
    classes : label of each text
    rows : texts to learn from, or to measure among themselves
    measure : measure of held-out texts
    """

    name: ClassVar[str] = "labels"
    classes: NDArray[np.str_]
    rows: NDArray[np.int64]
    measure: Measure

    @classmethod
    def from_labels(cls, texts: Sequence[str], labels: Sequence[str], measure: Measure) -> Labels:
        """Check texts and labels."""
        if isinstance(texts, str) or isinstance(labels, str):
            raise InputError("texts and labels must be lists, one text and one label each; got a single string")
        if not all(hasattr(each, "__len__") for each in (texts, labels)):
            kinds = " and ".join(type(each).__name__ for each in (texts, labels))
            raise InputError(f"texts and labels must be lists, one text and one label each; got {kinds}")
        if len(texts) != len(labels):
            raise InputError(f"there are {len(texts)} texts and {len(labels)} labels; each text has one")
        return cls(np.asarray(labels), np.arange(len(texts)), measure)

    @property
    def size(self) -> int:
        return self.rows.size

    @property
    def facts(self) -> dict[str, int]:
        return {"n_texts": self.size, "n_classes": len(set(self.classes[self.rows].tolist()))}

    def select(self, keep: Selection) -> Labels:
        return replace(self, rows=self.rows[keep.queries[self.rows]])

    def sampler(self) -> LabelSampler:
        """Draws preferences; the better text is of the same class, the worse text of another class."""
        return LabelSampler(self.classes).drop(np.setdiff1d(np.arange(self.classes.size), self.rows))

    def held_out(self, Q: sparse.csr_array, D: sparse.csr_array, names: Sequence[str]) -> HeldOutQueries:
        """Each text against all other held-out texts, never against training texts with memorized labels."""
        classes = self.classes[self.rows]
        same = sparse.csr_array(classes[:, None] == classes[None, :], dtype=np.int64)
        held_out = HeldOutQueries(
            Q[self.rows], D[self.rows], same, tuple(names[row] for row in self.rows), self.measure
        )
        return held_out.without(np.arange(self.size))


def usable_judgements(
    qrels: Qrels, name: str, docs: Mapping[str, str], queries: Mapping[str, str]
) -> dict[str, Mapping[str, int]]:
    """Check judgements and keep queries with a relevant document; errors call the judgements ``name``."""
    if not isinstance(qrels, Mapping):
        raise InputError(f"{name} must be a mapping, qid -> {{doc_id: grade}}; got {type(qrels).__name__}")
    for qid, judged in qrels.items():
        if not isinstance(judged, Mapping):
            raise InputError(f"{name} of query {qid!r} must be doc_id -> grade; got {type(judged).__name__}")
        if qid not in queries:
            raise InputError(f"{name} judge query {qid!r}, which is not among the queries")
        for doc_id, grade in judged.items():
            if doc_id not in docs:
                raise InputError(f"{name} judge document {doc_id!r} for query {qid!r}; there is no such document")
            check_grade(qid, doc_id, grade)
    usable = {qid: judged for qid, judged in qrels.items() if max(judged.values(), default=0) > 0}
    if not usable:
        raise InputError(f"{name} have no query with a relevant document (a grade above 0)")
    return usable


def links_as_judgements(links: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """Judge the link targets of a document as relevant, without links of a document to itself."""
    return {source: {target: 1 for target in targets if target != source} for source, targets in links.items()}
