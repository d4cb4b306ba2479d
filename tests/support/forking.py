"""Work that is killed, in a fork of the test process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def killed_after(work: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Have the work done meanwhile, and kill -9 it at the end of the block; gives whether it is still at it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)  # nothing of the test process may happen twice
    try:
        yield lambda: os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def kill_while(work: Callable[[], None], is_ready: Callable[[], bool], after: float = 0.0) -> None:
    """Start the work, wait until it is ready to be killed, and kill -9 it some seconds later."""
    with killed_after(work) as is_at_work:
        wait_for(is_ready, is_at_work)
        time.sleep(after)


def wait_for(is_ready: Callable[[], bool], is_at_work: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_ready():
        assert time.monotonic() < deadline, "the work never came so far"
        assert is_at_work(), "the work ended before it was killed"
        time.sleep(0.002)


def changed(file: Path) -> Callable[[], bool]:
    """Whether a file is another than it was when this was called."""

    def content() -> bytes:
        return file.read_bytes() if file.exists() else b""

    before = content()
    return lambda: content() != before
