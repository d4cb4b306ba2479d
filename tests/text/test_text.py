"""Words to vectors: the analyzer, tf-idf against scikit-learn, BM25 against its formula, saving."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.store.codec import decode, encode
from tercet.text import Analyzer, Vectorizer
from tercet.text.stop_words import ENGLISH

TEXTS = [
    "The green avocado and the green eyes of the running cat",
    "Running, runs, ran: a cat runs after the mouse!",
    "Über große Katzen — naïve café, 北京 東京",
    "",
    "eyes eyes eyes avocado x 42 42",
]


def made_corpus(n_texts: int = 300, n_words: int = 2_000, seed: int = 0) -> list[str]:
    """Texts with Zipf-like words: many words share their total count, so ties are settled many times."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, n_words + 1)
    names = np.array([f"w{number:x}" for number in rng.permutation(n_words)])
    drawn = [rng.choice(names, size=rng.integers(0, 60), p=chance / chance.sum()) for _ in range(n_texts)]
    return [" ".join(words) for words in drawn]


def bm25_scores(queries: list[str], docs: list[str], fitted: list[str], k1: float, b: float) -> np.ndarray:
    """BM25 as it is written in books, one pair and one word at a time."""
    analyze = Analyzer()
    collection = [analyze(text) for text in fitted]
    mean_length = sum(len(words) for words in collection) / len(collection)
    scores = np.zeros((len(queries), len(docs)))
    for row, query in enumerate(queries):
        for column, doc in enumerate(docs):
            words = analyze(doc)
            for word in analyze(query):
                df = sum(word in other for other in collection)
                tf = words.count(word)
                if df and tf:
                    idf = math.log(1 + (len(collection) - df + 0.5) / (df + 0.5))
                    norm = k1 * (1 - b + b * len(words) / mean_length)
                    scores[row, column] += idf * tf * (k1 + 1) / (tf + norm)
    return scores


@pytest.mark.parametrize(
    "settings", [{"weighting": "tfidf"}, {"weighting": "bm25"}, {"weighting": "bm25", "idf_power": 0.3}]
)
def test_a_text_alone_has_the_bits_that_it_has_among_many(settings):
    texts = made_corpus()  # together they have more entries than there are words, alone fewer
    vectorizer = Vectorizer(**settings).fit(texts)
    for transform in (vectorizer.transform_queries, vectorizer.transform_docs):
        together = transform(texts)
        assert together.nnz > len(vectorizer.words_)
        for number in range(0, len(texts), 7):
            alone = transform([texts[number]])
            assert alone.indices.tobytes() == together[[number]].indices.tobytes()
            assert alone.data.tobytes() == together[[number]].data.tobytes()


def test_english_stop_words_are_those_of_scikit_learn():
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    assert ENGLISH == ENGLISH_STOP_WORDS


