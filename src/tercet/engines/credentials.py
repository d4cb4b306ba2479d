"""Keys and passwords for servers.

A folder from anybody may name the server of its documents. A secret of the environment is sent to servers named by the
user, in a build or in TERCET_SECRET_HOSTS, and to this machine. Other machines get a secret over TLS alone.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tercet.errors import InputError

HOSTS: Final = "TERCET_SECRET_HOSTS"


class Credential(NamedTuple):
    """Key or password, or the reason for its absence as the end of an error message."""

    secret: str | None
    lack: str = ""


def is_loopback(host: str) -> bool:
    """Return True for this machine, or a socket in its file system.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "/run/postgresql", "localhost.example.org")]
    [True, True, True, True, False]
    """
    if host.startswith(("/", "@")) or host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def credential(
    hosts: Sequence[str], port: int | None, given: str | None, variable: str, *, is_named: bool
) -> Credential:
    """Return the secret for a server: the given secret, else the secret of the environment for trusted servers.

    Parameters
    ----------
    hosts, port : address of the server, possibly with several hosts
    variable : environment variable of the secret
    is_named : True if the user named this server, False if a folder did
    """
    if given:
        return Credential(given, f"; set {variable}")
    secret = os.environ.get(variable)
    if not secret:
        return Credential(None, f"; set {variable}")
    named = {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",")}
    strange = [
        host
        for host in hosts
        if not is_loopback(host) and not {host.lower(), f"{host.lower()}:{port}"} & named and not is_named
    ]
    if not strange:
        return Credential(secret, f"; set {variable}")
    return Credential(
        None, f"; {variable} was not sent to {strange[0]}, which only the index names: add it to {HOSTS} to trust it"
    )


def check_encrypted(hosts: Sequence[str], is_encrypted: bool, what: str, remedy: str) -> None:
    """Refuse to send a secret to another machine without TLS."""
    away = [host for host in hosts if not is_loopback(host)]
    if away and not is_encrypted:
        raise InputError(f"{what} would go to {away[0]} without encryption; {remedy}")


def http_url(url: Any, port: int, variable: str) -> str:
    """Check the URL of a server and return the URL for the folder.

    Parameters
    ----------
    url : URL from the user
    port : port of the example in error messages
    variable : environment variable of the secret

    Examples
    --------
    >>> http_url("http://localhost:6333/", 6333, "QDRANT_API_KEY")
    'http://localhost:6333'
    """
    expected = f"expected one like http://localhost:{port}"
    if not isinstance(url, str) or not url:
        raise InputError(f"url is {url!r}; {expected}")
    try:
        parts = urlsplit(url)
        hostname = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InputError(f"url is {url!r}, which is none: {error}") from error
    if parts.username is not None or parts.password is not None:
        raise InputError(f"url must not hold a password, since it is written to disk; set {variable} instead")
    if parts.scheme not in ("http", "https") or not hostname or parts.query or parts.fragment:
        raise InputError(f"url is {url!r}; {expected}")
    return url.rstrip("/")
