"""Files of a run: results.json, CSV and PNG files, the page of the paper, and the index page over all papers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from reproductions.figures import Drawing, draw_all, make_drawings
from reproductions.markup import Html, element, join, page
from reproductions.paper_results import PaperResults
from reproductions.plan import Method, Plan
from reproductions.plan_reading import find_plan, known_papers
from reproductions.table import Cell, Table, records_as_csv
from reproductions.tables import PAST_THE_PAPER, make_tables
from reproductions.verdicts import COUNT_TONES, NOT_COMPARED, SHORT_WITHIN_ERROR, count_verdicts, short
from tercet.errors import MissingExtraError
from tercet.store import canonical_bytes, write_file_atomically

_TITLE = "Papers, reproduced"
_STATUS_TONES: dict[str, Any] = {"holds": "good", "within the error": "good", "falls short": "bad"}


def write_results(results: PaperResults, output: Path) -> tuple[list[Table], MissingExtraError | None]:
    """Write tables, figures and the page; returns the tables, and the error where matplotlib is missing.

    If the folder has the name of the paper, the folder above it gets the index over this paper and the others in it.
    """
    output.mkdir(parents=True, exist_ok=True)
    tables, drawings = make_tables(results), make_drawings(results)
    missing = None
    try:
        draw_all(drawings)
    except MissingExtraError as error:
        missing = error
    for table in tables:
        write_file_atomically(output / f"{table.key}.csv", records_as_csv(table.records).encode())
    for drawing in (drawing for drawing in drawings if drawing.rows):
        write_file_atomically(output / f"{drawing.key}.csv", records_as_csv(drawing.rows).encode())
        if drawing.png is not None:
            write_file_atomically(output / f"{drawing.key}.png", drawing.png)
    overview = make_overview(results, tables, drawings)
    numbers = results.as_json() | {"overview": asdict(overview)}
    numbers["tables"] = {table.key: table.records for table in tables}
    numbers["figures"] = {drawing.key: drawing.rows for drawing in drawings if drawing.rows}
    write_file_atomically(output / "results.json", canonical_bytes(numbers))
    lack = "" if missing is None else missing.lack
    folder, key = output.resolve(), results.plan.paper.key
    in_index = folder.name in (key, f"{key}-quick") and write_index(folder.parent)
    page_of_paper = _page(results, tables, drawings, overview, lack, in_index=in_index)
    write_file_atomically(output / "index.html", page_of_paper.encode())
    return tables, missing


# -- a paper at a glance ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One table or figure: its status, and the number of verdicts of each kind."""

    key: str
    title: str
    kind: str  # "table", "facts", "orderings", "tests" or "figure"
    status: str
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    section: str = ""


@dataclass(frozen=True)
class Overview:
    """Content of the index about one run of a paper."""

    key: str
    title: str
    source: str
    quick: bool
    ran: str  # version, seeds, fits and time
    missing: tuple[str, ...]  # titles of data sets
    items: tuple[Item, ...]

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Overview:
        items = tuple(Item(**item) for item in content["items"])
        return cls(**{**content, "missing": tuple(content["missing"]), "items": items})

    def counts(self, kind: str) -> dict[str, int]:
        """Verdicts of all items of a kind that belong to the paper itself."""
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


def counted(counts: dict[str, int]) -> str:
    """Counts in words, as in "12 within tolerance, 1 short"."""
    return ", ".join(f"{counts[name]:,} {name}" for name in COUNT_TONES if counts.get(name))


def make_overview(results: PaperResults, tables: list[Table], drawings: list[Drawing]) -> Overview:
    """Overview of a run, in the order of the page."""
    plan, (n_run, n_all) = results.plan, results.n_fits()
    n_seeds, minutes = len({seed for *_, seed in results.fits}), results.took() / 60
    ran = f"Tercet {results.version}, {n_seeds} seed{'s' if n_seeds != 1 else ''}, {n_run:,} of {n_all:,} fits"
    ran += f", {minutes:,.0f} min of work" if minutes >= 1 else ""
    ran += f", learned on {results.gpu}" if results.gpu else ""
    items = [_of_table(results, table) for table in tables] + [_of_drawing(results, drawing) for drawing in drawings]
    return Overview(
        plan.paper.key,
        plan.paper.title,
        f"{plan.paper.authors}. {plan.paper.venue}.",
        results.quick,
        ran,
        tuple(plan.datasets[name].title for name in results.missing),
        tuple(sorted(items, key=lambda item: item.section)),
    )


