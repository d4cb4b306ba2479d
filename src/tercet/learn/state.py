"""State of a learner: private, changing, resumable. ``snapshot()`` returns the value."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.preferences import Preferences
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.rows import Chunk
from tercet.learn.matrices import KernelInput
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds
from tercet.weights import Weights

Steps = Annotated[int, Bounds(least=0, most=2**53)]  # saved number of steps; rates count steps in floats


@dataclass(frozen=True)
class Sgd:
    """Rate, its schedule, and the margin of preferences without a margin."""

    rate: float
    schedule: str
    margin: float


class State(ABC):
    """Arrays of one learner and the number of steps taken."""

    step: int = 0

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_query_terms, n_doc_terms)"""

    def observe(self, Q: sparse.csr_array, D: sparse.csr_array) -> None:
        """Compute properties of all texts once, before the first step; most learners need none."""
        return

    @abstractmethod
    def kernel_input(self, Q: sparse.csr_array, D: sparse.csr_array) -> KernelInput:
        """Prepare Q and D, or the rows of a chunk, for this learner's kernel."""

    @abstractmethod
    def run(self, inputs: KernelInput, chunk: Chunk, tally: NDArray[np.float64]) -> None:
        """Call the kernel: one step for each preference of the chunk; ``tally`` gains violations and loss."""

    def advance(
        self,
        inputs: KernelInput,
        prefs: Preferences,
        rate: NDArray[np.float32],
        margin: float,
        tally: NDArray[np.float64],
    ) -> int:
        """Learn from preferences, by default with ``margin``; return the number of steps."""
        step_size = rate if prefs.weight is None else rate * prefs.weight
        target = prefs.margin
        if target is None:
            target = np.full(len(prefs), margin, dtype=np.float32)
            target.flags.writeable = False  # as given ones are: a kernel is compiled for each kind of array
        self.run(inputs, Chunk(prefs.query, prefs.better, prefs.worse, step_size, rate, target), tally)
        self.step += len(prefs)
        return len(prefs)

    @abstractmethod
    def snapshot(self) -> Weights:
        """The current weights as a value that later steps do not change."""

    # -- saving: most states are dataclasses whose fields are what is saved ----------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return JSON values and named arrays, not copied, to resume training from."""
        return encode(self)

    @classmethod
    def from_state(cls, meta: object, arrays: Mapping[str, NDArray[Any]], where: str) -> Self:
        """Invert ``to_state``; arrays are copied. Errors name ``where``."""
        return cls.checked(decode(cls, meta, arrays, where=where, copy=True), where)

    @classmethod
    def checked(cls, state: Self, where: str) -> Self:
        """Check a loaded state beyond the types of its fields."""
        try:
            state.check()
        except InputError as error:
            raise DamagedBundleError(f"{where}: {error}") from error
        return state

    def check(self) -> None:
        """Refuse, by an InputError, arrays of the right types and lengths that are yet no state of this learner."""
        return

    def copy(self) -> Self:
        """Return a copy of the state with separate arrays."""
        return type(self).from_state(*self.to_state(), "copy")


def check_order(order: NDArray[np.int32]) -> None:
    """Refuse an order of columns with a repeated column."""
    if not np.array_equal(np.sort(order), np.arange(order.size)):
        raise InputError("the order of its columns is no permutation")


Schedule = Literal["constant", "inverse-sqrt", "linear"]


def rates(schedule: str, rate: float, first: int, n: int, total: int | None, xp: Any = np) -> Any:
    """Rates of the n steps after ``first`` done ones; steps count from 1.

    ``constant``: rate. ``inverse-sqrt``: rate / sqrt(t). ``linear``: falls to zero after ``total`` steps. ``xp`` is the
    module of the array that comes back, NumPy or CuPy.
    """
    t = xp.arange(first + 1, first + n + 1, dtype=np.float64)
    if schedule == "constant":
        values = xp.full(n, float(rate))
    elif schedule == "inverse-sqrt":
        values = rate / xp.sqrt(t)
    elif schedule == "linear":
        if total is None:
            raise InputError(
                "the 'linear' schedule needs to know the number of steps; partial_fit and endless sources do not. "
                "Use 'constant' or 'inverse-sqrt'"
            )
        values = rate * xp.maximum(0.0, 1.0 - (t - 1) / total)
    else:
        raise InputError(f"schedule must be one of {', '.join(map(repr, get_args(Schedule)))}; got {schedule!r}")
    return values.astype(np.float32)


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