class TestAnalyzer:
    @pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3), (4, 40)])
    @pytest.mark.parametrize("stop_words", [None, "english", ["green", "the"]])
    @pytest.mark.parametrize("lowercase", [True, False])
    def test_equals_scikit_learns(self, ngrams, stop_words, lowercase):
        theirs = CountVectorizer(ngram_range=ngrams, stop_words=stop_words, lowercase=lowercase)
        ours = Analyzer(ngrams=ngrams, stop_words=stop_words, lowercase=lowercase)
        assert [ours(text) for text in TEXTS] == [theirs.build_analyzer()(text) for text in TEXTS]

    def test_stop_words_go_before_stemming_and_ngrams(self):
        analyzer = Analyzer(stop_words=["runs", "the"], stemmer="english", ngrams=(1, 2))
        # "running" stems to what "runs" would, and stays; "cat" and "mouse" become neighbors.
        assert analyzer("cat runs the mouse running") == ["cat", "mous", "run", "cat mous", "mous run"]

    def test_stop_words_match_whatever_their_case(self):
        assert Analyzer(stop_words=["The"])("THE cat") == ["cat"]
        assert Analyzer(stop_words=["The"], lowercase=False)("The the") == ["the"]

    def test_group_and_empty_matches(self):
        assert Analyzer(pattern=r"#(\w*)")("#one # two #three") == ["one", "three"]
        assert Analyzer(pattern=r"\w*")("one two") == ["one", "two"]

    def test_stems_are_cached_and_right(self):
        analyzer = Analyzer(stemmer="english")
        assert analyzer("running runs") == analyzer("running runs") == ["run", "run"]
        assert Analyzer(stemmer="german")("häuser") == ["haus"]

    def test_is_a_value(self):
        words = ["the"]
        analyzer = Analyzer(stop_words=words)
        words.append("cat")
        assert analyzer("the cat") == ["cat"]
        assert analyzer == Analyzer(stop_words=("the",))
        assert hash(analyzer) == hash(Analyzer(stop_words=["the"]))
        with pytest.raises(AttributeError):
            analyzer.lowercase = False

    def test_copies_after_use(self):
        analyzer = Analyzer(stemmer="english", stop_words="english")
        analyzer("the cats")
        other = copy.deepcopy(analyzer)
        assert other == analyzer
        assert other("the cats") == ["cat"]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("lowercase", 1),
            ("pattern", "("),
            ("pattern", None),
            ("pattern", "(a)(b)"),
            ("stop_words", "german"),
            ("stop_words", {"the"}),
            ("stop_words", ["the", 3]),
            ("stemmer", "klingon"),
            ("stemmer", 3),
            ("ngrams", (0, 1)),
            ("ngrams", (2, 1)),
            ("ngrams", (1,)),
            ("ngrams", (1, True)),
            ("ngrams", 2),
        ],
    )
    def test_refuses_wrong_parameters(self, name, value):
        with pytest.raises(ParameterError, match=rf"The '{name}.*' parameter of Analyzer must be"):
            Analyzer(**{name: value})

    @pytest.mark.parametrize(
        "analyzer",
        [
            Analyzer(),
            Analyzer(stop_words="english", ngrams=(1, 3), lowercase=False),
            Analyzer(stop_words=["a", "b"], stemmer="french", pattern=r"\S+"),
            Analyzer(stop_words=[]),
        ],
    )
    def test_meta_round_trip_through_json(self, analyzer):
        assert decode(Analyzer, json.loads(json.dumps(encode(analyzer)[0]))) == analyzer

    @pytest.mark.parametrize("key", ["lowercase", "pattern", "stop_words", "stemmer", "ngrams"])
    def test_meta_with_a_missing_or_wrong_key_is_damaged(self, key):
        meta = encode(Analyzer())[0]
        with pytest.raises(DamagedBundleError, match=key):
            decode(Analyzer, {name: value for name, value in meta.items() if name != key})
        with pytest.raises(DamagedBundleError, match=key):
            decode(Analyzer, meta | {key: -1})

    def test_meta_with_an_unknown_key_is_damaged(self):
        with pytest.raises(DamagedBundleError, match="accents"):
            decode(Analyzer, encode(Analyzer())[0] | {"accents": True})
        with pytest.raises(DamagedBundleError, match="mapping"):
            decode(Analyzer, [])


class TestTfidf:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"max_features": 100},
            {"max_features": 777, "min_df": 2},
            {"min_df": 3, "max_df": 0.5},
            {"min_df": 0.02, "max_df": 40},
            {"sublinear_tf": False},
        ],
    )
    def test_equals_scikit_learns(self, options):
        texts = made_corpus()
        theirs = TfidfVectorizer(**{"sublinear_tf": True, **options})
        expected = theirs.fit_transform(texts)
        ours = Vectorizer(**options).fit(texts)
        assert ours.words_ == theirs.get_feature_names_out().tolist()
        np.testing.assert_allclose(ours.transform_docs(texts).toarray(), expected.toarray(), atol=1e-6)

    @pytest.mark.slow
    def test_equals_scikit_learns_with_the_papers_settings(self):
        texts = [*made_corpus(n_texts=1500, n_words=30_000), *TEXTS]
        theirs = TfidfVectorizer(max_features=10_000, sublinear_tf=True, stop_words="english")
        expected = theirs.fit_transform(texts)
        ours = Vectorizer(analyzer=Analyzer(stop_words="english"), max_features=10_000)
        D = ours.fit_transform_docs(texts)
        assert len(theirs.vocabulary_) == 10_000  # so that ties were in fact settled
        assert ours.index_ == theirs.vocabulary_
        assert abs(D - expected).max() < 1e-6
        unseen = made_corpus(n_texts=50, n_words=30_000, seed=1)
        assert abs(ours.transform_queries(unseen) - theirs.transform(unseen)).max() < 1e-6

    def test_queries_and_documents_are_alike_and_of_unit_length(self):
        vectorizer = Vectorizer().fit(TEXTS)
        D, Q = vectorizer.transform_docs(TEXTS), vectorizer.transform_queries(TEXTS)
        assert (D != Q).nnz == 0
        np.testing.assert_allclose(np.linalg.norm(D.toarray(), axis=1), [1, 1, 1, 0, 1], rtol=1e-6)


