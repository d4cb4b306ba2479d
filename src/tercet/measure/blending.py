"""Two models in one: how much of the second to add is chosen on queries with known answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tercet.errors import InputError
from tercet.measure.held_out import HeldOutQueries
from tercet.weights import Weights

_N_AMOUNTS = 33


class Blend(NamedTuple):
    """Weights, and how much of the second model is in them; 0: they are the first's.

    Examples
    --------
    >>> from tercet.weights import Identity
    >>> blend = Blend(Weights([Identity(n_terms=2)]), 0.0)
    >>> blend.amount
    0.0
    """

    weights: Weights
    amount: float


def blend(first: Weights, second: Weights, validation: HeldOutQueries) -> Blend:
    """``first + amount * second`` with the amount that is best on validation.

    The amounts are none, and 33 from a hundredth to a hundred times how much wider the scores of the first spread, so
    that neither one's scale matters. Equal ones go to the smaller. This is ``alpha second + (1 - alpha) first`` with
    ``alpha = amount / (1 + amount)``, up to a factor that changes no ranking.

    Cost: each model scores the collection twice for the validation queries, and 34 blends of the scores are measured.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Diagonal, Identity
    >>> D = sparse.csr_array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> q = sparse.csr_array([[1.0, 1.0, 1.0]])
    >>> validation = HeldOutQueries.from_qrels({0: {1: 1}}, q, D, measure="AP")
    >>> second = Weights([Diagonal(weights=np.array([0.0, 3.0, 0.0], dtype=np.float32))])
    >>> both = blend(Weights([Identity(n_terms=3)]), second, validation)
    >>> validation(both.weights), both.amount > 0
    (1.0, True)
    """
    if first.shape != second.shape:
        raise InputError(f"weights of shapes {first.shape} and {second.shape} cannot be blended; they must agree")
    widths = _spread(first, validation), _spread(second, validation)
    if not widths[1]:  # it changes no ranking
        return Blend(first, 0.0)
    ratio = widths[0] / widths[1] if widths[0] else 1.0
    amounts = [0.0, *(ratio * np.geomspace(0.01, 100, _N_AMOUNTS)).tolist()]
    values = validation.values_of_blends(first, second, amounts).mean(axis=1)
    best = int(np.argmax(values if validation.measure.higher_is_better else -values))
    return Blend(first + second * amounts[best] if best else first, amounts[best])


def _spread(weights: Weights, validation: HeldOutQueries) -> float:
    """Typical standard deviation of a query's scores."""
    blocks = weights.score_blocks(validation.Q, validation.D)
    return float(np.mean(np.concatenate([scores.std(axis=1) for _, scores in blocks])))
