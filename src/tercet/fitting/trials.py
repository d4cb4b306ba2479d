"""Train candidates on folds, as time allows, and on all evidence."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.base import clone

from tercet.data.preferences import Preferences
from tercet.data.sampling import JudgementSampler, MixtureSampler
from tercet.fitting.options import FitOptions
from tercet.fitting.rankers import Candidate, RankerChoice, candidates_of, n_steps_for
from tercet.fitting.task import KNOWN, Fold, Space, Task
from tercet.learn import SampledSource, TermPairRanker
from tercet.learn.loop import LocalExecutor, current_executor
from tercet.learn.starts import shared_arguments
from tercet.weights import Weights

_MOST_TO_CHOOSE_ON: Final = 20_000  # preferences for a ranker with parameters chosen on preferences
_POPULAR: Final = 0.5  # share of worse documents drawn by their frequency as better documents
_CACHED_WORDS: Final = 20_000  # words with factors in the processor's cache
_WORK_OF_A_FIT: Final = 5e8  # fixed work of a fit, besides the steps
# Work of all fits without a budget, in numbers read and written by steps: about 20 seconds of a processor.
_WORK: Final = 1.2e11
_WORK_PER_SECOND: Final = 5e9


class _ThisThread(Executor):
    """Run each job at once, in the thread of the caller, under the caller's executor of steps."""

    def submit(self, job: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(job(*args, **options))
        return future


class Trained(NamedTuple):
    """A fold, and the weights of every candidate learned without the fold, scaled to an identity of weight 1."""

    fold: Fold
    weights: list[Weights]


class Trials:
    """Training of candidates in a space: on each fold, and on all evidence.

    Jobs run in threads. Each job has its own seed and arrays: the number of threads changes no bit.

    Attributes
    ----------
    members : candidates to train
    candidates : members, and means of two members
    folds : folds to train on, as time allows
    """

    def __init__(
        self,
        space: Space,
        task: Task,
        folds: Sequence[Fold],
        ranker: RankerChoice | None,
        how: FitOptions,
        random_state: int,
    ) -> None:
        self.space, self.task, self.how, self.seed = space, task, how, random_state
        self._work = _WORK if how.budget is None else how.budget * _WORK_PER_SECOND
        self._n_needed = 1 + sum(fold.case != KNOWN for fold in folds)  # folds needed to measure every case
        candidates = candidates_of(ranker, random_state, labeled=task.labeled)
        if how.columns is None:
            candidates = [candidate.fitting(space.D.shape, self.n_steps(candidate)) for candidate in candidates]
            self.members = [self._with_negatives(candidate) for candidate in _suited(candidates)]
        else:
            n_steps = self.n_steps(candidates[0])
            self.members = how.columns.candidates(space, candidates, folds[0], n_steps, random_state)
        self.candidates = [*self.members, *_means(self.members)]
        cost = sum(self.n_steps(member) * self._cost_per_step(member) + _WORK_OF_A_FIT for member in self.members)
        n_folds = np.clip(self._work / cost - 1, min(self._n_needed, len(folds)), len(folds))
        self.folds = folds[: int(n_folds)]
        self._shared: dict[Candidate, dict[str, Any]] = {}
        self._final: dict[Candidate, Future[TermPairRanker]] = {}

    def run(self) -> list[Trained]:
        """Train every candidate on every fold; one or two candidates also start on all evidence, in the background."""
        began, is_shown = time.perf_counter(), self.how.verbose
        is_shown = sys.stderr.isatty() if is_shown is None else is_shown
        shared = shared_arguments([member.ranker for member in self.members], self.space.D)
        self._shared = dict(zip(self.members, shared, strict=True))
        n_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        is_local = isinstance(current_executor(), LocalExecutor)
        pool: Executor = ThreadPoolExecutor(n_threads) if is_local else _ThisThread()
        try:
            jobs = [{member: self._submit(pool, member, fold) for member in self.members} for fold in self.folds]
            if len(self.members) <= 2:
                self._final = {member: self._submit(pool, member, None) for member in self.members}
            for number, job in enumerate((job for of_fold in jobs for job in of_fold.values()), start=1):
                job.result()
                seconds = time.perf_counter() - began
                if is_shown and seconds > 1:
                    n_jobs = len(jobs) * len(self.members)
                    print(f"learning: {number} of {n_jobs} fits after {seconds:.0f} s", file=sys.stderr, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown(wait=False)  # fits on all evidence go on while the mix is chosen
        trained = []
        for fold, of_fold in zip(self.folds, jobs, strict=True):
            learned = {member: job.result().weights_ for member, job in of_fold.items()}
            trained.append(Trained(fold, [_mean_of_units(candidate, learned) for candidate in self.candidates]))
        return trained

    def learn(self, candidate: Candidate, blend: float) -> tuple[Weights, dict[str, Any]]:
        """Return the weights learned from all evidence, and a summary; a mean has the size of a member."""
        learned: dict[Candidate, Weights] = {}
        for member in candidate.members:
            job = self._final.get(member) or self._submit(_ThisThread(), member, None)
            ranker = job.result()
            learned[member] = ranker.weights_
        weights = _mean_of_units(candidate, learned) * candidate.unit
        summary: dict[str, Any] = {"ranker": candidate.name, **candidate.setting}
        if candidate.popular:
            summary["worse by popularity"] = candidate.popular
        if candidate.mean_of:
            weights = weights.compressed(candidate.setting["n_components"])
            summary["mean with"] = "; ".join(member.label for member in candidate.mean_of[1:])
        if hasattr(ranker, "n_steps_"):
            summary["steps"] = self.n_steps(candidate)
        for name, value in ranker.get_params(deep=False).items():  # parameters chosen by the ranker
            fitted = getattr(ranker, f"{name}_", None)
            if fitted is not None and fitted != value and isinstance(fitted, int | float | str):
                summary[f"{name} found"] = fitted
        return weights + self.space.match * (blend * candidate.unit), summary

    def n_steps(self, candidate: Candidate, fold: Fold | None = None) -> int:
        """Number of steps of a candidate, on a fold or on everything."""
        if self.how.n_steps is not None:
            return self.how.n_steps
        in_time = int(self._work / self._cost_per_step(candidate) / (self._n_needed + 1))
        size = self.task.size if fold is None else fold.size
        return n_steps_for(size, labeled=self.task.labeled, most=min(candidate.ranker.most_steps, in_time))

    def _cost_per_step(self, candidate: Candidate) -> float:
        n_words = [matrix.nnz / max(1, matrix.shape[0]) for matrix in (self.space.Q, self.space.D)]
        spread = np.clip(self.space.D.shape[1] / _CACHED_WORDS, 1.0, 4.0)
        return max(1.0, float(spread * candidate.ranker.cost_per_step(*n_words)))

    def _with_negatives(self, candidate: Candidate) -> Candidate:
        """Decide how worse documents are drawn from judgements."""
        if not isinstance(self.task.sampler, JudgementSampler | MixtureSampler):
            return candidate
        # A fixed V cannot push single documents down: popular documents are the harder negatives.
        return replace(candidate, popular=1.0 if candidate.ranker.keeps_documents else _POPULAR)

    def _submit(self, pool: Executor, candidate: Candidate, fold: Fold | None) -> Future[TermPairRanker]:
        """Train a candidate on a fold, or on everything, as a job of the pool."""
        space = self.space
        ranker = clone(candidate.ranker)
        ranker.set_params(**{name: False for name in ranker.get_params() if name.endswith("verbose")})
        sampler = self.task.sampler if fold is None else fold.sampler
        if isinstance(sampler, JudgementSampler | MixtureSampler):
            sampler = sampler.with_popular(candidate.popular)
        evidence: SampledSource | Preferences = SampledSource(
            sampler, self.n_steps(candidate, fold), random_state=self.seed
        )
        if not ranker.takes_sources:
            evidence = Preferences(*sampler.draw(np.random.default_rng(self.seed), _MOST_TO_CHOOSE_ON))
        return pool.submit(ranker.fit, space.Q, evidence, space.D, **self._shared.get(candidate, {}))


def _suited(candidates: list[Candidate]) -> list[Candidate]:
    """Drop named candidates with fixed random document factors, unless no candidate is left."""
    return [
        candidate
        for candidate in candidates
        if candidate.stated is None
        or not candidate.ranker.keeps_documents
        or candidate.ranker.get_params()["start"] != "random"
    ] or candidates


def _means(members: Sequence[Candidate]) -> list[Candidate]:
    """Mean of each low-rank candidate with learned document factors and the first with fixed document factors."""
    low_rank = [member for member in members if member.name == "low-rank"]
    keeping_documents = [member for member in low_rank if member.ranker.keeps_documents]
    return [
        replace(member, mean_of=(member, keeping_documents[0]))
        for member in low_rank
        if keeping_documents and not member.ranker.keeps_documents
    ]


def _mean_of_units(candidate: Candidate, learned: dict[Candidate, Weights]) -> Weights:
    """Mean of the weights of the members, each scaled to an identity of weight 1."""
    first, *rest = (learned[member] * (1 / member.unit) for member in candidate.members)
    return sum(rest, first) * (1 / len(candidate.members)) if rest else first
