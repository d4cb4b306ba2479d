"""Own vectors of documents and queries beside the words of a fit, and the maps between the vectors.

A model with such a map needs a vector for every document and every query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.own_vectors import as_own_vectors
from tercet.data.preferences import Preferences
from tercet.data.sampling import Sampler
from tercet.errors import InputError
from tercet.fitting.task import Space, Task
from tercet.learn.joint import widened
from tercet.learn.vector_map import MapSetting, learned_map, vector_map
from tercet.text.fielded import OWN_VECTORS, FieldedVectorizer
from tercet.weights import Weights

SETTINGS: Final = (MapSetting(0.0), MapSetting(100.0), MapSetting(200.0), MapSetting(100.0, against="own"))
# Weights of a map. Scores of weight 1 spread as far as the scores of the start; the last weight drowns the words.
AMOUNTS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 1000.0)
_FEWEST_STEPS, _MOST_STEPS = 10_000, 100_000
_STEPS_PER_JUDGEMENT: Final = 2
_DRAWN: Final = 2_000  # preferences to measure the spread of scores on


@dataclass(frozen=True, eq=False)
class VectorPair:
    """Vectors of documents and queries, by the rows of D and Q."""

    docs: NDArray[np.float32]
    queries: NDArray[np.float32]

    @classmethod
    def from_vectors(
        cls, doc_vectors: Any, query_vectors: Any, docs: Mapping[str, str], qids: Sequence[str]
    ) -> VectorPair | None:
        """Check the vectors of documents and queries; None without any."""
        if doc_vectors is None and query_vectors is None:
            return None
        if doc_vectors is None or query_vectors is None:
            missing = "doc_vectors" if doc_vectors is None else "query_vectors"
            raise InputError(f"own vectors are of documents and of queries; {missing} are missing")
        of_docs, of_queries = as_own_vectors(doc_vectors, "doc_vectors"), as_own_vectors(query_vectors, "query_vectors")
        if of_docs.n_dims != of_queries.n_dims:
            raise InputError(
                f"vectors of documents have {of_docs.n_dims} numbers and those of queries {of_queries.n_dims}; they "
                "must be of one space"
            )
        return cls(of_docs.take(docs), of_queries.take(qids, "query"))

    @property
    def n_dims(self) -> int:
        return int(self.docs.shape[1])


class VectorMaps:
    """Maps between own vectors, beside the words of a space.

    Attributes
    ----------
    space : words and vectors side by side
    raw : the unmapped vectors alone, for the table of a report
    """

    def __init__(self, space: Space, task: Task, vectors: VectorPair, n_steps: int | None, random_state: int) -> None:
        self.vectors, self._seed = vectors, random_state
        most = int(np.clip(_STEPS_PER_JUDGEMENT * task.size, _FEWEST_STEPS, _MOST_STEPS))
        self._n_steps = most if n_steps is None else n_steps
        words = FieldedVectorizer.with_dims(space.vectorizer, vectors.n_dims)
        self._layout = words.layout_
        Q = self._with_vectors(space.Q, vectors.queries, words.layout_.query_dims)
        D = self._with_vectors(space.D, vectors.docs, words.layout_.doc_dims)
        start = None if space.given_start is None else self.widened(space.given_start)
        self.space = task.space(space.name, words, Q, D, start)
        as_given = vector_map(np.eye(vectors.n_dims, dtype=np.float32), words.layout_)
        self.raw = replace(self.space, name=OWN_VECTORS, given_start=as_given)

    def _with_vectors(self, rows: sparse.csr_array, vectors: NDArray[np.float32], dims: slice) -> sparse.csr_array:
        """Rows with a vector in the columns ``dims``, behind the columns of words."""
        gaps = dims.start - rows.shape[1], self._layout.n_columns - dims.stop
        before, after = (sparse.csr_array((rows.shape[0], width), dtype=np.float32) for width in gaps)
        blocks = [rows, before, sparse.csr_array(vectors), after]
        return sparse.csr_array(sparse.hstack(blocks, format="csr", dtype=np.float32))

    def widened(self, weights: Weights) -> Weights:
        """Weights between words, in the space of words and vectors."""
        return Weights([widened(part, weights.shape[0], self._layout.n_columns) for part in weights.parts])

    def maps(self, sampler: Sampler) -> list[Weights]:
        """Learn a map for each of `SETTINGS` from preferences of a sampler."""
        return [self.map(number, sampler) for number in range(len(SETTINGS))]

    def map(self, number: int, sampler: Sampler) -> Weights:
        """Learn a map, with margins scaled to the spread of the margins of the start."""
        pair, setting = (self.vectors.queries, self.vectors.docs), SETTINGS[number]
        M = learned_map(*pair, sampler, setting, n_steps=self._n_steps, random_state=self._seed)
        learned = vector_map(M, self._layout)
        prefs = Preferences(*sampler.draw(np.random.default_rng(self._seed), _DRAWN))
        Q, better, worse = self.space.Q[prefs.query], self.space.D[prefs.better], self.space.D[prefs.worse]
        spread, own = (
            float((one.score_rows(Q, better) - one.score_rows(Q, worse)).std()) for one in (self.space.start, learned)
        )
        return learned * (spread / own) if spread > 0 and own > 0 else learned
