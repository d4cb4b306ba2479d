"""``tercet mcp``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.options import FOLDER
from tercet.cli.serve import taught_of
from tercet.cli.terminal import echo
from tercet.store import MANIFEST_NAME


@click.command(epilog=examples("mcp notes/", "mcp index/ --taught agent.taught.db"))
@click.argument("source", metavar="FOLDER|INDEX", type=FOLDER)
@click.option("--taught", type=click.Path(path_type=Path), help="File of taught actions.  [default: FOLDER.taught.db]")
def mcp(source: Path, taught: Path | None) -> None:
    """Serve a FOLDER of Markdown, text, code and JSONL, or an INDEX, over the Model Context Protocol.

    The agent starts this command and uses standard input and output. Tools: search, fetch, feedback, why and undo. The
    ranking learns from feedback and fetched documents. Changed files are picked up.
    """
    from tercet.adapters.mcp import run

    run(source, (source / MANIFEST_NAME).is_file(), taught or taught_of(source), lambda line: echo(line, err=True))
