"""Kinds of saved things in their manifests: one list, all different."""

from __future__ import annotations

from typing import Final

RANKER: Final = "ranker"
CHECKPOINT: Final = "checkpoint"  # of training
TEXT_MODEL: Final = "text-model"
FEATURE_MODEL: Final = "feature-model"
WEIGHTS: Final = "weights"  # a value by itself

INDEX: Final = "index"
INDEX_SEGMENT: Final = "index-segment"
INDEX_FACTORS: Final = "index-factors"  # latent documents of a segment
QDRANT_INDEX: Final = "qdrant-index"  # whose documents are in Qdrant
POSTGRES_INDEX: Final = "postgres-index"  # in PostgreSQL
OPENSEARCH_INDEX: Final = "opensearch-index"  # in OpenSearch
REMOTE_KINDS: Final = (QDRANT_INDEX, POSTGRES_INDEX, OPENSEARCH_INDEX)

VECTORS: Final = "vectors"  # rows of documents and queries, and their vectorizer
ROWS: Final = "rows"
