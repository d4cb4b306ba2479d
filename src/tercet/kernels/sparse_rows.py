"""Rows of a W that is sparse while it trains, in memory that follows the non-zeros.

**Levels.** Owed shrinkage is stored in the entry itself. With ``cum`` the shrinkage handed out so far, a weight w is
kept as the *level* ``sign(w) (|w| + cum)``; the current weight is the soft-threshold of its level by ``cum``. Handing
out shrinkage changes one number, an entry takes its share when it is next read, and looking changes nothing. An entry
whose level is within ``cum`` of zero is dead: its weight is zero and its place can be given back.

**Rows.** Columns are ordered by frequency, so a row is dense at its start and sparse at its end. It has a *head*, a
level for each of its first columns, and a *tail*, a hash table of (column, level) slots for the others. The head ends
where a level for every column would cost more than the table (``best_head``); it may be the whole row, or nothing.
Columns that share a cache line of a head share one of a table, too.

All rows lie in one pool of 4-byte words (`LevelRows`); a row that moves leaves a gap, and ``compact`` closes the gaps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import helper, kernel

FREE = np.int32(-1)
# Places in ``books``: words taken so far, words in gaps, 1 when every head is the whole row, what an entry of a tail
# counts in bytes, words of gaps not worth closing, 1 when tails are to be filled further because room is short.
TAKEN, GAPS, WHOLE, COST, LEAST_GAPS, TIGHT = 0, 1, 2, 3, 4, 5
# A positive float32 sorts like its bit pattern; the upper bits put sizes into bins an 1/256th apart.
SIZE_BITS, SIZE_SHIFT = np.int32(0x7FFFFFFF), 15
N_SIZES = 1 << (32 - SIZE_SHIFT)
BLOCK = 64  # columns; heads end at such a border
# A column costs a head 4 bytes, an entry costs a table about 12. Heads are read far faster, so they may cost more.
FAST_COST, SMALL_COST = 40, 12

# Owed shrinkage, ``shrinkage`` float64 (4,): handed out so far, pending rates, l1, T.
CUM, PENDING, L1, SHRINK_EVERY = 0, 1, 2, 3


class LevelRows(NamedTuple):
    """Rows of W as levels; ``keys``, ``levels`` and ``pool`` are the same memory."""

    position: NDArray[Any]  # int64 (n_query_terms,), first word of the row, a multiple of 16
    head: NDArray[Any]  # int32 (n_query_terms,), columns of its head, a multiple of 16
    size: NDArray[Any]  # int32 (n_query_terms,), slots of its tail, a multiple of 8
    used: NDArray[Any]  # int32 (n_query_terms,), occupied ones, dead ones included
    keys: NDArray[Any]  # int32 (n_words,), column of a tail's slot k at first + 2 k, FREE when there is none
    levels: NDArray[Any]  # float32 (n_words,), level of that slot at first + 2 k + 1
    pool: NDArray[Any]  # float32 (1, n_words), as ``prefetch`` wants it
    books: NDArray[Any]  # int64 (6,), by TAKEN, GAPS, …
    counts: NDArray[Any]  # int64 (n_blocks,), room to count a row's entries by block of columns
    spare: NDArray[Any]  # int32 (2 n_doc_terms,), room for the entries of a tail


@helper
def soft(level, cum):
    """The weight a level stands for: the soft threshold of equation 7 by all shrinkage so far (Proposition 1)."""
    return max(level - cum, np.float32(0)) + min(level + cum, np.float32(0))


@helper
def level_of(weight, cum):
    """The level of a weight. That of exactly zero is cum, which reads as zero; a branch here would be mispredicted."""
    return weight + np.copysign(cum, weight)


@helper
def scatter(column):
    """A 32-bit hash, the same for eight neighbouring columns."""
    return (np.int64(column >> 3) * 0x9E3779B1) & 0xFFFFFFFF


@helper
def home(scattered, column, size):
    """The slot of a tail of that size where a search for the column starts."""
    return (((scattered * (size >> 3)) >> 32) << 3) + (column & 7)


@helper
def find(keys, first, size, k, column):
    """The word of the column's slot in the tail at ``first``, or of the free one where it would go; k is its home."""
    while True:
        word = first + 2 * k
        held = keys[word]
        if held == column or held == FREE:  # noqa: SIM109
            return word
        k += 1
        if k == size:
            k = 0


