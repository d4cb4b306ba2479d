"""What a number must be, said once: integers that are no bools, counts, seeds, finite numbers; and what is there twice.

``is_…`` answers, ``check_…`` returns the value as Python's own or raises.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

from tercet.errors import InputError, ParameterError

_LONGEST_SLIP = 3  # characters that a misspelt name is longer or shorter

T = TypeVar("T", bound=Hashable)


def is_integer(value: object, least: int | None = None, most: int | None = None) -> bool:
    """Whether it is an integer, NumPy's among them, in that range; a bool is none.

    Examples
    --------
    >>> is_integer(3, 1), is_integer(0, 1), is_integer(True), is_integer(3.0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return (least is None or int(value) >= least) and (most is None or int(value) <= most)


def is_number(value: object, least: float | None = None, most: float | None = None) -> bool:
    """Whether it is a finite number in that range; a bool is none.

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
    """The integer, or an error that says which are allowed.

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
    """A seed; None is none, since the same call must give the same bits."""
    return check_integer(random_state, "random_state", 0)


def wrong_parameter(owner: str, name: str, allowed: str, got: object) -> ParameterError:
    """The error to raise for a constructor's parameter that is not what it may be."""
    return ParameterError(f"The '{name}' parameter of {owner} must be {allowed}. Got {got!r} instead.")


def first_repeated(items: Iterable[T]) -> T | None:
    """The first item that is there more than once, or None; in time linear in their number.

    Examples
    --------
    >>> first_repeated(["d3", "d1", "d7", "d7", "d1"]), first_repeated("abc")
    ('d1', None)
    """
    counts = Counter(items)  # which keeps the order of the first occurrences
    return next((item for item, count in counts.items() if count > 1), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the known name that a wrong one resembles most, if any does.

    Examples
    --------
    >>> did_you_mean("prize", ["id", "price"]), did_you_mean("x", ["id"])
    ("; did you mean 'price'?", '')
    """
    near = get_close_matches(name, [one for one in known if abs(len(one) - len(name)) <= _LONGEST_SLIP], 1)
    return f"; did you mean {near[0]!r}?" if near else ""
