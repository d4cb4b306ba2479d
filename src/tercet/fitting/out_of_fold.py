"""Queries measured by what was learned without them, and the choice between settings by such values.

Every setting is fitted once for each fold and measured on the queries, and documents, that the fold leaves out. The
values of all folds together choose. What is reported, and what decides whether learning is kept, is *crossed*: the
value of a query is that of the setting which the queries of other groups chose, so that no query speaks for a setting
that was chosen for its sake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tercet.choose import Gain
from tercet.fitting.task import EVERY, N_FOLDS, NEW, SEEN, Decision, Fold, HeldOutPart, Space, TextHeldOut, decide
from tercet.measure import HeldOutQueries
from tercet.measure.names import Measure
from tercet.weights import Weights

Accept = Literal["all", "seen"]
ACCEPTS: Final[tuple[Accept, ...]] = ("all", "seen")
# What is chosen may lose half of what the decision allows, so that chance does not reject it.
_MOST_RISKED: Final = 0.5
_LEFT_OUT: Final = "queries left out of learning"


class Pool:
    """Values of queries by part, from several folds; those of a query that was left out more than once are averaged.

    Values are (n_settings, n_queries, n_measures).
    """

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[tuple[str, ...], NDArray[np.float64]]]] = {}

    def add(self, name: str, qids: tuple[str, ...], values: NDArray[np.float64]) -> None:
        self._found.setdefault(name, []).append((qids, values))

    @property
    def names(self) -> list[str]:
        return list(self._found)

    def qids(self, name: str) -> tuple[str, ...]:
        """The queries of a part, each once, in the order they came."""
        return tuple(dict.fromkeys(qid for qids, _ in self._found.get(name, ()) for qid in qids))

    def values(self, name: str) -> NDArray[np.float64]:
        """The mean value of each of them, (n_settings, n_queries, n_measures)."""
        position = {qid: number for number, qid in enumerate(self.qids(name))}
        first = self._found[name][0][1]
        total = np.zeros((first.shape[0], len(position), first.shape[2]))
        times = np.zeros(len(position))
        for qids, values in self._found[name]:
            positions = [position[qid] for qid in qids]
            total[:, positions] += values
            times[positions] += 1
        return total / times[:, None]


class OutOfFold:
    """The folds of a task in one space.

    Attributes
    ----------
    space : how words are weighted
    folds : what is learned without
    measures : of every value; the first one chooses
    parts : of each fold, what it is measured by
    """

    def __init__(self, space: Space, folds: Sequence[Fold], measures: tuple[Measure, ...]) -> None:
        self.space = space
        self.folds = folds
        self.measures = measures
        self.parts: list[Sequence[HeldOutPart]] = [fold.parts(space.Q, space.D) for fold in folds]

    @property
    def first(self) -> TextHeldOut:
        """What the first fold leaves out."""
        return self.parts[0][0].held_out

    def evaluate(self, of: Callable[[TextHeldOut, tuple[Measure, ...]], NDArray[np.float64]]) -> Pool:
        """Values (n_queries, n_measures) of something that learns nothing, on all that is left out."""
        pool = Pool()
        for parts in self.parts:
            for name, held_out, _ in parts:
                pool.add(name, held_out.qids, of(held_out, self._measures_of(held_out))[None])
        return pool

    def start(self) -> Pool:
        """Of what learning starts from."""
        return self.evaluate(lambda held_out, measures: held_out.evaluate(self.space.start, measures).values)

    def fit(
        self,
        train: Callable[[Fold, int], Iterable[Weights | tuple[Weights, Weights]]],
        blends: Sequence[Sequence[float]],
    ) -> list[Pool]:
        """Of each of the weights that a fold trains, with so much more of the identity, or of what stands beside them
        in a pair."""
        pools = [Pool() for _ in blends]
        for number, (fold, parts) in enumerate(zip(self.folds, self.parts, strict=True)):
            for pool, more, trained in zip(pools, blends, train(fold, number), strict=True):
                weights, other = trained if isinstance(trained, tuple) else (trained, self.space.match)
                for part, values in zip(parts, self._blended(parts, weights, other, more), strict=True):
                    pool.add(part.name, part.held_out.qids, values)
        return pools

    def _blended(
        self, parts: Sequence[HeldOutPart], weights: Weights, other: Weights, blends: Sequence[float]
    ) -> Iterator[NDArray[np.float64]]:
        """Values of each part, (n_blends, n_queries, n_measures)."""
        every = parts[0].held_out
        rankings = [part.held_out for part in parts if isinstance(part.held_out, HeldOutQueries)]
        are_parts = {part.name for part in parts} <= {EVERY, SEEN, NEW}
        if isinstance(every, HeldOutQueries) and are_parts and len(rankings) == len(parts):
            yield from every.measures_of_parts(rankings, weights, other, blends, self._measures_of(every))
            return
        for _, held_out, _ in parts:
            yield held_out.measures_of_blends(weights, other, blends, self._measures_of(held_out))

    def size(self, name: str) -> int:
        """How much evidence a part has, each query counted once."""
        sizes = [(part.size, len(part.held_out.qids)) for parts in self.parts for part in parts if part.name == name]
        n_unique = len(
            {qid for parts in self.parts for part in parts if part.name == name for qid in part.held_out.qids}
        )
        return round(sum(size for size, _ in sizes) * n_unique / max(1, sum(n for _, n in sizes)))

    def measures_of(self, name: str) -> tuple[Measure, ...]:
        """By what a part is measured."""
        return next(self._measures_of(part.held_out) for parts in self.parts for part in parts if part.name == name)

    def _measures_of(self, held_out: TextHeldOut) -> tuple[Measure, ...]:
        """Rankings by all measures, preferences by their own."""
        return self.measures if held_out.measure in self.measures else (held_out.measure,)


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate that every fold has fitted.

    Attributes
    ----------
    candidate : what it is, as the caller knows it
    blends : how much more of the identity each setting has
    pool : values of all settings
    """

    candidate: Any
    blends: Sequence[float]
    pool: Pool


