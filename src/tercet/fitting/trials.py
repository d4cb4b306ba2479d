"""Candidates trained on every fold, as many as there is time for, and on everything."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, MixtureSampler, Sampler
from tercet.fitting.options import FitOptions
from tercet.fitting.outcome import CurveRecorder
from tercet.fitting.prior import KnownWords
from tercet.fitting.rankers import MAX_LOW_RANK_STEPS, MAX_STEPS, Candidate, RankerChoice, candidates_of, n_steps_for
from tercet.fitting.task import KNOWN, Fold, Space, Task
from tercet.learn import CorrelatedRanker, LowRankRanker, LSIRanker, SampledSource, TermPairRanker
from tercet.learn.loop import Callback, LocalExecutor, current_executor
from tercet.learn.starts import latent_directions
from tercet.text import CorrelatedWords
from tercet.weights import Identity, LowRank, Weights

_MOST_TO_CHOOSE_ON: Final = 20_000  # preferences, for a ranker that learns nothing else from them
_POPULAR: Final = 0.5  # share of worse documents that are drawn as often as they are the better ones
_CACHED_WORDS: Final = 20_000  # whose factors are near at hand; those of more words are slower to reach
_WORK_OF_A_FIT: Final = 5e8  # beside its steps
# Work of all fits together without a budget, in numbers read and written by steps: some 20 seconds of one processor.
_WORK: Final = 1.2e11
_WORK_PER_SECOND: Final = 5e9


class FinalModel(NamedTuple):
    """Weights learned from everything, their word map if there is one, and a summary of the ranker."""

    weights: Weights
    words: CorrelatedWords | None
    summary: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trained:
    """One fold and the weights of every candidate without it, scaled to an identity of weight 1."""

    fold: Fold
    weights: list[Weights]


class Trials:
    """Training of candidates in one space: on each fold, and on everything.

    Jobs run in threads. Each has its own seed and arrays, so that the number of threads changes no bit.
    """

    def __init__(
        self,
        space: Space,
        task: Task,
        folds: Sequence[Fold],
        ranker: RankerChoice | None,
        how: FitOptions,
        random_state: int,
        known: KnownWords | None,
    ) -> None:
        self.space, self.task, self.how, self.seed, self.known = space, task, how, random_state, known
        self._work = _WORK if how.budget is None else how.budget * _WORK_PER_SECOND
        self._n_needed = 1 + sum(fold.case != KNOWN for fold in folds)  # folds without which cases are missing
        candidates = candidates_of(ranker, random_state, labelled=task.labelled)
        if known is not None:
            known.check(candidates)
        if how.columns is not None:
            first, n_steps = folds[0], self.n_steps(candidates[0])
            held_out = first.parts(space.Q, space.D)[0].held_out
            candidates = how.columns.candidates(space, candidates, first.sampler, held_out, n_steps, random_state)
        fitting = [one.fitting(space.D.shape, self.n_steps(one)) for one in candidates]
        self.members = [self._drawn(one) for one in self._suited(fitting)]
        self.candidates = [*self.members, *_means(self.members)]
        self.folds = folds[: self._affordable(len(folds))]
        self._directions: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._final: dict[Candidate, Future[tuple[Weights, TermPairRanker]]] = {}

    def run(self, curves: CurveRecorder) -> list[Trained]:
        """Train every candidate on every fold; few of them go on to learn from everything while a mix is chosen."""
        self._find_directions()
        n_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        is_local = isinstance(current_executor(), LocalExecutor)
        looks: list[list[Callback]] = [
            [curves.callback_for(one, self.n_steps(one, self.folds[0]))] for one in self.members
        ]
        pool = ThreadPoolExecutor(n_threads if is_local else 1)
        try:
            jobs = []
            for fold in self.folds:
                jobs.append(
                    [self._submit(pool, one, fold, look) for one, look in zip(self.members, looks, strict=True)]
                )
                looks = [[] for _ in self.members]
            if len(self.members) <= 2:
                self._final = {one: self._submit(pool, one, None, []) for one in self.members}
            self._wait([job for of_fold in jobs for job in of_fold])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown(wait=False)  # models of everything are learned while the mix is chosen
        trained = []
        for fold, of_fold in zip(self.folds, jobs, strict=True):
            found = {one: job.result()[0] for one, job in zip(self.members, of_fold, strict=True)}
            trained.append(Trained(fold, [_mean_of_units(one, found) for one in self.candidates]))
        return trained

    def learn(self, candidate: Candidate, blend: float) -> FinalModel:
        """Train a candidate on everything; the mean of two low-rank members gets the size of one."""
        found: dict[Candidate, Weights] = {}
        for member in candidate.members:
            job = self._final.get(member)
            found[member], ranker = self._train(member, None) if job is None else job.result()
        weights = _mean_of_units(candidate, found) * candidate.unit
        if candidate.mean_of and all(isinstance(one.ranker, LowRankRanker) for one in candidate.members):
            weights = weights.compressed(candidate.ranker.get_params()["n_components"])
        summary = {**candidate_summary(candidate), **_found_by(ranker, self.n_steps(candidate.members[0]))}
        words = ranker.words_ if isinstance(ranker, CorrelatedRanker) else None
        return FinalModel(weights + self.space.match * (blend * candidate.unit), words, summary)

    # -- plans -------------------------------------------------------------------------------------------------------

    def _suited(self, candidates: list[Candidate]) -> list[Candidate]:
        """Leave out candidates that keep documents in a space that knows nothing of them."""
        return [
            one
            for one in candidates
            if not one.keeps_documents
            or one.stated is None
            or (self.how.columns is None and one.ranker.get_params()["start"] != "random")
        ] or candidates

    def _drawn(self, candidate: Candidate) -> Candidate:
        """Decide how worse documents are drawn from judgements."""
        if self.how.columns is not None or not isinstance(self.task.sampler, JudgementSampler | MixtureSampler):
            return candidate
        if isinstance(candidate.ranker, LowRankRanker):
            # A V that stays cannot push documents down by heart, so that popular ones are the harder negatives.
            return replace(candidate, popular=1.0 if candidate.keeps_documents else _POPULAR)
        return replace(candidate, popular=_POPULAR)

    def n_steps(self, candidate: Candidate, fold: Fold | None = None) -> int:
        """Number of steps of a candidate, on a fold or on everything."""
        if self.how.n_steps is not None:
            return self.how.n_steps
        is_fast = isinstance(candidate.ranker, LowRankRanker)
        in_time = int(self._work / self._step(candidate) / (self._n_needed + 1))
        most = min(MAX_LOW_RANK_STEPS if is_fast else MAX_STEPS, in_time)
        size = self.task.n_judgements if fold is None else fold.size
        return n_steps_for(size, labelled=self.task.labelled, most=most)

    def _step(self, candidate: Candidate) -> float:
        """Work of a step."""
        n_words = [matrix.nnz / max(1, matrix.shape[0]) for matrix in (self.space.Q, self.space.D)]
        spread = np.clip(self.space.D.shape[1] / _CACHED_WORDS, 1.0, 4.0)
        return max(1.0, float(spread * candidate.work(*n_words)))

    def _affordable(self, n_folds: int) -> int:
        """Number of folds that there is time for."""
        cost = sum(self.n_steps(one) * self._step(one) + _WORK_OF_A_FIT for one in self.members)
        return int(np.clip(self._work / cost - 1, min(self._n_needed, n_folds), n_folds))

    # -- training ----------------------------------------------------------------------------------------------------

    def _submit(
        self, pool: ThreadPoolExecutor, candidate: Candidate, fold: Fold | None, callbacks: Sequence[Callback]
    ) -> Future[tuple[Weights, TermPairRanker]]:
        return pool.submit(copy_context().run, self._train, candidate, fold, callbacks)

    def _wait(self, jobs: Sequence[Future[Any]]) -> None:
        """Wait for jobs, with a line of progress after each if they take longer than a second."""
        began, is_shown = time.perf_counter(), self.how.verbose
        is_shown = sys.stderr.isatty() if is_shown is None else is_shown
        for number, job in enumerate(jobs, start=1):
            job.result()
            seconds = time.perf_counter() - began
            if is_shown and seconds > 1:
                print(f"learning: {number} of {len(jobs)} fits after {seconds:.0f} s", file=sys.stderr, flush=True)

    def _find_directions(self) -> None:
        """Decompose the documents once for all candidates that start from latent semantic indexing."""
        for one in self.members:
            ranker = one.ranker
            if isinstance(ranker, LowRankRanker) and ranker.start == "lsi" and not ranker.n_frequent and not self.known:
                n = ranker.n_components
                if n not in self._directions:
                    self._directions[n] = latent_directions(self.space.D, n, self.seed, None)

    def _train(
        self, candidate: Candidate, fold: Fold | None, callbacks: Sequence[Callback] = ()
    ) -> tuple[Weights, TermPairRanker]:
        space, n_steps = self.space, self.n_steps(candidate, fold)
        ranker = candidate.make(verbose=False)
        sampler: Sampler = self.task.sampler if fold is None else fold.sampler
        if isinstance(sampler, JudgementSampler | MixtureSampler):
            sampler = sampler.with_popular(candidate.popular)
        evidence: SampledSource | Preferences = SampledSource(sampler, n_steps, random_state=self.seed)
        if isinstance(getattr(ranker, "ranker", ranker), LSIRanker):  # has preferences only to choose its parameters by
            evidence = Preferences(*sampler.draw(np.random.default_rng(self.seed), _MOST_TO_CHOOSE_ON))
        if self.known is not None:
            return self.known.fit(ranker, space, evidence, candidate.unit, callbacks), ranker
        more: dict[str, Any] = {}
        if isinstance(ranker, LowRankRanker) and ranker.n_components in self._directions and ranker.start == "lsi":
            more["start"] = _from_directions(ranker, *self._directions[ranker.n_components])
        return ranker.fit(space.Q, evidence, space.D, callbacks=callbacks, **more).weights_, ranker


def _from_directions(ranker: LowRankRanker, size: NDArray[np.float64], directions: NDArray[np.float64]) -> Weights:
    """The weights that ``start="lsi"`` means, from directions that are known already."""
    weight = np.ones(size.size) if ranker.normalise else (ranker.identity_weight or 1.0) * size / size[0]
    U = np.ascontiguousarray((directions * np.sqrt(weight)).astype(np.float32))
    parts: list[Any] = [LowRank(query_factors=U, doc_factors=U)]
    if ranker.diagonal is not None:
        parts.append(Identity(n_terms=U.shape[0], scale=ranker.identity_weight))
    return Weights(parts)


def _means(members: Sequence[Candidate]) -> list[Candidate]:
    """Means of each low-rank candidate that learns documents with the first that keeps them."""
    low_rank = [one for one in members if one.name == "low-rank"]
    kept = [one for one in low_rank if one.keeps_documents]
    return [replace(one, mean_of=(one, kept[0])) for one in low_rank if kept and not one.keeps_documents]


def _mean_of_units(candidate: Candidate, found: dict[Candidate, Weights]) -> Weights:
    """The mean of the members' weights, each scaled to an identity of weight 1."""
    first, *others = (found[member] * (1 / member.unit) for member in candidate.members)
    return sum(others, first) * (1 / len(candidate.members)) if others else first


def candidate_summary(candidate: Candidate) -> dict[str, Any]:
    drawn = {"worse by popularity": candidate.popular} if candidate.popular else {}
    mean = {"mean with": "; ".join(one.label for one in candidate.mean_of[1:])} if candidate.mean_of else {}
    return {"ranker": candidate.name, **candidate.setting, **drawn, **mean}


def _found_by(ranker: TermPairRanker, n_steps: int) -> dict[str, Any]:
    """Steps of a fitted ranker, and parameters that were left to it."""
    summary: dict[str, Any] = {}
    if hasattr(ranker, "n_steps_") or isinstance(ranker, CorrelatedRanker):
        summary["steps"] = n_steps
    for name, value in ranker.get_params(deep=False).items():
        own = getattr(ranker, f"{name}_", None)
        if own is not None and own != value and isinstance(own, int | float | str):
            summary[f"{name} found"] = own
    return summary
