"""Parallel texts: Wikipedia's articles on Kyoto in Japanese, each with its English translation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet.data.json_lines import json_field, json_text, parse_json_object
from tercet.data.lines import (
    FilePath,
    find_line,
    open_lines,
    read_id,
    surrogate_problem,
)
from tercet.errors import FormatError

KYOTO_FILE = "docs.jsonl"


@dataclass(frozen=True)
class ParallelTexts:
    """Articles, each in Japanese and in English, in file order.

    Attributes
    ----------
    ids, categories : of each article
    titles_ja, titles_en : of each article
    texts_ja, texts_en : the sentences of each article, joined by line breaks
    """

    ids: tuple[str, ...]
    categories: tuple[str, ...]
    titles_ja: tuple[str, ...]
    titles_en: tuple[str, ...]
    texts_ja: tuple[str, ...]
    texts_en: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


def read_kyoto(path: FilePath) -> ParallelTexts:
    """Read Wikipedia's articles on Kyoto in Japanese with their English translation.

    Each line is one JSON object with ``id``, ``category``, ``title_ja``, ``title_en`` and the lists of sentences
    ``ja`` and ``en``; other keys are passed over.

    Parameters
    ----------
    path : the file, gzipped or not, or the folder that holds it as ``docs.jsonl`` or ``docs.jsonl.gz``

    Returns
    -------
    ParallelTexts, of 14,111 articles. Takes about two seconds and 130 MB.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     titles = '"id": "A1", "category": "BDS", "title_ja": "禅", "title_en": "Zen"'
    ...     line = f'{{{titles}, "ja": ["座る。"], "en": ["Sit."]}}'
    ...     _ = pathlib.Path(folder, "docs.jsonl").write_text(line, encoding="utf-8")
    ...     articles = read_kyoto(folder)
    >>> articles.titles_en, articles.texts_ja
    (('Zen',), ('座る。',))
    """
    file = _the_file(Path(path))
    columns: tuple[list[str], ...] = ([], [], [], [], [], [])
    seen: set[str] = set()
    for line, text in open_lines(file):
        if not text.strip():
            continue
        record = parse_json_object(text, file, line)
        identifier = read_id(json_field(record, "id", file, line), file, line, "article's id")
        if identifier in seen:
            raise _repeated(identifier, file, line)
        seen.add(identifier)
        row = (
            identifier,
            json_text(record, "category", file, line),
            json_text(record, "title_ja", file, line),
            json_text(record, "title_en", file, line),
            _sentences(record, "ja", file, line),
            _sentences(record, "en", file, line),
        )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    if not seen:
        raise FormatError(file, None, "the file holds no articles")
    return ParallelTexts(*map(tuple, columns))


def _the_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = [path / name for name in (KYOTO_FILE, f"{KYOTO_FILE}.gz") if (path / name).is_file()]
    if len(files) == 2:
        raise FormatError(path, None, f"both {KYOTO_FILE} and {KYOTO_FILE}.gz are here; remove one of them")
    if not files:
        raise FormatError(path / KYOTO_FILE, None, "there is no such file, nor with .gz")
    return files[0]


def _repeated(identifier: str, path: Path, line: int) -> FormatError:
    # Read again, so that good files pay nothing for knowing the first line.
    first = find_line(path, lambda text: bool(text.strip()) and parse_json_object(text, path, line)["id"] == identifier)
    return FormatError(path, line, f"the article {identifier!r} is there already, at line {first}")


def _sentences(record: dict[str, Any], key: str, path: Path, line: int) -> str:
    sentences = json_field(record, key, path, line)
    if not isinstance(sentences, list) or not sentences:
        raise FormatError(path, line, f'"{key}" is {str(sentences)[:40]!r}; a list of one sentence or more is needed')
    for number, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise FormatError(path, line, f'"{key}"[{number}] is {str(sentence)[:40]!r}; a string is needed')
    joined = "\n".join(sentences)
    problem = surrogate_problem(joined)
    if problem is not None:
        raise FormatError(path, line, f'"{key}" {problem}')
    return joined
