"""``tercet.toml`` of the current folder: files, columns and options that every verb takes unless others are given."""

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
_HEAD: Final = f"""# {NAME}: read from this folder by every tercet verb. Options on the command line go before it.
# A table such as [serve] or [fit] sets options of that verb: port = 8080.
"""


@dataclass(frozen=True)
class Project:
    """Settings of a folder.

    Attributes
    ----------
    documents, clicks : files of ``tercet up``
    output : folder for its model and index
    id, text, encoding : of tables, as the options of these names
    private : columns of documents that are not kept
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
        """Return the settings of a file; the defaults where there is no file."""
        if not path.is_file():
            return cls()
        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path}: {error}") from error
        defaults = {one.name: getattr(cls(), one.name) for one in fields(cls) if one.name != "options"}
        known: dict[str, Any] = {}
        options: dict[str, Mapping[str, Any]] = {}
        for key, value in values.items():
            if key in verbs and isinstance(value, dict):
                options[key] = value
            elif key not in defaults:
                raise InputError(f"{path}: there is no setting {key!r}{did_you_mean(key, (*defaults, *verbs))}")
            elif isinstance(defaults[key], tuple):
                known[key] = tuple(value) if isinstance(value, list) else (value,)
            else:
                known[key] = value
        for key, value in known.items():
            texts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            is_table = isinstance(defaults[key], dict)
            if isinstance(value, dict) != is_table or not all(isinstance(text, str) for text in texts):
                kind = "a table of texts" if is_table else "a text"
                raise InputError(f"{path}: {key} is {value!r}; {kind} is expected")
        return cls(**known, options=options)

    @property
    def tables(self) -> TableSettings:
        """What is said of tables."""
        return TableSettings(self.id, self.text or None, self.columns, self.encoding)

    def write(self, path: Path = Path(NAME)) -> None:
        """Write the settings as TOML, at once or not at all."""
        lines = [_HEAD]
        for one in fields(self):
            value = getattr(self, one.name)
            if value and not isinstance(value, Mapping):
                lines.append(f"{one.name} = {_toml(value)}\n")
        for name, table in {"columns": self.columns, **self.options}.items():
            if table:
                lines += [f"\n[{name}]\n", *(f"{_toml(key)} = {_toml(value)}\n" for key, value in table.items())]
        write_file_atomically(path, "".join(lines).encode())


def _toml(value: Any) -> str:
    """A value of TOML; the strings of JSON are strings of TOML, but for one character."""
    if isinstance(value, tuple):
        value = list(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def option_defaults(command: click.Command, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return values of options by the names of the parameters of a command.

    Parameters
    ----------
    values : by the names of options, without their dashes
    where : of the values, for errors
    """
    names = {
        option.removeprefix("--"): parameter
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and parameter.name != "config"
    }
    for key, value in values.items():
        if key not in names:
            hint = did_you_mean(key, names) or f"; expected one of {', '.join(sorted(names))}"
            raise click.UsageError(f"{where}: there is no option {key!r}{hint}")
        if isinstance(value, dict) or (isinstance(value, list) and not names[key].multiple):
            raise click.UsageError(f"{where}: {key} is {value!r}; one value is expected")
    return {str(names[key].name): value for key, value in values.items()}
