"""Scores of rows under a ranker that was learned without them, without learning it again.

Let a block be rows that are left out together: a query, or a fold of queries. In the terms of a ``Spectrum``, scores
are ``P d r`` with ``d = (Λ + l2)⁻¹``, and what a block F does to them is known in closed form:

- sparse form, ``Q = C P``: its residuals without itself are ``e = (I - Q_F d Q_F')⁻¹ (t_F - Q_F d r)``, its scores
  ``P_F d (r - Q_F' e)``;
- basic form: ``e = (V_F d V_F')⁻¹ V_F d r``, scores ``P_F d (r - V_F' e)``.

The first loses digits where a block decides some function nearly alone (``I - …`` is nearly singular), and costs more
than it gains where a block has more rows than there are functions. Then the system without the block is solved, from
the functions Q of the other rows: no decomposition is lost by that but the one of the block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from tercet.errors import InputError
from tercet.learn.rls.comparisons import Vector
from tercet.learn.rls.kernel import Matrix
from tercet.learn.rls.solving import FullSystem, Spectrum, System, cholesky_of

# The inverse condition of a block's own matrix, from which on its closed form is taken.
_LEAST_LEFT = 1e-6
_LEAST_BASIC = 1e-15


def held_out_scores(system: System, blocks: list[NDArray[np.int64]], l2s: Vector) -> Matrix:
    """Scores of each row without its block, for each l2 (n_rows, n_l2s).

    Parameters
    ----------
    system : with comparisons within blocks only
    blocks : places in ``system.comparisons.rows``; together all of them
    l2s : penalties
    """
    scores = np.empty((len(system.comparisons.rows), len(l2s)))
    spectrum, P = system.spectrum, system.functions()
    if isinstance(system, FullSystem):
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
    Q, target = system.comparisons.forward(P), system.comparisons.target
    for block in blocks:
        P_F, Q_F, t_F = P[block], Q[block], target[block]
        others: tuple[Matrix, Vector] | None = None
        for j, l2 in enumerate(l2s):
            block_scores = None
            if len(block) < Q.shape[1]:
                block_scores = _without(P_F, Q_F, t_F, spectrum.inverse(float(l2)), spectrum.right)
            if block_scores is None:
                others = _moments_without(Q, target, block) if others is None else others
                block_scores = P_F @ _solution(*others, float(l2))
            scores[block, j] = block_scores
    return scores


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


def _moments_without(Q: Matrix, target: Vector, block: NDArray[np.int64]) -> tuple[Matrix, Vector]:
    others = np.delete(Q, block, axis=0)
    return dsyrk(1.0, others.T, lower=1), np.delete(target, block) @ others


def _solution(gram: Matrix, right: Vector, l2: float) -> Vector:
    """``(gram + l2 I)⁻¹ right``, finite for every l2."""
    matrix = np.array(gram, order="F")
    matrix[np.diag_indices(len(matrix))] += l2
    factor = cholesky_of(matrix, 1e-12)
    if factor is not None:
        return lapack.dpotrs(factor, right, lower=1)[0]
    values, V = linalg.eigh(gram, lower=True, check_finite=False)
    return V @ (Spectrum(np.maximum(values, 0.0), right, V).inverse(l2) * (right @ V))
