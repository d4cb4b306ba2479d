"""What learns nothing: ways to weight words, one of which learning starts from, and RM3 for the table of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain, Trial, choose, settings_of
from tercet.fitting.scored_columns import ScoredColumns
from tercet.fitting.task import Space, Task, TextHeldOut, some_queries
from tercet.fitting.text_model import ORDINARY_BM25, ordinary_analyser
from tercet.learn import RM3Expansion
from tercet.measure.names import Measure
from tercet.text import Analyser, Vectoriser

# -- the start --------------------------------------------------------------------------------------------------------

ORDINARY: Final = "BM25"
WEIGHTINGS: Final[dict[str, dict[str, Any]]] = {
    ORDINARY: ORDINARY_BM25,
    "BM25 .9/.4": ORDINARY_BM25 | {"k1": 0.9, "b": 0.4},
    "BM25 2/.75": ORDINARY_BM25 | {"k1": 2.0},
    "tf-idf": {"weighting": "tfidf"},
}
_WITH_FIELDS: Final = (ORDINARY, "tf-idf")  # texts are read anew for each of these
_SHOWN: Final = (*_WITH_FIELDS, f"{ORDINARY} with fields")  # whatever learning starts from
_FEW_QUERIES: Final = 30
_LEAST_GAIN: Final = 0.02  # of what the ordinary start has
TOKENIZERS: Final[dict[str, dict[str, Any]]] = {
    "": {},
    " unstemmed": {"stemmer": None},
    " without stop words": {"stop_words": "english"},
}


def choose_start(
    task: Task, analyser: Analyser | None, columns: ScoredColumns | None, words: Vectoriser | None = None
) -> tuple[list[Space], Space]:
    """The spaces that a report shows, and the one of them to start from.

    Nothing is learned yet, so that all queries can choose, those to learn from, too. The ordinary start is BM25 over
    stems; the best of those that are clearly better replaces it. Of labelled texts it is tf-idf, in which classes are
    told apart better, and only tokenizers are tried.

    Parameters
    ----------
    analyser : how texts are tokenised; None tries several ways
    columns : fields and numbers of documents, where there are some
    words : those to start from, where that is settled
    """
    if words is not None:
        [space] = task.spaces({ORDINARY if words.weighting == "bm25" else "tf-idf": words})
        return [space], space
    ordinary = "tf-idf" if task.labelled else ORDINARY
    shown: dict[str, Space] = {}
    values: dict[str, NDArray[np.float64]] = {}
    best = ordinary
    analysers = {how: replace(ordinary_analyser(), **changes) for how, changes in TOKENIZERS.items()}
    for how, tried in (analysers if analyser is None else {"": analyser}).items():
        for space in sorted(_spaces(task, how, tried, columns), key=lambda one: one.name != ordinary):
            if space.name in _SHOWN:
                shown[space.name] = space
            if task.labelled and space.vectoriser.weighting != "tfidf":
                continue
            measured = space.queries.values(space.start)
            values[space.name] = measured if space.queries.measure.higher_is_better else -measured
            is_best = values[space.name].mean() > values[best].mean()
            if is_best and _is_worth_it(values[ordinary], values[space.name]):
                if best not in _SHOWN:
                    del shown[best]
                best = space.name
                shown[best] = space
    return list(shown.values()), shown[best]


def _is_worth_it(ordinary: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether another way is better by a fiftieth, and clearly so.

    With n queries that is by more than ``1 + 30 / n`` standard errors of the paired difference: of twelve ways, some
    are better by one on few queries. On many, ways that rank nearly alike differ clearly by nothing that counts.
    """
    gain = Gain.between(ordinary, other)
    clear = (1 + _FEW_QUERIES / gain.n_queries) * gain.error
    return gain.mean > max(clear, _LEAST_GAIN * abs(float(ordinary.mean())))


