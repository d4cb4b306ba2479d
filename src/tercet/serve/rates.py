"""How often one client and one address may change something."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from tercet.serve.bounds import Limits
from tercet.serve.networks import household
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

    def check(self, address: str) -> None:
        """A problem where the address has no token left; takes none. For those who must not be read any further."""
        self._refuse(self._by_address.wait(household(address)), "address")

    def charge(self, address: str) -> None:
        """Take a token of the address for a request that could not be understood, whoever the client may be.

        Without it, such requests would cost their sender nothing, and us the reading of them.
        """
        self._refuse(self._by_address.take(household(address)), "address")

    def admit(self, client: str) -> None:
        """Take a token of the client and of its address; a problem where there is none."""
        address, slash, name = client.partition("/")
        place = household(address)
        for buckets, key, who in (
            (self._by_client, place + slash + name, "client"),
            (self._by_address, place, "address"),
        ):
            self._refuse(buckets.take(key), who)

    def _refuse(self, wait: float, who: str) -> None:
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
            level = self._level(name, now)
            wait = self._wait(level)
            self._levels.pop(name, None)
            self._levels[name] = (level if wait else level - 1, now)
            if len(self._levels) > _MOST_BUCKETS:
                self._levels.popitem(last=False)
            return wait

    def wait(self, name: str) -> float:
        """As `take`, but nothing is taken."""
        with self._lock:
            return self._wait(self._level(name, self._clock()))

    def _level(self, name: str, now: float) -> float:
        level, then = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + (now - then) * self._per_second)

    def _wait(self, level: float) -> float:
        return 0.0 if level >= 1 else (1 - level) / self._per_second if self._per_second else math.inf
