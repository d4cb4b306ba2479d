"""Random numbers for draws of preferences, from a generator or from counters of steps.

By counters, the draw of a step depends on the seed and the number of the step alone. Any part of a run can be drawn
anywhere, on a GPU or on a CPU, with the same bits: NumPy and CuPy multiply and shift 64-bit integers alike. ``xp`` is
the module of the arrays.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

_SLOTS = 128  # random numbers of a step; a slot from 128 on would be a slot of the next step
_GOLDEN = 0x9E3779B97F4A7C15


class Numbers(Protocol):
    """Random numbers of a sequence of draws; each draw has numbered slots."""

    xp: Any

    def __len__(self) -> int: ...

    def take(self, positions: Any, first_slot: int = 0) -> Numbers:
        """Select draws, and skip slots."""
        ...

    def below(self, slot: int, n: Any) -> Any:
        """Return an integer from 0 to n - 1 for each draw; n is a number, or an array, of at most 2³²."""
        ...

    def uniform(self, slot: int) -> Any:
        """Return a number from 0 to below 1 for each draw, of 53 bits."""
        ...


class GeneratorNumbers:
    """Successive numbers of a generator; slots are ignored."""

    xp: Any = np

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self._rng, self._n = rng, n

    def __len__(self) -> int:
        return self._n

    def take(self, positions: Any, first_slot: int = 0) -> GeneratorNumbers:
        return GeneratorNumbers(self._rng, len(positions))

    def below(self, slot: int, n: Any) -> Any:
        return self._rng.integers(0, n, self._n)

    def uniform(self, slot: int) -> Any:
        return self._rng.random(self._n)


class Counters:
    """Random numbers of some steps: number ``slot`` of step t is SplitMix64 of the seed at ``128 t + slot``.

    Examples
    --------
    >>> some, others = Counters(np, 0, np.arange(4)), Counters(np, 0, np.arange(2, 4))
    >>> bool((some.below(0, 10)[2:] == others.below(0, 10)).all())
    True
    """

    def __init__(self, xp: Any, seed: int, steps: Any, first_slot: int = 0) -> None:
        self.xp = xp
        self.seed = seed
        self.steps = steps
        self.first_slot = first_slot

    def __len__(self) -> int:
        return int(self.steps.size)

    def take(self, positions: Any, first_slot: int = 0) -> Counters:
        return Counters(self.xp, self.seed, self.steps[positions], self.first_slot + first_slot)

    def bits(self, slot: int) -> Any:
        """Return 64 random bits for each step."""
        xp, slot = self.xp, self.first_slot + slot
        assert slot < _SLOTS
        offset = np.uint64((_seed_bits(self.seed) + (slot + 1) * _GOLDEN) % 2**64)
        z = self.steps.astype(xp.uint64) * np.uint64(_SLOTS * _GOLDEN % 2**64) + offset
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def below(self, slot: int, n: Any) -> Any:
        n = n.astype(self.xp.uint64) if hasattr(n, "astype") else np.uint64(n)
        return (((self.bits(slot) >> np.uint64(32)) * n) >> np.uint64(32)).astype(self.xp.int64)

    def uniform(self, slot: int) -> Any:
        return (self.bits(slot) >> np.uint64(11)).astype(self.xp.float64) * 2.0**-53


def _seed_bits(seed: int) -> int:
    """Spread a seed over 64 bits."""
    z = (seed + _GOLDEN) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    return (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
