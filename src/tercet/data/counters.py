"""Drawing preferences by counters: the draw of a step depends on the seed and the number of the step alone.

Any part of a run can be drawn anywhere, on a GPU or on a CPU, with the same bits: NumPy and CuPy multiply and shift
64-bit integers alike. ``xp`` is the module of the arrays.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from tercet.data.preferences import PreferenceSampler
from tercet.data.sampling import JudgementSampler, LabelSampler, MixtureSampler, Sampler

_ROUNDS = 20  # of rejection; the few that are still without a worse document look through all documents
_SLOTS = 128  # random numbers that a step can have; slots from this on would be those of the next step
_GOLDEN = 0x9E3779B97F4A7C15


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
        """Select steps, and skip slots."""
        return Counters(self.xp, self.seed, self.steps[positions], self.first_slot + first_slot)

    def bits(self, slot: int) -> Any:
        """64 random bits for each step."""
        xp, slot = self.xp, self.first_slot + slot
        assert slot < _SLOTS
        offset = np.uint64((_seed_bits(self.seed) + (slot + 1) * _GOLDEN) % 2**64)
        z = self.steps.astype(xp.uint64) * np.uint64(_SLOTS * _GOLDEN % 2**64) + offset
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def below(self, slot: int, n: Any) -> Any:
        """Return an integer from 0 to n - 1 for each step; n is a number, or an array, of at most 2³²."""
        n = n.astype(self.xp.uint64) if hasattr(n, "astype") else np.uint64(n)
        return (((self.bits(slot) >> np.uint64(32)) * n) >> np.uint64(32)).astype(self.xp.int64)

    def uniform(self, slot: int) -> Any:
        """A number from 0 to below 1 for each step, of 53 bits."""
        return (self.bits(slot) >> np.uint64(11)).astype(self.xp.float64) * 2.0**-53


def _seed_bits(seed: int) -> int:
    """Spread a seed over 64 bits."""
    z = (seed + _GOLDEN) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    return (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64


def drawn_by_counters(sampler: Sampler) -> bool:
    """Return True if preferences of the sampler can be drawn by counters."""
    if isinstance(sampler, MixtureSampler):
        return all(map(drawn_by_counters, sampler.samplers))
    return type(sampler) in _DRAWS


def placed(sampler: Sampler, xp: Any) -> Sampler:
    """Return the sampler with its arrays in the memory of ``xp``."""
    other = copy(sampler)
    if isinstance(sampler, MixtureSampler):
        other.samplers = [placed(inner, xp) for inner in sampler.samplers]  # type: ignore[attr-defined]
        return other
    if isinstance(sampler, JudgementSampler) and sampler.popular:
        sampler._better_share()  # made now, while arrays are here
    for name, value in vars(sampler).items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            setattr(other, name, xp.asarray(value))
    if isinstance(other, PreferenceSampler):
        query, better, worse = other.rows
        other.rows = xp.asarray(query), xp.asarray(better), xp.asarray(worse)
    return other


def draw_by_counters(sampler: Sampler, counters: Counters) -> tuple[Any, Any, Any]:
    """A preference for each step: query, better and worse rows, int32."""
    xp = counters.xp
    if isinstance(sampler, MixtureSampler):
        which = xp.searchsorted(xp.asarray(np.cumsum(sampler.shares)[:-1]), counters.uniform(0), side="right")
        drawn = tuple(xp.empty(len(counters), dtype=xp.int32) for _ in range(3))
        for number, inner in enumerate(sampler.samplers):
            positions = xp.flatnonzero(which == number)
            if positions.size:
                for column, rows in zip(drawn, draw_by_counters(inner, counters.take(positions, 1)), strict=True):
                    column[positions] = rows
        return drawn[0], drawn[1], drawn[2]
    query, better, worse = _DRAWS[type(sampler)](sampler, counters)
    return query.astype(xp.int32), better.astype(xp.int32), worse.astype(xp.int32)


def _draw_labels(sampler: LabelSampler, counters: Counters) -> tuple[Any, Any, Any]:
    query = sampler._queries[counters.below(0, sampler._queries.size)]
    code = sampler._codes[query]
    # One of the class's other members: skip over the query's own place.
    member = counters.below(1, sampler._counts[code] - 1)
    member = member + (member >= sampler._position[query])
    better = sampler._by_class[sampler._start[code] + member]
    # One of the rows outside the class: skip over the class's block.
    member = counters.below(2, sampler._rows.size - sampler._counts[code])
    member = member + (member >= sampler._start[code]) * sampler._counts[code]
    return query, better, sampler._by_class[member]


def _draw_preferences(sampler: PreferenceSampler, counters: Counters) -> tuple[Any, Any, Any]:
    if sampler._cumulative is None:
        drawn = counters.below(0, sampler.rows[0].size)
    else:
        shares = sampler._cumulative
        drawn = counters.xp.searchsorted(shares, counters.uniform(0) * shares[-1], side="right")
        drawn = counters.xp.minimum(drawn, shares.size - 1)
    query, better, worse = sampler.rows
    return query[drawn], better[drawn], worse[drawn]


def _draw_judgements(sampler: JudgementSampler, counters: Counters) -> tuple[Any, Any, Any]:
    xp = counters.xp
    at = _draw_better(sampler, counters)
    query, better = sampler._query[at], sampler._doc[at]
    if sampler.n_docs is None:
        lower = sampler._lower[at].astype(xp.int64)
        worse = sampler._doc[lower + counters.below(2, sampler._end[at] - lower)]
        return query, better, worse
    worse = xp.full(len(counters), -1, dtype=xp.int64)
    is_open = xp.arange(len(counters))
    if sampler.popular:
        popular = counters.uniform(2) < sampler.popular
        left = _reject(sampler, counters, at, worse, xp.flatnonzero(popular), popular=True)
        left = _choose_popular(sampler, counters, at, worse, left)
        is_open = xp.concatenate((xp.flatnonzero(~popular), left))
    left = _reject(sampler, counters, at, worse, is_open, popular=False)
    for position in left.tolist():  # hardly any: its query has judged nearly all documents
        docs = xp.arange(sampler.n_docs) if sampler._drawn_from is None else sampler._drawn_from.astype(xp.int64)
        lower = docs[_is_worse(xp, sampler, query[position], docs, sampler._grade[at[position]])]
        worse[position] = lower[counters.take(slice(position, position + 1)).below(63, lower.size)[0]]
    return query, better, worse


def _draw_better(sampler: JudgementSampler, counters: Counters, slot: int = 0) -> Any:
    """Positions of judgements for the better side; takes two slots."""
    if sampler.uniform_over == "judgements":
        return sampler._better_at[counters.below(slot, sampler._better_at.size)].astype(counters.xp.int64)
    owner = counters.below(slot, sampler.queries.size)
    position = sampler._first[owner] + counters.below(slot + 1, sampler._count[owner])
    return sampler._better_at[position].astype(counters.xp.int64)


def _reject(
    sampler: JudgementSampler, counters: Counters, at: Any, worse: Any, positions: Any, *, popular: bool
) -> Any:
    """Fill ``worse`` at these positions by rejection; return the positions without a worse document."""
    for number in range(_ROUNDS):
        if not positions.size:
            break
        some = counters.take(positions)
        # Slots 3 to 42 are those of candidates by popularity, 43 to 62 those of others; 63 and 64 choose among all.
        if popular:
            docs = sampler._doc[_draw_better(sampler, some, 3 + 2 * number)].astype(counters.xp.int64)
        else:
            rows = sampler._drawn_from
            docs = some.below(43 + number, sampler.n_docs if rows is None else rows.size)
            docs = docs if rows is None else rows[docs].astype(counters.xp.int64)
        judgements = at[positions]
        is_worse = _is_worse(counters.xp, sampler, sampler._query[judgements], docs, sampler._grade[judgements])
        worse[positions[is_worse]] = docs[is_worse]
        positions = positions[~is_worse]
    return positions


def _choose_popular(sampler: JudgementSampler, counters: Counters, at: Any, worse: Any, positions: Any) -> Any:
    """Fill ``worse`` by a look through all popular documents; return the positions without any."""
    xp = counters.xp
    if not positions.size:
        return positions
    # Popularity in whole numbers, whose sums are the same wherever they are made.
    share = (sampler._better_share() * 2.0**40).astype(xp.int64)
    docs = xp.flatnonzero(share)
    without = [positions[:0]]
    run_ends = sampler._lower[at[positions]]  # judgements of one query and grade are next to each other
    for end in xp.unique(run_ends).tolist():
        same, judgement = positions[run_ends == end], end - 1
        lower = docs[_is_worse(xp, sampler, sampler._query[judgement], docs, sampler._grade[judgement])]
        if lower.size:
            up_to = xp.cumsum(share[lower])
            drawn = counters.take(same).uniform(64) * up_to[-1].astype(xp.float64)
            position = xp.searchsorted(up_to, drawn.astype(xp.int64), side="right")
            worse[same] = lower[xp.minimum(position, lower.size - 1)]
        else:
            without.append(same)
    return xp.concatenate(without)


def _is_worse(xp: Any, sampler: JudgementSampler, query: Any, docs: Any, grade: Any) -> Any:
    """Return True for documents of a lower grade than the query's; unjudged documents have grade 0."""
    keys = query.astype(np.int64) * sampler._width + docs
    nearest = xp.minimum(xp.searchsorted(sampler._keys, keys), sampler._keys.size - 1)
    judged = sampler._keys[nearest] == keys
    lower = judged * sampler._grade[sampler._key_order[nearest]] < grade
    return lower & (docs != query) if sampler.exclude_self else lower


_DRAWS: dict[type, Any] = {
    LabelSampler: _draw_labels,
    JudgementSampler: _draw_judgements,
    PreferenceSampler: _draw_preferences,
}
