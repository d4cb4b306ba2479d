"""``tercet learn``"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tercet.adapters.ir_datasets import read_ir_datasets
from tercet.cli.inputs import (
    documents_for,
    documents_of,
    is_ir_datasets,
    open_model,
    read_data_pointer,
    read_query_texts,
    write_data_pointer,
)
from tercet.cli.options import DATA, FILE, FOLDER, NEW, check_output, naming_flag, quiet_option, replace_option
from tercet.cli.progress import SpacedLines
from tercet.cli.terminal import echo
from tercet.data import read_queries, recognise
from tercet.data.beir import plain_or_packed
from tercet.data.growing import REPLACED
from tercet.engines import open_index
from tercet.errors import InputError
from tercet.fitting.click_log import ClickEvent, learn_from_clicks, learning_folder
from tercet.fitting.clicks import Docs, Queries
from tercet.fitting.text_model import TextModel
from tercet.search.folder import check_fits, vectoriser_fingerprint
from tercet.store import MANIFEST_NAME, bundle_kind, read_bundle
from tercet.store.kinds import INDEX, REMOTE_KINDS, TEXT_MODEL, VECTORS
from tercet.text.vectors import Vectors

SAY_EVERY_SECONDS = 10.0


@click.command()
@click.argument("model", type=FOLDER)
@click.argument("clicks", type=click.Path(path_type=Path))
@click.option("--follow", is_flag=True, help="Wait for more clicks, until interrupted.")
@click.option("--new-log", is_flag=True, help="CLICKS is another log than before: begin at its first line.")
@click.option("--docs", type=DATA, help="An index, vectors, a BEIR folder or a corpus.  [default: the data of fit]")
@click.option("--queries", type=FILE, help="Texts of queries that clicks name by id.  [default: those of the data]")
@click.option("-o", "--output", type=NEW, help="Folder for what is learned.  [default: MODEL itself]")
@replace_option
@click.option("--checkpoint", type=NEW, help="Folder to go on from.  [default: OUTPUT.learning]")
@click.option(
    "--every", default=10_000, show_default=True, type=click.IntRange(min=1), help="Impressions between writings."
)
@click.option(
    "--seconds", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True), help="The same in seconds."
)
@click.option(
    "--skipped",
    type=click.Choice(["above", "all"]),
    default="above",
    show_default=True,
    help="What a clicked document is better than: those not clicked above it, or all not clicked.",
)
@quiet_option
@click.pass_context
def learn(
    context: click.Context,
    model: Path,
    clicks: Path,
    follow: bool,
    new_log: bool,
    docs: Path | None,
    queries: Path | None,
    output: Path | None,
    checkpoint: Path | None,
    every: int,
    seconds: float,
    skipped: Any,
    quiet: bool,
) -> None:
    """Learn a text model on from a click log, and write it again as it learns.

    A clicked document is better than those shown above it and skipped. Called again, it goes on where it was, after a
    kill, too; so the log may grow between calls, or under --follow meanwhile. MODEL may be an index: then its model is
    learned on, and -o names where to. CLICKS is a click file, or the folder that tercet serve --log-impressions writes.
    Sessions that click everything or come too often are left out, as by tercet clicks.
    """
    if not follow and not clicks.exists():
        raise click.UsageError(f"there is no {clicks}; with --follow it is waited for")
    if output is None and bundle_kind(model) in (INDEX, *REMOTE_KINDS):
        raise click.UsageError(f"{model} is an index, whose model never changes; name -o for what is learned")
    out = output or model
    state = checkpoint or learning_folder(out)
    if out.resolve() != model.resolve() and not state.exists():  # else it goes on there
        check_output(context, out, TEXT_MODEL)
    started = open_model(model)
    noted = read_data_pointer(model)
    documents = _documents(started, docs, noted, model)
    texts = _queries(queries, docs, noted)
    say = _Progress(out, quiet)
    with _until_signalled() as stopped, naming_flag("--new-log", REPLACED):
        learn_from_clicks(
            started,
            clicks,
            documents,
            queries=texts,
            output=out,
            checkpoint=state,
            follow=follow,
            new_log=new_log,
            every=every,
            seconds=seconds,
            skipped=skipped,
            on_event=say,
            stopped=stopped,
        )
        interrupted = stopped() and not follow
    if out.resolve() != model.resolve() and noted and out.is_dir():
        write_data_pointer(out, **noted)
    say.end()
    if interrupted:
        raise click.ClickException(f"interrupted before the end of {clicks}; the same command goes on there")


def _documents(model: TextModel, docs: Path | None, noted: Mapping[str, Path], where: Path) -> Docs:
    """The documents that were named, or else those that the model was fitted to."""
    source = docs or noted.get("data") or noted.get("corpus")
    if source is None and bundle_kind(where) in (INDEX, *REMOTE_KINDS):
        source = where
    if source is None:
        raise InputError(
            f"{where} does not say where its documents are; name an index, vectors, a folder or a corpus: --docs"
        )
    if docs is None and not is_ir_datasets(source) and not source.exists():
        raise InputError(f"{where} was fitted to {source}, which is not there any more; name --docs")
    if _kind_of_folder(source) == VECTORS:
        return Vectors.open(source)
    if (source / MANIFEST_NAME).is_file():
        index = open_index(source)
        check_fits(model, vectoriser_fingerprint(index.model), str(source))
        return index
    named = (None, source) if source.is_file() else (source, None)
    if model.n_words is not None:
        return documents_for(model, *named)
    documents = documents_of(*named)
    return ((doc_id, text) for doc_id, text, *_ in documents)


def _queries(queries: Path | None, docs: Path | None, noted: Mapping[str, Path]) -> Queries | None:
    """Queries by id, where there are any: their texts, or their rows among vectors."""
    if queries is not None:
        return read_query_texts(queries)
    for data in (docs, noted.get("data")):
        if data is None:
            continue
        if is_ir_datasets(data):
            return read_ir_datasets(str(data)).queries
        kind = _kind_of_folder(data)
        if kind == "beir":
            return read_queries(plain_or_packed(data, "queries.jsonl"))
        if kind == VECTORS and (vectors := Vectors.open(data)).queries is not None:
            return vectors
    listed = noted.get("queries")
    return read_query_texts(listed) if listed is not None and listed.is_file() else None


def _kind_of_folder(folder: Path) -> str | None:
    """What a folder holds, a saved thing or data; None for what is no folder."""
    if not folder.is_dir():
        return None
    if (folder / MANIFEST_NAME).is_file():
        return read_bundle(folder).kind
    return recognise(folder)


class _Progress:
    """Says on standard error how far it is, every few seconds, and what happens to the log."""

    def __init__(self, output: Path, quiet: bool) -> None:
        self._output, self._quiet = output, quiet
        self._lines = SpacedLines(SAY_EVERY_SECONDS)
        self._last: ClickEvent | None = None
        self._written = "not written yet"

    def __call__(self, event: ClickEvent) -> None:
        self._last = event
        if event.written:
            self._written = f"written {datetime.now():%H:%M:%S}"
        if event.note is not None:
            echo(f"note: {event.note}", err=True)
        if not self._quiet and self._lines.due():
            echo(f"{self._progress_line(event)}; {self._output}: {self._written}", err=True)

    def _progress_line(self, event: ClickEvent) -> str:
        tally = event.tally
        rate = tally.n_violations / max(tally.n_preferences, 1)
        return (
            f"line {event.line:,}: {_number(tally.n_impressions, 'impression')}, {tally.n_clicked:,} with clicks, "
            f"{_number(tally.n_preferences, 'preference')}, {rate:.1%} of them violated"
        )

    def end(self) -> None:
        """Sum up."""
        assert self._last is not None
        tally = self._last.tally
        echo(self._progress_line(self._last))
        if tally.n_left_out:
            lists = _number(tally.n_left_out, "list")
            echo(f"note: {lists} of sessions that click everything or come too often: left out", err=True)
        if tally.n_unknown:
            echo(f"note: {tally.n_unknown:,} of {tally.n_shown:,} documents shown are unknown: passed over", err=True)
        if tally.n_wordless:
            unknown = f"{tally.n_wordless:,} impressions are of queries without a word that the model knows"
            echo(f"note: {unknown}", err=True)
        echo(f"{self._output}: {self._written}")


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@contextmanager
def _until_signalled() -> Iterator[Callable[[], bool]]:
    """Whether an interrupt or a termination has come: what is at hand is then ended, and everything is written."""
    signalled = False

    def stop(number: int, frame: object) -> None:
        nonlocal signalled
        signalled = True

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, stop) for number in signals]
    try:
        yield lambda: signalled
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
