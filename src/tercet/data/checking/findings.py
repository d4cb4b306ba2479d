"""What is wrong with a data set: problems by kind, the first of each kept and all of them counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from tercet.data.checking.near_duplicates import look_alikes
from tercet.data.lines import UTF8_MARK, FilePath, open_bytes
from tercet.errors import FormatError

Severity: TypeAlias = Literal["error", "warning"]
Counts: TypeAlias = dict[str, int]
MOST_SHOWN = 20


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, at a line or, where that is None, with the file as a whole.

    Examples
    --------
    >>> print(Finding("queries.tsv", 3, "an empty id"))
    queries.tsv:3: an empty id
    """

    path: str
    line: int | None
    message: str

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


@dataclass
class Group:
    """All problems of one kind: how many, and the first of them."""

    severity: Severity
    kind: str
    count: int = 0
    first: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class CheckReport:
    """What `check` found.

    Attributes
    ----------
    path : what was checked
    kind : what it was recognised as; None when it was not
    counts : how many documents, queries, judgements, … could be read
    groups : the problems by kind, errors first; an error is what a reader would refuse

    Examples
    --------
    >>> import tempfile
    >>> from tercet.data import check, write_beir
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_beir(folder, {"a": "green tea"}, {"q": "tea"}, {"train": {"q": {"a": 1}}})
    ...     report = check(folder)
    >>> report.kind, report.counts["documents"]
    ('beir', 1)
    """

    path: str
    kind: str | None
    counts: dict[str, int]
    groups: tuple[Group, ...]

    @property
    def n_errors(self) -> int:
        """How many problems a reader would refuse the data for."""
        return self._total("error")

    @property
    def n_warnings(self) -> int:
        """How many things are read, and probably not as they were meant."""
        return self._total("warning")

    def _total(self, severity: Severity) -> int:
        return sum(group.count for group in self.groups if group.severity == severity)

    def to_meta(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "path": self.path,
            "kind": self.kind,
            "counts": self.counts,
            "errors": self.n_errors,
            "warnings": self.n_warnings,
            "problems": [
                {
                    "severity": group.severity,
                    "kind": group.kind,
                    "count": group.count,
                    "first": [asdict(finding) for finding in group.first],
                }
                for group in self.groups
            ],
        }

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {_counted(what, count)}" for what, count in self.counts.items())
        lines = [f"{self.path}: {self.kind or 'of no known kind'}" + (f", {counts}" if counts else "")]
        for group in self.groups:
            lines.append(f"{group.severity}: {group.kind} ({group.count:,})")
            lines.extend(f"  {finding}" for finding in group.first)
            if group.count > len(group.first):
                lines.append(f"  … and {group.count - len(group.first):,} more")
        return "\n".join([*lines, f"{_number(self.n_errors, 'error')}, {_number(self.n_warnings, 'warning')}"])


def _counted(what: str, count: int) -> str:
    """What is counted, in the singular for one: documents, queries, rows without a grade."""
    first, blank, rest = what.partition(" ")
    one = f"{first[:-3]}y" if first.endswith("ies") else first.removesuffix("s")
    return f"{one}{blank}{rest}" if count == 1 else what


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}" if count < 1000 else f"{count:,} {what}s"


class Findings:
    """Collects problems; only the first `most_shown` of each kind take memory."""

    def __init__(self, most_shown: int = MOST_SHOWN) -> None:
        self.most_shown = most_shown
        self.groups: dict[tuple[Severity, str], Group] = {}
        self.n_errors = 0

    def add(self, severity: Severity, kind: str, path: FilePath, line: int | None, message: str) -> None:
        self.n_errors += severity == "error"
        group = self.groups.setdefault((severity, kind), Group(severity, kind))
        group.count += 1
        if len(group.first) < self.most_shown:
            group.first.append(Finding(str(path), line, message))

    def error(self, kind: str, path: FilePath, line: int | None, message: str) -> None:
        self.add("error", kind, path, line, message)

    def warning(self, kind: str, path: FilePath, line: int | None, message: str) -> None:
        self.add("warning", kind, path, line, message)

    def refused(self, error: FormatError) -> None:
        """Take what a reader refuses; readers hand it over instead of raising when given this."""
        self.error(error.kind, error.path, error.line, error.message)

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Take the error that ends the reading of a file as a whole."""
        try:
            yield
        except FormatError as error:
            self.refused(error)

    @contextmanager
    def file(self, path: FilePath, empty: str, counted: Callable[[], int]) -> Iterator[None]:
        """A file that is read as far as it goes; one that holds nothing, not even something wrong, is told."""
        before = self.n_errors
        with suppress(FormatError), open_bytes(path) as stream:  # told by what reads the whole
            if stream.read(len(UTF8_MARK)) == UTF8_MARK:
                self.byte_order_mark(path)
        with self.catching():
            yield
        if not counted() and self.n_errors == before:
            self.error("empty-file", path, None, empty)

    def byte_order_mark(self, path: FilePath) -> None:
        self.warning("byte-order-mark", path, 1, "begins with a byte order mark, which many tools take for text")

    def look_alikes(self, path: FilePath, line_of: Mapping[str, int], what: str) -> None:
        """Tell of ids that differ as texts only."""
        for first, other in look_alikes(line_of):
            which = f"the ids {first!r}, at line {line_of[first]}, and {other!r}"
            self.warning(
                "look-alike-ids", path, line_of[other], f"{which} are two {what} here and one number elsewhere"
            )

    def report(self, path: FilePath, kind: str | None, counts: dict[str, int]) -> CheckReport:
        ordered = sorted(self.groups.values(), key=lambda group: group.severity != "error")
        return CheckReport(str(path), kind, counts, tuple(ordered))
