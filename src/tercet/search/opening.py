"""Opening an index, wherever its documents are kept."""

from __future__ import annotations

from os import PathLike, path

from tercet.errors import MissingBundleError
from tercet.fitting.model import TextModel
from tercet.search.base import BaseIndex
from tercet.search.folder import QDRANT_KIND, UPLOAD
from tercet.search.index import Index
from tercet.store import read_bundle
from tercet.weights import Weights


def open_index(folder: str | PathLike[str], model: TextModel | Weights | None = None, verify: bool = True) -> BaseIndex:
    """Read the index in a folder: an `Index`, or one whose documents are in Qdrant.

    Parameters
    ----------
    folder : where it is
    model : another model than the one it was made with; its documents must be cut and weighted the same way
    verify : check every byte of an index that is kept here
    """
    try:
        kind = read_bundle(folder).kind
    except MissingBundleError:
        if not path.isfile(path.join(folder, UPLOAD)):
            raise
        kind = QDRANT_KIND  # its upload has not ended, and it says so
    if kind == QDRANT_KIND:
        from tercet.search.backends.qdrant import QdrantIndex

        return QdrantIndex.open(folder, model)
    return Index.open(folder, model, verify)
