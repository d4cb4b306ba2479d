"""``tercet eval``"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import click
from rich.table import Table

from tercet.cli.interleaved import show_duels
from tercet.cli.options import FOLDER, json_option
from tercet.cli.systems import TEXT_MEASURES, open_systems, system_options
from tercet.cli.terminal import echo, open_console
from tercet.data.ubi import CLICK_SECONDS
from tercet.measure import Evaluation
from tercet.measure import evaluate as evaluate_run
from tercet.report import shown_interval


@click.command("eval")
@system_options
@click.option("--interleaved", type=FOLDER, metavar="LOG", help="Impressions that serve --interleave logged: who wins.")
@click.option("--since", metavar="TIME", help="Of LOG, count lists shown from then on: 2026-11-16, in UTC.")
@click.option(
    "--settle-after",
    type=click.FloatRange(min=0),
    default=CLICK_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="When a list of LOG counts, with the clicks until then.",
)
@json_option
def evaluate(
    data: Path | None,
    models: tuple[Path, ...],
    runs: tuple[Path, ...],
    queries: Path | None,
    qrels: Path | None,
    split: str,
    vectors: tuple[Path, Path] | None,
    measures: tuple[str, ...],
    depth: int,
    interleaved: Path | None,
    since: str | None,
    settle_after: float,
    as_json: bool,
) -> None:
    """Measure models on DATA, runs against --judgements, or both, with 95 % intervals.

    Or say which model wins by the clicks in a LOG of interleaved lists. The test holds whenever one looks: to stop
    when there is a winner is no cheating.
    """
    if interleaved is not None:
        show_duels(interleaved, since, settle_after, as_json)
        return
    if not models and not runs:
        raise click.UsageError("name --model, --run or --interleaved")
    with redirect_stdout(sys.stderr if as_json else sys.stdout):  # what DATA is belongs into no JSON
        systems = open_systems(data, queries, qrels, models, runs, split, depth, vectors)
    names = measures or TEXT_MEASURES
    evaluations = {name: evaluate_run(systems.qrels, run, names) for name, run in systems.runs.items()}
    if as_json:
        echo(json.dumps({name: _means(evaluation) for name, evaluation in evaluations.items()}, indent=2))
    else:
        print_evaluations(evaluations)


def _means(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """Mean and 95 % interval of each measure."""
    return {
        str(measure): dict(
            zip(("mean", "low", "high"), (evaluation.mean(measure), *evaluation.interval(measure)), strict=True)
        )
        for measure in evaluation.measures
    }


def print_evaluations(evaluations: Mapping[str, Evaluation]) -> None:
    """A table: a system a line, a measure a column."""
    first = next(iter(evaluations.values()))
    table = Table(title=f"{len(first.qids):,} queries, 95 % intervals", title_justify="left")
    table.add_column("system")
    for measure in first.measures:
        table.add_column(str(measure), justify="right", overflow="fold")  # cut short, @1 and @10 would look the same
    for name, evaluation in evaluations.items():
        cells = [shown_interval(evaluation.mean(m), *evaluation.interval(m), digits=4) for m in evaluation.measures]
        missing = f" ({evaluation.missing} queries without results)" if evaluation.missing else ""
        table.add_row(name + missing, *cells)
    open_console(width=None if open_console().is_terminal else 140).print(table, markup=False)
