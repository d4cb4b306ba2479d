"""A task: what is learned from, what chooses and what reports. And the steps that all tasks share: leaving queries and
documents out, and declining what is not clearly better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.data.judgements import plain_text
from tercet.data.lines import look_alikes
from tercet.data.sampling import Sampler
from tercet.data.shards import StoredRows
from tercet.errors import InputError
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.text import Vectoriser
from tercet.weights import Identity, Weights

T = TypeVar("T")
Qrels = Mapping[str, Mapping[str, int]]
Triplets = Iterable[tuple[str, str, str] | tuple[str, str, str, float]]  # query, better and worse document, weight
TextHeldOut = HeldOutQueries | HeldOutPreferences

FEWEST_QUERIES = 10  # below this there is nothing to hold out
FEWEST_TEXTS = 20

EVERY: Final = "all of them"
SEEN: Final = "documents seen in training"
NEW: Final = "new documents"

N_FOLDS: Final = 5
_FEW: Final = 300  # queries, which are left out twice
_ENOUGH: Final = 500  # queries whose values decide; more of them are learned from in every fold
# Where so few of the queries left out have an answer that no other query has, answers are withheld as well.
_NEW_SHARE: Final = 0.3
_USUAL_WORDS: Final = 10  # in a query
_WITHHELD_SHARE: Final = 0.1


class HeldOutPart(NamedTuple):
    """Queries left out, or some evidence of them, and its amount: answers, triplets, or lists with a click.

    The first part of several is of all queries, and decides.
    """

    name: str
    held_out: TextHeldOut
    size: int


Parts = Callable[[sparse.csr_array, sparse.csr_array], Sequence[HeldOutPart]]  # of Q and D


@dataclass(frozen=True, eq=False)
class Facts:
    """What was given: numbers of the collection, how the queries were split, and the texts of those by id."""

    data: dict[str, Any]
    n_train: int
    split: str
    texts: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Fold:
    """Queries, and documents, that one fit learns without, and is measured by.

    Attributes
    ----------
    sampler : draws preferences from all else
    parts : what it is measured by
    """

    sampler: Sampler
    parts: Parts


@dataclass(frozen=True, eq=False)
class Space:
    """One way to weight words: matrices of all texts, the queries that choose among spaces, and those given to report
    on."""

    name: str
    vectoriser: Vectoriser
    Q: sparse.csr_array
    D: sparse.csr_array
    queries: TextHeldOut
    test: tuple[HeldOutPart, ...] = ()
    given_start: Weights | None = None

    @property
    def match(self) -> Weights:
        """Words match themselves only."""
        return Weights([Identity(n_terms=self.D.shape[1])])

    @property
    def start(self) -> Weights:
        """What learning has to be better than: words that match themselves, where nothing else was given."""
        return self.match if self.given_start is None else self.given_start


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned from texts, apart from how words are weighted.

    Attributes
    ----------
    sampler : draws the preferences to learn from, all of them
    n_judgements : how much there is to learn from; the number of steps follows it
    facts : for the report
    build : Q and D of texts as each of some vectorisers makes them, which tokenise alike
    folds : parts of the evidence that are learned without, to choose and to decide by
    queries : those that choose among ways to weight words
    test : what was given to report on, if anything, of a vectoriser, Q and D
    labelled : whether each text is a query for the others of its class; rankers have settings of their own for that
    qids : the query of each row of Q, where queries have ids
    """

    sampler: Sampler
    n_judgements: int
    facts: Facts
    build: Callable[[Sequence[Vectoriser]], list[tuple[sparse.csr_array, sparse.csr_array]]]
    folds: tuple[Fold, ...]
    queries: Callable[[sparse.csr_array, sparse.csr_array], TextHeldOut]
    test: Callable[[Vectoriser, sparse.csr_array, sparse.csr_array], Sequence[HeldOutPart]] | None = None
    labelled: bool = False
    qids: tuple[str, ...] = ()

    def spaces(self, vectorisers: Mapping[str, Vectoriser]) -> list[Space]:
        """A space of each, by name."""
        matrices = self.build(list(vectorisers.values()))
        return [
            Space(name, words, Q, D, self.queries(Q, D), () if self.test is None else tuple(self.test(words, Q, D)))
            for (name, words), (Q, D) in zip(vectorisers.items(), matrices, strict=True)
        ]


# -- leaving out ------------------------------------------------------------------------------------------------------


def folds_of(
    qids: Sequence[str], random_state: int, *, enough: int = _ENOUGH, texts: Mapping[str, str] | None = None
) -> list[list[str]]:
    """The queries that each fold leaves out: a fifth of them in turn, until there are enough; of few, twice.

    Those of the same of their ``texts`` are left out together, unless there are too few texts for that: what is learned
    from the one would be measured on the other.

    Examples
    --------
    >>> folds = folds_of([f"q{i}" for i in range(20)], 0)
    >>> len(folds), sorted(sum(folds[:5], [])) == sorted(f"q{i}" for i in range(20))
    (10, True)
    >>> [len(fold) for fold in folds_of([f"q{i}" for i in range(4000)], 0)]
    [500]
    >>> folds = folds_of([f"q{i}" for i in range(20)], 0, texts={f"q{i}": f"text {i // 2}" for i in range(20)})
    >>> folds[0]
    ['q16', 'q17', 'q2', 'q3']
    """
    alike = {} if texts is None else queries_by_text(sorted(qids), texts)
    if FEWEST_QUERIES <= len(alike) < len(qids):
        together = {same[0]: same for same in alike.values()}
        firsts = folds_of(list(together), random_state, enough=enough)
        return [[qid for first in fold for qid in together[first]] for fold in firsts]
    ordered, rng = sorted(qids), np.random.default_rng(random_state)
    n_repeats = 2 if len(ordered) < _FEW else 1
    folds: list[list[str]] = []
    for _ in range(n_repeats):
        parts = np.array_split(rng.permutation(len(ordered)), N_FOLDS)
        folds += [[ordered[number] for number in sorted(part[:enough])] for part in parts]
    sizes = np.cumsum([len(fold) for fold in folds])
    n_needed = int(np.searchsorted(sizes, enough)) + 1
    return folds[:n_needed] if n_needed < N_FOLDS else folds


