"""Bundles: a folder with `manifest.json` and one safetensors file of arrays.

The manifest seals everything: its own checksum, and name, size and SHA-256 of the arrays file. The arrays file is
named
after its content; a new file never overwrites the file in use. A saved bundle changes in a single moment, when the
new
manifest is renamed over the old one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from tercet.errors import (
    BundleError,
    DamagedBundleError,
    InputError,
    MissingBundleError,
    TercetError,
)
from tercet.store.arrays import (
    Verify,
    arrays_file,
    check_verify,
    open_regular_file,
    read_arrays,
    spec_of,
    storable_arrays,
)
from tercet.store.atomic import TEMPORARY_NAME, lock_folder, open_atomically, sync_folder, write_file_atomically
from tercet.store.canonical import MAX_MANIFEST_BYTES, check_storable
from tercet.store.manifest import ARRAYS_NAME, FORMAT, ArraysFile, Manifest, parse_manifest

MANIFEST_NAME: Final = "manifest.json"
# Ends of disk errors: the message states which bundle is on the disk. Synced bundles survive a power failure.
UNCHANGED: Final = "what was there before is unchanged"
UNCONFIRMED: Final = "the change is in place, but the disk has not confirmed it"

_READ_ATTEMPTS: Final = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Bundle:
    """Content of a bundle.

    Attributes
    ----------
    kind : kind of the bundle
    meta : plain JSON values; read them and the arrays with `decode`
    arrays : read-only, or mapped; `take_array` returns a checked array
    path : the folder
    digest : SHA-256 of the manifest, and thereby of everything

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tercet.store import read_bundle, write_bundle
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_bundle(f"{folder}/thing", kind="note", meta={"said": "hello"}, arrays={"x": np.arange(3)})
    ...     bundle = read_bundle(f"{folder}/thing")
    >>> bundle.kind, bundle.meta, bundle.arrays["x"].tolist()
    ('note', {'said': 'hello'}, [0, 1, 2])
    """

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    path: Path
    digest: str = ""


def write_bundle(
    path: str | os.PathLike[str],
    *,
    kind: str,
    meta: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
    siblings: Collection[str] = (),
) -> str:
    """Write a bundle, or replace the bundle at `path`, as a whole or not at all.

    A kill at any moment, or a failing disk, leaves the old bundle or the new bundle; the error says which. Other
    files in
    the folder are left alone. A bundle of another kind is not replaced: a model saved to the folder of an index would
    lose
    the index.

    Parameters
    ----------
    path : a folder, made with its parents if needed
    kind : kind of the bundle, checked by the reader
    meta : JSON values; tuples come back as lists, the order of keys is not kept
    arrays : of bool, integers of 8 to 64 bits and floats of 16 to 64 bits
    siblings : names of other files allowed in the folder before the first bundle is written

    Returns
    -------
    The digest, see `Bundle.digest`.

    Raises
    ------
    InputError
        When `kind`, `meta` or an array cannot be stored.
    BundleError
        When `path` is a file, a bundle of another kind or a folder with other things in it, or cannot be written.

    Notes
    -----
    Takes the time to hash and sync the arrays. Only noncontiguous arrays are copied.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_bundle(folder, kind="weights", meta={"n_terms": 3}, arrays={"diagonal": np.ones(3)})
    ...     bundle = read_bundle(folder, kind="weights")
    >>> bundle.meta, bundle.arrays["diagonal"]
    ({'n_terms': 3}, array([1., 1., 1.]))
    """
    folder = _checked_path(path)
    if not isinstance(kind, str) or not kind:
        raise InputError(f"kind is {kind!r}; expected a non-empty string")
    check_storable(kind, "kind")
    if not isinstance(meta, Mapping):
        raise InputError(f"meta is of type {type(meta).__name__}; expected a dict")
    meta = dict(meta)
    check_storable(meta, "meta", depth=2)
    storable = storable_arrays(arrays)
    check_storable(list(storable), "the names of the arrays")

    with _os_errors_as_bundle_errors(folder, "written", UNCHANGED):
        existing = _nearest_existing(folder)
        made = [path for path in (folder, *folder.parents) if existing in path.parents]
        try:
            os.makedirs(folder, exist_ok=True)
            for new in made:
                sync_folder(new.parent)
            with lock_folder(folder):
                _refuse_foreign_folder(folder, siblings, kind)
                return _replace_bundle(folder, kind, meta, storable)
        except BaseException:
            for new in made:
                # The folder stays if another process put a file into it.
                with contextlib.suppress(OSError):
                    os.rmdir(new)
            raise


def check_destination(path: str | os.PathLike[str], siblings: Collection[str] = (), kind: str | None = None) -> None:
    """Raise the `BundleError` of a later `write_bundle`, before long work; nothing is written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_destination(Path(folder) / "new" / "model")
    """
    folder = _checked_path(path)
    with _os_errors_as_bundle_errors(folder, "written"):
        existing = _nearest_existing(folder)
        if existing == folder:
            _refuse_foreign_folder(folder, siblings, kind)
        if not os.access(existing, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing))


def read_bundle(
    path: str | os.PathLike[str], *, kind: str | None = None, mapped: bool = False, verify: Verify = "open"
) -> Bundle:
    """Read a bundle and check every byte; nothing in a bundle is ever executed.

    Parameters
    ----------
    path : the folder
    kind : the expected kind, or None for any
    mapped : leave the arrays in their file and map them; memory is taken at use
    verify : of a mapped file: "open" checks every byte at once, "never" leaves damage unnoticed

    Raises
    ------
    MissingBundleError
        Without a bundle at the path.
    DamagedBundleError
        When bytes have changed.
    VersionError
        When a later version of Tercet wrote the bundle.
    BundleError
        When the bundle is of another kind, or cannot be read.

    Notes
    -----
    One pass over the files at the speed of SHA-256; memory for one copy of the arrays.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_bundle(f"{folder}/thing", kind="note", meta={"said": "hello"}, arrays={})
    ...     read_bundle(f"{folder}/thing", kind="note").meta
    {'said': 'hello'}
    """
    folder = _checked_path(path)
    check_verify(verify)
    with _os_errors_as_bundle_errors(folder, "read"):
        previous = b""
        for _ in range(_READ_ATTEMPTS):
            data = _read_manifest_bytes(folder)
            manifest = parse_manifest(data, folder / MANIFEST_NAME)
            if kind is not None and manifest.kind != kind:
                raise BundleError(f"{folder} holds a bundle of kind {manifest.kind!r}; expected {kind!r}")
            file, arrays_path = manifest.file, folder / manifest.file.name
            try:
                content = arrays_path, manifest.arrays, file.size, file.sha256
                arrays = read_arrays(*content, mapped=mapped, verify=verify)
            except FileNotFoundError as error:
                # A writer replaced the bundle after the manifest was read, or the file is lost.
                if data == previous:
                    raise DamagedBundleError(f"{arrays_path} is missing; its manifest names it") from error
                previous = data
            else:
                digest = hashlib.sha256(data).hexdigest()
                return Bundle(manifest.kind, manifest.meta, arrays, folder, digest)
    raise BundleError(f"{folder} was replaced {_READ_ATTEMPTS} times while it was being read")


def bundle_kind(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of the bundle in a folder, from its manifest alone, or None.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_bundle(folder, kind="weights", meta={}, arrays={})
    ...     bundle_kind(folder), bundle_kind(Path(folder) / "other")
    ('weights', None)
    """
    folder = _checked_path(path)
    try:
        return parse_manifest(_read_manifest_bytes(folder), folder / MANIFEST_NAME).kind
    except (TercetError, OSError):
        return None


