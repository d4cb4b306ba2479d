"""HTML as values: every text is escaped unless it already is HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

_DRAWN = frozenset({"circle", "line", "path"})  # of SVG, which closes what is empty
# XML's rule, which HTML readers follow too; anything else would be shown as a box, or end the page.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as HTML: escaped, and without characters that no page may have."""
    return value if isinstance(value, Html) else Html(escape(_CONTROL.sub("\ufffd", str(value))))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Several values one after the other."""
    return Html(text(between).join(map(text, parts)))


def element(kind: str, /, *children: object, **attributes: object) -> Html:
    """One element; None among children or attributes is left out.

    ``class_`` and other names that end in an underscore lose it, and underscores inside become hyphens, as in
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
    """Fill the ``$names`` of an HTML template with values, escaped unless they are HTML; None leaves nothing.

    Examples
    --------
    >>> fill("<p class=soft>$note</p>", note="Rock & Roll")
    '<p class=soft>Rock &amp; Roll</p>'
    """
    return Html(Template(template).substitute({key: text("" if v is None else v) for key, v in values.items()}))


STYLE: Final = files("tercet.report").joinpath("style.css").read_text(encoding="utf-8")


def style_policy() -> str:
    """The Content-Security-Policy of a page with our style sheet: that sheet and nothing else."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def page(title: str, *body: object) -> str:
    """A whole document with our style sheet. Its policy allows that sheet and nothing else: no script, no request."""
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