@dataclass(frozen=True, eq=False)
class Choice:
    """What the values chose, and what they say of it.

    Attributes
    ----------
    tried, blend : the candidate, and how much more of the identity it gets
    before, after : part -> values (n_queries, n_measures) of the start, and crossed ones of what was learned
    decision : whether it is kept
    """

    tried: Tried
    blend: float
    before: Mapping[str, NDArray[np.float64]]
    after: Mapping[str, NDArray[np.float64]]
    decision: Decision


def choose_crossed(
    start: Pool,
    tried: Sequence[Tried],
    *,
    higher_is_better: bool,
    start_name: str,
    measure: str,
    accept: Accept = "all",
    random_state: int = 0,
) -> Choice:
    """The best setting that takes nothing from new documents, and whether it is better than the start.

    A setting may be chosen where on new documents, those that answer none of the queries that were learned from, it is
    not worse than the start by more than half a standard error; with ``accept="seen"`` that does not count. Of these
    the best mean over all queries is taken, of equals the first.
    """
    values = _SideBySide(start, tried, 1.0 if higher_is_better else -1.0, accept)
    group = values.groups(random_state)
    chosen = values.best({name: np.ones(len(start.qids(name)), dtype=bool) for name in start.names})
    after = {name: np.empty_like(values.before[name]) for name in start.names}
    for number in range(N_FOLDS):
        others = {name: group[name] != number for name in start.names}
        setting = values.best(others) if others[EVERY].any() else chosen
        for name in start.names:
            after[name][~others[name]] = values.after(setting, name)[~others[name]]
    decision = _decide(values, after, start_name, measure, accept)
    number, position = values.settings[chosen]
    return Choice(tried[number], tried[number].blends[position], values.before, after, decision)


class _SideBySide:
    """All settings of all candidates side by side."""

    def __init__(self, start: Pool, tried: Sequence[Tried], sign: float, accept: Accept) -> None:
        self.sign = sign
        self.accept = accept
        self.qids = {name: start.qids(name) for name in start.names}
        self.before = {name: start.values(name)[0] for name in start.names}
        self._values = [{name: one.pool.values(name) for name in start.names} for one in tried]
        self.settings = [(number, position) for number, one in enumerate(tried) for position in range(len(one.blends))]

    def after(self, setting: int, name: str) -> NDArray[np.float64]:
        number, position = self.settings[setting]
        values: NDArray[np.float64] = self._values[number][name][position]
        return values

    def gain(self, setting: int, name: str, where: NDArray[np.bool_]) -> Gain:
        before, after = self.before[name][where, 0], self.after(setting, name)[where, 0]
        return Gain.between(self.sign * before, self.sign * after)

    def best(self, where: Mapping[str, NDArray[np.bool_]]) -> int:
        """The setting that some queries choose."""
        every = range(len(self.settings))
        harmless = list(every)
        if self.accept == "all" and NEW in self.before and where[NEW].any():
            harmless = [one for one in every if is_harmless(self.gain(one, NEW, where[NEW]), _MOST_RISKED)]
        # Where all of them harm new documents, the one that is best all the same is shown, and rejected.
        return max(harmless or every, key=lambda one: (self.gain(one, EVERY, where[EVERY]).mean, -one))

    def groups(self, random_state: int) -> dict[str, NDArray[np.int64]]:
        """A number below 5 for each query, the same in all parts."""
        known: dict[str, int] = {}
        ordered = sorted({qid for qids in self.qids.values() for qid in qids})
        for position, number in enumerate(np.random.default_rng(random_state).permutation(len(ordered)).tolist()):
            known[ordered[number]] = position % N_FOLDS
        return {name: np.array([known[qid] for qid in qids], dtype=np.int64) for name, qids in self.qids.items()}


def is_harmless(gain: Gain, n_errors: float = 1.0) -> bool:
    """Whether something is not worse by more than so many standard errors."""
    return gain.mean >= -n_errors * gain.error


def _decide(
    values: _SideBySide, after: Mapping[str, NDArray[np.float64]], start: str, measure: str, accept: Accept
) -> Decision:
    """Accept learning where it is clearly better, and not at the cost of new documents."""
    first = {name: (values.before[name][:, 0], after[name][:, 0]) for name in values.before}
    gains = {name: Gain.between(*(values.sign * side for side in sides)) for name, sides in first.items()}
    decision = decide(gains[EVERY], *first[EVERY], start=start, measure=measure, queries=_LEFT_OUT)
    if NEW not in gains:
        return decision
    new = gains[NEW]
    summary = (
        f"On answers that no other query had, new documents, it changed by "
        f"{(first[NEW][1] - first[NEW][0]).mean():+.3f} from {first[NEW][0].mean():.3f}"
    )
    summary += f" (standard error {new.error:.3f}, {new.n_queries} queries)." if np.isfinite(new.error) else "."
    if not decision.accepted or is_harmless(new):
        return Decision(decision.accepted, f"{decision.text} {summary}")
    if accept == "seen":
        return Decision(True, f"{decision.text} {summary} That is a loss, which accept='seen' allows.")
    return Decision(
        False,
        f"Learning was rejected; the model is {start}: {measure} changed by "
        f"{(first[EVERY][1] - first[EVERY][0]).mean():+.3f} on {gains[EVERY].n_queries} {_LEFT_OUT}, but at the cost "
        f"of new documents. {summary} "
        f"accept='seen' takes it all the same.",
    )