class TestBm25:
    @pytest.mark.parametrize("idf_power", [0, 0.3, 0.5, 1])
    @pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.2, 0.75), (0, 0), (2, 1)])
    def test_inner_product_is_bm25_up_to_a_factor_per_query(self, idf_power, k1, b):
        docs = made_corpus(n_texts=40, n_words=50)
        queries = ["w1 w2 w3", "w4 w4 w4 w5 unheard", "wa"]
        unseen = made_corpus(n_texts=10, n_words=60, seed=1)
        vectorizer = Vectorizer(weighting="bm25", k1=k1, b=b, idf_power=idf_power).fit(docs)
        Q, D = vectorizer.transform_queries(queries), vectorizer.transform_docs([*docs, *unseen])
        found = (Q.astype(np.float64) @ D.astype(np.float64).T).toarray()
        expected = bm25_scores(queries, [*docs, *unseen], docs, k1, b)
        assert (expected.max(axis=1) > 0).all()
        factor = found.max(axis=1) / expected.max(axis=1)
        np.testing.assert_allclose(found, factor[:, None] * expected, rtol=2e-5, atol=1e-7)

    def test_lengths(self):
        docs = made_corpus(n_texts=100, n_words=300)
        vectorizer = Vectorizer(weighting="bm25").fit(docs)
        D, Q = vectorizer.transform_docs(docs).toarray(), vectorizer.transform_queries(docs[:20]).toarray()
        np.testing.assert_allclose(np.linalg.norm(D, axis=1).mean(), 1, rtol=1e-5)
        has_words = [bool(text) for text in docs[:20]]
        np.testing.assert_allclose(np.linalg.norm(Q, axis=1), has_words, rtol=1e-5)

    def test_length_counts_words_without_a_column(self):
        texts = ["cat cat", "cat mouse lion tiger", "mouse"]
        vectorizer = Vectorizer(weighting="bm25", max_features=1, b=1.0).fit(texts)
        assert vectorizer.words_ == ["cat"]
        assert vectorizer.mean_length_ == 7 / 3
        short, long = vectorizer.transform_docs(["cat", "cat unheard of thing"]).toarray()
        assert short > long

    def test_sublinear_tf_is_for_tfidf_alone(self):
        rows = [
            Vectorizer(weighting="bm25", sublinear_tf=sublinear).fit_transform_docs(TEXTS)
            for sublinear in (True, False)
        ]
        assert (rows[0] != rows[1]).nnz == 0


