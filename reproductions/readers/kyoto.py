"""Parallel texts: Wikipedia's articles on Kyoto in Japanese, each with its English translation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from reproductions.readers.files import read_lines
from tercet.errors import FormatError

KYOTO_FILE = "docs.jsonl"


@dataclass(frozen=True)
class ParallelTexts:
    """Articles in file order, each in Japanese and in English; the sentences of a text are joined by line breaks."""

    ids: tuple[str, ...]
    categories: tuple[str, ...]
    titles_ja: tuple[str, ...]
    titles_en: tuple[str, ...]
    texts_ja: tuple[str, ...]
    texts_en: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


def read_kyoto(path: str | Path) -> ParallelTexts:
    """Read the 14,111 articles in about two seconds.

    Each line is a JSON object with ``id``, ``category``, ``title_ja``, ``title_en`` and the lists of sentences ``ja``
    and ``en``.

    Parameters
    ----------
    path : the file, gzipped or not, or the folder that holds ``docs.jsonl`` or ``docs.jsonl.gz``

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     titles = '"id": "A1", "category": "BDS", "title_ja": "禅", "title_en": "Zen"'
    ...     line = f'{{{titles}, "ja": ["座る。"], "en": ["Sit."]}}'
    ...     _ = Path(folder, "docs.jsonl").write_text(line, encoding="utf-8")
    ...     articles = read_kyoto(folder)
    >>> articles.titles_en, articles.texts_ja
    (('Zen',), ('座る。',))
    """
    file = Path(path)
    if file.is_dir():
        file = file / KYOTO_FILE if (file / KYOTO_FILE).is_file() else file / f"{KYOTO_FILE}.gz"
    rows: dict[str, tuple[str, ...]] = {}
    for line, text in read_lines(file):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
            names = (record["category"], record["title_ja"], record["title_en"])
            row = (*names, *("\n".join(record[language]) for language in ("ja", "en")))
            article = record["id"]
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(file, line, f"an article as JSON is needed: {error!r}") from None
        if article in rows:
            raise FormatError(file, line, f"the article {article!r} is there already")
        rows[article] = row
    if not rows:
        raise FormatError(file, None, "the file holds no articles")
    return ParallelTexts(tuple(rows), *zip(*rows.values(), strict=True))
