"""Candidates tried on what folds leave out, as many as there is time for; the chosen one learned from everything."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from tercet._validate import check_integer, check_seed, is_number
from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.out_of_fold import ACCEPTS, Accept, Choice, OutOfFold, Tried, choose_crossed
from tercet.fitting.outcome import CurveRecorder, measures_of
from tercet.fitting.prior import KnownWords, as_prior
from tercet.fitting.rankers import (
    MAX_LOW_RANK_STEPS,
    MAX_STEPS,
    Candidate,
    RankerChoice,
    candidates_of,
    n_steps_for,
)
from tercet.fitting.scored_columns import ScoredColumns
from tercet.fitting.task import Fold, Space, Task
from tercet.fitting.text_model import TextModel
from tercet.learn import CorrelatedRanker, LowRankRanker, LSIRanker, SampledSource, TermPairRanker
from tercet.learn.loop import Callback
from tercet.text import Analyser, CorrelatedWords, Vectoriser
from tercet.text.fielded import FieldedVectoriser
from tercet.weights import Weights

_MOST_TO_CHOOSE_ON: Final = 20_000  # preferences, for a ranker that learns nothing else from them
_N_MODELS: Final = 3  # that are averaged, where that is not said
# The share of worse documents that are drawn by popularity where one way alone is tried. With none of them, a model
# learns which documents are ever relevant, and pushes down those that never were; with nothing else, it learns nothing
# of documents that answer no training query, which is worse where most of them answer none.
_POPULAR: Final = 0.5
_WORK_OF_A_FIT: Final = 5e8  # beside its steps
_STEPS_TO_AVERAGE: Final = 10  # for each judgement: with fewer of them, more steps are worth more than more models
_STEPS_TO_LEARN_DOCUMENTS: Final = 2  # for each judgement: with fewer of them, queries alone learn
_CACHED_WORDS: Final = 20_000  # whose factors are near at hand; those of more words are slower to reach
# How much all fits together may take where no budget is given, in numbers read and written by steps: a minute or so.
_WORK: Final = 2.7e11
_WORK_PER_SECOND: Final = 5e9


class FitSettings:
    """What all recipes of texts are given besides the evidence, checked."""

    def __init__(
        self,
        analyser: Analyser | None,
        n_models: int | None,
        budget: float | None,
        accept: Accept,
        random_state: int,
        verbose: bool | None,
        name: str,
        ranker: RankerChoice | None,
        n_steps: int | None,
        columns: ScoredColumns | None = None,
        prior: Any = None,
        vocabulary: Any = None,
    ) -> None:
        if not isinstance(name, str):
            raise InputError(f"name is what the report calls the data, a string; got {name!r}")
        self.analyser = analyser
        self.n_models = None if n_models is None else check_integer(n_models, "n_models")
        if budget is not None and not (is_number(budget, 0) and budget > 0):
            raise InputError(f"budget is in seconds, a positive number; got {budget!r}")
        if accept not in ACCEPTS:
            raise InputError(f"accept must be {' or '.join(map(repr, ACCEPTS))}; got {accept!r}")
        self.budget = budget
        self.accept = accept
        self.seed = check_seed(random_state)
        self.verbose = verbose
        self.name = name
        self.columns = columns
        self.prior = as_prior(prior)
        if self.prior is not None and columns is not None:
            raise InputError("a prior is between words alone; leave out fields and features")
        self.vocabulary = None if vocabulary is None else _only_words(vocabulary)
        if self.vocabulary is not None and (analyser is not None or columns is not None):
            raise InputError(
                "vocabulary says how texts are tokenised and weighted; leave out analyser, fields and features"
            )
        self.ranker = ranker
        self.n_steps = None if n_steps is None else check_integer(n_steps, "n_steps")
        candidates_of(ranker, self.seed)  # what cannot be is said before texts are read


def _only_words(model: Any) -> Vectoriser:
    """The words of a model, which must be those of queries and documents alike."""
    if not isinstance(model, TextModel):
        raise InputError(f"vocabulary is a text model, as index.model is; got {type(model).__name__}")
    words = model.doc_vectoriser
    if words is not model.query_vectoriser or isinstance(words, FieldedVectoriser):
        what = "fields or numbers" if isinstance(words, FieldedVectoriser) else "other words for queries"
        raise InputError(f"a vocabulary can be kept where queries and documents share it alone; this model has {what}")
    return words


class FinalModel(NamedTuple):
    """What was learned from everything, the map of words behind it if there is one, and what the ranker found out."""

    weights: Weights
    words: CorrelatedWords | None
    summary: dict[str, Any]


class Search:
    """Candidates in one space: tried on what each fold leaves out, and the chosen one learned from everything."""

    def __init__(
        self, space: Space, task: Task, how: FitSettings, known: KnownWords | None, measure: str, began: float
    ) -> None:
        self.space = space
        self.task = task
        self.how = how
        self.known = known
        self.measure = measure
        self._work = _WORK if how.budget is None else how.budget * _WORK_PER_SECOND
        self.n_models = how.n_models or 1  # that are learned from everything, and averaged
        self._ends = None if how.budget is None else began + how.budget
        self._measures = measures_of(measure)

    def choose(self, candidates: list[Candidate]) -> Choice:
        """Try as many of them as there is time for, in as many folds, and choose by what these leave out."""
        space, how = self.space, self.how
        if self.known is not None:
            self.known.check(candidates)
        families = self._families(self._suited(candidates))
        n_folds = self._affordable(families)
        self.out_of_fold = OutOfFold(space, self.task.folds[:n_folds], self._measures)
        self.curves = CurveRecorder(self.out_of_fold.first, space.start)
        start = self.out_of_fold.start()
        tried: list[Tried] = []
        for family in families:
            if not tried or self._has_time():
                tried += self._try(family)
        chosen = choose_crossed(
            start,
            tried,
            higher_is_better=self._measures[0].higher_is_better,
            start_name=space.name,
            measure=self.measure,
            accept=how.accept,
            random_state=how.seed,
        )
        self.curves.choose(chosen.tried.candidate)
        return chosen

    def learn(self, choice: Choice) -> FinalModel:
        """The chosen one from everything: the mean of several models in the size of one, where that can be."""
        candidate: Candidate = choice.tried.candidate
        n_models = self.n_models if self.how.n_models or _can_be_compressed(candidate) else 1
        found: list[Weights] = []
        for member in candidate.members:
            trained = [self._train(member, self.task.sampler, number) for number in range(n_models)]
            found.append(_mean([weights for weights, _ in trained]))
        [(_, ranker), *_] = trained
        summary = {**candidate_summary(candidate), **_summary(ranker, self._n_steps(candidate.members[0]))}
        weights = found[0] if not candidate.mean_of else _mean_of_units(candidate, found)
        if n_models > 1:
            summary["models"] = n_models
        if (n_models > 1 or candidate.mean_of) and _can_be_compressed(candidate):
            weights = weights.compressed(candidate.ranker.get_params()["n_components"])
        words = ranker.words_ if isinstance(ranker, CorrelatedRanker) else None
        return FinalModel(weights + self.space.match * choice.blend, words, summary)

    def without(self, fold: Fold, choice: Choice) -> Weights:
        """The chosen one learned without a fold, as it was tried there."""
        candidate: Candidate = choice.tried.candidate
        found = [self._train(member, fold.sampler)[0] for member in candidate.members]
        weights = _mean_of_units(candidate, found) if candidate.mean_of else found[0]
        return weights + self.space.match * choice.blend

    def _suited(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates for these texts and the time there is: of fields and numbers, and for so many steps."""
        space, how, n_judgements = self.space, self.how, self.task.n_judgements
        # Where documents stay in all of them, that is what was asked for.
        candidates = [one for one in candidates if not one.keeps_documents or self._can_stay(one)] or candidates
        shortest = self._steps_in_time(candidates[0], 2 + _N_MODELS)
        if how.ranker is None and shortest < _STEPS_TO_LEARN_DOCUMENTS * n_judgements:
            candidates = [one for one in candidates if one.keeps_documents] or candidates
            shortest = self._steps_in_time(candidates[0], 2 + _N_MODELS)
        averaged = any(_can_be_compressed(one) for one in candidates)
        if how.n_models is None and averaged and shortest >= _STEPS_TO_AVERAGE * n_judgements:
            self.n_models = _N_MODELS
        if how.columns is not None:
            first, n_steps = self.task.folds[0], self._n_steps(candidates[0])
            held_out = first.parts(space.Q, space.D)[0].held_out
            candidates = how.columns.candidates(space, candidates, first.sampler, held_out, n_steps, how.seed)
        return [one.fitting(space.D.shape, self._n_steps(one)) for one in candidates]

    def _can_stay(self, candidate: Candidate) -> bool:
        """Whether there is a space of documents for a candidate that keeps them as they are."""
        is_own = candidate.stated is None
        start = candidate.fitting(self.space.D.shape).ranker.get_params()["start"]
        return is_own or (self.how.columns is None and start != "random")

    def _families(self, candidates: list[Candidate]) -> list[list[Candidate]]:
        """The candidates with how their worse documents are drawn, and means of them, in the order they are tried.

        Those of a family are learned side by side, so that the mean of two of them takes no fit of its own.
        """
        if self.how.columns is not None:
            return [[one] for one in candidates]  # what documents are like, whoever asks, is what numbers are for
        is_drawn = isinstance(self.task.sampler, JudgementSampler | MixtureSampler)
        if not all(isinstance(one.ranker, LowRankRanker) for one in candidates):
            # Where one way alone is tried, judged documents that answer nothing have to be drawn, too.
            return [[replace(one, popular=_POPULAR if is_drawn else 0.0)] for one in candidates]
        kept = [one for one in candidates if one.keeps_documents]
        learned = [one for one in candidates if not one.keeps_documents]
        if not learned:
            return [[one] for one in reversed(kept)] + ([[by_popularity(one)] for one in kept] if is_drawn else [])
        if not is_drawn:
            return [_with_means(learned[:1], kept), *([one] for one in learned[1:])]
        families = [_with_means([by_popularity(learned[0])], [by_popularity(one) for one in kept[:1]] + kept[1:])]
        families.append(_with_means(learned[:1], kept[:1]))
        for one in learned[1:]:
            families += [[by_popularity(one)], [one]]
        return families

    def _step(self, candidate: Candidate) -> float:
        """What a step takes."""
        n_words = [matrix.nnz / max(1, matrix.shape[0]) for matrix in (self.space.Q, self.space.D)]
        spread = np.clip(self.space.D.shape[1] / _CACHED_WORDS, 1.0, 4.0)
        return max(1.0, float(spread * candidate.work(*n_words)))

    def _steps_in_time(self, candidate: Candidate, n_fits: int) -> int:
        """How many steps of so many fits there is time for."""
        return int(self._work / self._step(candidate) / n_fits)

    def _n_steps(self, candidate: Candidate) -> int:
        """How many steps a candidate takes."""
        if self.how.n_steps is not None:
            return self.how.n_steps
        is_fast = isinstance(candidate.ranker, LowRankRanker)
        most = min(MAX_LOW_RANK_STEPS if is_fast else MAX_STEPS, self._steps_in_time(candidate, 2 + self.n_models))
        return n_steps_for(self.task.n_judgements, labelled=self.task.labelled, most=most)

    def _affordable(self, families: list[list[Candidate]]) -> int:
        """How many folds there is time for; families that there is none for are left out."""
        costs = [
            sum(self._n_steps(one) * self._step(one) + _WORK_OF_A_FIT for one in family if not one.mean_of)
            for family in families
        ]
        left = self._work - self.n_models * costs[0]
        if self.how.ranker is None:
            n_families = int(np.searchsorted(np.cumsum(costs), left + 0.5 * costs[0], side="right"))
            del families[max(1, n_families) :]
        return int(np.clip(left // sum(costs[: len(families)]), 1, len(self.task.folds)))

    def _has_time(self) -> bool:
        return self._ends is None or time.perf_counter() < self._ends

    def _try(self, family: list[Candidate]) -> list[Tried]:
        """All of a family, on each fold; means come after what they are of."""
        looks = {one: self.curves.callback_for(one, self._n_steps(one)) for one in family if not one.mean_of}

        def train(fold: Fold, number: int) -> Iterator[Weights]:
            found: dict[Candidate, Weights] = {}
            for one in family:
                if not one.mean_of:
                    found[one] = self._train(one, fold.sampler, 0, *([looks[one]] if number == 0 else []))[0]
                    yield found[one]
                else:
                    yield _mean_of_units(one, [found[member] for member in one.members])

        pools = self.out_of_fold.fit(train, [one.blends for one in family])
        return [Tried(one, one.blends, pool) for one, pool in zip(family, pools, strict=True)]

    def _train(
        self, candidate: Candidate, sampler: Sampler, number: int = 0, *callbacks: Callback
    ) -> tuple[Weights, TermPairRanker]:
        space, how = self.space, self.how
        seed = how.seed + number
        ranker = candidate.make(more_seed=number, verbose=how.verbose)
        if isinstance(sampler, JudgementSampler | MixtureSampler):
            sampler = sampler.with_popular(candidate.popular)
        evidence: SampledSource | Preferences = SampledSource(sampler, self._n_steps(candidate), random_state=seed)
        if isinstance(getattr(ranker, "ranker", ranker), LSIRanker):  # has preferences only to choose its parameters by
            evidence = Preferences(*sampler.draw(np.random.default_rng(seed), _MOST_TO_CHOOSE_ON))
        if self.known is not None:
            return self.known.fit(ranker, space, evidence, candidate.unit, callbacks), ranker
        return ranker.fit(space.Q, evidence, space.D, callbacks=callbacks).weights_, ranker


def by_popularity(candidate: Candidate) -> Candidate:
    """The candidate with all worse documents drawn as often as they are the better one."""
    return replace(candidate, popular=1.0)


def _with_means(learned: list[Candidate], kept: list[Candidate]) -> list[Candidate]:
    """Candidates, and the means of each of the first with each of the second."""
    return [*learned, *kept, *(replace(one, mean_of=(one, other)) for one in learned for other in kept)]


def _mean(found: Sequence[Weights]) -> Weights:
    first, *others = found
    return sum(others, first) * (1 / len(found)) if others else first


def _mean_of_units(candidate: Candidate, found: Sequence[Weights]) -> Weights:
    """The mean of what members found, each scaled to an identity of weight 1."""
    scaled = zip(candidate.members, found, strict=True)
    return _mean([weights * (1 / member.unit) for member, weights in scaled])


def _can_be_compressed(candidate: Candidate) -> bool:
    """Whether the mean of several of its models has the size of one."""
    ranker = candidate.ranker
    return isinstance(ranker, LowRankRanker) and not ranker.scale_documents and ranker.normalise is None


def candidate_summary(candidate: Candidate) -> dict[str, Any]:
    drawn = {"worse by popularity": candidate.popular} if candidate.popular else {}
    mean = {"mean with": "; ".join(one.label for one in candidate.mean_of[1:])} if candidate.mean_of else {}
    return {"ranker": candidate.name, **candidate.setting, **drawn, **mean}


def _summary(ranker: TermPairRanker, n_steps: int) -> dict[str, Any]:
    """What a fitted ranker found out itself: how many preferences it took, and parameters that were left to it."""
    summary: dict[str, Any] = {}
    if hasattr(ranker, "n_steps_") or isinstance(ranker, CorrelatedRanker):
        summary["steps"] = n_steps
    for name, value in ranker.get_params(deep=False).items():
        own = getattr(ranker, f"{name}_", None)
        if own is not None and own != value and isinstance(own, int | float | str):
            summary[f"{name} found"] = own
    return summary
