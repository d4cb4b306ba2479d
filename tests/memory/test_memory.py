"""Memory: its equations, the two papers it belongs to, searches with it, reasons that sum to the score, files."""

from __future__ import annotations

from dataclasses import replace
from mmap import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from oracles.memory import kernel_term, pooled_rows, score
from support.corpora import Corpus, synonyms
from support.indexes import random_part
from support.memories import remember
from tercet.data.documents import as_documents
from tercet.errors import BundleError, DamagedBundleError, InputError
from tercet.fitting.text_model import TextExplanation, past_name
from tercet.learn.joint import joined
from tercet.memory import Memory, MemorySettings, PastQuery
from tercet.search.folder import model_name
from tercet.store import read_bundle, write_bundle
from tercet.text import FieldedVectorizer
from tercet.weights import Identity, Sparse, Weights

N_TERMS, N_PAST, N_DOCS = 9, 8, 5


def random_memory(seed: int, shape: MemorySettings, *, against: bool = False) -> tuple[Memory, np.ndarray]:
    """Memory of random past queries and evidence, some of it against documents, and random queries (4, n_terms)."""
    rng = np.random.default_rng(seed)
    P, Q = (rng.random((n, N_TERMS)) * (rng.random((n, N_TERMS)) < 0.4) for n in (N_PAST, 4))
    P /= np.maximum(np.linalg.norm(P, axis=1, keepdims=True), 1e-9)
    R = rng.random((N_PAST, N_DOCS)) * (rng.random((N_PAST, N_DOCS)) < 0.4)
    R[0, 0] = 1.0
    if against:
        R -= 0.7 * (rng.random(R.shape) < 0.2)
    texts, doc_ids = tuple(f"query {i}" for i in range(N_PAST)), tuple(f"d{d}" for d in range(N_DOCS))
    return Memory(texts, sparse.csr_array(P), sparse.csr_array(R), doc_ids, shape), Q


def expected_memory(memory: Memory, Q: np.ndarray) -> np.ndarray:
    """What memory adds to the documents that it knows (n_queries, n_known), by the equations."""
    how = memory.settings
    P, R = memory.queries.toarray().astype(float), memory.evidence.toarray().astype(float)
    shape = {name: getattr(how, name) for name in ("weight", "half", "threshold", "power")}
    pooled = pooled_rows(P, R)
    expected = np.zeros((len(Q), R.shape[1]))
    for i, q in enumerate(Q[:, : memory.n_terms]):
        unit = q / max(np.linalg.norm(q), 1e-12)
        for d in range(R.shape[1]):
            expected[i, d] = kernel_term(q, P, R[:, d], **shape) + how.pooled * unit @ pooled[d]
    return expected


shapes = st.builds(
    MemorySettings,
    weight=st.floats(0, 5),
    pooled=st.sampled_from([0.0, 0.5, 2.0]),
    threshold=st.sampled_from([0.0, 0.3, 0.9]),
    power=st.sampled_from([1.0, 2.0, 3.0]),
    half=st.sampled_from([0.1, 0.5, 2.0]),
)


# -- equations --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), shapes, st.booleans())
def test_scores_are_the_equations(seed, shape, against):
    memory, Q = random_memory(seed, shape, against=against)
    np.testing.assert_allclose(memory.scores(sparse.csr_array(Q)).toarray(), expected_memory(memory, Q), atol=2e-6)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.7, 2.0]), st.sampled_from([None, 6]))
def test_documents_without_past_queries_get_an_extra_weight_on_matching_words(seed, unseen, n_words):
    memory, Q = random_memory(seed, MemorySettings(pooled=0.4, unseen=unseen), against=True)
    rng = np.random.default_rng(seed)
    D = rng.random((7, N_TERMS)) * (rng.random((7, N_TERMS)) < 0.5)
    W = rng.normal(size=(N_TERMS, N_TERMS)).astype(np.float32).astype(float)
    doc_ids = ["new", "d3", "d0", "newer", "d4", "newest", "d1"]
    added = expected_memory(memory, Q)
    expected = [
        [
            score(q, d, W, added[i, int(doc_id[1])] if doc_id[0] == "d" else None, unseen, n_words or N_TERMS)
            for d, doc_id in zip(D, doc_ids, strict=True)
        ]
        for i, q in enumerate(Q)
    ]
    weights, rows = Weights([Sparse(weights=sparse.csr_array(W))]), (sparse.csr_array(Q), sparse.csr_array(D))
    docs, scores = memory.rank(weights, *rows, doc_ids, 7, n_words)
    np.testing.assert_allclose(scores, np.take_along_axis(np.array(expected), docs, axis=1), atol=5e-6)


