"""The overlay: what preferences add to the weights of the base, in bounded steps that can be taken back.

A step for a query q, a better document b and a worse one w changes W along ``q (b - w)'``, which is the shortest way to
put b ahead of w. Only its largest pairs are used. The step is as long as it takes for b to be ahead by the margin, no
longer than `Bounds` allows, and none at all where b is ahead already.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.serve.bounds import Bounds
from tercet.serve.votes import ONE_VOTE
from tercet.weights import Weights


@dataclass(frozen=True, eq=False)
class Contrast:
    """What a step needs to know of a query and two documents, the same for whichever of them is better.

    ``margin`` is by how much the base puts the first ahead, ``target`` by how much the better one is to be.
    """

    query_terms: NDArray[np.int32]
    query_values: NDArray[np.float64]
    doc_terms: NDArray[np.int32]
    differences: NDArray[np.float64]  # first minus second
    margin: float
    target: float

    @classmethod
    def of(cls, q: Any, first: Any, second: Any, weights: Weights, bounds: Bounds, unit: float) -> Contrast:
        """From one-row matrices."""
        both = sparse.vstack([first, second], format="csr")
        one, other = weights.score_rows(sparse.vstack([q, q], format="csr"), both).tolist()
        difference = sparse.csr_array(first.astype(np.float64) - second.astype(np.float64))
        difference.sum_duplicates()
        difference.eliminate_zeros()
        target = max(bounds.least_margin * unit, bounds.margin * max(abs(one), abs(other)))
        return cls(
            q.indices.astype(np.int32),
            q.data.astype(np.float64),
            difference.indices.astype(np.int32),
            difference.data,
            one - other,
            target,
        )


@dataclass(frozen=True, eq=False)
class Step:
    """A step that was taken: the pairs it changed, what they were before, and what it took from whose allowance."""

    keys: NDArray[np.int64]  # query term times the number of document terms, plus document term
    before: NDArray[np.float64]
    taken: tuple[tuple[str, float], ...]  # spent by each client and address before the step


class Overlay:
    """Weights of pairs in double precision, changed by `advance` and `go_back` only.

    The same steps in the same order give the same bits, and going back gives the very bits that were there.
    """

    def __init__(self, shape: tuple[int, int], bounds: Bounds, unit: float) -> None:
        self.shape, self.bounds, self.unit = shape, bounds, unit
        self._rows: dict[int, dict[int, float]] = {}
        self._packed: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
        self._spent: dict[str, float] = {}

    def margin(self, contrast: Contrast) -> float:
        """By how much the overlay alone puts the first ahead."""
        total = 0.0
        for i, value in zip(contrast.query_terms.tolist(), contrast.query_values.tolist(), strict=True):
            row = self._rows.get(i)
            if row:
                for j, difference in zip(contrast.doc_terms.tolist(), contrast.differences.tolist(), strict=True):
                    weight = row.get(j)
                    if weight is not None:
                        total += value * weight * difference
        return total

    def advance(self, contrast: Contrast, clients: Mapping[str, int]) -> Step:
        """Take the step for what clients say, parts of a vote above 0 for the first document."""
        net = sum(clients.values())
        sign = 1.0 if net > 0 else -1.0
        keys, x = self._direction(contrast)
        gap = contrast.target - sign * (contrast.margin + self.margin(contrast))
        length = math.fsum((x * x).tolist())
        if net == 0 or gap <= 0 or length == 0:
            return Step(np.empty(0, np.int64), np.empty(0), ())
        change = x * (sign * min(1.0, abs(net) / ONE_VOTE) * gap / length)
        size = math.sqrt(math.fsum((change * change).tolist()))
        if size > self.bounds.step * self.unit:
            change = change * (self.bounds.step * self.unit / size)
        share, taken = self._charged(math.fsum(np.abs(change).tolist()), clients, sign)
        return Step(keys, self._add(keys, change * share), taken)

    def _direction(self, contrast: Contrast) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The pairs a step may change, in ascending order, and q_i (b - w)_j of each."""
        x = np.outer(contrast.query_values, contrast.differences)
        flat = contrast.query_terms.astype(np.int64)[:, None] * self.shape[1] + contrast.doc_terms.astype(np.int64)
        chosen = np.sort(np.argsort(-np.abs(x.ravel()), kind="stable")[: self.bounds.pairs])
        return flat.ravel()[chosen], x.ravel()[chosen]

    def _charged(
        self, size: float, clients: Mapping[str, int], sign: float
    ) -> tuple[float, tuple[tuple[str, float], ...]]:
        """Which share of a step those who asked for it can still afford; each pays for its part of the votes."""
        asking = {client: abs(parts) for client, parts in clients.items() if parts * sign > 0}
        votes = sum(asking.values())
        allowed = 0.0
        taken: dict[str, float] = {}
        for client in sorted(asking):
            wanted = size * (asking[client] / votes)
            # No client is called "*/…", since an address comes first in its name.
            purses = {client: self.bounds.client, "*/" + client.partition("/")[0]: 10 * self.bounds.client}
            for name, most in purses.items():
                wanted = min(wanted, max(0.0, most * self.unit - self._spent.get(name, 0.0)))
            for name in purses:
                spent = self._spent.get(name, 0.0)
                taken.setdefault(name, spent)
                self._spent[name] = spent + wanted
            allowed += wanted
        return (min(1.0, allowed / size) if size else 0.0), tuple(taken.items())

    def _add(self, keys: NDArray[np.int64], change: NDArray[np.float64]) -> NDArray[np.float64]:
        most = self.bounds.weight * self.unit
        before = np.empty(len(keys))
        for at, (key, delta) in enumerate(zip(keys.tolist(), change.tolist(), strict=True)):
            i, j = divmod(key, self.shape[1])
            row = self._rows.setdefault(i, {})
            before[at] = row.get(j, 0.0)
            self._put(i, j, max(-most, min(most, before[at].item() + delta)))
        return before

    def go_back(self, step: Step) -> None:
        """Undo the last step."""
        for key, value in zip(step.keys.tolist(), step.before.tolist(), strict=True):
            i, j = divmod(key, self.shape[1])
            self._put(i, j, value)
        self._spent.update(step.taken)

    def _put(self, i: int, j: int, value: float) -> None:
        self._packed.pop(i, None)
        if value != 0.0:
            self._rows[i][j] = value
        else:
            self._rows[i].pop(j, None)

    def spent(self, client: str) -> float:
        """How much of its allowance a client has used, in units of the base."""
        return self._spent.get(client, 0.0) / self.unit

    def matrix(self) -> sparse.csr_array:
        """The overlay as a part of weights holds it: CSR float32."""
        counts = np.zeros(self.shape[0] + 1, dtype=np.int64)
        columns, values = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        for i in sorted(i for i, row in self._rows.items() if row):
            if i not in self._packed:
                row = self._rows[i]
                order = sorted(row)
                self._packed[i] = (np.array(order, np.int32), np.array([row[j] for j in order], np.float32))
            own_columns, own_values = self._packed[i]
            counts[i + 1] = own_columns.size
            columns.append(own_columns)
            values.append(own_values)
        data = (np.concatenate(values), np.concatenate(columns), np.cumsum(counts))
        return sparse.csr_array(data, shape=self.shape)


def digest_of(matrix: sparse.csr_array) -> str:
    """What an overlay is known by: the same bits give the same."""
    found = hashlib.sha256(f"{matrix.shape}".encode())
    for array, dtype in ((matrix.indptr, np.int64), (matrix.indices, np.int32), (matrix.data, np.float32)):
        found.update(np.ascontiguousarray(array, dtype).tobytes())
    return found.hexdigest()[:32]
