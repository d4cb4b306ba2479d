"""What readers ask of a version: two lists side by side, reasons, neighbours of a word."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tercet.search import BaseIndex, Hit, Results
from tercet.serve.learner import Version
from tercet.serve.replay import text_model
from tercet.serve.snippets import passage_of, title_of
from tercet.text.analyser import Analyser
from tercet.weights import Identity, Weights

_RANKS_KNOWN = 100  # how far down a list it is looked where the other list has a document
_HASTY_TERMS = 8  # words by which candidates are looked for when the time is up before the search has begun


class Deadline:
    """A moment after which only what is ready is given."""

    def __init__(self, started: float, milliseconds: float) -> None:
        self.started, self._at = started, started + milliseconds / 1000

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at

    @property
    def took_ms(self) -> float:
        return round((time.monotonic() - self.started) * 1000, 3)


class Baseline:
    """What learned lists are shown against: the same vectors, each word matching itself alone.

    Where queries and documents have vocabularies of their own no word matches itself; then it is the model as it was
    before it learned online.
    """

    def __init__(self, base: BaseIndex) -> None:
        model = text_model(base)
        n, m = model.weights.shape
        self.name, self.index = "base model", base
        if n == m:
            self.name = {"bm25": "BM25", "tfidf": "tf-idf"}[model.query_vectoriser.weighting]
            self.index = base.with_model(replace(model, weights=Weights([Identity(n_terms=n)])))


def search(version: Version, baseline: Baseline, query: str, k: int, deadline: Deadline) -> dict[str, Any]:
    """Both lists. When the deadline passes before the second, it is left out; before the first, that is looked for by
    a few words only. Either makes the answer partial.
    """
    depth = max(k, _RANKS_KNOWN)
    hurried = deadline.passed
    words = version.model.query_vectoriser
    row = version.model.queries([query])
    learned = version.index.search_row(row, depth, _HASTY_TERMS if hurried else None)
    late = deadline.passed
    plain = Results() if late else baseline.index.search_row(row, depth)
    learned_ranks, plain_ranks = ({hit.doc_id: rank for rank, hit in enumerate(hits, 1)} for hits in (learned, plain))
    stems = words_of(version, query)
    shown: dict[str, dict[str, str]] = {}
    learned_list, plain_list = [], []
    for rank, hit in enumerate(learned[:k], 1):
        before = plain_ranks.get(hit.doc_id)
        moved = None if before is None else before - rank
        learned_list.append(_shown(hit, rank, stems, shown) | {"baseline_rank": before, "moved": moved})
    for rank, hit in enumerate(plain[:k], 1):
        plain_list.append(_shown(hit, rank, stems, shown) | {"learned_rank": learned_ranks.get(hit.doc_id)})
    return {
        "query": query,
        "k": k,
        "version": version.name,
        "unknown": words.unknown_words(query),
        "exact": learned.exact,
        "partial": late or not learned.exact,
        "took_ms": deadline.took_ms,
        "learned": learned_list,
        "baseline": plain_list,
        "baseline_name": baseline.name,
    }


def words_of(version: Version, text: str) -> list[str]:
    """The words of a text as the model cuts queries."""
    analyse = version.model.query_vectoriser.analyser or Analyser()
    return analyse(text)


def _shown(hit: Hit, rank: int, stems: list[str], known: dict[str, dict[str, str]]) -> dict[str, Any]:
    if hit.doc_id not in known:
        text = hit.kept_text or ""
        known[hit.doc_id] = {"title": title_of(text) or hit.doc_id, "snippet": passage_of(text, stems)}
    return {"id": hit.doc_id, "rank": rank, "score": hit.score} | known[hit.doc_id]


def explain(
    version: Version, index: BaseIndex, query: str, doc_id: str, versus: str | None, n_pairs: int
) -> dict[str, Any]:
    """The pairs of words behind a score, or behind the difference of two; those not listed are added up."""
    why = index.explain(query, doc_id) if versus is None else index.versus(query, doc_id, versus)
    rest = why.pairs[n_pairs:]
    return {
        "score": why.score,
        "pairs": [{"query_word": a, "doc_word": b, "contribution": c} for a, b, c in why.pairs[:n_pairs]],
        "rest": {"count": len(rest), "contribution": math.fsum(c for _, _, c in rest)},
        "unknown": list(why.unknown),
        "version": version.name,
    }


def related(version: Version, word: str, k: int) -> dict[str, Any]:
    """The document words that count most for a query word, and how the model spells that word."""
    words_and_weights = [{"word": other, "weight": weight} for other, weight in version.model.related(word, k)]
    words = version.model.query_vectoriser
    known_as = word if word in words.index_ else words.words_[int(version.model.queries([word]).indices[0])]
    return {"word": word, "known_as": known_as, "related": words_and_weights, "version": version.name}


def document(index: BaseIndex, doc_id: str) -> dict[str, Any]:
    text = index.text(doc_id)
    return {"id": doc_id, "title": title_of(text) or doc_id, "text": text}


def learned(version: Version, history: Sequence[Mapping[str, Any]], limit: int) -> dict[str, Any]:
    """All that was learned online: the pairs of words that changed, and the entries behind them."""
    return {
        "version": version.name,
        "digest": version.digest,
        "total_pairs": int(version.overlay.nnz),
        "pairs": [
            {"query_word": a, "doc_word": b, "weight": weight, "entries": list(entries)}
            for a, b, weight, entries in version.strongest(limit)
        ],
        "entries": list(history),
    }
