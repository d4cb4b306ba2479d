"""The recipe behind ``tc.fit``: start from the better of tf-idf and BM25, learn, and keep what was learned only when it
is better on validation queries by more than one standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tercet._validate import check_integer, check_seed
from tercet.choose import Trial, choose
from tercet.data.click_tables import as_click_log
from tercet.data.documents import as_documents
from tercet.data.link_tables import as_links
from tercet.data.preferences import Preferences
from tercet.data.threes import as_evidence
from tercet.errors import InputError
from tercet.fitting.evidence import evidence_task
from tercet.fitting.outcome import CurveRecorder, Outcome, make_report
from tercet.fitting.prior import KnownWords, Prior
from tercet.fitting.rankers import Candidate, RankerChoice, candidates_of, n_steps_for
from tercet.fitting.scored_columns import Fields, ScoredColumns, chosen_weights, words_alone
from tercet.fitting.task import WEIGHTINGS, Space, Task, decide
from tercet.fitting.text_model import TextModel
from tercet.fitting.texts import judged_task, labelled_task, links_as_judgements
from tercet.fitting.topics import topics_of, unknown_words_note, with_columns
from tercet.learn import CorrelatedRanker, LSIRanker, SampledSource, TermPairRanker
from tercet.learn.loop import Callback
from tercet.measure.names import parse_measure
from tercet.text import Analyser, CorrelatedWords, Vectoriser
from tercet.weights import Weights

_MOST_TO_CHOOSE_ON: Final = 20_000  # preferences, for a ranker that learns nothing else from them


def fit(
    docs: Any,
    queries: Any = None,
    qrels: Any = None,
    *,
    preferences: Any = None,
    clicks: Any = None,
    ranker: RankerChoice | None = None,
    fields: Fields | None = None,
    features: Iterable[str] | None = None,
    prior: Any = None,
    validation: Any = None,
    test: Any = None,
    measure: str | None = None,
    analyser: Analyser | None = None,
    n_steps: int | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn a text model from judgements, preferences or clicks, and report it against tf-idf and BM25.

    What there is to learn from may be given together; the report, on untouched queries, then shows each.

    Parameters
    ----------
    docs : id -> text, or whatever `as_documents` takes: id -> record, a list of records, a frame
    queries : id -> text, a list of texts, or records or a frame with an id and a text; may be left out where those of
        judgements, preferences or clicks are named by their texts
    qrels : qid -> doc_id -> grade, or records or a frame with a query, by id or text, a document and a grade
    preferences : threes (query, better document, worse document), or records or a frame of them: the id of a query or
        its text, and ids of documents; a fourth value is a weight
    clicks : lists of results that were shown, and what of each was clicked: (query, shown, clicked) in the order of
        time, or a path, records or a frame as `read_click_log` takes them; see docs/clicks.md
    ranker : what is learned: a name ("low-rank", "sparse", "dense", "diagonal", "pruned", "hashed", "grouped",
        "correlated", "lsi" or "cosine"), a term-pair ranker such as ``tc.SparseRanker(density=0.05)``, or a list of
        these, of which the best on validation is taken; None is "low-rank". A ranker that leaves rate and schedule as
        its class has them is also tried with those that are meant for texts; it is not changed itself
    fields : columns of text with a match of their own, ``{"title": 2.0}``: how much that is said to count, in units of
        one in the whole text, where learning starts from; or their names alone, which count 1
    features : columns of numbers, as they are or by a transform: ``["price", "log:downloads"]``; see docs/fields.md
    prior : pairs of words that are known to belong together, or never to: a table's path, rows, or a mapping such as
        ``{("car", "automobile"): 0.5}``. What is learned is added to them; a `Prior` may also be what W starts from
    validation, test : judgements, or preferences, of other queries, to choose and to report on
        Each that is left out is replaced by a tenth of the training queries, drawn by ``random_state``.
    measure : what validation is by: "nDCG@10" by default. Preferences and clicks without judgements are measured by the
        share of a query's pairs in the right order, "PairAccuracy"; equal scores count a half
    analyser : how texts are cut into words; by default words of two letters or more without English stop words, cut
        to their English stems where plain matching is then better on validation by more than one standard error
    n_steps : how many preferences are drawn to learn from; default 20 for each judgement, but 100,000 to 500,000
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
    >>> threes = [(f"{animal} {i}", right, wrong) for i in range(4) for animal, right, wrong in
    ...           (("feline", "a", "b"), ("canine", "b", "c"), ("finny", "c", "a"))]
    >>> print(fit(docs, preferences=threes).report.split)
    A tenth of the queries was held out for validation and another for testing.
    """
    columns = ScoredColumns.of(fields, features)
    how = _Settings(analyser, n_models, random_state, verbose, name, ranker, n_steps, columns, prior)
    docs = as_documents(docs)
    queries, given = as_evidence(queries, qrels=qrels, preferences=preferences, validation=validation, test=test)
    qrels, preferences, validation, test = given.values()
    if qrels is None and preferences is None and clicks is None:
        raise InputError("there must be something to learn from: qrels, preferences or clicks")
    if preferences is not None or clicks is not None:
        task, chosen_by = evidence_task(
            docs,
            queries,
            qrels=qrels,
            preferences=preferences,
            clicks=None if clicks is None else as_click_log(clicks),
            validation=validation,
            test=test,
            measure=measure,
            random_state=how.seed,
        )
        return _solve(task, chosen_by, how)
    if queries is None:
        raise InputError("judgements are of queries; give their texts, id -> text")
    assert qrels is not None
    chosen_by = str(parse_measure(measure or "nDCG@10"))
    return _solve(judged_task(docs, queries, qrels, validation, test, chosen_by, how.seed), chosen_by, how)


