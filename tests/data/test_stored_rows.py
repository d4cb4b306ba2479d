"""Rows on disk: a CSR array whose arrays are mapped has what was written, or there is none."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from support.bundles import arrays_file
from support.forking import kill_while
from tercet.data import matrix, open_rows, stored_rows, write_rows
from tercet.data.matrix import check_matrix, row_blocks
from tercet.data.stored_rows import RowSpool, spooling
from tercet.errors import BundleError, DamagedBundleError, InputError, MissingBundleError
from tercet.learn.matrices import column_counts, fingerprint
from tercet.store import is_mapped, read_bundle, strings, write_bundle
from tercet.store.strings import PackedIds


def texts(seed: int, n: int, n_columns: int, density: float = 0.2) -> sparse.csr_array:
    found = sparse.random_array(
        (n, n_columns), density=density, format="csr", dtype=np.float32, rng=np.random.default_rng(seed)
    )
    return sparse.csr_array(found)


def same(found: sparse.csr_array, expected: sparse.csr_array) -> bool:
    return (
        found.shape == expected.shape
        and found.dtype == expected.dtype == np.float32
        and bool(found.has_canonical_format)
        and np.array_equal(found.indptr, expected.indptr)
        and np.array_equal(found.indices, expected.indices)
        and np.array_equal(found.data, expected.data)
    )


@pytest.mark.parametrize("most_narrow", [2**31 - 1, 0], ids=["indices of 32 bits", "of 64 bits"])
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 20),
    n_columns=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 20), max_size=3),
    block=st.sampled_from([1, 7, 1000]),
)
def test_rows_come_back_in_any_order(tmp_path, monkeypatch, most_narrow, seed, n, n_columns, cuts, block):
    monkeypatch.setattr(stored_rows, "MOST_NARROW", most_narrow)
    for module in (stored_rows, matrix):
        monkeypatch.setattr(module, "BLOCK_ENTRIES", block)
    X = texts(seed, n, n_columns)
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    shutil.rmtree(tmp_path / "rows", ignore_errors=True)
    written = write_rows(tmp_path / "rows", [X[i:j] for i, j in itertools.pairwise(edges)], n_columns=n_columns)
    rows = open_rows(tmp_path / "rows")
    assert same(rows, X)
    assert same(written, X)
    assert is_mapped(rows.data) == (X.nnz > 0)
    asked = np.random.default_rng(seed).integers(0, n, 2 * n)
    assert same(rows[asked], X[asked])
    assert not is_mapped(rows[asked].data)
    assert same(sparse.csr_array(sparse.vstack(list(row_blocks(rows)), format="csr")), X)
    np.testing.assert_array_equal(column_counts(rows), np.bincount(X.indices, minlength=n_columns))
    assert fingerprint(rows) == fingerprint(X)
    checked = check_matrix(rows, "rows")
    assert np.shares_memory(checked.data, rows.data) == (X.nnz > 0)
    assert np.shares_memory(checked.indices, rows.indices) == (X.nnz > 0)


def test_the_fingerprint_follows_the_content(tmp_path):
    X = texts(0, 30, 9)
    changed = X.copy()
    changed.data[3] += 1
    prints = {fingerprint(write_rows(tmp_path / str(i), [Y], n_columns=9)) for i, Y in enumerate((X, changed, X[::-1]))}
    assert len(prints) == 3


def test_values_are_made_canonical(tmp_path):
    ragged = sparse.csr_array(([1.0, 2.0, 4.0], [2, 0, 2], [0, 3]), shape=(1, 3))  # unsorted, and one column twice
    rows = write_rows(tmp_path / "rows", [ragged, [[0, 1, 0]]], n_columns=3)
    assert rows.toarray().tolist() == [[2, 0, 5], [0, 1, 0]]
    assert rows[[0]].indices.tolist() == [0, 2]


def arrays_with_ids(folder: Path, ids: list[str], cut: int) -> dict[str, np.ndarray]:
    X = texts(2, len(ids), 5)
    with spooling(folder) as new_file:
        spool = RowSpool(new_file, 5, with_ids=True)
        spool.add(X[:cut], ids[:cut])
        spool.add(X[cut:], ids[cut:])
        return spool.arrays()


def test_ids_are_found_without_a_dictionary(tmp_path):
    ids = [f"doc {i} é" for i in range(200)]
    found = PackedIds.from_arrays(arrays_with_ids(tmp_path, ids, 150), 200, "", verify=True)
    assert list(found) == ids
    assert found[177] == ids[177]
    assert found.find("doc 34 é") == 34
    assert found.find("doc 34") is None
    np.testing.assert_array_equal(found.get_many([ids[199], "?", ids[0], ids[0]]), [199, -1, 0, 0])
    np.testing.assert_array_equal(PackedIds.pack([]).get_many(["a"]), [-1])
    assert not list(tmp_path.iterdir())  # the files have no names


def test_a_repeated_id_is_refused(tmp_path):
    with pytest.raises(InputError, match="'c' belongs to row 2 and to row 9"):
        arrays_with_ids(tmp_path, [*"abcdefghi", "c"], 4)


def test_ids_with_one_hash_are_told_apart(tmp_path, monkeypatch):
    for module in (stored_rows, strings):
        monkeypatch.setattr(module, "hash_of", lambda each: len(each))
    names = ["a", "b", "cc", "d", "e", "ff", "f", "g"]
    ids = PackedIds.from_arrays(arrays_with_ids(tmp_path, names, 4), 8, "", verify=True)
    asked = ["g", "cc", "ff", "a", "h", "iii"]
    assert [ids.find(name) for name in asked] == [7, 2, 5, 0, None, None]
    assert ids.get_many(asked).tolist() == [7, 2, 5, 0, -1, -1]


# -- wrong use, damage and kills --------------------------------------------------------------------------------------


def test_wrong_blocks_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="from row 2 on has 4 columns; expected 3"):
        write_rows(tmp_path / "a", [np.eye(2, 3), np.eye(2, 4)], n_columns=3)
    with pytest.raises(InputError, match=r"on\[0, 1\] is nan"):
        write_rows(tmp_path / "b", [[[1.0, np.nan]]], n_columns=2)
    with pytest.raises(InputError, match="no row to write"):
        write_rows(tmp_path / "c", [], n_columns=2)
    monkeypatch.setattr(stored_rows, "MOST_ROWS", 3)
    with pytest.raises(InputError, match="from row 2 on would make more than 3 rows"):
        write_rows(tmp_path / "rows", [np.eye(2), np.eye(2)], n_columns=2)
    with pytest.raises(InputError, match="n_columns is 0"):
        write_rows(tmp_path / "d", [], n_columns=0)
    assert not list(tmp_path.iterdir())


def test_rows_are_written_once_and_into_no_foreign_folder(tmp_path):
    write_rows(tmp_path / "rows", [np.eye(2)], n_columns=2)
    with pytest.raises(BundleError, match="holds something already"):
        write_rows(tmp_path / "rows", [np.eye(2)], n_columns=2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BundleError, match="not a Tercet bundle"):
        write_rows(tmp_path / "mine", [np.eye(2)], n_columns=2)


def test_an_error_or_a_kill_leaves_nothing(tmp_path):
    def blocks(error: bool = True):
        yield np.eye(50, dtype=np.float32)
        if error:
            raise ZeroDivisionError
        (tmp_path / "sign").touch()
        yield from itertools.repeat(np.eye(50, dtype=np.float32), 10**6)

    with pytest.raises(ZeroDivisionError):
        write_rows(tmp_path / "rows", blocks(), n_columns=50)
    kill_while(lambda: write_rows(tmp_path / "rows", blocks(False), n_columns=50), (tmp_path / "sign").exists)
    assert [path.name for path in tmp_path.iterdir()] == ["sign"]
    with pytest.raises(MissingBundleError):
        open_rows(tmp_path / "rows")


@pytest.mark.slow
def test_no_flipped_byte_is_opened(tmp_path):
    """Every file in turn, every byte of small files and every 23rd of larger ones."""
    write_rows(tmp_path / "rows", [texts(0, 60, 9)], n_columns=9)
    n_flips = 0
    for file in sorted((tmp_path / "rows").iterdir()):
        content = file.read_bytes()
        for position in range(0, len(content), 1 if len(content) < 300 else 23):
            flipped = bytearray(content)
            flipped[position] ^= 1 << (position % 8)
            file.write_bytes(flipped)
            n_flips += 1
            with pytest.raises(BundleError):
                open_rows(tmp_path / "rows")
        file.write_bytes(content)
    assert n_flips > 60
    assert same(open_rows(tmp_path / "rows"), texts(0, 60, 9))


def test_damage_is_an_error_that_names_the_file_or_goes_unnoticed_as_asked(tmp_path):
    X = texts(0, 40, 9)
    write_rows(tmp_path / "rows", [X], n_columns=9)
    file = arrays_file(tmp_path / "rows")
    content = bytearray(file.read_bytes())
    content[8 + int.from_bytes(content[:8], "little")] ^= 1  # of the first value
    file.write_bytes(content)
    with pytest.raises(DamagedBundleError, match=rf"{file.name}.* SHA-256 differs"):
        open_rows(tmp_path / "rows")
    assert open_rows(tmp_path / "rows", verify="never").shape == X.shape
    with pytest.raises(InputError, match='verify is True; expected "open" or "never"'):
        open_rows(tmp_path / "rows", verify=True)


@pytest.mark.parametrize(
    ("name", "at", "value", "match"),
    [
        ("indices", 0, 9, "columns that are not from 0 to 8, from row 0"),
        ("indices", 0, -1, "columns that are not from 0 to 8"),
        ("indices", 1, 0, "not in ascending order"),
        ("indptr", 1, 10**6, "row pointers that do not rise"),
        ("indptr", -1, 10**6, "row pointers that do not rise"),
        ("data", 5, np.nan, "not finite"),
    ],
)
def test_a_forged_file_leads_no_kernel_out_of_its_arrays(tmp_path, name, at, value, match):
    folder = tmp_path / "rows"
    write_rows(folder, [texts(0, 40, 9, density=0.5)], n_columns=9)
    bundle = read_bundle(folder)
    arrays = {key: array.copy() for key, array in bundle.arrays.items()}
    arrays[name][at] = value
    write_bundle(folder, kind=bundle.kind, meta=bundle.meta, arrays=arrays)
    with pytest.raises(DamagedBundleError, match=match):
        open_rows(folder)
    if value in (9, -1):  # whoever does not look is told when he learns from it
        with pytest.raises(InputError, match="in none of its 9 columns"):
            check_matrix(open_rows(folder, verify="never"), "D")


def test_a_memmap_of_ones_own_is_mapped_too(tmp_path):
    X = texts(0, 40, 9)
    X.data.tofile(tmp_path / "data")
    own = sparse.csr_array((np.memmap(tmp_path / "data", np.float32, "r"), X.indices, X.indptr), shape=X.shape)
    assert is_mapped(own.data)
    assert is_mapped(check_matrix(own, "X").data)