def _checked_path(path: str | os.PathLike[str]) -> Path:
    text = os.fsdecode(path) if isinstance(path, (str, os.PathLike)) else ""
    if not text or "\0" in text:
        raise InputError(f"path is {path!r}; expected the path of a folder")
    return Path(text)


@contextlib.contextmanager
def _os_errors_as_bundle_errors(folder: Path, done: str, which: str = "") -> Iterator[None]:
    try:
        yield
    except TercetError:  # a MissingBundleError is an OSError too
        raise
    except OSError as error:
        raise BundleError(f"{folder} cannot be {done}: {error}{which and '; '}{which}") from error


# Writing


def _nearest_existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that is there."""
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path) or path.parent == path)
    if not existing.is_dir():
        raise BundleError(f"{existing} exists and is not a folder; nothing was written")
    return existing


def _refuse_foreign_folder(folder: Path, siblings: Collection[str], kind: str | None) -> None:
    names = set(os.listdir(folder)) - set(siblings)
    present = None
    if MANIFEST_NAME in names:
        with open_regular_file(folder / MANIFEST_NAME) as file:
            data = file.read(MAX_MANIFEST_BYTES)
        ours = f'"format": "{FORMAT}"'.encode() in data
        with contextlib.suppress(TercetError):  # a damaged bundle may be replaced
            present = parse_manifest(data, folder / MANIFEST_NAME).kind
    else:
        # Leftover files of a killed first save do not prevent the next save.
        ours = all(TEMPORARY_NAME.fullmatch(name) or ARRAYS_NAME.fullmatch(name) for name in names)
    if not ours:
        raise BundleError(f"{folder} exists and is not a Tercet bundle; nothing was written")
    if kind is not None and present is not None and present != kind:
        raise BundleError(f"{folder} holds a bundle of kind {present!r}; expected {kind!r}, so nothing was written")


def _replace_bundle(folder: Path, kind: str, meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> str:
    parts = arrays_file(arrays)
    file = ArraysFile.from_parts(parts)
    sealed = Manifest(kind, meta, {name: spec_of(array) for name, array in arrays.items()}, file).to_bytes()
    arrays_path = folder / file.name
    is_new_file = not os.path.lexists(arrays_path)
    try:
        with open_atomically(arrays_path) as arrays_out:
            arrays_out.writelines(parts)
        write_file_atomically(folder / MANIFEST_NAME, sealed)
    except BaseException as error:
        # The error may have come after the rename: read the manifest to find out.
        is_in_force = False
        with contextlib.suppress(OSError):
            is_in_force = _manifest_is(folder, sealed)
            if is_new_file and not is_in_force:
                os.unlink(arrays_path)
        if is_in_force and isinstance(error, OSError):
            raise BundleError(f"{folder} cannot be written: {error}; {UNCONFIRMED}") from error
        raise
    try:
        _remove_leftovers(folder, file.name)
    except OSError as error:  # the bundle itself is saved; the next save tries again
        _log.warning("%s may have files that are no longer needed: %s", folder, error)
    return hashlib.sha256(sealed).hexdigest()


def _manifest_is(folder: Path, sealed: bytes) -> bool:
    try:
        return (folder / MANIFEST_NAME).read_bytes() == sealed
    except FileNotFoundError:
        return False


def _remove_leftovers(folder: Path, current: str) -> None:
    for name in os.listdir(folder):
        if TEMPORARY_NAME.fullmatch(name) or (ARRAYS_NAME.fullmatch(name) and name != current):
            try:
                os.unlink(folder / name)
            except OSError as error:
                # The bundle itself is saved; the next save tries again.
                _log.warning("%s is no longer needed and cannot be removed: %s", folder / name, error)


# Reading


def _read_manifest_bytes(folder: Path) -> bytes:
    path = folder / MANIFEST_NAME
    try:
        with open_regular_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_MANIFEST_BYTES:
                raise DamagedBundleError(f"{path} has {size} bytes; at most {MAX_MANIFEST_BYTES} are allowed")
            return file.read(size)
    except FileNotFoundError as error:
        reason = f"has no {MANIFEST_NAME}" if folder.is_dir() else "does not exist"
        raise MissingBundleError(f"there is no Tercet bundle at {folder}: it {reason}") from error
    except NotADirectoryError as error:
        raise BundleError(f"{folder} is a file; a Tercet bundle is a folder") from error
