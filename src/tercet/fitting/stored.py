"""Vectors on disk as a task: documents that never are in memory as a whole."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet._validate import check_seed
from tercet.choose import Gain
from tercet.data.mapped_rows import take
from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.rankers import n_steps_for, term_pair_ranker
from tercet.fitting.task import FEWEST_QUERIES, Decision, Qrels, T, check_disjoint, decide
from tercet.fitting.text_model import TextModel
from tercet.fitting.texts import answerable
from tercet.learn import SampledSource, TermPairRanker
from tercet.learn.loop import Callback
from tercet.learn.stored import rank_texts
from tercet.measure import Evaluation, evaluate
from tercet.measure.held_out import HeldOut, HeldOutPreferences
from tercet.measure.names import PAIR_ACCURACY, Measure, parse_measure
from tercet.report import Report, SystemResult, changes_between
from tercet.report.value import Change
from tercet.text.vectors import Vectors
from tercet.weights import Identity, Weights

HELD_OUT_SHARE: Final = 0.1
DEPTH: Final = 1000  # documents of a held-out query that are ranked
MOST_HELD_OUT: Final = 1000  # queries for each of validation and test: every one of them is ranked over all documents
_IDS_AT_ONCE: Final = 1 << 16
_QUERIES_AT_ONCE: Final = 256


def fit_vectors(
    vectors: Vectors,
    learn_from: Qrels | Preferences,
    ranker: TermPairRanker | str | None = None,
    *,
    n_steps: int | None = None,
    validation: Qrels | Preferences | None = None,
    test: Qrels | Preferences | None = None,
    measure: str | None = None,
    callbacks: Sequence[Callback] = (),
    random_state: int = 0,
    verbose: bool | None = None,
) -> TextModel:
    """Learn a text model from vectors on disk. Documents are fetched as preferences need them.

    As in ``tc.fit`` queries are held out, what is learned is compared with plain matching on those for validation, and
    rejected unless it is better by more than one standard error; the ``report`` is on the others.

    Parameters
    ----------
    vectors : with queries
    learn_from : qid -> doc_id -> grade, from which preferences are drawn as they are needed; or preferences between
        rows of ``vectors.queries`` and ``vectors.docs``
    ranker : a name as in ``tc.fit``, of whose settings the first is learned, or a term-pair ranker, which is fitted;
        default "low-rank", learned as ``tc.fit`` does from judgements
    n_steps : preferences drawn from judgements; default 20 for each judgement, but 20,000 to 500,000
    validation, test : judgements, or preferences by rows, of other queries, to choose and to report on
        Each that is left out is replaced by a tenth of the training queries, but at most 1,000, drawn by
        ``random_state``. Judged queries are ranked over all documents, a block at a time
    measure : what validation is by: "nDCG@10" for judgements, "PairAccuracy" for preferences
    callbacks : see ``DenseRanker.fit``; a ``Checkpoint`` makes the fit resumable

    Notes
    -----
    Memory: the model, a chunk of some thousand preferences with their texts, and what ``MappedRows`` keeps. The start
    of "low-rank" looks for directions of the documents, with four passes over them, and takes some times the model.

    Examples
    --------
    >>> import tempfile
    >>> from tercet.text import vectorise
    >>> docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    >>> queries = {f"{word}{i}": word for i in range(5) for word in ("feline", "canine")}
    >>> qrels = {qid: {"b" if word == "canine" else "a": 1} for qid, word in queries.items()}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vectors = vectorise(docs, queries, f"{folder}/vectors")
    ...     model = fit_vectors(vectors, qrels, n_steps=5000, random_state=3)
    >>> next(iter(model.rank({"q": "canine"}, docs, k=1)["q"]))
    'b'
    """
    began = time.perf_counter()
    seed = check_seed(random_state)
    if vectors.queries is None:
        raise InputError(f"{vectors.path} has no queries; vectorise them together with the documents")
    shared = vectors.query_vectoriser is vectors.doc_vectoriser
    learner = ranker
    if not isinstance(learner, TermPairRanker):
        learner = term_pair_ranker(ranker or "low-rank", vectors.docs.shape, seed, shared=shared)
    if verbose is not None and "verbose" in learner.get_params():
        learner.set_params(verbose=verbose)
    if n_steps is not None and not isinstance(learn_from, Mapping):
        raise InputError("n_steps is for preferences drawn from judgements; those given have a number of their own")
    task = _stored_task(vectors, learn_from, validation, test, measure, n_steps, seed)
    start = Weights([Identity(n_terms=vectors.docs.shape[1])]) if shared else None
    name = {"tfidf": "tf-idf", "bm25": "BM25"}[vectors.vectoriser.weighting]
    learner.fit(vectors.queries, task.source, vectors.docs, callbacks=callbacks)
    decision = _decide(task, start, learner.weights_, name)
    weights = learner.weights_ if decision.accepted or start is None else start
    chosen = {"vectors": name, "ranker": type(learner).__name__, "steps": int(getattr(learner, "n_steps_", 0))}
    report = _report(task, start, learner.weights_, decision, name, chosen, time.perf_counter() - began)
    return TextModel(vectors.query_vectoriser, vectors.doc_vectoriser, weights, report)


# -- the task ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StoredTask:
    """What is learned from, what chooses and what reports."""

    source: Preferences | SampledSource
    validation: HeldOut
    test: HeldOut
    n_train: int
    split: str


@dataclass(frozen=True, eq=False)
class StoredQueries(HeldOut):
    """Judged queries of stored vectors, each ranked over all documents; the best 1,000 count."""

    vectors: Vectors
    qrels: Qrels
    qids: tuple[str, ...]
    measure: Measure

    def evaluate(self, weights: Weights, measures: Any = None) -> Evaluation:
        return evaluate_vectors(self.vectors, weights, self.qrels, measures or [self.measure])


def _stored_task(
    vectors: Vectors,
    learn_from: Qrels | Preferences,
    validation: Qrels | Preferences | None,
    test: Qrels | Preferences | None,
    measure: str | None,
    n_steps: int | None,
    seed: int,
) -> StoredTask:
    assert vectors.queries is not None
    parts = {"validation": validation, "test": test}
    judged = {name: part for name, part in parts.items() if isinstance(part, Mapping)}
    for name, part in judged.items():
        rows_of_judgements(vectors, part, name)  # now, and not after hours of learning
    for preferences in (learn_from, validation, test):
        if isinstance(preferences, Preferences):
            preferences.check_rows(len(vectors.queries), len(vectors.docs))
    source: Preferences | SampledSource
    held: list[Any]
    if isinstance(learn_from, Mapping):
        rows_of_judgements(vectors, learn_from, "qrels")
        usable = answerable(learn_from)
        check_disjoint({"qrels": usable, **judged})
        train, held, split = hold_out(usable, [validation, test], seed, most=MOST_HELD_OUT)
        sampler = judgement_sampler(vectors, train)
        steps = n_steps_for(sum(map(len, train.values()))) if n_steps is None else n_steps
        source, n_train = SampledSource(sampler, steps, random_state=seed), sampler.queries.size
    elif isinstance(learn_from, Preferences):
        by_query = _by_query(learn_from)
        check_disjoint({"preferences": by_query, **_query_rows(vectors, parts)})
        train, held, split = hold_out(
            by_query,
            [validation, test],
            seed,
            what="queries with preferences",
            otherwise="validation and test judgements or preferences",
            most=MOST_HELD_OUT,
        )
        numbers = np.sort(np.concatenate(list(train.values())))
        source, n_train = learn_from[numbers], len(train)
        held = [learn_from[np.concatenate(list(part.values()))] if part else None for part in held]
    else:
        raise InputError(f"learn_from must be judgements or Preferences; got {type(learn_from).__name__}")
    to_choose, to_report = (
        _held_out(vectors, held_part if part is None else part, measure)
        for part, held_part in zip((validation, test), held, strict=True)
    )
    return StoredTask(source, to_choose, to_report, n_train, split)


def hold_out(
    evidence: Mapping[str, T],
    given: Sequence[object],
    random_state: int,
    *,
    what: str = "judged queries",
    otherwise: str = "validation and test judgements",
    most: int | None = None,
) -> tuple[dict[str, T], list[dict[str, T]], str]:
    """Set aside a tenth of the queries for each of validation and test that was not given.

    Parameters
    ----------
    evidence : what there is to learn from, by query
    given : validation and test; None stands for what was not given
    what, otherwise : the queries, and what could be given instead, in the words of an error
    most : hold out no more than so many for each

    Returns
    -------
    what is left to learn from, what is held out for each of the two (empty where it was given), and a sentence on it
    """
    names = [name for name, part in zip(("validation", "testing"), given, strict=True) if part is None]
    parts: list[dict[str, T]] = [{}, {}]
    if not names:
        return dict(evidence), parts, "Validation and test queries were given."
    if len(evidence) < FEWEST_QUERIES:
        raise InputError(
            f"{len(evidence)} {what} are too few to hold any out for {' and '.join(names)}; give at least "
            f"{FEWEST_QUERIES}, or {otherwise}"
        )
    size = max(2, round(len(evidence) * HELD_OUT_SHARE))
    share = "A tenth of the queries was"
    if most is not None and size > most:
        size, share = most, f"{most:,} queries were"
    qids = sorted(evidence)
    order = [qids[i] for i in np.random.default_rng(random_state).permutation(len(qids))]
    for number, part in enumerate(given):
        if part is None:
            parts[number] = {qid: evidence[qid] for qid in order[:size]}
            order = order[size:]
    kept = set(order)
    other = "another" if size != most else f"{most:,} others"
    split = f"{share} held out for {f' and {other} for '.join(names)}."
    return {qid: one for qid, one in evidence.items() if qid in kept}, parts, split


def _query_rows(vectors: Vectors, parts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of the queries of validation and test where they were given, all judged ones together."""
    rows: dict[str, dict[str, Any]] = {"judgements": {}}
    for name, part in parts.items():
        if isinstance(part, Preferences):
            rows[name] = dict.fromkeys(map(str, np.unique(part.query).tolist()))
        elif part is not None:
            rows["judgements"] |= dict.fromkeys(map(str, vectors.query_ids.get_many(list(part)).tolist()))
    return rows


