"""Texts as tasks: judged queries, linked documents and labelled texts; `evidence` has what is learned from together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.sampling import JudgementSampler, LabelSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.task import (
    EVERY,
    FEWEST_TEXTS,
    N_FOLDS,
    Facts,
    Fold,
    HeldOutPart,
    Qrels,
    Task,
    TextHeldOut,
    alike_notes,
    check_disjoint,
    check_enough,
    document_notes,
    folds_of,
    parts_by_documents,
    some_queries,
    split_text,
    withheld_documents,
)
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import Measure, parse_measure
from tercet.text import Vectoriser
from tercet.text.counting import CountedTexts
from tercet.text.fielded import FieldedVectoriser, docs_for

# Every way to weight words ranks the queries that choose; of a large collection some of them must do.
_MOST_SCORES: Final = 4_000_000
_FEWEST_CHOOSING: Final = 300
_MOST_LABELLED: Final = 1_000  # texts that are ranked among themselves

Matrices = tuple[sparse.csr_array, sparse.csr_array]

# -- judged queries and linked documents ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JudgementRows:
    """Judgements by row, from which samplers and what measures are made, as often as need be.

    Attributes
    ----------
    qids, rows : the queries, and the row of each in Q
    grades : CSR integers (n_queries, n_docs)
    linked : whether queries are documents themselves, which no query is to find
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

    def subset(self, numbers: NDArray[np.int64]) -> JudgementRows:
        """The same of some queries, by number."""
        qids = tuple(self.qids[number] for number in numbers)
        return replace(self, qids=qids, rows=self.rows[numbers], grades=self.grades[numbers])

    def named(self, qids: Iterable[str]) -> NDArray[np.int64]:
        """The numbers of those queries that are among these, rising."""
        wanted = set(qids)
        return np.array([number for number, qid in enumerate(self.qids) if qid in wanted], dtype=np.int64)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """By row of D, whether the document answers one of the queries."""
        known = np.zeros(self.grades.shape[1], dtype=bool)
        known[self.grades.indices[self.grades.data > 0]] = True
        return known

    def sampler(self) -> JudgementSampler:
        """Draws preferences; the worse document is any of a lower grade."""
        judged = self.grades.tocoo()
        return JudgementSampler(self.rows[judged.row], judged.col, judged.data, n_docs=self.grades.shape[1])

    def evaluator(self, Q: sparse.csr_array, D: sparse.csr_array) -> HeldOutQueries:
        """To measure by."""
        exclude = self.rows if self.linked else None  # the row of a document is that of the query
        return HeldOutQueries(Q[self.rows], D, self.grades, self.qids, self.measure, exclude)

    def left_out(self, out: JudgementRows, rng: np.random.Generator) -> Fold:
        """A fold that learns from these, and is measured by others."""
        answers = out.grades.copy()
        answers.data = (answers.data > 0).astype(np.int64)
        answers.eliminate_zeros()
        withheld = withheld_documents(self.answered, answers, rng)
        kept = self.drop(withheld)
        known = kept.answered

        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            return parts_by_documents(out.evaluator(Q, D), known)

        return Fold(kept.sampler(), parts)

    def drop(self, withheld: NDArray[np.bool_]) -> JudgementRows:
        """The same without judgements of some documents; all of them where nothing else would be left."""
        if not withheld.any():
            return self
        judged = self.grades.tocoo()
        kept = ~withheld[judged.col]
        if not (judged.data[kept] > 0).any():
            return self
        grades = sparse.csr_array((judged.data[kept], (judged.row[kept], judged.col[kept])), shape=judged.shape)
        return replace(self, grades=grades)


