"""Rankers that learn with a penalty and then, without it, what the penalty has left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from tercet.data.preferences import Preferences
from tercet.errors import ParameterError
from tercet.learn.base import Count, Positive, SgdRanker
from tercet.learn.loop import Callback, Checkpoint
from tercet.learn.sources import Source
from tercet.learn.state import Schedule

RefitStart = Literal["sparse", "identity"]  # what a refit starts from on its support


class Refit:
    """What ``ranker.refit`` is: the parameter's truth value, and the method of that name."""

    def __init__(self, ranker: PenalisedRanker) -> None:
        self._ranker = ranker

    def __bool__(self) -> bool:
        return bool(self._ranker._refit_wanted)

    def __repr__(self) -> str:
        return repr(self._ranker._refit_wanted)

    def __call__(
        self, Q: Any, prefs: Preferences | Source, D: Any = None, callbacks: Sequence[Callback] = ()
    ) -> PenalisedRanker:
        """Learn the entries of the support again, without penalty; returns the ranker."""
        return self._ranker._refit_on_support(Q, prefs, D, callbacks=callbacks)


class _RefitParameter:
    """A field that is set as a truth value and read as a `Refit`; a ranker refits unless told otherwise."""

    def __get__(self, ranker: PenalisedRanker | None, owner: type) -> Refit | bool:
        return True if ranker is None else Refit(ranker)

    def __set__(self, ranker: PenalisedRanker, wanted: bool) -> None:
        ranker._refit_wanted = wanted


@dataclass(eq=False, repr=False, kw_only=True)
class PenalisedRanker(SgdRanker):
    """A term-pair ranker whose weights shrink as it learns; those that are left can be refitted without a penalty."""

    shrink_every: Count = 100
    refit: Annotated[Any, "boolean"] = _RefitParameter()  # a descriptor, shared by all
    refit_start: RefitStart = "sparse"
    rate: Positive = 200.0
    schedule: Schedule = "inverse-sqrt"
    max_memory: Count | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return super().get_params(deep) | {"refit": self._refit_wanted}

    @abstractmethod
    def _refit_on_support(
        self,
        Q: Any,
        prefs: Preferences | Source,
        D: Any = None,
        n_steps: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Learn the entries that are left again; ``n_steps`` are those of the fit, None for all of a refit by hand.

        Callbacks are told of its steps, too, and end it by returning True; a checkpoint holds one run, that of the fit.
        """

    def _listeners(self, callbacks: Sequence[Callback]) -> list[Callback]:
        """Who is told of the steps of a refit."""
        history: list[Callback] = [self.history_.append] if hasattr(self, "history_") else []
        return history + [callback for callback in callbacks if not isinstance(callback, Checkpoint)]


def steps_of_refit(source: Source, epochs: int) -> int:
    """The steps of a refit by hand; that of ``fit`` has those of the fit."""
    if source.n_steps is None:
        raise ParameterError("refit needs preferences that come to an end")
    return source.n_steps * epochs
