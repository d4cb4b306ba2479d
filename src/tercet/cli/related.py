"""``tercet related``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER


@click.command()
@click.argument("model", type=FOLDER)
@click.argument("words", nargs=-1, required=True)
@click.option("-k", "count", default=10, show_default=True, type=click.IntRange(min=1))
def related(model: Path, words: tuple[str, ...], count: int) -> None:
    """The document words that count most for each query word, with their weights."""
    text_model = open_model(model)
    for word in words:
        pairs = text_model.related(word, count)
        click.echo(f"{word}: " + "  ".join(f"{other} {weight:+.3f}" for other, weight in pairs))
