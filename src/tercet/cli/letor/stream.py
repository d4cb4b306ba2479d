"""``tercet letor stream``: LETOR files larger than memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from tercet.cli.letor.rows import print_features, print_written
from tercet.cli.options import FILE, NEW, cluster_option, learning_on, output_options
from tercet.cli.terminal import echo
from tercet.data import read_feature_names
from tercet.fitting import fit_letor_stream
from tercet.fitting.feature_model import LETOR_MEASURES
from tercet.learn import Checkpoint
from tercet.learn.linear import FTRLRanker
from tercet.learn.linear.ftrl_stream import StreamProgress
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.store import check_destination
from tercet.store.kinds import FEATURE_MODEL

CHECKPOINT_EVERY = 1_000  # queries
LOSSES: dict[str, Literal["hinge2", "listnet"]] = {"ftrl": "hinge2", "listnet-ftrl": "listnet"}


@click.command()
@click.argument("data", metavar="FILE", type=FILE)
@output_options("Folder for the model; without it, the report is all.", kind=FEATURE_MODEL)
@click.option("--validation", "--vali", type=FILE, help="File to measure on.")
@click.option("--test", type=FILE, help="File to report on.")
@click.option("--measure", help="What to report.  [default: nDCG at 1, 3, 5 and 10, and AP]")
@click.option("--l1", type=click.FloatRange(min=0), help="The penalty.")
@click.option("--ranker", type=click.Choice(list(LOSSES)), default="ftrl", show_default=True, help="What to learn.")
@click.option("--names", type=FILE, help="Names of the features, 'id name' or one a line.")
@click.option("--epochs", default=1, show_default=True, type=click.IntRange(min=1), help="Passes over the file.")
@click.option("--checkpoint", type=NEW, help="Folder to go on from after a kill.")
@cluster_option
def stream(
    data: Path,
    output: Path | None,
    validation: Path | None,
    test: Path | None,
    measure: str | None,
    l1: float | None,
    ranker: str,
    names: Path | None,
    epochs: int,
    checkpoint: Path | None,
    cluster: str | None,
) -> None:
    """Learn from a LETOR file chunk by chunk; its rows are never in memory as a whole."""
    if checkpoint is not None:
        check_destination(checkpoint)
    learner = FTRLRanker(loss=LOSSES[ranker], epochs=epochs)
    if l1 is not None:
        learner.set_params(l1=l1)
    feature_names: tuple[str, ...] | None = None

    def read_names(progress: StreamProgress) -> None:
        """As soon as it is known how many there must be: what is wrong with them is not to cost the whole work."""
        nonlocal feature_names
        if names is not None and feature_names is None:
            feature_names = read_feature_names(names, int(learner.n_features_in_))

    echo(f"{data}: a LETOR file, read in chunks")
    with learning_on(cluster):
        model = fit_letor_stream(
            data,
            validation=validation,
            test=test,
            measures=LETOR_MEASURES if measure is None else [measure],
            ranker=learner,
            checkpoint=None if checkpoint is None else Checkpoint(checkpoint, every=CHECKPOINT_EVERY),
            progress=read_names,
        )
    if feature_names is not None:
        model = replace(model, feature_names=feature_names)
    if output is not None:
        model.save(output)
    assert model.report is not None
    if output is not None:
        write_report_page(model.report, output / PAGE_NAME, model.weights_by_name())
    echo(str(model.report))
    print_features(model)
    print_written(output, f"{model.report.seconds:.1f} s")
