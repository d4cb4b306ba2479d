"""Start a worker of the runner from a process with few imports."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def start_child_and_wait(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=_start) as pool:
        pool.submit(_wait, file).result()


def _start() -> None:
    from reproductions.runner import _start_process

    _start_process(None)  # type: ignore[arg-type]


def _wait(file: Path) -> None:
    file.write_text(str(os.getpid()))
    time.sleep(600)
