"""MNIST, or a set in its form: four IDX files, each a short header and then a dense array of bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.lines import FilePath, open_bytes
from tercet.errors import FormatError

LARGEST_ARRAY = 1 << 28  # bytes; MNIST's largest has 47 million


def read_mnist(folder: FilePath) -> tuple[sparse.csr_array, NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]:
    """Read ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two with ``t10k``, plain or ``.gz``.

    Returns
    -------
    X_train, y_train, X_test, y_test : X is CSR float32, one row an image, pixels from 0 to 1 and no further
        normalised; y is the digit. Takes a second for MNIST itself.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for part in ("train", "t10k"):
    ...         images = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255])
    ...         _ = Path(name, f"{part}-images-idx3-ubyte").write_bytes(images)
    ...         _ = Path(name, f"{part}-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 4]))
    ...     X_train, y_train, X_test, y_test = read_mnist(name)
    >>> X_train.toarray(), y_train
    (array([[0., 1.]], dtype=float32), array([4]))
    """
    if not Path(folder).is_dir():
        raise FormatError(folder, None, "there is no such folder; MNIST is a folder of four files")
    X_train, y_train = _images_and_labels(Path(folder), "train")
    X_test, y_test = _images_and_labels(Path(folder), "t10k")
    if X_train.shape[1] != X_test.shape[1]:
        n_pixels = f"{X_train.shape[1]} and {X_test.shape[1]}"
        raise FormatError(folder, None, f"train and t10k images have {n_pixels} pixels; they must be alike")
    return X_train, y_train, X_test, y_test


def _images_and_labels(folder: Path, part: str) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    label_file = _file(folder, part, "labels", 1)
    images, labels = _read_bytes(_file(folder, part, "images", 3), 3), _read_bytes(label_file, 1)
    if len(images) != len(labels):
        raise FormatError(label_file, None, f"{len(labels)} labels for {len(images)} images; one each is needed")
    X = sparse.csr_array(images.reshape(len(images), -1).astype(np.float32))
    X.data /= np.float32(255)
    return X, labels.astype(np.int64)


def _file(folder: Path, part: str, content: str, n_dimensions: int) -> Path:
    names = [f"{part}-{content}{joint}idx{n_dimensions}-ubyte{end}" for joint in "-." for end in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FormatError(folder / names[0], None, "there is no such file, nor with .gz; MNIST has four files")


def _read_bytes(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """The array of an IDX file; its type is 08, unsigned bytes."""
    with open_bytes(path) as stream:
        start = stream.read(4)
        if start != bytes([0, 0, 8, n_dimensions]):
            needed = f"00 00 08 {n_dimensions:02x}, an IDX file of bytes in {n_dimensions} dimensions, is needed"
            raise FormatError(path, None, f"begins with {start.hex(' ') or 'nothing'}; {needed}")
        sizes = stream.read(4 * n_dimensions)
        if len(sizes) < 4 * n_dimensions:
            raise FormatError(path, None, f"the file ends inside its header of {n_dimensions} dimensions")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        n_bytes = math.prod(shape)
        promise = f"the header promises {' x '.join(map(str, shape))} bytes, {n_bytes} in all"
        if not 1 <= n_bytes <= LARGEST_ARRAY:
            raise FormatError(path, None, f"{promise}; 1 to {LARGEST_ARRAY} are taken")
        content = stream.read(n_bytes + 1)
    if len(content) != n_bytes:
        held = f"{len(content)}" if len(content) < n_bytes else "more"
        raise FormatError(path, None, f"{promise}; the file holds {held}")
    return np.frombuffer(content, np.uint8).reshape(shape)
