"""The command line: running it within the process, and the commands that it has."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner, Result

from tercet.cli.main import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def ok(*arguments: object) -> str:
    """What a command says that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command of a group, the group itself first."""
    yield path
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)
