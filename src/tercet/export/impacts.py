"""Documents as whole-number impacts: what an engine adds up for each query word that a document has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer
from tercet.data.lines import write_atomically
from tercet.errors import InputError
from tercet.export.weighting import weight_in_query
from tercet.fitting.text_model import TextModel

_BLOCK_BYTES = 64 * 2**20
_MOST_BITS = 16


@dataclass(frozen=True)
class Impacts:
    """What was written, and what was lost on the way.

    Attributes
    ----------
    n_docs, n_postings : documents, and impacts in all of them
    step : what an impact of 1 stands for; scores are sums of impacts times this
    max_error : by which one impact differs from the exact one at most: half a step
    n_left_out : positive impacts beyond ``max_terms`` of a document
    n_rounded : impacts that were too small for one step
    n_negative : negative impacts, which such an index cannot hold
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
    """Quantised documents, computed anew at each pass, so that no pass holds more than a block of them.

    Parameters
    ----------
    model, docs : a text model and id -> text
    expand : documents carry what was learned, and queries are plain words: the sum over a query's words is its score
        up to a factor of the query. Without it they carry their own words only, and queries are to be expanded
        (`boosted_query` with ``index="impact"``).
    max_terms : most words of one document, those of largest impact
    bits : the largest impact is ``2**bits - 1``
    """

    def __init__(
        self, model: TextModel, docs: Mapping[str, str], *, expand: bool = True, max_terms: int = 256, bits: int = 8
    ) -> None:
        model.check_words_only("an export of impacts")
        check_integer(max_terms, "max_terms")
        check_integer(bits, "bits")
        if bits > _MOST_BITS:
            raise InputError(f"bits must be at most {_MOST_BITS}; got {bits}")
        if not docs:
            raise InputError("there are no documents to export")
        self.model, self.docs = model, docs
        self.expand, self.max_terms = expand, max_terms
        self.words = (model.query_vectoriser if expand else model.doc_vectoriser).words_
        self.n_left_out = self.n_negative = self.n_rounded = self.n_postings = 0
        largest = max((float(values.max()) for _, _, values in self._exact() if values.size), default=0.0)
        self.step = largest / (2**bits - 1) if largest else 1.0

    def __iter__(self) -> Iterator[ImpactRow]:
        self.n_rounded = self.n_postings = 0
        for doc_id, columns, values in self._exact():
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

    def _exact(self) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.float64]]]:
        """Each document's largest positive impacts, before rounding."""
        self.n_left_out = self.n_negative = 0
        ids = list(self.docs)
        height = max(1, _BLOCK_BYTES // (8 * len(self.words)))
        for start in range(0, len(ids), height):
            block = ids[start : start + height]
            rows = self._impacts(self.model.docs([self.docs[doc_id] for doc_id in block]))
            for i, doc_id in enumerate(block):
                entries = slice(rows.indptr[i], rows.indptr[i + 1])
                columns, values = rows.indices[entries].astype(np.int64), rows.data[entries]
                self.n_negative += int(np.count_nonzero(values < 0))
                columns, values = columns[values > 0], values[values > 0]
                order = np.lexsort((columns, -values))[: self.max_terms]
                self.n_left_out += values.size - order.size
                order = order[np.argsort(columns[order])]
                yield doc_id, columns[order], values[order]

    def _impacts(self, D: sparse.csr_array) -> sparse.csr_array:
        if not self.expand:
            return sparse.csr_array(D, dtype=np.float64)
        # Every query word asked by itself: a column of W, seen from the document, with per-document scales.
        n = len(self.words)
        alone = sparse.csr_array(sparse.eye_array(n, dtype=np.float32))
        scores = self.model.weights.score(alone, D) * weight_in_query(self.model.query_vectoriser)[:, None]
        return sparse.csr_array(scores.T)


def write_anserini(
    path: str | PathLike[str],
    model: TextModel,
    docs: Mapping[str, str],
    *,
    expand: bool = True,
    max_terms: int = 256,
    bits: int = 8,
) -> Impacts:
    """Write documents for Anserini's JsonVectorCollection, one JSON object a line, in two passes over the documents.

    ``{"id": "d1", "contents": "", "vector": {"hockey": 37, "puck": 12}}``. Anserini repeats each word as often as its
    number says, so numbers are whole; index with ``-impact -pretokenized``. Parameters as those of `ImpactRows`.
    """
    rows = ImpactRows(model, docs, expand=expand, max_terms=max_terms, bits=bits)
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
