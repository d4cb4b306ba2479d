"""Learning next to constant weights: preferences with the margins that the constant weights leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tercet._lazy import sparse
from tercet.data.preferences import Preferences
from tercet.learn.loop import CHUNK, Callback, Checkpoint, Event
from tercet.learn.sources import Source
from tercet.learn.stored import matching_margins
from tercet.store.digest import digest_of, state_digest
from tercet.weights import Weights


class MarginsLeft(Preferences):
    """Preferences with margins of any sign: negative if the constant weights exceed the margin."""

    def __init__(
        self,
        query: ArrayLike,
        better: ArrayLike,
        worse: ArrayLike,
        weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
    ) -> None:
        super().__init__(query, better, worse, weight)
        left = np.array(margin, dtype=np.float32)
        left.flags.writeable = False
        object.__setattr__(self, "margin", left)


class OffsetSource(Source):
    """The preferences of a source, with the margins left by constant weights.

    With the constant weights P, ``q'Pd + m(q, d)`` reaches a margin if ``m`` reaches the margin less ``q'P(d+ - d-)``.
    """

    def __init__(
        self,
        source: Source,
        Q: sparse.csr_array,
        D: sparse.csr_array,
        *,
        offset: Weights | None,
        margin: float,
        whole: Callable[[Weights], Weights],
    ) -> None:
        self.source = source
        self.Q, self.D = Q, D
        self.offset = offset
        self.margin = margin
        self.whole = whole
        self.n_steps = source.n_steps
        self.looks_at_weights = source.looks_at_weights

    def draw(self, step: int, weights: Callable[[], Weights]) -> Preferences:
        drawn = self.source.draw(step, lambda: self.whole(weights()))[:CHUNK]  # the loop takes no more at once
        drawn.check_rows(self.Q.shape[0], self.D.shape[0])
        return margins_left(drawn, self.Q, self.D, offset=self.offset, margin=self.margin)

    def fingerprint(self) -> str:
        fixed = "" if self.offset is None else state_digest(self.offset)
        return digest_of("beside", self.source.fingerprint(), fixed, self.margin)

    def begin(self) -> None:
        self.source.begin()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.source.state()

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.source.restore(meta, arrays)


def margins_left(
    prefs: Preferences, Q: sparse.csr_array, D: sparse.csr_array, *, offset: Weights | None, margin: float
) -> Preferences:
    """Return the preferences with the margins left by constant weights."""
    if offset is None:
        return prefs
    left = np.full(len(prefs), margin) if prefs.margin is None else prefs.margin.astype(np.float64)
    if offset.identity:
        left = left - offset.identity * matching_margins(Q, D, prefs)
    others = [part for part in offset.parts if part.identity is None]
    if others:
        fixed, queries = Weights(others), Q[prefs.query]
        left = left - (fixed.score_rows(queries, D[prefs.better]) - fixed.score_rows(queries, D[prefs.worse]))
    return MarginsLeft(prefs.query, prefs.better, prefs.worse, prefs.weight, left)


def seen_whole(callback: Callback, whole: Callable[[Weights], Weights]) -> Callback:
    """Wrap a callback: its events have the weights after ``whole``."""
    if isinstance(callback, Checkpoint):
        return callback

    def tell(event: Event) -> bool | None:
        return callback(replace(event, weights=lambda: whole(event.weights())))

    return tell
