"""A table as a value, for the page, the terminal, CSV and JSON."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from reproductions.markup import Html, element

Tone = Literal["good", "bad", "plain"]
_TOGETHER = re.compile(r" (?=[±%†])|(?<=±) ")  # a page breaks no line between a number, its ± and its unit


@dataclass(frozen=True)
class Cell:
    """A text, a detail below it, and the source of a comparison; ``tone`` colours the detail, or the text."""

    text: str
    detail: str = ""
    source: str = ""
    tone: Tone = "plain"

    def as_html(self) -> Html:
        tone = None if self.tone == "plain" else self.tone
        text, detail = (_TOGETHER.sub("\N{NO-BREAK SPACE}", part) for part in (self.text, self.detail))
        return element(
            "td",
            text if tone is None or detail else element("span", text, class_=tone),
            element("small", detail, class_=tone or "soft") if detail else None,
            element("small", self.source, class_="source") if self.source else None,
        )


@dataclass
class Table:
    """Rows of cells under a head.

    Attributes
    ----------
    notes, footnotes : sentences above and below the rows
    records : numbers behind the cells, for CSV and JSON
    key : name of files and links
    section : part of the page
    has_numbers : false where nothing was measured
    """

    title: str
    head: list[str]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    key: str = ""
    section: str = ""
    has_numbers: bool = True
    footnotes: list[str] = field(default_factory=list)

    def as_section(self) -> Html:
        """Title, notes, rows and footnotes; a table without numbers is folded."""
        head = element("thead", element("tr", *(element("th", name, scope="col") for name in self.head)))
        body = element("tbody", *(element("tr", *(cell.as_html() for cell in row)) for row in self.rows))
        shown = [element("div", element("table", head, body), class_="scroll", tabindex="0")]
        shown += [element("p", note, class_="soft") for note in self.footnotes]
        if not self.has_numbers:
            shown = [element("details", element("summary", "Printed in the paper"), *shown)] if self.rows else []
        notes = [element("p", note, class_="soft") for note in self.notes]
        return element("section", element("h3", self.title, id=self.key), *notes, *shown)


def records_as_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records under the names of all of them, in the order of their first use.

    Examples
    --------
    >>> records_as_csv([{"a": 1}, {"a": 2, "b": None}])
    'a,b\\n1,\\n2,\\n'
    """
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
