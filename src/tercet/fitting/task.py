"""A task: evidence to learn from, queries to choose by, and queries to report on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.lines import look_alikes
from tercet.data.sampling import Sampler
from tercet.data.shards import StoredRows
from tercet.errors import InputError
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.text import Vectoriser
from tercet.weights import Identity, Weights

Qrels = Mapping[str, Mapping[str, int]]
Triplets = Iterable[tuple[str, str, str] | tuple[str, str, str, float]]  # query, better and worse document, weight
TextHeldOut = HeldOutQueries | HeldOutPreferences

EVERY: Final = "all answers"
KNOWN: Final = "known answers"
NEW: Final = "new answers"
REPEATED: Final = "repeated queries"
RECENTLY: Final = ", the last tenth of the log"  # behind the name of a query in a fold of repeated queries
_USUAL_WORDS: Final = 10  # in a query


class HeldOutPart(NamedTuple):
    """Held-out queries, or a part of their evidence, with its size in answers, triplets, or lists with a click."""

    name: str
    held_out: TextHeldOut
    size: int


@dataclass(frozen=True, eq=False)
class Past:
    """Evidence of past queries, the raw material of a `Memory`.

    Attributes
    ----------
    rows : row of each past query in Q
    evidence : CSR float32 (n_past, n_docs); negative where a document was passed over
    times : how often people chose the document, aligned with ``evidence.data``; None for grades
    """

    rows: NDArray[np.int64]
    evidence: sparse.csr_array
    times: NDArray[np.int32] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the documents with evidence, (n_docs,)."""
        known = np.zeros(self.evidence.shape[1], dtype=bool)
        known[self.evidence.indices] = True
        return known


@dataclass(frozen=True, eq=False)
class Fold:
    """A part of the evidence that one fit learns without, and is measured by.

    Attributes
    ----------
    case : KNOWN, NEW or REPEATED; None for a fold that is reported and decides nothing
    sampler : draws preferences from the rest of the evidence
    size : amount of that evidence; the number of steps follows it
    parts : held-out parts for Q and D; the first decides
    past : evidence for memory from the rest; None if documents have no memory
    """

    case: str | None
    sampler: Sampler
    size: int
    parts: Callable[[sparse.csr_array, sparse.csr_array], Sequence[HeldOutPart]]
    past: Past | None = None


@dataclass(frozen=True, eq=False)
class Facts:
    """Numbers of the collection, the split of its queries in words, the texts of the queries, and notes."""

    data: dict[str, Any]
    n_train: int
    split: str
    texts: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Space:
    """One way to weight words: matrices of all texts, queries to choose among spaces, and test queries if given."""

    name: str
    vectoriser: Vectoriser
    Q: sparse.csr_array
    D: sparse.csr_array
    queries: TextHeldOut
    test: tuple[HeldOutPart, ...] = ()
    given_start: Weights | None = None

    @property
    def match(self) -> Weights:
        """Weights by which words match themselves only."""
        return Weights([Identity(n_terms=self.D.shape[1])])

    @property
    def start(self) -> Weights:
        """Weights that learning has to beat: plain matching, or the start that was given."""
        return self.match if self.given_start is None else self.given_start


@dataclass(frozen=True, eq=False)
class Task:
    """Everything to learn from texts, apart from how words are weighted.

    Attributes
    ----------
    sampler : draws preferences from all training evidence
    n_judgements : amount of evidence; the number of steps follows it
    facts : for the report
    build : Q and D for each of several vectorisers that tokenise alike
    folds : folds for the document rows D of the start, to choose and to decide by
    queries : queries that choose among ways to weight words
    known : folds of known answers, which also choose the tokenizer
    test : parts to report on, if given, for a vectoriser, Q and D
    past : evidence for memory from all training evidence; None if documents have no memory
    shares : expected share of each case among the queries to come
    share_reason : origin of the share of new answers, in words
    counts : word counts of documents (n_docs, n_words) for a vectoriser; None where documents have no memory
    labelled : whether each text is a query for the other texts of its class
    doc_ids, qids : id of each row of D and Q, where they have ids
    """

    sampler: Sampler
    n_judgements: int
    facts: Facts
    build: Callable[[Sequence[Vectoriser]], list[tuple[sparse.csr_array, sparse.csr_array]]]
    folds: Callable[[sparse.csr_array], tuple[Fold, ...]]
    queries: Callable[[sparse.csr_array, sparse.csr_array], TextHeldOut]
    known: tuple[Fold, ...]
    test: Callable[[Vectoriser, sparse.csr_array, sparse.csr_array], Sequence[HeldOutPart]] | None = None
    past: Past | None = None
    shares: Mapping[str, float] = field(default_factory=lambda: {KNOWN: 1.0})
    share_reason: str = ""
    counts: Callable[[Vectoriser], sparse.csr_array] | None = None
    labelled: bool = False
    doc_ids: tuple[str, ...] = ()
    qids: tuple[str, ...] = ()

    def spaces(self, vectorisers: Mapping[str, Vectoriser]) -> list[Space]:
        """Build a space for each named vectoriser."""
        matrices = self.build(list(vectorisers.values()))
        return [
            Space(name, words, Q, D, self.queries(Q, D), () if self.test is None else tuple(self.test(words, Q, D)))
            for (name, words), (Q, D) in zip(vectorisers.items(), matrices, strict=True)
        ]


def evidence_size(held_out: TextHeldOut) -> int:
    """Count answers, or preferences."""
    if isinstance(held_out, HeldOutQueries):
        return int((held_out.grades.data > 0).sum())
    return len(held_out.preferences)


def some_queries(held_out: TextHeldOut, most_scores: int, fewest: int) -> TextHeldOut:
    """Evenly spaced queries within a number of scores; a long query counts as several."""
    assert not isinstance(held_out.Q, StoredRows)
    n_words = held_out.Q.nnz / max(1, held_out.Q.shape[0])
    cost = held_out.D.shape[0] * max(1.0, n_words / _USUAL_WORDS)
    return held_out.at_most(max(fewest, int(most_scores / cost)))


def document_notes(docs: Mapping[str, str]) -> tuple[str, ...]:
    """Note documents without a text, and ids that a program may take for the same number."""
    notes = []
    empty = [doc_id for doc_id, text in docs.items() if not text.strip()]
    if empty:
        notes.append(f"documents without a text, which no word of a query matches: {len(empty):,}, first {empty[0]!r}.")
    pairs = look_alikes(docs)
    if pairs:
        notes.append(
            f"ids of documents that are one number to a program that reads ids as numbers: {len(pairs):,} pairs, first "
            f"{pairs[0][0]!r} and {pairs[0][1]!r}. Check that no file on the way lost leading zeros."
        )
    return tuple(notes)


# -- deciding ---------------------------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """Whether learning is kept, and a sentence that says why."""

    accepted: bool
    text: str


def check_disjoint(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a query that stands in two of: training, validation, test."""
    names = list(parts)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if both := [qid for qid in parts[one] if qid in parts[other]]:
                raise InputError(f"query {both[0]!r} is judged in both {one} and {other}; a query belongs to one part")
