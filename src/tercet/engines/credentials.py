"""Keys and passwords for servers.

A folder from anybody may name the server of its documents. A secret of the environment is sent to servers named by the
user, in a build or in TERCET_SECRET_HOSTS, and to this machine. Other machines get a secret over TLS alone.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tercet.errors import InputError, MissingExtraError

HOSTS: Final = "TERCET_SECRET_HOSTS"


class Credential(NamedTuple):
    """Key or password, or the reason for its absence as the end of an error message."""

    secret: str | None
    lack: str = ""


def require_client(module: str, package: str, extra: str) -> None:
    """Raise an error with the command to install for a missing client library."""
    try:
        import_module(module)
    except ImportError as error:
        raise MissingExtraError(package, extra, f"the backend {extra}") from error


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
    hosts: Sequence[str], port: int | str, given: str | None, variable: str, *, is_named: bool, is_encrypted: bool
) -> Credential:
    """Return the secret for a server: the given secret, else the secret of the environment for trusted servers.

    Parameters
    ----------
    hosts, port : address of the server, possibly with several hosts
    given : secret from the user
    variable : environment variable of the secret
    is_named : True if the user named this server, False if a folder did
    is_encrypted : True for a connection by TLS; else secrets for other machines are refused
    """
    away = [host for host in hosts if not is_loopback(host)]
    trusted = {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",")}
    strange = [host for host in away if not is_named and not {host.lower(), f"{host.lower()}:{port}"} & trusted]
    secret = given or os.environ.get(variable)
    if secret and not given and strange:
        lack = f"; {variable} was not sent to {strange[0]}, which only the index names: add it to {HOSTS} to trust it"
        return Credential(None, lack)
    if secret and away and not is_encrypted:
        raise InputError(
            f"the secret for {away[0]} would go there without encryption; use TLS, a tunnel to localhost, or no "
            f"secret (unset {variable})"
        )
    return Credential(secret or None, f"; set {variable}")


def http_credential(urls: Sequence[str], given: str | None, variable: str, *, is_named: bool) -> Credential:
    """Return the secret for servers with checked URLs."""
    parts = [urlsplit(url) for url in urls]
    is_encrypted = all(part.scheme == "https" for part in parts)
    port = parts[0].port or (443 if is_encrypted else 80)
    hosts = [part.hostname or "" for part in parts]
    return credential(hosts, port, given, variable, is_named=is_named, is_encrypted=is_encrypted)


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
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, TypeError, AttributeError):
        raise InputError(f"the url is none; {expected}") from None  # the message must not show a password
    if parts.username is not None or parts.password is not None:
        raise InputError(f"url must not hold a password, since it is written to disk; set {variable} instead")
    if not is_address or parts.query or parts.fragment or not isinstance(url, str):
        raise InputError(f"url is {url!r}; {expected}")
    return url.rstrip("/")
