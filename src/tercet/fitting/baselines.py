"""Systems that learn nothing, for the table of a report: RM3, with its parameters chosen on validation queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy import sparse

from tercet.choose import choose, settings_of, try_all
from tercet.fitting.task import Space, TextHeldOut
from tercet.learn import RM3Expansion
from tercet.measure import Evaluation
from tercet.text import Vectoriser

RM3_GRID: Final[dict[str, tuple[Any, ...]]] = {
    "n_found": (5, 10, 20),
    "n_terms": (10, 20, 50),
    "original_weight": (0.9, 0.7, 0.5, 0.3),
}
# Each setting ranks the validation queries; of a large collection some of them must do.
_MOST_SCORES = 500_000
_FEWEST_QUERIES = 20


def evaluate_rm3(space: Space, measures: list[str]) -> tuple[Evaluation, dict[str, Any]]:
    """RM3 over BM25 on the untouched queries, and the setting of `RM3_GRID` that was best on validation.

    The words of a query are mixed with those of the documents it finds first, and it is asked again. Of a large
    collection, evenly spaced validation queries choose. Where queries are documents themselves (``exclude``), each
    finds itself among the first.

    Parameters
    ----------
    space : words weighted as BM25
    measures : to be evaluated

    Notes
    -----
    Costs 36 rankings of the validation queries that choose, at most 500,000 scores or 20 queries each.
    """
    some = space.validation.at_most(max(_FEWEST_QUERIES, _MOST_SCORES // space.validation.D.shape[0]))
    rm3 = _fitted(space, some)
    trials = try_all(settings_of(RM3_GRID), lambda setting: _expanded(rm3, some, setting)(space.start))
    setting = trials[choose(trials)].setting
    return _expanded(_fitted(space, space.test), space.test, setting).evaluate(space.start, measures), setting


def _fitted(space: Space, held_out: TextHeldOut) -> RM3Expansion:
    words = space.vectoriser
    return RM3Expansion().fit(held_out.D, word_shares(words, held_out.D), words.idf_**words.idf_power)


def _expanded(rm3: RM3Expansion, held_out: TextHeldOut, setting: dict[str, Any]) -> TextHeldOut:
    """The same queries with the words that a setting adds."""
    for name, value in setting.items():
        setattr(rm3, f"{name}_", value)  # as `tune` does; the documents stay as they are
    return replace(held_out, Q=rm3.transform(held_out.Q))


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
