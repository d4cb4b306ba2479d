"""Reader of MNIST: content, and errors of broken copies."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from reproductions.readers import read_mnist
from tercet.errors import FormatError

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def idx(array: np.ndarray) -> bytes:
    codes = {"u1": 8, "i4": 12}
    header = struct.pack(f">HBB{array.ndim}I", 0, codes[array.dtype.str[1:]], array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def mnist_files() -> dict[str, bytes]:
    return {
        "train-images-idx3-ubyte.gz": gzip.compress(idx(PIXELS)),
        "train-labels-idx1-ubyte": idx(np.array([5, 0], np.uint8)),
        "t10k-images.idx3-ubyte": idx(PIXELS[:1]),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(np.array([9], np.uint8))),
    }


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_mnist(tmp_path: Path) -> None:
    X_train, y_train, X_test, y_test = read_mnist(fill(tmp_path, mnist_files()))
    assert X_train.dtype == np.float32
    assert X_train.nnz == 23
    np.testing.assert_array_equal(X_train.toarray(), PIXELS.reshape(2, 12).astype(np.float32) / 255)
    np.testing.assert_array_equal(X_test.toarray(), PIXELS[:1].reshape(1, 12).astype(np.float32) / 255)
    assert (y_train.tolist(), y_test.tolist()) == ([5, 0], [9])
    assert X_train.has_canonical_format


LABELS = "train-labels-idx1-ubyte"
IMAGES = "t10k-images.idx3-ubyte"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({LABELS: None}, "train-labels-idx1-ubyte: there is no such file, nor with .gz"),
        ({LABELS: idx(np.zeros(3, np.uint8))}, "3 train labels for 2 images; one each"),
        ({LABELS: idx(PIXELS)}, "begins with '00 00 08 03'; an IDX file of bytes in 1 dimensions"),
        ({IMAGES: idx(PIXELS[:1, :2])}, "images have 12 and 8 pixels; they must be alike"),
        ({IMAGES: b""}, "begins with ''; an IDX file"),
        ({IMAGES: idx(PIXELS)[:9]}, "an IDX file of bytes in 3 dimensions is needed"),
        ({IMAGES: idx(PIXELS)[:-1]}, "the header promises 24 bytes; 23 are there"),
        ({IMAGES: gzip.compress(idx(PIXELS))[:-5]}, "the gzip data is damaged"),
    ],
)
def test_broken_mnist_folders(tmp_path: Path, changes: dict[str, bytes | None], message: str) -> None:
    merged = {**mnist_files(), **changes}
    fill(tmp_path, {name: content for name, content in merged.items() if content is not None})
    with pytest.raises(FormatError, match=message):
        read_mnist(tmp_path)
