"""Texts as tasks: judged queries, linked documents, preference triples and labelled texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from tercet.data.preferences import Preferences, PreferenceSampler
from tercet.data.sampling import JudgementSampler, LabelSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.rankers import FOR_JUDGEMENTS, FOR_LABELS
from tercet.fitting.task import (
    FEWEST_TEXTS,
    HELD_OUT_SHARE,
    Facts,
    Matrices,
    Qrels,
    Task,
    Threes,
    check_disjoint,
    hold_out,
)
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
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
    _check_texts(docs, queries)
    if not isinstance(qrels, Mapping):
        raise InputError(f"qrels must be a mapping, qid -> {{doc_id: grade}}; got {type(qrels).__name__}")
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    query_rows = {qid: row for row, qid in enumerate(queries)}
    usable = {}
    for name, judgements in (("qrels", qrels), ("validation", validation), ("test", test)):
        for qid, judged in (judgements or {}).items():
            if not isinstance(judged, Mapping):
                raise InputError(f"{name} of query {qid!r} must be doc_id -> grade; got {type(judged).__name__}")
            if qid not in query_rows:
                raise InputError(f"{name} judge query {qid!r}, which is not among the queries")
            for doc_id, grade in judged.items():
                if doc_id not in doc_rows:
                    raise InputError(f"{name} judge document {doc_id!r} for query {qid!r}; there is no such document")
                check_grade(qid, doc_id, grade)
        usable[name] = answerable(judgements or {})
        if judgements is not None and not usable[name]:
            raise InputError(f"{name} have no query with a relevant document (a grade above 0)")
    check_disjoint(usable)
    train, parts, split = hold_out(usable["qrels"], [validation, test], random_state)
    held_out = [usable[name] or part for name, part in zip(("validation", "test"), parts, strict=True)]

    def build(vectoriser: Vectoriser) -> Matrices:
        Q, D = _matrices(vectoriser, docs, queries, train)
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
    return Task(sampler, FOR_JUDGEMENTS, n_judgements, Facts(data, len(train), split, queries), build)


def answerable(qrels: Qrels) -> dict[str, Mapping[str, int]]:
    """Queries with a relevant document; without one a query can neither teach nor be measured."""
    return {qid: judged for qid, judged in qrels.items() if max(judged.values(), default=0) > 0}


def links_as_judgements(links: Mapping[str, Iterable[str]], name: str) -> dict[str, dict[str, int]]:
    """What a document links to is relevant for it."""
    if not isinstance(links, Mapping):
        raise InputError(f"{name} must be a mapping, id -> ids it links to; got {type(links).__name__}")
    judged = {}
    for source, targets in links.items():
        if isinstance(targets, (str, bytes)) or not isinstance(targets, Iterable):
            raise InputError(f"{name} of {source!r} must be a list of ids; got {targets!r}")
        judged[source] = {target: 1 for target in targets if target != source}
    return judged


def _check_texts(docs: Mapping[str, str], queries: Mapping[str, str]) -> None:
    for name, texts in (("docs", docs), ("queries", queries)):
        if not isinstance(texts, Mapping):
            raise InputError(f"{name} must be a mapping, id -> text; got {type(texts).__name__}")
    if not docs or not queries:
        raise InputError(f"there are {len(docs)} documents and {len(queries)} queries; both are needed")


def _matrices(
    vectoriser: Vectoriser, docs: Mapping[str, str], queries: Mapping[str, str], train: Iterable[str]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Q and D; words that only training queries have can be learned, and no others."""
    taught = [queries[qid] for qid in train]
    D = vectoriser.fit_transform_docs(docs_for(vectoriser, docs), queries=taught)
    return vectoriser.transform_queries(list(queries.values())), D


# -- preference triples -----------------------------------------------------------------------------------------------


