"""Scores of rows under a ranker learned without these rows, in closed form.

A block is a set of rows left out together: a query, or a fold of queries. In the terms of a ``Spectrum``, scores are
``P d r`` with ``d = (Λ + l2)⁻¹``. Without a block F the scores of F are:

- sparse form, ``Q = C P``: residuals ``e = (I - Q_F d Q_F')⁻¹ (t_F - Q_F d r)``, scores ``P_F d (r - Q_F' e)``;
- basic form: ``e = (V_F d V_F')⁻¹ V_F d r``, scores ``P_F d (r - V_F' e)``.

The sparse form loses digits if a block decides some function nearly alone (``I - …`` is nearly singular), and costs
more than a new solution for a block with more rows than functions. Then the system without the block is solved, from
the functions Q of the remaining rows, without a new decomposition of the whole.

The sparse form makes P and Q for some blocks at a time: memory does not grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack

from tercet.errors import InputError
from tercet.learn.rls.kernels import MappedColumns, Matrix
from tercet.learn.rls.solving import (
    FullSystem,
    Spectrum,
    System,
    Vector,
    cholesky_of,
    parts_of,
    rows_at_once,
    run_of,
)

# The inverse condition of a block's own matrix, from which on its closed form is taken.
_LEAST_LEFT = 1e-6
_LEAST_BASIC = 1e-15


def held_out_scores(system: System, blocks: list[NDArray[np.int64]], l2s: Vector) -> Matrix:
    """Return scores of each row without its block, for each l2 (n_rows, n_l2s).

    Parameters
    ----------
    system : with comparisons within blocks only
    blocks : positions in ``system.comparisons.rows``; together all rows
    l2s : penalties
    """
    if isinstance(system, FullSystem):
        return _basic_scores(system, blocks, l2s)
    scores = np.empty((len(system.comparisons.rows), len(l2s)))
    spectrum, columns = system.spectrum, system.columns
    inverses = [spectrum.inverse(float(l2)) for l2 in l2s]
    for together in _gathered(blocks, rows_at_once(columns.n_columns)):
        if len(together) == 1 and len(together[0]) >= len(spectrum.values):
            scores[together[0]] = _learned_without(system, together[0], l2s)
            continue
        compared = system.comparisons.take(np.concatenate(together))
        P = columns.block(run_of(compared.rows)) @ spectrum.E
        Q, target = compared.forward(P), compared.target
        end = 0
        for block in together:
            own = slice(end, end := end + len(block))
            others: tuple[Matrix, Vector] | None = None
            for j, inverse in enumerate(inverses):
                block_scores = None
                if len(block) < len(spectrum.values):
                    block_scores = _without(P[own], Q[own], target[own], inverse, spectrum.right)
                if block_scores is None:
                    others = _moments_without(system, block) if others is None else others
                    block_scores = P[own] @ _solution(*others, float(l2s[j]))
                scores[block, j] = block_scores
    return scores


def _basic_scores(system: FullSystem, blocks: list[NDArray[np.int64]], l2s: Vector) -> Matrix:
    scores = np.empty((len(system.comparisons.rows), len(l2s)))
    spectrum, P = system.spectrum, system.functions()
    _, V = system.eigenvectors
    for j, l2 in enumerate(l2s):
        inverse = spectrum.inverse(float(l2))
        for block in blocks:
            block_scores = _without_basic(P[block], V[block], inverse, spectrum.right) if inverse.all() else None
            if block_scores is None:
                raise InputError(
                    f"l2s[{j}] is {l2}, little but rounding beside the kernel; with all rows as the basis, rows "
                    f"can be left out where l2 is well above {spectrum.floor:.1g}. Use a larger l2, or n_basis"
                )
            scores[block, j] = block_scores
    return scores


def _gathered(blocks: list[NDArray[np.int64]], at_once: int) -> Iterator[list[NDArray[np.int64]]]:
    """Gather blocks into runs of at most ``at_once`` rows in all; a larger block is a run alone."""
    run: list[NDArray[np.int64]] = []
    n_rows = 0
    for block in blocks:
        if run and n_rows + len(block) > at_once:
            yield run
            run, n_rows = [], 0
        run.append(block)
        n_rows += len(block)
    yield run


def _without(P_F: Matrix, Q_F: Matrix, t_F: Vector, inverse: Vector, right: Vector) -> Vector | None:
    weighted = Q_F * inverse
    own = -(weighted @ Q_F.T)
    own[np.diag_indices(len(own))] += 1.0
    factor = cholesky_of(np.asfortranarray(own), _LEAST_LEFT)
    if factor is None:
        return None
    residuals, _ = lapack.dpotrs(factor, t_F - weighted @ right, lower=1)
    return P_F @ (inverse * (right - residuals @ Q_F))


def _without_basic(P_F: Matrix, V_F: Matrix, inverse: Vector, right: Vector) -> Vector | None:
    weighted = V_F * inverse
    # A sum of positive terms, in which nothing is cancelled: it may be worse conditioned than the other.
    factor = cholesky_of(np.asfortranarray(weighted @ V_F.T), _LEAST_BASIC)
    if factor is None:
        return None
    residuals, _ = lapack.dpotrs(factor, weighted @ right, lower=1)
    return P_F @ (inverse * (right - residuals @ V_F))


def _learned_without(system: System, block: NDArray[np.int64], l2s: Vector) -> Matrix:
    """Return the scores of a block from the solutions without the block, for each l2."""
    others = _moments_without(system, block)
    learned = system.spectrum.E @ np.column_stack([_solution(*others, float(l2)) for l2 in l2s])
    rows = system.comparisons.rows[block]
    parts = parts_of(len(rows), system.columns.n_columns)
    return np.concatenate([system.columns.block(run_of(rows[part])) @ learned for part in parts])


def _moments_without(system: System, block: NDArray[np.int64]) -> tuple[Matrix, Vector]:
    """Return ``Q'Q``, the lower triangle only, and ``Q't`` of the rows outside a block."""
    others = np.delete(np.arange(len(system.comparisons.rows)), block)
    return system.comparisons.take(others).moments(MappedColumns(system.columns, system.spectrum.E))


def _solution(gram: Matrix, right: Vector, l2: float) -> Vector:
    """``(gram + l2 I)⁻¹ right``, finite for every l2."""
    matrix = np.array(gram, order="F")
    matrix[np.diag_indices(len(matrix))] += l2
    factor = cholesky_of(matrix, 1e-12)
    if factor is not None:
        return lapack.dpotrs(factor, right, lower=1)[0]
    values, V = linalg.eigh(gram, lower=True, check_finite=False)
    return V @ (Spectrum(np.maximum(values, 0.0), right, V).inverse(l2) * (right @ V))
