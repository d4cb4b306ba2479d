"""Counts of words of many texts in one sparse matrix, shared by analyzers of the same words."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.errors import InputError
from tercet.text.analyzer import Analyzer

_TEXTS_AT_ONCE: Final = 8192
_DROPPED: Final = -2  # number of a stop word; stop words are not counted


class WordCounts(NamedTuple):
    """Distinct words of all texts, text after text. A column of -1 stands for all words without a column."""

    column: NDArray[np.int64]  # (n_entries,)
    times: NDArray[np.float64]  # (n_entries,)
    indptr: NDArray[np.int64]  # (n_texts + 1,)
    n_words: NDArray[np.int64]  # (n_texts,) repeated and unknown words included

    def moved(self, to: NDArray[np.int64]) -> WordCounts:
        """The same counts with column `c` called `to[c]`; every column must be known."""
        return self._replace(column=to[self.column])

    def part(self, start: int, stop: int) -> WordCounts:
        """The counts of some of the texts."""
        entries = slice(self.indptr[start], self.indptr[stop])
        indptr = self.indptr[start : stop + 1] - self.indptr[start]
        return WordCounts(self.column[entries], self.times[entries], indptr, self.n_words[start:stop])

    def rows(self, n_columns: int) -> sparse.csr_array:
        """Return CSR float64 (n_texts, n_columns) with sorted indices, without words lacking a column."""
        is_known = self.column >= 0
        n_known = np.concatenate([[0], np.cumsum(is_known)])
        shape = (len(self.indptr) - 1, n_columns)
        index = np.int32 if n_known[-1] < 2**31 else np.int64
        column, indptr = self.column[is_known].astype(index), n_known[self.indptr].astype(index)
        rows = sparse.csr_array((self.times[is_known], column, indptr), shape=shape)
        rows.sort_indices()
        return rows


class _Numbers(dict[str, int]):
    """Numbers of the terms of words, looked up when a word first occurs."""

    def __init__(self, term_of: Callable[[str], str | None], number_of: Callable[[str], int]) -> None:
        super().__init__()
        self._term_of, self._number_of = term_of, number_of

    def __missing__(self, word: str) -> int:
        term = self._term_of(word)
        number = self[word] = _DROPPED if term is None else self._number_of(term)
        return number


def count_words(texts: Iterable[str], analyzer: Analyzer, number_of: Callable[[str], int]) -> WordCounts:
    """Count the words of each text; ``number_of`` gives the column of a term, -1 for none.

    A word is stemmed, and looked for among stop words, once for all texts.
    """
    plain = analyzer.plain
    numbers = _Numbers(lambda term: term, number_of) if plain is None else _Numbers(analyzer.term_of, number_of)
    texts, find, number = iter(texts), plain or analyzer, numbers.__getitem__
    blocks: list[WordCounts] = []
    while not blocks or len(blocks[-1].n_words) == _TEXTS_AT_ONCE:
        columns, ends = array("i"), array("q", [0])
        for text in islice(texts, _TEXTS_AT_ONCE):
            columns.extend(map(number, find(text)))
            ends.append(len(columns))
        blocks.append(_counted(np.array(columns, dtype=np.int64), np.array(ends, dtype=np.int64)))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.indptr) for block in blocks]))])
    column, times, n_words = (
        np.concatenate([getattr(block, name) for block in blocks]) for name in ("column", "times", "n_words")
    )
    return WordCounts(column, times, indptr, n_words)


def _counted(columns: NDArray[np.int64], ends: NDArray[np.int64]) -> WordCounts:
    """Count the columns of each text, by sorting."""
    n_texts = len(ends) - 1
    text = np.repeat(np.arange(n_texts), np.diff(ends))
    is_kept = columns != _DROPPED
    columns, text = columns[is_kept], text[is_kept]
    width = int(columns.max(initial=0)) + 2  # one more for words without a column
    keys = np.sort(text * width + columns + 1)
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    of_text = keys[first] // width
    return WordCounts(
        keys[first] - of_text * width - 1,
        np.diff(first, append=keys.size).astype(np.float64),
        np.concatenate([[0], np.cumsum(np.bincount(of_text, minlength=n_texts))]),
        np.bincount(text, minlength=n_texts),
    )


class WordCollector:
    """Numbers words in the order of first sight, and counts their texts and occurrences.

    Memory: the words. Texts may come in parts.
    """

    def __init__(self) -> None:
        self.numbers: defaultdict[str, int] = defaultdict()
        self.numbers.default_factory = self.numbers.__len__  # a new word gets the next number
        self.n_texts = 0
        self.n_words = 0  # words of all texts, repeated words included
        self.texts_with = np.zeros(0, dtype=np.int64)  # (n_numbers,), those of words that only `see` has found left out
        self.times = np.zeros(0, dtype=np.float64)

    def count(self, texts: Iterable[str], analyzer: Analyzer) -> WordCounts:
        """The counts of some texts, by the words' numbers."""
        return self._add(self.see(texts, analyzer))

    def take(self, words: Iterable[str], counts: WordCounts) -> WordCounts:
        """Add texts counted before; ``words`` are the words of the numbers in their counts."""
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

    def see(self, texts: Iterable[str], analyzer: Analyzer) -> WordCounts:
        """Return the counts of texts, such as queries, that only add words."""
        return count_words(texts, analyzer, self.numbers.__getitem__)


