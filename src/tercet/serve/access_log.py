"""The access log: a line of JSON for each request, by the id that its answer carries."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import sys
import threading
from os import PathLike
from pathlib import Path
from typing import Any

from tercet.data.values import timestamp
from tercet.errors import JournalError

_log = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def request_id_of(sent: str | None) -> str:
    """The id of a request: what a proxy sent, where that is one, or else a new one.

    Examples
    --------
    >>> request_id_of("req-7"), len(request_id_of("<script>"))
    ('req-7', 16)
    """
    return sent if sent is not None and _REQUEST_ID.fullmatch(sent) else secrets.token_hex(8)


class AccessLog:
    """Appends lines to a file, or to standard error where it is ``-``.

    A line has the time, the request id, the address, the method, the path, the route, the status, what the problem is
    called where there is one, and the milliseconds. What follows the question mark, which is what people search for, is
    left out.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = None if str(path) == "-" else Path(path)
        self._lock = threading.Lock()
        self._file, self._is_old = -1, False
        try:
            self._open()
        except OSError as error:
            raise JournalError(f"{path}: the access log cannot be written: {error.strerror}") from error

    def _open(self) -> None:
        if self._path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._file = os.open(self._path, flags, 0o600)

    def write(self, **members: Any) -> None:
        line = json.dumps({"time": timestamp(), **members}, separators=(",", ":")) + "\n"
        with self._lock:
            try:
                if self._is_old:
                    self._is_old = False
                    self._reopen()
                if self._path is None:
                    sys.stderr.write(line)
                elif self._file >= 0:
                    os.write(self._file, line.encode())
            except OSError as error:
                _log.warning("the access log cannot be written: %s", error)

    def reopen(self) -> None:
        """Go on, from the next line, in the file that is at the path then. Takes no lock: a signal may call this."""
        self._is_old = True

    def move(self, path: str | PathLike[str]) -> None:
        """Go on in another file, or on standard error; one that cannot be written raises, and the old one goes on."""
        with self._lock:
            before, self._path = (self._path, self._file), None if str(path) == "-" else Path(path)
            try:
                self._file = -1
                self._open()
            except OSError as error:
                self._path, self._file = before
                raise JournalError(f"{path}: the access log cannot be written: {error.strerror}") from error
            if before[1] >= 0:
                os.close(before[1])

    def _reopen(self) -> None:
        before = self._file
        try:
            self._open()
        except OSError as error:
            _log.warning("the access log goes on in the file it has: %s", error)
            return
        if before >= 0:
            os.close(before)

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
