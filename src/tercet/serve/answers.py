"""What readers ask of a version: two lists side by side, reasons, neighbours of a word."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from scipy import sparse

from tercet.search import BaseIndex, Hit, Results
from tercet.search.filtering import Where
from tercet.serve.facets import facets
from tercet.serve.learner import Version
from tercet.serve.replay import VoteOutcome, text_model
from tercet.serve.snippets import passage_of, shown_title, shown_values
from tercet.text.analyser import Analyser
from tercet.weights import Identity, Weights
from tercet.weights.value import unit_of

Mixed: TypeAlias = Callable[[Sequence[str], int, bool, Where | None], Sequence[str] | None]

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

    A word counts as much as the model's own identity counts it, or as its usual weight on itself where it has none, so
    that the scores of both lists are on one scale: they differ by what was learned. Where queries and documents have
    vocabularies of their own no word matches itself; then it is the model as it was before it learned online.
    """

    def __init__(self, base: BaseIndex) -> None:
        model = text_model(base)
        n, m = model.weights.shape
        self.name, self.index = "base model", base
        if n == m:
            self.name = {"bm25": "BM25", "tfidf": "tf-idf"}[model.query_vectoriser.weighting]
            scale = sum(part.scale for part in model.weights.parts if isinstance(part, Identity))
            identity = Identity(n_terms=n, scale=scale if scale > 0 else unit_of(model.weights))
            self.index = base.with_model(replace(model, weights=Weights([identity]), memory=None))

    def differs(self, version: Version) -> bool:
        """Whether a version has learned anything: BM25 beside BM25 is no comparison."""
        if self.index is version.index:
            return False
        return any(not isinstance(part, Identity) for part in version.model.weights.parts)


def search(
    version: Version,
    baseline: Baseline,
    query: str,
    k: int,
    deadline: Deadline,
    everything: bool = False,
    where: Where | None = None,
    mixed: Mixed | None = None,
) -> dict[str, Any]:
    """Both lists, each down to its last match unless everything is wanted; one where nothing has been learned.

    With ``where`` they are the best of the documents that carry these values.

    When the deadline passes before the second, it is left out; before the first, that is looked for by a few words
    only. Either makes the answer partial. ``mixed`` may put others in the place of the ids of the learned list, as long
    as there is time; scores stay those of the version.
    """
    depth = max(k, _RANKS_KNOWN)
    hurried = deadline.passed
    words = version.model.query_vectoriser
    row = version.model.queries([query])
    compared = baseline.differs(version)
    learned = version.index.search_row(row, depth, _HASTY_TERMS if hurried else None, not everything, where)
    served_ids = [hit.doc_id for hit in learned[:k]]
    mixture = None if mixed is None or deadline.passed else mixed(served_ids, k, everything, where)
    shown_hits = learned[:k] if mixture is None else _hits_of(version, row, learned, mixture)
    late = deadline.passed and compared
    plain = Results() if late or not compared else baseline.index.search_row(row, depth, where=where)
    learned_ranks, plain_ranks = ({hit.doc_id: rank for rank, hit in enumerate(hits, 1)} for hits in (learned, plain))
    learned_ranks |= {hit.doc_id: rank for rank, hit in enumerate(shown_hits, 1)}
    stems = words_of(version, query)
    shown: dict[str, dict[str, Any]] = {}
    learned_list, plain_list = [], []
    for rank, hit in enumerate(shown_hits, 1):
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
        "stop_words": words.stop_words_in(query),
        "compared": compared,
        "left_off": max(0, min(k, len(learned) + learned.left_off) - len(learned_list)),
        "interleaved": mixture is not None,
        "exact": learned.exact,
        "partial": late or not learned.exact,
        "took_ms": deadline.took_ms,
        "learned": learned_list,
        "baseline": plain_list,
        "baseline_name": baseline.name,
        "where": dict(where or {}),
        "facets": []
        if deadline.passed
        else facets(version.index, row, learned, everything, where or {}, lambda: deadline.passed),
    }


def _hits_of(version: Version, row: sparse.csr_array, known: Sequence[Hit], doc_ids: Sequence[str]) -> list[Hit]:
    """Documents in this order as hits of a query, by the scores of a version; some are known already."""
    hits = {hit.doc_id: hit for hit in known}
    others = [doc_id for doc_id in doc_ids if doc_id not in hits]
    hits |= {hit.doc_id: hit for hit in version.index.hits_of(row, others)} if others else {}
    return [hits[doc_id] for doc_id in doc_ids]


