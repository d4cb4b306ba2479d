"""Two or more systems on the same queries: means, paired tests corrected for their number, wins and losses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isnan
from typing import Any, Literal, TypeAlias

import numpy as np

from tercet.data.frames import frame_of
from tercet.errors import InputError
from tercet.measure.evaluation import Evaluation, Qrels, Run, evaluate
from tercet.measure.names import Measure, parse_measure, parse_measures
from tercet.measure.significance import Method, PairedTest, holm, paired_test

Missing: TypeAlias = Literal["zero", "skip"]
# Differences of this size are rounding.
_TIE = 1e-12
_QUERIES_NAMED = 3

_SHOWN = 80  # characters of a repr


@dataclass(frozen=True, slots=True)
class PairContrast:
    """A paired test of two systems by a measure.

    Attributes
    ----------
    system, against : their names
    measure : measure of the test
    test : the paired test of system - against
    p_adjusted : its p-value, corrected for the number of tests of the comparison
    wins, ties, losses : number of queries with a better, an equal and a worse value of `system`

    Examples
    --------
    >>> from tercet.measure import PairedTest
    >>> test = PairedTest(difference=0.5, low=0.2, high=0.8, p_value=0.01, n=4, method="t")
    >>> PairContrast("learned", "BM25", Measure("RR"), test, p_adjusted=0.02, wins=3, ties=1, losses=0).wins
    3
    """

    system: str
    against: str
    measure: Measure
    test: PairedTest
    p_adjusted: float
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, repr=False)
class Comparison:
    """Result of `compare`.

    Attributes
    ----------
    systems : the evaluation of each system by its name, all of the same queries
    contrasts : the tests, by measure and pair
    method : name of the test
    missing : system name -> judged queries without a result of the system, if any
    left_out : judged queries left out, because a system has no result

    Examples
    --------
    >>> from tercet import compare
    >>> qrels = {"p": {"a": 1}, "q": {"a": 1}}
    >>> good, poor = ({qid: {"a": score, "b": 1.0} for qid in qrels} for score in (2.0, 0.0))
    >>> comparison = compare(qrels, {"poor": poor, "good": good}, "RR")
    >>> comparison.systems["good"].mean("RR"), comparison.contrasts[0].wins
    (1.0, 2)
    """

    systems: dict[str, Evaluation]
    contrasts: tuple[PairContrast, ...]
    method: str
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures, in the order asked for."""
        return next(iter(self.systems.values())).measures

    def largest(
        self, system: str, against: str, measure: str | Measure | None = None, k: int = 5
    ) -> list[tuple[str, float, float]]:
        """Return the k queries with the largest differences of two systems, by default by the first measure.

        A tuple is (qid, value of `system`, value of `against`). The largest difference is first; zeros are left out.
        """
        for name in (system, against):
            if name not in self.systems:
                raise InputError(f"There is no system {name!r}; there are {', '.join(map(repr, self.systems))}.")
        which = self.measures[0] if measure is None else parse_measure(measure)
        first, second = self.systems[system][which], self.systems[against][which]
        difference = np.abs(first - second)
        order = np.argsort(-difference, kind="stable")[:k]
        qids = self.systems[system].qids
        return [(qids[row], float(first[row]), float(second[row])) for row in order if difference[row] > _TIE]

    def __repr__(self) -> str:
        means = "; ".join(
            f"{name} {evaluation.mean(self.measures[0]):.4f}" for name, evaluation in self.systems.items()
        )
        text = means if len(means) <= _SHOWN else means[: _SHOWN - 1] + "…"
        n_queries = len(next(iter(self.systems.values())).qids)
        return f"Comparison({self.measures[0]}: {text}; {n_queries:,} queries, {len(self.contrasts)} tests)"

    def to_frame(self) -> Any:
        """Return a frame with a row for each test, of pandas, polars or Arrow, whichever is installed."""
        rows = self.to_meta()["contrasts"]
        for row in rows:
            row["low"], row["high"] = row.pop("interval")
        return frame_of({name: [row[name] for row in rows] for name in rows[0]} if rows else {})

    def notes(self) -> list[str]:
        """Notes on missing and unjudged queries, a line each."""
        lines = []
        for name, qids in self.missing.items():
            what = "left out for all systems" if self.left_out else "counted with the worst value"
            lines.append(f"{name} has no results for {_some(qids)}: {what}")
        if self.left_out:
            n_queries = len(next(iter(self.systems.values())).qids)
            lines.append(f"compared on the {n_queries:,} judged queries that every system has results for")
        unjudged = {name: evaluation.unjudged for name, evaluation in self.systems.items() if evaluation.unjudged}
        for name, count in unjudged.items():
            lines.append(f"{name} has results for {count:,} queries without judgements: not measured")
        return lines

    def to_meta(self) -> dict[str, Any]:
        """The comparison as JSON values; an unknown interval is null."""
        return {
            "queries": len(next(iter(self.systems.values())).qids),
            "systems": {
                name: {
                    str(m): {"mean": evaluation.mean(m), "interval": [_or_none(end) for end in evaluation.interval(m)]}
                    for m in evaluation.measures
                }
                for name, evaluation in self.systems.items()
            },
            "method": self.method,
            "contrasts": [
                {
                    "system": contrast.system,
                    "against": contrast.against,
                    "measure": str(contrast.measure),
                    "difference": contrast.test.difference,
                    "interval": [contrast.test.low, contrast.test.high],
                    "p": contrast.test.p_value,
                    "p_adjusted": contrast.p_adjusted,
                    "wins": contrast.wins,
                    "ties": contrast.ties,
                    "losses": contrast.losses,
                }
                for contrast in self.contrasts
            ],
            "missing": {name: list(qids) for name, qids in self.missing.items()},
            "left_out": list(self.left_out),
        }


