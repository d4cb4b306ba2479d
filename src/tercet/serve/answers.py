"""Answers to readers: lists, reasons, and the effect of an action."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from tercet.data.taught import Pair
from tercet.fitting.text_model import pair_name, past_name
from tercet.search import BaseIndex, Hit, Results
from tercet.search.filtering import Where
from tercet.serve.facets import COUNTED, facets
from tercet.serve.served import Served, text_model
from tercet.serve.snippets import Cards
from tercet.text.analyzer import Analyzer

Mixed: TypeAlias = Callable[[Sequence[str], int, bool, Where | None], Sequence[str] | None]

_COMPARED_RANKS: Final = 100  # depth at which the rank of a document in the other list is looked up
_EXAMPLES, _EXAMPLE_CHARS = 3, 40  # queries on the start page, and the most characters of a query
_PLAIN_NAME: Final = "index"  # folder name that says nothing about the collection


def search(
    served: Served,
    query: str,
    k: int,
    *,
    everything: bool = False,
    compare: bool = False,
    with_facets: bool = False,
    where: Where | None = None,
    mixed: Mixed | None = None,
    shown_fields: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the learned list, with ``compare`` the list of the baseline, and with ``with_facets`` values for filters.

    The learned list ends at the last match unless ``everything`` is set. ``mixed`` may replace the ids of the learned
    list; scores stay those of the version.
    """
    compares = compare and served.compared
    depth = max(k, _COMPARED_RANKS if compares else 0, COUNTED if with_facets else 0)
    learned = served.index.search(query, depth, cutoff=not everything, where=where)
    mixture = None if mixed is None else mixed([hit.doc_id for hit in learned[:k]], k, everything, where)
    hits = learned[:k] if mixture is None else _hits_of(served, query, learned, mixture)
    plain = served.baseline.search(query, depth, cutoff=False, where=where) if compares else Results()
    cards = Cards(words_of(served, query), shown_fields)
    listed = [_entry(cards, hit, rank) for rank, hit in enumerate(hits, 1)]
    plain_listed = [_entry(cards, hit, rank) for rank, hit in enumerate(plain[:k], 1)]
    plain_ranks = {hit.doc_id: rank for rank, hit in enumerate(plain, 1)}
    for entry in listed:
        before = plain_ranks.get(entry["id"])
        entry["baseline_rank"], entry["moved"] = before, None if before is None else before - entry["rank"]
    if plain_listed:
        ranks = {hit.doc_id: rank for order in (learned, hits) for rank, hit in enumerate(order, 1)}
        for entry in plain_listed:
            entry["learned_rank"] = ranks.get(entry["id"])
    return {
        "query": query,
        "k": k,
        "version": served.version,
        "unknown": list(learned.unknown),
        "stop_words": served.model.query_vectorizer.stop_words_in(query),
        "compared": compares,
        "left_off": max(0, min(k, len(learned) + learned.left_off) - len(listed)),
        "interleaved": mixture is not None,
        "exact": learned.exact,
        "learned": listed,
        "baseline": plain_listed,
        "baseline_name": served.baseline_name,
        "where": dict(where or {}),
        "facets": facets(served.index, query, learned, everything, where or {}) if with_facets else [],
        "index": served.index_label,
    }


def _entry(cards: Cards, hit: Hit, rank: int) -> dict[str, Any]:
    card = cards.card(hit.doc_id, hit.kept_text or "", hit.stored_fields)
    sure = {} if hit.confidence is None else {"confidence": hit.confidence}
    return {"id": hit.doc_id, "rank": rank, "score": hit.score, **sure, **card}


def _hits_of(served: Served, query: str, listed: Sequence[Hit], doc_ids: Sequence[str]) -> list[Hit]:
    """Return documents in this order as hits of a query; ``listed`` has some of the hits."""
    hits = {hit.doc_id: hit for hit in listed}
    missing = [doc_id for doc_id in doc_ids if doc_id not in hits]
    hits |= {hit.doc_id: hit for hit in served.index.hits_of(served.model.queries([query]), missing)} if missing else {}
    return [hits[doc_id] for doc_id in doc_ids]


def rank(served: Served, query: str, doc_ids: Sequence[str], n_reasons: int) -> dict[str, Any]:
    """Return documents of another engine in the learned order; ties keep the given order."""
    ids = [doc_id for doc_id in dict.fromkeys(doc_ids) if doc_id in served.index]
    hits = served.index.hits_of(served.model.queries([query]), ids) if ids else []
    hits.sort(key=lambda hit: -hit.score)
    ranked = [
        {"id": hit.doc_id, "rank": position, "score": hit.score, "reasons": _reasons_of(hit, n_reasons)}
        for position, hit in enumerate(hits, 1)
    ]
    missing = [doc_id for doc_id in dict.fromkeys(doc_ids) if doc_id not in served.index]
    return {"query": query, "ranked": ranked, "missing": missing, "version": served.version}


