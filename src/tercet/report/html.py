"""HTML as values: plain text is escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

_DRAWN = frozenset({"circle", "line", "path"})  # of SVG, self-closing
# Characters forbidden in XML and HTML.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """Text in HTML."""

    __slots__ = ()


def text(value: object) -> Html:
    """Convert a value to HTML: escaped, and without control characters."""
    return value if isinstance(value, Html) else Html(escape(_CONTROL.sub("\ufffd", str(value))))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Join values as HTML."""
    return Html(text(between).join(map(text, parts)))


def element(kind: str, /, *children: object, **attributes: object) -> Html:
    """Make an element; None among children or attributes is left out.

    A final underscore of an attribute is dropped, as in ``class_``; inner underscores become hyphens, as in
    ``aria_label``.

    Examples
    --------
    >>> element("a", "Rock & Roll", class_="title", href=None)
    '<a class="title">Rock &amp; Roll</a>'
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{text(value)}"' for key, value in named.items())
    inside = join(child for child in children if child is not None)
    if kind in _DRAWN:
        return Html(f"<{kind}{written}/>")
    return Html(f"<{kind}{written}>{inside}</{kind}>")


def fill(template: str, /, **values: object) -> Html:
    """Fill the ``$names`` of an HTML template with values, escaped unless of type `Html`; None is empty.

    Examples
    --------
    >>> fill("<p class=soft>$note</p>", note="Rock & Roll")
    '<p class=soft>Rock &amp; Roll</p>'
    """
    return Html(Template(template).substitute({key: text("" if v is None else v) for key, v in values.items()}))


STYLE: Final = files("tercet.report").joinpath("style.css").read_text(encoding="utf-8")


def style_policy() -> str:
    """Content-Security-Policy of a page with the style sheet as its only content to load."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def page(title: str, *body: object) -> str:
    """Make a whole document with the style sheet, without scripts and requests."""
    return fill(
        """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title><style>$style</style></head>
<body>$body</body>
</html>
""",
        policy=style_policy(),
        title=title,
        style=Html(STYLE),
        body=join(body),
    )
