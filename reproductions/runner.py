"""Run every job of a plan on the available data sets; cached results let a stopped run go on."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import threadpoolctl  # type: ignore[import-untyped]

import tercet
from reproductions.datasets import data_settings, load_dataset, source_digest, with_data_found
from reproductions.folds import FoldTask
from reproductions.links import PreferenceTask
from reproductions.plan import Method, Plan, Quick, quick_plan
from reproductions.results import PaperResults
from reproductions.row_jobs import run_row_job
from reproductions.term_jobs import FittedMethod, fit_method, measure_models, run_curve
from tercet.errors import BundleError, InputError, MissingDataError, TercetError
from tercet.store import canonical_bytes, read_bundle, write_bundle, write_file_atomically
from tercet.weights import Weights

Facts = dict[tuple[str, str], dict[str, Any]]  # (data set, method) -> facts of the first seed
_load = lru_cache(maxsize=3)(load_dataset)
# Fields of a method without influence on its numbers, or in other entries of the settings.
_DESCRIPTION = ("title", "note", "slow", "seeds", "datasets", "quick", "parameters", "by_dataset", "models")


# -- jobs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One method on one task with one seed; with ``curves``, the curve of the method."""

    dataset: str
    method: str
    seed: int = 0
    fold: int = 0
    curves: str = ""


def plan_jobs(plan: Plan, n_tasks: dict[str, int]) -> list[Job]:
    """All jobs on data sets that are present: slow methods first, then the first seed of every method."""
    pairs = [(method, name) for method in plan.methods for name in plan.datasets_of(method) if name in n_tasks]
    jobs = [
        Job(dataset, method.key, seed, fold)
        for method, dataset in pairs
        for seed in range(plan.n_seeds(method))
        for fold in range(n_tasks[dataset])
    ]
    jobs += [
        Job(dataset, key, curves=curves.key)
        for curves in plan.curves
        for dataset in curves.datasets
        if dataset in n_tasks
        for key in curves.methods
    ]
    order = list(n_tasks)
    return sorted(jobs, key=lambda job: (not plan.method(job.method).slow, job.seed, order.index(job.dataset)))


def needs(plan: Plan, job: Job) -> list[Job]:
    """Jobs whose facts or weights this job uses. On rows, every job chooses for itself."""
    method = plan.method(job.method)
    if plan.datasets[job.dataset].task == "rows":
        return []
    # A curve takes the parameters of the first seed, unless the method has nothing but a curve.
    is_later = plan.n_seeds(method) > 0 if job.curves else job.seed > 0
    needed = [Job(job.dataset, method.key)] if is_later and (method.choose or method.reuse) else []
    if method.chosen_by is not None:
        needed.append(Job(method.chosen_by.dataset or job.dataset, method.chosen_by.method))
    # A blend fits components itself that have fewer seeds.
    components = [plan.method_of(model) for model in method.blend]
    return needed + [Job(job.dataset, part.key, job.seed) for part in components if job.seed < plan.n_seeds(part)]


def parameters_for(method: Method, job: Job, facts: Facts) -> dict[str, Any]:
    """Return the parameters of a job: from the plan, another method's choice, and the first seed."""
    parameters = method.parameters_for(job.dataset)
    if method.chosen_by is not None:
        parameters |= facts[method.chosen_by.dataset or job.dataset, method.chosen_by.method]["chosen"]
    own = facts.get((job.dataset, method.key))
    if own is None or (job.seed == 0 and not job.curves):
        return parameters
    for searched, reused in method.reuse.items():
        if searched in parameters:
            del parameters[searched]
            parameters[reused] = own[f"{reused}_"]
    return parameters | own.get("chosen", {})


# -- one worker -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job: a result, or the reason why there is none."""

    result: dict[str, Any] | None = None
    seconds: float | None = None  # None for a cached result
    failed: str = ""