def _held_out(vectors: Vectors, evidence: Qrels | Preferences, measure: str | None) -> HeldOut:
    """Judgements or preferences of other queries, as something that weights are judged by."""
    assert vectors.queries is not None
    if isinstance(evidence, Preferences):
        if measure is not None and str(parse_measure(measure)) != PAIR_ACCURACY:
            raise InputError(f"preferences are measured by {PAIR_ACCURACY}; got {measure!r}")
        in_order = evidence[np.argsort(evidence.query, kind="stable")]
        rows = np.unique(in_order.query)
        return HeldOutPreferences(vectors.queries, vectors.docs, in_order, tuple(vectors.query_ids.many(rows)))
    qrels = answerable(evidence)
    return StoredQueries(vectors, qrels, tuple(qrels), parse_measure(measure or "nDCG@10"))


def _by_query(preferences: Preferences) -> dict[str, NDArray[np.int64]]:
    """The numbers of each query's preferences, by its row."""
    order = np.argsort(preferences.query, kind="stable")
    rows, starts = np.unique(preferences.query[order], return_index=True)
    return {f"{row}": part for row, part in zip(rows.tolist(), np.split(order, starts[1:]), strict=True)}


def judgement_sampler(vectors: Vectors, qrels: Qrels) -> JudgementSampler:
    """What draws preferences from judgements by id; documents without one count as of grade 0."""
    query, doc, grade = rows_of_judgements(vectors, qrels, "qrels")
    return JudgementSampler(query, doc, grade, n_docs=len(vectors.docs))