@pytest.mark.parametrize("weighting", ["tfidf", "bm25"])
class TestEveryWeighting:
    def test_rows_are_canonical_float32(self, weighting):
        texts = [*made_corpus(), "", "nothing known"]
        vectorizer = Vectorizer(weighting=weighting).fit(texts[:200])
        for rows in (vectorizer.transform_docs(texts), vectorizer.transform_queries(texts)):
            assert rows.format == "csr"
            assert rows.dtype == np.float32
            assert rows.shape == (len(texts), len(vectorizer.words_))
            assert rows[-2:].nnz == 0
            for start, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
                assert (np.diff(rows.indices[start:end]) > 0).all()
            assert (rows.data > 0).all()

    def test_fit_transform_is_fit_and_transform(self, weighting):
        texts = made_corpus()
        vectorizer = Vectorizer(weighting=weighting, max_features=500)
        once = vectorizer.fit_transform_docs(texts)
        assert (once != vectorizer.fit(texts).transform_docs(texts)).nnz == 0

    def test_a_row_does_not_depend_on_its_neighbors(self, weighting):
        texts = made_corpus(n_texts=30)
        vectorizer = Vectorizer(weighting=weighting).fit(texts)
        together = vectorizer.transform_docs(texts)
        for row, text in enumerate(texts):
            assert (together[[row]] != vectorizer.transform_docs([text])).nnz == 0

    def test_words_and_frequencies(self, weighting):
        vectorizer = Vectorizer(weighting=weighting).fit(iter(TEXTS))
        assert vectorizer.words_ == sorted(vectorizer.words_)
        assert vectorizer.index_ == {word: column for column, word in enumerate(vectorizer.words_)}
        assert vectorizer.n_docs_ == 5
        expected = Counter(word for text in TEXTS for word in set(Analyzer()(text)))
        assert dict(zip(vectorizer.words_, vectorizer.document_frequency_, strict=True)) == expected

    def test_unknown_words(self, weighting):
        analyzer = Analyzer(stop_words="english")
        vectorizer = Vectorizer(weighting=weighting, analyzer=analyzer).fit(["green avocado"])
        assert vectorizer.unknown_words("the zebra eats green avocado, zebra!") == ["zebra", "eats"]
        assert vectorizer.unknown_words("") == []

    def test_no_texts_to_transform(self, weighting):
        vectorizer = Vectorizer(weighting=weighting).fit(["one two"])
        assert vectorizer.transform_docs([]).shape == (0, 2)
        assert vectorizer.transform_queries([]).shape == (0, 2)

    def test_clone_keeps_parameters_and_forgets_words(self, weighting):
        vectorizer = Vectorizer(weighting=weighting, analyzer=Analyzer(stemmer="english"), k1=1.5).fit(TEXTS)
        copied = clone(vectorizer)
        assert copied.get_params() == vectorizer.get_params()
        with pytest.raises(NotFittedError):
            copied.transform_docs(TEXTS)

    @settings(deadline=None, max_examples=40)
    @given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=8), data=st.data())
    def test_state_round_trip_is_exact(self, weighting, texts, data):
        ngrams = data.draw(st.sampled_from([(1, 1), (1, 2)]))
        analyzer = Analyzer(pattern=r"\w+", ngrams=ngrams)
        vectorizer = Vectorizer(weighting=weighting, analyzer=analyzer, max_features=np.int64(10)).fit(
            ["somewhere a word", *texts]
        )
        meta, arrays = vectorizer.to_state()
        assert arrays["words"].dtype == np.uint8
        assert arrays["word_offsets"].dtype == np.int64
        again = Vectorizer.from_state(json.loads(json.dumps(meta)), {k: v.copy() for k, v in arrays.items()})
        assert again.get_params() == vectorizer.get_params()
        assert (again.words_, again.index_) == (vectorizer.words_, vectorizer.index_)
        assert again.n_docs_ == vectorizer.n_docs_
        for method in ("transform_docs", "transform_queries"):
            before, after = getattr(vectorizer, method)(texts), getattr(again, method)(texts)
            assert before.shape == after.shape
            assert (before != after).nnz == 0

    @settings(deadline=None, max_examples=30)
    @given(texts=st.lists(st.text(alphabet="ab cé", max_size=30), min_size=1, max_size=6))
    def test_entries_stand_where_the_words_are(self, weighting, texts):
        vectorizer = Vectorizer(weighting=weighting, analyzer=Analyzer(pattern=r"\w+")).fit(["ab b", *texts])
        for rows in (vectorizer.transform_docs(texts), vectorizer.transform_queries(texts)):
            for row, text in enumerate(texts):
                found = {vectorizer.words_[column] for column in rows[[row]].indices}
                assert found == set(text.split())


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("analyzer", str.split),
            ("weighting", "bm26"),
            ("max_features", 0),
            ("max_features", 1.5),
            ("max_features", True),
            ("min_df", 0),
            ("min_df", -0.1),
            ("max_df", 1.1),
            ("max_df", "1"),
            ("sublinear_tf", "yes"),
            ("k1", -1),
            ("k1", math.inf),
            ("b", 1.01),
            ("b", math.nan),
            ("idf_power", -0.5),
            ("idf_power", None),
        ],
    )
    def test_wrong_parameters(self, name, value):
        with pytest.raises(ParameterError, match=f"The '{name}' parameter of Vectorizer must be"):
            Vectorizer(**{name: value})
        with pytest.raises(ParameterError, match=f"The '{name}' parameter"):
            Vectorizer().set_params(**{name: value}).fit(TEXTS)

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            ([], "texts is empty"),
            (["", "  ", "x"], "found none in the 3 texts"),
            (["fine", 3], r"texts\[1\] must be a string, found int"),
            (["fine", "fine", None], r"texts\[2\] must be a string, found NoneType"),
            ([b"bytes"], r"texts\[0\] must be a string, found bytes"),
            ("one text", r"found str; pass \[text\]"),
            ({"d1": "one text"}, r"found dict; pass list\(texts.values\(\)\)"),
        ],
    )
    def test_wrong_texts_when_fitting(self, texts, message):
        with pytest.raises(InputError, match=message):
            Vectorizer().fit(texts)

    def test_wrong_texts_when_transforming(self):
        vectorizer = Vectorizer().fit(TEXTS)
        for method in (vectorizer.transform_docs, vectorizer.transform_queries):
            with pytest.raises(InputError, match=r"texts\[1\] must be a string, found float"):
                method(["fine", 0.5])
        with pytest.raises(InputError, match="must be a string"):
            vectorizer.unknown_words(None)

    def test_limits_that_leave_no_word(self):
        with pytest.raises(InputError, match=r"min_df=3 and max_df=1.0 leave no word"):
            Vectorizer(min_df=3).fit(["one two", "two three"])

    def test_half_a_surrogate_pair(self):
        with pytest.raises(InputError, match=r"\\ud83d"):
            Vectorizer(analyzer=Analyzer(pattern=r"\S+")).fit(["fine", "cut off \ud83d"])

    def test_not_fitted(self):
        for use in (
            lambda v: v.transform_docs(TEXTS),
            lambda v: v.transform_queries(TEXTS),
            lambda v: v.unknown_words("x"),
            lambda v: v.to_state(),
        ):
            with pytest.raises(NotFittedError):
                use(Vectorizer())


