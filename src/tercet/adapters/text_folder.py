"""A folder of Markdown, text, code and JSONL as documents that change on disk."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tercet.data.lines import open_lines, parse_json_object
from tercet.data.roles import TITLES, plain_name
from tercet.data.values import Record, plain_value
from tercet.errors import FormatError, InputError
from tercet.search import Index

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 2_000_000  # most bytes of a file; JSONL may be longer
JSON_LINES: Final = (".jsonl", ".ndjson")
_PASSED_OVER: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_ANEW: Final = 0.25  # share of changed files from which the whole folder is indexed again, with new word frequencies
_ID_NAMES: Final = frozenset({"id", "_id", "doc_id", "document_id", "key", "uuid", "slug"})
_BODIES: Final = frozenset({"text", "content", "body", "description", "summary", "message"})
_ADDRESSES: Final = frozenset({"url", "uri"})
_COMPOUND = re.compile(r"\b(?=\w*(?:_|[a-z][A-Z]))[A-Za-z]\w{2,60}\b")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

Entry = tuple[str, str, Record]  # id, text and stored fields


class TextFolder:
    """Documents of a folder, with detection of changes.

    A file of UTF-8 text is a document with the path as id. A line of JSONL is a document with the path and the line's
    own id or number as id. Hidden files, links, files with a NUL byte and large files are left out.

    The first line of an indexed text has the words of the path and the parts of compound identifiers; `content` drops
    the line.

    Attributes
    ----------
    index : documents of the last reading, in memory
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).resolve()
        self._marks = self._look()
        self._ids: dict[str, list[str]] = {}
        self.index = self._built()

    def refresh(self) -> bool:
        """Read changed files into another `index`; return True after a change."""
        marks = self._look()
        changed = [name for name in marks if marks[name] != self._marks.get(name)]
        gone = [name for name in self._marks if name not in marks]
        if not changed and not gone:
            return False
        self._marks = marks
        if len(changed) + len(gone) > _ANEW * len(marks):
            self.index = self._built()
            return True
        before = [doc_id for name in (*changed, *gone) for doc_id in self._ids.pop(name, [])]
        entries = [entry for name in changed for entry in self._entries(name)]
        new = {entry[0] for entry in entries}
        index = self.index.latest()
        removed = [doc_id for doc_id in before if doc_id not in new]
        if removed:
            index.remove(removed)
        if entries:
            index.replace(entries)
        self.index = index
        return True

    @staticmethod
    def content(text: str) -> str:
        """Return the text of a document without the first line, which is for searching."""
        return text.partition("\n")[2]

    def _built(self) -> Index:
        entries = [entry for name in self._marks for entry in self._entries(name)]
        if not entries:
            raise InputError(f"{self.folder} has no file of UTF-8 text; name a folder of Markdown, text, code or JSONL")
        return Index.build(entries)

    def _look(self) -> dict[str, tuple[int, int]]:
        """Return time of the last write and size of each file by its path in the folder."""
        marks = {}
        for folder, folders, files in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PASSED_OVER)
            for name in sorted(files):
                path = Path(folder, name)
                if name.startswith(".") or path.is_symlink():
                    continue
                try:
                    status = path.stat()
                except FileNotFoundError:  # removed meanwhile
                    continue
                marks[path.relative_to(self.folder).as_posix()] = status.st_mtime_ns, status.st_size
        return marks

    def _entries(self, name: str) -> list[Entry]:
        path = self.folder / name
        try:
            if path.suffix.lower() in JSON_LINES:
                entries = list(_of_lines(path, name))
            else:
                entries = list(_of_file(path, name))
        except (FormatError, OSError) as error:
            _log.warning("left out: %s", error)
            entries = []
        self._ids[name] = [doc_id for doc_id, _, _ in entries]
        return entries


def searched_line(path: str, text: str) -> str:
    """Return the words of a path and the parts of compound identifiers, each once.

    Examples
    --------
    >>> searched_line("src/io_tools.py", "def loadIndex(path): return open_file(path)")
    'src io tools py load Index open file'
    """
    compounds = dict.fromkeys(_COMPOUND.findall(text))
    words = [*re.findall(r"[^\W_]+", path), *(part for name in compounds for part in _PART.findall(name))]
    return " ".join(dict.fromkeys(words))


def _of_file(path: Path, name: str) -> Iterator[Entry]:
    if path.stat().st_size > MOST_BYTES:
        _log.warning("left out: %s has more than %s bytes", path, f"{MOST_BYTES:,}")
        return
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return
    if b"\0" in raw or not text.strip():
        return
    first = text.strip().partition("\n")[0].strip()
    title = first.lstrip("# ") if first.startswith("# ") else name
    yield name, f"{searched_line(name, text)}\n{text}", {"title": title, "url": path.as_uri()}


def _of_lines(path: Path, name: str) -> Iterator[Entry]:
    ids = set[str]()
    for number, line in open_lines(path):
        if not line.strip():
            continue
        record = {key: plain_value(value) for key, value in parse_json_object(line, path, number).items()}
        plain = {key: plain_name(key) for key in record}
        stated_id = next((record[key] for key, role in plain.items() if role in _ID_NAMES), None)
        doc_id = f"{name}#{number if stated_id in (None, '') else stated_id}"
        if doc_id in ids:
            raise FormatError(path, number, f"the id {stated_id!r} is used before; give each line its own")
        ids.add(doc_id)
        titles = [str(value) for key, value in record.items() if plain[key] in TITLES and value]
        bodies = [str(value) for key, value in record.items() if plain[key] in _BODIES and value]
        text = "\n".join([*titles, *bodies]) or "\n".join(value for value in record.values() if isinstance(value, str))
        if not text.strip():
            raise FormatError(path, number, 'no text; give the line a key "text"')
        address = next((str(record[key]) for key, role in plain.items() if role in _ADDRESSES and record[key]), None)
        stored = {key: value for key, value in record.items() if plain[key] not in (*TITLES, *_BODIES, "url")}
        url = address or f"{path.as_uri()}#{number}"
        yield doc_id, f"{searched_line(name, text)}\n{text}", {**stored, "title": (titles or [doc_id])[0], "url": url}
