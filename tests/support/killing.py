"""A service that is killed at random moments while preferences arrive, and what must be there after each restart."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.serving import Running, made_docs, made_index
from tercet.search import Index
from tercet.serve import read_journal, replay

# Imports and loads kernels once and forks a service for each line it reads, since that takes longer than all the rest.
_PROGRAM = """
import os, sys, signal
from tercet.cli.main import cli
import tercet.serve.run
from tercet.search import Index
for most in (None, 1):
    Index.open(sys.argv[2]).search("green avocado", 3, max_terms=most)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for _ in iter(sys.stdin.readline, ""):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(0)
        try:
            cli(sys.argv[1:], standalone_mode=True)
        finally:
            print("ended", flush=True)  # instead of an address, so that nobody waits for one
            os._exit(1)
    print(child, flush=True)
"""


@dataclass
class Tally:
    """What was seen over all restarts."""

    restarts: int = 0
    acknowledged: int = 0
    torn: int = 0
    entries: int = 0
    problems: list[str] = field(default_factory=list)


class Teacher(threading.Thread):
    """Sends one preference after the other, now and then takes one back, and notes what was acknowledged."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.host = address.removeprefix("http://").rstrip("/")
        self.random = random.Random(seed)
        self.acknowledged: dict[int, dict[str, Any]] = {}
        self.unexpected: list[str] = []

    def run(self) -> None:
        docs = list(made_docs())[:-1]
        connection = http.client.HTTPConnection(self.host, timeout=10)
        try:
            while True:
                better, worse = self.random.sample(docs, 2)
                query = self.random.choice(["green avocado", "blue sky", "oil", "red toast"])
                path, body = "/prefer", {"query": query, "better": better, "worse": worse, "client": self.name}
                if self.random.random() < 0.15 and self.acknowledged:
                    path, body = "/undo", {"client": self.name}
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                told = json.loads(answer.read())
                if answer.status == 202:
                    self.acknowledged[told["entry"]] = body | {"withdrawn": told.get("withdrawn")}
                elif answer.status != 409:
                    self.unexpected.append(f"{path} answered {answer.status}: {told}")
        except (OSError, http.client.HTTPException, ValueError):
            pass  # the kill
        finally:
            connection.close()


def kill_again_and_again(folder: Path, restarts: int, seed: int = 0) -> Tally:
    """Start, teach, kill -9; after each start everything acknowledged so far is there, and the model is its replay."""
    made_index(folder / "index")
    index, journal = Index.open(folder / "index"), folder / "index.journal" / "journal.jsonl"
    command = [sys.executable, "-c", _PROGRAM, "serve", str(folder / "index"), "--port", "0"]
    command += ["--write-burst", "1000000"]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    tally, acknowledged, dice = Tally(), {}, random.Random(seed)
    with open(folder / "errors.txt", "w") as errors:
        forker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | single
        )
    too_late = threading.Timer(60 + 20 * restarts, forker.kill)
    too_late.start()
    assert forker.stdin is not None
    assert forker.stdout is not None
    child = 0
    try:
        assert forker.stdout.readline().strip() == "ready", (folder / "errors.txt").read_text()
        for _ in range(restarts):
            forker.stdin.write("start\n")
            forker.stdin.flush()
            lines = [forker.stdout.readline().strip(), forker.stdout.readline().strip()]
            assert all(lines), (folder / "errors.txt").read_text()
            child = int(next(line for line in lines if line.isdigit()))
            address = next((line for line in lines if line.startswith("http")), None)
            assert address is not None, (folder / "errors.txt").read_text()
            tally.restarts += 1
            tally.problems += _faults(Running(forker, address), index, journal, acknowledged)
            teachers = [Teacher(address, dice.randrange(2**30)) for _ in range(2)]
            for at, teacher in enumerate(teachers):
                teacher.name = f"teacher-{at}"
                teacher.start()
            time.sleep(dice.uniform(0.0, 0.2))
            os.kill(child, signal.SIGKILL)
            child = 0
            for teacher in teachers:
                teacher.join(timeout=20)
                acknowledged |= teacher.acknowledged
                tally.problems += teacher.unexpected
            tally.torn += journal.read_bytes()[-1:] != b"\n"
    finally:
        too_late.cancel()
        if child:
            os.kill(child, signal.SIGKILL)
        forker.kill()
        forker.communicate()
    tally.acknowledged, tally.entries = len(acknowledged), len(read_journal(journal).entries)
    return tally


def _faults(service: Running, index: Index, journal: Path, acknowledged: dict[int, dict[str, Any]]) -> list[str]:
    faults = []
    entries = read_journal(journal).entries
    for number, body in acknowledged.items():
        if number > len(entries):
            faults.append(f"entry {number} was acknowledged and is gone")
        elif body["withdrawn"] is not None:
            if list(entries[number - 1].to_meta().get("entries", ())) != body["withdrawn"]:
                faults.append(f"entry {number} is not what was acknowledged")
        elif any(getattr(entries[number - 1], name, None) != body[name] for name in ("query", "better", "worse")):
            faults.append(f"entry {number} is not what was acknowledged")
    learned = service.ask("/learned?limit=1").json()
    expected = replay(index, entries)
    if (learned["version"], learned["digest"]) != (expected.name, expected.digest):
        faults.append(f"{learned['version']} is not the replay of the journal, {expected.name}")
    return faults
