"""Running the command line within the process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from tercet.cli.main import cli


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments])


def ok(*arguments: object) -> str:
    """What a command says that must succeed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.output
