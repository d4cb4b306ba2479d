"""``tercet report``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options
from tercet.cli.terminal import echo
from tercet.errors import InputError
from tercet.fitting import FeatureModel
from tercet.loading import load
from tercet.report.page import write_report_page

PAGE_ENDING = ".html"


@click.command(epilog=examples("report model/ -o report.html", "report model/ --json"))
@click.argument("model", type=FOLDER)
@output_options("HTML file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def report(model: Path, output: Path | None, as_json: bool) -> None:
    """Print the report of a MODEL, or write it as one page that needs no network."""
    if output is not None and output.suffix.lower() != PAGE_ENDING:
        raise InputError(f"{output} must end in {PAGE_ENDING}: tercet report {model} -o report.html")
    saved = load(model)
    opened = saved if isinstance(saved, FeatureModel) else open_model(model)
    learned = opened.report
    if learned is None:
        raise InputError(f"{model} has no report; fit writes one")
    if output is None or as_json:
        echo(learned.to_json() if as_json else str(learned))
    if output is not None:
        write_report_page(learned, output, opened.weights_by_name() if isinstance(opened, FeatureModel) else ())
        echo(f"{output}: written", err=as_json)
