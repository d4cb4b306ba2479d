"""``tercet eval``: models that rank DATA, and runs, measured and compared on one set of judgements."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.table import Table

from tercet.cli.groups import examples
from tercet.cli.inputs import (
    ONLY_SPLIT,
    Qrels,
    open_judged,
    open_model,
    read_judgements,
    read_query_texts,
    tell_unknown,
)
from tercet.cli.interleaved import show_duels
from tercet.cli.options import (
    DATA,
    FILE,
    FOLDER,
    json_option,
    judged_options,
    measures_option,
    models_option,
    together,
)
from tercet.cli.terminal import echo, open_console
from tercet.data import read_run
from tercet.data.ubi import CLICK_SECONDS
from tercet.errors import InputError
from tercet.measure import Comparison, Evaluation
from tercet.measure import compare as compare_runs
from tercet.measure import evaluate as evaluate_run
from tercet.report import shown_interval, shown_p

TEXT_MEASURES = ("nDCG@10", "AP", "P@10", "RR")
_LONGEST_QUERY = 60
_WIDTH = 140  # characters of a table outside a terminal

significance_options = together(
    click.option("--baseline", help="Test every other system against this one.  [default: every pair]"),
    click.option(
        "--test",
        "method",
        default="t",
        show_default=True,
        type=click.Choice(["t", "wilcoxon", "permutation"]),
        help="Paired test of two systems.",
    ),
    json_option,
)


@click.command(
    "eval",
    epilog=examples(
        "eval nfcorpus/ --model old/ --model new/ -m nDCG@10 -m AP",
        "eval --interleaved impressions/ --since 2026-11-16",
    ),
)
@click.argument("data", type=DATA, required=False)
@models_option
@click.option("--run", "runs", type=FILE, multiple=True, help="TREC run; may be repeated.")
@judged_options
@click.option("--split", default="test", show_default=True, help="Split of DATA with the judgements.")
@measures_option
@click.option("-k", "depth", default=1000, show_default=True, type=click.IntRange(min=1), help="Documents to rank.")
@significance_options
@click.option("--interleaved", type=FOLDER, metavar="LOG", help="Impressions logged by serve --interleave.")
@click.option("--since", metavar="TIME", help="Count the lists of LOG from this time on: 2026-11-16, in UTC.")
@click.option(
    "--settle-after",
    type=click.FloatRange(min=0),
    default=CLICK_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Count a list of LOG after this time for clicks, as in serve.",
)
def evaluate(
    measures: tuple[str, ...],
    baseline: str | None,
    method: Any,
    interleaved: Path | None,
    since: str | None,
    settle_after: float,
    as_json: bool,
    **named: Any,
) -> None:
    """Measure runs, and models that rank DATA, with 95 % intervals; compare two or more systems by paired tests.

    With --interleaved, report the winner by the clicks in a LOG of interleaved lists. The test is valid at any time, so
    stopping at the first winner is allowed.
    """
    if interleaved is not None:
        show_duels(interleaved, since, settle_after, as_json)
        return
    if not named["models"] and not named["runs"]:
        raise click.UsageError("name --model, --run or --interleaved")
    systems = open_systems(as_json, **named)
    names = measures or TEXT_MEASURES
    if len(systems.runs) == 1:
        show_evaluations({name: evaluate_run(systems.qrels, run, names) for name, run in systems.runs.items()}, as_json)
        return
    against = system_named(baseline, systems.runs)
    comparison = compare_runs(systems.qrels, systems.runs, names, baseline=against, method=method)
    show_comparison(comparison, systems.queries, as_json)


# -- systems -----------------------------------------------------------------------------------------------------------


class Systems(NamedTuple):
    """Judgements, texts of queries if given, and the run of each system by the name that was typed."""

    qrels: Qrels
    queries: Mapping[str, str]
    runs: dict[str, dict[str, dict[str, float]]]


def open_systems(as_json: bool, **named: Any) -> Systems:
    """Read judgements and runs, and rank by the models. JSON on standard output stays free of other lines."""
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        return _open_systems(**named)


def _open_systems(
    data: Path | None,
    queries: Path | None,
    qrels: Path | None,
    models: tuple[Path, ...],
    runs: tuple[Path, ...],
    split: str,
    depth: int,
) -> Systems:
    for path in (*models, *runs):
        if (*models, *runs).count(path) > 1:
            raise click.UsageError(f"{path} is named twice")
    if data is None:
        if models or qrels is None:
            raise click.UsageError("--model needs DATA to rank, and --run needs DATA or --judgements")
        texts = None if queries is None else read_query_texts(queries)
        judgements = read_judgements(qrels, texts)
        if texts is None and judgements.queries:
            raise InputError(f"{qrels} names queries by their texts; give their ids, too: --queries FILE")
        systems = Systems(judgements.qrels, texts or {}, {})
    else:
        judged = open_judged(data, queries, qrels)
        part = ONLY_SPLIT if qrels is not None else split
        query_texts = judged.queries_of(part)
        systems = Systems(judged.split(part), query_texts, {})
        for path in models:
            model = open_model(path)
            tell_unknown(model, query_texts, path if len(models) > 1 else None)
            systems.runs[str(path)] = model.rank(query_texts, judged.docs, depth)
    for path in runs:
        systems.runs[str(path)] = read_run(path)
    return systems


def system_named(name: str | None, systems: Mapping[str, object]) -> str | None:
    """Return the system with this path, or with this last part of its path."""
    if name is None or name in systems:
        return name
    matches = [system for system in systems if Path(system).name == Path(name).name]
    if len(matches) != 1:
        raise InputError(f"the baseline {name!r} is none of the systems: {', '.join(systems)}")
    return matches[0]


# -- tables ------------------------------------------------------------------------------------------------------------


def show_evaluations(evaluations: Mapping[str, Evaluation], as_json: bool) -> None:
    """Print means with 95 % intervals, as a table or as JSON."""
    if not as_json:
        _print_evaluations(evaluations)
        return
    meta = {
        name: {
            str(measure): dict(
                zip(("mean", "low", "high"), (evaluation.mean(measure), *evaluation.interval(measure)), strict=True)
            )
            for measure in evaluation.measures
        }
        for name, evaluation in evaluations.items()
    }
    echo(json.dumps(meta, indent=2))


def _print_evaluations(evaluations: Mapping[str, Evaluation]) -> None:
    """Print a table with a row for each system and a column for each measure."""
    first = next(iter(evaluations.values()))
    table = Table(title=f"{len(first.qids):,} queries, 95 % intervals", title_justify="left")
    table.add_column("system")
    for measure in first.measures:
        table.add_column(str(measure), justify="right", overflow="fold")  # a shortened @10 would look like @1
    for name, evaluation in evaluations.items():
        cells = [shown_interval(evaluation.mean(m), *evaluation.interval(m), digits=4) for m in evaluation.measures]
        missing = f" ({evaluation.missing} queries without results)" if evaluation.missing else ""
        table.add_row(name + missing, *cells)
    _print_table(table)


def _print_table(table: Table) -> None:
    open_console(width=None if open_console().is_terminal else _WIDTH).print(table, markup=False)


def show_comparison(comparison: Comparison, texts: Mapping[str, str], as_json: bool) -> None:
    """Print means, tests, notes, and the queries with the largest differences, with their texts if there are any."""
    if as_json:
        echo(json.dumps(comparison.to_meta(), ensure_ascii=False, indent=2))
        return
    _print_evaluations(comparison.systems)
    n_tests = len(comparison.contrasts)
    counted = "1 test" if n_tests == 1 else f"{n_tests} tests"
    title = f"paired {comparison.method} tests, p corrected (Holm), {counted} in all"
    table = Table(title=title, title_justify="left")
    table.add_column("system\nagainst")
    table.add_column("measure")
    for name in ("difference, 95 % interval", "p", "wins", "ties", "losses"):
        table.add_column(name, justify="right")
    for contrast in comparison.contrasts:
        test = contrast.test
        difference = f"{test.difference:+.4f} [{test.low:+.4f}, {test.high:+.4f}]"
        p_value = shown_p(contrast.p_adjusted).removeprefix("p ").removeprefix("= ")
        counts = [f"{count:,}" for count in (contrast.wins, contrast.ties, contrast.losses)]
        table.add_row(f"{contrast.system}\n{contrast.against}", str(contrast.measure), difference, p_value, *counts)
    _print_table(table)
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
