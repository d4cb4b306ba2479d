"""Search: an index of documents, exact top-k for any weights, reasons, and documents that come and go."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.search.base import BaseIndex as BaseIndex
    from tercet.search.index import Index as Index
    from tercet.search.reranking import rerank as rerank
    from tercet.search.results import Hit as Hit
    from tercet.search.results import Results as Results
    from tercet.search.results import SearchRun as SearchRun
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.search.base": ("BaseIndex",),
            "tercet.search.index": ("Index",),
            "tercet.search.reranking": ("rerank",),
            "tercet.search.results": ("Hit", "Results", "SearchRun"),
        },
    )
