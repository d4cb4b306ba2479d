"""Tokenizer of Japanese, written without blanks: MeCab with the dictionary unidic-lite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unicodedata import normalize

from tercet.errors import MissingExtraError

# The tagger's lattice grows with the square of a run of letters, and beyond some 100,000 it crashes the process.
LONGEST_PIECE = 8192
_PIECES = re.compile(rf".{{1,{LONGEST_PIECE}}}$|.{{1,{LONGEST_PIECE - 1}}}[\s。、]|.{{1,{LONGEST_PIECE}}}")
# A C string ends at NUL, and half a surrogate pair has no UTF-8.
_UNTAGGABLE = re.compile("[\0\ud800-\udfff]")
# Bound of the cache: an unbounded cache leaks memory in a long-lived server.
_MOST_CACHED_FORMS = 200_000


class JapaneseWords:
    """Splits a text into words in their written base form: 走った gives 走る and た.

    Punctuation and blanks are left out, numbers stay, and a word keeps its script. Full-width letters and digits
    become
    ordinary ones (NFKC). The dictionary is opened at the first text; a million characters take about a second and a
    half.

    Parameters
    ----------
    lowercase : ignore the case of Latin letters
    """

    def __init__(self, lowercase: bool = True) -> None:
        require_japanese()
        self._forms = _Forms(lowercase)
        self._parse: Callable[[str], str] | None = None

    def __call__(self, text: str) -> list[str]:
        if self._parse is None:
            self._parse = _open_tagger()
        forms = self._forms
        words = []
        for piece in _pieces(text):
            words += [form for word in self._parse(piece).split("\n") if (form := forms[word])]
        return words


class _Forms(dict[str, str]):
    """Output of the tagger -> word, empty for output without letters or digits."""

    def __init__(self, lowercase: bool) -> None:
        super().__init__()
        self._lowercase = lowercase

    def __missing__(self, word: str) -> str:
        form = normalize("NFKC", word)
        if self._lowercase:
            form = form.lower()
        if not any(map(str.isalnum, form)):
            form = ""
        if len(self) < _MOST_CACHED_FORMS:
            self[word] = form
        return form


def _pieces(text: str) -> Iterator[str]:
    """Yield the lines of a text; a long line is split, if possible after a blank or a mark."""
    for line in _UNTAGGABLE.sub(" ", text).split("\n"):
        if len(line) <= LONGEST_PIECE:
            yield line
        else:
            yield from _PIECES.findall(line)


def require_japanese() -> None:
    """Raise `MissingExtraError` unless the tagger and its dictionary are installed."""
    try:
        import fugashi  # noqa: F401
        import unidic_lite  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("fugashi and unidic-lite", "ja", "Analyzer(tokenizer='japanese')") from error


def _open_tagger() -> Callable[[str], str]:
    from fugashi import GenericTagger
    from unidic_lite import DICDIR

    # The dictionary is named, since another installed dictionary would find other words. The tagger prints a line per
    # word; field 10 is the written base form. Words outside the dictionary stay unchanged.
    where = f'-r "{Path(DICDIR, "mecabrc").as_posix()}" -d "{Path(DICDIR).as_posix()}"'
    return GenericTagger(where + r' -O "" -F "%f[10]\n" -U "%m\n" -E ""').parse
