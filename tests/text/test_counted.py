"""Texts that are counted once give every vectorizer the rows of texts that are read again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.errors import InputError
from tercet.text import Analyzer, Vectorizer
from tercet.text.counting import CountedTexts

ANALYZERS = [
    Analyzer(stop_words="english", stemmer="english"),
    Analyzer(stop_words="english"),
    Analyzer(stemmer="english"),
    Analyzer(),
    Analyzer(stop_words=["avocado"], lowercase=False),
    Analyzer(ngrams=(1, 2)),
    Analyzer(tokenizer="characters"),
]
WORDS = ["avocado", "Avocados", "the", "of", "green", "greens", "running", "runs", "x", "007", "é́tude", "İzmir"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=6)


def same(one, other):
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("data", "indices", "indptr")
    )


@given(
    TEXTS, st.lists(st.sampled_from(range(len(ANALYZERS))), min_size=1, max_size=4), st.sampled_from(["tfidf", "bm25"])
)
def test_rows_are_the_same_bits(texts, numbers, weighting):
    counted = CountedTexts([*texts, "green avocados"])
    for number in numbers:  # one after the other, by the same counts
        plain, other = (Vectorizer(analyzer=ANALYZERS[number], weighting=weighting) for _ in range(2))
        rows = plain.fit_transform_docs(list(counted), queries=["a new word"])
        assert same(other.fit_transform_docs(counted, queries=["a new word"]), rows)
        assert other.words_ == plain.words_
        assert (other.mean_length_, other.doc_scale_) == (plain.mean_length_, plain.doc_scale_)
        assert same(other.transform_queries(counted), plain.transform_queries(list(counted)))
        assert same(other.transform_docs(CountedTexts(["green lamps"])), plain.transform_docs(["green lamps"]))


def test_texts_are_cut_once(monkeypatch):
    times = []
    call = Analyzer.__call__
    monkeypatch.setattr(Analyzer, "__call__", lambda self, text: times.append(text) or call(self, text))
    texts = CountedTexts(["green avocados", "the greens"])
    for analyzer in ANALYZERS[:4]:
        vectorizer = Vectorizer(analyzer=analyzer)
        vectorizer.fit_transform_docs(texts)
        vectorizer.transform_queries(texts)
    assert times == list(texts)


def test_what_is_no_text_is_refused():
    with pytest.raises(InputError, match=r"texts\[1\] must be a string, found int"):
        CountedTexts(["a", 7])
    assert CountedTexts(["a", "b"])[1:] == ["b"]
