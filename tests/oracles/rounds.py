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


def ftrl_share(z, G, gradients_of, queries, l1, rate, rho):
    """FTRL with a rate for each feature over some queries; gives slopes, sigma w, and the growth of G and of 1/eta."""
    start, slopes, passed = G.copy(), np.zeros_like(z), np.zeros_like(z)
    z, G = z.copy(), G.copy()
    for query in queries:
        w = -soft_threshold(z, l1) * rate / np.sqrt(rho + G)
        gradient = gradients_of(query, w)
        sigma = (np.sqrt(rho + G + gradient**2) - np.sqrt(rho + G)) / rate
        G += gradient**2
        z += gradient - sigma * w
        slopes += gradient
        passed += sigma * w
    grown = (np.sqrt(rho + G) - np.sqrt(rho + start)) / rate
    return slopes, passed, G - start, grown


def mixed_ftrl(z, G, shares, rate, rho):
    """One round of FTRL: slopes and squares add up as far as they agree, and sigma is what the mixed G asks for."""
    slopes, passed, squares, grown = (np.sum([share[part] for share in shares], axis=0) for part in range(4))
    apart, together = sum(share[0] @ share[0] for share in shares), slopes @ slopes
    taken = min(1.0, apart / together) if together > 0 else 1.0
    after = G + taken * squares
    growth = (np.sqrt(rho + after) - np.sqrt(rho + G)) / rate
    mean = np.divide(passed, grown, out=np.zeros_like(passed), where=grown > 0)
    return z + taken * slopes - growth * mean, after
