"""Counting the words of many texts into one sparse matrix, once for all analysers that keep and stem them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.text.analyser import Analyser


class WordCounts(NamedTuple):
    """The distinct words of all texts, text after text. A column of -1 stands for no column."""

    column: NDArray[np.int64]  # (n_entries,)
    times: NDArray[np.float64]  # (n_entries,)
    indptr: NDArray[np.int64]  # (n_texts + 1,)
    n_words: NDArray[np.int64]  # (n_texts,) repeated and unknown words included

    def moved(self, to: NDArray[np.int64]) -> WordCounts:
        """The same counts with column `c` called `to[c]`; every column must be known."""
        return self._replace(column=to[self.column])

    def rows(self, n_columns: int) -> sparse.csr_array:
        """CSR float64 (n_texts, n_columns) with sorted indices; what has no column is left out."""
        is_known = self.column >= 0
        n_known = np.concatenate([[0], np.cumsum(is_known)])
        shape = (len(self.indptr) - 1, n_columns)
        index = np.int32 if n_known[-1] < 2**31 else np.int64
        column, indptr = self.column[is_known].astype(index), n_known[self.indptr].astype(index)
        rows = sparse.csr_array((self.times[is_known], column, indptr), shape=shape)
        rows.sort_indices()
        return rows


def count_words(analysed: Iterable[list[str]], columns_of: Callable[[Iterable[str]], Iterable[int]]) -> WordCounts:
    """Count the words of each text; `columns_of` gives the column of each distinct word."""
    # Growing arrays and a C-level counter: no NumPy call and no Python statement per word.
    column, times, indptr, n_words = array("i"), array("i"), array("q", [0]), array("q")
    for words in analysed:
        counts = Counter(words)
        column.extend(columns_of(counts))
        times.extend(counts.values())
        indptr.append(len(column))
        n_words.append(len(words))
    return WordCounts(
        np.array(column, dtype=np.int64),
        np.array(times, dtype=np.float64),
        np.array(indptr, dtype=np.int64),
        np.array(n_words, dtype=np.int64),
    )


class WordCollector:
    """Numbers words in the order in which they come, and counts in how many texts and how often each occurs.

    Memory: the words. Texts may come in as many parts as is convenient.
    """

    def __init__(self) -> None:
        self.numbers: defaultdict[str, int] = defaultdict()
        self.numbers.default_factory = self.numbers.__len__  # a new word gets the next number
        self.n_texts = 0
        self.n_words = 0  # of all texts together, repeated ones included
        self.texts_with = np.zeros(0, dtype=np.int64)  # (n_numbers,), those of words that only `see` has found left out
        self.times = np.zeros(0, dtype=np.float64)

    def count(self, analysed: Iterable[list[str]]) -> WordCounts:
        """The counts of some texts, by the words' numbers."""
        return self._add(self.see(analysed))

    def take(self, words: Iterable[str], counts: WordCounts) -> WordCounts:
        """The same of texts that were counted before; ``words`` are those of the numbers in their counts."""
        return self._add(counts.moved(np.array([self.numbers[word] for word in words], dtype=np.int64)))

    def _add(self, counts: WordCounts) -> WordCounts:
        self.n_texts += len(counts.n_words)
        self.n_words += int(counts.n_words.sum())
        more = len(self.numbers) - len(self.texts_with)
        self.texts_with = np.pad(self.texts_with, (0, more)) + np.bincount(counts.column, minlength=len(self.numbers))
        self.times = np.pad(self.times, (0, more)) + np.bincount(
            counts.column, weights=counts.times, minlength=len(self.numbers)
        )
        return counts

    def see(self, analysed: Iterable[list[str]]) -> WordCounts:
        """The same for texts, such as queries, that only add words."""
        return count_words(analysed, lambda words: map(self.numbers.__getitem__, words))


CountedWords = tuple[list[str], WordCounts]  # the words, and their counts by number


class CountedTexts(Sequence[str]):
    """Texts for vectorisers of several analysers: they are tokenised once, and counts are kept.

    A text counts as a bag of words, so that stop words can be dropped, and stems joined, in the counts. Vectorisers
    give the same rows as for a list of the texts. Memory: 16 bytes for each different word of each text.

    Examples
    --------
    >>> texts = CountedTexts(["Green avocados", "the greens"])
    >>> words, counts = texts.words(Analyser(stop_words="english", stemmer="english"))
    >>> words, counts.rows(len(words)).toarray().tolist()
    (['green', 'avocado'], [[1.0, 1.0], [1.0, 0.0]])
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        for number, text in enumerate(self._texts):
            if not isinstance(text, str):
                raise InputError(f"texts[{number}] must be a string, found {type(text).__name__}")
        self._plain: tuple[Analyser, CountedWords] | None = None
        self._last: tuple[Analyser, CountedWords] | None = None  # what documents and queries both ask for

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        return self._texts[number]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def words(self, analyser: Analyser) -> CountedWords | None:
        """The words that an analyser finds, in the order they come, and their counts by number in each text.

        None where its terms are no single words, so that texts have to be read again.
        """
        plain = analyser.plain
        if plain is None:
            return None
        if self._plain is None or self._plain[0] != plain:
            collector = WordCollector()
            counts = collector.count(map(plain, self._texts))
            self._plain, self._last = (plain, (list(collector.numbers), counts)), None
        if self._last is None or self._last[0] != analyser:
            self._last = analyser, _kept(*self._plain[1], analyser)
        return self._last[1]


def _kept(words: list[str], counts: WordCounts, analyser: Analyser) -> CountedWords:
    """Counts of what an analyser makes of words that are all there."""
    number_of: dict[str, int] = {}
    numbers = np.full(len(words), -1)
    for number, word in enumerate(words):
        term = analyser.term_of(word)
        if term is not None:
            numbers[number] = number_of.setdefault(term, len(number_of))
    rows = counts.moved(numbers).rows(len(number_of))
    rows.sum_duplicates()
    n_words = np.asarray(rows.sum(axis=1)).ravel().astype(np.int64)
    kept = WordCounts(rows.indices.astype(np.int64), rows.data, rows.indptr.astype(np.int64), n_words)
    return list(number_of), kept


class SumByBlocks:
    """A sum of many floats that come in parts, the same to the bit however they are parted."""

    def __init__(self, size: int = 4096) -> None:
        self.size = size
        self._whole = 0.0
        self._rest = np.zeros(0)

    def add(self, values: NDArray[np.float64]) -> None:
        waiting = np.concatenate((self._rest, values))
        n_whole = len(waiting) // self.size * self.size
        for start in range(0, n_whole, self.size):
            self._whole += float(waiting[start : start + self.size].sum())
        self._rest = waiting[n_whole:]

    @property
    def total(self) -> float:
        return self._whole + float(self._rest.sum())
