"""Who an address belongs to: IPv6 networks, and visitors behind proxies that are trusted."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from tercet.errors import InputError

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_NAMES_KEPT = 4096


@lru_cache(_NAMES_KEPT)
def household(address: str) -> str:
    """What counts as one visitor: an IPv4 address, or the /64 that one IPv6 connection is given; else what came.

    Examples
    --------
    >>> household("10.0.0.1"), household("2001:db8:1:2:aaaa::7"), household("::ffff:10.0.0.1"), household("local")
    ('10.0.0.1', '2001:db8:1:2::', '10.0.0.1', 'local')
    """
    return _network(address, 64)


@lru_cache(_NAMES_KEPT)
def site(address: str) -> str | None:
    """The /48 that one customer or site is given, of an IPv6 address or of a `household`; None for any other.

    Examples
    --------
    >>> site("2001:db8:1:2::"), site("10.0.0.1")
    ('2001:db8:1::', None)
    """
    network = _network(address, 48)
    return network if ":" in network and not _parsed(network).is_loopback else None


def _network(address: str, bits: int) -> str:
    try:
        parsed = _parsed(address)
    except ValueError:
        return address  # no address: a name, or that of a socket in the file system
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.is_loopback:
        return str(parsed)
    return str(ipaddress.IPv6Network((parsed, bits), strict=False).network_address)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address, without a zone; an IPv4 address that is written as an IPv6 one is an IPv4 address."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return parsed if mapped is None else mapped


def proxies_of(names: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks of proxies, as somebody wrote them."""
    try:
        return tuple(ipaddress.ip_network(name) for name in names)
    except ValueError as error:
        raise InputError(f"{error}; a proxy is an address or a network, such as 10.0.0.5 or 10.0.0.0/24") from error


def client_address(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Who asks: the peer, or where that is a trusted proxy, the last address in its header that is none of them.

    ``forwarded`` are the values of X-Forwarded-For. Each proxy adds the address that it saw at the end, so what stands
    before the first address that no trusted proxy vouches for is hearsay.

    Examples
    --------
    >>> trusted = proxies_of(["10.0.0.0/24"])
    >>> client_address("10.0.0.5", ["6.6.6.6, 192.0.2.7, 10.0.0.9"], trusted)
    '192.0.2.7'
    >>> client_address("192.0.2.7", ["6.6.6.6"], trusted)
    '192.0.2.7'
    """
    address = peer
    hops = [hop.strip() for value in forwarded for hop in value.split(",")]
    while hops and _is_among(address, proxies):
        hop = hops.pop()
        try:
            address = str(_parsed(hop.removeprefix("[").partition("]")[0] if hop.startswith("[") else hop))
        except ValueError:
            return address  # not an address: a proxy that hides its clients, or one that is set up wrongly
    return address


def _is_among(address: str, proxies: Sequence[Network]) -> bool:
    try:
        parsed = _parsed(address)
    except ValueError:
        return False
    return any(parsed in network for network in proxies)
