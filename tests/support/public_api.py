"""The public names: what packages export with the parameters of each, and verbs with their options.

python tests/support/public_api.py     adds what is new to public_api.json
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import click

import tercet
from tercet.cli.main import cli

LIST = Path(__file__).with_name("public_api.json")
ROOMS = ("data", "engines", "fitting", "learn", "learn.linear", "learn.rls", "measure", "report", "scale", "search")
ROOMS = (*ROOMS, "simulate", "store", "text", "weights")


def public_api() -> dict[str, Any]:
    """By name: the parameters of what can be called, in order; of classes those of their methods, too."""
    names: dict[str, Any] = {}
    for room in ("", *ROOMS):
        module = importlib.import_module(f"tercet.{room}".rstrip("."))
        for name in module.__all__:
            thing = getattr(module, name, None)
            if not inspect.ismodule(thing):
                names[f"{module.__name__}.{name}"] = _shape(thing, methods=not room)
    return {"names": names, "verbs": _verbs(cli, ())}


def _shape(thing: Any, *, methods: bool) -> Any:
    if inspect.isclass(thing) and methods:
        members = (name for name in dir(thing) if not name.startswith("_"))
        own = {name: _parameters(getattr(thing, name)) for name in members if _is_ours(getattr(thing, name))}
        return {"()": _parameters(thing), **own}
    return _parameters(thing)


def _is_ours(member: Any) -> bool:
    return callable(member) and (getattr(member, "__module__", None) or "").startswith("tercet")


def _parameters(thing: Any) -> list[str] | None:
    """Names, with a mark where only a name or only a place will do; None for what cannot be called."""
    if not callable(thing):
        return None
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return None
    marks = {inspect.Parameter.KEYWORD_ONLY: "*", inspect.Parameter.POSITIONAL_ONLY: "/"}
    return [f"{marks.get(one.kind, '')}{one.name}" for one in parameters if one.name not in ("self", "cls")]


def _verbs(command: click.Command, path: tuple[str, ...]) -> dict[str, list[str]]:
    options = sorted(option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts))
    verbs = {" ".join(("tercet", *path)): options}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            verbs |= _verbs(below, (*path, name))
    return verbs


def changes(listed: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What somebody who relied on the list would miss; what is new is none of it."""
    problems = []
    for name, shape in listed["names"].items():
        if name not in now["names"]:
            problems.append(f"{name} is gone")
            continue
        before, after = (one if isinstance(one, dict) else {"": one} for one in (shape, now["names"][name]))
        for member, parameters in before.items():
            where = f"{name}.{member}".rstrip(".").replace(".()", "")
            if member not in after:
                problems.append(f"{where} is gone")
            elif not _takes_what_it_took(parameters, after[member]):
                problems.append(f"{where} takes {after[member]}; it took {parameters}")
    for verb, options in listed["verbs"].items():
        if verb not in now["verbs"]:
            problems.append(f"{verb} is gone")
        else:
            problems += [f"{verb} has no {option} any more" for option in options if option not in now["verbs"][verb]]
    return problems


def _takes_what_it_took(before: list[str] | None, after: list[str] | None) -> bool:
    """By place in the same order, by name under the same names."""
    if before is None or after is None:
        return before == after
    positions = [name for name in before if not name.startswith("*")]
    named = {name.lstrip("*") for name in after}
    return [name for name in after if not name.startswith("*")][: len(positions)] == positions and all(
        name.lstrip("*") in named for name in before
    )


if __name__ == "__main__":
    found = public_api()
    if LIST.exists() and (gone := changes(json.loads(LIST.read_text()), found)):
        print("\n".join(gone))
    LIST.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print(f"{LIST}: {len(found['names'])} names, {len(found['verbs'])} verbs of tercet {tercet.__version__}")
