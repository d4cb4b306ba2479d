"""Bundles: what is written is read, what was changed is refused, what is interrupted leaves no trace."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tercet.errors import (
    BundleError,
    DamagedBundleError,
    InputError,
    MissingBundleError,
    VersionError,
)
from tercet.store import (
    Bundle,
    Fields,
    atomic,
    bundle,
    limits,
    read_bundle,
    take_array,
    write_bundle,
    write_file_atomically,
)

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX processes and locks")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]

OLD: dict[str, Any] = {
    "kind": "weights",
    "meta": {"n_terms": 3, "rate": 0.5, "words": ["auge", "œil", "目"], "refit": True, "l1": None},
    "arrays": {
        "diagonal": np.array([1.0, -0.0, 2.5], dtype=np.float32),
        "indices": np.array([[0, 1], [2, 3]], dtype=np.int32),
        "kept": np.array([True, False]),
    },
}
NEW: dict[str, Any] = {"kind": "index", "meta": {"k": 5}, "arrays": {"lengths": np.arange(7)}}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "model", **OLD)
    return tmp_path / "model"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def arrays_file(folder: Path) -> Path:
    (found,) = folder.glob("arrays-*.safetensors")
    return found


def is_same(found: Bundle, content: dict[str, Any]) -> bool:
    return (
        (found.kind, found.meta) == (content["kind"], content["meta"])
        and found.arrays.keys() == content["arrays"].keys()
        and all(
            found.arrays[name].dtype == array.dtype
            and found.arrays[name].shape == array.shape
            and found.arrays[name].tobytes() == array.tobytes()
            for name, array in content["arrays"].items()
        )
    )


def canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False)
    return (text + "\n").encode()


def reseal(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and give it the right checksum again, as a forger would."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    manifest.pop("checksum", None)
    manifest["checksum"] = hashlib.sha256(canonical(manifest)).hexdigest()
    (folder / "manifest.json").write_bytes(canonical(manifest))


def forge_arrays_file(folder: Path, data: bytes) -> None:
    """Put other bytes in the place of the arrays file and seal them as if they had been written."""
    arrays_file(folder).unlink()
    sha256 = hashlib.sha256(data).hexdigest()
    file = {"name": f"arrays-{sha256[:16]}.safetensors", "size": len(data), "sha256": sha256}
    (folder / file["name"]).write_bytes(data)
    reseal(folder, lambda manifest: manifest.update(file=file))


def with_header(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


# Round trips


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
any_array = hnp.arrays(
    dtype=st.sampled_from(DTYPES),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)
array_names = st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__")


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.text(min_size=1),
    meta=st.dictionaries(st.text(), json_values, max_size=4),
    arrays=st.dictionaries(array_names, any_array, max_size=5),
)
def test_what_is_written_is_read(tmp_path: Path, kind: str, meta: Any, arrays: Any) -> None:
    path = tmp_path / "model"  # every example replaces the one before
    write_bundle(path, kind=kind, meta=meta, arrays=arrays)
    found = read_bundle(path, kind=kind)
    assert is_same(found, {"kind": kind, "meta": meta, "arrays": arrays})
    assert found.path == path
    assert names(path) == [arrays_file(path).name, "manifest.json"]
    assert not any(array.flags.writeable for array in found.arrays.values())
    # An independent reader of the format finds the same arrays.
    reference = safetensors.numpy.load_file(arrays_file(path))
    assert is_same(found, {"kind": kind, "meta": meta, "arrays": reference})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_every_dtype_and_shape(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    write_bundle(tmp_path / "b", kind="k", meta={}, arrays={"a": array})
    found = read_bundle(tmp_path / "b").arrays["a"]
    assert (found.dtype, found.shape) == (np.dtype(dtype), shape)
    np.testing.assert_array_equal(found, array)


def test_memory_layout_does_not_matter(tmp_path: Path) -> None:
    plain = np.arange(24, dtype=np.int64).reshape(4, 6)
    arrays = {
        "transposed": plain.T,
        "strided": plain[::2, ::-3],
        "big_endian": plain.astype(">i8"),
        "fortran": np.asfortranarray(plain),
        "broadcast": np.broadcast_to(np.float32(3), (2, 2)),
    }
    write_bundle(tmp_path / "b", kind="k", meta={}, arrays=arrays)
    found = read_bundle(tmp_path / "b").arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype.isnative
        assert found[name].flags.c_contiguous


def test_same_content_gives_same_bytes(tmp_path: Path) -> None:
    write_bundle(tmp_path / "a", **OLD)
    backwards = {name: dict(reversed(OLD[name].items())) for name in ("meta", "arrays")}
    write_bundle(tmp_path / "b", kind=OLD["kind"], **backwards)
    assert names(tmp_path / "a") == names(tmp_path / "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_tuples_come_back_as_lists(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", kind="k", meta={"shape": (2, (3,))}, arrays={})
    assert read_bundle(tmp_path / "b").meta == {"shape": [2, [3]]}


def test_the_manifest_is_as_documented(saved: Path) -> None:
    data = (saved / "manifest.json").read_bytes()
    manifest = json.loads(data)
    assert data == canonical(manifest)
    stored = arrays_file(saved).read_bytes()
    sha256 = hashlib.sha256(stored).hexdigest()
    checksum = manifest.pop("checksum")
    assert checksum == hashlib.sha256(canonical(manifest)).hexdigest()
    assert manifest == {
        "format": "tercet",
        "version": 1,
        "kind": "weights",
        "meta": OLD["meta"],
        "arrays": {
            "diagonal": {"dtype": "float32", "shape": [3]},
            "indices": {"dtype": "int32", "shape": [2, 2]},
            "kept": {"dtype": "bool", "shape": [2]},
        },
        "file": {"name": f"arrays-{sha256[:16]}.safetensors", "size": len(stored), "sha256": sha256},
    }


# What cannot be stored


@pytest.mark.parametrize(
    ("meta", "place"),
    [
        ({"a": float("nan")}, r"meta\['a'\]"),
        ({"a": [1, float("inf")]}, r"meta\['a'\]\[1\]"),
        ({"a": {1: 2}}, r"key 1;"),
        ({"a": np.int64(1)}, r"numpy\.int64"),
        ({"a": {"b": {1, 2}}}, r"meta\['a'\]\['b'\]"),
        ({"a": "\ud800"}, r"meta\['a'\]"),
        ({"\ud800": 1}, "a key of meta"),
        ({"a": 10**5000}, "meta"),
        ({"a": "x" * (limits.MAX_MANIFEST_BYTES - 100)}, "bytes of JSON"),
        ([1], "meta"),
    ],
)
def test_meta_that_cannot_be_stored(tmp_path: Path, meta: Any, place: str) -> None:
    with pytest.raises(InputError, match=place):
        write_bundle(tmp_path / "b", kind="k", meta=meta, arrays={})
    assert names(tmp_path) == []


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_up_to_the_limit(tmp_path: Path) -> None:
    deepest = {"a": nested(limits.MAX_NESTING - 2)}  # two levels are the manifest and meta themselves
    write_bundle(tmp_path / "b", kind="k", meta=deepest, arrays={})
    assert read_bundle(tmp_path / "b").meta == deepest
    with pytest.raises(InputError, match="nested deeper"):
        write_bundle(tmp_path / "b", kind="k", meta={"a": nested(limits.MAX_NESTING - 1)}, arrays={})
    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    with pytest.raises(InputError, match="nested deeper"):
        write_bundle(tmp_path / "b", kind="k", meta=cyclic, arrays={})


@pytest.mark.parametrize(
    "array",
    [
        np.array([1j]),
        np.array(["a"]),
        np.array([None]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=[("x", "f4")]),
        np.ma.masked_array([1, 2], mask=[True, False]),
        [1, 2],
        np.float32(1),
        np.broadcast_to(np.int8(0), (2**21, 2**20)),
        np.zeros((1,) * 33) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else None,
    ],
    ids=lambda array: str(getattr(array, "dtype", type(array))) + str(np.shape(array))[:20],
)
def test_arrays_that_cannot_be_stored(tmp_path: Path, array: Any) -> None:
    with pytest.raises(InputError, match="'odd'"):
        write_bundle(tmp_path / "b", kind="k", meta={}, arrays={"fine": np.ones(2), "odd": array})
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["", "__metadata__", 3, "\ud800"])
def test_array_names_that_cannot_be_stored(tmp_path: Path, name: Any) -> None:
    with pytest.raises(InputError):
        write_bundle(tmp_path / "b", kind="k", meta={}, arrays={name: np.ones(2)})


def test_too_many_arrays(tmp_path: Path) -> None:
    one = np.zeros(1, dtype=np.int8)
    most = {str(number): one for number in range(limits.MAX_ARRAYS)}
    write_bundle(tmp_path / "b", kind="k", meta={}, arrays=most)
    assert len(read_bundle(tmp_path / "b").arrays) == limits.MAX_ARRAYS
    with pytest.raises(InputError, match="4097 arrays"):
        write_bundle(tmp_path / "b", kind="k", meta={}, arrays={**most, "more": one})


@pytest.mark.parametrize("kind", ["", None, 3, "\ud800"])
def test_kinds_that_cannot_be_stored(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(InputError, match="kind"):
        write_bundle(tmp_path / "b", kind=kind, meta={}, arrays={})


@pytest.mark.parametrize("path", ["", "a\0b", 3, None])
def test_paths_that_are_none(path: Any) -> None:
    with pytest.raises(InputError, match="path is"):
        write_bundle(path, **OLD)
    with pytest.raises(InputError, match="path is"):
        read_bundle(path)


# Where a bundle may be written


def test_parents_are_made(tmp_path: Path) -> None:
    write_bundle(tmp_path / "a" / "b" / "c", **OLD)
    assert is_same(read_bundle(tmp_path / "a" / "b" / "c"), OLD)


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match="exists and is not a Tercet bundle; nothing was written"):
        write_bundle(tmp_path, **OLD)
    (tmp_path / "manifest.json").write_text('{"name": "an extension of a browser"}')
    with pytest.raises(BundleError, match="exists and is not a Tercet bundle; nothing was written"):
        write_bundle(tmp_path, **OLD)
    assert names(tmp_path) == ["manifest.json", "notes.txt"]


def test_an_empty_folder_and_a_link_to_it_will_do(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_bundle(tmp_path / "link", **OLD)
    assert is_same(read_bundle(tmp_path / "real"), OLD)


def test_a_file_or_a_dead_link_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dead").symlink_to(tmp_path / "nowhere")
    for name in ("file", "dead", "file/below"):
        with pytest.raises(BundleError):
            write_bundle(tmp_path / name, **OLD)
    assert names(tmp_path) == ["dead", "file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_replacing_keeps_other_files_and_removes_leftovers(saved: Path) -> None:
    (saved / "README.md").write_text("mine")
    (saved / ".tercet-0123456789abcdef.tmp").write_bytes(b"of a killed save")
    (saved / "arrays-0123456789abcdef.safetensors").write_bytes(b"of a killed save")
    write_bundle(saved, **NEW)
    assert is_same(read_bundle(saved), NEW)
    assert names(saved) == ["README.md", arrays_file(saved).name, "manifest.json"]


def test_what_a_killed_first_save_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".tercet-0123456789abcdef.tmp").write_bytes(b"")
    (tmp_path / "arrays-0123456789abcdef.safetensors").write_bytes(b"")
    with pytest.raises(MissingBundleError):
        read_bundle(tmp_path)
    write_bundle(tmp_path, **OLD)
    assert names(tmp_path) == [arrays_file(tmp_path).name, "manifest.json"]


def test_a_leftover_that_cannot_be_removed_is_reported(
    saved: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Any) -> None:
        raise PermissionError(13, "in use", str(path))

    monkeypatch.setattr(os, "unlink", refuse)
    write_bundle(saved, **NEW)
    assert is_same(read_bundle(saved), NEW)
    assert "cannot be removed" in caplog.text


@posix_only
def test_files_are_readable_for_others(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_bundle(tmp_path / "model", **OLD)
    finally:
        os.umask(before)
    assert {entry.stat().st_mode & 0o777 for entry in (tmp_path / "model").iterdir()} == {0o644}


# Reading what is not there or not meant


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingBundleError, match="does not exist"):
        read_bundle(tmp_path / "nowhere")
    with pytest.raises(MissingBundleError, match=r"has no manifest\.json"):
        read_bundle(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_bundle(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="is a file"):
        read_bundle(tmp_path / "file")


def test_another_kind(saved: Path) -> None:
    assert read_bundle(saved, kind="weights").kind == "weights"
    with pytest.raises(BundleError, match="of kind 'weights'; expected 'index'"):
        read_bundle(saved, kind="index")


def test_a_newer_version(saved: Path) -> None:
    reseal(saved, lambda manifest: manifest.update(version=2, something_new=[]))
    with pytest.raises(VersionError, match="written by format 2; this Tercet reads up to 1"):
        read_bundle(saved)


def test_the_arrays_file_is_lost(saved: Path) -> None:
    arrays_file(saved).unlink()
    with pytest.raises(DamagedBundleError, match="is missing; its manifest names it"):
        read_bundle(saved)


@pytest.mark.parametrize("name", ["manifest.json", "arrays"])
def test_permission_errors_name_the_path(saved: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = builtins.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> Any:
        if name in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        with pytest.raises(BundleError, match=r"model cannot be read: .*Permission denied"):
            read_bundle(saved)


@posix_only
def test_pipes_do_not_block(saved: Path) -> None:
    (saved / "manifest.json").unlink()
    os.mkfifo(saved / "manifest.json")
    with pytest.raises(BundleError, match="not a regular file"):
        read_bundle(saved)


def test_folders_in_the_place_of_files(saved: Path) -> None:
    path = arrays_file(saved)
    path.unlink()
    path.mkdir()
    with pytest.raises(BundleError):
        read_bundle(saved)
    (saved / "manifest.json").unlink()
    (saved / "manifest.json").mkdir()
    with pytest.raises(BundleError):
        read_bundle(saved)
    with pytest.raises(BundleError):
        write_bundle(saved, **OLD)


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
        " " * (limits.MAX_MANIFEST_BYTES + 1),
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
    "unknown field": (change_at("extra", to=1), "unknown fields: 'extra'"),
    "unknown field of file": (change_at("file", "extra", to=1), "unknown fields: 'extra'"),
    "unknown field of an array": (change_at("arrays", "kept", "extra", to=1), "unknown fields: 'extra'"),
    "no kind": (lambda manifest: manifest.pop("kind"), "has no 'kind'"),
    "kind of another type": (change_at("kind", to=1), r"\['kind'\] is 1 \(int\); expected str"),
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
    "another dtype": (change_at("arrays", "indices", "dtype", to="uint32"), "its manifest says uint32"),
    "another shape": (
        change_at("arrays", "indices", "shape", to=[4]),
        r"its manifest says int32 of shape \[4\]",
    ),
    "a shape of floats": (change_at("arrays", "kept", "shape", to=[2.0]), "expected a list of lengths"),
    "a negative length": (change_at("arrays", "kept", "shape", to=[-2]), "expected a list of lengths"),
    "objects": (change_at("arrays", "kept", "dtype", to="object"), "'object'; expected one of"),
    "another name": (change_at("arrays", to={}), "does not fit"),
    "33 dimensions": (change_at("arrays", "kept", "shape", to=[1] * 33), "33 dimensions"),
    "too large": (change_at("arrays", "kept", "shape", to=[2**40 + 1]), "at most 1099511627776"),
    "larger than any number": (
        change_at("arrays", "kept", "shape", to=[10**3000] * 9),
        "at most 1099511627776",
    ),
    "large behind a zero": (change_at("arrays", "kept", "shape", to=[0, 2**62]), "at most 1099511627776"),
    "huge": (change_at("arrays", "kept", "shape", to=[2**40]), "does not fit"),
    "too many arrays": (
        change_at("arrays", to={str(number): {} for number in range(4097)}),
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
    return json.dumps({name: dict(zip(keys, entry, strict=True)) for name, entry in entries.items()}).encode()


GOOD_ENTRIES: dict[str, Any] = {
    "a": ("F32", [2], [0, 8]),
    "b": ("BOOL", [2], [8, 10]),
    "c": ("I8", [0], [0, 0]),
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


# Interruptions


class FailAtCall:
    """Stands in for a function and raises at its n-th call, before or after doing the work."""

    def __init__(self, real: Callable[..., Any], nth: int, error: BaseException, after: bool) -> None:
        self.real, self.left, self.error, self.after = real, nth, error, after

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise self.error
        result = self.real(*args, **kwargs)
        if self.left == 0:
            if hasattr(result, "close"):
                result.close()
            raise self.error
        return result


FAIL_AT = [
    (os, "replace", True),
    (os, "fsync", True),
    (builtins, "open", True),
    (os, "open", False),  # after it, nobody would hold the descriptor to close it
    (os, "mkdir", False),
    (os, "listdir", False),
    (safetensors.numpy, "save", True),
]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize(
    ("module", "name", "after"),
    [(module, name, after) for module, name, both in FAIL_AT for after in ([False, True] if both else [False])],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.parametrize("exists", [True, False], ids=["replacing", "first"])
def test_a_failure_at_any_call_leaves_old_or_new_and_no_litter(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    after: bool,
    error: BaseException,
    exists: bool,
) -> None:
    expected = BundleError if isinstance(error, OSError) else KeyboardInterrupt
    path = tmp_path / "folder" / "model"
    failures = 0
    for nth in range(1, 50):
        shutil.rmtree(tmp_path / "folder", ignore_errors=True)
        if exists:
            write_bundle(path, **OLD)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, FailAtCall(getattr(module, name), nth, error, after))
            try:
                write_bundle(path, **NEW)
            except expected:
                failures += 1
            else:
                break
        if not path.exists():
            assert not exists
            assert names(tmp_path) == []
            continue
        found = read_bundle(path)
        is_new = is_same(found, NEW)
        assert is_new or (exists and is_same(found, OLD))
        # An unconfirmed new bundle keeps the old arrays, which a power cut may yet bring back into use.
        litter = set(names(path)) - {"manifest.json", bundle_file(path)}
        assert litter <= ({bundle_file_of(OLD, tmp_path)} if is_new and exists else set())
    else:
        pytest.fail("the calls never end")
    assert failures or (name == "mkdir" and exists)
    assert is_same(read_bundle(path), NEW)


def bundle_file(path: Path) -> str:
    return json.loads((path / "manifest.json").read_bytes())["file"]["name"]


def bundle_file_of(content: dict[str, Any], tmp_path: Path) -> str:
    write_bundle(tmp_path / "other", **content)
    name = bundle_file(tmp_path / "other")
    shutil.rmtree(tmp_path / "other")
    return name


def test_failing_to_save_the_same_arrays_with_other_meta_keeps_them(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", FailAtCall(os.replace, 2, OSError(5, "I/O error"), False))
        with pytest.raises(BundleError, match="I/O error"):
            write_bundle(saved, **{**OLD, "meta": {}})
    assert is_same(read_bundle(saved), OLD)


KILLED_AT_EVERY_STEP = """
import os, signal, sys
import numpy as np
from tercet.store import read_bundle, write_bundle

