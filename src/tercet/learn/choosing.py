"""What parameters are chosen by: margins of many preferences under inner products, and the share that is wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.kernels.scoring import score_listed
from tercet.weights.scoring import in_double


def rank_loss(margins: NDArray[np.float64], weight: NDArray[np.float32] | None) -> float:
    """The share of preferences in the wrong order, ties included."""
    return float(np.average(margins <= 0, weights=weight))


def matching_margins(Q: sparse.csr_array, D: sparse.csr_array, prefs: Preferences) -> NDArray[np.float64]:
    """``q·(d+ - d-)`` of each preference. Fastest where preferences of a query stand together."""
    queries, docs, scratch = in_double(Q), in_double(D), np.zeros(D.shape[1])
    better, worse = np.empty(len(prefs)), np.empty(len(prefs))
    score_listed(queries, docs, prefs.query, prefs.better, scratch, better)
    score_listed(queries, docs, prefs.query, prefs.worse, scratch, worse)
    return better - worse
