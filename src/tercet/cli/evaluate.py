"""``tercet eval``"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tercet.cli.inputs import FILE, FOLDER, data_options, open_judged, open_model
from tercet.data import read_qrels, read_run
from tercet.measure import Evaluation
from tercet.measure import evaluate as evaluate_run


@click.command("eval")
@data_options
@click.option("--model", type=FOLDER, help="A text model to rank DATA with.")
@click.option("--run", "runs", type=FILE, multiple=True, help="TREC runs to measure, with --qrels.")
@click.option("--split", default="test", show_default=True, help="Whose judgements to use.")
@click.option("-m", "--measure", "measures", multiple=True, help="As in -m nDCG@10 -m AP; may be repeated.")
@click.option("-k", "depth", default=1000, show_default=True, type=click.IntRange(min=1), help="Documents to rank.")
def evaluate(
    data: Path | None,
    corpus: Path | None,
    queries: Path | None,
    qrels: Path | None,
    model: Path | None,
    runs: tuple[Path, ...],
    split: str,
    measures: tuple[str, ...],
    depth: int,
) -> None:
    """Measure a model on DATA, or runs against --qrels, with 95 % intervals."""
    names = measures or ("nDCG@10", "AP", "P@10", "RR")
    if runs:
        if qrels is None or data is not None or model is not None:
            raise click.UsageError("--run needs --qrels, and neither DATA nor --model")
        judged = read_qrels(qrels)
        print_evaluations({str(path): evaluate_run(judged, read_run(path), names) for path in runs})
        return
    if model is None:
        raise click.UsageError("name --model, or --run and --qrels")
    found = open_judged(data, corpus, queries, qrels)
    judged = found.split("train" if qrels is not None else split)
    text_model = open_model(model)
    asked = {qid: found.queries[qid] for qid in judged}
    print_evaluations({str(model): evaluate_run(judged, text_model.rank(asked, found.docs, depth), names)})


def print_evaluations(found: dict[str, Evaluation]) -> None:
    first = next(iter(found.values()))
    table = Table(title=f"{len(first.qids):,} queries, 95 % intervals", title_justify="left")
    table.add_column("system")
    for measure in first.measures:
        table.add_column(str(measure), justify="right")
    for name, evaluation in found.items():
        cells = []
        for measure in evaluation.measures:
            low, high = evaluation.interval(measure)
            cells.append(f"{evaluation.mean(measure):.4f} [{low:.4f}, {high:.4f}]")
        missing = f" ({evaluation.missing} queries without results)" if evaluation.missing else ""
        table.add_row(name + missing, *cells)
    Console(width=None if Console().is_terminal else 140).print(table, markup=False)