path = sys.argv[1]
contents = [dict(kind="k", meta={"n": n}, arrays={"a": np.full(100, n)}) for n in (0, 1)]

def kill_at(nth):
    left = [nth]
    def dying(real):
        def call(*args, **kwargs):
            for _ in range(2):  # once before and once after the real call
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if _ == 0:
                    result = real(*args, **kwargs)
            return result
        return call
    for name in ("replace", "fsync", "unlink", "open", "listdir"):
        setattr(os, name, dying(getattr(os, name)))

write_bundle(path, **contents[0])
seen, nth = set(), 0
while True:
    nth += 1
    before = read_bundle(path).meta["n"]
    child = os.fork()
    if child == 0:
        kill_at(nth)
        write_bundle(path, **contents[1 - before])
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    bundle = read_bundle(path)
    n = bundle.meta["n"]
    assert (bundle.arrays["a"] == n).all()
    seen.add("new" if n != before else "old")
    if status == 0:
        break
    assert os.WIFSIGNALED(status)
files = os.listdir(path)
assert len(files) == 2, files
print(nth, sorted(seen))
"""


@posix_only
def test_a_kill_at_every_step_leaves_a_readable_bundle(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    steps, seen = done.stdout.split(maxsplit=1)
    assert int(steps) > 20
    assert seen.strip() == "['new', 'old']"


SAVING_FOR_EVER = """
import sys
import numpy as np
from tercet.store import write_bundle

