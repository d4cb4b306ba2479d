"""Rows on disk: what is written is what is read, in any order, and nothing half written is taken for a whole."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st
from scipy import sparse

from support.forking import kill_while
from tercet.data import mapped_rows, shards, stored_ids
from tercet.data.shards import MappedRows, ShardWriter, write_shards
from tercet.errors import BundleError, DamagedBundleError, InputError, MissingBundleError
from tercet.store import block_sums, read_bundle, strings, write_bundle


def texts(seed: int, n: int, n_columns: int, density: float = 0.2) -> sparse.csr_array:
    found = sparse.random_array(
        (n, n_columns), density=density, format="csr", dtype=np.float32, rng=np.random.default_rng(seed)
    )
    return sparse.csr_array(found)


def same(found: sparse.csr_array, expected: sparse.csr_array) -> bool:
    return (
        found.shape == expected.shape
        and found.dtype == expected.dtype == np.float32
        and found.has_canonical_format
        and np.array_equal(found.indptr, expected.indptr)
        and np.array_equal(found.indices, expected.indices)
        and np.array_equal(found.data, expected.data)
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 20),
    n_columns=st.integers(1, 20),
    cuts=st.lists(st.integers(0, 20), max_size=3),
    shard_entries=st.sampled_from([1, 7, 1000]),
    shard_rows=st.sampled_from([1, 3, 1000]),
)
def test_rows_come_back_in_any_order(tmp_path, seed, n, n_columns, cuts, shard_entries, shard_rows):
    X = texts(seed, n, n_columns)
    edges = [0, *sorted(min(cut, n) for cut in cuts), n]
    folder = tmp_path / "rows"
    shutil.rmtree(folder, ignore_errors=True)
    with ShardWriter(folder, n_columns=n_columns, shard_rows=shard_rows, shard_entries=shard_entries) as writer:
        for start, stop in itertools.pairwise(edges):
            writer.add(X[start:stop])
        assert (writer.n_rows, writer.n_entries) == (n, X.nnz)
    rows = MappedRows.open(folder, verify="open")
    assert rows.shape == X.shape
    assert len(rows) == n
    assert rows.n_entries == X.nnz
    assert rows.path == folder
    assert rows.longest == np.diff(X.indptr).max()
    asked = np.random.default_rng(seed).integers(0, n, 2 * n)
    assert same(rows.rows(asked), X[asked])
    assert same(rows.rows(np.arange(n)), X)
    assert rows.rows([]).shape == (0, n_columns)
    assert same(sparse.csr_array(sparse.vstack(list(rows.blocks()), format="csr")), X)
    np.testing.assert_array_equal(rows.column_counts(), np.bincount(X.indices, minlength=n_columns))
    assert rows.column_counts().dtype == np.int64


def test_shards_and_blocks_do_not_change_the_fingerprint_but_content_does(tmp_path):
    X = texts(0, 30, 9)
    one = write_shards(tmp_path / "one", [X], n_columns=9).fingerprint()
    many = write_shards(tmp_path / "many", [X[:11], X[11:12], X[12:]], n_columns=9, shard_entries=5)
    assert many.n_shards > 5
    assert many.fingerprint() == one == MappedRows.open(tmp_path / "many").fingerprint()
    changed = X.copy()
    changed.data[3] += 1
    assert write_shards(tmp_path / "value", [changed], n_columns=9).fingerprint() != one
    assert write_shards(tmp_path / "order", [X[::-1]], n_columns=9).fingerprint() != one


def test_blocks_have_no_more_than_so_many_entries(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_rows, "BLOCK_ENTRIES", 20)
    X = texts(1, 50, 9)
    sizes = [block.nnz for block in write_shards(tmp_path / "rows", [X], n_columns=9).blocks()]
    assert len(sizes) > 3
    assert max(sizes) < 20 + 9
    assert sum(sizes) == X.nnz


def test_values_are_made_canonical(tmp_path):
    ragged = sparse.csr_array(([1.0, 2.0, 4.0], [2, 0, 2], [0, 3]), shape=(1, 3))  # unsorted, and one column twice
    rows = write_shards(tmp_path / "rows", [ragged, [[0, 1, 0]]], n_columns=3)
    assert rows.rows([0, 1]).toarray().tolist() == [[2, 0, 5], [0, 1, 0]]
    assert rows.rows([0]).indices.tolist() == [0, 2]


@pytest.mark.slow
@pytest.mark.parametrize("ids_a_part", [1, 30, 1000])
def test_ids_are_found_without_a_dictionary(tmp_path, monkeypatch, ids_a_part):
    monkeypatch.setattr(stored_ids, "IDS_A_PART", ids_a_part)
    monkeypatch.setattr(stored_ids, "MOST_MAPPED", 3)
    ids = [f"doc {i} é" for i in range(200)]
    with ShardWriter(tmp_path / "rows", n_columns=5, with_ids=True, shard_rows=33) as writer:
        writer.add(texts(2, 150, 5), ids[:150])
        writer.add(texts(3, 50, 5), ids[150:])
    found = MappedRows.open(tmp_path / "rows", verify="open").ids
    assert list(found) == ids
    assert len(found) == 200
    assert found[177] == ids[177]
    assert found.find("doc 34 é") == 34
    assert found.find("doc 34") is None
    assert found.many([3, 199, 3]) == [ids[3], ids[199], ids[3]]
    np.testing.assert_array_equal(found.get_many([ids[199], "?", ids[0], ids[0]]), [199, -1, 0, 0])
    with pytest.raises(IndexError):
        found[200]
    assert write_shards(tmp_path / "without", [texts(2, 3, 5)], n_columns=5).ids is None


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_a_repeated_id_is_refused_wherever_it_is(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(stored_ids, "IDS_A_PART", at_once)
    writer = ShardWriter(tmp_path / "rows", n_columns=5, with_ids=True, shard_rows=4)
    writer.add(texts(2, 10, 5), [*"abcdefghi", "c"])
    with pytest.raises(InputError, match="'c' belongs to row 2 and to row 9"):
        writer.close()
    with pytest.raises(MissingBundleError):
        MappedRows.open(tmp_path / "rows")


def test_ids_with_one_hash_are_told_apart(tmp_path, monkeypatch):
    for module in (stored_ids, strings):
        monkeypatch.setattr(module, "hash_of", lambda each: len(each))
    with ShardWriter(tmp_path / "rows", n_columns=5, with_ids=True, shard_rows=4) as writer:
        writer.add(texts(2, 8, 5), ["a", "b", "cc", "d", "e", "ff", "f", "g"])
    ids = MappedRows.open(tmp_path / "rows").ids
    assert [ids.find(name) for name in ("g", "cc", "ff", "a", "h", "iii")] == [7, 2, 5, 0, None, None]


# -- wrong use ------------------------------------------------------------------------------------------------------


def test_wrong_rows_are_refused(tmp_path):
    rows = write_shards(tmp_path / "rows", [texts(0, 4, 3)], n_columns=3)
    with pytest.raises(InputError, match="row 4 was asked for at place 1; there are 4 rows"):
        rows.rows([0, 4])
    with pytest.raises(InputError, match="row -1"):
        rows.rows([-1])
    with pytest.raises(InputError, match="float64"):
        rows.rows([0.5])


def test_wrong_blocks_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="from row 2 on has 4 columns; expected 3"):
        write_shards(tmp_path / "a", [np.eye(2, 3), np.eye(2, 4)], n_columns=3)
    with pytest.raises(InputError, match=r"on\[0, 1\] is nan"):
        write_shards(tmp_path / "b", [[[1.0, np.nan]]], n_columns=2)
    with pytest.raises(InputError, match="no row was written"):
        write_shards(tmp_path / "c", [], n_columns=2)
    monkeypatch.setattr(shards, "MOST_ROWS", 3)
    with pytest.raises(InputError, match="from row 2 on would make more than 3 rows"):
        write_shards(tmp_path / "rows", [np.eye(2), np.eye(2)], n_columns=2)
    with pytest.raises(InputError, match="n_columns is 0"):
        write_shards(tmp_path / "d", [], n_columns=0)
    with pytest.raises(InputError, match="at least 1 row"):
        ShardWriter(tmp_path / "d", n_columns=3, shard_entries=0)
    writer = ShardWriter(tmp_path / "e", n_columns=3, with_ids=True)
    with pytest.raises(InputError, match="2 rows and 1 ids"):
        writer.add(np.eye(2, 3), ["a"])
    with pytest.raises(InputError, match="for all rows or for none"):
        writer.add(np.eye(2, 3))
    writer.add(np.eye(2, 3), ["a", "b"])
    writer.close()
    with pytest.raises(InputError, match="is complete"):
        writer.add(np.eye(2, 3), ["c", "d"])
    with pytest.raises(InputError, match="complete already"):
        writer.close()


def test_rows_are_written_once_and_into_no_foreign_folder(tmp_path):
    write_shards(tmp_path / "rows", [np.eye(2)], n_columns=2)
    with pytest.raises(BundleError, match="holds rows already"):
        ShardWriter(tmp_path / "rows", n_columns=2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BundleError, match="not a Tercet bundle"):
        ShardWriter(tmp_path / "mine", n_columns=2)


# -- damage and kills -----------------------------------------------------------------------------------------------


def test_what_an_error_leaves_is_no_rows_and_may_be_written_over(tmp_path):
    X = texts(0, 40, 9)

    def blocks():
        yield X
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_shards(tmp_path / "rows", blocks(), n_columns=9, shard_entries=5)
    assert len(list((tmp_path / "rows").glob("shard-*"))) > 3
    with pytest.raises(MissingBundleError):
        MappedRows.open(tmp_path / "rows")
    rows = write_shards(tmp_path / "rows", [X[:3]], n_columns=9)
    assert same(rows.rows(np.arange(3)), X[:3])
    assert len(list((tmp_path / "rows").glob("shard-*"))) == 1


def test_a_killed_writer_leaves_no_rows(tmp_path):
    blocks = itertools.repeat(np.eye(50, dtype=np.float32), 10**6)
    kill_while(
        lambda: write_shards(tmp_path / "rows", blocks, n_columns=50, shard_entries=100),
        (tmp_path / "rows" / "shard-000009").exists,
    )
    with pytest.raises(MissingBundleError):
        MappedRows.open(tmp_path / "rows")
    assert len(write_shards(tmp_path / "rows", [np.eye(3)], n_columns=3)) == 3


def damaged(folder: Path, shard: int, name: str, at: int, value: int) -> None:
    """Change one number of a shard, so that its own seal holds."""
    path = folder / f"shard-{shard:06d}"
    bundle = read_bundle(path)
    arrays = {key: array.copy() for key, array in bundle.arrays.items()}
    arrays[name][at] = value
    write_bundle(path, kind=bundle.kind, meta=bundle.meta, arrays=arrays, by_block=True)


def test_a_changed_byte_is_found_where_it_is_looked_at(tmp_path):
    folder, X = tmp_path / "rows", texts(0, 40, 9)
    write_shards(folder, [X], n_columns=9, shard_entries=20)
    [file] = (folder / "shard-000001").glob("arrays*")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    rows = MappedRows.open(folder)
    assert same(rows.rows([0]), X[[0]])
    with pytest.raises(DamagedBundleError, match=r"shard-000001.* other bytes than were written"):
        rows.rows(np.arange(40))
    with pytest.raises(DamagedBundleError, match=r"shard-000001.* other bytes than were written"):
        list(rows.blocks())
    assert not same(MappedRows.open(folder, verify="never").rows(np.arange(40)), X)
    with pytest.raises(DamagedBundleError, match="SHA-256 differs"):
        MappedRows.open(folder, verify="open")
    with pytest.raises(InputError, match='verify is True; expected "open" or "touch" or "never"'):
        MappedRows.open(folder, verify=True)


def read_all(folder):
    """All there is to read in stored rows, the default way."""
    rows = MappedRows.open(folder)
    ids = list(rows.ids)
    found = rows.rows(np.arange(len(rows)))
    return (
        rows.shape,
        rows.fingerprint(),
        rows.column_counts().tobytes(),
        found.indptr.tobytes() + found.indices.tobytes() + found.data.tobytes(),
        ids,
        rows.ids.get_many([*ids, "?"]).tolist(),
    )


@pytest.mark.slow
def test_no_flipped_byte_gives_other_rows(tmp_path):
    """Every file in turn, every byte of small files and every 23rd of larger ones."""
    with ShardWriter(tmp_path / "rows", n_columns=9, with_ids=True, shard_entries=40) as writer:
        writer.add(texts(0, 20, 9), [f"text {i} é" for i in range(20)])
    expected, n_flips = read_all(tmp_path / "rows"), 0
    for file in sorted(path for path in (tmp_path / "rows").rglob("*") if path.is_file()):
        content = file.read_bytes()
        for position in range(0, len(content), 1 if len(content) < 300 else 23):
            flipped = bytearray(content)
            flipped[position] ^= 1 << (position % 8)
            file.write_bytes(flipped)
            n_flips += 1
            with pytest.raises(BundleError):
                assert read_all(tmp_path / "rows") != expected
        file.write_bytes(content)
    assert n_flips > 150
    assert read_all(tmp_path / "rows") == expected


@pytest.mark.slow
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=3), data=st.data())
def test_whatever_is_read_of_damaged_blocks_is_what_was_written(tmp_path, monkeypatch, flips, data):
    monkeypatch.setattr(block_sums, "BLOCK_BYTES", 1024)
    X = texts(5, 200, 60)
    folder = tmp_path / "rows"
    shutil.rmtree(folder, ignore_errors=True)
    write_shards(folder, [X], n_columns=60, shard_entries=1500)
    files = sorted(folder.glob("shard-*/arrays-*"))
    for position, change in flips:
        file = files[position % len(files)]
        content = bytearray(file.read_bytes())
        content[position % len(content)] ^= change
        file.write_bytes(content)
    rows, n_read = MappedRows.open(folder), 0
    for asked in data.draw(st.lists(st.lists(st.integers(0, 199), max_size=5), min_size=1, max_size=20)):
        try:
            found = rows.rows(np.array(asked, dtype=np.int64))
        except DamagedBundleError:
            continue
        assert same(found, X[asked])
        n_read += 1
    target(float(n_read))


def test_rows_without_checksums_by_block_are_checked_as_a_whole(tmp_path):
    """As they were written before there were any."""
    folder, X = tmp_path / "rows", texts(0, 40, 9)
    write_shards(folder, [X], n_columns=9)
    shard = read_bundle(folder / "shard-000000")
    manifest = read_bundle(folder)
    digest = write_bundle(shard.path, kind=shard.kind, meta=shard.meta, arrays=shard.arrays)
    arrays = manifest.arrays | {"digests": np.frombuffer(bytes.fromhex(digest), np.uint8).reshape(1, 32)}
    write_bundle(folder, kind=manifest.kind, meta=manifest.meta, arrays=arrays, siblings=["shard-000000"])
    assert same(MappedRows.open(folder).rows(np.arange(40)), X)
    [file] = shard.path.glob("arrays*")
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedBundleError, match="SHA-256 differs"):
        MappedRows.open(folder).rows([0])


@pytest.mark.parametrize("what", ["byte", "part"])
def test_damage_in_the_table_of_ids_is_found(tmp_path, what):
    folder = tmp_path / "rows"
    with ShardWriter(folder, n_columns=5, with_ids=True) as writer:
        writer.add(texts(2, 3, 5), ["a", "b", "c"])
    MappedRows.open(folder, verify="open")
    if what == "part":
        shutil.rmtree(folder / "ids-000000")
    else:
        [file] = (folder / "ids-000000").glob("arrays*")
        content = bytearray(file.read_bytes())
        content[-3] ^= 1  # of the last row
        file.write_bytes(content)
    rows = MappedRows.open(folder)
    with pytest.raises((DamagedBundleError, MissingBundleError), match="ids-000000"):
        rows.ids.get_many(["a", "b", "c"])
    with pytest.raises((DamagedBundleError, MissingBundleError), match="ids-000000"):
        MappedRows.open(folder, verify="open")


def test_another_shard_in_its_place_is_found(tmp_path):
    folder = tmp_path / "rows"
    write_shards(folder, [texts(0, 40, 9)], n_columns=9, shard_entries=20)
    damaged(folder, 1, "entries", 0, 3)
    rows = MappedRows.open(folder)
    rows.rows([0])
    with pytest.raises(DamagedBundleError, match="not the shard that its folder was completed with"):
        rows.rows(np.arange(40))
    shutil.rmtree(folder / "shard-000000")
    with pytest.raises(MissingBundleError):
        MappedRows.open(folder).rows([0])


def test_a_row_that_leads_out_of_the_arrays_is_never_followed(tmp_path, monkeypatch):
    folder = tmp_path / "rows"
    for name, at, value, match in (
        ("entries", 0, 9, "beyond column 8"),
        ("entries", 0, -1, "beyond column 8"),
        ("starts", 1, 10**6, "lead out"),
        ("starts", -1, 10**6, "lead out"),
    ):
        shutil.rmtree(folder, ignore_errors=True)
        rows = write_shards(folder, [texts(0, 40, 9, density=0.5)], n_columns=9)
        damaged(folder, 0, name, at, value)
        # As if the list of shards had been forged with it.
        bundle = read_bundle(folder / "shard-000000")
        rows = MappedRows.open(folder)
        rows._digests = np.frombuffer(bytes.fromhex(bundle.digest), np.uint8).reshape(1, 32)
        with pytest.raises(DamagedBundleError, match=match):
            rows.rows([0])


# -- memory ---------------------------------------------------------------------------------------------------------


def test_no_more_shards_are_mapped_than_are_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_rows, "MOST_MAPPED", 2)
    X = texts(0, 40, 9)
    rows = write_shards(tmp_path / "rows", [X], n_columns=9, shard_entries=5)
    assert rows.n_shards > 5
    asked = np.random.default_rng(0).permutation(40)
    assert same(rows.rows(asked), X[asked])
    assert rows._shard.cache_info().currsize == 2


FEW_FILES = """
import os, resource, sys
import numpy as np
from scipy import sparse
import tercet as tc
from tercet.data import stored_ids
from tercet.data.shards import MappedRows, ShardWriter

