"""Texts in two languages, some of which mean the same: a model that finds documents by queries in another language."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from tercet.fitting.text_model import TextModel
from tercet.learn import HardSource, LowRankRanker, MultiTaskRanker, SampledSource
from tercet.learn.lsi import common_directions, directions_of, mapped_to
from tercet.learn.starts import for_cosine, turned
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import parse_measure
from tercet.report import Report, SystemResult, changes_between
from tercet.text import Analyser, Vectoriser
from tercet.weights import LowRank, Weights

CL_LSI, RIDGE_MAP, BOTH = "CL-LSI", "ridge map", "both"  # starts, as the report has them
WIDTHS: Final = (25, 50, 100, 200, 400)
# Rates are of factors that give texts latent vectors of length 1; a step on the cosine counts by their inverse square.
FOR_TRANSLATIONS: Final = {"margin": 0.1, "rate": 0.02}
FOR_JUDGEMENTS: Final = {"margin": 0.5, "rate": 0.1}
_STEPS_PER_MATE, _FEWEST_STEPS, _MOST_STEPS = 16, 16_384, 131_072
_HARD, _DEPTH = 0.8, 30  # share of worse documents from the top of the current ranking, and how far that goes
_MOST_RANKED = (
    300_000_000  # scores of a ranking that hard negatives come from; of more translations some are learned from
)
_N_LOOKS = 5  # at the queries that choose, while learning
_FEWEST = 20
_MOST_HELD_OUT = 1000
_WITHOUT_BLANKS = re.compile(r"[぀-ヿ㐀-䶿一-鿿฀-๿]")  # kana, Han and Thai characters

Pairs = NDArray[np.int64]  # (n, 2): a row of the queries and a row of the documents
Judge = Callable[[Weights], NDArray[np.float64]]  # a value of each query that nothing is learned from, more is better


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
    """Learn to find documents by queries in another language, from texts that are there in both.

    The start is cross-language LSI and a ridge map between two LSI spaces side by side, each at the one of 25 to 400
    components that is best on queries that were held out; or one of the two alone where that is better there by more
    than one standard error. From there the cosine of latent vectors is learned: from translations in both directions
    against the documents that are now ranked above them, or from judgements where there are any. What was learned is
    kept only where it is better than the start on held-out queries by more than one standard error.

    Parameters
    ----------
    queries, docs : id -> text, records or a frame, each in its own language; a query may be as long as a document
    translations : pairs (query id, document id) of texts that mean the same, or a mapping; a text has one translation.
        None: texts with the same id
    qrels : qid -> doc_id -> grade, optional: what is to be found besides translations, such as pages that a page links
        to. A query's own translation is then left out of its ranking, unless it is judged
    measure : of judgements; translations are measured by the reciprocal rank (RR) of a text's translation
    query_analyser, doc_analyser : how texts are tokenised; by default words of two letters or more, and pairs of
        characters where a language is written without blanks
    max_features : words of each language, those that occur most often
    n_steps : preferences to learn from; default 16 for each translation, 16,384 to 131,072, or as in ``fit`` for
        judgements
    random_state, verbose, name : as in ``fit``

    Returns
    -------
    TextModel
        With a vectoriser for each side. Its ``report`` has all starts and what was learned, on untouched queries.

    Notes
    -----
    A tenth of the queries, at most 1,000 and where there are fewer than 500 up to 50, is held out to choose by, and
    another to report on; nothing is learned from their translations.

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
    chosen_by = "RR" if qrels is None else str(parse_measure(measure))
    asked, given = as_evidence(queries, qrels=qrels)
    sought = as_documents(docs)
    assert asked is not None
    pairs = _pairs(translations, list(asked), list(sought))
    judged = None if qrels is None else _judged(given["qrels"], asked, sought)
    sides = [
        Vectoriser(analyser=analyser or _analyser_for(texts), max_features=check_integer(max_features, "max_features"))
        for analyser, texts in ((query_analyser, list(asked.values())), (doc_analyser, list(sought.values())))
    ]
    Q, D = (words.fit_transform_docs(texts.values()) for words, texts in zip(sides, (asked, sought), strict=True))
    parts = _split(np.unique(pairs[:, 0]) if judged is None else np.unique(judged.nonzero()[0]), seed)
    known = pairs[np.isin(pairs[:, 0], np.concatenate(parts[1:]), invert=True)]
    if len(known) < _FEWEST:
        raise InputError(f"{len(known)} translations are too few to learn from; give at least {_FEWEST}")
    validation, test = (
        HeldOutQueries.from_links(pairs[np.isin(pairs[:, 0], part)], Q, D, exclude_self=False, measure="RR")
        if judged is None
        else _held_out(judged, part, pairs, Q, D, list(asked), chosen_by)
        for part in parts[1:]
    )
    sign = 1.0 if validation.measure.higher_is_better else -1.0

    def judge(weights: Weights) -> NDArray[np.float64]:
        return sign * validation.values(weights)

    start_name, starts = best_starts(Q, D, known, judge, seed)
    start = starts[start_name]
    if judged is None:
        steps = int(np.clip(_STEPS_PER_MATE * len(known), _FEWEST_STEPS, _MOST_STEPS))
        learner: Learner = learn_translations
    else:
        steps = n_steps_for(judged[parts[0]].nnz)
        learner = partial(learn_judged, _sampler(judged, parts[0]))
    steps = steps if n_steps is None else check_integer(n_steps, "n_steps")
    learned, setting = learner(Journey(start, Q, D, known, judge, steps, seed, verbose))
    before, after = judge(start), judge(learned)
    gain = Gain.between(before, after)
    measures = list(dict.fromkeys([chosen_by, *(("RR", "Success@1", "R@10") if judged is None else ("AP", "RR"))]))
    evaluations = {what: test.evaluate(weights, measures) for what, weights in starts.items()}
    after_test = test.evaluate(learned, measures)
    systems = [
        SystemResult.from_evaluation(what, evaluations[what])
        for what in sorted(starts, key=lambda one: one == start_name)
    ]
    back = _back_note(pairs[np.isin(pairs[:, 0], parts[2])], Q, D, {start_name: start, "learned": learned})
    report = Report(
        measure=chosen_by,
        n_train=len(parts[0]),
        n_validation=len(parts[1]),
        n_test=len(parts[2]),
        split=f"{len(known):,} translations were learned from; those of held-out queries were not.",
        systems=(*systems, SystemResult.from_evaluation("learned", after_test)) if gain.is_clear else tuple(systems),
        accepted=gain.is_clear,
        decision=_decision(gain, sign, before, start_name, chosen_by),
        changes=changes_between(after_test, evaluations[start_name], chosen_by),
        chosen={"start": start_name, **setting},
        seconds=time.perf_counter() - began,
        notes=(*([name] if name else []), *([back] if judged is None else [])),
        rejected=None if gain.is_clear else SystemResult.from_evaluation("learned", after_test),
    )
    return TextModel(sides[0], sides[1], learned if gain.is_clear else start, report)


