"""``tercet compare``"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tercet.cli.evaluate import print_evaluations
from tercet.cli.inputs import data_options
from tercet.cli.letor import is_letor, open_feature_model, open_rows, refuse_given
from tercet.cli.systems import TEXT_MEASURES, named, open_systems, system_options
from tercet.fitting.feature_model import LETOR_MEASURES
from tercet.measure import Comparison, compare_evaluations
from tercet.measure import compare as compare_runs
from tercet.report import shown_p

_LONGEST_QUERY = 60


@click.command()
@data_options
@system_options
@click.option("--baseline", help="Test every other system against this one.  [default: every pair]")
@click.option(
    "--test",
    "method",
    default="t",
    show_default=True,
    type=click.Choice(["t", "wilcoxon", "permutation", "bootstrap"]),
    help="Paired test of two systems.",
)
@click.option(
    "--correction",
    default="holm",
    show_default=True,
    type=click.Choice(["holm", "bonferroni", "none"]),
    help="Of p-values, for the number of tests.",
)
@click.option(
    "--missing",
    default="zero",
    show_default=True,
    type=click.Choice(["zero", "error", "skip"]),
    help="Judged queries that a system has no result for: the worst value, a failure, or left out for all.",
)
@click.option(
    "--largest", default=5, show_default=True, type=click.IntRange(min=0), help="Queries that differ most to show."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of permutation and bootstrap.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.pass_context
def compare(
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
    baseline: str | None,
    method: Any,
    correction: Any,
    missing: Any,
    largest: int,
    seed: int,
    as_json: bool,
) -> None:
    """Compare two or more systems by paired tests.

    Systems are models, which rank DATA, and runs, measured against the judgements of DATA or --qrels. Shown are means,
    differences with p-values that are corrected for their number, wins and losses, and the queries that differ most.
    """
    if len(models) + len(runs) < 2:
        raise click.UsageError("name at least two systems, each by --model or --run")
    how: dict[str, Any] = {"method": method, "correction": correction, "random_state": seed}
    texts: Mapping[str, str] = {}
    if data is not None and is_letor(data):
        given = ("corpus", "queries", "qrels", "split", "depth", "missing", "runs")
        refuse_given(context, given, f"is for texts; {data} is a LETOR file")
        features = {str(path): open_feature_model(path) for path in models}
        found = {
            name: model.evaluate(open_rows(data, model), measures or LETOR_MEASURES) for name, model in features.items()
        }
        comparison = compare_evaluations(found, baseline=named(baseline, found), **how)
    else:
        with redirect_stdout(sys.stderr if as_json else sys.stdout):  # what DATA is belongs into no JSON
            systems = open_systems(data, corpus, queries, qrels, models, runs, split, depth)
        texts = systems.queries
        how |= {"baseline": named(baseline, systems.runs), "missing": missing}
        comparison = compare_runs(systems.qrels, systems.runs, measures or TEXT_MEASURES, **how)
    if as_json:
        click.echo(json.dumps(comparison.to_meta(), ensure_ascii=False, indent=2))
        return
    print_comparison(comparison, texts, largest)


def print_comparison(comparison: Comparison, texts: Mapping[str, str], largest: int) -> None:
    """Means, tests, notes, and the queries that differ most by the first measure."""
    print_evaluations(comparison.systems)
    corrected = "" if comparison.correction == "none" else f", p corrected ({comparison.correction.capitalize()})"
    n_tests = len(comparison.contrasts)
    title = f"paired {comparison.method} tests{corrected}, {n_tests} {'test' if n_tests == 1 else 'tests'} in all"
    table = Table(title=title, title_justify="left")
    table.add_column("system against")
    table.add_column("measure")
    for name in ("difference, 95 % interval", "p", "wins", "ties", "losses"):
        table.add_column(name, justify="right")
    for one in comparison.contrasts:
        test = one.test
        difference = f"{test.difference:+.4f} [{test.low:+.4f}, {test.high:+.4f}]"
        p_value = shown_p(one.p_adjusted).removeprefix("p ").removeprefix("= ")
        counts = [f"{count:,}" for count in (one.wins, one.ties, one.losses)]
        table.add_row(f"{one.system}\n{one.against}", str(one.measure), difference, p_value, *counts)
    Console(width=None if Console().is_terminal else 140).print(table, markup=False)
    for note in comparison.notes():
        click.echo(f"note: {note}")
    shown: set[tuple[str, str]] = set()
    for one in comparison.contrasts:
        if (one.system, one.against) in shown or not largest:
            continue
        shown.add((one.system, one.against))
        rows = comparison.largest(one.system, one.against, k=largest)
        if rows:
            click.echo(f"largest differences by {comparison.measures[0]}, {one.system} against {one.against}:")
        for qid, first, second in rows:
            text = " ".join(texts.get(qid, "").split())
            text = text if len(text) <= _LONGEST_QUERY else text[: _LONGEST_QUERY - 1] + "…"
            click.echo(f"  {first - second:+.4f}  {first:.4f} {second:.4f}  {qid}  {text}".rstrip())
