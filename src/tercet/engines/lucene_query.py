"""Queries, settings and past queries for OpenSearch, Elasticsearch and Solr, without a plugin.

`index_settings` describes an index with the tokens of the model. `search_body` writes a query: the text alone, with the
past queries of documents as a second field, or the weighted words of the expanded query. `memory_updates` fills the
field of past queries.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tercet._validate import check_integer
from tercet.data.lines import write_atomically
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.memory import Memory
from tercet.text import Vectorizer
from tercet.text.analyzer import DEFAULT_PATTERN, Analyzer
from tercet.text.stop_words import ENGLISH
from tercet.weights import LowRank, Weights

Form = Literal["bm25", "memory", "words"]

FORMS: Final = ("bm25", "memory", "words")
TEXT_FIELD: Final = "text"
MEMORY_FIELD: Final = "past_queries"
MOST_CLAUSES: Final = 64  # most clauses of words; engines refuse a query of more than 1,024 clauses
MOST_PAST_WORDS: Final = 56  # of a document
MOST_TIMES: Final = 8  # most repetitions of a word in the field of a document
_SAMPLE: Final = 1000  # past queries from which the boost of memory is estimated
_BOOSTS: Final[WeakKeyDictionary[TextModel, float]] = WeakKeyDictionary()  # estimated once for a model
_BARE_WORD: Final = re.compile(r"\w+")
_FIELD: Final = re.compile(r"[\w.]+")
_JAVA_WORDS: Final = r"(?U)\b\w\w+\b"  # DEFAULT_PATTERN; the flag is Java's for Unicode


def search_body(
    model: TextModel,
    query: str,
    *,
    form: Form = "words",
    size: int = 10,
    text_field: str = TEXT_FIELD,
    max_clauses: int = MOST_CLAUSES,
) -> dict[str, Any]:
    """Write the body of a search request of OpenSearch or Elasticsearch.

    Parameters
    ----------
    model : text model
    query : text of the query
    form : ``"bm25"``: the words of the query. ``"memory"``: also in the past queries of documents. ``"words"``: the
        weighted words of the expanded query, and past queries of a model with memory
    size : number of documents
    text_field : field of texts
    max_clauses : largest number of weighted words

    Examples
    --------
    >>> model = TextModel.bm25(["ice hockey", "puck"])
    >>> search_body(model, "hockey", form="bm25")["query"]
    {'match': {'text': {'query': 'hockey'}}}
    """
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}")
    if not isinstance(query, str):
        raise InputError(f"the query is of type {type(query).__name__}; expected a string")
    check_integer(size, "size")
    check_integer(max_clauses, "max_clauses", 1, 900)
    plain = {"match": {text_field: {"query": query}}}
    if form == "bm25":
        return {"query": plain, "size": size}
    check_columns(model)
    if form == "memory" and model.memory is None:
        raise InputError("the model has no memory; use the form 'words' or 'bm25'")
    should: list[dict[str, Any]] = [plain]
    if form == "words":
        row = model.queries([query])
        words = boosted_words(model, row, expanded_weights(model.weights, row), max_clauses)
        should = term_clauses(text_field, words)
    if model.memory is not None:
        should += memory_clauses(model, model.memory, query, text_field)
    return {"query": {"bool": {"should": should}} if should else {"match_none": {}}, "size": size}


def query_string(model: TextModel, query: str, *, field: str = TEXT_FIELD, max_clauses: int = MOST_CLAUSES) -> str:
    """Write the weighted words of the expanded query in the query syntax of Lucene and Solr.

    Words with negative weights and memory are left out.

    Examples
    --------
    >>> query_string(TextModel.bm25(["ice hockey", "puck"]), "hockey puck", field="body")
    'body:(hockey^1 OR puck^1)'
    """
    check_columns(model)
    if not _FIELD.fullmatch(field):
        raise InputError(f"field must be a name of letters, digits, _ and dots; got {field!r}")
    check_integer(max_clauses, "max_clauses", 1, 900)
    row = model.queries([query])
    words = boosted_words(model, row, expanded_weights(model.weights, row), max_clauses)
    if not words:
        raise InputError(f"no word counts for the query {query!r}; use a query with words of the documents")
    clauses = (f"{_quoted(word)}^{np.format_float_positional(boost, trim='-')}" for word, boost in words)
    return f"{field}:({' OR '.join(clauses)})"


def _quoted(word: str) -> str:
    """Quote a word unless the word is plain."""
    if _BARE_WORD.fullmatch(word) and word not in ("AND", "OR", "NOT", "TO"):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def term_clauses(field: str, words: tuple[tuple[str, float], ...]) -> list[dict[str, Any]]:
    """One clause for each weighted word."""
    return [{"term": {field: {"value": word, "boost": boost}}} for word, boost in words]


def memory_clauses(model: TextModel, memory: Memory, query: str, text_field: str) -> list[dict[str, Any]]:
    """Return clauses of memory: past queries, and an extra weight for documents without past queries."""
    if model not in _BOOSTS:
        _BOOSTS[model] = _estimated_boost(model, memory)
    clauses: list[dict[str, Any]] = [{"match": {MEMORY_FIELD: {"query": query, "boost": _BOOSTS[model]}}}]
    if memory.settings.unseen:
        extra = {"query": query, "boost": memory.settings.unseen / own_weight(model)}
        has_none = [{"exists": {"field": MEMORY_FIELD}}]
        clauses.append({"bool": {"must": [{"match": {text_field: extra}}], "must_not": has_none}})
    return clauses


def boosted_words(
    model: TextModel, q: sparse.csr_array, weights: NDArray[np.float32], most: int
) -> tuple[tuple[str, float], ...]:
    """At most so many words of an expanded query with positive boosts over an engine's BM25, strongest first.

    A word of the query about which nothing was learned has the boost 1 times its number of occurrences.

    Parameters
    ----------
    model, q : text model, and a query as a row
    weights : weights of all words by `expanded_weights`
    most : largest number of words
    """
    if not q.nnz:
        return ()
    vectorizer = model.doc_vectorizer
    columns = np.flatnonzero(weights > 0)
    idf = vectorizer.idf_[columns]
    boosts = weights[columns] * rarity_left_to_engine(vectorizer, idf)
    strength = boosts * idf
    strongest = np.argpartition(-strength, most)[:most] if strength.size > most else np.arange(strength.size)
    order = strongest[np.lexsort((columns[strongest], -strength[strongest]))]
    once = q.data.astype(np.float64) * rarity_left_to_engine(
        model.query_vectorizer, model.query_vectorizer.idf_[q.indices]
    )
    boosts = boosts[order] / (once.min() * own_weight(model))
    words = vectorizer.words_
    return tuple(
        (words[column], float(f"{boost:.4g}")) for column, boost in zip(columns[order], boosts.tolist(), strict=True)
    )


def expanded_weights(weights: Weights, q: sparse.csr_array) -> NDArray[np.float32]:
    """Return the weight of every word of documents for a query, in single precision."""
    total = np.zeros(weights.shape[1], dtype=np.float32)
    for part in weights.parts:
        if isinstance(part, LowRank):  # factors stay float32
            total += part.doc_factors @ (part.latent_queries(q)[0] * part.scale).astype(np.float32)
        else:
            row = sparse.csr_array(part.expand(q))
            np.add.at(total, row.indices, row.data.astype(np.float32))
    return total


def rarity_left_to_engine(vectorizer: Vectorizer, idf: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for words with these idf the ratio of the model's weight of an occurrence to the weight in an engine.

    An engine scores with BM25, which divides idf between query and document: ``idf^(1 - p)`` in a document, ``idf`` in
    an engine. Tf-idf documents have the whole idf.
    """
    return idf**-vectorizer.idf_power if vectorizer.weighting == "bm25" else np.ones_like(idf)


