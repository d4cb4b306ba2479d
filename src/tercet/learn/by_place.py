"""A low-rank ranker of texts with a row for each place among a word's bins (Bai et al. 2010, equations 6 and 7)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError, ParameterError
from tercet.kernels.by_place import by_place_advance
from tercet.learn.lowrank import LowRankRanker
from tercet.learn.lowrank_state import LowRankState
from tercet.learn.matrices import Problem, Texts
from tercet.learn.state import Chunk
from tercet.store import Fields


class ByPlaceState(LowRankState):
    """U and V; a text has ``n_places`` rows, and only rows of one place meet."""

    kernels = (by_place_advance,)
    n_places: int

    def run(self, problem: Problem, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        latent = np.empty((2, self.n_places, self.U.shape[1]), dtype=np.float32)
        by_place_advance(self.U, self.V, problem.Q, problem.D, chunk, problem.scratch, latent, tally)

    def meta(self) -> dict[str, Any]:
        return super().meta() | {"n_places": self.n_places}

    def copy(self) -> Self:
        copied = super().copy()
        copied.n_places = self.n_places
        return copied

    @classmethod
    def from_state(cls, fields: Fields, arrays: dict[str, NDArray[Any]]) -> Self:
        state = super().from_state(fields, arrays)
        state.n_places = fields.take("n_places", int)
        if state.n_places < 1 or state.rare is not None or state.before is not None or state.diagonal.size:
            raise DamagedBundleError(f"{fields.where}: factors of {state.n_places} places come alone")
        return state


class ByPlaceRanker(LowRankRanker):
    """A ``LowRankRanker`` without a diagonal whose matrices have ``n_places`` rows in a row for each text."""

    _state_class = ByPlaceState
    n_places: int

    @classmethod
    def like(cls, ranker: LowRankRanker, n_places: int) -> ByPlaceRanker:
        """One with the parameters of another; those it cannot have are refused."""
        plain = {
            "diagonal": None,
            "n_frequent": None,
            "averaged": False,
            "scale_documents": False,
            "start": "random",
        }
        for name, value in plain.items():
            if getattr(ranker, name) != value:
                raise ParameterError(
                    f"variant='by-place' needs a LowRankRanker with {name}={value!r}; got {getattr(ranker, name)!r}"
                )
        made = cls(**ranker.get_params())
        made.n_places = n_places
        return made

    def _start(self, Q: Texts, D: Texts) -> ByPlaceState:
        started = super()._start(Q, D)
        state = ByPlaceState(started.U, started.V, started.diagonal, learn_diagonal=False, scale_documents=False)
        state.n_places = self.n_places
        return state
