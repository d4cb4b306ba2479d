"""A paper at a glance: which of its tables and figures hold, fall short, or are not to be had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, Literal

from reproductions.figures import Drawing
from reproductions.paper_results import PaperResults
from reproductions.plan import Plan
from reproductions.tables import PAST_THE_PAPER
from reproductions.verdicts import COUNT_TONES, NOT_COMPARED, SHORT_WITHIN_ERROR, count_verdicts
from tercet.errors import InputError
from tercet.report.table import Table, Tone
from tercet.store.codec import decode

ItemKind = Literal["table", "facts", "orderings", "tests", "figure"]
Status = Literal[
    "holds",
    "within the error",
    "not decided",
    "falls short",
    "not compared",
    "shown",
    "cut",
    "not run",
    "not to be had",
]
STATUS_TONES: dict[Status, Tone] = {"holds": "good", "within the error": "good", "falls short": "bad", "cut": "bad"}
ORDERINGS = ("hold", "not decided", "opposite", "fall short")


@dataclass(frozen=True)
class OverviewItem:
    """One table or figure; ``counts`` are verdicts by kind, ``fits`` those that have run of all behind it."""

    key: str
    title: str
    kind: ItemKind
    status: Status
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    fits: tuple[int, ...] = ()
    section: str = ""


@dataclass(frozen=True)
class PaperOverview:
    """All that an index says about a run of one paper; its ``items`` in the order of the page."""

    key: str
    title: str
    authors: str
    venue: str
    quick: bool
    version: str
    seeds: int
    fits: tuple[int, ...]  # run, and all that there are
    items: tuple[OverviewItem, ...]
    missing: tuple[str, ...] = ()  # titles of data sets
    budget: float | None = None
    n_cut: int = 0
    jobs: int = 1  # pieces that were done at once
    seconds: float = 0.0  # of all pieces, one after the other
    card: str = ""  # the GPU that took steps

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: object) -> PaperOverview:
        """What `as_json` gave; an InputError where it is of another version."""
        return decode(cls, content, error=InputError, may_omit_defaults=True)

    def counts(self, kind: str) -> dict[str, int]:
        """The verdicts of all items of a kind, but for those past the paper."""
        return added(item.counts for item in self.items if item.kind == kind and not item.section)


def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Counts by kind, summed.

    Examples
    --------
    >>> added([{"short": 1}, {"better": 2, "short": 2}])
    {'better': 2, 'short': 3}
    """
    every = list(counts)
    sums = {name: sum(count.get(name, 0) for count in every) for name in COUNT_TONES}
    return {name: n for name, n in sums.items() if n}


def make_overview(results: PaperResults, tables: list[Table], drawings: list[Drawing]) -> PaperOverview:
    """What a run gave, item by item."""
    plan = results.plan
    items = [_of_table(results, table) for table in tables] + [_of_drawing(results, drawing) for drawing in drawings]
    seeds = {seed for *_, seed in results.cells}
    seconds, jobs = results.took()
    return PaperOverview(
        plan.paper.key,
        plan.paper.title,
        plan.paper.authors,
        plan.paper.venue,
        results.quick,
        results.version,
        len(seeds),
        results.n_fits(),
        tuple(sorted(items, key=lambda item: item.section)),
        tuple(plan.datasets[name].title for name in results.missing),
        results.budget,
        len(results.cut),
        jobs,
        seconds,
        results.card,
    )


def planned_overview(plan: Plan) -> PaperOverview:
    """A paper that has not run: every table and figure of its plan, not run."""
    from reproductions.figures import make_drawings
    from reproductions.tables import make_tables

    nothing = PaperResults(plan, False, "")
    return make_overview(nothing, make_tables(nothing), make_drawings(nothing))


def _of_table(results: PaperResults, table: Table) -> OverviewItem:
    plan = results.plan
    spec = next((spec for spec in plan.tables if spec.key == table.key), None)
    kind: ItemKind = "facts" if spec is None else "table"
    datasets: tuple[str, ...] = () if spec is None else spec.datasets
    judged = table.records
    fits: tuple[int, ...] = ()
    if spec is not None:
        fits = results.fits_of(spec)
    elif table.key == "orderings" or table.key in {standings.key for standings in plan.standings}:
        kind = "orderings"
        datasets = tuple(plan.datasets)
    for tests in plan.comparisons:
        if tests.key == table.key:  # not the paper's own words, so there is nothing to hold
            kind, datasets, judged = "tests", (tests.dataset,), []
    note = ""
    for words in plan.words:
        if words.key == table.key:
            datasets = (words.dataset,)
            n_printed = sum(map(len, words.printed.values()))
            note = f"{sum(record['shared'] for record in table.records)} of {n_printed} words shared"
    counts = count_verdicts(record.get("verdict") or "" for record in judged)
    n_missing = sum(record.get("paper") is not None and record.get("ours") is None for record in table.records)
    if table.has_numbers and spec is not None and n_missing:
        counts["not run"] = n_missing
    absent = [plan.datasets[name].title for name in datasets if name in results.missing]
    if table.has_numbers:
        status = _status(counts)
        if spec is not None and not any(plan.datasets[name].compare for name in datasets):
            note = "; ".join(["other data than the paper's", *_in_printed_order(plan, table.records)])
    elif absent and len(absent) == len(datasets):
        status, note = "not to be had", f"no data: {', '.join(absent)}"
    else:
        status, note = "not run", ""
    if not table.has_numbers:
        counts = {}
    return OverviewItem(table.key, table.title, kind, status, counts, note, fits, table.section)


def _in_printed_order(plan: Plan, records: list[dict[str, Any]]) -> list[str]:
    """How many pairs of rows stand as the paper has them, by measure: what other data can show of a table."""
    found = []
    for measure in dict.fromkeys(record["measure"] for record in records):
        rows = [
            (record["ours"], record["paper"])
            for record in records
            if record["measure"] == measure and record["ours"] is not None and record["paper"] is not None
        ]
        pairs = [(a[0] - b[0], a[1] - b[1]) for a, b in combinations(rows, 2) if a[1] != b[1]]
        if pairs:
            agreeing = sum(ours * printed > 0 for ours, printed in pairs)
            found.append(f"{plan.measures[measure].title} {agreeing} of {len(pairs)}")
    return [f"pairs of rows in the printed order: {', '.join(found)}"] if found else []


def _status(counts: dict[str, int]) -> Status:
    """What a table comes to: the worst of its verdicts that is not within the error."""
    tones = {COUNT_TONES[name] for name, n in counts.items() if n}
    if "bad" in tones:
        return "falls short"
    if "not decided" in counts:
        return "not decided"
    if SHORT_WITHIN_ERROR in counts:
        return "within the error"
    if "good" in tones:
        return "holds"
    return "not compared" if NOT_COMPARED in counts else "shown"


def _of_drawing(results: PaperResults, drawing: Drawing) -> OverviewItem:
    data = results.plan.datasets.get(drawing.dataset)
    status: Status = "cut" if drawing.is_cut else "shown"
    n_printed = sum(bool(row.get("printed")) for row in drawing.rows)
    note = f"{n_printed} printed point{'s' if n_printed > 1 else ''} drawn in" if n_printed else ""
    if not drawing.rows:
        status, note = "not run", ""
        if drawing.dataset in results.missing and data is not None:
            status, note = "not to be had", f"no data: {data.title}"
    return OverviewItem(drawing.key, drawing.title, "figure", status, note=note, section=drawing.section)


def is_past(item: OverviewItem) -> bool:
    return item.section == PAST_THE_PAPER
