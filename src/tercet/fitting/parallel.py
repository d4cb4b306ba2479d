"""Texts in two languages, some of them translations: a model that finds documents by queries in another language."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer, check_seed
from tercet.choose import Gain, Trial, choose
from tercet.data.documents import as_documents
from tercet.data.sampling import JudgementSampler, check_grade
from tercet.data.triplets import as_evidence
from tercet.errors import InputError
from tercet.fitting.rankers import n_steps_for
from tercet.fitting.task import decide
from tercet.fitting.text_model import TextModel
from tercet.learn import HardSource, LowRankRanker, MultiTaskRanker, SampledSource
from tercet.learn.lsi import common_directions, directions_of, mapped_to
from tercet.learn.starts import for_cosine
from tercet.measure.held_out import HeldOut, HeldOutQueries
from tercet.measure.names import parse_measure
from tercet.report import Report, SystemResult, changes_between
from tercet.text import Analyser, Vectoriser
from tercet.weights import LowRank, Weights

CL_LSI, RIDGE_MAP, BOTH = "CL-LSI", "ridge map", "both"  # names of starts in the report
WIDTHS: Final = (25, 50, 100, 200, 400)
# Rates for latent vectors of length 1; a step on the cosine counts by the inverse square of the length.
FOR_TRANSLATIONS: Final = {"margin": 0.1, "rate": 0.02}
FOR_JUDGEMENTS: Final = {"margin": 0.5, "rate": 0.1}
_STEPS_PER_TRANSLATION, _FEWEST_STEPS, _MOST_STEPS = 16, 16_384, 131_072
_HARD, _DEPTH = 0.8, 30  # share of worse documents from the top of the current ranking, and the depth of this top
_MOST_RANKED = 300_000_000  # scores of the ranking for hard negatives; a sample of more translations is learned from
_N_VALIDATIONS = 5  # while learning
_FEWEST = 20
_MOST_HELD_OUT = 1000
_WITHOUT_BLANKS = re.compile(r"[぀-ヿ㐀-䶿一-鿿฀-๿]")  # kana, Han and Thai characters

Rows = NDArray[np.int64]


def fit_parallel(
    queries: Any,
    docs: Any,
    translations: Any = None,
    *,
    qrels: Any = None,
    measure: str = "nDCG@10",
    query_analyser: Analyser | None = None,
    doc_analyser: Analyser | None = None,
    max_features: int = 30_000,
    n_steps: int | None = None,
    random_state: int = 0,
    verbose: bool | None = None,
    name: str = "",
) -> TextModel:
    """Learn to find documents by queries in another language, from texts that exist in both.

    The start puts cross-language LSI and a ridge map between two LSI spaces side by side, each at the best of 25 to 400
    components on held-out queries. One of the two alone is the start if it is better by more than one standard error.
    Learning then improves the cosine of latent vectors: from translations in both directions, against the documents
    ranked above them, or from judgements if there are any. Learning is rejected unless it is better than the start on
    held-out queries by more than one standard error.

    Parameters
    ----------
    queries, docs : id -> text, records or a frame, each in its own language; a query may be as long as a document
    translations : pairs (query id, document id) of texts with the same meaning, or a mapping; a text has one
        translation. None: texts with the same id
    qrels : qid -> doc_id -> grade, optional: relevant documents besides translations, such as linked pages. A query's
        own translation is then left out of its ranking, unless it is judged
    measure : measure of judgements; translations are measured by the reciprocal rank (RR) of a text's translation
    query_analyser, doc_analyser : tokenizers; by default words of two letters or more, and pairs of characters for
        languages written without blanks
    max_features : words of each language, the most frequent ones
    n_steps : preferences to learn from; default 16 for each translation, 16,384 to 131,072, or as in ``fit`` for
        judgements
    random_state, verbose, name : as in ``fit``

    Returns
    -------
    TextModel
        With a vectoriser for each side. Its ``report`` has all starts and the learned model on untouched queries.

    Notes
    -----
    A tenth of the queries is held out to choose by, and another to report on: at most 1,000 each, and up to 50 of fewer
    than 500. Nothing is learned from their translations.

    Examples
    --------
    >>> numbers = ["eins", "zwei", "drei", "vier", "fünf"], ["one", "two", "three", "four", "five"]
    >>> rng = np.random.default_rng(0)
    >>> drawn = {str(i): rng.integers(0, 5, 6) for i in range(60)}
    >>> german, english = ({i: " ".join(words[n] for n in row) for i, row in drawn.items()} for words in numbers)
    >>> model = fit_parallel(german, english)
    >>> best = next(iter(model.rank({"q": "drei drei drei"}, english, k=1)["q"]))
    >>> "three" in english[best]
    True
    """
    began = time.perf_counter()
    seed = check_seed(random_state)
    measures = ["RR", "Success@1", "R@10"]
    if qrels is not None:
        measures = list(dict.fromkeys([str(parse_measure(measure)), "AP", "RR"]))
    query_texts, evidence = as_evidence(queries, qrels=qrels)
    doc_texts = as_documents(docs)
    assert query_texts is not None
    pairs = _pairs(translations, list(query_texts), list(doc_texts))
    own = sparse.csr_array((np.ones(len(pairs), np.int64), pairs.T), shape=(len(query_texts), len(doc_texts)))
    grades = own if qrels is None else _grades(evidence["qrels"], query_texts, doc_texts)
    sides = [
        Vectoriser(analyser=analyser or _analyser_for(texts), max_features=check_integer(max_features, "max_features"))
        for analyser, texts in ((query_analyser, list(query_texts.values())), (doc_analyser, list(doc_texts.values())))
    ]
    Q, D = (
        side.fit_transform_docs(texts.values()) for side, texts in zip(sides, (query_texts, doc_texts), strict=True)
    )
    train, *held_out = _split(np.unique(grades.nonzero()[0]), seed)
    known = pairs[np.isin(pairs[:, 0], np.concatenate(held_out), invert=True)]
    if len(known) < _FEWEST:
        raise InputError(f"{len(known)} translations are too few to learn from; give at least {_FEWEST}")
    qids, hidden = list(query_texts), sparse.csr_array(own - own.multiply(grades > 0))
    validation, test = (
        HeldOutQueries(
            Q[rows], D, grades[rows], tuple(qids[row] for row in rows), parse_measure(measures[0]), hidden=hidden[rows]
        )
        for rows in map(np.sort, held_out)
    )
    start_name, starts = best_starts(Q, D, known, validation, seed)
    sampler, steps = None, int(np.clip(_STEPS_PER_TRANSLATION * len(known), _FEWEST_STEPS, _MOST_STEPS))
    if qrels is not None:
        cells = grades.tocoo()
        some = np.isin(cells.row, train)
        sampler = JudgementSampler(cells.row[some], cells.col[some], cells.data[some], n_docs=D.shape[0])
        steps = n_steps_for(int(some.sum()))
    steps = steps if n_steps is None else check_integer(n_steps, "n_steps")
    start = starts[start_name]
    learned, setting = learn(start, Q, D, known, validation, steps, seed, sampler=sampler, verbose=verbose)
    before, after = validation.values(start), validation.values(learned)
    gain = Gain.between(before, after, higher_is_better=validation.measure.higher_is_better)
    decision = decide(gain, before, after, start=start_name, measure=measures[0], queries="validation queries")
    evaluations = {name: test.evaluate(weights, measures) for name, weights in starts.items()}
    learned_test = test.evaluate(learned, measures)
    systems = [SystemResult.from_evaluation(one, evaluations[one]) for one in sorted(starts, key=start_name.__eq__)]
    result = SystemResult.from_evaluation("learned", learned_test)
    report = Report(
        measure=measures[0],
        n_train=len(train),
        n_validation=len(validation.qids),
        n_test=len(test.qids),
        split=f"{len(known):,} translations were learned from; those of held-out queries were not.",
        systems=(*systems, result) if decision.accepted else tuple(systems),
        accepted=decision.accepted,
        decision=decision.text,
        changes=changes_between(learned_test, evaluations[start_name], measures[0]),
        chosen={"start": start_name, **setting},
        seconds=time.perf_counter() - began,
        notes=(name,) if name else (),
        rejected=None if decision.accepted else result,
    )
    return TextModel(sides[0], sides[1], learned if decision.accepted else start, report)


# -- the data ---------------------------------------------------------------------------------------------------------


def _pairs(translations: Any, query_ids: list[str], doc_ids: list[str]) -> Rows:
    """Check translations and return them as rows of queries and documents (n, 2)."""
    rows = [{key: row for row, key in enumerate(ids)} for ids in (query_ids, doc_ids)]
    if translations is None:
        given: Iterable[tuple[Any, Any]] = ((key, key) for key in query_ids if key in rows[1])
    else:
        given = translations.items() if isinstance(translations, Mapping) else translations
    pairs = []
    for number, pair in enumerate(given):
        try:
            query, doc = (str(key) for key in pair)
            pairs.append((rows[0][query], rows[1][doc]))
        except (TypeError, ValueError):
            raise InputError(f"translations[{number}] is {pair!r}; a pair (query id, document id) is needed") from None
        except KeyError as error:
            raise InputError(f"translations[{number}] is {pair!r}; there is no text {error}") from None
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    for side, ids in enumerate((query_ids, doc_ids)):
        row, count = np.unique(array[:, side], return_counts=True)
        if (count > 1).any():
            raise InputError(f"the text {ids[row[count > 1][0]]!r} has more than one translation")
    if len(array) < _FEWEST:
        raise InputError(f"{len(array)} translations are too few to learn from; give at least {_FEWEST}")
    return array


def _grades(qrels: Any, queries: Mapping[str, str], docs: Mapping[str, str]) -> sparse.csr_array:
    """Grades by rows of queries and documents."""
    rows, columns = ({key: row for row, key in enumerate(ids)} for ids in (queries, docs))
    cells = []
    for qid, judged in qrels.items():
        for doc_id, grade in judged.items():
            if qid not in rows or doc_id not in columns:
                raise InputError(f"qrels judge {doc_id!r} for {qid!r}; there is no such query or document")
            cells.append((rows[qid], columns[doc_id], check_grade(qid, doc_id, grade)))
    row, column, grade = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    grades = sparse.csr_array((grade, (row, column)), shape=(len(queries), len(docs)))
    grades.eliminate_zeros()
    return grades


def _analyser_for(texts: list[str]) -> Analyser:
    """Tokenise words, or pairs of characters if most of a sample of the texts is written without blanks."""
    sample = "".join(text[:500] for text in texts[:: max(1, len(texts) // 200)])
    letters = sum(map(str.isalpha, sample))
    return Analyser(tokenizer="characters" if 2 * len(_WITHOUT_BLANKS.findall(sample)) > letters else "words")


def _split(rows: Rows, seed: int) -> list[Rows]:
    """Split rows: to learn from, to choose by and to report on."""
    if rows.size < _FEWEST:
        raise InputError(f"{rows.size} queries are too few to hold any out; give at least {_FEWEST}")
    size = min(_MOST_HELD_OUT, max(rows.size // 10, min(50, rows.size // 5)))
    order = np.random.default_rng(seed).permutation(rows)
    return [order[2 * size :], order[:size], order[size : 2 * size]]


# -- learning ---------------------------------------------------------------------------------------------------------


def best_starts(
    Q: sparse.csr_array,
    D: sparse.csr_array,
    translations: Rows,
    validation: HeldOut,
    seed: int,
    widths: Sequence[int] = (),
) -> tuple[str, dict[str, Weights]]:
    """Return the name of the best start, and each start at its best width.

    The best start is both side by side, unless one alone is better by more than one standard error: two spaces rarely
    fail alike.
    """
    widths = widths or WIDTHS
    widest = min(max(widths), len(translations) - 1)
    higher = validation.measure.higher_is_better
    query_rows, doc_rows = Q[translations[:, 0]], D[translations[:, 1]]
    joint = common_directions(query_rows, doc_rows, widest, seed)
    A, B = (directions_of(texts, side, widest, seed) for texts, side in ((Q, "queries"), (D, "docs")))
    trials: dict[str, list[Trial]] = {CL_LSI: [], RIDGE_MAP: []}
    for width in [*(width for width in widths if width < widest), widest]:
        apart = A[:, :width], mapped_to(A[:, :width], B[:, :width], Q, D, translations)
        for name, (U, V) in ((CL_LSI, joint), (RIDGE_MAP, apart)):
            weights = _latent_space(U[:, :width], V[:, :width])
            trials[name].append(Trial({}, validation.values(weights), result=weights))
    starts = {name: tried[choose(tried, higher_is_better=higher)].result for name, tried in trials.items()}
    starts[BOTH] = side_by_side(starts[CL_LSI], starts[RIDGE_MAP], query_rows, doc_rows)
    values = {name: validation.values(weights) for name, weights in starts.items()}
    gains = {name: Gain.between(values[BOTH], values[name], higher_is_better=higher) for name in starts}
    clear = [name for name, gain in gains.items() if gain.is_clear]
    return max([BOTH, *clear], key=lambda name: gains[name].mean), starts


def side_by_side(one: Weights, other: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> Weights:
    """Join two latent spaces, so that texts such as those of Q and D have as much of the one as of the other.

    The cosine of the joined space is about the mean of the two cosines. The mean itself is no cosine of latent vectors,
    so learning could not start there.
    """
    U, V = (
        np.hstack([F / np.float32(np.sqrt(_mean_square(X @ F))) for F in factors])
        for X, factors in zip((Q, D), zip(_factors(one), _factors(other), strict=True), strict=True)
    )
    return _latent_space(U, V)


def _latent_space(U: NDArray[np.float32], V: NDArray[np.float32]) -> Weights:
    """Weights whose scores are cosines of latent vectors."""
    U, V = np.ascontiguousarray(U), np.ascontiguousarray(V)
    return Weights([LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True)])


def _factors(weights: Weights) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    [part] = weights.parts
    assert isinstance(part, LowRank)
    return part.query_factors, part.doc_factors


def _mean_square(latent: NDArray[np.float32]) -> float:
    """Mean square of the lengths of latent vectors."""
    return float(np.square(latent).sum(axis=1).mean()) or 1.0


def learn(
    start: Weights,
    Q: sparse.csr_array,
    D: sparse.csr_array,
    translations: Rows,
    validation: HeldOut,
    steps: int,
    seed: int,
    *,
    sampler: JudgementSampler | None = None,
    verbose: bool | None = None,
) -> tuple[Weights, dict[str, Any]]:
    """Learn from judgements, or without a ``sampler`` from translations; return the best weights and the settings.

    Translations are learned in both directions in turn, half of the steps each.
    """
    U, V = for_cosine(_factors(start))  # as the ranker begins
    square = (_mean_square(Q[translations[:, 0]] @ U) + _mean_square(D[translations[:, 1]] @ V)) / 2
    how = FOR_TRANSLATIONS if sampler is None else FOR_JUDGEMENTS
    setting = {"n_components": U.shape[1], "margin": how["margin"], "rate": how["rate"] * square}
    more: dict[str, Any] = {"schedule": "linear", "validate_every": max(1, steps // _N_VALIDATIONS)}
    more |= {"random_state": seed, "verbose": verbose}
    ranker: LowRankRanker | MultiTaskRanker
    if sampler is not None:
        ranker = LowRankRanker(**setting, **more)
        ranker.fit(Q, SampledSource(sampler, steps, random_state=seed), D, validation, start=start)
        return ranker.weights_, setting | {"steps": ranker.n_steps_}
    half = -(-steps // 2)

    def source(pairs: Rows, from_texts: sparse.csr_array, to_texts: sparse.csr_array) -> HardSource:
        n_docs = to_texts.shape[0]
        pairs = np.random.default_rng(seed).permutation(pairs)[: max(1000, _MOST_RANKED // n_docs)]
        known = JudgementSampler(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=np.int64), n_docs=n_docs)
        hard: dict[str, Any] = {"depth": _DEPTH, "hard": _HARD, "refresh_every": -(-half // 2)}
        return HardSource(known, from_texts, to_texts, half, random_state=seed, **hard)

    ranker = MultiTaskRanker(**setting, **more)
    there, back = source(translations, Q, D), source(translations[:, ::-1], D, Q)
    ranker.fit(Q, there, D, validation, reverse=back, start=start)
    return ranker.weights_, setting | {"steps": ranker.n_steps_}
