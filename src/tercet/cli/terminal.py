"""Printing for all verbs. Control characters are escaped: documents, ids and file names must not command a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

# All control characters but the tab and the line feed, marks that turn the direction of a whole line, and halves of
# surrogate pairs, which cannot be written.
_COMMANDS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Escape control characters as JSON does, so that JSON keeps its meaning.

    Examples
    --------
    >>> plain("tea \x1b[2J\x9b2J\r")
    'tea \\u001b[2J\\u009b2J\\u000d'
    """
    return _COMMANDS.sub(lambda command: f"\\u{ord(command[0]):04x}", text)


def echo(message: Any = "", *, err: bool = False) -> None:
    """Print a line, on standard error if ``err``."""
    click.echo(plain(str(message)), err=err)


def open_console(**options: Any) -> Console:
    """Return a console of Rich that escapes text like `echo`."""
    from rich.console import Console

    class PlainConsole(Console):
        def render_str(self, text: str, *args: Any, **more: Any) -> Any:
            return super().render_str(plain(text), *args, **more)

    return PlainConsole(**options)
