"""What is searched, and queries to begin with: those that learning helped most, or phrases of the documents."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any, Final

from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.search import BaseIndex
from tercet.serve.served import text_model

_EXAMPLES: Final = 3
_WORDS, _CHARS = 5, 40  # of an example, at most
_FOUND: Final = 3  # documents that it finds, at least
_TEXTS, _TEXT_CHARS, _IDS = 1_500, 300, 50_000  # texts looked at, how far, and among how many documents
_LARGEST_SHARE: Final = 0.04  # of the documents that may have a word of a phrase
_ALWAYS_TELLING: Final = 20  # documents with a word, so few that it tells something in any collection
_TOGETHER: Final = 0.5  # of the texts with a word of a phrase, those that have all of it, at most
_PHRASES: Final = 60  # that are tried
_PLAIN: Final = "index"  # a folder's name that says nothing of what is in it
_WORD = re.compile(r"[^\W\d_]{3,}")


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
    for query in _candidates(index, model):
        if len(examples) == _EXAMPLES:
            break
        columns = set(model.queries([query]).indices.tolist())
        is_short = len(query.split()) <= _WORDS and len(query) <= _CHARS
        if is_short and columns and not columns & used and len(index.search(query, _FOUND)) == _FOUND:
            examples.append(query)
            used |= columns
    return examples


def _candidates(index: BaseIndex, model: TextModel) -> Iterator[str]:
    details = None if model.report is None else model.report.details
    gains = () if details is None or details.by_query is None else details.by_query.gains
    helped = [gain.text.strip().rstrip(".?!") for gain in gains]
    yield from (query for query in helped if model.queries([query]).nnz > 1)
    yield from _phrases(index, model)
    yield from helped


def _phrases(index: BaseIndex, model: TextModel) -> Iterator[str]:
    """Pairs of words that stand side by side more often than chance has it, the most telling first; then single words.

    By n log(n N / (a b)): n of N texts have the pair, a and b of them its words. A pair whose words hardly occur
    without each other is part of a formula that many texts repeat.
    """
    words = model.query_vectoriser
    most = max(_ALWAYS_TELLING, _LARGEST_SHARE * len(index))
    step = max(1, min(len(index), _IDS) // _TEXTS)
    singles: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    n_texts = 0
    for doc_id in islice(index, 0, _IDS, step):
        try:
            text = index.text(doc_id)[:_TEXT_CHARS]
        except InputError:  # no texts are kept
            return
        n_texts += 1
        matches = list(_WORD.finditer(text))
        singles.update({match[0].lower() for match in matches})
        pairs.update(
            {
                (one[0].lower(), other[0].lower())
                for one, other in pairwise(matches)
                if text[one.end() : other.start()] == " "
            }
        )

    def is_telling(word: str) -> bool:
        columns = model.queries([word]).indices
        return len(columns) == 1 and words.document_frequency_[columns[0]] <= most

    def strength(pair: tuple[str, str], n: int) -> float:
        return n * math.log(n * n_texts / (singles[pair[0]] * singles[pair[1]]))

    def is_phrase(pair: tuple[str, str], n: int) -> bool:
        return n > 1 and pair[0] != pair[1] and n <= _TOGETHER * min(singles[word] for word in pair)

    shared = [(strength(pair, n), pair) for pair, n in pairs.items() if is_phrase(pair, n)]
    telling = (pair for _, pair in sorted(shared, key=lambda item: (-item[0], item[1])) if all(map(is_telling, pair)))
    yield from (" ".join(pair) for pair in islice(telling, _PHRASES))
    yield from islice((word for word, _ in singles.most_common() if is_telling(word)), _PHRASES)
