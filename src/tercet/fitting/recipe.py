"""The recipe behind ``tc.fit``: start from the better of tf-idf and BM25, learn, and keep what was learned only when it
is better on validation queries by more than one standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer, check_seed
from tercet.choose import Trial, choose
from tercet.data.sampling import JudgementSampler, LabelSampler, Sampler, check_grade
from tercet.errors import InputError
from tercet.fitting.model import TextModel
from tercet.fitting.reporting import CurveRecorder, Facts, Outcome, make_report
from tercet.fitting.space import Space
from tercet.learn import LowRankRanker, SampledSource
from tercet.learn.loop import Callback
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import parse_measure
from tercet.text import Analyser, Vectoriser
from tercet.weights import Weights

Qrels = Mapping[str, Mapping[str, int]]

WEIGHTINGS = {"tf-idf": "tfidf", "BM25": "bm25"}
HELD_OUT_SHARE = 0.1
FEWEST_QUERIES = 10  # below this there is nothing to hold out
FEWEST_TEXTS = 20

# What is tried, each with the same preferences, and chosen between on validation; found as docs/recipe.md says.
FOR_JUDGEMENTS: tuple[dict[str, Any], ...] = ({"start": "lsi", "identity_weight": 5.0, "n_components": 200},)
FOR_LABELS: tuple[dict[str, Any], ...] = (
    {"start": "random", "identity_weight": 1.0, "n_components": 100, "tied": True, "scale_documents": True},
    {"start": "lsi", "identity_weight": 5.0, "n_components": 200},
)
BLENDS = (-0.25, 0.0, 0.5, 1.0, 2.0, 4.0)  # more of the identity, as multiples of the identity weight
MIN_STEPS, MAX_STEPS, STEPS_PER_JUDGEMENT = 100_000, 500_000, 20


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned, apart from how words are weighted."""

    sampler: Sampler
    candidates: tuple[dict[str, Any], ...]
    n_judgements: int
    facts: Facts
    build: Callable[[Vectoriser], tuple[sparse.csr_array, sparse.csr_array, HeldOutQueries, HeldOutQueries]]

    def space(self, name: str, analyser: Analyser) -> Space:
        vectoriser = Vectoriser(analyser=analyser, weighting=WEIGHTINGS[name])
        return Space(name, vectoriser, *self.build(vectoriser))


