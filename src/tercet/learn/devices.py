"""Where the steps of a fit are taken: on this machine's CPU, or on a card in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

from tercet.errors import ParameterError
from tercet.learn.base import SgdRanker
from tercet.learn.loop import Executor, current_executor, executing_on

Device = Literal["cpu", "cuda", "auto"]

# Parameters that say where and how steps are taken, and what files, which do not have them, mean by that.
ON_DEVICE: dict[str, Any] = {"device": "cpu", "deterministic": False}


def executor_of(device: Device, *, alone: bool = True, deterministic: bool = False) -> Executor:
    """What takes steps there. With ``alone``, a learner that a card cannot take is refused, else it is left to the CPU.

    ``"cpu"`` is where all fits of the block learn (``learning_on``, or a cluster), with the same bits where asked for.
    The room of the card stands above this one, and is looked up by its name when a card is asked for.
    """
    if device not in get_args(Device):
        raise ParameterError(f"device must be one of {', '.join(map(repr, get_args(Device)))}; got {device!r}")
    if device == "cpu":
        current = current_executor()
        return current.with_same_bits() if deterministic else current
    if current_executor().in_rounds:
        raise ParameterError(f"device={device!r} takes all steps on one card; a cluster shares them among its workers")
    executor: Executor = import_module("tercet.gpu").executor_of(device, alone=alone, deterministic=deterministic)
    return executor


@contextmanager
def learning_on(device: Device) -> Iterator[str]:
    """Have every fit within the block learn there, as far as it can be learned there, and rankings be made there.

    Gives the name of the card, if there is one.
    """
    executor = executor_of(device, alone=False)
    with executing_on(executor), executor.scoring():
        yield executor.name


@dataclass(eq=False, repr=False, kw_only=True)
class DeviceRanker(SgdRanker):
    """A ranker whose steps may be taken on a card: ``device`` is ``"cpu"``, ``"cuda"``, or ``"auto"``.

    On a card many steps are taken at once, so that two fits differ a little; with ``deterministic`` they are the same
    bits on the same card, and take longer. What is learned is the same kind of thing, and goes on learning anywhere; so
    neither is part of what is saved.
    """

    device: Device = "cpu"
    deterministic: bool = False

    def _executor(self) -> Executor:
        return executor_of(self.device, deterministic=self.deterministic)

    def _saved_params(self) -> dict[str, Any]:
        return {name: value for name, value in super()._saved_params().items() if name not in ON_DEVICE}
