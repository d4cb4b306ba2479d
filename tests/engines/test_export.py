"""Queries in the syntax of Lucene and Solr, read again and compared with the scores of the model."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from oracles.engines import lucene_bm25
from tercet.cli.main import cli
from tercet.engines import query_string
from tercet.errors import InputError
from tercet.weights import Identity, Sparse

DOCS = {
    "d1": "ice hockey puck",
    "d2": "baseball bat ball ball",
    "d3": "hockey stick and puck puck",
    "007": "quiet library",
}


def small_model(pairs: dict[tuple[str, str], float], *, identity: float = 1.0) -> tc.TextModel:
    words = tc.Vectorizer(weighting="bm25").fit(DOCS.values())
    n = len(words.words_)
    W = sparse.lil_array((n, n), dtype=np.float32)
    for (query_word, doc_word), weight in pairs.items():
        W[words.index_[query_word], words.index_[doc_word]] = weight
    return tc.TextModel(words, words, tc.Weights([Identity(n_terms=n, scale=identity), Sparse(weights=W.tocsr())]))


def clauses_of(text: str) -> dict[str, float]:
    """Words and boosts of a query, by the grammar of Lucene's classic parser; numbers have no exponents there."""
    [inside] = re.fullmatch(r"text:\((.*)\)", text, re.S).groups()
    clause = r'(\w+|"(?:[^"\\]|\\.)*")\^([0-9]+(?:\.[0-9]+)?)'
    assert re.fullmatch(rf"{clause}(?: OR {clause})*", inside, re.S)
    found = {}
    for word, boost in re.findall(clause, inside, re.S):
        assert word not in ("AND", "OR", "NOT", "TO")
        found[re.sub(r"\\(.)", r"\1", word[1:-1], flags=re.S) if word.startswith('"') else word] = float(boost)
    return found


def test_a_query_has_boosts_that_rank_as_the_model():
    model = small_model({("hockey", "puck"): 0.8, ("puck", "hockey"): 0.4, ("hockey", "bat"): 0.5}, identity=2.0)
    words = model.query_vectorizer
    boosts = np.zeros(len(words.words_))
    for word, boost in clauses_of(query_string(model, "hockey puck unheard")).items():
        boosts[words.index_[word]] = boost
    engine = lucene_bm25(words, list(DOCS.values())) @ boosts
    ours = model.weights.score(model.queries(["hockey puck"]), model.docs(list(DOCS.values())))[0]
    assert engine / engine.max() == pytest.approx(ours / ours.max(), abs=1e-3)


def test_words_with_negative_weights_and_clauses_beyond_the_most_are_left_out():
    weights = {"puck": 0.1, "bat": -0.2, "ball": 0.3, "stick": 0.4}
    model = small_model({("hockey", word): weight for word, weight in weights.items()})
    assert set(clauses_of(query_string(model, "hockey"))) == {"hockey", "puck", "ball", "stick"}
    assert len(clauses_of(query_string(model, "hockey", max_clauses=2))) == 2
    assert query_string(model, "hockey", field="body.en").startswith("body.en:(hockey^1 OR ")
    with pytest.raises(InputError, match="field must be a name"):
        query_string(model, "hockey", field="a:b")
    with pytest.raises(InputError, match="no word counts for the query 'unheard'"):
        query_string(model, "unheard")


def test_a_model_that_learned_nothing_boosts_each_word_by_its_number_of_occurrences():
    found = clauses_of(query_string(small_model({}, identity=3.0), "ball hockey ball puck"))
    assert found == pytest.approx({"ball": 2.0, "hockey": 1.0, "puck": 1.0}, rel=1e-3)


def test_very_small_and_large_boosts_have_no_exponents():
    model = small_model({("hockey", "puck"): 3e-5, ("hockey", "bat"): 4e6})
    found = clauses_of(query_string(model, "hockey"))
    assert found["puck"] < 1e-3 < 1e5 < found["bat"]


@given(st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1))
def test_a_word_is_never_syntax(word):
    words = tc.Vectorizer(weighting="bm25", analyzer=tc.Analyzer(pattern=r"\S+", lowercase=False)).fit([word, "plain"])
    model = tc.TextModel(words, words, tc.Weights([Identity(n_terms=len(words.words_))]))
    assert set(clauses_of(query_string(model, word))) == set(word.split())


def test_the_command_prints_a_query(tmp_path):
    model = small_model({("hockey", "puck"): 0.8})
    model.save(tmp_path / "model")
    done = CliRunner().invoke(cli, ["export", "query", "hockey unheard", "--model", str(tmp_path / "model")])
    assert done.exit_code == 0, done.output
    assert done.stdout == query_string(model, "hockey unheard") + "\n"
    missing = tmp_path / "nowhere" / "x"
    arguments = ["export", "query", "hockey", "--model", str(tmp_path / "model"), "-o", str(missing)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    assert f"{missing}: cannot write: " in done.stderr
