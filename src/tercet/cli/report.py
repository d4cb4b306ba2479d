"""``tercet report``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, NEW
from tercet.errors import InputError
from tercet.report.page import write_report_page


@click.command()
@click.argument("model", type=FOLDER)
@click.option("-o", "--output", type=NEW, help="Page to write, as report.html; without it the report is printed.")
def report(model: Path, output: Path | None) -> None:
    """Print what fit said of a MODEL, or write it as a page.

    The page is one file that opens without a network.
    """
    learned = open_model(model).report
    if learned is None:
        raise InputError(f"{model} has no report; fit writes one")
    if output is None:
        click.echo(str(learned))
        return
    write_report_page(learned, output)
    click.echo(f"{output}: written")
