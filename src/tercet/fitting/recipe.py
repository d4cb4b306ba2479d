"""The recipe behind ``tc.fit``: choose how words match, train candidates on folds, mix words with memory, decide by the
expected value, and learn from everything."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tercet._validate import check_seed, is_number
from tercet.data.click_tables import as_click_log
from tercet.data.documents import as_documents
from tercet.data.link_tables import as_links
from tercet.data.triplets import as_evidence
from tercet.errors import InputError
from tercet.fitting.baselines import choose_start, start_summary
from tercet.fitting.evidence import evidence_task
from tercet.fitting.hybrid import AMOUNTS, SETTINGS, VectorMaps, VectorPair
from tercet.fitting.judged import links_as_judgements
from tercet.fitting.label_task import labelled_task
from tercet.fitting.mixes import Choice, Mix, MixSearch, ScoreTerms, make_memory, settings_of_memory, words_of
from tercet.fitting.options import FitOptions
from tercet.fitting.outcome import CurveRecorder, Outcome, make_report, measures_of
from tercet.fitting.prior import KnownWords
from tercet.fitting.rankers import RankerChoice, candidates_of
from tercet.fitting.scored_columns import chosen_weights, words_alone
from tercet.fitting.task import EVERY, KNOWN, Space, Task
from tercet.fitting.text_model import LearnedParts, TextModel
from tercet.fitting.trials import FinalModel, Trials
from tercet.measure.names import parse_measure
from tercet.text.fielded import OWN_VECTORS

_LONGEST_TEXT = 200  # characters of a past query that is a document


def fit(
    docs: Any,
    queries: Any = None,
    qrels: Any = None,
    *,
    preferences: Any = None,
    clicks: Any = None,
    doc_vectors: Any = None,
    query_vectors: Any = None,
    ranker: RankerChoice | None = None,
    validation: Any = None,
    test: Any = None,
    measure: str | None = None,
    new_documents: float | None = None,
    random_state: int = 0,
    options: FitOptions | Mapping[str, Any] | None = None,
) -> TextModel:
    """Learn words and memory from judgements, preferences or clicks, and report the gain over BM25.

    Several kinds of evidence may be given together; the report shows each.

    Parameters
    ----------
    docs : id -> text, or whatever `as_documents` takes: id -> record, a list of records, a frame
    queries : id -> text, a list of texts, or records or a frame with an id and a text; may be left out where
        judgements, preferences or clicks name queries by their texts
    qrels : qid -> doc_id -> grade, or records or a frame with a query, by id or text, a document and a grade
    preferences : triplets (query, better document, worse document), or records or a frame of them: the id of a query or
        its text, and ids of documents; a fourth value is a weight
    clicks : lists of results and the clicks on each: (query, shown, clicked) in the order of time, or a path, records
        or a frame as `read_click_log` takes them; see docs/guides/clicks.md
    doc_vectors, query_vectors : own vectors, one for each document and each query: id -> vector, a pair (ids, matrix)
        or a file; see docs/guides/vectors.md
    ranker : ranker of the words: a name ("low-rank", "sparse", "dense", "diagonal", "pruned", "hashed", "correlated",
        "lsi" or "cosine"), a term-pair ranker such as ``tc.SparseRanker(density=0.05)``, or a list of these to choose
        from; None is "low-rank". A ranker that leaves rate and schedule as its class has them is also tried with those
        that are meant for texts
    validation, test : judgements, or preferences, of other queries, to choose and to report on. Without them, training
        queries are left out in turn, see docs/explain/recipe.md
    measure : measure of the choice: "nDCG@10" by default. Preferences and clicks without judgements are measured by the
        share of a query's pairs in the right order, "PairAccuracy"; equal scores count a half
    new_documents : expected share of answers that are new documents, 0 to 1; 0 for a closed catalogue. None takes the
        share at the end of a click log, else .3 or more
    options : further options, as `FitOptions` or a mapping: tokenizer, fields, numbers, prior, budget

    Returns
    -------
    TextModel
        Its ``report`` has the table and the decision. If the expected gain is within one standard error (two for fewer
        than 60 queries), the model is the start, and `TextModel.with_parts` uses what was learned all the same.

    Examples
    --------
    >>> docs = {"a": "cats purr", "b": "dogs bark", "c": "fish swim"}
    >>> queries = {str(i): t for i, t in enumerate(["purr", "bark", "swim"] * 4)}
    >>> qrels = {q: {"abc"[int(q) % 3]: 1} for q in queries}
    >>> model = fit(docs, queries, qrels)
    >>> next(iter(model.rank({"q": "bark"}, docs, k=1)["q"]))
    'b'
    >>> triplets = [(f"{animal} {i}", right, wrong) for i in range(4) for animal, right, wrong in
    ...           (("feline", "a", "b"), ("canine", "b", "c"), ("finny", "c", "a"))]
    >>> print(fit(docs, preferences=triplets).report.split)
    Each query was left out twice, in 5 folds, to choose and to report on; then all were learned from.
    """
    how, seed = _checked(options, ranker, random_state)
    if new_documents is not None and not is_number(new_documents, 0, 1):
        raise InputError(f"new_documents is a share from 0 to 1; got {new_documents!r}")
    docs = as_documents(docs)
    queries, given = as_evidence(queries, qrels=qrels, preferences=preferences, validation=validation, test=test)
    qrels, preferences, validation, test = given.values()
    if qrels is None and preferences is None and clicks is None:
        raise InputError("there must be something to learn from: qrels, preferences or clicks")
    if preferences is None and clicks is None and queries is None:
        raise InputError("judgements are of queries; give their texts, id -> text")
    task, chosen_by = evidence_task(
        docs,
        queries,
        qrels=qrels,
        preferences=preferences,
        clicks=None if clicks is None else as_click_log(clicks),
        validation=validation,
        test=test,
        measure=measure,
        new_documents=new_documents,
        min_sessions=how.min_sessions,
        random_state=seed,
    )
    vectors = VectorPair.from_vectors(doc_vectors, query_vectors, docs, task.qids)
    return _solve(task, chosen_by, ranker, how, seed, vectors)


def fit_labelled(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    ranker: RankerChoice | None = None,
    test: tuple[Sequence[str], Sequence[str]] | None = None,
    measure: str = "AP",
    random_state: int = 0,
    options: FitOptions | Mapping[str, Any] | None = None,
) -> TextModel:
    """Learn which texts belong together from their labels: each text is a query for the other texts of its class.

    Texts are left out of learning in turn, and queried against others that were left out with them. The report is on
    the ``test`` texts and labels, each against all others, or on training texts that were left out. Texts to come have
    no past queries, so the model has no memory. Other parameters as in ``fit``.

    Examples
    --------
    >>> pairs = [("cats", "purr"), ("cats", "meow"), ("kittens", "purr"), ("dogs", "bark"), ("dogs", "howl")]
    >>> texts = [f"{noun} {verb} {i}" for i in range(5) for noun, verb in pairs]
    >>> labels = ["cat", "cat", "cat", "dog", "dog"] * 5
    >>> model = fit_labelled(texts, labels, ranker="diagonal", options={"n_steps": 200})
    >>> model.report.measure
    'AP'
    """
    how, seed = _checked(options, ranker, random_state)
    measure = str(parse_measure(measure))
    return _solve(labelled_task(texts, labels, test, measure, seed), measure, ranker, how, seed)


def fit_linked(
    docs: Any,
    links: Any,
    *,
    ranker: RankerChoice | None = None,
    validation: Any = None,
    test: Any = None,
    measure: str = "AP",
    new_documents: float | None = None,
    random_state: int = 0,
    options: FitOptions | Mapping[str, Any] | None = None,
) -> TextModel:
    """Learn the links between documents: each document is a query for those it links to, among all but itself.

    Parameters
    ----------
    docs : id -> text, or whatever `as_documents` takes: id -> record, a list of records, a frame
    links : id -> ids of the documents it links to, pairs (source, target), or records or a frame with a source and a
        target
    validation, test : links of other documents, to choose and to report on. Without them, documents with links are
        left out in turn, as the queries of ``fit`` are
    ranker, measure, new_documents, random_state, options : as in ``fit``

    Examples
    --------
    >>> docs = {f"{animal}{i}": f"{animal} {i}" for animal in ("cat", "dog") for i in range(10)}
    >>> links = {one: [other for other in docs if other[:3] == one[:3] and other != one] for one in docs}
    >>> model = fit_linked(docs, links)
    >>> next(iter(model.rank({"q": "dog"}, docs, k=1)["q"]))[:3]
    'dog'
    """
    how, seed = _checked(options, ranker, random_state)
    docs = as_documents(docs)
    to_learn, to_choose, to_report = (
        None if part is None else links_as_judgements(as_links(part, docs, what))
        for part, what in ((links, "links"), (validation, "validation"), (test, "test"))
    )
    task, chosen_by = evidence_task(
        docs,
        docs,
        qrels=to_learn,
        validation=to_choose,
        test=to_report,
        measure=measure,
        linked=True,
        new_documents=new_documents,
        random_state=seed,
    )
    return _solve(task, chosen_by, ranker, how, seed)


def _checked(
    options: FitOptions | Mapping[str, Any] | None, ranker: RankerChoice | None, random_state: int
) -> tuple[FitOptions, int]:
    """Check options, ranker and seed before texts are read."""
    if not isinstance(options, FitOptions):
        try:
            options = FitOptions(**options or {})
        except TypeError as error:
            known = ", ".join(FitOptions.__dataclass_fields__)
            raise InputError(f"options: {error}; there are {known}") from None
    seed = check_seed(random_state)
    candidates_of(ranker, seed)
    return options, seed


# -- solving ----------------------------------------------------------------------------------------------------------


def _solve(
    task: Task,
    measure: str,
    ranker: RankerChoice | None,
    how: FitOptions,
    seed: int,
    vectors: VectorPair | None = None,
) -> TextModel:
    began = time.perf_counter()
    spaces, space = choose_start(task, how)
    known = None if how.pairs is None else KnownWords.between(how.pairs, space.vectoriser)
    if known is not None:
        task, plain, space = replace(task, facts=known.summary(task.facts)), space, known.start(space)
        spaces = spaces if space is plain else [*spaces, space]
    folds = task.folds(space.D)
    trials = Trials(space, task, folds, ranker, how, seed, known)
    curves = CurveRecorder(trials.folds[0].parts(space.Q, space.D)[0].held_out, space.start)
    trained = trials.run(curves)
    own = None if vectors is None else VectorMaps(space, task, vectors, how.n_steps, seed)
    mixed = space if own is None else own.space
    terms: list[tuple[str, ScoreTerms]] = []
    for fold, weights in ((one.fold, one.weights) for one in trained):
        words = weights if own is None else [own.widened(one) for one in weights]
        maps = [] if own is None else own.maps(fold.sampler)
        for part in fold.parts(mixed.Q, mixed.D):
            part_terms = ScoreTerms(part.held_out, mixed, words, maps, fold.past)
            terms += part_terms.by_case(fold) if part.name in (EVERY, fold.case) else [(part.name, part_terms)]
    blends = [one.blends for one in trials.candidates]
    mixer = MixSearch(terms, task.shares, blends, AMOUNTS if own is not None else (), measures_of(measure), seed)
    choice = mixer.choose(start_name=space.name, share_reason=task.share_reason)
    mix = choice.mix
    if mix.words is not None:
        curves.choose(trials.candidates[mix.words])
    built = _Built(task, trials, mixer, space, own)
    model, chosen = built.model(mix, choice.decision.accepted)
    if own is not None:
        spaces = [own.raw, *spaces]
        spaces = [mixed if one is space else one for one in spaces]
        task = replace(task, facts=replace(task.facts, notes=(*task.facts.notes, _vectors_note(own, choice))))
    systems = {}
    if mixed.test:
        systems = {name: built.learned(one)[0] for name, one in (("learned", mix), *choice.alone.items())}
    n_known, n_left_out = (sum(fold.case == KNOWN for fold in some) for some in (trials.folds, folds))
    if n_known < n_left_out:
        split = (
            f"There was time for {n_known} of {n_left_out} folds: {len(choice.before[EVERY]):,} queries were left out "
            "of learning to choose by; then all were learned from."
        )
        task = replace(task, facts=replace(task.facts, split=split))
    outcome = Outcome(measure, mixer.measures, choice, chosen, curves, trials.folds, how.name, seed, systems)
    seconds = time.perf_counter() - began
    return replace(model, report=make_report(model, task, spaces, mixed, outcome, seconds))


class _Built:
    """Models of a mix, learned from everything; each part is made once."""

    def __init__(self, task: Task, trials: Trials, mixer: MixSearch, space: Space, own: VectorMaps | None) -> None:
        self.task, self.trials, self.mixer, self.space, self.own = task, trials, mixer, space, own
        self.mixed = space if own is None else own.space
        self._words: dict[tuple[int, float], FinalModel] = {}

    def unit(self, mix: Mix) -> float:
        """Weight of plain matching that the candidate of a mix starts from: the unit of the other parts."""
        return 1.0 if mix.words is None else self.trials.candidates[mix.words].unit

    def learned(self, mix: Mix, *, with_vectors: bool = True) -> tuple[TextModel, dict[str, Any]]:
        """The model of a mix, and a summary of its settings; texts have columns for own vectors unless left out."""
        own = self.own if with_vectors else None
        mixed = self.space if own is None else own.space
        words, unit = mixed.vectoriser, self.unit(mix)
        weights, word_map, summary = mixed.start, None, start_summary(self.space)
        if mix.words is not None:
            candidate = self.trials.candidates[mix.words]
            key = mix.words, mix.blend
            if key not in self._words:
                self._words[key] = self.trials.learn(candidate, mix.blend)
            final = self._words[key]
            weights, word_map = final.weights, final.words
            weights = weights if own is None else own.widened(weights)
            summary |= {**final.summary, "blend": mix.blend, **chosen_weights(words, weights)}
        if mix.vectors is not None:
            assert own is not None
            weights = weights + own.map(mix.vectors, self.task.sampler) * (mix.amount * unit)
            summary |= {OWN_VECTORS: SETTINGS[mix.vectors].label, "weight of own vectors": mix.amount}
        memory = None
        if mix.has_memory:
            assert self.task.past is not None
            settings = settings_of_memory(mix, self.mixer.scale(mix), unit)
            texts = [self.task.facts.texts[qid][:_LONGEST_TEXT] for qid in self.task.qids]
            n_words = words_of(mixed)
            memory = make_memory(self.task.past, mixed.Q, n_words, texts, self.task.doc_ids, settings)
            shape = {"threshold": settings.threshold, "power": settings.power}
            summary |= {"memory": mix.weight, "pooled memory": mix.pooled, "unseen": mix.unseen, **shape}
        return TextModel(words, words, weights, words=word_map, memory=memory), summary

    def model(self, mix: Mix, accepted: bool) -> tuple[TextModel, dict[str, Any]]:
        """The model to ship, with the parts that are not used, and a summary."""
        learned, summary = self.learned(mix, with_vectors=mix.vectors is not None)
        words_used = mix.words is not None or mix.vectors is not None
        used = tuple(name for name, is_used in (("words", words_used), ("memory", mix.has_memory)) if is_used)
        if accepted:
            # Words that no mix wants are not learned from everything. Memory counts in the unit of the words.
            start = self.space.start if mix.vectors is None else self.mixed.start
            other = start * self.unit(mix) if words_used else None
            return replace(learned, learned=LearnedParts(used, other)), summary
        plain = self.space if self.space.given_start is not None else words_alone(self.space)
        model = TextModel(plain.vectoriser, plain.vectoriser, plain.start)
        if plain.vectoriser is not learned.doc_vectoriser:
            return model, summary  # documents need no columns, or vectors, to be searched
        other, memory = learned.weights * (1 / self.unit(mix)) if words_used else None, learned.memory
        if memory is not None:
            memory = replace(memory, settings=settings_of_memory(mix, self.mixer.scale(mix), 1.0))
        return replace(model, learned=LearnedParts((), other, memory)), summary


def _vectors_note(own: VectorMaps, choice: Choice) -> str:
    mix = choice.mix
    kept = mix.vectors is not None and choice.decision.accepted
    label = SETTINGS[mix.vectors].label if mix.vectors is not None else "no map of which was better than words"
    return f"Own vectors of {own.vectors.n_dims} numbers, {label}, were {'kept' if kept else 'left out'}."
