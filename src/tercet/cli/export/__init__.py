"""``tercet export``: what a model learned, for other engines."""

from __future__ import annotations

import click

from tercet.cli.examples import EXPORT_EXAMPLES
from tercet.cli.groups import LazyGroup

VERBS = {
    "synonyms": ("tercet.cli.export.synonyms:synonyms", "Synonym files for Solr and Elasticsearch."),
    "query": ("tercet.cli.export.query:query", "One query as boosted clauses."),
    "ltr": ("tercet.cli.export.ltr:ltr", "Linear feature models for Solr and Elasticsearch LTR."),
    "vectors": ("tercet.cli.export.vectors:vectors", "Own vectors of queries, adapted, for vector engines."),
    "documents": ("tercet.cli.export.documents:documents", "Documents as impacts, for Anserini and PISA."),
}


@click.group(cls=LazyGroup, verbs=VERBS, examples=EXPORT_EXAMPLES)
def export() -> None:
    """Write what a model learned for other engines.

    What a format cannot hold is said.
    """
