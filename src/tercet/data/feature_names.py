"""Names of a LETOR set's features."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tercet._validate import first_repeated
from tercet.data.lines import FilePath, open_lines, parse_int, surrogate_problem
from tercet.errors import FormatError, InputError

_NUMBERED = re.compile(r"\s*(\d+)[ \t]+(\S.*)", re.ASCII)
_FORMS = "a line is: id name, or, in the order of the ids, only the name"


def read_feature_names(path: FilePath, n_features: int) -> tuple[str, ...]:
    """Read one name for each feature: ``id name`` lines in any order, or one name per line in the order of the ids.

    The first line decides which of the two it is. Blank lines are skipped; a name may hold blanks.

    Parameters
    ----------
    path : a text file, gzipped or not
    n_features : how many features there are; each needs a name of its own

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "names.txt")
    ...     _ = file.write_text("2 BM25 of title\\n1\\tlength\\n")
    ...     read_feature_names(file, 2)
    ('length', 'BM25 of title')
    """
    lines = [(line, text.strip()) for line, text in open_lines(path) if text.strip()]
    if not lines:
        raise FormatError(path, None, f"the file holds no names; {_FORMS}")
    numbered = _NUMBERED.fullmatch(lines[0][1]) is not None
    named: dict[int, tuple[str, int]] = {}
    line_of_name: dict[str, int] = {}
    for number, (line, text) in enumerate(lines, start=1):
        feature, name = _numbered(text, path, line) if numbered else (number, text)
        if not 1 <= feature <= n_features:
            raise FormatError(path, line, f"name {name!r} of feature {feature}; there are features 1 to {n_features}")
        if feature in named:
            raise FormatError(path, line, f"feature {feature} again; line {named[feature][1]} names it already")
        if name in line_of_name:
            raise FormatError(path, line, f"name {name!r} again; line {line_of_name[name]} has it already")
        named[feature], line_of_name[name] = (name, line), line
    if len(named) < n_features:
        missing = next(feature for feature in range(1, n_features + 1) if feature not in named)
        raise FormatError(
            path, None, f"{len(named)} names for {n_features} features; feature {missing} has none. {_FORMS}"
        )
    return tuple(named[feature][0] for feature in range(1, n_features + 1))


def checked_feature_names(names: Sequence[str], n_features: int) -> tuple[str, ...]:
    """Names as a tuple, one for each feature, all different."""
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


def _numbered(text: str, path: FilePath, line: int) -> tuple[int, str]:
    match = _NUMBERED.fullmatch(text)
    if match is None:
        raise FormatError(path, line, f"{text[:60]!r}; the first line has an id and a name, so every line needs both")
    return parse_int(match[1], path, line, "feature id"), match[2]
