"""Saved models and indexes to a folder or an object store, and back.

::

    ADDRESS/pushed.json      what it is, and path, size and SHA-256 of each of its files; put there last
    ADDRESS/files/0123…      the files, named after their SHA-256

A name says what is in a file. So a push uploads what is not there yet, writes over nothing, and has the list change at
one moment: whoever pulls meanwhile gets the push before or this one, and what an interrupted one left is taken by the
next. On object stores a file appears as a whole; elsewhere it is written under another name and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote

from tercet.errors import (
    BundleError,
    DamagedBundleError,
    InputError,
    MissingBundleError,
    MissingExtraError,
    TercetError,
    TransferError,
)
from tercet.loading import load
from tercet.search.folder import FOLDERS, Folder
from tercet.store import MANIFEST_NAME, bundle_kind, check_destination, open_atomically, read_bundle, write_bundle
from tercet.store.atomic import TEMPORARY_NAME, exchange_folders, sync_folder
from tercet.store.canonical import MAX_MANIFEST_BYTES
from tercet.store.codec import decode, encode
from tercet.store.kinds import FEATURE_MODEL, INDEX, RANKER, TEXT_MODEL
from tercet.store.manifest import ARRAYS_NAME, parse_manifest, sealed, unsealed
from tercet.store.schema import Bounds

LIST_NAME: Final = "pushed.json"
FILES: Final = "files"
CARRIED_KINDS: Final = (TEXT_MODEL, FEATURE_MODEL, RANKER, INDEX)

_FORMAT: Final = "tercet-push"
_FORMAT_VERSION: Final = 1
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# Of one form only, so that a path cannot lead out of a folder.
_PATH: Final = re.compile(rf"(?:(?:{'|'.join(FOLDERS)})/[A-Za-z0-9-]+/)?(?:manifest\.json|{ARRAYS_NAME.pattern})")
_OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "memory"})
_LOCAL: Final = frozenset({"file", "local"})
_CHUNK_BYTES: Final = 1 << 20
_ATTEMPTS: Final = 20


@dataclass(frozen=True)
class PushedFile:
    """A file of what was pushed."""

    size: Annotated[int, Bounds(0)]
    sha256: str

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise InputError(f"sha256 is {self.sha256!r}; expected 64 hexadecimal digits")


@dataclass(frozen=True)
class Pushed:
    """What is at an address.

    Attributes
    ----------
    kind : "text-model", "feature-model", "ranker" or "index"
    files : by their paths in the folder
    """

    kind: str
    files: dict[str, PushedFile]

    def __post_init__(self) -> None:
        if self.kind not in CARRIED_KINDS:
            raise InputError(f"kind is {self.kind!r}; expected one of {', '.join(CARRIED_KINDS)}")
        for path in self.files:
            if not _PATH.fullmatch(path):
                raise InputError(f"files names {path!r}, which is no file that Tercet writes")
        if MANIFEST_NAME not in self.files:
            raise InputError(f"files lacks {MANIFEST_NAME}")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    def to_bytes(self) -> bytes:
        return sealed({"format": _FORMAT, "version": _FORMAT_VERSION, **encode(self)[0]})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Pushed:
        content = unsealed(data, where, _FORMAT, _FORMAT_VERSION)
        body = {name: value for name, value in content.items() if name not in ("format", "version", "checksum")}
        return decode(cls, body, where=where)


# -- push, pull, prune --------------------------------------------------------------------------------


def push(folder: str | os.PathLike[str], address: str, *, anew: bool = False) -> tuple[Pushed, int]:
    """Put a saved model or index to an address, from where `pull` takes it.

    The index may be served and changed meanwhile: what is pushed is what was committed at one moment.

    Parameters
    ----------
    folder : of a model, a ranker or an index
    address : a folder, or one of any store that fsspec has a driver for: ``s3://bucket/models/shop``
    anew : upload files that are there already, too, as after they were damaged

    Returns
    -------
    What was pushed, and the number of bytes that had to be sent.

    Raises
    ------
    BundleError
        When there is nothing to push in the folder, or it is damaged.
    InputError
        When the address is none.
    TransferError
        When the place cannot be written; what was pushed there before is as it was.

    Examples
    --------
    See `pull`.
    """
    source, place = Path(folder), Depot(address)
    kind = bundle_kind(source)
    if kind is not None and kind not in CARRIED_KINDS:
        raise InputError(f"{source} holds a {kind!r}, which cannot be pushed; expected a model, a ranker or an index")
    load(source)  # checks every byte
    for _ in range(_ATTEMPTS):
        local = _files_of(source, str(kind))
        pushed = Pushed(str(kind), {path: file for path, (file, _) in local.items()})
        there = {} if anew else place.sizes()
        sent = 0
        for file, content in local.values():
            if there.get(file.sha256) != file.size:
                if isinstance(content, Path) and not _is_whole(content, file):
                    break  # a writer of the index took it away
                place.put(f"{FILES}/{file.sha256}", content)
                there[file.sha256] = file.size
                sent += file.size
        else:
            place.put(LIST_NAME, pushed.to_bytes())
            return pushed, sent
    raise BundleError(f"{source} was changed {_ATTEMPTS} times while it was being pushed")


def pushed_at(address: str) -> Pushed:
    """What was pushed to an address.

    Raises
    ------
    MissingBundleError
        When nothing was, or not to the end.
    DamagedBundleError
        When the list of files is damaged.
    """
    return Depot(address).pushed()


def pull(address: str, folder: str | os.PathLike[str]) -> Pushed:
    """Take what was pushed to an address, check every byte of it and put it to a folder, as a whole or not at all.

    A model or an index that is there is replaced by one of the same kind; a service that has it takes the new one up.

    Raises
    ------
    MissingBundleError
        When nothing was pushed there, or not to the end.
    DamagedBundleError
        When a file is not the one that was pushed.
    BundleError
        When something else is at the folder.
    TransferError
        When the place cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import tercet as tc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = tc.TextModel.bm25(["green tea", "black tea"])
    ...     model.save(f"{folder}/model")
    ...     pushed, sent = push(f"{folder}/model", "memory://models/tea")
    ...     pulled = pull("memory://models/tea", f"{folder}/copy")
    ...     print(pulled == pushed, tc.load(f"{folder}/copy").weights)
    True Weights(3 × 3: 1·Identity)
    """
    place, output = Depot(address), Path(folder)
    pushed = place.pushed()
    check_destination(output, beside=FOLDERS if pushed.kind == INDEX else (), kind=pushed.kind)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        new = output.parent / f".tercet-{secrets.token_hex(8)}.tmp"
        new.mkdir()
    except OSError as error:
        raise BundleError(f"{output} cannot be written: {error}") from error
    try:
        for _ in range(_ATTEMPTS):
            if _fetch(place, pushed, new):
                break
            latest = place.pushed()
            if latest == pushed:
                raise MissingBundleError(f"{place} lacks files that its {LIST_NAME} names; push again")
            pushed = latest
        load(new)  # whether all of it fits together, and this version can read it
        _put_in_place(new, output, pushed.kind)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return pushed


def prune(address: str) -> int:
    """Remove the files at an address that what is pushed there does not need; returns the number of bytes.

    Not while somebody pushes to it: files that are not in a list yet would go.
    """
    place = Depot(address)
    needed = {file.sha256 for file in place.pushed().files.values()}
    unneeded = {name: size for name, size in place.sizes().items() if name not in needed}
    for name in unneeded:
        place.remove(f"{FILES}/{name}")
    return sum(unneeded.values())


# -- folders ----------------------------------------------------------------------------------------------------------


def _files_of(folder: Path, kind: str) -> dict[str, tuple[PushedFile, bytes | Path]]:
    """The files that count, by their paths, with their contents or where these are."""
    if kind != INDEX:
        return dict(_bundle_files(folder, folder))
    index = Folder(folder)
    return index.consistently(
        lambda committed: {
            path: file for bundle in index.bundles(committed) for path, file in _bundle_files(bundle, folder)
        }
    )


def _bundle_files(bundle: Path, folder: Path) -> Iterator[tuple[str, tuple[PushedFile, bytes | Path]]]:
    try:
        data = (bundle / MANIFEST_NAME).read_bytes()
    except OSError as error:
        raise BundleError(f"{bundle} cannot be read: {error}") from error
    manifest = parse_manifest(data, bundle / MANIFEST_NAME)
    arrays = bundle / manifest.file_name
    yield arrays.relative_to(folder).as_posix(), (PushedFile(manifest.size, manifest.sha256), arrays)
    own = PushedFile(len(data), hashlib.sha256(data).hexdigest())
    yield (bundle / MANIFEST_NAME).relative_to(folder).as_posix(), (own, data)


def _fetch(place: Depot, pushed: Pushed, folder: Path) -> bool:
    """Have the files of a push in a folder, and nothing else there; False where one of them is not there."""
    wanted = {folder / path for path in pushed.files}
    for left in [left for left in folder.rglob("*") if left.is_file() and left not in wanted]:  # of an earlier attempt
        left.unlink()
    for path, file in pushed.files.items():
        chunks = place.get(file, path)
        if chunks is None:
            return False
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with open_atomically(folder / path) as written:
                for chunk in chunks:
                    written.write(chunk)
        except TercetError:
            raise
        except OSError as error:
            raise BundleError(f"{folder} cannot be written: {error}") from error
    return True


def _put_in_place(new: Path, output: Path, kind: str) -> None:
    if kind != INDEX:
        bundle = read_bundle(new, kind=kind)
        by_block = parse_manifest((new / MANIFEST_NAME).read_bytes(), new / MANIFEST_NAME).blocks is not None
        write_bundle(output, kind=kind, meta=bundle.meta, arrays=bundle.arrays, by_block=by_block)
        return
    for name in FOLDERS:
        (new / name).mkdir(exist_ok=True)
    index = Folder(output)
    try:
        if index.committed_or_none() is None:
            index.remove_empty()
            os.rename(new, output)
            sync_folder(output.parent)
            return
    except DamagedBundleError:
        pass  # what is damaged may be replaced
    except OSError as error:
        raise BundleError(f"{output} cannot be written: {error}") from error
    foreign = [name for name in os.listdir(output) if not _is_of_index(name)]
    if foreign:
        raise BundleError(f"{output} has {foreign[0]!r}, which is no part of an index; nothing was written")
    with index.writing():
        try:
            exchange_folders(output, new)
            sync_folder(output.parent)
        except OSError as error:
            raise BundleError(f"{output} cannot be written: {error}") from error


def _is_of_index(name: str) -> bool:
    ours = ARRAYS_NAME.fullmatch(name) or TEMPORARY_NAME.fullmatch(name)
    return name == MANIFEST_NAME or name in FOLDERS or ours is not None


# -- places -----------------------------------------------------------------------------------------------------------


class Depot:
    """A folder anywhere, as fsspec reaches it. What its drivers raise becomes a `TransferError` without secrets.

    Parameters
    ----------
    address : as in ``s3://bucket/models/shop`` or ``/mnt/models/shop``. Keys come from where the driver looks for them,
        such as the environment; those that are in the address are never shown.
    """

    def __init__(self, address: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError as error:
            raise MissingExtraError("fsspec", "push", "tercet push and tercet pull") from error
        if not isinstance(address, str) or not address.strip() or "\0" in address:
            raise InputError("an address is a folder, or one of a store, such as s3://bucket/models/shop")
        user = re.search(r"://([^/]*)@", address)
        known = [] if user is None else [user[1], *user[1].split(":", 1)]
        self._secrets = {secret for text in known for secret in (text, unquote(text)) if secret}
        self._shown = re.sub(r"://[^/]*@", "://", re.split("[?#]", address)[0] if "://" in address else address)
        if "://" in address and re.search("[?#]", address):
            raise InputError(f"{self} is an address with a query or a fragment; expected one without")
        try:
            self._files, path = url_to_fs(re.sub("(?<=[^:/])/+$", "", address))
        except ImportError as error:
            raise InputError(f"{self} needs a package that is not here: {self._said(error)}") from error
        except Exception as error:  # whatever a driver makes of it
            raise InputError(f"{self} is no address that can be reached: {self._said(error)}") from self._cause(error)
        self._path = str(path).rstrip("/")
        protocol = self._files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._is_local, self._is_object_store = bool(protocols & _LOCAL), bool(protocols & _OBJECT_STORES)
        if not self._path and not self._is_local:
            raise InputError(f"{self} names no folder in the store; expected one like s3://bucket/models/shop")

    def __str__(self) -> str:
        return self._shown

    def pushed(self) -> Pushed:
        """The list of what is there."""
        data = self._read(LIST_NAME)
        if data is None:
            reason = (
                f"it has files and no {LIST_NAME}, so a push did not come to its end"
                if self.sizes()
                else (f"it has no {LIST_NAME}")
            )
            raise MissingBundleError(f"nothing is pushed at {self}: {reason}")
        return Pushed.from_bytes(data, f"{self}/{LIST_NAME}")

    def sizes(self) -> dict[str, int]:
        """The files that are there, by their SHA-256, with their sizes."""
        with self._telling("read"):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._at(FILES), detail=True)
            except FileNotFoundError:
                return {}
        names = {str(entry["name"]).rpartition("/")[2]: int(entry["size"] or 0) for entry in found}
        return {name: size for name, size in names.items() if _SHA256.fullmatch(name)}

    def put(self, name: str, content: bytes | Path) -> None:
        """Write a file as a whole or not at all."""
        with self._telling("written"):
            if self._is_object_store:
                self._upload(content, self._at(name))
                return
            parent = self._at(name).rpartition("/")[0]
            self._files.makedirs(parent, exist_ok=True)
            if self._is_local:
                with (
                    open_atomically(self._at(name)) as file,
                    io.BytesIO(content) if isinstance(content, bytes) else open(content, "rb") as source,
                ):
                    shutil.copyfileobj(source, file, _CHUNK_BYTES)
                return
            temporary = f"{parent}/.tercet-{secrets.token_hex(8)}.tmp"
            try:
                self._upload(content, temporary)
                self._files.mv(temporary, self._at(name))
            except BaseException:
                with contextlib.suppress(Exception):  # the first error is the one to tell
                    self._files.rm_file(temporary)
                raise

    def get(self, file: PushedFile, path: str) -> Iterator[bytes] | None:
        """The bytes of a file, which are checked when all are there; None where the file is not there."""
        with self._telling("read"):
            try:
                source = self._files.open(self._at(f"{FILES}/{file.sha256}"), "rb")
            except FileNotFoundError:
                return None
        return self._checked(source, file, path)

    def _checked(self, source: Any, file: PushedFile, path: str) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        with source:
            while size <= file.size:
                with self._telling("read"):
                    chunk = bytes(source.read(_CHUNK_BYTES))
                if not chunk:
                    break
                digest.update(chunk)
                size += len(chunk)
                yield chunk
        if size != file.size or digest.hexdigest() != file.sha256:
            raise DamagedBundleError(
                f"{self}/{FILES}/{file.sha256}, which is {path}, is not the file that was pushed: its size or SHA-256 "
                "differs. Push all of it anew"
            )

    def remove(self, name: str) -> None:
        with self._telling("written"):
            self._files.rm_file(self._at(name))

    def _upload(self, content: bytes | Path, path: str) -> None:
        if isinstance(content, bytes):
            self._files.pipe_file(path, content)
        else:
            self._files.put_file(str(content), path)

    def _read(self, name: str) -> bytes | None:
        with self._telling("read"):
            self._files.invalidate_cache()
            try:
                with self._files.open(self._at(name), "rb") as file:
                    data = bytes(file.read(MAX_MANIFEST_BYTES + 1))
            except FileNotFoundError:
                return None
        if len(data) > MAX_MANIFEST_BYTES:
            raise DamagedBundleError(f"{self}/{name} has more than {MAX_MANIFEST_BYTES} bytes, which are allowed")
        return data

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    @contextlib.contextmanager
    def _telling(self, done: str) -> Iterator[None]:
        try:
            yield
        except TercetError:
            raise
        except Exception as error:  # drivers raise errors of the libraries they are made of
            raise TransferError(f"{self} cannot be {done}: {self._said(error)}") from self._cause(error)

    def _said(self, error: BaseException) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "…")
        return " ".join(text.split())[:500]

    def _cause(self, error: BaseException) -> BaseException | None:
        return None if self._secrets else error  # a trace would show them


def _is_whole(path: Path, file: PushedFile) -> bool:
    """Whether a file is there; one that is there and is another is damaged."""
    try:
        with open(path, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error}") from error
    if digest != file.sha256:
        raise DamagedBundleError(f"{path} was changed after it was written: its SHA-256 differs")
    return True
