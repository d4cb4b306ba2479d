"""The command line: ``tercet VERB DATA --model M -o OUT``. Each verb parses, makes one library call and prints."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Any

import click
from sklearn.exceptions import NotFittedError

from tercet import __version__
from tercet.cli.check import check
from tercet.cli.compare import compare
from tercet.cli.demo import demo
from tercet.cli.evaluate import evaluate
from tercet.cli.explain import explain, related
from tercet.cli.export import export
from tercet.cli.fit import fit
from tercet.cli.index import index
from tercet.cli.learn import learn
from tercet.cli.picture import picture
from tercet.cli.rank import rank
from tercet.cli.reading import show_reading
from tercet.cli.report import report
from tercet.cli.repro import repro
from tercet.cli.search import search
from tercet.cli.serve import serve
from tercet.cli.vectorise import vectorise
from tercet.errors import TercetError


class Verbs(click.Group):
    """Exit code 1 and one line for a failure, 2 for wrong usage; a traceback only when asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader, as in `| head`, has seen enough; click ends without a word
            raise
        except (TercetError, NotFittedError, OSError, MemoryError) as error:
            if ctx.params.get("traceback"):
                traceback.print_exc()
            else:
                click.echo(f"error: {error}", err=True)
            sys.exit(1)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tercet")
@click.option("--traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(context: click.Context, traceback: bool) -> None:
    """Learn to rank from preferences: a query, a better document, a worse one.

    DATA is a BEIR folder, a folder of labelled texts, the 20 Newsgroups archive, a LETOR file or a folder or archive of
    its folds; its kind is recognised.
    """
    context.with_resource(show_reading())


for verb in (
    check,
    fit,
    evaluate,
    compare,
    rank,
    vectorise,
    index,
    search,
    serve,
    learn,
    related,
    explain,
    picture,
    report,
    export,
    demo,
    repro,
):
    cli.add_command(verb)


def main() -> None:
    """Entry point of the ``tercet`` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or file that cannot hold an arrow or an é gets its number, as on standard error, and no crash.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli()
