"""An index of documents with fields and numbers: the answers of scoring every document, with reasons that add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from tercet.data.documents import as_documents
from tercet.engines import query_string
from tercet.errors import InputError
from tercet.learn.joint import joined
from tercet.search import Index
from tercet.text import FieldedVectorizer
from tercet.weights import Identity, LowRank, Part, Sparse, Weights

WORDS = [f"w{i}" for i in range(12)]


def records(n, seed):
    rng = np.random.default_rng(seed)
    return {
        f"d{i}": {
            "title": " ".join(rng.choice(WORDS, rng.integers(0, 3))),
            "text": " ".join(rng.choice(WORDS, rng.integers(1, 6))),
            "price": None if rng.random() < 0.2 else float(rng.normal() * 10),
            "downloads": int(rng.pareto(1.0) * 10),
        }
        for i in range(n)
    }


def model_of(docs, parts: list[Part] | None = None, w=(1.5, -0.7, 0.2, 0.4, -0.1), features=("price", "log:downloads")):
    vectorizer = FieldedVectorizer(fields=["title"], features=list(features)).fit(docs)
    n = vectorizer.layout_.n_words
    weights = Weights(parts or [Identity(n_terms=n, scale=2.0)])
    return tc.TextModel(vectorizer, vectorizer, joined(weights, np.array(w, dtype=float), vectorizer.layout_))


def brute_force(model, docs, query, k):
    """The best by scoring all; those that have nothing to which the query gives weight do not count."""
    Q, D = model.queries([query]), model.docs(docs)
    scores = model.weights.score(Q, D)[0]
    ids = list(docs)
    order = sorted(range(len(ids)), key=lambda row: (-scores[row], row))
    return [(ids[row], scores[row]) for row in order][:k]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 60),
    st.integers(0, 10**6),
    st.lists(st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3), min_size=5, max_size=5),
    st.sampled_from(["identity", "sparse", "low rank"]),
    st.integers(1, 20),
)
def test_answers_are_those_of_scoring_every_document(n, seed, w, kind, k):
    docs = as_documents(records(n, seed))
    rng = np.random.default_rng(seed)
    n_words = FieldedVectorizer(fields=[], features=[]).fit(docs).layout_.n_words
    parts: dict[str, list[Part]] = {
        "identity": [Identity(n_terms=n_words, scale=2.0)],
        "sparse": [Sparse(weights=sparse.random_array((n_words, n_words), density=0.3, rng=rng, format="csr"))],
        "low rank": [
            LowRank(
                query_factors=rng.normal(size=(n_words, 3)).astype(np.float32),
                doc_factors=rng.normal(size=(n_words, 3)).astype(np.float32),
            ),
            Identity(n_terms=n_words),
        ],
    }
    try:
        model = model_of(docs, parts[kind], w)
    except InputError:
        return  # too few documents: a column is the same in all of them, or the field is empty
    index = Index.build(docs, model, segment_docs=16)
    query = "w1 w2 w3"
    if not model.queries([query]).nnz:
        return
    hits = index.search(query, k=k, cutoff=False)
    expected = brute_force(model, docs, query, k)
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-9)
    assert len({hit.doc_id for hit in hits}) == len(hits)
    for hit in hits[:3]:
        assert sum(c for _, _, c in hit.why.pairs) == pytest.approx(hit.score, abs=1e-9)
        assert hit.score == pytest.approx(dict(brute_force(model, docs, query, n))[hit.doc_id], abs=1e-9)


@pytest.fixture
def shelf():
    docs = as_documents(records(40, 3))
    return docs, model_of(docs)


def test_reasons_name_fields_and_numbers(shelf):
    docs, model = shelf
    index = Index.build(docs, model)
    hits = index.search("w1", k=40, cutoff=False)
    hit = next(hit for hit in hits if "w1" in docs.record(hit.doc_id)["title"].split())
    names = {(a, b) for a, b, _ in hit.why.pairs}
    assert ("w1", "title: w1") in names
    assert ("any query", f"log:downloads {docs.record(hit.doc_id)['downloads']}") in names
    assert "  title: w1" in str(hit.why)
    first, last = hits[0], hits[-1]
    between = index.versus("w1", first.doc_id, last.doc_id)
    assert sum(c for _, _, c in between.pairs) == pytest.approx(first.score - last.score, abs=1e-9)
    assert hit.stored_fields["downloads"] == docs.record(hit.doc_id)["downloads"]


def test_numbers_alone_make_no_match():
    docs = {
        "plain": {"title": "tea", "text": "green tea", "downloads": 1},
        "known": {"title": "tea", "text": "black tea", "downloads": 20},
        "famous": {"title": "coffee", "text": "black coffee", "downloads": 10**6},
        "none": {"title": "water", "text": "still", "downloads": 0},
    }
    documents = as_documents(docs)
    vectorizer = FieldedVectorizer(fields=["title"], features=["log:downloads"]).fit(documents)
    match = Weights([Identity(n_terms=vectorizer.layout_.n_words)])
    weak, strong = (
        tc.TextModel(vectorizer, vectorizer, joined(match, np.array([0.5, w, 0.0]), vectorizer.layout_))
        for w in (0.1, 5.0)
    )
    index = Index.build(docs, weak)
    assert [hit.doc_id for hit in index.search("tea")] == ["known", "plain"]
    assert [hit.doc_id for hit in index.search("tea", cutoff=False)] == ["known", "plain", "famous", "none"]
    # Where a number outweighs words the order is the model's, down to the last match.
    assert [hit.doc_id for hit in index.with_model(strong).search("tea")] == ["famous", "known", "plain"]


def test_a_query_without_known_words_finds_nothing(shelf):
    docs, model = shelf
    assert not Index.build(docs, model).search("zebra")


def test_an_index_on_disk_takes_more_documents(shelf, tmp_path):
    docs, model = shelf
    index = Index.build(docs, model, tmp_path / "index", keep_texts=False)
    more = records(5, 9)
    index.add({f"new {doc_id}": record for doc_id, record in more.items()})
    index.replace({"d0": {**more["d0"], "downloads": 10**9}})
    again = Index.open(tmp_path / "index")
    assert len(again) == 45
    best = again.search("w1 w2 w3 w4", k=1)[0]
    assert best.doc_id == "d0"
    assert any(name == "log:downloads 1000000000" for _, name, _ in best.why.pairs)


def test_documents_one_after_the_other_carry_their_numbers(shelf):
    docs, _ = shelf
    vectorizer = FieldedVectorizer(features=["price"]).fit(docs)
    match = Weights([Identity(n_terms=vectorizer.layout_.n_words)])
    model = tc.TextModel(vectorizer, vectorizer, joined(match, np.array([0.5, 0.1]), vectorizer.layout_))
    index = Index.build(((doc_id, text, docs.stored_fields(doc_id)) for doc_id, text in docs.items()), model)
    whole = Index.build(docs, model)
    assert [(hit.doc_id, hit.score) for hit in index.search("w1 w2")] == [
        (hit.doc_id, hit.score) for hit in whole.search("w1 w2")
    ]


def test_what_lacks_columns_is_refused(shelf):
    docs, model = shelf
    index = Index.build(docs, model)
    with pytest.raises(InputError, match="no column 'title'; they have 'text'"):
        index.add({"new": "a text"})
    with pytest.raises(InputError, match="no column 'title'; they have 'price', 'downloads' and 'text'"):
        index.add([("new", "a text", {"price": 1.0, "downloads": 3})])
    assert len(index) == 40


def test_a_query_for_engines_refuses_a_model_with_fields(shelf):
    _, model = shelf
    with pytest.raises(InputError, match="engines keep words alone"):
        query_string(model, "w1")
