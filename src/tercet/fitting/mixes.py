"""Mixes of words and memory: every setting is measured on the same left-out queries, and the best value wins.

A setting is chosen by its expected value over three cases: known answers, new answers and repeated queries. Reported
values are crossed: the setting that measures a query is chosen by the queries of other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.fitting.leaving_out import N_FOLDS
from tercet.fitting.score_terms import SHAPES, Mix, Pool, ScoreTerms, Values, words_of
from tercet.fitting.task import (
    EVERY,
    KNOWN,
    NEW,
    RECENTLY,
    REPEATED,
    Past,
    Space,
    Task,
    TextHeldOut,
    evidence_size,
)
from tercet.measure.confidence import Confidence
from tercet.measure.held_out import HeldOutQueries
from tercet.measure.names import Measure
from tercet.memory import Memory, MemorySettings
from tercet.memory.value import unit_rows

WEIGHTS: Final = (0.0, 0.5, 1.0, 2.0, 4.0)  # of memory, in units of a typical best score
POOLED: Final = (0.0, 0.5, 1.0)
UNSEEN: Final = (0.0, 1.0, 2.0, 4.0, 8.0)
_ROUNDS: Final = 3
_DIGITS: Final = 9  # of expected values; smaller differences are rounding
_FEWEST_DECIDING: Final = 5  # fewest queries of a case to decide by
_LONGEST_TEXT: Final = 200  # characters of a past query, which may be a document
_FEWEST_CALIBRATING: Final = 30  # queries
_CALIBRATED_HITS: Final = 10  # of a query
_FEW_QUERIES: Final = 60  # below this a gain must be two standard errors


class Decision(NamedTuple):
    """Use of the learned parts, the reason as a sentence, and the expected gain with its standard error."""

    accepted: bool
    text: str
    gain: tuple[float, float] | None = None


class Case:
    """Values of the queries of a case, from all folds of the case; a query left out twice has the mean."""

    def __init__(self, folds: Sequence[Pool | TextHeldOut]) -> None:
        self.qids = tuple(dict.fromkeys(qid for fold in folds for qid in fold.qids))
        position = {qid: number for number, qid in enumerate(self.qids)}
        self._positions = [np.array([position[qid] for qid in fold.qids]) for fold in folds]

    def size(self, sizes: Sequence[int]) -> int:
        """Evidence of all queries from the evidence of each fold; a query left out twice counts once."""
        return round(sum(sizes) * len(self.qids) / sum(map(len, self._positions)))

    def mean(self, values: Sequence[Values]) -> Values:
        """Merge the values of the folds, (n_queries of the fold, …) each, to (n_queries, …)."""
        out = np.zeros((len(self.qids), *values[0].shape[1:]))
        times = np.zeros(len(self.qids))
        for positions, fold_values in zip(self._positions, values, strict=True):
            out[positions] += fold_values
            times[positions] += 1
        return out / times.reshape(-1, *[1] * (out.ndim - 1))


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen setting and its evidence.

    Attributes
    ----------
    mix : setting of the model, or the rejected setting
    decision : whether the mix is used, and why
    before, after : case -> values (n_queries, n_measures) of the start and, crossed, of the mix
    alone : part name -> crossed values of all answers (n_queries, n_measures) by the part alone
    qids, sizes, measures : case -> queries, their answers or preferences, and the measures of the values
    """

    mix: Mix
    decision: Decision
    before: Mapping[str, Values]
    after: Mapping[str, Values]
    alone: Mapping[str, Values]
    qids: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    measures: Mapping[str, tuple[Measure, ...]]


