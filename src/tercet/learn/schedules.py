"""How the rate falls with the steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tercet.errors import InputError

SCHEDULES = ("constant", "inverse-sqrt", "linear")


def rates(schedule: str, rate: float, first: int, n: int, total: int | None) -> NDArray[np.float32]:
    """Rates of the n steps after ``first`` done ones; steps count from 1.

    ``constant``: rate. ``inverse-sqrt``: rate / sqrt(t). ``linear``: falls to zero after ``total`` steps.
    """
    t = np.arange(first + 1, first + n + 1, dtype=np.float64)
    if schedule == "constant":
        values = np.full(n, rate)
    elif schedule == "inverse-sqrt":
        values = rate / np.sqrt(t)
    elif schedule == "linear":
        if total is None:
            raise InputError(
                "the 'linear' schedule needs to know the number of steps; partial_fit and endless sources do not. "
                "Use 'constant' or 'inverse-sqrt'"
            )
        values = rate * np.maximum(0.0, 1.0 - (t - 1) / total)
    else:
        raise InputError(f"schedule must be one of {', '.join(map(repr, SCHEDULES))}; got {schedule!r}")
    return values.astype(np.float32)
