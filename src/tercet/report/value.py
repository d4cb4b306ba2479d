"""Report of a fit, of texts or feature vectors: printed, as a frame and saved."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from math import isnan, nan
from typing import Annotated, Any

from tercet.choose import ThreeWay, verdict_of
from tercet.errors import InputError
from tercet.measure import Evaluation, PairedTest, paired_test
from tercet.measure.names import PAIR_ACCURACY, parse_measure
from tercet.report.details import Details, FeatureDetails
from tercet.report.html import element, join
from tercet.report.table import Cell, Table
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT, Via

_SHOWN = 80  # characters of a repr
_INTERVAL = 1.96  # standard errors on each side of a mean

# Difference of the means, low and high end of its 95 % interval, p-value.
Change = tuple[float, float, float, float]
Values = dict[str, tuple[float, float, float]]
StoredValues = list[tuple[str, float | None, float | None, float | None]]


def _stored_values(values: Values) -> list[list[Any]]:
    """Return a list, since a saved dict loses its order, with None for the NaN of an unknown interval."""
    return [[measure, *(None if isnan(number) else number for number in row)] for measure, row in values.items()]


def _read_values(rows: StoredValues) -> Values:
    return {measure: tuple(nan if n is None else n for n in row) for measure, *row in rows}  # type: ignore[misc]


@dataclass(frozen=True)
class SystemResult:
    """A system on the queries of the report: measure -> (mean, low end, high end of the 95 % interval).

    Examples
    --------
    >>> SystemResult("BM25", {"nDCG@10": (0.29, 0.26, 0.33)}).values["nDCG@10"][0]
    0.29
    """

    name: str
    values: Annotated[Values, Via(StoredValues, _stored_values, _read_values)]

    @classmethod
    def from_evaluation(cls, name: str, evaluation: Evaluation) -> SystemResult:
        return cls(name, {str(m): (evaluation.mean(m), *evaluation.interval(m)) for m in evaluation.measures})


@dataclass(frozen=True)
class EvidenceResult:
    """Gain of learning on a case or a source of evidence.

    Attributes
    ----------
    name : name of the case or source
    measure : name of the measure
    n_queries, size : number of queries, and of their judgements, triplets or lists with a click
    start, learned : values of both systems
    change : difference of both systems; None for a single query
    """

    name: str
    measure: str
    n_queries: int
    size: int
    start: SystemResult
    learned: SystemResult
    change: Change | None

    @classmethod
    def between(
        cls, name: str, size: int, start: tuple[str, Evaluation], learned: tuple[str, Evaluation]
    ) -> EvidenceResult:
        """Compare two named systems on the same queries."""
        measure = str(learned[1].measures[0])
        change = changes_between(learned[1], start[1], measure).get(measure)
        systems = SystemResult.from_evaluation(*start), SystemResult.from_evaluation(*learned)
        return cls(name, measure, len(learned[1].qids), size, *systems, change)

    @property
    def verdict(self) -> ThreeWay | None:
        """Verdict on the change, see `Report.verdict`."""
        return _verdict(self.change, self.measure)

    def __str__(self) -> str:
        start, learned = (shown_interval(*system.values[self.measure]) for system in (self.start, self.learned))
        text = f"{self.about}: {self.shown_measure} {start} to {learned}"
        if self.change is None:
            return text
        difference, interval = shown_change(self.change, ", ")
        return f"{text}, {difference} {interval}: {self.verdict}"

    @property
    def shown_measure(self) -> str:
        """The measure in words."""
        return "share in the right order" if self.measure == PAIR_ACCURACY else self.measure

    @property
    def about(self) -> str:
        """Name with the numbers of queries and answers."""
        unit = self.name if self.name in ("judgements", "triplets") else "lists with a click"
        if self.name.endswith(("answers", "documents", "in training")):
            unit = "preferences" if self.measure == PAIR_ACCURACY else "answers"
        return f"{self.name} ({self.n_queries:,} queries, {self.size:,} {unit})"


def _verdict(change: Change | None, measure: str) -> ThreeWay | None:
    if change is None:
        return None
    _, low, high, _ = change
    return verdict_of(low, high, higher_is_better=parse_measure(measure).higher_is_better)


@dataclass(frozen=True, repr=False)
class Report:
    """Report of a fit: starts, rivals and the learned model on held-out queries, and the decision.

    ``print(report)`` prints the table of the systems and the decision.

    Attributes
    ----------
    measure : measure of the choice
    n_train, n_validation, n_test : number of queries to learn from, to choose on and to report on
    split : description of the split of queries
    systems : possible starts, the chosen start last, and then the learned model if accepted; empty without held-out
        queries
    accepted, decision : use of the learned model, with the reason
    changes : measure -> difference of the learned model, accepted or not, to its start; empty for a single query
    chosen : the chosen settings
    seconds : time of the whole fit
    rivals : other systems, such as BM25 over documents with their past queries appended
    details : details of a fit of texts, for `tercet.report.page`
    features : details of a fit of feature vectors
    notes : notes on the data
    rejected : the learned model, if rejected
    evidence : gain in each case, and on each of several sources
    expected : expected change of the measure over known answers, new answers and repeated queries, and its standard
        error; None for a decision without cases
    crossed : True for a report on training queries, each measured by models learned without the query, at a setting
        chosen by other queries; False for separate test queries

    Examples
    --------
    >>> bm25 = SystemResult("BM25", {"nDCG@10": (0.29, 0.26, 0.33)})
    >>> report = Report("nDCG@10", 100, 20, 20, "As given.", (bm25,), accepted=False, decision="Learning was rejected.")
    >>> report.systems[0].name, report.accepted
    ('BM25', False)
    """

    measure: str
    n_train: int
    n_validation: int
    n_test: int
    split: str
    systems: tuple[SystemResult, ...]
    accepted: bool
    decision: str
    changes: dict[str, Change] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    rivals: tuple[SystemResult, ...] = ()
    details: Details | None = None
    features: FeatureDetails | None = None
    notes: tuple[str, ...] = ()
    rejected: SystemResult | None = None
    evidence: tuple[EvidenceResult, ...] = ()
    crossed: bool = False
    expected: tuple[float, float] | None = None

    @classmethod
    def from_features(
        cls,
        features: FeatureDetails,
        measure: str,
        n_train: int,
        split: str,
        systems: tuple[SystemResult, ...],
        seconds: float,
        changes: dict[str, Change] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Report:
        """Make a report of feature vectors."""
        decision = features.decision(measure)
        report = cls(measure, n_train, 0, 0, split, systems, True, decision, changes or {}, seconds=seconds)
        return replace(report, features=features, notes=notes)

    @property
    def change(self) -> Change | None:
        """The difference in the measure of the choice."""
        return self.changes.get(self.measure)

    @property
    def higher_is_better(self) -> bool:
        """True if higher values of the measure are better."""
        return parse_measure(self.measure).higher_is_better

    @property
    def compared(self) -> tuple[SystemResult, SystemResult] | None:
        """The two systems of ``changes``: the learned model and its start."""
        if self.rejected is not None:
            return self.rejected, self.systems[-1]
        return (self.systems[-1], self.systems[-2]) if len(self.systems) > 1 and self.changes else None

    @property
    def verdict(self) -> ThreeWay | None:
        """Compare the learned model, accepted or not, with its start: "better", "no difference seen" or "worse".

        If training queries were left out in turn, the 95 % interval of the expected change decides, as the expected
        change decides on the use. Otherwise the 95 % interval of the difference on untouched queries decides. None
        without an interval.
        """
        if self.crossed and self.expected is not None:
            change, error = self.expected
            return _verdict((change, change - _INTERVAL * error, change + _INTERVAL * error, nan), self.measure)
        return _verdict(self.change, self.measure)

    # -- as text ----------------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Table with a row for each system, rivals first, and a column for each measure; transposed for features."""
        table = Table("", ["", *self.systems[0].values], n_labels=1)
        for system in (*self.rivals, *self.systems):
            cells = [Cell(f"{mean:.3f}", shown_ends(low, high)) for mean, low, high in system.values.values()]
            table.rows.append([Cell(system.name), *cells])
        if self.features is None:
            return table
        if self.changes:
            cells = [Cell(*shown_change(change)) for change in self.changes.values()]
            table.rows.append([Cell("difference, paired t-test"), *cells])
        return table.transposed()

    def __str__(self) -> str:
        lines = []
        if self.features is None:
            held_out = f", {self.n_validation} for validation, {self.n_test} untouched" if self.systems else ""
            if self.crossed:  # a query of a click log may be left out twice: as a whole, and by its last clicks
                held_out = f", {self.n_test} of them left out in turn"
                if self.n_test > self.n_train:
                    held_out = f", left out {self.n_test} times in turn"
            lines.append(f"{self.n_train} training queries{held_out}. {self.split}")
        else:
            lines += [f"{self.n_train:,} training queries, {self.features.n_features:,} features. {self.split}", ""]
        if self.systems:
            lines.append(self.table().as_text(details="inline", ruled=False, narrowest=22))
        if self.features is not None and self.systems:
            lines += [f"Means over {self.features.reported_on}, with 95 % intervals.", ""]
        elif self.change is not None and self.compared is not None:
            learned, start = self.compared
            difference, interval = shown_change(self.change, ", paired t-test ")
            name = learned.name if self.rejected is None else f"{learned.name} (rejected)"
            lines.append(f"{name} against {start.name}, {self.reported_on}, {self.measure}: {difference} {interval}")
        if self.evidence and self.compared is not None:
            lines.append(f"Change from {self.compared[1].name} to {self.compared[0].name}, by part:")
            lines += [f"  {result}" for result in self.evidence]
        if self.verdict is not None:
            lines.append(f"Verdict: {self.shown_verdict}")
        return "\n".join([*lines, self.decision, *(f"Note: {note}" for note in self.notes)])

    @property
    def reported_on(self) -> str:
        """The queries of the table, in words."""
        return "queries left out of learning" if self.crossed else "untouched queries"

    @property
    def shown_verdict(self) -> str:
        """The verdict in words, with the rejection if rejected."""
        verdict = "the difference cannot be told from one query" if self.verdict is None else self.verdict
        return verdict if self.accepted else f"{verdict}; rejected, so the model is {self.systems[-1].name}"

    def __repr__(self) -> str:
        means = ", ".join(f"{system.name} {system.values[self.measure][0]:.3f}" for system in self.systems[-2:])
        text = means if len(means) <= _SHOWN else means[: _SHOWN - 1] + "…"
        verdict = f"; {self.shown_verdict}" if self.systems else ""
        return f"Report({self.measure}: {text or 'nothing held out'}{verdict})"

    def _repr_html_(self) -> str:
        verdict = [element("strong", self.shown_verdict)] if self.verdict is not None else []
        notes = [element("p", line) for line in (*self.decision.splitlines(), *self.notes)]
        table = self.table().as_html() if self.systems else "Nothing was held out to report on."
        return join([table, *(element("p", part) for part in verdict), *notes])

    # -- saving -----------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The saved values and the verdict as JSON."""
        meta, _ = self.to_state()
        return json.dumps({"verdict": self.verdict, **meta}, ensure_ascii=False, indent=1, allow_nan=False)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """JSON values for ``from_state``, without arrays."""
        if self.features is None:
            return encode(_SavedTextReport(*(getattr(self, f.name) for f in fields(_SavedTextReport))))
        learned: dict[str, Any] = vars(self.features)
        return encode(
            _SavedFeatureReport(
                **learned,
                measure=self.measure,
                n_train=self.n_train,
                split=self.split,
                systems=self.systems,
                seconds=self.seconds,
                changes=tuple(self.changes.values()) or None,
                notes=self.notes,
            )
        )

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, Any]) -> Report:
        """Read a saved report; a report of feature vectors has a ranker."""
        if "ranker" in meta:
            return decode(_SavedFeatureReport, meta, arrays, where="report").report()
        return decode(_SavedTextReport, meta, arrays, where="report").report()


