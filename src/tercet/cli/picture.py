"""``tercet picture``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.options import FOLDER, output_options
from tercet.cli.terminal import echo
from tercet.errors import BundleError
from tercet.fitting import FeatureModel
from tercet.loading import load
from tercet.pictures import picture as draw


@click.command()
@click.argument("model", type=FOLDER)
@output_options("Picture to write: .png, .svg or .pdf.", required=True)
@click.option("--words", default=24, show_default=True, type=click.IntRange(min=1), help="Words to show on each side.")
def picture(model: Path, output: Path, words: int) -> None:
    """Draw what a MODEL learned: the strongest pairs of words, their sizes, and how many each query word has."""
    learned = load(model)
    if isinstance(learned, FeatureModel):
        raise BundleError(f"{model} holds a model of features; tercet letor picture draws it")
    drawn = draw(learned, output, n_query_words=words, n_doc_words=words)
    echo(f"{output}: {len(drawn.query_names)} query words by {len(drawn.doc_names)} document words")
