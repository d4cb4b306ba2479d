"""A list of words as two arrays and back, with every check."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DamagedBundleError


def words_to_arrays(words: list[str]) -> dict[str, NDArray[Any]]:
    """The UTF-8 bytes of all words, and where each begins and the last one ends."""
    encoded = [word.encode("utf-8") for word in words]
    offsets = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum([len(word) for word in encoded], out=offsets[1:])
    return {"words": np.frombuffer(b"".join(encoded), dtype=np.uint8), "word_offsets": offsets}


def words_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """The words that `words_to_arrays` wrote; they must be in alphabetical order and differ."""
    letters = checked_array(arrays, "words", np.uint8)
    offsets = checked_array(arrays, "word_offsets", np.int64)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(letters):
        raise DamagedBundleError(
            f"saved 'word_offsets' must run from 0 to the {len(letters)} bytes of 'words', "
            f"found {offsets[:1].tolist()} to {offsets[-1:].tolist()}"
        )
    backward = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if len(backward):
        at = int(backward[0])
        raise DamagedBundleError(
            f"saved 'word_offsets' must increase, found {offsets[at]} and then {offsets[at + 1]} at word {at}"
        )
    every_byte = letters.tobytes()
    words: list[str] = []
    for at, (start, end) in enumerate(pairwise(offsets.tolist())):
        try:
            word = every_byte[start:end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise DamagedBundleError(f"saved word {at} is not valid UTF-8: {error}") from error
        if words and word <= words[-1]:
            raise DamagedBundleError(
                f"saved words must be in alphabetical order without duplicates, found {words[-1]!r} and then "
                f"{word!r} at word {at}"
            )
        words.append(word)
    return words


def checked_array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """The array of that name, if it is one-dimensional and of that type."""
    found = arrays[name]
    if not isinstance(found, np.ndarray):
        raise DamagedBundleError(f"saved {name!r} must be an array, found {type(found).__name__}")
    if found.dtype != dtype or found.ndim != 1:
        raise DamagedBundleError(
            f"saved {name!r} must be a one-dimensional array of {np.dtype(dtype)}, "
            f"found {found.dtype} of shape {found.shape}"
        )
    return found