def own_weight(model: TextModel) -> float:
    """Weight of a word on itself before learning: the identity, or 1 without an identity."""
    identity = model.weights.identity
    return identity if identity > 0 else 1.0


def _estimated_boost(model: TextModel, memory: Memory) -> float:
    """Estimate the boost of a match in the field of past queries.

    The boost is the mean ratio of what memory adds to a document for one of its past queries to the BM25 of these past
    queries, in units of plain matching.
    """
    fields = dict(memory_updates(model))
    texts, columns = list(fields.values()), [memory.ids.find(doc_id) for doc_id in fields]
    plain = TextModel.bm25(texts, model.doc_vectorizer.analyzer)
    sample = np.linspace(0, len(memory.texts) - 1, min(_SAMPLE, len(memory.texts))).astype(int)
    asked = [memory.texts[int(i)] for i in sample]
    Q = model.queries(asked)
    answered = memory.evidence[sample][:, columns] > 0
    amounts = memory.scores(Q)[:, columns].multiply(answered).sum(axis=1) * _engine_units(model, Q) / own_weight(model)
    rows = plain.queries(asked)
    matches = (rows @ plain.docs(texts).T).multiply(answered).sum(axis=1) * _engine_units(plain, rows)
    return float(f"{amounts.sum() / matches.sum():.4g}") if matches.sum() > 0 else 1.0


def _engine_units(model: TextModel, Q: sparse.csr_array) -> NDArray[np.float64]:
    """Factor of each query from the model's plain score to the BM25 of an engine."""
    words = model.doc_vectorizer
    once = Q.data.astype(np.float64) * rarity_left_to_engine(
        model.query_vectorizer, model.query_vectorizer.idf_[Q.indices]
    )
    lengths = np.array([1 / once[a:b].min() if b > a else 0.0 for a, b in pairwise(Q.indptr)])
    return lengths * (words.doc_scale_ / (words.k1 + 1) if words.weighting == "bm25" else 1.0)


