"""The settings of ``tercet serve`` in a file, and what of it can change while the service runs."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from tercet.errors import TercetError
from tercet.serve.bounds import Limits

if TYPE_CHECKING:
    from tercet.serve.access_log import AccessLog
    from tercet.serve.service import Service

_log = logging.getLogger(__name__)

LIMITS: Final = ("deadline_ms", "waiting", "writes_per_minute", "write_burst")
LIVE: Final = (*LIMITS, "keep_days", "look_every", "access_log")  # the rest needs a restart


def configured(context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Take values from a file: those of flags and of the environment go before them."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"{path} is no configuration: {error}") from error
    names = {
        option.removeprefix("--"): parameter
        for parameter in context.command.params
        for option in parameter.opts
        if option.startswith("--") and parameter.name != "config"
    }
    for key, value in values.items():
        if key not in names:
            near = get_close_matches(key, names, 1)
            hint = f"; is it {near[0]}?" if near else f"; expected one of {', '.join(sorted(names))}"
            raise click.UsageError(f"{path}: there is no option {key!r}{hint}")
        if isinstance(value, dict) or (isinstance(value, list) and not names[key].multiple):
            raise click.UsageError(f"{path}: {key} is {value!r}; one value is expected")
    context.default_map = {str(names[key].name): value for key, value in values.items()}
    return path


class LiveSettings:
    """Reads the file again when it is asked to, and has the service go on by what it says then.

    A file that is wrong anywhere is refused as a whole, and the service goes on as before. Flags still go before it.

    Parameters
    ----------
    context : of the command, as it was called
    service, access_log : what is told
    """

    def __init__(self, context: click.Context, service: Service, access_log: AccessLog | None) -> None:
        self._context, self._service, self._access_log = context, service, access_log
        self._now = dict(context.params)

    def reread(self) -> None:
        """Take what the file says now; what cannot be taken is logged."""
        path = self._now["config"]
        if path is None:
            return
        try:
            values = self._read(path)
            changed = {name: value for name, value in values.items() if value != self._now[name]}
            if "access_log" in changed and not (self._now["access_log"] and changed["access_log"]):
                changed.pop("access_log")  # the log is begun, and ended, with the service
                fixed = ["access_log"]
            else:
                fixed = []
            fixed += [name for name in changed if name not in LIVE]
            taken = {name: value for name, value in changed.items() if name in LIVE}
            self._take(taken)
        except (click.ClickException, TercetError) as error:
            message = error.format_message() if isinstance(error, click.ClickException) else error
            _log.warning("%s is refused, and the settings of before stay: %s", path, message)
            return
        for name, value in taken.items():
            _log.warning("%s: %s is %s now, and was %s", path, _option(name), value, self._now[name])
        for name in fixed:
            _log.warning("%s: another %s needs a restart", path, _option(name))
        self._now |= taken

    def _read(self, path: Path) -> dict[str, Any]:
        """What the command would run with now, of options that no flag sets."""
        index = str(self._context.params["index"])
        made = self._context.command.make_context("serve", [index, "--config", str(path)])
        flags = ParameterSource.COMMANDLINE
        return {
            name: value
            for name, value in made.params.items()
            if name in self._now and name != "config" and self._context.get_parameter_source(name) != flags
        }

    def _take(self, changed: Mapping[str, Any]) -> None:
        if "access_log" in changed and self._access_log is not None:
            self._access_log.move(changed["access_log"])  # the only one that may fail
        now = {**self._now, **changed}
        self._service.change(Limits(**{name: now[name] for name in LIMITS}), now["look_every"], now["keep_days"])


def _option(name: str) -> str:
    return name.replace("_", "-")
