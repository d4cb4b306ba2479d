"""Preferences as row numbers: a query, a better document and a worse document."""

from __future__ import annotations

from array import array as growing_array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._validate import check_seed, is_integer
from tercet.data.clicks import Skipped, click_preferences
from tercet.data.counters import Numbers
from tercet.data.sampling import LAST_ROW, JudgementSampler, LabelSampler, Sampler, rows_among
from tercet.errors import InputError
from tercet.store.digest import digest_of

RowNumbers = NDArray[np.int32]


def _array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} is no array: {error}") from None


def _rows(values: ArrayLike, name: str) -> RowNumbers:
    """A read-only copy, checked."""
    array = _array(values, name)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold integer row numbers; got dtype {array.dtype}")
    if array.size and (bad := (array < 0) | (array > LAST_ROW)).any():
        i = int(bad.argmax())
        raise InputError(f"{name}[{i}] is {array[i]}; row numbers run from 0 to {LAST_ROW}")
    rows = np.array(array, dtype=np.int32, order="C")
    rows.flags.writeable = False
    return rows


def _positive(values: ArrayLike, n: int, name: str) -> NDArray[np.float32]:
    """A read-only copy, checked."""
    array = _array(values, name)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold numbers; got dtype {array.dtype}")
    if array.shape != (n,):
        raise InputError(f"{name} must have shape {(n,)}; got {array.shape}")
    largest = np.finfo(np.float32).max
    bad = ~((array > 0) & (array <= largest))
    if bad.any():
        i = int(bad.argmax())
        raise InputError(f"{name}[{i}] is {array[i]}; {name}s are positive and at most {largest:.3g}")
    checked = np.array(array, dtype=np.float32, order="C")
    np.maximum(
        checked, np.finfo(np.float32).smallest_subnormal, out=checked
    )  # a positive weight must not underflow to 0
    checked.flags.writeable = False
    return checked


