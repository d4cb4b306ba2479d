"""Texts to vectors on disk: the numbers of the vectorizer in memory, to the bit, in one pass over the texts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import tercet as tc
from support.forking import kill_while
from support.memory import fits_within
from tercet.errors import BundleError, InputError, MissingBundleError
from tercet.learn.matrices import column_counts
from tercet.text import vectors as module
from tercet.text.counting import SumByBlocks
from tercet.text.vectors import Vectors, vectorize

DOCS = {f"d{i}": " ".join(f"w{(i * k * k) % 37}" for k in range(i % 9)) for i in range(60)}
QUERIES = {"q0": "w3 asked", "q1": "w9 w9 w12", "q2": "nothing known"}


def same(found: sparse.csr_array, expected: sparse.csr_matrix) -> bool:
    return found.shape == expected.shape and all(
        np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("indptr", "indices", "data")
    )


WORDS = st.lists(st.sampled_from(["ab", "cd", "ef", "gh", "é1", "ij"]), max_size=6).map(" ".join)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(WORDS, min_size=1, max_size=12).filter(lambda texts: any(map(str.strip, texts))),
    asked=st.lists(WORDS.map(lambda text: f"{text} only asked"), max_size=3),
    weighting=st.sampled_from(["tfidf", "bm25"]),
    max_words=st.sampled_from([None, 1, 3]),
    min_df=st.sampled_from([1, 2]),
    block=st.integers(1, 5),
)
def test_vectors_have_the_bits_of_the_vectorizer_in_memory(
    tmp_path, monkeypatch, texts, asked, weighting, max_words, min_df, block
):
    monkeypatch.setattr(module, "BLOCK_TEXTS", block)
    shutil.rmtree(tmp_path / "vectors", ignore_errors=True)
    vectorizer = tc.Vectorizer(weighting=weighting, max_features=max_words, min_df=min_df)
    unfitted = clone(vectorizer)
    docs, queries = ({f"{k}{i}": t for i, t in enumerate(side)} for k, side in (("d", texts), ("q", asked)))
    if max(Counter(word for text in texts for word in set(text.split())).values()) < min_df:
        with pytest.raises(InputError, match="leave no word"):
            vectorize(docs, queries, tmp_path / "vectors", vectorizer=unfitted)
        return
    D = vectorizer.fit_transform_docs(texts, queries=asked)
    vectorize(docs, queries or None, tmp_path / "vectors", vectorizer=unfitted)
    assert not hasattr(unfitted, "words_")
    vectors = Vectors.open(tmp_path / "vectors", verify="open")
    assert same(vectors.docs, D)
    assert list(vectors.doc_ids) == list(docs)
    if queries:
        assert same(vectors.queries, vectorizer.transform_queries(asked))
        assert list(vectors.query_ids) == list(queries)
    for name in ("words_", "index_", "n_docs_", "mean_length_", "doc_scale_"):
        assert getattr(vectors.vectorizer, name) == getattr(vectorizer, name)
    np.testing.assert_array_equal(vectors.vectorizer.document_frequency_, vectorizer.document_frequency_)
    np.testing.assert_array_equal(column_counts(vectors.docs), vectorizer.document_frequency_)


@pytest.mark.slow
def test_many_texts_in_many_blocks_have_the_same_bits(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    docs = {f"d{i}": " ".join(f"w{w}" for w in rng.integers(0, 500, rng.integers(1, 30))) for i in range(9000)}
    monkeypatch.setattr(module, "BLOCK_LETTERS", 10_000)
    vectorizer = tc.Vectorizer(weighting="bm25")
    D = vectorizer.fit_transform_docs(docs.values())
    vectors = vectorize(docs, None, tmp_path / "vectors", vectorizer=tc.Vectorizer(weighting="bm25"))
    assert vectors.vectorizer.doc_scale_ == vectorizer.doc_scale_
    assert same(vectors.docs, D)
    assert vectors.queries is None


@given(st.lists(st.floats(0, 1e6), max_size=50), st.lists(st.integers(0, 50), max_size=5))
def test_a_sum_by_blocks_does_not_depend_on_the_parts(values, cuts):
    whole, parted = SumByBlocks(4), SumByBlocks(4)
    array = np.array(values)
    whole.add(array)
    for part in np.split(array, sorted(tokenizer for tokenizer in cuts if tokenizer <= len(values))):
        parted.add(part)
    assert whole.total == parted.total == pytest.approx(sum(values))


def test_texts_are_read_once_and_may_be_a_stream(tmp_path):
    seen: list[str] = []

    def stream() -> Iterator[tuple[str, str]]:
        for pair in DOCS.items():
            seen.append(pair[0])
            yield pair

    said: list[int] = []
    vectors = vectorize(stream(), iter(QUERIES.items()), tmp_path / "vectors", progress=said.append)
    assert seen == list(DOCS) == list(vectors.doc_ids)
    assert said == [60]
    assert vectors.query_ids.find("q1") == 1
    assert "asked" in vectors.vectorizer.index_


def test_a_fitted_vectorizer_writes_at_once(tmp_path):
    fitted = tc.Vectorizer(weighting="bm25", analyzer=tc.Analyzer(stop_words="english")).fit(["w1 w2 w3", "w3 w9"])
    one = vectorize(DOCS, QUERIES, tmp_path / "one", vectorizer=fitted)
    assert same(one.docs, fitted.transform_docs(DOCS.values()))
    assert same(one.queries, fitted.transform_queries(QUERIES.values()))
    assert Vectors.open(tmp_path / "one").vectorizer.words_ == fitted.words_


# -- wrong use, damage and kills ------------------------------------------------------------------------------------


def test_what_cannot_be_vectorized_says_why(tmp_path):
    for docs, match in (
        ([("a", "w1"), ("b", None)], "the text of text 1 is None"),
        ([(1, "w1")], "the id of text 0 is 1"),
        (["w1"], "expected a pair"),
        ([("a", "w1"), None, ("b", "w2")], "text 1 is None; expected a pair"),
        ({}, "texts is empty"),
        ({"a": "?"}, "fitting needs words"),
        ([("a", "w1"), ("b", "w2"), ("a", "w3")], "'a' belongs to row 0 and to row 2"),
        ([("a", "w1"), ("\ud800", "w2")], "the id of text 1 holds half a surrogate pair"),
    ):
        with pytest.raises(InputError, match=match):
            vectorize(docs, None, tmp_path / "vectors")
        assert not (tmp_path / "vectors").exists()  # nothing is left
    assert list(vectorize(DOCS, None, tmp_path / "vectors").doc_ids) == list(DOCS)  # nothing stood in the way


def test_vectors_are_written_once_and_into_no_foreign_folder(tmp_path):
    vectorize(DOCS, None, tmp_path / "vectors")
    with pytest.raises(BundleError, match="holds something already"):
        vectorize(DOCS, None, tmp_path / "vectors")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BundleError, match="not a Tercet bundle"):
        vectorize(DOCS, None, tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").exists()


@pytest.mark.parametrize("fitted", [False, True], ids=["counting", "writing"])
def test_a_kill_leaves_nothing(fitted, tmp_path):
    folder, sign = tmp_path / "vectors", tmp_path / "sign"
    vectorizer = tc.Vectorizer().fit(["w1 w2"]) if fitted else None

    def endless() -> Iterator[tuple[str, str]]:
        for i in count():
            if i == 3 * module.BLOCK_TEXTS:
                sign.touch()
            yield f"d{i}", f"w{i % 50}"

    kill_while(lambda: vectorize(endless(), None, folder, vectorizer=vectorizer), sign.exists, 0.05)
    assert list(tmp_path.iterdir()) == [sign]
    with pytest.raises(MissingBundleError):
        Vectors.open(folder)


def test_an_error_late_on_leaves_nothing_but_what_was_there(tmp_path, monkeypatch):
    def fails(*args, **kwargs):
        raise BundleError("no")

    (tmp_path / "vectors").mkdir()
    monkeypatch.setattr(module, "write_bundle", fails)  # the last thing that is written
    with pytest.raises(BundleError, match="no"):
        vectorize(DOCS, QUERIES, tmp_path / "vectors")
    assert list((tmp_path / "vectors").iterdir()) == []


FILLING = """
import sys, resource
from tercet.errors import BundleError
from tercet.text import vectorize
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    vectorize(((f"d{i}", f"w{i}") for i in range(int(sys.argv[2]))), None, sys.argv[1])
except BundleError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_texts", [540, 5000])  # too many for the rows, and for what is put aside
def test_a_full_disk_is_an_error_that_names_the_folder(n_texts, tmp_path):
    command = [sys.executable, "-c", FILLING, tmp_path / "vectors", str(n_texts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"{tmp_path / 'vectors'}" in done.stdout
    assert "cannot be written" in done.stdout
    assert list(tmp_path.iterdir()) == []


# -- memory ---------------------------------------------------------------------------------------------------------

VECTORIZING = """
import numpy as np
from tercet.text import vectors

vectors.BLOCK_TEXTS = 256
words = np.array([f"word{i}" for i in range(3000)], dtype=object)


def stream(n):
    for start in range(0, n, 100):
        rng = np.random.default_rng(start)
        for at, row in enumerate(rng.integers(0, len(words), (100, 150))):
            yield f"document {start + at}", " ".join(words[row])


vectors.vectorize(stream(500), None, sys.argv[1] + "/small")
with Limited(int(sys.argv[2])):
    vectors.vectorize(stream(16_000), None, sys.argv[1] + "/large", vectorizer=vectors.Vectorizer(weighting="bm25"))
"""
ALLOWED = 12 * 2**20  # of blocks of texts and their counts, and what Python rounds up


@pytest.mark.slow
def test_memory_is_some_blocks_however_many_texts_there_are(tmp_path):
    assert fits_within(VECTORIZING, tmp_path, ALLOWED)
    assert sum(file.stat().st_size for file in (tmp_path / "large").iterdir()) > ALLOWED
