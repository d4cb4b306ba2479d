"""Documents as whole-number impacts: what an engine adds up for each query word that a document has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import check_integer
from tercet.data.lines import write_atomically
from tercet.engines.weighting import weight_in_query
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel

_BLOCK_BYTES = 64 * 2**20
_MOST_BITS = 16
_SAMPLE = 4096  # documents from which it is found how large the n-th impact of a word is
_UNASKED = 0.2  # how often a word counts as asked that no query has, and what others have on top

Exact = tuple[str, NDArray[np.int64], NDArray[np.float64]]  # a document's id, columns in ascending order, impacts


@dataclass(frozen=True)
class Impacts:
    """What was written, and what was lost on the way.

    Attributes
    ----------
    n_docs, n_postings : documents, and impacts in all of them
    step : what an impact of 1 stands for; scores are sums of impacts times this
    max_error : by which one impact differs from the exact one at most: half a step
    n_left_out : positive impacts beyond ``max_terms`` of a document, or ``mean_terms`` of all
    n_rounded : impacts that were too small for one step
    n_negative : negative impacts, which such an index cannot hold

    Examples
    --------
    >>> impacts = Impacts(
    ...     n_docs=2, n_postings=9, step=0.01, max_error=0.005, n_left_out=0, n_rounded=1, n_negative=0
    ... )
    >>> impacts.max_error == impacts.step / 2
    True
    """

    n_docs: int
    n_postings: int
    step: float
    max_error: float
    n_left_out: int
    n_rounded: int
    n_negative: int


class ImpactRow(NamedTuple):
    """One document: its id, word columns in ascending order and their impacts, at least 1."""

    doc_id: str
    columns: NDArray[np.int64]
    impacts: NDArray[np.int64]


class ImpactRows:
    """Quantized documents, computed anew at each pass, so that no pass holds more than a block of them.

    Documents carry what was learned, and queries are plain words: the sum over a query's words is its score up to a
    factor of the query. The sum is only nearly the score where a cosine of latent vectors is one of several parts,
    since each word is then taken as a query of its own.

    Parameters
    ----------
    model, docs : a text model and id -> text
    max_terms : most words of one document, those of largest impact
    bits : the largest impact is ``2**bits - 1``
    queries : texts as people ask them. Impacts are then left out by word and not by document: a word keeps as many
        documents as it is often asked, those of largest impact, and documents always keep their own words. Not the
        queries that the result is measured on.
    mean_terms : with ``queries``, how many words documents keep on average, their own besides
    """

    def __init__(
        self,
        model: TextModel,
        docs: Mapping[str, str],
        *,
        max_terms: int = 256,
        bits: int = 10,
        queries: Iterable[str] | None = None,
        mean_terms: int = 128,
    ) -> None:
        model.check_words_only("an export of impacts")
        check_integer(max_terms, "max_terms")
        check_integer(mean_terms, "mean_terms")
        check_integer(bits, "bits")
        if bits > _MOST_BITS:
            raise InputError(f"bits must be at most {_MOST_BITS}; got {bits}")
        if not docs:
            raise InputError("there are no documents to export")
        self.model, self.docs = model, docs
        self.max_terms: int | None = None if queries is not None else max_terms
        self.words = list(model.query_vectorizer.words_)
        self.n_left_out = self.n_negative = self.n_rounded = self.n_postings = 0
        self._least = None if queries is None else self._least_impacts(queries, mean_terms)
        largest = max((float(values.max()) for _, _, values in self.exact() if values.size), default=0.0)
        self.step = largest / (2**bits - 1) if largest else 1.0

    def __iter__(self) -> Iterator[ImpactRow]:
        self.n_rounded = self.n_postings = 0
        for doc_id, columns, values in self.exact():
            impacts = np.rint(values / self.step).astype(np.int64)
            kept = impacts > 0
            self.n_rounded += int(np.count_nonzero(~kept))
            self.n_postings += int(np.count_nonzero(kept))
            yield ImpactRow(doc_id, columns[kept], impacts[kept])

    def summary(self) -> Impacts:
        """What the last pass wrote."""
        return Impacts(
            n_docs=len(self.docs),
            n_postings=self.n_postings,
            step=self.step,
            max_error=self.step / 2,
            n_left_out=self.n_left_out,
            n_rounded=self.n_rounded,
            n_negative=self.n_negative,
        )

    def exact(self) -> Iterator[Exact]:
        """Each document's positive impacts that are kept, before rounding."""
        self.n_left_out = self.n_negative = 0
        for block, D in self._blocks():
            rows = self._impacts(D)
            for i, doc_id in enumerate(block):
                entries = slice(rows.indptr[i], rows.indptr[i + 1])
                columns, values = rows.indices[entries].astype(np.int64), rows.data[entries]
                self.n_negative += int(np.count_nonzero(values < 0))
                columns, values = columns[values > 0], values[values > 0]
                kept = self._kept(columns, values, D.indices[D.indptr[i] : D.indptr[i + 1]])
                self.n_left_out += values.size - kept.size
                kept = kept[np.argsort(columns[kept])]
                yield doc_id, columns[kept], values[kept]

    def _kept(
        self, columns: NDArray[np.int64], values: NDArray[np.float64], own: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Which impacts of a document are kept, in any order."""
        if self._least is None:
            return np.lexsort((columns, -values))[: self.max_terms]
        large = values >= self._least[columns]
        if self.model.query_vectorizer is self.model.doc_vectorizer:
            large |= np.isin(columns, own)
        return np.flatnonzero(large)

    def _blocks(self) -> Iterator[tuple[list[str], sparse.csr_array]]:
        ids = list(self.docs)
        height = max(1, _BLOCK_BYTES // (8 * len(self.words)))
        for start in range(0, len(ids), height):
            block = ids[start : start + height]
            yield block, self.model.docs([self.docs[doc_id] for doc_id in block])

    def _impacts(self, D: sparse.csr_array) -> sparse.csr_array:
        return sparse.csr_array(self._asked_alone(0, len(self.words), D).T)

    def _asked_alone(self, start: int, stop: int, D: sparse.csr_array) -> NDArray[np.float64]:
        """What some query words add to documents, each asked by itself (n, n_docs): columns of W, seen from those."""
        n = len(self.words)
        alone = sparse.csr_array(sparse.eye_array(n, dtype=np.float32))[start:stop]
        weight = weight_in_query(self.model.query_vectorizer)[start:stop]
        parts = self.model.weights.parts
        scale = parts[0].query_scale(alone) if len(parts) == 1 else None
        if scale is not None:  # a word alone is no query here; the length of a query is a factor of all its scores
            weight = np.divide(weight, scale, out=np.zeros_like(weight), where=scale > 0)
        return np.asarray(self.model.weights.score(alone, D)) * weight[:, None]

    def _least_impacts(self, queries: Iterable[str], mean_terms: int) -> NDArray[np.float64]:
        """For each word, the smallest impact to keep, from evenly spaced documents."""
        ids = list(self.docs)
        asked = self.model.queries(list(queries))
        often = np.bincount(asked.indices, minlength=len(self.words)).astype(np.float64) + _UNASKED
        share = _filled(often, mean_terms)
        sample = [ids[i] for i in np.unique(np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(np.int64))]
        D = self.model.docs([self.docs[doc_id] for doc_id in sample])
        keep = np.rint(share * len(sample)).astype(np.int64)  # documents of the sample
        least = np.zeros(len(self.words))
        height = max(1, _BLOCK_BYTES // (8 * len(sample)))
        for start in range(0, len(self.words), height):
            impacts = self._asked_alone(start, min(start + height, len(self.words)), D)
            for word, row in enumerate(impacts, start):
                if keep[word] < len(sample):
                    least[word] = np.partition(row, -keep[word])[-keep[word]] if keep[word] else np.inf
        return least


def _filled(often: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Shares from 0 to 1 in proportion to a number of each word, none above 1, that add up to ``total``."""
    full = np.zeros(often.size, dtype=bool)
    while True:
        left = total - np.count_nonzero(full)
        rest = float(often[~full].sum())
        if left <= 0 or not rest:
            return full.astype(np.float64)
        share = np.where(full, 1.0, often * (left / rest))
        if not (share > 1).any():
            return share
        full |= share > 1


def write_anserini(
    path: str | PathLike[str],
    model: TextModel,
    docs: Mapping[str, str],
    *,
    max_terms: int = 256,
    bits: int = 10,
    queries: Iterable[str] | None = None,
    mean_terms: int = 128,
) -> Impacts:
    """Write documents for Anserini's JsonVectorCollection, one JSON object a line, in two passes over the documents.

    ``{"id": "d1", "contents": "", "vector": {"hockey": 37, "puck": 12}}``. Anserini repeats each word as often as its
    number says, so numbers are whole; index with ``-impact -pretokenized``. Parameters as those of `ImpactRows`.

    Examples
    --------
    >>> import tempfile
    >>> from tercet import TextModel
    >>> docs = {"a": "ice hockey", "b": "green tea"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_anserini(f"{folder}/docs.jsonl", TextModel.bm25(docs.values()), docs).n_postings
    4
    """
    rows = ImpactRows(model, docs, max_terms=max_terms, bits=bits, queries=queries, mean_terms=mean_terms)
    split = next((word for word in rows.words if len(word.split()) != 1), None)
    if split is not None:
        raise InputError(
            f"the word {split!r} has a blank in it; Anserini puts blanks between words, so n-grams cannot be exported"
        )
    with write_atomically(path) as stream:
        for doc_id, columns, impacts in rows:
            vector = {rows.words[j]: n for j, n in zip(columns.tolist(), impacts.tolist(), strict=True)}
            stream.write(json.dumps({"id": doc_id, "contents": "", "vector": vector}, ensure_ascii=False) + "\n")
    return rows.summary()
