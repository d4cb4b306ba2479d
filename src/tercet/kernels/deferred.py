"""A function compiled on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any


class Deferred:
    """Function compiled at the first call, or at the first use by a kernel under compilation.

    Attributes
    ----------
    compiled : the compiled function; for a kernel, Numba's dispatcher
    """

    compiled: Any

    def __init__(self, function: Callable[..., Any], make: Callable[[], Any]) -> None:
        update_wrapper(self, function)
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name != "compiled":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self.__dict__.setdefault("compiled", self._make())  # one for all threads

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)