class MixSearch:
    """Search for the best mix.

    Parameters
    ----------
    terms : case and terms of each fold; names other than cases are for the report alone
    shares : expected share of each case
    blends : of each candidate, the extra weights of plain matching to try
    """

    def __init__(
        self,
        terms: Sequence[tuple[str, ScoreTerms]],
        shares: Mapping[str, float],
        blends: Sequence[Sequence[float]],
        measures: tuple[Measure, ...],
        random_state: int,
    ) -> None:
        self._terms = terms
        self.measures = measures
        self._sign = 1.0 if measures[0].higher_is_better else -1.0
        self._blends = blends
        self._can_remember = all(fold_terms.past is not None for _, fold_terms in terms)
        self.cases = {
            name: Case([fold_terms.held_out for case, fold_terms in terms if case == name]) for name in dict(terms)
        }
        sizes: dict[str, int] = {}
        for name in (KNOWN, NEW, REPEATED):
            if name in self.cases:
                sizes[name] = len(self.cases[name].qids)
        fewest = min(_FEWEST_DECIDING, max(sizes.values()))
        raw = {name: shares.get(name, 0.0) for name, size in sizes.items() if size >= fewest}
        raw = raw if any(raw.values()) else dict.fromkeys(raw, 1.0)
        self.shares = {name: share / sum(raw.values()) for name, share in raw.items()}
        self._pools = {name: [Pool(fold_terms) for case, fold_terms in terms if case == name] for name in self.shares}
        # Pairs compare shown documents: pairs cannot measure documents that an extra weight brings to the top.
        self._is_ranked = all(
            isinstance(fold_terms.held_out, HeldOutQueries) for case, fold_terms in terms if case in self.shares
        )
        self._unseen = UNSEEN if self._is_ranked else UNSEEN[:1]
        self._scales: dict[Mix, float] = {}
        self._values: dict[Mix, dict[str, Values]] = {}
        self._groups = _groups(self.cases, random_state)

    def scale(self, mix: Mix) -> float:
        """A typical best score by words: the unit of memory's weights."""
        words = Mix(mix.words, mix.blend)
        if words not in self._scales:
            pools = self._pools[KNOWN] if KNOWN in self._pools else next(iter(self._pools.values()))
            best = np.concatenate([pool.best_scores(words) for pool in pools])
            self._scales[words] = float(np.median(best)) if np.median(best) > 0 else 1.0
        return self._scales[words]

    def settings(self, mix: Mix, unit: float) -> MemorySettings:
        """Settings of memory for weights with an identity of weight ``unit``."""
        return mix.settings(self.scale(mix), unit)

    def values(self, mix: Mix) -> dict[str, Values]:
        """The measure of each query by case."""
        if mix not in self._values:
            scale = self.scale(mix)
            self._values[mix] = {
                name: self.cases[name].mean([pool.values(mix, scale) for pool in pools])
                for name, pools in self._pools.items()
            }
        return self._values[mix]

    def expected(self, mix: Mix, group: int | None = None) -> tuple[float, float]:
        """Return the expected value over the cases and, to break ties, the value of known answers.

        With ``group``, only the queries of the other groups count.
        """
        means = {}
        for name, values in self.values(mix).items():
            deciding = values if group is None else values[self._groups[name] != group]
            means[name] = self._sign * float(deciding.mean() if deciding.size else values.mean())
        value = sum(self.shares[name] * mean for name, mean in means.items())
        return round(value, _DIGITS), means.get(KNOWN, 0.0)

    def climb(self, mix: Mix, *, memory: bool) -> Mix:
        """Improve a mix by coordinate ascent over groups of settings."""
        for _ in range(_ROUNDS):
            before = mix
            for options in self._options(memory):
                mix = max([mix, *options(mix)], key=self.expected)
            if mix == before:
                break
        return mix

    def _options(self, memory: bool) -> list[Callable[[Mix], list[Mix]]]:
        """Functions from a mix to its neighbors."""
        steps: list[Callable[[Mix], list[Mix]]] = [lambda mix: [replace(mix, blend=blend) for blend in self._of(mix)]]
        if memory and self._can_remember:
            # All combinations, since either strength alone may be useless. The first of equal mixes explains by past
            # queries.
            strengths = [*product(POOLED, WEIGHTS, self._unseen)]
            steps += [
                lambda mix: [replace(mix, weight=w, pooled=p, unseen=u) for p, w, u in strengths],
                lambda mix: [replace(mix, shape=number) for number in range(len(SHAPES))] if mix.weight else [],
            ]
        return steps

    def _of(self, mix: Mix) -> Sequence[float]:
        return () if mix.words is None else self._blends[mix.words]

    def choose(self, *, start_name: str, share_reason: str) -> Choice:
        """Choose the mix with the best expected value, and decide whether to use it."""
        start = Mix()
        numbers: list[int | None] = [None, *range(len(self._blends))]
        firsts = [Mix(number, 0.0) for number in numbers]
        for mix in [self.climb(mix, memory=False) for mix in firsts]:
            self.climb(mix, memory=True)
        kinds = {"learned": list(self._values)}
        alone = ("words", "memory")
        kinds |= {name: [mix for mix in self._values if mix.parts == (name,)] for name in alone}
        chosen = {name: self._crossed(mixes) for name, mixes in kinds.items() if mixes}
        exact = {start, *(mix for _, by_group in chosen.values() for mix in by_group)}
        values = self.exact(sorted(exact, key=repr))
        before = {name: of_mix[start] for name, of_mix in values.items()}

        def crossed(kind: str, case: str) -> Values:
            _, by_group = chosen[kind]
            of_mix, group = values[case], self._groups[case]
            return np.stack([of_mix[by_group[number]][row] for row, number in enumerate(group)])

        after = {name: crossed("learned", name) for name in self.cases}
        mix = chosen["learned"][0]
        decision = self._decide(mix, before, after, start_name, share_reason)
        return Choice(
            mix,
            decision,
            before,
            after,
            {name: crossed(name, EVERY) for name in alone if name in chosen},
            {name: case.qids for name, case in self.cases.items()},
            {
                name: case.size([evidence_size(terms.held_out) for kind, terms in self._terms if kind == name])
                for name, case in self.cases.items()
            },
            {name: self._measures_of(terms) for name, terms in self._terms},
        )

    def _crossed(self, mixes: Sequence[Mix]) -> tuple[Mix, list[Mix]]:
        """Return the best mix by all queries and, for each group, the best mix by the queries of the other groups."""
        return self.best(mixes), [self.best(mixes, group) for group in range(N_FOLDS)]

    def best(self, mixes: Sequence[Mix], group: int | None = None) -> Mix:
        """Return the mix with the best expected value.

        Pairs compare shown documents, and cannot reward memory for other documents. So by pairs, the best mix with
        memory is returned if its value is within a standard error of the best.
        """
        best = max(mixes, key=lambda mix: self.expected(mix, group))
        with_memory = [mix for mix in mixes if mix.has_memory]
        if self._is_ranked or best.has_memory or not with_memory:
            return best
        remembering = max(with_memory, key=lambda mix: self.expected(mix, group))
        _, error = self._gain(self.values(Mix()), self.values(best), group)
        is_close = self.expected(remembering, group)[0] >= self.expected(best, group)[0] - error
        return remembering if is_close else best

    def _gain(
        self, before: Mapping[str, Values], after: Mapping[str, Values], group: int | None = None
    ) -> tuple[float, float]:
        """Expected gain over the cases, and its standard error; with a group, by the queries of the other groups."""
        mean, variance = 0.0, 0.0
        for name, share in self.shares.items():
            if share:
                gain = self._gains(before[name], after[name], self._groups[name] != group)
                mean, variance = mean + share * gain.mean, variance + (share * gain.error) ** 2
        return mean, float(np.sqrt(variance))

    def _gains(self, before: Values, after: Values, rows: NDArray[np.bool_]) -> Gain:
        """Gain over the chosen queries of a case, or over all queries if none is chosen."""
        rows = rows if rows.any() else ~rows
        return Gain.between(self._sign * before[rows], self._sign * after[rows])

    def exact(self, mixes: Sequence[Mix]) -> dict[str, dict[Mix, Values]]:
        """Case -> mix -> all measures of each query, every document ranked."""
        scales = {mix: self.scale(mix) for mix in mixes}
        results: dict[str, dict[Mix, Values]] = {}
        for name, case in self.cases.items():
            of_fold = [
                terms.exact(mixes, scales, self._measures_of(terms)) for kind, terms in self._terms if kind == name
            ]
            results[name] = {mix: case.mean([values[number] for values in of_fold]) for number, mix in enumerate(mixes)}
        return results

    def confidence(self, mix: Mix, unit: float) -> Confidence | None:
        """Calibrate hits by the queries that were left out.

        Parameters
        ----------
        mix : setting of the model
        unit : weight of plain matching in the model

        Returns
        -------
        None for preferences, which do not name the answers of a query, and for fewer than 30 queries.
        """
        scores, right = [], []
        for case, terms in self._terms:
            if case == EVERY and isinstance(terms.held_out, HeldOutQueries):
                some_scores, some_right = terms.best(mix, self.scale(mix), _CALIBRATED_HITS)
                scores += [unit * values for values in some_scores]
                right += some_right
        answers = np.concatenate([np.zeros(0, dtype=bool), *right])
        if len(scores) < _FEWEST_CALIBRATING or not 0 < answers.sum() < answers.size:
            return None
        return Confidence.fit(scores, right)

    def _measures_of(self, terms: ScoreTerms) -> tuple[Measure, ...]:
        choosing = terms.held_out.measure
        return self.measures if choosing in self.measures else (choosing,)

    def _decide(
        self, mix: Mix, before: Mapping[str, Values], after: Mapping[str, Values], start: str, share_reason: str
    ) -> Decision:
        """Use the mix if the expected gain is larger than a standard error, or two for few queries."""
        n_queries = len(self.cases[EVERY].qids)
        if not mix.parts:
            what = f"Nothing that was learned is better than {start} on {n_queries:,} queries that were left out"
            return Decision(False, f"{what}. You have {start}.")
        first, last = ({name: values[:, 0] for name, values in side.items()} for side in (before, after))
        mean, error = self._gain(first, last)
        n_errors = 2 if n_queries < _FEW_QUERIES else 1
        accepted = mean > n_errors * error
        change = self._sign * mean
        text = f"{'Used' if accepted else 'Not used'}: {' and '.join(mix.parts)}. {self.measures[0]} is expected to "
        text += f"change by {change:+.3f} (standard error {error:.3f}) from {start}"
        if not accepted:
            least = "one standard error"
            if n_errors == 2:
                least = f"the two standard errors that fewer than {_FEW_QUERIES} queries need"
            text += f", {f'less than {least}' if mean > 0 else 'no gain'}"
        weighed = []
        for name, share in sorted(self.shares.items(), key=lambda item: -item[1]):
            reason = f", {share_reason}" if name == NEW and share_reason else ""
            gain = float((last[name] - first[name]).mean())
            weighed.append(f"{name} {share:.0%}{reason} ({gain:+.3f} on {len(first[name]):,} queries)")
        text += f", weighing {'; '.join(weighed)}."
        gain_and_error = (change, error) if np.isfinite(error) else None
        return Decision(accepted, text if accepted else f"{text} You have {start}.", gain_and_error)


def _groups(cases: Mapping[str, Case], random_state: int) -> dict[str, NDArray[np.int64]]:
    """Group of each query, a number below 5, the same in all cases."""
    names = {name: [qid.removesuffix(RECENTLY) for qid in case.qids] for name, case in cases.items()}
    ordered = sorted({qid for of_case in names.values() for qid in of_case})
    order = np.random.default_rng(random_state).permutation(len(ordered))
    number_of = {ordered[row]: position % N_FOLDS for position, row in enumerate(order.tolist())}
    return {name: np.array([number_of[qid] for qid in of_case], dtype=np.int64) for name, of_case in names.items()}


def memory_of(past: Past | None, task: Task, space: Space, settings: MemorySettings) -> Memory:
    """Memory of past queries of a task."""
    assert past is not None
    texts, doc_ids = list(task.texts.values()), task.doc_ids
    columns = np.flatnonzero(past.known)
    return Memory(
        tuple(texts[row][:_LONGEST_TEXT] for row in past.rows.tolist()),
        unit_rows(space.Q[past.rows], words_of(space)).astype(np.float32),
        sparse.csr_array(past.evidence[:, columns]),
        tuple(doc_ids[row] for row in columns.tolist()),
        settings,
        past.times,
    )
