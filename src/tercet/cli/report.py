"""``tercet report``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options
from tercet.cli.terminal import echo
from tercet.errors import InputError
from tercet.fitting import FeatureModel
from tercet.loading import load
from tercet.report.page import write_report_page


@click.command()
@click.argument("model", type=FOLDER)
@output_options("Page to write, as report.html; without it the report is printed.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, with the verdict first.")
def report(model: Path, output: Path | None, as_json: bool) -> None:
    """Print what fit said of a MODEL, or write it as a page.

    The page is one file that opens without a network.
    """
    if as_json and output is not None:
        raise click.UsageError("--json is printed, and --output is for the page; name one of the two")
    saved = load(model)
    opened = saved if isinstance(saved, FeatureModel) else open_model(model)
    learned = opened.report
    if learned is None:
        raise InputError(f"{model} has no report; fit writes one")
    if output is None:
        echo(learned.to_json() if as_json else str(learned))
        return
    write_report_page(learned, output, opened.weights_by_name() if isinstance(opened, FeatureModel) else ())
    echo(f"{output}: written")
