"""HTML to plain text."""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5
from typing import Final

_WITHIN_WORDS = "b big del em font i ins mark s small strike strong sub sup tt u wbr"
_WITHIN_LINES = """
a abbr acronym applet area audio base basefont bdi bdo button canvas cite code col colgroup data dfn embed iframe img
input kbd label link map meta nobr object output param picture progress q rp rt ruby samp script select slot source span
style svg td template textarea th time track var video
"""
_BETWEEN_LINES = """
address article aside blockquote body br caption center datalist dd details dialog dir div dl dt fieldset figcaption
figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav noframes noscript
ol optgroup option p pre search section summary table tbody tfoot thead title tr ul
"""
_REPLACEMENTS: Final = {
    name: replacement
    for names, replacement in ((_WITHIN_WORDS, ""), (_WITHIN_LINES, " "), (_BETWEEN_LINES, "\n"))
    for name in names.split()
}
_NO_WORDS = "br dd div dl dt em h1 h2 h3 h4 h5 h6 hr html li ol p tbody td tfoot th thead tr ul wbr"
_UNAMBIGUOUS: Final = frozenset(_NO_WORDS.split())

# A tag contains no "<": a search reads every character once.
_TAG: Final = re.compile(r"""<(/?)([A-Za-z][A-Za-z0-9]*+)((?=[\s/>])(?:[^<>"']++|"[^"<]*"|'[^'<]*'|["'])*+)>""")
_END_TAG: Final = re.compile(r"</([A-Za-z][A-Za-z0-9]*+)\s*>")
_ATTRIBUTES: Final = re.compile(r"""\s+[\w:@.-]+\s*=|.*?=\s*["']|.*/\s*\Z""", re.DOTALL)
_DECLARATION: Final = re.compile(r"<!(?:doctype\b[^<>]*>|\[CDATA\[)", re.IGNORECASE)
_HIDDEN: Final = tuple(
    (re.compile(start, re.IGNORECASE), re.compile(end, re.IGNORECASE))
    for start, end in (
        (r"<!--", r"-->"),
        (r"<script(?=[\s/>])[^<>]*>", r"</script\s*>"),
        (r"<style(?=[\s/>])[^<>]*>", r"</style\s*>"),
    )
)
_ENTITY: Final = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def plain_text(text: str) -> str:
    """Remove HTML tags, comments, scripts and styles, and resolve entities. Time is linear in the length.

    A start tag has the name of an HTML element in lower or upper case. A name that is also a word needs attributes,
    or its
    end tag anywhere in the text. Other text between ``<`` and ``>`` stays.
    """
    if "<" in text:
        for start, end in _HIDDEN:
            text = _without(text, start, end)
        ended = {name.lower() for name in _END_TAG.findall(text)}

        def replacement(tag: re.Match[str]) -> str:
            slash, name, rest = tag.groups()
            between = _REPLACEMENTS.get(name.lower()) if name.islower() or name.isupper() else None
            if between is None:
                return tag[0]
            has_end = name.lower() in ended or name.lower() in _UNAMBIGUOUS
            return between if slash or has_end or _ATTRIBUTES.match(rest) else tag[0]

        text = _TAG.sub(replacement, _DECLARATION.sub("\n", text))
    return _ENTITY.sub(_character, text) if "&" in text else text


def _without(text: str, start: re.Pattern[str], end: re.Pattern[str]) -> str:
    """Replace each stretch from a start to the next end by a space; a start without an end stays."""
    pieces, position = [], 0
    while (opening := start.search(text, position)) and (closing := end.search(text, opening.end())):
        pieces.append(text[position : opening.start()])
        position = closing.end()
    return " ".join([*pieces, text[position:]])


def _character(entity: re.Match[str]) -> str:
    name = entity[0]
    return unescape(name) if name[1] == "#" or name[1:] in html5 else name
