"""Impressions log: lists shown and clicks, in the format of OpenSearch's UBI.

A folder of append-only JSONL files, a pair for each day (UTC), or more if a file grows large::

    ubi_queries-20261116-0001.jsonl     a line for each search: query_id, client_id, timestamp, user_query, hit ids
    ubi_events-20261116-0001.jsonl      a line for each click: query_id, client_id, timestamp, object_id, position

Each line is given to the operating system before the answer is sent, so killing the service loses no line. Old pairs
are
removed. The client is an HMAC of address and name under a key beside the folder, so the log alone names nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tercet.data.ubi import CLICK, EVENTS, QUERIES
from tercet.errors import InputError, StoreError
from tercet.store.atomic import sync_folder, try_lock

_log = logging.getLogger(__name__)

KEEP_DAYS = 30
_FILE_BYTES = 64 << 20  # of a file, before the next pair begins
_BYTES_REMEMBERED = 32 << 20  # of lists for later clicks
_LIST_BYTES = 256  # approximate overhead of a list
_TAIL_BYTES = 4 << 20  # of the latest file, read at the start
_KEY_BYTES, _ID_BYTES = 32, 16


class ImpressionLog:
    """Writer of the log; one service at a time per folder.

    Parameters
    ----------
    folder : folder of the log; the file of the key is ``FOLDER.key``
    keep_days : days (UTC) to keep a file after its own day
    file_bytes : size limit of a file
    clock : returns seconds since 1970

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ImpressionLog(Path(folder, "impressions")) as log:
    ...         query_id = log.search("10.0.0.1", "eyes", ["a", "b"], {"version": "v0"})
    ...         log.click("10.0.0.1", query_id, "b")
    2
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        keep_days: int = KEEP_DAYS,
        file_bytes: int = _FILE_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if keep_days < 1:
            raise InputError(f"keep_days must be at least 1; got {keep_days}")
        self.folder = Path(folder).resolve()
        self.key_path = self.folder.with_name(f"{self.folder.name}.key")
        self.n_searches = self.n_clicks = self.n_lost = 0
        self.keep_days, self._file_bytes, self.clock = keep_days, file_bytes, clock
        self._lock = threading.Lock()
        self._shown: OrderedDict[str, str] = OrderedDict()  # ids as JSON, a fifth of the memory of a list
        self._n_remembered = 0
        self._files: dict[str, int] = {}
        self._day, self._count = date.min, 0
        self._warned_at = -60.0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._claim = os.open(self.folder, os.O_RDONLY) if os.name != "nt" else -1
            if self._claim >= 0 and not try_lock(self._claim):
                os.close(self._claim)
                raise StoreError(f"{self.folder} is written by another service; name another folder")
            self._key = self._kept_key()
            self._begin()
            self._remember_latest()
        except OSError as error:
            raise StoreError(f"{self.folder}: impressions cannot be logged: {error}") from error

    # -- records -----------------------------------------------------------------------------------------------

    def search(self, client: str, query: str, shown: Sequence[str], attributes: dict[str, Any]) -> str | None:
        """Log a list; return its id for clicks, or None if writing failed."""
        query_id = secrets.token_hex(16)
        record = {
            "application": "tercet",
            "query_id": query_id,
            "client_id": self.client_id(client),
            "user_query": query,
            "query_attributes": attributes,
            "query_response_hit_ids": list(shown),
        }
        with self._lock:
            if not self._append(QUERIES, record):
                return None
            self.n_searches += 1
            self._remember(query_id, shown)
        return query_id

    def click(self, client: str, query_id: str, doc_id: str) -> int:
        """Log a click on a list; return the rank.

        Raises `KeyError` for an unknown list, `ValueError` for a document outside the list, and `StoreError` if writing
        failed.
        """
        with self._lock:
            rank = int(json.loads(self._shown[query_id]).index(doc_id)) + 1
            record = {
                "application": "tercet",
                "action_name": CLICK,
                "query_id": query_id,
                "client_id": self.client_id(client),
                "event_attributes": {"object": {"object_id": doc_id}, "position": {"ordinal": rank}},
            }
            if not self._append(EVENTS, record):
                raise StoreError("the click cannot be written")
            self.n_clicks += 1
        return rank

    def client_id(self, client: str) -> str:
        """Return the name of a client in the log."""
        return self._keyed(client)[:_ID_BYTES].hex()

    def coins(self, client: str, *about: str) -> np.random.Generator:
        """Return a secret random generator that is the same all day (UTC) for a client and ``about``.

        A repeated search thus gets the same list.
        """
        day = datetime.fromtimestamp(self.clock(), UTC).date().isoformat()
        return np.random.default_rng(int.from_bytes(self._keyed(json.dumps([day, client, *about]))))

    def _keyed(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def tidy(self) -> None:
        """Remove old files."""
        try:
            self._remove_before(datetime.fromtimestamp(self.clock(), UTC).date().toordinal() - self.keep_days)
        except OSError as error:
            _log.warning("%s: old files cannot be removed: %s", self.folder, error)

    def close(self) -> None:
        with self._lock:
            try:
                self._end()
            finally:
                if self._claim >= 0:
                    os.close(self._claim)
                    self._claim = -1

    def __enter__(self) -> ImpressionLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- files --------------------------------------------------------------------------------------------------

    def _append(self, kind: str, record: dict[str, Any]) -> bool:
        now = self.clock()
        moment = datetime.fromtimestamp(now, UTC)
        record["timestamp"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        # In ASCII: a query may have half a surrogate pair, which UTF-8 cannot encode.
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        try:
            if not self._files or moment.date() > self._day or self._size(kind) + len(line) > self._file_bytes:
                self._begin()
            file, before = self._files[kind], self._size(kind)
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(file, rest) :]
            except OSError:
                os.ftruncate(file, before)  # remove a partial line
                raise
        except OSError as error:
            self.n_lost += 1
            if now - self._warned_at >= 60:
                self._warned_at = now
                _log.warning("%s: impressions are lost (%d so far): %s", self.folder, self.n_lost, error)
            return False
        return True

    def _size(self, kind: str) -> int:
        return os.fstat(self._files[kind]).st_size

    def _begin(self) -> None:
        """Continue the last pair of today, or begin a new pair; remove old files."""
        today = datetime.fromtimestamp(self.clock(), UTC).date()
        self._end()
        self._remove_before(today.toordinal() - self.keep_days)
        counts = [count for day, count, _ in self._pairs() if day == today]
        count = max(counts, default=1)
        paths = {kind: self._path(kind, today, count) for kind in (QUERIES, EVENTS)}
        if any(path.exists() and path.stat().st_size >= self._file_bytes // 2 for path in paths.values()):
            count += 1
            paths = {kind: self._path(kind, today, count) for kind in (QUERIES, EVENTS)}
        self._files = _opened(paths)
        self._day, self._count = today, count
        sync_folder(self.folder)

    def _end(self) -> None:
        # Forget the descriptors even if closing fails: the next connection may get the same numbers.
        files, self._files = self._files, {}
        with ExitStack() as closing:
            for file in files.values():
                closing.callback(os.close, file)
                closing.callback(os.fsync, file)

    def _path(self, kind: str, day: date, count: int) -> Path:
        return self.folder / f"{kind}-{day:%Y%m%d}-{count:04d}.jsonl"

    def _pairs(self) -> list[tuple[date, int, Path]]:
        pairs = []
        for path in sorted(self.folder.glob(f"{QUERIES}-*-*.jsonl")) + sorted(self.folder.glob(f"{EVENTS}-*-*.jsonl")):
            try:
                _, day, count = path.stem.split("-")
                pairs.append((datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC).date(), int(count), path))
            except ValueError:
                continue  # a foreign file
        return pairs

    def _remove_before(self, ordinal: int) -> None:
        for day, _, path in self._pairs():
            if day.toordinal() < ordinal:
                path.unlink(missing_ok=True)

    def _kept_key(self) -> bytes:
        try:
            key = bytes.fromhex(self.key_path.read_text("ascii").strip())
        except FileNotFoundError:
            key = secrets.token_bytes(_KEY_BYTES)
            with open(
                os.open(self.key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii"
            ) as file:
                file.write(key.hex() + "\n")
            return key
        except ValueError as error:
            raise StoreError(f"{self.key_path} holds no key; remove the file for a new key") from error
        if len(key) < _KEY_BYTES:
            raise StoreError(
                f"{self.key_path} has {len(key)} bytes instead of {_KEY_BYTES}; remove the file for a new key"
            )
        return key

    def _remember(self, query_id: str, doc_ids: Sequence[str]) -> None:
        ids = self._shown[query_id] = json.dumps(list(doc_ids))
        self._n_remembered += len(ids) + _LIST_BYTES
        while self._n_remembered > _BYTES_REMEMBERED:
            _, oldest = self._shown.popitem(last=False)
            self._n_remembered -= len(oldest) + _LIST_BYTES

    def _remember_latest(self) -> None:
        """Remember the latest lists from before a restart, for clicks from open pages."""
        latest = [path for _, _, path in self._pairs() if path.name.startswith(QUERIES) and path.stat().st_size]
        for path in latest[-1:]:
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                lines = file.read().split(b"\n")
            for line in lines:
                try:
                    record = json.loads(line)
                    self._remember(record["query_id"], record["query_response_hit_ids"])
                except (ValueError, KeyError, TypeError):
                    continue  # a partial first line


def _opened(paths: Mapping[str, Path]) -> dict[str, int]:
    """Open files for appending: all, or none if one fails."""
    files: dict[str, int] = {}
    with ExitStack() as begun:
        for kind, path in paths.items():
            files[kind] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            begun.callback(os.close, files[kind])
            _cut_torn_line(files[kind], path)
        begun.pop_all()
    return files


def _cut_torn_line(file: int, path: Path) -> None:
    """Remove a partial last line, left by a power cut."""
    size = os.fstat(file).st_size
    start = max(0, size - (1 << 20))
    os.lseek(file, start, os.SEEK_SET)
    tail = os.read(file, size - start)
    end = start + tail.rfind(b"\n") + 1
    if end < size:
        _log.warning("%s: %d bytes of a partial line are removed", path, size - end)
        os.ftruncate(file, end)
