"""What is shown of a document: a title and the passage that has most of the query's words, both as plain text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tercet.data.roles import TITLES, plain_name
from tercet.text.markup import plain_text

_TITLE_CHARS = 120
_PASSAGE_CHARS = 240
_VALUE_CHARS = 200
_PRICES: Final = frozenset({"price", "cost", "amount", "msrp", "rrp"})
_CHARS_LOOKED_AT = 20_000


def title_of(text: str) -> str:
    """The first line that says something, cut at a word where it is long.

    Examples
    --------
    >>> title_of("<h1>Green eyes</h1><p>What avocados do for them.")
    'Green eyes'
    """
    line = next((line for line in plain_text(text[:_CHARS_LOOKED_AT]).split("\n") if line.strip()), "")
    return _cut(" ".join(line.split()), _TITLE_CHARS)


def shown_title(doc_id: str, text: str, stored_fields: Mapping[str, Any]) -> str:
    """The title of a document: a column of that name that is not searched, the first line of its text, or its id.

    Examples
    --------
    >>> shown_title("007", "From the hills.", {"price": 1.5, "Name": "Green tea"})
    'Green tea'
    """
    for name, value in stored_fields.items():
        if plain_name(name) in TITLES and isinstance(value, str) and value.strip():
            return _cut(" ".join(plain_text(value).split()), _TITLE_CHARS)
    return title_of(text) or doc_id


def shown_values(stored_fields: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, Any]:
    """Return the stored fields with these names, long texts shortened; without names, those that hold a price.

    Examples
    --------
    >>> shown_values({"Unit price": 1.5, "shelf": "B7"}), shown_values({"price": 1.5, "shelf": "B7"}, ["shelf"])
    ({'Unit price': 1.5}, {'shelf': 'B7'})
    """
    if names is None:
        names = [name for name in stored_fields if _is_price(plain_name(name))]
    few = {name: stored_fields[name] for name in names if name in stored_fields}
    return {name: _shown(value) for name, value in few.items()}


def _shown(value: Any) -> Any:
    return _cut(plain_text(value), _VALUE_CHARS) if isinstance(value, str) else value


def _is_price(name: str) -> bool:
    return name in _PRICES or name.endswith("_price") or name.startswith("price_")


def passage_of(text: str, stems: Sequence[str]) -> str:
    """About 240 characters around the most different words of the query; after the title where there is none of them.

    ``stems`` are the tokens of the model; a word of the text that begins with one counts.

    Examples
    --------
    >>> passage_of("Green eyes\\nWhat avocados do for them.", ["avocado"])
    'What avocados do for them.'
    """
    text = plain_text(text[:_CHARS_LOOKED_AT])
    first_line, _, rest = text.lstrip().partition("\n")
    body = " ".join((rest if rest.strip() else first_line).split())
    if len(body) <= _PASSAGE_CHARS:
        return body
    start = _best_start(body, stems)
    return ("…" if start else "") + _cut(body[start:], _PASSAGE_CHARS)


def _best_start(body: str, stems: Sequence[str]) -> int:
    """Return where a window with the most different stems begins, a little before the first of them."""
    longest_first = sorted({stem.lower() for stem in stems if stem}, key=len, reverse=True)
    if not longest_first:
        return 0
    stem_of_word = re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})", re.IGNORECASE)
    matches = [(match.start(), match[0].lower()) for match in stem_of_word.finditer(body)]
    inside: Counter[str] = Counter()
    different, best, best_start, left = 0, 0, 0, 0
    for offset, stem in matches:
        different += not inside[stem]
        inside[stem] += 1
        while offset - matches[left][0] > _PASSAGE_CHARS - 60:
            inside[matches[left][1]] -= 1
            different -= not inside[matches[left][1]]
            left += 1
        if different > best:
            best, best_start = different, matches[left][0]
            if best == len(longest_first):
                break
    if best_start < 60:
        return 0
    return body.rfind(" ", 0, best_start - 30) + 1


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = text.rfind(" ", most // 2, most)
    return text[: end if end > 0 else most - 1].rstrip() + "…"
