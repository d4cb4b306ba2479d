"""``tercet eval``"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from rich.table import Table

from tercet.cli.options import data_options
from tercet.cli.systems import TEXT_MEASURES, open_systems, system_options
from tercet.cli.terminal import open_console
from tercet.measure import Evaluation
from tercet.measure import evaluate as evaluate_run
from tercet.report import shown_interval


@click.command("eval")
@data_options
@system_options
def evaluate(
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    models: tuple[Path, ...],
    doc_vectors: Path | None,
    query_vectors: Path | None,
    runs: tuple[Path, ...],
    split: str | None,
    measures: tuple[str, ...],
    depth: int,
) -> None:
    """Measure models on DATA, runs against --qrels, or both, with 95 % intervals."""
    if not models and not runs:
        raise click.UsageError("name --model, or --run and --qrels")
    systems = open_systems(data, corpus, queries, qrels, models, runs, split, depth, doc_vectors, query_vectors)
    names = measures or TEXT_MEASURES
    print_evaluations({name: evaluate_run(systems.qrels, run, names) for name, run in systems.runs.items()})


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
