"""``tercet letor eval``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.evaluate import print_evaluations
from tercet.cli.letor.rows import evaluations
from tercet.cli.options import FILE, measures_option, models_option


@click.command("eval")
@click.argument("data", metavar="FILE", type=FILE)
@models_option
@measures_option
def evaluate(data: Path, models: tuple[Path, ...], measures: tuple[str, ...]) -> None:
    """Measure models on a LETOR file, with 95 % intervals."""
    if not models:
        raise click.UsageError("Missing option '--model'.")
    print_evaluations(evaluations(data, models, measures))
