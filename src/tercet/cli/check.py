"""``tercet check``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast, get_args

import click

from tercet.cli.options import ANY, json_option, table_options, table_settings
from tercet.cli.terminal import echo
from tercet.data import check as check_data
from tercet.data.recognition import Kind
from tercet.data.roles import kind_of_columns


@click.command()
@click.argument("data", type=ANY)
@click.option("--kind", type=click.Choice(get_args(Kind)), help="What DATA is, where it is not recognised.")
@click.option(
    "-k", "most", default=5, show_default=True, type=click.IntRange(min=0), help="Problems of a kind to show."
)
@table_options
@json_option
@click.pass_context
def check(context: click.Context, data: Path, kind: Kind | None, most: int, as_json: bool) -> None:
    """List what is wrong with DATA, with file and line.

    The exit code is 1 if anything would be refused. Every kind of data that is read can be checked: single files, too,
    such as judgements, runs, preferences and clicks.
    """
    said = table_settings()
    if kind is None and data.is_file() and said:  # so it is a table
        kind = cast(Kind, kind_of_columns(said.open(data).columns) or "documents")
    report = check_data(data, kind, most_shown=most, table=said)
    echo(json.dumps(report.to_meta(), ensure_ascii=False, indent=2) if as_json else str(report))
    context.exit(1 if report.n_errors else 0)
