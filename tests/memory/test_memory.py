"""Memory: its equations, the two papers it belongs to, searches with it, reasons that sum to the score, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from oracles.memory import kernel_term, pooled_rows
from support.corpora import Corpus, synonyms
from tercet.errors import BundleError, DamagedBundleError, InputError
from tercet.memory import Memory, MemorySettings, remember
from tercet.store import read_bundle, write_bundle
from tercet.weights import Identity, Sparse, Weights

N_TERMS, N_PAST, N_DOCS = 9, 8, 5


def random_memory(seed: int, settings: MemorySettings, *, against: bool = False) -> tuple[Memory, np.ndarray]:
    """Memory of random past queries and evidence, some of it against documents, and random queries (4, n_terms)."""
    rng = np.random.default_rng(seed)
    P, Q = (rng.random((n, N_TERMS)) * (rng.random((n, N_TERMS)) < 0.4) for n in (N_PAST, 4))
    P /= np.maximum(np.linalg.norm(P, axis=1, keepdims=True), 1e-9)
    R = rng.random((N_PAST, N_DOCS)) * (rng.random((N_PAST, N_DOCS)) < 0.4)
    R[0, 0] = 1.0
    if against:
        R -= 0.7 * (rng.random(R.shape) < 0.2)
    texts, doc_ids = tuple(f"query {i}" for i in range(N_PAST)), tuple(f"d{d}" for d in range(N_DOCS))
    return Memory(texts, sparse.csr_array(P), sparse.csr_array(R), doc_ids, settings), Q


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
def test_scores_are_the_equations(seed, settings, against):
    memory, Q = random_memory(seed, settings, against=against)
    P, R = memory.queries.toarray().astype(float), memory.evidence.toarray().astype(float)
    shape = {name: getattr(settings, name) for name in ("weight", "half", "threshold", "power")}
    pooled = pooled_rows(P, R)
    expected = np.zeros((len(Q), N_DOCS))
    for i, q in enumerate(Q):
        unit = q / max(np.linalg.norm(q), 1e-12)
        for d in range(N_DOCS):
            expected[i, d] = kernel_term(q, P, R[:, d], **shape) + settings.pooled * unit @ pooled[d]
    np.testing.assert_allclose(memory.scores(sparse.csr_array(Q)).toarray(), expected, atol=2e-6)


def test_pooled_words_are_chens_w_with_the_documents_id_among_its_features():
    memory, Q = random_memory(1, MemorySettings(weight=0.0, pooled=0.7))
    D = np.random.default_rng(2).random((N_DOCS, N_TERMS))
    Q = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1e-12)
    with_ids = sparse.csr_array(np.hstack([D, np.eye(N_DOCS)]))  # (n_docs, n_terms + n_docs)
    W = sparse.csr_array(np.hstack([np.eye(N_TERMS), 0.7 * memory.pooled_rows.toarray().T]))
    expected = Weights([Sparse(weights=W)]).score(sparse.csr_array(Q), with_ids)
    words = Weights([Identity(n_terms=N_TERMS)]).score(sparse.csr_array(Q), sparse.csr_array(D))
    np.testing.assert_allclose(words + memory.scores(sparse.csr_array(Q)).toarray(), expected, atol=2e-6)


def test_the_evidence_sum_is_a_kernel_expansion_over_past_queries():
    """``f_d(q) = Σ_i a_i k(q, q_i)``, the predictor of kernel ranking, with the evidence as coefficients."""
    memory, Q = random_memory(3, MemorySettings(weight=1.0, power=3.0, half=1e9))  # half so large that m stays linear
    unit = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1e-12)
    kernel = (unit @ memory.queries.toarray().T) ** 3
    np.testing.assert_allclose(
        1e9 * memory.scores(sparse.csr_array(Q)).toarray(), kernel @ memory.evidence.toarray(), rtol=1e-5, atol=1e-6
    )


def test_more_evidence_never_lowers_a_score_and_it_stays_below_the_weight():
    settings = MemorySettings(weight=2.0)
    before = -1.0
    for evidence in (0.1, 0.5, 3.0, 100.0):
        P, R = sparse.csr_array([[1.0]]), sparse.csr_array([[evidence]])
        score = Memory(("tea",), P, R, ("a",), settings).scores(sparse.csr_array([[1.0]]))[0, 0]
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
    assert index.n_unknown_in_memory == 1


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
    assert index.n_unknown_in_memory == 2


def test_hits_of_an_older_version_keep_their_memory(known, remembering):
    """Rows are those of the version that was searched, also when the index has changed since."""
    index = tc.Index.build(known.docs, remembering, segment_docs=30)
    text = next(iter(asked(known).values()))
    before = index.latest()
    expected = [(hit.doc_id, hit.score) for hit in before.search(text, cutoff=False)]
    changed = expected[0][0]
    index.replace({changed: "nothing that was asked for"})
    assert changed in [hit.doc_id for hit in index.search(text, k=80, cutoff=False)]  # by memory alone
    rows, older = index._memory_rows(index._view), index._memory_rows(before._view)
    column = remembering.memory.doc_ids.index(changed)
    assert rows[column] != older[column] == before._view.find(changed)
    assert [(hit.doc_id, hit.score) for hit in before.search(text, cutoff=False)] == expected


def test_reasons_sum_to_the_score(known, remembering):
    index = tc.Index.build(known.docs, remembering)
    for text in list(asked(known).values())[:5]:
        first, second, *_ = index.search(text)
        for hit in (first, second):
            why = hit.why
            total = sum(amount for _, _, amount in why.pairs) + sum(past.contribution for past in why.past)
            assert why.score == pytest.approx(hit.score, abs=1e-6)
            assert total == pytest.approx(hit.score, abs=1e-6)
            assert why.past
            of_model = remembering.explain(text, known.docs[hit.doc_id], hit.doc_id)
            assert of_model.score == pytest.approx(hit.score, abs=1e-6)
        versus = index.versus(text, first.doc_id, second.doc_id)
        assert versus.score == pytest.approx(first.score - second.score, abs=1e-6)
        total = sum(amount for _, _, amount in versus.pairs) + sum(past.contribution for past in versus.past)
        assert total == pytest.approx(versus.score, abs=1e-6)


def test_a_reason_names_the_past_query_and_its_similarity():
    words = tc.TextModel.bm25(["green tea", "black coffee", "tea set"])
    memory = remember({"q": {"a": 1}}, {"q": "Green Tea"}, words.queries(["Green Tea"]), MemorySettings())
    model = replace(words, memory=memory)
    assert 'asked before: "Green Tea" (similarity 1.00)' in str(model.explain("green tea", "black coffee", "a"))
    assert "asked before" not in str(model.explain("green tea", "black coffee", "b"))


def test_a_saved_model_and_index_remember_the_same_bits(known, remembering, tmp_path):
    queries = asked(known)
    remembering.save(tmp_path / "model")
    assert tc.load(tmp_path / "model").rank(queries, known.docs) == remembering.rank(queries, known.docs)
    index = tc.Index.build(known.docs, remembering, tmp_path / "index")
    assert tc.Index.open(tmp_path / "index").search_many(queries) == index.search_many(queries)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_memory_that_does_not_fit_together_is_refused():
    memory, _ = random_memory(0, MemorySettings())
    for change, message in (
        ({"texts": memory.texts[1:]}, "as many of each"),
        ({"doc_ids": memory.doc_ids[1:]}, "document ids"),
        ({"doc_ids": ("d0",) * N_DOCS}, "twice"),
    ):
        with pytest.raises(InputError, match=message):
            replace(memory, **change)
    with pytest.raises(InputError, match="vocabulary"):
        replace(tc.TextModel.bm25(["green tea"]), memory=memory)
    with pytest.raises(InputError, match="above 0"):
        remember({"q": {"a": 0}}, {"q": "tea"}, sparse.csr_array([[1.0]]), MemorySettings())


def test_damaged_memory_is_refused(remembering, tmp_path):
    remembering.save(tmp_path / "model")
    bundle = read_bundle(tmp_path / "model")
    for name in ("memory.text_starts", "memory.doc_id_starts", "memory.evidence.indptr"):
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


def test_what_can_only_take_words_refuses_memory(remembering, tmp_path):
    from tercet.engines import boosted_query

    with pytest.raises(InputError, match="memory besides"):
        boosted_query(remembering, "tea")
    assert remembering.words_alone().memory is None
