"""Documents with columns as vectors: fields with statistics of their own, numbers by stated transforms."""

from __future__ import annotations

import math
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.data.documents import Documents, as_documents
from tercet.errors import DamagedBundleError, InputError
from tercet.text import Analyzer, Vectorizer
from tercet.text.fielded import ANY_QUERY, FieldedVectorizer
from tercet.text.numbers import NumberColumn, parse_number

RECORDS = {
    "a": {"title": "Green avocado", "text": "a creamy fruit, green", "tags": "food", "price": 2.0, "downloads": 10},
    "b": {"title": "Kiwi", "text": "another green fruit", "tags": "food bird", "price": None, "downloads": 1000},
    "c": {"title": None, "text": "a bird that cannot fly", "tags": None, "price": 7.5, "downloads": 0},
}
DOCS = as_documents(RECORDS, text=["title", "text"])


def fitted(weighting="bm25"):
    fields, features = ["title", "tags"], ["price", "log:downloads"]
    return FieldedVectorizer(fields=fields, features=features, weighting=weighting).fit(DOCS, queries=["quick snack"])


def test_columns_are_words_fields_numbers_and_what_all_queries_have():
    vectorizer = fitted()
    layout, n = vectorizer.layout_, len(vectorizer.plain_.words_)
    assert (layout.n_words, layout.n_fields, layout.n_numbers) == (n, 2, 4)
    assert vectorizer.words_[:n] == vectorizer.plain_.words_
    assert vectorizer.words_[n] == f"title: {vectorizer.words_[0]}"
    assert vectorizer.words_[-5:] == ["price", "price missing", "log:downloads", "downloads missing", ANY_QUERY]
    assert len(vectorizer.words_) == layout.n_columns == len(vectorizer.document_frequency_)
    assert "food" in vectorizer.index_  # a word of a field that is no part of the text
    assert "snack" in vectorizer.index_  # and one of queries


@pytest.mark.parametrize("weighting", ["bm25", "tfidf"])
def test_words_are_those_of_a_vectorizer_of_texts(weighting):
    vectorizer = fitted(weighting)
    plain = Vectorizer(weighting=weighting).fit(list(DOCS.values()), queries=["quick snack", "food bird"])
    n = vectorizer.layout_.n_words
    assert (vectorizer.transform_docs(DOCS)[:, :n] != plain.transform_docs(list(DOCS.values()))).nnz == 0
    assert (vectorizer.transform_queries(["green bird"])[:, :n] != plain.transform_queries(["green bird"])).nnz == 0


def test_a_field_is_weighted_by_its_own_statistics():
    vectorizer = fitted()
    title, plain = vectorizer.fields_["title"], vectorizer.plain_
    assert title.n_docs_ == 2  # those that have one
    assert title.mean_length_ == 1.5
    green = plain.index_["green"]
    assert (title.document_frequency_[green], plain.document_frequency_[green]) == (1, 2)
    D, n = vectorizer.transform_docs(DOCS), vectorizer.layout_.n_words
    alone = title.transform_docs(["Green avocado", "Kiwi", ""])
    assert np.array_equal(D[:, n : 2 * n].toarray(), alone.toarray())
    assert not D[[2], n : 3 * n].nnz  # a document without the field


def test_numbers_are_standardized_and_missing_ones_marked():
    D = fitted().transform_docs(DOCS).toarray()[:, -5:-1]
    assert D[:, 0].tolist() == [-1, 0, 1]
    assert D[:, 1].tolist() == [0, 1, 0]
    logs = np.log1p([10, 1000, 0])
    assert D[:, 2] == pytest.approx((logs - logs.mean()) / logs.std(), rel=1e-6)


def test_a_query_without_known_words_asks_for_nothing():
    Q = fitted().transform_queries(["green", "zebra", ""])
    assert np.diff(Q.indptr).tolist() == [2, 0, 0]
    assert Q[0, Q.shape[1] - 1] == 1


@pytest.mark.parametrize("weighting", ["bm25", "tfidf"])
def test_what_is_saved_gives_the_same_rows(weighting):
    vectorizer = fitted(weighting)
    again = Vectorizer.from_state(*vectorizer.to_state())
    assert isinstance(again, FieldedVectorizer)
    assert again.words_ == vectorizer.words_
    for make in (lambda v: v.transform_docs(DOCS), lambda v: v.transform_queries(["green kiwi"])):
        assert (make(again) != make(vectorizer)).nnz == 0
    assert type(Vectorizer.from_state(*Vectorizer().fit(["a text"]).to_state())) is Vectorizer


def test_damage_is_noticed():
    meta, arrays = fitted().to_state()
    arrays["fields.0.document_frequency"] = arrays["fields.0.document_frequency"][:-1]
    with pytest.raises(DamagedBundleError, match="'title' has other words"):
        Vectorizer.from_state(meta, arrays)


def test_a_shared_analyzer_cuts_fields_and_texts_alike():
    analyzer = Analyzer(stemmer="english")
    vectorizer = FieldedVectorizer(fields=["title"], analyzer=analyzer).fit(
        as_documents({"a": {"title": "Avocados", "text": "fruits"}, "b": {"title": "Kiwi", "text": "fruit"}})
    )
    Q = vectorizer.transform_queries(["avocado"])
    assert [vectorizer.words_[j] for j in Q.indices] == ["avocado", ANY_QUERY]


