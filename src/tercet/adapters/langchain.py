"""A retriever of LangChain over an index that learns from use (extra ``langchain``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Self

from tercet.adapters.used_index import UsedIndex
from tercet.data.values import plain_value
from tercet.errors import InputError, MissingExtraError
from tercet.fitting.text_model import TextModel
from tercet.search import Index
from tercet.search.filtering import Where

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import ConfigDict
except ImportError as error:
    raise MissingExtraError("langchain_core", "langchain", "tercet.adapters.langchain") from error


class LearningRetriever(BaseRetriever):
    """Retrieves documents with reasons, and learns from feedback.

    The metadata of a document has its fields, ``score``, ``confidence``, ``why`` (words and past queries with
    contributions) and ``query_id``, the argument of `feedback`.

    Attributes
    ----------
    used : index with teaching
    k : largest number of documents of a query; ``invoke(query, k=3)`` overrides
    where : filter by fields of the metadata
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    used: UsedIndex
    k: int = 10
    where: dict[str, Any] | None = None

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        taught: str | PathLike[str],
        path: str | PathLike[str] | None = None,
        model: TextModel | None = None,
        **settings: Any,
    ) -> Self:
        """Index documents by their own ids.

        Parameters
        ----------
        documents : documents with ids
        taught : SQLite file of taught actions
        path : folder of the index, for `open`; None keeps the index in memory
        model : model of `tercet.fit`; None for BM25
        settings : ``k`` and ``where``
        """
        index = Index.build(_entries(documents), model, path)
        return cls(used=UsedIndex(index, taught), **settings)

    @classmethod
    def open(cls, path: str | PathLike[str], taught: str | PathLike[str], **settings: Any) -> Self:
        """Read an index from its folder."""
        return cls(used=UsedIndex(Index.open(path), taught), **settings)

    def add_documents(self, documents: Iterable[Document]) -> None:
        """Add documents, in the place of those with the same ids."""
        self._change(lambda index: index.replace(_entries(documents)))

    def delete(self, ids: Sequence[str]) -> None:
        """Remove documents by their ids."""
        self._change(lambda index: index.remove(ids))

    def _change(self, change: Callable[[Index], object]) -> None:
        base = self.used.base
        if not isinstance(base, Index):
            raise InputError("another engine keeps the documents; change them there")
        index = base.latest()
        change(index)
        self.used.replace(index)

    def feedback(self, query_id: str, used: Sequence[str], unused: Sequence[str] | None = None) -> int:
        """Learn which documents answered a query; return the number of the action, for `undo`."""
        return self.used.use(query_id, used, unused)

    def undo(self, actions: Sequence[int] | None = None) -> list[int]:
        """Undo actions, or the last one; return their numbers."""
        return self.used.undo(actions)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Where | None = None,
    ) -> list[Document]:
        answer = self.used.search(query, self.k if k is None else k, self.where if where is None else where)
        return [
            Document(
                id=hit.doc_id,
                page_content=hit.kept_text or "",
                metadata={
                    **hit.stored_fields,
                    "score": hit.score,
                    "confidence": hit.confidence,
                    "why": str(hit.why),
                    "query_id": answer.query_id,
                },
            )
            for hit in answer.hits
        ]


def _entries(documents: Iterable[Document]) -> list[tuple[str, str, dict[str, Any]]]:
    entries = []
    for number, document in enumerate(documents, 1):
        if not document.id:
            raise InputError(f"document {number} has no id; give it one: Document(id=…, page_content=…)")
        fields = {name: plain_value(value) for name, value in document.metadata.items()}
        entries.append((document.id, document.page_content, fields))
    return entries
