"""Margin rank loss with a group penalty: whole rows, or whole columns, of W shrink and vanish together.

**Layout.** A group is a line of ``V``, (n_groups, n_inner): rows of W as they are, columns of W as rows of its
transpose, so that one kernel serves both. The words of one side choose groups, those of the other places inside.

**Owed shrinkage.** W_g = scale V_g. Shrinkages without an update between them add up: together they take
``cum - stamp`` from the norm, which is ``(cum - stamp) / ||V_g||`` from the scale. So handing out shrinkage changes one
number, reading a group costs one division, and only an update writes to it. A group whose scale reaches 0 is dead: its
weights are zero whatever V_g still holds, and V_g is cleared when an update brings the group back.

    groups  float64 (n_groups, 3)            scale, stamp, norm of V_g; a group never written is (0, 0, 1)
    marks   int64 (n_groups, n_inner / 1024) a bit for each cache line of V_g that may hold something: clearing a group
                                             visits no others
"""

import numpy as np

from tercet.kernels.compiler import kernel
from tercet.kernels.dense import AHEAD, line_starts
from tercet.kernels.prefetch import prefetch
from tercet.kernels.rows import difference

SCALE, STAMP, NORM = 0, 1, 2
LINE = 16  # entries of V in a cache line
LINES_A_WORD = 64  # lines whose marks share an int64
FOLD_BELOW = 1e-3  # V grows as the scale falls; below this the scale is multiplied into V


@kernel
def scale_at(groups, g, cum):
    """The scale of a group after its owed shrinkage; 0 or less when it is dead."""
    return groups[g, SCALE] - (cum - groups[g, STAMP]) / groups[g, NORM]


@kernel
def mark(marked, line):
    marked[line >> 6] |= np.int64(1) << (line & 63)


@kernel
def is_marked(marked, line):
    return (marked[line >> 6] >> (line & 63)) & 1 != 0


