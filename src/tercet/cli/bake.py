"""``tercet bake``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import ANY, FOLDER, output_options
from tercet.cli.serve import journal_of
from tercet.cli.terminal import echo
from tercet.engines import open_index
from tercet.errors import InputError, JournalInUseError
from tercet.serve import Journal, read_journal
from tercet.serve import bake as baked_model
from tercet.store import bundle_kind
from tercet.store.kinds import TEXT_MODEL

_FOLDER_END = ".journal"


@click.command(epilog=examples("bake index/ -o model/", "bake index.journal/journal.jsonl --index index/ -o model/"))
@click.argument("source", metavar="INDEX_OR_JOURNAL", type=ANY)
@click.option("--index", type=FOLDER, help="The index that was served.  [default: by the name of the journal]")
@click.option("--model", type=FOLDER, help="The model that was served in the place of the index's own.")
@output_options("Folder of the model.", kind=TEXT_MODEL, required=True)
def bake(source: Path, index: Path | None, model: Path | None, output: Path) -> None:
    """Fold what tercet serve was taught into a model, whose answers are the same.

    INDEX_OR_JOURNAL is an index, whose journal is INDEX.journal, or a journal. The model is then promoted, as by
    tercet index INDEX --model MODEL: entries that it has are not applied to it again. They move to an archive beside
    the journal, at once or, while a service has the journal, when that takes the model up. Over a model without them
    they count as before.
    """
    folder, journal = _positions(source, index)
    entries = read_journal(journal).entries
    opened = open_index(folder, None if model is None else open_model(model))
    baked = baked_model(opened, entries)
    baked.save(output)
    n_entries = baked.baked[-1].entry
    echo(f"{output}: the model of {folder if model is None else model} and {journal}, entries 1 to {n_entries:,}")
    try:
        with Journal(journal) as own:
            own.compact(n_entries)
        echo(f"{journal}: {len(own) - n_entries:,} entries; the others are archived beside it")
    except JournalInUseError:
        echo(f"note: {journal} is in use; the service archives these entries when it takes the model up", err=True)
    echo(f"tercet index {folder} --model {output} serves it")


def _positions(source: Path, index: Path | None) -> tuple[Path, Path]:
    """Where the index and the journal are, of which one is named."""
    if source.is_dir() and bundle_kind(source) is not None:
        if index is not None:
            raise click.UsageError(f"{source} is an index, and --index is for a journal; name one of the two")
        folder, journal = source, journal_of(source)
        if not journal.exists():
            raise InputError(
                f"{source} has no journal: there is no {journal}; name the one that tercet serve was given"
            )
        return folder, journal
    journal = source / "journal.jsonl" if source.is_dir() else source
    if not journal.exists():
        raise InputError(f"{source} is neither an index nor the folder of a journal: there is no {journal}")
    named = journal.resolve().parent
    if index is None and named.name.endswith(_FOLDER_END):
        index = named.with_name(named.name.removesuffix(_FOLDER_END))
    if index is None or not index.is_dir():
        raise InputError(f"{journal} does not say which index it is of; name it by --index")
    return index, journal
