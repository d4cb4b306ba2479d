"""``python -m reproductions``: a paper's tables and figures, ours beside the printed numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from reproductions import find_plan, reproduce, write_results
from tercet.cli.options import FOLDER, NEW, device_option
from tercet.cli.progress import open_bar
from tercet.cli.terminal import open_console
from tercet.report.table import Cell, Table

_TONES = {"good": "green", "bad": "red", "plain": ""}


@click.command()
@click.argument("paper")
@click.option("--data-home", type=FOLDER, envvar="TERCET_DATA", required=True, help="Folder with the data sets.")
@click.option("-o", "--output", type=NEW, help="Folder for the results.  [default: out/PAPER]")
@click.option("--quick", is_flag=True, help="Little of everything: shows that everything works.")
@click.option("--only", multiple=True, metavar="DATASET", help="Only this data set; may be repeated.")
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds, instead of the paper file's number.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes, of one thread each.")
@device_option
@click.option("--budget", type=float, metavar="MINUTES", help="Stop after this time; what it cut is listed.")
@click.option("--fresh", is_flag=True, help="Do again what an earlier run has finished.")
def repro(
    paper: str,
    data_home: Path,
    output: Path | None,
    quick: bool,
    only: tuple[str, ...],
    seeds: int | None,
    jobs: int,
    device: str,
    budget: float | None,
    fresh: bool,
) -> None:
    """Reproduce every table and figure of PAPER: chen2010, ssi, minbatsrank, rankrls, or a TOML file of your own.

    What is finished is kept in the output folder, so an interrupted run goes on where it was.
    """
    plan = find_plan(paper)
    folder = output or Path("out") / (plan.paper.key + ("-quick" if quick else ""))
    console = open_console(width=None if sys.stdout.isatty() else 160, highlight=False)
    with _Lines(console) as lines:
        results = reproduce(
            plan,
            data_home,
            folder,
            listener=lines,
            quick=quick,
            only=only,
            seeds=seeds,
            fresh=fresh,
            budget=budget,
            jobs=jobs,
            device=device,
        )
    tables, missing = write_results(results, folder)
    for table in tables:
        _print_table(console, table)
    for line in results.failed:
        console.print(f"Failed: {line}", markup=False)
    for line in results.cut:
        console.print(f"Cut by the budget: {line}", markup=False)
    if quick:
        console.print("A quick run: its numbers mean little.")
    if missing is not None:
        console.print(f"No PNG files: {missing}", markup=False, soft_wrap=True)
    n_run, n_all = results.n_fits()
    done = ("1 process" if jobs == 1 else f"{jobs} processes") + (f" and {results.card}" if results.card else "")
    console.print(f"{n_run:,} of {n_all:,} fits have run; this run took {results.seconds:,.0f} s with {done}.")
    console.print(f"Written to {folder}; open {folder / 'index.html'}", markup=False)


class _Lines:
    """A line for each finished cell, and on a terminal a bar below them."""

    def __init__(self, console: Console) -> None:
        self._bar = open_bar(console, MofNCompleteColumn(), TimeElapsedColumn(), disable=not sys.stdout.isatty())
        self._task = self._bar.add_task("starting")

    def __enter__(self) -> _Lines:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, n_cells: int) -> None:
        self._bar.update(self._task, total=n_cells)

    def now(self, text: str) -> None:
        self._bar.update(self._task, description=text)

    def done(self, text: str) -> None:
        self.say(text)
        self.skip()

    def say(self, text: str) -> None:
        self._bar.console.print(text, markup=False, soft_wrap=True)

    def skip(self) -> None:
        self._bar.advance(self._task, 1)


def _print_table(console: Console, table: Table) -> None:
    if not table.has_numbers:
        console.print(f"\n{table.title}. {' '.join(table.notes)}", markup=False)
        return
    shown = RichTable(title=table.title, title_justify="left", title_style="bold", show_lines=False)
    for name in table.head:
        shown.add_column(name, overflow="fold")
    for row in table.rows:
        shown.add_row(*(_shown(cell, first=column == 0) for column, cell in enumerate(row)))
    console.print()
    console.print(shown)
    for note in (*table.notes, *table.footnotes):
        console.print(note, markup=False)


def _shown(cell: Cell, first: bool) -> str:
    text = cell.text.replace("[", "\\[")
    if not cell.detail or first:
        return text if cell.tone == "plain" else f"[{_TONES[cell.tone]}]{text}[/]"
    detail = cell.detail.replace("[", "\\[")
    return f"{text}\n" + (detail if cell.tone == "plain" else f"[{_TONES[cell.tone]}]{detail}[/]")


if __name__ == "__main__":
    repro()
