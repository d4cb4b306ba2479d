"""``tercet promote``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER
from tercet.cli.terminal import echo
from tercet.engines import open_index


@click.command()
@click.argument("index", type=FOLDER)
@click.argument("model", type=FOLDER, required=False)
@click.option("--undo", is_flag=True, help="Put the model before the last promotion back.")
def promote(index: Path, model: Path | None, undo: bool) -> None:
    """Make MODEL the model of an INDEX, or list how the index came to its own.

    One commit: whoever opens the index from then on searches with it, and tercet serve takes it up without a
    restart. MODEL must cut documents into the same words, as what fit, learn and bake made for the index does. Every
    promotion is an entry, and --undo, which adds one, takes the last back.
    """
    if undo and model is not None:
        raise click.UsageError("--undo puts the model before back; name no MODEL")
    promoting = None if model is None else open_model(model)
    opened = open_index(index)
    if promoting is None and not undo:
        for entry in opened.promotions:
            echo(str(entry))
        if not opened.promotions:
            echo(f"{index}: no promotions; its model is the one that it was made with")
        return
    entry = opened.take_back() if promoting is None else opened.promote(promoting)
    took_back = "" if entry.undoes is None else f", promotion {entry.undoes} is taken back"
    echo(f"{index}: promotion {entry.number}, {entry.before} -> {entry.after}{took_back}")
