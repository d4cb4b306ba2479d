"""The manifest of a bundle: what it says, how it is sealed, how it is checked."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from tercet.errors import DamagedBundleError, InputError, VersionError
from tercet.store.arrays import MAX_ARRAYS, ArraySpec
from tercet.store.block_sums import BlockSums
from tercet.store.canonical import MAX_MANIFEST_BYTES, canonical_bytes, parse_json
from tercet.store.codec import decode
from tercet.store.fields import described
from tercet.store.schema import OMIT_DEFAULT, Bounds

FORMAT: Final = "tercet"
FORMAT_VERSION: Final = 2  # of what has checksums by block; all else is written as version 1

ARRAYS_NAME: Final = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """What a manifest says: the kind, the plain values, the arrays, and size and hashes of their file."""

    kind: str
    meta: dict[str, Any]
    specs: dict[str, ArraySpec]
    size: int
    sha256: str
    blocks: BlockSums | None = None

    @property
    def file_name(self) -> str:
        """Name the arrays file after its content, so that a new one never overwrites the one in use."""
        return f"arrays-{self.sha256[:16]}.safetensors"

    def to_bytes(self) -> bytes:
        """Return the file; its checksum is that of its canonical form without the checksum.

        Raises
        ------
        InputError
            When it would be larger than a manifest may be, or holds an integer of thousands of digits.
        """
        file: dict[str, Any] = {"name": self.file_name, "size": self.size, "sha256": self.sha256}
        if self.blocks is not None:
            file["blocks"] = {"size": self.blocks.size, "crc32": self.blocks.crc32}
        body = {
            "format": FORMAT,
            "version": 1 if self.blocks is None else 2,
            "kind": self.kind,
            "meta": self.meta,
            "arrays": {name: {"dtype": spec.dtype, "shape": spec.shape} for name, spec in self.specs.items()},
            "file": file,
        }
        try:
            data = sealed(body)
        except ValueError as error:
            raise InputError(f"meta cannot be stored: {error}") from error
        if len(data) > MAX_MANIFEST_BYTES:
            raise InputError(
                f"meta and the names of the arrays take {len(data)} bytes of JSON; "
                f"at most {MAX_MANIFEST_BYTES} are allowed, so put long lists into arrays"
            )
        return data


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """Read a manifest and check every byte of it.

    Raises
    ------
    VersionError
        When a later version of Tercet wrote it; what else it says is then not looked at.
    DamagedBundleError
        When the bytes are not those that were written.
    """
    stored = decode(_StoredManifest, unsealed(data, str(path)), where=str(path))
    if len(stored.arrays) > MAX_ARRAYS:
        raise DamagedBundleError(f"{path} has {len(stored.arrays)} arrays; at most {MAX_ARRAYS} are allowed")
    for name, spec in stored.arrays.items():
        problem = spec.problem()
        if problem is not None:
            raise DamagedBundleError(f"{path}: array {name!r} {problem}")
    # The name is of one form only, so that it cannot lead out of the folder.
    file = stored.file
    manifest = Manifest(stored.kind, stored.meta, stored.arrays, file.size, file.sha256, file.blocks)
    if not _SHA256.fullmatch(file.sha256) or file.name != manifest.file_name:
        raise DamagedBundleError(f"{path} names the arrays file {file.name!r} with SHA-256 {file.sha256!r}")
    if (stored.version == 1) != (file.blocks is None):
        raise DamagedBundleError(f"{path} is of version {stored.version}, which fits its checksums by block ill")
    return manifest


@dataclass(frozen=True)
class _ArraysFile:
    name: str
    size: Annotated[int, Bounds(0)]
    sha256: str
    blocks: Annotated[BlockSums | None, OMIT_DEFAULT] = None


@dataclass(frozen=True)
class _StoredManifest:
    """The file as it is written."""

    format: str
    version: int
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, ArraySpec]
    file: _ArraysFile
    checksum: str


# -- files that say themselves whether they are whole --------------------------------------------------------------


def sealed(body: dict[str, Any]) -> bytes:
    """A JSON file with the checksum of its canonical form without the checksum.

    Raises
    ------
    ValueError
        When a value has no JSON spelling.
    """
    checksum = hashlib.sha256(canonical_bytes(body)).hexdigest()
    return canonical_bytes({**body, "checksum": checksum})


def unsealed(data: bytes, where: str) -> dict[str, Any]:
    """What `sealed` made a file of, with its checksum, after every byte of it was checked.

    Raises
    ------
    VersionError
        When its version is above `FORMAT_VERSION`; what else it says is then not looked at.
    DamagedBundleError
        When the bytes are not those that were written.
    """
    content = parse_json(data, where)
    if not isinstance(content, dict):
        raise DamagedBundleError(f"{where} is {described(content)}; expected a mapping")
    if content.get("format") != FORMAT:
        raise DamagedBundleError(f"{where} has the format {content.get('format')!r}; expected {FORMAT!r}")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise DamagedBundleError(f"{where} has the version {described(version)}; expected a number from 1 on")
    if version > FORMAT_VERSION:
        raise VersionError(f"{where} was written by format {version}; this Tercet reads up to {FORMAT_VERSION}")
    body = {name: value for name, value in content.items() if name != "checksum"}
    try:
        canonical = canonical_bytes(content) == data
        own_checksum = hashlib.sha256(canonical_bytes(body)).hexdigest()
    except ValueError as error:
        raise DamagedBundleError(f"{where} has a value that Tercet does not write: {error}") from error
    if own_checksum != content.get("checksum"):
        raise DamagedBundleError(f"{where} was changed after it was written: its checksum differs")
    if not canonical:
        raise DamagedBundleError(f"{where} was changed after it was written: its spelling differs")
    return content
