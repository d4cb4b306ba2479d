"""Decorators of kernels. Numba is imported when the first kernel is called: a search of a small index needs none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tercet.kernels.deferred import Deferred

# Flags that allow reordered sums and fused multiply-adds for SIMD, and keep checks for NaN and infinity valid.
FAST_MATH = {"reassoc", "contract", "nsz"}
IN_ORDER: set[str] = set()  # for sums in a fixed order: each product and each sum is rounded, as by NumPy


def kernel(function: Callable[..., Any], fast_math: Iterable[str] = FAST_MATH) -> Any:
    """Compile a function over arrays on first call; cached on disk, releases the GIL, no Python objects."""
    return _deferred(function, fast_math, {})


def kernel_in_order(function: Callable[..., Any]) -> Any:
    """Like `kernel`, but sums are taken in their written order."""
    return kernel(function, IN_ORDER)


def helper(function: Callable[..., Any], fast_math: Iterable[str] = FAST_MATH) -> Any:
    """Like `kernel` for a function called by kernels only, in half the compile time.

    A helper makes no arrays and returns none, so references to arrays are not counted: counting takes longer than most
    helpers.
    """
    return _deferred(function, fast_math, {"no_cpython_wrapper": True, "_nrt": False})


def helper_in_order(function: Callable[..., Any]) -> Any:
    """Like `helper`, but sums are taken in their written order."""
    return helper(function, IN_ORDER)


def array_helper(function: Callable[..., Any]) -> Any:
    """Like `helper` for a function that makes, copies or returns arrays."""
    return _deferred(function, FAST_MATH, {"no_cpython_wrapper": True})


def intrinsic(function: Callable[..., Any]) -> Any:
    """Defer ``numba.extending.intrinsic``: the function writes machine instructions for kernels."""

    def make() -> Any:
        from numba.extending import intrinsic as numba_intrinsic

        return numba_intrinsic(function)

    return Deferred(function, make)


def _carray() -> Any:
    from numba import carray

    return carray


array_at = Deferred(_carray, _carray)  # within kernels: an array from its address, its shape and its type


def _deferred(function: Callable[..., Any], fast_math: Iterable[str], options: dict[str, bool]) -> Any:
    def make() -> Any:
        from tercet.kernels.machine_code import compiled

        return compiled(function, fast_math, options)

    return Deferred(function, make)