def judged_task(
    docs: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Qrels,
    validation: Qrels | None,
    test: Qrels | None,
    measure: str,
    random_state: int,
    linked: bool = False,
) -> Task:
    """``linked``: queries are the documents, and no query is to find itself."""
    check_texts(docs, queries)
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    query_rows = {qid: row for row, qid in enumerate(queries)}
    given = {"qrels": qrels, "validation": validation, "test": test}
    usable = {name: usable_judgements(part, name, docs, queries) for name, part in given.items()}
    check_disjoint(usable)
    judged, to_choose, to_report = (
        JudgementRows.from_qrels(part, query_rows, doc_rows, measure, linked) if part else None
        for part in usable.values()
    )
    assert judged is not None
    rng = np.random.default_rng(random_state)
    left_out: list[list[str]] = []
    notes: tuple[str, ...] = ()
    if to_choose is not None:
        folds = [judged.left_out(to_choose, rng)]
    else:
        check_enough(len(judged.qids), "judged queries", "validation judgements")
        folds = []
        texts = None if linked else queries  # of documents that are queries, the same text is a document of its own
        left_out = folds_of(judged.qids, random_state, texts=texts)
        notes = () if texts is None else alike_notes(judged.qids, texts)
        for qids in left_out:
            out = judged.named(qids)
            rest = np.setdiff1d(np.arange(len(judged.qids)), out)
            folds.append(judged.subset(rest).left_out(judged.subset(out), rng))
    every = {**usable["qrels"], **usable["validation"]}  # nothing is learned where the start is chosen
    choosing = judged if to_choose is None else JudgementRows.from_qrels(every, query_rows, doc_rows, measure, linked)

    counted = CountedTexts(docs.values())  # each tokenizer goes on from there

    def build(vectorisers: Sequence[Vectoriser]) -> list[Matrices]:
        if linked:
            return weighted_alike(vectorisers, counted, counted)
        return matrices_of(vectorisers, docs, queries, usable["qrels"], counted)

    def choose_by(Q: sparse.csr_array, D: sparse.csr_array) -> TextHeldOut:
        return some_queries(choosing.evaluator(Q, D), _MOST_SCORES, _FEWEST_CHOOSING)

    def report_on(vectoriser: Vectoriser, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
        assert to_report is not None
        return parts_by_documents(to_report.evaluator(Q, D), judged.answered)

    n_judgements = judged.grades.nnz
    kind = "linked documents" if linked else "judged queries"
    data = {"kind": kind, "n_docs": len(docs), "n_queries": len(queries), "n_judgements": n_judgements}
    split = split_text(len(left_out), sum(map(len, left_out[:N_FOLDS])), tested=to_report is not None)
    facts = Facts(data, len(judged.qids), split, queries, (*notes, *document_notes(docs)))
    tested = None if to_report is None else report_on
    return Task(judged.sampler(), n_judgements, facts, build, tuple(folds), choose_by, tested, qids=tuple(queries))


def usable_judgements(
    qrels: Qrels | None, name: str, docs: Mapping[str, str], queries: Mapping[str, str]
) -> dict[str, Mapping[str, int]]:
    """Judgements, checked, of queries that have a relevant document; ``name`` is what errors call them."""
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
    usable = answerable(qrels)
    if not usable:
        raise InputError(f"{name} have no query with a relevant document (a grade above 0)")
    return usable


def answerable(qrels: Qrels) -> dict[str, Mapping[str, int]]:
    """Queries with a relevant document; without one a query can neither teach nor be measured."""
    return {qid: judged for qid, judged in qrels.items() if max(judged.values(), default=0) > 0}


def links_as_judgements(links: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """What a document links to is relevant for it; a link to itself says nothing."""
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
    """Q and D of each vectoriser, which tokenise alike; words that only training queries have can be learned, and no
    others.

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
    """The same of texts in rows; a vectoriser that knows its words keeps to them."""
    first, *others = vectorisers
    counts = first.counts(docs) if hasattr(first, "words_") else first.fit_counts(docs, taught)
    asked = counts if queries is docs else first.counts(queries)
    for words in others:
        words.adopt(first, counts)
    return [(words.query_rows(asked), words.doc_rows(counts)) for words in vectorisers]


# -- labelled texts ---------------------------------------------------------------------------------------------------


def labelled_task(
    texts: Sequence[str],
    labels: Sequence[str],
    test: tuple[Sequence[str], Sequence[str]] | None,
    measure: str,
    random_state: int,
) -> Task:
    """Each text is a query for the others of its class."""
    _check_labelled(texts, labels, "training texts and labels")
    if test is not None:
        _check_labelled(*test, "test texts and labels")
    if len(texts) < FEWEST_TEXTS:
        raise InputError(f"{len(texts)} labelled texts are too few; at least {FEWEST_TEXTS} are needed")
    y = np.asarray(labels)
    parsed = parse_measure(measure)
    sampler = LabelSampler(y)
    counted = CountedTexts(texts)

    def among_themselves(
        Q: sparse.csr_array, D: sparse.csr_array, classes: Any, names: Iterable[Any]
    ) -> HeldOutQueries:
        """Each text against all others; never against training texts, whose memorised labels look like a gain."""
        same = sparse.csr_array(np.asarray(classes)[:, None] == np.asarray(classes)[None, :], dtype=np.int64)
        return HeldOutQueries(Q, D, same, tuple(map(str, names)), parsed, np.arange(Q.shape[0]))

    def some(rows: NDArray[np.int64], Q: sparse.csr_array, D: sparse.csr_array) -> HeldOutQueries:
        return among_themselves(Q[rows], D[rows], y[rows], rows)

    def fold(rows: NDArray[np.int64]) -> Fold:
        def parts(Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
            return [HeldOutPart(EVERY, some(rows, Q, D), rows.size)]

        return Fold(sampler.drop(rows), parts)

    def report_on(vectoriser: Vectoriser, Q: sparse.csr_array, D: sparse.csr_array) -> list[HeldOutPart]:
        assert test is not None
        rows = vectoriser.transform_queries(test[0]), vectoriser.transform_docs(test[0])
        tested = among_themselves(*rows, test[1], (f"test {number}" for number in range(len(test[0]))))
        return [HeldOutPart(EVERY, tested, len(test[0]))]

    left_out = folds_of([f"{number:09d}" for number in range(len(texts))], random_state, enough=_MOST_LABELLED)
    folds = tuple(fold(np.array(list(map(int, out)), dtype=np.int64)) for out in left_out)
    choosing = np.sort(np.random.default_rng(random_state).permutation(len(texts))[:_MOST_LABELLED])
    data = {"kind": "labelled texts", "n_texts": len(texts), "n_classes": len(set(labels))}
    named = {str(number): text for number, text in enumerate(texts)}
    named |= {f"test {number}": text for number, text in enumerate([] if test is None else test[0])}
    split = split_text(len(folds), sum(map(len, left_out[:N_FOLDS])), tested=test is not None, what="text")
    return Task(
        sampler,
        len(texts),
        Facts(data, len(texts), split, named),
        lambda vectorisers: weighted_alike(vectorisers, counted, counted),
        folds,
        lambda Q, D: some(choosing, Q, D),
        None if test is None else report_on,
        labelled=True,
    )


def _check_labelled(texts: Sequence[str], labels: Sequence[str], what: str) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise InputError(f"{what} must be lists, one text and one label each; got a single string")
    if not all(hasattr(each, "__len__") for each in (texts, labels)):
        kinds = " and ".join(type(each).__name__ for each in (texts, labels))
        raise InputError(f"{what} must be lists, one text and one label each; got {kinds}")
    if len(texts) != len(labels):
        raise InputError(f"{what}: there are {len(texts)} texts and {len(labels)} labels; each text has one")
    if not len(texts):
        raise InputError(f"{what}: there are no texts")
