"""``tercet serve``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import FILE, FOLDER, verify_option
from tercet.cli.settings import LiveSettings, configured
from tercet.cli.terminal import echo
from tercet.data.ubi import CLICK_SECONDS
from tercet.engines import open_index
from tercet.errors import MissingExtraError
from tercet.serve.bounds import SNAPSHOT_EVERY, Limits


def journal_of(index: Path) -> Path:
    """Where the journal of an index is unless another is named."""
    folder = index.resolve()
    return folder.with_name(f"{folder.name}.journal") / "journal.jsonl"


@click.command(
    context_settings={"auto_envvar_prefix": "TERCET_SERVE"},
    epilog=examples("serve index/", "serve index/ --log-impressions impressions/ --interleave candidate/"),
)
@click.argument("index", type=FOLDER)
@click.option(
    "--config",
    type=FILE,
    is_eager=True,
    callback=configured,
    help="TOML with these options: port = 8080. Flags and TERCET_SERVE_PORT go before it. Read again on SIGHUP.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another than loopback needs both tokens.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes any free one.")
@click.option(
    "--journal",
    type=click.Path(path_type=Path),
    help="What is learned.  [default: INDEX.journal/journal.jsonl]",
)
@click.option(
    "--snapshot-every",
    type=click.IntRange(min=0),
    default=SNAPSHOT_EVERY,
    show_default=True,
    metavar="ENTRIES",
    help="Save what the journal taught beside it, for a fast start; 0 for never.",
)
@click.option("--model", type=FOLDER, help="Another text model over the same words.")
@click.option("--read-token", envvar="TERCET_READ_TOKEN", help="Needed to read.  [env: TERCET_READ_TOKEN]")
@click.option(
    "--write-token", envvar="TERCET_WRITE_TOKEN", help="Needed to teach; reads, too.  [env: TERCET_WRITE_TOKEN]"
)
@click.option(
    "--revoke-token",
    envvar="TERCET_REVOKE_TOKEN",
    help="Needed to take back what others taught; reads, too.  [env: TERCET_REVOKE_TOKEN]",
)
@click.option(
    "--trusted-proxy",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy, or a network of them, whose X-Forwarded-For is believed.",
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="A host name by which it may be called.")
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
    "--interleave",
    metavar="CANDIDATE",
    help="Share lists with a text model over the same words, or with `baseline`, and see who is clicked.",
)
@click.option(
    "--promote/--no-promote",
    default=False,
    help="Promote the candidate when it wins, and the one before again should that win then.",
)
@click.option(
    "--settle-after",
    type=click.FloatRange(min=0),
    default=CLICK_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Until when clicks on an interleaved list count; a client's visit is three times as long.",
)
@click.option(
    "--look-every",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Look for new documents and models; 0 only on SIGHUP.",
)
@click.option("--access-log", metavar="FILE", help="A line of JSON for each request; - is standard error.")
@verify_option
def serve(
    index: Path,
    config: Path | None,
    host: str,
    port: int,
    journal: Path | None,
    snapshot_every: int,
    model: Path | None,
    read_token: str | None,
    write_token: str | None,
    revoke_token: str | None,
    trusted_proxy: tuple[str, ...],
    allow_host: tuple[str, ...],
    deadline_ms: float,
    workers: int,
    waiting: int,
    writes_per_minute: float,
    write_burst: int,
    log_impressions: Path | None,
    keep_days: int,
    interleave: str | None,
    promote: bool,
    settle_after: float,
    look_every: float,
    access_log: str | None,
    unverified: bool,
) -> None:
    """Serve an index over HTTP with a page to search it, and learn from preferences meanwhile."""
    try:
        from tercet.serve.access_log import AccessLog
        from tercet.serve.allocator import keep_large_arrays_apart
        from tercet.serve.generations import IndexSource
        from tercet.serve.impressions import ImpressionLog
        from tercet.serve.interleaving import BASELINE, CandidateSource, Interleaver
        from tercet.serve.run import access_for, run
        from tercet.serve.service import Service
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tercet":
            raise
        raise MissingExtraError(str(error.name), "serve", "tercet serve") from error
    if interleave is not None and log_impressions is None:
        raise click.UsageError("--interleave needs --log-impressions FOLDER: who wins is told by the clicks in it")
    if promote and (interleave in (None, BASELINE) or model is not None):
        raise click.UsageError(
            "--promote needs --interleave CANDIDATE, the folder of a model, and the index's own model in its place: "
            "no --model"
        )
    access = access_for(host, read_token, write_token, allow_host, revoke_token, trusted_proxy)
    limits = Limits(
        deadline_ms=deadline_ms,
        workers=workers,
        waiting=waiting,
        writes_per_minute=writes_per_minute,
        write_burst=write_burst,
    )
    keep_large_arrays_apart()
    read_model = None if model is None else lambda: open_model(model)
    source = IndexSource(index, model, read_model, verify="never" if unverified else "open", open_index=open_index)
    opened = source.open()
    path = journal or journal_of(index)
    log = None if log_impressions is None else ImpressionLog(log_impressions, keep_days)
    interleaver = None
    if log is not None and interleave is not None:
        folder = Path(interleave)
        candidate = None if interleave == BASELINE else CandidateSource(folder, lambda: open_model(folder))
        interleaver = Interleaver(log, candidate, settle_after, promote)
    requests = None if access_log is None else AccessLog(access_log)
    service = Service(
        opened,
        path,
        limits,
        name=index.resolve().name,
        impressions=log,
        source=source,
        look_seconds=look_every,
        interleaver=interleaver,
        snapshot_every=snapshot_every,
    )
    del opened  # the service goes on from it, and it is not to stay when that has another
    try:
        if log is not None:
            echo(f"{log.folder}: impressions are logged and kept for {keep_days} days; key: {log.key_path}", err=True)
        if interleaver is not None:
            echo(f"lists are shared: {interleaver.said}", err=True)
        if service.journal.torn_bytes:
            echo(f"note: {path}: {service.journal.torn_bytes} bytes of an entry cut short are dropped", err=True)
        echo(f"{index}: {len(service.index):,} documents; {path}: {len(service.journal):,} entries", err=True)
        settings = LiveSettings(click.get_current_context(), service, requests)
        run(service, access, host, port, echo, requests, settings.reread)
    finally:
        service.close()
        if requests is not None:
            requests.close()
