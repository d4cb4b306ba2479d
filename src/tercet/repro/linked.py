"""Link tasks from Wikispeedia (articles and hyperlinks) and from the Kyoto articles (Japanese and English)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tercet.errors import MissingExtraError
from tercet.repro.classes import unit_rows
from tercet.repro.files import found
from tercet.repro.links import Links, LinkTask, split_links
from tercet.repro.plan import Data
from tercet.repro.readers import read_kyoto, read_wikispeedia
from tercet.text import Analyser, Vectoriser, find_mentions

_MOST_MENTIONED = 0.01  # articles that a larger share mentions, such as Kyoto itself, say little about who does
_FEW = 10  # mentions are never too many
_SEED = 0  # of keyword queries and of the order of documents
_YEAR = re.compile(r"\d{1,4}(s|_BC|_AD)?")  # the paper leaves links to calendar years out


def _wikispeedia(data: Data, home: Path, most: int | None) -> LinkTask:
    [path] = found(home, data.files)
    articles = _articles(path)
    is_year = np.array([bool(_YEAR.fullmatch(name)) for name in articles.ids])
    links = articles.links[~is_year[articles.links[:, 1]]]
    order = _order(len(articles.texts), data, most)
    texts, links = [articles.texts[row] for row in order], _renumbered(links, order)
    analyser = Analyser(stop_words=data.stop_words)
    shown = texts if data.doc_words is None else [_beginning(text, analyser, data.doc_words) for text in texts]
    vectoriser = Vectoriser(analyser=analyser, max_features=data.max_features, sublinear_tf=data.sublinear_tf)
    # Where documents are cut, the words of whole articles still have columns: queries use them.
    Q = sparse.csr_array(vectoriser.fit_transform_docs(texts))
    D = Q if shown is texts else sparse.csr_array(vectoriser.transform_docs(shown))
    blocks: dict[str, slice] = {}
    if data.two_word_terms:
        pairs = Vectoriser(
            analyser=Analyser(stop_words=data.stop_words, ngrams=(2, 2)), sublinear_tf=data.sublinear_tf, min_df=2
        )
        beside = sparse.csr_array(pairs.fit_transform_docs(texts))
        blocks = {"words": slice(0, D.shape[1]), "pairs": slice(D.shape[1], D.shape[1] + beside.shape[1])}
        Q = D = sparse.csr_array(sparse.hstack([D, beside], format="csr"))
        words = [*vectoriser.words_, *pairs.words_]
    else:
        words = vectoriser.words_
    if data.query_words is not None:
        Q = _keywords(Q, vectoriser.idf_, data.query_words, data.draws)
    return _task(data, Q, D, links, words, query_blocks=blocks, doc_blocks=blocks)


def _kyoto(data: Data, home: Path, most: int | None) -> LinkTask:
    [path] = found(home, data.files)
    mates = _mates(path)
    if data.relevant == "mates":
        links = np.repeat(np.arange(len(mates.ids), dtype=np.int64)[:, None], 2, axis=1)
    else:
        links = find_mentions(mates.texts_en, mates.titles_en)
        n_mentions = np.bincount(links[:, 1], minlength=len(mates.ids))
        links = links[n_mentions[links[:, 1]] <= max(_FEW, _MOST_MENTIONED * len(mates.ids))]
    order = _order(len(mates.ids), data, most)
    links = _renumbered(links, order)
    japanese, english = ([texts[row] for row in order] for texts in (mates.texts_ja, mates.texts_en))
    blocks: dict[str, slice] = {}
    sides: list[sparse.csr_array] = []
    words: list[str] = []
    for name, texts, analyser in (
        ("ja", japanese, japanese_analyser()),
        ("en", english, Analyser(stop_words=data.stop_words)),
    ):
        vectoriser = Vectoriser(analyser=analyser, max_features=data.max_features, sublinear_tf=data.sublinear_tf)
        sides.append(sparse.csr_array(vectoriser.fit_transform_docs(texts)))
        blocks[name] = slice(len(words), len(words) + sides[-1].shape[1])
        words += vectoriser.words_
    Q = sparse.csr_array(sparse.hstack(sides, format="csr"))
    return _task(data, Q, sides[1], links, words, query_blocks=blocks, doc_blocks={})


# Several data sets of a plan are made of the same files.
_articles = lru_cache(maxsize=1)(read_wikispeedia)
_mates = lru_cache(maxsize=1)(read_kyoto)


def japanese_analyser() -> Analyser:
    """Words where the extra ``ja`` is installed, else pairs of characters."""
    try:
        return Analyser(cut="japanese")
    except MissingExtraError:
        return Analyser(cut="characters")


def _task(
    data: Data, Q: sparse.csr_array, D: sparse.csr_array, links: Links, words: list[str], **blocks: Any
) -> LinkTask:
    train, validation, test, first_test = split_links(links, by=data.split, n_articles=D.shape[0])
    return LinkTask(
        Q,
        D,
        n_articles=D.shape[0],
        train_links=train,
        validation_links=validation,
        test_links=test,
        hides_itself=data.relevant == "links",
        test_queries=data.test_queries,
        validation_queries=data.validation_queries,
        first_test_doc=first_test,
        words=words,
        **blocks,
    )


def _order(n: int, data: Data, most: int | None) -> Sequence[int]:
    """All articles in the order of the file; in a random one where some are left out or set aside by their place."""
    if most is None and data.split == "links":
        return range(n)
    return np.random.default_rng(_SEED).permutation(n)[:most].tolist()


def _renumbered(links: Links, order: Sequence[int]) -> Links:
    """Links between the articles of this order, by their places in it."""
    place = np.full(max(int(links.max(initial=-1)), max(order)) + 1, -1)
    place[np.asarray(order)] = np.arange(len(order))
    moved = place[links]
    return np.asarray(moved[(moved >= 0).all(axis=1)], dtype=np.int64)


def _beginning(text: str, analyser: Analyser, n_words: int) -> str:
    return " ".join(analyser(text)[:n_words])


def _keywords(Q: sparse.csr_array, idf: Any, n_words: int, draws: int) -> sparse.csr_array:
    """Queries of some of a document's words, all alike, in unit length; each further draw is a block of rows below."""
    rng = np.random.default_rng(_SEED)
    rows, columns = [], []
    for draw in range(draws):
        for article in range(Q.shape[0]):
            own = Q.indices[Q.indptr[article] : Q.indptr[article + 1]]
            chosen = rng.choice(own, min(n_words, own.size), replace=False)
            rows += [draw * Q.shape[0] + article] * chosen.size
            columns += chosen.tolist()
    values = np.asarray(idf)[columns].astype(np.float32)
    return unit_rows(sparse.csr_array((values, (rows, columns)), shape=(draws * Q.shape[0], Q.shape[1])))


READERS: dict[str, Callable[[Data, Path, int | None], LinkTask]] = {"wikispeedia": _wikispeedia, "kyoto": _kyoto}
