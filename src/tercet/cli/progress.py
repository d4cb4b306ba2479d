"""Progress of long jobs: a line every few seconds. Training shows a bar of its own."""

from __future__ import annotations

import time

from tercet.cli.terminal import echo

SAY_EVERY_SECONDS = 5.0


class ProgressLines:
    """Print a line on standard error at most every few seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SAY_EVERY_SECONDS

    def documents(self, n_documents: int) -> None:
        """Report the number of processed documents."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_EVERY_SECONDS
            echo(f"{n_documents:,} documents so far", err=True)
