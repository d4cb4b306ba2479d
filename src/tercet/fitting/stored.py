"""Learning a text model from vectors on disk: documents and preferences that never are in memory as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tercet._validate import check_seed
from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, check_grade
from tercet.errors import InputError
from tercet.fitting.model import TextModel
from tercet.fitting.recipe import FOR_JUDGEMENTS, MAX_STEPS, MIN_STEPS, STEPS_PER_JUDGEMENT, WEIGHTINGS
from tercet.learn import DiagonalRanker, LowRankRanker, SampledSource, Source, SparseRanker, TermPairRanker
from tercet.learn.loop import Callback
from tercet.learn.stored import rank_texts, take
from tercet.measure import Evaluation, evaluate
from tercet.measure.names import parse_measure
from tercet.report import Report, SystemResult
from tercet.report.value import change_between
from tercet.text.vectors import Vectors
from tercet.weights import Identity, Weights

Qrels = Mapping[str, Mapping[str, int]]

DEPTH: Final = 1000  # documents of a test query that are ranked
_IDS_AT_ONCE: Final = 1 << 16
_QUERIES_AT_ONCE: Final = 256


def _low_rank(vectors: Vectors, seed: int) -> LowRankRanker:
    """As ``tc.fit`` learns from judgements."""
    [candidate] = FOR_JUDGEMENTS
    if min(vectors.docs.shape) <= candidate["n_components"]:
        candidate = {**candidate, "start": "random"}
    if vectors.query_vectoriser is not vectors.doc_vectoriser:
        candidate = {"n_components": candidate["n_components"], "diagonal": None}
    return LowRankRanker(schedule="linear", rate=0.1, random_state=seed, **candidate)


RANKERS: dict[str, Callable[[Vectors, int], TermPairRanker]] = {
    "low-rank": _low_rank,
    "sparse": lambda vectors, seed: SparseRanker(random_state=seed),
    "diagonal": lambda vectors, seed: DiagonalRanker(random_state=seed),
}


def fit_vectors(
    vectors: Vectors,
    learn_from: Qrels | Preferences | Source,
    ranker: TermPairRanker | str | None = None,
    *,
    n_steps: int | None = None,
    test: Qrels | None = None,
    measure: str = "nDCG@10",
    callbacks: Sequence[Callback] = (),
    random_state: int = 0,
    verbose: bool | None = None,
) -> TextModel:
    """Learn a text model from vectors on disk. Documents are fetched as preferences need them.

    Nothing is held out and nothing is chosen: the model is what was learned. Judgements of other queries, as ``test``,
    give it a ``report`` that says how it does there.

    Parameters
    ----------
    vectors : with queries
    learn_from : qid -> doc_id -> grade, from which preferences are drawn as they are needed; or preferences between
        rows of ``vectors.queries`` and ``vectors.docs``; or a source of them
    ranker : {"low-rank", "sparse", "diagonal"} or a term-pair ranker, which is fitted; default "low-rank", learned as
        ``tc.fit`` does from judgements
    n_steps : preferences drawn from judgements; default 20 for each judgement, but 100,000 to 500,000
    test : judgements to measure on; their queries are ranked over all documents, a block at a time
    measure : what the report is about
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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vectors = vectorise(docs, {"q": "feline", "r": "canine"}, f"{folder}/vectors")
    ...     model = fit_vectors(vectors, {"q": {"a": 1}, "r": {"b": 1}}, n_steps=5000)
    >>> next(iter(model.rank({"q": "canine"}, docs, k=1)["q"]))
    'b'
    """
    measure = str(parse_measure(measure))
    random_state = check_seed(random_state)
    if vectors.queries is None:
        raise InputError(f"{vectors.path} has no queries; vectorise them together with the documents")
    learner = _ranker(ranker, vectors, random_state)
    if verbose is not None and "verbose" in learner.get_params():
        learner.set_params(verbose=verbose)
    began = time.perf_counter()
    n_train = len(vectors.queries)
    given: Any = learn_from
    if isinstance(learn_from, Mapping):
        sampler = judgement_sampler(vectors, learn_from)
        n_train = sampler.queries.size
        n_judged = sum(map(len, learn_from.values()))
        steps = int(np.clip(n_judged * STEPS_PER_JUDGEMENT, MIN_STEPS, MAX_STEPS)) if n_steps is None else n_steps
        given = SampledSource(sampler, steps, random_state=random_state)
    elif n_steps is not None:
        raise InputError("n_steps is for preferences drawn from judgements; those given have a number of their own")
    if test is not None:
        _rows_of_judgements(vectors, test, "test")  # now, and not after hours of learning
        known = next((qid for qid in test if isinstance(learn_from, Mapping) and qid in learn_from), None)
        if known is not None:
            raise InputError(f"test judge query {known!r}, which is learned from; measure on other queries")
    learner.fit(vectors.queries, given, vectors.docs, callbacks=callbacks)
    model = TextModel(vectors.query_vectoriser, vectors.doc_vectoriser, learner.weights_)
    if test is None:
        return model
    report = _measured(vectors, model.weights, test, measure, learner, n_train, began)
    return TextModel(model.query_vectoriser, model.doc_vectoriser, model.weights, report)


def judgement_sampler(vectors: Vectors, qrels: Qrels) -> JudgementSampler:
    """What draws preferences from judgements by id; documents without one count as of grade 0."""
    query, doc, grade = _rows_of_judgements(vectors, qrels, "qrels")
    return JudgementSampler(query, doc, grade, n_docs=len(vectors.docs))


def evaluate_vectors(vectors: Vectors, weights: Weights, qrels: Qrels, measures: Sequence[Any]) -> Evaluation:
    """Measures of judged queries, ranked over all documents, a block of them at a time; the best 1,000 count."""
    assert vectors.queries is not None
    rows = vectors.query_ids.get_many(list(qrels))
    docs, scores = rank_texts(weights, take(vectors.queries, rows), vectors.docs, DEPTH)
    qids, found = list(qrels), []
    for start in range(0, len(qids), _QUERIES_AT_ONCE):  # ids take ten times the memory of row numbers
        run = {
            qid: dict(zip(vectors.doc_ids.many(docs[at]), scores[at].tolist(), strict=True))
            for at, qid in enumerate(qids[start : start + _QUERIES_AT_ONCE], start)
        }
        found.append(evaluate({qid: qrels[qid] for qid in run}, run, measures))
    return Evaluation(found[0].measures, tuple(qids), np.concatenate([each.values for each in found]))


def _ranker(ranker: TermPairRanker | str | None, vectors: Vectors, seed: int) -> TermPairRanker:
    if isinstance(ranker, TermPairRanker):
        return ranker
    name = "low-rank" if ranker is None else ranker
    if name not in RANKERS:
        raise InputError(f"ranker is {ranker!r}; expected a term-pair ranker, or one of {', '.join(RANKERS)}")
    return RANKERS[name](vectors, seed)


def _rows_of_judgements(vectors: Vectors, qrels: Qrels, name: str) -> tuple[Any, Any, Any]:
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


def _measured(
    vectors: Vectors,
    weights: Weights,
    test: Qrels,
    measure: str,
    learner: TermPairRanker,
    n_train: int,
    began: float,
) -> Report:
    answerable = {qid: judged for qid, judged in test.items() if max(judged.values(), default=0) > 0}
    measures = list(dict.fromkeys([measure, "nDCG@10", "AP"]))
    learned = evaluate_vectors(vectors, weights, answerable, measures)
    name = {own: shown for shown, own in WEIGHTINGS.items()}[vectors.vectoriser.weighting]
    systems, change, compared = [SystemResult.of("learned", learned)], None, "There is nothing to compare it with."
    if vectors.query_vectoriser is vectors.doc_vectoriser:
        start = evaluate_vectors(vectors, Weights([Identity(n_terms=weights.shape[1])]), answerable, measures)
        systems.insert(0, SystemResult.of(name, start))
        change = change_between(learned, start, measure)
        compared = f"{measure} changed by {learned.mean(measure) - start.mean(measure):+.3f} from {name}'s."
    return Report(
        measure=measure,
        n_train=n_train,
        n_validation=0,
        n_test=len(answerable),
        split=f"Judgements to measure on were given; the best {DEPTH:,} of {len(vectors.docs):,} documents count.",
        systems=tuple(systems),
        accepted=True,
        decision=f"The model is what was learned: nothing was held out to choose by. {compared}",
        change=change,
        chosen={"vectors": name, "ranker": type(learner).__name__, "steps": int(getattr(learner, "n_steps_", 0))},
        seconds=time.perf_counter() - began,
    )