def _spaces(task: Task, how: str, analyser: Analyser, columns: ScoredColumns | None) -> list[Space]:
    if columns is None:
        return task.spaces({f"{name}{how}": Vectoriser(analyser=analyser, **one) for name, one in WEIGHTINGS.items()})
    weighted = task.spaces({f"{name}{how}": columns.vectoriser(analyser, **WEIGHTINGS[name]) for name in _WITH_FIELDS})
    fielded = columns.with_fields(weighted[0])
    return weighted if fielded is None else [*weighted, fielded]


def start_summary(space: Space) -> dict[str, Any]:
    """Describe tokenizer and weighting for the report."""
    words = space.vectoriser
    summary: dict[str, Any] = {"vectors": space.name}
    if words.weighting == "bm25":
        summary |= {"k1": words.k1, "b": words.b}
    return summary


# -- RM3 --------------------------------------------------------------------------------------------------------------

RM3_GRID: Final[dict[str, tuple[Any, ...]]] = {
    "n_found": (5, 10, 20),
    "n_terms": (10, 20, 50),
    "original_weight": (0.9, 0.7, 0.5, 0.3),
}
# Each setting ranks the queries that choose; of a large collection some of them must do.
_MOST_SCORES = 500_000
_FEWEST_QUERIES = 20


class RM3:
    """RM3 over BM25, with the setting of `RM3_GRID` that is best on the queries that choose.

    The words of a query are mixed with those of the documents it finds first, and it is asked again. Of a large
    collection, evenly spaced queries choose. Where queries are documents themselves (``exclude``), each finds itself
    among the first.

    Parameters
    ----------
    space : words weighted as BM25

    Notes
    -----
    Costs 36 rankings of the queries that choose, at most 500,000 scores or 20 queries each.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._fitted: tuple[sparse.csr_array, RM3Expansion] | None = None  # of the collection that was last asked
        some = some_queries(space.queries, _MOST_SCORES, _FEWEST_QUERIES)
        trials = [Trial(one, np.array(self._expanded(some, one)(space.start))) for one in settings_of(RM3_GRID)]
        self.setting: dict[str, Any] = trials[choose(trials)].setting

    def values(self, held_out: TextHeldOut, measures: tuple[Measure, ...]) -> NDArray[np.float64]:
        """Measures (n_queries, n_measures) of queries."""
        return self._expanded(held_out, self.setting).evaluate(self._space.start, measures).values

    def _expanded(self, held_out: TextHeldOut, setting: Mapping[str, Any]) -> TextHeldOut:
        """The same queries with the words that a setting adds."""
        rm3 = self._over(held_out.D).set_params(**setting)  # the documents stay as they are
        return replace(held_out, Q=rm3.transform(held_out.Q))

    def _over(self, D: sparse.csr_array) -> RM3Expansion:
        words = self._space.vectoriser
        if self._fitted is None or self._fitted[0] is not D:
            self._fitted = D, RM3Expansion().fit(D, word_shares(words, D), words.idf_**words.idf_power)
        return self._fitted[1]


def word_shares(vectoriser: Vectoriser, D: sparse.csr_array) -> sparse.csr_array:
    """For BM25 rows, what each word's count is proportional to within its document.

    A row has ``idf^(1-p) / scale · c (k1 + 1) / (c + K)`` for a count c, where K depends on the document alone. With
    v for the fraction, ``v / (k1 + 1 - v)`` is ``c / K``: counts are had back without reading the texts again.

    Examples
    --------
    >>> vectoriser = Vectoriser(weighting="bm25").fit(["green green avocado", "eyes"])
    >>> shares = word_shares(vectoriser, vectoriser.transform_docs(["green green avocado"]))
    >>> round(float(shares[0, vectoriser.index_["green"]] / shares[0, vectoriser.index_["avocado"]]), 3)
    2.0
    """
    shares = sparse.csr_array(D, dtype=np.float64)
    shares.data /= (vectoriser.idf_ ** (1 - vectoriser.idf_power) / vectoriser.doc_scale_)[shares.indices]
    shares.data /= np.maximum(vectoriser.k1 + 1 - shares.data, 1e-6)  # rounding may have closed the gap
    return shares
