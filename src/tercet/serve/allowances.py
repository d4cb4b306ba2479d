"""Allowances: how much of the overlay one client, and one address, may have changed."""

from __future__ import annotations

from collections.abc import Mapping

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
