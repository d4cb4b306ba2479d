"""Drawing preferences at random from labels, graded judgements and links.

A sampler is a pure function of the generator it is given: ``draw(rng, n)`` returns three int32 arrays
``(query, better, worse)``.
"""

from __future__ import annotations

from array import array as growing_array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._validate import check_integer, is_integer
from tercet.data.lookup import RowLookup, rows_of_ids
from tercet.errors import InputError
from tercet.store.digest import digest_of

Drawn = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
UniformOver = Literal["queries", "judgements"]

LAST_ROW = int(np.iinfo(np.int32).max)

# After so many rounds of rejection the few preferences still without a worse document look through all documents.
_ROUNDS = 20
_LOOKED_UP = 1 << 16  # ids at once


class Sampler(Protocol):
    """Draws preferences."""

    def draw(self, rng: np.random.Generator, n: int) -> Drawn: ...

    def fingerprint(self) -> str:
        """A digest of what is drawn from and how."""
        ...


class LabelSampler:
    """The same class is better, another class is worse."""

    def __init__(self, y: ArrayLike) -> None:
        labels = np.asarray(y)
        if labels.dtype.kind == "O":
            wrong = next((i for i, label in enumerate(labels.ravel()) if not isinstance(label, str | int)), None)
            if wrong is not None:
                raise InputError(f"y[{wrong}] is {labels.ravel()[wrong]!r}; labels are strings or numbers")
        if labels.ndim != 1 or labels.size == 0:
            raise InputError(f"y must be a non-empty one-dimensional array of labels; got shape {labels.shape}")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            i = int((~np.isfinite(labels)).argmax())
            raise InputError(f"y[{i}] is {labels[i]}; labels are finite")
        classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise InputError(
                f"y has the single class {classes.tolist()[0]!r}; at least two are needed, since the "
                "worse document is of another class"
            )
        if counts.max() < 2:
            raise InputError("every class in y has one member; a class needs two, a query and a better document")
        self._by_class = np.argsort(codes, kind="stable").astype(np.int32)
        self._start = np.concatenate([[0], np.cumsum(counts)])
        self._counts = counts
        self._codes = codes
        self._position = np.empty(labels.size, dtype=np.int64)  # of each row within its class
        self._position[self._by_class] = np.arange(labels.size) - np.repeat(self._start[:-1], counts)
        self._queries = np.flatnonzero(counts[codes] >= 2)

    def fingerprint(self) -> str:
        return digest_of(self._codes)

    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        check_integer(n, "n")
        query = self._queries[rng.integers(0, self._queries.size, n)]
        code = self._codes[query]
        # One of the class's other members: skip over the query's own place.
        member = rng.integers(0, self._counts[code] - 1)
        member += member >= self._position[query]
        better = self._by_class[self._start[code] + member]
        # One of the rows outside the class: skip over the class's block.
        member = rng.integers(0, self._codes.size - self._counts[code])
        member += np.where(member >= self._start[code], self._counts[code], 0)
        worse = self._by_class[member]
        return query.astype(np.int32), better, worse


