"""``--help`` of every command: two examples that can be typed, and for ``fit`` one screen."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from support.commands import commands
from tercet.cli.main import cli

MOST_LINES = 48
WIDTH = 100


def help_of(path: tuple[str, ...]) -> list[str]:
    result = CliRunner().invoke(cli, [*path, "--help"], terminal_width=WIDTH)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.parametrize("path", list(commands(cli)), ids=" ".join)
def test_every_help_ends_with_two_examples_that_can_be_typed(path):
    shown = help_of(path)
    heading = shown.index("  Examples:")
    examples = [shlex.split(line) for line in shown[heading + 1 :]]
    assert len(examples) == 2
    for program, *words in examples:
        assert program == "tercet"
        assert tuple(words[: len(path)]) == path
        check_options(words)


def check_options(words: list[str]) -> None:
    """Parse a command line as it would be, but for the files that it names."""
    command: click.Command = cli
    context = click.Context(cli, info_name="tercet")
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
        context = click.Context(command, parent=context, info_name=command.name)
    try:
        command.parse_args(context, words)
    except click.BadParameter as error:
        if "does not exist" not in error.format_message():
            raise


def test_the_help_of_fit_fits_on_a_screen():
    assert len(help_of(("fit",))) <= MOST_LINES
