"""Paths and options that several verbs have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tercet.adapters.ir_datasets import PREFIX
from tercet.errors import FormatError, InputError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
ANY = click.Path(exists=True, path_type=Path)
NEW = click.Path(path_type=Path)


class DataPath(click.Path):
    """A path, or ``ir_datasets:NAME``, which is none."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return Path(value) if str(value).startswith(PREFIX) else super().convert(value, parameter, context)


DATA = DataPath(exists=True, path_type=Path)


def together(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


# DATA, or its parts as files.
data_options = together(
    click.argument("data", type=DATA, required=False),
    click.option("--corpus", type=FILE, help="Documents as BEIR JSONL, instead of DATA."),
    click.option("--queries", type=FILE, help="Queries as BEIR JSONL, instead of DATA."),
    click.option("--qrels", type=FILE, help="Judgements, TREC, BEIR or Quepid CSV, instead of DATA's."),
)
models_option = click.option(
    "--model", "models", type=FOLDER, multiple=True, help="A model to measure; may be repeated."
)
measures_option = click.option(
    "-m", "--measure", "measures", multiple=True, help="As in -m nDCG@10 -m AP; may be repeated."
)
seed_option = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
quiet_option = click.option("--quiet", is_flag=True, help="No progress.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
verify_option = click.option(
    "--unverified", is_flag=True, help="Do not check every byte first; for large indexes on trusted disks."
)


cluster_option = click.option(
    "--cluster", metavar="ADDRESS", help="Learn on local:N processes, or a Dask scheduler's tcp://host:port."
)


@contextmanager
def learning_on(address: str | None) -> Iterator[None]:
    """Have what is learned within the block learned on a cluster, if one is named; at the end, say what travelled."""
    if address is None:
        yield
        return
    from tercet.scale import Cluster

    with Cluster(address) as cluster:
        yield
    if cluster.rounds:
        click.echo(cluster.summary())


@contextmanager
def naming_flag(flag: str, kind: str) -> Iterator[None]:
    """Name the flag that helps where a file has this kind of fault; the library names its own parameter."""
    try:
        yield
    except FormatError as error:
        if error.kind != kind:
            raise
        raise InputError(f"{error} (here: {flag})") from error


def refuse_given(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Wrong usage, naming the first of these parameters that was typed."""
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]} {why}")