def _of_table(results: PaperResults, table: Table) -> Item:
    plan = results.plan
    spec = next((spec for spec in plan.tables if spec.key == table.key), None)
    kind = "facts" if spec is None else "table"
    datasets: tuple[str, ...] = () if spec is None else spec.datasets
    judged = table.records
    if spec is None and (table.key == "orderings" or table.key in {standings.key for standings in plan.standings}):
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
    return Item(table.key, table.title, kind, status, counts, note, table.section)


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


def _status(counts: dict[str, int]) -> str:
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


def _of_drawing(results: PaperResults, drawing: Drawing) -> Item:
    n_printed = sum(bool(row.get("printed")) for row in drawing.rows)
    note = f"{n_printed} printed point{'s' if n_printed > 1 else ''} drawn in" if n_printed else ""
    status = "drawn" if drawing.rows else "not run"
    if not drawing.rows and drawing.dataset in results.missing:
        status, note = "not to be had", f"no data: {results.plan.datasets[drawing.dataset].title}"
    return Item(drawing.key, drawing.title, "figure", status, note=note, section=drawing.section)


def _glance(items: Iterable[Item], address: str = "") -> Html:
    """A row for each table and figure, with links to them."""
    table = Table("", ["table or figure", "status", "verdicts"])
    rows = []
    for item in items:
        details = "; ".join(text for text in (counted(item.counts), item.note) if text)
        name: object = item.title
        if item.status not in ("not run", "not to be had"):
            name = element("a", item.title, href=f"{address}#{item.key}")
        status = Cell(item.status, tone=_STATUS_TONES.get(item.status, "plain")).as_html()
        rows.append(element("tr", element("td", name), status, element("td", details)))
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in table.head)))
    return element("div", element("table", head, element("tbody", *rows)), class_="scroll", tabindex="0")


def _sums(overview: Overview) -> str:
    """Verdicts on printed numbers and on orderings, in a sentence each."""
    sums = {"Numbers": counted(overview.counts("table")), "Orderings": counted(overview.counts("orderings"))}
    return " ".join(f"{name}: {text}." for name, text in sums.items() if text)


# -- the index over all papers ----------------------------------------------------------------------------------------


def write_index(folder: Path) -> bool:
    """Write ``index.html`` over all papers with results in folders of this one; False if another page is there."""
    path = folder / "index.html"
    if path.exists() and f"<title>{_TITLE}</title>" not in path.read_text(encoding="utf-8", errors="replace"):
        return False
    found: dict[str, Overview] = {}
    for file in sorted(folder.glob("*/results.json")):
        try:
            found[file.parent.name] = Overview.from_json(json.loads(file.read_bytes())["overview"])
        except (ValueError, KeyError, TypeError):
            continue  # of another version
    write_file_atomically(path, make_index(found).encode())
    return True


def make_index(found: dict[str, Overview]) -> str:
    """The page, from overviews by the names of their folders; papers without results are listed with their command.

    A quick run is left out where there is a complete one of the same paper.
    """
    complete = {overview.key for overview in found.values() if not overview.quick}
    shown = {name: one for name, one in found.items() if not one.quick or one.key not in complete}
    sections = [_paper(name, overview) for name, overview in shown.items()]
    for key in known_papers():
        if key not in {overview.key for overview in shown.values()}:
            command = element("code", f"python -m reproductions {key}")
            sections.append(element("section", element("h2", find_plan(key).paper.title), "Not run: ", command))
    return page(_TITLE, element("main", element("h1", _TITLE), *sections))


def _paper(folder: str, overview: Overview) -> Html:
    address = f"{folder}/index.html"
    missing = f" Not here: {', '.join(overview.missing)}." if overview.missing else ""
    return element(
        "section",
        element("h2", element("a", overview.title, href=address), id=folder),
        element("p", f"{overview.source} {overview.ran}.{missing}", class_="soft"),
        element("p", "A quick run: its numbers mean little.", class_="warning") if overview.quick else None,
        element("p", _sums(overview)),
        _glance((item for item in overview.items if not item.section and item.kind != "tests"), address),
    )


