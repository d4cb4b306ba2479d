"""``tercet letor``: the verbs of feature vectors."""

from __future__ import annotations

import click

from tercet.cli.examples import LETOR_EXAMPLES
from tercet.cli.groups import LazyGroup

VERBS = {
    "fit": ("tercet.cli.letor.fit:fit", "Learn from a LETOR file, or from a set of folds."),
    "rank": ("tercet.cli.letor.models:rank", "Score the rows of a LETOR file, or write a TREC run."),
    "eval": ("tercet.cli.letor.models:evaluate", "Measure models on a LETOR file, with 95 % intervals."),
    "compare": ("tercet.cli.letor.models:compare", "Compare models on a LETOR file by paired tests."),
}


@click.group(cls=LazyGroup, verbs=VERBS, examples=LETOR_EXAMPLES)
def letor() -> None:
    """Rank feature vectors: LETOR files, lines of "grade qid:id feature:value …".

    Models are linear, with weights of features that can be read, or RankRLS.
    """
