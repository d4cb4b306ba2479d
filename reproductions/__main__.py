"""``python -m reproductions``: tables and figures of a paper, ours beside the printed numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from reproductions.pages import write_results
from reproductions.plan_reading import find_plan
from reproductions.runner import reproduce
from reproductions.table import Cell, Table
from tercet.errors import TercetError

_TONES = {"good": "green", "bad": "red", "plain": ""}
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("paper")
@click.option("--data-home", type=_FOLDER, envvar="TERCET_DATA", required=True, help="Folder with the data sets.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for results.  [default: out/PAPER]")
@click.option("--quick", is_flag=True, help="Little of everything, to see that everything works.")
@click.option("--only", multiple=True, metavar="DATASET", help="Only this data set; may be repeated.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes of one thread each.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", help="Where to learn word pairs.")
def main(
    paper: str, data_home: Path, output: Path | None, quick: bool, only: tuple[str, ...], jobs: int, device: str
) -> None:
    """Reproduce every table and figure of PAPER: chen2010, ssi, minbatsrank, rankrls, or a TOML file of your own.

    Finished jobs are cached in the output folder, so an interrupted run continues.
    """
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    try:
        plan = find_plan(paper)
        folder = output or Path("out") / (plan.paper.key + ("-quick" if quick else ""))
        results = reproduce(plan, data_home, folder, tell=tell, quick=quick, only=only, jobs=jobs, device=device)
        tables, missing = write_results(results, folder)
    except TercetError as error:
        raise click.ClickException(str(error)) from error
    for table in tables:
        _print_table(console, table)
    for line in results.failed:
        tell(f"Failed: {line}")
    if missing is not None:
        tell(f"No PNG files: {missing}")
    if quick:
        tell("A quick run: its numbers mean little.")
    n_run, n_all = results.n_fits()
    tell(f"{n_run:,} of {n_all:,} fits have run; this run took {results.seconds:,.0f} s.")
    tell(f"Written to {folder}; open {folder / 'index.html'}")


def _print_table(console: Console, table: Table) -> None:
    if not table.has_numbers:
        console.print(f"\n{table.title}. {' '.join(table.notes)}", markup=False)
        return
    shown = RichTable(title=table.title, title_justify="left", title_style="bold")
    for name in table.head:
        shown.add_column(name, overflow="fold")
    for row in table.rows:
        shown.add_row(*(_shown(cell, first=column == 0) for column, cell in enumerate(row)))
    console.print()
    console.print(shown)
    for note in (*table.notes, *table.footnotes):
        console.print(note, markup=False)


def _shown(cell: Cell, first: bool) -> Text:
    if not cell.detail or first:
        return Text(cell.text, style=_TONES[cell.tone])
    return Text(f"{cell.text}\n").append(cell.detail, style=_TONES[cell.tone])


if __name__ == "__main__":
    main()
