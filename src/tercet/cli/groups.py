"""Groups of verbs, and commands with options under headings.

A group imports the module of a verb on the first call, so that ``--help`` and ``--version`` are fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

import click

from tercet._validate import did_you_mean


def examples(*lines: str) -> str:
    """Return the epilog of a help page, one example per line; \\b keeps the lines of a paragraph."""
    return "\n".join(("\b", "Examples:", *(f"  tercet {line}" for line in lines)))


class LazyGroup(click.Group):
    """Group with a table of verbs: verb -> ("module:command", line of the help).

    ``sections`` maps headings of the help to verbs; by default there is one heading.
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
        if cmd_name not in self.verbs:
            return None
        command: click.Command = resolve_name(self.verbs[cmd_name][0])
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], self.verbs)
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.verbs))
        for heading, verbs in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{verb:{width}}", self.verbs[verb][1]) for verb in verbs])


class SectionedCommand(click.Command):
    """Command whose help shows options under headings; ``sections`` maps headings to names of parameters.

    Other options, such as ``--help``, come under the last heading.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        records = {option.name: option.get_help_record(ctx) for option in options}
        named = {name for names in self.sections.values() for name in names}
        rest = [name for name in records if name not in named]
        for heading, names in self.sections.items():
            listed = [*names, *rest] if heading == list(self.sections)[-1] else names
            with formatter.section(heading):
                formatter.write_dl([record for name in listed if (record := records[name]) is not None])
