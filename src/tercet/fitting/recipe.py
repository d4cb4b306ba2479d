"""The recipe behind ``tc.fit``: start from the better of tf-idf and BM25, learn, and keep what was learned only when it
is better on validation queries by more than one standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tercet._validate import check_integer, check_seed
from tercet.choose import Trial, choose
from tercet.errors import InputError
from tercet.fitting.candidates import BLENDS, fitting_candidate, low_rank, n_steps_for
from tercet.fitting.model import TextModel
from tercet.fitting.reporting import CurveRecorder, Outcome, make_report
from tercet.fitting.task import WEIGHTINGS, Qrels, Space, Task, Threes, decide
from tercet.fitting.texts import judged_task, labelled_task, links_as_judgements, preference_task
from tercet.learn import SampledSource
from tercet.learn.loop import Callback
from tercet.measure.names import PAIR_ACCURACY, parse_measure
from tercet.text import Analyser
from tercet.weights import Weights


def fit(
    docs: Mapping[str, str],
    queries: Mapping[str, str] | None = None,
    qrels: Qrels | None = None,
    *,
    preferences: Threes | None = None,
    validation: Qrels | Threes | None = None,
    test: Qrels | Threes | None = None,
    measure: str | None = None,
    analyser: Analyser | None = None,
    n_models: int = 1,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn a text model from judgements or preferences, and report it against tf-idf and BM25 on untouched queries.

    Parameters
    ----------
    docs : id -> text
    queries : id -> text; may be left out with ``preferences``, whose queries are then texts
    qrels : qid -> doc_id -> grade, the judgements to learn from
    preferences : instead of judgements, threes (query, better document, worse document): the id of a query, or its
        text where there are no ``queries``, and ids of documents
    validation, test : judgements, or preferences, of other queries, to choose and to report on
        Each that is left out is replaced by a tenth of the training queries, drawn by ``random_state``.
    measure : what validation is by: "nDCG@10" by default. Preferences are measured by the share of a query's threes in
        the right order, "PairAccuracy"; equal scores count a half
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
    >>> threes = [(f"{animal} {i}", right, wrong) for i in range(4) for animal, right, wrong in
    ...           (("feline", "a", "b"), ("canine", "b", "c"), ("finny", "c", "a"))]
    >>> print(fit(docs, preferences=threes).report.split)
    A tenth of the queries was held out for validation and another for testing.
    """
    how = _Settings(analyser, n_models, random_state, verbose, name)
    if (qrels is None) == (preferences is None):
        raise InputError("there must be qrels to learn from, or preferences; give one of the two")
    if preferences is not None:
        if measure is not None and str(parse_measure(measure)) != PAIR_ACCURACY:
            raise InputError(f"preferences are measured by {PAIR_ACCURACY}; got {measure!r}")
        return _solve(preference_task(docs, queries, preferences, validation, test, how.seed), PAIR_ACCURACY, how)  # type: ignore[arg-type]
    if queries is None:
        raise InputError("judgements are of queries; give their texts, id -> text")
    assert qrels is not None
    chosen_by = str(parse_measure(measure or "nDCG@10"))
    return _solve(judged_task(docs, queries, qrels, validation, test, chosen_by, how.seed), chosen_by, how)  # type: ignore[arg-type]


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
    how = _Settings(analyser, n_models, random_state, verbose, name)
    measure = str(parse_measure(measure))
    return _solve(labelled_task(texts, labels, test, measure, how.seed), measure, how)


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
    how = _Settings(analyser, n_models, random_state, verbose, name)
    measure = str(parse_measure(measure))
    judged = links_as_judgements(links, "links")
    to_choose, to_report = (
        None if part is None else links_as_judgements(part, what)
        for part, what in ((validation, "validation"), (test, "test"))
    )
    task = judged_task(docs, docs, judged, to_choose, to_report, measure, how.seed, linked=True)
    return _solve(task, measure, how)


# -- choosing ---------------------------------------------------------------------------------------------------------


