"""Judgements as Quepid exports them: CSV with a query's text, a document's id and a rating."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tercet._validate import is_number
from tercet.data.lines import (
    FilePath,
    Refused,
    parse_float,
    read_id,
    refuse,
    surrogate_problem,
    writable_id,
    write_atomically,
)
from tercet.data.roles import kind_of_columns
from tercet.data.tables import csv_records, text_lines
from tercet.errors import FormatError, InputError

# The columns of the basic export, and what the detailed one calls them.
COLUMNS = ("query", "docid", "rating")
DETAILED = ("Query Text", "Doc ID", "Rating")
NO_RATINGS = "the file holds no ratings"
_HEADERS = "the first line must name the columns, query,docid,rating as in Quepid's basic export"
# Quepid puts a blank before a text that a spreadsheet would take for a formula.
_FORMULA_SIGNS = ("-", "=", "+", "@")


class Rating(NamedTuple):
    """A line: a query's text and, where there are any, a document's id and the ratings it got."""

    query: str
    doc_id: str | None
    grades: tuple[int, ...]


@dataclass(frozen=True)
class QuepidJudgements:
    """Judgements by the text of the query, in file order.

    Attributes
    ----------
    ratings : ``{query text: {doc_id: grade}}``, queries with at least one rating
    unrated : texts of the queries without one

    Examples
    --------
    >>> QuepidJudgements({"green tea": {"a": 3}}, ()).qrels({"q1": "green tea"})
    {'q1': {'a': 3}}
    """

    ratings: dict[str, dict[str, int]]
    unrated: tuple[str, ...]

    def qrels(self, queries: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """The same judgements by query id.

        Every query of that text gets them. A rated text that no query has is an error.

        Examples
        --------
        >>> QuepidJudgements({"avocado": {"d1": 2}}, ()).qrels({"q7": "avocado", "q8": "eyes"})
        {'q7': {'d1': 2}}
        """
        ratings = {qid: self.ratings[text] for qid, text in queries.items() if text in self.ratings}
        texts = set(queries.values())
        missing = next((text for text in self.ratings if text not in texts), None)
        if missing is not None:
            raise InputError(f"the query {missing!r} is rated and is not among the {len(queries)} queries")
        return {qid: dict(grades) for qid, grades in ratings.items()}


def read_quepid(path: FilePath) -> QuepidJudgements:
    """Read judgements that Quepid exported.

    Understood are the basic export of a case or a snapshot, ``query,docid,rating``, the detailed one, which names the
    columns ``Query Text``, ``Doc ID`` and ``Rating`` among others, and that of a book, ``query,docid`` and a column
    for each rater. A line without a rating is one that was not judged.

    Parameters
    ----------
    path : a CSV file, gzipped or not, quoted where it has to be

    Notes
    -----
    Ratings are whole; ``2.0`` is. Where several raters of a book disagree, the grade is their mean, a half rounded up.
    Quepid puts a blank before texts that begin with ``-``, ``=``, ``+`` or ``@``; it is taken off again. A pair
    that is rated twice, differently, is an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "case_7_judgements.csv")
    ...     _ = file.write_text('query,docid,rating\\n"green, ripe",007,3\\neyes,,\\n')
    ...     read_quepid(file)
    QuepidJudgements(ratings={'green, ripe': {'007': 3}}, unrated=('eyes',))
    """
    ratings: dict[str, dict[str, int]] = {}
    seen: dict[str, None] = {}
    for line, rating in ratings_of(path):
        seen[rating.query] = None
        grade = rating_of(rating.grades)
        if rating.doc_id is None or grade is None:
            continue
        first = ratings.setdefault(rating.query, {}).setdefault(rating.doc_id, grade)
        if first != grade:
            message = f"query {rating.query!r}, document {rating.doc_id!r} has rating {grade} here and {first} before"
            raise FormatError(path, line, message)
    if not ratings:
        raise FormatError(path, None, NO_RATINGS)
    return QuepidJudgements(ratings, tuple(text for text in seen if text not in ratings))


def rating_of(grades: tuple[int, ...]) -> int | None:
    """The mean of several ratings, a half rounded up; None when there are none."""
    return math.floor(sum(grades) / len(grades) + 0.5) if grades else None


def is_quepid_header(text: str) -> bool:
    """Whether a first line is that of judgements from Quepid.

    Examples
    --------
    >>> is_quepid_header("query,docid,rating"), is_quepid_header("query-id,corpus-id,score")
    (True, False)
    """
    try:
        [names] = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        return False
    return _places(names) is not None


def _places(names: list[str]) -> tuple[int, int, tuple[int, ...]] | None:
    """Where the query, the document and the ratings stand, by the names of the columns; None for another table."""
    for wanted in (COLUMNS, DETAILED):
        if all(names.count(name) == 1 for name in wanted):
            query, doc_id, rating = (names.index(name) for name in wanted)
            return query, doc_id, (rating,)
    is_click_log = kind_of_columns(names) == "click-log"  # whose positions and clicks are no ratings
    if tuple(names[:2]) == COLUMNS[:2] and len(names) > 2 and not is_click_log:  # a book: the others are raters
        return 0, 1, tuple(range(2, len(names)))
    return None


def ratings_of(path: FilePath, refused: Refused | None = None, encoding: str = "utf-8") -> Iterator[tuple[int, Rating]]:
    """Yield the number of the line on which each record begins, and what it says."""
    places: tuple[int, int, tuple[int, ...]] | None = None
    width = 0
    for line, cells in csv_records(text_lines(path, encoding, refused), path, refused=refused):
        if places is None:
            places, width = _places(cells), len(cells)
            if places is None:
                raise FormatError(path, line, f"found the columns {','.join(cells)[:80]!r}; {_HEADERS}")
            continue
        try:
            rating = _rating(cells, places, width, path, line)
        except FormatError as error:
            refuse(error, refused)
        else:
            yield line, rating


def _rating(
    cells: list[str], columns: tuple[int, int, tuple[int, ...]], width: int, path: FilePath, line: int
) -> Rating:
    if len(cells) > width:
        raise FormatError(path, line, f"{len(cells)} cells under {width} columns; quote a text that holds a comma")
    cells = cells + [""] * (width - len(cells))  # Quepid leaves out what an unrated query has not
    query = cells[columns[0]]
    if query[:1] == " " and query[1:].startswith(_FORMULA_SIGNS):
        query = query[1:]
    if not query.strip():
        raise FormatError(path, line, "the query is empty; a query needs words", "empty-text")
    grades = tuple(_grade(cells[column].strip(), path, line) for column in columns[2] if cells[column].strip())
    doc_id = cells[columns[1]]
    if not doc_id:
        if grades:
            raise FormatError(path, line, f"rating {grades[0]} without a document id")
        return Rating(query, None, ())
    return Rating(query, read_id(doc_id, path, line, "document id"), grades)


def _grade(text: str, path: FilePath, line: int) -> int:
    value = parse_float(text, path, line, "rating")
    if value != int(value) or abs(value) >= 1 << 53:
        raise FormatError(path, line, f"rating {text}; a whole number is needed")
    return int(value)


def write_quepid(path: FilePath, ratings: Mapping[str, Mapping[str, int]]) -> None:
    """Write ``{query text: {doc_id: grade}}`` as Quepid imports it; a query without documents stays, unrated.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "judgements.csv")
    ...     write_quepid(file, {"green, ripe": {"007": 3}})
    ...     print(file.read_text(), end="")
    query,docid,rating
    "green, ripe",007,3
    """
    if not any(ratings.values()):
        raise InputError(f"{path}: cannot write: there are no ratings")
    with write_atomically(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for query, grades in ratings.items():
            shown = f" {query}" if query.startswith(_FORMULA_SIGNS) else query
            problem = _text_problem(query)
            if problem is not None:
                raise InputError(f"{path}: cannot write: the query {query!r} {problem}")
            if not grades:
                writer.writerow([shown, "", ""])
            for doc_id, grade in grades.items():
                writable_id(doc_id, path, "document id")
                if not is_number(grade) or int(grade) != grade or abs(grade) >= 1 << 53:
                    pair = f"query {query!r}, document {doc_id!r}"
                    raise InputError(f"{path}: cannot write: rating {grade!r} of {pair}; a whole number is needed")
                writer.writerow([shown, doc_id, int(grade)])


def _text_problem(query: object) -> str | None:
    if not isinstance(query, str) or not query.strip():
        return "is no text with words"
    if "\r" in query:
        return "holds a carriage return, which would come back as a line break"
    if query.startswith(tuple(f" {sign}" for sign in _FORMULA_SIGNS)):
        return "begins with a blank and a sign, which Quepid's own rule for formulas takes apart"
    return surrogate_problem(query)
