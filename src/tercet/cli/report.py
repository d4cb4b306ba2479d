"""``tercet report``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options
from tercet.cli.terminal import echo
from tercet.errors import InputError
from tercet.fitting import FeatureModel
from tercet.learn.features import FeatureRanker
from tercet.loading import load
from tercet.pictures import picture
from tercet.report.page import write_report_page
from tercet.search import BaseIndex

PAGE_ENDING = ".html"


@click.command(epilog=examples("report model/ -o report.html", "report model/ -o pairs.png"))
@click.argument("model", type=FOLDER)
@output_options("File to write: .html is a page; .png, .svg and .pdf are a picture.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def report(model: Path, output: Path | None, as_json: bool) -> None:
    """Print the report of a MODEL, or write a page or a picture.

    The page is one file that needs no network. The picture shows the strongest pairs of words; for a feature model, the
    weights and the cost of sparsity.
    """
    saved = load(model)
    if output is not None and output.suffix.lower() != PAGE_ENDING:
        model_of: Any = saved.model if isinstance(saved, BaseIndex) else saved
        picture(FeatureModel(model_of) if isinstance(model_of, FeatureRanker) else model_of, output)
        echo(f"{output}: written")
        return
    opened = saved if isinstance(saved, FeatureModel) else open_model(model)
    learned = opened.report
    if learned is None:
        raise InputError(f"{model} has no report; fit writes one")
    if output is None or as_json:
        echo(learned.to_json() if as_json else str(learned))
    if output is not None:
        write_report_page(learned, output, opened.weights_by_name() if isinstance(opened, FeatureModel) else ())
        echo(f"{output}: written", err=as_json)
