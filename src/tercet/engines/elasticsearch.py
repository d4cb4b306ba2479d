"""Learned queries for Elasticsearch and OpenSearch, rewritten by the client: no plugin is needed.

`index_settings` says how the engine must tokenise and which fields it needs; `tercet.engines.write_rank_features`
writes those fields; `rewrite` makes the body of a search of each query.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from tercet._validate import check_integer
from tercet.engines import BoostedQuery, boosted_query
from tercet.engines.rank_features import FOLDED_FIELD, IMPACTS_FIELD
from tercet.engines.weighting import words_asked
from tercet.errors import InputError
from tercet.fitting.text_model import TextModel
from tercet.text.analyser import DEFAULT_PATTERN, Analyser
from tercet.text.stop_words import ENGLISH

Form = Literal["boosted", "impacts", "folded", "rescore"]
Clauses = Literal["rank_feature", "sparse_vector"]

_FORMS: Final = ("boosted", "impacts", "folded", "rescore")
_JAVA_WORDS: Final = r"(?U)\b\w\w+\b"  # DEFAULT_PATTERN; the flag is Java's for Unicode


def rewrite(
    model: TextModel,
    query: str,
    *,
    form: Form = "rescore",
    size: int = 10,
    window: int = 100,
    text_field: str | None = None,
    max_terms: int = 32,
    clauses: Clauses = "rank_feature",
) -> dict[str, Any]:
    """The body of a search that ranks by what a model learned.

    Parameters
    ----------
    model : a text model
    query : its text
    form : how. ``"boosted"``: expanded to boosted words over the BM25 of ``text_field``, which is all that needs no new
        field. ``"impacts"``: plain words over the field ``tercet_impacts``. ``"folded"``: the model's scores, over
        ``tercet_folded``, by which every document counts. ``"rescore"``: the ``window`` best by impacts, or boosted
        where a ``text_field`` is named, ranked again by the model's scores
    size : how many documents
    window : of ``"rescore"``, how many of each shard are ranked again
    text_field : analysed as `index_settings` says
    max_terms : most boosted words
    clauses : ``"rank_feature"`` for both engines and fields of type ``rank_features``; ``"sparse_vector"``, shorter,
        for Elasticsearch from 8.15 and fields of type ``sparse_vector``

    Notes
    -----
    Scores of ``"folded"`` and of ``"rescore"`` are the model's plus a number of the query, so that they compare within
    a query. A low-rank part of n components takes n clauses; engines allow 1,024 or more.

    Examples
    --------
    >>> from tercet import TextModel, Vectoriser, Weights
    >>> from tercet.weights import Identity
    >>> words = Vectoriser(weighting="bm25").fit(["ice hockey", "puck"])
    >>> model = TextModel(words, words, Weights([Identity(n_terms=3)]))
    >>> rewrite(model, "hockey", form="boosted", text_field="body")["query"]
    {'bool': {'should': [{'term': {'body': {'value': 'hockey', 'boost': 1.0}}}]}}
    """
    if form not in _FORMS:
        raise InputError(f"form must be one of {', '.join(map(repr, _FORMS))}; got {form!r}")
    _field_type(clauses)
    if form == "boosted" and text_field is None:
        raise InputError("form 'boosted' searches the words of a text; name its text_field")
    if not isinstance(query, str):
        raise InputError(f"the query is of type {type(query).__name__}; expected a string")
    check_integer(size, "size")
    check_integer(window, "window")
    if form == "folded":
        return {"query": _folded(model, query, clauses), "size": size}
    if form == "boosted" or (form == "rescore" and text_field is not None):
        first = _terms(str(text_field), boosted_query(model, query, max_terms=max_terms))
    else:
        first = _features(IMPACTS_FIELD, words_asked(model, query), clauses)
    if form != "rescore":
        return {"query": first, "size": size}
    again = {"rescore_query": _folded(model, query, clauses), "query_weight": 0.0, "rescore_query_weight": 1.0}
    return {"query": first, "rescore": {"window_size": max(window, size), "query": again}, "size": size}


def _field_type(clauses: Clauses) -> str:
    if clauses not in ("rank_feature", "sparse_vector"):
        raise InputError(f"clauses must be 'rank_feature' or 'sparse_vector'; got {clauses!r}")
    return "rank_features" if clauses == "rank_feature" else "sparse_vector"


def _terms(field: str, boosted: BoostedQuery) -> dict[str, Any]:
    should = [{"term": {field: {"value": word, "boost": boost}}} for word, boost in boosted.clauses]
    return {"bool": {"should": should}} if should else {"match_none": {}}


def _folded(model: TextModel, query: str, clauses: Clauses) -> dict[str, Any]:
    boosted = boosted_query(model, query, max_terms=None, index="folded")
    if boosted.negative:
        word, boost = boosted.negative[0]
        raise InputError(
            f"the query gives the word {word!r} the weight {boost:.3g}, and engines take no negative ones; only "
            "low-rank parts can be folded. Use form 'impacts', or certified_search of tercet.engines"
        )
    return _features(FOLDED_FIELD, dict(boosted.clauses), clauses)


def _features(field: str, weights: dict[str, float], clauses: Clauses) -> dict[str, Any]:
    if not weights:
        return {"match_none": {}}
    if clauses == "sparse_vector":
        return {"sparse_vector": {"field": field, "query_vector": weights}}
    should = [
        {"rank_feature": {"field": f"{field}.{word}", "linear": {}, "boost": weight}}
        for word, weight in weights.items()
    ]
    return {"bool": {"should": should}}


def index_settings(
    model: TextModel, text_field: str | None = None, *, clauses: Clauses = "rank_feature"
) -> dict[str, Any]:
    """Settings and mappings of an index: the fields of exported documents, and a text tokenised as by the model.

    Parameters
    ----------
    model : a text model
    text_field : of the text, for boosted words; None for none
    clauses : as for `rewrite`

    Raises
    ------
    InputError
        Where the engine cannot tokenise as the model does: patterns of one's own, n-grams, other tokenizers.

    Examples
    --------
    >>> from tercet import TextModel
    >>> index_settings(TextModel.bm25(["ice hockey"]))["mappings"]["properties"]["tercet_impacts"]
    {'type': 'rank_features'}
    """
    kind = _field_type(clauses)
    properties: dict[str, Any] = {IMPACTS_FIELD: {"type": kind}, FOLDED_FIELD: {"type": kind}}
    if text_field is None:
        return {"mappings": {"properties": properties}}
    words = model.doc_vectoriser
    properties[text_field] = {"type": "text", "analyzer": "tercet"}
    settings: dict[str, Any] = {"analysis": _analysis(words.analyser or Analyser())}
    if words.weighting == "bm25":
        settings["similarity"] = {"tercet": {"type": "BM25", "k1": words.k1, "b": words.b}}
        properties[text_field]["similarity"] = "tercet"
    return {"settings": settings, "mappings": {"properties": properties}}


def _analysis(analyse: Analyser) -> dict[str, Any]:
    if analyse.tokenizer != "words" or analyse.pattern != DEFAULT_PATTERN or analyse.ngrams != (1, 1):
        raise InputError(
            f"an engine cannot tokenise texts as {analyse} does; words by the ordinary pattern, without n-grams, can be"
        )
    filters: dict[str, Any] = {}
    names = ["lowercase"] if analyse.lowercase else []
    if analyse.stop_words is not None:
        listed = sorted(ENGLISH) if analyse.stop_words == "english" else list(analyse.stop_words)
        if analyse.lowercase:  # the engine compares them with words in lower case
            listed = [word.lower() for word in listed]
        filters["tercet_stop"] = {"type": "stop", "stopwords": listed}
    if analyse.stemmer is not None:
        filters["tercet_stems"] = {"type": "snowball", "language": analyse.stemmer.capitalize()}
    return {
        "tokenizer": {"tercet_words": {"type": "pattern", "pattern": _JAVA_WORDS, "group": 0}},
        "filter": filters,
        "analyzer": {"tercet": {"type": "custom", "tokenizer": "tercet_words", "filter": [*names, *filters]}},
    }
