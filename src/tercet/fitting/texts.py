"""Texts as tasks: judged queries, linked documents and labelled texts; `evidence` has what is learned from together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from tercet.data.sampling import JudgementSampler, LabelSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.task import (
    FEWEST_TEXTS,
    HELD_OUT_SHARE,
    Facts,
    Matrices,
    Qrels,
    Task,
    check_disjoint,
    hold_out,
)
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import parse_measure
from tercet.text import Vectoriser
from tercet.text.fielded import docs_for

# -- judged queries and linked documents ------------------------------------------------------------------------------


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
    train, parts, split = hold_out(usable["qrels"], [validation, test], random_state)
    held_out = [usable[name] or part for name, part in zip(("validation", "test"), parts, strict=True)]

    def build(vectoriser: Vectoriser) -> Matrices:
        Q, D = matrices_of(vectoriser, docs, queries, train)
        to_choose, to_report = (
            HeldOutQueries.from_qrels(part, Q, D, query_rows, doc_rows, measure) for part in held_out
        )
        if linked:
            own = [np.array([doc_rows[qid] for qid in part]) for part in held_out]
            to_choose, to_report = replace(to_choose, exclude=own[0]), replace(to_report, exclude=own[1])
        return Q, D, to_choose, to_report

    sampler = JudgementSampler.from_qrels(train, n_docs=len(docs), query_rows=query_rows, doc_rows=doc_rows)
    n_judgements = sum(map(len, train.values()))
    kind = "linked documents" if linked else "judged queries"
    data = {"kind": kind, "n_docs": len(docs), "n_queries": len(queries), "n_judgements": n_judgements}
    return Task(sampler, n_judgements, Facts(data, len(train), split, queries), build)


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
    vectoriser: Vectoriser, docs: Mapping[str, str], queries: Mapping[str, str], train: Iterable[str]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Q and D; words that only training queries have can be learned, and no others."""
    taught = [queries[qid] for qid in train]
    D = vectoriser.fit_transform_docs(docs_for(vectoriser, docs), queries=taught)
    return vectoriser.transform_queries(list(queries.values())), D


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
    order = np.random.default_rng(random_state).permutation(len(texts))
    size = max(2, round(len(texts) * HELD_OUT_SHARE))
    to_choose, rest = order[:size], order[size:]
    if test is None:
        to_report, rest = rest[:size], rest[size:]
        tested: tuple[Sequence[str], Any] = [texts[i] for i in to_report], y[to_report]
        split = "A tenth of the texts was held out for validation and another for testing."
    else:
        tested = test
        split = "A tenth of the texts was held out for validation; test texts were given."
    rest = np.sort(rest)
    parsed = parse_measure(measure)

    def held_out(vectoriser: Vectoriser, some: Sequence[str], classes: Any) -> HeldOutQueries:
        """Each text against all others; never against training texts, whose memorised labels look like a gain."""
        Q = vectoriser.transform_queries(some)
        D = vectoriser.transform_docs(some)
        grades = sparse.csr_array(np.asarray(classes)[:, None] == np.asarray(classes)[None, :], dtype=np.int64)
        return HeldOutQueries(Q, D, grades, tuple(map(str, range(len(some)))), parsed, np.arange(len(some)))

    def build(vectoriser: Vectoriser) -> Matrices:
        taught = [texts[i] for i in rest]
        D = vectoriser.fit_transform_docs(taught)
        Q = vectoriser.transform_queries(taught)
        validation = held_out(vectoriser, [texts[i] for i in to_choose], y[to_choose])
        return Q, D, validation, held_out(vectoriser, *tested)

    data = {"kind": "labelled texts", "n_texts": len(texts), "n_classes": len(set(labels))}
    texts_by_id = dict(zip(map(str, range(len(tested[0]))), tested[0], strict=True))
    facts = Facts(data, len(rest), split, texts_by_id)
    return Task(LabelSampler(y[rest]), len(rest), facts, build, labelled=True)


def _check_labelled(texts: Sequence[str], labels: Sequence[str], what: str) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise InputError(f"{what} must be lists, one text and one label each; got a single string")
    if len(texts) != len(labels):
        raise InputError(f"{what}: there are {len(texts)} texts and {len(labels)} labels; each text has one")
    if not len(texts):
        raise InputError(f"{what}: there are no texts")
