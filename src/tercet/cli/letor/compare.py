"""``tercet letor compare``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tercet.cli.compare import show_comparison, significance_options
from tercet.cli.letor.rows import evaluations
from tercet.cli.options import FILE, measures_option, models_option
from tercet.cli.systems import system_named
from tercet.measure import compare_evaluations


@click.command()
@click.argument("data", metavar="FILE", type=FILE)
@models_option
@measures_option
@significance_options
def compare(
    data: Path,
    models: tuple[Path, ...],
    measures: tuple[str, ...],
    baseline: str | None,
    method: Any,
    correction: Any,
    largest: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compare models on a LETOR file by paired tests.

    Shown are means, differences with p-values that are corrected for their number, wins and losses, and the queries
    that differ most.
    """
    if len(models) < 2:
        raise click.UsageError("name at least two models, each by --model")
    systems = evaluations(data, models, measures)
    comparison = compare_evaluations(
        systems, baseline=system_named(baseline, systems), method=method, correction=correction, random_state=seed
    )
    show_comparison(comparison, {}, largest, as_json)
