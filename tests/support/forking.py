"""Work that is killed, in a fork of the test process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def kill_while(work: Callable[[], None], is_ready: Callable[[], bool], after: float = 0.0) -> None:
    """Start the work, wait until it is ready to be killed, and kill -9 it some seconds later."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)  # nothing of the test process may happen twice
    try:
        deadline = time.monotonic() + 60
        while not is_ready():
            assert time.monotonic() < deadline, "the work never came so far"
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the work ended before it was killed"
            time.sleep(0.002)
        time.sleep(after)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def changed(file: Path) -> Callable[[], bool]:
    """Whether a file is another than it was when this was called."""

    def content() -> bytes:
        return file.read_bytes() if file.exists() else b""

    before = content()
    return lambda: content() != before
