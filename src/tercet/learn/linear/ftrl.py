"""MinBatSRank: FTRL-proximal with L1 over the pairs of one query after another (Cheng et al. 2018, Algorithm 2).

The steps are in ``kernels/ftrl.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tercet.errors import ParameterError
from tercet.kernels.ftrl import Losses, PassBuffers, Paths, Rules, Sums, ftrl_pass
from tercet.kernels.pairs import LISTNET, SQUARED_HINGE
from tercet.learn.base import Count, NotNegative, Positive, Seed
from tercet.learn.linear.base import SparseLinearRanker, kernel_features
from tercet.learn.linear.queries import Queries
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds, Shape

LOSSES = {"hinge2": SQUARED_HINGE, "listnet": LISTNET}
_MARGIN = 1.0


@dataclass(eq=False)
class FTRLState:
    """State of FTRL: ``z`` (the paper's v), the squared slopes ``G``, and the number of steps.

    ``rules`` give ``w`` from these sums.
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
        """Change the rules: z and G stay, and the new rules give the weights."""
        if rules == self.rules:
            return
        if not self.rules.per_feature:  # z of an unchanged weight is behind this rate, which moves at every step
            moving = self.w != 0
            self.z[moving] = -self.w[moving] * self.inverse_rates()[moving] - np.sign(self.w[moving]) * self.rules.l1
        self.rules = rules
        shrunk = np.sign(self.z) * np.maximum(np.abs(self.z) - rules.l1, 0.0)
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


@dataclass(eq=False, repr=False, kw_only=True)
class FTRLRanker(SparseLinearRanker):
    """A sparse linear ranker learned in one pass: MinBatSRank.

    After each batch t of pairs, with g its gradient and all starting at 0 (the paper's v is z)::

        G += g²;  1/η_t = √(ρ + G) / γ;  σ_t = 1/η_t - 1/η_(t-1)    # Algorithm 2
        z += g - σ_t w                                              # Theorem 3.1
        w = 0 where |z| <= λ, else -η_t (z - sign(z) λ)             # equation 7

    Weights are exactly zero until the sum of their gradients exceeds ``l1``, and can return to zero.

    Parameters
    ----------
    l1 : λ, strength of the penalty, a total over the whole run and not per step; None takes ``l1_share`` of the weakest
        penalty without a feature, at the cost of one more pass
    l1_share : share of the weakest penalty without a feature, if ``l1`` is None
    rate : γ. With ``per_feature=False`` the rate of step t is ``rate / sqrt(t)``; the paper's MinBatSRank-Nonfea has
        the rate 1.0
    rho : ρ, limits the first per-feature rates
    per_feature : a rate for each feature, by its earlier gradients
    batch_size : pairs in a batch Z_t; None takes all pairs of a query, at the cost of n log n for n documents, not the
        number of pairs. A batch never crosses a query. Pairs are ordered by the better row, then by the worse row
    epochs : passes over the data
    loss : "hinge2", the squared hinge over pairs; or "listnet", the cross entropy of the top-one probabilities of
        labels and scores
    normalize_pairs : divide the gradient of a query by its number of pairs, for equal weight of all queries
    shuffle : take the queries in a random order, a new order each epoch
    random_state : seed of the order
    scale_features : learn from features divided by their mean range within a query, independent of units; ``coef_``
        applies to the original features

    Attributes
    ----------
    coef_ : weights (n_features,)
    l1_ : penalty used
    n_steps_ : number of batches
    loss_ : mean loss of a query in the last pass, each batch before its step

    Notes
    -----
    The paper's Algorithm 2 is printed with slips; this is the reading needed by its Theorem 3.1. A pass costs
    O(n_rows (n_features + log n)) with n the documents of a query; sparse rows cost their stored entries only.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.2], [0.0, 0.3], [0.9, 0.3], [0.1, 0.2]])
    >>> ranker = FTRLRanker(l1=0.5, rate=1.0).fit(X, [1, 0, 1, 0], qid=["a", "a", "b", "b"])
    >>> ranker.coef_.round(3)
    array([1.458, 0.   ])
    """

    l1: NotNegative | None = None
    rate: Positive = 0.125
    rho: NotNegative = 1.0
    per_feature: bool = True
    batch_size: Count | None = None
    epochs: Count = 1
    loss: Literal["hinge2", "listnet"] = "hinge2"
    normalize_pairs: bool = False
    shuffle: bool = False
    random_state: Seed = 0

    _removed_parameters: ClassVar[dict[str, Any]] = {"weight_pairs": None, "margin": 1.0}
    _state: FTRLState = field(init=False)
    l1_: float = field(init=False)

    def _check_params(self) -> None:
        super()._check_params()
        if self.loss == "listnet" and (self.batch_size is not None or self.normalize_pairs):
            raise ParameterError(
                "loss='listnet' looks at whole lists and has no pairs; leave batch_size=None and normalize_pairs=False"
            )

    def _rules(self) -> Rules:
        return Rules(self.l1_, float(self.rate), float(self.rho), bool(self.per_feature))

    def _learn(self, X: Any, queries: Queries) -> None:
        self.l1_ = self._strength(X, queries)
        self._state = FTRLState.start(X.shape[1], self._rules())
        self._take_passes(X, queries, self.epochs, shuffle=self.shuffle)

    def _first_penalty(self, X: Any, queries: Queries) -> float:
        """Return the largest |z| of a run with every weight at zero."""
        self.l1_ = np.inf
        self._state = FTRLState.start(X.shape[1], self._rules())
        return self._take_passes(X, queries, self.epochs, shuffle=self.shuffle)

    def partial_fit(self, X: Any, y: Any, qid: Any = None, group: Any = None) -> Self:
        """Take one more pass, in the order of the rows; of a file larger than memory, a chunk at a time.

        Parameters may have changed since the last call: z and G stay, and the new parameters give the weights. Rows
        without pairs are allowed and add nothing. The rows of the first call set the scale of the features and, if
        ``l1`` is None, the penalty, which then grows with the steps. With a number for ``l1`` and without
        ``scale_features`` two calls with whole queries give the same bits as one call with both.
        """
        self._check_params()
        features, queries = self._check_rows(X, y, qid, group, reset=not hasattr(self, "_state"))
        self._go_on(features, queries)
        return self

    def _go_on(self, X: Any, queries: Queries) -> None:
        """Take one pass over more rows, in their order, from the start if there is no state."""
        features = self._scaled(X, queries)
        state = getattr(self, "_state", None)
        if self.l1 is not None:
            self.l1_ = float(self.l1)
        elif state is not None and state.step:
            size = self.batch_size
            n_steps = len(queries) if size is None else int(np.ceil(queries.n_pairs / size).sum())
            self.l1_ *= (state.step + n_steps) / state.step
        else:
            self.l1_ = self._strength(features, queries)
            state = None
        self._state = FTRLState.start(features.shape[1], self._rules()) if state is None else state
        self._state.follow(self._rules())
        self._take_passes(features, queries, 1, shuffle=False)

    def _take_passes(self, X: Any, queries: Queries, epochs: int, *, shuffle: bool) -> float:
        """Learn from the queries ``epochs`` times; return the largest |z| met."""
        rng = np.random.default_rng(self.random_state)
        state, features, order = self._state, kernel_features(X), np.arange(len(queries))
        losses = Losses(LOSSES[self.loss], _MARGIN, int(self.batch_size or 0), bool(self.normalize_pairs))
        buffers = PassBuffers.allocate(features, queries.starts, len(state.w))
        loss, most = 0.0, 0.0
        for _ in range(epochs):
            if shuffle:
                order = rng.permutation(len(queries))
            n_steps, loss, largest = ftrl_pass(
                *(features, order, queries.arrays(), losses, state.rules, Sums(state.z, state.G, state.w)),
                *(state.step, buffers, *Paths.from_features(features, losses)),
            )
            state.step += int(n_steps)
            most = max(most, float(largest))
        self._keep(state.w.copy())
        self.n_steps_, self.loss_ = state.step, float(loss) / max(len(queries), 1)
        return most

    # -- saving -------------------------------------------------------------------------------------------------

    def _saved_state(self) -> SavedFTRL:
        state = self._state
        return SavedFTRL(state.step, self.loss_, *state.rules, state.z, state.G, self._scale)

    def _state_meta(self) -> dict[str, Any]:
        return encode(self._saved_state())[0]

    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        return encode(self._saved_state())[1]

    def _restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str) -> None:
        lengths = {"n_features": self.n_features_in_}
        stored = decode(SavedFTRL, meta, arrays, where=where, lengths=lengths, copy=True)
        rules = Rules(stored.l1, stored.rate, stored.rho, stored.per_feature)
        self._scale = stored.scale
        w = self.coef_.copy() if stored.scale is None else self.coef_ * stored.scale
        self._state = FTRLState(stored.z, stored.G, w, stored.step, rules)
        self.l1_, self.n_steps_, self.loss_ = stored.l1, stored.step, stored.loss