# -- the page of a paper ----------------------------------------------------------------------------------------------


def _page(
    results: PaperResults,
    tables: list[Table],
    drawings: list[Drawing],
    overview: Overview,
    lack: str,
    *,
    in_index: bool,
) -> str:
    """The page as HTML; pictures are inside it."""
    paper = results.plan.paper
    body: list[object] = [
        element("p", element("a", "All papers", href="../index.html")) if in_index else None,
        element("h1", paper.title),
        element("p", overview.source),
        element(
            "p",
            f"Ours, {_what_ours_are(results.plan)}, beside the printed number, the difference and a verdict. Printed "
            f"numbers come from the paper, all others from this run: {overview.ran}.",
            class_="soft",
        ),
        *_warnings(results),
        element("h2", "At a glance"),
        element("p", _sums(overview)),
        _glance(item for item in overview.items if item.kind != "tests"),
    ]
    if paper.notes:
        body += [element("h2", "What to know"), element("ul", *(element("li", note) for note in paper.notes))]
    body.append(element("h2", "The paper"))
    tests = {comparison.key for comparison in results.plan.comparisons}
    for section in ("", PAST_THE_PAPER):
        if section and any(table.section == section for table in tables):
            body += [element("h2", section), element("p", "Nothing printed to compare with.")]
        own = [table for table in tables if table.section == section]
        body += [table.as_section() for table in own if table.key not in tests]
        folded = [table.as_section() for table in own if table.key in tests]
        if folded:
            summary = f"Paired tests, which decide the orderings ({len(folded)})"
            body.append(element("details", element("summary", summary), *folded))
        body += [_figure(drawing, lack) for drawing in drawings if drawing.rows and drawing.section == section]
    body.append(_settings(results))
    return page(f"{paper.key}, reproduced", element("main", join(body, "\n")))


def _what_ours_are(plan: Plan) -> str:
    """What our numbers are, as in "mean over seeds ± half their range"."""
    meanings = {"seeds": "half the range of the seeds", "standard error": "the standard error over queries"}
    spreads = {measure.spread for measure in plan.measures.values()}
    over = "mean over seeds"
    if any(data.task == "rows" for data in plan.datasets.values()):
        over = "mean over seeds and the test parts of the folds"
    return f"{over} ± {' or '.join(text for spread, text in meanings.items() if spread in spreads)}"


def _warnings(results: PaperResults) -> list[Html]:
    """A paragraph for a quick run, missing data sets, and failed jobs."""
    plan, parts = results.plan, []
    if results.quick:
        parts.append(["A quick run: little of everything. It shows that everything works; its numbers mean little."])
    if results.missing:
        parts.append([f"{plan.datasets[name].title} is not here: {why}." for name, why in results.missing.items()])
    if results.failed:
        parts.append(results.failed)
    return [element("p", " ".join(lines), class_="warning") for lines in parts]


def _figure(drawing: Drawing, lack: str) -> Html:
    if drawing.png is None:
        shown = element("p", f"Not drawn: {lack}. The numbers are in {drawing.key}.csv.", class_="soft")
    else:
        source = f"data:image/png;base64,{base64.b64encode(drawing.png).decode()}"
        caption = element("figcaption", drawing.caption) if drawing.caption else None
        shown = element("figure", element("div", element("img", alt=drawing.title, src=source)), caption)
    return element("section", element("h3", drawing.title, id=drawing.key), shown)


# -- settings ---------------------------------------------------------------------------------------------------------


def _settings(results: PaperResults) -> Html:
    """Every method with its parameters and how those were chosen."""
    plan = results.plan
    notes = []
    if any(method.preferences for method in plan.methods):
        notes.append(
            f"Preferences are drawn with the seed; test preferences ({plan.test_preferences:,}) with 1000 + the seed. "
            "A tie counts as an error. Seconds are those of the fastest seed on the machine of this run, thinning "
            "included and choosing parameters left out; those of a blend are what finding the amount took."
        )
    if any(data.task == "rows" for data in plan.datasets.values()):
        notes.append(
            "Of equally good settings the sparser is taken, then the earlier in the list. Seconds are the median of up "
            "to five fits of the chosen setting on the machine of this run, everything compiled before and choosing "
            "left out."
        )
    head = ("method", "ranker and parameters", "chosen", "preferences", "seeds", "data sets")
    rows = [element("tr", *(element("td", cell) for cell in _setting(results, method))) for method in plan.methods]
    table = element(
        "table",
        element("thead", element("tr", *(element("th", name, scope="col") for name in head))),
        element("tbody", join(rows, "\n")),
    )
    return element(
        "section",
        element("h3", "Settings", id="settings"),
        *(element("p", note, class_="soft") for note in notes),
        element("details", element("summary", f"All {len(rows)} methods"), element("div", table, class_="scroll")),
    )


