"""IDX files, the format of MNIST: a short header, then a dense array."""

from __future__ import annotations

import math
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet.data.lines import FilePath, open_bytes
from tercet.errors import FormatError

# Third byte of the file -> element type; the format is big-endian.
IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
LARGEST_ARRAY = 1 << 32
MOST_DIMENSIONS = 8
_CHUNK = 1 << 20


def read_idx(path: FilePath, max_bytes: int = LARGEST_ARRAY) -> NDArray[np.generic]:
    """Read an IDX file into an array of the machine's byte order.

    Parameters
    ----------
    path : the file, gzipped or not
    max_bytes : a header that promises a larger array is refused; memory is taken only as bytes arrive

    Returns
    -------
    ndarray of the shape and type the header gives

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "labels")
    ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(file)
    array([7, 2, 1], dtype=uint8)
    """
    with open_bytes(path) as stream:
        start = stream.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in IDX_TYPES:
            found = start.hex(" ") or "nothing"
            message = f"begins with {found}; an IDX file begins with 00 00 and a type, 08 to 0e"
            raise FormatError(path, None, message)
        n_dimensions = start[3]
        if not 1 <= n_dimensions <= MOST_DIMENSIONS:
            message = f"the header gives {n_dimensions} dimensions; 1 to {MOST_DIMENSIONS} are possible"
            raise FormatError(path, None, message)
        sizes = stream.read(4 * n_dimensions)
        if len(sizes) < 4 * n_dimensions:
            raise FormatError(path, None, f"the file ends inside its header of {n_dimensions} dimensions")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        kind = np.dtype(IDX_TYPES[start[2]])
        expected = math.prod(shape) * kind.itemsize
        promise = f"the header promises {' x '.join(map(str, shape))} of {kind.itemsize} bytes, {expected} in all"
        if expected > max_bytes:
            raise FormatError(path, None, f"{promise}; at most {max_bytes} are taken")
        content = _read_up_to(stream, expected + 1)
    if len(content) != expected:
        found = f"{len(content)}" if len(content) < expected else "more"
        raise FormatError(path, None, f"{promise}; the file holds {found}")
    return np.frombuffer(content, kind).astype(kind.newbyteorder("=")).reshape(shape)


def _read_up_to(stream: BinaryIO, count: int) -> bytes:
    # In pieces, because one read of `count` bytes may set all of them aside before any arrives.
    pieces: list[bytes] = []
    while count > 0:
        piece = stream.read(min(count, _CHUNK))
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def read_mnist(
    folder: FilePath,
) -> tuple[sparse.csr_matrix, NDArray[np.int64], sparse.csr_matrix, NDArray[np.int64]]:
    """Read the four files of MNIST, or of a set in its form.

    Parameters
    ----------
    folder : holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two with ``t10k``,
        each plain or with ``.gz``

    Returns
    -------
    X_train, y_train, X_test, y_test : X is CSR float32, one row an image, pixels from 0 to 1 and no further
        normalised; y is the digit. Takes a second for MNIST itself.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "t10k"):
    ...         images = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255])
    ...         _ = pathlib.Path(folder, f"{part}-images-idx3-ubyte").write_bytes(images)
    ...         labels = bytes([0, 0, 8, 1, 0, 0, 0, 1, 4])
    ...         _ = pathlib.Path(folder, f"{part}-labels-idx1-ubyte").write_bytes(labels)
    ...     X_train, y_train, X_test, y_test = read_mnist(folder)
    >>> X_train.toarray(), y_train
    (array([[0., 1.]], dtype=float32), array([4]))
    """
    root = Path(folder)
    if not root.is_dir():
        raise FormatError(folder, None, "there is no such folder; MNIST is a folder of four files")
    X_train, y_train = _images_and_labels(root, "train")
    X_test, y_test = _images_and_labels(root, "t10k")
    if X_train.shape[1] != X_test.shape[1]:
        found = f"{X_train.shape[1]} and {X_test.shape[1]}"
        raise FormatError(folder, None, f"train and t10k images have {found} pixels; they must be alike")
    return X_train, y_train, X_test, y_test


def _images_and_labels(folder: Path, part: str) -> tuple[sparse.csr_matrix, NDArray[np.int64]]:
    image_file = mnist_file(folder, part, "images", 3)
    label_file = mnist_file(folder, part, "labels", 1)
    images, labels = read_idx(image_file), read_idx(label_file)
    for file, array, n_dimensions in ((image_file, images, 3), (label_file, labels, 1)):
        if array.dtype != np.uint8 or array.ndim != n_dimensions or not array.size:
            found = f"{array.ndim} dimensions of {array.dtype} and size {array.size}"
            raise FormatError(file, None, f"found {found}; {n_dimensions} of uint8, not empty, are needed")
    if len(images) != len(labels):
        raise FormatError(label_file, None, f"{len(labels)} labels for {len(images)} images; one each is needed")
    return _pixels_to_csr(images.reshape(len(images), -1)), labels.astype(np.int64)


def mnist_file(folder: Path, part: str, what: str, n_dimensions: int) -> Path:
    """Return the file for a part ("train", "t10k") and a content ("images", "labels"); none is an error."""
    names = [f"{part}-{what}{joint}idx{n_dimensions}-ubyte{end}" for joint in "-." for end in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise FormatError(folder / names[0], None, "there is no such file, nor with .gz; MNIST has four files")


def _pixels_to_csr(pixels: NDArray[np.generic]) -> sparse.csr_matrix:
    n_rows, n_columns = pixels.shape
    places = np.flatnonzero(pixels)
    data = pixels.ravel()[places].astype(np.float32) / np.float32(255)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(pixels, axis=1))])
    indices = (places % n_columns).astype(np.int32)
    return sparse.csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))
