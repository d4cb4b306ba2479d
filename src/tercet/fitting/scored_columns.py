"""Fields and numbers of documents to score beside words, and the candidates for their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from sklearn.base import clone

from tercet._validate import is_number
from tercet.choose import Trial, choose
from tercet.errors import InputError
from tercet.fitting.rankers import FOR_JUDGEMENTS, Candidate
from tercet.fitting.task import Fold, Space
from tercet.learn import SampledSource
from tercet.learn.joint import JointRanker, joined, taken_apart, words_of
from tercet.text import Analyzer, FieldedVectorizer
from tercet.text.fielded import check_names
from tercet.weights import Identity, Weights

_PENALTIES: Final = (0.0, 0.01, 0.1, 0.3)  # shares of the smallest penalty with all weights at the prior
ALONE: Final = "fields and numbers alone"
_PILOT_STEPS: Final = 100_000

Fields = Mapping[str, float] | Iterable[str]


@dataclass(frozen=True)
class ScoredColumns:
    """Columns of documents to score beside the words.

    Attributes
    ----------
    fields : columns of text, and the expected weight of a match in each, in units of a match in the whole text
    features : columns of numbers, as stored or by a transform
    """

    fields: dict[str, float]
    features: tuple[str, ...]

    @classmethod
    def from_arguments(cls, fields: Fields | None, features: Iterable[str] | None) -> ScoredColumns | None:
        """Check fields and features; None without any."""
        listed = features if isinstance(features, str) else list(features or ())
        check_names(fields or (), listed)
        weights = dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(fields or (), 1.0)
        for name, weight in weights.items():
            if not is_number(weight, 0):
                raise InputError(f"the weight of the field {name!r} must be a number from 0; got {weight!r}")
        return cls(weights, tuple(listed)) if weights or listed else None

    def vectorizer(self, analyzer: Analyzer, **weighting: Any) -> FieldedVectorizer:
        return FieldedVectorizer(fields=list(self.fields), features=list(self.features), analyzer=analyzer, **weighting)

    def prior(self, unit: float) -> list[float]:
        """Weights to start from, if a match of the whole text counts ``unit``."""
        return [weight * unit for weight in self.fields.values()] + [0.0] * (2 * len(self.features))

    def with_fields(self, space: Space) -> Space | None:
        """Return a start with the expected weights of fields; None without fields."""
        words = space.vectorizer
        if not self.fields or not isinstance(words, FieldedVectorizer):
            return None
        match = Weights([Identity(n_terms=words.layout_.n_words)])
        start = joined(match, np.array(self.prior(1.0)), words.layout_)
        return replace(space, name=f"{space.name} with fields", given_start=start)

    def candidates(
        self, space: Space, listed: Sequence[Candidate], fold: Fold, n_steps: int, seed: int
    ) -> list[Candidate]:
        """Return candidates for weights of fields and numbers, alone and beside the W of each ``listed`` candidate.

        All candidates share the penalty, and the start: the expected weights of fields or zeros. A fold with plain
        matching of words chooses both.
        """
        words = space.vectorizer
        assert isinstance(words, FieldedVectorizer)
        layout, unit = words.layout_, float(FOR_JUDGEMENTS[0]["identity_weight"])
        held_out = fold.parts(space.Q, space.D)[0].held_out
        n_pilot = min(n_steps, _PILOT_STEPS)
        source = SampledSource(fold.sampler, n_pilot, random_state=seed)
        trials = []
        for expected in (1.0, 0.0) if self.fields else (0.0,):
            alone = JointRanker(layout=layout, prior=self.prior(expected * unit), identity_weight=unit)
            sparse_end = alone.sparse_end(space.Q, source, space.D)
            for share in _PENALTIES:
                ranker = clone(alone).set_params(l1=share * sparse_end)
                value = held_out(ranker.fit(space.Q, source, space.D).weights_)
                setting = {"l1 share of columns": share, **({"start of fields": expected} if self.fields else {})}
                trials.append(Trial(setting, np.array(value), result=ranker))
        best = trials[choose(trials)]
        alone, setting = best.result, best.setting
        alone.l1 *= n_steps / n_pilot  # slopes add up with the steps
        candidates = [Candidate(ALONE, setting, alone)]
        for candidate in listed:
            candidate = candidate.fitting((space.D.shape[0], layout.n_words))
            joint = JointRanker(
                layout=layout,
                ranker=candidate.ranker,
                prior=self.prior(setting.get("start of fields", 0.0) * candidate.unit),
                identity_weight=candidate.unit,
                l1=alone.l1,
            )
            candidates.append(replace(candidate, setting=candidate.setting | setting, ranker=joint))
        return candidates


def weights_by_name(words: FieldedVectorizer, weights: Weights) -> dict[str, float]:
    """Weights of fields and numbers by name, without zeros."""
    _, w = taken_apart(weights, words.layout_)
    numbers = words.words_[words.layout_.first_number : words.layout_.any_query]
    named = dict(zip([*words.fields_, *numbers], w.tolist(), strict=True))
    return {name: weight for name, weight in named.items() if weight}


def chosen_weights(words: FieldedVectorizer, weights: Weights) -> dict[str, float]:
    """Weights of fields and numbers among the chosen settings of a report."""
    return {f"weight of {name}": round(weight, 4) for name, weight in weights_by_name(words, weights).items()}


def columns_notes(words: FieldedVectorizer, weights: Weights) -> tuple[str, ...]:
    """Weights of fields and numbers in a sentence."""
    named = ", ".join(f"{name} {weight:+.3g}" for name, weight in weights_by_name(words, weights).items())
    match = f"beside words, of which a match counts {weights.identity:.3g}: "
    return (f"{match}{named or 'nothing'}; numbers by standard deviations.",)


def words_alone(space: Space) -> Space:
    """Return the space without fields and numbers."""
    words = space.vectorizer
    assert isinstance(words, FieldedVectorizer)
    Q, D = words_of(words.layout_, space.Q, space.D)
    asked = words_of(words.layout_, space.queries.Q, space.queries.D)
    return Space(space.name, words.plain_, Q, D, replace(space.queries, Q=asked[0], D=asked[1]))