def memory_updates(model: TextModel) -> Iterator[tuple[str, str]]:
    """Yield each document id with the words of the document's past queries.

    A document has at most 56 words, with the largest products of number of queries and idf. A word is repeated for each
    query with the word, at most 8 times.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from tercet.memory import Use, with_uses
    >>> model = TextModel.bm25(["green tea", "black tea"])
    >>> memory = with_uses(None, [Use("sencha tea", ["a"])], model.queries(["sencha tea"]))
    >>> list(memory_updates(replace(model, memory=memory)))
    [('a', 'sencha tea')]
    """
    memory, vectorizer = model.memory, model.query_vectorizer
    if memory is None:
        return
    analyzer = vectorizer.analyzer or Analyzer()
    find_words = replace(analyzer, stemmer=None)
    words = [{analyzer.term_of(word): word for word in find_words(text)} for text in memory.texts]
    idf, rarest = dict(zip(vectorizer.words_, vectorizer.idf_.tolist(), strict=True)), vectorizer.idf_.max(initial=1.0)
    by_document = memory.evidence.T.tocsr()
    for column, doc_id in enumerate(memory.doc_ids):
        entries = slice(by_document.indptr[column], by_document.indptr[column + 1])
        rows = by_document.indices[entries][by_document.data[entries] > 0]
        counts: Counter[str] = Counter()
        spelled: dict[str, str] = {}
        for row in rows.tolist():
            counts.update(list(words[row]))
            spelled |= words[row]
        strength = {term: min(n, MOST_TIMES) * idf.get(term, rarest) for term, n in counts.items()}
        strongest = sorted(strength, key=lambda term: (-strength[term], term))[:MOST_PAST_WORDS]
        if strongest:
            yield doc_id, " ".join(spelled[term] for term in strongest for _ in range(min(counts[term], MOST_TIMES)))


def write_memory_updates(path: str | PathLike[str], model: TextModel) -> int:
    """Write past queries for the ``_bulk`` endpoint, as partial updates of documents; return their number.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_memory_updates(f"{folder}/memory.ndjson", TextModel.bm25(["ice hockey"]))
    Traceback (most recent call last):
    ...
    tercet.errors.InputError: the model has no memory; fit it with clicks, judgements or preferences
    """
    if model.memory is None:
        raise InputError("the model has no memory; fit it with clicks, judgements or preferences")
    n = 0
    with write_atomically(path) as stream:
        for doc_id, words in memory_updates(model):
            for line in ({"update": {"_id": doc_id, "retry_on_conflict": 3}}, {"doc": {MEMORY_FIELD: words}}):
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            n += 1
    return n


def index_settings(model: TextModel, *, text_field: str = TEXT_FIELD) -> dict[str, Any]:
    """Return settings and mappings of an index with the tokens and word weights of a model.

    Raises
    ------
    InputError
        For a tokenizer without equivalent in the engine: own patterns, n-grams, other tokenizers.

    Examples
    --------
    >>> index_settings(TextModel.bm25(["ice hockey"]))["mappings"]["properties"]["text"]["analyzer"]
    'tercet'
    """
    words = model.doc_vectorizer
    field: dict[str, Any] = {"type": "text", "analyzer": "tercet"}
    settings: dict[str, Any] = {"analysis": _analysis(words.analyzer or Analyzer())}
    if words.weighting == "bm25":
        settings["similarity"] = {"tercet": {"type": "BM25", "k1": words.k1, "b": words.b}}
        field["similarity"] = "tercet"
    past_queries = field | {"index_options": "freqs"}  # no positions: past queries are not searched by phrase
    return {"settings": settings, "mappings": {"properties": {text_field: field, MEMORY_FIELD: past_queries}}}


def _analysis(analyze: Analyzer) -> dict[str, Any]:
    if analyze.tokenizer != "words" or analyze.pattern != DEFAULT_PATTERN or analyze.ngrams != (1, 1):
        raise InputError(
            f"an engine cannot tokenize texts as {analyze} does; words by the ordinary pattern, without n-grams, can be"
        )
    filters: dict[str, Any] = {}
    if analyze.stop_words is not None:
        listed = sorted(ENGLISH) if analyze.stop_words == "english" else list(analyze.stop_words)
        # The engine compares stop words with words in lower case.
        filters["tercet_stop"] = {
            "type": "stop",
            "stopwords": [word.lower() for word in listed] if analyze.lowercase else listed,
        }
    if analyze.stemmer is not None:
        filters["tercet_stems"] = {"type": "snowball", "language": analyze.stemmer.capitalize()}
    analyzer = {
        "type": "custom",
        "char_filter": ["html_strip"] if analyze.html else [],
        "tokenizer": "tercet_words",
        "filter": [*(["lowercase"] if analyze.lowercase else []), *filters],
    }
    return {
        "tokenizer": {"tercet_words": {"type": "pattern", "pattern": _JAVA_WORDS, "group": 0}},
        "filter": filters,
        "analyzer": {"tercet": analyzer},
    }


def check_columns(model: TextModel) -> None:
    """Refuse a model with fields or numbers: engines keep words alone."""
    if model.n_words is not None:
        message = "engines keep words alone, and the model has fields or numbers of documents besides"
        raise InputError(f"{message}; use an embedded index")
