"""Files of a run: results.json, CSV and PNG files, the page of the paper, and the index page over all papers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reproductions.figures import Drawing, draw_all, make_drawings
from reproductions.markup import Html, element, join, page
from reproductions.plan_reading import find_plan, known_papers
from reproductions.results import PaperResults
from reproductions.table import Cell, Table, records_as_csv
from reproductions.tables import make_tables
from reproductions.verdicts import KINDS, count_kinds
from tercet.errors import MissingExtraError
from tercet.store import canonical_bytes, write_file_atomically

_TITLE = "Papers, reproduced"
_COUNTED = {"table": "Printed numbers", "orderings": "Orderings of the paper", "our-orderings": "Orderings of ours"}
_TOGETHER = re.compile(r" (?=[±%†])|(?<=±) ")  # a page breaks no line between a number, its ± and its unit


def write_results(results: PaperResults, output: Path) -> tuple[list[Table], MissingExtraError | None]:
    """Write tables, figures and the page; return the tables, and the error if matplotlib is missing.

    If the folder has the name of the paper, the parent folder gets the index of all papers.
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
    overview = make_overview(results, tables)
    numbers = results.as_json() | {"overview": overview}
    numbers["tables"] = {table.key: table.records for table in tables}
    numbers["figures"] = {drawing.key: drawing.rows for drawing in drawings if drawing.rows}
    write_file_atomically(output / "results.json", canonical_bytes(numbers))
    lack = "" if missing is None else missing.lack
    write_file_atomically(output / "index.html", _page(results, tables, drawings, overview, lack).encode())
    if output.resolve().name in (results.plan.paper.key, f"{results.plan.paper.key}-quick"):
        write_index(output.resolve().parent)
    return tables, missing


def make_overview(results: PaperResults, tables: list[Table]) -> dict[str, Any]:
    """Content of the index about one run: the paper, the size of the run, and the verdicts counted by kind."""
    plan, (n_run, n_all) = results.plan, results.n_fits()
    n_seeds, minutes = len({seed for *_, seed in results.fits}), results.took() / 60
    ran = f"Tercet {results.version}, {n_seeds} seed{'s' if n_seeds != 1 else ''}, {n_run:,} of {n_all:,} fits"
    ran += f", {minutes:,.0f} min of work" if minutes >= 1 else ""
    ran += f", learned on {results.gpu}" if results.gpu else ""
    return {
        "key": plan.paper.key,
        "title": plan.paper.title,
        "source": f"{plan.paper.authors}. {plan.paper.venue}.",
        "quick": results.quick,
        "ran": ran,
        "missing": [plan.datasets[name].title for name in results.missing],
        "counts": {
            kind: count_kinds(
                record.get("kind", "") for table in tables if table.kind == kind for record in table.records
            )
            for kind in _COUNTED
        },
    }


def counted(counts: dict[str, int]) -> str:
    """Counts in words.

    Examples
    --------
    >>> counted({"short": 1, "same": 12})
    '12 same, 1 short'
    """
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if counts.get(kind))


def _sentences(overview: dict[str, Any]) -> str:
    """Verdicts on printed numbers and on orderings, in a sentence each."""
    counts = {title: counted(overview["counts"][kind]) for kind, title in _COUNTED.items()}
    return " ".join(f"{title}: {text}." for title, text in counts.items() if text)


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
    notes = [element("p", note, class_="soft") for note in (*table.notes, table.summary) if note]
    return element("section", element("h3", table.title, id=table.key), *notes, *content)


# -- the index over all papers ----------------------------------------------------------------------------------------


def write_index(folder: Path) -> None:
    """Write ``index.html`` over all papers with results in folders of this one; leave another page alone."""
    path = folder / "index.html"
    if path.exists() and f"<title>{_TITLE}</title>" not in path.read_text(encoding="utf-8", errors="replace"):
        return
    overviews: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*/results.json")):
        try:
            overview = json.loads(file.read_bytes())["overview"]
            _sentences(overview)
        except (ValueError, KeyError, TypeError):
            continue  # results of another version
        overviews[file.parent.name] = overview
    write_file_atomically(path, make_index(overviews).encode())


def make_index(overviews: dict[str, dict[str, Any]]) -> str:
    """Make the index page from overviews by folder name; papers without results are listed with a command.

    A complete run of a paper replaces a quick run.
    """
    complete = {overview["key"] for overview in overviews.values() if not overview["quick"]}
    shown = {name: one for name, one in overviews.items() if not one["quick"] or one["key"] not in complete}
    sections = []
    for folder, one in shown.items():
        missing = f" Not here: {', '.join(one['missing'])}." if one["missing"] else ""
        sections.append(
            element(
                "section",
                element("h2", element("a", one["title"], href=f"{folder}/index.html"), id=folder),
                element("p", f"{one['source']} {one['ran']}.{missing}", class_="soft"),
                element("p", "A quick run: its numbers mean little.", class_="warning") if one["quick"] else None,
                element("p", _sentences(one)),
            )
        )
    for key in known_papers():
        if key not in {one["key"] for one in shown.values()}:
            command = element("code", f"python -m reproductions {key}")
            sections.append(element("section", element("h2", find_plan(key).paper.title), "Not run: ", command))
    return page(_TITLE, element("main", element("h1", _TITLE), *sections))


# -- the page of a paper ----------------------------------------------------------------------------------------------


def _page(
    results: PaperResults, tables: list[Table], drawings: list[Drawing], overview: dict[str, Any], lack: str
) -> str:
    """The page as HTML; pictures are inside the page."""
    paper = results.plan.paper
    body: list[object] = [
        element("h1", paper.title),
        element("p", overview["source"]),
        element(
            "p",
            "Ours, a mean over seeds (and folds) ± half the range of the seeds or the standard error over queries, "
            f"beside the printed number, the difference and a verdict. Ours come from this run: {overview['ran']}. "
            f"Rankers, parameters and grids are in reproductions/papers/{paper.key}.toml.",
            class_="soft",
        ),
        *_warnings(results),
        element("p", _sentences(overview)),
    ]
    if paper.notes:
        body += [element("h2", "What to know"), element("ul", *(element("li", note) for note in paper.notes))]
    for section in dict.fromkeys(table.section for table in tables):
        body.append(element("h2", section or "The paper"))
        own = [table for table in tables if table.section == section]
        body += [_table_section(table) for table in own if table.kind != "tests"]
        folded = [_table_section(table) for table in own if table.kind == "tests"]
        if folded:
            summary = f"Paired tests, which decide the orderings ({len(folded)})"
            body.append(element("details", element("summary", summary), *folded))
        body += [] if section else [_figure(drawing, lack) for drawing in drawings if drawing.rows]
    return page(f"{paper.key}, reproduced", element("main", join(body, "\n")))


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
