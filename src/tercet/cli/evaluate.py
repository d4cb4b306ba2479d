"""``tercet eval``"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tercet.cli.inputs import FILE, FOLDER, ONLY_SPLIT, data_options, open_judged, open_model
from tercet.data import read_qrels, read_run
from tercet.measure import Evaluation
from tercet.measure import evaluate as evaluate_run
from tercet.report import shown_interval


@click.command("eval")
@data_options
@click.option("--model", type=FOLDER, help="A text model to rank DATA with.")
@click.option("--run", "runs", type=FILE, multiple=True, help="TREC runs to measure, with --qrels.")
@click.option("--split", help="Whose judgements of DATA to use.  [default: test]")
@click.option("-m", "--measure", "measures", multiple=True, help="As in -m nDCG@10 -m AP; may be repeated.")
@click.option("-k", "depth", default=1000, show_default=True, type=click.IntRange(min=1), help="Documents to rank.")
def evaluate(
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    model: Path | None,
    runs: tuple[Path, ...],
    split: str | None,
    measures: tuple[str, ...],
    depth: int,
) -> None:
    """Measure a model on DATA, or runs against --qrels, with 95 % intervals."""
    names = measures or ("nDCG@10", "AP", "P@10", "RR")
    if runs:
        if qrels is None or any(other is not None for other in (data, corpus, queries, model, split)):
            raise click.UsageError("--run needs --qrels, and none of DATA, --corpus, --queries, --model and --split")
        judged = read_qrels(qrels)
        print_evaluations({str(path): evaluate_run(judged, read_run(path), names) for path in runs})
        return
    if model is None:
        raise click.UsageError("name --model, or --run and --qrels")
    if qrels is not None and split is not None:
        raise click.UsageError("--qrels and --split both say whose judgements to use; name one or the other")
    found = open_judged(data, corpus, queries, qrels)
    part = ONLY_SPLIT if qrels is not None else split or "test"
    asked = found.queries_of(part)
    run = open_model(model).rank(asked, found.docs, depth)
    print_evaluations({str(model): evaluate_run(found.split(part), run, names)})


def print_evaluations(found: dict[str, Evaluation]) -> None:
    first = next(iter(found.values()))
    table = Table(title=f"{len(first.qids):,} queries, 95 % intervals", title_justify="left")
    table.add_column("system")
    for measure in first.measures:
        table.add_column(str(measure), justify="right")
    for name, evaluation in found.items():
        cells = [shown_interval(evaluation.mean(m), *evaluation.interval(m), digits=4) for m in evaluation.measures]
        missing = f" ({evaluation.missing} queries without results)" if evaluation.missing else ""
        table.add_row(name + missing, *cells)
    Console(width=None if Console().is_terminal else 140).print(table, markup=False)
