"""Bundles: what is written is read, and what cannot be stored or read is named."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.bundles import DTYPES, NEW, OLD, arrays_file, canonical, is_same, json_values, names, posix_only, reseal
from tercet.errors import (
    BundleError,
    DamagedBundleError,
    InputError,
    MissingBundleError,
    VersionError,
)
from tercet.store import (
    bundle_kind,
    check_destination,
    read_bundle,
    take_array,
    write_bundle,
)
from tercet.store.arrays import MAX_ARRAYS
from tercet.store.canonical import MAX_MANIFEST_BYTES, MAX_NESTING

# Round trips


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
    path = tmp_path / "model"
    if bundle_kind(path) != kind:
        shutil.rmtree(path, ignore_errors=True)  # else an example replaces the one before
    write_bundle(path, kind=kind, meta=meta, arrays=arrays)
    found = read_bundle(path, kind=kind)
    assert is_same(found, {"kind": kind, "meta": meta, "arrays": arrays})
    assert found.path == path
    assert names(path) == [arrays_file(path).name, "manifest.json"]
    assert not any(array.flags.writeable for array in found.arrays.values())
    # An independent reader of the format finds the same arrays, and an independent writer writes the same bytes.
    assert safetensors.numpy.save(arrays) == arrays_file(path).read_bytes()
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
    ("meta", "position"),
    [
        ({"a": float("nan")}, r"meta\['a'\]"),
        ({"a": [1, float("inf")]}, r"meta\['a'\]\[1\]"),
        ({"a": {1: 2}}, r"key 1;"),
        ({"a": np.int64(1)}, r"numpy\.int64"),
        ({"a": {"b": {1, 2}}}, r"meta\['a'\]\['b'\]"),
        ({"a": "\ud800"}, r"meta\['a'\]"),
        ({"\ud800": 1}, "a key of meta"),
        ({"a": 10**5000}, "meta"),
        ({"a": "x" * (MAX_MANIFEST_BYTES - 100)}, "bytes of JSON"),
        ([1], "meta"),
    ],
)
def test_meta_that_cannot_be_stored(tmp_path: Path, meta: Any, position: str) -> None:
    with pytest.raises(InputError, match=position):
        write_bundle(tmp_path / "b", kind="k", meta=meta, arrays={})
    assert names(tmp_path) == []


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_nesting_up_to_the_limit(tmp_path: Path) -> None:
    deepest = {"a": nested(MAX_NESTING - 2)}  # two levels are the manifest and meta themselves
    write_bundle(tmp_path / "b", kind="k", meta=deepest, arrays={})
    assert read_bundle(tmp_path / "b").meta == deepest
    with pytest.raises(InputError, match="nested deeper"):
        write_bundle(tmp_path / "b", kind="k", meta={"a": nested(MAX_NESTING - 1)}, arrays={})
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


@pytest.mark.slow
def test_too_many_arrays(tmp_path: Path) -> None:
    one = np.zeros(1, dtype=np.int8)
    most = {str(number): one for number in range(MAX_ARRAYS)}
    write_bundle(tmp_path / "b", kind="k", meta={}, arrays=most)
    assert len(read_bundle(tmp_path / "b").arrays) == MAX_ARRAYS
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


def test_another_kind_is_not_replaced(saved: Path) -> None:
    with pytest.raises(BundleError, match="holds a bundle of kind 'weights'; expected 'index', so nothing was written"):
        write_bundle(saved, **{**NEW, "kind": "index"})
    with pytest.raises(BundleError, match="expected 'index'"):
        check_destination(saved, kind="index")
    assert is_same(read_bundle(saved), OLD)
    assert bundle_kind(saved) == "weights"
    assert bundle_kind(saved / "nothing") is None


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


# Arrays


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


# Asking before


def test_a_destination_is_refused_as_writing_would_refuse_it(tmp_path: Path, saved: Path) -> None:
    check_destination(saved)
    check_destination(tmp_path / "new" / "model")
    assert names(tmp_path) == ["model"], "asking left something"
    (tmp_path / "file").write_text("text")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("text")
    for path in ("file", "file/model", "foreign"):
        with pytest.raises(BundleError) as asked:
            check_destination(tmp_path / path)
        with pytest.raises(BundleError) as written:
            write_bundle(tmp_path / path, **OLD)
        assert str(asked.value) == str(written.value)


def test_a_destination_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(BundleError, match=r"model cannot be written: .*Permission denied"):
        check_destination(tmp_path / "model")
