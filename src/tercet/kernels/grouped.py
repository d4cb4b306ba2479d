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

**Groups of groups.** Lines may stand in groups of lines: one within another, or overlapping (`GroupTrees`). Shrinkages
do not add up then, but every one of them multiplies whole lines: it is found from the norms of lines alone and changes
their scales. So all lines are swept over whenever shrinkage is handed out, no weight is, and nothing is owed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet.kernels.compiler import helper, kernel
from tercet.kernels.dense import weighted_sum
from tercet.kernels.prefetch import LINE, line_starts
from tercet.kernels.rows import difference, violates
from tercet.kernels.sparse_rows import CUM, hand_out

SCALE, STAMP, NORM = 0, 1, 2
LINES_A_WORD = 64  # lines whose marks share an int64
FOLD_BELOW = 1e-3  # V grows as the scale falls; below this the scale is multiplied into V
MOST_PASSES, CLOSE = 100, 1e-7  # over forests, until norms change by less than this share of the largest


class GroupScratch(NamedTuple):
    """Room for a step."""

    cols: NDArray[Any]  # int32, for the words of two documents
    vals: NDArray[Any]  # float32, likewise
    starts: NDArray[Any]  # int32, for the words of the longest query or two documents
    living: NDArray[Any]  # int32, likewise
    factors: NDArray[Any]  # float32, likewise
    touched: NDArray[Any]  # int64, the marks of one group


class GroupTrees(NamedTuple):
    """Groups of lines as forests, and room to shrink them.

    The nodes of a forest are its lines, then its groups, parents after their children. The first has all lines, others
    those of their groups. Groups of one forest are disjoint or lie within each other; overlapping ones stand in
    different forests. Without a forest lines are groups of their own.
    """

    first: NDArray[Any]  # int64 (n_forests + 1,), the first node of each forest
    parent: NDArray[Any]  # int32 (n_nodes,), number within the forest; -1 for a root
    weight: NDArray[Any]  # float64 (n_nodes,), times the shrinkage
    first_line: NDArray[Any]  # int64 (n_forests + 1,), the place of each forest in what follows
    line: NDArray[Any]  # int32, the lines of all forests
    correction: NDArray[Any]  # float64, for these
    factor: NDArray[Any]  # float64, for the nodes of the largest forest
    part: NDArray[Any]  # float64, for the lines of a forest
    size: NDArray[Any]  # float64 (n_lines,)
    before: NDArray[Any]  # float64 (n_lines,)


@helper
def shrink_forest(size, parent, weight, amount, factor):
    """What remains of each line, as a factor: group soft-thresholds from the leaves to the roots (Jenatton et al.
    2011), which is the exact proximal step of ``amount Σ weight ||W_g||`` over the nodes."""
    n = size.size
    factor[n : parent.size] = 0  # squared norms of groups, until their turn comes
    for v in range(parent.size):
        norm = size[v] if v < n else np.sqrt(factor[v])
        left = norm - amount * weight[v]
        factor[v] = 0.0 if left <= 0 else left / norm
        if parent[v] >= 0 and not left <= 0:
            factor[parent[v]] += left * left
    for v in range(parent.size - 1, -1, -1):
        if parent[v] >= 0:
            factor[v] *= factor[parent[v]]


@helper
def take_forest(trees, f, amount):
    """The proximal step of one forest, with what it took last given back, for its lines ``part``; returns them."""
    lines = slice(trees.first_line[f], trees.first_line[f + 1])
    nodes = slice(trees.first[f], trees.first[f + 1])
    line, correction = trees.line[lines], trees.correction[lines]
    part = trees.part[: line.size]
    for i in range(line.size):
        part[i] = trees.size[line[i]] + correction[i]
    shrink_forest(part, trees.parent[nodes], trees.weight[nodes], amount, trees.factor)
    return line, correction, part


