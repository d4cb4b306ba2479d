"""Judgements by row, their checks, and the matrices of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.sampling import JudgementSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.task import Qrels
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import Measure, parse_measure
from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts
from tercet.text.fielded import FieldedVectoriser, docs_for

# The queries that choose are ranked once for every way to weight words.
MOST_SCORES: Final = 4_000_000
FEWEST_CHOOSING: Final = 300
MOST_CHOOSING: Final = 500

Matrices = tuple[sparse.csr_array, sparse.csr_array]


@dataclass(frozen=True, eq=False)
class JudgementRows:
    """Judgements by row, the source of samplers and evaluators.

    Attributes
    ----------
    qids, rows : queries, and the row of each in Q
    grades : CSR integers (n_queries, n_docs)
    measure : measure of the evaluators
    linked : whether queries are documents, which are left out of their own rankings
    """

    qids: tuple[str, ...]
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
        measure: str,
        linked: bool = False,
    ) -> JudgementRows:
        indptr = np.cumsum([0, *map(len, qrels.values())])
        columns = [doc_rows[doc_id] for judged in qrels.values() for doc_id in judged]
        grades = [grade for judged in qrels.values() for grade in judged.values()]
        matrix = sparse.csr_array(
            (np.array(grades, dtype=np.int64), np.array(columns, dtype=np.int64), indptr),
            shape=(len(qrels), len(doc_rows)),
        )
        rows = np.array([query_rows[qid] for qid in qrels], dtype=np.int64)
        return cls(tuple(qrels), rows, matrix, parse_measure(measure), linked)

    def subset(self, qids: Iterable[str]) -> JudgementRows:
        """Judgements of those of the queries that are among these."""
        wanted = set(qids)
        numbers = np.array([number for number, qid in enumerate(self.qids) if qid in wanted], dtype=np.int64)
        names = tuple(self.qids[number] for number in numbers)
        return replace(self, qids=names, rows=self.rows[numbers], grades=self.grades[numbers])

    def answers(self) -> sparse.csr_array:
        """Non-zero where a document answers, (n_queries, n_docs)."""
        answers = sparse.csr_array(self.grades > 0, dtype=np.int8)
        answers.eliminate_zeros()
        return answers

    def sampler(self) -> JudgementSampler:
        """Draws preferences; the worse document is any document of a lower grade."""
        judged = self.grades.tocoo()
        return JudgementSampler(self.rows[judged.row], judged.col, judged.data, n_docs=self.grades.shape[1])

    def evaluator(self, Q: sparse.csr_array, D: sparse.csr_array) -> HeldOutQueries:
        """Held-out queries for Q and D."""
        exclude = self.rows if self.linked else None  # the row of a document is that of the query
        return HeldOutQueries(Q[self.rows], D, self.grades, self.qids, self.measure, exclude)

    def drop(self, withheld: NDArray[np.bool_]) -> JudgementRows:
        """Judgements without those of some documents, and without queries that lose all their answers."""
        judged = self.grades.tocoo()
        kept = ~withheld[judged.col]
        grades = sparse.csr_array((judged.data[kept], (judged.row[kept], judged.col[kept])), shape=judged.shape)
        rest = replace(self, grades=grades)
        answered = np.diff(rest.answers().indptr) > 0
        return rest.subset(qid for qid, has in zip(self.qids, answered, strict=True) if has)


def usable_judgements(
    qrels: Qrels | None, name: str, docs: Mapping[str, str], queries: Mapping[str, str]
) -> dict[str, Mapping[str, int]]:
    """Check judgements and keep the queries that have a relevant document; errors call the judgements ``name``."""
    if qrels is None:
        return {}
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
    """Judge the documents that a document links to as relevant; a link to itself says nothing."""
    return {source: {target: 1 for target in targets if target != source} for source, targets in links.items()}


def check_texts(docs: Mapping[str, str], queries: Mapping[str, str]) -> None:
    for name, texts in (("docs", docs), ("queries", queries)):
        if not isinstance(texts, Mapping):
            raise InputError(f"{name} must be a mapping, id -> text; got {type(texts).__name__}")
    if not docs or not queries:
        raise InputError(f"there are {len(docs)} documents and {len(queries)} queries; both are needed")


def matrices_of(
    vectorisers: Sequence[Vectoriser],
    docs: Mapping[str, str],
    queries: Mapping[str, str],
    train: Iterable[str],
    counted: CountedTexts,
) -> list[Matrices]:
    """Q and D of vectorisers that tokenise alike, with columns for words that only training queries have.

    ``counted`` are the texts of the documents.
    """
    taught = [queries[qid] for qid in train]
    asked = list(queries.values())
    if any(isinstance(words, FieldedVectoriser) for words in vectorisers):
        rows = [words.fit_transform_docs(docs_for(words, docs), queries=taught) for words in vectorisers]
        return [(words.transform_queries(asked), D) for words, D in zip(vectorisers, rows, strict=True)]
    return weighted_alike(vectorisers, counted, asked, taught)


def weighted_alike(
    vectorisers: Sequence[Vectoriser], docs: Sequence[str], queries: Sequence[str], taught: Sequence[str] = ()
) -> list[Matrices]:
    """Q and D of texts in rows; a fitted vectoriser keeps its words."""
    first, *others = vectorisers
    counts = first.counts(docs) if hasattr(first, "words_") else first.fit_counts(docs, taught)
    asked = counts if queries is docs else first.counts(queries)
    for words in others:
        words.adopt(first, counts)
    return [(words.query_rows(asked), words.doc_rows(counts)) for words in vectorisers]
