"""One query as boosted clauses of Lucene's query-string syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from tercet._validate import check_integer
from tercet.engines.weighting import own_weight, rarity_left_to_engine
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel

_BARE: Final = re.compile(r"\w+")
_OPERATORS: Final = frozenset({"AND", "OR", "NOT", "TO"})
_FIELD: Final = re.compile(r"[\w.]+")


@dataclass(frozen=True)
class BoostedQuery:
    """A query in an engine's words.

    Attributes
    ----------
    text : the clauses, as in ``(hockey^1.2 OR puck^0.4)``; empty where no word has a positive weight
    clauses : (word, boost), largest first
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
    digits: int = 4,
) -> BoostedQuery:
    """Expand a query by what was learned and write it for Lucene, Solr or Elasticsearch (``query_string``).

    Parameters
    ----------
    model : a text model
    query : its text
    max_terms : most clauses, those of largest boost; the others are counted. None keeps all
    field : to search in, as in ``body:(…)``
    digits : of a boost

    Notes
    -----
    With BM25 the boosts of a model that learned nothing are all 1, times how often a word is in the query.

    Examples
    --------
    >>> from tercet import TextModel, Vectorizer, Weights
    >>> from tercet.weights import Identity
    >>> words = Vectorizer(weighting="bm25").fit(["ice hockey", "puck"])
    >>> boosted_query(TextModel(words, words, Weights([Identity(n_terms=3)])), "hockey puck").text
    '(hockey^1 OR puck^1)'
    """
    model.check_words_only("a boosted query")
    if max_terms is not None:
        check_integer(max_terms, "max_terms")
    check_integer(digits, "digits")
    if field is not None and not _FIELD.fullmatch(field):
        raise InputError(f"field must be a name of letters, digits, _ and dots; got {field!r}")
    row = model.queries([query])
    boosts = np.zeros(model.weights.shape[1])
    if row.nnz:
        expanded = model.weights.expand(row)
        boosts[expanded.indices] = expanded.data
        boosts *= rarity_left_to_engine(model.doc_vectorizer)
        # One occurrence of a word that nothing was learned about is 1; a query's length changes no order.
        once = row.data.astype(np.float64) * rarity_left_to_engine(model.query_vectorizer)[row.indices]
        boosts /= once.min() * own_weight(model)
    words = model.doc_vectorizer.words_
    order = np.lexsort((np.arange(boosts.size), -boosts))
    positive, negative = order[boosts[order] > 0], order[::-1][boosts[order[::-1]] < 0]
    kept = positive[:max_terms]
    clauses = tuple((words[j], float(boosts[j])) for j in kept)
    text = " OR ".join(f"{quoted(word)}^{written_boost(boost, digits)}" for word, boost in clauses)
    total = float(np.abs(boosts).sum())
    return BoostedQuery(
        text="" if not clauses else f"{field}:({text})" if field else f"({text})",
        clauses=clauses,
        negative=tuple((words[j], float(boosts[j])) for j in negative),
        n_left_out=positive.size - kept.size,
        share=sum(boost for _, boost in clauses) / total if total else 1.0,
        unknown=tuple(model.query_vectorizer.unknown_words(query)),
    )


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
