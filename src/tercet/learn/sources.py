"""Where preferences come from while training.

A source answers ``draw(step, weights)`` with the preferences from that step on, as many as it likes; the loop takes
what it needs and asks again. The answer depends on the step and, for a source that looks at them, on the weights at
fixed steps, and on nothing else, so a resumed run sees the same preferences.

Which source to take is a choice of the worse document:

- ``ArraySource``: as given. For preferences that someone observed, such as clicks.
- ``SampledSource``: any of another class, or of a lower grade. The papers' rule; costs next to nothing and learns the
  whole ranking alike.
- ``StreamSource`` (``learn/streams.py``): as given, from files that are never all in memory.

What is drawn first is the sampler's choice (``tercet.data.sampling``): ``uniform_over="queries"`` gives every query the
same number of steps, ``"judgements"`` every relevant document.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._validate import check_integer, check_seed
from tercet.data.preferences import Preferences, as_preferences
from tercet.data.sampling import LabelSampler, Sampler
from tercet.errors import DamagedBundleError, InputError
from tercet.store.digest import digest_of
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
        if meta or arrays:
            raise DamagedBundleError(f"source has {sorted({*meta, *arrays})}; a {type(self).__name__} keeps nothing")


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
        epoch, first = divmod(step, len(self.prefs))
        if self.shuffle and epoch != self._epoch:
            self._shuffled = self.prefs[self._order(epoch)]
            self._epoch = epoch
        return self._shuffled[first : first + BLOCK]

    def take(self, step: int, n: int) -> Preferences:
        """The next n preferences, over as many passes as that takes."""
        epochs = range(step // len(self.prefs), (step + n - 1) // len(self.prefs) + 1)
        first = step - epochs[0] * len(self.prefs)
        return self.prefs[np.concatenate([self._order(epoch) for epoch in epochs])[first : first + n]]

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(len(self.prefs))
        return np.random.default_rng([self.random_state, epoch]).permutation(len(self.prefs))

    def fingerprint(self) -> str:
        return digest_of("array", self.prefs.fingerprint(), self.shuffle, self.random_state)


class SampledSource(Source):
    """Fresh preferences from labels, judgements or links, drawn block by block.

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
        self._block = -1
        self._drawn: Preferences | None = None

    @classmethod
    def from_labels(cls, y: ArrayLike, n_steps: int, *, random_state: int = 0) -> SampledSource:
        return cls(LabelSampler(y), n_steps, random_state=random_state)

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        block, first = divmod(step, BLOCK)
        if block != self._block or self._drawn is None:
            rng = np.random.default_rng([self.random_state, block])
            self._drawn = Preferences(*self.sampler.draw(rng, BLOCK))
            self._block = block
        return self._drawn[first:]

    def fingerprint(self) -> str:
        return digest_of("sampled", self.sampler.fingerprint(), self.n_steps, self.random_state)


def as_source(prefs: Any, *, shuffle: bool, random_state: int) -> Source:
    """A source as it is; preferences, or threes, as an ArraySource."""
    if isinstance(prefs, Source):
        return prefs
    return ArraySource(as_preferences(prefs), shuffle=shuffle, random_state=random_state)
