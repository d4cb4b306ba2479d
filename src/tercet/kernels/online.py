"""Single preferences, one passive-aggressive step each (PA-I of Crammer et al. 2006), on a W in one hash table.

A step for a query q, a better document b and a worse one w changes W along ``X = q (b - w)'``, the shortest way to put
b ahead of w. With ``gap = target - margin``, the step adds ``min(gap, reach * target)`` to the margin, and nothing
where the gap is not above 0. A step may be confined to its largest pairs and to a Euclidean length.

A table is ``(keys int64, weights float64)``, both (n_slots,), a power of two: open addressing with linear probing. A
key is ``i * n_doc_terms + j``, FREE where there is none. Sums are taken in their order, so that a preference gives the
same bits alone and in any portion of many.
"""

import numpy as np

from tercet.kernels.compiler import IN_ORDER, kernel
from tercet.kernels.rows import difference

FREE = np.int64(-1)
PAIRS, LENGTH, LARGEST = 0, 1, 2  # positions in ``bounds``; a bound of 0 means no bound


def in_order(function):
    return kernel(function, IN_ORDER)


@in_order
def probed(keys, key, slot):
    """Return the first slot, from a slot on, with a key or free."""
    last = keys.size - 1
    while keys[slot] != key and keys[slot] != FREE:
        slot = (slot + 1) & last
    return slot


@in_order
def slot_of(keys, key):
    """Return the slot of a key, or the free slot for the key."""
    hashed = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20))
    return probed(keys, key, hashed & (keys.size - 1))


@in_order
def weight_in(table, slot):
    """The weight in a slot, 0 in a free one."""
    return 0.0 if table[0][slot] == FREE else table[1][slot]


@in_order
def fill_table(table, keys, weights):
    """Put distinct keys with their weights into an empty table."""
    for k in range(keys.size):
        slot = slot_of(table[0], keys[k])
        table[0][slot], table[1][slot] = keys[k], weights[k]


@in_order
def margin_of(table, n_doc_terms, q_terms, q_values, cols, vals, n, slots):
    """``q' W x`` for the sparse x (cols, vals, n); ``slots`` (int64) receives the slots of the pairs, by rising key."""
    total = 0.0
    for a in range(q_terms.size):
        expanded = 0.0
        for j in range(n):
            slot = slot_of(table[0], np.int64(q_terms[a]) * n_doc_terms + cols[j])
            slots[a * n + j] = slot
            expanded += weight_in(table, slot) * vals[j]
        total += q_values[a] * expanded
    return total


@in_order
def propose(n_doc_terms, q_terms, q_values, cols, vals, n, gap, target, reach, bounds, step_keys, step_change, slots):
    """Write the pairs of the step for a gap above 0, by rising key, and their changes; return their number.

    ``slots`` are the slots of all pairs of the query with x; afterwards its first entries are the slots of the step.
    """
    m = q_terms.size * n
    move = min(gap, reach * target)
    if m == 0 or not move > 0:
        return 0
    for a in range(q_terms.size):
        for j in range(n):
            step_keys[a * n + j] = np.int64(q_terms[a]) * n_doc_terms + cols[j]
            step_change[a * n + j] = np.float64(q_values[a]) * vals[j]
    if 0 < bounds[PAIRS] < m:
        most = int(bounds[PAIRS])
        sizes = np.abs(step_change[:m])
        least = np.partition(sizes, m - most)[m - most]  # of those that stay
        n_ties = most
        for k in range(m):
            n_ties -= sizes[k] > least
        kept = 0
        for k in range(m):
            is_tie = sizes[k] == least
            if sizes[k] > least or (is_tie and n_ties > 0):  # ties by lower key
                n_ties -= is_tie
                step_keys[kept], step_change[kept], slots[kept] = step_keys[k], step_change[k], slots[k]
                kept += 1
        m = kept
    squared = 0.0
    for k in range(m):
        squared += step_change[k] * step_change[k]
    if not squared > 0:
        return 0
    scale = move / squared
    if bounds[LENGTH] > 0:
        scale = min(scale, bounds[LENGTH] / np.sqrt(squared))
    for k in range(m):
        step_change[k] *= scale
    return m


@in_order
def put_weight(table, slot, key, weight, largest):
    """Write a weight, kept within ``largest``; returns whether the pair is new."""
    if largest > 0:
        weight = max(-largest, min(largest, weight))
    is_new = table[0][slot] == FREE
    table[0][slot], table[1][slot] = key, weight
    return is_new


@in_order
def add_step(table, keys, change, slots, largest):
    """Add a step, with weights limited to ``largest``; return the number of new pairs.

    ``slots`` are the slots of its pairs from `margin_of`; free slots must exist.
    """
    n_new = 0
    for k in range(keys.size):
        slot = probed(table[0], keys[k], slots[k])  # an earlier pair may have taken the slot
        n_new += put_weight(table, slot, keys[k], weight_in(table, slot) + change[k], largest)
    return n_new


@in_order
def online_advance(table, n_used, Q, D, n_doc_terms, chunk, bounds, scratch, tally):
    """Steps over preferences until all are done or the table is half full; returns steps done and slots used.

    ``chunk`` is (query, better, worse int32, base, target, reach float64), one of each per preference; ``base`` is the
    margin of constant weights. ``scratch`` is (cols int32, vals float32, keys int64, change float64, slots int64), with
    room for two documents, and for all pairs with a query. ``tally`` gets the violations and the sum of their gaps.
    """
    query, better, worse, base, target, reach = chunk
    cols, vals, step_keys, step_change, slots = scratch
    q_indptr, q_indices, q_data = Q
    for s in range(query.size):
        lo, hi = q_indptr[query[s]], q_indptr[query[s] + 1]
        n = difference(D, better[s], worse[s], cols, vals)
        if 2 * (n_used + (hi - lo) * n) > table[0].size:
            return s, n_used
        q_terms, q_values = q_indices[lo:hi], q_data[lo:hi]
        gap = target[s] - base[s] - margin_of(table, n_doc_terms, q_terms, q_values, cols, vals, n, slots)
        if not gap <= 0 and n > 0 and hi > lo:
            tally[0] += 1
            tally[1] += gap
            m = propose(
                n_doc_terms,
                q_terms,
                q_values,
                cols,
                vals,
                n,
                gap,
                target[s],
                reach[s],
                bounds,
                step_keys,
                step_change,
                slots,
            )
            n_used += add_step(table, step_keys[:m], step_change[:m], slots, bounds[LARGEST])
    return query.size, n_used
