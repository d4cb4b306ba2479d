"""Systems without learning: the start of learning, and the rivals of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.fitting.judged import Labels
from tercet.fitting.mixes import Case
from tercet.fitting.options import FitOptions
from tercet.fitting.score_terms import Mix, ScoreTerms, words_of
from tercet.fitting.task import Fold, Space, Task, TextHeldOut
from tercet.fitting.text_model import ORDINARY_BM25
from tercet.measure.names import Measure
from tercet.text import Analyzer, Vectorizer
from tercet.text.language import usual_analyzer
from tercet.weights import Identity, Weights

# -- the start --------------------------------------------------------------------------------------------------------

ORDINARY: Final = "BM25"
WEIGHTINGS: Final[dict[str, dict[str, Any]]] = {
    ORDINARY: ORDINARY_BM25,
    "BM25 .9/.4": ORDINARY_BM25 | {"k1": 0.9, "b": 0.4},
    "BM25 2/.75": ORDINARY_BM25 | {"k1": 2.0},
    "tf-idf": {"weighting": "tfidf"},
}
_WITH_FIELDS: Final = (ORDINARY, "tf-idf")  # each of these reads the texts again
_FEW_QUERIES: Final = 30
_LEAST_GAIN: Final = 0.02  # of the ordinary start's value
TOKENIZERS: Final[dict[str, dict[str, Any]]] = {
    "": {},
    " unstemmed": {"stemmer": None},
    " without stop words": {"stop_words": "english"},
}
# Settings of memory to compare tokenizers with, before any learning.
_USUAL_MEMORY: Final = (Mix(), Mix(shape=1, weight=1.0), Mix(shape=1, weight=4.0))


def choose_start(task: Task, how: FitOptions) -> tuple[list[Space], Space]:
    """Choose the tokenizer and the weighting: return the spaces of the report, and the space to start from.

    The tokenizer is chosen first, by BM25 with and without memory on left-out queries: a tokenizer that matches
    documents badly may match past queries well. The weighting is chosen next, by plain matching. BM25 over stems stays
    unless another start is clearly better. Labeled texts start from tf-idf.
    """
    if how.words is not None:
        space = ordinary_start(task, how)
        return [space], space
    ordinary = "tf-idf" if task.labeled else ORDINARY
    analyzers = _analyzers(task, how)
    first = {
        suffix: _spaces(task, how, {f"{ordinary}{suffix}": ordinary}, analyzer)[-1]
        for suffix, analyzer in analyzers.items()
    }
    beside = {suffix: _beside_memory(task, space) for suffix, space in first.items()}
    tokenized = _best({suffix: values[:, values.mean(axis=0).argmax()] for suffix, values in beside.items()}, "")
    names = (ordinary,) if task.labeled else WEIGHTINGS if how.columns is None else _WITH_FIELDS
    named = {f"{name}{tokenized}": name for name in names}
    spaces = {space.name: space for space in _spaces(task, how, named, analyzers[tokenized])}
    values = {name: _values(space.queries, space.start) for name, space in spaces.items()}
    best = _best(values, f"{ordinary}{tokenized}")
    reported = {ordinary: first[""]} if tokenized else {}
    reported |= {
        name: space for name, space in spaces.items() if name == best or named.get(name) in (None, *_WITH_FIELDS)
    }
    return list(reported.values()), spaces[best]


def _analyzers(task: Task, how: FitOptions) -> dict[str, Analyzer]:
    """Return the analyzers to try, the usual one first, by the suffix of their name."""
    usual = how.analyzer or usual_analyzer(task.docs.values())
    if how.analyzer is not None or usual.stemmer is None:
        return {"": usual}
    return {
        suffix: replace(usual, **changes)
        for suffix, changes in TOKENIZERS.items()
        if "stop_words" not in changes or usual.stemmer == "english"
    }


def ordinary_start(task: Task, how: FitOptions) -> Space:
    """Return the start without validation: the given vocabulary, or BM25 over stems."""
    if how.words is not None:
        [space] = task.spaces({ORDINARY if how.words.weighting == "bm25" else "tf-idf": how.words})
        return space
    return _spaces(task, how, {ORDINARY: ORDINARY}, how.analyzer or usual_analyzer(task.docs.values()))[-1]


def _beside_memory(task: Task, space: Space) -> NDArray[np.float64]:
    """Measure left-out queries with each of `_USUAL_MEMORY`, (n_queries, n_mixes); higher is better."""
    terms = [ScoreTerms(fold.parts(space.Q, space.D)[0].held_out, space, [], fold.past) for fold in task.known]
    mixes = _USUAL_MEMORY if all(fold_terms.past is not None for fold_terms in terms) else _USUAL_MEMORY[:1]
    measure, scale = terms[0].held_out.measure, typical_best(terms[0].held_out, space.start)
    scales = dict.fromkeys(mixes, scale)
    of_folds = [fold_terms.exact(mixes, scales, (measure,))[:, :, 0].T for fold_terms in terms]
    values = Case([fold_terms.held_out for fold_terms in terms]).mean(of_folds)
    return values if measure.higher_is_better else -values


def typical_best(held_out: TextHeldOut, start: Weights) -> float:
    """Median of the best score of some queries."""
    sample = held_out.at_most(_FEW_QUERIES)
    best = np.concatenate([scores.max(axis=1) for _, scores in start.score_blocks(sample.Q, sample.D)])
    return float(np.median(best)) or 1.0


def _values(held_out: TextHeldOut, weights: Weights) -> NDArray[np.float64]:
    measured = held_out.values(weights)
    return measured if held_out.measure.higher_is_better else -measured


def _best(values: Mapping[str, NDArray[np.float64]], ordinary: str) -> str:
    """Name the best of the clearly better starts, or else the ordinary start."""
    clear = [name for name in values if name == ordinary or _is_worth_it(values[ordinary], values[name])]
    return max(clear, key=lambda name: (values[name].mean(), name == ordinary))


def _is_worth_it(ordinary: NDArray[np.float64], values: NDArray[np.float64]) -> bool:
    """True if the gain is more than a fiftieth of the ordinary value, and ``1 + 30 / n`` standard errors of n queries.

    With few queries and several equal starts, a start often gains a standard error by chance.
    """
    gain = Gain.between(ordinary, values)
    clear = (1 + _FEW_QUERIES / gain.n_queries) * gain.error
    return gain.mean > max(clear, _LEAST_GAIN * abs(float(ordinary.mean())))


def _spaces(task: Task, how: FitOptions, named: Mapping[str, str], analyzer: Analyzer) -> list[Space]:
    """Build a space for each named weighting; with fields, add BM25 with the expected weights of the fields."""
    if how.columns is None:
        return task.spaces(
            {name: Vectorizer(analyzer=analyzer, **WEIGHTINGS[weighting]) for name, weighting in named.items()}
        )
    weighted = task.spaces(
        {name: how.columns.vectorizer(analyzer, **WEIGHTINGS[weighting]) for name, weighting in named.items()}
    )
    fielded = how.columns.with_fields(weighted[0])
    return weighted if fielded is None else [*weighted, fielded]


def start_summary(space: Space) -> dict[str, Any]:
    """Describe tokenizer and weighting for the report."""
    words = space.vectorizer
    summary: dict[str, Any] = {"vectors": space.name}
    if words.weighting == "bm25":
        summary |= {"k1": words.k1, "b": words.b}
    return summary


# -- rivals -----------------------------------------------------------------------------------------------------------


class Appended:
    """BM25 over documents with their past queries appended: the simple rival of memory.

    Parameters
    ----------
    counts : word counts of the documents, (n_docs, n_words)
    """

    def __init__(self, space: Space, counts: sparse.csr_array) -> None:
        self._counts = sparse.csr_array(counts, dtype=np.float64)
        self._n_words = words_of(space)
        self._asked = _ones(space.Q[:, : self._n_words])

    def values(self, held_out: TextHeldOut, fold: Fold, measures: tuple[Measure, ...]) -> NDArray[np.float64]:
        """Measures (n_queries, n_measures) of a fold's queries, with the past queries of the fold appended."""
        assert fold.past is not None
        positive = fold.past.evidence.copy()
        positive.data = (positive.data > 0).astype(np.float64)
        counts = sparse.csr_array(self._counts + positive.T @ self._asked[fold.past.rows])
        asked = replace(held_out, Q=_ones(held_out.Q[:, : self._n_words]), D=bm25_rows(counts))
        return asked.evaluate(Weights([Identity(n_terms=self._n_words)]), measures).values