@dataclass(frozen=True)
class Worker:
    """Run jobs one after the other, in this process or in a worker process."""

    plan: Plan
    data_home: Path
    cache: Path
    quick: Quick | None = None
    device: str = "cpu"

    def data(self, dataset: str) -> Any:
        """A data set of the plan; three are kept in memory."""
        return _load(self.plan.datasets[dataset], self.data_home, self.quick, self.cache / "data")

    def run(self, job: Job, facts: Facts) -> Outcome:
        """Return the cached result, or do the job and cache its result."""
        path = self._path(job, facts).with_suffix(".json")
        started = time.perf_counter()
        if path.exists():
            return Outcome(json.loads(path.read_bytes()))
        try:
            result = self._do(job, facts)
        except (TercetError, MemoryError) as error:  # the other jobs go on
            return Outcome(failed=str(error) or type(error).__name__)
        seconds = time.perf_counter() - started
        data = canonical_bytes(result | {"took": seconds})
        self.cache.mkdir(parents=True, exist_ok=True)
        write_file_atomically(path, data)
        return Outcome(json.loads(data), seconds)  # the same values as a later run reads

    def _path(self, job: Job, facts: Facts) -> Path:
        """File name in the cache, with a digest of everything that decides the result of a job."""
        settings = canonical_bytes(self._settings(job, facts))
        name = f"{job.dataset}-{job.method}-{job.curves or job.seed}-{job.fold}"
        return self.cache / f"{name}-{hashlib.sha256(settings).hexdigest()[:16]}"

    def _settings(self, job: Job, facts: Facts) -> dict[str, Any]:
        plan, method = self.plan, self.plan.method(job.method)
        return {
            "job": asdict(job),
            "method": {name: value for name, value in asdict(method).items() if name not in _DESCRIPTION},
            "models": [[model.key, model.weights, model.thin] for model in method.all_models()],
            "parameters": parameters_for(method, job, facts),
            "curves": [asdict(curves) for curves in plan.curves if curves.key == job.curves],
            "measures": [plan.name_of(key) for key in plan.measures_of(job.dataset)],
            "measured": [plan.test_preferences, plan.choose_by, {words.model: words.printed for words in plan.words}],
            "components": [
                self._settings(Job(job.dataset, plan.method_of(model).key, job.seed), facts) for model in method.blend
            ],
            "data": data_settings(plan.datasets[job.dataset], self.quick),
            "device": self.device,
            "source": source_digest(),
        }

    def _do(self, job: Job, facts: Facts) -> dict[str, Any]:
        plan, method = self.plan, self.plan.method(job.method)
        task = self.data(job.dataset).tasks[job.fold]
        if isinstance(task, FoldTask):
            return run_row_job(plan, method, job.dataset, task, job.seed)
        with on_device(self.device):
            if job.curves:
                [curves] = [curves for curves in plan.curves if curves.key == job.curves]
                return run_curve(curves, method, parameters_for(method, job, facts), task)
            fitted = self._fit(job, task, facts)
            self._save_components(job, fitted, facts)
            return measure_models(plan, method, job.dataset, job.seed, task, fitted)

    def _fit(self, job: Job, task: PreferenceTask, facts: Facts) -> FittedMethod:
        method = self.plan.method(job.method)

        def component(model: str) -> Weights:
            """Return the weights of a blended model, fitted again if not cached."""
            part = Job(job.dataset, self.plan.method_of(model).key, job.seed)
            try:
                bundle = read_bundle(self._path(part, facts) / model, kind="weights")
                return Weights.from_state(bundle.meta, bundle.arrays)
            except BundleError:
                return self._fit(part, task, facts).match(self.plan.model(model)).weights

        return fit_method(method, task, parameters_for(method, job, facts), job.seed, component)

    def _save_components(self, job: Job, fitted: FittedMethod, facts: Facts) -> None:
        """Keep the weights that blends are made of."""
        blended = {model for other in self.plan.methods for model in other.blend}
        for model in (model for model in self.plan.method(job.method).all_models() if model.key in blended):
            meta, arrays = fitted.match(model).weights.to_state()
            folder = self._path(job, facts)
            folder.mkdir(parents=True, exist_ok=True)
            write_bundle(folder / model.key, kind="weights", meta=meta, arrays=arrays)


def on_device(name: str) -> AbstractContextManager[str]:
    """Learn word pairs on a GPU within the block, if possible; yield the name of the GPU."""
    if name == "cpu":
        return nullcontext("")
    from tercet.gpu import device

    return device(name)


# -- all jobs ---------------------------------------------------------------------------------------------------------


