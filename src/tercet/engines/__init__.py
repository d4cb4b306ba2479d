"""Other engines: indexes in OpenSearch, PostgreSQL and Qdrant, and exports for Lucene, Elasticsearch and Solr."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.engines.adapted_vectors import AdaptedVectors as AdaptedVectors
    from tercet.engines.adapted_vectors import write_adapted_vectors as write_adapted_vectors
    from tercet.engines.ciff import write_ciff as write_ciff
    from tercet.engines.expansions import Expansions as Expansions
    from tercet.engines.expansions import write_synonyms as write_synonyms
    from tercet.engines.impacts import Impacts as Impacts
    from tercet.engines.impacts import write_anserini as write_anserini
    from tercet.engines.linear_models import LinearExport as LinearExport
    from tercet.engines.linear_models import linear_export as linear_export
    from tercet.engines.linear_models import write_ltr as write_ltr
    from tercet.engines.lucene_query import index_settings as index_settings
    from tercet.engines.lucene_query import memory_updates as memory_updates
    from tercet.engines.lucene_query import search_body as search_body
    from tercet.engines.lucene_query import write_memory_updates as write_memory_updates
    from tercet.engines.opening import open_index as open_index
    from tercet.engines.opensearch import OpenSearchIndex as OpenSearchIndex
    from tercet.engines.postgres import PostgresIndex as PostgresIndex
    from tercet.engines.qdrant import QdrantIndex as QdrantIndex
    from tercet.engines.query_strings import BoostedQuery as BoostedQuery
    from tercet.engines.query_strings import boosted_query as boosted_query
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.engines.adapted_vectors": (
                "AdaptedVectors",
                "write_adapted_vectors",
            ),
            "tercet.engines.ciff": ("write_ciff",),
            "tercet.engines.expansions": (
                "Expansions",
                "write_synonyms",
            ),
            "tercet.engines.impacts": (
                "Impacts",
                "write_anserini",
            ),
            "tercet.engines.linear_models": (
                "LinearExport",
                "linear_export",
                "write_ltr",
            ),
            "tercet.engines.lucene_query": (
                "index_settings",
                "memory_updates",
                "search_body",
                "write_memory_updates",
            ),
            "tercet.engines.opening": ("open_index",),
            "tercet.engines.opensearch": ("OpenSearchIndex",),
            "tercet.engines.postgres": ("PostgresIndex",),
            "tercet.engines.qdrant": ("QdrantIndex",),
            "tercet.engines.query_strings": (
                "BoostedQuery",
                "boosted_query",
            ),
        },
    )