# -- numbers ----------------------------------------------------------------------------------------------------------

IDS = [str(i) for i in range(100)]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("x", [1, 2, 3], [1, 2, 3]),
        ("log:x", [0, 1, 9], np.log([1, 2, 10])),
        ("inverse:x", [0, 1, 3], [1, 0.5, 0.25]),
        ("rank:x", [5, 1000, 7], [0, 2, 1]),
        ("rank:x", [5, 5, 7], [0, 0, 1]),
        ("date:x", ["2026-01-01", "2026-01-31", "2026-01-02T12:00:00+00:00"], [0, 30, 1.5]),
        ("x", [True, False, True], [1, 0, 1]),
    ],
)
def test_transforms(name, values, expected):
    column = NumberColumn.learned(name, values, IDS)
    y, missing = column.standardized(values, IDS)
    expected = np.asarray(expected, dtype=float)
    assert y == pytest.approx((expected - expected.mean()) / expected.std(), rel=1e-6)
    assert not missing.any()
    assert column.name == name


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=30), st.sampled_from(["", "log:", "inverse:", "rank:"]))
def test_a_larger_number_never_gets_another_order(values, transform):
    try:
        column = NumberColumn.learned(f"{transform}x", values, IDS)
    except InputError:
        return  # all alike, or too close to be told apart
    y, _ = column.standardized(sorted(values), IDS)
    order = np.diff(y) * (-1 if transform == "inverse:" else 1)
    assert (order >= -1e-9 * np.abs(y).max()).all()


@pytest.mark.parametrize("name", ["x", "log:x", "inverse:x", "rank:x"])
def test_numbers_are_shown_as_they_were(name):
    column = NumberColumn.learned(name, [0, 19.99, 1200, 3456789], IDS)
    y, _ = column.standardized([0, 19.99, 1200], IDS)
    assert [column.shown(float(x)) for x in y.astype(np.float32)[1:]] == ["19.99", "1200"] or name in ("x", "inverse:x")
    assert NumberColumn.learned("date:x", ["2026-01-01", "2026-01-31"], IDS).shown(1.0) == "2026-01-31"


def shown_as_kept(name, values):
    """What is shown of numbers of documents, which are kept as float32."""
    column = NumberColumn.learned(name, values, IDS)
    return [column.shown(float(x)) for x in column.standardized(values, IDS)[0].astype(np.float32)]


def test_a_date_is_shown_as_the_day_it_is_on():
    days = [(date(2020, 1, 1) + timedelta(days=37 * i)).isoformat() for i in range(50)]
    assert shown_as_kept("date:x", days) == days
    assert shown_as_kept("date:x", ["2020-01-01T18:00", "2021-05-01", "2020-03-01"])[0] == "2020-01-01"
    assert shown_as_kept("date:x", [*days[:2], "9999-12-31T23:59:59"])[2] == "9999-12-31"


@pytest.mark.parametrize("name", ["x", "log:x", "inverse:x", "rank:x"])
def test_0_is_shown_as_0(name):
    assert shown_as_kept(name, [0, 1, 2, 3, 1e9])[0] == "0"


def test_a_number_whose_inverse_is_0_is_shown():
    assert shown_as_kept("inverse:x", [0, 1e17]) == ["0", "inf"]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("price", ["2 €", 1], "document '0' has '2 €' for 'price'; expected a number, or nothing"),
        ("price", [1, math.inf], "document '1' has inf for 'price'"),
        ("log:price", [1, -2], "document '1' has -2 for 'price'; log: takes numbers from 0 on. rank:price takes any"),
        ("date:made", ["yesterday", None], "expected a date such as 2026-01-31, or nothing"),
        ("price", [None, math.nan], "'price' has no number in any of the 2 documents"),
        ("price", [3, 3], "'price' is 3 in every document; it cannot tell one from another"),
        ("cube:price", [1, 2], "no known transform before its colon; there are log:, inverse:, rank:, date:"),
    ],
)
def test_what_is_no_number_is_refused(name, values, message):
    with pytest.raises(InputError, match=message.replace(":", r"\:")):
        NumberColumn.learned(name, values, IDS)


def test_names_of_numbers():
    assert parse_number("rank:price") == ("price", "rank")
    assert parse_number("identity:price") == ("price", "identity")


def test_missing_columns_and_plain_texts_are_refused():
    with pytest.raises(InputError, match="no column 'tags'; they have 'text'"):
        FieldedVectorizer(fields=["tags"]).fit(as_documents({"a": "text"}))
    with pytest.raises(InputError, match="scored by 'title', 'tags', 'price' and 'downloads' besides their texts"):
        fitted().transform_docs(["a text"])
    with pytest.raises(InputError, match="document 'a' has 3 for the field 'tags'"):
        FieldedVectorizer(fields=["tags"]).fit(Documents(["a"], {"text": ["x y"], "tags": [3]}))
    with pytest.raises(InputError, match="the field 'tags' has no word in any of the 1 documents"):
        FieldedVectorizer(fields=["tags"]).fit(Documents(["a"], {"text": ["xy"], "tags": [None]}))
    with pytest.raises(InputError, match="'price' is twice among the features"):
        FieldedVectorizer(features=["price", "price"])
    with pytest.raises(InputError, match=r"pass \['title'\]"):
        FieldedVectorizer(fields="title")
