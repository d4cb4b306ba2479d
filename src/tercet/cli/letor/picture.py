"""``tercet letor picture``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.letor.rows import open_feature_model
from tercet.cli.options import FOLDER, NEW
from tercet.pictures import picture as draw


@click.command()
@click.argument("model", type=FOLDER)
@click.option("-o", "--output", type=NEW, required=True, help="Picture to write: .png, .svg or .pdf.")
def picture(model: Path, output: Path) -> None:
    """Draw what the sparsity of a feature MODEL costs, penalty by penalty, and its weights."""
    features = open_feature_model(model)
    draw(features, output)
    learning = None if features.report is None else features.report.features
    click.echo(f"{output}: {0 if learning is None else len(learning.path)} penalties")
