"""What runs of both kinds of plans share: who is told, what is kept, when it ends, and what is left of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tercet.errors import DivergedError, InputError
from tercet.learn import Event
from tercet.repro.cells import Cells
from tercet.repro.values import AnyPlan

P = TypeVar("P", bound=AnyPlan)


class Listener(Protocol):
    """Who is told how a run goes on."""

    def begin(self, n_cells: int) -> None: ...
    def now(self, text: str) -> None: ...
    def done(self, text: str) -> None: ...
    def say(self, text: str) -> None: ...
    def skip(self) -> None: ...


@dataclass(frozen=True)
class Deadline:
    """A moment after which training ends; a callback."""

    at: float | None = None  # of time.monotonic

    @classmethod
    def after(cls, budget: float | None) -> Deadline:
        """So many minutes from now; None never ends."""
        return cls(None if budget is None else time.monotonic() + 60 * budget)

    @property
    def is_over(self) -> bool:
        return self.at is not None and time.monotonic() >= self.at

    def __call__(self, event: Event) -> bool:
        return self.is_over


@dataclass
class RunResults(Generic[P]):
    """What is known of a run, whatever its plan measures."""

    plan: P
    quick: bool
    version: str
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    budget: float | None = None  # minutes
    cut: list[str] = field(default_factory=list)  # what the budget left out or cut short
    failed: list[str] = field(default_factory=list)  # what diverged

    def known(self) -> dict[str, Any]:
        """The same for results.json."""
        names = ("version", "quick", "data", "missing", "budget", "cut", "failed")
        return {"paper": self.plan.paper.key} | {name: getattr(self, name) for name in names}


def check_request(plan: AnyPlan, only: tuple[str, ...], budget: float | None) -> list[str]:
    """The data sets that are asked for."""
    for name in only:
        if name not in plan.datasets:
            raise InputError(f"no data set {name!r} in {plan.paper.key}; known: {', '.join(plan.datasets)}")
    if budget is not None and not 0 < budget < float("inf"):
        raise InputError(f"the budget is {budget} minutes; a number above 0 is needed")
    return [name for name in plan.datasets if name in only or not only]


def check_found(results: RunResults[Any], data_home: object) -> None:
    """Refuse to go on when no data set was there."""
    if not results.data:
        looked = "; ".join(dict.fromkeys(results.missing.values()))  # several data sets may want the same file
        raise InputError(f"none of the data sets is below {data_home}: {looked}")


class Doer:
    """Does a piece of work, finds it done, or leaves it out when the time is over; and says so."""

    def __init__(self, cells: Cells, results: RunResults[Any], listener: Listener, deadline: Deadline) -> None:
        self.cells, self.results, self.listener, self.deadline = cells, results, listener, deadline

    def get(
        self,
        what: str,
        key: str,
        setting: dict[str, Any],
        work: Callable[[], dict[str, Any]],
        *,
        how_far: Callable[[dict[str, Any]], str],
        said: Callable[[dict[str, Any]], str],
    ) -> dict[str, Any] | None:
        """The result; None when it was left out or diverged."""
        self.listener.now(what)
        started = time.monotonic()

        def unless_over() -> dict[str, Any]:
            return {"cut": True, "left out": True} if self.deadline.is_over else work()

        try:
            result, kept = self.cells.get(key, setting, unless_over)
        except DivergedError as error:  # of one setting; the others go on
            self.fail(f"{what}: {error}")
            return None
        if result.get("left out"):
            self.leave_out(what)
            return None
        seconds = time.monotonic() - started
        how = "kept" if kept else f"done in {seconds:.0f} s"
        if result.get("cut"):
            how += ", cut short by the budget"
            self.results.cut.append(f"{what}: {how_far(result)}")
        self.listener.done(f"{what}: {how}{said(result)}")
        return result

    def fail(self, line: str) -> None:
        self.results.failed.append(line)
        self.listener.done(line)

    def leave_out(self, what: str) -> None:
        self.results.cut.append(f"{what}: left out")
        self.listener.done(f"{what}: left out, the budget is used up")
