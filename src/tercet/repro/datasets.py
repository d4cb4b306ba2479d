"""Data sets of a plan as tasks, from the files their publishers ship."""

from __future__ import annotations

from pathlib import Path

from tercet.repro import classes, linked
from tercet.repro.plan import Data, Quick
from tercet.repro.tasks import Task


def load_task(data: Data, home: Path, quick: Quick | None = None) -> Task:
    """Read and prepare a data set; a missing file is a MissingDataError. Takes seconds."""
    if data.reader in classes.READERS:
        task = classes.READERS[data.reader](data, home)
        return task if quick is None else task.cut(quick.train_rows, quick.test_rows)
    return linked.READERS[data.reader](data, home, None if quick is None else quick.train_rows)