def test_pooled_words_are_chens_w_with_the_documents_id_among_its_features():
    memory, Q = random_memory(1, MemorySettings(weight=0.0, pooled=0.7))
    D = np.random.default_rng(2).random((N_DOCS, N_TERMS))
    Q = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1e-12)
    with_ids = sparse.csr_array(np.hstack([D, np.eye(N_DOCS)]))  # (n_docs, n_terms + n_docs)
    W = sparse.csr_array(np.hstack([np.eye(N_TERMS), 0.7 * memory.pooled_rows.toarray().T]))
    expected = Weights([Sparse(weights=W)]).score(sparse.csr_array(Q), with_ids)
    words = Weights([Identity(n_terms=N_TERMS)]).score(sparse.csr_array(Q), sparse.csr_array(D))
    np.testing.assert_allclose(words + memory.scores(sparse.csr_array(Q)).toarray(), expected, atol=2e-6)


def test_the_weight_of_unseen_documents_is_chens_w_where_they_share_an_id():
    """They have the id in common, and its products with words as features: the weights of those are unseen·I."""
    memory, Q = random_memory(6, MemorySettings(weight=0.0, unseen=0.7))
    D = np.random.default_rng(2).random((3, N_TERMS))
    with_id = sparse.csr_array(np.hstack([D, D]))  # words, and words by the id that unseen documents share
    W = sparse.csr_array(np.hstack([np.eye(N_TERMS), 0.7 * np.eye(N_TERMS)]))
    expected = Weights([Sparse(weights=W)]).score(sparse.csr_array(Q), with_id)
    rows = (sparse.csr_array(Q), sparse.csr_array(D))
    docs, scores = memory.rank(Weights([Identity(n_terms=N_TERMS)]), *rows, ["x", "y", "z"], 3)
    np.testing.assert_allclose(scores, np.take_along_axis(expected, docs, axis=1), atol=2e-6)


def test_the_evidence_sum_is_a_kernel_expansion_over_past_queries():
    """``f_d(q) = Σ_i a_i k(q, q_i)``, the predictor of kernel ranking, with the evidence as coefficients."""
    memory, Q = random_memory(3, MemorySettings(weight=1.0, power=3.0, half=1e9))  # half so large that m stays linear
    unit = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1e-12)
    kernel = (unit @ memory.queries.toarray().T) ** 3
    np.testing.assert_allclose(
        1e9 * memory.scores(sparse.csr_array(Q)).toarray(), kernel @ memory.evidence.toarray(), rtol=1e-5, atol=1e-6
    )


def test_more_evidence_never_lowers_a_score_and_it_stays_below_the_weight():
    strength = MemorySettings(weight=2.0)
    before = -1.0
    for evidence in (0.1, 0.5, 3.0, 100.0):
        P, R = sparse.csr_array([[1.0]]), sparse.csr_array([[evidence]])
        score = Memory(("tea",), P, R, ("a",), strength).scores(sparse.csr_array([[1.0]]))[0, 0]
        assert before < score < 2.0
        before = score


def test_columns_behind_the_words_and_the_length_of_a_query_do_not_count():
    memory, Q = random_memory(4, MemorySettings(pooled=1.0))
    more = np.hstack([3.0 * Q, np.ones((len(Q), 2))])
    expected = memory.scores(sparse.csr_array(Q)).toarray()
    np.testing.assert_allclose(memory.scores(sparse.csr_array(more)).toarray(), expected, atol=1e-6)


# -- models and indexes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known() -> Corpus:
    return synonyms(0, n_pairs=20, n_docs=80, n_queries=60)


@pytest.fixture(scope="module")
def remembering(known: Corpus) -> tc.TextModel:
    """BM25 with memory of 40 queries, some of whose evidence is against documents, and of a document that is gone."""
    model = tc.TextModel.bm25(known.docs.values())
    ids = list(known.docs)
    evidence = {
        qid: {**grades, ids[number]: -1.0, "gone": 1.0}
        for number, (qid, grades) in enumerate(known.part(0, 40).items())
    }
    rows = model.queries([known.queries[qid] for qid in evidence])
    memory = remember(evidence, known.queries, rows, MemorySettings(weight=0.8, pooled=0.3))
    return replace(model, memory=memory)


