"""From a text to its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from tercet.errors import DamagedBundleError, MissingExtraError, ParameterError
from tercet.text.checks import check_keys, wrong_parameter

# A stem cache that only grows would be a leak in a long-lived server.
_MOST_CACHED_STEMS = 200_000


@dataclass(frozen=True, kw_only=True)
class Analyser:
    """Turns a text into the list of its words.

    In this order: to lower case, split, drop stop words, stem, form n-grams.

    Parameters
    ----------
    lowercase : whether letter case is ignored
    pattern : regular expression that a word matches; with one group, the word is what the group caught
    stop_words : words to drop: None, ``"english"`` (scikit-learn's list) or your own list
    stemmer : None, or the name of a Snowball algorithm such as ``"english"`` (needs the extra ``stem``)
    ngrams : fewest and most words in a row that make one term; a term's words are joined by one space

    Examples
    --------
    >>> Analyser(stop_words="english", ngrams=(1, 2))("The avocado and the eyes")
    ['avocado', 'eyes', 'avocado eyes']
    """

    lowercase: bool = True
    pattern: str = r"(?u)\b\w\w+\b"
    stop_words: str | list[str] | tuple[str, ...] | None = None
    stemmer: str | None = None
    ngrams: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if not isinstance(self.lowercase, bool):
            raise _wrong("lowercase", "True or False", self.lowercase)
        _check_pattern(self.pattern)
        # A frozen value must not change through a list someone else still holds.
        object.__setattr__(self, "stop_words", _checked_stop_words(self.stop_words))
        object.__setattr__(self, "ngrams", _checked_ngrams(self.ngrams))
        if self.stemmer is not None:
            _snowball(self.stemmer)

    def __call__(self, text: str) -> list[str]:
        """The words of one text, in order. Time is linear in its length."""
        if self.lowercase:
            text = text.lower()
        dropped = self._dropped
        words = [word for word in self._find_words(text) if word not in dropped]
        if self._stems is not None:
            words = list(map(self._stems.__getitem__, words))
        if self.ngrams == (1, 1):
            return words
        fewest, most = self.ngrams
        terms = []
        for size in range(fewest, min(most, len(words)) + 1):
            terms.extend([" ".join(words[at : at + size]) for at in range(len(words) - size + 1)])
        return terms

    def to_meta(self) -> dict[str, Any]:
        """The parameters as JSON values.

        Examples
        --------
        >>> Analyser.from_meta(Analyser(stemmer=None).to_meta()) == Analyser()
        True
        """
        meta = asdict(self)
        if isinstance(self.stop_words, tuple):
            meta["stop_words"] = list(self.stop_words)
        meta["ngrams"] = list(self.ngrams)
        return meta

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Analyser:
        """The analyser that `to_meta` described; anything else raises `DamagedBundleError`."""
        check_keys("analyser", meta, [field.name for field in fields(cls)])
        try:
            return cls(**meta)
        except ParameterError as error:
            raise DamagedBundleError(f"saved analyser: {error}") from error

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Analyser], tuple[dict[str, Any]]]:
        # A copy, also one in another process, rebuilds its caches: a Snowball stemmer cannot be copied.
        return Analyser.from_meta, (self.to_meta(),)

    @cached_property
    def _find_words(self) -> Callable[[str], list[str]]:
        return re.compile(self.pattern).findall

    @cached_property
    def _dropped(self) -> frozenset[str]:
        """Stop words, and the empty word that some patterns match."""
        stop_words = self.stop_words or ()
        if isinstance(stop_words, str):
            # Imported here because it costs a second that other analysers need not pay.
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

            stop_words = tuple(ENGLISH_STOP_WORDS)
        return frozenset(word.lower() if self.lowercase else word for word in stop_words) | {""}

    @cached_property
    def _stems(self) -> _Stems | None:
        return None if self.stemmer is None else _Stems(_snowball(self.stemmer))


class _Stems(dict[str, str]):
    """Word to stem, asked of the stemmer the first time a word is seen."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        super().__init__()
        self._stem = stem

    def __missing__(self, word: str) -> str:
        stem = self._stem(word) or word
        if len(self) < _MOST_CACHED_STEMS:
            self[word] = stem
        return stem


def _snowball(name: str) -> Callable[[str], str]:
    """The stemming function of a Snowball algorithm."""
    try:
        import Stemmer
    except ImportError as error:
        raise MissingExtraError("PyStemmer", "stem", f"Analyser(stemmer={name!r})") from error
    if name not in Stemmer.algorithms():
        raise _wrong("stemmer", f"None or one of {', '.join(Stemmer.algorithms())}", name)
    # Its own cache is switched off: ours is faster, and one is enough.
    return Stemmer.Stemmer(name, 0).stemWord


def _check_pattern(pattern: str) -> None:
    if not isinstance(pattern, str):
        raise _wrong("pattern", "a regular expression as a string", pattern)
    try:
        n_groups = re.compile(pattern).groups
    except re.error as error:
        raise _wrong("pattern", f"a valid regular expression ({error})", pattern) from error
    if n_groups > 1:
        raise _wrong("pattern", "a regular expression with at most one capturing group", pattern)


def _checked_stop_words(stop_words: object) -> str | tuple[str, ...] | None:
    if stop_words is None:
        return None
    if isinstance(stop_words, str) and stop_words == "english":
        return stop_words
    allowed = "None, 'english' or a list of words"
    if not isinstance(stop_words, (list, tuple)):
        raise _wrong("stop_words", allowed, stop_words)
    for at, word in enumerate(stop_words):
        if not isinstance(word, str):
            raise _wrong(f"stop_words[{at}]", "a string", word)
    return tuple(stop_words)


def _checked_ngrams(ngrams: object) -> tuple[int, int]:
    allowed = "a pair (fewest, most) of integers with 1 <= fewest <= most"
    if not isinstance(ngrams, (list, tuple)) or len(ngrams) != 2:
        raise _wrong("ngrams", allowed, ngrams)
    if any(isinstance(size, bool) or not isinstance(size, int) for size in ngrams):
        raise _wrong("ngrams", allowed, ngrams)
    fewest, most = ngrams
    if not 1 <= fewest <= most:
        raise _wrong("ngrams", allowed, ngrams)
    return fewest, most


def _wrong(name: str, allowed: str, got: object) -> ParameterError:
    return wrong_parameter("Analyser", name, allowed, got)
