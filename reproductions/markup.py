"""HTML as values: every text is escaped unless it already is HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

_EMPTY = frozenset({"meta", "img"})
STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def join(parts: Iterable[object], between: str = "") -> Html:
    """Several values one after the other, escaped."""
    return Html(between.join(part if isinstance(part, Html) else escape(str(part)) for part in parts))


def element(kind: str, /, *children: object, **attributes: object) -> Html:
    """One element; None among children or attributes is left out.

    Examples
    --------
    >>> element("a", "Rock & Roll", class_="title", href=None)
    '<a class="title">Rock &amp; Roll</a>'
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{escape(str(value))}"' for key, value in named.items())
    if kind in _EMPTY:
        return Html(f"<{kind}{written}>")
    return Html(f"<{kind}{written}>{join(child for child in children if child is not None)}</{kind}>")


def page(title: str, *body: object) -> str:
    """A document with the style sheet of the reproductions; pictures are inside the page, and nothing is loaded."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(STYLE)),
    )
    return "<!doctype html>\n" + element("html", head, "\n", element("body", *body), "\n", lang="en") + "\n"
