"""One query as boosted clauses of Lucene's query-string syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tercet._validate import check_integer
from tercet.engines.certified import positive_query
from tercet.engines.impacts import folded_names
from tercet.engines.weighting import own_weight, rarity_left_to_engine
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.search.scorer import ExactScores, Scorer

_BARE: Final = re.compile(r"\w+")
_OPERATORS: Final = frozenset({"AND", "OR", "NOT", "TO"})
_FIELD: Final = re.compile(r"[\w.]+")
_ALL_DIGITS: Final = 9  # which tell all float32 numbers apart


@dataclass(frozen=True)
class BoostedQuery:
    """A query in an engine's words.

    Attributes
    ----------
    text : the clauses, as in ``(hockey^1.2 OR puck^0.4)``; empty where no word has a positive weight
    clauses : (word, boost), largest first; then those of latent components, in order
    negative : (word, boost) below zero, most negative first; boosts cannot be negative, so they are not in ``text``
    n_left_out : further words of positive weight, beyond ``max_terms``
    share : of the sum of all weights by size, what ``clauses`` hold
    unknown : words of the query that the model does not know

    Examples
    --------
    >>> query = BoostedQuery("(ice^1.2)", (("ice", 1.2),), (("fire", -0.5),), n_left_out=0, share=0.7, unknown=())
    >>> query.text, query.negative
    ('(ice^1.2)', (('fire', -0.5),))
    """

    text: str
    clauses: tuple[tuple[str, float], ...]
    negative: tuple[tuple[str, float], ...]
    n_left_out: int
    share: float
    unknown: tuple[str, ...]


def boosted_query(
    model: TextModel,
    query: str,
    *,
    max_terms: int | None = 32,
    field: str | None = None,
    index: Literal["bm25", "impact", "folded"] = "bm25",
    digits: int = 4,
) -> BoostedQuery:
    """Expand a query by what was learned and write it for Lucene, Solr or Elasticsearch (``query_string``).

    Parameters
    ----------
    model : a text model
    query : its text
    max_terms : most clauses, those of largest boost; the others are counted. None keeps all
    field : to search in, as in ``body:(…)``
    index : what the engine multiplies boosts with: its own ``"bm25"`` score of a word, the ``"impact"`` that our
        document vectors hold, or those of ``"folded"`` documents, where low-rank parts have clauses of their own, all
        of which are kept
    digits : of a boost

    Notes
    -----
    With BM25 the boosts of a model that learned nothing are all 1, times how often a word is in the query.

    Examples
    --------
    >>> from tercet import TextModel, Vectoriser, Weights
    >>> from tercet.weights import Identity
    >>> words = Vectoriser(weighting="bm25").fit(["ice hockey", "puck"])
    >>> boosted_query(TextModel(words, words, Weights([Identity(n_terms=3)])), "hockey puck").text
    '(hockey^1 OR puck^1)'
    """
    model.check_words_only("a boosted query")
    if max_terms is not None:
        check_integer(max_terms, "max_terms")
    check_integer(digits, "digits")
    if field is not None and not _FIELD.fullmatch(field):
        raise InputError(f"field must be a name of letters, digits, _ and dots; got {field!r}")
    if index not in ("bm25", "impact", "folded"):
        raise InputError(f"index must be 'bm25', 'impact' or 'folded'; got {index!r}")
    row = model.queries([query])
    boosts = np.zeros(model.weights.shape[1])
    latent: list[tuple[str, float]] = []
    if row.nnz and index == "folded":
        scorer = Scorer(model.weights)
        [expanded_row] = scorer.expand(row)
        words_asked = ExactScores(scorer, expanded_row)
        boosts[words_asked.terms] = words_asked.totals
        latent = _latent_clauses(model, np.hstack([np.empty((1, 0)), *expanded_row.latent])[0])
    elif row.nnz:
        expanded = model.weights.expand(row)
        boosts[expanded.indices] = expanded.data
        if index == "bm25":
            boosts *= rarity_left_to_engine(model.doc_vectoriser)
            # One occurrence of a word that nothing was learned about is 1; a query's length changes no order.
            once = row.data.astype(np.float64) * rarity_left_to_engine(model.query_vectoriser)[row.indices]
            boosts /= once.min() * own_weight(model)
    words = model.doc_vectoriser.words_
    order = np.lexsort((np.arange(boosts.size), -boosts))
    positive, negative = order[boosts[order] > 0], order[::-1][boosts[order[::-1]] < 0]
    kept = positive[:max_terms]
    clauses = (*((words[j], float(boosts[j])) for j in kept), *latent)
    text = " OR ".join(f"{quoted(word)}^{written_boost(boost, digits)}" for word, boost in clauses)
    total = float(np.abs(boosts).sum()) + sum(boost for _, boost in latent)
    return BoostedQuery(
        text="" if not clauses else f"{field}:({text})" if field else f"({text})",
        clauses=clauses,
        negative=tuple((words[j], float(boosts[j])) for j in negative),
        n_left_out=positive.size - kept.size,
        share=sum(boost for _, boost in clauses) / total if total else 1.0,
        unknown=tuple(model.query_vectoriser.unknown_words(query)),
    )


def _latent_clauses(model: TextModel, u: NDArray[np.float64]) -> list[tuple[str, float]]:
    """For each component the feature of its sign, which adds ``|u_c| s_c`` to what it counts."""
    names = folded_names(model.doc_vectoriser.words_, u.size)
    return [(names[2 * c + (u[c] < 0)], abs(float(u[c]))) for c in np.flatnonzero(u)]


def positive_query_string(model: TextModel, text: str, field: str | None = None) -> BoostedQuery:
    """`positive_query` in Lucene's query-string syntax, for documents exported as impacts.

    Parameters
    ----------
    model : without low-rank parts; thin it first
    text : the query
    field : to search in, as in ``body:(…)``

    Examples
    --------
    >>> from tercet import TextModel, Vectoriser, Weights
    >>> from tercet.weights import Identity
    >>> words = Vectoriser().fit(["ice hockey"])
    >>> positive_query_string(TextModel(words, words, Weights([Identity(n_terms=2)])), "ice", "body").text
    'body:(ice^1)'
    """
    positive_query(model, text)  # refuses what words cannot bound
    return boosted_query(model, text, max_terms=None, field=field, index="impact", digits=_ALL_DIGITS)


def written_boost(boost: float, digits: int = 4) -> str:
    """A boost to a few digits, without an exponent, which the grammar of query strings does not have.

    Examples
    --------
    >>> written_boost(1.0), written_boost(0.48376), written_boost(2.5e-7)
    ('1', '0.4838', '0.00000025')
    """
    return np.format_float_positional(boost, precision=digits, fractional=False, trim="-")


def quoted(word: str) -> str:
    """A word as it stands in a query string: in quotes unless it is plain, so that nothing in it is an operator.

    Examples
    --------
    >>> quoted("puck"), quoted("c++"), quoted("OR")
    ('puck', '"c++"', '"OR"')
    """
    if _BARE.fullmatch(word) and word not in _OPERATORS:
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
