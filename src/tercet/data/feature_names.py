"""Names of a LETOR set's features."""

from __future__ import annotations

from collections.abc import Sequence

from tercet._validate import first_repeated
from tercet.data.lines import FilePath, open_lines, surrogate_problem
from tercet.errors import FormatError, InputError


def read_feature_names(path: FilePath, n_features: int) -> tuple[str, ...]:
    """Read one name per line for each feature, in the order of the ids; blank lines are skipped.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "names.txt")
    ...     _ = file.write_text("length\\nBM25 of title\\n")
    ...     read_feature_names(file, 2)
    ('length', 'BM25 of title')
    """
    line_of: dict[str, int] = {}
    for line, text in open_lines(path):
        name = text.strip()
        if name in line_of:
            raise FormatError(path, line, f"name {name!r} again; line {line_of[name]} has it already")
        if name:
            line_of[name] = line
    if len(line_of) != n_features:
        raise FormatError(path, None, f"{len(line_of)} names for {n_features} features; give one name a line")
    return tuple(line_of)


def checked_feature_names(names: Sequence[str], n_features: int) -> tuple[str, ...]:
    """Return names as a tuple, one for each feature, all different."""
    if isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in names):
        raise InputError("feature_names must be strings, one for each feature, none of them blank")
    checked = tuple(str(name) for name in names)
    if len(checked) != n_features:
        raise InputError(f"there are {len(checked)} feature names and {n_features} features; each feature has one")
    for name in checked:
        problem = surrogate_problem(name)
        if problem is not None or "\n" in name:
            raise InputError(f"the feature name {name!r} {problem or 'holds a line break'}")
    if len(set(checked)) < n_features:
        raise InputError(
            f"the feature name {first_repeated(checked)!r} is there twice; each feature has a name of its own"
        )
    return checked
