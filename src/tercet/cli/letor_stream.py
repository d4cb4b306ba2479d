"""``tercet fit FILE --stream``: LETOR files larger than memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tercet.cli.inputs import NEW
from tercet.cli.letor import RANKERS, print_features
from tercet.data import read_feature_names
from tercet.errors import InputError
from tercet.fitting.feature_model import LETOR_MEASURES
from tercet.fitting.rows import fit_letor_stream
from tercet.learn import Checkpoint
from tercet.learn.linear import FTRLRanker
from tercet.learn.linear.ftrl_stream import StreamProgress
from tercet.store import check_destination

CHECKPOINT_EVERY = 1_000  # queries
STREAM_ONLY = ("checkpoint", "epochs")
_NOT_STREAMED = {"folds": "--folds", "choose": "--choose", "show_path": "--path"}


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of ``fit`` for LETOR files that are read in chunks."""
    options = [
        click.option("--stream", is_flag=True, help="LETOR: never hold all rows in memory; needs --ranker ftrl."),
        click.option(
            "--checkpoint", type=NEW, help="With --stream, and of vectors: folder to go on from after a kill."
        ),
        click.option(
            "--epochs", type=click.IntRange(min=1), help="With --stream, and of vectors: passes.  [default: 1]"
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def fit_streamed(
    data: Path,
    kind: str,
    output: Path | None,
    *,
    validation: str | None,
    test: str | None,
    measure: str | None,
    ranker: str | None,
    l1: float | None,
    names: Path | None,
    checkpoint: Path | None,
    epochs: int | None,
    **others: Any,
) -> None:
    """Learn from a LETOR file chunk by chunk, print what came of it, and write the model."""
    if kind != "letor":
        raise click.UsageError(f"--stream takes one LETOR file; {data} is a set of folds")
    for name, option in _NOT_STREAMED.items():
        if others.get(name):
            raise click.UsageError(f"{option} needs all rows in memory; leave out --stream, or it")
    for option, value in (("--validation", validation), ("--test", test)):
        if value is not None and not Path(value).is_file():
            raise InputError(
                f"{option} names {value!r}; next to a LETOR file it is another one, and there is no such file"
            )
    learner = RANKERS[ranker or "ftrl"]()
    if not isinstance(learner, FTRLRanker):
        raise click.UsageError(f"--stream learns with --ranker ftrl or listnet-ftrl, not {ranker}")
    learner.set_params(epochs=epochs or 1, **({} if l1 is None else {"l1": l1}))
    if checkpoint is not None:
        check_destination(checkpoint)
    named: tuple[str, ...] | None = None

    def read_names(at: StreamProgress) -> None:
        """As soon as it is known how many there must be: what is wrong with them is not to cost the whole work."""
        nonlocal named
        if names is not None and named is None:
            named = read_feature_names(names, int(learner.n_features_in_))

    click.echo(f"{data}: a LETOR file, read in chunks")
    model = fit_letor_stream(
        data,
        validation=validation,
        test=test,
        measures=[measure] if measure is not None else LETOR_MEASURES,
        ranker=learner,
        checkpoint=None if checkpoint is None else Checkpoint(checkpoint, every=CHECKPOINT_EVERY),
        progress=read_names,
    )
    if named is not None:
        model = replace(model, feature_names=named)
    if output is not None:
        model.save(output)
    assert model.report is not None
    click.echo(str(model.report))
    print_features(model)
    took = f"{model.report.seconds:.1f} s"
    click.echo(f"{output}: written after {took}" if output else f"{took}; nothing was written, as no -o was given")
