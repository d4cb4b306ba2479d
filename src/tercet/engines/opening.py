"""Opening an index, wherever its documents are kept."""

from __future__ import annotations

from os import PathLike
from typing import Final

from tercet.engines.engine_index import EngineIndex
from tercet.engines.opensearch import OpenSearchIndex
from tercet.engines.postgres import PostgresIndex
from tercet.engines.qdrant import QdrantIndex
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex, Index
from tercet.store import Verify, read_bundle
from tercet.weights import Weights

BACKENDS: Final[dict[str, type[EngineIndex]]] = {
    "opensearch": OpenSearchIndex,
    "postgres": PostgresIndex,
    "qdrant": QdrantIndex,
}


def open_index(
    folder: str | PathLike[str], model: TextModel | Weights | None = None, verify: Verify = "open"
) -> BaseIndex:
    """Read the index in a folder: an `Index`, or one whose documents are in another engine.

    Parameters
    ----------
    folder : where it is
    model : another model than the one it was made with; its documents must be cut and weighted the same way
    verify : as for `Index.open`, of an index that is kept here

    Examples
    --------
    >>> import tempfile
    >>> from tercet import Index
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Index.build({"a": "green tea"}, path=f"{folder}/index")
    ...     open_index(f"{folder}/index").search("tea")[0].doc_id
    'a'
    """
    kind = read_bundle(folder).kind
    for backend in BACKENDS.values():
        if backend.kind == kind:
            return backend.open(folder, model)
    return Index.open(folder, model, verify)
