"""An index whose documents live in Qdrant: on a server, or in this process."""

from tercet.search.backends.qdrant.qdrant_index import QdrantIndex

__all__ = ["QdrantIndex"]
