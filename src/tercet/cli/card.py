"""``tercet card``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet import __version__
from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, output_options
from tercet.cli.terminal import echo
from tercet.data.lines import write_atomically
from tercet.errors import InputError
from tercet.fitting import FeatureModel, TextModel
from tercet.loading import load
from tercet.report.card import UNSTATED, model_card


@click.command()
@click.argument("model", type=FOLDER)
@output_options("File to write, as README.md; without it the card is printed.")
@click.option("--title", help="What the model is called.  [default: the name of its folder]")
@click.option("--licence", default=UNSTATED, show_default=True, help="Of the model, as in BSD-3-Clause.")
@click.option("--data-licence", default=UNSTATED, show_default=True, help="Of what it was learned from.")
@click.option("--intended-use", default="", help="What it is for, in a sentence.")
@click.option("--contact", default="", help="Whom to ask.")
def card(
    model: Path,
    output: Path | None,
    title: str | None,
    licence: str,
    data_licence: str,
    intended_use: str,
    contact: str,
) -> None:
    """Write what a MODEL is, what it was learned from, how it does and where it ends, as Markdown."""
    saved = load(model)
    opened = saved if isinstance(saved, FeatureModel) else open_model(model)
    if opened.report is None:
        raise InputError(f"{model} has no report, which a card is made of; fit writes one")
    text = model_card(
        opened.report,
        title=title or model.resolve().name,
        kind=_kind(opened),
        size=_size(opened),
        version=__version__,
        licence=licence,
        data_licence=data_licence,
        intended_use=intended_use,
        contact=contact,
    )
    if output is None:
        echo(text.rstrip())
        return
    with write_atomically(output) as file:
        file.write(text)
    echo(f"{output}: written")


def _kind(model: TextModel | FeatureModel) -> str:
    if isinstance(model, FeatureModel):
        return "A linear ranker of feature vectors"
    beside = " and own vectors" if model.n_dims else " and of fields or numbers" if model.n_words is not None else ""
    return f"A ranker of texts by pairs of words{beside}"


def _size(model: TextModel | FeatureModel) -> str:
    if isinstance(model, FeatureModel):
        return f"{len(model.weights_by_name()):,} features with a weight"
    n_words = model.n_words or len(model.doc_vectoriser.words_)
    return f"{n_words:,} words, {model.weights.n_stored:,} stored weights"
