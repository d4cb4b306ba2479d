"""The recipe behind ``tc.fit``: choose how words match by all queries, try candidates on queries and documents that
they learn without, keep what was learned only when it is clearly better there, and learn from everything."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tercet.data.click_tables import as_click_log
from tercet.data.documents import as_documents
from tercet.data.link_tables import as_links
from tercet.data.triplets import as_evidence
from tercet.errors import InputError
from tercet.fitting.baselines import choose_start, start_summary
from tercet.fitting.evidence import evidence_task
from tercet.fitting.hybrid import VectorPair, VectorTrials
from tercet.fitting.out_of_fold import Accept
from tercet.fitting.outcome import Outcome, make_report
from tercet.fitting.prior import KnownWords
from tercet.fitting.rankers import (
    RankerChoice,
    candidates_of,
    decomposing_once,
)
from tercet.fitting.scored_columns import Fields, ScoredColumns, chosen_weights, words_alone
from tercet.fitting.task import EVERY, Task
from tercet.fitting.text_model import TextModel
from tercet.fitting.texts import judged_task, labelled_task, links_as_judgements
from tercet.fitting.trials import FitSettings, Search, candidate_summary
from tercet.learn.starts import remembering_starts
from tercet.measure.names import parse_measure
from tercet.text import Analyser


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
    doc_vectors: Any = None,
    query_vectors: Any = None,
    prior: Any = None,
    validation: Any = None,
    test: Any = None,
    measure: str | None = None,
    analyser: Analyser | None = None,
    vocabulary: Any = None,
    n_steps: int | None = None,
    n_models: int | None = None,
    budget: float | None = None,
    accept: Accept = "all",
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
    preferences : triplets (query, better document, worse document), or records or a frame of them: the id of a query or
        its text, and ids of documents; a fourth value is a weight
    clicks : lists of results that were shown, and what of each was clicked: (query, shown, clicked) in the order of
        time, or a path, records or a frame as `read_click_log` takes them; see docs/guides/clicks.md
    ranker : what is learned: a name ("low-rank", "sparse", "dense", "diagonal", "pruned", "hashed", "correlated",
        "lsi" or "cosine"), a term-pair ranker such as ``tc.SparseRanker(density=0.05)``, or a list of
        these, of which the best on validation is taken; None is "low-rank". A ranker that leaves rate and schedule as
        its class has them is also tried with those that are meant for texts; it is not changed itself
    fields : columns of text with a match of their own, ``{"title": 2.0}``: how much that is said to count, in units of
        one in the whole text, where learning starts from; or their names alone, which count 1
    features : columns of numbers, as they are or by a transform: ``["price", "log:downloads"]``,
        see docs/guides/fields.md
    doc_vectors, query_vectors : vectors of the user's own, one for each document and each query: id -> vector, a pair
        (ids, matrix) or a file. A map between them is learned and blended with the words, where that is clearly better;
        see docs/guides/vectors.md
    prior : pairs of words that are known to belong together, or never to: a table's path, rows, or a mapping such as
        ``{("car", "automobile"): 0.5}``. What is learned is added to them
    validation, test : judgements, or preferences, of other queries, to choose and to report on
        Without them, training queries are left out in turn to choose and to report on, see docs/explain/recipe.md
    measure : what validation is by: "nDCG@10" by default. Preferences and clicks without judgements are measured by the
        share of a query's pairs in the right order, "PairAccuracy"; equal scores count a half
    analyser : how texts are tokenised; by default words of two letters or more, reduced to their English stems, unless
        words as they are written or words without English stop words match clearly better
    vocabulary : a text model, such as that of an index, whose words and their weights are kept, so that what is
        learned can be served over that index; None takes those of the documents and of the queries to learn from
    n_steps : how many preferences are drawn to learn from; default 20 for each judgement, but 20,000 to as many
        as there is time for, at most 3,000,000
    n_models : how many models of as many seeds are averaged in the end; default 3 for low-rank ones, which are brought
        back to the size of one
    budget : seconds, about: how much is tried follows it; without one, as much as takes a minute or so
    accept : "all": what is learned must not take from documents that no training query had as an answer; "seen" accepts
        it where it does
    verbose : None shows progress on a terminal, True always, False never
    name : what the report calls the data

    Returns
    -------
    TextModel
        Its ``report`` has the table and says whether learning was accepted. Where it is not better than how words match
        at the start by more than one standard error, or takes from new documents, the model is that start.

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
    columns = ScoredColumns.from_arguments(fields, features)
    how = FitSettings(
        analyser, n_models, budget, accept, random_state, verbose, name, ranker, n_steps, columns, prior, vocabulary
    )
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
    else:
        if queries is None:
            raise InputError("judgements are of queries; give their texts, id -> text")
        assert qrels is not None
        chosen_by = str(parse_measure(measure or "nDCG@10"))
        task = judged_task(docs, queries, qrels, validation, test, chosen_by, how.seed)
    return _solve(task, chosen_by, how, VectorPair.from_vectors(doc_vectors, query_vectors, docs, task.qids))


def fit_labelled(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    ranker: RankerChoice | None = None,
    prior: Any = None,
    test: tuple[Sequence[str], Sequence[str]] | None = None,
    measure: str = "AP",
    analyser: Analyser | None = None,
    vocabulary: Any = None,
    n_steps: int | None = None,
    n_models: int | None = None,
    budget: float | None = None,
    accept: Accept = "all",
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn which texts belong together from their labels: each text is a query for the others of its class.

    Texts are left out of learning in turn, and queried against others that were left out with them. The report is of
    the ``test`` texts and labels, each against all others, or of training texts that were left out. ``ranker``,
    ``prior``, ``vocabulary``, ``n_steps``, ``n_models``, ``budget``, ``name`` as in ``fit``.

    Examples
    --------
    >>> pairs = [("cats", "purr"), ("cats", "meow"), ("kittens", "purr"), ("dogs", "bark"), ("dogs", "howl")]
    >>> texts = [f"{noun} {verb} {i}" for i in range(5) for noun, verb in pairs]
    >>> model = fit_labelled(texts, ["cat", "cat", "cat", "dog", "dog"] * 5, ranker="diagonal", n_steps=200)
    >>> model.report.measure
    'AP'
    """
    how = FitSettings(
        analyser, n_models, budget, accept, random_state, verbose, name, ranker, n_steps, None, prior, vocabulary
    )
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
    vocabulary: Any = None,
    n_steps: int | None = None,
    n_models: int | None = None,
    budget: float | None = None,
    accept: Accept = "all",
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
    validation, test : links of other documents, to choose and to report on. Without them, documents with links are
        left out in turn, as the queries of ``fit`` are
    ranker, prior, measure, analyser, vocabulary, n_steps, n_models, random_state, verbose, name : as in ``fit``

    Examples
    --------
    >>> docs = {f"{animal}{i}": f"{animal} {i}" for animal in ("cat", "dog") for i in range(10)}
    >>> links = {one: [other for other in docs if other[:3] == one[:3] and other != one] for one in docs}
    >>> model = fit_linked(docs, links)
    >>> next(iter(model.rank({"q": "dog"}, docs, k=1)["q"]))[:3]
    'dog'
    """
    how = FitSettings(
        analyser, n_models, budget, accept, random_state, verbose, name, ranker, n_steps, None, prior, vocabulary
    )
    measure = str(parse_measure(measure))
    docs = as_documents(docs)
    judged = links_as_judgements(as_links(links, docs))
    to_choose, to_report = (
        None if part is None else links_as_judgements(as_links(part, docs, what))
        for part, what in ((validation, "validation"), (test, "test"))
    )
    task = judged_task(docs, docs, judged, to_choose, to_report, measure, how.seed, linked=True)
    return _solve(task, measure, how)


# -- solving ----------------------------------------------------------------------------------------------------------


def _solve(task: Task, measure: str, how: FitSettings, vectors: VectorPair | None = None) -> TextModel:
    began = time.perf_counter()
    spaces, space = choose_start(task, how.analyser, how.columns, how.vocabulary)
    known = None if how.prior is None else KnownWords.between(how.prior, space.vectoriser)
    if known is not None:
        task, plain, space = replace(task, facts=known.summary(task.facts)), space, known.start(space)
        spaces = spaces if space is plain else [*spaces, space]
    candidates = candidates_of(how.ranker, how.seed, labelled=task.labelled)
    search = Search(space, task, how, known, measure, began)
    with remembering_starts(), decomposing_once({}):
        choice = search.choose(candidates)
        # What is rejected is measured where there is something to measure it by, and else not learned again.
        final = search.learn(choice) if choice.decision.accepted or space.test else None
        chosen = {**start_summary(space), **candidate_summary(choice.tried.candidate), "blend": choice.blend}
        out_of_fold = search.out_of_fold
        if vectors is not None:
            trials = VectorTrials(search, choice, vectors)
            offset = trials.choose()
            task = replace(task, facts=replace(task.facts, notes=(*task.facts.notes, offset.note)))
            if offset.accepted:
                final = trials.learn(offset, final if choice.decision.accepted else None)
                if not choice.decision.accepted:
                    chosen = start_summary(space)
                chosen |= offset.summary()
                spaces = [offset.space if one is space else one for one in spaces]
                space, choice, out_of_fold = offset.space, offset.choice, offset.out_of_fold
            spaces = [offset.raw, *spaces]
    n_folds = len(search.out_of_fold.folds)
    if n_folds < len(task.folds):
        split = (
            f"There was time for {n_folds} of {len(task.folds)} folds: {len(choice.before[EVERY]):,} queries were left "
            "out of learning to choose by; then all were learned from."
        )
        task = replace(task, facts=replace(task.facts, split=split))
    words = space.vectoriser
    model = TextModel(words, words, space.start)
    if not choice.decision.accepted and space.given_start is None:
        plain = words_alone(space)  # so that documents need no columns to be searched
        model = TextModel(plain.vectoriser, plain.vectoriser, plain.start)
    if choice.decision.accepted:
        assert final is not None
        model = TextModel(words, words, final.weights, words=final.words)
    if final is not None:
        chosen |= {**final.summary, **chosen_weights(space.vectoriser, final.weights)}
    outcome = Outcome(
        measure,
        choice,
        chosen,
        search.curves,
        out_of_fold,
        how.name,
        how.seed,
        None if final is None else final.weights,
    )
    seconds = time.perf_counter() - began
    return replace(model, report=make_report(model, task.facts, spaces, space, outcome, seconds))
