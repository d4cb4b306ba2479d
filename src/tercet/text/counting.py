"""Counting the words of many texts into one sparse matrix."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class WordCounts(NamedTuple):
    """The distinct words of all texts, text after text. A column of -1 stands for no column."""

    column: NDArray[np.int64]  # (n_entries,)
    times: NDArray[np.float64]  # (n_entries,)
    indptr: NDArray[np.int64]  # (n_texts + 1,)
    n_words: NDArray[np.int64]  # (n_texts,) repeated and unknown words included

    def moved(self, to: NDArray[np.int64]) -> WordCounts:
        """The same counts with column `c` called `to[c]`; every column must be known."""
        return self._replace(column=to[self.column])

    def rows(self, n_columns: int) -> sp.csr_matrix:
        """CSR float64 (n_texts, n_columns) with sorted indices; what has no column is left out."""
        known = self.column >= 0
        n_known = np.concatenate([[0], np.cumsum(known)])
        shape = (len(self.indptr) - 1, n_columns)
        rows = sp.csr_matrix((self.times[known], self.column[known], n_known[self.indptr]), shape=shape)
        rows.sort_indices()
        return rows


def count_words(analysed: Iterable[list[str]], columns_of: Callable[[Iterable[str]], Iterable[int]]) -> WordCounts:
    """Count the words of each text; `columns_of` gives the column of each distinct word."""
    # Growing arrays and a C-level counter: no NumPy call and no Python statement per word.
    column, times, indptr, n_words = array("i"), array("i"), array("q", [0]), array("q")
    for words in analysed:
        found = Counter(words)
        column.extend(columns_of(found))
        times.extend(found.values())
        indptr.append(len(column))
        n_words.append(len(words))
    return WordCounts(
        np.array(column, dtype=np.int64),
        np.array(times, dtype=np.float64),
        np.array(indptr, dtype=np.int64),
        np.array(n_words, dtype=np.int64),
    )
