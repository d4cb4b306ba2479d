"""The scale of a weights value."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from tercet.weights.value import Weights


def unit_of(weights: Weights) -> float:
    """The usual weight of a word on itself, by which steps are measured: the median over up to 1,000 words.

    1 where queries and documents have vocabularies of their own, or where most words have no weight on themselves.
    """
    n, m = weights.shape
    if n != m or n == 0:
        return 1.0
    terms = np.unique(np.linspace(0, n - 1, min(n, 1000)).astype(np.int64))
    ones = sparse.csr_array((np.ones(terms.size, np.float32), (np.arange(terms.size), terms)), shape=(terms.size, n))
    unit = float(np.median(np.abs(weights.score_rows(ones, ones))))
    return unit if unit > 0 and math.isfinite(unit) else 1.0
