"""Topics of the user's own, by word, as groups of the columns of a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from tercet.data.word_topics import as_word_topics
from tercet.errors import InputError
from tercet.fitting.prior import column_of
from tercet.fitting.rankers import Candidate
from tercet.learn import WordGroups
from tercet.text import Vectoriser

_MOST_NAMED = 20  # words in a note


def topics_of(candidate: Candidate) -> dict[str, list[str]] | None:
    """The words and paths that a ranker was given as its tree; None where it has none, or one of columns."""
    tree = getattr(candidate.ranker, "tree", None)
    if tree == "clusters" or not isinstance(tree, str | Mapping):
        return None
    return as_word_topics(tree)


def with_columns(candidate: Candidate, words: Vectoriser) -> Candidate:
    """The candidate with groups of columns in place of words, which are cut as texts are."""
    setting: dict[str, Any] = {name: _shown(value) for name, value in candidate.setting.items()}
    topics = topics_of(candidate)
    if topics is None:
        return replace(candidate, setting=setting)
    paths: list[list[str]] = [[] for _ in words.words_]
    for word, stated in topics.items():
        column = column_of(words, word)
        if column is not None:
            paths[column] += stated
    if not any(paths):
        raise InputError("the texts have none of the words of tree")
    groups = WordGroups.from_paths(paths)
    ranker = clone(candidate.ranker).set_params(tree=groups)
    return replace(candidate, setting=setting | {"tree": repr(groups)}, ranker=ranker)


def _shown(value: Any) -> Any:
    """A parameter as a report keeps it."""
    if isinstance(value, WordGroups):
        return repr(value)
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def unknown_words_note(candidates: Sequence[Candidate], words: Vectoriser) -> tuple[str, ...]:
    """A note of the words of trees that no text has, where there are some."""
    named = {word: None for candidate in candidates for word in topics_of(candidate) or ()}
    unknown = [word for word in named if column_of(words, word) is None]
    if not unknown:
        return ()
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    listed = ", ".join(unknown[:_MOST_NAMED])
    return (f"words of the tree that the texts do not have as one word: {listed}{more}.",)
