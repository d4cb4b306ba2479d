"""Run every job of a plan on the available data sets; cached results let a killed run continue."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numba
import threadpoolctl  # type: ignore[import-untyped]

import tercet
from reproductions.datasets import load_dataset, with_data_found
from reproductions.folds import FoldTask
from reproductions.links import PreferenceTask
from reproductions.plan import Method, Plan
from reproductions.plan_reading import quick_plan
from reproductions.results import PaperResults
from reproductions.row_jobs import RowJob
from reproductions.term_jobs import CurveJob, TermJob, curve_steps
from tercet.errors import BundleError, InputError, MissingDataError, MissingExtraError, TercetError
from tercet.store import canonical_bytes, read_bundle, write_bundle, write_file_atomically
from tercet.weights import Weights

Facts = dict[tuple[str, str], dict[str, Any]]  # (data set, method) -> facts of the first seed
_load = lru_cache(maxsize=3)(load_dataset)
# Fields of a method without influence on its numbers.
_DESCRIPTION = (
    *("title", "note", "last", "seeds", "datasets", "quick"),
    *("parameters", "by_dataset", "models", "chosen_by"),  # in other entries of the settings
)


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
    """All jobs on data sets that are present: the first seed of every method first, slow methods last."""
    methods = [(method, dataset) for method in plan.methods for dataset in plan.datasets_of(method)]
    jobs = [
        Job(dataset, method.key, seed, fold)
        for method, dataset in methods
        if dataset in n_tasks
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
    return sorted(jobs, key=lambda job: (job.seed, plan.method(job.method).last, order.index(job.dataset)))


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
    is_cached: bool = False
    seconds: float = 0.0
    failed: str = ""
    lacks: str = ""  # the package that the method needs


@dataclass(frozen=True)
class Worker:
    """Run jobs one after the other, in this process or in a worker process."""

    plan: Plan
    data_home: Path
    cache: Path
    quick: bool = False
    device: str = "cpu"

    def data(self, dataset: str) -> Any:
        """A data set of the plan; three are kept in memory."""
        return _load(self.plan.datasets[dataset], self.data_home, self.plan.quick if self.quick else None)

    def run(self, job: Job, facts: Facts) -> Outcome:
        """Return the cached result, or do the job and cache its result."""
        settings = self.settings(job, facts)
        path = self._path(job, settings, ".json")
        started = time.perf_counter()
        try:
            cached = json.loads(path.read_bytes())["result"]
            return Outcome(cached, is_cached=True)
        except (OSError, ValueError, KeyError):
            pass
        try:
            result = self._do(job, facts)
        except MissingExtraError as error:
            return Outcome(failed=str(error), lacks=error.lack)
        except (TercetError, MemoryError) as error:  # the other jobs go on
            return Outcome(failed=str(error) or type(error).__name__)
        seconds = time.perf_counter() - started
        data = canonical_bytes({"settings": settings, "result": result | {"took": seconds}})
        self.cache.mkdir(parents=True, exist_ok=True)
        write_file_atomically(path, data)
        return Outcome(json.loads(data)["result"], seconds=seconds)  # the same values as a later run reads

    def settings(self, job: Job, facts: Facts) -> dict[str, Any]:
        """Everything that decides the result of a job."""
        plan, method = self.plan, self.plan.method(job.method)
        of_measures = [plan.test_preferences, {words.model: words.printed for words in plan.words}]
        if plan.datasets[job.dataset].task == "rows":
            of_measures = [plan.name_of(key) for key in plan.measures_of(job.dataset)]
            of_measures += [plan.name_of(plan.chooses_by(method)), self._is_traced(job)]
        components = [Job(job.dataset, plan.method_of(model).key, job.seed) for model in method.blend]
        return {
            "job": asdict(job),
            "method": {name: value for name, value in asdict(method).items() if name not in _DESCRIPTION},
            "models": [[model.key, model.weights, model.thin] for model in method.all_models()],
            "parameters": parameters_for(method, job, facts),
            "curves": [asdict(curves) for curves in plan.curves if curves.key == job.curves],
            "measures": of_measures,
            "components": [self.settings(component, facts) for component in components],
            "data": self.data(job.dataset).digest,
            "device": self.device,
            "source": source_digest(),
        }

    def _path(self, job: Job, settings: dict[str, Any], end: str = "") -> Path:
        name = f"{job.dataset}-{job.method}-{job.curves or job.seed}-{job.fold}"
        return self.cache / f"{name}-{hashlib.sha256(canonical_bytes(settings)).hexdigest()[:16]}{end}"

    def _do(self, job: Job, facts: Facts) -> dict[str, Any]:
        task = self.data(job.dataset).tasks[job.fold]
        if isinstance(task, FoldTask):
            return self._row_job(job, task).run()
        with on_device(self.device):
            if job.curves:
                return self._curve_job(job, facts).run(task)
            term_job = self._term_job(job, facts)
            fitted = term_job.learn(task, lambda model: self._component(job, model, task, facts))
            self._save_components(job, term_job, fitted, facts)
            return term_job.measure(task, fitted)

    def _row_job(self, job: Job, fold: FoldTask) -> RowJob:
        plan, method = self.plan, self.plan.method(job.method)
        chooses_by = plan.chooses_by(method)
        return RowJob(
            method,
            fold,
            job.seed,
            method.parameters_for(job.dataset),
            choose_by=plan.name_of(chooses_by),
            measures=tuple(plan.name_of(key) for key in plan.measures_of(job.dataset)),
            higher_is_better=plan.measures[chooses_by].higher_is_better,
            traced=self._is_traced(job),
        )

    def _is_traced(self, job: Job) -> bool:
        """True if a table shows all settings of the job's grid."""
        own = {model.key for model in self.plan.method(job.method).all_models()}
        return any(shown.dataset == job.dataset and own & {*shown.models} for shown in self.plan.tradeoffs)

    def _term_job(self, job: Job, facts: Facts) -> TermJob:
        plan, method = self.plan, self.plan.method(job.method)
        own = {model.key for model in method.all_models()}
        lookups = [words for words in plan.words if words.dataset == job.dataset and words.model in own]
        return TermJob(
            method,
            job.seed,
            plan.test_preferences,
            parameters_for(method, job, facts),
            {words.model: tuple(words.printed) for words in lookups},
            from_map=tuple(words.model for words in lookups if words.of == "map"),
        )

    def _curve_job(self, job: Job, facts: Facts) -> CurveJob:
        method = self.plan.method(job.method)
        [curves] = [curves for curves in self.plan.curves if curves.key == job.curves]
        steps = curve_steps(curves.first, method.preferences, curves.points)
        parameters = parameters_for(method, job, facts)
        return CurveJob(method, curves.test_preferences, parameters, steps, curves.second_measure)

    # Weights that blends are made of are kept until the end of a run.

    def _component(self, job: Job, model: str, task: PreferenceTask, facts: Facts) -> Weights:
        """Return the weights of a blended model, fitted again if not cached."""
        part = Job(job.dataset, self.plan.method_of(model).key, job.seed)
        try:
            bundle = read_bundle(self._path(part, self.settings(part, facts)) / model, kind="weights")
            return Weights.from_state(bundle.meta, bundle.arrays)
        except BundleError:
            fitted = self._term_job(part, facts).learn(task, lambda other: self._component(part, other, task, facts))
            return fitted.match(self.plan.model(model)).weights

    def _save_components(self, job: Job, term_job: TermJob, fitted: Any, facts: Facts) -> None:
        blended = {model for other in self.plan.methods for model in other.blend}
        folder = self._path(job, self.settings(job, facts))
        for model in (model for model in term_job.method.all_models() if model.key in blended):
            meta, arrays = fitted.match(model).weights.to_state()
            folder.mkdir(parents=True, exist_ok=True)
            write_bundle(folder / model.key, kind="weights", meta=meta, arrays=arrays)