@dataclass(frozen=True)
class _SavedTextReport:
    """Stored form of a report of texts, without empty fields."""

    measure: str
    n_train: int
    split: str
    systems: tuple[SystemResult, ...]
    seconds: float
    n_validation: int
    n_test: int
    accepted: bool
    decision: str
    change: Change | None
    chosen: dict[str, Any]
    rivals: Annotated[tuple[SystemResult, ...], OMIT_DEFAULT] = ()
    details: Annotated[Details | None, OMIT_DEFAULT] = None
    notes: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    rejected: Annotated[SystemResult | None, OMIT_DEFAULT] = None
    evidence: Annotated[tuple[EvidenceResult, ...], OMIT_DEFAULT] = ()
    crossed: Annotated[bool, OMIT_DEFAULT] = False
    expected: Annotated[tuple[float, float] | None, OMIT_DEFAULT] = None

    def __post_init__(self) -> None:
        if not self.systems and (self.rivals or self.details is not None or self.rejected is not None):
            raise InputError("a report with rivals, details or what was rejected must have systems")
        rejected = () if self.rejected is None else (self.rejected,)
        _check_measures(self.measure, (*self.systems, *self.rivals, *rejected))

    def report(self) -> Report:
        shared = {name: value for name, value in vars(self).items() if name != "change"}
        return Report(changes={} if self.change is None else {self.measure: self.change}, **shared)


