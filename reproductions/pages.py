"""Files of a run: results.json, PNG files, the page of the paper, and the index page over all papers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from reproductions.datasets import source_digest
from reproductions.figures import Drawing, draw_all, make_drawings
from reproductions.plan import find_plan, known_papers
from reproductions.results import PaperResults
from reproductions.tables import Cell, Table, make_tables
from reproductions.verdicts import KINDS, count_kinds
from tercet.errors import MissingExtraError
from tercet.store import canonical_bytes, write_file_atomically

_TITLE = "Four papers, run again"
_COUNTED = {"table": "Printed numbers", "orderings": "Orderings of the paper", "our-orderings": "Orderings of ours"}
_TOGETHER = re.compile(r" (?=[±%†])|(?<=±) ")  # a page breaks no line between a number, its ± and its unit
_EMPTY = frozenset({"meta", "img"})
_STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


def write_results(results: PaperResults, output: Path) -> dict[str, Any]:
    """Write tables, figures and the page of a paper, and the index of all papers beside it; return the overview."""
    output.mkdir(parents=True, exist_ok=True)
    tables, drawings = make_tables(results), make_drawings(results)
    lack = ""
    try:
        draw_all(drawings)
    except MissingExtraError as error:
        lack = str(error)
    for drawing in (drawing for drawing in drawings if drawing.png is not None):
        write_file_atomically(output / f"{drawing.key}.png", drawing.png or b"")
    overview = make_overview(results, tables)
    numbers: dict[str, Any] = {"overview": overview, "missing": results.missing, "failed": results.failed}
    numbers["tables"] = {table.key: table.records for table in tables}
    numbers["figures"] = {drawing.key: drawing.rows for drawing in drawings if drawing.rows}
    write_file_atomically(output / "results.json", canonical_bytes(numbers))
    write_file_atomically(output / "index.html", _page(results, tables, drawings, overview, lack))
    write_index(output.resolve().parent)
    return overview


def make_overview(results: PaperResults, tables: list[Table]) -> dict[str, Any]:
    """Content of the index about one run: the paper, the size of the run, and the verdicts counted by kind."""
    plan, (n_run, n_all) = results.plan, results.n_fits()
    return {
        "key": plan.paper.key,
        "title": plan.paper.title,
        "source": f"{plan.paper.authors}. {plan.paper.venue}.",
        "quick": results.quick,
        "code": f"{results.version}, source {source_digest()[:12]}",
        "fits": f"{n_run:,} of {n_all:,}",
        "minutes": results.took() / 60,
        "gpu": results.gpu,
        "missing": [plan.datasets[name].title for name in results.missing],
        "failed": len(results.failed),
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


# -- HTML -------------------------------------------------------------------------------------------------------------


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def join(parts: Iterable[object], between: str = "") -> Html:
    """Several values one after the other, escaped unless they are HTML already."""
    return Html(between.join(part if isinstance(part, Html) else escape(str(part)) for part in parts))


def element(kind: str, /, *children: object, **attributes: object) -> Html:
    """One element; None among children or attributes is left out.

    Examples
    --------
    >>> element("a", "Rock & Roll", class_="title", href=None)
    '<a class="title">Rock &amp; Roll</a>'
    """
    named = {key.rstrip("_"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{escape(str(value))}"' for key, value in named.items())
    if kind in _EMPTY:
        return Html(f"<{kind}{written}>")
    return Html(f"<{kind}{written}>{join(child for child in children if child is not None)}</{kind}>")


def _document(title: str, *body: object) -> bytes:
    """A document with the style sheet; pictures are inside the page, and nothing is loaded."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(_STYLE)),
    )
    page = element("html", head, "\n", element("body", element("main", join(body, "\n"))), "\n", lang="en")
    return f"<!doctype html>\n{page}\n".encode()


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


