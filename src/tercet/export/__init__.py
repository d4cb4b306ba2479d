"""What a model learned, in the formats of other engines: synonym files, boosted queries, impact-weighted documents."""

from tercet.export.certified import (
    CertifiedHits,
    PositiveQuery,
    SummingEngine,
    certified_search,
    positive_query,
    positive_query_string,
)
from tercet.export.ciff import write_ciff
from tercet.export.expansions import Expansions, write_synonyms
from tercet.export.impacts import Impacts, write_anserini
from tercet.export.queries import BoostedQuery, boosted_query

__all__ = [
    "BoostedQuery",
    "CertifiedHits",
    "Expansions",
    "Impacts",
    "PositiveQuery",
    "SummingEngine",
    "boosted_query",
    "certified_search",
    "positive_query",
    "positive_query_string",
    "write_anserini",
    "write_ciff",
    "write_synonyms",
]