@dataclass(frozen=True)
class _SavedFeatureReport(FeatureDetails):
    """Stored form of a report of feature vectors."""

    measure: str
    n_train: int
    split: str
    systems: tuple[SystemResult, ...]
    seconds: float
    changes: tuple[Change, ...] | None
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_measures(self.measure, self.systems)
        if self.changes is not None and (not self.systems or len(self.changes) != len(self.systems[0].values)):
            raise InputError("a report must have one difference for each measure")

    def report(self) -> Report:
        features = FeatureDetails(*(getattr(self, f.name) for f in fields(FeatureDetails)))
        changes = dict(zip(self.systems[0].values, self.changes, strict=True)) if self.changes else {}
        return Report.from_features(
            features, self.measure, self.n_train, self.split, self.systems, self.seconds, changes, self.notes
        )


def _check_measures(measure: str, systems: tuple[SystemResult, ...]) -> None:
    if any(system.values.keys() != systems[0].values.keys() for system in systems):
        raise InputError("the systems of a report must all have the same measures")
    if systems and measure not in systems[0].values:
        raise InputError(f"a report has the measure {measure!r}, by which no system was measured")


# -- how numbers are shown --------------------------------------------------------------------------------------------


def shown_interval(mean: float, low: float, high: float, digits: int = 3) -> str:
    """A mean and its interval; a single query has none.

    Examples
    --------
    >>> shown_interval(0.291, 0.259, 0.324)
    '0.291 [0.259, 0.324]'
    """
    return f"{mean:.{digits}f} {shown_ends(low, high, digits)}".rstrip()