def fit(
    docs: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Qrels,
    *,
    validation: Qrels | None = None,
    test: Qrels | None = None,
    measure: str = "nDCG@10",
    analyser: Analyser | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn a text model from judged queries, and report it against tf-idf and BM25 on untouched ones.

    Parameters
    ----------
    docs, queries : id -> text
    qrels : qid -> doc_id -> grade, the judgements to learn from
    validation, test : judgements of other queries, to choose and to report on
        Each that is left out is replaced by a tenth of the training queries, drawn by ``random_state``.
    measure : what validation maximises
    analyser : how texts are cut into words; by default words of two letters or more without English stop words, cut
        to their English stems where plain matching is then better on validation by more than one standard error
    n_models : how often the chosen model is learned, from as many seeds; the mean of all is the result
        Steadier than one, and as many times as large and as slow.
    verbose : None shows progress on a terminal, True always, False never
    name : what the report calls the data

    Returns
    -------
    TextModel
        Its ``report`` has the table and says whether learning was accepted. Where learning is not better than the
        better of tf-idf and BM25 on validation by more than one standard error, the model is that start.

    Examples
    --------
    >>> docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    >>> queries = {str(i): t for i, t in enumerate(["purr", "bark", "swim"] * 4)}
    >>> qrels = {q: {"abc"[int(q) % 3]: 1} for q in queries}
    >>> model = fit(docs, queries, qrels)
    >>> next(iter(model.rank({"q": "bark"}, docs, k=1)["q"]))
    'b'
    """
    measure = str(parse_measure(measure))
    random_state = check_seed(random_state)
    task = _judged_task(docs, queries, qrels, validation, test, measure, random_state)
    return _solve(task, measure, analyser, check_integer(n_models, "n_models"), random_state, verbose, name)


def fit_labelled(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    test: tuple[Sequence[str], Sequence[str]] | None = None,
    measure: str = "AP",
    analyser: Analyser | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn which texts belong together from their labels: each text is a query for the others of its class.

    A tenth of the texts is held out for validation and queried against the rest. The report is on the ``test`` texts
    and labels, each against all others, or on another tenth. ``n_models`` and ``name`` as in ``fit``.
    """
    measure = str(parse_measure(measure))
    random_state = check_seed(random_state)
    task = _labelled_task(texts, labels, test, measure, random_state)
    return _solve(task, measure, analyser, check_integer(n_models, "n_models"), random_state, verbose, name)


def fit_linked(
    docs: Mapping[str, str],
    links: Mapping[str, Iterable[str]],
    *,
    validation: Mapping[str, Iterable[str]] | None = None,
    test: Mapping[str, Iterable[str]] | None = None,
    measure: str = "AP",
    analyser: Analyser | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn what documents link to: each document is a query for those it links to, among all but itself.

    Parameters
    ----------
    docs : id -> text
    links : id -> ids of the documents it links to, the links to learn from
    validation, test : links of other documents, to choose and to report on; a tenth of the documents with links stands
        in for each that is left out
    measure, analyser, n_models, random_state, verbose, name : as in ``fit``

    Examples
    --------
    >>> docs = {f"{animal}{i}": f"{animal} {i}" for animal in ("cat", "dog") for i in range(10)}
    >>> links = {one: [other for other in docs if other[:3] == one[:3] and other != one] for one in docs}
    >>> model = fit_linked(docs, links)
    >>> next(iter(model.rank({"q": "dog"}, docs, k=1)["q"]))[:3]
    'dog'
    """
    measure = str(parse_measure(measure))
    random_state = check_seed(random_state)
    parts = [
        None if part is None else _as_judgements(part, what)
        for part, what in ((links, "links"), (validation, "validation"), (test, "test"))
    ]
    assert parts[0] is not None
    task = _judged_task(docs, docs, parts[0], parts[1], parts[2], measure, random_state, linked=True)
    return _solve(task, measure, analyser, check_integer(n_models, "n_models"), random_state, verbose, name)


def _as_judgements(links: Mapping[str, Iterable[str]], what: str) -> dict[str, dict[str, int]]:
    if not isinstance(links, Mapping):
        raise InputError(f"{what} must be a mapping, id -> ids it links to; got {type(links).__name__}")
    judged = {}
    for source, targets in links.items():
        if isinstance(targets, (str, bytes)) or not isinstance(targets, Iterable):
            raise InputError(f"{what} of {source!r} must be a list of ids; got {targets!r}")
        judged[source] = {target: 1 for target in targets if target != source}
    return judged


# -- tasks ------------------------------------------------------------------------------------------------------------


def _judged_task(
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
    for name, what in (("docs", docs), ("queries", queries), ("qrels", qrels)):
        if not isinstance(what, Mapping):
            inside = "qid -> {doc_id: grade}" if name == "qrels" else "id -> text"
            raise InputError(f"{name} must be a mapping, {inside}; got {type(what).__name__}")
    if not docs or not queries:
        raise InputError(f"there are {len(docs)} documents and {len(queries)} queries; both are needed")
    doc_rows = {doc_id: row for row, doc_id in enumerate(docs)}
    query_rows = {qid: row for row, qid in enumerate(queries)}
    usable = {}
    for name, given in (("qrels", qrels), ("validation", validation), ("test", test)):
        for qid, judged in (given or {}).items():
            if not isinstance(judged, Mapping):
                raise InputError(f"{name} of query {qid!r} must be doc_id -> grade; got {type(judged).__name__}")
            if qid not in query_rows:
                raise InputError(f"{name} judge query {qid!r}, which is not among the queries")
            for doc_id, grade in judged.items():
                if doc_id not in doc_rows:
                    raise InputError(f"{name} judge document {doc_id!r} for query {qid!r}; there is no such document")
                check_grade(qid, doc_id, grade)
        # A query without a relevant document can neither teach nor be measured.
        usable[name] = {q: j for q, j in (given or {}).items() if max(j.values(), default=0) > 0}
        if given is not None and not usable[name]:
            raise InputError(f"{name} have no query with a relevant document (a grade above 0)")
    for one, other in (("qrels", "validation"), ("qrels", "test"), ("validation", "test")):
        if overlap := [q for q in usable[one] if q in usable[other]]:
            raise InputError(f"query {overlap[0]!r} is judged in both {one} and {other}; a query belongs to one part")
    train, parts, split = _hold_out(usable["qrels"], [validation, test], random_state)
    held_out = [usable[name] or part for name, part in zip(("validation", "test"), parts, strict=True)]

    def build(
        vectoriser: Vectoriser,
    ) -> tuple[sparse.csr_array, sparse.csr_array, HeldOutQueries, HeldOutQueries]:
        taught = [queries[qid] for qid in train]  # words that only these have can be learned, and no others
        D = sparse.csr_array(vectoriser.fit_transform_docs(list(docs.values()), queries=taught))
        Q = sparse.csr_array(vectoriser.transform_queries(list(queries.values())))
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


def _hold_out(
    train: Qrels, given: Sequence[Qrels | None], random_state: int
) -> tuple[Qrels, list[dict[str, Mapping[str, int]]], str]:
    """Set aside a tenth of the queries for each part that was not given."""
    names = [name for name, part in zip(("validation", "testing"), given, strict=True) if part is None]
    parts: list[dict[str, Mapping[str, int]]] = [{}, {}]
    if not names:
        return train, parts, "Validation and test queries were given."
    if len(train) < FEWEST_QUERIES:
        raise InputError(
            f"{len(train)} judged queries are too few to hold any out for {' and '.join(names)}; give at least "
            f"{FEWEST_QUERIES}, or validation and test judgements"
        )
    size = max(2, round(len(train) * HELD_OUT_SHARE))
    qids = sorted(train)
    order = [qids[i] for i in np.random.default_rng(random_state).permutation(len(qids))]
    for at, part in enumerate(given):
        if part is None:
            parts[at] = {qid: train[qid] for qid in order[:size]}
            order = order[size:]
    kept = set(order)
    split = f"A tenth of the queries was held out for {' and another for '.join(names)}."
    return {qid: judged for qid, judged in train.items() if qid in kept}, parts, split


def _check_labelled(texts: Sequence[str], labels: Sequence[str], what: str) -> None:
    if isinstance(texts, str) or isinstance(labels, str):
        raise InputError(f"{what} must be lists, one text and one label each; got a single string")
    if len(texts) != len(labels):
        raise InputError(f"{what}: there are {len(texts)} texts and {len(labels)} labels; each text has one")
    if not len(texts):
        raise InputError(f"{what}: there are no texts")


def _labelled_task(
    texts: Sequence[str],
    labels: Sequence[str],
    test: tuple[Sequence[str], Sequence[str]] | None,
    measure: str,
    random_state: int,
) -> Task:
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
        report, rest = rest[:size], rest[size:]
        split = "A tenth of the texts was held out for validation and another for testing."
    else:
        split = "A tenth of the texts was held out for validation; test texts were given."
    rest = np.sort(rest)
    parsed = parse_measure(measure)
    tested = ([texts[i] for i in report], y[report]) if test is None else test

    def held_out(vectoriser: Vectoriser, some: Sequence[str], classes: Any) -> HeldOutQueries:
        """Each text against all others; never against training texts, whose memorised labels look like a gain."""
        Q = sparse.csr_array(vectoriser.transform_queries(some))
        D = sparse.csr_array(vectoriser.transform_docs(some))
        grades = sparse.csr_array(np.asarray(classes)[:, None] == np.asarray(classes)[None, :], dtype=np.int64)
        return HeldOutQueries(Q, D, grades, tuple(map(str, range(len(some)))), parsed, np.arange(len(some)))

    def build(
        vectoriser: Vectoriser,
    ) -> tuple[sparse.csr_array, sparse.csr_array, HeldOutQueries, HeldOutQueries]:
        taught = [texts[i] for i in rest]
        D = sparse.csr_array(vectoriser.fit_transform_docs(taught))
        Q = sparse.csr_array(vectoriser.transform_queries(taught))
        validation = held_out(vectoriser, [texts[i] for i in to_choose], y[to_choose])
        return Q, D, validation, held_out(vectoriser, *tested)

    data = {"kind": "labelled texts", "n_texts": len(texts), "n_classes": len(set(labels))}
    asked = dict(zip(map(str, range(len(tested[0]))), tested[0], strict=True))
    return Task(LabelSampler(y[rest]), FOR_LABELS, len(rest), Facts(data, len(rest), split, asked), build)


# -- choosing ---------------------------------------------------------------------------------------------------------


def _solve(
    task: Task,
    measure: str,
    analyser: Analyser | None,
    n_models: int,
    random_state: int,
    verbose: bool | None,
    name: str,
) -> TextModel:
    if not isinstance(name, str):
        raise InputError(f"name is what the report calls the data, a string; got {name!r}")
    began = time.perf_counter()
    spaces, space = _choose_words(task, analyser)
    learned, chosen, curves = _learn(space, task, n_models, random_state, verbose)
    before, after = space.validation.values(space.start), space.validation.values(learned)
    accepted, decision = _decide(space, before, after, measure, n_models)
    model = TextModel(space.vectoriser, space.vectoriser, learned if accepted else space.start)
    outcome = Outcome(measure, accepted, decision, chosen, before, after, curves, name, random_state)
    seconds = time.perf_counter() - began
    return replace(model, report=make_report(model, task.facts, spaces, space, outcome, seconds))


def _choose_words(task: Task, analyser: Analyser | None) -> tuple[list[Space], Space]:
    """The spaces of the analyser that is given, or chosen, and the one of them that matches words best."""
    analysers = [Analyser(stop_words="english", stemmer=stemmer) for stemmer in (None, "english")]
    spaces: list[Space] = []
    best: Space | None = None
    for each in analysers if analyser is None else [analyser]:
        found = [task.space(weighting, each) for weighting in WEIGHTINGS]
        one = max(found, key=lambda space: space.validation(space.start))
        if best is None or one.gain(best.validation.values(best.start), one.validation.values(one.start)).is_clear:
            spaces, best = found, one
    assert best is not None
    return spaces, best


def _learn(
    space: Space, task: Task, n_models: int, random_state: int, verbose: bool | None
) -> tuple[Weights, dict[str, Any], CurveRecorder]:
    """The best candidate on validation, the mean of its models, blended with more or less of the identity."""
    n_steps = int(np.clip(task.n_judgements * STEPS_PER_JUDGEMENT, MIN_STEPS, MAX_STEPS))
    curves = CurveRecorder(space, n_steps)

    def train(candidate: dict[str, Any], seed: int, *callbacks: Callback) -> Weights:
        ranker = LowRankRanker(schedule="linear", rate=0.1, random_state=seed, verbose=verbose, **candidate)
        source = SampledSource(task.sampler, n_steps, random_state=seed)
        return ranker.fit(space.Q, source, space.D, callbacks=callbacks).weights_

    trials = []
    for candidate in task.candidates:
        if candidate["start"] == "lsi" and min(space.D.shape) <= candidate["n_components"]:
            # Too few documents or words to have that many directions.
            candidate = {**candidate, "start": "random"}
        one = train(candidate, random_state, curves.of(candidate))
        value, extra = _blend(space, one, candidate["identity_weight"])
        trials.append(Trial(candidate, np.array(value), result=(one, extra)))
    best = trials[choose(trials)]
    candidate, (weights, extra) = best.setting, best.result
    curves.choose(candidate)
    chosen = {"vectors": space.name, "steps": n_steps, **candidate}
    if n_models > 1:
        for seed in range(random_state + 1, random_state + n_models):
            weights = weights + train(candidate, seed)
        weights = weights * (1 / n_models)
        _, extra = _blend(space, weights, candidate["identity_weight"])
        chosen["models"] = n_models
    return weights + space.start * extra, {**chosen, "blend": extra}, curves


def _blend(space: Space, weights: Weights, identity_weight: float) -> tuple[float, float]:
    """The best value on validation, higher is better, and how much of the identity gives it."""
    extra = [blend * identity_weight for blend in BLENDS]
    values = space.validation.values_of_blends(weights, space.start, extra).mean(axis=1)
    values = values if space.validation.measure.higher_is_better else -values
    best = int(np.argmax(values))
    return float(values[best]), extra[best]


def _decide(
    space: Space, before: NDArray[np.float64], after: NDArray[np.float64], measure: str, n_models: int
) -> tuple[bool, str]:
    """Accept learning only when it beats the start on validation by more than one standard error."""
    gain = space.gain(before, after)
    accepted = gain.is_clear
    learning = "Learning" if n_models == 1 else f"Learning (the mean of {n_models} models)"
    verdict = "accepted" if accepted else f"declined; the model is {space.name}"
    return accepted, (
        f"{learning} was {verdict}: on {gain.n_queries} validation queries {measure} changed by "
        f"{(after - before).mean():+.3f} from {space.name}'s {before.mean():.3f}, with a standard error of "
        f"{gain.error:.3f}."
    )
