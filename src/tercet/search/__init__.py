"""Search: an index of documents, exact top-k for any weights, reasons, and documents that come and go."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.search.backends.postgres import PostgresIndex as PostgresIndex
    from tercet.search.backends.qdrant import QdrantIndex as QdrantIndex
    from tercet.search.backends.seekdb import SeekdbIndex as SeekdbIndex
    from tercet.search.base import BaseIndex as BaseIndex
    from tercet.search.certified import Certified as Certified
    from tercet.search.certified import CertifiedHits as CertifiedHits
    from tercet.search.certified import PositiveQuery as PositiveQuery
    from tercet.search.certified import SummingEngine as SummingEngine
    from tercet.search.certified import certified_rerank as certified_rerank
    from tercet.search.certified import certified_search as certified_search
    from tercet.search.certified import positive_query as positive_query
    from tercet.search.index import Index as Index
    from tercet.search.index import open_index as open_index
    from tercet.search.results import Hit as Hit
    from tercet.search.results import Results as Results
    from tercet.search.results import SearchRun as SearchRun
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.search.backends.postgres": ("PostgresIndex",),
            "tercet.search.backends.qdrant": ("QdrantIndex",),
            "tercet.search.backends.seekdb": ("SeekdbIndex",),
            "tercet.search.base": ("BaseIndex",),
            "tercet.search.certified": (
                "Certified",
                "CertifiedHits",
                "PositiveQuery",
                "SummingEngine",
                "certified_rerank",
                "certified_search",
                "positive_query",
            ),
            "tercet.search.index": ("Index", "open_index"),
            "tercet.search.results": ("Hit", "Results", "SearchRun"),
        },
    )
