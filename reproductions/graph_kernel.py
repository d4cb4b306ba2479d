"""A kernel of labelled graphs, such as parses, by the walks that two graphs have in common.

With A the weighted adjacency matrix of a graph and L_lv = 1 where node v has the label l, the entry (a, b) of

    G = L (Σ_n decayⁿ Aⁿ) L'        n = 1, …, max_length

is the sum over walks from a node labelled a to one labelled b, each with the product of its edges' weights and decay to
its length; the kernel of two graphs is ``Σ_ab G_ab G'_ab`` (Gärtner et al. 2003). Over walks of any length the sum is
``(I - decay A)⁻¹ - I``, as in the all-paths kernel of Airola et al. (2008); how that weighs edges, and the graph of
word order that it puts beside the parse, are for the caller to make. G is a vector of features, few of which are not 0,
so that every matrix of this kernel is positive semi-definite.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import normalize

from tercet.errors import InputError, ParameterError

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class TokenGraph:
    """Nodes with labels, and edges between them, such as the tokens of a sentence and a parse.

    Parameters
    ----------
    labels : the label of each node, or several: a word, its lemma, its part of speech
    edges : from node and to node, numbers from 0; the same edge twice counts twice
    types : the type of each edge. It becomes a node of its own on the way, labelled by the type, at which walks may
        begin and end, too
    weights : of each edge, not below 0; 1 when empty
    directed : whether walks follow edges in their direction only

    Examples
    --------
    >>> parse = TokenGraph([("proteins", "NOUN"), ("bind", "VERB")], [(1, 0)], types=["subject"])
    >>> parse.n_nodes
    3
    """

    labels: Sequence[str | Sequence[str]]
    edges: Sequence[tuple[int, int]]
    types: Sequence[str] = ()
    weights: Sequence[float] = ()
    directed: bool = False

    def __post_init__(self) -> None:
        for name, values in (("types", self.types), ("weights", self.weights)):
            if len(values) and len(values) != len(self.edges):
                raise InputError(f"{name} has {len(values)} entries for {len(self.edges)} edges; one each is needed")
        for position, (source, target) in enumerate(self.edges):
            if not (0 <= source < len(self.labels) and 0 <= target < len(self.labels)):
                raise InputError(f"edges[{position}] is {(source, target)}; the nodes are 0 to {len(self.labels) - 1}")
        weights = np.asarray(self.weights, dtype=np.float64)
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise InputError("weights must be finite and not below 0")

    @property
    def n_nodes(self) -> int:
        """Labelled nodes, and one for each edge that has a type."""
        return len(self.labels) + len(self.types)

    def node_labels(self) -> list[tuple[str, ...]]:
        """The labels of each node."""
        own = [(labels,) if isinstance(labels, str) else tuple(labels) for labels in self.labels]
        return own + [(kind,) for kind in self.types]

    def adjacency(self) -> Matrix:
        """A (n_nodes, n_nodes)."""
        A = np.zeros((self.n_nodes, self.n_nodes))
        for position, (source, target) in enumerate(self.edges):
            weight = float(self.weights[position]) if len(self.weights) else 1.0
            middle = len(self.labels) + position
            for begin, end in ((source, middle), (middle, target)) if len(self.types) else ((source, target),):
                A[begin, end] += weight
                if not self.directed:
                    A[end, begin] += weight
        return A


def graph_kernel(
    graphs: Sequence[TokenGraph],
    others: Sequence[TokenGraph] | None = None,
    *,
    decay: float = 0.5,
    max_length: int | None = 4,
    normalise: bool = True,
) -> Matrix:
    """The kernel of graphs with one another, or with others; X of ``RankRLS(kernel="precomputed")``.

    Parameters
    ----------
    graphs : those of the rows (n,)
    others : those of the columns; the same when None. For new graphs, those that were learned from
    decay : how much a further edge of a walk counts, above 0
    max_length : the most edges of a walk; None for all walks, which needs ``decay`` times the largest eigenvalue of
        every adjacency matrix to be below 1
    normalise : divide by the root of each graph's kernel with itself, so that large graphs count no more than others;
        a graph without walks has the kernel 0

    Returns
    -------
    K : (n_graphs, n_others)

    Notes
    -----
    Costs O(max_length n_nodes³) a graph, O(n_nodes³) for all walks, and a sparse product.

    Examples
    --------
    >>> bind = TokenGraph(["proteins", "bind", "DNA"], [(1, 0), (1, 2)], types=["subject", "object"])
    >>> swapped = TokenGraph(["proteins", "bind", "DNA"], [(1, 0), (1, 2)], types=["object", "subject"])
    >>> repair = TokenGraph(["enzymes", "repair", "DNA"], [(1, 0), (1, 2)], types=["subject", "object"])
    >>> graph_kernel([bind, swapped, repair]).round(2).tolist()
    [[1.0, 0.83, 0.35], [0.83, 1.0, 0.26], [0.35, 0.26, 1.0]]
    """
    if not 0.0 < decay < np.inf:
        raise ParameterError(f"decay is {decay!r}; a number above 0 is needed")
    if max_length is not None and (not isinstance(max_length, int) or max_length < 1):
        raise ParameterError(f"max_length must be an integer from 1; got {max_length!r}")
    number: dict[tuple[str, str], int] = {}
    parts = [_features(part, decay, max_length, number) for part in ([graphs] if others is None else [graphs, others])]
    for part in parts:
        part.resize((part.shape[0], max(1, len(number))))
    sides = [normalize(part) if normalise else part for part in parts]
    return np.asarray((sides[0] @ sides[-1].T).toarray(), dtype=np.float64)


def _features(
    graphs: Iterable[TokenGraph], decay: float, max_length: int | None, number: dict[tuple[str, str], int]
) -> sparse.csr_array:
    """G of each graph as a row; ``number`` gives each pair of labels its column, and is added to."""
    data: list[float] = []
    indices: list[int] = []
    ends = [0]
    for graph in graphs:
        walks = _walks(decay * graph.adjacency(), max_length)
        labels = graph.node_labels()
        row: dict[int, float] = {}
        for source, target in np.argwhere(walks):
            for first in labels[source]:
                for last in labels[target]:
                    column = number.setdefault((first, last), len(number))
                    row[column] = row.get(column, 0.0) + float(walks[source, target])
        columns = sorted(row)
        indices += columns
        data += [row[column] for column in columns]
        ends.append(len(data))
    shape = (len(ends) - 1, max(1, len(number)))
    return sparse.csr_array((np.array(data, np.float64), np.array(indices, np.int64), np.array(ends)), shape=shape)


def _walks(A: Matrix, max_length: int | None) -> Matrix:
    """``A + A² + …``: the weight of all walks from node to node."""
    if max_length is None:
        # A has no entry below 0, so that the sum is finite where, and only where, the inverse has none.
        try:
            total = np.linalg.solve(np.eye(len(A)) - A, A)
        except np.linalg.LinAlgError:
            total = np.full_like(A, -1.0)
        largest = float(np.abs(total).max(initial=0.0))
        if (total < -1e-9 * largest).any():
            raise InputError(
                "walks of any length do not add up: decay times the largest eigenvalue of an adjacency matrix is 1 or "
                "more. Use a smaller decay, or max_length"
            )
        return np.where(total > 1e-14 * largest, total, 0.0)
    total, power = A.copy(), A
    for _ in range(max_length - 1):
        power = power @ A
        total += power
    return total
