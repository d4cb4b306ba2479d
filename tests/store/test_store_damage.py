"""Bundles that were changed, by accident or on purpose, are refused."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.bundles import OLD, arrays_file, canonical, forge_arrays_file, is_same, json_values, reseal, with_header
from tercet.errors import (
    BundleError,
    DamagedBundleError,
)
from tercet.store import (
    read_bundle,
    write_bundle,
)
from tercet.store.canonical import MAX_MANIFEST_BYTES

pytestmark = pytest.mark.slow  # make test has it, make check has not

# Damage


def damaged(data: bytes) -> Iterator[bytes]:
    for position, byte in enumerate(data):
        for other in {byte ^ 1, byte ^ 0x80, (byte + 7) % 256, 0x20} - {byte}:
            yield data[:position] + bytes([other]) + data[position + 1 :]
    for length in range(len(data)):
        yield data[:length]
    for more in (b"\0", b" ", b"\n", b"}", data):
        yield data + more
    for position in range(len(data)):
        yield data[:position] + b" " + data[position:]
        yield data[:position] + data[position + 1 :]


@pytest.mark.parametrize("which", ["manifest", "arrays"])
def test_every_change_of_a_byte_and_every_truncation_is_noticed(saved: Path, which: str) -> None:
    path = saved / "manifest.json" if which == "manifest" else arrays_file(saved)
    original = path.read_bytes()
    tried = 0
    with open(path, "r+b", buffering=0) as file:
        for data in damaged(original):
            file.seek(0)
            file.truncate(len(data))
            file.write(data)
            with pytest.raises(BundleError):
                read_bundle(saved)
            tried += 1
    assert tried > 6 * len(original)
    path.write_bytes(original)
    assert is_same(read_bundle(saved), OLD)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | json_values.map(canonical))
def test_any_other_manifest_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(DamagedBundleError):
        read_bundle(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "tercet", "format": "tercet", "version": 1}',
        '{"format": "tercet", "version": NaN}',
        '{"format": "tercet", "version": 1, "checksum": "", "meta": 1e999}',
        '{"format": "tercet", "version": 1, "checksum": "", "meta": "\\ud800"}',
        '{"format": "tercet", "version": true}',
        '{"format": "tercet", "version": 0}',
        '{"format": "tercet", "version": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"a":' * 100_000,
        '"' + '\\"' * 1_000_000,
        "[]" * 1000,
        "\ufeff{}",
        " " * (MAX_MANIFEST_BYTES + 1),
    ],
    ids=lambda text: text[:20] + str(len(text)),
)
def test_hostile_manifests(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(DamagedBundleError):
        read_bundle(tmp_path)


def test_nesting_is_counted_outside_strings_only(tmp_path: Path) -> None:
    meta = {"a": "[" * 100 + '"' + "{" * 100 + "\\", "b": ["]" * 100]}
    write_bundle(tmp_path / "b", kind="k", meta=meta, arrays={})
    assert read_bundle(tmp_path / "b").meta == meta


def change_at(*keys: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        for key in keys[:-1]:
            manifest = manifest[key]
        manifest[keys[-1]] = to

    return change


FORGERIES = {
    "unknown field": (change_at("extra", to=1), r"manifest\.json\.extra is unknown"),
    "unknown field of file": (change_at("file", "extra", to=1), r"file\.extra is unknown"),
    "unknown field of an array": (change_at("arrays", "kept", "extra", to=1), r"arrays\.kept\.extra is unknown"),
    "no kind": (lambda manifest: manifest.pop("kind"), "kind is missing"),
    "kind of another type": (change_at("kind", to=1), r"kind is 1 \(int\); expected text"),
    "another format": (change_at("format", to="tercel"), "format 'tercel'"),
    "a name that leads out": (change_at("file", "name", to="../../etc/passwd"), "names the arrays file"),
    "a hash that leads out": (
        change_at(
            "file",
            to={"name": "arrays-/../../../../../.safetensors", "size": 1, "sha256": "/../../../../../"},
        ),
        "names the arrays file",
    ),
    "another size": (change_at("file", "size", to=1), "its manifest says 1"),
    "another dtype": (change_at("arrays", "indices", "dtype", to="uint32"), "another header than its manifest says"),
    "another shape": (
        change_at("arrays", "indices", "shape", to=[4]),
        "another header than its manifest says",
    ),
    "a shape of floats": (change_at("arrays", "kept", "shape", to=[2.0]), r"shape\.0 is 2\.0 \(float\)"),
    "a negative length": (change_at("arrays", "kept", "shape", to=[-2]), r"shape\.0 is -2 .* at least 0"),
    "objects": (change_at("arrays", "kept", "dtype", to="object"), "'object'; expected one of"),
    "another name": (change_at("arrays", to={}), "does not fit"),
    "33 dimensions": (change_at("arrays", "kept", "shape", to=[1] * 33), "33 dimensions"),
    "too large": (change_at("arrays", "kept", "shape", to=[2**40 + 1]), "at most 1099511627776"),
    "larger than any number": (
        change_at("arrays", "kept", "shape", to=[10**3000] * 9),
        "at most 64 bits",
    ),
    "large behind a zero": (change_at("arrays", "kept", "shape", to=[0, 2**62]), "at most 1099511627776"),
    "huge": (change_at("arrays", "kept", "shape", to=[2**40]), "does not fit"),
    "too many arrays": (
        change_at("arrays", to={str(number): {"dtype": "int8", "shape": [0]} for number in range(4097)}),
        "4097 arrays; at most 4096",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_manifests_are_refused_without_taking_memory(saved: Path, name: str) -> None:
    change, message = FORGERIES[name]
    reseal(saved, change)
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBundleError, match=message):
            read_bundle(saved)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


def header_of(entries: dict[str, tuple[str, list[int], list[Any]]]) -> bytes:
    keys = ("dtype", "shape", "data_offsets")
    header = {name: dict(zip(keys, entry, strict=True)) for name, entry in entries.items()}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    return encoded + b" " * (-len(encoded) % 8)


GOOD_ENTRIES: dict[str, Any] = {
    "a": ("F32", [2], [0, 8]),
    "c": ("I8", [0], [8, 8]),
    "b": ("BOOL", [2], [8, 10]),
}
GOOD_DATA = np.float32([1, 2]).tobytes() + b"\0\1"
FORGED_FILES = {
    "nothing": b"",
    "half a length": b"\1\0",
    "a huge header": (2**63).to_bytes(8, "little") + header_of(GOOD_ENTRIES) + GOOD_DATA,
    "no JSON": with_header(b"{" * 10, GOOD_DATA),
    "a list": with_header(b"[]", GOOD_DATA),
    "deep": with_header(b"[" * 10_000, GOOD_DATA),
    "a key twice": with_header(b'{"a": 1, ' + header_of(GOOD_ENTRIES)[1:], GOOD_DATA),
    "metadata": with_header(header_of(GOOD_ENTRIES)[:-1] + b', "__metadata__": {}}', GOOD_DATA),
    "one more byte": with_header(header_of(GOOD_ENTRIES), GOOD_DATA + b"\0"),
    "one byte less": with_header(header_of(GOOD_ENTRIES), GOOD_DATA[:-1]),
    "bools of 2": with_header(header_of(GOOD_ENTRIES), GOOD_DATA[:-1] + b"\2"),
    "another order": with_header(header_of(dict(reversed(GOOD_ENTRIES.items()))), GOOD_DATA),
    "another spelling": with_header(header_of(GOOD_ENTRIES).replace(b",", b", "), GOOD_DATA),
    "no entry": with_header(header_of({name: GOOD_ENTRIES[name] for name in "ab"}), GOOD_DATA),
} | {
    f"entry {entry}": with_header(header_of({**GOOD_ENTRIES, name: entry}), GOOD_DATA)
    for name, entry in [
        ("a", ("I32", [2], [0, 8])),
        ("a", ("F32", [1, 2], [0, 8])),
        ("a", ("F32", [2], [0, 4])),
        ("a", ("F32", [2], [2, 10])),
        ("a", ("F32", [2], [-8, 0])),
        ("a", ("F32", [2], [2**70, 2**70 + 8])),
        ("a", ("F32", [2], [0.0, 8.0])),
        ("a", ("F32", [2], [0])),
        ("b", ("BOOL", [2], [0, 2])),
        ("b", ("BOOL", [2], [9, 11])),
        ("c", ("I8", [0], [1, 1])),
        ("d", ("I8", [0], [10, 10])),
    ]
}


@pytest.fixture
def forgeable(tmp_path: Path) -> Path:
    arrays = {"a": np.float32([1, 2]), "b": np.array([False, True]), "c": np.zeros(0, np.int8)}
    write_bundle(tmp_path / "model", kind="k", meta={}, arrays=arrays)
    return tmp_path / "model"


def test_the_forger_can_write_a_good_file(forgeable: Path) -> None:
    forge_arrays_file(forgeable, with_header(header_of(GOOD_ENTRIES), GOOD_DATA))
    assert read_bundle(forgeable).arrays["a"].tolist() == [1, 2]


@pytest.mark.parametrize("name", FORGED_FILES)
def test_forged_arrays_files_are_refused_without_taking_memory(forgeable: Path, name: str) -> None:
    forge_arrays_file(forgeable, FORGED_FILES[name])
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBundleError):
            read_bundle(forgeable)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_reading_takes_one_copy_of_the_arrays(tmp_path: Path) -> None:
    arrays = {"large": np.ones(4 * 2**20), "small": np.ones(10, dtype=np.int8)}
    size = arrays["large"].nbytes
    write_bundle(tmp_path / "b", kind="k", meta={}, arrays=arrays)
    tracemalloc.start()
    try:
        found = read_bundle(tmp_path / "b")
        assert tracemalloc.get_traced_memory()[1] < 1.05 * size
    finally:
        tracemalloc.stop()
    assert is_same(found, {"kind": "k", "meta": {}, "arrays": arrays})
