"""Margins of many preferences under inner products, and the share of wrong ones; `LSIRanker` chooses parameters by
both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.preferences import Preferences
from tercet.kernels.scoring import score_listed
from tercet.learn.stored import gathered
from tercet.store import is_mapped
from tercet.weights.scoring import in_double

_AT_ONCE = 4096  # preferences whose texts are fetched together, where texts are mapped


def rank_loss(margins: NDArray[np.float64], weight: NDArray[np.float32] | None) -> float:
    """The share of preferences in the wrong order, ties included."""
    return float(np.average(margins <= 0, weights=weight))


def matching_margins(Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences) -> NDArray[np.float64]:
    """Return ``q·(d+ - d-)`` of each preference. Fastest if preferences of a query follow one another."""
    if is_mapped(Q.data) or is_mapped(D.data):
        parts = (gathered(prefs[start : start + _AT_ONCE], Q, D) for start in range(0, len(prefs), _AT_ONCE))
        return np.concatenate([np.empty(0), *(matching_margins(queries, docs, part) for part, queries, docs in parts)])
    queries, docs, scratch = in_double(Q), in_double(D), np.zeros(D.shape[1])
    better, worse = np.empty(len(prefs)), np.empty(len(prefs))
    score_listed(queries, docs, prefs.query, prefs.better, scratch, better)
    score_listed(queries, docs, prefs.query, prefs.worse, scratch, worse)
    return better - worse
