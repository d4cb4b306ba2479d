"""Drawing preferences at random from labels, graded judgements and links.

A sampler is a pure function of the random numbers it is given: ``draw(rng, n)`` returns three int32 arrays
``(query, better, worse)``, ``drawn(numbers)`` the same from numbers of a generator or of counters, on a CPU or a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array as growing_array
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from itertools import islice, repeat
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._validate import check_integer, is_integer, is_number
from tercet.data.counters import GeneratorNumbers, Numbers
from tercet.errors import InputError, ParameterError
from tercet.store.digest import digest_of

Drawn = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
UniformOver = Literal["queries", "judgements"]
RowLookup: TypeAlias = Any  # a mapping id -> row, or `PackedIds` for fast lookup of many ids

LAST_ROW = int(np.iinfo(np.int32).max)

# Rounds of rejection sampling; preferences that still lack a worse document then search all documents.
_ROUNDS = 20
# Slots of a draw of `JudgementSampler`: 0 and 1 draw the better document, 2 chooses popular or uniform worse documents.
_POPULAR_SLOT = 3  # first slot of popular draws, two slots per round
_UNIFORM_SLOT = _POPULAR_SLOT + 2 * _ROUNDS  # one for each round
_LAST_CHOICE_SLOT = _UNIFORM_SLOT + _ROUNDS  # two
_LOOKED_UP = 1 << 16  # ids at once


class Sampler(ABC):
    """Source of random preferences."""

    def draw(self, rng: np.random.Generator, n: int) -> Drawn:
        """Return the query, better and worse rows of n preferences."""
        return self.drawn(GeneratorNumbers(rng, check_integer(n, "n")))

    def drawn(self, numbers: Numbers) -> Drawn:
        """Return a preference for each of the random numbers, in arrays of their module."""
        query, better, worse = self._drawn(numbers)
        return query.astype(np.int32), better.astype(np.int32), worse.astype(np.int32)

    @abstractmethod
    def _drawn(self, numbers: Numbers) -> tuple[Any, Any, Any]: ...

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of the data and of the rule of drawing."""

    @abstractmethod
    def drop(self, queries: ArrayLike = (), docs: ArrayLike = (), *, as_worse: bool = False) -> Sampler:
        """Drop rows: queries, and documents, or documents as better ones only with ``as_worse``.

        Raises `InputError` if nothing is left.
        """

    def placed(self, xp: Any) -> Self:
        """Return the sampler with its arrays in the memory of ``xp``."""
        placed_copy = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
                setattr(placed_copy, name, xp.asarray(value))
        return placed_copy


