"""``tercet picture``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import FOLDER, NEW
from tercet.cli.letor import refuse_given
from tercet.fitting.feature_model import FeatureModel
from tercet.loading import load
from tercet.pictures import picture as draw


@click.command()
@click.argument("model", type=FOLDER)
@click.option("-o", "--output", type=NEW, required=True, help="Picture to write: .png, .svg or .pdf.")
@click.option("--words", default=24, show_default=True, type=click.IntRange(min=1), help="Words to show on each side.")
@click.pass_context
def picture(context: click.Context, model: Path, output: Path, words: int) -> None:
    """Draw what a MODEL learned: the strongest pairs of words, their sizes, and how many each query word has.

    Of a feature model: what its sparsity costs, penalty by penalty, and its weights.
    """
    learned = load(model)
    if isinstance(learned, FeatureModel):
        refuse_given(context, ("words",), f"is for models of texts; {model} has features")
        draw(learned, output)
        features = None if learned.report is None else learned.report.features
        n_penalties = 0 if features is None else len(features.path)
        click.echo(f"{output}: {n_penalties} penalties")
        return
    seen = draw(learned, output, n_query_words=words, n_doc_words=words)
    click.echo(f"{output}: {len(seen.query_names)} query words by {len(seen.doc_names)} document words")