def effect(
    before: Version,
    after: Version,
    query: str,
    better: Sequence[str],
    worse: str | None,
    outcomes: Sequence[VoteOutcome],
    rival: Sequence[VoteOutcome] | None = None,
) -> dict[str, Any]:
    """What a preference changed between two versions, or what clicks did: then there is no one document that is worse.

    ``outcomes`` has one for each vote, and clicks vote once for each document that was passed over. ``rival`` has those
    of the model with which lists are shared, none where they are not known, and is None where no lists are shared.
    """
    doc_ids = [*better, *([] if worse is None else [worse])]
    ranks = [
        {"id": doc_id, "before": then, "after": now}
        for doc_id, then, now in zip(
            doc_ids, _ranks_of(before, query, doc_ids), _ranks_of(after, query, doc_ids), strict=True
        )
    ]
    reasons = [outcome.reason for outcome in outcomes]
    n_ahead = sum(outcome.is_ahead for outcome in outcomes)
    if not outcomes:
        said = "Nothing changed: no document above what was clicked was passed over."
    elif worse is None:
        said = f"{n_ahead} of {len(outcomes)} documents that were passed over are behind what was clicked now."
    elif reasons[0] == "learned":
        said = f"It {_move(ranks[0])}, the other one {_move(ranks[1])}."
    else:
        said = _WHY[reasons[0]]
    if "allowance" in reasons:
        said += _renewal(max(outcome.renewed_in for outcome in outcomes))
    if rival is not None and outcomes:
        said = f"In the list of the model that is served: {said[0].lower()}{said[1:]} {_mixture(rival)}"
    return {
        "reason": _reason_of(outcomes) or "ahead",
        "ahead": n_ahead == len(outcomes),
        "interleaved": rival is not None,
        "said": said,
        "ranks": ranks,
    }


def _reason_of(outcomes: Sequence[VoteOutcome]) -> str | None:
    reasons = [outcome.reason for outcome in outcomes]
    return "learned" if "learned" in reasons else reasons[0] if reasons else None


def _mixture(rival: Sequence[VoteOutcome]) -> str:
    """What became of it in the other half of a shared list, which is what somebody sees."""
    reason = _reason_of(rival)
    if reason is None:
        became = "learns nothing, or has not learned it yet"
    elif reason == "learned":
        became = "has learned it as well"
    else:
        became = "had it ahead as well" if reason == "ahead" else "did not change by it"
    return f"Lists that are shown are mixed with those of another model, which {became}."


_WHY = {
    "ahead": "It was ahead already, so nothing had to change.",
    "same": "Nothing changed: the model sees the same words in both, so it cannot tell them apart.",
    "unknown": "Nothing changed: the model knows no word of the query, or a document is gone.",
    "cancelled": "It has no effect: others say the opposite, and count as much.",
    "outvoted": "It has no effect: more of the others say the opposite.",
    "allowance": "It has little or no effect: your allowance of changes is spent.",
    "bounded": "It counts, but not enough: one preference may change only so much.",
}


def _ranks_of(version: Version, query: str, doc_ids: Sequence[str]) -> list[int | None]:
    hits = version.index.search_row(version.model.queries([query]), _RANKS_KNOWN)
    ranks = {hit.doc_id: rank for rank, hit in enumerate(hits, 1)}
    return [ranks.get(doc_id) for doc_id in doc_ids]


def _move(ranks: Mapping[str, Any]) -> str:
    before, after = ranks["before"], ranks["after"]
    beyond = f"below rank {_RANKS_KNOWN}"
    if before == after:
        return f"stays {beyond if after is None else f'at rank {after}'}"
    then, now = (beyond if rank is None else f"rank {rank}" for rank in (before, after))
    return f"went from {then} to {now}"


def _renewal(hours: float) -> str:
    if math.isinf(hours):
        return " It comes back when what was taught becomes part of a model."
    length = f"{math.ceil(hours * 60)} minutes" if hours < 1 else f"{math.ceil(hours)} hours"
    return f" It is whole again in {length}; say it again then."


def words_of(version: Version, text: str) -> list[str]:
    """Tokenise a text as the model tokenises queries."""
    analyse = version.model.query_vectoriser.analyser or Analyser()
    return analyse(text)


def _shown(hit: Hit, rank: int, stems: list[str], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if hit.doc_id not in known:
        text, stored_fields = hit.kept_text or "", hit.stored_fields
        known[hit.doc_id] = {
            "title": shown_title(hit.doc_id, text, stored_fields),
            "snippet": passage_of(text, stems),
            "stored_fields": shown_values(stored_fields),
        }
    return {"id": hit.doc_id, "rank": rank, "score": hit.score} | known[hit.doc_id]


def explain(
    version: Version, index: BaseIndex, query: str, doc_id: str, versus: str | None, n_pairs: int
) -> dict[str, Any]:
    """Pairs of words and past queries behind a score, or behind the difference of two; the rest is added up."""
    why = index.explain(query, doc_id) if versus is None else index.versus(query, doc_id, versus)
    reasons = why.reasons
    rest = reasons[n_pairs:]
    return {
        "score": why.score,
        "pairs": [{"query_word": a, "doc_word": b, "contribution": c} for a, b, c in reasons[:n_pairs]],
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
    text, stored_fields = index.text(doc_id), index.stored_fields(doc_id)
    return {
        "id": doc_id,
        "title": shown_title(doc_id, text, stored_fields),
        "text": text,
        "stored_fields": stored_fields,
    }


def learned(version: Version, history: Sequence[Mapping[str, Any]], limit: int, deadline: Deadline) -> dict[str, Any]:
    """All that was learned online: the pairs of words that changed, and the votes behind them."""
    strongest = version.strongest(limit, lambda: deadline.passed)
    return {
        "version": version.name,
        "digest": version.digest,
        "total_pairs": int(version.overlay.nnz),
        "pairs": [
            {"query_word": a, "doc_word": b, "weight": weight, "entries": behind.entries, "n_votes": behind.n_votes}
            for a, b, weight, behind in strongest.pairs
        ],
        "partial": not strongest.is_whole,
        "entries": list(history),
    }
