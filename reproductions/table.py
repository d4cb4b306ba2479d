"""A table as a value, for the page, the terminal, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reproductions.verdicts import Tone, Verdict


@dataclass(frozen=True)
class Cell:
    """A text, a detail below it, and the source of a comparison; ``tone`` colours the detail, or the text."""

    text: str
    detail: str = ""
    source: str = ""
    tone: Tone = "plain"

    @classmethod
    def from_verdict(cls, verdict: Verdict) -> Cell:
        return cls(verdict.text, tone=verdict.tone)


@dataclass
class Table:
    """Rows of cells under a head.

    Attributes
    ----------
    kind : "table" (printed numbers), "facts", "orderings", "our-orderings" or "tests"; verdicts are counted by kind
    notes, footnotes : sentences above and below the rows
    records : numbers behind the cells, for CSV and JSON; ``record["kind"]`` is the kind of its verdict
    key : name of files and links
    section : part of the page
    has_numbers : false if nothing was measured
    datasets : data sets of its numbers
    summary : a few words for the overview
    """

    title: str
    head: list[str]
    key: str
    kind: str = "facts"
    datasets: tuple[str, ...] = ()
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    section: str = ""
    has_numbers: bool = True
    footnotes: list[str] = field(default_factory=list)
    summary: str = ""


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