class _Settings:
    """What all recipes of texts are given besides the evidence, checked."""

    def __init__(
        self, analyser: Analyser | None, n_models: int, random_state: int, verbose: bool | None, name: str
    ) -> None:
        if not isinstance(name, str):
            raise InputError(f"name is what the report calls the data, a string; got {name!r}")
        self.analyser = analyser
        self.n_models = check_integer(n_models, "n_models")
        self.seed = check_seed(random_state)
        self.verbose = verbose
        self.name = name


def _solve(task: Task, measure: str, how: _Settings) -> TextModel:
    began = time.perf_counter()
    spaces, space = _choose_words(task, how.analyser)
    learned, chosen, curves = _learn(space, task, how)
    before, after = space.validation.values(space.start), space.validation.values(learned)
    decision = decide(
        space.gain(before, after), before, after, start=space.name, measure=measure, n_models=how.n_models
    )
    model = TextModel(space.vectoriser, space.vectoriser, learned if decision.accepted else space.start)
    outcome = Outcome(measure, *decision, chosen, before, after, curves, how.name, how.seed)
    seconds = time.perf_counter() - began
    return replace(model, report=make_report(model, task.facts, spaces, space, outcome, seconds))


def _choose_words(task: Task, analyser: Analyser | None) -> tuple[list[Space], Space]:
    """The spaces of the analyser that is given, or chosen, and the one of them that matches words best."""
    analysers = [Analyser(stop_words="english", stemmer=stemmer) for stemmer in (None, "english")]
    spaces: list[Space] = []
    best: Space | None = None
    for tried in analysers if analyser is None else [analyser]:
        weighted = [task.space(weighting, tried) for weighting in WEIGHTINGS]
        trials = [Trial({"vectors": space.name}, np.array(space.validation(space.start))) for space in weighted]
        space = weighted[choose(trials)]
        if best is None or space.gain(*(one.validation.values(one.start) for one in (best, space))).is_clear:
            spaces, best = weighted, space
    assert best is not None
    return spaces, best


def _learn(space: Space, task: Task, how: _Settings) -> tuple[Weights, dict[str, Any], CurveRecorder]:
    """The best candidate on validation, the mean of its models, blended with more or less of the identity."""
    n_steps = n_steps_for(task.n_judgements)
    curves = CurveRecorder(space, n_steps)

    def train(candidate: dict[str, Any], seed: int, *callbacks: Callback) -> Weights:
        source = SampledSource(task.sampler, n_steps, random_state=seed)
        return low_rank(candidate, seed, how.verbose).fit(space.Q, source, space.D, callbacks=callbacks).weights_

    trials = []
    for listed in task.candidates:
        candidate = fitting_candidate(listed, space.D.shape)
        weights = train(candidate, how.seed, curves.of(candidate))
        value, extra = _blend(space, weights, candidate["identity_weight"])
        trials.append(Trial(candidate, np.array(value), result=(weights, extra)))
    best = trials[choose(trials)]
    candidate, (weights, extra) = best.setting, best.result
    curves.choose(candidate)
    chosen = {"vectors": space.name, "steps": n_steps, **candidate}
    if how.n_models > 1:
        for seed in range(how.seed + 1, how.seed + how.n_models):
            weights = weights + train(candidate, seed)
        weights = weights * (1 / how.n_models)
        _, extra = _blend(space, weights, candidate["identity_weight"])
        chosen["models"] = how.n_models
    return weights + space.start * extra, {**chosen, "blend": extra}, curves


def _blend(space: Space, weights: Weights, identity_weight: float) -> tuple[float, float]:
    """The best value on validation, higher is better, and how much of the identity gives it."""
    extra = [blend * identity_weight for blend in BLENDS]
    values = space.validation.values_of_blends(weights, space.start, extra).mean(axis=1)
    values = values if space.validation.measure.higher_is_better else -values
    best = choose([Trial({"blend": factor}, value) for factor, value in zip(extra, values, strict=True)])
    return float(values[best]), extra[best]
