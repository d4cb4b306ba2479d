"""Learn to find documents by queries in another language, from translations (Bai et al. 2010, equations 9 and 10)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer, check_seed
from tercet.choose import Gain, Trial, choose
from tercet.data import JudgementSampler, as_documents
from tercet.data.judgements import as_queries
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.learn import HardSource, LSIRanker, MultiTaskRanker
from tercet.learn.starts import for_cosine
from tercet.measure import HeldOutQueries
from tercet.report import Report, SystemResult, changes_between
from tercet.text import Analyzer, Vectorizer
from tercet.text.language import usual_analyzer
from tercet.weights import LowRank, Weights

CL_LSI: Final = "CL-LSI"
MEASURES: Final = ("RR", "Success@1", "R@10")
WIDTHS: Final = (25, 50, 100, 200, 400)  # components of CL-LSI to choose from
_MARGIN, _RATE = 0.1, 0.02  # for latent vectors of length 1; a step on the cosine is divided by the squared length
_HARD, _DEPTH = 0.8, 30  # share of worse documents from the top of the current ranking, and the depth of this top
_MOST_RANKED = 300_000_000  # scores of a ranking for hard worse documents
_STEPS_PER_TRANSLATION, _FEWEST_STEPS, _MOST_STEPS = 16, 16_384, 131_072
_FEWEST = 20
_MOST_HELD_OUT = 1000
_MOST_WORDS = 30_000  # of each language

Rows = NDArray[np.int64]


def fit_parallel(
    queries: Any,
    docs: Any,
    translations: Any = None,
    *,
    query_analyzer: Analyzer | None = None,
    doc_analyzer: Analyzer | None = None,
    n_steps: int | None = None,
    random_state: int = 0,
    verbose: bool | None = None,
) -> TextModel:
    """Learn to find documents by queries in another language, from texts and their translations.

    The start is cross-language LSI with the best of 25 to 400 components on held-out queries. Learning then improves
    the cosine of latent vectors in both directions, against the texts ranked above a translation. Learning is rejected
    unless better than the start on held-out queries by more than a standard error.

    Parameters
    ----------
    queries, docs : id -> text, records or a frame, each in its own language; a query may be as long as a document
    translations : pairs (query id, document id) of texts with the same meaning, or a mapping; a text has a single
        translation. None: texts with the same id
    query_analyzer, doc_analyzer : tokenizers; by default guessed from the texts
    n_steps : preferences to learn from; default 16 for each translation, 16,384 to 131,072
    random_state, verbose : as in ``fit``

    Returns
    -------
    TextModel
        With a vectorizer for each side. Its ``report`` has start and learned model on untouched queries.

    Notes
    -----
    A tenth of the translations is held out to choose by, and another to report on: at most 1,000 each, and up to 50 of
    fewer than 500.

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
    began, seed = time.perf_counter(), check_seed(random_state)
    query_texts, doc_texts = as_queries(queries), as_documents(docs)
    query_rows, doc_rows = ({key: row for row, key in enumerate(texts)} for texts in (query_texts, doc_texts))
    train, *held_out = _split(_pairs(translations, query_rows, doc_rows), seed)
    if n_steps is None:
        n_steps = int(np.clip(_STEPS_PER_TRANSLATION * len(train), _FEWEST_STEPS, _MOST_STEPS))
    check_integer(n_steps, "n_steps")
    vectorizers = []
    for analyzer, texts in ((query_analyzer, list(query_texts.values())), (doc_analyzer, list(doc_texts.values()))):
        vectorizers.append(Vectorizer(analyzer=analyzer or usual_analyzer(texts), max_features=_MOST_WORDS))
    Q = vectorizers[0].fit_transform_docs(query_texts.values())
    D = vectorizers[1].fit_transform_docs(doc_texts.values())
    qids, doc_ids = list(query_texts), list(doc_texts)
    validation, test = (
        HeldOutQueries.from_qrels(
            {qids[query]: {doc_ids[doc]: 1} for query, doc in pairs.tolist()}, Q, D, query_rows, doc_rows, MEASURES[0]
        )
        for pairs in held_out
    )
    start = _best_start(Q, D, train, validation, seed)
    learned = _learned(start, Q, D, train, validation, n_steps, seed, verbose)
    before, after = validation.values(start), validation.values(learned)
    gain = Gain.between(before, after, higher_is_better=True)
    verdict = "accepted" if gain.is_clear else f"rejected; the model is {CL_LSI}"
    evaluations = test.evaluate(start, MEASURES), test.evaluate(learned, MEASURES)
    systems = [SystemResult.from_evaluation(name, e) for name, e in zip((CL_LSI, "learned"), evaluations, strict=True)]
    report = Report(
        measure=MEASURES[0],
        n_train=len(train),
        n_validation=len(validation.qids),
        n_test=len(test.qids),
        systems=tuple(systems if gain.is_clear else systems[:1]),
        accepted=gain.is_clear,
        decision=(
            f"Learning was {verdict}: on {gain.n_queries} validation queries {MEASURES[0]} changed by "
            f"{(after - before).mean():+.3f} from {CL_LSI}'s {before.mean():.3f}, with a standard error of "
            f"{gain.error:.3f}."
        ),
        changes=changes_between(evaluations[1], evaluations[0], MEASURES[0]),
        rejected=None if gain.is_clear else systems[1],
        split=f"{len(train):,} translations were learned from; those of held-out queries were not.",
        chosen={"start": CL_LSI, "n_components": _factors(start)[0].shape[1], "steps": n_steps},
        seconds=time.perf_counter() - began,
    )
    return TextModel(vectorizers[0], vectorizers[1], learned if gain.is_clear else start, report)


