"""Margin rank loss with L1 on W (Chen et al. 2010, Algorithm 1). ``sparse_rows`` says how W is kept."""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.dense import line_starts
from tercet.kernels.prefetch import prefetch
from tercet.kernels.rows import difference
from tercet.kernels.sparse_rows import FREE, GAPS, LEAST_GAPS, TAKEN, find, home, level_of, make_room, scatter, soft

AHEAD = 4  # rows of W asked for before they are read


@kernel
def ask_for(row, cols, n, starts, m, scattered, rows):
    """Ask for the cache lines of a row that the columns lie in; ``starts`` has one column of each line of a head."""
    place, head, size, _, _, _, pool, _, _, _ = rows
    first, width, slots = place[row], head[row], size[row]
    for i in range(m):
        if starts[i] >= width:
            break
        prefetch(pool, 0, first + starts[i])
    if slots > 0:
        j = n - 1
        while j >= 0 and cols[j] >= width:
            prefetch(pool, 0, first + width + 2 * home(scattered[j], cols[j], slots))
            j -= 1


@kernel
def gather(row, cols, n, scattered, cum, frozen, rows, weights, words):
    """Read the weights of a row at the columns, and where the tail has them: ``words[j]`` is -1 where it has none.

    Returns how many columns are in the head, how many are absent from the tail, and how many are dead in it.
    """
    place, head, size, _, keys, levels, _, _, _, _ = rows
    first, width, slots = place[row], head[row], size[row]
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
        found = keys[word] != FREE
        weight = soft(levels[word + 1], cum) if found else np.float32(0)
        weights[j], words[j] = weight, word + 1 if found else -word - 1
        absent += not found
        dead += found and weight == 0
    return in_head, absent, dead


@kernel
def put(row, cols, n, in_head, scattered, cum, rows, weights, words):
    """Write weights to where ``gather`` found them, and those that the tail does not have yet to free slots."""
    place, head, size, used, keys, levels, _, _, _, _ = rows
    first, width, slots = place[row], head[row], size[row]
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


@kernel
def add_on_support(row, cols, n, in_head, rows, change, words):
    """Add to the entries that there are, and to no others."""
    place, _, _, _, _, levels, _, _, _, _ = rows
    first = place[row]
    for j in range(in_head):
        levels[first + cols[j]] += change[j]  # NaN stays NaN
    for j in range(in_head, n):
        if words[j] >= 0:
            levels[words[j]] += change[j]


@kernel
def sparse_advance(rows, Q, D, chunk, start, shrinkage, first_step, frozen, scratch, kept, tally):
    """Steps over the preferences until all are done or rows must be tidied; returns how many were done.

    ``start`` has, for each preference, a margin that is not W's to learn. ``shrinkage`` is (cum, pending, l1, T): the
    rates of the steps since the last shrinkage are pending, and every T steps ``l1`` times their sum is handed out.
    With ``frozen`` no entry is added and none shrinks: only those that tails have, and those of heads that are not
    NaN, are learned. ``kept`` is (weights float32, words int64, counts int64 (words of a query, 3), scattered int64,
    expanded float32); the first two hold what was read of as many rows as fit, so that a violation need not read
    again. ``tally`` as in ``dense_advance``.
    """
    query, better, worse, step_size, rate, margin = chunk
    cols, vals, starts, change = scratch
    weights, words, counts, scattered, expanded = kept
    _, _, size, used, _, _, _, books, _, _ = rows
    q_indptr, q_indices, q_data = Q
    for s in range(query.size):
        cum = np.float32(shrinkage[0])
        n = difference(D, better[s], worse[s], cols, vals)
        m = line_starts(cols, n, starts)
        for j in range(n):
            scattered[j] = scatter(cols[j])
            expanded[j] = 0
        lo, hi = q_indptr[query[s]], q_indptr[query[s] + 1]
        last_block = weights.size // max(n, 1) - 1  # rows from here on share it
        for a in range(lo, min(lo + AHEAD, hi)):
            ask_for(q_indices[a], cols, n, starts, m, scattered, rows)
        for a in range(lo, hi):
            if a + AHEAD < hi:
                ask_for(q_indices[a + AHEAD], cols, n, starts, m, scattered, rows)
            at = min(a - lo, last_block) * n
            found = weights[at : at + n]
            in_head, absent, dead = gather(
                q_indices[a], cols, n, scattered, cum, frozen, rows, found, words[at : at + n]
            )
            counts[a - lo, 0], counts[a - lo, 1], counts[a - lo, 2] = in_head, absent, dead
            q = q_data[a]
            for j in range(n):
                expanded[j] += q * found[j]
        z = np.float32(start[s])
        for j in range(n):
            z += expanded[j] * vals[j]
        if not z >= margin[s]:
            if not frozen:
                gaps = books[GAPS] > books[LEAST_GAPS] and 8 * books[GAPS] > books[TAKEN]
                if gaps:
                    return s
                for a in range(lo, hi):
                    row = q_indices[a]
                    absent, dead = counts[a - lo, 1], counts[a - lo, 2]
                    if absent and 5 * (used[row] + absent) > 4 * size[row]:
                        if not make_room(row, absent + dead, cum, rows):
                            return s
                        counts[a - lo, 0] = -1  # read again: what was read is elsewhere now
            tally[0] += 1
            tally[1] += margin[s] - z
            for a in range(lo, hi):
                row = q_indices[a]
                e = step_size[s] * q_data[a]
                block = min(a - lo, last_block)
                found, where = weights[block * n : block * n + n], words[block * n : block * n + n]
                in_head = counts[a - lo, 0]
                if in_head < 0 or block == last_block:
                    in_head, _, _ = gather(row, cols, n, scattered, cum, frozen, rows, found, where)
                if frozen:
                    for j in range(n):
                        change[j] = e * vals[j]
                    add_on_support(row, cols, n, in_head, rows, change, where)
                else:
                    for j in range(n):
                        found[j] += e * vals[j]
                    put(row, cols, n, in_head, scattered, cum, rows, found, where)
        shrinkage[1] += rate[s]
        if (first_step + s + 1) % shrinkage[3] == 0:
            shrinkage[0] += shrinkage[2] * shrinkage[1]
            shrinkage[1] = 0
    return query.size
