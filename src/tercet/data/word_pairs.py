"""Pairs of words that someone knows: synonyms with a weight, and words that never belong together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

from tercet.data.frames import as_table
from tercet.data.lines import FilePath
from tercet.data.roles import find_roles
from tercet.data.tables import DataTable, open_table
from tercet.errors import FormatError, InputError

NEVER = "never"


class WordPair(NamedTuple):
    """A word of queries, a word of documents, and what a match of the two counts; None: they never belong together."""

    query_word: str
    doc_word: str
    weight: float | None


def read_word_pairs(path: FilePath) -> list[WordPair]:
    r"""Pairs of a table: CSV, TSV, JSONL or Parquet with a column of query words, one of document words and a weight.

    A weight of 1 counts as much as a word and itself; ``never``, or 0, says that the two never belong together. Without
    a column of weights all of them are 1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("query\tdocument\tweight\ncar\tautomobile\t0.5\njaguar\tzoo\tnever\n")
    ...     read_word_pairs(file)[1]
    WordPair(query_word='jaguar', doc_word='zoo', weight=None)
    """
    return list(_of_table(open_table(path)))


def as_word_pairs(pairs: Any) -> list[WordPair]:
    """Pairs of a path, of rows (query word, document word[, weight]), of records or a frame, or of a mapping.

    A mapping is ``{(query word, document word): weight}`` or ``{query word: {document word: weight}}``.

    Examples
    --------
    >>> as_word_pairs({"car": {"automobile": 0.5}}) == as_word_pairs([("car", "automobile", 0.5)])
    True
    """
    if isinstance(pairs, str | PathLike):
        checked = read_word_pairs(pairs)
    elif isinstance(pairs, Mapping):
        checked = [_checked(*row, number) for number, row in enumerate(_of_mapping(pairs))]
    elif isinstance(pairs, Sequence) and not (pairs and isinstance(pairs[0], Mapping)):
        for number, row in enumerate(pairs):
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 3):
                raise InputError(f"prior[{number}] must be a query word, a document word and a weight; got {row!r}")
        checked = [_checked(row[0], row[1], row[2] if len(row) == 3 else 1.0, at) for at, row in enumerate(pairs)]
    else:
        table = as_table(pairs, "prior")
        if not isinstance(table, DataTable):
            raise InputError(
                f"prior must be pairs of words, or the path of a table of them; got {type(pairs).__name__}"
            )
        checked = list(_of_table(table))
    if not checked:
        raise InputError("the prior has no pair; leave it out")
    return checked


def _of_mapping(pairs: Mapping[Any, Any]) -> Iterator[tuple[Any, Any, Any]]:
    for key, value in pairs.items():
        if isinstance(value, Mapping):
            yield from ((key, doc_word, weight) for doc_word, weight in value.items())
        elif isinstance(key, tuple) and len(key) == 2:
            yield (*key, value)
        else:
            raise InputError(f"prior has {key!r}: {value!r}; expected (query word, document word): weight")


def _of_table(table: DataTable) -> Iterator[WordPair]:
    roles = find_roles(table, "word-pairs")
    query, doc, weight = roles["query-word"], roles["document-word"], roles.get("weight")
    for number, row in table.rows():
        try:
            stated = 1.0 if weight is None else row.get(weight)
            if stated is None:  # an empty cell is not taken for never
                pair = f"the pair of {row.get(query)!r} and {row.get(doc)!r}"
                raise InputError(f"{pair} has no weight; a number, or {NEVER!r}")
            yield _checked(row.get(query), row.get(doc), stated)
        except InputError as error:
            raise FormatError(table.name, number, str(error)) from error


def _checked(query_word: Any, doc_word: Any, weight: Any, number: int | None = None) -> WordPair:
    where = "" if number is None else f"prior[{number}]: "
    for word in (query_word, doc_word):
        if not isinstance(word, str) or not word.strip():
            raise InputError(f"{where}a pair has two words; found {word!r}")
    if weight is None or (isinstance(weight, str) and weight.strip().lower() == NEVER):
        return WordPair(query_word.strip(), doc_word.strip(), None)
    try:
        number_of = float(weight)
    except (TypeError, ValueError):
        number_of = math.nan
    if not math.isfinite(number_of):
        raise InputError(f"{where}the weight of {query_word!r} and {doc_word!r} is {weight!r}; a number, or {NEVER!r}")
    return WordPair(query_word.strip(), doc_word.strip(), number_of or None)
