"""The manifest of a bundle: its content, its seal, its checks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from tercet.errors import DamagedBundleError, InputError, VersionError
from tercet.store.arrays import MAX_ARRAYS, ArraySpec
from tercet.store.canonical import MAX_MANIFEST_BYTES, canonical_bytes, parse_json
from tercet.store.codec import decode
from tercet.store.fields import described
from tercet.store.schema import Bounds

FORMAT: Final = "tercet"
FORMAT_VERSION: Final = 1

ARRAYS_NAME: Final = re.compile(r"arrays-[0-9a-f]{16}\.safetensors")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ArraysFile:
    """Size and checksum of the arrays file."""

    name: str
    size: Annotated[int, Bounds(0)]
    sha256: str

    @classmethod
    def from_parts(cls, parts: Sequence[memoryview]) -> ArraysFile:
        """Describe a file of these bytes."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        return cls(_arrays_name(digest.hexdigest()), sum(map(len, parts)), digest.hexdigest())


@dataclass(frozen=True)
class Manifest:
    """Kind, plain values, array specs and arrays file of a bundle."""

    kind: str
    meta: dict[str, Any]
    arrays: dict[str, ArraySpec]
    file: ArraysFile
    format: str = FORMAT
    version: int = 1
    checksum: str = ""

    def to_bytes(self) -> bytes:
        """Return the file; its checksum covers its canonical form without the checksum.

        Raises
        ------
        InputError
            When the manifest would be too large, or holds an integer of thousands of digits.
        """
        body = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "meta": self.meta,
            "arrays": {name: vars(spec) for name, spec in self.arrays.items()},
            "file": vars(self.file),
        }
        try:
            data = _sealed(body)
        except ValueError as error:
            raise InputError(f"meta cannot be stored: {error}") from error
        if len(data) > MAX_MANIFEST_BYTES:
            raise InputError(
                f"meta and the names of the arrays take {len(data)} bytes of JSON; "
                f"at most {MAX_MANIFEST_BYTES} are allowed, so put long lists into arrays"
            )
        return data


def parse_manifest(data: bytes, path: Path) -> Manifest:
    """Read a manifest and check every byte.

    Raises
    ------
    VersionError
        When a later version of Tercet wrote the manifest.
    DamagedBundleError
        When bytes have changed.
    """
    content = parse_json(data, str(path))
    if not isinstance(content, dict):
        raise DamagedBundleError(f"{path} is {described(content)}; expected a mapping")
    if content.get("format") != FORMAT:
        raise DamagedBundleError(f"{path} has the format {content.get('format')!r}; expected {FORMAT!r}")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise DamagedBundleError(f"{path} has the version {described(version)}; expected a number from 1 on")
    if version > FORMAT_VERSION:
        raise VersionError(f"{path} was written by format {version}; this Tercet reads up to {FORMAT_VERSION}")
    try:
        is_whole = _sealed({name: value for name, value in content.items() if name != "checksum"}) == data
    except ValueError as error:
        raise DamagedBundleError(f"{path} has a value that Tercet does not write: {error}") from error
    if not is_whole:
        raise DamagedBundleError(f"{path} was changed after it was written: its checksum or its spelling differs")
    manifest = decode(Manifest, content, where=str(path))
    if len(manifest.arrays) > MAX_ARRAYS:
        raise DamagedBundleError(f"{path} has {len(manifest.arrays)} arrays; at most {MAX_ARRAYS} are allowed")
    for name, spec in manifest.arrays.items():
        problem = spec.problem()
        if problem is not None:
            raise DamagedBundleError(f"{path}: array {name!r} {problem}")
    file = manifest.file
    # Only one form of name is allowed, so that a name cannot lead out of the folder.
    if not _SHA256.fullmatch(file.sha256) or file.name != _arrays_name(file.sha256):
        raise DamagedBundleError(f"{path} names the arrays file {file.name!r} with SHA-256 {file.sha256!r}")
    return manifest


def _arrays_name(sha256: str) -> str:
    """Name the arrays file after its content, to keep new files apart from the file in use."""
    return f"arrays-{sha256[:16]}.safetensors"


def _sealed(body: dict[str, Any]) -> bytes:
    """Return the canonical form of a manifest with the checksum of its canonical form without the checksum."""
    checksum = hashlib.sha256(canonical_bytes(body)).hexdigest()
    return canonical_bytes({**body, "checksum": checksum})