def asked(known: Corpus) -> dict[str, str]:
    return {qid: known.queries[qid] for qid in known.part(40)}


def test_memory_finds_what_words_cannot(known, remembering):
    queries, qrels = asked(known), known.part(40)
    by_words, with_memory = (
        tc.evaluate(qrels, model.rank(queries, known.docs), ["nDCG@10"]).mean("nDCG@10")
        for model in (replace(remembering, memory=None), remembering)
    )
    assert with_memory > by_words + 0.3


def positive(hits: dict[str, float]) -> dict[str, float]:
    return {doc_id: score for doc_id, score in hits.items() if abs(score) > 1e-9}


def test_an_index_gives_the_ranking_of_scoring_every_document(known, remembering):
    queries = asked(known)
    index = tc.Index.build(known.docs, remembering, segment_docs=30)
    every, found = remembering.rank(queries, known.docs, k=80), index.search_many(queries, k=10)
    for qid, text in queries.items():
        expected = list(positive(every[qid]).items())[:10]
        assert list(found[qid]) == [doc_id for doc_id, _ in expected]
        np.testing.assert_allclose(list(found[qid].values()), [score for _, score in expected], atol=1e-6)
        assert [hit.doc_id for hit in index.search(text, cutoff=False)] == list(found[qid])


def test_removed_and_filtered_documents_are_not_found_by_memory(known, remembering):
    records = [
        {"id": doc_id, "text": text, "half": str(row % 2)} for row, (doc_id, text) in enumerate(known.docs.items())
    ]
    index = tc.Index.build(records, remembering)
    text = next(iter(asked(known).values()))
    best = index.search(text)[0].doc_id
    odd = {record["id"] for record in records if record["half"] == "1"}
    found = [hit.doc_id for hit in index.search(text, k=80, where={"half": "1"}, cutoff=False)]
    assert found == [hit.doc_id for hit in index.search(text, k=80, cutoff=False) if hit.doc_id in odd]
    assert found
    index.remove([best])
    assert best not in [hit.doc_id for hit in index.search(text, k=80)]


def test_hits_of_an_older_version_keep_their_memory(known, remembering):
    """Rows are those of the version that was searched, also when the index has changed since."""
    index = tc.Index.build(known.docs, remembering, segment_docs=30)
    text = next(iter(asked(known).values()))
    before = index.latest()
    expected = [(hit.doc_id, hit.score) for hit in before.search(text, cutoff=False)]
    changed = expected[0][0]
    index.replace({changed: "nothing that was asked for"})
    assert changed in [hit.doc_id for hit in index.search(text, k=80, cutoff=False)]  # by memory alone
    rows, older = (index._searched_by_memory(one._view).rows for one in (index, before))
    column = remembering.memory.ids.find(changed)
    assert rows[column] != older[column] == before._view.find(changed)
    assert [(hit.doc_id, hit.score) for hit in before.search(text, cutoff=False)] == expected


def reasons_sum(why: TextExplanation) -> float:
    return sum(amount for _, _, amount in why.pairs) + sum(past.contribution for past in why.past)


def test_reasons_sum_to_the_score(known, remembering):
    index = tc.Index.build(known.docs, remembering)
    for text in list(asked(known).values())[:5]:
        first, second, *_ = index.search(text)
        for hit in (first, second):
            assert hit.why.score == pytest.approx(hit.score, abs=1e-6)
            assert reasons_sum(hit.why) == pytest.approx(hit.score, abs=1e-6)
            assert hit.why.past
            of_model = remembering.explain(text, known.docs[hit.doc_id], hit.doc_id)
            assert of_model.score == pytest.approx(hit.score, abs=1e-6)
        versus = index.versus(text, first.doc_id, second.doc_id)
        assert versus.score == pytest.approx(first.score - second.score, abs=1e-6)
        assert reasons_sum(versus) == pytest.approx(versus.score, abs=1e-6)


