"""A task: what is learned from, what chooses and what reports. And the two steps that all tasks share: holding queries
out, and declining what is not clearly better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.data.sampling import Sampler
from tercet.errors import InputError
from tercet.measure.held_out import HeldOutPreferences, HeldOutQueries
from tercet.text import Vectoriser
from tercet.weights import Identity, Weights

T = TypeVar("T")
Qrels = Mapping[str, Mapping[str, int]]
Threes = Iterable[tuple[str, str, str] | tuple[str, str, str, float]]  # query, better and worse document, weight
TextHeldOut = HeldOutQueries | HeldOutPreferences
Matrices = tuple[sparse.csr_array, sparse.csr_array, TextHeldOut, TextHeldOut]

WEIGHTINGS = {"tf-idf": "tfidf", "BM25": "bm25"}
HELD_OUT_SHARE = 0.1
FEWEST_QUERIES = 10  # below this there is nothing to hold out
FEWEST_TEXTS = 20


class HeldOutPart(NamedTuple):
    """One source of evidence, as far as it was held out to report on, and how much of it that is."""

    name: str
    held_out: TextHeldOut
    size: int


@dataclass(frozen=True, eq=False)
class Facts:
    """What was given: numbers of the collection, how the queries were split, and the texts of those by id.

    ``parts``, of Q and D, are what is reported besides: each source of evidence by itself.
    """

    data: dict[str, Any]
    n_train: int
    split: str
    texts: Mapping[str, str]
    parts: Callable[[sparse.csr_array, sparse.csr_array], Sequence[HeldOutPart]] = lambda Q, D: ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Space:
    """One way to weight words: training matrices, and the queries to choose and to report on."""

    name: str
    vectoriser: Vectoriser
    Q: sparse.csr_array
    D: sparse.csr_array
    validation: TextHeldOut
    test: TextHeldOut
    given_start: Weights | None = None

    @property
    def match(self) -> Weights:
        """Words match themselves only."""
        return Weights([Identity(n_terms=self.D.shape[1])])

    @property
    def start(self) -> Weights:
        """What learning has to be better than: words that match themselves, where nothing else was given."""
        return self.match if self.given_start is None else self.given_start

    def gain(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> Gain:
        """How much better the values of validation queries became."""
        return Gain.between(before, after, higher_is_better=self.validation.measure.higher_is_better)


@dataclass(frozen=True, eq=False)
class Task:
    """What is to be learned from texts, apart from how words are weighted.

    Attributes
    ----------
    sampler : draws the preferences to learn from
    n_judgements : how much there is to learn from; the number of steps follows it
    facts : for the report
    build : Q, D and the queries that choose and that report, of texts as a vectoriser makes them
    labelled : whether each text is a query for the others of its class; rankers have settings of their own for that
    """

    sampler: Sampler
    n_judgements: int
    facts: Facts
    build: Callable[[Vectoriser], Matrices]
    labelled: bool = False

    def space(self, name: str, vectoriser: Vectoriser) -> Space:
        return Space(name, vectoriser, *self.build(vectoriser))


def hold_out(
    evidence: Mapping[str, T],
    given: Sequence[object],
    random_state: int,
    *,
    what: str = "judged queries",
    otherwise: str = "validation and test judgements",
    most: int | None = None,
) -> tuple[dict[str, T], list[dict[str, T]], str]:
    """Set aside a tenth of the queries for each of validation and test that was not given.

    Parameters
    ----------
    evidence : what there is to learn from, by query
    given : validation and test; None stands for what was not given
    what, otherwise : the queries, and what could be given instead, in the words of an error
    most : hold out no more than so many for each

    Returns
    -------
    what is left to learn from, what is held out for each of the two (empty where it was given), and a sentence on it
    """
    names = [name for name, part in zip(("validation", "testing"), given, strict=True) if part is None]
    parts: list[dict[str, T]] = [{}, {}]
    if not names:
        return dict(evidence), parts, "Validation and test queries were given."
    if len(evidence) < FEWEST_QUERIES:
        raise InputError(
            f"{len(evidence)} {what} are too few to hold any out for {' and '.join(names)}; give at least "
            f"{FEWEST_QUERIES}, or {otherwise}"
        )
    size = max(2, round(len(evidence) * HELD_OUT_SHARE))
    share = "A tenth of the queries was"
    if most is not None and size > most:
        size, share = most, f"{most:,} queries were"
    qids = sorted(evidence)
    order = [qids[i] for i in np.random.default_rng(random_state).permutation(len(qids))]
    for number, part in enumerate(given):
        if part is None:
            parts[number] = {qid: evidence[qid] for qid in order[:size]}
            order = order[size:]
    kept = set(order)
    other = "another" if size != most else f"{most:,} others"
    split = f"{share} held out for {f' and {other} for '.join(names)}."
    return {qid: one for qid, one in evidence.items() if qid in kept}, parts, split


class Decision(NamedTuple):
    """Whether learning is kept, and a sentence that says why."""

    accepted: bool
    text: str


def decide(
    gain: Gain, before: NDArray[np.float64], after: NDArray[np.float64], *, start: str, measure: str, n_models: int = 1
) -> Decision:
    """Accept learning only when it beats the start on validation queries by more than one standard error."""
    learning = "Learning" if n_models == 1 else f"Learning (the mean of {n_models} models)"
    verdict = "accepted" if gain.is_clear else f"declined; the model is {start}"
    return Decision(
        gain.is_clear,
        f"{learning} was {verdict}: on {gain.n_queries} validation queries {measure} changed by "
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
