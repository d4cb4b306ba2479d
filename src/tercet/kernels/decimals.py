"""Decimal text to the nearest float64, exactly, by Clinger's fast path (1990).

A mantissa of at most 2⁵³ and a power of ten of at most 10²² are exact float64. One multiplication or division of the
two therefore rounds once, to the nearest. Other numbers are left to the caller, who has Python's ``float``.
"""

from __future__ import annotations

import numpy as np

from tercet.kernels.compiler import helper, kernel

LARGEST_EXACT_MANTISSA = 1 << 53
LARGEST_EXACT_POWER = 22
# Tables are global: the compiler copies global arrays into the machine code.
POWERS_OF_TEN = np.array([float(10**power) for power in range(LARGEST_EXACT_POWER + 1)])

_MOST_DIGITS = 18  # of a mantissa in int64
_FARTHEST_EXPONENT = 100_000

_PLUS, _MINUS, _POINT, _ZERO = 43, 45, 46, 48
_SMALL_E, _LARGE_E = 101, 69


@helper
def is_digit(byte):
    """0 to 9."""
    return _ZERO <= byte <= _ZERO + 9


@kernel
def nearest_float(mantissa, power):
    """Return the float64 nearest to mantissa · 10**power, or -1 if the caller has to find it; mantissa is above 0."""
    if mantissa > LARGEST_EXACT_MANTISSA or abs(power) > LARGEST_EXACT_POWER:
        return -1.0
    exact = np.float64(mantissa)
    return exact * POWERS_OF_TEN[power] if power >= 0 else exact / POWERS_OF_TEN[-power]


@helper
def scan_number(text, position):
    """Read ``[+-]digits[.digits][e[+-]digits]``: (end, negative, mantissa, power of ten, whole).

    The end is -1 without such a number. ``whole`` is False if digits beyond an int64 were dropped.
    """
    negative = text[position] == _MINUS
    if negative or text[position] == _PLUS:
        position += 1
    mantissa = 0
    power = 0
    n_significant = 0
    whole = True
    start = position
    while is_digit(text[position]):
        if n_significant < _MOST_DIGITS:
            mantissa = mantissa * 10 + (np.int64(text[position]) - _ZERO)
            if mantissa > 0:
                n_significant += 1
        else:
            power += 1
            whole = False
        position += 1
    n_digits = position - start
    if text[position] == _POINT:
        position += 1
        start = position
        while is_digit(text[position]):
            if n_significant < _MOST_DIGITS:
                mantissa = mantissa * 10 + (np.int64(text[position]) - _ZERO)
                power -= 1
                if mantissa > 0:
                    n_significant += 1
            else:
                whole = False
            position += 1
        n_digits += position - start
    if n_digits == 0:
        return -1, negative, mantissa, power, whole
    if text[position] == _SMALL_E or text[position] == _LARGE_E:
        position += 1
        downwards = text[position] == _MINUS
        if downwards or text[position] == _PLUS:
            position += 1
        start = position
        exponent = 0
        while is_digit(text[position]):
            if exponent < _FARTHEST_EXPONENT:
                exponent = exponent * 10 + (np.int64(text[position]) - _ZERO)
            position += 1
        if position == start:
            return -1, negative, mantissa, power, whole
        power += -exponent if downwards else exponent
    return position, negative, mantissa, power, whole
