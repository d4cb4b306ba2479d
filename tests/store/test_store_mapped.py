"""Bundles whose arrays stay in their file."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from support.bundles import DTYPES, OLD, arrays_file, is_same
from tercet.errors import BundleError, DamagedBundleError
from tercet.store import forget_pages, read_bundle, write_bundle


def test_mapped_arrays_are_those_that_were_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(0, 2, (3, 5)).astype(name) for name in DTYPES}
    arrays |= {"empty": np.empty((0, 4), np.float32), "scalar": np.array(7)}
    content = {"kind": "k", "meta": {"n": 1}, "arrays": arrays}
    digest = write_bundle(tmp_path / "b", **content)
    found = read_bundle(tmp_path / "b", mapped=True)
    assert is_same(found, content)
    assert found.digest == digest == read_bundle(tmp_path / "b").digest
    for array in found.arrays.values():
        assert not array.flags.writeable
        assert array.flags.aligned
        assert type(array) is np.ndarray
    shutil.rmtree(tmp_path / "b")
    assert is_same(found, content)  # what is mapped stays


@pytest.mark.slow
@pytest.mark.parametrize("which", ["manifest", "arrays"])
def test_damage_is_noticed(saved: Path, which: str) -> None:
    path = saved / "manifest.json" if which == "manifest" else arrays_file(saved)
    original = path.read_bytes()
    for position in range(0, len(original), 1 if which == "arrays" else 7):  # manifests are read as ever
        path.write_bytes(original[:position] + bytes([original[position] ^ 1]) + original[position + 1 :])
        with pytest.raises(BundleError):
            read_bundle(saved, mapped=True)
        path.write_bytes(original[:position])
        with pytest.raises(BundleError):
            read_bundle(saved, mapped=True)
    path.write_bytes(original)
    assert is_same(read_bundle(saved, mapped=True), OLD)


def test_unverified_only_the_numbers_are_believed(saved: Path) -> None:
    path = arrays_file(saved)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DamagedBundleError):
        read_bundle(saved, mapped=True)
    assert not is_same(read_bundle(saved, mapped=True, verify="never"), OLD)
    path.write_bytes(data[:-1])
    with pytest.raises(DamagedBundleError):
        read_bundle(saved, mapped=True, verify="never")


def test_pages_can_be_forgotten_and_read_again(saved: Path) -> None:
    found = read_bundle(saved, mapped=True)
    for array in found.arrays.values():
        forget_pages(array)
    assert is_same(found, OLD)
    forget_pages(np.ones(3))  # not mapped: nothing to do


def test_other_names_may_stand_beside_a_first_bundle(tmp_path: Path) -> None:
    (tmp_path / "b" / "parts").mkdir(parents=True)
    with pytest.raises(BundleError, match="not a Tercet bundle"):
        write_bundle(tmp_path / "b", **OLD)
    write_bundle(tmp_path / "b", **OLD, siblings=("parts",))
    assert is_same(read_bundle(tmp_path / "b"), OLD)
    assert (tmp_path / "b" / "parts").is_dir()


def test_a_mapped_file_goes_with_its_last_array(saved: Path) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(f"{arrays_file(saved)}\n")

    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    arrays = list(read_bundle(saved, mapped=True).arrays.values())
    part = next(array for array in arrays if array.size > 1)[1:]
    assert mapped() == 1
    del arrays
    assert mapped() == 1
    del part
    assert mapped() == 0
