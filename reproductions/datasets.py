"""Data sets of a plan as tasks, from the files their publishers ship."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

import tercet
from reproductions.folds import FoldTask, QueryRows, first_queries, folds_statistics, in_random_order
from reproductions.links import Links, LinkTask, PreferenceTask, split_links
from reproductions.plan import Plan, PlanData, Quick
from reproductions.readers import (
    find_mentions,
    make_offsets,
    read_kyoto,
    read_mnist,
    read_parses,
    read_wikispeedia,
)
from reproductions.tasks import ClassTask
from tercet.data import LetorData, read_20newsgroups, read_letor_folds
from tercet.errors import FormatError, MissingBundleError, MissingDataError, MissingExtraError
from tercet.store import canonical_bytes, read_bundle, write_bundle
from tercet.text import Analyzer, Vectorizer

_MOST_MENTIONED = 0.01  # articles that a larger share mentions, such as Kyoto itself, say little about who does
_FEW = 10  # mentions are never too many
_SEED = 0  # of keyword queries, of the order of documents, of made-up rows and of users
_TEST_QUERIES = 1000  # where the plan does not say; of classes all rows are asked then
_PACKED = ("", ".bz2", ".gz")
_YEAR = re.compile(r"\d{1,4}(s|_BC|_AD)?")  # links to calendar years say nothing of what an article is about
_DESCRIPTION = ("title", "note", "compare", "measures", "instead")  # without influence on a task


@dataclass(frozen=True, eq=False)
class DataSet:
    """Tasks of a data set, one for each fold, with statistics."""

    tasks: tuple[PreferenceTask | FoldTask, ...]
    statistics: dict[str, int]

    def known(self) -> dict[str, Any]:
        """Return facts for the results, with query names if any."""
        facts: dict[str, Any] = {"statistics": self.statistics}
        folds = [task for task in self.tasks if isinstance(task, FoldTask)]
        if folds:
            facts["splits"] = [fold.name for fold in folds]
            facts["queries"] = [query for fold in folds for query in fold.test.qids.tolist()]
        return facts


def with_data_found(plan: Plan, home: Path, quick: Quick | None, prepared: Path) -> Plan:
    """Replace each data set by its first complete candidate, if any."""

    def found(data: PlanData) -> PlanData:
        for candidate in (data, *data.instead):
            if _paths(candidate, home) or _prepared_path(candidate, quick, prepared).exists():
                return replace(candidate, instead=())
        return data

    return replace(plan, datasets={name: found(data) for name, data in plan.datasets.items()})


def load_dataset(data: PlanData, home: Path, quick: Quick | None = None, prepared: Path | None = None) -> DataSet:
    """Read and prepare a data set; a missing file is a MissingDataError.

    Takes seconds. Tasks of words are stored in the folder ``prepared``, if given, and read from there again: the files
    of a data set are taken to stay the same.
    """
    if data.task == "rows":
        folds = _read_folds(data, home)
        if quick is not None:
            folds = tuple(first_queries(fold, quick.queries) for fold in folds[: quick.folds])
        return DataSet(folds, folds_statistics(folds))
    task = None if prepared is None else _read_task(_prepared_path(data, quick, prepared))
    if task is None:
        if data.task == "classes":
            task = _class_task(data, home)
            task = task if quick is None else task.with_fewer_rows(quick.train_rows, quick.test_rows)
        else:
            task = _link_task(data, home, None if quick is None else quick.train_rows)
        if prepared is not None:
            _write_task(_prepared_path(data, quick, prepared), task)
    return DataSet((task,), task.statistics())


def _paths(data: PlanData, home: Path) -> list[Path]:
    """Return the paths to read; none if a needed path is missing."""
    if data.reader == "made-up":
        return [home]
    paths = [home / f"{name}{end}" for name in data.files for end in _PACKED]
    there = [path for path in paths if path.exists()]
    if data.reader == "parses":
        there = [path for path in there if (path / "rank_train.features").is_file()]
    if data.reader == "letor-folds":
        there = [path for path in there if path.is_file() or any(path.glob("Fold[0-9]*"))]
    one_is_enough = data.task == "rows" or data.reader == "20newsgroups"
    return there if len(there) >= len(data.files) or one_is_enough else []


def _needed(data: PlanData, home: Path) -> list[Path]:
    paths = _paths(data, home)
    if not paths:
        wanted = (", ".join(str(home / name) for name in each.files) for each in (data, *data.instead))
        raise MissingDataError(f"looked for {'; or for '.join(wanted)}: not there")
    return paths


# -- prepared tasks ---------------------------------------------------------------------------------------------------


@cache
def source_digest() -> str:
    """Digest of all source files of tercet and of the reproductions: other code, other results."""
    digest = hashlib.sha256()
    for folder in (Path(tercet.__file__).parent, Path(__file__).parent):
        for file in sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
            if "tests" not in file.relative_to(folder).parts:
                digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def data_settings(data: PlanData, quick: Quick | None) -> dict[str, Any]:
    """Everything about a data set that decides its task."""
    settings = {name: value for name, value in asdict(data).items() if name not in _DESCRIPTION}
    return {"data": settings, "quick": None if quick is None else asdict(quick)}


def _prepared_path(data: PlanData, quick: Quick | None, folder: Path) -> Path:
    settings = canonical_bytes(data_settings(data, quick) | {"source": source_digest()})
    return folder / f"{data.reader}-{hashlib.sha256(settings).hexdigest()[:16]}"


def _write_task(path: Path, task: PreferenceTask) -> None:
    meta: dict[str, Any] = {"is_links": isinstance(task, LinkTask)}
    arrays: dict[str, NDArray[Any]] = {}
    for field in fields(task):
        value = getattr(task, field.name)
        if sparse.issparse(value) and not (field.name == "D" and value is task.Q):
            meta[field.name] = {"shape": list(value.shape)}
            arrays |= {f"{field.name}.{part}": getattr(value, part) for part in ("data", "indices", "indptr")}
        elif isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif field.name == "words" and value is not None:
            arrays["words"] = np.frombuffer("\n".join(value).encode(), np.uint8)
        elif field.name.endswith("_blocks"):
            meta[field.name] = {name: [block.start, block.stop] for name, block in value.items()}
        elif not sparse.issparse(value):
            meta[field.name] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bundle(path, kind="task", meta=meta, arrays=arrays)


def _read_task(path: Path) -> PreferenceTask | None:
    """Return a prepared task, or None if there is none."""
    try:
        bundle = read_bundle(path, kind="task")
    except MissingBundleError:
        return None
    meta = dict(bundle.meta)
    cls = LinkTask if meta.pop("is_links") else ClassTask
    values: dict[str, Any] = {}
    for field in fields(cls):
        name, value = field.name, meta.get(field.name)
        if isinstance(value, dict) and "shape" in value:
            parts = tuple(bundle.arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
            values[name] = sparse.csr_array(parts, shape=tuple(value["shape"]))
        elif name == "words" and name in bundle.arrays:
            values[name] = bytes(bundle.arrays[name]).decode().split("\n")
        elif name in bundle.arrays:
            values[name] = bundle.arrays[name]
        elif name.endswith("_blocks"):
            values[name] = {block: slice(*ends) for block, ends in meta[name].items()}
        else:
            values[name] = values["Q"] if name == "D" else value
    return cls(**values)


# -- LETOR rows -------------------------------------------------------------------------------------------------------


def _read_folds(data: PlanData, home: Path) -> tuple[FoldTask, ...]:
    if data.reader == "made-up":
        sizes = data.train_queries, _n_test_queries(data), data.rows_of_query
        train, test = make_offsets(*sizes, data.n_features or data.rows_of_query, _SEED)
        return (FoldTask("train-test", train, None, test),)
    path = _needed(data, home)[0]
    if data.reader == "parses":
        train, test = read_parses(path)
        return (FoldTask("train-test", train, None, test),)
    return tuple(
        FoldTask(fold.name, *(_random_rows(part) for part in (fold.train, fold.vali, fold.test)))
        for fold in read_letor_folds(path, comments=False)
    )


def _random_rows(part: LetorData) -> QueryRows:
    return in_random_order(QueryRows(part.X, part.y, part.qid.astype(np.str_)), _SEED)


# -- rows with classes ------------------------------------------------------------------------------------------------


def _n_test_queries(data: PlanData) -> int:
    return _TEST_QUERIES if data.test_queries is None else data.test_queries


def _class_task(data: PlanData, home: Path) -> ClassTask:
    paths = _needed(data, home)
    if data.reader == "20newsgroups":
        return _newsgroups(data, paths[0])
    columns = None
    if data.reader == "mnist":
        X, y, X_test, y_test = read_mnist(paths[0])
    else:
        (X, y), (X_test, y_test) = (_svmlight_rows(path, data.n_features) for path in paths)
        if data.max_features is not None:
            frequency = np.bincount(X.indices, minlength=X.shape[1])
            columns = np.sort(np.argsort(-frequency, kind="stable")[: data.max_features])
    sides = (_finished(X, data, columns), y, _finished(X_test, data, columns), y_test)
    return ClassTask(*sides, test_queries=data.test_queries)


def _svmlight_rows(path: Path, n_features: int | None) -> tuple[Any, NDArray[np.int64]]:
    try:
        X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=False)
    except (OSError, EOFError, ValueError) as error:
        raise FormatError(path, None, f"these are no SVMlight rows of {n_features} features: {error}") from error
    return X, y.astype(np.int64)


def _newsgroups(data: PlanData, path: Path) -> ClassTask:
    train, test = read_20newsgroups(path.parent if path.is_dir() else path)
    vectorizer = _vectorizer(data, Analyzer(html=False, stop_words=data.stop_words))
    X = vectorizer.fit_transform_docs(train.texts)
    X_test = vectorizer.transform_docs(test.texts)
    classes = np.unique([*train.labels, *test.labels])
    y, y_test = (np.searchsorted(classes, part.labels) for part in (train, test))
    return ClassTask(X, y, X_test, y_test, vectorizer.words_, data.test_queries)


def _vectorizer(data: PlanData, analyzer: Analyzer) -> Vectorizer:
    return Vectorizer(analyzer=analyzer, max_features=data.max_features, sublinear_tf=data.sublinear_tf)


def _finished(X: Any, data: PlanData, columns: NDArray[Any] | None = None) -> sparse.csr_array:
    rows = sparse.csr_array(X if columns is None else X[:, columns]).astype(np.float32)
    return unit_rows(rows) if data.unit_length else rows


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Scale each row to length 1; empty rows stay empty."""
    length = np.sqrt(np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel())
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    scaled = rows.copy()
    scaled.data = (rows.data * np.repeat(scale, np.diff(rows.indptr))).astype(np.float32)
    return scaled