class LabelSampler(Sampler):
    """The same class is better, another class is worse.

    Examples
    --------
    >>> sampler = LabelSampler(["tea", "tea", "ice", "ice"])
    >>> query, better, worse = sampler.draw(np.random.default_rng(0), 5)
    >>> bool((query // 2 == better // 2).all()), bool((query // 2 == worse // 2).any())
    (True, False)
    """

    def __init__(self, y: ArrayLike) -> None:
        try:
            labels = np.asarray(y)
        except ValueError as error:
            raise InputError(f"y must be a one-dimensional array of labels: {error}") from None
        if labels.dtype.kind == "O":
            _check_labels(labels.ravel().tolist())
        if labels.ndim != 1 or labels.size == 0:
            raise InputError(f"y must be a non-empty one-dimensional array of labels; got shape {labels.shape}")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            i = int((~np.isfinite(labels)).argmax())
            raise InputError(f"y[{i}] is {labels[i]}; labels are finite")
        self._classes, self._codes = np.unique(labels, return_inverse=True)
        self._group(np.arange(labels.size))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows to draw from, rising."""
        return self._rows

    @property
    def classes(self) -> NDArray[np.int64]:
        """Number of the class of each row, dropped rows included."""
        return self._codes

    def _group(self, rows: NDArray[np.int64]) -> None:
        """Sort the rows to draw from by class."""
        codes = self._codes[rows]
        counts = np.bincount(codes, minlength=self._classes.size)
        if np.count_nonzero(counts) < 2:
            if not rows.size:
                raise InputError("there are no texts left to draw preferences from")
            raise InputError(
                f"y has the single class {self._classes.tolist()[counts.argmax()]!r}; at least two are needed, since "
                "the worse document is of another class"
            )
        if counts.max() < 2:
            raise InputError("every class in y has one member; a class needs two, a query and a better document")
        self._rows = rows
        self._by_class = rows[np.argsort(codes, kind="stable")].astype(np.int32)
        self._start = np.concatenate([[0], np.cumsum(counts)])
        self._counts = counts
        self._position = np.empty(self._codes.size, dtype=np.int64)  # position of each row within its class
        self._position[self._by_class] = np.arange(rows.size) - np.repeat(self._start[:-1], counts)
        self._queries = rows[counts[codes] >= 2]

    def fingerprint(self) -> str:
        whole = self._rows.size == self._codes.size
        return digest_of(self._codes) if whole else digest_of(self._codes, self._rows)

    def drop(self, queries: ArrayLike = (), docs: ArrayLike = (), *, as_worse: bool = False) -> LabelSampler:
        """Drop texts; each text is a query and a document.

        Examples
        --------
        >>> rest = LabelSampler(["a", "a", "b", "b", "a"]).drop([0])
        >>> 0 in np.stack(rest.draw(np.random.default_rng(0), 50))
        False
        """
        if as_worse:
            raise ParameterError("a labeled text that is withheld is of no class, so it cannot be drawn as_worse")
        rest = copy(self)
        rest._group(self._rows[~(rows_among(self._rows, queries) | rows_among(self._rows, docs))])
        return rest

    def _drawn(self, numbers: Numbers) -> tuple[Any, Any, Any]:
        query = self._queries[numbers.below(0, self._queries.size)]
        code = self._codes[query]
        # Draw another member of the class: skip the query's position.
        member = numbers.below(1, self._counts[code] - 1)
        member += member >= self._position[query]
        better = self._by_class[self._start[code] + member]
        # Draw a row outside the class: skip the block of the class.
        member = numbers.below(2, self._rows.size - self._counts[code])
        member += (member >= self._start[code]) * self._counts[code]
        return query, better, self._by_class[member]


class JudgementSampler(Sampler):
    """A document of a higher grade is better than a document of a lower grade, for the same query.

    Parameters
    ----------
    query, doc, grade : one judgement per position; repeated (query, doc) pairs are refused
    n_docs : number of documents to draw the worse document from (unjudged documents have grade 0), or None for judged
        documents only
    exclude_self : a query row is never its own better or worse document (documents that link to documents)
    popular : share of worse documents drawn by popularity, as often as each is the better document of a preference,
        the rest uniformly; needs ``n_docs``. With 1, a document is the better one about as often as the worse one,
        and relevance alone teaches nothing.
    without_docs : documents that are never drawn; their judgements are ignored

    Examples
    --------
    >>> judged = {0: {1: 1}, 1: {2: 1}}
    >>> sampler = JudgementSampler.from_qrels(judged, n_docs=100, popular=1.0)
    >>> query, better, worse = sampler.draw(np.random.default_rng(0), 50)
    >>> sorted(set(zip(better.tolist(), worse.tolist())))
    [(1, 2), (2, 1)]
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
        popular: float = 0.0,
        without_docs: ArrayLike = (),
    ) -> None:
        if uniform_over not in ("queries", "judgements"):
            raise InputError(f"uniform_over must be 'queries' or 'judgements'; got {uniform_over!r}")
        self._withheld = np.unique(_row_numbers(without_docs, "without_docs"))
        if exclude_self or self._withheld.size:
            is_used = ~rows_among(doc, self._withheld)
            if exclude_self:
                is_used &= query != doc
            query, doc, grade = query[is_used], doc[is_used], grade[is_used]
        if query.size == 0:
            raise InputError("there are no judgements to draw preferences from")
        outside = (query < 0) | (doc < 0) | (query > LAST_ROW) | (doc > LAST_ROW)
        if outside.any():
            i = int(outside.argmax())
            raise InputError(f"judgement {i} names row ({query[i]}, {doc[i]}); rows run from 0 to {LAST_ROW}")
        if n_docs is not None and not 1 <= n_docs <= LAST_ROW + 1:
            raise InputError(f"n_docs is {n_docs}; it must lie between 1 and {LAST_ROW + 1}")
        # Millions of judgements stay in memory: rows and positions are int32 if possible.
        query, doc, grade = query.astype(np.int32), doc.astype(np.int32), _narrow(grade)
        if n_docs is not None and doc.max() >= n_docs:
            i = int((doc >= n_docs).argmax())
            raise InputError(f"judgement {i} names document row {doc[i]}, but n_docs is {n_docs}")
        self.n_docs = n_docs
        self.uniform_over = uniform_over
        self.exclude_self = exclude_self
        self.popular = self._check_popular(popular)
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
        self._drawn_from: NDArray[np.int32] | None = None  # rows of all documents, if documents are withheld
        if n_docs is not None and self._withheld.size:
            self._drawn_from = np.setdiff1d(np.arange(n_docs, dtype=np.int32), self._withheld)
        self._popularity: NDArray[np.float64] | None = None  # popularity of better documents, computed at first use
        self._find_eligible()

    def _check_popular(self, popular: float) -> float:
        if not is_number(popular, 0, 1):
            raise InputError(f"popular must be a share between 0 and 1; got {popular!r}")
        if popular > 0 and self.n_docs is None:
            raise InputError("popular draws worse documents from all that are ever relevant; it needs n_docs")
        return float(popular)

    def _find_eligible(self) -> None:
        """Find the judgements for the better side, and the beginning of lower grades for each query."""
        _, start, count = np.unique(self._query, return_index=True, return_counts=True)
        self._end = np.repeat(_narrow(start + count), count)
        # Grades fall within a query: the first lower grade follows the run of equal grades.
        new_run = np.ones(self._query.size, dtype=bool)
        new_run[1:] = (self._query[1:] != self._query[:-1]) | (self._grade[1:] != self._grade[:-1])
        run_end = _narrow(np.append(np.flatnonzero(new_run)[1:], self._query.size))
        self._lower = np.repeat(run_end, np.diff(run_end, prepend=0))
        has_lower_judged = self._lower < self._end
        if self.n_docs is None:
            eligible = has_lower_judged
        else:
            judged = np.repeat(count, count)
            n_docs = self.n_docs if self._drawn_from is None else self._drawn_from.size
            itself = np.zeros(self._query.size, dtype=bool)
            if self.exclude_self:
                itself = (self._query < self.n_docs) & ~rows_among(self._query, self._withheld)
            eligible = (self._grade > 0) & (has_lower_judged | (judged + itself < n_docs))
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
        """Return a digest of the judgements and of the rule of drawing."""
        rule: tuple[Any, ...] = (self.n_docs, self.uniform_over, self.exclude_self)
        if self.popular:
            rule += ("popular", self.popular)
        if self._withheld.size:
            rule += ("without", digest_of(self._withheld))
        return digest_of(rule, *(column.astype(np.int64) for column in (self._query, self._doc, self._grade)))

    def drop(self, queries: ArrayLike = (), docs: ArrayLike = (), *, as_worse: bool = False) -> JudgementSampler:
        """Drop the judgements of queries and of documents.

        Parameters
        ----------
        queries, docs : rows to drop
        as_worse : draw the documents, now unjudged, as worse ones still

        Raises
        ------
        InputError : if no judgement is left

        Examples
        --------
        >>> sampler = JudgementSampler.from_qrels({0: {1: 1, 2: 1}, 1: {2: 1}}, n_docs=4)
        >>> query, better, worse = sampler.drop(queries=[1], docs=[1]).draw(np.random.default_rng(0), 50)
        >>> set(query.tolist()), set(better.tolist()), sorted(set(worse.tolist()))
        ({0}, {2}, [0, 3])
        """
        is_used = ~(rows_among(self._query, queries) | rows_among(self._doc, docs))
        withheld = self._withheld if as_worse else np.append(self._withheld, _row_numbers(docs, "docs"))
        return JudgementSampler(
            self._query[is_used],
            self._doc[is_used],
            self._grade[is_used],
            n_docs=self.n_docs,
            uniform_over=self.uniform_over,
            exclude_self=self.exclude_self,
            popular=self.popular,
            without_docs=withheld,
        )

    def with_popular(self, popular: float) -> JudgementSampler:
        """Return the same judgements with another share of worse documents drawn by popularity."""
        sampler = copy(self)
        sampler.popular = self._check_popular(popular)
        return sampler

    def grade_of(self, query: NDArray[Any], doc: NDArray[Any]) -> NDArray[np.int64]:
        """Return the grades of (query, doc) pairs, 0 for unjudged pairs."""
        keys = query.astype(np.int64) * self._width + doc
        nearest = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        return (self._keys[nearest] == keys) * self._grade[self._key_order[nearest]].astype(np.int64)

    def is_worse(self, query: NDArray[Any], doc: NDArray[Any], grade: NDArray[Any]) -> NDArray[np.bool_]:
        """Return True for documents with a grade below ``grade``; always False for withheld documents."""
        return self._is_lower(query, doc, grade) & ~rows_among(doc, self._withheld)

    def _is_lower(self, query: Any, doc: Any, grade: Any) -> Any:
        lower = self.grade_of(query, doc) < grade
        return lower & (doc != query) if self.exclude_self else lower

    def _drawn(self, numbers: Numbers) -> tuple[Any, Any, Any]:
        at = self._draw_better(numbers)
        return self._query[at], self._doc[at], self._draw_worse(numbers, at)

    def _draw_better(self, numbers: Numbers, slot: int = 0) -> Any:
        """Draw positions of judgements for the better side, by the numbers of two slots."""
        if self.uniform_over == "judgements":
            return self._better_at[numbers.below(slot, self._better_at.size)]
        owner = numbers.below(slot, self.queries.size)
        return self._better_at[self._first[owner] + numbers.below(slot + 1, self._count[owner])]

    def _draw_worse(self, numbers: Numbers, at: Any) -> Any:
        """Draw a document of a lower grade for each judgement position, uniformly or by popularity."""
        xp = numbers.xp
        if self.n_docs is None:
            return self._doc[self._lower[at] + numbers.below(2, self._end[at] - self._lower[at])]
        worse = xp.empty(len(numbers), dtype=xp.int32)
        uniformly = xp.arange(len(numbers))
        if self.popular:
            popular = numbers.uniform(2) < self.popular
            rest = self._reject(numbers, at, worse, xp.flatnonzero(popular), popular=True)
            rest = self._choose_popular(numbers, at, worse, rest)
            uniformly = xp.sort(xp.concatenate((xp.flatnonzero(~popular), rest)))
        rest = self._reject(numbers, at, worse, uniformly, popular=False)
        for position in rest.tolist():  # rare: queries with judgements for nearly all documents
            docs = xp.arange(self.n_docs) if self._drawn_from is None else self._drawn_from
            lower = docs[self._is_lower(self._query[at[position]], docs, self._grade[at[position]])]
            worse[position] = lower[numbers.take([position]).below(_LAST_CHOICE_SLOT, lower.size)[0]]
        return worse

    def _reject(self, numbers: Numbers, at: Any, worse: Any, positions: Any, *, popular: bool) -> Any:
        """Fill ``worse`` at these positions by rejection; return the positions without a worse document."""
        rows = self._drawn_from
        n_rows = self.n_docs if rows is None else rows.size
        for number in range(_ROUNDS):
            if not positions.size:
                break
            chosen = numbers.take(positions)
            if popular:
                docs = self._doc[self._draw_better(chosen, _POPULAR_SLOT + 2 * number)]
            else:
                docs = chosen.below(_UNIFORM_SLOT + number, n_rows)
                docs = docs if rows is None else rows[docs]
            worse[positions] = docs
            judgements = at[positions]
            positions = positions[~self._is_lower(self._query[judgements], docs, self._grade[judgements])]
        return positions

    def _choose_popular(self, numbers: Numbers, at: Any, worse: Any, positions: Any) -> Any:
        """Fill ``worse`` by a search of all popular documents; return the positions still without a worse document."""
        xp = numbers.xp
        if not positions.size:
            return positions
        # Popularity is an integer: sums of integers are the same on every machine.
        share = (self._better_share() * 2.0**40).astype(xp.int64)
        docs = xp.flatnonzero(share)
        without = [positions[:0]]
        positions = positions[xp.argsort(at[positions], kind="stable")]
        run_ends = self._lower[at[positions]]  # judgements of one query and grade are adjacent
        for end in xp.unique(run_ends).tolist():
            same, judgement = positions[run_ends == end], end - 1
            lower = docs[self._is_lower(self._query[judgement], docs, self._grade[judgement])]
            if lower.size:
                up_to = xp.cumsum(share[lower])
                drawn = numbers.take(same).uniform(_LAST_CHOICE_SLOT + 1) * up_to[-1].astype(xp.float64)
                position = xp.searchsorted(up_to, drawn.astype(xp.int64), side="right")
                worse[same] = lower[xp.minimum(position, lower.size - 1)]
            else:
                without.append(same)
        return xp.concatenate(without)

    def _better_share(self) -> NDArray[np.float64]:
        """Return the share of preferences with each document as the better one."""
        if self._popularity is None:
            by_judgement = self.uniform_over == "judgements"
            each = np.ones(self._better_at.size) if by_judgement else 1.0 / np.repeat(self._count, self._count)
            self._popularity = np.bincount(self._doc[self._better_at], each, self._width) / each.sum()
        return self._popularity

    def placed(self, xp: Any) -> Self:
        if self.popular:
            self._better_share()  # computed before the arrays move to another device
        return super().placed(xp)

    @classmethod
    def from_qrels(
        cls,
        qrels: Mapping[Any, Mapping[Any, int]],
        *,
        n_docs: int | None = None,
        query_rows: RowLookup | None = None,
        doc_rows: RowLookup | None = None,
        uniform_over: UniformOver = "queries",
        popular: float = 0.0,
    ) -> JudgementSampler:
        """Judgements as query -> document -> grade; ids are looked up when their rows are given.

        Some 100 bytes for each judgement while reading, and 36 afterwards.
        """
        columns = tuple(growing_array("q") for _ in range(3))
        remaining = ((qid, doc_id, grade) for qid, judged in qrels.items() for doc_id, grade in judged.items())
        while judgements := list(islice(remaining, _LOOKED_UP)):
            qids, doc_ids, grades = zip(*judgements, strict=True)
            columns[0].extend(_rows(qids, query_rows, "query"))
            columns[1].extend(_rows(doc_ids, doc_rows, "document"))
            columns[2].extend(map(check_grade, qids, doc_ids, grades))
        query, doc, grade = (np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64) for column in columns)
        return cls(query, doc, grade, n_docs=n_docs, uniform_over=uniform_over, popular=popular)

    @classmethod
    def from_links(
        cls, links: ArrayLike, n_docs: int, *, uniform_over: UniformOver = "judgements", popular: float = 0.0
    ) -> JudgementSampler:
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
            popular=popular,
        )