def fit_labelled(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    ranker: RankerChoice | None = None,
    prior: Any = None,
    test: tuple[Sequence[str], Sequence[str]] | None = None,
    measure: str = "AP",
    analyser: Analyser | None = None,
    n_steps: int | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn which texts belong together from their labels: each text is a query for the others of its class.

    A tenth of the texts is held out for validation and queried against the rest. The report is on the ``test`` texts
    and labels, each against all others, or on another tenth. ``ranker``, ``prior``, ``n_steps``, ``n_models``, ``name``
    as in ``fit``.
    """
    how = _Settings(analyser, n_models, random_state, verbose, name, ranker, n_steps, prior=prior)
    measure = str(parse_measure(measure))
    return _solve(labelled_task(texts, labels, test, measure, how.seed), measure, how)


def fit_linked(
    docs: Any,
    links: Any,
    *,
    ranker: RankerChoice | None = None,
    prior: Any = None,
    validation: Any = None,
    test: Any = None,
    measure: str = "AP",
    analyser: Analyser | None = None,
    n_steps: int | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn what documents link to: each document is a query for those it links to, among all but itself.

    Parameters
    ----------
    docs : id -> text, or whatever `as_documents` takes: id -> record, a list of records, a frame
    links : id -> ids of the documents it links to, pairs (source, target), or records or a frame with a source and a
        target: the links to learn from
    validation, test : links of other documents, to choose and to report on; a tenth of the documents with links stands
        in for each that is left out
    ranker, prior, measure, analyser, n_steps, n_models, random_state, verbose, name : as in ``fit``

    Examples
    --------
    >>> docs = {f"{animal}{i}": f"{animal} {i}" for animal in ("cat", "dog") for i in range(10)}
    >>> links = {one: [other for other in docs if other[:3] == one[:3] and other != one] for one in docs}
    >>> model = fit_linked(docs, links)
    >>> next(iter(model.rank({"q": "dog"}, docs, k=1)["q"]))[:3]
    'dog'
    """
    how = _Settings(analyser, n_models, random_state, verbose, name, ranker, n_steps, prior=prior)
    measure = str(parse_measure(measure))
    docs = as_documents(docs)
    judged = links_as_judgements(as_links(links, docs))
    to_choose, to_report = (
        None if part is None else links_as_judgements(as_links(part, docs, what))
        for part, what in ((validation, "validation"), (test, "test"))
    )
    task = judged_task(docs, docs, judged, to_choose, to_report, measure, how.seed, linked=True)
    return _solve(task, measure, how)


# -- choosing ---------------------------------------------------------------------------------------------------------


class _Settings:
    """What all recipes of texts are given besides the evidence, checked."""

    def __init__(
        self,
        analyser: Analyser | None,
        n_models: int,
        random_state: int,
        verbose: bool | None,
        name: str,
        ranker: RankerChoice | None,
        n_steps: int | None,
        columns: ScoredColumns | None = None,
        prior: Any = None,
    ) -> None:
        if not isinstance(name, str):
            raise InputError(f"name is what the report calls the data, a string; got {name!r}")
        self.analyser = analyser
        self.n_models = check_integer(n_models, "n_models")
        self.seed = check_seed(random_state)
        self.verbose = verbose
        self.name = name
        self.columns = columns
        self.prior = Prior.of(prior)
        if self.prior is not None and columns is not None:
            raise InputError("a prior is between words alone; leave out fields and features")
        self.ranker = ranker
        self.n_steps = None if n_steps is None else check_integer(n_steps, "n_steps")
        for candidate in candidates_of(ranker, self.seed):  # what cannot be is said before texts are read
            topics_of(candidate)


def _solve(task: Task, measure: str, how: _Settings) -> TextModel:
    began = time.perf_counter()
    spaces, space = _choose_words(task, how.analyser, how.columns)
    known = None if how.prior is None else how.prior.between(space.vectoriser)
    if known is not None:
        task, plain, space = replace(task, facts=known.told(task.facts)), space, known.start(space)
        spaces = spaces if space is plain else [*spaces, space]
    candidates = candidates_of(how.ranker, how.seed, labelled=task.labelled)
    unknown = unknown_words_note(candidates, space.vectoriser)
    task = replace(task, facts=replace(task.facts, notes=(*task.facts.notes, *unknown)))
    learned = _learn(space, task, how, known, [with_columns(one, space.vectoriser) for one in candidates])
    before, after = space.validation.values(space.start), space.validation.values(learned.weights)
    decision = decide(
        space.gain(before, after), before, after, start=space.name, measure=measure, n_models=how.n_models
    )
    words = space.vectoriser
    model = TextModel(words, words, space.start)
    if not decision.accepted and space.given_start is None:
        plain = words_alone(space)  # so that documents need no columns to be searched
        model = TextModel(plain.vectoriser, plain.vectoriser, plain.start)
    if decision.accepted:
        model = TextModel(words, words, learned.weights, words=learned.words)
    outcome = Outcome(
        measure, *decision, learned.chosen, before, after, learned.curves, how.name, how.seed, learned.weights
    )
    seconds = time.perf_counter() - began
    return replace(model, report=make_report(model, task.facts, spaces, space, outcome, seconds))


def _choose_words(task: Task, analyser: Analyser | None, columns: ScoredColumns | None) -> tuple[list[Space], Space]:
    """The spaces of the analyser that is given, or chosen, and the one of them that matches words best."""
    analysers = [Analyser(stop_words="english", stemmer=stemmer) for stemmer in (None, "english")]
    spaces: list[Space] = []
    best: Space | None = None
    for tried in analysers if analyser is None else [analyser]:
        weighted = [_space(task, name, tried, columns) for name in WEIGHTINGS]
        if columns is not None and (fielded := columns.with_fields(weighted[-1])) is not None:
            weighted.append(fielded)
        trials = [Trial({"vectors": space.name}, np.array(space.validation(space.start))) for space in weighted]
        space = weighted[choose(trials)]
        if best is None or space.gain(*(one.validation.values(one.start) for one in (best, space))).is_clear:
            spaces, best = weighted, space
    assert best is not None
    return spaces, best


def _space(task: Task, name: str, analyser: Analyser, columns: ScoredColumns | None) -> Space:
    weighting = WEIGHTINGS[name]
    if columns is None:
        return task.space(name, Vectoriser(analyser=analyser, weighting=weighting))
    return task.space(name, columns.vectoriser(analyser, weighting))


@dataclass(frozen=True, eq=False)
class BestCandidate:
    """Its weights, blended, the map of words behind them where there is one, and its settings."""

    weights: Weights
    words: CorrelatedWords | None
    chosen: dict[str, Any]
    curves: CurveRecorder


def _learn(
    space: Space, task: Task, how: _Settings, known: KnownWords | None, candidates: list[Candidate]
) -> BestCandidate:
    """The best candidate on validation, the mean of its models, blended with more or less of the identity."""
    n_steps = how.n_steps or n_steps_for(task.n_judgements)
    curves = CurveRecorder(space, n_steps)

    def train(candidate: Candidate, number: int, *callbacks: Callback) -> tuple[Weights, TermPairRanker]:
        ranker = candidate.make(more_seed=number, verbose=how.verbose)
        evidence: SampledSource | Preferences = SampledSource(task.sampler, n_steps, random_state=how.seed + number)
        if isinstance(getattr(ranker, "ranker", ranker), LSIRanker):  # has preferences only to choose its parameters by
            evidence = Preferences(*task.sampler.draw(np.random.default_rng(how.seed + number), _MOST_TO_CHOOSE_ON))
        if known is not None:
            return known.fit(ranker, space, evidence, candidate.unit, callbacks), ranker
        return ranker.fit(space.Q, evidence, space.D, callbacks=callbacks).weights_, ranker

    trials = []
    if known is not None:
        known.check(candidates)
    if how.columns is not None:
        candidates = how.columns.candidates(space, candidates, task.sampler, n_steps, how.seed)
    for listed in candidates:
        candidate = listed.fitting(space.D.shape, n_steps)
        weights, ranker = train(candidate, 0, curves.of(candidate))
        value, extra = _blend(space, weights, candidate.blends)
        words = ranker.words_ if isinstance(ranker, CorrelatedRanker) else None
        # The ranker itself is not kept: what it learns with may take far more memory than what it learned.
        result = candidate, weights, words, _told(ranker, n_steps), extra
        trials.append(Trial(candidate.setting, np.array(value), result=result))
        del ranker
    candidate, weights, words, told, extra = trials[choose(trials)].result
    curves.choose(candidate)
    chosen = {"vectors": space.name, "ranker": candidate.name, **told, **candidate.setting}
    if how.n_models > 1:
        for number in range(1, how.n_models):
            weights = weights + train(candidate, number)[0]
        weights = weights * (1 / how.n_models)
        _, extra = _blend(space, weights, candidate.blends)
        chosen["models"] = how.n_models
    weights = weights + space.match * extra
    chosen |= {"blend": extra, **chosen_weights(space.vectoriser, weights)}
    return BestCandidate(weights, words, chosen, curves)


def _told(ranker: TermPairRanker, n_steps: int) -> dict[str, Any]:
    """What a fitted ranker found out itself: how many preferences it took, and parameters that were left to it."""
    told: dict[str, Any] = {}
    if hasattr(ranker, "n_steps_") or isinstance(ranker, CorrelatedRanker):
        told["steps"] = n_steps
    for name, value in ranker.get_params(deep=False).items():
        own = getattr(ranker, f"{name}_", None)
        if own is not None and own != value and isinstance(own, int | float | str):
            told[f"{name} found"] = own
    return told


def _blend(space: Space, weights: Weights, extra: Sequence[float]) -> tuple[float, float]:
    """The best value on validation, higher is better, and how much more of the identity gives it."""
    values = space.validation.values_of_blends(weights, space.match, extra).mean(axis=1)
    values = values if space.validation.measure.higher_is_better else -values
    best = choose([Trial({"blend": factor}, value) for factor, value in zip(extra, values, strict=True)])
    return float(values[best]), extra[best]
