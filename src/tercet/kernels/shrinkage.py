"""Owed shrinkage: ``shrinkage`` float64 (4,) is (handed out so far, pending rates, l1, T), by the indices here."""

from tercet.kernels.compiler import kernel

CUM, PENDING, L1, SHRINK_EVERY = 0, 1, 2, 3


@kernel
def hand_out(shrinkage, rate, n_done):
    """After step ``n_done``: its rate is pending, and every T steps ``l1`` times the pending rates is handed out."""
    shrinkage[PENDING] += rate
    if n_done % shrinkage[SHRINK_EVERY] == 0:
        shrinkage[CUM] += shrinkage[L1] * shrinkage[PENDING]
        shrinkage[PENDING] = 0