def _reasons_of(hit: Hit, n: int) -> list[str]:
    if not n:
        return []
    why = hit.why
    named = [(past_name(reason), reason.contribution) for reason in why.past]
    named += [(pair_name(query_word, doc_word), amount) for query_word, doc_word, amount in why.pairs]
    strongest = sorted(named, key=lambda reason: -abs(reason[1]))[:n]
    return [f"{name} {amount:+.2f}" for name, amount in strongest]


def effect(before: Served, after: Served, query: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the changes of ranks for the pairs of an action, from one version to another."""
    row = after.model.queries([query])
    docs = [doc for doc in dict.fromkeys(doc for pair in pairs for doc in pair) if doc in after.index]
    scores = {hit.doc_id: hit.score for hit in after.index.hits_of(row, docs)}
    pairs = [pair for pair in pairs if pair[0] in scores and pair[1] in scores]
    ahead = all(scores[better] > scores[worse] for better, worse in pairs)
    then, now = _ranks_of(before, query), _ranks_of(after, query)
    ranks = [{"id": doc, "before": then.get(doc), "after": now.get(doc)} for doc in docs]
    moves = [_move(doc, then.get(doc), now.get(doc)) for doc in docs if then.get(doc) != now.get(doc)]
    summary = f"{'; '.join(moves[:4])}." if moves else "The order is the same."
    if not ahead and not row.nnz:
        summary += " The model knows no word of the query."
    elif not ahead and all(has_same_words(after, *pair) for pair in pairs):
        summary += " The model sees the same words in both, so it cannot tell them apart."
    elif not ahead:
        summary += " It counts, but not enough: one action may change only so much."
    return {"ahead": ahead, "said": summary, "ranks": ranks}


def has_same_words(served: Served, doc: str, other_doc: str) -> bool:
    """Return True if two documents have the same row in the index."""
    return bool(abs(served.index.row(doc) - served.index.row(other_doc)).sum() == 0)


def _ranks_of(served: Served, query: str) -> dict[str, int]:
    hits = served.index.search_row(served.model.queries([query]), _COMPARED_RANKS)
    return {hit.doc_id: rank for rank, hit in enumerate(hits, 1)}


def _move(doc: str, before: int | None, after: int | None) -> str:
    then, now = (f"below rank {_COMPARED_RANKS}" if rank is None else f"rank {rank}" for rank in (before, after))
    return f"{doc} went from {then} to {now}"


def words_of(served: Served, text: str) -> list[str]:
    """Tokenize a text like a query."""
    analyze = served.model.query_vectorizer.analyzer or Analyzer()
    return analyze(text)


def explain(
    served: Served, index: BaseIndex, query: str, doc_id: str, versus: str | None, n_reasons: int
) -> dict[str, Any]:
    """Return the past queries and word pairs behind a score or a difference of scores, and the sum of the rest."""
    why = index.explain(query, doc_id) if versus is None else index.versus(query, doc_id, versus)
    amounts = [*(past.contribution for past in why.past[n_reasons:]), *(c for _, _, c in why.pairs[n_reasons:])]
    return {
        "score": why.score,
        "past": [
            {"query": past.text, "similarity": past.similarity, "times": past.times, "contribution": past.contribution}
            for past in why.past[:n_reasons]
        ],
        "pairs": [{"query_word": a, "doc_word": b, "contribution": c} for a, b, c in why.pairs[:n_reasons]],
        "rest": {"count": len(amounts), "contribution": math.fsum(amounts)},
        "unknown": list(why.unknown),
        "version": served.version,
    }


def document(index: BaseIndex, doc_id: str) -> dict[str, Any]:
    """Return a document as it was indexed."""
    text, stored_fields = index.text(doc_id), index.stored_fields(doc_id)
    title = Cards().card(doc_id, text, stored_fields)["title"]
    return {"id": doc_id, "title": title, "text": text, "stored_fields": stored_fields}


def collection(served: Served, name: str) -> dict[str, Any]:
    """Return name and size of the collection, and the short queries with the largest gains by the model's report."""
    report = text_model(served.base).report
    details = None if report is None else report.details
    gains = () if details is None or details.by_query is None else details.by_query.gains
    helped = [gain.text.strip().rstrip(".?!") for gain in gains]
    short = [query for query in helped if len(query) <= _EXAMPLE_CHARS and served.base.search(query, 1)]
    return {
        "name": (details.name if details is not None else "") or ("" if name == _PLAIN_NAME else name),
        "documents": len(served.base),
        "baseline_name": served.baseline_name,
        "examples": short[:_EXAMPLES],
    }
