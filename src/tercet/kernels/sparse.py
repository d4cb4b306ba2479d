"""Margin rank loss with L1 on W (Chen et al. 2010, Algorithm 1), in memory that follows the non-zeros.

**Levels.** Owed shrinkage is stored in the entry itself. With ``cum`` the shrinkage handed out so far, a weight w is
kept as the *level* ``sign(w) (|w| + cum)``; the current weight is the soft-threshold of its level by ``cum``. Handing
out shrinkage changes one number, an entry takes its share when it is next read, and looking changes nothing. An entry
whose level is within ``cum`` of zero is dead: its weight is zero and its place can be given back.

**Rows.** A row of W with many live entries is *direct*: a level for each column. One with few is a hash table of
(column, level) slots, eight bytes each; eight neighbouring columns share a cache line, as they would in a direct row.
Both lie in one pool of slots. ``rows`` is the tuple

    place   int64 (n_query_terms,)   first slot of the row
    bits    int32 (n_query_terms,)   log2 of a table's slots; 0 for a direct row
    used    int32 (n_query_terms,)   occupied slots of a table, dead ones included
    slots   int32 (2 n_slots,)       column of slot k at 2 k, -1 when free
    levels  float32 (2 n_slots,)     the same memory: level of slot k at 2 k + 1; a direct row's levels in order
    books   int64 (48,)              next slot never used, number of slots, columns of W, slots of a direct row, then
                                     the first of the given-back direct rows, and of the tables of each size
"""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.rows import difference

FREE = np.int32(-1)
SMALLEST = 3  # a table has at least 8 slots
NEXT_SLOT, N_SLOTS, N_COLUMNS, DIRECT_SLOTS, FREE_DIRECT, FREE_TABLES = 0, 1, 2, 3, 4, 8
N_BOOKS = 48


@kernel
def soft(level, cum):
    """The weight a level stands for."""
    return max(level - cum, np.float32(0)) + min(level + cum, np.float32(0))


@kernel
def level_of(weight, cum):
    """The level of a weight. That of exactly zero is cum, which reads as zero; a branch here would be mispredicted."""
    return weight + np.copysign(cum, weight)


@kernel
def find(slots, first, mask, column):
    """The slot of a column, or the free one where it would go. Eight neighbours stay together."""
    block = (np.int64(column >> 3) * 0x9E3779B1) >> 13
    k = ((block << 3) + (column & 7)) & mask
    while True:
        held = slots[2 * (first + k)]
        if held == column or held == FREE:  # noqa: SIM109
            return first + k
        k = (k + 1) & mask


@kernel
def take(n, list_head, slots, books):
    """The first of n slots, given back ones first; -1 when the pool is full."""
    first = books[list_head]
    if first >= 0:
        # What was given back holds the place of the next such one, in units of 8 slots, in its first slot.
        following = np.int64(slots[2 * first + 1])
        books[list_head] = following * 8 if following >= 0 else -1
        return first
    first = books[NEXT_SLOT]
    if first + n > books[N_SLOTS]:
        return np.int64(-1)
    books[NEXT_SLOT] += n
    return first


@kernel
def give_back(first, list_head, slots, books):
    head = books[list_head]
    slots[2 * first + 1] = head // 8 if head >= 0 else -1
    books[list_head] = first


@kernel
def take_table(size, slots, books):
    """The first slot of an empty table of 2**size slots, or -1."""
    first = take(1 << size, FREE_TABLES + size, slots, books)
    if first >= 0:
        for k in range(first, first + (1 << size)):
            slots[2 * k] = FREE
    return first


@kernel
def direct_row(first, levels, books):
    """The levels of a direct row, (n_doc_terms,)."""
    return levels[2 * first : 2 * first + books[N_COLUMNS]]


@kernel
def size_for(n):
    """log2 of the slots for n entries, at most two thirds full."""
    size = SMALLEST
    while 2 * (1 << size) < 3 * n:
        size += 1
    return size