class TestDamage:
    def state(self):
        meta, arrays = Vectorizer().fit(["bee ant", "ant cow"]).to_state()
        return meta, {name: array.copy() for name, array in arrays.items()}

    def refused(self, meta, arrays, message):
        with pytest.raises(DamagedBundleError, match=message):
            Vectorizer.from_state(meta, arrays)

    def test_every_missing_and_an_unknown_key(self):
        meta, arrays = self.state()
        for key in meta:
            self.refused({name: meta[name] for name in meta if name != key}, arrays, f"{key} is missing")
        for key in arrays:
            rest = {name: arrays[name] for name in arrays if name != key}
            self.refused(meta, rest, f"has no array '{key}'")
        self.refused(meta | {"color": 1}, arrays, "vectorizer.color is unknown")
        self.refused(meta, arrays | {"color": arrays["words"]}, "unexpected arrays .*color")

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("weighting", "other"),
            ("k1", "0.9"),
            ("n_docs", 0),
            ("n_docs", 2.0),
            ("n_docs", True),
            ("mean_length", 0.0),
            ("mean_length", math.nan),
            ("doc_scale", -1.0),
            ("doc_scale", None),
        ],
    )
    def test_wrong_meta(self, key, value):
        meta, arrays = self.state()
        self.refused(meta | {key: value}, arrays, key)

    def test_wrong_analyzer(self):
        meta, arrays = self.state()
        self.refused(meta | {"analyser": meta["analyser"] | {"ngrams": [2, 1]}}, arrays, "ngrams")
        self.refused(meta | {"analyser": None}, arrays, "analyser is None; expected a mapping")

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("words", lambda a: a.astype(np.int8)),
            ("words", lambda a: a[None]),
            ("words", lambda a: a.tobytes()),
            ("words", lambda a: a[:-1]),
            ("word_offsets", lambda a: a.astype(np.int32)),
            ("word_offsets", lambda a: a[:0]),
            ("word_offsets", lambda a: a[1:]),
            ("word_offsets", lambda a: np.array([0, 6, 3, 9])),
            ("word_offsets", lambda a: np.array([0, 3, 3, 9])),
            ("word_offsets", lambda a: np.array([0, 3, 100, 9])),
            ("word_offsets", lambda a: np.array([0, -3, 6, 9])),
            ("document_frequency", lambda a: a.astype(np.float64)),
            ("document_frequency", lambda a: a[:-1]),
            ("document_frequency", lambda a: a * 0 - 1),
            ("document_frequency", lambda a: a + 2),
        ],
    )
    def test_wrong_arrays(self, name, wrong):
        meta, arrays = self.state()
        self.refused(meta, arrays | {name: wrong(arrays[name])}, "word" if name == "word_offsets" else name)

    def test_wrong_words(self):
        meta, arrays = self.state()
        for text, message in (
            (b"ant\xff\xffecow", "words are not UTF-8"),
            (b"antantcow", "without duplicates, found 'ant' and then 'ant' at word 1"),
            (b"antcowbee", "alphabetical order without duplicates, found 'cow' and then 'bee'"),
        ):
            self.refused(meta, arrays | {"words": np.frombuffer(text, dtype=np.uint8)}, message)

    @settings(deadline=None, max_examples=50)
    @given(at=st.integers(0, 8), byte=st.integers(0, 255))
    def test_a_changed_byte_is_refused_or_still_gives_sorted_words(self, at, byte):
        meta, arrays = self.state()
        arrays["words"][at] = byte
        try:
            words = Vectorizer.from_state(meta, arrays).words_
        except DamagedBundleError:
            return
        assert words == sorted(set(words))
        assert "".join(words).encode() == arrays["words"].tobytes()