# -- what is given ----------------------------------------------------------------------------------------------------


def _pairs(translations: Any, query_ids: list[str], doc_ids: list[str]) -> Pairs:
    rows = [{key: row for row, key in enumerate(ids)} for ids in (query_ids, doc_ids)]
    if translations is None:
        same: Iterable[tuple[Any, Any]] = ((key, key) for key in query_ids if key in rows[1])
    else:
        same = translations.items() if isinstance(translations, Mapping) else translations
    pairs = []
    for number, pair in enumerate(same):
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


def _judged(qrels: Any, queries: Mapping[str, str], docs: Mapping[str, str]) -> sparse.csr_array:
    """Grades by rows of queries and documents."""
    rows, columns = ({key: row for row, key in enumerate(ids)} for ids in (queries, docs))
    cells = [(qid, doc_id, grade) for qid, judged in qrels.items() for doc_id, grade in judged.items()]
    for qid, doc_id, grade in cells:
        if qid not in rows or doc_id not in columns:
            raise InputError(f"qrels judge {doc_id!r} for {qid!r}; there is no such query or document")
        check_grade(qid, doc_id, grade)
    positions = [rows[cell[0]] for cell in cells], [columns[cell[1]] for cell in cells]
    grades = sparse.csr_array(([cell[2] for cell in cells], positions), shape=(len(queries), len(docs)), dtype=np.int64)
    grades.eliminate_zeros()
    return grades


