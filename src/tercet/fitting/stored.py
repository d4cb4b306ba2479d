"""Learn from vectors on disk, of more documents than memory holds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tercet._validate import check_seed
from tercet.data import JudgementSampler, Preferences
from tercet.errors import InputError
from tercet.fitting.against_start import learned_or_start
from tercet.fitting.judged import Qrels
from tercet.fitting.rankers import n_steps_for, term_pair_ranker
from tercet.fitting.task import check_disjoint
from tercet.fitting.text_model import TextModel
from tercet.learn import SampledSource, TermPairRanker
from tercet.learn.loop import Callback
from tercet.learn.stored import rank_texts
from tercet.measure import Evaluation, HeldOut, HeldOutPreferences, Measure, evaluate, parse_measure
from tercet.text import Vectors
from tercet.weights import Identity, Weights

DEPTH: Final = 1000  # ranked documents of a held-out query
MOST_HELD_OUT: Final = 1000  # queries for each of validation and test, each ranked over all documents
_FEWEST: Final = 10  # queries to hold any out
_QUERIES_AT_ONCE: Final = 256

Evidence = Qrels | Preferences


def fit_vectors(
    vectors: Vectors,
    learn_from: Evidence,
    ranker: TermPairRanker | str | None = None,
    *,
    n_steps: int | None = None,
    validation: Evidence | None = None,
    test: Evidence | None = None,
    measure: str | None = None,
    callbacks: Sequence[Callback] = (),
    random_state: int = 0,
    verbose: bool | None = None,
) -> TextModel:
    """Learn a text model from vectors on disk. Preferences fetch the documents.

    Learning is rejected unless better than plain matching on validation queries by more than a standard error. The
    ``report`` is on test queries.

    Parameters
    ----------
    vectors : vectors of documents and queries
    learn_from : judgements qid -> doc_id -> grade, to draw preferences from; or preferences between rows of
        ``vectors.queries`` and ``vectors.docs``
    ranker : a name as in ``tc.fit``, at its first setting, or a term-pair ranker to fit; default "low-rank"
    n_steps : preferences drawn from judgements; default 20 for each judgement, but 20,000 to 500,000
    validation, test : judgements, or preferences by rows, of other queries; by default a tenth of the training
        queries each, but at most 1,000. Judged queries are ranked over all documents, a block at a time
    measure : measure of validation: "nDCG@10" for judgements, "PairAccuracy" for preferences
    callbacks : see ``DenseRanker.fit``; a ``Checkpoint`` makes the fit resumable

    Notes
    -----
    Memory: the model, a chunk of some thousand preferences with their texts. The system keeps as much of the
    files in memory as nobody else needs. The start of "low-rank" takes four passes over the documents, and several
    times the memory of the model.

    Examples
    --------
    >>> import tempfile
    >>> from tercet.text import vectorize
    >>> docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    >>> queries = {f"{word}{i}": word for i in range(5) for word in ("feline", "canine")}
    >>> qrels = {qid: {"b" if word == "canine" else "a": 1} for qid, word in queries.items()}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vectors = vectorize(docs, queries, f"{folder}/vectors")
    ...     model = fit_vectors(vectors, qrels, n_steps=5000, random_state=3)
    >>> next(iter(model.rank({"q": "canine"}, docs, k=1)["q"]))
    'b'
    """
    began = time.perf_counter()
    seed = check_seed(random_state)
    if vectors.queries is None:
        raise InputError(f"{vectors.path} has no queries; vectorize them together with the documents")
    shared = vectors.query_vectorizer is vectors.doc_vectorizer
    learner = ranker
    if not isinstance(learner, TermPairRanker):
        learner = term_pair_ranker(ranker or "low-rank", vectors.docs.shape, seed, shared=shared)
    if verbose is not None and "verbose" in learner.get_params():
        learner.set_params(verbose=verbose)
    kind = "qrels" if isinstance(learn_from, Mapping) else "preferences"
    if n_steps is not None and kind == "preferences":
        raise InputError("n_steps is for preferences drawn from judgements; those given have a number of their own")
    given = {kind: learn_from, "validation": validation, "test": test}
    qids = {name: _answerable(vectors, part, name) for name, part in given.items() if part is not None}
    check_disjoint({name: dict.fromkeys(of_part) for name, of_part in qids.items()})
    qids, split = _hold_out(qids, kind, seed)
    parts = {
        name: _of_queries(vectors, learn_from if part is None else part, qids[name]) for name, part in given.items()
    }
    to_choose, to_report = (_held_out(vectors, parts[name], measure) for name in ("validation", "test"))
    source: Any = parts[kind]
    if kind == "qrels":
        steps = n_steps_for(sum(map(len, source.values()))) if n_steps is None else n_steps
        source = SampledSource(judgement_sampler(vectors, source), steps, random_state=seed)
    learner.fit(vectors.queries, source, vectors.docs, callbacks=callbacks)
    start = {"tfidf": "tf-idf", "bm25": "BM25"}[vectors.vectorizer.weighting]
    measures, notes = [str(to_report.measure)], []
    if isinstance(to_report, StoredQueries):
        measures = list(dict.fromkeys([*measures, "nDCG@10", "AP"]))
        notes = [f"the best {DEPTH:,} documents of each query count."]
    return learned_or_start(
        (vectors.query_vectorizer, vectors.doc_vectorizer),
        learner.weights_,
        {start: Weights([Identity(n_terms=vectors.docs.shape[1])])} if shared else {},
        to_choose,
        to_report,
        measures,
        began,
        n_train=len(qids[kind]),
        split=split,
        chosen={"vectors": start, "ranker": type(learner).__name__, "steps": int(getattr(learner, "n_steps_", 0))},
        notes=tuple(notes),
    )


def judgement_sampler(vectors: Vectors, qrels: Qrels) -> JudgementSampler:
    """Draw preferences from judgements by id; documents without a judgement count as of grade 0."""
    query_rows, doc_rows = vectors.query_ids, vectors.doc_ids
    return JudgementSampler.from_qrels(qrels, n_docs=vectors.docs.shape[0], query_rows=query_rows, doc_rows=doc_rows)


def _answerable(vectors: Vectors, evidence: Evidence, name: str) -> list[str]:
    """Check evidence and return the ids of its queries; of judged queries, only queries with an answer."""
    if isinstance(evidence, Preferences):
        assert vectors.queries is not None
        evidence.check_rows(vectors.queries.shape[0], vectors.docs.shape[0])
        return vectors.query_ids.strings.many(np.unique(evidence.query))
    if not isinstance(evidence, Mapping):
        raise InputError(f"learn_from must be judgements or Preferences; got {type(evidence).__name__}")
    try:
        judgement_sampler(vectors, evidence)  # looks up all ids now, and not after hours of learning
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    return [qid for qid, judged in evidence.items() if max(judged.values(), default=0) > 0]


def _hold_out(qids: Mapping[str, list[str]], name: str, seed: int) -> tuple[dict[str, list[str]], str]:
    """Take missing validation and test queries from the training queries, ``qids[name]``.

    Returns
    -------
    ids of the queries of all three parts, and a sentence on the split
    """
    missing = [part for part in ("validation", "test") if part not in qids]
    if not missing:
        return dict(qids), "Validation and test queries were given."
    if len(qids[name]) < _FEWEST:
        raise InputError(
            f"{len(qids[name])} queries with {name} are too few to hold any out for {' and '.join(missing)}; give at "
            f"least {_FEWEST}, or validation and test queries"
        )
    size = min(max(2, round(len(qids[name]) / 10)), MOST_HELD_OUT)
    ordered = sorted(qids[name])
    mixed = [ordered[i] for i in np.random.default_rng(seed).permutation(len(ordered))]
    held_out = {part: mixed[k * size : (k + 1) * size] for k, part in enumerate(missing)}
    split = f"{size:,} of the training queries were held out for {f' and {size:,} for '.join(missing)}."
    return {**qids, **held_out, name: mixed[len(missing) * size :]}, split


def _of_queries(vectors: Vectors, evidence: Evidence, qids: list[str]) -> Evidence:
    """Evidence of some queries."""
    if isinstance(evidence, Preferences):
        return evidence[np.isin(evidence.query, vectors.query_ids.get_many(qids))]
    return {qid: evidence[qid] for qid in qids}


@dataclass(frozen=True, eq=False)
class StoredQueries(HeldOut):
    """Judged queries of stored vectors, ranked over all documents, a block at a time; the best 1,000 count."""

    vectors: Vectors
    qrels: Qrels
    measure: Measure

    @property
    def qids(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.qrels)

    def evaluate(self, weights: Weights, measures: Any = None) -> Evaluation:
        vectors, qids = self.vectors, self.qids
        assert vectors.queries is not None
        Q = vectors.queries[vectors.query_ids.get_many(qids)]
        docs, scores = rank_texts(weights, Q, vectors.docs, DEPTH)
        blocks = []
        for start in range(0, len(qids), _QUERIES_AT_ONCE):  # ids take ten times the memory of row numbers
            run = {
                qid: dict(zip(vectors.doc_ids.strings.many(docs[row]), scores[row].tolist(), strict=True))
                for row, qid in enumerate(qids[start : start + _QUERIES_AT_ONCE], start)
            }
            blocks.append(evaluate({qid: self.qrels[qid] for qid in run}, run, measures or [self.measure]))
        return Evaluation(blocks[0].measures, qids, np.concatenate([block.values for block in blocks]))


def _held_out(vectors: Vectors, evidence: Evidence, measure: str | None) -> HeldOut:
    """Judge weights by evidence."""
    if not isinstance(evidence, Preferences):
        return StoredQueries(vectors, evidence, parse_measure(measure or "nDCG@10"))
    if measure is not None and parse_measure(measure) != HeldOutPreferences.measure:
        raise InputError(f"preferences are measured by {HeldOutPreferences.measure}; got {measure!r}")
    assert vectors.queries is not None
    ordered = evidence[np.argsort(evidence.query, kind="stable")]
    qids = tuple(vectors.query_ids.strings.many(np.unique(ordered.query)))
    return HeldOutPreferences(vectors.queries, vectors.docs, ordered, qids)
