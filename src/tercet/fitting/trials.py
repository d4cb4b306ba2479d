"""Candidates tried on what folds leave out, as many as there is time for; the chosen one learned from everything."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeGuard

import numpy as np

from tercet._validate import check_integer, check_seed, is_number
from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, MixtureSampler, Sampler
from tercet.errors import InputError
from tercet.fitting.out_of_fold import ACCEPTS, Accept, Choice, OutOfFold, Tried, choose_crossed
from tercet.fitting.outcome import CurveRecorder, measures_of
from tercet.fitting.prior import KnownWords, Prior
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
from tercet.fitting.topics import topics_of
from tercet.learn import CorrelatedRanker, LowRankRanker, LSIRanker, SampledSource, TermPairRanker
from tercet.learn.loop import Callback
from tercet.text import Analyser, CorrelatedWords
from tercet.weights import Weights

_MOST_TO_CHOOSE_ON: Final = 20_000  # preferences, for a ranker that learns nothing else from them
_N_MODELS: Final = 3  # that are averaged, where that is not said
# Shares of worse documents that are drawn by popularity, which are tried: with none of them, a model learns which
# documents are ever relevant, and pushes down those that never were; with nothing else, it learns nothing of documents
# that answer no training query, which is worse where most of them answer none.
_POPULAR: Final = (1.0, 0.0, 0.5)
_WORK_OF_A_FIT: Final = 5e8  # beside its steps
_STEPS_TO_AVERAGE: Final = 10  # for each judgement: with fewer of them, more steps are worth more than more models
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
        self.prior = Prior.of(prior)
        if self.prior is not None and columns is not None:
            raise InputError("a prior is between words alone; leave out fields and features")
        self.ranker = ranker
        self.n_steps = None if n_steps is None else check_integer(n_steps, "n_steps")
        for candidate in candidates_of(ranker, self.seed):  # what cannot be is said before texts are read
            topics_of(candidate)


class FinalModel(NamedTuple):
    """What was learned from everything, the map of words behind it if there is one, and what the ranker found out."""

    weights: Weights
    words: CorrelatedWords | None
    told: dict[str, Any]


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
        self.n_steps = how.n_steps or 0
        self._work = _WORK if how.budget is None else how.budget * _WORK_PER_SECOND
        self.n_models = how.n_models or 1  # that are learned from everything, and averaged
        self._ends = None if how.budget is None else began + how.budget
        self._measures = measures_of(measure)

    def choose(self, candidates: list[Candidate]) -> Choice:
        """Try as many of them as there is time for, in as many folds, and choose by what these leave out."""
        space, how = self.space, self.how
        if self.known is not None:
            self.known.check(candidates)
        self._choose_steps(candidates)
        first = self.task.folds[0]
        if how.columns is not None:
            held_out = first.parts(space.Q, space.D)[0].held_out
            candidates = how.columns.candidates(space, candidates, first.sampler, held_out, self.n_steps, how.seed)
        candidates = [one.fitting(space.D.shape, self.n_steps) for one in candidates]
        candidates = self._drawn(candidates)
        n_candidates, n_folds = self._affordable(candidates)
        candidates = candidates[:n_candidates]
        self.out_of_fold = OutOfFold(space, self.task.folds[:n_folds], self._measures)
        self.curves = CurveRecorder(self.out_of_fold.first, space.start, self.n_steps)
        start = self.out_of_fold.start()
        tried: list[Tried] = []
        for candidate in candidates:
            if not tried or self._has_time():
                tried.append(self._try(candidate))
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
        n_models = self.n_models if self.how.n_models or _can_be_compressed(candidate.ranker) else 1
        weights, ranker = self._train(candidate, self.task.sampler)
        for number in range(1, n_models):
            weights = weights + self._train(candidate, self.task.sampler, number)[0]
        told = {**told_candidate(candidate), **_told(ranker, self.n_steps)}
        if n_models > 1:
            told["models"] = n_models
            weights = weights * (1 / n_models)
            if _can_be_compressed(ranker):
                weights = weights.compressed(ranker.n_components)
        words = ranker.words_ if isinstance(ranker, CorrelatedRanker) else None
        return FinalModel(weights + self.space.match * choice.blend, words, told)

    def _choose_steps(self, candidates: list[Candidate]) -> None:
        """How many steps there is time for, and whether to average models: only where one has steps enough."""
        how, n_judgements = self.how, self.task.n_judgements
        in_time = self._work / self._step(candidates)
        averaged = any(_can_be_compressed(one.ranker) for one in candidates)
        if how.n_models is None and averaged and in_time / (2 + _N_MODELS) >= _STEPS_TO_AVERAGE * n_judgements:
            self.n_models = _N_MODELS
        if how.n_steps is None:
            fast = all(isinstance(one.ranker, LowRankRanker) for one in candidates)
            most = min(MAX_LOW_RANK_STEPS if fast else MAX_STEPS, int(in_time / (2 + self.n_models)))
            self.n_steps = n_steps_for(n_judgements, labelled=self.task.labelled, most=most)

    def _drawn(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates with how their worse documents are drawn, in the order in which time may run out."""
        if self.how.columns is not None:
            return candidates  # what documents are like, whoever asks, is what numbers are for
        if not isinstance(self.task.sampler, JudgementSampler | MixtureSampler):
            return candidates
        if not all(isinstance(one.ranker, LowRankRanker) for one in candidates):
            # Where one way alone is tried, judged documents that answer nothing have to be drawn, too.
            return [replace(one, popular=_POPULAR[-1]) for one in candidates]
        first, others = candidates[0], candidates[1:]
        drawn = [replace(first, popular=share) for share in _POPULAR[:2]]
        drawn += [replace(one, popular=share) for one in others for share in _POPULAR[:2]]
        return [*drawn, replace(first, popular=_POPULAR[2])]

    def _step(self, candidates: list[Candidate]) -> float:
        """What a step takes, on average."""
        n_words = [matrix.nnz / max(1, matrix.shape[0]) for matrix in (self.space.Q, self.space.D)]
        spread = np.clip(self.space.D.shape[1] / _CACHED_WORDS, 1.0, 4.0)
        return max(1.0, float(spread * np.mean([one.work(*n_words) for one in candidates])))

    def _affordable(self, candidates: list[Candidate]) -> tuple[int, int]:
        """How many candidates, and folds, there is time for."""
        how = self.how
        n_fits = self._work / (self.n_steps * self._step(candidates) + _WORK_OF_A_FIT)
        n_left = n_fits - self.n_models
        n_candidates = len(candidates) if how.ranker is not None else int(np.clip(round(n_left), 1, len(candidates)))
        return n_candidates, int(np.clip(n_left // n_candidates, 1, len(self.task.folds)))

    def _has_time(self) -> bool:
        return self._ends is None or time.perf_counter() < self._ends

    def _try(self, candidate: Candidate) -> Tried:
        look = self.curves.of(candidate)

        def train(fold: Fold, number: int) -> Weights:
            return self._train(candidate, fold.sampler, 0, *([look] if number == 0 else []))[0]

        return Tried(candidate, candidate.blends, self.out_of_fold.fit(train, candidate.blends))

    def _train(
        self, candidate: Candidate, sampler: Sampler, number: int = 0, *callbacks: Callback
    ) -> tuple[Weights, TermPairRanker]:
        space, how = self.space, self.how
        seed = how.seed + number
        ranker = candidate.make(more_seed=number, verbose=how.verbose)
        if isinstance(sampler, JudgementSampler | MixtureSampler):
            sampler = sampler.with_popular(candidate.popular)
        evidence: SampledSource | Preferences = SampledSource(sampler, self.n_steps, random_state=seed)
        if isinstance(getattr(ranker, "ranker", ranker), LSIRanker):  # has preferences only to choose its parameters by
            evidence = Preferences(*sampler.draw(np.random.default_rng(seed), _MOST_TO_CHOOSE_ON))
        if self.known is not None:
            return self.known.fit(ranker, space, evidence, candidate.unit, callbacks), ranker
        return ranker.fit(space.Q, evidence, space.D, callbacks=callbacks).weights_, ranker


def _can_be_compressed(ranker: TermPairRanker) -> TypeGuard[LowRankRanker]:
    """Whether the mean of several of its models has the size of one."""
    return isinstance(ranker, LowRankRanker) and not ranker.scale_documents and ranker.normalise is None


def told_candidate(candidate: Candidate) -> dict[str, Any]:
    drawn = {"worse by popularity": candidate.popular} if candidate.popular else {}
    return {"ranker": candidate.name, **candidate.setting, **drawn}


def _told(ranker: TermPairRanker, n_steps: int) -> dict[str, Any]:
    """What a fitted ranker found out itself: how many preferences it took, and parameters that were left to it."""
    told: dict[str, Any] = {}
    if hasattr(ranker, "n_steps_") or isinstance(ranker, CorrelatedRanker):
        told["steps"] = n_steps
    for name, value in ranker.get_params(deep=False).items():
        own = getattr(ranker, f"{name}_", None)
        if own is not None and own != value and isinstance(own, int | float | str):
            told[f"{name} found"] = own
    return told
