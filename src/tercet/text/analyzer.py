"""From a text to its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any
from unicodedata import normalize

from tercet._validate import is_integer, wrong_parameter
from tercet.errors import ParameterError
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT, WhenAbsent
from tercet.text.japanese import JapaneseWords, require_japanese
from tercet.text.markup import plain_text
from tercet.text.stop_words import ENGLISH

TOKENIZERS = ("words", "japanese", "characters")
DEFAULT_PATTERN = r"(?u)\b\w\w+\b"
_RUN_OF_LETTERS = re.compile(r"[^\W_]+")

# Bound of the stem cache: an unbounded cache leaks memory in a long-lived server.
_MOST_CACHED_STEMS = 200_000


@dataclass(frozen=True, kw_only=True)
class Analyzer:
    """Turns a text into the list of its words.

    In this order: remove HTML, to lower case, tokenize, drop stop words, stem, form n-grams.

    Parameters
    ----------
    tokenizer : beginning and end of words.
        ``"words"``: matches of `pattern`, for languages written with blanks.
        ``"japanese"``: by a dictionary, in base form and without punctuation (needs the extra ``ja``).
        ``"characters"``: overlapping runs of characters within a run of letters and digits, after NFKC. Suits any
        language
        written without blanks.
    lowercase : ignore letter case
    pattern : regular expression of a word; with one group, the word is the content of the group
    stop_words : words to drop: None, ``"english"`` (scikit-learn's list) or your own list
    stemmer : None, or the name of a Snowball algorithm such as ``"english"``
    ngrams : fewest and most consecutive words of a term, joined by one space. Default (1, 1). With
        ``tokenizer="characters"`` characters are counted, and the default is (2, 2).
    html : remove HTML tags, comments, scripts and styles, and resolve entities. Text with ``<`` and ``&`` alone keeps
        its words

    Examples
    --------
    >>> Analyzer(stop_words="english", ngrams=(1, 2))("The avocado and the eyes")
    ['avocado', 'eyes', 'avocado eyes']
    >>> Analyzer()("<p>fish &amp; chips<br>x<y")
    ['fish', 'chips']
    >>> Analyzer(tokenizer="characters")("東京都 1999年")
    ['東京', '京都', '19', '99', '99', '9年']
    """

    tokenizer: Annotated[str, OMIT_DEFAULT] = "words"
    lowercase: bool = True
    pattern: str = DEFAULT_PATTERN
    stop_words: str | tuple[str, ...] | list[str] | None = None
    stemmer: str | None = None
    ngrams: tuple[int, int] = None  # type: ignore[assignment]  # set below, by the tokenizer
    html: Annotated[bool, WhenAbsent(False)] = True  # files without the field keep texts unchanged

    def __post_init__(self) -> None:
        if self.tokenizer not in TOKENIZERS:
            raise _wrong("tokenizer", f"one of {', '.join(map(repr, TOKENIZERS))}", self.tokenizer)
        for name in ("lowercase", "html"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, "True or False", getattr(self, name))
        _check_pattern(self.pattern)
        # Copy lists: the caller's list may change, the frozen value must not.
        object.__setattr__(self, "stop_words", _checked_stop_words(self.stop_words))
        ngrams = (2, 2) if self.tokenizer == "characters" else (1, 1)
        object.__setattr__(self, "ngrams", ngrams if self.ngrams is None else _checked_ngrams(self.ngrams))
        self._check_that_parameters_agree()
        if self.stemmer is not None:
            _snowball(self.stemmer)
        if self.tokenizer == "japanese":
            require_japanese()

    def _check_that_parameters_agree(self) -> None:
        if self.tokenizer == "words":
            return
        if self.pattern != DEFAULT_PATTERN:
            raise _wrong("pattern", f"left alone with tokenizer={self.tokenizer!r}", self.pattern)
        if self.stemmer is not None:
            raise _wrong("stemmer", f"None with tokenizer={self.tokenizer!r}", self.stemmer)
        if self.tokenizer == "characters" and self.stop_words is not None:
            raise _wrong("stop_words", f"None with tokenizer={self.tokenizer!r}, which finds no words", self.stop_words)

    def __call__(self, text: str) -> list[str]:
        """Return the words of one text, in order. Time is linear in its length."""
        if self.html:
            text = plain_text(text)
        if self.tokenizer == "characters":
            return _character_ngrams(text, self.ngrams, self.lowercase)
        dropped = self._dropped
        words = [word for word in self._find_words(text) if word not in dropped]
        if self._stems is not None:
            words = list(map(self._stems.__getitem__, words))
        if self.ngrams == (1, 1):
            return words
        fewest, most = self.ngrams
        terms = []
        for size in range(fewest, min(most, len(words)) + 1):
            terms.extend([" ".join(words[start : start + size]) for start in range(len(words) - size + 1)])
        return terms

    @cached_property
    def unstemmed(self) -> Analyzer:
        """The same analyzer without a stemmer."""
        return self if self.stemmer is None else replace(self, stemmer=None)

    @property
    def plain(self) -> Analyzer | None:
        """The same analyzer without stop words and stemmer; None for n-grams, whose terms are not words."""
        if self.tokenizer == "characters" or self.ngrams != (1, 1):
            return None
        return replace(self, stop_words=None, stemmer=None)

    def term_of(self, word: str) -> str | None:
        """Return the stem of a word, or the word itself; None for a stop word."""
        if word in self._dropped:
            return None
        return word if self._stems is None else self._stems[word]

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Analyzer], tuple[dict[str, Any]]]:
        # A copy, also one in another process, rebuilds its caches: a Snowball stemmer cannot be copied.
        return _analyzer_of, (encode(self)[0],)

    @cached_property
    def _find_words(self) -> Callable[[str], list[str]]:
        if self.tokenizer == "japanese":
            return JapaneseWords(self.lowercase)
        find_all = re.compile(self.pattern).findall
        return (lambda text: find_all(text.lower())) if self.lowercase else find_all

    @cached_property
    def _dropped(self) -> frozenset[str]:
        """Stop words, and the empty word that some patterns match."""
        stop_words = self.stop_words or ()
        if isinstance(stop_words, str):
            stop_words = tuple(ENGLISH)
        return frozenset(word.lower() if self.lowercase else word for word in stop_words) | {""}

    @cached_property
    def _stems(self) -> _Stems | None:
        return None if self.stemmer is None else _Stems(_snowball(self.stemmer))


def _analyzer_of(meta: dict[str, Any]) -> Analyzer:
    return decode(Analyzer, meta)


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


def _character_ngrams(text: str, ngrams: tuple[int, int], lowercase: bool) -> list[str]:
    """Return the n-grams of each run of letters and digits; a short run stays whole."""
    text = normalize("NFKC", text)
    if lowercase:
        text = text.lower()
    fewest, most = ngrams
    terms = []
    for run in _RUN_OF_LETTERS.findall(text):
        if len(run) < fewest:
            terms.append(run)
        for size in range(fewest, min(most, len(run)) + 1):
            terms.extend([run[start : start + size] for start in range(len(run) - size + 1)])
    return terms


def _snowball(name: str) -> Callable[[str], str]:
    """The stemming function of a Snowball algorithm."""
    import Stemmer

    if name not in Stemmer.algorithms():
        raise _wrong("stemmer", f"None or one of {', '.join(Stemmer.algorithms())}", name)
    # The stemmer's own cache is off: the cache of the analyzer is faster.
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
    for number, word in enumerate(stop_words):
        if not isinstance(word, str):
            raise _wrong(f"stop_words[{number}]", "a string", word)
    return tuple(stop_words)


def _checked_ngrams(ngrams: object) -> tuple[int, int]:
    allowed = "a pair (fewest, most) of integers with 1 <= fewest <= most"
    if not isinstance(ngrams, (list, tuple)) or len(ngrams) != 2:
        raise _wrong("ngrams", allowed, ngrams)
    fewest, most = ngrams
    if not (is_integer(fewest, 1) and is_integer(most, fewest)):
        raise _wrong("ngrams", allowed, ngrams)
    return int(fewest), int(most)


def _wrong(name: str, allowed: str, got: object) -> ParameterError:
    return wrong_parameter("Analyzer", name, allowed, got)
