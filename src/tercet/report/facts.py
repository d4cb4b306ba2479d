"""The part of a page that says what was learned, and from what; and how numbers are shown on all of it."""

from __future__ import annotations

from typing import Any

from tercet.report.details import Details
from tercet.report.html import Html, element
from tercet.report.value import Report


def pairs_section(details: Details) -> Html:
    """The strongest learned pairs."""
    items = [
        element(
            "li",
            element("span", query_word, element("span", " → ", class_="soft"), doc_word, class_="words"),
            element("span", f"{weight:+.2f}", class_="weight " + ("good" if weight > 0 else "bad")),
        )
        for query_word, doc_word, weight in details.pairs
    ]
    return element(
        "section",
        element("h2", "Strongest learned pairs"),
        element(
            "p",
            "How much a word in a document counts for a word in the query, by weight times the rarity of both; each "
            "word once on each side.",
            class_="soft",
        ),
        element("ol", *items, class_="pairs"),
    )


_DATA_LABELS = {
    "kind": "kind",
    "n_docs": "documents",
    "n_texts": "texts",
    "n_queries": "queries in all",
    "n_judgements": "judgements learned from",
    "n_preferences": "preferences learned from",
    "n_classes": "classes",
    "n_words": "words",
    "mean_length": "words a document, mean",
    "cut": "cut into",
    "stop_words": "stop words",
    "stemmer": "stemmer",
    "ngrams": "words in a row",
}
_CHOSEN_LABELS = {
    "vectors": "start",
    "start": "first factors",
    "n_components": "components",
    "identity_weight": "identity weight",
    "blend": "identity added by blending",
    "scale_documents": "per-document scale",
}


def facts_section(report: Report) -> Html:
    """Facts of the data, the model and the settings, in blocks."""
    details = report.details
    data: list[tuple[str, object]] = [
        ("training queries", report.n_train),
        ("validation queries", report.n_validation),
        ("untouched queries", report.n_test),
    ]
    chosen: list[tuple[str, object]] = [("chosen by", report.measure)]
    chosen += _labelled(_CHOSEN_LABELS, report.chosen)
    blocks = []
    if details is not None:
        data = _labelled(_DATA_LABELS, details.data) + data
        chosen.append(("seed", details.random_state))
        size = details.size
        entries = size.n_query_words * size.n_doc_words
        blocks.append(
            _block(
                "Model",
                [
                    ("W", f"{size.n_query_words:,} × {size.n_doc_words:,}"),
                    ("parts", size.parts),
                    ("numbers stored", size.n_stored),
                    ("share of W's entries", f"{size.n_stored / entries:.2%}"),
                    ("bytes of weights", shown_bytes(size.n_bytes)),
                    ("density, W's entries not 0", f"{size.density:.2%}"),
                ],
            )
        )
    chosen.append(("seconds of learning", f"{report.seconds:.1f}"))
    blocks = [_block("Data", data), *blocks, _block("Settings", chosen)]
    return element(
        "section",
        element("h2", "Data, model and settings"),
        element("p", report.decision) if details is None else None,
        element("div", *blocks, class_="facts"),
    )


def _labelled(labels: dict[str, str], values: dict[str, Any]) -> list[tuple[str, object]]:
    """Known values in the order of their labels, then the others by name."""
    known = [(label, values[key]) for key, label in labels.items() if key in values]
    return known + [(key.replace("_", " "), values[key]) for key in sorted(values) if key not in labels]


def _block(title: str, facts: list[tuple[str, object]]) -> Html:
    rows = [element("div", element("dt", name), element("dd", shown_value(value))) for name, value in facts]
    return element("div", element("h3", title), element("dl", *rows))


def shown_value(value: object) -> str:
    """A value of a fact as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, list):
        return " to ".join(map(str, dict.fromkeys(value)))
    return str(value)


def shown_count(n: int, one: str, many: str) -> str:
    """How many of what."""
    return f"{n:,} {one if n == 1 else many}"


def shown_bytes(n: int) -> str:
    """A size as people read it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
