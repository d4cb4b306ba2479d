"""MinBatSRank: FTRL-proximal with L1 over the pairs of one query after another (Cheng et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tercet.errors import ParameterError
from tercet.kernels.ftrl import Losses, Rules
from tercet.kernels.pairs import BY_BEST_ORDER, BY_PRESENT_ORDER, HINGE, LISTNET, SQUARED_HINGE
from tercet.learn.base import Count, NotNegative, Positive, Seed
from tercet.learn.linear.base import SparseLinearRanker, kernel_features
from tercet.learn.linear.ftrl_state import FTRLPass, FTRLState, SavedFTRL
from tercet.learn.linear.ftrl_stream import RowChunk, StreamFit, StreamProgress
from tercet.learn.linear.queries import Queries
from tercet.learn.loop import Checkpoint, current_executor
from tercet.store.codec import decode, encode

LOSSES = {"hinge": HINGE, "hinge2": SQUARED_HINGE, "listnet": LISTNET}
PAIR_WEIGHTS = {None: 0, "ndcg": BY_PRESENT_ORDER, "ideal-ndcg": BY_BEST_ORDER}


@dataclass(eq=False, repr=False, kw_only=True)
class FTRLRanker(SparseLinearRanker):
    """A sparse linear ranker learned in one pass: MinBatSRank.

    After each batch t of pairs, with g its gradient and all starting at 0::

        G += g²;  1/eta_t = sqrt(rho + G) / rate;  sigma_t = 1/eta_t - 1/eta_(t-1)
        z += g - sigma_t w
        w = 0 where |z| <= l1, else -eta_t (z - sign(z) l1)

    so weights are exactly zero until the gradients against them sum up to more than ``l1``, and return to zero.

    Parameters
    ----------
    l1 : strength of the penalty, a total over the whole run and not per step; None takes ``l1_share`` of the weakest
        that leaves no feature, which costs a pass more
    l1_share : the share, where ``l1`` is None, of the weakest penalty that leaves no feature
    rate : the paper's gamma. With ``per_feature=False`` the rate of step t is ``rate / sqrt(t)``; the paper's
        MinBatSRank-Nonfea has 1.0 there
    rho : holds the first per-feature rates down
    per_feature : a rate for each feature, by its gradients so far
    batch_size : pairs in a batch; None takes all pairs of a query, which costs n log n in its n documents and not
        the number of its pairs. A batch never crosses a query. Within a query pairs come in the order of the better
        row, then of the worse one
    epochs : passes over the data
    loss : "hinge2", the squared hinge over pairs; "hinge"; or "listnet", the cross entropy of the top-one
        probabilities of labels and scores
    normalise_pairs : divide the gradient of a query by its number of pairs, so that every query counts the same
    margin : by how much the better document of a pair should win
    weight_pairs : "ndcg" multiplies the loss of a pair by the change in its query's NDCG if the two documents changed
        places in the present ranking, as LambdaRank does, or "ideal-ndcg" in the best one. Gains are 2^label - 1;
        labels other than whole numbers from 0 to 31 are counted by their order in the query. A query of n documents
        then costs n² and has no batches. These weights are far below 1: a smaller ``l1`` does the same
    shuffle : take the queries in a random order, a new one each epoch, and with a ``batch_size`` their rows too
    random_state : seed of that order
    scale_features : learn from features divided by how far they reach within a query, on average, so that nothing
        depends on their units; ``coef_`` is for features as they are given

    Attributes
    ----------
    coef_ : weights (n_features,)
    l1_ : the penalty it was learned with
    n_steps_ : batches seen
    loss_ : the mean loss of a query in the last pass, each batch taken as it was met

    Notes
    -----
    The paper's Algorithm 2 is printed with slips; this is the reading its Theorem 3.1 needs. A pass costs
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
    loss: Literal["hinge", "hinge2", "listnet"] = "hinge2"
    normalise_pairs: bool = False
    margin: Positive = 1.0
    weight_pairs: Literal["ndcg", "ideal-ndcg"] | None = None
    shuffle: bool = False
    random_state: Seed = 0

    _learns_in_rounds = True
    _state: FTRLState = field(init=False)
    l1_: float = field(init=False)

    def _check_params(self) -> None:
        super()._check_params()
        if self.loss == "listnet":
            for name, value, meant in (
                ("batch_size", self.batch_size, None),
                ("normalise_pairs", self.normalise_pairs, False),
                ("weight_pairs", self.weight_pairs, None),
            ):
                if value != meant:
                    raise ParameterError(
                        f"loss='listnet' looks at whole lists and has no pairs; leave {name}={meant!r}, got {value!r}"
                    )
        if self.weight_pairs is not None and self.batch_size is not None:
            raise ParameterError(
                f"weight_pairs={self.weight_pairs!r} looks at whole rankings; leave batch_size=None, "
                f"got {self.batch_size!r}"
            )

    def _rules(self) -> Rules:
        return Rules(self.l1_, float(self.rate), float(self.rho), bool(self.per_feature))

    def _learn_after(self, before: Self | None, X: Any, queries: Queries) -> None:
        # ``before`` is of no use: its penalty is a total over a pass, and would be taken once more.
        self.l1_ = self._strength(X, queries)
        self._state = FTRLState.start(X.shape[1], self._rules())
        self._advance(X, queries, self.epochs, shuffle=self.shuffle)

    def partial_fit(self, X: Any, y: Any, qid: Any = None, group: Any = None) -> Self:
        """Go on from where the ranker is, with one pass in the order of the rows.

        Parameters may have been changed in between: z and G stay, and the weights are those the new parameters
        give. Rows without pairs are allowed and add nothing. The rows of the first call say the scale of the features
        and, where ``l1`` is None, the penalty, which then grows with the steps. With a number for ``l1`` and without
        ``scale_features`` two calls with whole queries give the same bits as one call with both.
        """
        self._check_params()
        is_new = not hasattr(self, "_state")
        features, queries = self._check_rows(X, y, qid, group, reset=is_new)
        self._go_on(features, queries)
        return self

    def _go_on(self, X: Any, queries: Queries) -> None:
        """One pass over more rows, in their order, from the start where there is no state."""
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
        self._advance(features, queries, 1, shuffle=False)

    def fit_stream(
        self,
        chunks: Iterable[RowChunk],
        *,
        checkpoint: Checkpoint | None = None,
        progress: Callable[[StreamProgress], None] | None = None,
    ) -> Self:
        """Learn from the start, from chunks that come one after another; memory is that of a chunk and the weights.

        The weights have the bits that ``partial_fit`` gives with one chunk after the other; with a number for ``l1``
        and without ``scale_features`` also those of ``fit`` with all rows at once.

        Parameters
        ----------
        chunks : whole queries each, as `LetorData` or (X, y, qid), all with the same number of features: a
            `LetorStream`, a list, or any other iterable, gone over once for each of the ``epochs``
        checkpoint : saves the state every ``checkpoint.every`` queries, between chunks; when it holds one of the same
            run, ``fit_stream`` goes on from there, to the same bits
        progress : called after each chunk, and at the end, with what was learned from so far
        """
        self._check_params()
        self._forget()
        StreamFit(self, chunks, checkpoint).go(progress)
        return self

    def _advance(self, X: Any, queries: Queries, epochs: int, *, shuffle: bool) -> float:
        """Passes over the data; returns the largest |z| met."""
        rng = np.random.default_rng(self.random_state)
        state, features = self._state, kernel_features(X)
        queries = queries.by_gain() if self.weight_pairs else queries
        loss_kind = LOSSES[self.loss] + PAIR_WEIGHTS[self.weight_pairs]
        losses = Losses(loss_kind, float(self.margin), int(self.batch_size or 0), bool(self.normalise_pairs))
        order, loss, most = np.arange(len(queries)), 0.0, 0.0
        executor = current_executor()
        for _ in range(epochs):
            if shuffle:
                order = rng.permutation(len(queries))
                if self.batch_size is not None:
                    queries = queries.mixed(rng)
            loss, largest = executor.take_pass(FTRLPass(features, order, queries, losses, state))
            most = max(most, largest)
        self._keep(state.w.copy())
        self.n_steps_ = state.step
        self.loss_ = loss / max(len(queries), 1)
        return most

    def _sparse_end(self, X: Any, queries: Queries, ratio: float) -> float:
        """The smallest ``l1`` at which ``fit`` leaves every weight at zero throughout."""
        self.l1_ = np.inf
        self._state = FTRLState.start(X.shape[1], self._rules())
        return self._advance(X, queries, self.epochs, shuffle=self.shuffle)

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