def test_a_reason_names_the_past_query_and_its_similarity():
    words = tc.TextModel.bm25(["green tea", "black coffee", "tea set"])
    memory = remember({"q": {"a": 1}}, {"q": "Green Tea"}, words.queries(["Green Tea"]), MemorySettings())
    model = replace(words, memory=memory)
    assert 'asked before: "Green Tea" (similarity 1.00)' in str(model.explain("green tea", "black coffee", "a"))
    assert "asked before" not in str(model.explain("green tea", "black coffee", "b"))


def test_a_reason_names_how_often_people_chose_the_document():
    P, R = sparse.csr_array(np.eye(3)), sparse.csr_array([[1.0, 0.0], [0.5, 0.0], [-0.5, 0.2]])
    memory = Memory(("tea", "pot", "cup"), P, R, ("a", "b"), MemorySettings(), [14, 1, 0, 2_000])
    row = sparse.csr_array([[1.0, 1.0, 1.0]])
    lines = [past_name(past) for doc_id in "ab" for past in memory.explain(row, doc_id, row).past]
    assert lines == [
        'asked before: "tea" (similarity .58), chosen 14 times',
        'asked before: "pot" (similarity .58), chosen once',
        'asked before: "cup" (similarity .58), not chosen',
        'asked before: "cup" (similarity .58), chosen 2,000 times',
    ]
    assert past_name(PastQuery("tea", 1.0, 1.0, 0.5)) == 'asked before: "tea" (similarity 1.00)'


def test_times_stay_with_their_evidence():
    """Evidence may come in any order, with zeros and with entries of one pair apart."""
    rows = np.array([0, 4, 6])
    evidence = sparse.csr_array((np.array([0.5, 0.0, 1.0, 0.25, 2.0, 3.0]), [2, 1, 0, 2, 1, 0], rows), shape=(2, 3))
    memory = Memory(("tea", "pot"), np.eye(2), evidence, "abc", MemorySettings(), np.array([5, 9, 1, 2, 7, 8]))
    assert memory.evidence.toarray().tolist() == [[1.0, 0.0, 0.75], [3.0, 2.0, 0.0]]
    assert memory.times.tolist() == [1, 7, 8, 7]


# -- documents without past queries -----------------------------------------------------------------------------------

WORDS = [f"w{i:02d}" for i in range(14)]
BILINEAR = ("identity", "diagonal", "sparse", "lowrank")


def random_texts(rng: np.random.Generator, n: int) -> list[str]:
    """Up to five words each; some have none."""
    return [" ".join(rng.choice(WORDS, rng.integers(0, 6))) or "?" for _ in range(n)]


def random_model(rng: np.random.Generator, kinds: list[str], n_docs: int, n_known: int, shape: MemorySettings) -> Any:
    """Documents with a column to filter by, and a model whose memory knows some of them and one that is gone."""
    texts = random_texts(rng, n_docs)
    records = [{"id": f"d{i}", "text": text, "half": str(i % 2)} for i, text in enumerate(texts)]
    vectorizer = tc.Vectorizer().fit([" ".join(WORDS), *texts])
    weights = Weights([random_part(rng, kind, len(vectorizer.words_)) for kind in kinds])
    past = random_texts(rng, 7)
    doc_ids = [*(f"d{i}" for i in rng.choice(n_docs, n_known, replace=False)), "gone"]
    R = rng.normal(size=(7, n_known + 1)) * (rng.random((7, n_known + 1)) < 0.5)
    P = vectorizer.transform_queries(past)
    memory = Memory(past, P, sparse.csr_array(R), doc_ids, shape)
    return records, tc.TextModel(vectorizer, vectorizer, weights, memory=memory)


