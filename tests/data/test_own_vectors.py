"""Own vectors by id: what is read is what was written, and what is wrong is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tercet as tc
from tercet.data import OwnVectors, as_own_vectors, limits, read_own_vectors
from tercet.data.own_vectors import read_vector
from tercet.errors import FormatError, InputError


@given(st.lists(st.text("abc0é ", min_size=1).map(str.strip).filter(bool), unique=True, min_size=1), st.integers(1, 4))
def test_files_give_back_what_was_written(tmp_path_factory, ids, n_dims):
    folder = tmp_path_factory.mktemp("vectors")
    matrix = np.random.default_rng(len(ids)).normal(size=(len(ids), n_dims)).astype(np.float32)
    np.savez(folder / "v.npz", ids=np.array(ids), vectors=matrix)
    np.save(folder / "v.npy", matrix)
    (folder / "v.ids").write_text("".join(f"{one}\n" for one in ids), encoding="utf-8")
    for name in ("v.npz", "v.npy"):
        vectors = read_own_vectors(folder / name)
        assert vectors.ids == tuple(ids)
        assert np.array_equal(vectors.take(reversed(ids)), matrix[::-1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": np.array(["a"]), "vectors": np.zeros((2, 3))}, "1 ids for 2 vectors; they must agree"),
        ({"ids": np.array(["a", "a"]), "vectors": np.zeros((2, 3))}, "'a' has two vectors, 0 and 1; expected one"),
        ({"ids": np.array(["a"]), "vectors": np.array([[np.nan]])}, "vector of 'a' has numbers that are not finite"),
        ({"ids": np.array(["a"]), "vectors": np.array([[1e60]])}, "not finite in float32"),
        ({"ids": np.array(["a"]), "vectors": np.zeros(3)}, r"shape \(3,\); expected a matrix of real numbers"),
        ({"ids": np.array(["a"]), "vectors": np.array([["x"]])}, "expected a matrix of real numbers"),
        ({"ids": np.array([1]), "vectors": np.zeros((1, 3))}, "its ids are int64 of shape .*; expected a list of str"),
        ({"vectors": np.zeros((1, 3))}, "holds vectors; expected the arrays ids and vectors"),
        ({"ids": np.array([None]), "vectors": np.zeros((1, 3))}, "no NumPy file of numbers and strings"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(tmp_path, arrays, message):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(FormatError, match=message) as error:
        read_own_vectors(tmp_path / "v.npz")
    assert str(tmp_path / "v.npz") in str(error.value)


def test_an_array_without_ids_is_refused_and_says_where_they_belong(tmp_path):
    np.save(tmp_path / "d.npy", np.zeros((2, 2)))
    with pytest.raises(FormatError, match=r"expected .*d\.ids, an id a line"):
        read_own_vectors(tmp_path / "d.npy")


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"PK\x03\x04 what", b"1,2,3\n"])
def test_damaged_files_are_refused(tmp_path, damage):
    (tmp_path / "d.npy").write_bytes(damage)
    with pytest.raises(FormatError, match="no NumPy file"):
        read_own_vectors(tmp_path / "d.npy")
    with pytest.raises(FormatError, match="no such file"):
        read_own_vectors(tmp_path / "e.npy")


def test_files_that_claim_more_than_they_have_are_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "d.npy", np.zeros((2, 2)))
    lies = (tmp_path / "d.npy").read_bytes().replace(b"(2, 2), }          ", b"(2, 200000000000), }")[: 128 + 32]
    (tmp_path / "d.npy").write_bytes(lies)
    with pytest.raises(FormatError, match="no NumPy file"):
        read_own_vectors(tmp_path / "d.npy")
    np.savez_compressed(tmp_path / "d.npz", ids=np.array(["a"]), vectors=np.zeros((1, 100_000)))
    monkeypatch.setattr(limits, "ALWAYS_UNPACKED", 1000)
    with pytest.raises(FormatError, match="unpacks to more than 100 times as many"):
        read_own_vectors(tmp_path / "d.npz")


def test_one_vector(tmp_path):
    np.save(tmp_path / "q.npy", np.arange(3.0)[None])
    assert read_vector(tmp_path / "q.npy").tolist() == [0, 1, 2]
    np.save(tmp_path / "q.npy", np.zeros((2, 2)))
    with pytest.raises(FormatError, match="one row of numbers"):
        read_vector(tmp_path / "q.npy")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ({}, "doc_vectors: there are none"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "that of 'b' has 2 numbers, those before it have 1"),
        ({"a": "xyz"}, "that of 'a' is no list of numbers"),
        ([[1.0]], "must be id -> vector, or a pair of ids and a matrix; got list"),
        (("ab", [[1.0]]), "the first of a pair are ids; got str"),
        ((["a", ""], [[1.0], [2.0]]), "the id of vector 1"),
        ((["a", "b"], [[1.0, 2.0], [3.0]]), "doc_vectors: .*inhomogeneous"),
        ({"a": [[1.0], [2.0, 3.0]]}, "doc_vectors: .*inhomogeneous"),
    ],
)
def test_what_is_wrong_in_memory_is_said(vectors, message):
    with pytest.raises(InputError, match=message):
        as_own_vectors(vectors, "doc_vectors")


def test_documents_keep_their_vectors_in_order_and_those_of_others_are_left_out():
    docs = tc.as_documents({"a": "tea", "b": "cocoa"})
    own = docs.with_vectors((["c", "b", "a"], [[0, 0], [0, 1], [1, 0]]))
    assert own.vectors.tolist() == [[1, 0], [0, 1]]
    assert own.part(["b"]).vectors.tolist() == [[0, 1]]
    assert docs.vectors is None
    assert docs.part(["b"]).vectors is None
    with pytest.raises(InputError, match="document 'b' has no vector among the 1 that were given"):
        docs.with_vectors({"a": [1.0]})


def test_vectors_are_not_changed_under_a_reader():
    matrix = np.ones((1, 2))
    vectors = OwnVectors(("a",), matrix)
    matrix[:] = 5
    assert vectors.take(["a"]).tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        vectors.matrix[0, 0] = 3
