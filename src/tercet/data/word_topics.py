"""Topics of words that someone knows: each word with the path of its groups, such as sport/hockey."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from tercet.data.documents import ids_in
from tercet.data.lines import FilePath
from tercet.data.roles import need_column
from tercet.data.tables import open_table
from tercet.errors import FormatError, InputError

_WORDS = (("word", "term"), ("query_word", "document_word", "token"))
_TOPICS = (("path", "topic", "group"), ("cluster", "class", "category", "label"))


def read_word_topics(path: FilePath) -> dict[str, list[str]]:
    r"""Topics of a table: CSV, TSV, JSONL or Parquet with a column of words and one of paths.

    A word of several topics has several rows, or of JSONL and Parquet a list of paths.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "topics.tsv")
    ...     _ = file.write_text("word\tpath\npuck\tsport/hockey\norbit\tspace\n")
    ...     read_word_topics(file)
    {'puck': ['sport/hockey'], 'orbit': ['space']}
    """
    table = open_table(path)
    word, topic = need_column(table, "word", _WORDS), need_column(table, "path of groups", _TOPICS)
    table.lists_as_json = True
    topics: dict[str, list[str]] = {}
    for number, row in table.rows():
        stated: Any = row.get(topic)
        if table.is_typed and isinstance(stated, str) and stated.startswith("["):
            stated = ids_in(stated, table, number, topic)
        try:
            topics.setdefault(_word(row.get(word)), []).extend(_paths(stated))
        except InputError as error:
            raise FormatError(table.name, number, str(error)) from error
    return topics


def as_word_topics(topics: Any) -> dict[str, list[str]]:
    """Topics of a path, or of a mapping from words to a path or several."""
    if isinstance(topics, str | PathLike):
        return read_word_topics(topics)
    if not isinstance(topics, Mapping):
        raise InputError(f"topics are words with their paths, or a table of them; got {type(topics).__name__}")
    return {_word(word): _paths(stated) for word, stated in topics.items()}


def _word(word: Any) -> str:
    if not isinstance(word, str) or not word.strip():
        raise InputError(f"a topic has words; found {word!r}")
    return word.strip()


def _paths(stated: Any) -> list[str]:
    paths = [stated] if isinstance(stated, str) else stated
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str) and path.strip(" /") for path in paths):
        raise InputError(f"a word's topics are paths such as 'sport/hockey'; found {stated!r}")
    return [path.strip() for path in paths]
