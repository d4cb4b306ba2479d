"""What FTRL carries from step to step, and one pass over queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.ftrl import Features, Losses, PassBuffers, Paths, Rules, Sums, ftrl_pass
from tercet.learn.linear.queries import Queries
from tercet.learn.loop import QueryPass
from tercet.store.schema import Bounds, Shape

_NO_SLOPES = np.empty(0)


@dataclass(eq=False)
class FTRLState:
    """What FTRL carries from step to step: ``z`` (the paper's v), the squared slopes ``G``, and the steps done.

    ``w`` follows from them by ``rules``.
    """

    z: NDArray[np.float64]
    G: NDArray[np.float64]
    w: NDArray[np.float64]
    step: int
    rules: Rules

    @classmethod
    def start(cls, n_features: int, rules: Rules) -> FTRLState:
        z, G, w = np.zeros((3, n_features))
        return cls(z, G, w, 0, rules)

    def inverse_rates(self) -> NDArray[np.float64]:
        """1/eta of each feature now."""
        if self.rules.per_feature:
            return np.sqrt(self.rules.rho + self.G) / self.rules.rate
        return np.full(self.z.size, np.sqrt(self.step) / self.rules.rate)

    def follow(self, rules: Rules) -> None:
        """Go on by other rules: z and G stay, the weights are those the new rules give."""
        if rules == self.rules:
            return
        self.z = self.present()
        self.rules = rules
        self.settle()

    def present(self) -> NDArray[np.float64]:
        """z as of now: that of a weight that stood still has not followed the plain rate, which moves at every step."""
        z = self.z.copy()
        if not self.rules.per_feature:
            moving = self.w != 0
            z[moving] = -self.w[moving] * self.inverse_rates()[moving] - np.sign(self.w[moving]) * self.rules.l1
        return z

    def settle(self) -> None:
        """Make the weights those that z, G and the rules give."""
        shrunk = np.sign(self.z) * np.maximum(np.abs(self.z) - self.rules.l1, 0.0)
        inverse_rates = self.inverse_rates()
        moves = (shrunk != 0) & (inverse_rates != 0)
        self.w = -np.divide(shrunk, inverse_rates, out=np.zeros_like(shrunk), where=moves)


@dataclass(frozen=True, eq=False)
class SavedFTRL:
    """The state of a saved FTRLRanker: its rules, sums and steps. ``w`` is the ranker's ``coef``."""

    step: Annotated[int, Bounds(least=0)]
    loss: float
    l1: Annotated[float, Bounds(least=0)]
    rate: Annotated[float, Bounds(above=0)]
    rho: Annotated[float, Bounds(least=0)]
    per_feature: bool
    z: Annotated[NDArray[np.float64], Shape("n_features")]
    G: Annotated[NDArray[np.float64], Shape("n_features", bounds=Bounds(least=0))]
    scale: Annotated[NDArray[np.float64] | None, Shape("n_features", bounds=Bounds(above=0))] = None


@dataclass(frozen=True, eq=False)
class FTRLPass(QueryPass):
    """One pass over the queries of an order, which changes the state."""

    X: Features
    order: NDArray[np.int64]
    queries: Queries
    losses: Losses
    state: FTRLState

    def run(self) -> tuple[float, float]:
        state = self.state
        sums = Sums(state.z, state.G, state.w, _NO_SLOPES)
        queries = self.queries.arrays()
        buffers = PassBuffers.allocate(self.X, self.order, queries.starts, len(state.w))
        n_steps, loss, largest = ftrl_pass(
            *(self.X, self.order, queries, self.losses, state.rules, sums, state.step, buffers),
            *Paths.from_features(self.X, self.losses),
        )
        state.step += int(n_steps)
        return float(loss), float(largest)
