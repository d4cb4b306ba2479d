"""Learn to find documents by queries in another language, from translations."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer, check_seed
from tercet.data import JudgementSampler, as_documents
from tercet.data.triplets import as_evidence
from tercet.errors import InputError
from tercet.fitting.against_start import learned_or_start
from tercet.fitting.cross_language import best_starts, learn
from tercet.fitting.rankers import n_steps_for
from tercet.fitting.text_model import TextModel
from tercet.measure import HeldOutQueries, parse_measure
from tercet.text import Analyzer, Vectorizer

_STEPS_PER_TRANSLATION, _FEWEST_STEPS, _MOST_STEPS = 16, 16_384, 131_072
_FEWEST = 20
_MOST_HELD_OUT = 1000
_MOST_WORDS = 30_000  # of each language
_WITHOUT_BLANKS = re.compile(r"[぀-ヿ㐀-䶿一-鿿฀-๿]")  # kana, Han and Thai characters


def fit_parallel(
    queries: Any,
    docs: Any,
    translations: Any = None,
    *,
    qrels: Any = None,
    measure: str = "nDCG@10",
    query_analyzer: Analyzer | None = None,
    doc_analyzer: Analyzer | None = None,
    n_steps: int | None = None,
    random_state: int = 0,
    verbose: bool | None = None,
) -> TextModel:
    """Learn to find documents by queries in another language, from translations of texts.

    The start puts cross-language LSI and a ridge map between two LSI spaces side by side, each at the best of 25 to 400
    components on held-out queries. A single space is the start if better by more than a standard error.
    Learning then improves the cosine of latent vectors: from translations in both directions, against the documents
    ranked above, or from judgements if given. Learning is rejected unless better than the start on held-out queries by
    more than a standard error.

    Parameters
    ----------
    queries, docs : id -> text, records or a frame, each in its own language; a query may be as long as a document
    translations : pairs (query id, document id) of texts with the same meaning, or a mapping; a text has a
        single translation. None: texts with the same id
    qrels : qid -> doc_id -> grade, optional: relevant documents besides translations, such as linked pages. A query's
        own translation is then left out of the ranking, unless judged
    measure : measure of judgements; translations are measured by the reciprocal rank (RR) of a text's translation
    query_analyzer, doc_analyzer : tokenizers; by default words of two letters or more, and pairs of characters for
        languages written without blanks
    n_steps : preferences to learn from; default 16 for each translation, 16,384 to 131,072, or as in ``fit`` for
        judgements
    random_state, verbose : as in ``fit``

    Returns
    -------
    TextModel
        With a vectorizer for each side. Its ``report`` has all starts and the learned model on untouched queries.

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
    qids, doc_ids = list(query_texts), list(doc_texts)
    query_rows, doc_rows = ({key: row for row, key in enumerate(keys)} for keys in (qids, doc_ids))
    pairs = _pairs(translations, query_rows, doc_rows)
    judged = evidence["qrels"]
    if judged is None:
        judged = {qids[query]: {doc_ids[doc]: 1} for query, doc in pairs.tolist()}
    sampler = JudgementSampler.from_qrels(judged, n_docs=len(doc_ids), query_rows=query_rows, doc_rows=doc_rows)
    query_words, doc_words = (
        Vectorizer(analyzer=analyzer or _analyzer_for(texts), max_features=_MOST_WORDS)
        for analyzer, texts in ((query_analyzer, list(query_texts.values())), (doc_analyzer, list(doc_texts.values())))
    )
    Q = query_words.fit_transform_docs(query_texts.values())
    D = doc_words.fit_transform_docs(doc_texts.values())
    train, *held_out = _split(sampler.queries, seed)
    known = pairs[np.isin(pairs[:, 0], np.concatenate(held_out), invert=True)]
    if len(known) < _FEWEST:
        raise InputError(f"{len(known)} translations are too few to learn from; give at least {_FEWEST}")
    own = sparse.csr_array((np.ones(len(pairs), np.int64), pairs.T), shape=(len(qids), len(doc_ids)))

    def asked(rows: NDArray[Any]) -> HeldOutQueries:
        answers = {qids[row]: judged[qids[row]] for row in rows}
        part = HeldOutQueries.from_qrels(answers, Q, D, query_rows, doc_rows, measures[0])
        return replace(part, hidden=sparse.csr_array(own[rows] - own[rows].multiply(part.grades > 0)))

    validation, test = map(asked, map(np.sort, held_out))
    start, starts = best_starts(Q, D, known, validation, seed)
    training = None if qrels is None else sampler.drop(np.concatenate(held_out))
    if n_steps is not None:
        check_integer(n_steps, "n_steps")
    elif qrels is None:
        n_steps = int(np.clip(_STEPS_PER_TRANSLATION * len(known), _FEWEST_STEPS, _MOST_STEPS))
    else:
        n_steps = n_steps_for(sum(len(judged[qids[row]]) for row in train))
    learned, setting = learn(starts[start], Q, D, known, validation, n_steps, seed, sampler=training, verbose=verbose)
    return learned_or_start(
        (query_words, doc_words),
        learned,
        {name: starts[name] for name in sorted(starts, key=start.__eq__)},
        validation,
        test,
        measures,
        began,
        n_train=len(train),
        split=f"{len(known):,} translations were learned from; those of held-out queries were not.",
        chosen={"start": start, **setting},
    )


def _pairs(translations: Any, query_rows: Mapping[str, int], doc_rows: Mapping[str, int]) -> NDArray[np.int64]:
    """Check translations and return rows of queries and documents (n, 2)."""
    given: Iterable[Any] = translations.items() if isinstance(translations, Mapping) else translations
    if translations is None:
        given = ((key, key) for key in query_rows if key in doc_rows)
    pairs = []
    for number, pair in enumerate(given):
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
    if len(array) < _FEWEST:
        raise InputError(f"{len(array)} translations are too few to learn from; give at least {_FEWEST}")
    return array


def _analyzer_for(texts: list[str]) -> Analyzer:
    """Tokenize words, or pairs of characters if most of a sample of the texts is written without blanks."""
    sample = "".join(text[:500] for text in texts[:: max(1, len(texts) // 200)])
    letters = sum(map(str.isalpha, sample))
    return Analyzer(tokenizer="characters" if 2 * len(_WITHOUT_BLANKS.findall(sample)) > letters else "words")


def _split(rows: NDArray[Any], seed: int) -> list[NDArray[Any]]:
    """Split rows: to learn from, to choose by and to report on."""
    if rows.size < _FEWEST:
        raise InputError(f"{rows.size} queries are too few to hold any out; give at least {_FEWEST}")
    size = min(_MOST_HELD_OUT, max(rows.size // 10, min(50, rows.size // 5)))
    order = np.random.default_rng(seed).permutation(rows)
    return [order[2 * size :], order[:size], order[size : 2 * size]]