n = 0
while True:
    n += 1
    arrays = {"a": np.full(20_000, n), "b": np.full(n % 3, n)}
    write_bundle(sys.argv[1], kind="k", meta={"n": n}, arrays=arrays)
    if n == 1:
        print("saved", flush=True)
"""


@posix_only
def test_reading_while_another_process_saves_and_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "model"
    draw = random.Random(0)
    seen = set()
    for _ in range(3):
        command = [sys.executable, "-c", SAVING_FOR_EVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"saved\n"
                until = time.monotonic() + draw.uniform(0.1, 0.4)
                while time.monotonic() < until:
                    seen.add(checked_number(path))
            finally:
                process.send_signal(signal.SIGKILL)
        checked_number(path)
        write_bundle(path, **OLD)  # the lock died with its holder, and what it left is removed
        assert names(path) == [arrays_file(path).name, "manifest.json"]
    assert len(seen) > 3


def checked_number(path: Path) -> int:
    found = read_bundle(path)
    number = found.meta["n"]
    assert (found.arrays["a"] == number).all()
    assert found.arrays["b"].tolist() == [number] * (number % 3)
    return number


@posix_only
def test_writers_at_the_same_time_do_not_remove_each_others_files(tmp_path: Path) -> None:
    path = tmp_path / "model"
    problems: list[BaseException] = []

    def save(content: dict[str, Any]) -> None:
        try:
            for _ in range(15):
                write_bundle(path, **content)
                read_bundle(path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=save, args=(content,)) for content in (OLD, NEW, OLD, NEW)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(names(path)) == 2


@posix_only
def test_a_writer_does_not_wait_for_ever(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "LOCK_PATIENCE_SECONDS", 0.05)
    with atomic.lock_folder(saved), pytest.raises(BundleError, match="being written by another process"):
        write_bundle(saved, **NEW)
    assert is_same(read_bundle(saved), OLD)


def test_a_bundle_replaced_after_its_manifest_was_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [OLD, NEW] * bundle._READ_ATTEMPTS

    def replacing(times: int) -> Callable[..., Any]:
        left = contents[:times]

        def read_arrays(*args: Any) -> Any:
            if left:
                # The next content differs from what the manifest said, so the file it names is gone.
                write_bundle(saved, **left.pop())
            return real(*args)

        return read_arrays

    real = bundle.read_arrays
    monkeypatch.setattr(bundle, "read_arrays", replacing(4))
    assert is_same(read_bundle(saved), OLD)
    monkeypatch.setattr(bundle, "read_arrays", replacing(2 * bundle._READ_ATTEMPTS))
    with pytest.raises(BundleError, match="was replaced 20 times"):
        read_bundle(saved)


# Files


def test_write_file_atomically(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file_atomically(path, b"one")
    write_file_atomically(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["file"]


def test_write_file_atomically_keeps_the_old_file_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_file_atomically(path, b"one")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, FailAtCall(getattr(os, name), 1, OSError(5, "I/O error"), False))
            with pytest.raises(OSError, match="I/O error"):
                write_file_atomically(path, b"two")
        assert path.read_bytes() == b"one"
        assert names(tmp_path) == ["file"]


# Fields


def test_fields_take() -> None:
    fields = Fields({"i": 1, "f": 0.5, "s": "x", "b": True, "n": None, "l": [1], "d": {}}, "here")
    assert fields.take("i", int) == 1
    assert fields.take("i", float) == 1
    assert fields.take("f", float) == 0.5
    assert fields.take("s", (int, str)) == "x"
    assert fields.take("b", bool) is True
    assert fields.take("n", int | None) is None
    assert fields.take("n", (str, None)) is None
    assert fields.take("l", list) == [1]
    with pytest.raises(DamagedBundleError, match="here has unknown fields: 'd'"):
        fields.done()
    assert fields.take("d", dict) == {}
    assert fields.take("absent", int, default=7) == 7
    assert fields.take("absent", int, default=None) is None
    fields.done()


@pytest.mark.parametrize(
    ("value", "types", "message"),
    [
        (True, int, r"here\['x'\] is True \(bool\); expected int"),
        (True, float, "expected float"),
        (True, int | None, "expected int or None"),
        (1, bool, "expected bool"),
        (1.0, int, "expected int"),
        ("1", (int, float), "expected int or float"),
        (None, str, "is None; expected str"),
        ("a" * 1000, int, "aaa… "),
    ],
)
def test_fields_refuse_other_types(value: Any, types: Any, message: str) -> None:
    with pytest.raises(DamagedBundleError, match=message):
        Fields({"x": value}, "here").take("x", types)


def test_fields_refuse_what_is_missing_or_no_mapping() -> None:
    with pytest.raises(DamagedBundleError, match="here has no 'x'; expected int"):
        Fields({}, "here").take("x", int)
    with pytest.raises(DamagedBundleError, match=r"here is \[1\] \(list\); expected a mapping"):
        Fields([1], "here")


def test_fields_of_a_bundle_name_its_path(saved: Path) -> None:
    with pytest.raises(DamagedBundleError, match=r"model: meta has no 'rank'"):
        read_bundle(saved).fields().take("rank", int)


def test_take_array() -> None:
    arrays = {"w": np.zeros((3, 2), np.float32), "e": np.zeros(0), "i": np.zeros(2, np.int64)}
    assert take_array(arrays, "w", np.float32, 2) is arrays["w"]
    assert take_array(arrays, "w", "float32", (3, 2)) is arrays["w"]
    assert take_array(arrays, "w", (np.float64, np.float32), (None, 2)) is arrays["w"]
    assert take_array(arrays, "e", np.float64, 1) is arrays["e"]
    for name, dtype, shape, message in [
        ("x", np.float32, 2, "here has no array 'x'"),
        ("w", np.float64, 2, "'w' is of type float32; expected float64"),
        ("i", (np.int32, np.int16), 1, "expected int32 or int16"),
        ("w", np.float32, 1, "has 2 dimensions; expected 1"),
        ("w", np.float32, (3, 3), r"has shape \(3, 2\); expected \(3, 3\)"),
        ("w", np.float32, (None, 3), r"expected \(any, 3\)"),
        ("w", np.float32, (3,), r"has shape \(3, 2\); expected \(3\)"),
    ]:
        with pytest.raises(DamagedBundleError, match=message):
            take_array(arrays, name, dtype, shape, where="here")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_take_array_refuses_floats_that_are_not_finite(bad: float, dtype: Any) -> None:
    array = np.zeros((4, 3), dtype)
    array[2, 1] = np.finfo(dtype).max
    assert take_array({"a": array}, "a", dtype, 2) is array
    array[1, 2] = bad
    with pytest.raises(DamagedBundleError, match="not finite"):
        take_array({"a": array}, "a", dtype, 2)
