"""Lines of LETOR text to rows of numbers: ``grade qid:id feature:value … # comment``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.decimals import (
    is_digit,
    nearest_float,
    scan_number,
)

# Outcomes of `parse_lines`: kinds of tokens that stop the parser.
ALL_READ, BAD_GRADE, NO_QID, BAD_QID, BAD_FEATURE = 0, 1, 2, 3, 4

LONGEST_GRADE, LONGEST_QID = 9, 255  # digits, bytes
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

_TAB, _NEWLINE, _RETURN, _BLANK = 9, 10, 13, 32
_HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON = 35, 43, 45, 46, 48, 58
_Q, _I, _D = 113, 105, 100


@helper
def is_blank(byte):
    """Space, tab, vertical tab, form feed or carriage return; not the newline."""
    return byte == _BLANK or (_TAB <= byte <= _RETURN and byte != _NEWLINE)


@helper
def ends_token(byte):
    """A blank, a newline or the start of a comment."""
    return byte in (_HASH, _NEWLINE) or is_blank(byte)


@helper
def token_end(text, position):
    """Return the end of the token at `position`."""
    while not ends_token(text[position]):
        position += 1
    return position


class ParsedLines(NamedTuple):
    """Progress of `parse_lines`, and the filled length of each array."""

    outcome: int  # ALL_READ, or the kind of the token that stopped the parser
    begin: int  # of that token, and its end
    end: int
    line: int
    previous: int  # the feature id before the token
    n_rows: int
    n_runs: int
    n_unsettled: int
    largest_id: int


@kernel
def parse_lines(text, largest_id, grades, row_ends, comments, runs, columns, values, unsettled):
    """Parse whole lines; blank lines and comment lines are no rows.

    text       (n_bytes,)     uint8, its last byte is a newline
    largest_id                the largest feature id allowed
    Filled in, with room for the whole text:
    grades     (n_rows,)      int64
    row_ends   (n_rows,)      number of values up to and with this row
    comments   (n_rows, 2)    begin and end of the text after ``#``; equal without a comment
    runs       (n_rows, 4)    for every stretch of rows with the same qid: its first row, the line number in the text
                              (from 1), begin and end of the qid
    columns    (n_values,)    feature ids less 1, of nonzero values
    values     (n_values,)    float32
    unsettled  (n_values, 3)  values left to the caller, written 0: number of the value, begin and end of its digits
    Return `ParsedLines`.
    """
    n_rows = 0
    n_runs = 0
    n_values = 0
    n_unsettled = 0
    largest = 0
    line = 0
    position = 0
    while position < text.shape[0]:
        line += 1
        while is_blank(text[position]):
            position += 1
        if text[position] == _NEWLINE or text[position] == _HASH:
            while text[position] != _NEWLINE:
                position += 1
            position += 1
            continue

        token = position
        negative = text[position] == _MINUS
        if negative or text[position] == _PLUS:
            position += 1
        start = position
        grade = 0
        while is_digit(text[position]):
            grade = grade * 10 + (np.int64(text[position]) - _ZERO)
            position += 1
        n_digits = position - start
        if text[position] == _POINT:
            position += 1
            while text[position] == _ZERO:
                position += 1
        if negative:
            grade = -grade
        if n_digits == 0 or n_digits > LONGEST_GRADE or not ends_token(text[position]):
            position = token_end(text, position)
            return ParsedLines(BAD_GRADE, token, position, line, 0, n_rows, n_runs, n_unsettled, largest)

        while is_blank(text[position]):
            position += 1
        if not (
            text[position] == _Q
            and text[position + 1] == _I
            and text[position + 2] == _D
            and text[position + 3] == _COLON
        ):
            end = token_end(text, position)
            return ParsedLines(NO_QID, position, end, line, 0, n_rows, n_runs, n_unsettled, largest)
        start = position + 4
        position = token_end(text, start)
        if position == start or position - start > LONGEST_QID:
            return ParsedLines(BAD_QID, start, position, line, 0, n_rows, n_runs, n_unsettled, largest)
        differs = n_runs == 0 or runs[n_runs - 1, 3] - runs[n_runs - 1, 2] != position - start
        if not differs:
            before = runs[n_runs - 1, 2]
            for i in range(position - start):
                if text[before + i] != text[start + i]:
                    differs = True
                    break
        if differs:
            runs[n_runs, 0] = n_rows
            runs[n_runs, 1] = line
            runs[n_runs, 2] = start
            runs[n_runs, 3] = position
            n_runs += 1

        previous = 0
        while True:
            while is_blank(text[position]):
                position += 1
            if text[position] == _NEWLINE or text[position] == _HASH:
                break
            token = position
            while text[position] == _ZERO:
                position += 1
            start = position
            feature = 0
            while is_digit(text[position]):
                feature = feature * 10 + (np.int64(text[position]) - _ZERO)
                position += 1
            is_feature = (
                position > token
                and position - start <= 10
                and text[position] == _COLON
                and previous < feature <= largest_id
            )
            end = -1
            if is_feature:
                start = position + 1
                end, negative, mantissa, power, whole = scan_number(text, start)
            if end < 0 or not ends_token(text[end]):
                end = token_end(text, position)
                return ParsedLines(BAD_FEATURE, token, end, line, previous, n_rows, n_runs, n_unsettled, largest)
            position = end
            previous = feature
            if mantissa == 0 and whole and not negative:
                continue
            columns[n_values] = feature - 1
            size = nearest_float(mantissa, power) if whole and mantissa > 0 else -1.0
            if 0 <= size <= LARGEST_FLOAT32:
                values[n_values] = np.float32(-size if negative else size)
            else:  # also -0, whose sign the compiler may drop
                values[n_values] = np.float32(0)
                unsettled[n_unsettled, 0] = n_values
                unsettled[n_unsettled, 1] = start
                unsettled[n_unsettled, 2] = end
                n_unsettled += 1
            n_values += 1
        largest = max(largest, previous)

        comments[n_rows, 0] = position
        if text[position] == _HASH:
            comments[n_rows, 0] = position + 1
            while text[position] != _NEWLINE:
                position += 1
        comments[n_rows, 1] = position
        position += 1
        grades[n_rows] = grade
        row_ends[n_rows] = n_values
        n_rows += 1
    return ParsedLines(ALL_READ, 0, 0, line, 0, n_rows, n_runs, n_unsettled, largest)


@kernel
def fill_dense(row_ends, columns, values, X):
    """Write the values (n_values,) of rows that end at `row_ends` into the zeros of X (n_rows, n_columns)."""
    first = 0
    for row in range(row_ends.shape[0]):
        for i in range(first, row_ends[row]):
            X[row, columns[i]] = values[i]
        first = row_ends[row]
