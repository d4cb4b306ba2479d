"""Cards: the title of a document, the passage with most of the query's words, and fields, as plain text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tercet.data.roles import TITLES, plain_name
from tercet.text.markup import plain_text

_TITLE_CHARS = 120
_PASSAGE_CHARS = 240
_VALUE_CHARS = 200
_PRICES: Final = frozenset({"price", "cost", "amount", "msrp", "rrp"})
_CHARS_LOOKED_AT = 20_000
_OCCURRENCES = 8  # of a stem that are looked at


class Cards:
    """Make cards for one query.

    Parameters
    ----------
    stems : tokens of the query; a word that begins with a stem matches
    fields : names of the stored fields to show; None shows prices

    Examples
    --------
    >>> Cards(["avocado"]).card("007", "<h1>Eyes</h1><p>What <b>avocados</b> do.", {"price": 2, "shelf": "B7"})
    {'title': 'Eyes', 'snippet': 'What avocados do.', 'stored_fields': {'price': 2}}
    """

    def __init__(self, stems: Sequence[str] = (), fields: Collection[str] | None = None) -> None:
        self._stems = sorted({stem.lower() for stem in stems if stem}, key=len)
        self._fields = fields

    def card(self, doc_id: str, text: str, stored_fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the title, snippet and stored fields of a document, as answers have them."""
        plain = plain_text(text[:_CHARS_LOOKED_AT])
        return {
            "title": _title(doc_id, plain, stored_fields),
            "snippet": self._passage(plain),
            "stored_fields": self._shown(stored_fields) if stored_fields else {},
        }

    def _passage(self, text: str) -> str:
        """Return about 240 characters around most of the stems, or those after the first line where no stem matches."""
        first_line, _, rest = text.lstrip().partition("\n")
        body = rest if rest.strip() else first_line
        start = self._best_start(body) if len(body) > _PASSAGE_CHARS else 0
        window = body[start : start + 4 * _PASSAGE_CHARS]
        return ("…" if start else "") + _shortened(window, _PASSAGE_CHARS, len(body) - start > len(window))

    def _best_start(self, body: str) -> int:
        """Return the beginning of the window with most different stems, a little before the first of the stems."""
        matches = self._matches(body)
        inside: dict[str, int] = {}
        best, best_start, left = 0, 0, 0
        for offset, stem in matches:
            inside[stem] = inside.get(stem, 0) + 1
            while offset - matches[left][0] > _PASSAGE_CHARS - 60:
                leaving = matches[left][1]
                inside[leaving] -= 1
                if not inside[leaving]:
                    del inside[leaving]
                left += 1
            if len(inside) > best:
                best, best_start = len(inside), matches[left][0]
                if best == len(self._stems):
                    break
        if best_start < 60:
            return 0
        return max(body.rfind(" ", 0, best_start - 30), body.rfind("\n", 0, best_start - 30)) + 1

    def _matches(self, body: str) -> list[tuple[int, str]]:
        """Return where words begin with a stem, in order; the longest stem of a word counts."""
        lower = body.lower()
        if len(lower) != len(body):  # offsets would not agree
            lower = body
        matches: dict[int, str] = {}
        for stem in self._stems:
            start = -1
            for _ in range(_OCCURRENCES):
                start = lower.find(stem, start + 1)
                if start < 0:
                    break
                if start == 0 or not lower[start - 1].isalnum():
                    matches[start] = stem
        return sorted(matches.items())

    def _shown(self, stored_fields: Mapping[str, Any]) -> dict[str, Any]:
        names = self._fields
        if names is None:
            names = [name for name in stored_fields if _is_price(plain_name(name))]
        shown = {name: stored_fields[name] for name in names if name in stored_fields}
        return {
            name: _shortened(plain_text(value), _VALUE_CHARS) if isinstance(value, str) else value
            for name, value in shown.items()
        }


def _title(doc_id: str, text: str, stored_fields: Mapping[str, Any]) -> str:
    """Return a stored field called title, the first line of the text, or the id."""
    for name, value in stored_fields.items():
        if plain_name(name) in TITLES and isinstance(value, str) and value.strip():
            return _shortened(plain_text(value), _TITLE_CHARS)
    return _shortened(text.lstrip().partition("\n")[0], _TITLE_CHARS) or doc_id


def _is_price(name: str) -> bool:
    return name in _PRICES or name.endswith("_price") or name.startswith("price_")


def _shortened(text: str, most: int, goes_on: bool = False) -> str:
    """Return a text in one line, cut at a word where the text is long or goes on."""
    text = " ".join(text.split())
    if len(text) <= most and not goes_on:
        return text
    end = text.rfind(" ", most // 2, most)
    return text[: end if end > 0 else most - 1].rstrip() + "…"
