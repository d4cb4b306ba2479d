"""FTRL over chunks of a set that does not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.letor import LetorData
from tercet.errors import InputError, MissingBundleError, ParameterError
from tercet.kernels.ftrl import Rules
from tercet.learn.linear.ftrl_state import FTRLState
from tercet.learn.linear.queries import Queries
from tercet.learn.loop import Checkpoint, current_executor
from tercet.store import check_destination, read_bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.digest import digest_of
from tercet.store.kinds import CHECKPOINT
from tercet.store.schema import Bounds, Shape

# X, y and qid, whole queries
RowChunk = LetorData | tuple[Any, Any, Any]


@dataclass(frozen=True)
class StreamProgress:
    """How far a stream was learned from: passes done, and chunks, queries with pairs and rows of the one under way."""

    epoch: int = 0
    chunk: int = 0
    n_queries: int = 0
    n_rows: int = 0
    loss: float = 0.0  # of all queries of the pass so far
    learned: int = 0  # queries with pairs, over all passes
    finished: bool = False


@dataclass(frozen=True, eq=False)
class StreamCheckpoint:
    """What is kept of a run, so that it can go on."""

    run: str  # a digest of the data and the parameters
    progress: StreamProgress
    step: Annotated[int, Bounds(least=0)]
    z: Annotated[NDArray[np.float64], Shape("n_features")]
    G: Annotated[NDArray[np.float64], Shape("n_features")]
    w: Annotated[NDArray[np.float64], Shape("n_features")]
    l1: float
    scale: Annotated[NDArray[np.float64] | None, Shape("n_features")] = None


class StreamLearner(Protocol):
    """What a stream is learned by: an ``FTRLRanker``."""

    epochs: int
    shuffle: bool
    n_features_in_: int
    n_steps_: int
    loss_: float
    l1_: float
    _state: FTRLState
    _scale: NDArray[np.float64] | None

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def _rules(self) -> Rules: ...
    def _check_rows(self, X: Any, y: Any, qid: Any, *, reset: bool) -> tuple[Any, Queries]: ...
    def _go_on(self, X: Any, queries: Queries) -> None: ...
    def _keep(self, weights: NDArray[np.float64]) -> None: ...
    def _forget(self) -> None: ...


_EXPECTED = "expected an iterable of chunks, each LetorData or (X, y, qid)"


def _rows_of(chunk: RowChunk, number: int) -> tuple[Any, Any, Any]:
    if isinstance(chunk, LetorData):
        return chunk.X, chunk.y, chunk.qid
    if not isinstance(chunk, tuple) or len(chunk) != 3:
        raise InputError(f"chunk {number} is a {type(chunk).__name__}; {_EXPECTED}")
    return chunk


def _plain(values: Any) -> Any:
    """What a digest can be made of: lists as they are, all else, such as frames, as arrays."""
    return values if isinstance(values, list | tuple) else np.asarray(values)


class StreamFit:
    """One call of ``fit_stream``: passes over chunks, with what must be kept to go on after a kill."""

    def __init__(self, ranker: StreamLearner, chunks: Iterable[RowChunk], checkpoint: Checkpoint | None) -> None:
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
        """Chunks from one on; of a set that gives any of its chunks, those before are not read."""
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
        """Make what was learned so far the ranker's."""
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