class MixtureSampler(Sampler):
    """Draws each preference from one of several samplers, by chance, in proportion to their shares.

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
        self.samplers = [sampler for sampler, _ in samplers]
        shares = np.array([share for _, share in samplers], dtype=np.float64)
        if not (np.isfinite(shares).all() and (shares > 0).all()):
            raise InputError(f"the shares of a mixture must be positive; got {shares.tolist()}")
        self.shares = shares / shares.sum()

    def fingerprint(self) -> str:
        return digest_of(*(sampler.fingerprint() for sampler in self.samplers), self.shares)

    def drop(self, queries: ArrayLike = (), docs: ArrayLike = (), *, as_worse: bool = False) -> MixtureSampler:
        """Drop rows of each sampler; empty samplers are left out."""
        rows = _row_numbers(queries, "queries"), _row_numbers(docs, "docs")
        rest: list[tuple[Sampler, float]] = []
        for sampler, share in zip(self.samplers, self.shares.tolist(), strict=True):
            try:
                rest.append((sampler.drop(*rows, as_worse=as_worse), share))
            except ParameterError:
                raise
            except InputError:
                continue
        if not rest:
            raise InputError("no sampler of the mixture has anything left to draw from")
        return MixtureSampler(rest)

    def with_popular(self, popular: float) -> MixtureSampler:
        """Return the mixture with another share of worse documents drawn by popularity."""
        samplers = [s.with_popular(popular) if isinstance(s, JudgementSampler) else s for s in self.samplers]
        return MixtureSampler(list(zip(samplers, self.shares.tolist(), strict=True)))

    def _drawn(self, numbers: Numbers) -> tuple[Any, Any, Any]:
        xp = numbers.xp
        which = xp.searchsorted(xp.asarray(np.cumsum(self.shares)[:-1]), numbers.uniform(0), side="right")
        query, better, worse = (xp.empty(len(numbers), dtype=xp.int32) for _ in range(3))
        for number, sampler in enumerate(self.samplers):
            positions = xp.flatnonzero(which == number)
            if positions.size:
                query[positions], better[positions], worse[positions] = sampler.drawn(numbers.take(positions, 1))
        return query, better, worse

    def placed(self, xp: Any) -> Self:
        placed_copy = copy(self)
        placed_copy.samplers = [sampler.placed(xp) for sampler in self.samplers]
        return placed_copy


def _check_labels(labels: Sequence[Any]) -> None:
    """Refuse labels without an order, such as strings among numbers."""
    for i, label in enumerate(labels):
        if not isinstance(label, str | bool | np.bool_) and not is_number(label):
            raise InputError(f"y[{i}] is {label!r}; labels are strings or numbers")
        if isinstance(label, str) != isinstance(labels[0], str):
            raise InputError(f"y[{i}] is {label!r} and y[0] is {labels[0]!r}; labels are all strings or all numbers")


def _row_numbers(rows: ArrayLike, name: str) -> NDArray[np.int64]:
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise InputError(f"{name} must hold row numbers; got shape {numbers.shape}, {numbers.dtype}")
    return numbers.astype(np.int64)


def rows_among(numbers: NDArray[Any], rows: ArrayLike) -> NDArray[np.bool_]:
    """Return True for numbers among the rows."""
    return np.isin(numbers, _row_numbers(rows, "rows"))


def _narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return int32 if all numbers fit, else int64."""
    if numbers.size and not -(2**31) <= int(numbers.min()) <= int(numbers.max()) < 2**31:
        return numbers.astype(np.int64)
    return numbers.astype(np.int32)


def _rows(keys: Sequence[Any], rows: RowLookup | None, what: str) -> list[int]:
    """Return row numbers, looked up in ``rows`` if given."""
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


def rows_of_ids(rows: RowLookup, ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the row of each id, -1 for an unknown id, by ``get_many`` or ``get``."""
    if hasattr(rows, "get_many"):
        return np.asarray(rows.get_many(ids), dtype=np.int64)
    return np.fromiter(map(rows.get, ids, repeat(-1)), dtype=np.int64, count=len(ids))