def preference_task(
    docs: Mapping[str, str],
    queries: Mapping[str, str] | None,
    preferences: Threes,
    validation: Threes | None,
    test: Threes | None,
    random_state: int,
) -> Task:
    """Threes of a query, a better and a worse document; the query is an id, or its text where there are no queries."""
    given = {"preferences": preferences, "validation": validation, "test": test}
    threes = {name: [] if part is None else _checked_threes(part, name) for name, part in given.items()}
    if queries is None:
        queries = {query: query for part in threes.values() for query, _, _ in part}
    _check_texts(docs, queries)
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    query_rows = {qid: row for row, qid in enumerate(queries)}
    by_query: dict[str, dict[str, list[tuple[int, int, int]]]] = {name: {} for name in threes}
    for name, part in threes.items():
        for number, (qid, better, worse) in enumerate(part):
            if qid not in query_rows:
                raise InputError(f"{name}[{number}] is of query {qid!r}, which is not among the queries")
            for doc_id in (better, worse):
                if doc_id not in doc_rows:
                    raise InputError(f"{name}[{number}] names document {doc_id!r}; there is no such document")
            rows = query_rows[qid], doc_rows[better], doc_rows[worse]
            by_query[name].setdefault(qid, []).append(rows)
    check_disjoint(by_query)
    train, parts, split = hold_out(
        by_query["preferences"],
        [validation, test],
        random_state,
        what="queries with preferences",
        otherwise="validation and test preferences",
    )
    held_out = [by_query[name] or part for name, part in zip(("validation", "test"), parts, strict=True)]

    def build(vectoriser: Vectoriser) -> Matrices:
        Q, D = _matrices(vectoriser, docs, queries, train)
        to_choose, to_report = (HeldOutPreferences(Q, D, *_in_row_order(part)) for part in held_out)
        return Q, D, to_choose, to_report

    learned_from, _ = _in_row_order(train)
    data = {"kind": "preferences", "n_docs": len(docs), "n_queries": len(queries), "n_preferences": len(learned_from)}
    facts = Facts(data, len(train), split, queries)
    return Task(PreferenceSampler(learned_from), FOR_JUDGEMENTS, len(learned_from), facts, build)


def _checked_threes(part: Threes, name: str) -> list[tuple[str, str, str]]:
    if isinstance(part, str | bytes | Mapping) or not isinstance(part, Iterable):
        raise InputError(f"{name} must be threes (query, better document, worse document); got {type(part).__name__}")
    threes = list(part)
    if not threes:
        raise InputError(f"{name} have no preference")
    for number, three in enumerate(threes):
        if isinstance(three, str) or not isinstance(three, Sequence) or len(three) != 3:
            raise InputError(f"{name}[{number}] must be a query, a better and a worse document; got {three!r}")
        if not all(isinstance(side, str) for side in three):
            raise InputError(f"{name}[{number}] must be three strings; got {three!r}")
        if three[1] == three[2]:
            raise InputError(f"{name}[{number}] says that document {three[1]!r} is better than itself")
    return threes


def _in_row_order(by_query: Mapping[str, list[tuple[int, int, int]]]) -> tuple[Preferences, tuple[str, ...]]:
    """Preferences by row, queries rising, and the name of each."""
    qids = sorted(by_query, key=lambda qid: by_query[qid][0][0])
    rows = np.array([three for qid in qids for three in by_query[qid]], dtype=np.int64)
    return Preferences(*rows.T), tuple(qids)


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
    return Task(LabelSampler(y[rest]), FOR_LABELS, len(rest), Facts(data, len(rest), split, texts_by_id), build)


def _check_labelled(texts: Sequence[str], labels: Sequence[str], what: str) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise InputError(f"{what} must be lists, one text and one label each; got a single string")
    if len(texts) != len(labels):
        raise InputError(f"{what}: there are {len(texts)} texts and {len(labels)} labels; each text has one")
    if not len(texts):
        raise InputError(f"{what}: there are no texts")
