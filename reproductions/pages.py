"""Files of a run: results.json, CSV and PNG files, the page of the paper, and the index page over all papers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from reproductions.figures import Drawing, draw_all, make_drawings
from reproductions.markup import Html, element, join, page
from reproductions.plan import Method, Plan
from reproductions.plan_reading import find_plan, known_papers
from reproductions.results import PaperResults
from reproductions.table import Cell, Table, records_as_csv
from reproductions.tables import PAST_THE_PAPER, make_tables
from reproductions.verdicts import KINDS, SHORT_WITHIN_ERROR, count_kinds, short
from tercet.errors import MissingExtraError
from tercet.store import canonical_bytes, write_file_atomically

_TITLE = "Papers, reproduced"
_STATUS_TONES: dict[str, Any] = {"holds": "good", "within the error": "good", "falls short": "bad"}
_TOGETHER = re.compile(r" (?=[±%†])|(?<=±) ")  # a page breaks no line between a number, its ± and its unit


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
    kind: str  # that of the table, or "figure"
    status: str
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    section: str = ""

    @classmethod
    def from_table(cls, table: Table, missing: dict[str, str]) -> Item:
        """``missing`` has the titles of data sets that are not here."""
        if not table.has_numbers:
            absent = [missing[name] for name in table.datasets if name in missing]
            status, note = "not run", ""
            if absent and len(absent) == len(table.datasets):
                status, note = "not to be had", f"no data: {', '.join(absent)}"
            return cls(table.key, table.title, table.kind, status, note=note, section=table.section)
        # Paired tests are not the paper's own words, so there is nothing to hold.
        counts = {} if table.kind == "tests" else count_kinds(record.get("kind", "") for record in table.records)
        return cls(table.key, table.title, table.kind, _status(counts), counts, table.summary, table.section)

    @classmethod
    def from_drawing(cls, drawing: Drawing, missing: dict[str, str]) -> Item:
        n_printed = sum(bool(row.get("printed")) for row in drawing.rows)
        note = f"{n_printed} printed point{'s' if n_printed > 1 else ''} drawn in" if n_printed else ""
        status = "drawn" if drawing.rows else "not run"
        if not drawing.rows and drawing.dataset in missing:
            status, note = "not to be had", f"no data: {missing[drawing.dataset]}"
        return cls(drawing.key, drawing.title, "figure", status, note=note, section=drawing.section)


def _status(counts: dict[str, int]) -> str:
    """Status of a table: the worst of its verdicts that is not within the error."""
    tones = {KINDS[kind] for kind in counts}
    if "bad" in tones:
        return "falls short"
    if "not decided" in counts:
        return "not decided"
    if SHORT_WITHIN_ERROR in counts:
        return "within the error"
    if "good" in tones:
        return "holds"
    return "not compared" if "not compared" in counts else "shown"


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
        own = [item.counts for item in self.items if item.kind == kind and not item.section]
        return {name: sum(counts.get(name, 0) for counts in own) for name in KINDS if any(name in c for c in own)}

    def sentences(self) -> str:
        """Verdicts on printed numbers and on orderings, in a sentence each."""
        sums = {"Numbers": counted(self.counts("table")), "Orderings": counted(self.counts("orderings"))}
        return " ".join(f"{name}: {text}." for name, text in sums.items() if text)


def counted(counts: dict[str, int]) -> str:
    """Counts in words.

    Examples
    --------
    >>> counted({"short": 1, "within tolerance": 12})
    '12 within tolerance, 1 short'
    """
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if counts.get(kind))


def make_overview(results: PaperResults, tables: list[Table], drawings: list[Drawing]) -> Overview:
    """Overview of a run, in the order of the page."""
    plan, (n_run, n_all) = results.plan, results.n_fits()
    n_seeds, minutes = len({seed for *_, seed in results.fits}), results.took() / 60
    ran = f"Tercet {results.version}, {n_seeds} seed{'s' if n_seeds != 1 else ''}, {n_run:,} of {n_all:,} fits"
    ran += f", {minutes:,.0f} min of work" if minutes >= 1 else ""
    ran += f", learned on {results.gpu}" if results.gpu else ""
    missing = {name: plan.datasets[name].title for name in results.missing}
    items = [Item.from_table(table, missing) for table in tables]
    items += [Item.from_drawing(drawing, missing) for drawing in drawings]
    return Overview(
        plan.paper.key,
        plan.paper.title,
        f"{plan.paper.authors}. {plan.paper.venue}.",
        results.quick,
        ran,
        tuple(missing.values()),
        tuple(sorted(items, key=lambda item: item.section)),
    )


def _glance(overview: Overview, address: str = "", sections: tuple[str, ...] = ("",)) -> Html:
    """A row for each table and figure of these sections, with links to them."""
    rows = []
    for item in overview.items:
        if item.kind == "tests" or item.section not in sections:
            continue
        name: object = item.title
        if item.status not in ("not run", "not to be had"):
            name = element("a", item.title, href=f"{address}#{item.key}")
        details = "; ".join(text for text in (counted(item.counts), item.note) if text)
        status = _cell(Cell(item.status, tone=_STATUS_TONES.get(item.status, "plain")))
        rows.append([element("td", name), status, element("td", details)])
    return _html_table(["table or figure", "status", "verdicts"], rows)


# -- tables -----------------------------------------------------------------------------------------------------------


def _html_table(head: Iterable[str], rows: Iterable[Iterable[Html]]) -> Html:
    """A table that scrolls within its box; cells are td elements."""
    header = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    body = element("tbody", *(element("tr", *row) for row in rows))
    return element("div", element("table", header, body), class_="scroll", tabindex="0")


def _cell(cell: Cell) -> Html:
    tone = None if cell.tone == "plain" else cell.tone
    text, detail = (_TOGETHER.sub("\N{NO-BREAK SPACE}", part) for part in (cell.text, cell.detail))
    return element(
        "td",
        text if tone is None or detail else element("span", text, class_=tone),
        element("small", detail, class_=tone or "soft") if detail else None,
        element("small", cell.source, class_="source") if cell.source else None,
    )


def _table_section(table: Table) -> Html:
    """Title, notes, rows and footnotes; a table without numbers is folded."""
    content = [_html_table(table.head, ([_cell(cell) for cell in row] for row in table.rows))]
    content += [element("p", note, class_="soft") for note in table.footnotes]
    if not table.has_numbers:
        content = [element("details", element("summary", "Printed in the paper"), *content)] if table.rows else []
    notes = [element("p", note, class_="soft") for note in table.notes]
    return element("section", element("h3", table.title, id=table.key), *notes, *content)


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
        element("p", overview.sentences()),
        _glance(overview, address),
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
        element("p", overview.sentences()),
        _glance(overview, sections=("", PAST_THE_PAPER)),
    ]
    if paper.notes:
        body += [element("h2", "What to know"), element("ul", *(element("li", note) for note in paper.notes))]
    body.append(element("h2", "The paper"))
    for section in ("", PAST_THE_PAPER):
        if section and any(table.section == section for table in tables):
            body += [element("h2", section), element("p", "Nothing printed to compare with.")]
        own = [table for table in tables if table.section == section]
        body += [_table_section(table) for table in own if table.kind != "tests"]
        folded = [_table_section(table) for table in own if table.kind == "tests"]
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

_CHOOSES = {
    "training": "the least error on other training preferences",
    "validation": "the best on validation queries",
    "cross-validation": "the best over queries left out in turn; then learned from all",
    "leave-query-out": "the best over queries, each left out by itself; then learned from all",
}
# Fields of a method in columns of their own, or without influence on its numbers.
_IN_COLUMNS = (
    *("key", "title", "ranker", "datasets", "parameters", "by_dataset", "blend", "models", "seeds", "last", "quick"),
    *("note", "choose", "choose_on", "preferences"),
)


def _settings(results: PaperResults) -> Html:
    """Every method with its parameters and the way they were chosen."""
    plan = results.plan
    notes = []
    if any(method.preferences for method in plan.methods):
        notes.append(
            f"Preferences are drawn with the seed; test preferences ({plan.test_preferences:,}) with 1000 + the seed. "
            "A tie counts as an error. Seconds are those of the fastest seed on the machine of this run, with thinning "
            "and without choosing; those of a blend are the search for the amount."
        )
    if any(data.task == "rows" for data in plan.datasets.values()):
        notes.append(
            "Of equally good settings the sparser is taken, then the earlier in the list. Seconds are the median of up "
            "to five fits of the chosen setting on the machine of this run, compiled before and without choosing."
        )
    head = ("method", "ranker and parameters", "chosen", "preferences", "seeds", "data sets")
    rows = [[element("td", cell) for cell in _setting(results, method)] for method in plan.methods]
    return element(
        "section",
        element("h3", "Settings", id="settings"),
        *(element("p", note, class_="soft") for note in notes),
        element("details", element("summary", f"All {len(rows)} methods"), _html_table(head, rows)),
    )


def _setting(results: PaperResults, method: Method) -> list[object]:
    plan = results.plan

    def listed(parameters: dict[str, object]) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in parameters.items())

    code = f"{method.ranker}({listed(method.parameters)})"
    if method.blend:
        code = " + amount * ".join(plan.model(key).title for key in method.blend)
    details = [f"{name}: {', '.join(short(value) for value in values)}" for name, values in method.choose.items()]
    details += [
        f"{plan.datasets[dataset].title}: {listed(parameters)}" for dataset, parameters in method.by_dataset.items()
    ]
    others = (each for each in fields(method) if each.name not in _IN_COLUMNS and each.default_factory is MISSING)
    details += [
        f"{each.name} = {getattr(method, each.name)}" for each in others if getattr(method, each.name) != each.default
    ]
    details += [method.note] if method.note else []
    fits = [fit for (_, key, _), folds in results.fits.items() if key == method.key for fit in folds]
    for name, text in (("unfinished", "fits stopped at their limit of rounds"), ("diverged", "settings diverged")):
        count = sum(fit["facts"].get(name, 0) for fit in fits)
        details += [f"{count:,} {text}"] if count else []
    reason = results.unavailable.get(method.key)
    content = [element("code", code), *(element("small", detail) for detail in details)]
    content += [element("small", reason, class_="bad")] if reason else []
    datasets = ", ".join(plan.datasets[name].title for name in plan.datasets_of(method))
    chooses = _CHOOSES[method.choose_on] if method.choose else "nothing"
    preferences = f"{method.preferences:,}" if method.preferences else "–"
    return [method.full_title, join(content), chooses, preferences, str(plan.n_seeds(method)), datasets]
