"""Files of a data set below the data home."""

from __future__ import annotations

from pathlib import Path

from tercet.errors import InputError


class MissingDataError(InputError):
    """A file of a data set is not there; says which."""


def found(home: Path, names: tuple[str, ...], any_of_them: bool = False) -> list[Path]:
    """The files that are there: all of them, or at least one."""
    paths = [home / name for name in names]
    there = [path for path in paths if path.exists()]
    if len(there) == len(paths) or (there and any_of_them):
        return there
    missing = [str(path) for path in paths if not path.exists()]
    joined = (" and " if any_of_them else ", ").join(missing)
    raise MissingDataError(f"looked for {joined}: not there")
