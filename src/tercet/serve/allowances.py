"""How often, and how much, one client and one address may change."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

_MOST_BUCKETS = 10_000  # names that have one; the one not seen for longest goes
_ADDRESS_SHARE = 10  # allowances of a client that one address has


class Allowances:
    """What each client and address has spent, sizes of changes added up.

    Parameters
    ----------
    client : the most of one client; ten times that for one address
    """

    def __init__(self, client: float) -> None:
        self._client = client
        self._spent: dict[str, float] = {}

    def charge(self, size: float, clients: Mapping[str, int]) -> tuple[float, tuple[tuple[str, float], ...]]:
        """Which share of a step those who asked for it can still afford, and what each had spent before.

        Each pays for its part of the votes; those with none for the step pay nothing.
        """
        votes = sum(clients.values())
        affordable = 0.0
        before: dict[str, float] = {}
        for client in sorted(clients):
            payment = size * (clients[client] / votes)
            # No client is called "*/…", since an address comes first in its name.
            purses = {client: self._client, "*/" + client.partition("/")[0]: _ADDRESS_SHARE * self._client}
            for name, most in purses.items():
                payment = min(payment, max(0.0, most - self._spent.get(name, 0.0)))
            for name in purses:
                spent = self._spent.get(name, 0.0)
                before.setdefault(name, spent)
                self._spent[name] = spent + payment
            affordable += payment
        return (min(1.0, affordable / size) if size else 0.0), tuple(before.items())

    def refund(self, before: tuple[tuple[str, float], ...]) -> None:
        """Undo the last `charge`."""
        self._spent.update(before)

    def spent(self, name: str) -> float:
        return self._spent.get(name, 0.0)


class Buckets:
    """A bucket per name that holds ``burst`` tokens and gets ``per_minute`` back; a name not seen for long is full.

    Examples
    --------
    >>> buckets = Buckets(per_minute=60, burst=2, clock=lambda: 0.0)
    >>> [buckets.take("me") for _ in range(3)]
    [0.0, 0.0, 1.0]
    """

    def __init__(self, per_minute: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_minute / 60, float(burst), clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Take a token; returns 0, or after how many seconds there will be one."""
        with self._lock:
            now = self._clock()
            level, then = self._levels.pop(name, (self._burst, now))
            level = min(self._burst, level + (now - then) * self._per_second)
            wait = 0.0 if level >= 1 else (1 - level) / self._per_second if self._per_second else math.inf
            self._levels[name] = (level if wait else level - 1, now)
            if len(self._levels) > _MOST_BUCKETS:
                self._levels.popitem(last=False)
            return wait