@kernel
def resize_row(row, need, dense_from, cum, rows):
    """Move a row's live entries to where ``need`` more fit; dead ones are dropped. False when there is no room."""
    place, bits, used, slots, levels, books = rows
    first, size = place[row], bits[row]
    live = 0
    for k in range(first, first + (1 << size)):
        if slots[2 * k] != FREE and abs(levels[2 * k + 1]) > cum:
            live += 1
    if live + need >= dense_from:
        fresh = take(books[DIRECT_SLOTS], FREE_DIRECT, slots, books)
        if fresh < 0:
            return False
        line = direct_row(fresh, levels, books)
        line[:] = 0
        for k in range(first, first + (1 << size)):
            if slots[2 * k] != FREE and abs(levels[2 * k + 1]) > cum:
                line[slots[2 * k]] = levels[2 * k + 1]
        give_back(first, FREE_TABLES + size, slots, books)
        place[row], bits[row], used[row] = fresh, 0, 0
        return True
    fitting = size_for(live + need)
    table = take_table(fitting, slots, books)
    if table < 0:
        return False
    mask = (1 << fitting) - 1
    for k in range(first, first + (1 << size)):
        if slots[2 * k] != FREE and abs(levels[2 * k + 1]) > cum:
            at = find(slots, table, mask, slots[2 * k])
            slots[2 * at], levels[2 * at + 1] = slots[2 * k], levels[2 * k + 1]
    give_back(first, FREE_TABLES + size, slots, books)
    place[row], bits[row], used[row] = table, fitting, live
    return True


@kernel
def sparse_advance(rows, Q, D, chunk, margin, shrinkage, first_step, dense_from, frozen, scratch, missing, tally):
    """Steps over the preferences until all are done or there is no room; returns how many were done.

    ``shrinkage`` is (cum, pending, l1, T): the rates of the steps since the last shrinkage are pending, and every T
    steps ``l1`` times their sum is handed out. With ``frozen`` no entry is added and none shrinks: only those that
    tables have, and those of direct rows that are not NaN, are learned. A row becomes direct at ``dense_from`` live
    entries. ``missing`` has room for the words of a query. ``tally`` as in ``dense_advance``.
    """
    query, better, worse, step_size, rate = chunk
    cols, vals, _, _ = scratch
    place, bits, used, slots, levels, books = rows
    q_indptr, q_indices, q_data = Q
    for s in range(query.size):
        c = np.float32(shrinkage[0])
        n = difference(D, better[s], worse[s], cols, vals)
        lo, hi = q_indptr[query[s]], q_indptr[query[s] + 1]
        z = np.float32(0)
        for a in range(lo, hi):
            row = q_indices[a]
            absent = 0
            part = np.float32(0)
            if bits[row] == 0:
                line = direct_row(place[row], levels, books)
                if frozen:
                    for j in range(n):
                        level = line[cols[j]]
                        if level == level:
                            part += level * vals[j]
                else:
                    for j in range(n):
                        part += soft(line[cols[j]], c) * vals[j]
            else:
                first, mask = place[row], (1 << bits[row]) - 1
                for j in range(n):
                    k = find(slots, first, mask, cols[j])
                    # A dead entry counts as absent: it is dropped, and added again, when the row is moved.
                    if slots[2 * k] == FREE or abs(levels[2 * k + 1]) <= c:
                        absent += 1
                    else:
                        part += soft(levels[2 * k + 1], c) * vals[j]
            missing[a - lo] = absent
            z += part * q_data[a]
        if not z >= margin:
            if not frozen:
                for a in range(lo, hi):
                    row = q_indices[a]
                    need = missing[a - lo]
                    full = bits[row] and 4 * (used[row] + need) > 3 * (1 << bits[row])
                    if full and not resize_row(row, need, dense_from, c, rows):
                        return s
            tally[0] += 1
            tally[1] += margin - z
            for a in range(lo, hi):
                row = q_indices[a]
                e = step_size[s] * q_data[a]
                if bits[row] == 0:
                    line = direct_row(place[row], levels, books)
                    if frozen:
                        for j in range(n):
                            line[cols[j]] += e * vals[j]  # NaN stays NaN
                    else:
                        for j in range(n):
                            line[cols[j]] = level_of(soft(line[cols[j]], c) + e * vals[j], c)
                else:
                    first, mask = place[row], (1 << bits[row]) - 1
                    for j in range(n):
                        k = find(slots, first, mask, cols[j])
                        if slots[2 * k] != FREE:
                            levels[2 * k + 1] = level_of(soft(levels[2 * k + 1], c) + e * vals[j], c)
                        elif not frozen:
                            slots[2 * k] = cols[j]
                            levels[2 * k + 1] = level_of(e * vals[j], c)
                            used[row] += 1
        shrinkage[1] += rate[s]
        if (first_step + s + 1) % shrinkage[3] == 0:
            shrinkage[0] += shrinkage[2] * shrinkage[1]
            shrinkage[1] = 0
    return query.size


