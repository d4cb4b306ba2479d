"""Tercet models as PyTerrier transformers (extra ``pyterrier``).

Input frames have ``qid`` and ``query``; output frames have ``docno``, ``score`` and ``rank`` from 0, best first.
Without PyTerrier the classes are plain classes with the same ``transform``, and need pandas alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tercet._validate import check_integer
from tercet.errors import InputError, MissingExtraError
from tercet.fitting.text_model import TextModel

if TYPE_CHECKING:
    Frame = Any
    _Transformer: Any = object
else:
    try:
        from pyterrier import Transformer as _Transformer
    except ImportError:

        class _Transformer:
            """Replacement of PyTerrier's class without PyTerrier."""

            def __call__(self, frame: Any) -> Any:
                return self.transform(frame)


FIRST_RANK = 0  # as PyTerrier counts


class TercetRetriever(_Transformer):
    """Retrieves the best documents of a collection for each query.

    Parameters
    ----------
    model : text model
    docs : doc_id -> text; vectors are made once
    k : largest number of documents of a query, also with scores of 0 or less

    Notes
    -----
    Input is a frame with ``qid`` and ``query``; other columns are kept. Output has a row for each found document. Ties
    go to the first document in ``docs``.
    """

    def __init__(self, model: TextModel, docs: Mapping[str, str], *, k: int = 1000) -> None:
        _check_model(model)
        if not docs:
            raise InputError("there are no documents to retrieve from")
        k = check_integer(k, "k")
        super().__init__()
        self.model = model
        self.k = k
        self.docnos = np.array(list(docs), dtype=object)
        self._vectors = model.docs(docs)

    def transform(self, frame: Frame) -> Frame:
        """The k best documents for each row."""
        _import_pandas()
        _check_columns(frame, ("qid", "query"), type(self).__name__)
        queries = frame.drop(columns=["docno", "score", "rank"], errors="ignore").reset_index(drop=True)
        if not len(queries):
            return _with_results(queries, [], [], [])
        model, Q, k = self.model, self.model.queries(_texts(queries, "query")), min(self.k, len(self.docnos))
        if model.memory is None:
            docs, scores = model.weights.rank(Q, self._vectors, k)
        else:
            docs, scores = model.memory.rank(model.weights, Q, self._vectors, list(self.docnos), k, model.n_words)
        n_docs = docs.shape[1]
        rows = queries.loc[np.repeat(np.arange(len(queries)), n_docs)].reset_index(drop=True)
        ranks = np.tile(np.arange(n_docs), len(queries)) + FIRST_RANK
        return _with_results(rows, self.docnos[docs.ravel()], scores.ravel(), ranks)

    def __repr__(self) -> str:
        return f"TercetRetriever({len(self.docnos):,} documents, k={self.k})"


class TercetReranker(_Transformer):
    """Scores the documents of a frame anew.

    Parameters
    ----------
    model : text model
    text : column of the documents' texts

    Notes
    -----
    Input is a frame with ``qid``, ``query``, ``docno`` and the texts; output is the frame with new scores and ranks.
    """

    def __init__(self, model: TextModel, *, text: str = "text") -> None:
        _check_model(model)
        super().__init__()
        self.model = model
        self.text = text

    def transform(self, frame: Frame) -> Frame:
        """The same rows, scored by the model."""
        _import_pandas()
        _check_columns(frame, ("qid", "query", "docno", self.text), type(self).__name__)
        rows = frame.drop(columns=["score", "rank"], errors="ignore").reset_index(drop=True)
        if not len(rows):
            return rows.assign(score=np.empty(0), rank=np.empty(0, dtype=np.int64))
        queries, docs = self.model.queries(_texts(rows, "query")), self.model.docs(_texts(rows, self.text))
        scores = self.model.weights.score_rows(queries, docs)
        if (memory := self.model.memory) is not None:
            docnos = rows["docno"].astype(str).tolist()
            scores += [
                memory.explain(queries[[row]], docno, docs[[row]], self.model.n_words).total
                for row, docno in enumerate(docnos)
            ]
        _, first, query = np.unique(np.array(rows["qid"], dtype=object), return_index=True, return_inverse=True)
        came = first[query]  # the place where a row's query came first
        order = np.lexsort((np.arange(len(rows)), -scores, came))
        starts = np.flatnonzero(np.diff(came[order], prepend=-1))
        sizes = np.diff([*starts, len(rows)])
        ranks = np.concatenate([np.arange(size) for size in sizes]) + FIRST_RANK
        return rows.loc[order].reset_index(drop=True).assign(score=scores[order], rank=ranks)

    def __repr__(self) -> str:
        return f"TercetReranker(text={self.text!r})"


def _with_results(rows: Frame, docnos: Any, scores: Any, ranks: Any) -> Frame:
    return rows.assign(
        docno=np.asarray(docnos, dtype=object),
        score=np.asarray(scores, dtype=np.float64),
        rank=np.asarray(ranks, dtype=np.int64),
    )


def _texts(frame: Frame, column: str) -> list[str]:
    texts = frame[column].tolist()
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"row {i} has {text!r} for {column!r}; expected text")
    return texts


def _check_columns(frame: Frame, needed: tuple[str, ...], who: str) -> None:
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise InputError(f"{who} needs the columns {', '.join(needed)}; there is no {', '.join(missing)}")


def _check_model(model: Any) -> None:
    if not isinstance(model, TextModel):
        raise InputError(f"a text model is needed, as tc.fit and tc.load give it; got {type(model).__name__}")


def _import_pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError as error:
        raise MissingExtraError("pandas", "pyterrier", "transforming a frame") from error
