"""Where preferences come from while training.

A source answers ``draw(step, weights)`` with the preferences from that step on, as many as it likes; the loop takes
what it needs and asks again. The answer depends on the step (and, for hard negatives, on the weights at fixed steps)
and on nothing else, so a resumed run sees the same preferences.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.data.sampling import Drawn, JudgementSampler, LabelSampler, Sampler, check_seed
from tercet.errors import InputError
from tercet.store import Fields, take_array
from tercet.weights import Weights

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
            order = np.random.default_rng([self.random_state, epoch]).permutation(len(self.prefs))
            self._shuffled = self.prefs[order]
            self._epoch = epoch
        return self._shuffled[at : at + BLOCK]

    def fingerprint(self) -> str:
        return _digest("array", self.prefs.fingerprint(), self.shuffle, self.random_state)


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

    @classmethod
    def from_labels(cls, y: ArrayLike, n_steps: int, *, random_state: int = 0) -> SampledSource:
        return cls(LabelSampler(y), n_steps, random_state=random_state)

    def _rng(self, block: int) -> np.random.Generator:
        return np.random.default_rng([self.random_state, block])

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        block, at = divmod(step, BLOCK)
        if block != self._block or self._drawn is None:
            self._drawn = Preferences(*self._draw_block(block, weights))
            self._block = block
        return self._drawn[at:]

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Drawn:
        return self.sampler.draw(self._rng(block), BLOCK)

    def fingerprint(self) -> str:
        return _digest("sampled", self.sampler.fingerprint(), self.n_steps, self.random_state)


class HardSource(SampledSource):
    """Worse documents from the top of the current ranking.

    Every ``refresh_every`` steps (rounded up to whole blocks) all queries are ranked against all documents with the
    weights of that moment. A worse document is then one of the query's best ``depth`` documents of a lower grade than
    the better one, or, with probability 1 - ``hard``, any document of a lower grade.

    Cost of a refresh: one ranking of the training queries over the collection.
    """

    def __init__(
        self,
        sampler: JudgementSampler,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        n_steps: int,
        *,
        depth: int = 100,
        hard: float = 0.5,
        refresh_every: int = 100_000,
        random_state: int = 0,
    ) -> None:
        super().__init__(sampler, n_steps, random_state=random_state)
        if sampler.n_docs is None:
            raise InputError("hard negatives are drawn from all documents; the sampler needs n_docs")
        if not 0 <= hard <= 1:
            raise InputError(f"hard must lie between 0 and 1; got {hard}")
        if depth < 1:
            raise InputError(f"depth must be at least 1; got {depth}")
        self.judgements = sampler
        self.Q, self.D = Q, D
        self.depth = min(depth, D.shape[0])
        self.hard = hard
        self.refresh_blocks = max(1, -(-refresh_every // BLOCK))
        self._top: NDArray[np.int32] | None = None
        self._top_of = -1

    def _draw_block(self, block: int, weights: Callable[[], Weights]) -> Drawn:
        if block // self.refresh_blocks != self._top_of or self._top is None:
            self._top, _ = weights().rank(self.Q[self.judgements.queries], self.D, self.depth)
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
        return query, better, worse

    def fingerprint(self) -> str:
        return _digest(super().fingerprint(), self.depth, self.hard, self.refresh_blocks)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        # The block in use was drawn from the ranking kept here, so it can be drawn again after a restart.
        return {"top_of": self._top_of}, {} if self._top is None else {"top": self._top}

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        fields = Fields(meta, "source")
        self._top_of = fields.take("top_of", int)
        fields.done()
        if self._top_of >= 0:
            self._top = take_array(arrays, "top", np.int32, (self.judgements.queries.size, self.depth))


def as_source(prefs: Any, *, shuffle: bool, random_state: int) -> Source:
    """A source as it is, preferences as an ArraySource."""
    if isinstance(prefs, Source):
        return prefs
    if isinstance(prefs, Preferences):
        return ArraySource(prefs, shuffle=shuffle, random_state=random_state)
    raise InputError(f"prefs must be Preferences or a Source; got {type(prefs).__name__}")


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
