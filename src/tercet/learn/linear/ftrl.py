"""MinBatSRank: FTRL-proximal with L1 over the pairs of one query after another (Cheng et al. 2018, Algorithm 2).

The steps are in ``kernels/ftrl.py``. ``FTRLState`` is the state of the steps, `FTRLRanker` the ranker, ``StreamFit`` a
pass over chunks of a data set larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.letor import LetorData
from tercet.errors import InputError, MissingBundleError, ParameterError
from tercet.kernels.ftrl import Features, Losses, PassBuffers, Paths, Rules, Sums, ftrl_pass
from tercet.kernels.pairs import HINGE, LISTNET, SQUARED_HINGE
from tercet.learn.base import Count, NotNegative, Positive, Seed
from tercet.learn.linear.base import SparseLinearRanker, kernel_features
from tercet.learn.linear.queries import Queries
from tercet.learn.loop import Checkpoint, QueryPass, current_executor
from tercet.store import check_destination, read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of
from tercet.store.kinds import CHECKPOINT
from tercet.store.schema import Bounds, Shape

LOSSES = {"hinge": HINGE, "hinge2": SQUARED_HINGE, "listnet": LISTNET}
_NO_SLOPES = np.empty(0)


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
        self.z = self.present()
        self.rules = rules
        self.settle()

    def present(self) -> NDArray[np.float64]:
        """Return the present z; z of an unchanged weight is behind the plain rate, which moves at every step."""
        z = self.z.copy()
        if not self.rules.per_feature:
            moving = self.w != 0
            z[moving] = -self.w[moving] * self.inverse_rates()[moving] - np.sign(self.w[moving]) * self.rules.l1
        return z

    def settle(self) -> None:
        """Compute the weights from z, G and the rules."""
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
    """One pass over the queries of an order; changes the state."""

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


# X, y and qid, whole queries
RowChunk = LetorData | tuple[Any, Any, Any]


@dataclass(frozen=True)
class StreamProgress:
    """Progress in a stream: passes done, and chunks, queries with pairs and rows of the present pass."""

    epoch: int = 0
    chunk: int = 0
    n_queries: int = 0
    n_rows: int = 0
    loss: float = 0.0  # of all queries of the pass so far
    learned: int = 0  # queries with pairs, over all passes
    finished: bool = False


@dataclass(frozen=True, eq=False)
class StreamCheckpoint:
    """Checkpoint of a stream."""

    run: str  # a digest of the data and the parameters
    progress: StreamProgress
    step: Annotated[int, Bounds(least=0)]
    z: Annotated[NDArray[np.float64], Shape("n_features")]
    G: Annotated[NDArray[np.float64], Shape("n_features")]
    w: Annotated[NDArray[np.float64], Shape("n_features")]
    l1: float
    scale: Annotated[NDArray[np.float64] | None, Shape("n_features")] = None


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
    loss : "hinge2", the squared hinge over pairs; "hinge"; or "listnet", the cross entropy of the top-one
        probabilities of labels and scores
    normalise_pairs : divide the gradient of a query by its number of pairs, for equal weight of all queries
    margin : margin of the better document of a pair
    shuffle : take the queries in a random order, a new order each epoch, and with a ``batch_size`` their rows too
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
    loss: Literal["hinge", "hinge2", "listnet"] = "hinge2"
    normalise_pairs: bool = False
    margin: Positive = 1.0
    shuffle: bool = False
    random_state: Seed = 0

    _removed_parameters: ClassVar[dict[str, Any]] = {"weight_pairs": None}
    _state: FTRLState = field(init=False)
    l1_: float = field(init=False)

    def _check_params(self) -> None:
        super()._check_params()
        if self.loss == "listnet":
            for name, value, meant in (
                ("batch_size", self.batch_size, None),
                ("normalise_pairs", self.normalise_pairs, False),
            ):
                if value != meant:
                    raise ParameterError(
                        f"loss='listnet' looks at whole lists and has no pairs; leave {name}={meant!r}, got {value!r}"
                    )

    def _rules(self) -> Rules:
        return Rules(self.l1_, float(self.rate), float(self.rho), bool(self.per_feature))

    def _learn_after(self, before: Self | None, X: Any, queries: Queries) -> None:
        # ``before`` is of no use: its penalty is a total over a pass, and would be taken once more.
        self.l1_ = self._strength(X, queries)
        self._state = FTRLState.start(X.shape[1], self._rules())
        self._advance(X, queries, self.epochs, shuffle=self.shuffle)

    def partial_fit(self, X: Any, y: Any, qid: Any = None, group: Any = None) -> Self:
        """Take one more pass, in the order of the rows.

        Parameters may have changed since the last call: z and G stay, and the new parameters give the weights. Rows
        without pairs are allowed and add nothing. The rows of the first call set the scale of the features and, if
        ``l1`` is None, the penalty, which then grows with the steps. With a number for ``l1`` and without
        ``scale_features`` two calls with whole queries give the same bits as one call with both.
        """
        self._check_params()
        is_new = not hasattr(self, "_state")
        features, queries = self._check_rows(X, y, qid, group, reset=is_new)
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
        self._advance(features, queries, 1, shuffle=False)

    def fit_stream(
        self,
        chunks: Iterable[RowChunk],
        *,
        checkpoint: Checkpoint | None = None,
        progress: Callable[[StreamProgress], None] | None = None,
    ) -> Self:
        """Learn from the start, from consecutive chunks; memory holds a chunk and the weights.

        The bits are the same as with ``partial_fit`` chunk by chunk; with a number for ``l1`` and without
        ``scale_features`` also the same as with ``fit`` on all rows at once.

        Parameters
        ----------
        chunks : whole queries each, as `LetorData` or (X, y, qid), all with the same number of features: a
            `LetorStream`, a list, or any other iterable, read once for each of the ``epochs``
        checkpoint : saves the state every ``checkpoint.every`` queries, between chunks; from a checkpoint of the same
            run, ``fit_stream`` continues to the same bits
        progress : called after each chunk, and at the end, with the progress
        """
        self._check_params()
        self._forget()
        StreamFit(self, chunks, checkpoint).go(progress)
        return self

    def _advance(self, X: Any, queries: Queries, epochs: int, *, shuffle: bool) -> float:
        """Passes over the data; returns the largest |z| met."""
        rng = np.random.default_rng(self.random_state)
        state, features = self._state, kernel_features(X)
        losses = Losses(LOSSES[self.loss], float(self.margin), int(self.batch_size or 0), bool(self.normalise_pairs))
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
        """Return the smallest ``l1`` with every weight at zero throughout."""
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


# -- streams ----------------------------------------------------------------------------------------------------------

_EXPECTED = "expected an iterable of chunks, each LetorData or (X, y, qid)"


def _rows_of(chunk: RowChunk, number: int) -> tuple[Any, Any, Any]:
    if isinstance(chunk, LetorData):
        return chunk.X, chunk.y, chunk.qid
    if not isinstance(chunk, tuple) or len(chunk) != 3:
        raise InputError(f"chunk {number} is a {type(chunk).__name__}; {_EXPECTED}")
    return chunk


def _plain(values: Any) -> Any:
    """Return an argument of a digest: lists unchanged, all else, such as frames, as arrays."""
    return values if isinstance(values, list | tuple) else np.asarray(values)


class StreamFit:
    """One call of ``fit_stream``: passes over chunks, and the state of a checkpoint."""

    def __init__(self, ranker: FTRLRanker, chunks: Iterable[RowChunk], checkpoint: Checkpoint | None) -> None:
        self.ranker, self.chunks, self.checkpoint = ranker, chunks, checkpoint
        self.progress = StreamProgress()
        if not isinstance(chunks, Iterable):
            raise InputError(f"chunks is a {type(chunks).__name__}; {_EXPECTED}")
        if ranker.shuffle:
            raise ParameterError("shuffle=True needs all queries in memory; a stream is learned from in its order")
        if ranker.epochs > 1 and iter(chunks) is chunks:
            raise InputError(
                f"epochs={ranker.epochs} needs chunks that can be gone over again, such as a LetorStream or a "
                "list; an iterator can be used once"
            )

    def go(self, progress: Callable[[StreamProgress], None] | None) -> None:
        identity = self._restore()
        written = self.progress.learned
        while not self.progress.finished:
            n_chunks = 0
            last: Any = None  # query of the chunk before
            for number, chunk in enumerate(self._from(self.progress.chunk), start=self.progress.chunk):
                X, y, qid = _rows_of(chunk, number)
                self._check_cut(number, last, qid)
                last = None if qid is None else qid[len(qid) - 1]
                self._learn(number, X, y, qid)
                n_chunks += 1
                if self.checkpoint is not None and self.progress.learned - written >= self.checkpoint.every:
                    self._write(identity)
                    written = self.progress.learned
                if progress is not None:
                    progress(self.progress)
            if not n_chunks and not self.progress.chunk:
                raise InputError("the stream has no chunks, so there is nothing to learn from")
            self._end_pass()
        if self.checkpoint is not None:
            self._write(identity)
        if progress is not None:
            progress(self.progress)

    def _from(self, number: int) -> Iterator[RowChunk]:
        """Yield chunks from a number on; an indexable set of chunks skips earlier chunks unread."""
        get, length = getattr(self.chunks, "__getitem__", None), getattr(self.chunks, "__len__", None)
        if get is not None and length is not None and not isinstance(self.chunks, Mapping):
            return (get(k) for k in range(number, length()))
        return islice(iter(self.chunks), number, None)

    def _check_cut(self, number: int, last: Any, qid: Any) -> None:
        if last is not None and qid is not None and len(qid) and last == qid[0]:
            raise InputError(
                f"chunk {number} begins with query {str(qid[0])!r}, in which chunk {number - 1} ends; cut no query"
            )

    def _learn(self, number: int, X: Any, y: Any, qid: Any) -> None:
        ranker, progress = self.ranker, self.progress
        is_first = progress.epoch == 0 and number == 0
        width = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else None
        if not is_first and width not in (None, ranker.n_features_in_):
            raise InputError(
                f"chunk {number} has {width} features, those before have {ranker.n_features_in_}; all chunks need the "
                "same number, which readers take as n_features"
            )
        features, queries = ranker._check_rows(X, y, qid, reset=is_first)
        loss = 0.0
        if len(queries):
            ranker._go_on(features, queries)
            loss = ranker.loss_ * len(queries)
        self.progress = StreamProgress(
            progress.epoch,
            number + 1,
            progress.n_queries + len(queries),
            progress.n_rows + features.shape[0],
            progress.loss + loss,
            progress.learned + len(queries),
        )

    def _end_pass(self) -> None:
        progress, ranker = self.progress, self.ranker
        if not progress.learned:
            ranker._forget()
            raise InputError(
                "no query has two documents of different grades, so there is nothing to learn from "
                f"(n_samples={progress.n_rows})"
            )
        self._keep()
        if progress.epoch + 1 == ranker.epochs:
            self.progress = replace(progress, finished=True)
        else:
            self.progress = StreamProgress(progress.epoch + 1, learned=progress.learned)

    def _keep(self) -> None:
        """Give the present weights to the ranker."""
        ranker = self.ranker
        ranker._keep(ranker._state.w.copy())
        ranker.n_steps_, ranker.loss_ = ranker._state.step, self.progress.loss / max(self.progress.n_queries, 1)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _identity(self) -> str:
        facts: list[Any] = [repr(sorted(self.ranker.get_params().items())), current_executor().pass_identity]
        fingerprint = getattr(self.chunks, "fingerprint", None)
        if fingerprint is not None:
            facts.append(fingerprint())
        elif iter(self.chunks) is not self.chunks:
            # The first chunk stands for all.
            first = next(iter(self.chunks), None)
            if first is not None:
                X, y, qid = _rows_of(first, 0)
                facts += [X.data if sparse.issparse(X) else _plain(X), _plain(y)]
                facts.append(repr(None if qid is None else list(qid)))
        return digest_of(*facts)

    def _restore(self) -> str:
        if self.checkpoint is None:
            return ""
        identity = self._identity()
        try:
            bundle = read_bundle(self.checkpoint.path, kind=CHECKPOINT)
        except MissingBundleError:
            check_destination(self.checkpoint.path)
            return identity
        stored = decode(StreamCheckpoint, bundle.meta, bundle.arrays, where="checkpoint", copy=True)
        if stored.run != identity:
            raise InputError(
                f"{self.checkpoint.path} holds a checkpoint of another run: the data or the parameters differ. "
                "Remove it or choose another path"
            )
        self.progress = stored.progress
        self.ranker.l1_, self.ranker._scale = stored.l1, stored.scale
        self.ranker._state = FTRLState(stored.z, stored.G, stored.w, stored.step, self.ranker._rules())
        self.ranker.n_features_in_ = stored.z.size
        self._keep()
        return identity

    def _write(self, identity: str) -> None:
        assert self.checkpoint is not None
        state = getattr(self.ranker, "_state", None)
        if state is None:  # no query had pairs so far, so there is nothing to keep
            return
        meta, arrays = encode(
            StreamCheckpoint(
                identity, self.progress, state.step, state.z, state.G, state.w, state.rules.l1, self.ranker._scale
            )
        )
        write_bundle(self.checkpoint.path, kind=CHECKPOINT, meta=meta, arrays=arrays)