@dataclass(frozen=True, eq=False)
class Preferences:
    """Preferences as arrays of row numbers.

    Parameters
    ----------
    query, better, worse : integer arrays of one length
        Rows of Q, D and D. ``better`` and ``worse`` differ everywhere.
    weight : positive floats, optional
        Weight of each preference; 1 by default.
    margin : positive floats, optional
        Margin of each preference; by default the margin of the ranker.

    Examples
    --------
    >>> prefs = Preferences([0, 0], [1, 2], [3, 3])
    >>> len(prefs)
    2
    """

    query: RowNumbers
    better: RowNumbers
    worse: RowNumbers
    weight: NDArray[np.float32] | None = None
    margin: NDArray[np.float32] | None = None

    def __init__(
        self,
        query: ArrayLike,
        better: ArrayLike,
        worse: ArrayLike,
        weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
    ) -> None:
        columns = [_rows(query, "query"), _rows(better, "better"), _rows(worse, "worse")]
        lengths = [len(c) for c in columns]
        if len(set(lengths)) > 1:
            raise InputError("query, better and worse must have one length; got {}, {} and {}".format(*lengths))
        same = columns[1] == columns[2]
        if same.any():
            i = int(same.argmax())
            raise InputError(f"better[{i}] and worse[{i}] are both {columns[1][i]}; they must differ")
        for name, column in zip(("query", "better", "worse"), columns, strict=True):
            object.__setattr__(self, name, column)
        for name, numbers in (("weight", weight), ("margin", margin)):
            object.__setattr__(self, name, None if numbers is None else _positive(numbers, len(columns[0]), name))

    def __len__(self) -> int:
        return len(self.query)

    def __getitem__(self, picked: slice | NDArray[Any]) -> Preferences:
        """Return a slice, or the preferences selected by an integer or boolean array."""
        part = object.__new__(type(self))
        for name in ("query", "better", "worse", "weight", "margin"):
            column = getattr(self, name)
            if column is not None:
                column = column[picked]
                if column.ndim != 1:
                    raise InputError(f"one preference is picked by a slice, so that {name} stays one-dimensional")
                column = np.ascontiguousarray(column)
                column.flags.writeable = False
            object.__setattr__(part, name, column)
        return part

    def renumbered(self, query: ArrayLike, better: ArrayLike, worse: ArrayLike) -> Preferences:
        """Return the preferences with new row numbers."""
        return type(self)(query, better, worse, self.weight, self.margin)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Preferences):
            return NotImplemented
        return self.fingerprint() == other.fingerprint()

    def __repr__(self) -> str:
        weighted = ", weighted" if self.weight is not None else ""
        return f"Preferences({len(self):,}{weighted}{', with margins' if self.margin is not None else ''})"

    def fingerprint(self) -> str:
        """A digest of the content."""
        columns = {name: getattr(self, name) for name in ("query", "better", "worse", "weight", "margin")}
        return digest_of(arrays={name: column for name, column in columns.items() if column is not None})

    def check_rows(self, n_queries: int, n_docs: int, queries: str = "Q") -> None:
        """Raise an InputError for a row number beyond Q (called ``queries``) or D."""
        for name, column, limit, matrix in (
            ("query", self.query, n_queries, queries),
            ("better", self.better, n_docs, "D"),
            ("worse", self.worse, n_docs, "D"),
        ):
            bad = column >= limit
            if bad.any():
                i = int(bad.argmax())
                raise InputError(f"{name}[{i}] is row {column[i]}, but {matrix} has {limit} rows (0 to {limit - 1})")

    @classmethod
    def from_labels(cls, y: ArrayLike, n: int, random_state: int = 0) -> Preferences:
        """Draw preferences by class: a document of the query's class is better than a document of another class.

        Queries are drawn uniformly from the rows whose class has another member. Cost: O(n).

        Examples
        --------
        >>> prefs = Preferences.from_labels(["a", "a", "b", "b"], 5)
        >>> len(prefs)
        5
        """
        return cls(*LabelSampler(y).draw(np.random.default_rng(check_seed(random_state)), n))

    @classmethod
    def from_qrels(
        cls,
        qrels: Mapping[Any, Mapping[Any, int]],
        n: int,
        random_state: int = 0,
        *,
        n_docs: int | None = None,
        query_rows: Mapping[Any, int] | None = None,
        doc_rows: Mapping[Any, int] | None = None,
        uniform_over: Literal["queries", "judgements"] = "queries",
    ) -> Preferences:
        """Draw preferences from graded judgements.

        Parameters
        ----------
        qrels : query -> document -> grade
            Keys are row numbers, or ids looked up in ``query_rows`` and ``doc_rows``.
        n_docs : int, optional
            Draw the worse document uniformly from all documents of a lower grade, with grade 0 for unjudged
            documents. Without
            ``n_docs``, only from the query's judged documents.
        uniform_over : draw a query first and then a relevant document of the query, or a judgement at once

        Examples
        --------
        >>> prefs = Preferences.from_qrels({0: {3: 2, 4: 0}}, 2)
        >>> prefs.better.tolist(), prefs.worse.tolist()
        ([3, 3], [4, 4])
        """
        sampler = JudgementSampler.from_qrels(
            qrels, n_docs=n_docs, query_rows=query_rows, doc_rows=doc_rows, uniform_over=uniform_over
        )
        return cls(*sampler.draw(np.random.default_rng(check_seed(random_state)), n))

    @classmethod
    def from_links(
        cls,
        links: ArrayLike | Sequence[tuple[int, int]],
        n_docs: int,
        n: int,
        random_state: int = 0,
        *,
        uniform_over: Literal["queries", "judgements"] = "judgements",
    ) -> Preferences:
        """Draw preferences from links (from, to): a linked document is better than an unlinked document.

        The linking document itself is never the better or the worse document.

        Examples
        --------
        >>> len(Preferences.from_links([(0, 1), (1, 2)], n_docs=5, n=4))
        4
        """
        sampler = JudgementSampler.from_links(links, n_docs, uniform_over=uniform_over)
        return cls(*sampler.draw(np.random.default_rng(check_seed(random_state)), n))

    @classmethod
    def from_clicks(
        cls,
        log: Iterable[tuple[Any, Sequence[Any], Sequence[Any]]],
        *,
        query_rows: Mapping[Any, int] | None = None,
        doc_rows: Mapping[Any, int] | None = None,
        skipped: Skipped = "above",
    ) -> Preferences:
        """Return preferences of clicks: a clicked document is better than a document shown and skipped.

        Parameters
        ----------
        log : triples (query, shown, clicked): the documents shown, from top to bottom, and the clicked documents
        query_rows, doc_rows : the row of each id; by default the log holds row numbers
        skipped : a clicked document is better than the documents without a click ``"above"`` the click, or than
            ``"all"`` of them

        Notes
        -----
        Weights are those of `click_preferences`, at most 1 for a list. A preference of several lists occurs several
        times.

        Examples
        --------
        >>> prefs = Preferences.from_clicks([(0, [5, 6, 7, 8], [7])])
        >>> prefs.better.tolist(), prefs.worse.tolist(), prefs.weight.round(2).tolist()
        ([7, 7], [5, 6], [0.6100000143051147, 0.38999998569488525])
        """
        if skipped not in ("above", "all"):
            raise InputError(f"'skipped' must be 'above' or 'all'. Got {skipped!r}.")
        rows, weights = tuple(growing_array("q") for _ in range(3)), growing_array("d")
        for i, (query, doc_ids, clicked) in enumerate(log):
            listed = set(doc_ids)
            if len(listed) < len(doc_ids):
                raise InputError(f"log[{i}] shows a document twice; each is shown once")
            for doc in clicked:
                if doc not in listed:
                    raise InputError(f"log[{i}] has a click on {doc!r}, which was not shown")
            for better, worse, weight in click_preferences(doc_ids, clicked, skipped):
                rows[0].append(_row_of(query, query_rows, i, "query"))
                rows[1].append(_row_of(better, doc_rows, i, "document"))
                rows[2].append(_row_of(worse, doc_rows, i, "document"))
                weights.append(weight)
        query_column, better_column, worse_column = (np.array(column, np.int64) for column in rows)
        return cls(query_column, better_column, worse_column, np.array(weights, np.float32))


