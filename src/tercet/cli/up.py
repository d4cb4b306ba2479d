"""``tercet up``: from files to a search page, and updates from new files and clicks."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table

from tercet.cli.groups import examples
from tercet.cli.inputs import read_clicks, read_documents
from tercet.cli.options import ANY, FILE, NEW, project_of, remember_project, table_options, table_settings
from tercet.cli.project import NAME, Project, option_defaults
from tercet.cli.terminal import echo, open_console, plain
from tercet.data.clicks import ClickLog
from tercet.data.guessing import guess_clicks, guess_documents, private_columns, sample
from tercet.data.roles import TABLE_ROLES, Role, RoleGuess
from tercet.errors import InputError
from tercet.fitting import TextModel
from tercet.fitting import fit as fit_texts
from tercet.fitting.outcome import next_step
from tercet.fitting.text_model import past_name
from tercet.report.page import PAGE_NAME, write_report_page
from tercet.search import Index
from tercet.store import bundle_kind
from tercet.store.kinds import INDEX

_EXAMPLE_CHARACTERS: Final = 40
_QUERIES_LOOKED_AT: Final = 200
_SHOWN: Final = 3


@click.command(epilog=examples("up products.csv --clicks clicks.csv", "up"))
@click.argument("documents", type=FILE, required=False)
@click.option("--clicks", type=ANY, multiple=True, help="Click log: a table, or a UBI folder; may be repeated.")
@table_options
@click.option("-o", "--output", type=NEW, help="Folder for model and index.  [default: search]")
@click.option("--yes", is_flag=True, help="Accept the guessed columns.")
@click.option("--no-serve", is_flag=True, help="Stop after indexing.")
@click.option("--learn", "learn_only", is_flag=True, hidden=True, help="Learn for the existing index.")
@click.pass_context
def up(
    context: click.Context,
    documents: Path | None,
    clicks: tuple[Path, ...],
    output: Path | None,
    yes: bool,
    no_serve: bool,
    learn_only: bool,
) -> None:
    """Read DOCUMENTS and a click log, guess the roles of their columns, learn, index and serve.

    Files and columns are stored in tercet.toml. The next `tercet up` needs no arguments: it updates the index, learns
    from new clicks, and interleaves the new and the old model until clicks decide.
    """
    project = project_of(context)
    folders = Folders(Path(project.output if output is None else output))
    if not learn_only:
        project = _settle(project, documents, clicks, folders, asks=not yes)
    remember_project(context, project)
    if learn_only:
        _learn(project, folders)
        return
    is_new = bundle_kind(folders.index) != INDEX
    if is_new:
        _begin(project, folders)
    else:
        _update(project, folders)
    learner = None
    if project.clicks or folders.has_impressions:
        if is_new and not no_serve:  # serve at once, and learn in the background
            learner = subprocess.Popen([sys.executable, "-m", "tercet", "up", "--learn"])
        else:
            _learn(project, folders)
    if no_serve:
        return
    try:
        _serve(context, project, folders)
    finally:
        if learner is not None:
            learner.terminate()
            learner.wait()


@dataclass(frozen=True)
class Folders:
    """Folders of one search: index, model and impressions."""

    folder: Path

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def impressions(self) -> Path:
        return self.folder / "impressions"

    @property
    def has_impressions(self) -> bool:
        kinds = (self.impressions.glob(f"ubi_{kind}*") for kind in ("queries", "events"))
        return all(any(file.stat().st_size for file in files) for files in kinds)


# -- columns ----------------------------------------------------------------------------------------------------------


def _settle(
    project: Project, documents: Path | None, clicks: Sequence[Path], folders: Folders, *, asks: bool
) -> Project:
    """Decide on files and columns: options, else tercet.toml, else a guess; write tercet.toml."""
    typed = table_settings()
    file = documents or (Path(project.documents) if project.documents else None)
    if file is None:
        raise click.UsageError("name the table of documents: tercet up products.csv --clicks clicks.csv")
    logs = clicks or tuple(map(Path, project.clicks))
    settings = replace(
        project,
        documents=str(file),
        clicks=tuple(map(str, logs)),
        output=str(folders.folder),
        id=typed.id or project.id,
        text=typed.text or project.text,
        columns={**project.columns, **typed.columns},
        encoding=typed.encoding or project.encoding,
    )
    settled = settings if settings.id and settings.text and documents is None else _guess(settings, file, logs, asks)
    if settled != project:
        settled.write()
        echo(f"{NAME}: written; every tercet verb in this folder reads it")
    return settled


def _guess(project: Project, file: Path, logs: Sequence[Path], asks: bool) -> Project:
    """Guess all columns from names and cells, print the guess, and ask for missing columns."""
    tables = project.tables
    table = tables.open(file)
    docs = sample(table)
    log_tables = {path: tables.open(path) for path in logs if path.is_file()}
    cells = {path: sample(log) for path, log in log_tables.items()}
    in_logs = {cell for columns in cells.values() for column in columns.values() for cell in column}
    named_columns = {role: name for role, name in (("id", project.id), ("text", project.text)) if name}
    about_docs = guess_documents(table.columns, docs, in_logs, named_columns)
    guesses = {file: about_docs}
    doc_ids = set(docs[about_docs["id"]]) if "id" in about_docs.columns else set()
    for path, log in log_tables.items():
        log_columns = {role: column for role, column in project.columns.items() if column in log.columns}
        guesses[path] = guess_clicks(log.columns, cells[path], docs, doc_ids, log_columns)
    _show(guesses, {file: docs, **cells})
    missing = {path: roles for path, guess in guesses.items() if (roles := _needed(guess))}
    if missing and not asks:
        questions = [
            f"{path}: which column holds {role.meaning}? "
            + (f"--{role.name} COLUMN" if path == file else f"--column {role.name}=COLUMN")
            + f"  (columns: {', '.join(guesses[path].table_columns)})"
            for path, roles in missing.items()
            for role in roles
        ]
        raise InputError("columns cannot be guessed; name them:\n  " + "\n  ".join(questions))
    columns = {path: dict(guess.columns) for path, guess in guesses.items()}
    for path, roles in missing.items():
        for role in roles:
            columns[path][role.name] = (_asked(path, role.meaning, guesses[path].table_columns),)
    if asks and not missing and not click.confirm("Go on with these columns?", default=True):
        raise InputError(
            "name the columns: --id COLUMN, --text COLUMN,COLUMN, --column ROLE=COLUMN; then run tercet up again"
        )
    evidence = {role: named[0] for path in log_tables for role, named in columns[path].items()}
    doc_columns = columns[file]
    private = project.private or private_columns(
        {name: docs[name] for name in table.columns if name not in doc_columns["text"]}
    )
    return replace(
        project,
        id=doc_columns["id"][0],
        text=doc_columns["text"],
        private=private,
        columns={**project.columns, **evidence},
    )


def _needed(guess: RoleGuess) -> list[Role]:
    """Return the required roles without a unique column."""
    return [role for role in TABLE_ROLES[guess.kind] if role in guess.missing or role.name in guess.unclear]


def _asked(path: Path, meaning: str, columns: Sequence[str]) -> str:
    answer: str = click.prompt(f"{path}: which column holds {meaning}?", type=click.Choice(columns))
    return answer


def _show(guesses: Mapping[Path, RoleGuess], cells: Mapping[Path, Mapping[str, Sequence[str]]]) -> None:
    """Print the columns of all roles, each with a cell."""
    table = Table("file", "role", "column", "example", title="Columns, as guessed", title_justify="left")
    for path, guess in guesses.items():
        rows = [(role, column) for role, named in guess.columns.items() for column in named]
        rows += [(role.name, "?") for role in _needed(guess)]
        for role, column in rows:
            example = next((cell for cell in cells[path].get(column, ()) if cell), "")
            cut = example if len(example) <= _EXAMPLE_CHARACTERS else f"{example[: _EXAMPLE_CHARACTERS - 1]}…"
            table.add_row(*(plain(cell).replace("[", "\\[") for cell in (path.name, role, column, cut)))
    open_console(width=None if sys.stdout.isatty() else 110).print(table)


# -- model and index --------------------------------------------------------------------------------------------------


def _begin(project: Project, folders: Folders) -> None:
    """Index the documents with BM25 and past queries; validation comes later."""
    began = time.perf_counter()
    docs = read_documents(Path(project.documents))
    log = _log(project, folders)
    if log is None:
        model = _with_columns(TextModel.bm25(docs.values()), project)
    else:
        model = _with_columns(fit_texts(docs, clicks=log, options={"memory_only": True}), project)
        model.save(folders.model)
    index = Index.build(docs, model, folders.index)
    echo(f"{folders.index}: {len(index):,} documents after {time.perf_counter() - began:.1f} s")
    if log is None:
        echo("no clicks yet, so the ranking is BM25; the next tercet up learns from clicks on the page")
    else:
        _first_look(index, model.with_parts([]), log)


def _first_look(index: Index, start: TextModel, log: ClickLog) -> None:
    """Print queries whose first result changed by past queries."""
    before = index.with_model(start)
    asked = Counter(seen.query for seen in log.impressions if seen.clicked)
    n_shown = 0
    for query, _ in asked.most_common(_QUERIES_LOOKED_AT):
        old, new = before.search(query, 1), index.search(query, 1)
        if old and new and old[0].doc_id != new[0].doc_id and n_shown < _SHOWN:
            n_shown += 1
            echo(f'  "{query}": first is now {_title(new[0])}; before: {_title(old[0])}')
            past = max(new[0].why.past, key=lambda reason: reason.contribution, default=None)
            echo(f"      {past_name(past)}" if past else "      other documents had more past queries")
    if n_shown:
        echo("past queries count now; next, their gain is measured and words are learned")


def _title(hit: Any) -> str:
    title = " ".join((hit.kept_text or hit.doc_id).splitlines()[0].split())
    return f"{title[:_EXAMPLE_CHARACTERS]} ({hit.doc_id})"


def _update(project: Project, folders: Folders) -> None:
    """Update the index from the file of documents."""
    docs, index = read_documents(Path(project.documents)), Index.open(folders.index)
    gone = [doc_id for doc_id in index if doc_id not in docs]
    before = len(index)
    if gone:
        index.remove(gone)
    index.replace(docs)
    echo(f"{folders.index}: {before:,} documents before, {len(index):,} now, {len(gone):,} removed")


def _learn(project: Project, folders: Folders) -> None:
    """Learn a model over the words of the index.

    The first accepted model is promoted at once. Later models, and memory alone after a rejection, are interleaved.
    """
    log = _log(project, folders)
    if log is None:
        echo("no clicks to learn from yet")
        return
    docs, index = read_documents(Path(project.documents)), Index.open(folders.index)
    options = {"vocabulary": index.model, "name": project.documents}
    model = fit_texts(docs, clicks=log, options={**options, "verbose": True})
    report = model.report
    assert report is not None
    report = replace(report, decision=report.decision.removesuffix(next_step(model)).rstrip())  # `up` takes the step
    echo(str(report))
    is_first = not index.promotions
    if is_first:
        entry = index.promote(_with_columns(model, project))
        echo(f"{folders.index}: promotion {entry.number}: {' and '.join(model.parts) or 'BM25'}")
    if not model.parts:
        model = fit_texts(docs, clicks=log, options={**options, "memory_only": True})
    _with_columns(model, project).save(folders.model)
    if report.systems:
        write_report_page(report, folders.model / PAGE_NAME)
    if not is_first or not report.accepted:
        what = " and ".join(model.parts)
        echo(f"{folders.model}: {what}: interleaved with the served model until clicks decide")


def _log(project: Project, folders: Folders) -> ClickLog | None:
    """Return the clicks of all files and of the page; None if no list shows a preference."""
    paths = [*map(Path, project.clicks), *([folders.impressions] if folders.has_impressions else [])]
    logs = [read_clicks((path,)) for path in paths]
    log = ClickLog.joined(logs) if logs else None
    tells = log is not None and any(0 < len(seen.clicked) < len(seen.shown) for seen in log.impressions)
    return log if tells else None


def _with_columns(model: TextModel, project: Project) -> TextModel:
    return replace(model, id_column=project.id or "", text_columns=project.text)


def _serve(context: click.Context, project: Project, folders: Folders) -> None:
    from tercet.cli.serve import serve

    options: dict[str, Any] = {"index": folders.index, "log_impressions": folders.impressions}
    if bundle_kind(folders.model) is not None:
        options |= {"interleave": str(folders.model), "promote": True}
    options |= option_defaults(serve, project.options.get("serve", {}), NAME)
    context.invoke(serve, **options)
