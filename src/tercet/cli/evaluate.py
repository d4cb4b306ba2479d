"""``tercet eval``"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tercet.cli.inputs import data_options
from tercet.cli.letor import is_letor, open_feature_model, open_rows, refuse_given
from tercet.cli.systems import TEXT_MEASURES, open_systems, system_options
from tercet.fitting.feature_model import LETOR_MEASURES
from tercet.measure import Evaluation
from tercet.measure import evaluate as evaluate_run
from tercet.report import shown_interval


@click.command("eval")
@data_options
@system_options
@click.pass_context
def evaluate(
    context: click.Context,
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    models: tuple[Path, ...],
    runs: tuple[Path, ...],
    split: str | None,
    measures: tuple[str, ...],
    depth: int,
) -> None:
    """Measure models on DATA, runs against --qrels, or both, with 95 % intervals."""
    if not models and not runs:
        raise click.UsageError("name --model, or --run and --qrels")
    if data is not None and is_letor(data):
        given = ("corpus", "queries", "qrels", "split", "depth", "runs")
        refuse_given(context, given, f"is for texts; {data} is a LETOR file")
        features = {str(path): open_feature_model(path) for path in models}
        print_evaluations(
            {
                name: model.evaluate(open_rows(data, model), measures or LETOR_MEASURES)
                for name, model in features.items()
            }
        )
        return
    found = open_systems(data, corpus, queries, qrels, models, runs, split, depth)
    names = measures or TEXT_MEASURES
    print_evaluations({name: evaluate_run(found.qrels, run, names) for name, run in found.runs.items()})


def print_evaluations(found: dict[str, Evaluation]) -> None:
    first = next(iter(found.values()))
    table = Table(title=f"{len(first.qids):,} queries, 95 % intervals", title_justify="left")
    table.add_column("system")
    for measure in first.measures:
        table.add_column(str(measure), justify="right", overflow="fold")  # cut short, @1 and @10 would look the same
    for name, evaluation in found.items():
        cells = [shown_interval(evaluation.mean(m), *evaluation.interval(m), digits=4) for m in evaluation.measures]
        missing = f" ({evaluation.missing} queries without results)" if evaluation.missing else ""
        table.add_row(name + missing, *cells)
    Console(width=None if Console().is_terminal else 140).print(table, markup=False)
