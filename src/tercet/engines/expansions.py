"""Learned pairs as a synonym file of Solr, with weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tercet._validate import check_integer
from tercet.data.lines import write_atomically
from tercet.engines.weighting import own_weight, rarity_left_to_engine
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel

_BLOCK = 256  # query words looked at together
_SPECIAL: Final = re.compile(r"([\\,=>])")
# A line that starts with # is a comment, | sets off the weight and cannot be escaped everywhere, and Solr splits an
# entry at blanks, so that of a term of several words only the last would get its weight.
_UNWRITABLE: Final = re.compile(r"^#|\||[\x00-\x1f]|\s|^$")


@dataclass(frozen=True)
class Expansions:
    """What was written to a synonym file, and what could not be.

    Attributes
    ----------
    n_words, n_pairs : query words with a line, and other words in those lines; a word that counts more or less than
        its plain match, by ``min_boost`` or more, has a line even where no other word counts for it
    n_below : positive weights that were left out: below ``min_boost``, or beyond the ``max_words`` of a word
    n_negative : negative weights of at least ``min_boost`` in size, also of a word on itself; a synonym file cannot
        express them
    n_unwritable : words that the format cannot hold

    Examples
    --------
    >>> Expansions(n_words=2, n_pairs=5, n_below=1, n_negative=0, n_unwritable=0).n_pairs
    5
    """

    n_words: int
    n_pairs: int
    n_below: int
    n_negative: int
    n_unwritable: int


def write_synonyms(
    path: str | PathLike[str],
    model: TextModel,
    *,
    min_boost: float = 0.1,
    max_words: int = 10,
) -> Expansions:
    """Write each query word with the document words that count for it.

    Lines carry weights, ``hockey => hockey|1, puck|0.4``, for a query analyzer that ends in
    ``solr.DelimitedBoostTokenFilterFactory`` (Solr 8.5 or later). A weight is a boost of that word's BM25 score; a word
    about which nothing was learned has 1. OpenSearch and Elasticsearch have no weights in synonym files: there,
    `search_body` writes a query of weighted words.

    Parameters
    ----------
    path : file to write; it is there as a whole or not at all
    model : a text model
    min_boost : smallest boost of another word to be written
    max_words : most other words for one query word, those of largest boost

    Notes
    -----
    Looks at all of W, 256 query words at a time: O(n_query_words n_doc_words) for weights that are not sparse.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scipy import sparse
    >>> from tercet import TextModel, Vectorizer, Weights
    >>> from tercet.weights import Identity, Sparse
    >>> words = Vectorizer(weighting="bm25").fit(["hockey puck"])
    >>> learned = Sparse(weights=sparse.csr_array(np.array([[0, 0.4], [0, 0]], dtype=np.float32)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "synonyms.txt")
    ...     _ = write_synonyms(file, TextModel(words, words, Weights([Identity(n_terms=2), learned])))
    ...     print(file.read_text().splitlines()[-1])
    hockey => hockey|1, puck|0.4
    """
    model.check_words_only("a file of synonyms")
    if not min_boost > 0 or not np.isfinite(min_boost):
        raise InputError(f"min_boost must be a number above 0; got {min_boost!r}")
    check_integer(max_words, "max_words")
    query_words, doc_words = model.query_vectorizer.words_, model.doc_vectorizer.words_
    shared = model.query_vectorizer is model.doc_vectorizer
    writable = np.array([not _UNWRITABLE.search(word) for word in doc_words], dtype=bool)
    lines: list[str] = []
    n_pairs = n_below = n_negative = n_unwritable = 0
    for term, boosts in _rows(model, shared):
        if _UNWRITABLE.search(query_words[term]):
            n_unwritable += 1
            continue
        n_negative += int(np.count_nonzero(boosts <= -min_boost))
        own_boost = max(float(boosts[term]), 0.0) if shared else 0.0
        if shared:
            boosts[term] = 0.0
        boosts[~writable] = 0.0
        enough = np.flatnonzero(boosts >= min_boost)
        best = enough[np.lexsort((enough, -boosts[enough]))][:max_words]
        n_below += int(np.count_nonzero(boosts > 0)) - best.size
        alone = shared and abs(own_boost - 1) >= min_boost  # without a line it would count as 1
        if not best.size and not alone:
            continue
        n_pairs += best.size
        listed = [(query_words[term], own_boost)] if own_boost > 0 or not best.size else []
        listed += [(doc_words[j], float(boosts[j])) for j in best]
        lines.append(f"{_escaped(query_words[term])} => {', '.join(_written(w, b) for w, b in listed)}")
    n_unwritable += int(np.count_nonzero(~writable)) if not shared else 0
    summary = Expansions(len(lines), n_pairs, n_below, n_negative, n_unwritable)
    with write_atomically(path) as stream:
        stream.writelines(f"{line}\n" for line in (*_header(summary, min_boost, max_words), *lines))
    return summary


def _rows(model: TextModel, shared: bool) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Each query word's boosts of all document words."""
    left = rarity_left_to_engine(model.doc_vectorizer)
    own_left = left if shared else rarity_left_to_engine(model.query_vectorizer)
    scale = own_weight(model)
    for start in range(0, model.weights.shape[0], _BLOCK):
        terms = np.arange(start, min(start + _BLOCK, model.weights.shape[0]))
        # A word on itself keeps its plain weight: both sides then have the engine's rarity.
        block = model.weights.rows(terms) * left / (own_left[terms, None] * scale)
        yield from zip(terms.tolist(), block, strict=True)


def _header(done: Expansions, min_boost: float, max_words: int) -> list[str]:
    return [
        "# Learned expansions, written by Tercet for Solr.",
        "# Weights are boosts: the query analyzer needs solr.DelimitedBoostTokenFilterFactory after the synonyms.",
        f"# {done.n_pairs} words for {done.n_words} query words: boosts from {min_boost:g}, at most {max_words} each.",
        f"# Left out: {done.n_below} smaller positive weights; {done.n_negative} negative ones, which no synonym file",
        f"# can express; {done.n_unwritable} words that this format cannot hold.",
    ]


def _written(word: str, boost: float) -> str:
    return f"{_escaped(word)}|{boost:.3g}"


def _escaped(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)
