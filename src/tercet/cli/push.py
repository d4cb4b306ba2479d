"""``tercet push`` and ``tercet pull``"""

from __future__ import annotations

from pathlib import Path

import click

from tercet.cli.options import FOLDER, NEW, check_output, replace_option
from tercet.cli.terminal import echo
from tercet.report.page import shown_bytes, shown_count
from tercet.transfer import Depot, Pushed, prune, pushed_at
from tercet.transfer import pull as pull_from
from tercet.transfer import push as push_to


@click.command()
@click.argument("folder", type=FOLDER)
@click.argument("address")
@click.option("--anew", is_flag=True, help="Send files that are there already, too, as after they were damaged.")
@click.option(
    "--prune", "pruning", is_flag=True, help="Then remove files of earlier pushes. Not while another one pushes there."
)
def push(folder: Path, address: str, anew: bool, pruning: bool) -> None:
    """Put the model or index in FOLDER to ADDRESS, for tercet pull.

    ADDRESS is a folder, or one of any store that fsspec has a driver for, such as s3://bucket/models/shop with the
    package s3fs. Keys come from where the driver looks for them, such as the environment. What is there already is not
    sent again; the list of files is written last, so that half a push changes nothing. An index may be served
    meanwhile.
    """
    pushed, sent = push_to(folder, address, anew=anew)
    place = Depot(address)  # which shows no keys
    echo(f"{place}: {_described(pushed)}; {shown_bytes(sent)} sent")
    if pruning:
        echo(f"{place}: {shown_bytes(prune(address))} of earlier pushes removed")


@click.command()
@click.argument("address")
@click.option("-o", "--output", type=NEW, required=True, help="Folder of the model or index.")
@replace_option
@click.pass_context
def pull(context: click.Context, address: str, output: Path) -> None:
    """Take the model or index that was pushed to ADDRESS, check every byte of it, and write it to a folder.

    The folder has all of it, or what it had before. tercet serve takes up what is written over the model or the index
    that it has.
    """
    check_output(context, output, pushed_at(address).kind)
    pulled = pull_from(address, output)
    echo(f"{output}: {_described(pulled)}, from {Depot(address)}")


def _described(pushed: Pushed) -> str:
    files = shown_count(len(pushed.files), "file", "files")
    return f"{pushed.kind.replace('-', ' ')}, {files}, {shown_bytes(pushed.size)}"
