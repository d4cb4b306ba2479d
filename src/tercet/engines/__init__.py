"""Other engines: indexes in OpenSearch, PostgreSQL and Qdrant; queries and models for Elasticsearch and Solr."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.engines.linear_models import LinearExport as LinearExport
    from tercet.engines.linear_models import linear_export as linear_export
    from tercet.engines.linear_models import write_ltr as write_ltr
    from tercet.engines.lucene_query import index_settings as index_settings
    from tercet.engines.lucene_query import memory_updates as memory_updates
    from tercet.engines.lucene_query import query_string as query_string
    from tercet.engines.lucene_query import search_body as search_body
    from tercet.engines.lucene_query import write_memory_updates as write_memory_updates
    from tercet.engines.opening import open_index as open_index
    from tercet.engines.opensearch import OpenSearchIndex as OpenSearchIndex
    from tercet.engines.postgres import PostgresIndex as PostgresIndex
    from tercet.engines.qdrant import QdrantIndex as QdrantIndex
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.engines.linear_models": (
                "LinearExport",
                "linear_export",
                "write_ltr",
            ),
            "tercet.engines.lucene_query": (
                "index_settings",
                "memory_updates",
                "query_string",
                "search_body",
                "write_memory_updates",
            ),
            "tercet.engines.opening": ("open_index",),
            "tercet.engines.opensearch": ("OpenSearchIndex",),
            "tercet.engines.postgres": ("PostgresIndex",),
            "tercet.engines.qdrant": ("QdrantIndex",),
        },
    )
