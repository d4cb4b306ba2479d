"""Search: an index of documents, exact top-k for any weights, reasons, and documents that come and go."""

from tercet.search.backends.qdrant import QdrantIndex
from tercet.search.base import BaseIndex
from tercet.search.certified import Certified, certified_rerank
from tercet.search.index import Index
from tercet.search.opening import open_index
from tercet.search.results import Hit, Results, Run

__all__ = ["BaseIndex", "Certified", "Hit", "Index", "QdrantIndex", "Results", "Run", "certified_rerank", "open_index"]
