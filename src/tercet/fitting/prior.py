"""A prior of the user's own on W: known pairs of words, which what is learned is added to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.data.word_pairs import WordPair, as_word_pairs
from tercet.errors import InputError
from tercet.fitting.rankers import Candidate
from tercet.fitting.task import Facts, Space
from tercet.learn import LowRankRanker, Source, SparseRanker, TermPairRanker
from tercet.learn.loop import Callback
from tercet.learn.offset import OffsetSource, seen_whole
from tercet.text import Vectoriser
from tercet.weights import Sparse, Weights

_MOST_NAMED = 20  # words in a note


def as_prior(pairs: Any) -> Sequence[WordPair] | None:
    """Known pairs of words, checked: a table's path, rows, records, a frame or a mapping.

    A weight of 1 counts as much as a word and itself at the start; ``"never"``, or 0, says that the two never have a
    weight, for sparse rankers.

    Examples
    --------
    >>> as_prior([("car", "automobile", 0.5), ("jaguar", "zoo", "never")])[0].weight
    0.5
    """
    known = None if pairs is None else as_word_pairs(pairs)
    if known is not None and not known:
        raise InputError("the prior has no pair")
    return known


@dataclass(frozen=True, eq=False)
class KnownWords:
    """A prior between the words of a vocabulary; None where there is no pair of the kind.

    The known weights stay as they are. What is learned is added to them, by the margins that they leave; a penalty
    pulls W towards them, since it is on what is added.
    """

    weights: sparse.csr_array | None
    never: sparse.csr_array | None
    n_weights: int
    n_never: int
    unknown: tuple[str, ...]

    @classmethod
    def between(cls, pairs: Sequence[WordPair], words: Vectoriser) -> KnownWords:
        """Return the pairs as matrices between the words of a vocabulary, tokenised as its texts are."""
        unknown: dict[str, None] = {}
        columns: dict[str, int | None] = {}
        entries: dict[bool, list[tuple[int, int, float]]] = {False: [], True: []}
        for pair in pairs:
            sides = []
            for word in (pair.query_word, pair.doc_word):
                if word not in columns:
                    columns[word] = column_of(words, word)
                if columns[word] is None:
                    unknown[word] = None
                sides.append(columns[word])
            if sides[0] is not None and sides[1] is not None:
                entries[pair.weight is None].append((sides[0], sides[1], 1.0 if pair.weight is None else pair.weight))
        n = len(words.words_)
        weights, never = (_matrix(entries[kind], n) for kind in (False, True))
        return cls(weights, never, len(entries[False]), len(entries[True]), tuple(unknown))

    def start(self, space: Space) -> Space:
        """The space whose start has the known weights, too: what learning is compared with."""
        if self.weights is None:
            return space
        known = Weights([Sparse(weights=self.weights)])
        return replace(space, name=f"{space.name} with prior", given_start=space.match + known)

    def check(self, candidates: Sequence[Candidate]) -> None:
        """Refuse rankers that cannot hold to it."""
        for candidate in candidates:
            if self.never is not None and not isinstance(candidate.ranker, SparseRanker):
                raise InputError(
                    f"a prior with pairs that never have a weight is for the ranker 'sparse'; got {candidate.name!r}"
                )

    def fit(
        self,
        ranker: TermPairRanker,
        space: Space,
        evidence: Source | Preferences,
        unit: float,
        callbacks: Sequence[Callback],
    ) -> Weights:
        """What the ranker learns with the prior: all of W, known weights included."""
        known: dict[str, Any] = {} if self.never is None else {"never": self.never}
        if self.weights is None:
            return ranker.fit(space.Q, evidence, space.D, callbacks=callbacks, **known).weights_
        offset = Weights([Sparse(weights=self.weights, scale=unit)])

        def whole(weights: Weights) -> Weights:
            return weights + offset

        learner = getattr(ranker, "ranker", ranker) or LowRankRanker()  # what a CorrelatedRanker has by default
        margin = getattr(learner, "margin", None)
        if isinstance(evidence, Source) and margin is not None:
            evidence = OffsetSource(evidence, space.Q, space.D, offset=offset, margin=float(margin), whole=whole)
        summary = [seen_whole(callback, whole) for callback in callbacks]
        return whole(ranker.fit(space.Q, evidence, space.D, callbacks=summary, **known).weights_)

    def summary(self, facts: Facts) -> Facts:
        """The facts with how many pairs there are, and words of the prior that no text has."""
        data = facts.data | {"n_known_pairs": self.n_weights, "n_never_pairs": self.n_never}
        if not self.unknown:
            return replace(facts, data=data)
        named = ", ".join(self.unknown[:_MOST_NAMED])
        more = f" and {len(self.unknown) - _MOST_NAMED} more" if len(self.unknown) > _MOST_NAMED else ""
        note = f"words of the prior that the texts do not have as one word: {named}{more}."
        return replace(facts, data=data, notes=(*facts.notes, note))


def column_of(words: Vectoriser, word: str) -> int | None:
    """Return the column of a word; None if the vocabulary lacks it, or if it tokenises to none or several words."""
    [tokens] = words.analysed([word])
    return words.index_.get(tokens[0]) if len(tokens) == 1 else None


def _matrix(entries: Sequence[tuple[int, int, float]], n: int) -> sparse.csr_array | None:
    """Pairs as a matrix; of one that is given twice the last counts."""
    if not entries:
        return None
    last = {(row, column): weight for row, column, weight in entries}
    rows, columns = zip(*last, strict=True)
    return sparse.csr_array((np.array(list(last.values()), dtype=np.float32), (rows, columns)), shape=(n, n))