# -- queries with links -----------------------------------------------------------------------------------------------

# Several data sets of a plan are made of the same files.
_wikispeedia_articles = lru_cache(maxsize=1)(read_wikispeedia)
_kyoto_articles = lru_cache(maxsize=1)(read_kyoto)


def _link_task(data: PlanData, home: Path, most: int | None) -> LinkTask:
    [path] = _needed(data, home)
    if data.reader == "wikispeedia":
        return _wikispeedia(data, path, most)
    return _kyoto(data, path, most)


def _wikispeedia(data: PlanData, path: Path, most: int | None) -> LinkTask:
    """Articles and hyperlinks."""
    articles = _wikispeedia_articles(path)
    is_year = np.array([bool(_YEAR.fullmatch(name)) for name in articles.ids])
    links = articles.links[~is_year[articles.links[:, 1]]]
    order = _order(len(articles.texts), data, most)
    texts, links = [articles.texts[row] for row in order], _renumbered(links, order)
    analyzer = Analyzer(html=False, stop_words=data.stop_words)
    shown = texts if data.doc_words is None else [_beginning(text, analyzer, data.doc_words) for text in texts]
    vectorizer = _vectorizer(data, analyzer)
    # Where documents are cut, the words of whole articles still have columns: queries use them.
    Q = vectorizer.fit_transform_docs(texts)
    D = Q if shown is texts else vectorizer.transform_docs(shown)
    words, blocks = vectorizer.words_, {}
    if data.bigrams:
        pairs = Vectorizer(
            analyzer=Analyzer(html=False, stop_words=data.stop_words, ngrams=(2, 2)),
            sublinear_tf=data.sublinear_tf,
            min_df=2,
        )
        bigrams = pairs.fit_transform_docs(texts)
        blocks = {"words": slice(0, D.shape[1]), "pairs": slice(D.shape[1], D.shape[1] + bigrams.shape[1])}
        Q = D = sparse.csr_array(sparse.hstack([D, bigrams], format="csr"))
        words = [*words, *pairs.words_]
    if data.query_words is not None:
        Q = _keywords(Q, vectorizer.idf_, data.query_words, data.query_draws)
    return _split_task(data, Q, D, links, words, query_blocks=blocks, doc_blocks=blocks)


