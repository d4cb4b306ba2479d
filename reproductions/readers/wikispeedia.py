"""Texts that link to each other; Wikispeedia, the articles of "Wikipedia for Schools", is such a set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from tercet.data.archives import archive_members
from tercet.data.labelled import decode_text
from tercet.data.lines import FilePath, id_problem, open_bytes
from tercet.errors import FormatError

WIKISPEEDIA_ARCHIVE = "wikispeedia.tar.gz"
TEXTS = "plaintext_articles"
GRAPH = "wikispeedia_paths-and-graph"
LAYOUT = f"Wikispeedia is {WIKISPEEDIA_ARCHIVE}, or a folder with {TEXTS}/*.txt and {GRAPH}/articles.tsv and links.tsv"
# The largest real file has 3 MB and all of them 110 MB; these bound what a hostile copy can make us hold.
LARGEST_FILE = 1 << 26
LARGEST_COLLECTION = 1 << 30

# What begins and ends every article, apart from the title.
_FIRST = "#copyright"
_SUBJECTS = "2007 Schools Wikipedia Selection."
_SOURCE = 'Retrieved from "'
_LICENCE = "This reference article is mainly selected from the English Wikipedia"


@dataclass(frozen=True, eq=False)
class LinkedTexts:
    """Texts and which of them link to which.

    Attributes
    ----------
    ids : of each text
    texts : one for each id
    links : (n, 2) int64, rows (from, to) that number the texts; sorted, each once, none to itself
    left_out : ids of articles that are listed but have no text
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    links: NDArray[np.int64]
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)


def read_wikispeedia(path: FilePath) -> LinkedTexts:
    """Read the articles of Wikispeedia and the links between them.

    What every article has and no author wrote is left out: the line ``#copyright``, the paragraph of related
    subjects, the address it was retrieved from and the licence. The title is the first line. Ids are the names
    without URL quoting, as in ``Áedán_mac_Gabráin``, in the order of ``articles.tsv``.

    An article that is listed but has no text is left out with its links, and named in ``left_out``. Links of an
    article to itself, of which there are 110, are left out too. A link to an article that is not listed is an
    error. The archive is read in memory; nothing is extracted.

    Parameters
    ----------
    path : ``wikispeedia.tar.gz``, the folder that holds it, or the folder it was extracted to

    Returns
    -------
    LinkedTexts, of 4,598 articles with 119,769 links. Takes about two seconds and 200 MB.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     texts, graph = (pathlib.Path(folder, name) for name in (TEXTS, GRAPH))
    ...     texts.mkdir(), graph.mkdir()
    ...     for name in ("Z%C3%BCrich", "Alps"):
    ...         _ = (texts / f"{name}.txt").write_text(f"   #copyright\\n\\n{name}\\n\\n   Is high.\\n")
    ...     _ = (graph / "articles.tsv").write_text("# A comment\\n\\nAlps\\nZ%C3%BCrich\\n")
    ...     _ = (graph / "links.tsv").write_text("Z%C3%BCrich\\tAlps\\n")
    ...     read = read_wikispeedia(folder)
    (None, None)
    >>> read.ids, read.links
    (('Alps', 'Zürich'), array([[1, 0]]))
    """
    root = Path(path)
    if root.is_dir() and not (root / TEXTS).is_dir():
        root = root / WIKISPEEDIA_ARCHIVE
        if not root.is_file():
            raise FormatError(path, None, f"this folder has neither {TEXTS} nor {WIKISPEEDIA_ARCHIVE}; {LAYOUT}")
    text_of: dict[str, str] = {}
    tables: dict[str, tuple[Path, str]] = {}
    for where, content in _files_in_folder(root) if root.is_dir() else _files_in_archive(root):
        text = decode_text(content, where, "utf-8")
        if where.parent.name == GRAPH:
            tables[where.name] = where, text
            continue
        article = _unquoted(where.name.removesuffix(".txt"), where, None)
        if article in text_of:
            raise FormatError(where, None, f"the article {article!r} has two texts")
        text_of[article] = _article_alone(text)
    for name in ("articles.tsv", "links.tsv"):
        if name not in tables:
            raise FormatError(root, None, f"{GRAPH}/{name} is missing; {LAYOUT}")
    return _joined(text_of, *tables["articles.tsv"], *tables["links.tsv"])


