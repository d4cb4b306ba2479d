"""Sources of preferences for training.

A source answers ``draw(step, weights)`` with any number of preferences from this step on; the loop takes a part and
asks again. The answer depends on the step alone, for some sources also on the weights at fixed steps: a resumed run
sees the same preferences.

Choose a source by the worse documents:

- ``ArraySource``: as given. For observed preferences, such as clicks.
- ``SampledSource``: any document of another class, or of a lower grade. The papers' rule; costs next to nothing and
  learns the whole ranking alike.
- ``HardSource``: a document at the top of the current ranking. For tasks with easy worse documents, such as finding
  the one translation of a text.

The sampler (``tercet.data.sampling``) draws the better documents: ``uniform_over="queries"`` gives every query the same
number of steps, ``"judgements"`` every relevant document; ``popular`` is the share of worse documents drawn as often as
documents are relevant, to keep the model from learning popularity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer, check_seed
from tercet.data.counters import Counters
from tercet.data.matrix import check_matrix
from tercet.data.preferences import Preferences, as_preferences
from tercet.data.sampling import JudgementSampler, LabelSampler, Sampler
from tercet.errors import DamagedBundleError, InputError
from tercet.learn.stored import rank_texts
from tercet.store import take_array
from tercet.store.codec import decode
from tercet.store.digest import digest_of
from tercet.store.schema import OMIT_DEFAULT
from tercet.weights import Weights

BLOCK = 8192  # preferences drawn at once; another number would change the preferences of a seed

DrawnBy = Literal["blocks", "counters"]


class Source(ABC):
    """Preferences by step.

    ``n_steps`` is the length of one epoch, or None for an endless source.

    Examples
    --------
    >>> from tercet.learn import ArraySource
    >>> source = ArraySource(Preferences([0], [1], [2]))
    >>> isinstance(source, Source), source.n_steps
    (True, 1)
    """

    n_steps: int | None
    looks_at_weights: bool = False  # True if the preferences depend on the weights

    @abstractmethod
    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        """Return preferences from ``step`` on; none ends the training. ``weights()`` is the current model."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of all preferences to come."""

    def begin(self) -> None:
        """Begin a run: forget choices by the weights of an earlier run."""
        return

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a checkpoint, besides the step."""
        return {}, {}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if meta or arrays:
            raise DamagedBundleError(f"source has {sorted({*meta, *arrays})}; a {type(self).__name__} keeps nothing")


class ArraySource(Source):
    """Given preferences, pass after pass, in their order or shuffled anew for each pass.

    Examples
    --------
    >>> source = ArraySource(Preferences([0, 1], [1, 2], [2, 0]))
    >>> source.n_steps, source.take(3, 1).query.tolist()  # step 3 is the second of the second pass
    (2, [1])
    """

    def __init__(self, prefs: Preferences, *, shuffle: bool = False, random_state: int = 0) -> None:
        if len(prefs) == 0:
            raise InputError("prefs is empty; at least one preference is needed")
        self.prefs = prefs
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_steps = len(prefs)
        self._epoch = -1
        self._shuffled = prefs

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        epoch, first = divmod(step, len(self.prefs))
        if self.shuffle and epoch != self._epoch:
            self._shuffled = self.prefs[self.order(epoch)]
            self._epoch = epoch
        return self._shuffled[first : first + BLOCK]

    def take(self, step: int, n: int) -> Preferences:
        """Return the next n preferences, over several passes if needed."""
        epochs = range(step // len(self.prefs), (step + n - 1) // len(self.prefs) + 1)
        first = step - epochs[0] * len(self.prefs)
        return self.prefs[np.concatenate([self.order(epoch) for epoch in epochs])[first : first + n]]

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the order of the preferences in a pass."""
        if not self.shuffle:
            return np.arange(len(self.prefs))
        return np.random.default_rng([self.random_state, epoch]).permutation(len(self.prefs))

    def fingerprint(self) -> str:
        return digest_of("array", self.prefs.fingerprint(), bool(self.shuffle), int(self.random_state))


class SampledSource(Source):
    """Fresh preferences from labels, judgements or links, drawn block by block, or by counters of steps.

    ``drawn_by`` names the way of a run: a GPU draws by counters, and a resumed run keeps the way everywhere.

    Examples
    --------
    >>> source = SampledSource.from_labels(["a", "a", "b", "b"], n_steps=1000)
    >>> source.n_steps
    1000
    """

    def __init__(self, sampler: Sampler, n_steps: int, *, random_state: int = 0) -> None:
        self.sampler = sampler
        self.n_steps = check_integer(n_steps, "n_steps")
        self.random_state = check_seed(random_state)
        self.drawn_by: DrawnBy = "blocks"
        self._block = -1
        self._drawn: Preferences | None = None
        self._placed: Sampler | None = None  # the sampler for draws by counters

    @classmethod
    def from_labels(cls, y: ArrayLike, n_steps: int, *, random_state: int = 0) -> SampledSource:
        return cls(LabelSampler(y), n_steps, random_state=random_state)

    def begin(self) -> None:
        self.drawn_by = "blocks"

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        if self.drawn_by == "counters":
            if self._placed is None:
                self._placed = self.sampler.placed(np)
            return Preferences(*self._placed.drawn(Counters(np, self.random_state, np.arange(step, step + BLOCK))))
        block, first = divmod(step, BLOCK)
        if block != self._block or self._drawn is None:
            self._drawn = self._draw_block(block, weights)
            self._block = block
        return self._drawn[first:]

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Preferences:
        return Preferences(*self.sampler.draw(np.random.default_rng([self.random_state, block]), BLOCK))

    def fingerprint(self) -> str:
        return digest_of("sampled", self.sampler.fingerprint(), self.n_steps, self.random_state)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return ({} if self.drawn_by == "blocks" else {"drawn_by": self.drawn_by}), {}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        drawn_by = decode(StoredDraws, meta, where="source").drawn_by
        super().restore({}, arrays)
        self.drawn_by = drawn_by


