"""The same steps taken on a GPU: ``device="cuda"`` of the rankers that have it, and of ``tc.fit``."""

from __future__ import annotations

from tercet.errors import DeviceError, MissingExtraError
from tercet.gpu.hardware import Card, find_card
from tercet.gpu.stepper import CardExecutor
from tercet.learn.loop import Executor, current_executor

__all__ = ["Card", "executor_of", "find_card"]


def executor_of(device: str, *, alone: bool = True, deterministic: bool = False) -> Executor:
    """What takes steps on the card of this machine; with ``"auto"`` and none there, what takes them without it."""
    if device == "auto":
        try:
            card = find_card()
        except (DeviceError, MissingExtraError):
            return current_executor()
        return CardExecutor(card, alone=alone, auto=True, deterministic=deterministic)
    return CardExecutor(find_card(), alone=alone, deterministic=deterministic)
