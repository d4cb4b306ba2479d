"""How often one client and one address may change something."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from tercet.serve.bounds import Limits
from tercet.serve.problems import HttpProblem

_MOST_BUCKETS = 10_000  # names that have one; the one not seen for longest goes
_ADDRESS_TIMES = 10  # as often as a client


class Rates:
    """Rate limits of a kind of request, by client and by address.

    Parameters
    ----------
    what : the kind, as a refusal names it
    limits : how often
    """

    def __init__(self, what: str, limits: Limits) -> None:
        self._what = what
        self._by_client = Buckets(limits.writes_per_minute, limits.write_burst)
        self._by_address = Buckets(_ADDRESS_TIMES * limits.writes_per_minute, _ADDRESS_TIMES * limits.write_burst)

    def change(self, limits: Limits) -> None:
        """Go on by other limits."""
        for buckets, times in ((self._by_client, 1), (self._by_address, _ADDRESS_TIMES)):
            buckets.change(times * limits.writes_per_minute, times * limits.write_burst)

    def admit(self, client: str) -> None:
        """Take a token of the client and of its address; a problem where there is none."""
        address = client.partition("/")[0]
        for buckets, name, who in ((self._by_client, client, "client"), (self._by_address, address, "address")):
            wait = buckets.take(name)
            if wait:
                raise HttpProblem(429, f"too many {self._what} by this {who}; try again later", "rate", wait)


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

    def change(self, per_minute: float, burst: int) -> None:
        """Go on with other numbers; who has more than the new burst has that."""
        with self._lock:
            self._per_second, self._burst = per_minute / 60, float(burst)

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
