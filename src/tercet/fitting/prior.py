"""A prior of the user's own on W: known pairs of words, to which learned weights are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.data.word_pairs import WordPair
from tercet.errors import InputError
from tercet.fitting.rankers import Candidate
from tercet.fitting.task import Facts, Space
from tercet.learn import Source, TermPairRanker
from tercet.learn.offset import OffsetSource, seen_whole
from tercet.text import Vectorizer
from tercet.weights import Sparse, Weights

_MOST_NAMED = 20  # words in a note


@dataclass(frozen=True, eq=False)
class KnownWords:
    """A prior between the words of a vocabulary.

    The known weights stay as they are. Learning adds to them, by the margins that they leave. A penalty is on the
    learned part, and so pulls W towards the prior.

    Attributes
    ----------
    weights : weights of known pairs, in units of the weight of a word and itself at the start
    never : ones for the pairs that never have a weight
    unknown : words of the prior without a column
    """

    weights: sparse.csr_array
    never: sparse.csr_array
    unknown: tuple[str, ...]

    @classmethod
    def between(cls, pairs: Sequence[WordPair], words: Vectorizer) -> KnownWords:
        """Return the pairs as matrices between the words of a vocabulary, tokenized as its texts are."""
        texts = list(dict.fromkeys(word for pair in pairs for word in (pair.query_word, pair.doc_word)))
        columns = {
            text: words.index_.get(tokens[0]) if len(tokens) == 1 else None
            for text, tokens in zip(texts, words.analyzed(texts), strict=True)
        }
        weights: dict[Any, float] = {}
        never: dict[Any, float] = {}
        for query_word, doc_word, weight in pairs:
            cell = columns[query_word], columns[doc_word]
            if None not in cell:  # the last of equal pairs counts
                (never if weight is None else weights)[cell] = 1.0 if weight is None else weight
        n = len(words.words_)
        unknown = tuple(text for text, column in columns.items() if column is None)
        return cls(_matrix(weights, n), _matrix(never, n), unknown)

    def start(self, space: Space) -> Space:
        """Add the known weights to the start of a space, which learning is compared with."""
        if not self.weights.nnz:
            return space
        known = Weights([Sparse(weights=self.weights)])
        return replace(space, name=f"{space.name} with prior", given_start=space.match + known)

    def check(self, candidates: Sequence[Candidate]) -> None:
        """Refuse rankers that cannot hold to the prior."""
        for candidate in candidates:
            if self.never.nnz and not candidate.ranker.takes_never:
                raise InputError(
                    f"a prior with pairs that never have a weight is for the ranker 'sparse'; got {candidate.name!r}"
                )

    def beside(
        self, ranker: TermPairRanker, space: Space, evidence: Source | Preferences, arguments: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Evidence, and arguments of ``fit``, for a ranker that learns beside the prior."""
        arguments = dict(arguments) | ({"never": self.never} if self.never.nnz else {})
        if not self.weights.nnz:
            return evidence, arguments
        whole = partial(self.whole, ranker)
        arguments["callbacks"] = [seen_whole(callback, whole) for callback in arguments["callbacks"]]
        if isinstance(evidence, Source):
            margin = float(getattr(ranker, "margin", 1.0))
            offset = self._offset(ranker)
            evidence = OffsetSource(evidence, space.Q, space.D, offset=offset, margin=margin, whole=whole)
        return evidence, arguments

    def whole(self, ranker: TermPairRanker, learned: Weights) -> Weights:
        """All of W, known weights included."""
        return learned + self._offset(ranker) if self.weights.nnz else learned

    def _offset(self, ranker: TermPairRanker) -> Weights:
        return Weights([Sparse(weights=self.weights, scale=ranker.unit)])

    def summary(self, facts: Facts) -> Facts:
        """Add the numbers of pairs, and words of the prior without a column, to the facts of a report."""
        data = facts.data | {"n_known_pairs": self.weights.nnz, "n_never_pairs": self.never.nnz}
        if not self.unknown:
            return replace(facts, data=data)
        more = f" and {len(self.unknown) - _MOST_NAMED} more" if len(self.unknown) > _MOST_NAMED else ""
        named = ", ".join(self.unknown[:_MOST_NAMED]) + more
        note = f"words of the prior that the texts do not have as one word: {named}."
        return replace(facts, data=data, notes=(*facts.notes, note))


def _matrix(entries: Mapping[Any, float], n: int) -> sparse.csr_array:
    """Return (row, column) -> weight as a matrix (n, n)."""
    rows, columns = np.array(list(entries), dtype=np.int32).reshape(-1, 2).T
    return sparse.csr_array((np.array(list(entries.values()), dtype=np.float32), (rows, columns)), shape=(n, n))
