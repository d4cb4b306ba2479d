"""Things that are nearly the same: ids that differ as text and not as numbers, and texts of nearly the same words."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from unicodedata import normalize

from tercet.data.lines import number_of

NEAR = 0.9  # of the different words of both
MOST_COMPARED = 1_000
_WORD = re.compile(r"\w+")


def look_alikes(ids: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different ids that read as the same number: the first of a kind, and each of the others.

    Examples
    --------
    >>> look_alikes(["007", "d1", "7", "1e5", "7.0"])
    [('007', '7'), ('007', '7.0')]
    """
    first: dict[str, str] = {}
    pairs = []
    for identifier in ids:
        number = number_of(identifier)
        if number is not None and first.setdefault(number, identifier) != identifier:
            pairs.append((first[number], identifier))
    return pairs


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text without regard to case, forms of a character and punctuation.

    Examples
    --------
    >>> words_of("Avocado, ＥＹＥＳ!")
    ('avocado', 'eyes')
    """
    plain = text.lower() if text.isascii() else normalize("NFKC", text).casefold()
    return tuple(_WORD.findall(plain))


def text_digest(text: str) -> bytes | None:
    """Sixteen bytes that texts have in common which differ in case and blanks only; None of an empty text.

    Examples
    --------
    >>> text_digest("Same text") == text_digest(" same  TEXT"), text_digest(" ") is None
    (True, True)
    """
    words = text.split()
    # Half a surrogate pair, which a text in another encoding may have, is no UTF-8.
    plain = " ".join(words).casefold().encode(errors="replace")
    return hashlib.blake2b(plain, digest_size=16).digest() if words else None


def near_texts(
    first: Mapping[str, str], second: Mapping[str, str], threshold: float = NEAR
) -> Iterator[tuple[str, str, float]]:
    """Yield for each text of the second that is nearly one of the first both keys, second first, and their likeness.

    The likeness is that of the sets of words, how many both have over how many either has; of several the likest is
    given, of equally like ones the earliest.

    Notes
    -----
    Not every pair is looked at. A text needs only be found by its rarest words: if two texts are alike enough, the
    few rarest of one, ``n - ceil(threshold n) + 1``, have one in common with those of the other. Of more than
    `MOST_COMPARED` that do, the first are looked at.

    Examples
    --------
    >>> list(near_texts({"a": "green avocado eyes"}, {"b": "Eyes, green avocado", "c": "green eyes"}))
    [('b', 'a', 1.0)]
    """
    sets_of_first = {key: frozenset(words_of(text)) for key, text in first.items()}
    sets_of_second = {key: frozenset(words_of(text)) for key, text in second.items()}
    frequency = Counter(word for words in (*sets_of_first.values(), *sets_of_second.values()) for word in words)

    def rarest(words: frozenset[str]) -> list[str]:
        ordered = sorted(words, key=lambda word: (frequency[word], word))
        return ordered[: len(words) - math.ceil(threshold * len(words) - 1e-9) + 1]

    with_word: defaultdict[str, list[int]] = defaultdict(list)
    keys = list(sets_of_first)
    for i, words in enumerate(sets_of_first.values()):
        if words:
            for word in rarest(words):
                with_word[word].append(i)
    for key, words in sets_of_second.items():
        if not words:
            continue
        candidates = {i for word in rarest(words) for i in with_word.get(word, ())}
        best, likeness = -1, 0.0
        for i in sorted(candidates)[:MOST_COMPARED]:
            other = sets_of_first[keys[i]]
            alike = len(words & other) / len(words | other)
            if alike > likeness:
                best, likeness = i, alike
        if likeness >= threshold:
            yield key, keys[best], likeness