def reproduce(
    plan: Plan,
    data_home: Path,
    output: Path,
    *,
    tell: Callable[[str], object] = print,
    quick: bool = False,
    jobs: int = 1,
    device: str = "cpu",
) -> PaperResults:
    """Run a plan; results are cached in ``output/cache``. Takes minutes to hours; SIGINT stops it, and it can go on.

    Parameters
    ----------
    plan : plan to run
    data_home : folder with the data sets; a missing data set is skipped
    tell : called with a line about every finished job
    quick : little of everything, to see that everything works
    jobs : processes of one thread each; their number does not change the results
    device : "cpu" or "cuda", for rankers of word pairs; a GPU has cached results of its own
    """
    started = time.perf_counter()
    with on_device(device) as gpu:  # fails here without a GPU, and not in every job
        device = device if gpu else "cpu"
    limits = plan.quick if quick else None
    plan = quick_plan(plan) if quick else plan
    plan = with_data_found(plan, data_home, limits, output / "cache" / "data")
    results = PaperResults(plan, quick, tercet.__version__, gpu=gpu)
    worker = Worker(plan, data_home, output / "cache", limits, device)
    for name in plan.datasets:
        try:
            results.data[name] = worker.data(name).known()
        except MissingDataError as error:
            results.missing[name] = str(error).replace(f"{data_home}{os.sep}", "")
            tell(f"{plan.datasets[name].title} is skipped: {error}")
    if not results.data:
        missing = "; ".join(results.missing.values())
        raise InputError(f"none of the data sets is below {data_home}: {missing}. Give the folder by --data-home")
    pool = _open_pool(worker, jobs)
    try:
        with threadpoolctl.threadpool_limits(1):
            _run_all(worker, results, pool, tell, jobs)
    except BrokenProcessPool:
        raise InputError(
            "a worker process ended, as when memory runs out; finished jobs are cached. Run the command again, with "
            "fewer --jobs"
        ) from None
    finally:  # also on SIGINT: jobs that run are lost
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
    results.seconds = time.perf_counter() - started
    return results


def _run_all(
    worker: Worker, results: PaperResults, pool: Executor, tell: Callable[[str], object], n_at_once: int
) -> None:
    """Run the jobs in their order, each after the jobs that it needs, and collect their results."""
    plan = worker.plan
    jobs = plan_jobs(plan, {name: len(known.get("splits", [""])) for name, known in results.data.items()})
    waiting, running = list(jobs), dict[Future[Outcome], Job]()
    outcomes: dict[Job, Outcome] = {}

    def end(job: Job, outcome: Outcome) -> None:
        outcomes[job] = outcome
        how = outcome.failed or ("cached" if outcome.seconds is None else f"{outcome.seconds:.0f} s")
        tell(f"{len(outcomes)}/{len(jobs)} {title_of(results, job)}: {how}")

    while waiting or running:
        for job in list(waiting):
            needed = needs(plan, job)
            if len(running) < n_at_once and not any(need in waiting or need in running.values() for need in needed):
                waiting.remove(job)
                absent = [need for need in needed if need not in outcomes or outcomes[need].result is None]
                if absent:
                    reason = f"left out, since {title_of(results, absent[0])} failed or has not run"
                    end(job, Outcome(failed=reason))
                else:
                    running[pool.submit(_run_job, job, _facts_for(plan, job, outcomes))] = job
        for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
            end(running.pop(future), future.result())
    for job in jobs:
        outcome = outcomes[job]
        if outcome.result is not None and job.curves:
            results.curves[job.curves, job.dataset, job.method] = outcome.result
        elif outcome.result is not None:
            results.fits.setdefault((job.dataset, job.method, job.seed), []).append(outcome.result)
        else:
            results.failed.append(f"{title_of(results, job)}: {outcome.failed}")


def _facts_for(plan: Plan, job: Job, outcomes: dict[Job, Outcome]) -> Facts:
    """Facts that first seeds found for a job, and for the components of a blend."""
    facts: Facts = {}
    for need in [Job(job.dataset, job.method), *needs(plan, job)]:
        first = outcomes.get(Job(need.dataset, need.method))
        if first is not None and first.result is not None:
            facts[need.dataset, need.method] = first.result["facts"]
        if (need.dataset, need.method) != (job.dataset, job.method):
            facts |= _facts_for(plan, need, outcomes)
    return facts


def title_of(results: PaperResults, job: Job) -> str:
    """Data set, method, seed and fold of a job, for people."""
    plan, splits = results.plan, results.data.get(job.dataset, {}).get("splits", [""])
    parts = [plan.datasets[job.dataset].title, plan.method(job.method).title, job.curves or f"seed {job.seed}"]
    return ", ".join([*parts, *([splits[job.fold]] if splits[job.fold] else [])])


# -- processes --------------------------------------------------------------------------------------------------------


class InThisProcess(Executor):
    """Runs a job in this process when it is submitted."""

    def submit(self, run: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(run(*arguments, **named))
        return future


def _open_pool(worker: Worker, n: int) -> Executor:
    if n == 1:
        _workers[:] = [worker]
        return InThisProcess()
    _load.cache_clear()  # every process reads for itself
    context = multiprocessing.get_context("spawn")  # threads of BLAS and of Numba do not survive a fork
    return ProcessPoolExecutor(n, context, initializer=_start_process, initargs=(worker,))


_workers: list[Worker] = []  # the one of this process


def _start_process(worker: Worker) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends it
    _workers[:] = [worker]
    threadpoolctl.threadpool_limits(1)
    numba.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the parent process ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run_job(job: Job, facts: Facts) -> Outcome:
    [worker] = _workers
    return worker.run(job, facts)
