"""``tercet serve``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER, verify_option
from tercet.errors import MissingExtraError
from tercet.serve.bounds import Limits


def journal_of(index: Path) -> Path:
    """Where the journal of an index is unless another is named."""
    folder = index.resolve()
    return folder.with_name(f"{folder.name}.journal") / "journal.jsonl"


@click.command()
@click.argument("index", type=FOLDER)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another than loopback needs both tokens.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any free one.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="What is learned.  [default: INDEX.journal/journal.jsonl]",
)
@click.option("--model", type=FOLDER, help="Another text model over the same words.")
@click.option("--read-token", envvar="TERCET_READ_TOKEN", help="Needed to read.  [env: TERCET_READ_TOKEN]")
@click.option(
    "--write-token", envvar="TERCET_WRITE_TOKEN", help="Needed to teach; reads, too.  [env: TERCET_WRITE_TOKEN]"
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A host name by which it may be called.")
@click.option(
    "--deadline-ms",
    type=click.FloatRange(min=0),
    default=Limits.deadline_ms,
    show_default=True,
    help="Then a search gives what it has.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=Limits.workers, show_default=True, help="Searches at a time."
)
@click.option(
    "--waiting", type=click.IntRange(min=0), default=Limits.waiting, show_default=True, help="Requests that may wait."
)
@click.option(
    "--writes-per-minute",
    type=click.FloatRange(min=0),
    default=Limits.writes_per_minute,
    show_default=True,
    help="Of one client.",
)
@click.option(
    "--write-burst",
    type=click.IntRange(min=1),
    default=Limits.write_burst,
    show_default=True,
    help="Of one client, at once.",
)
@click.option(
    "--log-impressions",
    "impressions",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep what was shown and clicked: queries as typed, ids, clients by a keyed hash.",
)
@click.option(
    "--keep-days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Days that --log-impressions keeps.",
)
@click.option(
    "--look-every",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Look for new documents and models; 0 only on SIGHUP.",
)
@verify_option
def serve(
    index: Path,
    host: str,
    port: int,
    journal: Path | None,
    model: Path | None,
    read_token: str | None,
    write_token: str | None,
    hosts: tuple[str, ...],
    deadline_ms: float,
    workers: int,
    waiting: int,
    writes_per_minute: float,
    write_burst: int,
    impressions: Path | None,
    keep_days: int,
    look_every: float,
    unverified: bool,
) -> None:
    """Serve an index over HTTP with a page to search it, and learn from preferences meanwhile."""
    try:
        from tercet.serve.generations import IndexSource
        from tercet.serve.impressions import ImpressionLog
        from tercet.serve.run import access_for, run
        from tercet.serve.service import Service
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tercet":
            raise
        raise MissingExtraError(str(error.name), "serve", "tercet serve") from error
    access = access_for(host, read_token, write_token, hosts)
    limits = Limits(
        deadline_ms=deadline_ms,
        workers=workers,
        waiting=waiting,
        writes_per_minute=writes_per_minute,
        write_burst=write_burst,
    )
    source = IndexSource(index, model, None if model is None else lambda: open_model(model), verify=not unverified)
    opened = source.open()
    path = journal or journal_of(index)
    log = None if impressions is None else ImpressionLog(impressions, keep_days)
    service = Service(
        opened,
        path,
        limits,
        name=index.resolve().name,
        impressions=log,
        source=source,
        look_seconds=look_every,
    )
    try:
        if log is not None:
            click.echo(
                f"{log.folder}: impressions are logged and kept for {keep_days} days; key: {log.key_path}", err=True
            )
        if service.journal.torn_bytes:
            click.echo(f"note: {path}: {service.journal.torn_bytes} bytes of an entry cut short are dropped", err=True)
        click.echo(f"{index}: {len(opened):,} documents; {path}: {len(service.journal):,} entries", err=True)
        run(service, access, host, port, click.echo)
    finally:
        service.close()
