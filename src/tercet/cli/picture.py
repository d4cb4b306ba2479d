"""``tercet picture``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import FOLDER, NEW
from tercet.loading import load
from tercet.pictures import picture as draw


@click.command()
@click.argument("model", type=FOLDER)
@click.option("-o", "--output", type=NEW, required=True, help="Picture to write: .png, .svg or .pdf.")
@click.option("--words", default=24, show_default=True, type=click.IntRange(min=1), help="Words to show on each side.")
def picture(model: Path, output: Path, words: int) -> None:
    """Draw the pairs of words a MODEL learned: the strongest, their sizes, and how many each query word has."""
    seen = draw(load(model), output, n_query_words=words, n_doc_words=words)
    click.echo(f"{output}: {len(seen.query_names)} query words by {len(seen.doc_names)} document words")