class HardSource(SampledSource):
    """Worse documents from the top of the current ranking (hard negatives).

    Every ``refresh_every`` steps, in whole blocks of 8,192, all queries are ranked against all documents with the
    weights of this step. A worse document is then, with probability ``hard``, among the query's best ``depth``
    documents, provided its grade is lower than the better document's grade, and else any worse document.

    Parameters
    ----------
    sampler : judgements to draw from; needs ``n_docs``
    Q, D : query and document matrices
    n_steps : length of an epoch
    depth : number of a query's best documents to draw from
    hard : share of worse documents from among these
    refresh_every : steps between rankings

    Notes
    -----
    Cost of a refresh: one ranking of the training queries over the collection.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.weights import Identity
    >>> X = sparse.eye_array(4, format="csr")
    >>> source = HardSource(JudgementSampler.from_qrels({0: {1: 1}}, n_docs=4), X, X, 100, depth=1, hard=1.0)
    >>> set(source.draw(0, lambda: Weights([Identity(n_terms=4)])).worse.tolist())  # the best for query 0 is text 0
    {0}
    """

    sampler: JudgementSampler
    looks_at_weights = True

    def __init__(
        self,
        sampler: JudgementSampler,
        Q: Any,
        D: Any,
        n_steps: int,
        *,
        depth: int = 30,
        hard: float = 0.5,
        refresh_every: int = BLOCK,
        random_state: int = 0,
    ) -> None:
        super().__init__(sampler, n_steps, random_state=random_state)
        self.Q, self.D = _texts_of(sampler, Q, D)
        if not 0 <= hard <= 1:
            raise InputError(f"hard must lie between 0 and 1; got {hard}")
        self.depth = min(check_integer(depth, "depth"), self.D.shape[0])
        self.hard = hard
        self.refresh_blocks = -(-check_integer(refresh_every, "refresh_every") // BLOCK)
        self._ranked_at = -1
        self._top: NDArray[np.int32] = np.empty((0, self.depth), dtype=np.int32)

    def begin(self) -> None:
        super().begin()
        self._block = self._ranked_at = -1

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Preferences:
        refresh = block // self.refresh_blocks
        if refresh != self._ranked_at:
            self._top, _ = rank_texts(weights(), self.Q[self.sampler.queries], self.D, self.depth)
            self._ranked_at = refresh
        rng = np.random.default_rng([self.random_state, block])
        query, better, worse = self.sampler.draw(rng, BLOCK)
        position = np.searchsorted(self.sampler.queries, query)
        candidate = self._top[position, rng.integers(0, self.depth, BLOCK)]
        lower = self.sampler.is_worse(query, candidate, self.sampler.grade_of(query, better))
        return Preferences(query, better, np.where(lower & (rng.random(BLOCK) < self.hard), candidate, worse))

    def fingerprint(self) -> str:
        return digest_of(super().fingerprint(), self.depth, self.hard, self.refresh_blocks)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        # The block in use was drawn from the ranking kept here, so it can be drawn again after a restart.
        return {"ranked_at": self._ranked_at}, {"top": self._top}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self._ranked_at = decode(StoredRanking, meta, where="source").ranked_at
        n_queries = self.sampler.queries.size if self._ranked_at >= 0 else 0
        self._top = take_array(arrays, "top", np.int32, (n_queries, self.depth))
        self._block = -1


@dataclass(frozen=True)
class StoredDraws:
    """Checkpoint of a random source, with the way of drawing unless block by block."""

    drawn_by: Annotated[DrawnBy, OMIT_DEFAULT] = "blocks"


@dataclass(frozen=True)
class StoredRanking:
    """Checkpoint of a ranking source, without the ranking: the number of the last refresh."""

    ranked_at: int


def _texts_of(sampler: JudgementSampler, Q: Any, D: Any) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Check the matrices against the row numbers of the sampler."""
    if sampler.n_docs is None:
        raise InputError("hard negatives are drawn from all documents; the sampler needs n_docs")
    queries, docs = check_matrix(Q, "Q"), check_matrix(D, "D")
    if docs.shape[0] != sampler.n_docs:
        raise InputError(f"D has {docs.shape[0]} rows, but the sampler draws from {sampler.n_docs} documents")
    if sampler.queries.max() >= queries.shape[0]:
        raise InputError(
            f"Q has {queries.shape[0]} rows, but the sampler has judgements of query {sampler.queries.max()}"
        )
    return queries, docs


def as_source(prefs: Any, *, shuffle: bool, random_state: int) -> Source:
    """Return a source unchanged; preferences, or triplets, as an ArraySource."""
    if isinstance(prefs, Source):
        return prefs
    return ArraySource(as_preferences(prefs), shuffle=shuffle, random_state=random_state)
