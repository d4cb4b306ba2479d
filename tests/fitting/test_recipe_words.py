"""What the recipe chooses before it learns: whether words are reduced to their stems."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest

import tercet as tc
from support.corpora import Qrels, synonyms
from tercet.errors import InputError
from tercet.search import Index
from tercet.text import Vectorizer
from tercet.weights import Identity, Weights

QUICK = {"n_steps": 300}


def inflected(ending: str, n: int = 60) -> tuple[dict[str, str], dict[str, str], Qrels]:
    """Each query asks for the one document that has its word, with another ending."""
    roots = [f"{a}{b}{c}nt" for a in "bdfgk" for b in "aeiou" for c in "lmr"][:n]
    docs = {f"d{i}": f"{root} something else" for i, root in enumerate(roots)}
    queries = {f"q{i}": root + ending for i, root in enumerate(roots)}
    return docs, queries, {f"q{i}": {f"d{i}": 1} for i in range(n)}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["ing", ""])
def test_words_are_cut_to_their_stems_as_a_rule(ending):
    docs, queries, qrels = inflected(ending)
    model = tc.fit(docs, queries, qrels, options=QUICK)
    assert model.query_vectorizer.analyzer.stemmer == "english"
    assert model.report.systems[0].values["nDCG@10"][0] == 1.0  # every document is found


def stems_matter(wins: int, losses: int, alike: int) -> tuple[dict[str, str], dict[str, str], Qrels]:
    """Queries that only stems find, then queries that stems confuse with another document, then others."""
    roots = [f"{a}{b}{c}nt" for a in "bdfgk" for b in "aeiou" for c in "lmr"][: wins + losses + alike]
    docs = {f"first{i}": f"filler{i} words" for i in range(12)}  # whatever is not found comes after these
    docs |= {f"other{i}": f"{root}ed" for i, root in enumerate(roots) if wins <= i < wins + losses}
    queries, qrels = {}, {}
    for i, root in enumerate(roots):
        docs[f"d{i}"] = f"{root}ing" if i >= wins else f"{root}ed"
        queries[f"q{i}"], qrels[f"q{i}"] = f"{root}ing", {f"d{i}": 1}
    return docs, queries, qrels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wins", "losses", "stemmer"),
    [(8, 0, "english"), (1, 3, "english"), (0, 8, None)],  # the second loses a little, by less than its standard error
)
def test_words_stay_as_they_are_only_where_that_is_clearly_better_on_queries_that_choose(wins, losses, stemmer):
    docs, queries, qrels = stems_matter(wins, losses, alike=20)
    model = tc.fit(docs, queries, {q: qrels[q] for q in list(qrels)[:-6]}, options=QUICK)
    assert model.query_vectorizer.analyzer.stemmer == stemmer


@pytest.mark.slow
def test_stems_are_chosen_for_labeled_texts_too():
    # Stems bring forms of a word together, or words of two classes.
    endings = ["", "s", "ed", "ing"]
    texts = [f"{root}{endings[i % 4]}" for i in range(40) for root in [("bolant", "dumirt")[i // 4 % 2]]]
    labels = ["ab"[i // 4 % 2] for i in range(40)]
    assert tc.fit_labeled(texts, labels, options=QUICK).query_vectorizer.analyzer.stemmer == "english"
    apart = [f"bolant{endings[2 + i // 4 % 2]}" for i in range(40)]
    assert tc.fit_labeled(apart, labels, options=QUICK).query_vectorizer.analyzer.stemmer is None


@pytest.mark.slow
def test_an_analyzer_that_is_given_is_taken():
    docs, queries, qrels = inflected("ing")
    model = tc.fit(docs, queries, qrels, options=QUICK | {"analyzer": tc.Analyzer()})
    assert model.query_vectorizer.analyzer == tc.Analyzer()


@pytest.mark.slow
def test_words_of_a_model_are_kept_so_that_its_index_takes_what_is_learned():
    corpus = synonyms(4, n_pairs=12, n_docs=60, n_queries=60)
    queries = {qid: f"{text} unheardof" for qid, text in corpus.queries.items()}
    given = tc.TextModel.bm25(list(corpus.docs.values())[:50])  # ten have come since
    model = tc.fit(corpus.docs, queries, corpus.part(0), options=QUICK | {"vocabulary": given})
    assert model.doc_vectorizer is given.doc_vectorizer
    index = Index.build(corpus.docs, given)
    some = dict(list(queries.items())[:5])
    taken = index.with_model(model)
    assert taken.given_model is model  # the index adds words that only later documents have
    found, ranked = taken.search_many(some, 5), taken.model.rank(some, corpus.docs, 5)
    assert all(list(found[qid]) == list(ranked[qid]) for qid in some)
    with pytest.raises(InputError, match="another vectorizer than the model's"):
        index.with_model(tc.fit(corpus.docs, queries, corpus.part(0), options=QUICK))  # knows "unheardof"


@pytest.mark.slow
def test_words_weighted_by_tfidf_are_kept():
    corpus = synonyms(4, n_pairs=12, n_docs=60, n_queries=60)
    words = Vectorizer(weighting="tfidf").fit(corpus.docs.values())
    given = tc.TextModel(words, words, Weights([Identity(n_terms=len(words.words_))]))
    model = tc.fit(corpus.docs, corpus.queries, corpus.part(0), options=QUICK | {"vocabulary": given})
    assert model.doc_vectorizer is words
    assert model.report.systems[0].name == "tf-idf"


def test_words_that_cannot_be_kept_are_refused():
    docs, queries, qrels = inflected("ing")
    with pytest.raises(InputError, match=r"vocabulary is a text model, as index\.model is; got str"):
        tc.fit(docs, queries, qrels, options={"vocabulary": "index/"})
    given = tc.TextModel.bm25(docs.values())
    with pytest.raises(InputError, match="leave out analyzer, fields and features"):
        tc.fit(docs, queries, qrels, options={"vocabulary": given, "analyzer": tc.Analyzer()})
    with pytest.raises(InputError, match="this model has other words for queries"):
        tc.fit(
            docs,
            queries,
            qrels,
            options={"vocabulary": replace(given, query_vectorizer=deepcopy(given.query_vectorizer))},
        )
