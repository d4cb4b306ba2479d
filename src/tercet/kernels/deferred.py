"""A function that is made when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any


class Deferred:
    """A function that is made when it is first called, or first named by a kernel that Numba compiles.

    Attributes
    ----------
    compiled : the function that was made; for a kernel, Numba's dispatcher
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
