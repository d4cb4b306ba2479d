"""The votes of a journal as columns: who said what of which two documents for which query, and what differs in them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.errors import DamagedBundleError
from tercet.kernels.votes import (
    LOOKED_UP,
    NO_STEP,
    NOT_LOOKED_UP,
    WITHOUT,
    Ballots,
    Questions,
    Spans,
    WordPool,
    fill_slots,
    find_question,
)
from tercet.learn.matrices import kernel_rows
from tercet.learn.online import Contrasts
from tercet.serve.allowances import spelled
from tercet.serve.growing_columns import Arrays, GrowingColumns, Numbered, is_within, pieces, rises
from tercet.serve.votes import Vote
from tercet.store.fields import take_array

_LEAST_SLOTS = 256
ABSENT = 0  # the mark of a document that the index does not have
_KNOWN, _UNKNOWN = b"=", b"?"  # what the key of a query begins with


class Docs(NamedTuple):
    """What marks the words of documents that somebody spoke of, (n_docs,); `ABSENT` for one that is not there."""

    mark: NDArray[np.uint64]


class BallotBox:
    """Ballots in the order in which they were cast, and the questions, queries and documents that they speak of.

    Rows stay where they are: what is withdrawn is marked so, and what nobody asks any more has no last ballot.
    """

    def __init__(self) -> None:
        whole, real = np.int32, np.float64
        self.ballots = GrowingColumns(
            Ballots,
            number=np.int64,
            question=whole,
            voter=whole,
            parts=whole,
            seconds=real,
            before=np.int64,
            counts=np.bool_,
        )
        self.questions = GrowingColumns(
            Questions,
            query=whole,
            first=whole,
            second=whole,
            last=np.int64,
            known=np.int8,
            start=np.int64,
            n_words=whole,
            margin=real,
            target=real,
            share=real,
            n_pairs=whole,
            moved=real,
        )
        self.query_spans = GrowingColumns(Spans, start=np.int64, n=whole)
        self.words = GrowingColumns(WordPool, terms=whole, values=np.float32)
        self.doc_marks = GrowingColumns(Docs, mark=np.uint64)
        self.queries, self.docs = Numbered(), Numbered()
        self.inactive: set[int] = set()  # numbers of entries that were withdrawn
        self.first_number = 0  # of the entries that came, 0 for none
        self.most_pairs = 0  # of words, that a question has
        self._slots = np.full(_LEAST_SLOTS, -1, np.int32)

    def copy(self) -> BallotBox:
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (GrowingColumns, Numbered, set, np.ndarray)):
                setattr(other, name, value.copy())
        return other

    @property
    def rows(self) -> tuple[Ballots, Questions, Spans, WordPool]:
        """What kernels read, until rows are added."""
        return self.ballots.all, self.questions.all, self.query_spans.all, self.words.all

    # -- who speaks of what ------------------------------------------------------------------------------------

    def query(self, row: sparse.csr_array, text: str, words: sparse.csr_array) -> int:
        """The number of a query, by its row and the words of it that are learned."""
        number = self.queries.number(_query_key(row, text))
        if number == len(self.query_spans):
            _, terms, values = kernel_rows(words)
            self.query_spans.append(self.words.extend(terms, values), terms.size)
        return number

    def query_row(self, query: int, n_words: int) -> sparse.csr_array:
        """The row of a query, of so many columns."""
        key = self.queries[query]
        n = (len(key) - 1) // 8 if key[:1] == _KNOWN else 0
        terms, values = np.frombuffer(key, np.int32, n, 1), np.frombuffer(key, np.float32, n, 1 + 4 * n)
        if n and not (terms.min() >= 0 and terms.max() < n_words):
            raise DamagedBundleError(f"snapshot: a query has words beyond the {n_words:,} of the model")
        return sparse.csr_array((values, terms, [0, n]), shape=(1, n_words))

    def doc(self, doc_id: str) -> int:
        number = self.docs.number(spelled(doc_id))
        if number == len(self.doc_marks):
            self.doc_marks.append(ABSENT)
        return number

    def doc_id(self, doc: int) -> str:
        return self.docs[doc].decode("utf-8", "surrogatepass")

    def question(self, query: int, one: str, other: str) -> int:
        """The number of a question, a new one where nobody asked it before."""
        first, second = (self.doc(doc_id) for doc_id in sorted((one, other)))
        slot = find_question(self._slots, self.questions.all, query, first, second)
        number = int(self._slots[slot])
        if number < 0:
            number = self.questions.append(query, first, second, -1, NOT_LOOKED_UP, 0, 0, 0.0, 0.0, NO_STEP, 0, 0.0)
            self._slots[slot] = number
            if 2 * len(self.questions) > self._slots.size:
                self._fill_slots()
        return number

    def _fill_slots(self) -> None:
        n = len(self.questions)
        self._slots = np.full(max(_LEAST_SLOTS, 1 << int(3 * n).bit_length()), -1, np.int32)
        fill_slots(self._slots, self.questions.all, n)

    def signed_parts(self, question: int, vote: Vote) -> int:
        """The parts of a vote, below 0 where it is for the second document of its question."""
        is_first = spelled(vote.better) == self.docs[self.questions.all.first[question]]
        return vote.parts if is_first else -vote.parts

    # -- votes -------------------------------------------------------------------------------------------------

    def cast(self, number: int, question: int, voter: int, parts: int, seconds: float) -> int:
        """Add the vote of an entry; the first ballot whose step that changes."""
        before = int(self.questions.all.last[question])
        ballot = self.ballots.append(number, question, voter, parts, seconds, before, True)
        self.questions.all.last[question] = ballot
        return ballot if before < 0 else before

    def withdraw(self, number: int, by: int) -> int:
        """Have the votes of an entry count no more, as the entry ``by`` says; the first ballot whose step changes."""
        changed = len(self.ballots)
        if not self.first_number <= number <= by or number in self.inactive:
            return changed  # baked, or withdrawn before
        self.inactive.add(number)
        ballots, questions = self.ballots.all, self.questions.all
        for ballot in self.ballots_of((number,)):
            question = int(ballots.question[ballot])
            ballots.counts[ballot] = False
            before, last = self.last_without(question)
            changed = min(changed, before)
            questions.last[question] = last
            if last >= 0:
                changed = min(changed, last)
            else:
                questions.share[question], questions.n_pairs[question], questions.moved[question] = NO_STEP, 0, 0.0
        return changed

    def ballots_of(self, entries: Iterable[int]) -> Iterator[int]:
        """The ballots that entries cast."""
        numbers = self.ballots.column("number")
        for number in entries:
            yield from range(*(int(np.searchsorted(numbers, number, side=side)) for side in ("left", "right")))

    def last_without(self, question: int, gone: Container[int] = ()) -> tuple[int, int]:
        """The last ballot of a question, and what is the last that counts without some entries; -1 for none."""
        ballots, last = self.ballots.all, int(self.questions.all.last[question])
        left = last
        while left >= 0 and (not ballots.counts[left] or int(ballots.number[left]) in gone):
            left = int(ballots.before[left])
        return last, left

    def position(self, ballot: int) -> tuple[int, int]:
        """The entry of a ballot, and which of the entry's votes it is."""
        number = int(self.ballots.all.number[ballot])
        return number, ballot - int(np.searchsorted(self.ballots.column("number"), number))

    def entries(self, ballot: int) -> tuple[int, ...]:
        """Entries that vote on the question of a last ballot."""
        numbers, ballots = set(), self.ballots.all
        while ballot >= 0:
            if ballots.counts[ballot]:
                numbers.add(int(ballots.number[ballot]))
            ballot = int(ballots.before[ballot])
        return tuple(sorted(numbers))

    # -- what differs ------------------------------------------------------------------------------------------

    def words_of(self, question: int) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Words of the query, and those in which the documents differ, each with their values."""
        questions, spans, words = self.questions.all, self.query_spans.all, self.words.all
        query = questions.query[question]
        of_query = slice(spans.start[query], spans.start[query] + spans.n[query])
        of_docs = slice(questions.start[question], questions.start[question] + questions.n_words[question])
        return (words.terms[of_query], words.values[of_query]), (words.terms[of_docs], words.values[of_docs])

    def put_contrasts(self, some: NDArray[np.int64], there: NDArray[np.bool_], contrasts: Contrasts | None) -> None:
        """Note what differs in the documents of some questions, of those that have all that a step needs."""
        questions = self.questions.all
        questions.known[some] = np.where(there, LOOKED_UP, WITHOUT)
        if contrasts is None:
            return
        start = self.words.extend(contrasts.terms, contrasts.differences)
        found, lengths = some[there], np.diff(contrasts.starts)
        questions.start[found], questions.n_words[found] = start + contrasts.starts[:-1], lengths
        questions.margin[found], questions.target[found] = contrasts.margins, contrasts.targets
        n_pairs = self.query_spans.all.n[questions.query[found]].astype(np.int64) * lengths
        self.most_pairs = max(self.most_pairs, int(n_pairs.max()))

    def forget(self, docs: list[int]) -> NDArray[np.int64]:
        """Have questions looked up again that speak of some documents; returns them."""
        gone = np.zeros(len(self.docs), bool)
        gone[docs] = True
        stale = np.flatnonzero(gone[self.questions.column("first")] | gone[self.questions.column("second")])
        self.questions.column("known")[stale] = NOT_LOOKED_UP
        return stale

    # -- saving ------------------------------------------------------------------------------------------------

    @property
    def _saved(self) -> dict[str, GrowingColumns[Any] | Numbered]:
        names = ("ballots", "questions", "query_spans", "words", "doc_marks", "queries", "docs")
        return {name: getattr(self, name) for name in names}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that `restore` needs. They are not copied, and change with the next vote."""
        arrays = {name: array for key, own in self._saved.items() for name, array in own.arrays(key).items()}
        arrays["inactive"] = np.array(sorted(self.inactive), np.int64)
        arrays["box"] = np.array([self.first_number, self.most_pairs], np.int64)
        return arrays

    def restore(self, arrays: Arrays, shape: tuple[int, int], n_voters: int) -> None:
        """Be where `arrays` was, of a model of this shape.

        Raises `DamagedBundleError` where a row speaks of another that there is not: kernels look where these say.
        """
        for name, own in self._saved.items():
            own.restore(arrays, name)
        self.inactive = set(take_array(arrays, "inactive", np.int64, 1, where="snapshot").tolist())
        self.first_number, self.most_pairs = take_array(arrays, "box", np.int64, (2,), where="snapshot").tolist()
        if not (self._is_sound(n_voters) and self._has_words_of(shape)):
            raise DamagedBundleError("snapshot: its arrays do not fit together")
        try:
            for doc in range(len(self.docs)):
                self.doc_id(doc)
        except UnicodeDecodeError as error:
            raise DamagedBundleError(f"snapshot: ids of documents are not UTF-8: {error}") from error
        self._fill_slots()

    def _is_sound(self, n_voters: int) -> bool:
        ballots, questions, spans = self.ballots, self.questions, self.query_spans
        n_ballots, n_words = len(ballots), len(self.words)

        def inside(columns: GrowingColumns[Any], name: str, least: int, stop: int) -> bool:
            return is_within(columns.column(name), least, stop)

        def ends(columns: GrowingColumns[Any], name: str) -> bool:
            stops = columns.column("start") + columns.column(name).astype(np.int64)
            return inside(columns, "start", 0, n_words + 1) and bool((stops <= n_words).all())

        return (
            inside(ballots, "question", 0, len(questions))
            and inside(ballots, "voter", 0, n_voters)
            and inside(ballots, "before", -1, n_ballots)
            and inside(ballots, "number", self.first_number, 2**62)
            and rises(ballots.column("number"), 0)
            and inside(questions, "query", 0, len(self.queries))
            and inside(questions, "first", 0, len(self.docs))
            and inside(questions, "second", 0, len(self.docs))
            and inside(questions, "last", -1, n_ballots)
            and inside(questions, "known", NOT_LOOKED_UP, LOOKED_UP + 1)
            and inside(questions, "n_words", 0, n_words + 1)
            and inside(questions, "n_pairs", 0, 2**31 - 1)
            and ends(questions, "n_words")
            and inside(spans, "n", 0, n_words + 1)
            and ends(spans, "n")
            and len(spans) == len(self.queries)
            and len(self.doc_marks) == len(self.docs)
            and self.first_number >= 0
            and self._asks_what_is_answered()
            and 0 <= self.most_pairs <= n_words**2
        )

    def _asks_what_is_answered(self) -> bool:
        """Whether each last ballot, and each before another, which must come before it, is on the same question."""
        last, before, of_ballot = (
            self.questions.column("last"),
            self.ballots.column("before"),
            self.ballots.column("question"),
        )
        asked = np.flatnonzero(last >= 0)
        if not (of_ballot[last[asked]] == asked).all():
            return False
        for rows in pieces(before.size):
            linked = np.flatnonzero(before[rows] >= 0) + rows.start
            if not ((before[linked] < linked) & (of_ballot[before[linked]] == of_ballot[linked])).all():
                return False
        return True

    def _has_words_of(self, shape: tuple[int, int]) -> bool:
        terms, spans = self.words.column("terms"), self.query_spans
        n = spans.column("n").astype(np.int64)
        of_queries = np.zeros(len(terms), bool)
        of_queries[np.repeat(spans.column("start") - np.cumsum(n) + n, n) + np.arange(n.sum())] = True
        most = np.where(of_queries, shape[0], shape[1])
        return bool(((terms >= 0) & (terms < most)).all())


def _query_key(row: sparse.csr_array, text: str) -> bytes:
    """What makes two queries the same: their rows. Queries without a known word are told apart by their texts."""
    if not row.nnz:
        return _UNKNOWN + spelled(text)
    return _KNOWN + row.indices.astype(np.int32).tobytes() + row.data.astype(np.float32).tobytes()
