"""Wikispeedia: the articles of "Wikipedia for Schools" and the links between them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from reproductions.readers.files import decode_text, read_bytes
from tercet.errors import FormatError

WIKISPEEDIA_ARCHIVE = "wikispeedia.tar.gz"
TEXTS = "plaintext_articles"
GRAPH = "wikispeedia_paths-and-graph"
LAYOUT = f"Wikispeedia is {WIKISPEEDIA_ARCHIVE}, or a folder with {TEXTS}/*.txt and {GRAPH}/articles.tsv and links.tsv"

# Begin and end of every article, apart from the title.
_FIRST = "#copyright"
_SUBJECTS = "2007 Schools Wikipedia Selection."
_SOURCE = 'Retrieved from "'
_LICENCE = "This reference article is mainly selected from the English Wikipedia"


@dataclass(frozen=True, eq=False)
class LinkedTexts:
    """Texts and the links between them.

    Attributes
    ----------
    ids : of each text
    texts : one for each id
    links : (n, 2) int64, row numbers (from, to) of texts; sorted, unique, no loops
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    links: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)


def read_wikispeedia(path: str | Path) -> LinkedTexts:
    """Read 4,598 articles of Wikispeedia and the 119,769 links between them, in about two seconds.

    Shared parts are removed from every article: the line ``#copyright``, the paragraph of related subjects, the address
    and the licence. The title is the first line. Ids are names without URL quoting, as in ``Áedán_mac_Gabráin``, in the
    order of ``articles.tsv``. Listed articles without a text and links of an article to itself are dropped.

    Parameters
    ----------
    path : ``wikispeedia.tar.gz``, the folder that holds it, or the folder it was extracted to

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     texts, graph = (Path(folder, name) for name in (TEXTS, GRAPH))
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
    if not root.exists():
        raise FormatError(path, None, f"there are no texts here; {LAYOUT}")
    text_of: dict[str, str] = {}
    tables: dict[str, str] = {}
    for (folder, name), content in _files_in_folder(root) if root.is_dir() else _files_in_archive(root):
        text = decode_text(content, root / folder / name)
        if folder == GRAPH:
            tables[name] = text
        elif folder == TEXTS and name.endswith(".txt"):
            text_of[unquote(name.removesuffix(".txt"))] = _article_alone(text)
    for name in ("articles.tsv", "links.tsv"):
        if name not in tables:
            raise FormatError(root, None, f"{GRAPH}/{name} is missing; {LAYOUT}")
    listed = {article: line for line, [article] in _rows(tables["articles.tsv"], root / GRAPH / "articles.tsv", 1)}
    ids = tuple(article for article in listed if article in text_of)
    number = {article: i for i, article in enumerate(ids)}
    links: set[tuple[int, int]] = set()
    for line, ends in _rows(tables["links.tsv"], root / GRAPH / "links.tsv", 2):
        for article in ends:
            if article not in listed:
                message = f"the article {article!r} is not listed in articles.tsv"
                raise FormatError(root / GRAPH / "links.tsv", line, message)
        source, target = (number.get(article) for article in ends)
        if source is not None and target is not None and source != target:
            links.add((source, target))
    rows = np.array(sorted(links), dtype=np.int64).reshape(-1, 2)
    return LinkedTexts(ids, tuple(text_of[article] for article in ids), rows)


def _rows(text: str, path: Path, n_columns: int) -> Iterator[tuple[int, list[str]]]:
    """Unquoted names of the lines of a table that are neither blank nor comments, with the numbers of the lines."""
    for line, row in enumerate(text.split("\n"), start=1):
        row = row.removesuffix("\r")
        if not row or row.startswith("#"):
            continue
        names = [unquote(name) for name in row.split("\t")]
        if len(names) != n_columns:
            raise FormatError(path, line, f"{len(names)} columns; {n_columns} are needed, separated by tabs")
        yield line, names


def _article_alone(text: str) -> str:
    """The text without the parts that all articles share."""
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


def _files_in_folder(root: Path) -> Iterator[tuple[tuple[str, str], bytes]]:
    for folder in (TEXTS, GRAPH):
        for file in sorted(path for path in (root / folder).glob("*") if path.suffix in (".txt", ".tsv")):
            yield (folder, file.name), read_bytes(file)


def _files_in_archive(path: Path) -> Iterator[tuple[tuple[str, str], bytes]]:
    """Files of the archive, read in memory; nothing is extracted."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                content = archive.extractfile(member) if member.isfile() and len(parts) == 2 else None
                if content is not None and not parts[1].startswith("._"):
                    yield (parts[0], parts[1]), content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FormatError(path, None, f"the tar archive is broken: {error}") from error
