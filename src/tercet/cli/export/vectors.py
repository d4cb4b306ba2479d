"""``tercet export vectors``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options, query_vectors_option
from tercet.cli.terminal import echo
from tercet.engines import write_adapted_vectors


@click.command()
@click.option("--model", type=FOLDER, required=True, help="A text model with own vectors.")
@query_vectors_option
@output_options("File to write, .npz with ids and vectors, or .npy, whose ids go to .ids beside it.", required=True)
@click.option("--map", "only_map", is_flag=True, help="Write the map itself, to adapt queries where they are asked.")
def vectors(model: Path, query_vectors: Path | None, output: Path, only_map: bool) -> None:
    """Write queries' own vectors as a vector engine is to be asked, or the map that makes them so.

    The inner product of an adapted vector with a document's vector, as it is in the engine already, is what the map
    adds to the score.
    """
    if only_map == (query_vectors is not None):
        raise click.UsageError("name --query-vectors, or --map")
    written = write_adapted_vectors(output, open_model(model), query_vectors)
    if only_map:
        echo(f"{output}: a map of {written.n_dims} × {written.n_dims} numbers; a query x is asked as x @ map")
    else:
        echo(f"{output}: {written.n_queries:,} queries of {written.n_dims} numbers, to be asked by inner product")