@kernel
def mark_written(V, marks):
    """Mark the lines of V that hold something."""
    for g in range(V.shape[0]):
        for j in range(V.shape[1]):
            if V[g, j] != 0:
                mark(marks[g], j // LINE)


@kernel
def clear(group, marked):
    """Set a group to zero."""
    for first in range(0, group.size, LINE):
        if is_marked(marked, first // LINE):
            group[first : first + LINE] = 0
    marked[:] = 0


@kernel
def fold(group, marked, scale):
    """Multiply the scale into a group; returns the squared norm."""
    square = 0.0
    for first in range(0, group.size, LINE):
        if is_marked(marked, first // LINE):
            for j in range(first, min(first + LINE, group.size)):
                value = np.float32(group[j] * scale)
                group[j] = value
                square += np.float64(value) * value
    return square


@kernel
def add_at(group, j, change):
    """Add to one entry; returns what its square gains, in double precision."""
    before = group[j]
    after = np.float32(before + change)
    group[j] = after
    return (np.float64(after) - before) * (np.float64(after) + before)


@kernel
def add_to(group, inner, inner_vals, e):
    """Add ``e`` times a sparse vector to a group; returns what the squared norm gains."""
    # Four sums, so that an addition does not wait for the one before it.
    g0, g1, g2, g3 = 0.0, 0.0, 0.0, 0.0
    fours = inner.size // 4 * 4
    for j in range(0, fours, 4):
        g0 += add_at(group, inner[j], e * inner_vals[j])
        g1 += add_at(group, inner[j + 1], e * inner_vals[j + 1])
        g2 += add_at(group, inner[j + 2], e * inner_vals[j + 2])
        g3 += add_at(group, inner[j + 3], e * inner_vals[j + 3])
    for j in range(fours, inner.size):
        g0 += add_at(group, inner[j], e * inner_vals[j])
    return g0 + g1 + g2 + g3


@kernel
def settle(groups, g, scale, cum, square):
    """Note what a group is after an update. One that cancelled to nothing is dead, one that is NaN is not."""
    groups[g, STAMP] = cum
    if square <= 0:
        groups[g, SCALE], groups[g, NORM] = 0.0, 1.0
    else:
        groups[g, SCALE], groups[g, NORM] = scale, np.sqrt(square)


@kernel
def refresh(V, marks, groups, cum):
    """Take all owed shrinkage, clear the dead, and compute norms anew, so that ``cum`` can start from zero again."""
    for g in range(V.shape[0]):
        scale = scale_at(groups, g, cum)
        if scale <= 0:
            clear(V[g], marks[g])
            settle(groups, g, 0.0, 0.0, 0.0)
        else:
            settle(groups, g, 1.0, 0.0, fold(V[g], marks[g], scale))


@kernel
def grouped_advance(V, marks, groups, Q, D, chunk, shrinkage, first_step, by_columns, frozen, scratch, tally):
    """One pass over the preferences; changes ``V``, ``marks``, ``groups`` and ``shrinkage`` in place.

    ``shrinkage`` is (cum, pending, l1, T) as in ``sparse_advance``. With ``frozen`` nothing shrinks and dead groups
    stay dead. The inner side's words are in the order of V's columns. ``scratch`` is (cols, vals) for the words of two
    documents, (starts, living, factors) for those of the longest query or two documents, and marks of one group.
    ``tally`` as in ``dense_advance``.
    """
    query, better, worse, step_size, rate, margin = chunk
    cols, vals, starts, living, factors, touched = scratch
    q_indptr, q_indices, q_data = Q
    for s in range(query.size):
        cum = shrinkage[0]
        n = difference(D, better[s], worse[s], cols, vals)
        lo, hi = q_indptr[query[s]], q_indptr[query[s] + 1]
        if by_columns:
            outer, outer_vals, inner, inner_vals = cols[:n], vals[:n], q_indices[lo:hi], q_data[lo:hi]
        else:
            outer, outer_vals, inner, inner_vals = q_indices[lo:hi], q_data[lo:hi], cols[:n], vals[:n]
        n_lines = line_starts(inner, inner.size, starts)
        n_living = 0
        for a in range(outer.size):
            scale = scale_at(groups, outer[a], cum)
            if not scale <= 0:
                living[n_living], factors[n_living] = outer[a], np.float32(outer_vals[a] * scale)
                n_living += 1
        # As in dense_advance: lines are asked for ahead, and groups read four at a time so that misses overlap.
        for a in range(min(AHEAD, n_living)):
            for i in range(n_lines):
                prefetch(V, living[a], starts[i])
        z = np.float32(0)
        fours = n_living // 4 * 4
        for a in range(0, fours, 4):
            for b in range(a + AHEAD, min(a + AHEAD + 4, n_living)):
                for i in range(n_lines):
                    prefetch(V, living[b], starts[i])
            r0, r1, r2, r3 = V[living[a]], V[living[a + 1]], V[living[a + 2]], V[living[a + 3]]
            z0, z1, z2, z3 = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for j in range(inner.size):
                c, v = inner[j], inner_vals[j]
                z0 += r0[c] * v
                z1 += r1[c] * v
                z2 += r2[c] * v
                z3 += r3[c] * v
            z += z0 * factors[a] + z1 * factors[a + 1] + z2 * factors[a + 2] + z3 * factors[a + 3]
        for a in range(fours, n_living):
            group = V[living[a]]
            z0 = np.float32(0)
            for j in range(inner.size):
                z0 += group[inner[j]] * inner_vals[j]
            z += z0 * factors[a]
        if not z >= margin[s]:  # so that NaN counts as a violation and shows in the loss
            tally[0] += 1
            tally[1] += margin[s] - z
            touched[:] = 0
            for i in range(n_lines):
                mark(touched, starts[i] // LINE)
            for a in range(outer.size):
                g = outer[a]
                group, marked = V[g], marks[g]
                scale, square = scale_at(groups, g, cum), groups[g, NORM] ** 2
                if scale <= 0:
                    if frozen:
                        continue
                    clear(group, marked)
                    scale, square = 1.0, 0.0
                elif scale < FOLD_BELOW:
                    scale, square = 1.0, fold(group, marked, scale)
                e = np.float32(step_size[s] * outer_vals[a] / scale)
                square += add_to(group, inner, inner_vals, e)
                for w in range(touched.size):
                    marked[w] |= touched[w]
                if not frozen:
                    settle(groups, g, scale, cum, square)
        if frozen:
            continue
        shrinkage[1] += rate[s]
        if (first_step + s + 1) % shrinkage[3] == 0:
            shrinkage[0] += shrinkage[2] * shrinkage[1]
            shrinkage[1] = 0