def expected_scores(model: tc.TextModel, texts: dict[str, str], query: str) -> dict[str, float]:
    """Scores of all documents by the equations."""
    memory = model.memory
    n = model.weights.shape[0]
    W = sum(part.block(np.arange(n), np.arange(n)) for part in model.weights.parts)
    [q], D = model.queries([query]).toarray().astype(float), model.docs(list(texts.values())).toarray().astype(float)
    [added] = expected_memory(memory, q[None])
    known = dict(zip(memory.doc_ids, added, strict=True))
    return {
        doc_id: score(q, d, W, known.get(doc_id), memory.settings.unseen, n) for doc_id, d in zip(texts, D, strict=True)
    }


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(st.sampled_from(BILINEAR), min_size=1, max_size=3),
    n_known=st.sampled_from([0, 1, 9, 20, 30]),
    unseen=st.sampled_from([0.0, 0.5, 3.0]),
    pooled=st.sampled_from([0.0, 0.6]),
    where=st.sampled_from([None, {"half": "1"}]),
)
def test_a_search_is_scoring_every_document(seed, kinds, n_known, unseen, pooled, where):
    rng = np.random.default_rng(seed)
    shape = MemorySettings(weight=1.5, pooled=pooled, unseen=unseen, threshold=0.1)
    records, model = random_model(rng, kinds, 30, n_known, shape)
    index = tc.Index.build(records, model, segment_docs=11)
    removed = [records[i]["id"] for i in rng.choice(30, 3, replace=False)]
    index.remove(removed)
    texts = {record["id"]: record["text"] for record in records if record["id"] not in removed}
    halves = {record["id"]: record["half"] for record in records}
    for query in [text for text in random_texts(rng, 4) if text != "?"]:
        expected = expected_scores(model, texts, query)
        ranked = model.rank({"q": query}, texts)["q"]
        assert ranked == pytest.approx(expected, abs=1e-5)
        among = {doc_id: one for doc_id, one in expected.items() if where is None or halves[doc_id] == "1"}
        hits = index.search(query, k=30, cutoff=False, where=where)
        by_id = {hit.doc_id: hit.score for hit in hits}
        assert by_id == pytest.approx({doc_id: among[doc_id] for doc_id in by_id}, abs=1e-5)
        assert {doc_id for doc_id, one in among.items() if abs(one) > 1e-5} <= set(by_id)
        assert list(by_id.values()) == sorted(by_id.values(), reverse=True)
        for k in (1, 4, 11):
            fewer = index.search(query, k=k, cutoff=False, where=where)
            assert [(hit.doc_id, hit.score) for hit in fewer] == list(by_id.items())[:k]
        if where is None:
            assert index.search_many({"q": query, "r": query}, k=30) == {"q": by_id, "r": by_id}
        q = model.queries([query])
        assert [hit.score for hit in index.hits_of(q, list(by_id))] == list(by_id.values())
        for hit in hits[:5]:
            why = index.explain(query, hit.doc_id)
            assert why.score == pytest.approx(hit.score, abs=1e-5)
            assert reasons_sum(why) == pytest.approx(hit.score, abs=1e-5)
            assert reasons_sum(model.explain(query, texts[hit.doc_id], hit.doc_id)) == pytest.approx(
                why.score, abs=1e-5
            )
            against = index.versus(query, hit.doc_id, hits[0].doc_id)
            assert against.score == pytest.approx(hit.score - hits[0].score, abs=1e-5)
            assert reasons_sum(against) == pytest.approx(against.score, abs=1e-5)


