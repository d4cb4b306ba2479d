"""Exports in the engine they are for: Lucene 9.9 loads what `tercet.engines` wrote, and finds what we say it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from oracles.engines import lucene_bm25
from support.lucene import lucene, missing
from support.ranked_texts import QUERIES, model_of, texts
from tercet.engines import (
    boosted_query,
    write_anserini,
    write_ciff,
    write_synonyms,
)
from tercet.engines.impacts import ImpactRows
from tercet.engines.query_strings import quoted, written_boost
from tercet.fitting.text_model import ordinary_analyzer
from tercet.weights import Identity, Sparse

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

SINGLE = 1e-5  # Lucene sums up in single precision


def chain(folder: Path, *more: Sequence) -> dict:
    """The analysis of `ordinary_analyzer`, in Lucene's words."""
    return {
        "folder": str(folder),
        "tokenizer": ["pattern", {"pattern": r"(?U)\b\w\w+\b", "group": "0"}],
        "filter": [
            ["lowercase", {}],
            ["snowballPorter", {"language": "English"}],
            *more,
        ],
    }


def scores_of(answer: dict, docs: Mapping[str, str]) -> np.ndarray:
    """By document; those that were not found have none."""
    found = dict(answer["hits"])
    return np.array([found.get(doc_id, 0.0) for doc_id in docs])


def exact_scores(model: tc.TextModel, query: str, docs: Mapping[str, str]) -> np.ndarray:
    return model.weights.score(model.queries([query]), model.docs(list(docs.values())))[0]


def test_the_analysis_chain_of_lucene_gives_our_words(tmp_path):
    analyze = ordinary_analyzer()
    lines = [
        *texts().values(),
        "Naïve c++ x86_64 e.g. U.S.A. don't — Ärzte 12,5 % ﬁne",
        "generically communities happy",
    ]
    found = lucene()("analyzed", chain=chain(tmp_path), texts=lines)
    assert [[term for term, _, _ in line] for line in found] == [analyze(line) for line in lines]


# -- documents as impacts ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def impacts(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A low-rank model's documents, all positive impacts kept, indexed by Anserini."""
    folder = tmp_path_factory.mktemp("impacts")
    docs = texts()
    model = model_of(docs, low_rank=True)
    (folder / "docs").mkdir()
    output = write_anserini(folder / "docs" / "docs.jsonl", model, docs, bits=10)
    lucene()("anserini", folder=str(folder / "docs"), target=str(folder / "index"))
    return {"docs": docs, "model": model, "told": output, "target": str(folder / "index")}


def test_anserini_sums_the_impacts_that_were_written(impacts):
    docs, model, output = impacts["docs"], impacts["model"], impacts["told"]
    words = model.query_vectorizer
    analyze = words.analyzer or tc.Analyzer()
    asked = [[word for word in analyze(query) if word in words.index_] for query in QUERIES]
    answers = lucene()("anserini_search", target=impacts["target"], queries=[" ".join(q) for q in asked], k=len(docs))
    exact = model.weights.score(np.eye(len(words.words_)), model.docs(list(docs.values())))
    exact = np.maximum(exact * (words.idf_**words.idf_power)[:, None], 0.0)  # negative impacts are left out
    rows = list(ImpactRows(model, docs, bits=10))
    for query, answer in zip(asked, answers, strict=True):
        found = scores_of(answer, docs)
        times = Counter(words.index_[word] for word in query)
        summed = [sum(times[j] * n for j, n in zip(row.columns, row.impacts, strict=True)) for row in rows]
        assert found.tolist() == summed
        said = sum(n * exact[j] for j, n in times.items())
        assert np.abs(found * output.step - said).max() <= output.max_error * times.total() * (1 + 1e-6)
        scores = [score for _, score in answer["hits"]]
        assert scores == sorted(scores, reverse=True)


def test_a_ciff_file_gives_the_same_sums_in_lucene(impacts, tmp_path):
    pytest.importorskip("ciff_toolkit", reason="reading CIFF needs pip install --no-deps ciff-toolkit (make engines)")
    docs, model = impacts["docs"], impacts["model"]
    write_ciff(tmp_path / "index.ciff", model, docs, bits=8)
    lucene()("ciff", name="ciff", path=str(tmp_path / "index.ciff"), field="vector")
    words = model.query_vectorizer
    bodies = [
        {"query": {"sparse_vector": {"field": "vector", "query_vector": Counter(known)}}, "size": len(docs)}
        for query in QUERIES
        if (known := [word for word in words.analyzer(query) if word in words.index_])
    ]
    rows = list(ImpactRows(model, docs, bits=8))
    for body, answer in zip(bodies, lucene()("search", name="ciff", bodies=bodies), strict=True):
        asked = {words.index_[w]: n for w, n in body["query"]["sparse_vector"]["query_vector"].items()}
        summed = [sum(asked.get(j, 0) * n for j, n in zip(r.columns, r.impacts, strict=True)) for r in rows]
        assert scores_of(answer, docs).tolist() == summed