class JudgementSampler:
    """A document of a higher grade is better than one of a lower grade, for the same query.

    Parameters
    ----------
    query, doc, grade : one judgement per position; repeats of a (query, doc) pair are refused
    n_docs : draw the worse document from all of these (unjudged ones have grade 0), or None for judged ones only
    exclude_self : a query row is never its own better or worse document (documents that link to documents)
    """

    def __init__(
        self,
        query: NDArray[Any],
        doc: NDArray[Any],
        grade: NDArray[Any],
        *,
        n_docs: int | None = None,
        uniform_over: UniformOver = "queries",
        exclude_self: bool = False,
    ) -> None:
        if uniform_over not in ("queries", "judgements"):
            raise InputError(f"uniform_over must be 'queries' or 'judgements'; got {uniform_over!r}")
        if exclude_self:
            other = query != doc
            query, doc, grade = query[other], doc[other], grade[other]
        if query.size == 0:
            raise InputError("there are no judgements to draw preferences from")
        outside = (query < 0) | (doc < 0) | (query > LAST_ROW) | (doc > LAST_ROW)
        if outside.any():
            i = int(outside.argmax())
            raise InputError(f"judgement {i} names row ({query[i]}, {doc[i]}); rows run from 0 to {LAST_ROW}")
        if n_docs is not None and not 1 <= n_docs <= LAST_ROW + 1:
            raise InputError(f"n_docs is {n_docs}; it must lie between 1 and {LAST_ROW + 1}")
        # Millions of judgements are kept: rows and places take 4 bytes where they can.
        query, doc, grade = query.astype(np.int32), doc.astype(np.int32), _narrow(grade)
        if n_docs is not None and doc.max() >= n_docs:
            i = int((doc >= n_docs).argmax())
            raise InputError(f"judgement {i} names document row {doc[i]}, but n_docs is {n_docs}")
        self.n_docs = n_docs
        self.uniform_over = uniform_over
        self.exclude_self = exclude_self
        width = int(max(int(doc.max()) + 1, n_docs or 0))
        order = np.lexsort((doc, ~grade, query))
        self._query, self._doc, self._grade = query[order], doc[order], grade[order]
        del order, query, doc, grade
        self._width = width
        self._keys = self._query * np.int64(width)
        self._keys += self._doc
        self._key_order = _narrow(np.argsort(self._keys, kind="stable"))
        self._keys = self._keys[self._key_order]
        if (self._keys[1:] == self._keys[:-1]).any():
            i = int((self._keys[1:] == self._keys[:-1]).argmax())
            raise InputError(f"query {self._keys[i] // width} judges document {self._keys[i] % width} twice")
        self._find_eligible()

    def _find_eligible(self) -> None:
        """Judgements that can be the better side, and for each query where its lower grades start."""
        _, start, count = np.unique(self._query, return_index=True, return_counts=True)
        self._end = np.repeat(_narrow(start + count), count)
        # Within a query grades fall, so the first position with a lower grade follows the run of equal grades.
        new_run = np.ones(self._query.size, dtype=bool)
        new_run[1:] = (self._query[1:] != self._query[:-1]) | (self._grade[1:] != self._grade[:-1])
        run_end = _narrow(np.append(np.flatnonzero(new_run)[1:], self._query.size))
        self._lower = np.repeat(run_end, np.diff(run_end, prepend=0))
        has_lower_judged = self._lower < self._end
        if self.n_docs is None:
            eligible = has_lower_judged
        else:
            judged = np.repeat(count, count)
            itself = self._query < self.n_docs if self.exclude_self else np.zeros(self._query.size, dtype=bool)
            eligible = (self._grade > 0) & (has_lower_judged | (judged + itself < self.n_docs))
        self._better_at = _narrow(np.flatnonzero(eligible))
        if self._better_at.size == 0:
            raise InputError(
                "no judgement can be the better side: "
                + (
                    "no query has two different grades; give n_docs to draw unjudged documents as worse"
                    if self.n_docs is None
                    else "no document has a grade above 0"
                    if not (self._grade > 0).any()
                    else f"all {self.n_docs} documents are as relevant, so none is worse"
                )
            )
        owners, self._first, self._count = np.unique(
            self._query[self._better_at], return_index=True, return_counts=True
        )
        self.queries = owners.astype(np.int32)

    def fingerprint(self) -> str:
        """A digest of the judgements and of how they are drawn."""
        rule = (self.n_docs, self.uniform_over, self.exclude_self)
        return digest_of(rule, *(column.astype(np.int64) for column in (self._query, self._doc, self._grade)))

    def grade_of(self, query: NDArray[Any], doc: NDArray[Any]) -> NDArray[np.int64]:
        """Grades of (query, doc) pairs, 0 for unjudged ones."""
        keys = query.astype(np.int64) * self._width + doc
        nearest = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        judged = self._keys[nearest] == keys
        return np.where(judged, self._grade[self._key_order[nearest]], 0).astype(np.int64, copy=False)

    def draw_better(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Positions of n judgements for the better side."""
        if self.uniform_over == "judgements":
            return self._better_at[rng.integers(0, self._better_at.size, n)]
        owner = rng.integers(0, self.queries.size, n)
        return self._better_at[self._first[owner] + rng.integers(0, self._count[owner])]

    def draw_worse(self, rng: np.random.Generator, judgements: NDArray[np.int64]) -> NDArray[np.int32]:
        """One document of a lower grade for each judgement position, uniformly."""
        if self.n_docs is None:
            return self._doc[rng.integers(self._lower[judgements], self._end[judgements])].astype(np.int32)
        query, grade = self._query[judgements], self._grade[judgements]
        worse = np.empty(judgements.size, dtype=np.int32)
        open_ = np.arange(judgements.size)
        for _ in range(_ROUNDS):
            worse[open_] = rng.integers(0, self.n_docs, open_.size)
            taken = self.grade_of(query[open_], worse[open_]) >= grade[open_]
            if self.exclude_self:
                taken |= worse[open_] == query[open_]
            open_ = open_[taken]
            if open_.size == 0:
                return worse
        every = np.arange(self.n_docs)
        for i in open_:
            lower = self.grade_of(np.full(self.n_docs, query[i]), every) < grade[i]
            if self.exclude_self:
                lower &= every != query[i]
            worse[i] = rng.choice(np.flatnonzero(lower))
        return worse

    def pair(self, judgements: NDArray[np.int64], worse: NDArray[np.int32]) -> Drawn:
        """Put judgement positions and worse documents together."""
        return self._query[judgements].astype(np.int32), self._doc[judgements].astype(np.int32), worse

    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        check_integer(n, "n")
        judgements = self.draw_better(rng, n)
        return self.pair(judgements, self.draw_worse(rng, judgements))

    @classmethod
    def from_qrels(
        cls,
        qrels: Mapping[Any, Mapping[Any, int]],
        *,
        n_docs: int | None = None,
        query_rows: RowLookup | None = None,
        doc_rows: RowLookup | None = None,
        uniform_over: UniformOver = "queries",
    ) -> JudgementSampler:
        """Judgements as query -> document -> grade; ids are looked up when their rows are given."""
        judgements = ((qid, doc_id, grade) for qid, judged in qrels.items() for doc_id, grade in judged.items())
        return cls.from_judgements(
            judgements, n_docs=n_docs, query_rows=query_rows, doc_rows=doc_rows, uniform_over=uniform_over
        )

    @classmethod
    def from_judgements(
        cls,
        judgements: Iterable[tuple[Any, Any, int]],
        *,
        n_docs: int | None = None,
        query_rows: RowLookup | None = None,
        doc_rows: RowLookup | None = None,
        uniform_over: UniformOver = "queries",
    ) -> JudgementSampler:
        """Judgements as (query, document, grade), such as ``iter_qrels`` yields, in memory as arrays only.

        Some 100 bytes for each while they are read, and 36 afterwards.
        """
        columns = tuple(growing_array("q") for _ in range(3))
        remaining = iter(judgements)
        while some := list(islice(remaining, _LOOKED_UP)):
            qids, doc_ids, grades = zip(*some, strict=True)
            columns[0].extend(_rows(qids, query_rows, "query"))
            columns[1].extend(_rows(doc_ids, doc_rows, "document"))
            columns[2].extend(map(check_grade, qids, doc_ids, grades))
        query, doc, grade = (np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64) for column in columns)
        return cls(query, doc, grade, n_docs=n_docs, uniform_over=uniform_over)

    @classmethod
    def from_links(cls, links: ArrayLike, n_docs: int, *, uniform_over: UniformOver = "judgements") -> JudgementSampler:
        """Links (from, to); repeated links count once, a link to itself is ignored."""
        pairs = np.asarray(links)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise InputError(f"links must be integer pairs (from, to); got shape {pairs.shape}, {pairs.dtype}")
        bad = (pairs < 0) | (pairs >= n_docs)
        if bad.any():
            i = int(bad.any(axis=1).argmax())
            raise InputError(f"links[{i}] is {tuple(pairs[i].tolist())}; rows run from 0 to {n_docs - 1}")
        keys = pairs[:, 0] * np.int64(n_docs)
        keys += pairs[:, 1]
        keys = np.unique(keys[pairs[:, 0] != pairs[:, 1]])
        return cls(
            (keys // n_docs).astype(np.int32),
            (keys % n_docs).astype(np.int32),
            np.ones(len(keys), dtype=np.int32),
            n_docs=n_docs,
            uniform_over=uniform_over,
            exclude_self=True,
        )


class MixtureSampler:
    """Draws from several samplers, each draw from one of them by chance, in proportion to their shares.

    Examples
    --------
    >>> labels = LabelSampler(["a", "a", "b", "b"])
    >>> mixture = MixtureSampler([(labels, 3.0), (labels, 1.0)])
    >>> mixture.shares.tolist(), mixture.draw(np.random.default_rng(0), 5)[0].size
    ([0.75, 0.25], 5)
    """

    def __init__(self, samplers: Sequence[tuple[Sampler, float]]) -> None:
        if not samplers:
            raise InputError("there are no samplers to mix")
        self._samplers = [sampler for sampler, _ in samplers]
        shares = np.array([share for _, share in samplers], dtype=np.float64)
        if not (np.isfinite(shares).all() and (shares > 0).all()):
            raise InputError(f"the shares of a mixture must be positive; got {shares.tolist()}")
        self.shares = shares / shares.sum()

    def fingerprint(self) -> str:
        return digest_of(*(sampler.fingerprint() for sampler in self._samplers), self.shares)

    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        check_integer(n, "n")
        source = rng.choice(len(self._samplers), n, p=self.shares)
        query, better, worse = (np.empty(n, dtype=np.int32) for _ in range(3))
        for number, sampler in enumerate(self._samplers):
            places = np.flatnonzero(source == number)
            if places.size:
                query[places], better[places], worse[places] = sampler.draw(rng, places.size)
        return query, better, worse


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """As int32 where all fit, else as int64."""
    if numbers.size and not -(2**31) <= int(numbers.min()) <= int(numbers.max()) < 2**31:
        return numbers.astype(np.int64)
    return numbers.astype(np.int32)


def _rows(keys: Sequence[Any], rows: RowLookup | None, what: str) -> list[int]:
    """Row numbers, looked up where their rows are given."""
    numbers = list(keys) if rows is None else rows_of_ids(rows, keys).tolist()
    for key, row in zip(keys, numbers, strict=True):
        if rows is not None and row == -1:
            raise InputError(f"qrels name {what} {key!r}, which is not among the {what} ids")
        if not is_integer(row):
            raise InputError(
                f"qrels name {what} {row!r}; without {what.replace('ument', '')}_rows keys are integer row numbers"
            )
        if not 0 <= row <= LAST_ROW:
            raise InputError(f"qrels name {what} row {row}; rows run from 0 to {LAST_ROW}")
    return numbers


def check_grade(qid: Hashable, doc_id: Hashable, grade: Any) -> int:
    """A grade as an integer; anything else is refused."""
    if not is_integer(grade):
        raise InputError(f"the grade of document {doc_id!r} for query {qid!r} is {grade!r}; grades are integers")
    if not -(2**31) <= grade < 2**31:
        raise InputError(f"the grade of document {doc_id!r} for query {qid!r} is {grade}; grades are small integers")
    return int(grade)