class TestQueryWords:
    """Words that only queries have: known, but in no document."""

    DOCS: ClassVar = ["green avocado", "green eyes"]

    @pytest.mark.parametrize("weighting", ["tfidf", "bm25"])
    def test_they_get_a_column_and_change_no_document(self, weighting):
        plain = Vectorizer(weighting=weighting).fit(self.DOCS)
        wider = Vectorizer(weighting=weighting).fit(self.DOCS, queries=["green guacamole", "zebra eyes"])
        assert wider.words_ == ["avocado", "eyes", "green", "guacamole", "zebra"]
        assert wider.document_frequency_.tolist() == [1, 1, 2, 0, 0]
        before, after = plain.transform_docs(self.DOCS).toarray(), wider.transform_docs(self.DOCS).toarray()
        np.testing.assert_array_equal(after[:, [0, 1, 2]], before)
        assert not after[:, [3, 4]].any()
        row = wider.transform_queries(["guacamole"]).toarray()[0]
        assert row.nonzero()[0].tolist() == [3]
        assert np.isfinite(row).all()

    def test_words_cut_from_the_documents_stay_cut(self):
        vectorizer = Vectorizer(max_features=1).fit(self.DOCS, queries=["avocado guacamole"])
        assert vectorizer.words_ == ["green", "guacamole"]

    def test_fitted_and_transformed_at_once_it_is_the_same(self):
        queries = ["guacamole"]
        at_once = Vectorizer(weighting="bm25").fit_transform_docs(self.DOCS, queries=queries)
        in_steps = Vectorizer(weighting="bm25").fit(self.DOCS, queries=queries).transform_docs(self.DOCS)
        np.testing.assert_array_equal(at_once.toarray(), in_steps.toarray())

    def test_they_are_saved(self):
        vectorizer = Vectorizer().fit(self.DOCS, queries=["guacamole"])
        again = Vectorizer.from_state(*vectorizer.to_state())
        assert again.words_ == vectorizer.words_
        assert again.document_frequency_.tolist() == vectorizer.document_frequency_.tolist()
