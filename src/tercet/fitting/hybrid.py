"""Own vectors of documents and queries beside the words of a fit: a map between them, blended by cross-validation.

Words are learned first, as if there were no vectors. Then, in the same folds, maps between the vectors are tried beside
what was learned, each with several weights. They are kept where they are better than the words alone by more than one
standard error on queries left out, and take nothing from new documents: from then on every document and every query
needs a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.choose import Gain
from tercet.data.own_vectors import as_own_vectors
from tercet.data.preferences import Preferences
from tercet.data.sampling import Sampler
from tercet.errors import InputError
from tercet.fitting.out_of_fold import Choice, OutOfFold, Tried, choose_crossed, is_harmless
from tercet.fitting.task import EVERY, NEW, Fold, Space, Task
from tercet.fitting.trials import FinalModel, Search
from tercet.learn.joint import widened
from tercet.learn.vector_map import MapSetting, learned_map, vector_map
from tercet.text.fielded import OWN_VECTORS, ColumnLayout, FieldedVectoriser
from tercet.weights import Weights

SETTINGS: Final = (MapSetting(0.0), MapSetting(100.0), MapSetting(200.0), MapSetting(100.0, against="own"))
# What the map counts, as multiples of the weight by which it differs as much from document to document as the words do.
BLENDS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
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


@dataclass(frozen=True, eq=False)
class Hybrid:
    """How it ended.

    Attributes
    ----------
    space : words and vectors side by side
    accepted : whether the vectors are kept
    choice : map and weight, as all queries left out chose them
    out_of_fold : of the space
    note : a sentence that says why
    raw : the vectors by themselves, as they are, for the table of a report
    """

    space: Space
    accepted: bool
    choice: Choice
    out_of_fold: OutOfFold
    note: str
    raw: Space

    def summary(self) -> dict[str, Any]:
        """What a report says of it among what was chosen."""
        return {OWN_VECTORS: self.choice.tried.candidate.label, "weight of own vectors": self.choice.blend}


class VectorTrials:
    """Maps between own vectors, tried beside the words that a search has chosen."""

    def __init__(self, search: Search, words: Choice, vectors: VectorPair) -> None:
        self.search, self.words, self.vectors = search, words, vectors
        self.task: Task = search.task
        self._inner = search.space
        self.space = _offset(self._inner, self.task, vectors)
        self.layout = _layout(self.space)

    def choose(self) -> Hybrid:
        """Try all settings in the folds of the search."""
        search, space = self.search, self.space
        folds = OutOfFold(space, search.out_of_fold.folds, search.out_of_fold.measures)

        def train(fold: Fold, number: int) -> Iterator[tuple[Weights, Weights]]:
            words = self._widened(self._words_without(fold))
            for setting in SETTINGS:
                yield words, self._map(setting, fold.sampler, words)

        pools = folds.fit(train, [BLENDS] * len(SETTINGS))
        choice = choose_crossed(
            folds.start(),
            [Tried(setting, BLENDS, pool) for setting, pool in zip(SETTINGS, pools, strict=True)],
            higher_is_better=folds.measures[0].higher_is_better,
            start_name=space.name,
            measure=search.measure,
            accept=search.how.accept,
            random_state=search.how.seed,
        )
        accepted, note = self._decide(choice, 1.0 if folds.measures[0].higher_is_better else -1.0)
        as_given = vector_map(np.eye(self.vectors.n_dims, dtype=np.float32), self.layout)
        raw = replace(space, name=OWN_VECTORS, given_start=as_given)
        return Hybrid(space, accepted, choice, folds, note, raw)

    def learn(self, offset: Hybrid, words: FinalModel | None) -> FinalModel:
        """The chosen map from everything, beside the words that were learned so, or beside the start."""
        learned = self._widened(self._inner.start if words is None else words.weights)
        setting: MapSetting = offset.choice.tried.candidate
        weights = learned + self._map(setting, self.task.sampler, learned) * offset.choice.blend
        return FinalModel(weights, None, {} if words is None else words.summary)

    def _words_without(self, fold: Fold) -> Weights:
        """The words that were chosen, learned without a fold; those of the start where learning was rejected."""
        if not self.words.decision.accepted:
            return self._inner.start
        return self.search.without(fold, self.words)

    def _widened(self, weights: Weights) -> Weights:
        n, n_columns = weights.shape[0], self.layout.n_columns
        return Weights([widened(part, n, n_columns) for part in weights.parts])

    def _map(self, setting: MapSetting, sampler: Sampler, words: Weights) -> Weights:
        """A map, scaled so that its margins spread as far as those of the words."""
        seed, n_steps = self.search.how.seed, self.search.how.n_steps
        if n_steps is None:
            n_steps = int(np.clip(_STEPS_PER_JUDGEMENT * self.task.n_judgements, _FEWEST_STEPS, _MOST_STEPS))
        M = learned_map(self.vectors.queries, self.vectors.docs, sampler, setting, n_steps=n_steps, random_state=seed)
        found = vector_map(M, self.layout)
        prefs = Preferences(*sampler.draw(np.random.default_rng(seed), _DRAWN))
        spread, own = (float(_margins(one, self.space, prefs).std()) for one in (words, found))
        return found * (spread / own) if spread > 0 and own > 0 else found

    def _decide(self, choice: Choice, sign: float) -> tuple[bool, str]:
        """Keep the vectors where they are clearly better than words alone, and not at the cost of new documents."""
        words = self.words
        before = words.after if words.decision.accepted else words.before
        gains = {name: Gain.between(sign * before[name][:, 0], sign * choice.after[name][:, 0]) for name in before}
        gain = gains[EVERY]
        harmless = NEW not in gains or self.search.how.accept == "seen" or is_harmless(gains[NEW])
        accepted = choice.decision.accepted and gain.is_clear and harmless
        offset = "the words that were learned" if words.decision.accepted else self.space.name
        verdict = "kept" if accepted else "left out" + ("" if harmless else ", since new documents would pay for them")
        changed = (choice.after[EVERY][:, 0] - before[EVERY][:, 0]).mean()
        setting: MapSetting = choice.tried.candidate
        return accepted, (
            f"Own vectors of {self.vectors.n_dims} numbers, {setting.label}, were {verdict}: on {gain.n_queries} "
            f"queries left out {self.search.measure} changed by {changed:+.3f} from "
            f"{before[EVERY][:, 0].mean():.3f} of {offset}, with a standard error of {gain.error:.3f}."
        )


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
