"""Command line ``tercet VERB DATA --model M -o OUT``. A verb parses, makes one library call and prints."""

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
from tercet.cli.terminal import echo
from tercet.errors import TercetError

VERBS = {
    "up": ("tercet.cli.up:up", "Learn from files, index and serve; again: update."),
    "fit": ("tercet.cli.fit:fit", "Learn from DATA, print the result, write a model."),
    "index": ("tercet.cli.index:index", "Index DATA's documents, or change an index and its model."),
    "search": ("tercet.cli.search:search", "Find the best documents of an index for a text."),
    "serve": ("tercet.cli.serve:serve", "Serve an index over HTTP, with a page for teaching."),
    "mcp": ("tercet.cli.mcp:mcp", "Serve a folder or an index to an agent."),
    "clicks": ("tercet.cli.clicks:clicks", "Describe a click log."),
    "report": ("tercet.cli.report:report", "Print the report of a MODEL, or write it as a page."),
    "explain": ("tercet.cli.explain:explain", "Explain the score of a document, or the weights of a word."),
    "eval": ("tercet.cli.evaluate:evaluate", "Measure and compare models, runs, or interleaved lists."),
    "export": ("tercet.cli.main:export", "Export a model: queries, past queries, linear models."),
    "letor": ("tercet.cli.main:letor", "Rank feature vectors: fit, rank, eval."),
    "demo": ("tercet.cli.demo:demo", "Learn to find functions by description, from docstrings."),
}
LETOR_VERBS = {
    "fit": ("tercet.cli.letor_fit:fit", "Learn from a LETOR file or a set of folds."),
    "rank": ("tercet.cli.letor:rank", "Score the rows of a LETOR file."),
    "eval": ("tercet.cli.letor:evaluate", "Measure and compare models on a LETOR file."),
}
EXPORT_VERBS = {
    "query": ("tercet.cli.export:query", "One query, for OpenSearch, Elasticsearch and Solr."),
    "memory": ("tercet.cli.export:memory", "Past queries of documents, for OpenSearch."),
    "ltr": ("tercet.cli.export:ltr", "Linear feature models for Solr and Elasticsearch LTR."),
}
SECTIONS = {
    "First steps": ("up", "demo"),
    "Search": ("fit", "index", "search", "serve", "mcp"),
    "Learned weights": ("report", "explain"),
    "Data and measures": ("clicks", "eval", "export"),
    "Feature vectors": ("letor",),
}


class Tercet(LazyGroup):
    """Group that reports a failure in one line with exit code 1; --traceback adds the traceback."""

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
        except BrokenPipeError:  # as in `| head`; click exits silently
            raise
        except (TercetError, OSError, MemoryError) as error:
            self._fail(ctx, error)
        except ValueError as error:
            from sklearn.exceptions import NotFittedError  # a slow import

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
@click.option("--traceback", is_flag=True, help="Show the traceback of an error.")
def cli(traceback: bool) -> None:
    """Learn to rank from preferences: a query, a better document, a worse one.

    DATA is a table of documents (CSV, TSV, JSONL, Parquet), a BEIR folder, a folder of labeled texts or the 20
    Newsgroups archive. LETOR files have the group letor.
    """


@click.group(
    cls=LazyGroup,
    verbs=LETOR_VERBS,
    epilog=examples(
        "letor fit train.txt --test test.txt -o model/", "letor rank test.txt --model model/ -o scores.txt"
    ),
)
def letor() -> None:
    """Rank feature vectors of LETOR files, lines of "grade qid:id feature:value …", by linear models or RankRLS."""


@click.group(
    cls=LazyGroup,
    verbs=EXPORT_VERBS,
    epilog=examples('export query "avocado toast" --model model/', "export memory --model model/ -o memory.ndjson"),
)
def export() -> None:
    """Export a model for other engines."""


class LogHandler(logging.Handler):
    """Print messages of the library about compilation on standard error, after the name of the verb."""

    def emit(self, record: logging.LogRecord) -> None:
        context = click.get_current_context(silent=True)
        echo(f"{'tercet' if context is None else context.command_path}: {record.getMessage()}", err=True)


def main() -> None:
    """Entry point of the ``tercet`` command."""
    log = logging.getLogger("tercet.kernels")
    log.addHandler(LogHandler())
    log.setLevel(logging.INFO)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot print arrows or é gets escapes, as on standard error.
        sys.stdout.reconfigure(errors="backslashreplace")
    cli(prog_name="tercet")