def rows_of_judgements(vectors: Vectors, qrels: Qrels, name: str) -> tuple[Any, Any, Any]:
    """Rows of queries and documents, and grades; what is not there is an error that names it."""
    qids = list(qrels)
    rows = vectors.query_ids.get_many(qids)
    if (rows < 0).any():
        raise InputError(f"{name} judge query {qids[int((rows < 0).argmax())]!r}, which is not among the queries")
    judged = [
        (row, qid, d, check_grade(qid, d, g))
        for row, qid in zip(rows, qids, strict=True)
        for d, g in qrels[qid].items()
    ]
    docs = np.empty(len(judged), dtype=np.int64)
    for start in range(0, len(judged), _IDS_AT_ONCE):
        some = judged[start : start + _IDS_AT_ONCE]
        docs[start : start + _IDS_AT_ONCE] = vectors.doc_ids.get_many([doc_id for _, _, doc_id, _ in some])
    if (docs < 0).any():
        _, qid, doc_id, _ = judged[int((docs < 0).argmax())]
        raise InputError(f"{name} judge document {doc_id!r} for query {qid!r}; there is no such document")
    grades = np.array([grade for *_, grade in judged], dtype=np.int64)
    if not (grades > 0).any():
        raise InputError(f"{name} have no query with a relevant document (a grade above 0)")
    return np.array([row for row, *_ in judged], dtype=np.int64), docs, grades


