"""Words of queries that a vectoriser has no column for: they cannot be matched, so they are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tercet.errors import InputError
from tercet.text.analyser import Analyser
from tercet.text.estimator import check_fitted
from tercet.text.vectoriser import Vectoriser


@dataclass(frozen=True)
class UnknownWords:
    """What a vectoriser does not know of some queries; printing it gives one line.

    Attributes
    ----------
    n_queries : how many queries were looked at
    n_affected : how many have a word that is not known
    n_lost : how many have no word that is known, and so no score above 0 for any document by matching words
    words : the unknown words as they were typed, before stemming, each with the number of queries that have it, most
        frequent first

    Examples
    --------
    >>> unknown = UnknownWords(n_queries=10, n_affected=2, n_lost=1, words=(("unicorn", 2),))
    >>> unknown.words[0]
    ('unicorn', 2)
    """

    n_queries: int
    n_affected: int
    n_lost: int
    words: tuple[tuple[str, int], ...]

    def line(self, most: int = 5) -> str:
        """The whole in one line, with so many of the words."""
        lost = f"{self.n_lost:,} {'has' if self.n_lost == 1 else 'have'} no word that it knows" if self.n_lost else ""
        if not self.n_affected:
            line = f"the model knows every word of the {self.n_queries:,} queries"
            return f"{line}; {lost}" if lost else line
        verb = "has" if self.n_affected == 1 else "have"
        shown = ", ".join(f"{word} ({count:,})" for word, count in self.words[:most])
        more = f" and {len(self.words) - most:,} more" if len(self.words) > most else ""
        of_all = f"{self.n_affected:,} of {self.n_queries:,} queries"
        line = f"{of_all} {verb} words that the model does not know: {shown}{more}"
        return f"{line}; {lost}" if lost else line

    def __str__(self) -> str:
        return self.line()


def unknown_words(vectoriser: Vectoriser, texts: Iterable[str]) -> UnknownWords:
    """Find the words of queries that have no column. Stop words are not among them.

    Parameters
    ----------
    vectoriser : fitted; a model's ``query_vectoriser``
    texts : the queries

    Examples
    --------
    >>> vectoriser = Vectoriser().fit(["green avocado", "green eyes"])
    >>> print(unknown_words(vectoriser, ["green zebra", "Zebra", "eyes"]))
    2 of 3 queries have words that the model does not know: zebra (2); 1 has no word that it knows
    """
    if isinstance(texts, str):
        raise InputError("texts must be a sequence of strings, found str; pass [text]")
    check_fitted(vectoriser, "words_")
    analyse = Analyser() if vectoriser.analyser is None else vectoriser.analyser
    # Stemming changes each word where it stands, so the two lists go side by side.
    typed = analyse if analyse.stemmer is None else replace(analyse, stemmer=None)
    counts: Counter[str] = Counter()
    n_queries = n_affected = n_lost = 0
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"texts[{n_queries}] must be a string, found {type(text).__name__}")
        words = analyse(text)
        is_unknown = [word not in vectoriser.index_ for word in words]
        counts.update({word for word, unknown in zip(typed(text), is_unknown, strict=True) if unknown})
        n_queries += 1
        n_affected += any(is_unknown)
        n_lost += all(is_unknown)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return UnknownWords(n_queries, n_affected, n_lost, tuple(ordered))
