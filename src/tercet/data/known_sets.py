"""Data sets that guides, benchmarks and reproductions name: licence, size, checksums, and whether a copy is right."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import tomllib
import zlib
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Final, Literal

from tercet.errors import InputError

State = Literal["right", "missing", "different"]
_AT_ONCE: Final = 2**20


@dataclass(frozen=True)
class KnownFile:
    """A file of a data set, or all files of an archive.

    Attributes
    ----------
    path : below the folder of all data sets; a file may be packed, with .gz behind its name
    sha256 : of a file, unpacked; of an archive, of the lines ``sha256  name`` of its files in the order of their names,
        so that it is the same however it was packed, and for the extracted files
    size : in bytes, unpacked
    roots : of an archive, what it extracts to beside itself
    """

    path: str
    sha256: str
    size: int
    roots: tuple[str, ...] = ()

    @property
    def is_archive(self) -> bool:
        return self.path.endswith(".tar.gz")


@dataclass(frozen=True)
class KnownSet:
    """A data set by the name of its folder.

    Attributes
    ----------
    name : of the folder, or of the one file
    about : what it is, in a line
    licence : as its publisher states it
    address : where it is described or to be had
    prepared : how the files differ from those at the address; empty where they are the same
    files : those that are checked; none where no copy was at hand
    """

    name: str
    about: str
    licence: str
    address: str
    prepared: str
    files: tuple[KnownFile, ...]

    @property
    def size(self) -> int:
        """In bytes, unpacked."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Verified:
    """What a folder has of one file."""

    set_name: str
    path: str
    state: State
    about: str = ""

    def __str__(self) -> str:
        return f"{self.set_name}: {self.path} {self.state}{self.about and f', {self.about}'}"


@cache
def known_sets() -> dict[str, KnownSet]:
    """All data sets by name.

    Examples
    --------
    >>> known_sets()["mnist"].licence
    'CC BY-SA 3.0'
    """
    listed = tomllib.loads((files("tercet.data") / "known_sets.toml").read_text(encoding="utf-8"))
    return {
        name: KnownSet(
            name,
            one["about"],
            one["licence"],
            one["address"],
            one.get("prepared", ""),
            tuple(
                KnownFile(path, file["sha256"], file["size"], tuple(file.get("roots", ())))
                for path, file in one.get("files", {}).items()
            ),
        )
        for name, one in listed.items()
    }


def verify_sets(folder: Path, names: Iterable[str] = ()) -> list[Verified]:
    """What a folder of data sets has of each file that is known, by its checksum.

    Parameters
    ----------
    folder : holds data sets by the names of `known_sets`
    names : those to look for; all without any
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; data sets are looked for in one, by name")
    known = known_sets()
    for name in names:
        if name not in known:
            raise InputError(f"there is no data set {name!r}; known are {', '.join(known)}")
    return [_verified(folder, known[name], file) for name in (list(names) or known) for file in known[name].files]


def _verified(folder: Path, known: KnownSet, file: KnownFile) -> Verified:
    try:
        found = _tree_digest(folder / file.path, file.roots) if file.is_archive else _file_digest(folder / file.path)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        return Verified(known.name, file.path, "different", f"it cannot be read: {error}")
    if found is None:
        return Verified(known.name, file.path, "missing")
    sha256, size = found
    if sha256 == file.sha256:
        return Verified(known.name, file.path, "right")
    about = f"{size:,} bytes instead of {file.size:,}" if size != file.size else f"sha256 {sha256[:12]}…"
    return Verified(known.name, file.path, "different", about)


def _file_digest(path: Path) -> tuple[str, int] | None:
    """Of a file, plain or packed; None where there is neither."""
    if path.is_file():
        with open(path, "rb") as file:
            return _digest(file)
    packed = path.with_name(f"{path.name}.gz")
    if packed.is_file():
        with gzip.open(packed) as unpacked:
            return _digest(unpacked)
    return None


def _tree_digest(archive: Path, roots: Iterable[str]) -> tuple[str, int] | None:
    """Of all files of an archive, or of those that were extracted beside it; None where there is neither."""
    listed = _packed_files(archive) if archive.is_file() else _extracted_files(archive.parent, roots)
    digests: dict[str, tuple[str, int]] = {}
    with closing(listed):
        for name, file in listed:
            digests[name] = _digest(file)
    if not digests:
        return None
    whole = "".join(f"{digests[name][0]}  {name}\n" for name in sorted(digests))
    return hashlib.sha256(whole.encode()).hexdigest(), sum(size for _, size in digests.values())


def _packed_files(archive: Path) -> Generator[tuple[str, IO[bytes]], None, None]:
    with tarfile.open(archive, "r|gz") as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name.removeprefix("./"), file


def _extracted_files(folder: Path, roots: Iterable[str]) -> Generator[tuple[str, IO[bytes]], None, None]:
    for root in roots:
        for path in [folder / root] if (folder / root).is_file() else sorted((folder / root).rglob("*")):
            if path.is_file():
                with open(path, "rb") as file:
                    yield path.relative_to(folder).as_posix(), file


def _digest(file: IO[bytes] | gzip.GzipFile) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while block := file.read(_AT_ONCE):
        digest.update(block)
        size += len(block)
    return digest.hexdigest(), size
