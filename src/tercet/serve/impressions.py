"""The impressions log: what was shown to whom for which query, and what was clicked, in the form of OpenSearch's UBI.

A folder of JSONL files that are only appended to, a pair for each day (UTC), or more where one grows large::

    ubi_queries-20261116-0001.jsonl     a line for each search: query_id, client_id, timestamp, user_query, hit ids
    ubi_events-20261116-0001.jsonl      a line for each click: query_id, client_id, timestamp, object_id, position

A line is with the operating system before its answer is sent, so a kill of the service loses none. Pairs of days that
are past the retention are removed. The client is an HMAC of its address and name under a key that lies beside the
folder, not in it: without that key, nobody can tell whose a line is, or try addresses until one fits.
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
_FILE_BYTES = 64 << 20  # after which the next pair begins
_BYTES_REMEMBERED = 32 << 20  # of lists that clicks may come for; the oldest lists go
_LIST_BYTES = 256  # about what one takes beside its ids
_TAIL_BYTES = 4 << 20  # of the latest file, that are looked through at the start
_KEY_BYTES, _ID_BYTES = 32, 16


class ImpressionLog:
    """Writes the log; one service at a time has a folder.

    Parameters
    ----------
    folder : made where it is missing; the key is ``FOLDER.key``, beside it
    keep_days : whole days, in UTC, that lines are kept after their own
    file_bytes : size at which the next pair of files begins
    clock : gives seconds since 1970

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
        self._shown: OrderedDict[str, str] = OrderedDict()  # ids as JSON: one string takes a fifth of what ten take
        self._n_remembered = 0
        self._files: dict[str, int] = {}
        self._day, self._count = date.min, 0
        self._warned_at = -60.0
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._claim = os.open(self.folder, os.O_RDONLY) if os.name != "nt" else -1
            if self._claim >= 0 and not try_lock(self._claim):
                os.close(self._claim)
                raise StoreError(f"{self.folder} is written by another service; this one needs a folder of its own")
            self._key = self._kept_key()
            self._begin()
            self._remember_latest()
        except OSError as error:
            raise StoreError(f"{self.folder}: impressions cannot be logged: {error}") from error

    # -- what happens -------------------------------------------------------------------------------------------

    def search(self, client: str, query: str, shown: Sequence[str], attributes: dict[str, Any]) -> str | None:
        """Log a list; gives the id by which clicks name it, or None where it could not be written."""
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
        """Log a click on a list; gives the rank it was on.

        Raises `KeyError` for a list that is not known, or no longer, `ValueError` where the document was not in it,
        and `StoreError` where it cannot be written.
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
        """What a client is called in the log."""
        return self._keyed(client)[:_ID_BYTES].hex()

    def coins(self, client: str, *about: str) -> np.random.Generator:
        """Coins that a client cannot know, and that are the same all day (UTC) for it and what they are about.

        So a list that is asked for again, or for more of it, is the same list.
        """
        day = datetime.fromtimestamp(self.clock(), UTC).date().isoformat()
        return np.random.default_rng(int.from_bytes(self._keyed(json.dumps([day, client, *about]))))

    def _keyed(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def tidy(self) -> None:
        """Remove what is past its time, also where nobody searches."""
        try:
            self._remove_before(datetime.fromtimestamp(self.clock(), UTC).date().toordinal() - self.keep_days)
        except OSError as error:
            _log.warning("%s: what is past its time cannot be removed: %s", self.folder, error)

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
        # In ASCII: a query may hold half a surrogate pair, which UTF-8 has no bytes for.
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
                os.ftruncate(file, before)  # no half a line
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
        """Go on in the last pair of today, or begin one; what is past its time is removed."""
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
        # Whatever the disk says, no number of a closed file stays here: the next connection may get it.
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
                continue  # not ours, so it stays
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
            raise StoreError(f"{self.key_path} holds no key; remove it, and another is made") from error
        if len(key) < _KEY_BYTES:
            raise StoreError(f"{self.key_path} has {len(key)} bytes; a key has {_KEY_BYTES}; remove it")
        return key

    def _remember(self, query_id: str, shown: Sequence[str]) -> None:
        ids = self._shown[query_id] = json.dumps(list(shown))
        self._n_remembered += len(ids) + _LIST_BYTES
        while self._n_remembered > _BYTES_REMEMBERED:
            _, oldest = self._shown.popitem(last=False)
            self._n_remembered -= len(oldest) + _LIST_BYTES

    def _remember_latest(self) -> None:
        """Know the lists of before a restart, since pages that show them are still open."""
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
                    continue  # the tail may begin within a line


def _opened(paths: Mapping[str, Path]) -> dict[str, int]:
    """Files to append to, all of them or, where one cannot be opened, none."""
    files: dict[str, int] = {}
    with ExitStack() as begun:
        for kind, path in paths.items():
            files[kind] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            begun.callback(os.close, files[kind])
            _cut_torn_line(files[kind], path)
        begun.pop_all()
    return files


def _cut_torn_line(file: int, path: Path) -> None:
    """Drop what follows the last line end: a power cut left it."""
    size = os.fstat(file).st_size
    start = max(0, size - (1 << 20))
    os.lseek(file, start, os.SEEK_SET)
    tail = os.read(file, size - start)
    end = start + tail.rfind(b"\n") + 1
    if end < size:
        _log.warning("%s: %d bytes of a line that was cut short are dropped", path, size - end)
        os.ftruncate(file, end)
