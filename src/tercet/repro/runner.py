"""The one runner: every method of a plan on every data set that is there."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tercet.errors import InputError
from tercet.fitting.rankers import bytes_of_whole_w
from tercet.gpu import device as learning_there
from tercet.repro.cache import Listener, RunDeadline
from tercet.repro.cost_jobs import cost_jobs
from tercet.repro.datasets import with_data_found
from tercet.repro.paper_results import PaperResults
from tercet.repro.pieces import (
    CostPiece,
    CurvePiece,
    Key,
    MethodPiece,
    Piece,
    blends_of,
    components,
    needs,
    papers_own,
    pieces_of,
    urgency,
    waits_for,
)
from tercet.repro.piecework import Answer, Found, PieceWorker, Request
from tercet.repro.plan import Method, Plan
from tercet.repro.processes import Hand, OtherProcesses, ThisProcess, WorkForce
from tercet.repro.quick import made_quick

_LARGE = 10**9  # bytes of a W that is held whole; no two of them at once


def reproduce(
    plan: Plan,
    data_home: Path,
    output: Path,
    *,
    listener: Listener,
    quick: bool = False,
    only: tuple[str, ...] = (),
    seeds: int | None = None,
    fresh: bool = False,
    budget: float | None = None,
    jobs: int = 1,
    device: str = "cpu",
) -> PaperResults:
    """Run a plan, keeping every finished cell in ``output/cells``. Takes minutes to hours.

    Parameters
    ----------
    plan : what to run
    data_home : folder with the data sets; one that is missing is skipped
    quick : little of everything, to see that everything works
    only : keys of data sets; all when empty
    seeds : instead of the plan's number; what draws nothing at random runs once
    fresh : do again what is kept
    budget : minutes; what is learning when the time is over is cut short and shown so, what has not begun is left
        out; neither is kept
    jobs : processes, each with one thread; the numbers are the same with any number of them. More than one need a
        main module that can be imported without running.
    device : where word pairs are learned and ranked, "cpu", "cuda" or "auto"; what a card cannot learn stays on the
        CPU. Cells of a card are other cells.

    Notes
    -----
    What is behind the paper's own tables and figures comes first, then what is behind ours, then cost studies, one by
    one with nothing beside them. Within the first two, every method runs with the first seed before any runs with the
    second, slow ones last.
    """
    chosen = _check_request(plan, only, seeds, budget, jobs)
    with learning_there(device) as card:  # fails here where there is none, and not in every piece
        pass
    started = time.monotonic()
    plan = with_data_found(plan, data_home)
    plan = made_quick(plan) if quick else plan
    device = device if card else "cpu"  # "auto" may have found none, and cells are then those of a CPU
    worker = PieceWorker(plan, data_home, output, quick, fresh, RunDeadline.after(budget), device=device)
    results = PaperResults(plan, quick, version("tercet"), seeds=seeds, budget=budget, jobs=jobs, card=card)
    with ThisProcess(worker) if jobs == 1 else OtherProcesses(worker, jobs) as force:
        _load(results, chosen, data_home, force, listener)
        n_tasks = {name: len(known.get("splits", [""])) for name, known in results.data.items()}
        pieces = pieces_of(plan, n_tasks, seeds, costs=not only)  # made-up rows belong to no data set
        PlanRun(results, pieces, force, worker, listener).go()
    results.seconds = time.monotonic() - started
    return results


def _check_request(plan: Plan, only: tuple[str, ...], seeds: int | None, budget: float | None, jobs: int) -> list[str]:
    """The data sets to run on."""
    for name in only:
        if name not in plan.datasets:
            raise InputError(f"no data set {name!r} in {plan.paper.key}; known: {', '.join(plan.datasets)}")
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds is {seeds}; at least 1 is needed")
    if budget is not None and not 0 < budget < float("inf"):
        raise InputError(f"the budget is {budget} minutes; a number above 0 is needed")
    if jobs < 1:
        raise InputError(f"jobs is {jobs}; at least 1 is needed")
    return [name for name in plan.datasets if name in only or not only]


def _load(results: PaperResults, names: list[str], home: Path, force: WorkForce, listener: Listener) -> None:
    """Have the data sets read that are there; the others are noted."""
    plan = results.plan
    left, known = list(names), {}
    while left or force.busy:
        for hand in force.idle:
            # Data sets of the same files are read by the same hand, which has those at hand.
            before = plan.datasets[hand.dataset].files if hand.dataset else ()
            name = next((name for name in left if plan.datasets[name].files == before), left[0] if left else None)
            if name is not None:
                left.remove(name)
                listener.now(f"reading {plan.datasets[name].title}")
                force.begin(hand, Request(name))
        request, answer = force.next()
        if answer.failed:
            raise InputError(answer.failed)
        known[request.dataset] = answer
    for name in names:
        title, found = plan.datasets[name].title, known[name]
        if found.known is not None:
            results.data[name] = found.known
        else:
            results.missing[name] = found.missing.replace(f"{home}{os.sep}", "")  # pages name no place of this machine
            listener.say(f"{title} is skipped: {found.missing}")
    if not results.data:
        looked = "; ".join(dict.fromkeys(results.missing.values()))  # several data sets may want the same file
        raise InputError(f"none of the data sets is below {home}: {looked}")


# -- doing it ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ending:
    """How a piece ended: with a result, or cut short, left out or failed as the line says."""

    result: dict[str, Any] | None = None
    cut: str = ""
    failed: str = ""


@dataclass
class PlanRun:
    """All pieces of a plan, each given to a hand when what it waits for has ended."""

    results: PaperResults
    pieces: list[Piece]
    force: WorkForce
    worker: PieceWorker
    listener: Listener
    endings: dict[Piece, _Ending] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plan: Plan = self.results.plan
        self.costs = list(cost_jobs(self.plan))
        papers = papers_own(self.plan)
        self.urgency = {piece: urgency(self.plan, piece, papers) for piece in self.pieces}
        self.parts: dict[Key, list[MethodPiece]] = {}  # the folds of a method with a seed
        for piece in self.pieces:
            if isinstance(piece, MethodPiece):
                self.parts.setdefault(piece.key, []).append(piece)
        self.waits = {piece: [key for key in waits_for(self.plan, piece) if key in self.parts] for piece in self.pieces}

    def go(self) -> None:
        """Do everything; results are put together in the order of the pieces, whoever was done first."""
        self.listener.begin(len(self.pieces))
        left = list(self.pieces)
        while left or self.force.busy:
            for hand in self.force.idle:
                piece = self._next_for(hand, left)
                while piece is not None and not self._may_begin(piece):
                    left.remove(piece)
                    piece = self._next_for(hand, left)
                if piece is None:
                    break
                left.remove(piece)
                self._begin(hand, piece)
            if not self.force.busy:
                assert not left, f"{left[0]} waits for what never ends"
                break  # the last ones were left out
            request, answer = self.force.next()
            assert request.piece is not None
            self._end(request.piece, answer)
        self.worker.components.close()
        self._put_together()

    def _next_for(self, hand: Hand, left: list[Piece]) -> Piece | None:
        """The most urgent piece that waits for nothing, on the data set the hand has been at if there is one."""
        busy = [other.request.piece for other in self.force.busy if other.request is not None]
        if any(isinstance(piece, CostPiece) for piece in busy):
            return None
        large_is_on = any(piece is not None and self._is_large(piece) for piece in busy)
        ready = [
            piece
            for piece in left
            if all(self._has_ended(key) for key in self.waits[piece])
            and not (isinstance(piece, CostPiece) and (busy or self.urgency[left[0]] < self.urgency[piece]))
            and not (large_is_on and self._is_large(piece))
        ]
        if not ready:
            return None
        most = min(self.urgency[piece] for piece in ready)
        urgent = [piece for piece in ready if self.urgency[piece] == most]
        return next((piece for piece in urgent if piece.dataset == hand.dataset), urgent[0])

    def _has_ended(self, key: Key) -> bool:
        return all(piece in self.endings for piece in self.parts[key])

    def _result(self, key: Key) -> dict[str, Any] | None:
        """The result of a piece that others wait for; there are no folds then."""
        endings = [self.endings[piece] for piece in self.parts.get(key, [])]
        return endings[0].result if endings else None

    def _is_large(self, piece: Piece) -> bool:
        """Whether all of a W is in memory that is too large to be there twice, or what stands for it by texts."""
        if not isinstance(piece, MethodPiece):
            return False
        method, known = self.plan.method(piece.method), self.results.data[piece.dataset].get("statistics", {})
        texts = known.get("query texts", 0), known.get("documents", 0)
        words = known.get("words of queries", 0), known.get("words of documents", 0)
        return bytes_of_whole_w(method.ranker, method.parameters, texts, words) > _LARGE

    def _may_begin(self, piece: Piece) -> bool:
        """Whether what it needs is there; what cannot begin is noted."""
        if isinstance(piece, MethodPiece) and piece.method in self.results.unavailable:
            self.endings[piece] = _Ending()
            self.listener.skip()
            return False
        parts = [key for key in components(self.plan, piece) if key in self.parts]
        missing = [key for key in needs(self.plan, piece) + parts if self._result(key) is None]
        if not missing:
            return True
        title = self._title(piece)
        uncut = [key for key in missing if not any(self.endings[part].cut for part in self.parts.get(key, []))]
        if uncut:
            dataset, method, _ = uncut[0]
            other = f"{self.plan.method(method).title} on {self.plan.datasets[dataset].title}"
            self._fail(piece, f"{title}: left out, since {other} failed or has not run")
        else:
            self._leave_out(piece, title)
        return False

    def _begin(self, hand: Hand, piece: Piece) -> None:
        found: Found = {}
        tested = False
        if not isinstance(piece, CostPiece):
            found = self._found_for(piece.dataset, self.plan.method(piece.method))
        if isinstance(piece, MethodPiece) and self.plan.datasets[piece.dataset].task != "rows":
            tested = (piece.dataset, piece.seed) not in self.results.tested
        self.force.begin(hand, Request(piece.dataset, piece, found, tested))
        busy = [other.request.piece for other in self.force.busy if other.request is not None]
        more = f" and {len(busy) - 1} more" if len(busy) > 1 else ""
        self.listener.now(self._title(piece) + more)

    def _found_for(self, dataset: str, method: Method) -> Found:
        """What first seeds found for a method and for what it is blended from."""
        keys = [(dataset, method.key)]
        if method.chosen_by is not None:
            keys.append((method.chosen_by.dataset or dataset, method.chosen_by.method))
        found: Found = {}
        for key in keys:
            if all(piece in self.endings for piece in self.parts.get((*key, 0), [])):
                result = self._result((*key, 0))
                found |= {} if result is None else {key: result["facts"]}
        for model in method.blend:
            found |= self._found_for(dataset, self.plan.method_of(model))
        return found

    # -- how pieces end -----------------------------------------------------------------------------------------------

    def _end(self, piece: Piece, answer: Answer) -> None:
        title = self._title(piece)
        if answer.unavailable is not None:
            lack, message = answer.unavailable
            if isinstance(piece, CostPiece):
                self._fail(piece, f"{title}: {message}")
                return
            self.results.unavailable[piece.method] = lack
            self.endings[piece] = _Ending()
            self.listener.done(f"{self.plan.method(piece.method).title} is left out: {message}")
            return
        if answer.result is None:
            self._fail(piece, f"{title}: {answer.failed}")
            return
        result = answer.result
        if result.get("left out"):
            self._leave_out(piece, title)
            return
        if answer.tested is not None and isinstance(piece, MethodPiece):
            self.results.tested[piece.dataset, piece.seed] = answer.tested
        how = "kept" if answer.kept else f"done in {answer.seconds:.0f} s"
        cut = ""
        if result.get("cut"):
            how += ", cut short by the budget"
            cut = f"{title}: {_how_far(result)}"
        self.endings[piece] = _Ending(result, cut)
        self.listener.done(f"{title}: {how}{self._summary(piece, result)}")
        self._let_go(piece)

    def _fail(self, piece: Piece, line: str) -> None:
        self.endings[piece] = _Ending(failed=line)
        self.listener.done(line)

    def _leave_out(self, piece: Piece, title: str) -> None:
        self.endings[piece] = _Ending(cut=f"{title}: left out")
        self.listener.done(f"{title}: left out, the budget is used up")

    def _let_go(self, piece: Piece) -> None:
        """Remove the weights of components all of whose blends are done."""

        def is_done(key: Key) -> bool:
            ending = self.endings.get(self.parts[key][0]) if key in self.parts else None
            return key not in self.parts or (ending is not None and ending.result is not None and not ending.cut)

        keys = components(self.plan, piece) + ([piece.key] if isinstance(piece, MethodPiece) else [])
        done = [key for key in keys if is_done(key) and all(is_done(blend) for blend in blends_of(self.plan, key))]
        blended = [key for key in done if any(True for _ in blends_of(self.plan, key))]
        if blended:
            self.worker.components.remove("-".join(map(str, key)) for key in blended)

    def _put_together(self) -> None:
        results = self.results
        for piece in self.pieces:
            ending = self.endings[piece]
            results.cut += [ending.cut] if ending.cut else []
            results.failed += [ending.failed] if ending.failed else []
            if ending.result is None:
                continue
            if isinstance(piece, MethodPiece):
                results.cells.setdefault(piece.key, []).append(ending.result)
            elif isinstance(piece, CurvePiece):
                results.curves[piece.curves, piece.dataset, piece.method] = ending.result
            else:
                job = self.costs[piece.number]
                sizes = {"n_rows": job.n_rows, "n_basis": job.n_rows if job.n_basis is None else job.n_basis}
                results.costs.setdefault((job.cost.key, job.series), []).append(sizes | ending.result)

    # -- in words -----------------------------------------------------------------------------------------------------

    def _title(self, piece: Piece) -> str:
        if isinstance(piece, CostPiece):
            return self.costs[piece.number].title
        method, data = self.plan.method(piece.method), self.plan.datasets[piece.dataset]
        if isinstance(piece, CurvePiece):
            return f"{data.title}, {method.title}, {piece.curves}"
        split = self.results.data[piece.dataset].get("splits", [""])[piece.fold]
        numbered = f", seed {piece.seed}" if not split or self.plan.n_seeds(method) > 1 else ""
        return f"{data.title}, {method.title}{numbered}" + (f", {split}" if split else "")

    def _summary(self, piece: Piece, result: dict[str, Any]) -> str:
        if isinstance(piece, CostPiece):
            return f"; {result['seconds']:.3f} s, {result['megabytes']:.1f} MB"
        return _summary(self.plan, self.plan.method(piece.method), result) if isinstance(piece, MethodPiece) else ""


def _how_far(result: dict[str, Any]) -> str:
    """Where a result was cut, in words."""
    if "facts" not in result:
        [name, *_] = reversed(result["series"])  # a refit comes after what it refits
        refit = ", before its refit" if name == "weights_before_refit_" else ""
        refit = " of its refit" if len(result["series"]) > 1 else refit
        return f"cut short after {result['series'][name][-1]['step']:,} steps{refit}"
    facts = result["facts"]
    if not facts["preferences"]:
        return "blended from a model that was cut short"
    run = f" of its run {facts['run']}" if facts.get("run", 1) > 1 else ""
    return f"cut short after {facts['steps_taken']:,} of {facts['preferences']:,} steps{run}"


def _summary(plan: Plan, method: Method, result: dict[str, Any]) -> str:
    """The first two models of a cell in a few words: the measure that chooses, or the first two of the plan."""
    keys = [plan.chooses_by(method)] if plan.chooses_by(method) else list(plan.measures)
    lines = []
    for model in method.all_models()[:2]:
        means = result["models"][model.key]["means"]
        numbers = [(plan.measures[key].title, means.get(plan.name_of(key))) for key in keys]
        name = f"{model.title} " if method.models else ""
        lines.append(f"; {name}" + ", ".join(f"{title} {x:.4f}" for title, x in numbers[:2] if x is not None))
    lines += [f"; {len(method.all_models()) - 2} more"] if len(method.all_models()) > 2 else []
    facts = result["facts"]
    if facts.get("n_used") is not None:
        lines.append(f", {facts['n_used']} of {facts['n_features']} features")
    lines += [f", {name} {short(value)}" for name, value in facts.get("chosen", {}).items()]
    return "".join(lines)


def short(value: Any) -> str:
    """A parameter's value with four digits.

    Examples
    --------
    >>> short(0.000123456), short(12), short("sum")
    ('0.0001235', '12', 'sum')
    """
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)
