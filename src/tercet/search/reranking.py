"""Ordering documents that another engine found, by a model and with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tercet.data.documents import Documents, as_documents
from tercet.data.values import Record
from tercet.errors import InputError
from tercet.fitting.text_model import TextExplanation, TextModel
from tercet.search.documents import check_model
from tercet.search.results import Hit, Results
from tercet.search.stored_fields import packed_record, unpacked_record


def rerank(model: TextModel, query: str, docs: Any) -> Results:
    """Order documents for a query by the scores of a model, best first.

    All documents are returned, also without a matching word; ties keep the given order. A score depends on the model,
    the query and the document alone, as in `TextModel.rank`; unknown words have no weight.

    Parameters
    ----------
    model : text model of `tc.fit` or `tc.load`
    query : text of the query
    docs : candidates: id -> text, records, a frame, as in `tc.as_documents`. Memory knows documents by id. A model with
        fields or numbers takes records

    Returns
    -------
    Hits as in `Index.search`; empty without documents.

    Examples
    --------
    >>> import tercet as tc
    >>> docs = {"a": "black coffee", "b": "a pot of green tea", "c": "green tea"}
    >>> hits = tc.rerank(tc.TextModel.bm25(docs.values()), "green tea", docs)
    >>> [hit.doc_id for hit in hits]
    ['c', 'b', 'a']
    >>> hits[0].why.pairs[0][:2]
    ('green', 'green')
    """
    check_model(model, TextModel)
    if not isinstance(query, str):
        raise InputError(f"the query is of type {type(query).__name__}; expected a string")
    documents = as_documents(docs) if not isinstance(docs, dict | list) or docs else Documents([], {"text": []})
    unknown = tuple(model.query_vectorizer.unknown_words(query))
    if not documents:
        return Results(unknown=unknown)
    candidates = _Candidates(model, query, documents, tuple(documents))
    scores = model.rank({"query": query}, documents, k=len(documents))["query"]
    rows = {doc_id: row for row, doc_id in enumerate(candidates.ids)}
    return Results([Hit(doc_id, score, candidates, rows[doc_id]) for doc_id, score in scores.items()], unknown)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """A query and the documents to order; hits keep both for whoever wants reasons."""

    model: TextModel
    query: str
    docs: Documents
    ids: tuple[str, ...]

    def why(self, row: int) -> TextExplanation:
        return self.model.explain(self.query, self.docs.part([self.ids[row]]), self.ids[row])

    def text(self, row: int) -> str:
        return self.docs[self.ids[row]]

    def stored_fields(self, row: int) -> Record:
        doc_id = self.ids[row]
        return unpacked_record(packed_record(self.docs.stored_fields(doc_id), doc_id), f"document {doc_id!r}")
