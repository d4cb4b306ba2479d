"""What is searched, and queries to begin with: those that learning helped most."""

from __future__ import annotations

from typing import Any, Final

from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex
from tercet.serve.served import text_model

_EXAMPLES: Final = 3
_WORDS, _CHARS = 5, 40  # of an example, at most
_FOUND: Final = 3  # documents that it finds, at least
_PLAIN: Final = "index"  # a folder's name that says nothing of what is in it


def collection(index: BaseIndex, name: str, baseline_name: str) -> dict[str, Any]:
    """What is searched, and three queries to begin with."""
    report = text_model(index).report
    data = "" if report is None or report.details is None else report.details.name
    return {
        "name": data or ("" if name == _PLAIN else name),
        "documents": len(index),
        "baseline_name": baseline_name,
        "examples": example_queries(index),
    }


def example_queries(index: BaseIndex) -> list[str]:
    """Queries that find something, each of other words than those before it."""
    model = text_model(index)
    examples: list[str] = []
    used: set[int] = set()
    for query in _candidates(model):
        if len(examples) == _EXAMPLES:
            break
        columns = set(model.queries([query]).indices.tolist())
        is_short = len(query.split()) <= _WORDS and len(query) <= _CHARS
        if is_short and columns and not columns & used and len(index.search(query, _FOUND)) == _FOUND:
            examples.append(query)
            used |= columns
    return examples


def _candidates(model: TextModel) -> list[str]:
    """Return the queries that learning helped most, those of several words first."""
    details = None if model.report is None else model.report.details
    gains = () if details is None or details.by_query is None else details.by_query.gains
    helped = [gain.text.strip().rstrip(".?!") for gain in gains]
    return sorted(helped, key=lambda query: model.queries([query]).nnz < 2)