CountedWords = tuple[list[str], WordCounts]  # words, and counts by word number


class CountedTexts(Sequence[str]):
    """Texts for vectorizers of several analyzers, tokenized once.

    A text counts as a bag of words; stop words are dropped, and stems joined, in the counts. Vectorizers give the
    same rows
    as for a list of the texts. Memory: 16 bytes for each different word of each text.

    Examples
    --------
    >>> texts = CountedTexts(["Green avocados", "the greens"])
    >>> words, counts = texts.words(Analyzer(stop_words="english", stemmer="english"))
    >>> words, counts.rows(len(words)).toarray().tolist()
    (['green', 'avocado'], [[1.0, 1.0], [1.0, 0.0]])
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        for number, text in enumerate(self._texts):
            if not isinstance(text, str):
                raise InputError(f"texts[{number}] must be a string, found {type(text).__name__}")
        self._plain: tuple[Analyzer, CountedWords] | None = None
        self._last: tuple[Analyzer, CountedWords] | None = None  # cache: documents and queries may be the same texts

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

    def words(self, analyzer: Analyzer) -> CountedWords | None:
        """Return the words of an analyzer, in the order of first sight, and their counts by number in each text.

        None for analyzers of other terms than single words.
        """
        plain = analyzer.plain
        if plain is None:
            return None
        if self._plain is None or self._plain[0] != plain:
            collector = WordCollector()
            counts = collector.count(self._texts, plain)
            self._plain, self._last = (plain, (list(collector.numbers), counts)), None
        if self._last is None or self._last[0] != analyzer:
            self._last = analyzer, _kept(*self._plain[1], analyzer)
        return self._last[1]


def _kept(words: list[str], counts: WordCounts, analyzer: Analyzer) -> CountedWords:
    """Return the counts of an analyzer from counts of all words."""
    number_of: dict[str, int] = {}
    numbers = np.full(len(words), -1)
    for number, word in enumerate(words):
        term = analyzer.term_of(word)
        if term is not None:
            numbers[number] = number_of.setdefault(term, len(number_of))
    rows = counts.moved(numbers).rows(len(number_of))
    rows.sum_duplicates()
    n_words = np.asarray(rows.sum(axis=1)).ravel().astype(np.int64)
    counts_of_kept = WordCounts(rows.indices.astype(np.int64), rows.data, rows.indptr.astype(np.int64), n_words)
    return list(number_of), counts_of_kept


class SumByBlocks:
    """A sum of many floats in parts, with the same bits for all parts."""

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
