"""``python -m reproductions``: tables and figures of a paper, ours beside the printed numbers."""

from __future__ import annotations

from pathlib import Path

import click

from reproductions.pages import counted, write_index, write_results
from reproductions.plan import find_plan
from reproductions.runner import reproduce
from tercet.errors import TercetError

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("paper")
@click.option("--data-home", type=_FOLDER, envvar="TERCET_DATA", default=".", help="Folder with the data sets.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for results.  [default: out/PAPER]")
@click.option("--quick", is_flag=True, help="Little of everything, to see that everything works.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes of one thread each.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", help="Where to learn word pairs.")
def main(paper: str, data_home: Path, output: Path | None, quick: bool, jobs: int, device: str) -> None:
    """Reproduce every table and figure of PAPER: chen2010, ssi, minbatsrank, rankrls, or a TOML file of your own.

    PAPER may also be "index": the page over all papers that have run. Finished jobs are cached in the output folder, so
    a run that was stopped (Ctrl-C, SIGINT) continues.
    """
    try:
        if paper == "index":
            click.echo(f"Written to {write_index(output or Path('out'))}")
            return
        plan = find_plan(paper)
        folder = output or Path("out") / (plan.paper.key + ("-quick" if quick else ""))
        results = reproduce(plan, data_home, folder, tell=click.echo, quick=quick, jobs=jobs, device=device)
        overview = write_results(results, folder)
    except KeyboardInterrupt:
        raise click.ClickException("stopped; finished jobs are cached, and the same command goes on") from None
    except TercetError as error:
        raise click.ClickException(str(error)) from error
    for line in results.failed:
        click.echo(f"Failed: {line}")
    for kind, counts in overview["counts"].items():
        click.echo(f"{kind}: {counted(counts) or '–'}")
    click.echo("A quick run: its numbers mean little." if quick else f"This run took {results.seconds:,.0f} s.")
    click.echo(f"{overview['fits']} fits have run. Written to {folder}; open {folder / 'index.html'}")


if __name__ == "__main__":
    main()
