"""Groups of verbs: each verb is imported when it is called, so that ``--help`` and ``--version`` answer at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows its verbs by a table: verb -> ("module:command", the line that the group's help shows).

    The help shows them under headings, ``sections``, or all under one.
    """

    def __init__(
        self,
        *args: Any,
        verbs: Mapping[str, tuple[str, str]],
        sections: Mapping[str, Sequence[str]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.verbs = verbs
        self.sections = {"Commands": tuple(verbs)} if sections is None else sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return resolve_name(self.verbs[cmd_name][0]) if cmd_name in self.verbs else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.verbs))
        for heading, verbs in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{verb:{width}}", self.verbs[verb][1]) for verb in verbs])
