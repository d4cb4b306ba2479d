"""What a model learned, in the formats of other engines: synonym files, boosted queries, impact-weighted
documents, linear models of features, adapted vectors."""

from tercet.export.adapted_vectors import AdaptedVectors, write_adapted_vectors
from tercet.export.ciff import write_ciff
from tercet.export.expansions import Expansions, write_synonyms
from tercet.export.impacts import Impacts, write_anserini
from tercet.export.linear_models import LinearExport, linear_export, write_ltr
from tercet.export.query_strings import BoostedQuery, boosted_query, positive_query_string
from tercet.export.rank_features import RankFeatures, write_rank_features

__all__ = [
    "AdaptedVectors",
    "BoostedQuery",
    "Expansions",
    "Impacts",
    "LinearExport",
    "RankFeatures",
    "boosted_query",
    "linear_export",
    "positive_query_string",
    "write_adapted_vectors",
    "write_anserini",
    "write_ciff",
    "write_ltr",
    "write_rank_features",
    "write_synonyms",
]
