"""Labeled texts: a folder for each class with a file for each text; 20 Newsgroups is such a set, packed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tercet.data import limits
from tercet.data.archives import archive_members
from tercet.data.lines import FilePath, codec_name, decoding_error, open_bytes
from tercet.errors import FormatError, InputError

NEWSGROUPS_TRAIN = "20news-bydate-train"
NEWSGROUPS_TEST = "20news-bydate-test"
# Bounds for hostile archives: all posts together have 36 MB, the largest post has 160 kB.
LARGEST_ARCHIVE = 1 << 30


@dataclass(frozen=True)
class LabeledTexts:
    """Texts with a class each, sorted by class and then by file name.

    Attributes
    ----------
    texts : the files' contents, whole
    labels : the class of each text
    names : ``class/file`` of each text

    Examples
    --------
    >>> texts = LabeledTexts(["green tea"], ["drinks"], ["drinks/1.txt"])
    >>> texts.labels
    ['drinks']
    """

    texts: list[str]
    labels: list[str]
    names: list[str]

    def __len__(self) -> int:
        return len(self.texts)


def read_labeled_folder(path: FilePath, encoding: str = "utf-8") -> LabeledTexts:
    """Read a folder with a subfolder for each class and a file for each text.

    Hidden files, and files beside the class folders, are skipped. Texts are kept whole, line ends included; a gzipped
    file
    is unpacked. A text of more than `limits.LARGEST_TEXT` bytes is refused.

    Parameters
    ----------
    path : the folder
    encoding : of every file

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for label in ("cats", "dogs"):
    ...         pathlib.Path(folder, label).mkdir()
    ...         _ = pathlib.Path(folder, label, "1.txt").write_text(f"about {label}")
    ...     read = read_labeled_folder(folder)
    >>> read.texts, read.labels, read.names
    (['about cats', 'about dogs'], ['cats', 'dogs'], ['cats/1.txt', 'dogs/1.txt'])
    """
    root = Path(path)
    if not root.is_dir():
        raise FormatError(path, None, "there is no such folder; a folder with a subfolder for each class is needed")
    return _gather(((file.parent.name, file.name, text) for file, text in texts_of_folder(root, encoding)), path)


def texts_of_folder(root: Path, encoding: str) -> Iterator[tuple[Path, str]]:
    """Yield each file in a class folder and its text."""
    n_read = n_stored = 0
    for class_folder in _visible(root):
        if not class_folder.is_dir():
            continue
        files = _visible(class_folder)
        if not files:
            raise FormatError(class_folder, None, "the class has no texts; remove the folder or add a file")
        for file in files:
            if not file.is_file():
                raise FormatError(file, None, "this is not a file; a class folder holds a file for each text")
            with open_bytes(file) as stream:
                content = stream.read(limits.LARGEST_TEXT + 1)
            if len(content) > limits.LARGEST_TEXT:
                message = f"the text is longer than {limits.LARGEST_TEXT:,} bytes; make several texts of it"
                raise FormatError(file, None, message)
            text = decode_text(content, file, encoding)
            n_read, n_stored = n_read + len(content), n_stored + file.stat().st_size
            limits.check_unpacked(root, n_read, n_stored, "packed")
            yield file, text


def _visible(folder: Path) -> list[Path]:
    return sorted((file for file in folder.iterdir() if not file.name.startswith(".")), key=lambda f: f.name)


def decode_text(content: bytes, path: FilePath, encoding: str) -> str:
    """Decode a whole text; the error names the line and the byte. A UTF-8 byte order mark is left out."""
    name = codec_name(encoding)
    if name is None:
        raise InputError(f"unknown encoding {encoding!r}; for instance utf-8 or latin-1")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        advice = 'name the encoding the texts are in, for instance encoding="latin-1"'
        raise decoding_error(path, line, content[error.start], error.start, encoding, advice) from error
    return text.removeprefix("\ufeff") if name == "utf-8" else text


def _gather(posts: Iterable[tuple[str, str, str]], path: FilePath) -> LabeledTexts:
    ordered = sorted(posts, key=lambda item: item[:2])
    classes = {label for label, _, _ in ordered}
    if not classes:
        raise FormatError(path, None, "there is no text here; a subfolder for each class is needed")
    if len(classes) == 1:
        raise FormatError(path, None, f"only one class, {classes.pop()!r}; at least two are needed")
    return LabeledTexts(
        texts=[text for _, _, text in ordered],
        labels=[label for label, _, _ in ordered],
        names=[f"{label}/{name}" for label, name, _ in ordered],
    )


def read_20newsgroups(path: FilePath) -> tuple[LabeledTexts, LabeledTexts]:
    """Read the bydate split of 20 Newsgroups, from ``20news-bydate.tar.gz`` or from the extracted folder.

    Posts are Latin-1 and are kept whole, with headers, quotes and signatures. An archive is read without extracting.

    Parameters
    ----------
    path : the archive, or the folder with ``20news-bydate-train`` and ``20news-bydate-test``

    Returns
    -------
    train, test : LabeledTexts, each sorted by group and file name

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("20news-bydate-train", "20news-bydate-test"):
    ...         for group in ("sci.med", "sci.space"):
    ...             pathlib.Path(folder, part, group).mkdir(parents=True)
    ...             _ = pathlib.Path(folder, part, group, "1").write_text(f"{group} in {part[14:]}")
    ...     train, test = read_20newsgroups(folder)
    >>> test.texts
    ['sci.med in test', 'sci.space in test']
    """
    root = Path(path)
    if root.is_dir():
        for part in (NEWSGROUPS_TRAIN, NEWSGROUPS_TEST):
            if not (root / part).is_dir():
                raise FormatError(root / part, None, "there is no such folder; 20 Newsgroups has both parts")
        return (
            read_labeled_folder(root / NEWSGROUPS_TRAIN, encoding="latin-1"),
            read_labeled_folder(root / NEWSGROUPS_TEST, encoding="latin-1"),
        )
    posts = _posts_in_archive(path)
    for part, part_posts in posts.items():
        if not part_posts:
            raise FormatError(path, None, f"the archive has no posts {part}/<group>/<file>")
    return _gather(posts[NEWSGROUPS_TRAIN], path), _gather(posts[NEWSGROUPS_TEST], path)


def _posts_in_archive(path: FilePath) -> dict[str, list[tuple[str, str, str]]]:
    posts: dict[str, list[tuple[str, str, str]]] = {NEWSGROUPS_TRAIN: [], NEWSGROUPS_TEST: []}
    seen: set[tuple[str, ...]] = set()
    total = 0
    for member, content in archive_members(path):
        parts = PurePosixPath(member.name).parts
        if member.is_folder or len(parts) != 3 or parts[0] not in posts or parts[2].startswith("."):
            continue
        if content is None:
            raise FormatError(path, None, f"{member.name} in the archive is not an ordinary file")
        total += member.size
        if member.size > limits.LARGEST_TEXT or total > LARGEST_ARCHIVE:
            message = f"{member.name} in the archive brings it beyond any real copy of 20 Newsgroups"
            raise FormatError(path, None, message)
        if parts in seen:
            raise FormatError(path, None, f"{member.name} is in the archive twice")
        seen.add(parts)
        posts[parts[0]].append((parts[1], parts[2], content.read().decode("latin-1")))
    return posts