def shown_ends(low: float, high: float, digits: int = 3) -> str:
    """An interval; empty for NaN."""
    return "" if isnan(low) else f"[{low:.{digits}f}, {high:.{digits}f}]"


def shown_change(change: Change, between: str = "  ") -> tuple[str, str]:
    """A difference, and its interval with the p-value."""
    difference, low, high, p_value = change
    return f"{difference:+.3f}", f"[{low:+.3f}, {high:+.3f}]{between}{shown_p(p_value)}"


def shown_p(p_value: float) -> str:
    """Format a p-value, without digits far below any threshold.

    Examples
    --------
    >>> shown_p(0.0312), shown_p(1e-9)
    ('p = 0.031', 'p < 0.0001')
    """
    return f"p = {p_value:.2g}" if p_value >= 1e-4 else "p < 0.0001"


# -- differences ------------------------------------------------------------------------------------------------------


def changes_between(learned: Evaluation, start: Evaluation, *measures: str) -> dict[str, Change]:
    """Difference, interval and p-value over the same queries, by measure; by default all measures.

    Empty for a single query, or if a number is NaN.

    Examples
    --------
    >>> from tercet import evaluate
    >>> qrels = {"p": {"a": 1}, "q": {"a": 1}}
    >>> good, poor = ({qid: {"a": score, "b": 1.0 + (qid == "p")} for qid in qrels} for score in (3.0, 1.5))
    >>> changes_between(evaluate(qrels, good, "RR"), evaluate(qrels, poor, "RR"))["RR"][0]
    0.25
    """
    if len(learned.qids) < 2:
        return {}
    changes = {}
    for measure in measures or map(str, learned.measures):
        test: PairedTest = paired_test(learned, start, measure=measure)
        changes[measure] = (test.difference, test.low, test.high, test.p_value)
    return {} if any(isnan(number) for change in changes.values() for number in change) else changes