def _kyoto(data: PlanData, path: Path, most: int | None) -> LinkTask:
    """Japanese articles, with mentioned and translated English articles."""
    articles = _kyoto_articles(path)
    if data.relevant == "translation":
        links = np.repeat(np.arange(len(articles), dtype=np.int64)[:, None], 2, axis=1)
    else:
        links = find_mentions(articles.texts_en, articles.titles_en)
        n_mentions = np.bincount(links[:, 1], minlength=len(articles))
        links = links[n_mentions[links[:, 1]] <= max(_FEW, _MOST_MENTIONED * len(articles))]
    order = _order(len(articles), data, most)
    links = _renumbered(links, order)
    japanese, english = ([texts[row] for row in order] for texts in (articles.texts_ja, articles.texts_en))
    blocks: dict[str, slice] = {}
    sides: list[sparse.csr_array] = []
    words: list[str] = []
    for name, texts, analyzer in (
        ("ja", japanese, japanese_analyzer()),
        ("en", english, Analyzer(html=False, stop_words=data.stop_words)),
    ):
        vectorizer = _vectorizer(data, analyzer)
        sides.append(vectorizer.fit_transform_docs(texts))
        blocks[name] = slice(len(words), len(words) + sides[-1].shape[1])
        words += vectorizer.words_
    Q = sparse.csr_array(sparse.hstack(sides, format="csr"))
    return _split_task(data, Q, sides[1], links, words, query_blocks=blocks, doc_blocks={})


