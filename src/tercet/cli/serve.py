"""``tercet serve``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.groups import examples
from tercet.cli.inputs import open_model
from tercet.cli.options import FOLDER
from tercet.cli.terminal import echo
from tercet.data.ubi import CLICK_SECONDS
from tercet.engines import open_index
from tercet.errors import MissingExtraError


def taught_of(index: Path) -> Path:
    """Return the default path of the store of taught actions for an index."""
    folder = index.resolve()
    return folder.with_name(f"{folder.name}.taught.db")


@click.command(
    context_settings={"auto_envvar_prefix": "TERCET_SERVE"},
    epilog=examples("serve index/", "serve index/ --log-impressions impressions/ --interleave candidate/"),
)
@click.argument("index", type=FOLDER)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; beyond loopback, tokens are required.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port; 0: any free one.")
@click.option("--taught", type=click.Path(path_type=Path), help="File of taught actions.  [default: INDEX.taught.db]")
@click.option(
    "--back-up",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Copy the taught actions to FILE and exit; a service may be running.",
)
@click.option("--read-token", envvar="TERCET_READ_TOKEN", help="Token required to read.  [env: TERCET_READ_TOKEN]")
@click.option(
    "--teach-token",
    "teach_tokens",
    multiple=True,
    envvar="TERCET_TEACH_TOKEN",
    metavar="[NAME:]TOKEN",
    help="Token to teach and read; may be repeated.  [env: TERCET_TEACH_TOKEN]",
)
@click.option(
    "--proxy",
    multiple=True,
    metavar="ADDRESS",
    help="Proxy or network whose X-Forwarded-For is trusted; may be repeated.",
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="Accepted host name; may be repeated.")
@click.option(
    "--show-field",
    "show_fields",
    multiple=True,
    metavar="COLUMN",
    help="Stored field to show; may be repeated.  [default: prices]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=600.0,
    show_default=True,
    metavar="PER_MINUTE",
    help="Most requests of an address without a token.",
)
@click.option(
    "--log-impressions",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Log queries, shown ids and clicks; clients by a keyed hash.",
)
@click.option(
    "--keep-days",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Days to keep --log-impressions.",
)
@click.option(
    "--interleave",
    metavar="CANDIDATE",
    help="Interleave with a text model of the same vocabulary, or with `baseline`.",
)
@click.option(
    "--promote/--no-promote",
    default=False,
    help="Promote the candidate if it wins.",
)
@click.option(
    "--settle-after",
    type=click.FloatRange(min=0),
    default=CLICK_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Count an interleaved list after this time for clicks.",
)
@click.option(
    "--look-every",
    type=click.FloatRange(min=0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Look for new documents and models; 0: only on SIGHUP.",
)
def serve(
    index: Path,
    host: str,
    port: int,
    taught: Path | None,
    back_up: Path | None,
    read_token: str | None,
    teach_tokens: tuple[str, ...],
    proxy: tuple[str, ...],
    allow_host: tuple[str, ...],
    show_fields: tuple[str, ...],
    rate: float,
    log_impressions: Path | None,
    keep_days: int,
    interleave: str | None,
    promote: bool,
    settle_after: float,
    look_every: float,
) -> None:
    """Serve an index over HTTP with a search page, and learn from teachers."""
    path = taught or taught_of(index)
    if back_up is not None:
        from tercet.serve.taught import back_up as copied

        echo(f"{back_up}: {copied(path, back_up):,} actions of {path}")
        return
    try:
        from tercet.serve.impressions import ImpressionLog
        from tercet.serve.interleaving import BASELINE, Interleaver
        from tercet.serve.run import access_for, run
        from tercet.serve.service import Limits, Service
        from tercet.serve.watched import Watched
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tercet":
            raise
        raise MissingExtraError(str(error.name), "serve", "tercet serve") from error
    if interleave is not None and log_impressions is None:
        raise click.UsageError("--interleave needs --log-impressions FOLDER: clicks decide the winner")
    if promote and interleave in (None, BASELINE):
        raise click.UsageError("--promote needs --interleave CANDIDATE, the folder of a model")
    access = access_for(host, read_token, teach_tokens, allow_host, proxy)
    source = Watched(index, lambda: open_index(index))
    opened = source.open()
    log = None if log_impressions is None else ImpressionLog(log_impressions, keep_days)
    interleaver = None
    if log is not None and interleave is not None:
        folder = Path(interleave)
        candidate = None if interleave == BASELINE else Watched(folder, lambda: open_model(folder))
        interleaver = Interleaver(log, candidate, settle_after, promote)
    service = Service(
        opened,
        path,
        Limits(strangers_per_minute=rate),
        name=index.resolve().name,
        shown_fields=show_fields or None,
        impressions=log,
        source=source,
        look_seconds=look_every,
        interleaver=interleaver,
    )
    del opened  # the service may replace the index; free the old one
    try:
        if log is not None:
            echo(f"{log.folder}: impressions are logged and kept for {keep_days} days; key: {log.key_path}", err=True)
        if interleaver is not None:
            echo(f"interleaving: {interleaver.description(service.now)}", err=True)
        if service.store.damaged:
            echo(f"note: {path}: {len(service.store.damaged):,} damaged actions are skipped", err=True)
        echo(f"{index}: {len(service.served.index):,} documents; {path}: {service.store.n_actions:,} actions", err=True)
        run(service, access, host, port, echo)
    finally:
        service.close()
