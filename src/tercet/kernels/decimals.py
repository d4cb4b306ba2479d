"""Decimal text to the nearest float64, exactly: Clinger's fast path, then Eisel–Lemire.

- **Clinger (1990).** A mantissa of at most 2⁵³ and a power of ten of at most 10²² are exact float64, so one
  multiplication or division of the two rounds once, to the nearest.
- **Eisel–Lemire (2021).** For longer ones the power of five is kept to 128 bits, rounded down, so that the true product
  lies within two units of the last of 128 bits; when no tie between two float64 lies there, rounding is settled.

What neither settles is left to the caller, who has Python's ``float``.
"""

from __future__ import annotations

import math

import numpy as np

from tercet.kernels.compiler import helper, kernel

LARGEST_EXACT_MANTISSA = 1 << 53
LARGEST_EXACT_POWER = 22
# Tables are global: the compiler keeps a copy in the machine code.
POWERS_OF_TEN = np.array([float(10**power) for power in range(LARGEST_EXACT_POWER + 1)])

LEAST_POWER, MOST_POWER = -65, 40  # with 18 digits, more than float32 holds on either side
_MOST_DIGITS = 18  # of a mantissa in int64
_FARTHEST_EXPONENT = 100_000

_PLUS, _MINUS, _POINT, _ZERO = 43, 45, 46, 48
_SMALL_E, _LARGE_E = 101, 69


def _power_of_five(power: int) -> tuple[int, int]:
    """The first 128 bits of 5**power, rounded down, and the power of two to scale them by."""
    exact = 5 ** abs(power)
    if power < 0:
        shift = exact.bit_length() + 127
        first = (1 << shift) // exact
        extra = first.bit_length() - 128
        return first >> extra, extra - shift
    extra = exact.bit_length() - 128
    return (exact >> extra if extra > 0 else exact << -extra), extra


_FIVES = [_power_of_five(power) for power in range(LEAST_POWER, MOST_POWER + 1)]
_FIVES_HIGH = np.array([bits >> 64 for bits, _ in _FIVES], np.uint64)
_FIVES_LOW = np.array([bits & (1 << 64) - 1 for bits, _ in _FIVES], np.uint64)
_FIVES_SCALE = np.array([scale for _, scale in _FIVES], np.int64)

_ONE, _TEN, _ELEVEN, _HALF_WORD = np.uint64(1), np.uint64(10), np.uint64(11), np.uint64(32)
_LOW_HALF = np.uint64(0xFFFF_FFFF)
_ALL_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_TOP_BIT = np.uint64(1 << 63)


@helper
def is_digit(byte):
    """0 to 9."""
    return _ZERO <= byte <= _ZERO + 9


@helper
def multiply(a, b):
    """The 128 bits of a product of two uint64, as (high, low)."""
    a_low, a_high = a & _LOW_HALF, a >> _HALF_WORD
    b_low, b_high = b & _LOW_HALF, b >> _HALF_WORD
    first = a_high * b_low + ((a_low * b_low) >> _HALF_WORD)
    second = a_low * b_high + (first & _LOW_HALF)
    return a_high * b_high + (first >> _HALF_WORD) + (second >> _HALF_WORD), a * b


@kernel
def nearest_float(mantissa, power):
    """The float64 nearest to mantissa · 10**power, or -1 where neither algorithm settles it; mantissa is above 0."""
    if mantissa <= LARGEST_EXACT_MANTISSA and abs(power) <= LARGEST_EXACT_POWER:
        exact = np.float64(mantissa)
        return exact * POWERS_OF_TEN[power] if power >= 0 else exact / POWERS_OF_TEN[-power]
    if power < LEAST_POWER or power > MOST_POWER:
        return -1.0
    word = np.uint64(mantissa)
    scale = 64 + power + _FIVES_SCALE[power - LEAST_POWER]
    while word < _TOP_BIT:
        word <<= _ONE
        scale -= 1
    high, low = multiply(word, _FIVES_HIGH[power - LEAST_POWER])
    carried, _ = multiply(word, _FIVES_LOW[power - LEAST_POWER])
    low += carried
    if low < carried:
        high += _ONE
    # 53 bits of the high word are kept. The true rest is not below (rest, low) and less than 2 above it.
    n_rest = _TEN
    if high >= _TOP_BIT:
        n_rest = _ELEVEN
    kept = high >> n_rest
    rest = high & ((_ONE << n_rest) - _ONE)
    half = _ONE << (n_rest - _ONE)
    if rest > half or (rest == half and low > np.uint64(0)):
        kept += _ONE
    elif rest == half or (rest == half - _ONE and low == _ALL_ONES):
        return -1.0
    return math.ldexp(np.float64(kept), scale + 64 + np.int64(n_rest))


@helper
def scan_number(text, position):
    """Read ``[+-]digits[.digits][e[+-]digits]``: (end, negative, mantissa, power of ten, whether that is all of it).

    The end is -1 when there is no such number. Digits beyond what an int64 holds are left out, which the last
    item tells.
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
