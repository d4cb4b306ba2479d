"""A source that looks at the weights, as users may write one."""

from __future__ import annotations

import numpy as np

from tercet import Preferences
from tercet.learn.sources import BLOCK, Source
from tercet.store import take_array
from tercet.store.digest import digest_of

DEPTH = 5


class TopSource(Source):
    """Worse documents from the top of the ranking, which is made anew for every block of steps."""

    def __init__(self, sampler, Q, D, n_steps, *, random_state=0):
        self.sampler, self.Q, self.D = sampler, Q, D
        self.n_steps, self.random_state = n_steps, random_state
        self._block, self._top = -1, np.empty((0, DEPTH), dtype=np.int32)

    def draw(self, step, weights):
        block, first = divmod(step, BLOCK)
        if block != self._block:
            self._block = block
            self._top = weights().rank(self.Q[self.sampler.queries], self.D, DEPTH)[0]
        rng = np.random.default_rng([self.random_state, block])
        query, better, worse = self.sampler.draw(rng, BLOCK)
        candidate = self._top[np.searchsorted(self.sampler.queries, query), rng.integers(0, DEPTH, BLOCK)]
        lower = self.sampler.grade_of(query, candidate) < self.sampler.grade_of(query, better)
        return Preferences(query, better, np.where(lower, candidate, worse))[first:]

    def fingerprint(self):
        return digest_of("top", self.sampler.fingerprint(), self.n_steps, self.random_state)

    def begin(self):
        self._block = -1

    def state(self):
        return {"block": self._block}, {"top": self._top}

    def restore(self, meta, arrays):
        self._block = meta["block"]
        self._top = take_array(arrays, "top", np.int32, (None, DEPTH))