def on_device(name: str) -> AbstractContextManager[str]:
    """Learn word pairs on a GPU within the block, if possible; yield the name of the GPU."""
    if name == "cpu":
        return nullcontext("")
    from tercet.gpu import device

    return device(name)


@cache
def source_digest() -> str:
    """Digest of all source files of tercet and of the reproductions: other code, other results."""
    digest = hashlib.sha256()
    for folder in (Path(tercet.__file__).parent, Path(__file__).parent):
        for file in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
            if "tests" not in file.relative_to(folder).parts:
                digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


# -- all jobs ---------------------------------------------------------------------------------------------------------


def reproduce(
    plan: Plan,
    data_home: Path,
    output: Path,
    *,
    tell: Callable[[str], object] = print,
    quick: bool = False,
    only: tuple[str, ...] = (),
    jobs: int = 1,
    device: str = "cpu",
) -> PaperResults:
    """Run a plan; results are cached in ``output/cache``. Takes minutes to hours.

    Parameters
    ----------
    plan : plan to run
    data_home : folder with the data sets; a missing data set is skipped
    tell : called with a line about every finished job
    quick : little of everything, to see that everything works
    only : keys of data sets; all when empty
    jobs : processes of one thread each; their number does not change the results
    device : "cpu" or "cuda", for rankers of word pairs; a GPU has cached results of its own
    """
    for name in only:
        if name not in plan.datasets:
            raise InputError(f"no data set {name!r} in {plan.paper.key}; known: {', '.join(plan.datasets)}")
    started = time.perf_counter()
    with on_device(device) as gpu:  # fails here without a GPU, and not in every job
        device = device if gpu else "cpu"
    plan = with_data_found(plan, data_home)
    plan = quick_plan(plan) if quick else plan
    results = PaperResults(plan, quick, tercet.__version__, gpu=gpu)
    worker = Worker(plan, data_home, output / "cache", quick, device)
    for name in (name for name in plan.datasets if name in only or not only):
        try:
            results.data[name] = worker.data(name).known()
        except MissingDataError as error:
            results.missing[name] = str(error).replace(f"{data_home}{os.sep}", "")
            tell(f"{plan.datasets[name].title} is skipped: {error}")
    if not results.data:
        missing = "; ".join(results.missing.values())
        raise InputError(f"none of the data sets is below {data_home}: {missing}. Give the folder by --data-home")
    with threadpoolctl.threadpool_limits(1), _open_pool(worker, jobs) as pool:
        try:
            _run_all(worker, results, pool, jobs, tell)
        except BrokenProcessPool:
            raise InputError(
                "a worker process ended, as when memory runs out; finished jobs are cached. Run the command again, "
                "with fewer --jobs"
            ) from None
    for folder in worker.cache.glob("*/"):  # components of blends
        shutil.rmtree(folder)
    results.seconds = time.perf_counter() - started
    return results


