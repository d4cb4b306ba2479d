"""``tc.fit``, ``tc.fit_labeled`` and ``tc.fit_linked``: check the evidence, make a task, and solve the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tercet._validate import check_seed, is_number
from tercet.data.click_counts import as_clicks
from tercet.data.documents import as_documents
from tercet.data.link_tables import as_links
from tercet.data.triplets import as_evidence
from tercet.errors import InputError
from tercet.fitting.judged import links_as_judgements
from tercet.fitting.options import FitOptions
from tercet.fitting.rankers import RankerChoice, candidates_of
from tercet.fitting.solve import solve
from tercet.fitting.task import Task
from tercet.fitting.text_model import TextModel


def fit(
    docs: Any,
    queries: Any = None,
    qrels: Any = None,
    *,
    preferences: Any = None,
    clicks: Any = None,
    ranker: RankerChoice | None = None,
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
    queries : id -> text, a list of texts, or records or a frame with an id and a text; optional if judgements,
        preferences or clicks name queries by their texts
    qrels : qid -> doc_id -> grade, or records or a frame with a query, by id or text, a document and a grade
    preferences : triplets (query, better document, worse document), or records or a frame of triplets: the id or text
        of a query, and ids of documents; a fourth value is a weight
    clicks : lists of results and the clicks on each: (query, shown, clicked) in the order of time, or a path, records
        or a frame for `read_click_log`; or aggregated clicks for `read_click_counts`; see docs/guides/clicks.md
    ranker : ranker of the words: a name ("low-rank", "sparse", "dense", "diagonal", "pruned", "hashed", "correlated",
        "lsi" or "cosine"), a term-pair ranker such as ``tc.SparseRanker(density=0.05)``, or a list of these to choose
        from; None is "low-rank". A ranker with the default rate and schedule is also tried with the settings of its
        short name
    measure : measure of the choice and of the report, on queries left out in turn; see docs/explain/recipe.md.
        "nDCG@10" by default. Preferences and clicks without judgements are measured by the share of a query's pairs
        in the right order, "PairAccuracy"; equal scores count a half
    new_documents : expected share of new documents among the answers, 0 to 1; 0 for a closed catalog. None takes the
        share at the end of a click log, else .3 or more
    options : further options, as `FitOptions` or a mapping: tokenizer, fields, numbers, budget

    Returns
    -------
    TextModel
        The ``report`` has the table and the decision. If the expected gain is within a standard error (two for fewer
        than 60 queries), the model is the start, and `TextModel.with_parts` uses the learned parts all the same.

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
    Each query was left out twice, in 5 folds, to choose and report on the model; the final model learned from all.
    """
    how, seed = _checked(options, ranker, random_state)
    if new_documents is not None and not is_number(new_documents, 0, 1):
        raise InputError(f"new_documents is a share from 0 to 1; got {new_documents!r}")
    docs = as_documents(docs)
    queries, evidence = as_evidence(queries, qrels=qrels, preferences=preferences)
    qrels, preferences = evidence.values()
    if qrels is None and preferences is None and clicks is None:
        raise InputError("there must be something to learn from: qrels, preferences or clicks")
    if preferences is None and clicks is None and queries is None:
        raise InputError("judgements are of queries; give their texts, id -> text")
    task = Task.from_evidence(
        docs,
        queries,
        qrels=qrels,
        preferences=preferences,
        clicks=None if clicks is None else as_clicks(clicks),
        measure=measure,
        new_documents=new_documents,
        min_sessions=how.min_sessions,
        random_state=seed,
    )
    return solve(task, ranker, how, seed)


def fit_labeled(
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    ranker: RankerChoice | None = None,
    measure: str = "AP",
    random_state: int = 0,
    options: FitOptions | Mapping[str, Any] | None = None,
) -> TextModel:
    """Learn from the labels of texts: each text is a query for the other texts of its class.

    Texts are left out of learning in turn, and each left-out text is a query for the texts of its fold. Texts to come
    have no past queries: the model has no memory. Other parameters as in ``fit``.

    Examples
    --------
    >>> pairs = [("cats", "purr"), ("cats", "meow"), ("kittens", "purr"), ("dogs", "bark"), ("dogs", "howl")]
    >>> texts = [f"{noun} {verb} {i}" for i in range(5) for noun, verb in pairs]
    >>> labels = ["cat", "cat", "cat", "dog", "dog"] * 5
    >>> model = fit_labeled(texts, labels, ranker="diagonal", options={"n_steps": 200})
    >>> model.report.measure
    'AP'
    """
    how, seed = _checked(options, ranker, random_state)
    return solve(Task.from_labels(texts, labels, measure, seed), ranker, how, seed)


def fit_linked(
    docs: Any,
    links: Any,
    *,
    ranker: RankerChoice | None = None,
    measure: str = "AP",
    new_documents: float | None = None,
    random_state: int = 0,
    options: FitOptions | Mapping[str, Any] | None = None,
) -> TextModel:
    """Learn the links between documents: each document is a query for its link targets, among all other documents.

    Parameters
    ----------
    docs : id -> text, or whatever `as_documents` takes: id -> record, a list of records, a frame
    links : id -> ids of the link targets, pairs (source, target), or records or a frame with a source and a target
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
    task = Task.from_evidence(
        docs,
        docs,
        qrels=links_as_judgements(as_links(links, docs, "links")),
        measure=measure,
        linked=True,
        new_documents=new_documents,
        random_state=seed,
    )
    return solve(task, ranker, how, seed)


def _checked(
    options: FitOptions | Mapping[str, Any] | None, ranker: RankerChoice | None, random_state: int
) -> tuple[FitOptions, int]:
    """Check options, ranker and seed before texts are read."""
    if not isinstance(options, FitOptions):
        try:
            options = FitOptions(**options or {})
        except TypeError as error:
            names = ", ".join(FitOptions.__dataclass_fields__)
            raise InputError(f"options: {error}; there are {names}") from None
    seed = check_seed(random_state)
    candidates_of(ranker, seed)
    return options, seed
