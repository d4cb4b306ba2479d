"""Search: an index of documents, exact top-k for any weights, reasons, and documents that come and go."""

from tercet.search.index import Index
from tercet.search.results import Hit, Results, Run

__all__ = ["Hit", "Index", "Results", "Run"]
