"""Vectors of documents and queries, by id, from memory or a NumPy file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet.data import limits
from tercet.data.lines import FilePath, id_problem, open_lines
from tercet.errors import FormatError, InputError

IDS_ENDING: Final = ".ids"  # of the file beside an .npy file that has an id a line
_EXPECTED: Final = "a matrix of real numbers, a row for each id"


@dataclass(frozen=True, eq=False)
class OwnVectors:
    """A vector for each of some ids.

    Attributes
    ----------
    ids : each once
    matrix : float32 (n_ids, n_dims), finite

    Examples
    --------
    >>> vectors = as_own_vectors({"a": [1, 0], "b": [0, 2]})
    >>> vectors.take(["b"]).tolist(), vectors.n_dims
    ([[0.0, 2.0]], 2)
    """

    ids: tuple[str, ...]
    matrix: NDArray[np.float32]
    _row_of: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ids, matrix = tuple(self.ids), np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or not matrix.shape[1]:
            raise InputError(f"found an array of {matrix.dtype} and shape {matrix.shape}; expected {_EXPECTED}")
        if len(ids) != len(matrix):
            raise InputError(f"there are {len(ids):,} ids for {len(matrix):,} vectors; they must agree")
        row_of: dict[str, int] = {}
        for row, one in enumerate(ids):
            if (problem := id_problem(one)) is not None:
                raise InputError(f"the id of vector {row} {problem}")
            if row_of.setdefault(one, row) != row:
                raise InputError(f"the id {one!r} has two vectors, {row_of[one]} and {row}; expected one")
        with np.errstate(over="ignore"):
            single = np.array(matrix, dtype=np.float32)
        finite = np.isfinite(single).all(axis=1)
        if not finite.all():
            raise InputError(
                f"the vector of {ids[int(np.argmin(finite))]!r} has numbers that are not finite in float32"
            )
        single.flags.writeable = False
        for name, value in (("ids", ids), ("matrix", single), ("_row_of", row_of)):
            object.__setattr__(self, name, value)

    @property
    def n_dims(self) -> int:
        """Length of a vector."""
        return int(self.matrix.shape[1])

    def take(self, ids: Iterable[str], what: str = "document") -> NDArray[np.float32]:
        """Return the vectors of ids, in their order; `what` names an id without a vector in the error."""
        rows = []
        for one in ids:
            if one not in self._row_of:
                raise InputError(
                    f"{what} {one!r} has no vector among the {len(self.ids):,} that were given; each needs one"
                )
            rows.append(self._row_of[one])
        return self.matrix[np.array(rows, dtype=np.int64)]


def as_own_vectors(vectors: Any, what: str = "vectors") -> OwnVectors:
    """Return `OwnVectors` of a mapping, a pair or a file.

    Parameters
    ----------
    vectors : id -> vector, a pair (ids, matrix), the path of a file as in `read_own_vectors`, or `OwnVectors`
    what : name in errors

    Examples
    --------
    >>> own = as_own_vectors({"a": [1.0, 0.0], "b": [0.5, 0.5]})
    >>> own.ids, own.matrix.shape
    (('a', 'b'), (2, 2))
    """
    if isinstance(vectors, OwnVectors):
        return vectors
    if isinstance(vectors, str | Path):
        return read_own_vectors(vectors)
    try:
        if isinstance(vectors, Mapping):
            if not vectors:
                raise InputError("there are none")
            return OwnVectors(tuple(vectors), _stacked(vectors))
        if isinstance(vectors, tuple) and len(vectors) == 2:
            ids, matrix = vectors
            if isinstance(ids, str) or not isinstance(ids, Sequence | np.ndarray):
                raise InputError(f"the first of a pair are ids; got {type(ids).__name__}")
            return OwnVectors(tuple(np.asarray(ids).tolist()), np.asarray(matrix))
    except ValueError as error:  # that of NumPy, too, for rows of several lengths
        raise InputError(f"{what}: {error}") from error
    raise InputError(f"{what} must be id -> vector, or a pair of ids and a matrix; got {type(vectors).__name__}")


def read_own_vectors(path: FilePath) -> OwnVectors:
    r"""Read vectors by id: ``.npz`` with the arrays ``ids`` and ``vectors``, or ``.npy`` with the ids in a second file.

    The ids of ``d.npy`` are in ``d.ids``, one a line, in the order of the rows. Arrays of Python objects are refused:
    nothing in a file is executed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "d.npy")
    ...     np.save(file, np.eye(2))
    ...     _ = file.with_suffix(".ids").write_text("a\nb\n")
    ...     read_own_vectors(file).take(["b"]).tolist()
    [[0.0, 1.0]]
    """
    path = Path(path)
    arrays = _loaded(path)
    if isinstance(arrays, np.ndarray):
        siblings = path.with_suffix(IDS_ENDING)
        if not siblings.is_file():
            raise FormatError(
                path,
                None,
                f"the ids of its rows are not there; expected {siblings}, an id a line in the order of the rows",
            )
        ids, matrix = tuple(line.strip() for _, line in open_lines(siblings)), arrays
    else:
        if set(arrays) != {"ids", "vectors"}:
            raise FormatError(
                path, None, f"holds {', '.join(arrays) or 'nothing'}; expected the arrays ids and vectors"
            )
        if arrays["ids"].dtype.kind != "U" or arrays["ids"].ndim != 1:
            found = f"{arrays['ids'].dtype} of shape {arrays['ids'].shape}"
            raise FormatError(path, None, f"its ids are {found}; expected a list of strings")
        ids, matrix = tuple(arrays["ids"].tolist()), arrays["vectors"]
    try:
        return OwnVectors(ids, matrix)
    except InputError as error:
        raise FormatError(path, None, str(error)) from error


def read_vector(path: FilePath) -> NDArray[np.float32]:
    """Read the only row of an .npy file."""
    array = _loaded(Path(path))
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.size != max(array.shape, default=0):
        shape = array.shape if isinstance(array, np.ndarray) else "several arrays"
        raise FormatError(path, None, f"found {shape}; expected one row of numbers in an .npy file")
    return array.astype(np.float32).ravel()


def _loaded(path: Path) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """Load the array of an .npy file, or the arrays of an .npz file by name, without Python objects."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                n_unpacked = sum(member.file_size for member in packed.infolist())
            limits.check_unpacked(path, n_unpacked, path.stat().st_size, "zip")
            with np.load(path) as arrays:
                return {name: arrays[name] for name in arrays.files}
        # Mapped, so that a header which claims more than there is gets noticed.
        return np.array(np.lib.format.open_memmap(path, mode="r"))
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file", "missing") from None
    except (
        ValueError,
        EOFError,
        OSError,
        KeyError,
        MemoryError,
        OverflowError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(path, None, f"is no NumPy file of numbers and strings (.npy or .npz): {error}") from error


def _stacked(vectors: Mapping[Any, Any]) -> NDArray[Any]:
    rows = []
    first = None
    for one, vector in vectors.items():
        row = np.asarray(vector)
        if row.ndim != 1 or row.dtype.kind not in "fiu":
            raise InputError(f"that of {one!r} is no list of numbers")
        first = row.size if first is None else first
        if row.size != first:
            raise InputError(f"that of {one!r} has {row.size} numbers, those before it have {first}")
        rows.append(row)
    return np.stack(rows)
