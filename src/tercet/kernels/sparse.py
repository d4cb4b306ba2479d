"""Margin rank loss with L1 on W (Chen et al. 2010, Algorithm 1). ``sparse_rows`` says how W is kept.

The paper's symbols: q is the query, ``vals`` d⁺ - d⁻, ``step_size`` η_t, ``l1`` λ, ``shrink_every`` T. Comments in
``sparse_advance`` have the lines of Algorithm 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.prefetch import line_starts, prefetch
from tercet.kernels.rows import difference, violates
from tercet.kernels.sparse_rows import (
    CUM,
    FREE,
    GAPS,
    LEAST_GAPS,
    TAKEN,
    find,
    hand_out,
    home,
    level_of,
    reserve,
    scatter,
    soft,
)

AHEAD = 4  # rows of W that are prefetched before they are read


@helper
def prefetch_row(row, cols, n, starts, m, scattered, rows):
    """Prefetch the cache lines of a row that the columns lie in; ``starts`` has one column of each line of a head."""
    position, head, size, pool = rows.position, rows.head, rows.size, rows.pool
    first, width, slots = position[row], head[row], size[row]
    for i in range(m):
        if starts[i] >= width:
            break
        prefetch(pool, 0, first + starts[i])
    if slots > 0:
        j = n - 1
        while j >= 0 and cols[j] >= width:
            prefetch(pool, 0, first + width + 2 * home(scattered[j], cols[j], slots))
            j -= 1


@helper
def gather(row, cols, n, scattered, cum, frozen, rows, weights, words):
    """Read the weights of a row at the columns, and where the tail has them: ``words[j]`` is -1 where it has none.

    Returns how many columns are in the head, how many are absent from the tail, and how many are dead in it.
    """
    position, head, size, keys, levels = rows.position, rows.head, rows.size, rows.keys, rows.levels
    first, width, slots = position[row], head[row], size[row]
    in_head = 0
    while in_head < n and cols[in_head] < width:
        in_head += 1
    if frozen:
        for j in range(in_head):
            level = levels[first + cols[j]]
            weights[j] = level if level == level else np.float32(0)  # NaN: not in the support
    else:
        for j in range(in_head):
            weights[j] = soft(levels[first + cols[j]], cum)
    if slots == 0:
        for j in range(in_head, n):
            weights[j], words[j] = 0, -1
        return in_head, n - in_head, 0
    absent, dead = 0, 0
    tail = first + width
    for j in range(in_head, n):
        word = find(keys, tail, slots, home(scattered[j], cols[j], slots), cols[j])
        held = keys[word] != FREE
        weight = soft(levels[word + 1], cum) if held else np.float32(0)
        weights[j], words[j] = weight, word + 1 if held else -word - 1
        absent += not held
        dead += held and weight == 0
    return in_head, absent, dead


@helper
def put(row, cols, n, in_head, scattered, cum, rows, weights, words):
    """Write weights to where ``gather`` found them, and those that the tail does not have yet to free slots."""
    position, head, size, used, keys, levels = rows.position, rows.head, rows.size, rows.used, rows.keys, rows.levels
    first, width, slots = position[row], head[row], size[row]
    for j in range(in_head):
        levels[first + cols[j]] = level_of(weights[j], cum)
    for j in range(in_head, n):
        word = words[j]
        if word < 0:
            # The slot was free when it was read, but a neighbour may have taken it since.
            k = (-word - 1 - first - width) >> 1
            word = find(keys, first + width, slots, k, cols[j]) + 1
            keys[word - 1] = cols[j]
            used[row] += 1
        levels[word] = level_of(weights[j], cum)


@helper
def add_on_support(row, cols, n, in_head, rows, change, words):
    """Add to the entries that there are, and to no others: P_Ω of equation 8."""
    position, levels = rows.position, rows.levels
    first = position[row]
    for j in range(in_head):
        levels[first + cols[j]] += change[j]  # NaN stays NaN
    for j in range(in_head, n):
        if words[j] >= 0:
            levels[words[j]] += change[j]


@helper
def reserve_entries(query_words, cum, rows, counts):
    """Make room in the rows of a query for the entries they lack; False when rows must be tidied first."""
    books, size, used = rows.books, rows.size, rows.used
    if books[GAPS] > books[LEAST_GAPS] and 8 * books[GAPS] > books[TAKEN]:
        return False
    for a in range(query_words.size):
        row = query_words[a]
        absent, dead = counts[a, 1], counts[a, 2]
        if absent and 5 * (used[row] + absent) > 4 * size[row]:
            if not reserve(row, absent + dead, cum, rows):
                return False
            counts[a, 0] = -1  # read again: what was read is elsewhere now
    return True


@kernel
def forget_never(row, cols, n, never, weights):
    """Set the weights of a row at those of the sorted columns that are never to have any to zero."""
    indptr, indices, _ = never
    j = 0
    for k in range(indptr[row], indptr[row + 1]):
        while j < n and cols[j] < indices[k]:
            j += 1
        if j < n and cols[j] == indices[k]:
            weights[j] = 0


class StepBuffers(NamedTuple):
    """What was read of as many rows as fit, so that a violation need not read again, and room for a step."""

    weights: NDArray[Any]  # float32
    words: NDArray[Any]  # int64, where the tail has them
    counts: NDArray[Any]  # int64 (words of a query, 3), what ``gather`` returned of each row
    scattered: NDArray[Any]  # int64, the hash of each column
    expanded: NDArray[Any]  # float32, ``q'W`` at the columns


@kernel
def sparse_advance(rows, Q, D, chunk, start, shrinkage, first_step, frozen, never, scratch, buffers, tally):
    """Steps over the preferences until all are done or rows must be tidied; returns how many were done.

    ``start`` has, for each preference, a margin that is not W's to learn. With ``frozen`` no entry is added and none
    shrinks: only those that tails have, and those of heads that are not NaN, are learned. Entries of ``never``
    (CsrRows) stay at zero. ``tally`` as in ``dense_advance``.
    """
    cols, vals, starts, change = scratch
    weights, words, counts, scattered, expanded = buffers
    q_indptr, q_indices, q_data = Q
    for s in range(chunk.query.size):  # line 1: the tuple (q, d⁺, d⁻) that was drawn
        cum = np.float32(shrinkage[CUM])
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        m = line_starts(cols, n, starts)
        for j in range(n):
            scattered[j] = scatter(cols[j])
            expanded[j] = 0
        lo, hi = q_indptr[chunk.query[s]], q_indptr[chunk.query[s] + 1]
        last_block = weights.size // max(n, 1) - 1  # rows from here on share it
        for a in range(lo, min(lo + AHEAD, hi)):
            prefetch_row(q_indices[a], cols, n, starts, m, scattered, rows)
        for a in range(lo, hi):
            if a + AHEAD < hi:
                prefetch_row(q_indices[a + AHEAD], cols, n, starts, m, scattered, rows)
            first = min(a - lo, last_block) * n
            read, where = weights[first : first + n], words[first : first + n]
            in_head, absent, dead = gather(q_indices[a], cols, n, scattered, cum, frozen, rows, read, where)
            counts[a - lo, 0], counts[a - lo, 1], counts[a - lo, 2] = in_head, absent, dead
            q = q_data[a]
            for j in range(n):
                expanded[j] += q * read[j]
        z = np.float32(start[s])
        for j in range(n):  # line 2: the loss is 1 - z, with z = q'W(d⁺ - d⁻)
            z += expanded[j] * vals[j]
        missed = not z >= chunk.margin[s]
        if missed and not frozen and not reserve_entries(q_indices[lo:hi], cum, rows, counts):
            return s
        if violates(z, chunk.margin[s], tally):
            for a in range(lo, hi):
                row = q_indices[a]
                e = chunk.step_size[s] * q_data[a]
                block = min(a - lo, last_block)
                read, where = weights[block * n : block * n + n], words[block * n : block * n + n]
                in_head = counts[a - lo, 0]
                if in_head < 0 or block == last_block:
                    in_head, _, _ = gather(row, cols, n, scattered, cum, frozen, rows, read, where)
                # Line 3: W += η_t q (d⁺ - d⁻)'.
                if frozen:
                    for j in range(n):
                        change[j] = e * vals[j]
                    add_on_support(row, cols, n, in_head, rows, change, where)
                else:
                    for j in range(n):
                        read[j] += e * vals[j]
                    forget_never(row, cols, n, never, read)
                    put(row, cols, n, in_head, scattered, cum, rows, read, where)
        hand_out(shrinkage, chunk.rate[s], first_step + s + 1)  # line 4
    return chunk.query.size