def _joined(text_of: dict[str, str], article_file: Path, articles: str, link_file: Path, link_rows: str) -> LinkedTexts:
    listed: dict[str, int] = {}
    for line, (quoted,) in _rows(articles, article_file, ("article",)):
        article = _unquoted(quoted, article_file, line)
        if article in listed:
            message = f"the article {article!r} is listed already, at line {listed[article]}"
            raise FormatError(article_file, line, message)
        listed[article] = line
    ids = tuple(article for article in listed if article in text_of)
    if not ids:
        raise FormatError(article_file, None, "no article listed here has a text")
    number = {article: i for i, article in enumerate(ids)}
    links: set[tuple[int, int]] = set()
    for line, ends in _rows(link_rows, link_file, ("from", "to")):
        source, target = (_unquoted(quoted, link_file, line) for quoted in ends)
        for article in (source, target):
            if article not in listed:
                raise FormatError(link_file, line, f"the article {article!r} is not listed in articles.tsv")
        if source != target and source in number and target in number:
            links.add((number[source], number[target]))
    rows = np.array(sorted(links), dtype=np.int64).reshape(-1, 2)
    rows.flags.writeable = False
    left_out = tuple(article for article in listed if article not in text_of)
    return LinkedTexts(ids, tuple(text_of[article] for article in ids), rows, left_out)


def _rows(text: str, path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """The lines of a table that are neither blank nor comments, with their numbers."""
    for line, row in enumerate(text.split("\n"), start=1):
        fields = row.removesuffix("\r").split("\t")
        if fields == [""] or row.startswith("#"):
            continue
        if len(fields) != len(columns):
            needed = f"{len(columns)} ({', '.join(columns)}), separated by tabs"
            raise FormatError(path, line, f"{len(fields)} columns; {needed}, are needed")
        yield line, fields


def _unquoted(quoted: str, path: Path, line: int | None) -> str:
    try:
        article = unquote(quoted, errors="strict")
    except UnicodeDecodeError as error:
        raise FormatError(path, line, f"the name {quoted!r} is not UTF-8 in URL quoting") from error
    problem = id_problem(article)
    if problem is not None:
        raise FormatError(path, line, f"the article's name {problem}")
    return article


def _article_alone(text: str) -> str:
    """The text without what `read_wikispeedia` says is left out; each piece only where it is expected."""
    paragraphs = text.strip().split("\n\n")
    if paragraphs[0].strip() == _FIRST:
        del paragraphs[0]
    if len(paragraphs) > 1 and paragraphs[1].startswith(_SUBJECTS):
        del paragraphs[1]
    alone = "\n\n".join(paragraphs)
    licence = alone.rfind(_LICENCE)
    if licence >= 0:
        source = alone.rfind(_SOURCE, 0, licence)
        alone = alone[: source if source >= 0 else licence]
    return alone.strip()


def _files_in_folder(root: Path) -> Iterator[tuple[Path, bytes]]:
    # Only files that are found in the folders: a name that is read in a table never becomes a path.
    total = 0
    for folder in (root / TEXTS, root / GRAPH):
        if not folder.is_dir():
            raise FormatError(folder, None, f"there is no such folder; {LAYOUT}")
        for file in sorted(folder.iterdir()):
            if file.is_file() and _is_wanted(file.parts):
                with open_bytes(file) as stream:
                    content = stream.read(LARGEST_FILE + 1)
                total += len(content)
                _check_size(len(content), total, file)
                yield file, content


def _files_in_archive(path: Path) -> Iterator[tuple[Path, bytes]]:
    seen: set[tuple[str, ...]] = set()
    total = 0
    for member, content in archive_members(path):
        parts = PurePosixPath(member.name).parts
        if member.is_folder or len(parts) != 2 or not _is_wanted(parts):
            continue
        where = path.joinpath(*parts)
        if content is None:
            raise FormatError(where, None, "this member of the archive is not an ordinary file")
        total += member.size
        _check_size(member.size, total, where)
        if parts in seen:
            raise FormatError(where, None, "this member is in the archive twice")
        seen.add(parts)
        yield where, content.read()


def _is_wanted(parts: tuple[str, ...]) -> bool:
    folder, name = parts[-2:]
    if folder == TEXTS:
        return name.endswith(".txt") and not name.startswith("._")
    return folder == GRAPH and name in ("articles.tsv", "links.tsv")


def _check_size(size: int, total: int, where: Path) -> None:
    if size > LARGEST_FILE or total > LARGEST_COLLECTION:
        raise FormatError(where, None, "this file brings it beyond any real copy of Wikispeedia")
