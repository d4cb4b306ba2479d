"""Texts whose words are counted once, however many analysers keep and stem them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np

from tercet.errors import InputError
from tercet.text.analyser import Analyser
from tercet.text.counting import WordCollector, WordCounts

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
