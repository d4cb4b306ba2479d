"""Find mentions of article titles in texts: links for collections without links."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

# Marks are tokens too, so that no title is found across a comma or the end of a sentence.
_TOKENS = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[^\w\s]|_")
# One bracket within the gloss is allowed for.
_GLOSS = re.compile(r"\s*[(（](?:[^()（）]|[(（][^()（）]*[)）])*[)）]\s*\Z")
FEWEST_LETTERS = 4
NOBODY = -1


def find_mentions(texts: Sequence[str], titles: Sequence[str]) -> NDArray[np.int64]:
    """Link article `i` to article `j` where text `i` mentions the title of `j`.

    A mention is the title's words in a row, in the title's letter case, separated by blanks. At each position the
    longest title counts, and the covered words count once; an article's own title covers words and links nothing. A
    gloss in brackets at the end, a leading "The" and quotation marks are removed from titles. Some titles link nothing:

    - a title of two articles (the words are still covered);
    - one word with fewer than four letters, without a capital, or an English stop word.

    Parameters
    ----------
    texts : of each article, in English or another language written with blanks and capitals
    titles : of each article

    Returns
    -------
    links : (n, 2) int64, rows (from, to), sorted, each once. Ten million words take about five seconds.

    Examples
    --------
    >>> titles = ["Fuji Musume (Wisteria Maiden)", "Kabuki Theatre", "The Kabuki"]
    >>> texts = ["A dance at the Kabuki Theatre.", "Fuji Musume was given here.", "Kabuki, or Kabuki theatre."]
    >>> find_mentions(texts, titles)
    array([[0, 1],
           [1, 0]])
    """
    articles = _Titles(titles)
    links: set[tuple[int, int]] = set()
    for i, text in enumerate(texts):
        links.update((i, j) for j in articles.mentioned(_TOKENS.findall(text)) if j not in (i, NOBODY))
    return np.array(sorted(links), dtype=np.int64).reshape(-1, 2)


class _Titles:
    """Titles as tuples of tokens and whom they name."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.article: dict[tuple[str, ...], int] = {}
        for article, title in enumerate(titles):
            tokens = _title_tokens(title)
            if len(tokens) == 1:
                word = tokens[0]
                if len(word) < FEWEST_LETTERS or not word[0].isupper() or word.lower() in ENGLISH_STOP_WORDS:
                    continue
            if tokens:
                self.article[tokens] = NOBODY if tokens in self.article else article
        lengths: dict[str, set[int]] = {}
        for tokens in self.article:
            lengths.setdefault(tokens[0], set()).add(len(tokens))
        # A first token to the lengths of the titles that begin with it, longest first.
        self.lengths = {first: sorted(several, reverse=True) for first, several in lengths.items()}

    def mentioned(self, tokens: list[str]) -> set[int]:
        """The articles whose titles are among the tokens of a text, perhaps with `NOBODY`."""
        articles: set[int] = set()
        free = 0  # where the last title ends
        for start in [i for i, token in enumerate(tokens) if token in self.lengths]:
            if start < free:
                continue
            for length in self.lengths[tokens[start]]:
                article = self.article.get(tuple(tokens[start : start + length]))
                if article is not None:
                    articles.add(article)
                    free = start + length
                    break
        return articles


def _title_tokens(title: str) -> tuple[str, ...]:
    """The tokens of a title without gloss, article and surrounding marks; what is nothing but a gloss stays."""
    tokens = _without_marks(_TOKENS.findall(_GLOSS.sub("", title) or title))
    if len(tokens) > 1 and tokens[0] in ("The", "the"):
        tokens = _without_marks(tokens[1:])
    return tuple(tokens)


def _without_marks(tokens: list[str]) -> list[str]:
    words = [i for i, token in enumerate(tokens) if token[0].isalnum()]
    return tokens[words[0] : words[-1] + 1] if words else []
