"""Open an index in a folder or in an engine."""

from __future__ import annotations

from os import PathLike
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final, cast

from tercet.search import BaseIndex, Index
from tercet.store import Verify, bundle_kind
from tercet.store.kinds import OPENSEARCH_INDEX, POSTGRES_INDEX, QDRANT_INDEX

if TYPE_CHECKING:
    from tercet.engines.engine_index import EngineIndex
    from tercet.fitting.text_model import TextModel
    from tercet.weights import Weights

# Engine -> kind of the index folder, and path of the class; an engine is imported at first use.
_ENGINES: Final = {
    "opensearch": (OPENSEARCH_INDEX, "tercet.engines.opensearch:OpenSearchIndex"),
    "postgres": (POSTGRES_INDEX, "tercet.engines.postgres:PostgresIndex"),
    "qdrant": (QDRANT_INDEX, "tercet.engines.qdrant:QdrantIndex"),
}
BACKENDS: Final = tuple(_ENGINES)


def engine_index(name: str) -> type[EngineIndex]:
    """Return the class of indexes in an engine, one of `BACKENDS`."""
    return cast("type[EngineIndex]", resolve_name(_ENGINES[name][1]))


def open_index(
    folder: str | PathLike[str], model: TextModel | Weights | None = None, verify: Verify = "open"
) -> BaseIndex:
    """Open an `Index`, or an index in another engine.

    Parameters
    ----------
    folder : folder of the index
    model : other model over the same vocabulary
    verify : as in `Index.open`, for an embedded index

    Examples
    --------
    >>> import tempfile
    >>> from tercet import Index
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Index.build({"a": "green tea"}, path=f"{folder}/index")
    ...     open_index(f"{folder}/index").search("tea")[0].doc_id
    'a'
    """
    kind = bundle_kind(folder)
    for name, (own_kind, _) in _ENGINES.items():
        if kind == own_kind:
            return engine_index(name).open(folder, model)
    return Index.open(folder, model, verify)