def bm25_rows(counts: sparse.csr_array, k1: float = 1.2, b: float = 0.75) -> sparse.csr_array:
    """BM25 weights of word counts; the score is their sum over the words of a query.

    Examples
    --------
    >>> bm25_rows(sparse.csr_array([[2.0, 0.0], [1.0, 1.0]])).toarray().round(2)
    array([[0.25, 0.  ],
           [0.18, 0.69]], dtype=float32)
    """
    n_docs, length = counts.shape[0], np.asarray(counts.sum(axis=1)).ravel()
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((n_docs - frequency + 0.5) / (frequency + 0.5))
    held_back = np.repeat(k1 * (1 - b + b * length / max(length.mean(), 1e-12)), np.diff(counts.indptr))
    data = idf[counts.indices] * counts.data * (k1 + 1) / (counts.data + held_back)
    return sparse.csr_array((data.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)


def _ones(rows: sparse.csr_array) -> sparse.csr_array:
    return sparse.csr_array((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)


class Posteriors:
    """Logistic regression, the rival of labeled texts: the score is the inner product of two texts' class posteriors.

    A classifier needs the classes; ranking needs preferences alone.
    """

    def __init__(self, space: Space, labels: Labels, names: Sequence[str]) -> None:
        self._space, self._labels = space, labels
        self._row = {name: row for row, name in enumerate(names)}

    def values(self, held_out: TextHeldOut, fold: Fold, measures: tuple[Measure, ...]) -> NDArray[np.float64]:
        """Measures (n_texts, n_measures) of texts outside the training data of the classifier."""
        from sklearn.linear_model import LogisticRegression  # a slow import

        seen = [self._row[name] for name in held_out.qids if name in self._row]
        rows = np.setdiff1d(self._labels.rows, seen)
        classifier = LogisticRegression(max_iter=1000).fit(self._space.D[rows], self._labels.classes[rows])
        posteriors = (classifier.predict_proba(matrix).astype(np.float32) for matrix in (held_out.Q, held_out.D))
        Q, D = (sparse.csr_array(matrix) for matrix in posteriors)
        return replace(held_out, Q=Q, D=D).evaluate(Weights([Identity(n_terms=Q.shape[1])]), measures).values
