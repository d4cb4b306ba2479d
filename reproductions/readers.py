"""Readers of data sets for the reproductions alone, from the files their publishers ship."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from reproductions.folds import QueryRows
from tercet.errors import FormatError

Mnist = tuple[sparse.csr_array, NDArray[np.int64], sparse.csr_array, NDArray[np.int64]]


def _read_bytes(path: Path) -> bytes:
    """Read a file, decompressed if gzipped."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FormatError(path, None, "there is no such file") from None
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _first_existing(folder: Path, names: Sequence[str]) -> Path:
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


# -- Wikispeedia ------------------------------------------------------------------------------------------------------

WIKISPEEDIA_ARCHIVE = "wikispeedia.tar.gz"
TEXTS = "plaintext_articles"
GRAPH = "wikispeedia_paths-and-graph"

# Begin and end of every article, apart from the title.
_FIRST = "#copyright"
_SUBJECTS = "2007 Schools Wikipedia Selection."
_SOURCE = 'Retrieved from "'
_LICENSE = "This reference article is mainly selected from the English Wikipedia"


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
    """Read 4,598 articles of "Wikipedia for Schools" and the 119,769 links between them, in about two seconds.

    Shared parts are removed from every article: the line ``#copyright``, the paragraph of related subjects, the address
    and the license. The title is the first line. Ids are names without URL quoting, as in ``Áedán_mac_Gabráin``, in the
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
        raise FormatError(path, None, f"Wikispeedia is {WIKISPEEDIA_ARCHIVE}, or a folder with {TEXTS} and {GRAPH}")
    text_of: dict[str, str] = {}
    tables: dict[str, str] = {}
    for (folder, name), content in _files_in_folder(root) if root.is_dir() else _files_in_archive(root):
        if folder == GRAPH:
            tables[name] = content.decode()
        elif folder == TEXTS and name.endswith(".txt"):
            text_of[unquote(name.removesuffix(".txt"))] = _article_alone(content.decode())
    ids = tuple(article for [article] in _table_rows(tables["articles.tsv"]) if article in text_of)
    number = {article: i for i, article in enumerate(ids)}
    ends = ((number.get(source), number.get(target)) for source, target in _table_rows(tables["links.tsv"]))
    links = {(source, target) for source, target in ends if None not in (source, target) and source != target}
    rows = np.array(sorted(links), dtype=np.int64).reshape(-1, 2)
    return LinkedTexts(ids, tuple(text_of[article] for article in ids), rows)


def _table_rows(text: str) -> Iterator[list[str]]:
    """Unquoted names of the lines of a table that are neither blank nor comments."""
    for row in text.splitlines():
        if row and not row.startswith("#"):
            yield [unquote(name) for name in row.split("\t")]


def _article_alone(text: str) -> str:
    """The text without the parts that all articles share."""
    paragraphs = text.strip().split("\n\n")
    if paragraphs[0].strip() == _FIRST:
        del paragraphs[0]
    if len(paragraphs) > 1 and paragraphs[1].startswith(_SUBJECTS):
        del paragraphs[1]
    alone = "\n\n".join(paragraphs)
    license = alone.rfind(_LICENSE)
    if license >= 0:
        source = alone.rfind(_SOURCE, 0, license)
        alone = alone[: source if source >= 0 else license]
    return alone.strip()


def _files_in_folder(root: Path) -> Iterator[tuple[tuple[str, str], bytes]]:
    for folder in (TEXTS, GRAPH):
        for file in sorted(path for path in (root / folder).glob("*") if path.suffix in (".txt", ".tsv")):
            yield (folder, file.name), _read_bytes(file)


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


# -- Kyoto ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParallelTexts:
    """Articles in file order, each in Japanese and in English; the sentences of a text are joined by line breaks."""

    ids: tuple[str, ...]
    titles_en: tuple[str, ...]
    texts_ja: tuple[str, ...]
    texts_en: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)


def read_kyoto(path: str | Path) -> ParallelTexts:
    """Read Wikipedia's 14,111 articles on Kyoto in Japanese, each with its English translation, in about two seconds.

    Each line is a JSON object with ``id``, ``title_en`` and the lists of sentences ``ja`` and ``en``.

    Parameters
    ----------
    path : the file, gzipped or not, or the folder that holds ``docs.jsonl`` or ``docs.jsonl.gz``

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     line = '{"id": "A1", "title_en": "Zen", "ja": ["座る。"], "en": ["Sit."]}'
    ...     _ = Path(folder, "docs.jsonl").write_text(line, encoding="utf-8")
    ...     articles = read_kyoto(folder)
    >>> articles.titles_en, articles.texts_ja
    (('Zen',), ('座る。',))
    """
    file = _first_existing(Path(path), ("docs.jsonl", "docs.jsonl.gz")) if Path(path).is_dir() else Path(path)
    records = [json.loads(line) for line in _read_bytes(file).decode().split("\n") if line.strip()]
    return ParallelTexts(
        tuple(record["id"] for record in records),
        tuple(record["title_en"] for record in records),
        *(tuple("\n".join(record[language]) for record in records) for language in ("ja", "en")),
    )


# Marks are tokens too, so that no title is found across a comma or the end of a sentence.
_TOKENS = re.compile(r"[^\W_]+(?:-[^\W_]+)*|[^\w\s]|_")
# One bracket within the gloss is allowed for.
_GLOSS = re.compile(r"\s*[(（](?:[^()（）]|[(（][^()（）]*[)）])*[)）]\s*\Z")
_FEWEST_LETTERS = 4
_NOBODY = -1


def find_mentions(texts: Sequence[str], titles: Sequence[str]) -> NDArray[np.int64]:
    """Link article `i` to article `j` where text `i` mentions the title of `j`: links for texts without links.

    A mention is the title's words in a row, in the title's letter case, separated by blanks. At each position the
    longest title counts, and the covered words count once; an article's own title covers words and links nothing. A
    gloss in brackets at the end, a leading "The" and quotation marks are removed from titles. Some titles link nothing:

    - a title of two articles (the words are still covered);
    - one word with fewer than four letters, without a capital, or an English stop word.

    Returns
    -------
    links : (n, 2) int64, rows (from, to), sorted, each once. Ten million words take about five seconds.

    Examples
    --------
    >>> titles = ["Fuji Musume (Wisteria Maiden)", "Kabuki Theatre", "The Kabuki"]
    >>> texts = ["A dance at the Kabuki Theatre.", "Fuji Musume was given here.", "Kabuki, or Kabuki theatre."]
    >>> find_mentions(texts, titles)
    array([[0, 1],
           [1, 0]])
    """
    article_of: dict[tuple[str, ...], int] = {}
    for article, title in enumerate(titles):
        tokens = _title_tokens(title)
        if len(tokens) > 1 or (tokens and _is_telling(tokens[0])):
            article_of[tokens] = _NOBODY if tokens in article_of else article
    lengths: dict[str, set[int]] = {}  # of the titles that begin with a token
    for tokens in article_of:
        lengths.setdefault(tokens[0], set()).add(len(tokens))
    links: set[tuple[int, int]] = set()
    for i, text in enumerate(texts):
        tokens, free = tuple(_TOKENS.findall(text)), 0
        for start in (at for at, token in enumerate(tokens) if token in lengths):
            for length in sorted(lengths[tokens[start]], reverse=True) if start >= free else ():
                found = article_of.get(tokens[start : start + length])
                if found is not None:
                    free = start + length
                    if found not in (i, _NOBODY):
                        links.add((i, found))
                    break
    return np.array(sorted(links), dtype=np.int64).reshape(-1, 2)


def _is_telling(word: str) -> bool:
    return len(word) >= _FEWEST_LETTERS and word[0].isupper() and word.lower() not in ENGLISH_STOP_WORDS


def _title_tokens(title: str) -> tuple[str, ...]:
    """The tokens of a title without gloss, article and surrounding marks; what is nothing but a gloss stays."""
    tokens = _without_marks(_TOKENS.findall(_GLOSS.sub("", title) or title))
    if len(tokens) > 1 and tokens[0] in ("The", "the"):
        tokens = _without_marks(tokens[1:])
    return tuple(tokens)


def _without_marks(tokens: list[str]) -> list[str]:
    words = [i for i, token in enumerate(tokens) if token[0].isalnum()]
    return tokens[words[0] : words[-1] + 1] if words else []


# -- MNIST ------------------------------------------------------------------------------------------------------------


def read_mnist(folder: str | Path) -> Mnist:
    """Read ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same two with ``t10k``, plain or ``.gz``.

    Returns
    -------
    X_train, y_train, X_test, y_test : X is CSR float32, one row an image, pixels from 0 to 1
    """
    sides: list[sparse.csr_array | NDArray[np.int64]] = []
    for part in ("train", "t10k"):
        images, labels = _read_idx(Path(folder), f"{part}-images", 3), _read_idx(Path(folder), f"{part}-labels", 1)
        X = sparse.csr_array(images.reshape(len(images), -1).astype(np.float32))
        X.data /= np.float32(255)
        sides += [X, labels.astype(np.int64)]
    return tuple(sides)  # type: ignore[return-value]


def _read_idx(folder: Path, name: str, n_dimensions: int) -> NDArray[np.uint8]:
    """The array of an IDX file: a short header, and unsigned bytes."""
    names = [f"{name}{joint}idx{n_dimensions}-ubyte{end}" for joint in "-." for end in ("", ".gz")]
    path = _first_existing(folder, names)
    content = _read_bytes(path)
    if content[:4] != bytes([0, 0, 8, n_dimensions]):
        raise FormatError(path, None, f"begins with {content[:4].hex(' ')!r}; an IDX file of bytes is needed")
    start = 4 + 4 * n_dimensions
    return np.frombuffer(content, np.uint8, offset=start).reshape(np.frombuffer(content[4:start], ">u4").astype(int))


# -- parses and made-up rows ------------------------------------------------------------------------------------------


def read_parses(folder: str | Path) -> tuple[QueryRows, QueryRows]:
    """Read RLScore's ``rank_train`` and ``rank_test`` (``.features``, ``.labels``, ``.qids``) of a folder.

    A line of features is ``index:value …`` with indices from 0. Both sets have as many columns as the larger needs.
    Rows of a query are gathered at its first row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for part in ("train", "test"):
    ...         _ = Path(name, f"rank_{part}.features").write_text("0:1 2:0.5\\n1:2\\n")
    ...         _ = Path(name, f"rank_{part}.labels").write_text("0.25\\n1.0\\n")
    ...         _ = Path(name, f"rank_{part}.qids").write_text("7\\n7\\n")
    ...     train, test = read_parses(name)
    >>> train.X.toarray().tolist(), train.y.tolist(), train.qid.tolist()
    ([[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]], [0.25, 1.0], ['7', '7'])
    """
    lines = {
        (part, end): _read_bytes(Path(folder) / f"rank_{part}.{end}").decode().splitlines()
        for part in ("train", "test")
        for end in ("features", "labels", "qids")
    }
    matrices = {part: _matrix_of(lines[part, "features"]) for part in ("train", "test")}
    n_features = max(X.shape[1] for X in matrices.values())
    parts = []
    for part, X in matrices.items():
        X.resize((X.shape[0], n_features))
        y, qid = np.array(lines[part, "labels"], dtype=np.float64), np.array(lines[part, "qids"])
        _, first, group = np.unique(qid, return_index=True, return_inverse=True)
        order = np.argsort(first[group], kind="stable")
        parts.append(QueryRows(X[order], y[order], qid[order]))
    return parts[0], parts[1]


def _matrix_of(lines: list[str]) -> sparse.csr_array:
    entries = [[entry.split(":") for entry in line.split()] for line in lines]
    ends = np.cumsum([0, *map(len, entries)])
    indices = np.array([int(index) for row in entries for index, _ in row], np.int32)
    data = np.array([float(value) for row in entries for _, value in row])
    return sparse.csr_array((data, indices, ends), shape=(len(lines), int(indices.max()) + 1))


N_WAVES = 1000  # that the planted function is a sum of
NOISE = 0.5  # standard deviation; the function's and the offsets' are 1


def make_offsets(
    train_queries: int, test_queries: int, rows_of_query: int, n_features: int, seed: int = 0
) -> tuple[QueryRows, QueryRows]:
    """Rows to learn from and rows to test on, ``y = g(x) + offset of the query + noise``; nothing is read.

    - ``x = (s + v) / √2``: s is the query's, v the row's own, both standard normal. Rows of a query resemble one
      another.
    - g is a random function with the Gaussian kernel ``exp(-|a - b|² / n_features)`` for its covariance, of standard
      deviation 1: a sum of ``N_WAVES`` cosines.
    - The offset is normal with standard deviation 1, independent of x; the noise is normal with ``NOISE``.

    Examples
    --------
    >>> train, test = make_offsets(3, 2, 4, n_features=5)
    >>> train.X.shape, train.qids.tolist(), test.X.shape, test.qids.tolist()
    ((12, 5), ['0', '1', '2'], (8, 5), ['3', '4'])
    """
    rng = np.random.default_rng(seed)
    n_queries = train_queries + test_queries
    query = np.repeat(np.arange(n_queries), rows_of_query)
    own, shared = rng.normal(size=(len(query), n_features)), rng.normal(size=(n_queries, n_features))
    X = (shared[query] + own) / np.sqrt(2.0)
    # √(2 / N_WAVES) Σ cos(w·x + phase), with w from the kernel's spectrum
    frequency = np.sqrt(2.0 / n_features) * rng.normal(size=(n_features, N_WAVES))
    phase = rng.uniform(0.0, 2.0 * np.pi, N_WAVES)
    planted = np.sqrt(2.0 / N_WAVES) * np.cos(X @ frequency + phase).sum(axis=1)
    y = planted + rng.normal(size=n_queries)[query] + NOISE * rng.normal(size=len(query))
    is_train = query < train_queries
    qid = query.astype(np.str_)
    return QueryRows(X[is_train], y[is_train], qid[is_train]), QueryRows(X[~is_train], y[~is_train], qid[~is_train])
