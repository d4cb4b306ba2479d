"""The start of a fit: which way of matching words learning begins from, and that texts are cut once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tercet as tc
from support.corpora import Corpus, Qrels, synonyms
from tercet.fitting.baselines import ORDINARY, WEIGHTINGS, choose_start
from tercet.fitting.options import FitOptions
from tercet.fitting.task import Task


def task_of(corpus: Corpus, measure: str = "AP") -> Task:
    return Task.from_evidence(corpus.docs, corpus.queries, qrels=corpus.qrels, measure=measure)


ROOTS = [f"{a}{b}{c}nt" for a in "bdfgk" for b in "aeiou" for c in "lmr"]


def one_answer_each(text: Callable[[int], str], asked: Callable[[int], str], others: Sequence[str], n: int) -> Corpus:
    """The answer of a query comes last: whatever scores as high is before it."""
    docs = {f"other{i}": other for i, other in enumerate(others)} | {f"d{i}": text(i) for i in range(n)}
    return Corpus(docs, {f"q{i}": asked(i) for i in range(n)}, {f"q{i}": {f"d{i}": 1} for i in range(n)})


def test_the_ordinary_start_is_bm25_over_stems_and_what_it_is():
    corpus = synonyms(3, n_pairs=12, n_docs=40, n_queries=20)
    shown, start = choose_start(task_of(one_answer_each(ROOTS.__getitem__, ROOTS.__getitem__, (), 20)), FitOptions())
    words = start.vectorizer
    assert start.name == ORDINARY == "BM25"
    assert (words.weighting, words.k1, words.b) == ("bm25", 1.2, 0.75)
    assert (words.analyzer.stemmer, words.analyzer.stop_words) == ("english", None)
    assert {space.name for space in shown} == {"BM25", "tf-idf"}
    own = tc.Analyzer()
    _, given_analyzer = choose_start(task_of(corpus), FitOptions(analyzer=own))
    assert given_analyzer.vectorizer.analyzer is own


@pytest.mark.parametrize(("n_confused", "n_helped", "is_clear"), [(8, 0, True), (3, 1, False), (0, 4, False)])
def test_words_as_they_are_need_a_clear_win(n_confused, n_helped, is_clear):
    """Stems confuse some queries with another document, and are all that finds others; the second gain is slight."""
    others = [f"filler{i}" for i in range(12)] + [f"{ROOTS[i]}ed" for i in range(n_confused)]
    ending = dict.fromkeys(range(20 - n_helped, 20), "ed")
    corpus = one_answer_each(lambda i: f"{ROOTS[i]}{ending.get(i, 'ing')}", lambda i: f"{ROOTS[i]}ing", others, 20)
    shown, start = choose_start(task_of(corpus), FitOptions())
    assert start.vectorizer.analyzer.stemmer == (None if is_clear else "english")
    assert (start.name == ORDINARY) == (not is_clear)
    names = ["BM25", "BM25 unstemmed", "tf-idf unstemmed"] if is_clear else ["BM25", "tf-idf"]
    assert [space.name for space in shown] == names
    assert start in shown


def test_stop_words_stay_where_queries_are_made_of_them():
    words = ["who", "it", "there", "he", "me", "we", "they", "she", "you", "us", "him", "her"]
    corpus = one_answer_each(lambda i: f"{words[i]} band", lambda i: words[i], ["band"] * 3, 12)
    _, start = choose_start(task_of(corpus), FitOptions())
    assert start.vectorizer.analyzer.stop_words is None


@pytest.mark.slow
@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_the_weighting_is_the_best_where_that_is_clearly_better_than_the_ordinary(seed):
    """Of one tokenizer; which tokenizer is the best is chosen with memory."""
    rng = np.random.default_rng(seed)
    words = [*(root + ending for root in ROOTS[:6] for ending in ("", "s", "ing")), "the", "of", "it"]
    docs = {f"d{i}": " ".join(rng.choice(words, rng.integers(2, 12))) for i in range(12)}
    queries = {f"q{i}": " ".join(rng.choice(words, 3)) for i in range(12)}
    qrels: Qrels = {qid: {f"d{rng.integers(12)}": 1} for qid in queries}
    task = task_of(Corpus(docs, queries, qrels))
    analyzer = tc.Analyzer(stemmer="english")
    shown, start = choose_start(task, FitOptions(analyzer=analyzer))
    values = {
        name: space.queries.values(space.start)
        for name, own in WEIGHTINGS.items()
        for space in task.spaces({name: tc.Vectorizer(analyzer=analyzer, **own)})
    }
    gain = {name: own - values[ORDINARY] for name, own in values.items()}
    n = len(queries)
    least = 0.02 * values[ORDINARY].mean()
    clear = [name for name, own in gain.items() if own.mean() > max(least, (1 + 30 / n) * stats.sem(own))]
    best = [name for name, own in values.items() if own.mean() == max(other.mean() for other in values.values())]
    assert start.name in (set(clear) & set(best) or {ORDINARY})
    assert {space.name for space in shown} == {ORDINARY, "tf-idf", start.name}
    for space in shown:
        np.testing.assert_array_equal(space.queries.values(space.start), values[space.name])


# -- words are read once ----------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), min_size=1, max_size=8),
    st.lists(st.lists(st.sampled_from("abcxyz"), max_size=4), max_size=4),
    st.sampled_from(["tfidf", "bm25"]),
    st.floats(0.1, 3.0),
    st.floats(0.0, 1.0),
)
def test_words_taken_from_another_vectorizer_weigh_the_same_bits(docs, queries, weighting, k1, b):
    texts, asked = ([" ".join(words) for words in listed] for listed in (docs, queries))
    if not any(texts):
        texts.append("a")
    analyze = tc.Analyzer(pattern=r"\w")
    first = tc.Vectorizer(analyzer=analyze, weighting="bm25")
    counts = first.fit_counts(texts, asked)
    own = {"analyzer": analyze, "weighting": weighting, "k1": k1, "b": b}
    adopted, fitted = tc.Vectorizer(**own).adopt(first, counts), tc.Vectorizer(**own)
    D = fitted.fit_transform_docs(texts, queries=asked)
    for ours, expected in (
        (adopted.doc_rows(counts), D),
        (adopted.transform_docs(texts), D),
        (adopted.transform_queries(asked), fitted.transform_queries(asked)),
        (adopted.query_rows(first.counts(asked)), fitted.transform_queries(asked)),
    ):
        assert (ours.indptr.tobytes(), ours.indices.tobytes(), ours.data.tobytes()) == (
            expected.indptr.tobytes(),
            expected.indices.tobytes(),
            expected.data.tobytes(),
        )
    assert (adopted.words_, adopted.doc_scale_, adopted.mean_length_) == (
        fitted.words_,
        fitted.doc_scale_,
        fitted.mean_length_,
    )