def compare(
    qrels: Qrels,
    runs: Mapping[str, Run],
    measures: str | Measure | Iterable[str | Measure] = ("nDCG@10", "AP", "P@10", "RR"),
    *,
    baseline: str | None = None,
    method: Method = "t",
    missing: Missing = "zero",
    n: int = 10_000,
    random_state: int = 0,
) -> Comparison:
    """Compare the runs of two or more systems on the same judged queries.

    P-values are corrected for the number of all tests made, over pairs and measures, by Holm's rule.

    Parameters
    ----------
    qrels, measures : as in `evaluate`
    runs : name to run; a run without any result is an error, not a zero
    baseline : system to test all other systems against; None tests every pair, the later against the earlier
    method, n, random_state : as in `paired_test`
    missing : a judged query without a result counts with the worst value (``"zero"``), or is left out for all systems
        (``"skip"``)

    Examples
    --------
    >>> qrels = {f"q{i}": {"a": 1} for i in range(4)}
    >>> good = {qid: {"a": 2.0, "b": 1.0} for qid in qrels}
    >>> poor = {qid: {"a": 1.0, "b": 2.0 - (qid == "q0")} for qid in qrels}
    >>> [contrast] = compare(qrels, {"poor": poor, "good": good}, "RR").contrasts
    >>> contrast.system, contrast.wins, contrast.ties, contrast.losses, contrast.test.difference
    ('good', 4, 0, 0, 0.5)
    """
    parsed = parse_measures(measures)
    if missing not in ("zero", "skip"):
        raise InputError(f"'missing' must be 'zero' or 'skip'. Got {missing!r}.")
    lacking: dict[str, tuple[str, ...]] = {}
    for name, run in runs.items():
        lacks = tuple(qid for qid in qrels if not run.get(qid))
        if len(lacks) == len(qrels):
            raise InputError(
                f"System {name!r} has no result for any of the {len(qrels)} judged queries. A system without a run is "
                "an error, not a zero."
            )
        if lacks:
            lacking[name] = lacks
    lost = {qid for lacks in lacking.values() for qid in lacks} if missing == "skip" else set()
    if len(lost) == len(qrels):
        raise InputError(f"There is none of the {len(qrels)} judged queries that every system has results for.")
    judged = {qid: grades for qid, grades in qrels.items() if qid not in lost}
    judged_runs = {name: {qid: docs for qid, docs in run.items() if qid not in lost} for name, run in runs.items()}
    evaluations = {name: evaluate(judged, run, parsed) for name, run in judged_runs.items()}
    compared = compare_evaluations(evaluations, baseline=baseline, method=method, n=n, random_state=random_state)
    return replace(compared, missing=lacking, left_out=tuple(qid for qid in qrels if qid in lost))


def compare_evaluations(
    systems: Mapping[str, Evaluation],
    *,
    baseline: str | None = None,
    method: Method = "t",
    n: int = 10_000,
    random_state: int = 0,
) -> Comparison:
    """Compare evaluations of the same queries by the same measures, as `compare` does.

    Examples
    --------
    >>> from tercet import evaluate
    >>> qrels = {"p": {"a": 1}, "q": {"a": 1}}
    >>> good, poor = ({qid: {"a": score, "b": 1.0} for qid in qrels} for score in (2.0, 0.0))
    >>> systems = {"poor": evaluate(qrels, poor, "RR"), "good": evaluate(qrels, good, "RR")}
    >>> compare_evaluations(systems).contrasts[0].wins
    2
    """
    if len(systems) < 2:
        raise InputError(f"A comparison needs at least two systems. Got {len(systems)}.")
    if baseline is not None and baseline not in systems:
        raise InputError(f"The baseline {baseline!r} is not among the systems: {', '.join(map(repr, systems))}.")
    first = next(iter(systems.values()))
    for name, evaluation in systems.items():
        if evaluation.measures != first.measures or evaluation.qids != first.qids:
            raise InputError(f"System {name!r} was measured on other queries, or by other measures, than the first.")
    pairs = (
        [(later, earlier) for earlier, later in combinations(systems, 2)]
        if baseline is None
        else [(name, baseline) for name in systems if name != baseline]
    )
    asked = [(measure, system, against) for measure in first.measures for system, against in pairs]
    tests = [
        paired_test(systems[system], systems[against], method, n, random_state, measure=measure)
        for measure, system, against in asked
    ]
    adjusted = holm([test.p_value for test in tests])
    contrasts = []
    for (measure, system, against), test, p_value in zip(asked, tests, adjusted.tolist(), strict=True):
        difference = systems[system][measure] - systems[against][measure]
        if not measure.higher_is_better:
            difference = -difference
        wins, losses = int((difference > _TIE).sum()), int((difference < -_TIE).sum())
        ties = len(difference) - wins - losses
        contrasts.append(PairContrast(system, against, measure, test, p_value, wins, ties, losses))
    return Comparison(dict(systems), tuple(contrasts), method)


def _some(qids: tuple[str, ...]) -> str:
    named = ", ".join(map(repr, qids[:_QUERIES_NAMED])) + (", …" if len(qids) > _QUERIES_NAMED else "")
    return f"{len(qids):,} judged {'query' if len(qids) == 1 else 'queries'} ({named})"


def _or_none(value: float) -> float | None:
    return None if isnan(value) else value