def _setting(results: PaperResults, method: Method) -> list[object]:
    plan = results.plan

    def listed(parameters: dict[str, object]) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in parameters.items())

    code = f"{method.ranker}({listed(method.parameters)})"
    if method.blend:
        code = " + amount * ".join(plan.model(key).title for key in method.blend)
    details = [f"{name}: {', '.join(short(value) for value in values)}" for name, values in method.choose.items()]
    details += _how_it_learns(method)
    for dataset, parameters in method.by_dataset.items():
        details.append(f"{plan.datasets[dataset].title}: {listed(parameters)}")
    details += [method.note] if method.note else []
    fits = [fit for (_, key, _), folds in results.fits.items() if key == method.key for fit in folds]
    for name, text in (("unfinished", "fits stopped at their limit of rounds"), ("diverged", "settings diverged")):
        count = sum(fit["facts"].get(name, 0) for fit in fits)
        details += [f"{count:,} {text}"] if count else []
    reason = results.unavailable.get(method.key)
    what = [element("code", code), *(element("small", detail) for detail in details)]
    what += [element("small", reason, class_="bad")] if reason else []
    datasets = ", ".join(plan.datasets[name].title for name in plan.datasets_of(method))
    how = _how_it_chooses(plan, method) if method.choose else "nothing"
    preferences = f"{method.preferences:,}" if method.preferences else "–"
    return [method.full_title, join(what), how, preferences, str(plan.n_seeds(method)), datasets]


def _how_it_learns(method: Method) -> list[str]:
    """What is not usual about what a method learns from."""
    details = []
    if method.per_query:
        how = "from these alone" if method.drawn_as == "examples" else "from all rows, with these as basis vectors"
        details.append(f"{method.per_query} rows of each query are drawn with the seed; learns {how}")
    if method.map is not None:
        details.append("map: " + ", ".join(f"{name} {value}" for name, value in vars(method.map).items() if value))
    if method.share < 1:
        details.append(f"share of the links: {method.share}")
    if method.second:
        details.append(f"second objective: {method.second}")
    if method.early_stop:
        details.append("the best on validation is kept")
    if method.uniform_over == "queries":
        details.append("a query is drawn first, then one of its links")
    if method.parallel:
        details.append("learned from translations, not from preferences")
    return details


_HOW_FAR = {
    "full": "after all steps",
    "halving": "the better half of the settings after a quarter of the steps, the best after one half",
}


def _how_it_chooses(plan: Plan, method: Method) -> str:
    """What a method's parameters are chosen on, in words."""
    if method.choose_on == "training":
        return f"the least error on other training preferences, {_HOW_FAR[method.choose_how]}"
    if method.choose_on == "validation" and plan.datasets[plan.datasets_of(method)[0]].task == "links":
        return f"the best MAP on validation queries, {_HOW_FAR[method.choose_how]}"
    by = plan.measures[plan.chooses_by(method)].title
    how = f"{'the best' if method.rule == 'best' else 'the sparsest within one standard error of the best'} {by} "
    if method.choose_on == "validation":
        how += "on the validation part of each fold; learned from its training part"
        if any(plan.datasets[name].reader == "parses" for name in plan.datasets_of(method)):
            how += f"; where there is none, over the queries left out in turn in {method.cv_folds} parts"
    elif method.choose_on == "leave-query-out":
        how += "over the queries, each left out by itself; then learned from all of them"
    else:
        how += (
            f"over the queries left out in turn, {method.cv_folds} parts of the training and validation part of each "
            "fold together; then learned from both"
        )
    return how + (f"; at most {method.most_used:.1%} of the features" if method.most_used is not None else "")