def _run_all(worker: Worker, results: PaperResults, pool: Executor, n: int, tell: Callable[[str], object]) -> None:
    """Submit every job once its needs are met, at most ``n`` at a time."""
    plan = worker.plan
    jobs = plan_jobs(plan, {name: len(known.get("splits", [""])) for name, known in results.data.items()})
    waiting, running = list(jobs), dict[Future[Outcome], Job]()
    outcomes: dict[Job, Outcome] = {}

    def end(job: Job, outcome: Outcome) -> None:
        outcomes[job] = outcome
        how = "cached" if outcome.is_cached else f"{outcome.seconds:.0f} s"
        tell(f"{len(outcomes)}/{len(jobs)} {title_of(results, job)}: {outcome.failed or how}")

    while waiting or running:
        for job in list(waiting):
            if len(running) >= n:
                break
            needed = needs(plan, job)
            if any(need in waiting or need in running.values() for need in needed):
                continue
            waiting.remove(job)
            absent = [need for need in needed if need not in outcomes or outcomes[need].result is None]
            if absent:
                end(job, Outcome(failed=f"left out, since {title_of(results, absent[0])} failed or has not run"))
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
        elif outcome.lacks:
            results.unavailable[job.method] = outcome.lacks
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


def _open_pool(worker: Worker, n: int) -> Executor:
    if n == 1:
        _workers[:] = [worker]
        return SerialPool()
    _load.cache_clear()  # every process reads for itself
    context = multiprocessing.get_context("spawn")  # threads of BLAS and of Numba do not survive a fork
    return ProcessPoolExecutor(n, context, initializer=_start_process, initargs=(worker,))


class SerialPool(Executor):
    """Runs a job in this process when it is submitted."""

    def submit(self, run: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(run(*arguments, **named))
        return future


_workers: list[Worker] = []  # the one of this process


def _start_process(worker: Worker) -> None:
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