@helper
def tail_size(n, tight):
    """Slots for n entries, three fifths full, or four fifths where room is short."""
    slots = n * 5 // 4 if tight else n * 5 // 3
    return (slots + 8) // 8 * 8 if n > 0 else 0


@helper
def take(n, keys, books):
    """The first of n words, or -1 when the pool is full."""
    first = books[TAKEN]
    if first + n > keys.size:
        return np.int64(-1)
    books[TAKEN] += n
    return first


@helper
def new_row(head, size, absent, keys, levels, books):
    """The first word of an empty row, or -1."""
    first = take(head + 2 * size, keys, books)
    if first >= 0:
        levels[first : first + head] = absent
        for k in range(size):
            keys[first + head + 2 * k] = FREE
    return first


@kernel
def best_head(counts, n_live, cost):
    """Columns of the cheapest head for a row with these numbers of entries by block, ``cost`` bytes each in a tail."""
    best, cheapest, left = 0, n_live * cost, n_live
    for block in range(counts.size):
        left -= counts[block]
        total = 4 * BLOCK * (block + 1) + left * cost
        if total < cheapest:
            best, cheapest = block + 1, total
    return best * BLOCK


@helper
def count_head(row, cum, rows):
    """Count the live entries of a row's head by block, in the first of ``counts``; returns their number."""
    position, head, levels, counts = rows.position, rows.head, rows.levels, rows.counts
    line = levels[position[row] : position[row] + head[row]]
    total = 0
    for block in range(line.size // BLOCK):
        live = np.int32(0)
        for level in line[block * BLOCK : (block + 1) * BLOCK]:
            live += np.int32(abs(level) > cum)
        counts[block] = live
        total += live
    return total


@helper
def count_tail(row, cum, rows):
    """The number of live entries of a row's tail."""
    position, head, size, keys, levels = rows.position, rows.head, rows.size, rows.keys, rows.levels
    first = position[row] + head[row]
    live = 0
    for word in range(first, first + 2 * size[row], 2):
        live += (keys[word] != FREE) & (abs(levels[word + 1]) > cum)
    return live


@helper
def count_row(row, cum, rows):
    """Count the live entries of a row by block, in ``counts``; returns their number."""
    position, head, size, keys, levels, counts = (
        rows.position,
        rows.head,
        rows.size,
        rows.keys,
        rows.levels,
        rows.counts,
    )
    n_live = count_head(row, cum, rows)
    counts[head[row] // BLOCK :] = 0
    first = position[row] + head[row]
    for word in range(first, first + 2 * size[row], 2):
        if keys[word] != FREE and abs(levels[word + 1]) > cum:
            counts[keys[word] // BLOCK] += 1
            n_live += 1
    return n_live


@helper
def move_row(row, width, need, n_live, cum, rows):
    """Move a row's live entries, counted before, to a head of that width and a tail where ``need`` more fit.

    False when there is no room.
    """
    position, head, size, used, keys, levels, books, counts = (
        rows.position,
        rows.head,
        rows.size,
        rows.used,
        rows.keys,
        rows.levels,
        rows.books,
        rows.counts,
    )
    in_tail = n_live - counts[: width // BLOCK].sum()
    slots = tail_size(in_tail + need, books[TIGHT])
    fresh = new_row(width, slots, np.float32(0), keys, levels, books)
    if fresh < 0:
        return False
    tail = fresh + width
    first, old_width = position[row], head[row]
    for column in range(min(width, old_width)):
        level = levels[first + column]
        levels[fresh + column] = level if abs(level) > cum else np.float32(0)
    for column in range(width, old_width):
        level = levels[first + column]
        if abs(level) > cum:
            word = find(keys, tail, slots, home(scatter(column), column, slots), column)
            keys[word], levels[word + 1] = column, level
    for old in range(first + old_width, first + old_width + 2 * size[row], 2):
        column, level = keys[old], levels[old + 1]
        if column != FREE and abs(level) > cum:
            if column < width:
                levels[fresh + column] = level
            else:
                word = find(keys, tail, slots, home(scatter(column), column, slots), column)
                keys[word], levels[word + 1] = column, level
    books[GAPS] += old_width + 2 * size[row]
    position[row], head[row], size[row], used[row] = fresh, width, slots, in_tail
    return True


@helper
def purge_tail(row, cum, rows):
    """Drop the dead entries of a tail; ``spare`` has room for the others."""
    position, head, size, used, keys, levels, spare = (
        rows.position,
        rows.head,
        rows.size,
        rows.used,
        rows.keys,
        rows.levels,
        rows.spare,
    )
    first, slots = position[row] + head[row], size[row]
    n = 0
    for word in range(first, first + 2 * slots, 2):
        if keys[word] != FREE and abs(levels[word + 1]) > cum:
            spare[n], spare[n + 1] = keys[word], keys[word + 1]
            n += 2
        keys[word] = FREE
    for k in range(0, n, 2):
        column = spare[k]
        word = find(keys, first, slots, home(scatter(column), column, slots), column)
        keys[word], keys[word + 1] = column, spare[k + 1]
    used[row] = n // 2


@helper
def reserve(row, need, cum, rows):
    """See that a row's tail has room for ``need`` more entries; dead ones are dropped. False without room.

    Its head stays at least as wide: what it held needs no room in the tail.
    """
    head, size, books, counts = rows.head, rows.size, rows.books, rows.counts
    fullest = 8 if books[TIGHT] else 7  # tenths; fuller than a new one, so that rows seldom move
    if 10 * (count_tail(row, cum, rows) + need) <= fullest * size[row]:
        purge_tail(row, cum, rows)
        return True
    n_live = count_row(row, cum, rows)
    return move_row(row, max(head[row], best_head(counts, n_live, books[COST])), need, n_live, cum, rows)


@kernel
def sweep(rows, cum):
    """Give back what dead entries take: rows that could be half as large move.

    No weight changes. A row stays when the pool has no room to move it to.
    """
    position, head, size, books, counts = rows.position, rows.head, rows.size, rows.books, rows.counts
    for row in range(position.size):
        n_live = count_head(row, cum, rows) + count_tail(row, cum, rows)
        width = best_head(counts[: head[row] // BLOCK], n_live, books[COST])  # no wider than it is, for now
        in_tail = n_live - counts[: width // BLOCK].sum()
        if 2 * (width + 2 * tail_size(in_tail, books[TIGHT])) < head[row] + 2 * size[row]:
            n_live = count_row(row, cum, rows)
            move_row(row, best_head(counts, n_live, books[COST]), 0, n_live, cum, rows)


@kernel
def compact(rows, in_order):
    """Close the gaps: slide rows, ``in_order`` as they lie, to the start of the pool."""
    position, head, size, keys, books = rows.position, rows.head, rows.size, rows.keys, rows.books
    to = np.int64(0)
    for row in in_order:
        start, n = position[row], head[row] + 2 * size[row]
        if to != start:
            old, new = keys[start : start + n], keys[to : to + n]
            for word in range(n):  # downwards, so that a row may overlap its old place
                new[word] = old[word]
            position[row] = to
        to += n
    books[TAKEN], books[GAPS] = to, 0


@kernel
def rebase(rows, cum):
    """Take all owed shrinkage from the entries, so that ``cum`` can start from zero again; no weight changes."""
    position, head, size, keys, levels = rows.position, rows.head, rows.size, rows.keys, rows.levels
    for row in range(position.size):
        first = position[row]
        tail = first + head[row]
        for word in range(first, tail):
            levels[word] = soft(levels[word], cum)
        for word in range(tail, tail + 2 * size[row], 2):
            if keys[word] != FREE:
                levels[word + 1] = soft(levels[word + 1], cum)


@kernel
def count_sizes(rows, n_of_size):
    """Count the weights by size: ``n_of_size[bits >> SIZE_SHIFT]``. Nothing may be owed."""
    position, head, size, keys = rows.position, rows.head, rows.size, rows.keys
    for row in range(position.size):
        first = position[row]
        tail = first + head[row]
        for bits in keys[first:tail]:
            n_of_size[(bits & SIZE_BITS) >> SIZE_SHIFT] += 1
        for word in range(tail, tail + 2 * size[row], 2):
            if keys[word] != FREE:
                n_of_size[(keys[word + 1] & SIZE_BITS) >> SIZE_SHIFT] += 1


@kernel
def cut(rows, smallest, absent):
    """Drop every weight below ``smallest`` in size; heads get ``absent`` in its place. Nothing may be owed."""
    position, head, size, keys, levels = rows.position, rows.head, rows.size, rows.keys, rows.levels
    for row in range(position.size):
        first = position[row]
        tail = first + head[row]
        for word in range(first, tail):
            if not abs(levels[word]) >= smallest:
                levels[word] = absent
        for word in range(tail, tail + 2 * size[row], 2):
            if keys[word] != FREE and not abs(levels[word + 1]) >= smallest:
                levels[word + 1] = 0
        if size[row]:
            purge_tail(row, np.float32(0), rows)


@kernel
def count_live(rows, cum, n_live):
    """Live entries of each row."""
    for row in range(n_live.size):
        n_live[row] = count_head(row, cum, rows) + count_tail(row, cum, rows)


@kernel
def read_rows(rows, cum, indptr, columns, kept):
    """Write every live entry's column and level, row after row, columns of a row in no order."""
    position, head, size, keys, levels = rows.position, rows.head, rows.size, rows.keys, rows.levels
    for row in range(position.size):
        k = indptr[row]
        first, width = position[row], head[row]
        for column in range(width):
            if abs(levels[first + column]) > cum:
                columns[k], kept[k] = column, levels[first + column]
                k += 1
        for word in range(first + width, first + width + 2 * size[row], 2):
            if keys[word] != FREE and abs(levels[word + 1]) > cum:
                columns[k], kept[k] = keys[word], levels[word + 1]
                k += 1


@kernel
def write_rows(rows, indptr, columns, kept, absent):
    """Put entries into the first rows, none of which has a place yet; heads get ``absent`` elsewhere.

    False when there is no room.
    """
    position, head, size, used, keys, levels, books, counts = (
        rows.position,
        rows.head,
        rows.size,
        rows.used,
        rows.keys,
        rows.levels,
        rows.books,
        rows.counts,
    )
    for row in range(indptr.size - 1):
        lo, hi = indptr[row], indptr[row + 1]
        if books[WHOLE]:
            width = counts.size * BLOCK
        else:
            counts[:] = 0
            for k in range(lo, hi):
                counts[columns[k] // BLOCK] += 1
            width = best_head(counts, hi - lo, books[COST])
        in_tail = 0
        for k in range(lo, hi):
            in_tail += columns[k] >= width
        slots = tail_size(in_tail, books[TIGHT])
        first = new_row(width, slots, absent, keys, levels, books)
        if first < 0:
            return False
        for k in range(lo, hi):
            column = columns[k]
            if column < width:
                levels[first + column] = kept[k]
            else:
                word = find(keys, first + width, slots, home(scatter(column), column, slots), column)
                keys[word], levels[word + 1] = column, kept[k]
        position[row], head[row], size[row], used[row] = first, width, slots, in_tail
    return True


@helper
def hand_out(shrinkage, rate, n_done):
    """Algorithm 1, line 4: every T steps hand out ``λ Σ η_k`` of the steps k since the last time."""
    shrinkage[PENDING] += rate
    if n_done % shrinkage[SHRINK_EVERY] == 0:
        shrinkage[CUM] += shrinkage[L1] * shrinkage[PENDING]
        shrinkage[PENDING] = 0
