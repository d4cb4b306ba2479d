"""``tercet export synonyms``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options
from tercet.cli.terminal import echo
from tercet.engines import write_synonyms


@click.command()
@click.option("--model", type=FOLDER, required=True, help="A text model.")
@output_options("File to write.", required=True)
@click.option(
    "--engine", type=click.Choice(["solr", "elasticsearch"]), default="solr", show_default=True, help="Whose format."
)
@click.option("--min-boost", default=0.1, show_default=True, type=float, help="The smallest boost to list.")
@click.option("--max-words", default=10, show_default=True, type=click.IntRange(min=1), help="Most for a word.")
def synonyms(model: Path, output: Path, engine: Any, min_boost: float, max_words: int) -> None:
    """Write the document words that count for each query word as a file of synonyms."""
    written = write_synonyms(output, open_model(model), engine=engine, min_boost=min_boost, max_words=max_words)
    echo(f"{output}: {written.n_pairs:,} words for {written.n_words:,} query words")
    echo(
        f"left out: {written.n_below:,} smaller and {written.n_negative:,} negative weights, "
        f"{written.n_unwritable:,} words the format cannot hold"
    )
