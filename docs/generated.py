"""Sphinx directives that make the reference: public names from their docstrings, verbs from the command line.

In a page, inside of ```{eval-rst}:

    .. public-names:: tercet.search      every name that a package exports
    .. main-names::                      a table of what `import tercet as tc` gives
    .. verb-table::                      a table of all verbs
    .. verbs::                           every verb with its options

Docstrings are numpydoc in which a parameter is told as ``name : what it is``, or as ``name : type``, what it is below.
A name between single backquotes is a link if it is public, and code otherwise.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

import click
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from tercet.cli.main import SECTIONS, VERBS, cli

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)
TYPE = re.compile(
    r"(\{.*\}.*|[\w.]+ to [\w. ]+|(int|float|bool|str|positive floats|integer arrays?|array|callable)\b.*)(, optional)?"
)
SIMPLE = (int, float, str, bool, type(None), tuple)

Lines = Iterator[str]


# -- what is public ----------------------------------------------------------------------------------------------------


PACKAGES = ("fitting", "data", "text", "weights", "learn", "learn.linear", "learn.rls", "measure", "report", "search")
PACKAGES = tuple(f"tercet.{package}" for package in (*PACKAGES, "engines", "scale", "simulate", "store"))


@cache
def exported(package: str) -> dict[str, Any]:
    module = importlib.import_module(package)
    things = {name: getattr(module, name) for name in sorted(module.__all__, key=str.lower)}
    return {name: thing for name, thing in things.items() if not inspect.ismodule(thing)}


@cache
def full_names() -> dict[str, str]:
    """By the last word of a public name: the name that has an entry, which is that of `tercet` where there is one."""
    found: dict[str, str] = {}
    for package in ("tercet", *PACKAGES):
        for name in exported(package):
            found.setdefault(name, f"{package}.{name}")
    return found


# -- one name ----------------------------------------------------------------------------------------------------------


def entry(package: str, name: str, thing: Any) -> Lines:
    """The description of a public name in reStructuredText."""
    full = full_names()[name]
    kind = "class" if inspect.isclass(thing) else "function" if callable(thing) else "data"
    if kind == "class" and issubclass(thing, BaseException):
        kind = "exception"
    yield f".. py:{kind}:: {full}{signature(thing) if kind != 'data' else ''}"
    if full != f"{package}.{name}":
        yield f"   :canonical: {package}.{name}"
    yield ""
    yield from indent(_described(thing) if kind != "data" else _value(package, name, thing))
    if kind in ("class", "exception"):
        yield from indent(_members(thing))


def _described(thing: Any, *, returns: bool = True) -> Lines:
    sections = dict(split(inspect.getdoc(thing) or ""))
    yield from sections.pop("", "").splitlines()
    yield ""
    if "Parameters" in sections:
        yield from _terms("Parameters", sections.pop("Parameters"), thing)
    elif parameters := list(_parameters(thing)):
        yield ":Parameters: " + "; ".join(f"``{one.name}`` {_kind(one.annotation)}".strip() for one in parameters)
        yield ""
    if "Returns" in sections:
        yield from _terms("Returns", sections.pop("Returns"), None)
    elif returns and not inspect.isclass(thing) and (shown := _kind(_signature(thing).return_annotation)):
        yield f":Returns: {shown}"
        yield ""
    for title, text in sections.items():
        if title == "Attributes":
            yield from _terms(title, text, None)
        else:
            yield from (f".. rubric:: {title}", "", *text.splitlines(), "")


def split(doc: str) -> Iterator[tuple[str, str]]:
    """The sections of a docstring by title, what comes before the first as ''."""
    parts = SECTION.split(doc)
    yield "", parts[0].strip()
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        yield title, text.strip("\n")


def _terms(title: str, text: str, thing: Any) -> Lines:
    """A section of ``name : what it is`` as a list of definitions."""
    yield from (f".. rubric:: {title}", "")
    kinds = {one.name: _kind(one.annotation) for one in _parameters(thing)} if thing is not None else {}
    for item in re.split(r"\n(?=\S)", re.sub(r",\n\s+", ", ", text)):
        head, *rest = item.splitlines()
        names, colon, told = head.partition(" : ")
        if not colon and title == "Returns":  # a type, and what is said of it
            names, told = head, ""
        if TYPE.fullmatch(told) and rest:
            shown, told = f" : {escape(told)}", ""
        else:
            shown = f" : {kinds[names]}" if kinds.get(names) else ""
        yield ", ".join(f"``{one}``" for one in names.split(", ")) + shown
        yield from indent([told] if told else [])
        yield from indent(textwrap.dedent("\n".join(rest)).splitlines())
        if not told and not rest:
            yield "   …"
        yield ""


def _value(package: str, name: str, thing: Any) -> Lines:
    """What is no function and no class: the comment above it in its file, and what it is."""
    shown = repr(thing) if not isinstance(thing, dict) else "{" + ", ".join(map(repr, thing)) + ", by name}"
    yield f"``{shown.replace('typing.', '')}``"


def _members(thing: type) -> Lines:
    inherited: dict[str, list[str]] = {}
    for name in sorted(name for name in dir(thing) if not name.startswith("_")):
        owner = next(cls for cls in thing.__mro__ if name in vars(cls))
        if not owner.__module__.startswith("tercet"):
            continue
        member = vars(owner)[name]
        if not (callable(member) or isinstance(member, property | classmethod | staticmethod)) or inspect.isclass(
            member
        ):
            continue
        base = next((cls for cls in thing.__mro__[1:] if _is_public(cls) and owner in cls.__mro__), None)
        if owner is not thing and base is not None:
            inherited.setdefault(base.__name__, []).append(name)
        else:
            yield from _member(name, member)
    for base, names in inherited.items():
        links = ", ".join(f":py:meth:`~{full_names()[base]}.{name}`" for name in names)
        yield from (f"As in `{base}`: {links}", "")


def _member(name: str, member: Any) -> Lines:
    if isinstance(member, property) or not callable(getattr(member, "__func__", member)):
        yield from (f".. py:property:: {name}", "")
        yield from indent((inspect.getdoc(member) or "").splitlines())
    else:
        option = {classmethod: ":classmethod:", staticmethod: ":staticmethod:"}.get(type(member))
        function = getattr(member, "__func__", member)
        yield f".. py:method:: {name}{signature(function, method=not isinstance(member, staticmethod))}"
        yield from ([f"   {option}"] if option else [])
        yield ""
        yield from indent(_described(function))
    yield ""


def _is_public(cls: type) -> bool:
    return full_names().get(cls.__name__) is not None and cls.__module__.startswith("tercet")


# -- signatures --------------------------------------------------------------------------------------------------------


def _signature(thing: Any) -> inspect.Signature:
    try:
        return inspect.signature(thing)
    except (TypeError, ValueError):
        return inspect.Signature()


def _parameters(thing: Any) -> list[inspect.Parameter]:
    return [one for one in _signature(thing).parameters.values() if one.name not in ("self", "cls")]


def signature(thing: Any, *, method: bool = False) -> str:
    """Names and defaults; types stand with the parameters."""
    parameters = list(_signature(thing).parameters.values())[1 if method else 0 :]
    plain = [one.replace(annotation=inspect.Parameter.empty, default=_default(one.default)) for one in parameters]
    return str(inspect.Signature(plain))


class _Left:
    """A default that is too long to be shown."""

    def __repr__(self) -> str:
        return "..."


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty or (isinstance(value, SIMPLE) and len(repr(value)) < 60):
        return value
    return _Left()


def _kind(annotation: Any) -> str:
    """A type as it is written in the code, without what only a checker wants to know."""
    if annotation in (inspect.Parameter.empty, "Any", "None", None):
        return ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = re.sub(r"Annotated\[(\w+), .*?\)\]", r"\1", text)
    return f"*{escape(text)}*"


# -- verbs -------------------------------------------------------------------------------------------------------------


def verb(command: click.Command, path: tuple[str, ...], level: int) -> Lines:
    """A verb: how it is called, what it does, its options; then the verbs below it."""
    context = click.Context(command, info_name=" ".join(path))
    name = " ".join(path)
    yield from (name, "-^~"[level] * len(name), "")
    if not isinstance(command, click.Group):
        yield from (".. code-block:: text", "", f"   {name} {' '.join(command.collect_usage_pieces(context))}", "")
    for paragraph in (inspect.cleandoc(command.help or "")).split("\n\n"):
        lines = paragraph.lstrip("\b\n").splitlines()
        yield from ([*(f"| {escape(line)}" for line in lines), ""] if "\b" in paragraph else [escape(paragraph), ""])
    if command.epilog:
        _, _, *examples = command.epilog.splitlines()
        yield from (".. code-block:: text", "", *(f"   {example.strip()}" for example in examples), "")
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (f"``{record[0]}``", f"   {escape(' '.join(record[1].split())) or '…'}", "")
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from verb(found, (*path, below), level + 1)


def verb_table() -> Lines:
    yield from (".. list-table::", "   :widths: 25 75", "")
    for section, names in SECTIONS.items():
        yield from (f"   * - **{section}**", "     -")
        for name in names:
            yield from (f"   * - `tercet {name} <#tercet-{name}>`__", f"     - {escape(VERBS[name][1])}")
    yield ""


def verbs() -> Lines:
    context = click.Context(cli, info_name="tercet")
    for section, names in SECTIONS.items():
        for name in names:
            found = cli.get_command(context, name)
            assert found is not None, f"{section} names {name}, which there is not"
            yield from verb(found, ("tercet", name), 0)


def escape(text: str) -> str:
    return re.sub(r"([*`|\\_])", r"\\\1", text)


# -- directives --------------------------------------------------------------------------------------------------------


def indent(lines: Any) -> Lines:
    for line in lines:
        yield f"   {line}" if line else ""


def main_names() -> Lines:
    yield from (".. list-table::", "   :widths: 30 70", "")
    for name, thing in exported("tercet").items():
        first = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
        yield from (f"   * - :py:obj:`tercet.{name}`", f"     - {first}")
    yield ""


def public_names(package: str) -> Lines:
    """Describe every name of a package. Names that `tercet` exports as well are described with their package."""
    elsewhere = {name for other in PACKAGES for name in exported(other)} if package == "tercet" else set()
    for name, thing in exported(package).items():
        if name not in elsewhere and full_names()[name] in (f"tercet.{name}", f"{package}.{name}"):
            yield from entry(package, name, thing)
            yield ""


MADE = {"public-names": public_names, "main-names": main_names, "verb-table": verb_table, "verbs": verbs}


class Generated(SphinxDirective):
    """Lines of reStructuredText that a function makes."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        made = MADE[self.name]
        lines = list(made(*self.arguments))
        return self.parse_text_to_nodes(
            StringList(lines, source=f"{self.name} {' '.join(self.arguments)}"), allow_section_headings=True
        )


class Name(SphinxRole):
    """A name between single backquotes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        code = nodes.literal(self.text, self.text)
        first = self.text.removeprefix("tercet.").partition(".")[0]
        if first not in full_names():
            return [code], []
        link = pending_xref("", code, refdomain="py", reftype="obj", reftarget=full_names()[first], refwarn=False)
        return [link], []


def setup(app: Sphinx) -> dict[str, bool]:
    for name in MADE:
        app.add_directive(name, Generated)
    app.add_role("name", Name())
    return {"parallel_read_safe": True}