def test_new_documents_and_their_words_count_until_a_later_fit(known, remembering):
    """Words that come with a document count like all others, once they are part of the vocabulary."""
    memory = replace(remembering.memory, settings=replace(remembering.memory.settings, unseen=1.5))
    index = tc.Index.build(known.docs, replace(remembering, memory=memory))
    fresh = {"new": "kiwi common01 common02", "newer": "common01"}
    index.add(fresh)
    for query in ("kiwi common01", "common02", "ask01 common01"):
        expected = list(positive(index.model.rank({"q": query}, known.docs | fresh, k=100)["q"]).items())[:12]
        hits = index.search(query, k=12, cutoff=False)
        assert [hit.doc_id for hit in hits] == [doc_id for doc_id, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([one for _, one in expected], abs=1e-6)
    [best] = index.search("kiwi", k=1)
    by_words = replace(index.model, memory=None).explain("kiwi", fresh["new"]).score
    assert (best.doc_id, best.score) == ("new", pytest.approx(2.5 * by_words, rel=1e-6))
    assert "new document: kiwi" in str(best.why)
    index.remove(["new"])
    assert index.search("kiwi", cutoff=False) == []


def test_another_model_over_the_same_documents_keeps_their_rows(known, remembering):
    index = tc.Index.build(known.docs, remembering)
    text = next(iter(asked(known).values()))
    index.search(text)
    doubled = replace(remembering, weights=Weights([Identity(n_terms=remembering.weights.shape[0], scale=2.0)]))
    other = index.with_model(doubled)
    assert other._searched_by_memory(other._view).rows is index._searched_by_memory(index._view).rows
    expected = tc.Index.build(known.docs, doubled).search(text, cutoff=False)
    assert [(hit.doc_id, hit.score) for hit in other.search(text, cutoff=False)] == [
        (hit.doc_id, hit.score) for hit in expected
    ]


def test_fields_and_numbers_are_no_matching_words():
    docs = as_documents(
        {f"d{i}": {"title": f"w{i % 3}", "text": f"w{i % 4} w{i % 5}", "price": float(i)} for i in range(20)}
    )
    vectorizer = FieldedVectorizer(fields=["title"], features=["price"]).fit(docs)
    n = vectorizer.layout_.n_words
    weights = joined(Weights([Identity(n_terms=n)]), np.array([1.5, 0.3, 0.2]), vectorizer.layout_)
    words = tc.TextModel(vectorizer, vectorizer, weights)
    P = words.queries(["w1 w2"])[:, :n]
    memory = Memory(["w1 w2"], P, [[1.0]], ["d3"], MemorySettings(weight=9.0, unseen=2.0))
    model = replace(words, memory=memory)
    Q, D = words.queries(["w1"]), words.docs(docs)
    expected = words.weights.score(Q, D)[0] + 2.0 * (Q[:, :n] @ D[:, :n].T).toarray()[0]
    scores = model.rank({"q": "w1"}, docs)["q"]
    index = tc.Index.build(docs, model)
    for row, doc_id in enumerate(docs):
        if doc_id != "d3":
            assert scores[doc_id] == pytest.approx(expected[row], abs=1e-6)
            assert index.explain("w1", doc_id).score == pytest.approx(expected[row], abs=1e-6)
    hits = index.search("w1", k=20)
    assert [hit.score for hit in hits] == pytest.approx([scores[hit.doc_id] for hit in hits], abs=1e-6)


def test_a_document_that_memory_alone_finds_is_a_match_also_where_numbers_count():
    docs = as_documents({f"d{i}": {"title": "", "text": f"w{i}", "price": float(i)} for i in range(4)})
    vectorizer = FieldedVectorizer(fields=[], features=["price"]).fit(docs)
    n = vectorizer.layout_.n_words
    weights = joined(Weights([Identity(n_terms=n)]), np.array([0.01, 0.01]), vectorizer.layout_)
    words = tc.TextModel(vectorizer, vectorizer, weights)
    memory = Memory(["w1"], words.queries(["w1"])[:, :n], [[1.0]], ["d3"], MemorySettings(weight=0.2))
    index = tc.Index.build(docs, replace(words, memory=memory))
    assert [hit.doc_id for hit in index.search("w1")] == ["d1", "d3"]


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_saved_model_and_index_remember_the_same_bits(known, remembering, tmp_path):
    queries = asked(known)
    counted = replace(remembering.memory, times=np.arange(remembering.memory.evidence.nnz))
    model = replace(remembering, memory=replace(counted, settings=replace(counted.settings, unseen=0.4)))
    model.save(tmp_path / "model")
    loaded = tc.load(tmp_path / "model")
    assert loaded.rank(queries, known.docs) == model.rank(queries, known.docs)
    assert loaded.memory.times.tolist() == counted.times.tolist()
    index = tc.Index.build(known.docs, model, tmp_path / "index")
    assert tc.Index.open(tmp_path / "index").search_many(queries) == index.search_many(queries)


def test_past_queries_without_a_weight_are_no_reasons(known, remembering):
    settings = replace(remembering.memory.settings, weight=0.0, pooled=1.0)
    model = replace(remembering, memory=replace(remembering.memory, settings=settings))
    for qid, text in known.queries.items():
        for doc_id in model.rank({qid: text}, known.docs, k=2)[qid]:
            why = model.explain(text, known.docs[doc_id], doc_id)
            assert why.past == ()
            assert why.score == pytest.approx(sum(amount for *_, amount in why.pairs), rel=1e-5, abs=1e-6)


def test_models_that_differ_in_memory_alone_have_different_names(remembering):
    settings = replace(remembering.memory.settings, weight=2 * remembering.memory.settings.weight)
    stronger = replace(remembering, memory=replace(remembering.memory, settings=settings))
    forgetful = replace(remembering, memory=None)
    assert len({model_name(model) for model in (remembering, stronger, forgetful)}) == 3


def test_a_file_from_before_unseen_documents_and_times_is_read(known, remembering, tmp_path):
    remembering.save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    assert "unseen" not in bundle.meta["memory"]["settings"]
    assert "memory.times" not in bundle.arrays
    before = {name: array for name, array in bundle.arrays.items() if name[-7:] not in ("_hashes", "id_rows")}
    assert len(before) == len(bundle.arrays) - 2
    write_bundle(tmp_path / "older", kind=bundle.kind, meta=bundle.meta, arrays=before)
    older = tc.load(tmp_path / "older")
    assert older.memory.settings.unseen == 0
    assert older.memory.times is None
    assert older.rank(asked(known), known.docs) == remembering.rank(asked(known), known.docs)


def test_memory_of_an_open_index_stays_on_disk(known, remembering, tmp_path):
    counted = replace(remembering.memory, times=np.ones(remembering.memory.evidence.nnz, dtype=np.int64))
    tc.Index.build(known.docs, replace(remembering, memory=counted), tmp_path / "index")
    memory = tc.Index.open(tmp_path / "index").model.memory
    rows = [getattr(matrix, name) for matrix in (memory.queries, memory.evidence) for name in ("data", "indices")]
    for array in (*rows, memory.times, memory.texts.letters, memory.ids.strings.letters, memory.ids.hashes):
        while isinstance(array, np.ndarray):
            array = array.base
        assert isinstance(array.obj, mmap)
    assert list(memory.texts) == list(remembering.memory.texts)
    assert (memory.texts[1:3], memory.texts[-1]) == (list(memory.texts)[1:3], list(memory.texts)[-1])
    assert memory.ids.find("gone") == list(memory.doc_ids).index("gone")
    assert "nowhere" not in memory.doc_ids


# -- what is refused --------------------------------------------------------------------------------------------------


def test_memory_that_does_not_fit_together_is_refused():
    memory, _ = random_memory(0, MemorySettings())
    for change, message in (
        ({"texts": memory.texts[1:]}, "as many of each"),
        ({"doc_ids": memory.doc_ids[1:]}, "document ids"),
        ({"doc_ids": ("d0",) * N_DOCS}, "'d0' twice"),
        ({"times": [1, 2]}, "each entry of evidence"),
        ({"times": np.full(memory.evidence.nnz, -1)}, "whole numbers from 0"),
        ({"times": np.full(memory.evidence.nnz, 0.5)}, "whole numbers from 0"),
    ):
        with pytest.raises(InputError, match=message):
            replace(memory, **change)
    with pytest.raises(InputError, match="vocabulary"):
        replace(tc.TextModel.bm25(["green tea"]), memory=memory)


def test_damaged_memory_is_refused(remembering, tmp_path):
    remembering.save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    for name in ("memory.text_starts", "memory.doc_id_starts", "memory.evidence.indptr", "memory.doc_id_hashes"):
        arrays = {key: array.copy() for key, array in bundle.arrays.items()}
        arrays[name] = arrays[name][:-1]
        write_bundle(tmp_path / "other", kind=bundle.kind, meta=bundle.meta, arrays=arrays)
        with pytest.raises(BundleError):
            tc.load(tmp_path / "other")
    meta = {
        **bundle.meta,
        "memory": {**bundle.meta["memory"], "settings": {**bundle.meta["memory"]["settings"], "half": 0.0}},
    }
    write_bundle(tmp_path / "other", kind=bundle.kind, meta=meta, arrays=dict(bundle.arrays))
    with pytest.raises(DamagedBundleError, match="half"):
        tc.load(tmp_path / "other")


def test_two_vocabularies_have_no_matching_words():
    sides = [tc.Vectorizer().fit(texts) for texts in (["green tea"], ["grüner Tee aus Japan"])]
    weights = Weights([Sparse(weights=sparse.csr_array(np.ones((2, 4))))])
    memory = Memory(["tea"], sides[0].transform_queries(["tea"]), [[1.0]], ["a"], MemorySettings())
    model = tc.TextModel(*sides, weights, memory=memory)
    assert "asked before" in str(model.explain("tea", "Tee", "a"))
    with pytest.raises(InputError, match="vocabularies of their own"):
        replace(model, memory=replace(memory, settings=MemorySettings(unseen=1.0)))