def _analyser_for(texts: list[str]) -> Analyser:
    """Words, or pairs of characters where most of a sample of the texts is written without blanks."""
    sample = "".join(text[:500] for text in texts[:: max(1, len(texts) // 200)])
    letters = sum(map(str.isalpha, sample))
    return Analyser(tokenizer="characters" if 2 * len(_WITHOUT_BLANKS.findall(sample)) > letters else "words")


def _split(rows: NDArray[np.int64], seed: int) -> list[NDArray[np.int64]]:
    """Rows to learn from, to choose by and to report on."""
    if rows.size < _FEWEST:
        raise InputError(f"{rows.size} queries are too few to hold any out; give at least {_FEWEST}")
    size = min(_MOST_HELD_OUT, max(rows.size // 10, min(50, rows.size // 5)))
    order = np.random.default_rng(seed).permutation(rows)
    return [order[2 * size :], order[:size], order[size : 2 * size]]


def _held_out(
    judged: sparse.csr_array,
    part: NDArray[np.int64],
    pairs: Pairs,
    Q: sparse.csr_array,
    D: sparse.csr_array,
    query_ids: list[str],
    measure: str,
) -> HeldOutQueries:
    rows = np.sort(part)
    own = sparse.csr_array((np.ones(len(pairs), dtype=np.int64), pairs.T), shape=judged.shape)
    hidden = own - own.multiply(judged > 0)
    names = tuple(query_ids[row] for row in rows)
    return HeldOutQueries(
        Q[rows], D, judged[rows], names, parse_measure(measure), hidden=sparse.csr_array(hidden)[rows]
    )


def _sampler(judged: sparse.csr_array, part: NDArray[np.int64]) -> JudgementSampler:
    cells = judged.tocoo()
    learned = np.isin(cells.row, part)
    return JudgementSampler(
        cells.row[learned], cells.col[learned], cells.data[learned], n_docs=judged.shape[1], uniform_over="queries"
    )


# -- learning ---------------------------------------------------------------------------------------------------------


def best_starts(
    Q: sparse.csr_array, D: sparse.csr_array, translations: Pairs, judge: Judge, seed: int, widths: Sequence[int] = ()
) -> tuple[str, dict[str, Weights]]:
    """The name of the start to take, and each start at its best width.

    That is both side by side, unless one alone is better by more than one standard error: two spaces rarely fail alike.
    """
    widths = widths or WIDTHS
    widest = min(max(widths), len(translations) - 1)
    widths = [*(width for width in widths if width < widest), widest]
    joint = common_directions(Q[translations[:, 0]], D[translations[:, 1]], widest, seed)
    A, B = (directions_of(texts, side, widest, seed) for texts, side in ((Q, "queries"), (D, "docs")))
    trials: list[Trial] = []
    for width in widths:
        apart = A[:, :width], mapped_to(A[:, :width], B[:, :width], Q, D, translations)
        for name, factors in ((CL_LSI, joint), (RIDGE_MAP, apart)):
            U, V = (np.ascontiguousarray(side[:, :width]) for side in factors)
            weights = Weights([LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True)])
            trials.append(Trial({"start": name}, judge(weights), result=weights))
    starts = {}
    for name in (CL_LSI, RIDGE_MAP):
        tried = [trial for trial in trials if trial.setting["start"] == name]
        starts[name] = tried[choose(tried)].result
    starts[BOTH] = side_by_side(starts[CL_LSI], starts[RIDGE_MAP], Q[translations[:, 0]], D[translations[:, 1]])
    values = {name: judge(weights) for name, weights in starts.items()}
    clear = [name for name in starts if Gain.between(values[BOTH], values[name]).is_clear]
    return max([BOTH, *clear], key=lambda name: float(values[name].mean())), starts


def side_by_side(one: Weights, other: Weights, Q: sparse.csr_array, D: sparse.csr_array) -> Weights:
    """One latent space of two, in which texts such as those of Q and D have as much of the one as of the other.

    Its cosine is about the mean of the two cosines; that itself would be no cosine of latent vectors, and so nothing to
    learn on from.
    """
    sides = []
    for X, factors in zip((Q, D), zip(_factors(one), _factors(other), strict=True), strict=True):
        sides.append(np.hstack([F / np.float32(np.sqrt(_mean_square(X @ F))) for F in factors]))
    return Weights([LowRank(query_factors=sides[0], doc_factors=sides[1], typical_length=1.0, unit_queries=True)])


def _factors(weights: Weights) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    [part] = weights.parts
    assert isinstance(part, LowRank)
    return part.query_factors, part.doc_factors


def _mean_square(latent: NDArray[np.float32]) -> float:
    """Of the lengths of latent vectors."""
    return float(np.square(latent).sum(axis=1).mean()) or 1.0


@dataclass(frozen=True, eq=False)
class Journey:
    """From where, over which texts, by what it is judged on the way, and how far."""

    start: Weights
    Q: sparse.csr_array
    D: sparse.csr_array
    translations: Pairs
    judge: Judge
    steps: int
    seed: int
    verbose: bool | None

    def settings(self, margin: float, rate: float) -> dict[str, Any]:
        """Parameters of a ranker that goes it."""
        U, V = for_cosine(_factors(self.start))  # as the ranker begins
        square = (
            _mean_square(self.Q[self.translations[:, 0]] @ U) + _mean_square(self.D[self.translations[:, 1]] @ V)
        ) / 2
        return {
            "n_components": U.shape[1],
            "margin": margin,
            "rate": rate * square,
            "schedule": "linear",
            "validate_every": max(1, self.steps // _N_LOOKS),
            "random_state": self.seed,
            "verbose": self.verbose,
        }

    def validation(self, weights: Weights) -> float:
        return float(self.judge(weights).mean())


Learner = Callable[[Journey], tuple[Weights, dict[str, Any]]]  # the best weights on the way, and how they were learned
_REPORTED = ("n_components", "margin", "rate")


def learn_translations(journey: Journey) -> tuple[Weights, dict[str, Any]]:
    """Both directions in turn, a half of the steps each."""
    half = -(-journey.steps // 2)

    def source(pairs: Pairs, asking: sparse.csr_array, sought: sparse.csr_array) -> HardSource:
        most = max(1000, _MOST_RANKED // sought.shape[0])
        pairs = np.random.default_rng(journey.seed).permutation(pairs)[:most]
        ones = np.ones(len(pairs), dtype=np.int64)
        sampler = JudgementSampler(pairs[:, 0], pairs[:, 1], ones, n_docs=sought.shape[0])
        how: dict[str, Any] = {"depth": _DEPTH, "hard": _HARD, "refresh_every": -(-half // 2)}
        return HardSource(sampler, asking, sought, half, random_state=journey.seed, **how)

    Q, D, translations = journey.Q, journey.D, journey.translations
    settings = journey.settings(**FOR_TRANSLATIONS)
    ranker = MultiTaskRanker(**settings)
    there, back = source(translations, Q, D), source(translations[:, ::-1], D, Q)
    ranker.fit(Q, there, D, journey.validation, reverse=back, start=journey.start)
    return ranker.weights_, {name: settings[name] for name in _REPORTED} | {"steps": ranker.n_steps_}


def learn_judged(sampler: JudgementSampler, journey: Journey) -> tuple[Weights, dict[str, Any]]:
    """Judgements, with any other document as the worse one."""
    settings = journey.settings(**FOR_JUDGEMENTS)
    ranker = LowRankRanker(**settings)
    source = SampledSource(sampler, journey.steps, random_state=journey.seed)
    ranker.fit(journey.Q, source, journey.D, journey.validation, start=journey.start)
    return ranker.weights_, {name: settings[name] for name in _REPORTED} | {"steps": ranker.n_steps_}


# -- what is said -----------------------------------------------------------------------------------------------------


def _decision(gain: Gain, sign: float, before: NDArray[np.float64], start: str, measure: str) -> str:
    verdict = "accepted" if gain.is_clear else f"rejected; the model is {start}"
    return (
        f"Learning was {verdict}: on {gain.n_queries:,} validation queries {measure} changed by "
        f"{sign * gain.mean:+.3f} from {start}'s {sign * before.mean():.3f}, with a standard error of {gain.error:.3f}."
    )


def _back_note(pairs: Pairs, Q: sparse.csr_array, D: sparse.csr_array, models: dict[str, Weights]) -> str:
    held_out = HeldOutQueries.from_links(pairs[:, ::-1], D, Q, exclude_self=False, measure="RR")
    said = ", ".join(f"{name} {held_out(turned(weights)):.3f}" for name, weights in models.items())
    return f"The other way round, documents that look for their translations among the queries, untouched, RR: {said}."
