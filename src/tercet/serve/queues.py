"""Threads for those who ask, with a bound on how many may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tercet.serve.problems import HttpProblem

T = TypeVar("T")


class Queue:
    """Threads, and so many jobs at most that wait for one."""

    def __init__(self, name: str, workers: int, waiting: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"tercet-{name}")
        self._workers, self._most = workers, workers + waiting
        self._jobs = 0

    @property
    def is_full(self) -> bool:
        return self._jobs >= self._most

    @property
    def length(self) -> int:
        """Jobs that wait."""
        return max(0, self._jobs - self._workers)

    def allow(self, waiting: int) -> None:
        """From now on, so many may wait."""
        self._most = self._workers + waiting

    async def run(self, job: Callable[[], T]) -> T:
        """Have a job done by a thread; raises a 503 problem where too many wait. Call it from one event loop only."""
        if self._jobs >= self._most:
            raise HttpProblem(503, f"{self._most} requests are being worked on or wait; try again soon", "busy", 1.0)
        self._jobs += 1
        done = asyncio.get_running_loop().run_in_executor(self._pool, job)
        done.add_done_callback(self._less)
        return await done

    def _less(self, _: object) -> None:
        self._jobs -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
