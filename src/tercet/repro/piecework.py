"""Doing one piece of a plan: read its data set, find it in the cells, or learn, measure and keep it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tercet.errors import MissingDataError, MissingExtraError, TercetError
from tercet.fitting.rankers import OF_ROWS, OF_WORDS
from tercet.gpu import device as learning_there
from tercet.repro.cache import CellCache, CellSetting, ComponentStore, RunDeadline
from tercet.repro.cost_jobs import cost_jobs
from tercet.repro.datasets import DataSet, load_dataset
from tercet.repro.folds import FoldTask
from tercet.repro.pieces import CostPiece, CurvePiece, MethodPiece, Piece, blends_of
from tercet.repro.plan import Method, Plan
from tercet.repro.row_jobs import RowJob
from tercet.repro.tasks import PreferenceTask
from tercet.repro.term_jobs import CurveJob, FittedMethod, TermJob, curve_steps
from tercet.weights import Weights

Found = dict[tuple[str, str], dict[str, Any]]  # (data set, method) -> facts of its first seed
MOST_DATA_SETS = 3  # that a process keeps when it can ask for them again


@dataclass(frozen=True)
class Request:
    """A data set to read, or a piece to do with what others found for it."""

    dataset: str
    piece: Piece | None = None
    found: Found = field(default_factory=dict)
    tested: bool = False  # whether the queries of the test preferences are wanted, too


@dataclass(frozen=True)
class Answer:
    """What became of a request: a result, or words why there is none.

    Attributes
    ----------
    result, kept, seconds : of a piece, whether it was there already, and how long it took
    tested : the query of each test preference
    known : what results say of a data set
    missing, unavailable, failed : a data set that is not there; a package that is not; what went wrong
    """

    result: dict[str, Any] | None = None
    kept: bool = False
    seconds: float = 0.0
    tested: NDArray[Any] | None = None
    known: dict[str, Any] | None = None
    missing: str = ""
    unavailable: tuple[str, str] | None = None  # without and with the command that installs it
    failed: str = ""


@dataclass
class PieceWorker:
    """Does pieces one after the other; the same in this process and in others.

    ``data`` are the data sets at hand. Where ``n_kept`` is set only so many stay, those used last. Of what learns word
    pairs, what ``device`` can learn is learned there.
    """

    plan: Plan
    data_home: Path
    output: Path
    quick: bool = False
    fresh: bool = False
    deadline: RunDeadline = field(default_factory=RunDeadline)
    n_jobs: int = 1
    device: str = "cpu"
    n_kept: int | None = None
    data: OrderedDict[str, DataSet] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.cells = CellCache(self.output / "cells", self.fresh)
        self.components = ComponentStore(self.output / "components")

    # -- data -------------------------------------------------------------------------------------------------------

    def load(self, dataset: str) -> Answer:
        """Read a data set."""
        try:
            loaded = load_dataset(self.plan.datasets[dataset], self.data_home, self.plan.quick if self.quick else None)
        except MissingDataError as error:
            return Answer(missing=str(error))
        except TercetError as error:  # a file that is there and cannot be read
            return Answer(failed=str(error))
        self.keep(dataset, loaded)
        return Answer(known=loaded.known())

    def keep(self, dataset: str, loaded: DataSet) -> None:
        """Have a data set at hand."""
        self.data[dataset] = loaded
        self.data.move_to_end(dataset)
        while self.n_kept is not None and len(self.data) > self.n_kept:
            self.data.popitem(last=False)

    # -- pieces -----------------------------------------------------------------------------------------------------

    def do(self, request: Request) -> Answer:
        """Do what is asked for; what goes wrong with one piece is said, not raised."""
        if request.piece is None:
            return self.load(request.dataset)
        started = time.monotonic()
        try:
            cell, work = self._prepared(request.piece, request.found)
            result, kept = self.cells.get(cell, lambda: self._timed(work))
        except MissingExtraError as error:
            return Answer(unavailable=(error.lack, str(error)))
        except (TercetError, MemoryError) as error:  # of one piece; the others go on
            return Answer(failed=str(error) or type(error).__name__)
        tested = None
        if request.tested and isinstance(request.piece, MethodPiece):
            task = self._task(request.piece)
            assert isinstance(task, PreferenceTask)
            tested = task.test(self.plan.test_preferences, request.piece.seed).query
        return Answer(result, kept, time.monotonic() - started, tested)

    def _timed(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result with what it took; nothing when the time is over."""
        if self.deadline.is_over:
            return {"cut": True, "left out": True}
        started = time.perf_counter()
        try:
            result = work()
        except TercetError:
            if not self.deadline.is_over:
                raise
            return {"cut": True, "left out": True}  # a search that was cut may have come to nothing
        parts = result.pop("took", {})
        return result | {"took": {"all": time.perf_counter() - started, "jobs": self.n_jobs} | parts}

    def _task(self, piece: MethodPiece | CurvePiece) -> Any:
        self.data.move_to_end(piece.dataset)
        return self.data[piece.dataset].tasks[piece.fold if isinstance(piece, MethodPiece) else 0]

    def _prepared(self, piece: Piece, found: Found) -> tuple[CellSetting, Callable[[], dict[str, Any]]]:
        """The cell of a piece, and what fills it."""
        if isinstance(piece, CostPiece):
            cost = list(cost_jobs(self.plan))[piece.number]
            modules = ("tercet.repro.cost_jobs", OF_ROWS[cost.cost.ranker].__module__)
            return CellSetting(cost.key, cost.setting(), modules), cost.run
        task = self._task(piece)
        method = self.plan.method(piece.method)
        if isinstance(task, FoldTask):
            assert isinstance(piece, MethodPiece)
            return self._rows(piece, method, task)
        if isinstance(piece, CurvePiece):
            cell, work = self._curve(piece, method, task, found)
        else:
            job = self._term_job(piece.dataset, method, piece.seed, found)
            cell, work = self._term_cell(job), lambda: job.measure(task, self._fit(job, task))

        def there() -> dict[str, Any]:
            with learning_there(self.device):
                return work()

        return cell, there

    # -- rows -------------------------------------------------------------------------------------------------------

    def _rows(
        self, piece: MethodPiece, method: Method, fold: FoldTask
    ) -> tuple[CellSetting, Callable[[], dict[str, Any]]]:
        plan, dataset = self.plan, piece.dataset
        own = {model.key for model in method.all_models()}
        chooses_by = plan.chooses_by(method)
        job = RowJob(
            method,
            fold,
            piece.seed,
            method.parameters_for(dataset),
            choose_by=plan.name_of(chooses_by),
            measures=tuple(plan.name_of(key) for key in plan.measures_of(dataset)),
            higher_is_better=plan.measures[chooses_by].higher_is_better,
            traced=any(drawn.dataset == dataset and own & {*drawn.models} for drawn in plan.of_grids),
        )
        name = f"{dataset}-{method.key}-{piece.seed}" + (f"-{fold.name}" if fold.name else "")
        modules = ("tercet.repro.row_jobs", "tercet.repro.folds", OF_ROWS[method.ranker].__module__)
        cell = CellSetting(name, job.setting(self.data[dataset].digest), modules)
        return cell, lambda: job.run(self.deadline)

    # -- classes and links ------------------------------------------------------------------------------------------

    def _term_job(self, dataset: str, method: Method, seed: int, found: Found) -> TermJob:
        plan, own = self.plan, {model.key for model in method.all_models()}
        lookups = [words for words in plan.words if words.dataset == dataset and words.model in own]
        return TermJob(
            method,
            dataset,
            seed,
            plan.test_preferences,
            parameters_found(method, dataset, found, is_first=seed == 0),
            {words.model: tuple(words.printed) for words in lookups},
            chooses=seed == 0,
            components=tuple(self._term_job(dataset, plan.method_of(key), seed, found) for key in method.blend),
            from_map=tuple(words.model for words in lookups if words.of == "map"),
            known=found.get((dataset, method.key), {}).get("chosen"),
        )

    def _term_cell(self, job: TermJob) -> CellSetting:
        name = f"{job.dataset}-{job.method.key}-{job.seed}"
        return self._placed(CellSetting(name, job.setting(self.data[job.dataset].digest), term_modules(job)))

    def _placed(self, cell: CellSetting) -> CellSetting:
        """The cell of what is learned on this worker's device: a card draws and rounds otherwise than a CPU."""
        if self.device == "cpu":
            return cell
        return replace(cell, values=cell.values | {"device": self.device}, modules=(*cell.modules, "tercet.gpu"))

    def _fit(self, job: TermJob, task: PreferenceTask) -> FittedMethod:
        """Learn, and keep what blends are made of."""
        parts = dict(zip(job.method.blend, job.components, strict=True))
        was_cut = False

        def component(model: str) -> Weights:
            nonlocal was_cut
            weights = self.components.read(self._term_cell(parts[model]), model)
            if weights is None:  # its cell was kept, and these are gone since
                fitted = self._fit(parts[model], task)
                was_cut |= fitted.cut
                weights = fitted.match(self.plan.model(model)).weights
            return weights

        fitted = job.learn(task, component, self.deadline)
        fitted.cut |= was_cut
        blended = {
            model
            for key in blends_of(self.plan, (job.dataset, job.method.key, job.seed))
            for model in self.plan.method(key[1]).blend
        }
        models = [model for model in job.method.all_models() if model.key in blended]
        if models and not fitted.cut:
            weights = {model.key: fitted.match(model).weights for model in models}
            self.components.write(self._term_cell(job), weights)
        return fitted

    def _curve(
        self, piece: CurvePiece, method: Method, task: PreferenceTask, found: Found
    ) -> tuple[CellSetting, Callable[[], dict[str, Any]]]:
        curves = next(curves for curves in self.plan.curves if curves.key == piece.curves)
        steps = curve_steps(curves.first, method.preferences, curves.points)
        parameters = parameters_found(method, piece.dataset, found, is_first=False)
        job = CurveJob(
            method, piece.dataset, 0, curves.test_preferences, parameters, steps, curves.beside, self.deadline
        )
        name = f"{piece.dataset}-{method.key}-{curves.key}"
        modules = (*_OF_WORDS, OF_WORDS[method.ranker].__module__)
        cell = CellSetting(name, job.setting(self.data[piece.dataset].digest), modules)
        return self._placed(cell), lambda: job.run(task)


_OF_WORDS = ("tercet.repro.term_jobs", "tercet.repro.tasks", "tercet.repro.links")


def term_modules(job: TermJob) -> tuple[str, ...]:
    """The modules that the numbers of a method come from, those of its components included."""
    modules = {*_OF_WORDS, *(module for part in job.components for module in term_modules(part))}
    if job.method.ranker:
        modules.add(OF_WORDS[job.method.ranker].__module__)
    if any(model.thin is not None for model in job.method.all_models()):
        modules.add(OF_WORDS["SparseRanker"].__module__)
    return tuple(sorted(modules))


def parameters_found(method: Method, dataset: str, found: Found, *, is_first: bool) -> dict[str, Any]:
    """The parameters, with what another method chose; those of later seeds with what the first one chose or found."""
    parameters = method.parameters_for(dataset)
    if method.chosen_by is not None:
        parameters |= found[method.chosen_by.dataset or dataset, method.chosen_by.method]["chosen"]
    facts = found.get((dataset, method.key))
    if is_first or facts is None:
        return parameters
    for searched, reused in method.reuse.items():
        if searched in parameters:
            del parameters[searched]
            parameters[reused] = facts[f"{reused}_"]
    return parameters | facts.get("chosen", {})
