"""One way to weight words, with all that the recipe measures in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.measure.held_out import HeldOutQueries
from tercet.text import Vectoriser
from tercet.weights import Identity, Weights


@dataclass(frozen=True, eq=False)
class Space:
    """Training matrices, and the queries to choose and to report on."""

    name: str
    vectoriser: Vectoriser
    Q: sparse.csr_array
    D: sparse.csr_array
    validation: HeldOutQueries
    test: HeldOutQueries

    @property
    def start(self) -> Weights:
        """Words match themselves only."""
        return Weights([Identity(n_terms=self.D.shape[1])])

    def gain(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> Gain:
        """How much better the values of validation queries became."""
        return Gain.between(before, after, higher_is_better=self.validation.measure.higher_is_better)
