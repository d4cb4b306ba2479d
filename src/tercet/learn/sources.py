"""Where preferences come from while training.

A source answers ``draw(step, weights)`` with the preferences from that step on, as many as it likes; the loop takes
what it needs and asks again. The answer depends on the step (and, for hard negatives, on the weights at fixed steps)
and on nothing else, so a resumed run sees the same preferences.

Which source to take is a choice of the worse document:

- ``ArraySource``: as given. For preferences that someone observed, such as clicks.
- ``SampledSource``: any of another class, or of a lower grade. The papers' rule; costs next to nothing and learns the
  whole ranking alike.
- ``HardSource``: with probability ``hard`` one of the query's best ``depth``, else any of a lower grade. Learns the top
  of the ranking; costs a ranking of all queries at each refresh. Documents that are relevant but not judged come up
  more often than at random.
- ``WarpSource``: the first of up to ``n_tries`` random ones that comes within the margin, weighted by how soon it was
  found. Also learns the top, without ranking all documents; costs a score for each try.

What is drawn first is the sampler's choice (``tercet.data.sampling``): ``uniform_over="queries"`` gives every query the
same number of steps, ``"judgements"`` every relevant document.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, LabelSampler, Sampler, check_seed
from tercet.errors import InputError
from tercet.learn.matrices import Texts, check_texts
from tercet.learn.stored import blocks_of, rank_texts, take
from tercet.store import Fields, take_array
from tercet.weights import Weights

_SCORES_BYTES = 256 * 2**20  # of scores that are kept for a block of preferences
BLOCK = 8192  # preferences drawn at once; part of what "same seed, same bits" means


class Source(ABC):
    """Gives preferences by step.

    ``n_steps`` is the length of one epoch, or None for a source without an end.
    """

    n_steps: int | None

    @abstractmethod
    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        """Preferences from ``step`` on; an empty value ends the training. ``weights()`` is the current model."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of what the source will give."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a checkpoint must keep besides the step."""
        return {}, {}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        Fields(meta, "source").done()


class ArraySource(Source):
    """Given preferences, pass after pass, in their order or shuffled anew for each pass."""

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
        epoch, at = divmod(step, len(self.prefs))
        if self.shuffle and epoch != self._epoch:
            self._shuffled = self.prefs[self._order(epoch)]
            self._epoch = epoch
        return self._shuffled[at : at + BLOCK]

    def take(self, step: int, n: int) -> Preferences:
        """The next n preferences, over as many passes as that takes."""
        epochs = range(step // len(self.prefs), (step + n - 1) // len(self.prefs) + 1)
        at = step - epochs[0] * len(self.prefs)
        return self.prefs[np.concatenate([self._order(epoch) for epoch in epochs])[at : at + n]]

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(len(self.prefs))
        return np.random.default_rng([self.random_state, epoch]).permutation(len(self.prefs))

    def fingerprint(self) -> str:
        return digest("array", self.prefs.fingerprint(), self.shuffle, self.random_state)


class SampledSource(Source):
    """Fresh preferences from labels, judgements or links, drawn block by block.

    Examples
    --------
    >>> source = SampledSource.from_labels(["a", "a", "b", "b"], n_steps=1000)
    >>> source.n_steps
    1000
    """

    def __init__(self, sampler: Sampler, n_steps: int, *, random_state: int = 0) -> None:
        if isinstance(n_steps, bool) or not isinstance(n_steps, (int, np.integer)) or n_steps < 1:
            raise InputError(f"n_steps must be at least 1; got {n_steps!r}")
        self.sampler = sampler
        self.n_steps: int = int(n_steps)
        self.random_state = check_seed(random_state)
        self._block = -1
        self._drawn: Preferences | None = None
        self._last_step = 0

    @classmethod
    def from_labels(cls, y: ArrayLike, n_steps: int, *, random_state: int = 0) -> SampledSource:
        return cls(LabelSampler(y), n_steps, random_state=random_state)

    def _rng(self, block: int) -> np.random.Generator:
        return np.random.default_rng([self.random_state, block])

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        if step < self._last_step:
            self._begin_again()
        self._last_step = step
        block, at = divmod(step, BLOCK)
        if block != self._block or self._drawn is None:
            self._drawn = self._draw_block(block, weights)
            self._block = block
        return self._drawn[at:]

    def _begin_again(self) -> None:
        """Forget what an earlier run has left; a new one has other weights."""
        self._drawn = None

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Preferences:
        return Preferences(*self.sampler.draw(self._rng(block), BLOCK))

    def fingerprint(self) -> str:
        return digest("sampled", self.sampler.fingerprint(), self.n_steps, self.random_state)


class HardSource(SampledSource):
    """Worse documents from the top of the current ranking.

    Every ``refresh_every`` steps (rounded up to whole blocks) all queries are ranked against all documents with the
    weights of that moment. A worse document is then, with probability ``hard``, one of the query's best ``depth``
    documents, else any document of a lower grade than the better one; so it is, too, where the one of the best is not
    of a lower grade.

    Parameters
    ----------
    sampler : judgements to draw from; needs ``n_docs``
    Q, D : query and document matrices
    n_steps : length of an epoch
    depth : how many of a query's best documents to draw from
    hard : share of worse documents from among these
    refresh_every : steps between rankings

    Notes
    -----
    Cost of a refresh: one ranking of the training queries over the collection.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.data.sampling import JudgementSampler
    >>> X = sparse.eye_array(4, format="csr")
    >>> source = HardSource(JudgementSampler.from_qrels({0: {1: 1}}, n_docs=4), X, X, 100, depth=1, hard=1.0)
    >>> from tercet.weights import Identity
    >>> set(source.draw(0, lambda: Weights([Identity(n_terms=4)])).worse.tolist())  # the best for query 0 is text 0
    {0}
    """

    def __init__(
        self,
        sampler: JudgementSampler,
        Q: Texts,
        D: Texts,
        n_steps: int,
        *,
        depth: int = 100,
        hard: float = 0.5,
        refresh_every: int = 100_000,
        random_state: int = 0,
    ) -> None:
        super().__init__(sampler, n_steps, random_state=random_state)
        self.judgements = sampler
        self.Q, self.D = _check_texts(sampler, Q, D, refresh_every)
        if not 0 <= hard <= 1:
            raise InputError(f"hard must lie between 0 and 1; got {hard}")
        if depth < 1:
            raise InputError(f"depth must be at least 1; got {depth}")
        self.depth = min(depth, self.D.shape[0])
        self.hard = hard
        self.refresh_blocks = max(1, -(-refresh_every // BLOCK))
        self._top: NDArray[np.int32] | None = None
        self._top_of = -1

    def _begin_again(self) -> None:
        super()._begin_again()
        self._top = None

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Preferences:
        if block // self.refresh_blocks != self._top_of or self._top is None:
            self._top, _ = rank_texts(weights(), take(self.Q, self.judgements.queries), self.D, self.depth)
            self._top_of = block // self.refresh_blocks
        rng = self._rng(block)
        at = self.judgements.draw_better(rng, BLOCK)
        worse = self.judgements.draw_worse(rng, at)
        query, better, worse = self.judgements.pair(at, worse)
        place = np.searchsorted(self.judgements.queries, query)
        candidate = self._top[place, rng.integers(0, self.depth, BLOCK)]
        lower = self.judgements.grade_of(query, candidate) < self.judgements.grade_of(query, better)
        if self.judgements.exclude_self:
            lower &= candidate != query
        worse = np.where(lower & (rng.random(BLOCK) < self.hard), candidate, worse)
        return Preferences(query, better, worse)

    def fingerprint(self) -> str:
        return digest(super().fingerprint(), self.depth, self.hard, self.refresh_blocks)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        # The block in use was drawn from the ranking kept here, so it can be drawn again after a restart.
        return {"top_of": self._top_of}, {} if self._top is None else {"top": self._top}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        fields = Fields(meta, "source")
        self._top_of = fields.take("top_of", int)
        fields.done()
        if self._top_of >= 0:
            self._top = take_array(arrays, "top", np.int32, (self.judgements.queries.size, self.depth))
        self._block = -1


class WarpSource(SampledSource):
    """Worse documents drawn until one comes within the margin of the better one, weighted by the rank this suggests.

    For each preference documents of a lower grade are drawn, up to ``n_tries``, until
    ``score(better) - score(worse) < margin`` under the weights of the last refresh. When that took N draws, about
    ``r = (n_docs - 1) / N`` documents, rounded down and at least 1, come within the margin, and the preference gets the
    weight ``1 + 1/2 + … + 1/r`` (WARP: Weston et al. 2011), here over its largest value, so that weights lie
    between 0 and 1 and the rate keeps its meaning. When no draw comes within the margin, the last one is given, as if
    it had: the learner steps only if it does by then.

    Every ``refresh_every`` steps (rounded up to whole blocks) the weights of that moment are kept for the draws that
    follow; a checkpoint keeps them too.

    Parameters
    ----------
    sampler : judgements to draw from; needs ``n_docs``
    Q, D : query and document matrices
    n_steps : length of an epoch
    margin : that of the ranker which learns from this source
    n_tries : most draws for a preference
    refresh_every : steps between looks at the weights

    Notes
    -----
    Cost of 8,192 steps: the scores of all documents for their queries where a quarter of a gigabyte holds them, else
    the scores of the better document and of each draw, about as much as a step of a low-rank learner each.

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet.data.sampling import JudgementSampler
    >>> X = sparse.csr_array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0]])
    >>> source = WarpSource(JudgementSampler.from_qrels({0: {1: 1}}, n_docs=4), X, X, 100, margin=0.6)
    >>> from tercet.weights import Identity
    >>> sorted(set(source.draw(0, lambda: Weights([Identity(n_terms=2)])).worse.tolist()))  # text 3 is far below
    [0, 2]
    """

    def __init__(
        self,
        sampler: JudgementSampler,
        Q: Texts,
        D: Texts,
        n_steps: int,
        *,
        margin: float = 1.0,
        n_tries: int = 20,
        refresh_every: int = BLOCK,
        random_state: int = 0,
    ) -> None:
        super().__init__(sampler, n_steps, random_state=random_state)
        self.judgements = sampler
        self.Q, self.D = _check_texts(sampler, Q, D, refresh_every)
        if n_tries < 1:
            raise InputError(f"n_tries must be at least 1; got {n_tries}")
        if not 0 <= margin < np.inf:
            raise InputError(f"margin must be a finite number from 0; got {margin}")
        self.margin = float(margin)
        self.n_tries = int(n_tries)
        self.refresh_blocks = max(1, -(-refresh_every // BLOCK))
        self._weight_after = _rank_weights(self.D.shape[0], self.n_tries)
        self._weights: Weights | None = None
        self._weights_of = -1

    def _begin_again(self) -> None:
        super()._begin_again()
        self._weights = None

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Preferences:
        if block // self.refresh_blocks != self._weights_of or self._weights is None:
            self._weights = weights()
            self._weights_of = block // self.refresh_blocks
        rng = self._rng(block)
        at = self.judgements.draw_better(rng, BLOCK)
        worse = self.judgements.draw_worse(rng, at)
        query, better, worse = self.judgements.pair(at, worse)
        # A worse document that scores more than this comes within the margin.
        score = self._scorer(self._weights, query)
        limit = score(np.arange(BLOCK), better) - self.margin
        n_draws = np.full(BLOCK, self.n_tries)
        open_ = np.arange(BLOCK)
        for n in range(1, self.n_tries + 1):
            within = score(open_, worse[open_]) > limit[open_]
            n_draws[open_[within]] = n
            open_ = open_[~within]
            if n == self.n_tries or not open_.size:
                break
            worse[open_] = self.judgements.draw_worse(rng, at[open_])
        return Preferences(query, better, worse, self._weight_after[n_draws - 1])

    def _scorer(self, weights: Weights, query: NDArray[np.int32]) -> Callable[[Any, Any], NDArray[np.float64]]:
        """What scores documents for the preferences at given places of a block."""
        asked, row = np.unique(query, return_inverse=True)
        if 8 * asked.size * self.D.shape[0] <= _SCORES_BYTES:
            queries = take(self.Q, asked)
            scores = np.hstack([weights.score(queries, block) for block in blocks_of(self.D)])
            return lambda at, docs: scores[row[at], docs]
        return lambda at, docs: weights.score_rows(take(self.Q, query[at]), take(self.D, docs))

    def fingerprint(self) -> str:
        return digest(super().fingerprint(), self.margin, self.n_tries, self.refresh_blocks)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        # The block in use was drawn with the weights kept here, so it can be drawn again after a restart.
        meta, arrays = (None, {}) if self._weights is None else self._weights.to_state()
        return {"weights_of": self._weights_of, "weights": meta}, arrays

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        fields = Fields(meta, "source")
        self._weights_of = fields.take("weights_of", int)
        weights = fields.take("weights", dict | None)
        fields.done()
        self._weights = None if weights is None else Weights.from_state(weights, arrays)
        self._block = -1


def _check_texts(sampler: JudgementSampler, Q: Any, D: Any, refresh_every: int) -> tuple[Texts, Texts]:
    """The matrices, when they are those that the sampler's row numbers are of."""
    if sampler.n_docs is None:
        raise InputError("hard negatives are drawn from all documents; the sampler needs n_docs")
    queries, docs = check_texts(Q, "Q"), check_texts(D, "D")
    if docs.shape[0] != sampler.n_docs:
        raise InputError(f"D has {docs.shape[0]} rows, but the sampler draws from {sampler.n_docs} documents")
    if sampler.queries.size and sampler.queries.max() >= queries.shape[0]:
        raise InputError(
            f"Q has {queries.shape[0]} rows, but the sampler has judgements of query {sampler.queries.max()}"
        )
    if refresh_every < 1:
        raise InputError(f"refresh_every must be at least 1; got {refresh_every}")
    return queries, docs


def _rank_weights(n_docs: int, n_tries: int) -> NDArray[np.float64]:
    """The weight of a preference found at each draw: the harmonic number of its rank, over that of the first draw."""
    rank = np.maximum(1, (n_docs - 1) // np.arange(1, n_tries + 1))
    harmonic = np.cumsum(1 / np.arange(1, rank[0] + 1))
    return harmonic[rank - 1] / harmonic[-1]


def as_source(prefs: Any, *, shuffle: bool, random_state: int) -> Source:
    """A source as it is, preferences as an ArraySource."""
    if isinstance(prefs, Source):
        return prefs
    if isinstance(prefs, Preferences):
        return ArraySource(prefs, shuffle=shuffle, random_state=random_state)
    raise InputError(f"prefs must be Preferences or a Source; got {type(prefs).__name__}")


def digest(*values: Any) -> str:
    """A digest of values that JSON can hold."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
