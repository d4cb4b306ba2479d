"""What a reproduction leaves behind: results.json, table.txt, CSV and PNG files, and one page."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from tercet.errors import MissingExtraError
from tercet.repro.drawing import draw_all
from tercet.repro.page import Report, make_page
from tercet.repro.sheet import Sheet
from tercet.store import write_file_atomically
from tercet.store.canonical import canonical_bytes


def write_report(report: Report, output: Path) -> str:
    """Write everything; returns what is missing to draw figures, or "".

    Without matplotlib all is written but PNG files.
    """
    output.mkdir(parents=True, exist_ok=True)
    sheets, drawings = report.sheets, report.drawings
    lacking = ""
    try:
        draw_all(drawings)
    except MissingExtraError as error:
        lacking = str(error)
    for sheet in sheets:
        _write_csv(output / f"{sheet.key}.csv", sheet.records)
    for drawing in drawings:
        _write_csv(output / f"{drawing.key}.csv", drawing.rows)
        if drawing.png is not None:
            write_file_atomically(output / f"{drawing.key}.png", drawing.png)
    write_file_atomically(output / "table.txt", "\n\n".join(as_text(sheet) for sheet in sheets).encode() + b"\n")
    write_file_atomically(output / "results.json", canonical_bytes(_plain(report)))
    write_file_atomically(output / "index.html", make_page(report, lacking).encode())
    return lacking


def _write_csv(path: Path, records: list[dict[str, Any]]) -> None:
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_file_atomically(path, text.getvalue().encode())


def _plain(report: Report) -> dict[str, Any]:
    return (
        report.results.known()
        | report.measured
        | {
            "tables": {sheet.key: sheet.records for sheet in report.sheets},
            "figures": {drawing.key: drawing.rows for drawing in report.drawings},
        }
    )


def as_text(sheet: Sheet) -> str:
    """A table in plain text, two lines a row where there is something to compare."""
    lines: list[list[str]] = [sheet.head]
    for row in sheet.rows:
        lines.append([cell.text for cell in row])
        if any(cell.detail for cell in row[1:]):
            lines.append(["", *(cell.detail for cell in row[1:])])
    widths = [max(len(line[at]) for line in lines) for at in range(len(sheet.head))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    shown.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([sheet.title, *sheet.notes, *shown])