def _row_of(key: Any, rows: Mapping[Any, int] | None, i: int, what: str) -> int:
    if rows is None:
        if not is_integer(key, 0, LAST_ROW):
            raise InputError(
                f"log[{i}]: {what} {key!r} is no row number; say with query_rows and doc_rows what ids mean"
            )
        return int(key)
    if key not in rows:
        raise InputError(f"log[{i}]: {what} {key!r} is an id without a row")
    return int(rows[key])


class PreferenceSampler(Sampler):
    """Draws from given preferences, with replacement, each in proportion to its weight."""

    def __init__(self, preferences: Preferences) -> None:
        if not len(preferences):
            raise InputError("there are no preferences to draw from")
        self._preferences = preferences
        weight = preferences.weight
        self._up_to = None if weight is None else np.cumsum(weight.astype(np.float64))
        self._query, self._better, self._worse = preferences.query, preferences.better, preferences.worse

    def fingerprint(self) -> str:
        return self._preferences.fingerprint()

    def drop(self, queries: ArrayLike = (), docs: ArrayLike = (), *, as_worse: bool = False) -> PreferenceSampler:
        """Drop queries and documents; ``as_worse`` keeps preferences with the documents as worse ones.

        Examples
        --------
        >>> sampler = PreferenceSampler(Preferences([0, 0, 1], [1, 2, 1], [2, 3, 3]))
        >>> sampler.drop(docs=[2]).draw(np.random.default_rng(0), 2)[2]
        array([3, 3], dtype=int32)
        """
        touched = rows_among(self._preferences.query, queries) | rows_among(self._preferences.better, docs)
        if not as_worse:
            touched |= rows_among(self._preferences.worse, docs)
        return PreferenceSampler(self._preferences[np.flatnonzero(~touched)])

    def _drawn(self, numbers: Numbers) -> tuple[Any, Any, Any]:
        if self._up_to is None:
            at = numbers.below(0, self._query.size)
        else:
            at = np.searchsorted(self._up_to, numbers.uniform(0) * self._up_to[-1], side="right")
            at = np.minimum(at, self._query.size - 1)
        return self._query[at], self._better[at], self._worse[at]


def joined(parts: Sequence[Preferences]) -> Preferences:
    """Concatenate preferences; all parts have weights, or none has, and likewise margins."""
    if len(parts) == 1:
        return parts[0]
    parts = [part for part in parts if len(part)] or parts[:1]
    columns: list[Any] = [
        None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
        for name in ("query", "better", "worse", "weight", "margin")
    ]
    return Preferences(*columns)


def as_preferences(prefs: Any) -> Preferences:
    """Return Preferences of row triplets (query, better, worse), a list or an array (n, 3)."""
    if isinstance(prefs, Preferences):
        return prefs
    expected = (
        "prefs must be Preferences, or triplets of row numbers (query, better, worse) as a list or an array (n, 3)"
    )
    if not isinstance(prefs, list | tuple | np.ndarray):
        raise InputError(f"{expected}; got {type(prefs).__name__}")
    triplets = _array(prefs, "prefs")
    if triplets.ndim != 2 or triplets.shape[1] != 3:
        raise InputError(f"{expected}; got shape {triplets.shape}")
    return Preferences(triplets[:, 0], triplets[:, 1], triplets[:, 2])
