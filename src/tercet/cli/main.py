"""The command line: ``tercet VERB DATA --model M -o OUT``. Each verb parses, makes one library call and prints."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from typing import Any

import click

from tercet import __version__
from tercet.cli.examples import EXAMPLES
from tercet.cli.groups import LazyGroup
from tercet.cli.progress import show_reading
from tercet.cli.terminal import echo
from tercet.errors import TercetError

VERBS = {
    "fit": ("tercet.cli.fit:fit", "Learn from DATA, print the result, and write the model."),
    "index": ("tercet.cli.index:index", "Index DATA's documents, or change an index and its model."),
    "search": ("tercet.cli.search:search", "Find the documents of an index that answer a text best."),
    "serve": ("tercet.cli.serve:serve", "Serve an index over HTTP, with a page, and learn meanwhile."),
    "bake": ("tercet.cli.bake:bake", "Fold what a service was taught into a model."),
    "clicks": ("tercet.cli.clicks:clicks", "Describe a click log: what is usable, how far down people look."),
    "report": ("tercet.cli.report:report", "Print what fit said of a MODEL, or write a page or a picture."),
    "explain": ("tercet.cli.explain:explain", "Why a document gets its score, and what counts for a word."),
    "rank": ("tercet.cli.rank:rank", "Rank DATA's documents and write a TREC run."),
    "eval": ("tercet.cli.evaluate:evaluate", "Measure models, runs, or a log of interleaved lists."),
    "compare": ("tercet.cli.compare:compare", "Compare two or more systems by paired tests."),
    "export": ("tercet.cli.export:export", "What a model learned, for others: synonyms, query, documents."),
    "letor": ("tercet.cli.letor:letor", "Rank feature vectors: fit, rank, eval, compare."),
    "demo": ("tercet.cli.demo:demo", "Learn to find functions by their descriptions, from docstrings."),
    "doctor": ("tercet.cli.doctor:doctor", "Print versions, missing extras, the kernel cache and threads."),
}
# In the order of use.
SECTIONS = {
    "To begin": ("demo", "doctor"),
    "From texts to a search that learns": ("fit", "index", "search", "serve", "bake"),
    "What was learned": ("report", "explain"),
    "Measured": ("rank", "eval", "compare"),
    "Data": ("clicks", "export"),
    "Feature vectors": ("letor",),
}


class Tercet(LazyGroup):
    """Exit code 1 and one line for a failure, 2 for wrong usage; a traceback only when asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader, as in `| head`, has seen enough; click ends without a word
            raise
        except (TercetError, OSError, MemoryError) as error:
            self._fail(ctx, error)
        except ValueError as error:
            from sklearn.exceptions import NotFittedError  # here, as it costs half a second

            if not isinstance(error, NotFittedError):
                raise
            self._fail(ctx, error)

    @staticmethod
    def _fail(ctx: click.Context, error: BaseException) -> None:
        if ctx.params.get("traceback"):
            echo(traceback.format_exc().rstrip(), err=True)
        else:
            echo(f"error: {error}", err=True)
        sys.exit(1)


@click.group(
    cls=Tercet,
    verbs=VERBS,
    sections=SECTIONS,
    examples=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tercet")
@click.option("--traceback", is_flag=True, help="Show where an error came from.")
@click.pass_context
def cli(context: click.Context, traceback: bool) -> None:
    """Learn to rank from preferences: a query, a better document, a worse one.

    DATA is a table of documents (CSV, TSV, JSONL, Parquet), a BEIR folder, a folder of labelled texts or the 20
    Newsgroups archive; its kind is recognised. LETOR files have a group of their own.
    """
    context.with_resource(show_reading())


class LogHandler(logging.Handler):
    """What the library says of compiling, on standard error, with the verb that waits for it."""

    def emit(self, record: logging.LogRecord) -> None:
        context = click.get_current_context(silent=True)
        echo(f"{'tercet' if context is None else context.command_path}: {record.getMessage()}", err=True)


def main() -> None:
    """Entry point of the ``tercet`` command."""
    log = logging.getLogger("tercet.kernels")
    log.addHandler(LogHandler())
    log.setLevel(logging.INFO)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or file that cannot hold an arrow or an é gets its number, as on standard error, and no crash.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli(prog_name="tercet")