def queries_by_text(qids: Iterable[str], texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The queries of each text; texts that differ in case and blanks alone are one."""
    alike: dict[str, list[str]] = {}
    for qid in qids:
        alike.setdefault(plain_text(texts[qid]), []).append(qid)
    return alike


def alike_notes(qids: Sequence[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """A note where queries of the same text could not be left out together."""
    n_texts = len(queries_by_text(qids, texts))
    if n_texts == len(qids) or n_texts >= FEWEST_QUERIES:
        return ()
    return (
        f"{len(qids):,} queries have {n_texts} different texts, too few to leave those of the same text out together: "
        "what was learned from one was measured on others of its text, which flatters.",
    )


def document_notes(docs: Mapping[str, str]) -> tuple[str, ...]:
    """Notes on documents without a text, and on ids that a program may take for the same number."""
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


def split_text(n_folds: int, n_queries: int, *, tested: bool, what: str = "query") -> str:
    """How queries, or texts, were left out, in a sentence; no fold stands for validation queries that were given.

    Where there are others to test on (``tested``), they are what is reported on.
    """
    if not n_folds:
        return "Validation queries were given."
    why = f"to choose{'' if tested else ' and to report on'}; then all were learned from"
    if n_folds < N_FOLDS:
        many = {"query": "queries", "text": "texts"}[what]
        folds = "one fit" if n_folds == 1 else f"{n_folds} fits"
        return f"{n_queries:,} {many} were left out of {folds}, {why}."
    times = "once" if n_folds == N_FOLDS else "twice"
    return f"Each {what} was left out {times}, in {N_FOLDS} folds, {why}."


def check_enough(n: int, what: str, otherwise: str) -> None:
    """Refuse to learn from evidence of which nothing can be left out."""
    if n < FEWEST_QUERIES:
        raise InputError(
            f"{n} {what} are too few to leave any out to choose by; give at least {FEWEST_QUERIES}, or {otherwise}"
        )


def withheld_documents(
    known: NDArray[np.bool_], answers: sparse.csr_array, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Documents whose judgements one fold learns without, so that some queries left out have answers that are new.

    Parameters
    ----------
    known : by row of D, whether the document answers a query that is learned from
    answers : (n_queries_left_out, n_docs), not zero where a document answers
    """
    n_new = np.unique(answers.tocoo().row[~known[answers.tocoo().col]]).size
    withheld = np.zeros(known.size, dtype=bool)
    if n_new < _NEW_SHARE * answers.shape[0]:
        rows = np.flatnonzero(known)
        withheld[rng.choice(rows, round(_WITHHELD_SHARE * rows.size), replace=False)] = True
    return withheld


def parts_by_documents(held_out: TextHeldOut, known: NDArray[np.bool_]) -> list[HeldOutPart]:
    """All of it, and what there is of documents that were seen in training and of those that are new."""
    parts = [HeldOutPart(EVERY, held_out, _size(held_out))]
    for name, chosen in ((SEEN, known), (NEW, ~known)):
        part = held_out.by_documents(chosen)
        if part is not None:
            parts.append(HeldOutPart(name, part, _size(part)))
    return parts


def some_queries(held_out: TextHeldOut, most_scores: int, fewest: int) -> TextHeldOut:
    """Evenly spaced queries, as many as so many scores of documents allow; one of a long query counts as several."""
    assert not isinstance(held_out.Q, StoredRows)
    n_words = held_out.Q.nnz / max(1, held_out.Q.shape[0])
    cost = held_out.D.shape[0] * max(1.0, n_words / _USUAL_WORDS)
    return held_out.at_most(max(fewest, int(most_scores / cost)))


def _size(held_out: TextHeldOut) -> int:
    if isinstance(held_out, HeldOutQueries):
        return int((held_out.grades.data > 0).sum())
    return len(held_out.preferences)


# -- deciding ---------------------------------------------------------------------------------------------------------


class Decision(NamedTuple):
    """Whether learning is kept, and a sentence that says why."""

    accepted: bool
    text: str


def decide(
    gain: Gain, before: NDArray[np.float64], after: NDArray[np.float64], *, start: str, measure: str, queries: str
) -> Decision:
    """Accept learning only when it beats the start on queries left out by more than one standard error."""
    verdict = "accepted" if gain.is_clear else f"rejected; the model is {start}"
    return Decision(
        gain.is_clear,
        f"Learning was {verdict}: on {gain.n_queries} {queries} {measure} changed by "
        f"{(after - before).mean():+.3f} from {start}'s {before.mean():.3f}, with a standard error of "
        f"{gain.error:.3f}.",
    )


def check_disjoint(parts: Mapping[str, Mapping[str, Any]]) -> None:
    """A query belongs to one part only: to what is learned from, to validation or to test."""
    names = list(parts)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if both := [qid for qid in parts[one] if qid in parts[other]]:
                raise InputError(f"query {both[0]!r} is judged in both {one} and {other}; a query belongs to one part")
