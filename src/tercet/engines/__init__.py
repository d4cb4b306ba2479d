"""Other engines: indexes in PostgreSQL and Qdrant, certified search, exports for Elasticsearch, Lucene and Solr."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.engines.adapted_vectors import AdaptedVectors as AdaptedVectors
    from tercet.engines.adapted_vectors import write_adapted_vectors as write_adapted_vectors
    from tercet.engines.certified import Certified as Certified
    from tercet.engines.certified import CertifiedHits as CertifiedHits
    from tercet.engines.certified import PositiveQuery as PositiveQuery
    from tercet.engines.certified import SummingEngine as SummingEngine
    from tercet.engines.certified import certified_rerank as certified_rerank
    from tercet.engines.certified import certified_search as certified_search
    from tercet.engines.certified import positive_query as positive_query
    from tercet.engines.ciff import write_ciff as write_ciff
    from tercet.engines.expansions import Expansions as Expansions
    from tercet.engines.expansions import write_synonyms as write_synonyms
    from tercet.engines.impacts import Impacts as Impacts
    from tercet.engines.impacts import write_anserini as write_anserini
    from tercet.engines.linear_models import LinearExport as LinearExport
    from tercet.engines.linear_models import linear_export as linear_export
    from tercet.engines.linear_models import write_ltr as write_ltr
    from tercet.engines.opening import open_index as open_index
    from tercet.engines.postgres import PostgresIndex as PostgresIndex
    from tercet.engines.qdrant import QdrantIndex as QdrantIndex
    from tercet.engines.query_strings import BoostedQuery as BoostedQuery
    from tercet.engines.query_strings import boosted_query as boosted_query
    from tercet.engines.query_strings import positive_query_string as positive_query_string
    from tercet.engines.rank_features import RankFeatures as RankFeatures
    from tercet.engines.rank_features import write_rank_features as write_rank_features
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.engines.adapted_vectors": (
                "AdaptedVectors",
                "write_adapted_vectors",
            ),
            "tercet.engines.certified": (
                "Certified",
                "CertifiedHits",
                "PositiveQuery",
                "SummingEngine",
                "certified_rerank",
                "certified_search",
                "positive_query",
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
            "tercet.engines.opening": ("open_index",),
            "tercet.engines.postgres": ("PostgresIndex",),
            "tercet.engines.qdrant": ("QdrantIndex",),
            "tercet.engines.query_strings": (
                "BoostedQuery",
                "boosted_query",
                "positive_query_string",
            ),
            "tercet.engines.rank_features": (
                "RankFeatures",
                "write_rank_features",
            ),
        },
    )
