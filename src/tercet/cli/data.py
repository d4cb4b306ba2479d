"""``tercet data``: the data sets that guides, benchmarks and reproductions name."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from tercet.cli.options import FOLDER, json_option
from tercet.cli.terminal import echo
from tercet.data.known_sets import known_sets, verify_sets


@click.group()
def data() -> None:
    """Data sets that guides, benchmarks and reproductions name.

    None of them comes with Tercet, and none is fetched.
    """


@data.command("list")
@json_option
def list_sets(as_json: bool) -> None:
    """Name every data set: what it is, licence, size and where it is to be had."""
    if as_json:
        echo(json.dumps([asdict(one) for one in known_sets().values()], ensure_ascii=False, indent=2))
        return
    for one in known_sets().values():
        echo(f"{one.name}: {one.about}")
        size = f"{one.size / 1e6:,.1f} MB unpacked" if one.size else "size not known"
        echo(f"    {one.licence}; {size}; {one.address}")
        if one.prepared:
            echo(f"    prepared: {one.prepared}")


@data.command()
@click.argument("folder", type=FOLDER)
@click.option("--set", "names", multiple=True, help="Only this one, which must be there; may be repeated.")
@json_option
@click.pass_context
def verify(context: click.Context, folder: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Say which data sets FOLDER has, and whether each is, byte for byte, the one that figures were measured on.

    Files may be packed or not; what counts is what is in them. The exit code is 1 if a file is different, if one of a
    set is missing while others are there, or if a set that was named is missing.
    """
    found = verify_sets(folder, names)
    there = {one.set_name for one in found if one.state != "missing"}
    wrong = [one for one in found if one.state == "different" or (one.state == "missing" and one.set_name in there)]
    absent = [name for name in dict.fromkeys(one.set_name for one in found) if name not in there]
    if as_json:
        echo(json.dumps([asdict(one) for one in found], ensure_ascii=False, indent=2))
    else:
        states: dict[str, Counter[str]] = {}
        for one in found:
            states.setdefault(one.set_name, Counter())[one.state] += 1
        for name, counted in states.items():
            whole = counted["right"] == counted.total()
            state = "right" if whole else "not there" if name in absent else "not as it should be"
            echo(f"{name}: {state}")
        for one in wrong:
            echo(f"  {one}", err=True)
    context.exit(1 if wrong or (names and absent) else 0)
