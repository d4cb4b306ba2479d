"""``tercet compare``"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tercet.cli.evaluate import print_evaluations
from tercet.cli.options import json_option, together
from tercet.cli.systems import TEXT_MEASURES, open_systems, system_named, system_options
from tercet.cli.terminal import echo, open_console
from tercet.measure import Comparison
from tercet.measure import compare as compare_runs
from tercet.report import shown_p

_LONGEST_QUERY = 60

significance_options = together(
    click.option("--baseline", help="Test every other system against this one.  [default: every pair]"),
    click.option(
        "--test",
        "method",
        default="t",
        show_default=True,
        type=click.Choice(["t", "wilcoxon", "permutation", "bootstrap"]),
        help="Paired test of two systems.",
    ),
    click.option(
        "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of permutation and bootstrap."
    ),
    json_option,
)


@click.command()
@system_options
@click.option(
    "--missing",
    default="zero",
    show_default=True,
    type=click.Choice(["zero", "error", "skip"]),
    help="Judged queries that a system has no result for: the worst value, a failure, or left out for all.",
)
@significance_options
def compare(
    data: Path | None,
    models: tuple[Path, ...],
    runs: tuple[Path, ...],
    queries: Path | None,
    qrels: Path | None,
    split: str,
    vectors: tuple[Path, Path] | None,
    measures: tuple[str, ...],
    depth: int,
    missing: Any,
    baseline: str | None,
    method: Any,
    seed: int,
    as_json: bool,
) -> None:
    """Compare two or more systems by paired tests.

    Systems are models, which rank DATA, and runs, measured against the judgements of DATA or --judgements. Shown are
    means, differences with p-values that are corrected for their number, wins and losses, and the queries that differ
    most.
    """
    if len(models) + len(runs) < 2:
        raise click.UsageError("name at least two systems, each by --model or --run")
    with redirect_stdout(sys.stderr if as_json else sys.stdout):  # what DATA is belongs into no JSON
        systems = open_systems(data, queries, qrels, models, runs, split, depth, vectors)
    comparison = compare_runs(
        systems.qrels,
        systems.runs,
        measures or TEXT_MEASURES,
        baseline=system_named(baseline, systems.runs),
        missing=missing,
        method=method,
        random_state=seed,
    )
    show_comparison(comparison, systems.queries, as_json)


def show_comparison(comparison: Comparison, texts: Mapping[str, str], as_json: bool) -> None:
    """Print a comparison, with the texts of queries where there are any."""
    if as_json:
        echo(json.dumps(comparison.to_meta(), ensure_ascii=False, indent=2))
    else:
        print_comparison(comparison, texts)


def print_comparison(comparison: Comparison, texts: Mapping[str, str]) -> None:
    """Means, tests, notes, and the queries that differ most by the first measure."""
    print_evaluations(comparison.systems)
    n_tests = len(comparison.contrasts)
    counted = "1 test" if n_tests == 1 else f"{n_tests} tests"
    title = f"paired {comparison.method} tests, p corrected (Holm), {counted} in all"
    table = Table(title=title, title_justify="left")
    table.add_column("system against")
    table.add_column("measure")
    for name in ("difference, 95 % interval", "p", "wins", "ties", "losses"):
        table.add_column(name, justify="right")
    for contrast in comparison.contrasts:
        test = contrast.test
        difference = f"{test.difference:+.4f} [{test.low:+.4f}, {test.high:+.4f}]"
        p_value = shown_p(contrast.p_adjusted).removeprefix("p ").removeprefix("= ")
        counts = [f"{count:,}" for count in (contrast.wins, contrast.ties, contrast.losses)]
        table.add_row(f"{contrast.system}\n{contrast.against}", str(contrast.measure), difference, p_value, *counts)
    open_console(width=None if open_console().is_terminal else 140).print(table, markup=False)
    for note in comparison.notes():
        echo(f"note: {note}")
    for system, against in dict.fromkeys((contrast.system, contrast.against) for contrast in comparison.contrasts):
        rows = comparison.largest(system, against)
        if rows:
            echo(f"largest differences by {comparison.measures[0]}, {system} against {against}:")
        for qid, first, second in rows:
            text = " ".join(texts.get(qid, "").split())
            text = text if len(text) <= _LONGEST_QUERY else text[: _LONGEST_QUERY - 1] + "…"
            echo(f"  {first - second:+.4f}  {first:.4f} {second:.4f}  {qid}  {text}".rstrip())
