"""Cards: title, passage with words of the query, and stored fields of a document, all as plain text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tercet.data.roles import TITLES, plain_name
from tercet.text.markup import plain_text

_TITLE_CHARS = 120
_PASSAGE_CHARS = 240
_BEFORE_MATCH = 30  # characters shown before the first matching word
_VALUE_CHARS = 200
_SEARCHED_CHARS = 4_000  # of a document
_PRICES: Final = frozenset({"price", "cost", "amount", "msrp", "rrp"})


class Cards:
    """Make cards for one query.

    Parameters
    ----------
    stems : tokens of the query; a word matches if it begins with a stem
    fields : names of the stored fields to show; None shows prices

    Examples
    --------
    >>> Cards(["avocado"]).card("007", "<h1>Eyes</h1><p>What <b>avocados</b> do.", {"price": 2, "shelf": "B7"})
    {'title': 'Eyes', 'snippet': 'What avocados do.', 'stored_fields': {'price': 2}}
    """

    def __init__(self, stems: Sequence[str] = (), fields: Collection[str] | None = None) -> None:
        self._stems = {stem.lower() for stem in stems if stem}
        self._fields = fields

    def card(self, doc_id: str, text: str, stored_fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return title, snippet and stored fields of a document for an answer."""
        first_line, _, rest = plain_text(text[:_SEARCHED_CHARS]).lstrip().partition("\n")
        body = first_line if not rest or rest.isspace() else rest
        title = _title_field(stored_fields) if stored_fields else None
        return {
            "title": title or _shortened(first_line, _TITLE_CHARS) or doc_id,
            "snippet": self._passage(body),
            "stored_fields": self._shown(stored_fields) if stored_fields else {},
        }

    def _passage(self, body: str) -> str:
        """Return about 240 characters around the most stems, or the beginning if no stem matches."""
        if len(body) <= _PASSAGE_CHARS:
            return _shortened(body, _PASSAGE_CHARS)
        start = self._best_start(body)
        end = start + 2 * _PASSAGE_CHARS
        return ("…" if start else "") + _shortened(body[start:end], _PASSAGE_CHARS, len(body) > end)

    def _best_start(self, body: str) -> int:
        """Return the offset of a passage that contains the first occurrences of as many stems as possible."""
        lower = body.lower()
        matches = [offset for stem in self._stems if (offset := _word_start(lower, stem)) >= 0]
        if not matches or len(lower) != len(body):  # lowering changed the offsets
            return 0
        reach = _PASSAGE_CHARS - 2 * _BEFORE_MATCH
        n_within = [(sum(0 <= offset - start < reach for offset in matches), -start) for start in matches]
        start = -max(n_within)[1] - _BEFORE_MATCH
        return 0 if start < _BEFORE_MATCH else max(body.rfind(" ", 0, start), body.rfind("\n", 0, start)) + 1

    def _shown(self, stored_fields: Mapping[str, Any]) -> dict[str, Any]:
        names = self._fields
        if names is None:
            names = [name for name in stored_fields if _is_price(plain_name(name))]
        chosen = {name: stored_fields[name] for name in names if name in stored_fields}
        return {
            name: _shortened(plain_text(value), _VALUE_CHARS) if isinstance(value, str) else value
            for name, value in chosen.items()
        }


def _word_start(text: str, stem: str) -> int:
    """Return the offset of the first word that begins with a stem, or -1."""
    start = text.find(stem)
    while start > 0 and text[start - 1].isalnum():
        start = text.find(stem, start + 1)
    return start


def _title_field(stored_fields: Mapping[str, Any]) -> str | None:
    """Return the value of a stored field named title, name or the like."""
    for name, value in stored_fields.items():
        if plain_name(name) in TITLES and isinstance(value, str) and value.strip():
            return _shortened(plain_text(value), _TITLE_CHARS)
    return None


def _is_price(name: str) -> bool:
    return name in _PRICES or name.endswith("_price") or name.startswith("price_")


def _shortened(text: str, most: int, goes_on: bool = False) -> str:
    """Return a text on one line, shortened at a word if the text is too long or goes on."""
    text = " ".join(text.split())
    if len(text) <= most and not goes_on:
        return text
    end = text.rfind(" ", most // 2, most)
    return text[: end if end > 0 else most - 1].rstrip() + "…"
