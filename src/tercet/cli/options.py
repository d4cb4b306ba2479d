"""Paths and options of several verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tercet.adapters.ir_datasets import PREFIX
from tercet.cli.project import Project
from tercet.cli.terminal import echo
from tercet.data.cells import UNKNOWN_ID
from tercet.data.lines import ENCODING_PROBLEM
from tercet.data.roles import ColumnsError, TableSettings
from tercet.data.tables import BadRows
from tercet.errors import FormatError, InputError
from tercet.store import bundle_kind, check_destination

if TYPE_CHECKING:
    from tercet.fitting import TextModel

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
ANY = click.Path(exists=True, path_type=Path)
NEW = click.Path(path_type=Path)


class DataPath(click.Path):
    """Path, or ``ir_datasets:NAME``."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return Path(value) if str(value).startswith(PREFIX) else super().convert(value, parameter, context)


DATA = DataPath(exists=True, path_type=Path)


def together(*decorators: Decorator) -> Decorator:
    """Return one decorator for several options, shown in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


# -- outputs ----------------------------------------------------------------------------------------------------------

_REPLACE = "tercet.replace"  # key of the flag --replace in a context


def _remember_replace(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_REPLACE] = value


replace_option = click.option(
    "--replace",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember_replace,
    help="Replace the earlier output of this verb.",
)


def output_options(help: str, *, kind: str | None = None, required: bool = False) -> Decorator:
    """Return the options ``-o`` and ``--replace``; `check_output` checks OUTPUT before any work starts.

    Parameters
    ----------
    help : of ``-o``
    kind : of the folder to write; None for a file
    required : True if the verb always writes
    """

    def checked(context: click.Context, parameter: click.Parameter, output: Path | None) -> Path | None:
        if output is not None:
            check_output(context, output, kind)
        return output

    option = click.option("-o", "--output", type=NEW, required=required, help=help, callback=checked)
    return together(option, replace_option)


def check_output(context: click.Context, output: Path, kind: str | None) -> None:
    """Raise `InputError` unless OUTPUT is new, or of the same kind and --replace is given."""
    replacing = context.meta.get(_REPLACE, False)
    if kind is None:
        if output.is_dir():
            raise InputError(f"{output} is a folder; expected the name of a file")
        if output.exists() and not replacing:
            raise InputError(f"{output} is there already; nothing was written. --replace writes over it")
        return
    check_destination(output, kind=kind)
    if bundle_kind(output) is None:
        return
    named = kind.replace("-", " ")
    if not replacing:
        raise InputError(
            f"{output} holds a saved {named} already; nothing was written. --replace puts the new one in its place"
        )


# -- tables -----------------------------------------------------------------------------------------------------------

# Keys of a context: options about tables, rows to skip, settings of the folder, and remembered columns.
_TABLES, _BAD_ROWS, _PROJECT, _REMEMBERED = (f"tercet.{name}" for name in ("tables", "bad-rows", "project", "columns"))
ROLES = ("query", "query-id", "doc", "grade", "better", "worse", "weight", "source", "target")
CLICK_ROLES = ("shown", "clicked", "position", "list", "session", "time", "action", "randomized", "expected")


def _stored(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that stores an option about tables for `table_settings`."""

    def note(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value is not None and value != ():
            context.meta.setdefault(_TABLES, {})[name] = value

    return note


def _listed_columns(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    columns = tuple(name.strip() for names in value for name in names.split(","))
    _stored("text")(context, parameter, tuple(name for name in columns if name))


def _columns_by_role(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    columns = dict(pair.partition("=")[::2] for pair in value)
    for role, column in columns.items():
        if role not in ("id", "text", *ROLES, *CLICK_ROLES) or not column:
            listed = ", ".join(("id", "text", *ROLES, *CLICK_ROLES))
            raise click.BadParameter(f"expected ROLE=COLUMN with a role of {listed}; got {role!r}")
    _stored("id")(context, parameter, columns.pop("id", None))
    if "text" in columns:
        _listed_columns(context, parameter, (columns.pop("text"),))
    _stored("columns")(context, parameter, columns or None)


def _bad_rows(context: click.Context, parameter: click.Parameter, value: int) -> None:
    bad = BadRows(value)
    context.meta[_BAD_ROWS] = bad

    def tell() -> None:
        if bad.problems:
            rows = "1 bad row is" if len(bad.problems) == 1 else f"{len(bad.problems):,} bad rows are"
            echo(f"note: {rows} left out:", err=True)
        for problem in bad.problems:
            echo(f"  {problem}", err=True)

    context.call_on_close(tell)


def project_of(context: click.Context) -> Project:
    """Return the settings of the current folder."""
    project = context.meta.get(_PROJECT)
    return project if isinstance(project, Project) else Project()


def remember_project(context: click.Context, project: Project) -> None:
    """Use the settings of a folder as defaults."""
    context.meta[_PROJECT] = project
    context.meta[_REMEMBERED] = project.tables


def remember_columns(model: TextModel) -> None:
    """Use the document columns of a model unless the folder names columns."""
    meta = click.get_current_context().meta
    remembered = meta.get(_REMEMBERED, TableSettings())
    if model.text_columns and not remembered.text:
        meta[_REMEMBERED] = replace(remembered, id=model.id_column, text=model.text_columns)


def table_settings(path: Path | None = None) -> TableSettings:
    """Return the options about tables; for a table at a path, also the remembered columns that it has."""
    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    typed = TableSettings(**meta.get(_TABLES, {}))
    remembered = meta.get(_REMEMBERED, TableSettings())
    if path is None or not remembered or not path.is_file():
        return typed
    encoding = typed.encoding or remembered.encoding
    try:
        columns = set(replace(typed, encoding=encoding).open(path).columns)
    except FormatError:  # the reader reports the error
        return typed
    remembered_columns = {role: column for role, column in remembered.columns.items() if column in columns}
    text = remembered.text if remembered.text and columns.issuperset(remembered.text) else None
    return TableSettings(
        typed.id or (remembered.id if remembered.id in columns else None),
        typed.text or text,
        {**remembered_columns, **typed.columns},
        encoding,
    )


def bad_rows() -> BadRows:
    """Return the collector of the rows that --skip-bad allows."""
    context = click.get_current_context(silent=True)
    bad = context.meta.get(_BAD_ROWS) if context is not None else None
    return bad if bad is not None else BadRows()


def evidence_settings(path: Path) -> dict[str, Any]:
    """Return the options about tables as parameters of the readers of evidence."""
    settings = table_settings(path)
    return {"columns": settings.columns, "encoding": settings.encoding, "refused": bad_rows()}


@contextmanager
def naming_table_options() -> Iterator[None]:
    """Add the options that help to errors about tables."""
    advice = {
        ENCODING_PROBLEM: "--encoding latin-1, for example",
        UNKNOWN_ID: "--skip-bad N leaves out so many",
    }
    try:
        yield
    except ColumnsError as error:
        if error.guess.kind == "word-pairs":
            raise
        options = " ".join(f"--column {role}=NAME" for role in error.guess.wanted)
        raise FormatError(error.path, error.line, f"{error.message} (here: {options})") from error
    except FormatError as error:
        if error.kind not in advice:
            raise
        raise FormatError(error.path, error.line, f"{error.message} (here: {advice[error.kind]})") from error


evidence_table_options = together(  # tables without documents
    click.option(
        "--column",
        multiple=True,
        expose_value=False,
        callback=_columns_by_role,
        metavar="ROLE=COLUMN",
        help="Column of a role, as in query=term.  [default: by name]",
    ),
    click.option(
        "--encoding",
        expose_value=False,
        callback=_stored("encoding"),
        help="Encoding of tables.  [default: UTF-8 or UTF-16]",
    ),
    click.option(
        "--skip-bad",
        type=click.IntRange(min=0),
        default=0,
        expose_value=False,
        callback=_bad_rows,
        metavar="N",
        help="Skip up to N bad rows, and list them.",
    ),
)
table_options = together(
    click.option(
        "--id",
        "id_column",
        expose_value=False,
        callback=_stored("id"),
        metavar="COLUMN",
        help="Column of the ids.  [default: by name]",
    ),
    click.option(
        "--text",
        "text_columns",
        multiple=True,
        expose_value=False,
        callback=_listed_columns,
        metavar="COLUMN,…",
        help="Columns of the texts.  [default: by name]",
    ),
    evidence_table_options,
)

queries_option = click.option("--queries", type=FILE, help="Queries: BEIR JSONL or a table.")
judgements_option = click.option(
    "--judgements", "qrels", type=FILE, help="Judgements: TREC, BEIR or a table.  [default: of DATA]"
)
judged_options = together(queries_option, judgements_option, table_options)
language_option = click.option(
    "--language",
    metavar="NAME",
    help="Stemmer or tokenizer: english, none, japanese, …  [default: guessed]",
)


models_option = click.option("--model", "models", type=FOLDER, multiple=True, help="Model to measure; may be repeated.")
measures_option = click.option(
    "-m", "--measure", "measures", multiple=True, help="Measure, as in nDCG@10; may be repeated."
)
seed_option = click.option(
    "--seed", metavar="N", default=0, show_default=True, type=click.IntRange(min=0), help="Same seed, same bits."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _known_device(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value not in ("cpu", "cuda", "auto") and ":" not in value:
        raise click.BadParameter(f"{value!r} is none of cpu, cuda, auto, local:N, tcp://HOST:PORT")
    return value


device_option = click.option(
    "--device",
    metavar="WHERE",
    callback=_known_device,
    default="cpu",
    show_default=True,
    help="cpu, cuda, auto, local:N processes, or a Dask tcp://HOST:PORT.",
)


@contextmanager
def learning_on(machine: str) -> Iterator[None]:
    """Learn on a device or a cluster within the block; print the traffic of a cluster at the end."""
    if ":" not in machine:
        from tercet.gpu import device as on_device

        with on_device(machine):
            yield
        return
    from tercet.scale import Cluster

    with Cluster(machine) as cluster:
        yield
    if cluster.rounds:
        echo(cluster.summary())


def refuse_given(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Raise a usage error for the first of these parameters that was typed."""
    for parameter in context.command.params:
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]} {why}")
