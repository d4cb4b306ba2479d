"""The command line: ``tercet VERB DATA --model M -o OUT``. Each verb parses, makes one library call and prints."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from tercet import __version__
from tercet.cli.groups import LazyGroup, examples
from tercet.cli.progress import show_reading
from tercet.cli.terminal import echo
from tercet.errors import TercetError

VERBS = {
    "up": ("tercet.cli.up:up", "From files to a page that learns; again: with new files and clicks."),
    "fit": ("tercet.cli.fit:fit", "Learn from DATA, print the result, and write the model."),
    "index": ("tercet.cli.index:index", "Index DATA's documents, or change an index and its model."),
    "search": ("tercet.cli.search:search", "Find the documents of an index that answer a text best."),
    "serve": ("tercet.cli.serve:serve", "Serve an index over HTTP, with a page, and learn meanwhile."),
    "mcp": ("tercet.cli.mcp:mcp", "Serve a folder or an index to an agent, and learn from its use."),
    "clicks": ("tercet.cli.clicks:clicks", "Describe a click log: what is usable, how far down people look."),
    "report": ("tercet.cli.report:report", "Print what fit said of a MODEL, or write a page or a picture."),
    "explain": ("tercet.cli.explain:explain", "Why a document gets its score, and what counts for a word."),
    "rank": ("tercet.cli.rank:rank", "Rank DATA's documents and write a TREC run."),
    "eval": ("tercet.cli.evaluate:evaluate", "Measure models, runs, or a log of interleaved lists."),
    "compare": ("tercet.cli.evaluate:compare", "Compare two or more systems by paired tests."),
    "export": ("tercet.cli.main:export", "What a model learned, for other engines: query, memory, ltr."),
    "letor": ("tercet.cli.main:letor", "Rank feature vectors: fit, rank, eval, compare."),
    "demo": ("tercet.cli.demo:demo", "Learn to find functions by their descriptions, from docstrings."),
    "doctor": ("tercet.cli.doctor:doctor", "Print versions, missing extras, the kernel cache and threads."),
}
LETOR_VERBS = {
    "fit": ("tercet.cli.letor_fit:fit", "Learn from a LETOR file, or from a set of folds."),
    "rank": ("tercet.cli.letor:rank", "Score the rows of a LETOR file, or write a TREC run."),
    "eval": ("tercet.cli.letor:evaluate", "Measure models on a LETOR file, with 95 % intervals."),
    "compare": ("tercet.cli.letor:compare", "Compare models on a LETOR file by paired tests."),
}
EXPORT_VERBS = {
    "query": ("tercet.cli.export:query", "One query, for OpenSearch, Elasticsearch and Solr."),
    "memory": ("tercet.cli.export:memory", "Past queries of documents, for OpenSearch."),
    "ltr": ("tercet.cli.export:ltr", "Linear feature models for Solr and Elasticsearch LTR."),
}
# In the order of use.
SECTIONS = {
    "To begin": ("up", "demo", "doctor"),
    "From texts to a search that learns": ("fit", "index", "search", "serve", "mcp"),
    "What was learned": ("report", "explain"),
    "Measured": ("rank", "eval", "compare"),
    "Data": ("clicks", "export"),
    "Feature vectors": ("letor",),
}


class Tercet(LazyGroup):
    """Exit code 1 and one line for a failure, 2 for wrong usage; a traceback only when asked for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and Path("tercet.toml").is_file():
            from tercet.cli.options import remember_project
            from tercet.cli.project import NAME, Project, option_defaults

            project = Project.read(VERBS)
            remember_project(ctx, project)
            values = project.options.get(str(name), {})
            ctx.default_map = {str(name): option_defaults(command, values, f"{NAME}: [{name}]")}
        return name, command, rest

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
    epilog=examples("up products.csv --clicks clicks.csv", "fit products.csv --clicks clicks.csv -o model/"),
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


@click.group(
    cls=LazyGroup,
    verbs=LETOR_VERBS,
    epilog=examples(
        "letor fit train.txt --test test.txt -o model/", "letor rank test.txt --model model/ -o scores.txt"
    ),
)
def letor() -> None:
    """Rank feature vectors: LETOR files, lines of "grade qid:id feature:value …".

    Models are linear, with weights of features that can be read, or RankRLS.
    """


@click.group(
    cls=LazyGroup,
    verbs=EXPORT_VERBS,
    epilog=examples('export query "avocado toast" --model model/', "export memory --model model/ -o memory.ndjson"),
)
def export() -> None:
    """Write what a model learned for other engines."""


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
