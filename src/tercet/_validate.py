"""Checks of arguments: integers, seeds, finite numbers, repeated items.

``is_…`` returns a bool. ``check_…`` returns the value as a Python number or raises.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

from tercet.errors import InputError, ParameterError

_LONGEST_SLIP = 3  # characters by which a misspelt name may be longer or shorter

T = TypeVar("T", bound=Hashable)


def is_integer(value: object, least: int | None = None, most: int | None = None) -> bool:
    """Return True for an integer of Python or NumPy in a range; False for a bool.

    Examples
    --------
    >>> is_integer(3, 1), is_integer(0, 1), is_integer(True), is_integer(3.0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return (least is None or int(value) >= least) and (most is None or int(value) <= most)


def is_number(value: object, least: float | None = None, most: float | None = None) -> bool:
    """Return True for a finite number in a range; False for a bool.

    Examples
    --------
    >>> is_number(0.5, 0, 1), is_number(float("nan")), is_number(True)
    (True, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number = int(value) if isinstance(value, Integral) else float(value)
    if isinstance(number, float) and not math.isfinite(number):
        return False
    return (least is None or number >= least) and (most is None or number <= most)


def check_integer(
    value: Any, name: str, least: int = 1, most: int | None = None, error: type[InputError] = InputError
) -> int:
    """Return the integer, or raise an error with the allowed range.

    Examples
    --------
    >>> check_integer(0, "k")
    Traceback (most recent call last):
    tercet.errors.InputError: k must be an integer from 1; got 0
    """
    if not is_integer(value, least, most):
        upper = "" if most is None else f" to {most}"
        raise error(f"{name} must be an integer from {least}{upper}; got {value!r}")
    return int(value)


def check_seed(random_state: Any) -> int:
    """Return a seed. None is refused: the same call must give the same bits."""
    return check_integer(random_state, "random_state", 0)


def wrong_parameter(owner: str, name: str, allowed: str, got: object) -> ParameterError:
    """Return the error for a wrong constructor parameter."""
    return ParameterError(f"The '{name}' parameter of {owner} must be {allowed}. Got {got!r} instead.")


def first_repeated(items: Iterable[T]) -> T | None:
    """Return the first repeated item, or None, in linear time.

    Examples
    --------
    >>> first_repeated(["d3", "d1", "d7", "d7", "d1"]), first_repeated("abc")
    ('d1', None)
    """
    counts = Counter(items)  # in the order of first occurrences
    return next((item for item, count in counts.items() if count > 1), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the known name most similar to a misspelt name.

    Examples
    --------
    >>> did_you_mean("prize", ["id", "price"]), did_you_mean("x", ["id"])
    ("; did you mean 'price'?", '')
    """
    near = get_close_matches(name, [other for other in known if abs(len(other) - len(name)) <= _LONGEST_SLIP], 1)
    return f"; did you mean {near[0]!r}?" if near else ""