@kernel
def rebase(rows, cum):
    """Take all owed shrinkage from the entries, so that ``cum`` can start from zero again; no weight changes."""
    place, bits, _, slots, levels, books = rows
    for row in range(place.size):
        if bits[row] == 0:
            line = direct_row(place[row], levels, books)
            for j in range(line.size):
                line[j] = soft(line[j], cum)
        else:
            for k in range(place[row], place[row] + (1 << bits[row])):
                if slots[2 * k] != FREE:
                    levels[2 * k + 1] = soft(levels[2 * k + 1], cum)


@kernel
def sweep(rows, sparse_from, cum):
    """Give back what dead entries take: tables shrink to their live entries, direct rows with few become tables.

    No weight changes. Stops quietly when the pool has no room to move a row to.
    """
    place, bits, used, slots, levels, books = rows
    for row in range(place.size):
        if bits[row] == 0:
            line = direct_row(place[row], levels, books)
            live = 0
            for j in range(line.size):
                live += abs(line[j]) > cum
            if live >= sparse_from:
                continue
            size = size_for(live)
            table = take_table(size, slots, books)
            if table < 0:
                continue
            mask = (1 << size) - 1
            for j in range(line.size):
                if abs(line[j]) > cum:
                    k = find(slots, table, mask, np.int32(j))
                    slots[2 * k], levels[2 * k + 1] = j, line[j]
            give_back(place[row], FREE_DIRECT, slots, books)
            place[row], bits[row], used[row] = table, size, live
        else:
            live = 0
            first = place[row]
            for k in range(first, first + (1 << bits[row])):
                live += slots[2 * k] != FREE and abs(levels[2 * k + 1]) > cum
            if size_for(live) < bits[row] or live < used[row] // 2:
                resize_row(row, 0, books[N_COLUMNS] + 1, cum, rows)


@kernel
def count_live(rows, cum, n_live):
    """Live entries of each row."""
    place, bits, _, slots, levels, books = rows
    for row in range(place.size):
        live = 0
        if bits[row] == 0:
            for level in direct_row(place[row], levels, books):
                live += abs(level) > cum
        else:
            for k in range(place[row], place[row] + (1 << bits[row])):
                live += slots[2 * k] != FREE and abs(levels[2 * k + 1]) > cum
        n_live[row] = live


@kernel
def read_rows(rows, cum, indptr, columns, kept):
    """Write every live entry's column and level, row after row, columns of a row in no order."""
    place, bits, _, slots, levels, books = rows
    for row in range(place.size):
        at = indptr[row]
        if bits[row] == 0:
            line = direct_row(place[row], levels, books)
            for j in range(line.size):
                if abs(line[j]) > cum:
                    columns[at], kept[at] = j, line[j]
                    at += 1
        else:
            for k in range(place[row], place[row] + (1 << bits[row])):
                if slots[2 * k] != FREE and abs(levels[2 * k + 1]) > cum:
                    columns[at], kept[at] = slots[2 * k], levels[2 * k + 1]
                    at += 1


@kernel
def write_rows(rows, indptr, columns, kept, dense_from, absent):
    """Put entries into rows without a place yet; direct rows get ``absent`` elsewhere. False when there is no room."""
    place, bits, used, slots, levels, books = rows
    for row in range(place.size):
        lo, hi = indptr[row], indptr[row + 1]
        if hi - lo >= dense_from:
            first = take(books[DIRECT_SLOTS], FREE_DIRECT, slots, books)
            if first < 0:
                return False
            line = direct_row(first, levels, books)
            line[:] = absent
            for at in range(lo, hi):
                line[columns[at]] = kept[at]
            place[row], bits[row] = first, 0
            continue
        size = size_for(hi - lo)
        first = take_table(size, slots, books)
        if first < 0:
            return False
        for at in range(lo, hi):
            k = find(slots, first, (1 << size) - 1, columns[at])
            slots[2 * k], levels[2 * k + 1] = columns[at], kept[at]
        place[row], bits[row], used[row] = first, size, hi - lo
    return True