def japanese_analyzer() -> Analyzer:
    """Words where the extra ``ja`` is installed, else pairs of characters."""
    try:
        return Analyzer(tokenizer="japanese")
    except MissingExtraError:
        return Analyzer(tokenizer="characters")


def _split_task(
    data: PlanData, Q: sparse.csr_array, D: sparse.csr_array, links: Links, words: list[str], **blocks: Any
) -> LinkTask:
    split = split_links(links, by=data.split, n_articles=D.shape[0])
    return LinkTask(
        Q,
        D,
        n_articles=D.shape[0],
        train_links=split.train,
        validation_links=split.validation,
        test_links=split.test,
        hides_itself=data.relevant == "links",
        test_queries=_n_test_queries(data),
        validation_queries=data.validation_queries,
        first_test_doc=split.first_test_doc,
        first_validation_doc=split.first_validation_doc,
        words=words,
        **blocks,
    )


def _order(n: int, data: PlanData, most: int | None) -> Sequence[int]:
    """Return articles in file order, or in random order for a subset or a split by documents."""
    if most is None and data.split == "links":
        return range(n)
    return np.random.default_rng(_SEED).permutation(n)[:most].tolist()


def _renumbered(links: Links, order: Sequence[int]) -> Links:
    """Links between the articles of this order, by their numbers in it."""
    number = np.full(max(int(links.max(initial=-1)), max(order)) + 1, -1)
    number[np.asarray(order)] = np.arange(len(order))
    renumbered = number[links]
    return np.asarray(renumbered[(renumbered >= 0).all(axis=1)], dtype=np.int64)


def _beginning(text: str, analyzer: Analyzer, n_words: int) -> str:
    return " ".join(analyzer(text)[:n_words])


def _keywords(Q: sparse.csr_array, idf: Any, n_words: int, draws: int) -> sparse.csr_array:
    """Queries of some of a document's words, all alike, in unit length; each further draw is a block of rows below."""
    rng = np.random.default_rng(_SEED)
    rows, columns = [], []
    for draw in range(draws):
        for article in range(Q.shape[0]):
            terms = Q.indices[Q.indptr[article] : Q.indptr[article + 1]]
            chosen = rng.choice(terms, min(n_words, terms.size), replace=False)
            rows += [draw * Q.shape[0] + article] * chosen.size
            columns += chosen.tolist()
    values = np.asarray(idf)[columns].astype(np.float32)
    return unit_rows(sparse.csr_array((values, (rows, columns)), shape=(draws * Q.shape[0], Q.shape[1])))
