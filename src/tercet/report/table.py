"""A table as a value, for reports, pages and the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tercet.report.html import Html, element

Tone = Literal["good", "bad", "plain"]
_TOGETHER = re.compile(r" (?=[±%†])|(?<=±) ")  # spaces at which a page breaks no line: a number, its ± and its unit


@dataclass(frozen=True)
class Cell:
    """A cell with a text and a detail; ``tone`` colors the detail, or the text of a cell without detail."""

    text: str
    detail: str = ""
    tone: Tone = "plain"


@dataclass
class Table:
    """Rows of cells under a head.

    Attributes
    ----------
    title : title above the table, or empty
    head : a name for each column
    rows : cells, aligned with ``head``
    n_labels : number of leading columns of words; columns of numbers are aligned right. None for words alone
    marked : row to highlight

    Examples
    --------
    >>> table = Table("Two systems", ["system", "AP"], n_labels=1)
    >>> table.rows += [[Cell("BM25"), Cell("0.21", "[0.19, 0.23]")], [Cell("learned"), Cell("0.3")]]
    >>> print(table.as_text(details="inline"))
    Two systems
    system                  AP
    -------  -----------------
    BM25     0.21 [0.19, 0.23]
    learned                0.3
    """

    title: str
    head: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    n_labels: int | None = None
    marked: int | None = None

    def transposed(self) -> Table:
        """Exchange rows and columns: the first column becomes the head."""
        columns = list(zip(*self.rows, strict=True))
        head = [self.head[0], *(cell.text for cell in columns[0])]
        rows = [[Cell(name), *column] for name, column in zip(self.head[1:], columns[1:], strict=True)]
        return Table(self.title, head, rows)

    # -- as text ----------------------------------------------------------------------------------------------------

    def as_text(self, *, details: Literal["below", "inline"] = "below", ruled: bool = True, narrowest: int = 0) -> str:
        """Format as plain text, with details on a line below, or beside their texts.

        Columns of numbers are at least ``narrowest`` wide.
        """
        lines: list[list[str]] = [list(self.head)]
        for row in self.rows:
            if details == "inline":
                lines.append([f"{cell.text} {cell.detail}".rstrip() for cell in row])
                continue
            lines.append([cell.text for cell in row])
            if any(cell.detail for cell in row[1:]):
                lines.append(["", *(cell.detail for cell in row[1:])])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        n_labels = len(widths) if self.n_labels is None else self.n_labels
        widths[n_labels:] = [max(width, narrowest) for width in widths[n_labels:]]
        text_lines = [self._line(line, widths) for line in lines]
        if ruled:
            text_lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([*([self.title] if self.title else []), *text_lines])

    def _line(self, texts: Sequence[str], widths: Sequence[int]) -> str:
        n_labels = len(texts) if self.n_labels is None else self.n_labels
        sides = ("<" if column < n_labels else ">" for column in range(len(texts)))
        return "  ".join(f"{text:{side}{w}}" for text, side, w in zip(texts, sides, widths, strict=True)).rstrip()

    # -- as HTML ----------------------------------------------------------------------------------------------------

    def as_html(self) -> Html:
        """Format as HTML, in a box with a scroll bar for wide tables."""
        head = [element("th", name, scope="col", class_=self._class(column)) for column, name in enumerate(self.head)]
        body = [
            element(
                "tr",
                *(self._cell(cell, column) for column, cell in enumerate(row)),
                class_="ours" if number == self.marked else None,
            )
            for number, row in enumerate(self.rows)
        ]
        return element(
            "div",
            element("table", element("thead", element("tr", *head)), element("tbody", *body)),
            class_="scroll",
            role="region",
            aria_label=self.title or "Table",
            tabindex="0",
        )

    def _cell(self, cell: Cell, column: int) -> Html:
        tone = None if cell.tone == "plain" else cell.tone
        text, detail = (_TOGETHER.sub("\N{NO-BREAK SPACE}", part) for part in (cell.text, cell.detail))
        inside: list[object] = [text if tone is None or detail else element("span", text, class_=tone)]
        if detail:
            inside.append(element("small", detail, class_=tone or "soft"))
        if column == 0 and self.n_labels:
            return element("th", *inside, scope="row")
        return element("td", *inside, class_=self._class(column))

    def _class(self, column: int) -> str | None:
        return None if self.n_labels is None or column < self.n_labels else "number"
