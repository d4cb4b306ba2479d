"""MNIST, or a set in its form: four IDX files, each a short header and then a dense array of bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reproductions.readers.files import read_bytes
from tercet.errors import FormatError


def read_mnist(folder: str | Path) -> tuple[sparse.csr_array, NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
    """Read ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two with ``t10k``, plain or ``.gz``.

    Returns
    -------
    X_train, y_train, X_test, y_test : X is CSR float32, one row an image, pixels from 0 to 1
    """
    X_train, y_train = _images_and_labels(Path(folder), "train")
    X_test, y_test = _images_and_labels(Path(folder), "t10k")
    if X_train.shape[1] != X_test.shape[1]:
        message = f"images have {X_train.shape[1]} and {X_test.shape[1]} pixels; they must be alike"
        raise FormatError(folder, None, message)
    return X_train, y_train, X_test, y_test


def _images_and_labels(folder: Path, part: str) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    images, labels = _read_array(folder, f"{part}-images", 3), _read_array(folder, f"{part}-labels", 1)
    if len(images) != len(labels):
        raise FormatError(folder, None, f"{len(labels)} {part} labels for {len(images)} images; one each is needed")
    X = sparse.csr_array(images.reshape(len(images), -1).astype(np.float32))
    X.data /= np.float32(255)
    return X, labels.astype(np.int64)


def _read_array(folder: Path, name: str, n_dimensions: int) -> NDArray[np.uint8]:
    """The array of an IDX file; its type is 08, unsigned bytes."""
    names = [f"{name}{joint}idx{n_dimensions}-ubyte{end}" for joint in "-." for end in ("", ".gz")]
    path = next((folder / each for each in names if (folder / each).is_file()), None)
    if path is None:
        raise FormatError(folder / names[0], None, "there is no such file, nor with .gz; MNIST has four files")
    content = read_bytes(path)
    start = 4 + 4 * n_dimensions
    if content[:4] != bytes([0, 0, 8, n_dimensions]) or len(content) < start:
        message = f"begins with {content[:4].hex(' ')!r}; an IDX file of bytes in {n_dimensions} dimensions is needed"
        raise FormatError(path, None, message)
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], ">u4"))
    if len(content) - start != math.prod(shape):
        raise FormatError(path, None, f"the header promises {math.prod(shape)} bytes; {len(content) - start} are there")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
