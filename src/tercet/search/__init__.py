"""Search: an index of documents, exact top-k for any weights, reasons, and documents that come and go."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.search.backends.qdrant import QdrantIndex as QdrantIndex
    from tercet.search.base import BaseIndex as BaseIndex
    from tercet.search.certified import Certified as Certified
    from tercet.search.certified import certified_rerank as certified_rerank
    from tercet.search.index import Index as Index
    from tercet.search.opening import open_index as open_index
    from tercet.search.results import Hit as Hit
    from tercet.search.results import Results as Results
    from tercet.search.results import Run as Run
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.search.backends.qdrant": ("QdrantIndex",),
            "tercet.search.base": ("BaseIndex",),
            "tercet.search.certified": ("Certified", "certified_rerank"),
            "tercet.search.index": ("Index",),
            "tercet.search.opening": ("open_index",),
            "tercet.search.results": ("Hit", "Results", "Run"),
        },
    )