def write_index(folder: Path) -> Path:
    """Write ``index.html`` over the papers with results in folders of this one; a complete run replaces a quick one."""
    runs: dict[str, tuple[str, dict[str, Any]]] = {}
    for key in known_papers():
        for name in (key, f"{key}-quick"):
            file = folder / name / "results.json"
            if key not in runs and file.is_file():
                runs[key] = name, json.loads(file.read_bytes())["overview"]
    rows = []
    for key in known_papers():
        name, run = runs.get(key, ("", {}))
        if not run:
            command = element("code", f"python -m reproductions {key}")
            rows.append([element("td", find_plan(key).paper.title), element("td", "not run: ", command)])
            continue
        size = f"{run['fits']} fits, {run['minutes']:,.0f} min of work" + (f", {run['gpu']}" if run["gpu"] else "")
        warning = "A quick run: its numbers mean little." if run["quick"] else None
        failed = f"{run['failed']} jobs failed." if run["failed"] else None
        cells = [element("td", element("a", run["title"], href=f"{name}/index.html"), element("small", run["source"]))]
        cells.append(element("td", size, *(element("small", text, class_="bad") for text in (warning, failed) if text)))
        cells += [element("td", counted(run["counts"][kind]) or "–") for kind in _COUNTED]
        rows.append([*cells, element("td", ", ".join(run["missing"]) or "–")])
    codes = sorted({run["code"] for _, run in runs.values()})
    origin = f"All from Tercet {codes[0]}." if len(codes) == 1 else f"From different code: {'; '.join(codes)}."
    head = ["paper", "run", *_COUNTED.values(), "not here"]
    path = folder / "index.html"
    body = element("h1", _TITLE), element("p", origin, class_="soft"), _html_table(head, rows)
    write_file_atomically(path, _document(_TITLE, *body))
    return path


# -- the page of a paper ----------------------------------------------------------------------------------------------


def _page(
    results: PaperResults, tables: list[Table], drawings: list[Drawing], overview: dict[str, Any], lack: str
) -> bytes:
    paper = results.plan.paper
    counts = {title: counted(overview["counts"][kind]) for kind, title in _COUNTED.items()}
    learned_on = f", learned on {results.gpu}" if results.gpu else ""
    body: list[object] = [
        element("h1", paper.title),
        element("p", overview["source"]),
        element(
            "p",
            "Ours, a mean over seeds (and folds) ± half the range of the seeds or the standard error over queries, "
            "beside the printed number, the difference and a verdict. Ours come from this run: Tercet "
            f"{overview['code']}, {overview['fits']} fits, {overview['minutes']:,.0f} min of work{learned_on}. "
            f"Rankers, parameters and grids are in reproductions/papers/{paper.key}.toml.",
            class_="soft",
        ),
        *_warnings(results),
        element("p", " ".join(f"{title}: {text}." for title, text in counts.items() if text)),
        *(
            [element("h2", "Notes"), element("ul", *(element("li", note) for note in paper.notes))]
            if paper.notes
            else []
        ),
    ]
    for section in dict.fromkeys(table.section for table in tables):
        body.append(element("h2", section or "The paper"))
        own = [table for table in tables if table.section == section]
        body += [_table_section(table) for table in own if table.kind != "tests"]
        folded = [_table_section(table) for table in own if table.kind == "tests"]
        if folded:
            summary = f"Paired tests, which decide the orderings ({len(folded)})"
            body.append(element("details", element("summary", summary), *folded))
        body += [] if section else [_figure(drawing, lack) for drawing in drawings if drawing.rows]
    return _document(f"{paper.key}, reproduced", *body)


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
        shown = element("p", f"Not drawn: {lack}. The numbers are in results.json.", class_="soft")
    else:
        source = f"data:image/png;base64,{base64.b64encode(drawing.png).decode()}"
        caption = element("figcaption", drawing.caption) if drawing.caption else None
        shown = element("figure", element("div", element("img", alt=drawing.title, src=source)), caption)
    return element("section", element("h3", drawing.title, id=drawing.key), shown)