# -- choosing and reporting -------------------------------------------------------------------------------------------


def _decide(task: StoredTask, start: Weights | None, learned: Weights, name: str) -> Decision:
    if start is None:
        text = "queries and documents have vocabularies of their own, so there is nothing to compare it with"
        return Decision(True, f"The model is what was learned: {text}.")
    before, after = task.validation.values(start), task.validation.values(learned)
    measure = task.validation.measure
    gain = Gain.between(before, after, higher_is_better=measure.higher_is_better)
    return decide(gain, before, after, start=name, measure=str(measure), queries="validation queries")


def _report(
    task: StoredTask,
    start: Weights | None,
    learned: Weights,
    decision: Decision,
    name: str,
    chosen: dict[str, Any],
    seconds: float,
) -> Report:
    """Plain matching and what was learned on the test queries."""
    measure = str(task.test.measure)
    measures = [measure] if measure == PAIR_ACCURACY else list(dict.fromkeys([measure, "nDCG@10", "AP"]))
    systems: dict[str, Evaluation] = {}
    rejected: SystemResult | None = None
    changes: dict[str, Change] = {}
    evaluation = task.test.evaluate(learned, measures)
    if start is not None:
        systems[name] = task.test.evaluate(start, measures)
        changes = changes_between(evaluation, systems[name], measure)
    if start is None or decision.accepted:
        systems["learned"] = evaluation
    else:
        rejected = SystemResult.from_evaluation("learned", evaluation)
    return Report(
        measure=measure,
        n_train=task.n_train,
        n_validation=len(task.validation.qids),
        n_test=len(task.test.qids),
        split=task.split,
        systems=tuple(SystemResult.from_evaluation(system, evaluation) for system, evaluation in systems.items()),
        accepted=decision.accepted,
        decision=decision.text,
        changes=changes,
        chosen=chosen,
        seconds=seconds,
        notes=() if measure == PAIR_ACCURACY else (f"the best {DEPTH:,} documents of each query count.",),
        rejected=rejected,
    )


def evaluate_vectors(vectors: Vectors, weights: Weights, qrels: Qrels, measures: Sequence[Any]) -> Evaluation:
    """Measures of judged queries, ranked over all documents, a block of them at a time; the best 1,000 count."""
    assert vectors.queries is not None
    qids = list(qrels)
    docs, scores = rank_texts(weights, take(vectors.queries, vectors.query_ids.get_many(qids)), vectors.docs, DEPTH)
    blocks = []
    for start in range(0, len(qids), _QUERIES_AT_ONCE):  # ids take ten times the memory of row numbers
        run = {
            qid: dict(zip(vectors.doc_ids.many(docs[row]), scores[row].tolist(), strict=True))
            for row, qid in enumerate(qids[start : start + _QUERIES_AT_ONCE], start)
        }
        blocks.append(evaluate({qid: qrels[qid] for qid in run}, run, measures))
    return Evaluation(blocks[0].measures, tuple(qids), np.concatenate([block.values for block in blocks]))
