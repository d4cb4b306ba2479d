"""``tercet.toml`` of the current folder: default files, columns and options of every verb."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import click

from tercet._validate import did_you_mean
from tercet.data.roles import TableSettings
from tercet.errors import InputError
from tercet.store import write_file_atomically

NAME: Final = "tercet.toml"
_HEAD: Final = f"""# {NAME}: settings of every tercet verb in this folder; options on the command line override them.
# A table such as [serve] or [fit] sets options of that verb: port = 8080.
"""


@dataclass(frozen=True)
class Project:
    """Settings of a folder.

    Attributes
    ----------
    documents, clicks : files of ``tercet up``
    output : folder for model and index
    id, text, encoding : table options of the same names
    private : document columns that are not stored
    columns : role -> column of tables of evidence
    options : verb -> option -> value
    """

    documents: str = ""
    clicks: tuple[str, ...] = ()
    output: str = "search"
    id: str | None = None
    text: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    encoding: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, verbs: Mapping[str, Any], path: Path = Path(NAME)) -> Project:
        """Read the settings of a file; without a file, return the defaults."""
        if not path.is_file():
            return cls()
        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path}: {error}") from error
        defaults = {setting.name: getattr(cls(), setting.name) for setting in fields(cls) if setting.name != "options"}
        settings: dict[str, Any] = {}
        options: dict[str, Mapping[str, Any]] = {}
        for key, value in values.items():
            if key in verbs and isinstance(value, dict):
                options[key] = value
            elif key not in defaults:
                raise InputError(f"{path}: there is no setting {key!r}{did_you_mean(key, (*defaults, *verbs))}")
            elif isinstance(defaults[key], tuple):
                settings[key] = tuple(value) if isinstance(value, list) else (value,)
            else:
                settings[key] = value
        for key, value in settings.items():
            texts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            is_table = isinstance(defaults[key], dict)
            if isinstance(value, dict) != is_table or not all(isinstance(text, str) for text in texts):
                kind = "a table of texts" if is_table else "a text"
                raise InputError(f"{path}: {key} is {value!r}; {kind} is expected")
        return cls(**settings, options=options)

    @property
    def tables(self) -> TableSettings:
        """Settings of tables."""
        return TableSettings(self.id, self.text or None, self.columns, self.encoding)

    def write(self, path: Path = Path(NAME)) -> None:
        """Write the settings as TOML, atomically."""
        lines = [_HEAD]
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value and not isinstance(value, Mapping):
                lines.append(f"{setting.name} = {_toml(value)}\n")
        for name, table in {"columns": self.columns, **self.options}.items():
            if table:
                lines += [f"\n[{name}]\n", *(f"{_toml(key)} = {_toml(value)}\n" for key, value in table.items())]
        write_file_atomically(path, "".join(lines).encode())


def _toml(value: Any) -> str:
    """Format a value as TOML; JSON strings are TOML strings except for one character."""
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def option_defaults(command: click.Command, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return option values by the names of a command's parameters; ``where`` is for errors."""
    names = {
        option.removeprefix("--"): parameter
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    for key, value in values.items():
        if key not in names:
            hint = did_you_mean(key, names) or f"; expected one of {', '.join(sorted(names))}"
            raise click.UsageError(f"{where}: there is no option {key!r}{hint}")
        if isinstance(value, dict) or (isinstance(value, list) and not names[key].multiple):
            raise click.UsageError(f"{where}: {key} is {value!r}; one value is expected")
    return {str(names[key].name): value for key, value in values.items()}