# -- a boosted query over BM25 ----------------------------------------------------------------------------------------


def bm25_index(name: str, docs: Mapping[str, str], **field: dict) -> None:
    rows = [{"_id": doc_id, "body": text} for doc_id, text in docs.items()]
    lucene()("index", name=name, fields={"body": {"type": "text"} | field}, docs=rows)


def test_boosted_clauses_over_bm25_score_as_the_model(tmp_path):
    """Positive W: the engine sums up the model's score, up to a factor of the query and the digits of the boosts."""
    docs = texts(2)
    model = model_of(docs, seed=2)
    # Stems are stems already, so the field is searched without stemming again.
    asked = {"tokenizer": ["keyword", {}]}
    bm25_index("bm25", docs, analyzer=chain(tmp_path), search_analyzer=asked)
    engine_bm25 = lucene_bm25(model.query_vectorizer, list(docs.values()))
    for query in QUERIES:
        boosted = boosted_query(model, query, max_terms=None)
        body = {"query": {"query_string": {"query": boosted.text, "default_field": "body"}}, "size": len(docs)}
        [answer] = lucene()("search", name="bm25", bodies=[body])
        found, ours = scores_of(answer, docs), exact_scores(model, query, docs)
        boosts = np.zeros(len(model.doc_vectorizer.words_))
        for word, boost in boosted.clauses:
            boosts[model.doc_vectorizer.index_[word]] = boost
        assert found == pytest.approx(engine_bm25 @ boosts, rel=5e-4)  # boosts have four digits
        assert found / found.max() == pytest.approx(ours / ours.max(), abs=1e-3)


AWKWARD = [
    "OR",
    "AND",
    "NOT",
    "TO",
    "c++",
    "a:b",
    "(x",
    "x]",
    "a^2",
    "w~1",
    "q*",
    "w?d",
    '"',
    "\\",
    "a\\",
    "&&",
    "!",
    "-x",
    "/re/",
]


@settings(max_examples=5)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=20, max_size=40))
def test_no_word_is_syntax_to_lucenes_parser(words):
    words = [*AWKWARD, *words]
    found = lucene()("terms", queries=[f"{quoted(word)}^{written_boost(0.25)}" for word in words])
    assert [tuple(each) for each in found] == [(word, 0.25) for word in words]


# -- synonyms ---------------------------------------------------------------------------------------------------------


def synonym_filter(file: str) -> list:
    # The file holds stems, which its own analysis must leave alone.
    return ["synonymGraph", {"synonyms": file, "format": "solr", "expand": "true"}]


def test_solr_synonyms_with_boosts_score_as_the_model(tmp_path):
    docs = texts(3)
    model = model_of(docs, seed=3)
    write_synonyms(tmp_path / "synonyms.txt", model, min_boost=1e-3, max_words=100)
    asked = chain(tmp_path, synonym_filter("synonyms.txt"), ["delimitedBoost", {}])
    bm25_index("solr", docs, analyzer=chain(tmp_path), search_analyzer=asked)
    for query in QUERIES:
        [answer] = lucene()(
            "search", name="solr", bodies=[{"query": {"distinct_terms": {"body": query}}, "size": len(docs)}]
        )
        found, ours = scores_of(answer, docs), exact_scores(model, query, docs)
        assert found / found.max() == pytest.approx(ours / ours.max(), abs=5e-3)  # boosts have three digits


def test_awkward_words_of_a_synonym_file_are_read_as_they_are(tmp_path):
    words = tc.Vectorizer(analyzer=tc.Analyzer(pattern=r"\S+", lowercase=False)).fit(
        ["a|b #c d,e f=>g h\\i =>x y=> \\\\, plain"]
    )
    n = len(words.words_)
    W = sparse.csr_array(np.where(np.eye(n), 0.0, 0.5).astype(np.float32))
    model = tc.TextModel(words, words, tc.Weights([Identity(n_terms=n), Sparse(weights=W)]))
    write_synonyms(tmp_path / "synonyms.txt", model)
    asked = {
        "folder": str(tmp_path),
        "tokenizer": ["whitespace", {}],
        "filter": [synonym_filter("synonyms.txt"), ["delimitedBoost", {}]],
    }
    held = [word for word in words.words_ if "|" not in word and not word.startswith("#")]
    for word, line in zip(held, lucene()("analyzed", chain=asked, texts=held), strict=True):
        assert {term: boost for term, _, boost in line} == {
            other: pytest.approx(1 if other == word else 0.5, rel=1e-2) for other in held
        }