def _pairs(translations: Any, query_rows: Mapping[str, int], doc_rows: Mapping[str, int]) -> Rows:
    """Check translations and return rows of queries and documents (n, 2)."""
    id_pairs: Iterable[Any] = translations.items() if isinstance(translations, Mapping) else translations
    if translations is None:
        id_pairs = ((key, key) for key in query_rows if key in doc_rows)
    pairs = []
    for number, pair in enumerate(id_pairs):
        try:
            query, doc = (str(key) for key in pair)
            pairs.append((query_rows[query], doc_rows[doc]))
        except (TypeError, ValueError):
            raise InputError(f"translations[{number}] is {pair!r}; a pair (query id, document id) is needed") from None
        except KeyError as error:
            raise InputError(f"translations[{number}] is {pair!r}; there is no text {error}") from None
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    for rows, ids in zip(array.T, (query_rows, doc_rows), strict=True):
        row, count = np.unique(rows, return_counts=True)
        if (count > 1).any():
            raise InputError(f"the text {list(ids)[row[count > 1][0]]!r} has more than one translation")
    return array


def _split(pairs: Rows, seed: int) -> list[Rows]:
    """Split translations: to learn from, to choose by and to report on."""
    size = min(_MOST_HELD_OUT, max(len(pairs) // 10, min(50, len(pairs) // 5)))
    if len(pairs) - 2 * size < _FEWEST:
        raise InputError(f"{len(pairs)} translations are too few: {_FEWEST} to learn from, and {2 * size} to hold out")
    order = np.random.default_rng(seed).permutation(len(pairs))
    chosen, reported = np.sort(order[:size]), np.sort(order[size : 2 * size])
    return [pairs[np.sort(order[2 * size :])], pairs[chosen], pairs[reported]]


def _best_start(
    Q: sparse.csr_array, D: sparse.csr_array, pairs: Rows, validation: HeldOutQueries, seed: int
) -> Weights:
    """Return CL-LSI with the best number of components on validation queries."""
    widest = min(max(WIDTHS), len(pairs) - 1)
    U, V = _factors(LSIRanker(n_components=widest, random_state=seed).fit_parallel(Q, D, translations=pairs).weights_)
    widths = sorted({min(width, U.shape[1]) for width in WIDTHS})
    starts = [_cosine(U[:, :width], V[:, :width]) for width in widths]
    trials = [Trial({}, validation.values(weights), result=weights) for weights in starts]
    best: Weights = trials[choose(trials, higher_is_better=True)].result
    return best


def _learned(
    start: Weights,
    Q: sparse.csr_array,
    D: sparse.csr_array,
    pairs: Rows,
    validation: HeldOutQueries,
    n_steps: int,
    seed: int,
    verbose: bool | None,
) -> Weights:
    """Learn translations in both directions in turn, half of the steps each; return the best weights seen."""
    U, V = for_cosine(_factors(start))  # the ranker starts from these
    latent = Q[pairs[:, 0]] @ U, D[pairs[:, 1]] @ V
    length = sum(float(np.square(rows).sum(axis=1).mean()) for rows in latent) / 2
    half = -(-n_steps // 2)
    forward, backward = _hard_source(pairs, Q, D, half, seed), _hard_source(pairs[:, ::-1], D, Q, half, seed)
    ranker = MultiTaskRanker(
        n_components=U.shape[1],
        margin=_MARGIN,
        rate=_RATE * length,
        schedule="linear",
        validate_every=max(1, n_steps // 5),
        random_state=seed,
        verbose=verbose,
    )
    return ranker.fit(Q, forward, D, validation, reverse=backward, start=start).weights_


def _hard_source(pairs: Rows, texts: sparse.csr_array, docs: sparse.csr_array, n: int, seed: int) -> HardSource:
    """Draw n preferences for translations, against texts ranked above by the current weights."""
    n_docs = docs.shape[0]
    pairs = np.random.default_rng(seed).permutation(pairs)[: max(1000, _MOST_RANKED // n_docs)]
    sampler = JudgementSampler(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), dtype=np.int64), n_docs=n_docs)
    return HardSource(sampler, texts, docs, n, random_state=seed, depth=_DEPTH, hard=_HARD, refresh_every=-(-n // 2))


def _cosine(U: NDArray[np.float32], V: NDArray[np.float32]) -> Weights:
    """Weights with cosines of latent vectors as scores."""
    U, V = np.ascontiguousarray(U), np.ascontiguousarray(V)
    return Weights([LowRank(query_factors=U, doc_factors=V, typical_length=1.0, unit_queries=True)])


def _factors(weights: Weights) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    [part] = weights.parts
    assert isinstance(part, LowRank)
    return part.query_factors, part.doc_factors
