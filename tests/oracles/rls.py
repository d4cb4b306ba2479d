"""RankRLS, by the equations of Tsivtsivadze et al. 2008."""

from __future__ import annotations

import numpy as np


def kernel_matrix(A, B, name, gamma=1.0, degree=3, coef0=1.0):
    """One pair of rows after another."""
    pair = {
        "linear": lambda a, b: a @ b,
        "gaussian": lambda a, b: np.exp(-gamma * ((a - b) ** 2).sum()),
        "polynomial": lambda a, b: (gamma * (a @ b) + coef0) ** degree,
        "cosine": lambda a, b: a @ b / np.sqrt((a @ a) * (b @ b)) if a.any() and b.any() else 0.0,
    }[name]
    return np.array([[pair(a, b) for b in B] for a in A])


def query_laplacian(qid):
    """Equation 5: L = D - W, where W joins all rows of a query."""
    W = np.array([[float(a == b) for b in qid] for a in qid])
    return np.diag(W.sum(axis=1)) - W


def edge_laplacian(better, worse, weight, margin, n_rows):
    """L of weighted pairs, and in the place of L y the sum of ``weight margin (e_better - e_worse)``."""
    L, right = np.zeros((n_rows, n_rows)), np.zeros(n_rows)
    for b, w, how_much, by in zip(better, worse, weight, margin, strict=True):
        e = np.zeros(n_rows)
        e[b], e[w] = 1.0, -1.0
        L += how_much * np.outer(e, e)
        right += how_much * by * e
    return L, right


def solved(A, b):
    """A dense solution, made better by what is left of b in more than double precision."""
    x = np.linalg.solve(A, b)
    for _ in range(3):
        left = b.astype(np.longdouble) - A.astype(np.longdouble) @ x.astype(np.longdouble)
        x = x + np.linalg.solve(A, left.astype(np.float64))
    return x


def rank_rls(K, L, Ly, l2):
    """Equation 7, multiplied by K's inverse from the left so that K need not have one."""
    return solved(L @ K + l2 * np.eye(len(K)), Ly)


def sparse_rank_rls(K, R, L, Ly, l2):
    """Equation 8."""
    return solved(K[R] @ L @ K[:, R] + l2 * K[np.ix_(R, R)], K[R] @ Ly)


def walk_kernel(first, second, decay, max_length):
    """Σ over pairs of labels of what the walks between them weigh in each graph.

    A graph has the labels of each node, and edges (i, j) with their weights.

    Every walk of 1 to max_length edges is listed; it weighs the product of its edges, each times decay.
    """

    def weights(labels, edges):
        total = {}
        walks = [((i, j), decay * w) for (i, j), w in edges.items()]
        while walks:
            (*walk, end), weight = walks.pop()
            for a in labels[walk[0]]:
                for b in labels[end]:
                    total[a, b] = total.get((a, b), 0.0) + weight
            if len(walk) < max_length:
                walks += [((*walk, end, j), weight * decay * w) for (i, j), w in edges.items() if i == end]
        return total

    of_first, of_second = weights(*first), weights(*second)
    return sum(weight * of_second.get(pair, 0.0) for pair, weight in of_first.items())


def disagreement_error(scores, y):
    """Equation 1 for one query, over pairs i ≠ j."""
    n = len(y)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return sum(abs(np.sign(y[i] - y[j]) - np.sign(scores[i] - scores[j])) for i, j in pairs) / (2 * len(pairs))


def concordance_index(scores, y):
    """The share of pairs of different grades in the right order, ties of scores a half; NaN without such pairs."""
    pairs = [(i, j) for i in range(len(y)) for j in range(len(y)) if y[i] > y[j]]
    right = sum((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]) for i, j in pairs)
    return right / len(pairs) if pairs else float("nan")
