"""Rounds of a cluster: shares of the preferences, and how what they learned is mixed."""

from __future__ import annotations

import numpy as np

from oracles.pairs import soft_threshold


def in_shares(preferences, rates, n_shares):
    """Every n-th preference of a round, with its rate."""
    return [(preferences[at::n_shares], rates[at::n_shares]) for at in range(n_shares)]


def mixed_sum(before, shares):
    """One round of a model that is linear in its weights: each share starts from the same ones, and changes add up."""
    return before + sum(after - before for after in shares)


def mixed_sparse(before, shares, shrink):
    """The same with a penalty: a share does not send what it changed in an entry that is zero by no more than its part
    of what the round shrinks by, and the sum is shrunk."""
    sent = [np.where((before != 0) | (np.abs(after) > shrink / len(shares)), after - before, 0.0) for after in shares]
    return soft_threshold(before + sum(sent), shrink)


def mixed_by_agreement(before, shares):
    """One round of rows that are multiplied with others.

    Of the sum of a row's changes, ``sum |c|^2 / |sum c|^2`` is taken, at most all of it.
    """
    after = before.copy()
    for row in range(len(before)):
        changes = [share[row] - before[row] for share in shares]
        total = np.sum(changes, axis=0)
        if total @ total > 0:
            after[row] += min(1.0, sum(change @ change for change in changes) / (total @ total)) * total
    return after