stored_ids.IDS_A_PART = 3
X = sparse.csr_array(np.eye(200, dtype=np.float32))
tc.DiagonalRanker().fit(X, tc.Preferences([0], [1], [2]))  # compiles
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
n_open = len(os.listdir("/dev/fd"))
with ShardWriter(sys.argv[1], n_columns=200, with_ids=True, shard_rows=1) as writer:
    writer.add(X, [str(i) for i in range(200)])
rows = MappedRows.open(sys.argv[1], verify="open")
assert rows.ids.get_many([str(i) for i in range(200)]).tolist() == list(range(200))
prefs = tc.Preferences(np.arange(198), np.arange(198) + 1, np.arange(198) + 2)
found, expected = (tc.DiagonalRanker().fit(texts, prefs).weights_.score(X, X) for texts in (rows, X))
assert np.array_equal(found, expected)
assert rows._shard.cache_info().currsize == 200
assert len(os.listdir("/dev/fd")) == n_open
"""


@pytest.mark.slow
def test_any_number_of_shards_is_mapped_with_few_open_files(tmp_path):
    command = [sys.executable, "-c", FEW_FILES, tmp_path / "rows"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_pages_are_given_back_when_enough_were_looked_at(tmp_path, monkeypatch):
    forgotten = []
    monkeypatch.setattr(mapped_rows, "forget_pages", lambda array: forgotten.append(array.nbytes))
    X = texts(0, 4000, 50)
    rows = write_shards(tmp_path / "rows", [X], n_columns=50, shard_entries=10_000)
    asked = np.random.default_rng(1).integers(0, 4000, 500)
    rows.rows(asked)
    assert not forgotten  # all of it may stay
    rows.kept_bytes = 100_000
    rows.rows(asked)
    assert len(forgotten) >= rows.n_shards - 1
    assert 0 < rows._seen_bytes == sum(n for _, n in rows._seen.values()) <= max(100_000, rows._shard(0).nbytes)
