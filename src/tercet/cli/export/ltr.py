"""``tercet export ltr``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tercet.cli.letor.rows import open_feature_model
from tercet.cli.options import FOLDER, NEW, check_output, replace_option
from tercet.cli.terminal import echo
from tercet.engines.linear_models import FEATURES_NAME, MODEL_NAME, write_ltr

ADDRESSES = {
    "solr": ("PUT /solr/COLLECTION/schema/feature-store", "PUT /solr/COLLECTION/schema/model-store"),
    "elasticsearch": ("PUT /_ltr/_featureset/{name}", "POST /_ltr/_featureset/{name}/_createmodel"),
}


@click.command()
@click.argument("model", type=FOLDER)
@click.option("-o", "--output", type=NEW, required=True, help=f"Folder for {FEATURES_NAME} and {MODEL_NAME}.")
@replace_option
@click.option("--engine", type=click.Choice(list(ADDRESSES)), default="solr", show_default=True, help="Whose format.")
@click.option("--name", default="tercet", show_default=True, help="Of the model and of its set of features.")
@click.pass_context
def ltr(context: click.Context, model: Path, output: Path, engine: Any, name: str) -> None:
    """Write a linear feature MODEL for Solr's or Elasticsearch's learning to rank; OpenSearch has the latter's form."""
    for file in (FEATURES_NAME, MODEL_NAME):
        check_output(context, output / file, None)
    written = write_ltr(output, open_feature_model(model), engine=engine, name=name)
    for file, address in zip((FEATURES_NAME, MODEL_NAME), ADDRESSES[engine], strict=True):
        echo(f"{output / file}: for {address.format(name=name)}")
    echo(f"{len(written.fields):,} features with a weight; {written.n_left_out:,} without one are left out")
    echo(
        f"each is taken from a document's field ({', '.join(list(written.fields.values())[:5])}, …); one that a query "
        f"computes is to be put in its place in {FEATURES_NAME}"
    )
