"""One page with everything on it and nothing outside it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from typing import Any

from tercet.repro.drawing import Drawing
from tercet.repro.running import RunResults
from tercet.repro.sheet import Cell, Sheet

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6877; --paper: #fbfaf7; --card: #ffffff;
  --line: #dcdcd6; --good: #17693c; --bad: #a8321f; --head: #f1f0ea; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ec; --soft: #9ba5b3; --paper: #15181d; --card: #1d2127;
  --line: #353b45; --good: #6fce97; --bad: #f0907d; --head: #262b33; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; } h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0; max-width: 60rem; } .soft, small { color: var(--soft); }
.warning { border: 1px solid var(--bad); color: var(--bad); padding: .5rem .8rem; border-radius: 6px; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card);
  margin-top: .6rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem; border-bottom: 1px solid var(--line); }
th { background: var(--head); font-weight: 600; white-space: nowrap; } tr:last-child td { border-bottom: 0; }
td small { display: block; line-height: 1.35; font-size: .8rem; } td .place { opacity: .8; font-style: italic; }
td:first-child { min-width: 8rem; } .good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; display: block; padding: .4rem; }
code { font-size: .85rem; } li { margin: .2rem 0; }
"""


@dataclass
class Report:
    """What is told of a run: tables, figures, settings as HTML, and what was measured, for results.json."""

    results: RunResults[Any]
    ours: str  # what our numbers are, as in "mean over seeds ± half their range"
    quick: str  # what a quick run has few of
    sheets: list[Sheet]
    drawings: list[Drawing]
    settings: str
    measured: dict[str, Any]


def make_page(report: Report, lacking: str) -> str:
    """The page as HTML; pictures are inside it."""
    results, sheets, drawings = report.results, report.sheets, report.drawings
    paper = results.plan.paper
    body = [
        f"<h1>{escape(paper.title)}</h1>",
        f"<p>{escape(paper.authors)}. {escape(paper.venue)}.</p>",
        f'<p class="soft">Reproduced with Tercet {escape(results.version)}: {escape(report.ours)}, '
        "beside the printed number, its place in the paper, the difference and a verdict. "
        "Printed numbers come from the paper, all others from this run.</p>",
    ]
    if results.quick:
        body.append(
            f'<p class="warning">A quick run: few {escape(report.quick)}. It shows that everything works; its '
            "numbers mean little.</p>"
        )
    for name, reason in results.missing.items():
        title = results.plan.datasets[name].title
        body.append(f'<p class="warning">{escape(title)} was skipped: {escape(reason)}.</p>')
    for line in results.failed:
        body.append(f'<p class="warning">{escape(line)}.</p>')
    if results.cut:
        listed = "".join(f"<li>{escape(line)}</li>" for line in results.cut)
        body.append(f'<div class="warning">The budget of {results.budget:g} minutes cut: <ul>{listed}</ul></div>')
    if paper.notes:
        body.append("<h2>What to know</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in paper.notes) + "</ul>")
    for past in (False, True):
        if past and any(sheet.past_the_paper for sheet in sheets):
            body.append(
                "<h2>Past the paper</h2><p>Nothing printed to compare with: what else the package can do here.</p>"
            )
        body += [_sheet(sheet) for sheet in sheets if sheet.past_the_paper == past]
        body += [_drawing(drawing, lacking) for drawing in drawings if drawing.past_the_paper == past]
    body.append(report.settings)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(paper.key)}, reproduced</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _sheet(sheet: Sheet) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in sheet.head)
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in sheet.rows)
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in sheet.notes)
    return (
        f'<h3 id="{escape(sheet.key)}">{escape(sheet.title)}</h3>{notes}'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'
    )


def _cell(cell: Cell) -> str:
    inside = f"<span{_tone(cell) if not cell.detail else ''}>{escape(cell.text)}</span>"
    if cell.detail:
        inside += f"<small{_tone(cell)}>{escape(cell.detail)}</small>"
    if cell.place:
        inside += f'<small class="place">{escape(cell.place)}</small>'
    return f"<td>{inside}</td>"


def _tone(cell: Cell) -> str:
    return f' class="{cell.tone}"' if cell.tone != "plain" else ""


def _drawing(drawing: Drawing, lacking: str) -> str:
    if drawing.png is None:
        shown = f'<p class="soft">Not drawn: {escape(lacking)}. The numbers are in {escape(drawing.key)}.csv.</p>'
    else:
        content = base64.b64encode(drawing.png).decode()
        shown = f'<div class="wide"><img alt="{escape(drawing.title)}" src="data:image/png;base64,{content}"></div>'
    return f'<h3 id="{escape(drawing.key)}">{escape(drawing.title)}</h3>{shown}'
