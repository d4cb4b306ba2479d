"""Own vectors of documents and queries beside the words of a fit: maps between them, which a mix gives a weight.

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
from tercet.text.fielded import OWN_VECTORS, ColumnLayout, FieldedVectoriser
from tercet.weights import Weights

SETTINGS: Final = (MapSetting(0.0), MapSetting(100.0), MapSetting(200.0), MapSetting(100.0, against="own"))
# Weights of a map, in units of the weight by which its scores spread as far as those of the start; the last leaves
# nothing but the vectors.
AMOUNTS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 1000.0)
_FEWEST_STEPS, _MOST_STEPS = 10_000, 100_000
_STEPS_PER_JUDGEMENT: Final = 2
_DRAWN: Final = 2_000  # preferences by which the two are brought to one scale


@dataclass(frozen=True, eq=False)
class VectorPair:
    """Vectors of documents and queries, by the rows of D and Q."""

    docs: NDArray[np.float32]
    queries: NDArray[np.float32]

    @classmethod
    def from_vectors(
        cls, doc_vectors: Any, query_vectors: Any, docs: Mapping[str, str], qids: Sequence[str]
    ) -> VectorPair | None:
        """What was given, checked; None where it was nothing."""
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
    raw : the vectors by themselves, as they are, for the table of a report
    """

    def __init__(self, space: Space, task: Task, vectors: VectorPair, n_steps: int | None, random_state: int) -> None:
        self.vectors, self._seed = vectors, random_state
        self._inner, self._task = space, task
        self.space = _offset(space, task, vectors)
        self._layout = _layout(self.space)
        most = int(np.clip(_STEPS_PER_JUDGEMENT * task.n_judgements, _FEWEST_STEPS, _MOST_STEPS))
        self._n_steps = most if n_steps is None else n_steps
        as_given = vector_map(np.eye(vectors.n_dims, dtype=np.float32), self._layout)
        self.raw = replace(self.space, name=OWN_VECTORS, given_start=as_given)

    def widened(self, weights: Weights) -> Weights:
        """Weights between words, in the space of words and vectors."""
        n, n_columns = weights.shape[0], self._layout.n_columns
        return Weights([widened(part, n, n_columns) for part in weights.parts])

    def maps(self, sampler: Sampler) -> list[Weights]:
        """A map for each of `SETTINGS`, learned from what a sampler draws."""
        return [self.map(number, sampler) for number in range(len(SETTINGS))]

    def map(self, number: int, sampler: Sampler) -> Weights:
        """One map, scaled so that its margins spread as far as those of the start."""
        pair, setting = (self.vectors.queries, self.vectors.docs), SETTINGS[number]
        M = learned_map(*pair, sampler, setting, n_steps=self._n_steps, random_state=self._seed)
        learned = vector_map(M, self._layout)
        prefs = Preferences(*sampler.draw(np.random.default_rng(self._seed), _DRAWN))
        spread, own = (float(_margins(one, self.space, prefs).std()) for one in (self.space.start, learned))
        return learned * (spread / own) if spread > 0 and own > 0 else learned


def _offset(space: Space, task: Task, vectors: VectorPair) -> Space:
    """The space with columns for the vectors behind those it has."""
    words = FieldedVectoriser.with_dims(space.vectoriser, vectors.n_dims)
    layout = words.layout_

    def placed(rows: sparse.csr_array, own: NDArray[np.float32], dims: slice) -> sparse.csr_array:
        blocks = [rows, _empty(rows, dims.start - rows.shape[1]), sparse.csr_array(own)]
        blocks.append(_empty(rows, layout.n_columns - dims.stop))
        return sparse.csr_array(sparse.hstack(blocks, format="csr", dtype=np.float32))

    Q, D = placed(space.Q, vectors.queries, layout.query_dims), placed(space.D, vectors.docs, layout.doc_dims)
    start = space.given_start
    if start is not None:
        start = Weights([widened(part, start.shape[0], layout.n_columns) for part in start.parts])
    test = () if task.test is None else tuple(task.test(words, Q, D))
    return Space(space.name, words, Q, D, task.queries(Q, D), test, start)


def _empty(rows: sparse.csr_array, width: int) -> sparse.csr_array:
    return sparse.csr_array((rows.shape[0], width), dtype=np.float32)


def _layout(space: Space) -> ColumnLayout:
    assert isinstance(space.vectoriser, FieldedVectoriser)
    return space.vectoriser.layout_


def _margins(weights: Weights, space: Space, prefs: Preferences) -> NDArray[np.float64]:
    queries = space.Q[prefs.query]
    margins: NDArray[np.float64] = weights.score_rows(queries, space.D[prefs.better]) - weights.score_rows(
        queries, space.D[prefs.worse]
    )
    return margins