@kernel
def shrink_sizes(trees, amount):
    """The proximal step of ``amount Σ weight ||W_g||`` over all groups, for lines of norm ``trees.size``, in place.

    One forest takes one pass. Several are taken in turn, each after what it took last is given back, until norms stay:
    Dykstra's algorithm, which is block coordinate descent on the dual. A line is zero where one of them says so.
    """
    size, before, factor = trees.size, trees.before, trees.factor
    n_forests = trees.first.size - 1
    largest = size.max()
    trees.correction[:] = 0
    for _ in range(MOST_PASSES):
        before[:] = size
        for f in range(n_forests):
            line, correction, part = take_forest(trees, f, amount)
            for i in range(line.size):
                kept = part[i] * factor[i]
                correction[i] = part[i] - kept
                size[line[i]] = kept
        change = 0.0
        for i in range(size.size):
            change = max(change, abs(size[i] - before[i]))
        if n_forests == 1 or not change > CLOSE * largest:
            break
    if n_forests > 1:
        for f in range(n_forests):
            line, _, _ = take_forest(trees, f, amount)
            for i in range(line.size):
                if factor[i] == 0:
                    size[line[i]] = 0.0


@helper
def shrink_lines(groups, trees, amount):
    """Shrink all groups of lines by scaling the lines."""
    size = trees.size
    for g in range(size.size):
        size[g] = groups[g, SCALE] * groups[g, NORM]
    shrink_sizes(trees, amount)
    for g in range(size.size):
        if size[g] == 0:
            groups[g, SCALE], groups[g, NORM] = 0.0, 1.0
        else:
            groups[g, SCALE] = size[g] / groups[g, NORM]


@helper
def scale_at(groups, g, cum):
    """The scale of a group after its owed shrinkage; 0 or less when it is dead."""
    return groups[g, SCALE] - (cum - groups[g, STAMP]) / groups[g, NORM]


@helper
def mark(marked, line):
    marked[line >> 6] |= np.int64(1) << (line & 63)


@helper
def is_marked(marked, line):
    return (marked[line >> 6] >> (line & 63)) & 1 != 0


@kernel
def mark_written(V, marks):
    """Mark the lines of V that hold something."""
    for g in range(V.shape[0]):
        for j in range(V.shape[1]):
            if V[g, j] != 0:
                mark(marks[g], j // LINE)


@helper
def clear(group, marked):
    """Set a group to zero."""
    for first in range(0, group.size, LINE):
        if is_marked(marked, first // LINE):
            group[first : first + LINE] = 0
    marked[:] = 0


@helper
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


@helper
def add_at(group, j, change):
    """Add to one entry; returns what its square gains, in double precision."""
    before = group[j]
    after = np.float32(before + change)
    group[j] = after
    return (np.float64(after) - before) * (np.float64(after) + before)


@helper
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


@helper
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
def grouped_advance(V, marks, groups, Q, D, chunk, shrinkage, trees, first_step, by_columns, frozen, scratch, tally):
    """One pass over the preferences; changes ``V``, ``marks``, ``groups`` and ``shrinkage`` in place.

    With ``frozen`` nothing shrinks and dead groups stay dead. The inner side's words are in the order of V's columns.
    ``tally`` as in ``dense_advance``.
    """
    cols, vals, starts, living, factors, touched = scratch
    for s in range(chunk.query.size):
        cum = shrinkage[CUM]
        n = difference(D, chunk.better[s], chunk.worse[s], cols, vals)
        lo, hi = Q.indptr[chunk.query[s]], Q.indptr[chunk.query[s] + 1]
        words, q_vals = Q.indices[lo:hi], Q.data[lo:hi]
        if by_columns:
            outer, outer_vals, inner, inner_vals = cols[:n], vals[:n], words, q_vals
        else:
            outer, outer_vals, inner, inner_vals = words, q_vals, cols[:n], vals[:n]
        n_lines = line_starts(inner, inner.size, starts)
        n_living = 0
        for a in range(outer.size):
            scale = scale_at(groups, outer[a], cum)
            if not scale <= 0:
                living[n_living], factors[n_living] = outer[a], np.float32(outer_vals[a] * scale)
                n_living += 1
        z = weighted_sum(V, living[:n_living], factors[:n_living], inner, inner_vals, starts, n_lines)
        if violates(z, chunk.margin[s], tally):
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
                e = np.float32(chunk.step_size[s] * outer_vals[a] / scale)
                square += add_to(group, inner, inner_vals, e)
                for w in range(touched.size):
                    marked[w] |= touched[w]
                if not frozen:
                    settle(groups, g, scale, cum, square)
        if not frozen:
            hand_out(shrinkage, chunk.rate[s], first_step + s + 1)
            if trees.first.size > 1 and shrinkage[CUM] > 0:
                shrink_lines(groups, trees, shrinkage[CUM])
                shrinkage[CUM] = 0
