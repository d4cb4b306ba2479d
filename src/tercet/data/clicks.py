"""Click files: what was shown for a query, in its order, and what of it was clicked, as TSV or JSONL."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, islice
from os import fspath
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tercet._validate import first_repeated
from tercet.data import limits
from tercet.data.lines import (
    FilePath,
    Refused,
    json_field,
    parse_json_object,
    parsed_lines,
    read_id,
    writable_id,
    write_atomically,
)
from tercet.errors import FormatError, InputError

CLICK_HEADER = "query-id\tshown-ids\tclicked-ids"
KEYS = ("query", "shown", "clicked")
NO_IMPRESSIONS = "the file holds no impressions"
MOST_PREFERENCES = 64  # that one list gives
_COLUMNS = "query, shown documents, clicked documents"

Doc = TypeVar("Doc")
Skipped = Literal["above", "all"]


class Impression(NamedTuple):
    """One list of results that somebody saw.

    Attributes
    ----------
    query : the query's id, or its text in a log that has no ids
    shown : ids of the documents, from top to bottom, each once
    clicked : those of them that were clicked, each once, in the order of the clicks; none where nothing was

    Examples
    --------
    >>> seen = Impression("green tea", shown=("a", "b", "c"), clicked=("b",))
    >>> seen.shown[0], seen.clicked
    ('a', ('b',))
    """

    query: str
    shown: tuple[str, ...]
    clicked: tuple[str, ...]


@dataclass(frozen=True)
class ClickLog:
    """Impressions in the order of time.

    Attributes
    ----------
    impressions : the lists that were shown
    is_timed : whether times put them in order; otherwise they are in the order of the file
    notes : what was left out, or taken for granted, while they were read
    form : what was read, for people
    sessions : who saw each list, where that is known; else empty
    randomised : whether each list was shown in random order, where some were; else empty
    interleaved : whether each list was made of two rankings by chance, where some were; else empty
    examination : the chance that each rank was looked at, where that is known; None to estimate it

    Examples
    --------
    >>> log = ClickLog((Impression("tea", ("a", "b"), ("b",)),), sessions=("s1",))
    >>> len(log.impressions), log.is_timed
    (1, False)
    """

    impressions: tuple[Impression, ...]
    is_timed: bool = False
    notes: tuple[str, ...] = ()
    form: str = ""
    sessions: tuple[str, ...] = ()
    randomised: tuple[bool, ...] = ()
    examination: tuple[float, ...] | None = None
    interleaved: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        columns = {"sessions": self.sessions, "randomised": self.randomised, "interleaved": self.interleaved}
        for name, column in columns.items():
            if column and len(column) != len(self.impressions):
                raise InputError(f"{name} are of {len(column):,} lists, and there are {len(self.impressions):,}")

    @cached_property
    def columns(self) -> ClickColumns:
        """Documents shown as columns; a list that is none is refused."""
        for number, impression in enumerate(self.impressions):
            problem = impression_problem(impression)
            if problem is not None:
                raise InputError(f"impressions[{number}]: {problem}")
        return ClickColumns.from_lists(self.impressions)

    def subset(self, kept: Sequence[int]) -> ClickLog:
        """The lists at some places."""
        return replace(
            self,
            impressions=tuple(self.impressions[row] for row in kept),
            sessions=tuple(self.sessions[row] for row in kept) if self.sessions else (),
            randomised=tuple(self.randomised[row] for row in kept) if self.randomised else (),
            interleaved=tuple(self.interleaved[row] for row in kept) if self.interleaved else (),
        )

    @classmethod
    def joined(cls, logs: Sequence[ClickLog]) -> ClickLog:
        """Join logs, the earliest first; what only some of them know is left out.

        Examples
        --------
        >>> one = ClickLog((Impression("tea", ("a", "b"), ("b",)),), randomised=(True,))
        >>> ClickLog.joined([one, ClickLog((Impression("milk", ("c",), ()),))]).randomised
        (True, False)
        """
        if len(logs) == 1:
            return logs[0]
        lists = tuple(chain.from_iterable(log.impressions for log in logs))

        def flags(name: str) -> tuple[bool, ...]:
            known: list[tuple[bool, ...]] = [getattr(log, name) for log in logs]
            columns = (flags or (False,) * len(log.impressions) for flags, log in zip(known, logs, strict=True))
            return tuple(chain.from_iterable(columns)) if any(known) else ()

        return cls(
            lists,
            is_timed=all(log.is_timed for log in logs),
            notes=tuple(chain.from_iterable(log.notes for log in logs)),
            form="; ".join(log.form for log in logs),
            sessions=tuple(chain.from_iterable(log.sessions for log in logs))
            if all(log.sessions for log in logs)
            else (),
            randomised=flags("randomised"),
            interleaved=flags("interleaved"),
        )

    def __repr__(self) -> str:
        n_clicked = sum(bool(impression.clicked) for impression in self.impressions)
        lists = "1 list" if len(self.impressions) == 1 else f"{len(self.impressions):,} lists"
        return f"ClickLog({lists}, {n_clicked:,} with a click)"


def examination_guess(rank: int) -> float:
    """The chance that a rank is looked at, where nothing is known of it: 1 / log2(1 + rank).

    Examples
    --------
    >>> examination_guess(1), examination_guess(3)
    (1.0, 0.5)
    """
    return 1 / math.log2(1 + rank)


def click_preferences(
    shown: Sequence[Doc],
    clicked: Iterable[Doc],
    skipped: Skipped = "above",
    *,
    most: float = 1.0,
    examination: Sequence[float] | None = None,
) -> list[tuple[Doc, Doc, float]]:
    """What the clicks on a list say, as (better, worse, weight): a clicked document is better than one passed over.

    People look from the top down, so that clicks agree with what they judge better mostly where the other document
    stood above. A document that was passed over counts for the chance that its rank was looked at. All of a list come
    to ``most`` at most, and are the `MOST_PREFERENCES` that count most.

    Parameters
    ----------
    shown : documents from top to bottom
    clicked : those of them that were clicked
    skipped : which documents a clicked one is better than: those without a click ``"above"`` it, or ``"all"`` without
    most : what the weights of a list may come to; infinite leaves them as they are
    examination : the chance that each rank is looked at, the last for those below, too; by default `examination_guess`

    Notes
    -----
    With ``skipped="all"`` and ``most=inf``, two documents that are equally good are preferred to each other alike,
    whichever was shown above: with chances p of looking and g of a click, one on rank i and none on j has the chance
    ``p_i g (1 - p_j g)`` and counts ``p_j``, the other way round ``p_j g (1 - p_i g)`` and ``p_i``, the same but for
    the brackets. So one can measure by them as well as learn from them; those of ``"above"`` all contradict the order
    that was shown.

    Examples
    --------
    >>> [(better, worse, round(weight, 2)) for better, worse, weight in click_preferences("abcd", "d")]
    [('d', 'a', 0.47), ('d', 'b', 0.3), ('d', 'c', 0.23)]
    """
    chosen = list(dict.fromkeys(clicked))
    if examination is None:
        looked = [examination_guess(rank) for rank in range(1, len(shown) + 1)]
    else:
        looked = [examination[min(rank, len(examination)) - 1] for rank in range(1, len(shown) + 1)]
    ranks = {doc: rank for rank, doc in enumerate(shown, start=1)}
    # A clicked document is better than those passed over up to this rank.
    last = {doc: len(shown) if skipped == "all" else ranks[doc] for doc in chosen}
    lowest = max(last.values(), default=0)
    was_clicked = set(chosen)
    passed = [
        (rank, doc) for rank, doc in enumerate(shown, start=1) if rank <= lowest and doc not in was_clicked
    ]  # each of them is worse than some clicked one
    positions = [rank for rank, _ in passed]
    if sum(bisect_right(positions, last[better]) for better in chosen) <= MOST_PREFERENCES:
        preferences = list(_pairs(chosen, last, passed, looked))
    else:
        # Those that count most are of the ranks that count most: all pairs need not be made to find them.
        by_weight = groupby(
            sorted(passed, key=lambda position: -looked[position[0] - 1]), lambda position: looked[position[0] - 1]
        )
        alike = (_pairs(chosen, last, list(group), looked) for _, group in by_weight)
        preferences = list(islice(chain.from_iterable(alike), MOST_PREFERENCES))
    total = math.fsum(weight for _, _, weight in preferences)
    if total > most:
        preferences = [(better, worse, weight / total * most) for better, worse, weight in preferences]
    return preferences


def _pairs(
    chosen: Sequence[Doc], last: Mapping[Doc, int], passed: Sequence[tuple[int, Doc]], looked: Sequence[float]
) -> Iterator[tuple[Doc, Doc, float]]:
    """Each clicked document over those passed over up to its last rank, which come by rank."""
    for better in chosen:
        for rank, worse in passed:
            if rank > last[better]:
                break
            yield better, worse, looked[rank - 1]


def read_clicks(path: FilePath) -> list[Impression]:
    r"""Read a click file, TSV or JSONL; the first line tells which.

    TSV begins with the header ``query-id shown-ids clicked-ids``. Its ids are separated by blanks, and the last
    column is empty where nothing was clicked. JSONL has the keys ``query``, ``shown`` and ``clicked``, the last two
    arrays of strings; other keys are passed over. `read_click_log` takes logs of other shapes.

    Parameters
    ----------
    path : a text file, gzipped or not

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "clicks.tsv")
    ...     _ = file.write_text("query-id\tshown-ids\tclicked-ids\nq1\t007 d3 1e5\td3\n")
    ...     read_clicks(file)
    [Impression(query='q1', shown=('007', 'd3', '1e5'), clicked=('d3',))]
    """
    return list(iter_clicks(path))


def iter_clicks(path: FilePath) -> Iterator[Impression]:
    """Yield the impressions of a click file one by one, in memory for one.

    ``Preferences.from_clicks`` takes what this yields.

    Examples
    --------
    >>> import tempfile
    >>> from tercet.data import write_clicks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_clicks(f"{folder}/clicks.jsonl", [Impression("tea", ("a", "b"), ("b",))])
    ...     next(iter_clicks(f"{folder}/clicks.jsonl"))
    Impression(query='tea', shown=('a', 'b'), clicked=('b',))
    """
    empty = True
    for _, impression in impressions_of(path):
        empty = False
        yield impression
    if empty:
        raise FormatError(path, None, NO_IMPRESSIONS)


def impressions_of(
    path: FilePath, refused: Refused | None = None, lines: Iterable[tuple[int, str]] | None = None
) -> Iterator[tuple[int, Impression]]:
    """Yield the number of each line and the impression on it; ``lines`` are those of a file that is not UTF-8."""
    for line, impression in parsed_lines(path, ImpressionParser(path), refused, lines):
        if impression is not None:
            yield line, impression


class ImpressionParser:
    """Makes an impression of each line of a file; the first line it gets, which may be the header, tells the format."""

    def __init__(self, path: FilePath) -> None:
        self.path = path
        self.is_json: bool | None = None

    def __call__(self, text: str, line: int) -> Impression | None:
        """The impression on a line; None for the header."""
        path = self.path
        if self.is_json is None:
            self.is_json = text.lstrip().startswith("{")
            if not self.is_json:
                if text == CLICK_HEADER:
                    return None
                message = (
                    f"found {text[:80]!r}; the first line must be the header {CLICK_HEADER!r}, or JSON (other tables "
                    "are read by read_click_log)"
                )
                raise FormatError(path, line, message)
        if self.is_json:
            impression = _json_impression(parse_json_object(text, path, line), path, line)
        else:
            impression = _tsv_impression(text, path, line)
        problem = impression_problem(impression)
        if problem is not None:
            raise FormatError(path, line, problem)
        return impression


def impression_problem(impression: Impression) -> str | None:
    """Say what is wrong with a shown list and its clicks, or None when nothing is.

    Examples
    --------
    >>> impression_problem(Impression("q1", ("d1", "d2"), ("d3",)))
    "document 'd3' is clicked and was not shown"
    """
    if not impression.shown:
        return "no document is shown; an impression needs at least one"
    shown = set(impression.shown)
    for what, ids in (("shown", impression.shown), ("clicked", impression.clicked)):
        if len(set(ids)) < len(ids):
            return f"document {first_repeated(ids)!r} is {what} twice; name it once"
    for doc_id in impression.clicked:
        if doc_id not in shown:
            return f"document {doc_id!r} is clicked and was not shown"
    return None


def _tsv_impression(text: str, path: FilePath, line: int) -> Impression:
    columns = text.split("\t", limits.MOST_VALUES)
    if len(columns) != 3:
        raise FormatError(path, line, f"{len(columns)} columns; 3 are needed, separated by tabs: {_COLUMNS}")
    query = read_id(columns[0], path, line, "query id")
    limits.check_values(text, " ", path, line, "ids")
    shown, clicked = (
        tuple(read_id(one, path, line, f"{what} document's id") for one in column.split(" ") if one)
        for what, column in (("shown", columns[1]), ("clicked", columns[2]))
    )
    return Impression(query, shown, clicked)


def _json_impression(record: dict[str, Any], path: FilePath, line: int) -> Impression:
    query = read_id(json_field(record, "query", path, line), path, line, '"query"')
    return Impression(query, _json_ids(record, "shown", path, line), _json_ids(record, "clicked", path, line))


def _json_ids(record: dict[str, Any], key: str, path: FilePath, line: int) -> tuple[str, ...]:
    ids = json_field(record, key, path, line)
    if not isinstance(ids, list):
        raise FormatError(path, line, f'"{key}" is {json.dumps(ids)[:80]}; an array of strings is needed')
    return tuple(read_id(one, path, line, f'id at place {i} of "{key}"') for i, one in enumerate(ids, start=1))


def write_clicks(path: FilePath, impressions: Iterable[Impression]) -> None:
    r"""Write a click file: JSONL when the name ends in ``.jsonl`` or ``.jsonl.gz``, else TSV with its header.

    In TSV, document ids with blanks are refused, since blanks separate them; JSONL takes them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "clicks.tsv")
    ...     write_clicks(file, [Impression("q1", ("d1", "d2"), ("d2",))])
    ...     file.read_text().splitlines()[1]
    'q1\td1 d2\td2'
    """
    as_json = fspath(path).removesuffix(".gz").endswith(".jsonl")
    with write_atomically(path) as stream:
        if not as_json:
            stream.write(CLICK_HEADER + "\n")
        written = 0
        for impression in map(Impression._make, impressions):
            writable_id(impression.query, path, "query id")
            for doc_id in (*impression.shown, *impression.clicked):
                writable_id(doc_id, path, "document id")
                if not as_json and " " in doc_id:
                    fault = f"the document id {doc_id!r} holds a blank, which separates ids in TSV"
                    raise InputError(f"{path}: cannot write: {fault}; name the file .jsonl")
            problem = impression_problem(impression)
            if problem is not None:
                raise InputError(f"{path}: cannot write: impression {written}: {problem}")
            if as_json:
                stream.write(json.dumps(dict(zip(KEYS, impression, strict=True)), ensure_ascii=False) + "\n")
            else:
                shown, clicked = " ".join(impression.shown), " ".join(impression.clicked)
                stream.write(f"{impression.query}\t{shown}\t{clicked}\n")
            written += 1
        if not written:
            raise InputError(f"{path}: cannot write: there are no impressions")


# -- a log as columns -------------------------------------------------------------------------------------------------


Rows = NDArray[np.int64]
Shown = tuple[str, tuple[str, ...], tuple[str, ...]]  # query, shown documents, clicked documents


@dataclass(frozen=True, eq=False)
class ClickColumns:
    """Documents shown, list after list; a pair is a query and a document.

    Attributes
    ----------
    queries, docs : distinct names, in the order of their first appearance
    list_query : query of each list, (n_lists,)
    pair_query, pair_doc : query and document of each pair, pairs in the order of their first appearance, (n_pairs,)
    impression, pair, rank : number of the list, the pair and the rank of each row, all from 0
    clicked : whether the document was clicked

    Examples
    --------
    >>> columns = ClickColumns.from_lists([("tea", ("a", "b"), ("b",)), ("tea", ("b", "c"), ())])
    >>> columns.pair.tolist(), columns.rank.tolist(), columns.clicked.tolist()
    ([0, 1, 1, 2], [0, 1, 0, 1], [False, True, False, False])
    """

    queries: tuple[str, ...]
    docs: tuple[str, ...]
    list_query: Rows
    pair_query: Rows
    pair_doc: Rows
    impression: Rows
    pair: Rows
    rank: Rows
    clicked: NDArray[np.bool_]

    @classmethod
    def from_lists(cls, lists: Sequence[Shown]) -> ClickColumns:
        queries, query = numbered([one[0] for one in lists])
        docs, doc = numbered(list(chain.from_iterable(one[1] for one in lists)))
        sizes = np.fromiter((len(one[1]) for one in lists), dtype=np.int64, count=len(lists))
        impression, start = np.repeat(np.arange(sizes.size), sizes), np.cumsum(sizes) - sizes
        width = max(1, len(docs))
        keys, first, pair = np.unique(query[impression] * width + doc, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty(keys.size, dtype=np.int64)
        number[order] = np.arange(keys.size)
        clicked = np.zeros(doc.size, dtype=bool)
        for begin, (_, shown, clicks) in zip(start.tolist(), lists, strict=True):
            clicked[[begin + shown.index(doc_id) for doc_id in clicks]] = True
        rank = np.arange(doc.size) - np.repeat(start, sizes)
        pairs = keys[order]
        return cls(queries, docs, query, pairs // width, pairs % width, impression, number[pair.ravel()], rank, clicked)

    def take(self, kept: NDArray[np.bool_]) -> ClickColumns:
        """Some of the rows, with the numbers that all rows have."""
        columns = {name: getattr(self, name)[kept] for name in ("impression", "pair", "rank", "clicked")}
        return replace(self, **columns)


def numbered(names: Sequence[str]) -> tuple[tuple[str, ...], Rows]:
    """Distinct names in the order of their first appearance, and the number of each name.

    Examples
    --------
    >>> numbered(["tea", "milk", "tea"])
    (('tea', 'milk'), array([0, 1, 0]))
    """
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(numbers), np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
