"""What an index finds is what scoring every document finds."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from support.indexes import (
    DOCS,
    KINDS,
    N_TERMS,
    assert_same_answer,
    brute_force,
    has_latent,
    random_rows,
    random_weights,
    small_model,
)
from tercet.errors import InputError
from tercet.search import Index, in_numpy
from tercet.weights import Identity, LowRank, Sparse, Weights

kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=3)


@pytest.fixture(scope="module", autouse=True, params=[in_numpy.LOADING, 0], ids=["numpy", "kernels"])
def budget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test once by NumPy and once by the kernels: answers have the same bits."""
    before, in_numpy.budget.left = in_numpy.budget.left, request.param
    yield
    in_numpy.budget.left = before


@pytest.mark.slow
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), kinds=kinds, n=st.integers(1, 70), k=st.integers(1, 80), size=st.integers(1, 70))
def test_any_weights_any_documents(seed: int, kinds: list[str], n: int, k: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    weights, D, Q = random_weights(rng, kinds), random_rows(rng, n), random_rows(rng, 4)
    ids = [f"d{i}" for i in range(n)]
    index = Index.build_rows(ids, D, weights, segment_docs=size)
    alone = [index.search_row(Q[i : i + 1], k) for i in range(4)]
    for i, hits in enumerate(alone):
        assert_same_answer(hits, ids, *brute_force(weights, Q[i : i + 1], D), k)
    # Side by side they are searched by another kernel; a row is a number by segments.
    together = [answer for block in index._view.scorer.expand(Q) for answer in index._view.search(block, k)]
    for hits, (rows, scores) in zip(alone, together, strict=True):
        if hits:  # a query without words is not asked for
            assert [hit.doc_id for hit in hits] == index._view.doc_ids(rows)
            assert [hit.score for hit in hits] == scores.tolist()


@pytest.mark.parametrize("kind", ["identity", "diagonal", "sparse", "dense", "hashed"])
def test_scores_of_plain_parts_are_the_same_to_the_bit(kind: str, rng: np.random.Generator) -> None:
    weights = random_weights(rng, [kind, "identity"])
    D = sparse.csr_array((rng.random((300, N_TERMS)) * (rng.random((300, N_TERMS)) < 0.5)).astype(np.float32))
    Q = sparse.csr_array(rng.random((5, N_TERMS)).astype(np.float32))
    index = Index.build_rows([str(i) for i in range(300)], D, weights)
    docs, scores = weights.rank(Q, D, 20)
    for i in range(5):
        hits = index.search_row(Q[i : i + 1], 20)
        assert [int(hit.doc_id) for hit in hits] == docs[i].tolist()
        assert [hit.score for hit in hits] == scores[i].tolist()


def long_queries(rng: np.random.Generator, n_terms: int, signed: bool) -> sparse.csr_array:
    """Weights of very different sizes, so that bounds can prune."""
    Q = rng.exponential(1, (6, n_terms)) ** 4 * (rng.random((6, n_terms)) < 0.6)
    return sparse.csr_array(Q * rng.choice([-1, 1], Q.shape) if signed else Q)


@pytest.mark.slow
@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("negative_values", [False, True])
def test_long_queries_over_many_documents(
    signed: bool, latent: bool, negative_values: bool, rng: np.random.Generator
) -> None:
    n, n_terms = 6000, 300
    share = 1 / (1 + np.arange(n_terms)) ** 0.5
    D = rng.random((n, n_terms)) * (rng.random((n, n_terms)) < 0.4 * share)
    if negative_values:
        D *= rng.choice([-1, 1], D.shape)
    D = sparse.csr_array((D / share).astype(np.float32))
    parts = [Identity(n_terms=n_terms)]
    if latent:
        factors = rng.normal(size=(2, n_terms, 8)).astype(np.float32)
        parts.append(LowRank(query_factors=factors[0], doc_factors=factors[1]))
    weights = Weights(parts)
    ids = [str(i) for i in range(n)]
    index = Index.build_rows(ids, D, weights, segment_docs=2500)
    gone = rng.choice(n, 600, replace=False)
    index.remove([str(i) for i in gone])
    for q in long_queries(rng, n_terms, signed):
        scores, counts = brute_force(weights, sparse.csr_array(q.reshape(1, -1)), D)
        counts[gone] = False
        for k in (1, 10, 300):
            hits = index.search_row(q.reshape(1, -1), k)
            unit = 1e-10 * np.abs(scores).max()
            rows = np.flatnonzero(counts)
            best = rows[np.lexsort((rows, -scores[rows]))][:k]
            np.testing.assert_allclose([hit.score for hit in hits], scores[best], rtol=0, atol=unit)
            assert [int(hit.doc_id) for hit in hits] == best.tolist()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), signed=st.booleans(), negative=st.booleans(), tied=st.booleans())
def test_few_words_over_many_segments(seed: int, signed: bool, negative: bool, tied: bool) -> None:
    """Words from rare to common, so that a few decide and the others are looked up for those who may win."""
    rng = np.random.default_rng(seed)
    n, n_terms = 4000, 40
    share = 0.9 / (1 + np.arange(n_terms)) ** 1.3
    values = rng.integers(1, 4, (n, n_terms)) / 4 if tied else rng.random((n, n_terms)) + 0.1
    D = (
        values
        * (rng.random((n, n_terms)) < share)
        * rng.choice([-1, 1] if negative else [1], (n, n_terms))
        / share**0.5
    )
    D = sparse.csr_array(D.astype(np.float32))
    index = Index.build_rows([str(i) for i in range(n)], D, Weights([Identity(n_terms=n_terms)]), segment_docs=1000)
    gone = rng.choice(n, 400, replace=False)
    index.remove([str(i) for i in gone])
    Q = np.zeros((8, n_terms))
    for q in Q:
        words = rng.choice(n_terms, rng.integers(1, 7), replace=False)
        q[words] = rng.integers(1, 3, words.size) * rng.choice([-1, 1] if signed else [1], words.size)
    Q = sparse.csr_array(Q)
    for k in (1, 3, 10, 200):
        together = [answer for block in index._view.scorer.expand(Q) for answer in index._view.search(block, k)]
        for i, (numbers, _) in enumerate(together):
            scores, counts = brute_force(index.model, Q[i : i + 1], D)
            counts[gone] = False
            rows = np.flatnonzero(counts)
            best = rows[np.lexsort((rows, -scores[rows]))][:k]
            hits = index.search_row(Q[i : i + 1], k)
            assert [(int(hit.doc_id), hit.score) for hit in hits] == list(zip(best.tolist(), scores[best], strict=True))
            assert index._view.doc_ids(numbers) == [hit.doc_id for hit in hits]


def test_documents_without_a_word_of_the_query_are_never_found() -> None:
    weights = Weights([Sparse(weights=sparse.csr_array([[1.0, -1.0, 0.0], [0.0] * 3, [0.0] * 3]))])
    D = sparse.csr_array(np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=np.float32))
    index = Index.build_rows(list("abcd"), D, weights)
    # b cancels to zero but has the words; a and d have none.
    assert [(hit.doc_id, hit.score) for hit in index.search_row([[1.0, 0, 0]])] == [("b", 0.0), ("c", -1.0)]
    assert [hit.doc_id for hit in index.search_row([[1.0, 0, 0]], 1)] == ["b"]
    assert index.search_row([[0, 1.0, 0]]) == []  # a known word that stands for nothing


def test_ties_go_to_the_document_that_came_first() -> None:
    D = sparse.csr_array(np.ones((9, 2), dtype=np.float32))
    index = Index.build_rows([str(i) for i in range(9)], D, Weights([Identity(n_terms=2)]), segment_docs=4)
    assert [hit.doc_id for hit in index.search_row([[1.0, 1.0]], 6)] == list("012345")
    index.remove(["1"])
    index.add_rows(["1"], D[:1])
    assert [hit.doc_id for hit in index.search_row([[1.0, 1.0]], 9)] == list("023456781")


def test_unknown_words_are_reported_and_a_query_of_nothing_else_finds_nothing() -> None:
    index = Index.build(DOCS, small_model(DOCS, latent=True))
    found = index.search("Green guava, guava papaya")
    assert found.unknown == ("guava", "papaya")
    assert found[0].why.unknown == ("guava", "papaya")
    nothing = index.search("guava")
    assert (nothing, nothing.unknown, nothing.exact) == ([], ("guava",), True)
    run = index.search_many({"q": "green guava", "r": "papaya"}, 2)
    assert list(run) == ["q", "r"]
    assert run["r"] == {}
    assert run.unknown == {"q": ("guava",), "r": ("papaya",)}


def test_many_queries_are_answered_as_one_by_one() -> None:
    index = Index.build(DOCS, small_model(DOCS, latent=True), segment_docs=2)
    queries = {"1": "green avocado", "2": "sky eyes", "3": "toast"}
    run = index.search_many(queries, 3)
    for qid, text in queries.items():
        assert list(run[qid].items()) == [(hit.doc_id, hit.score) for hit in index.search(text, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("latent", [False, True])
def test_reasons_add_up_to_the_score(latent: bool, rng: np.random.Generator) -> None:
    words = [f"w{i}" for i in range(60)]
    docs = {f"d{i}": " ".join(rng.choice(words, 12)) for i in range(120)}
    model = small_model(docs, latent=latent)
    index = Index.build(docs, model)
    for _ in range(10):
        text = " ".join(rng.choice(words, 5))
        for hit in index.search(text, 8):
            why = hit.why
            total = sum(abs(c) for _, _, c in why.pairs)
            assert abs(sum(c for _, _, c in why.pairs) - hit.score) <= 1e-6 * total
            assert why.pairs == index.explain(text, hit.doc_id).pairs == model.explain(text, hit.text).pairs


def test_one_document_against_another() -> None:
    index = Index.build(DOCS, small_model(DOCS, latent=True))
    both = {doc_id: index.explain("green avocado", doc_id).score for doc_id in "ab"}
    difference = index.versus("green avocado", "a", "b")
    assert difference.score == both["a"] - both["b"]
    assert sum(c for _, _, c in difference.pairs) == pytest.approx(difference.score, abs=1e-12)
    assert index.versus("green", "a", "a").pairs == ()
    with pytest.raises(InputError, match="no document 'z' among the 5"):
        index.versus("green", "a", "z")


def test_another_model_over_the_same_words() -> None:
    plain, latent = small_model(DOCS), small_model(DOCS, latent=True)
    index = Index.build(DOCS, plain)
    other = index.with_model(latent)
    assert other.model is latent
    assert other.search_many({"q": "green"}, 5) == Index.build(DOCS, latent).search_many({"q": "green"}, 5)
    assert other.search_many({"q": "green"}, 5) != index.search_many({"q": "green"}, 5)
    stranger = small_model(DOCS | {"z": "zebra"})
    with pytest.raises(InputError, match="another vectorizer"):
        index.with_model(stranger)


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        ([("a", "x"), ("a", "y")], "'a' is there twice"),
        ([("a", "x"), ("b", "y"), ("c", ""), ("a", "y")], "'a' is there twice"),
        ([("a", 3)], "type int"),
        ([("", "x")], "is empty"),
        ([(7, "x")], "is the number 7"),
        ([("a",)], "expected an id and a text"),
        ([("a", "\ud800")], "half a surrogate pair"),
    ],
)
def test_documents_that_cannot_be_indexed(docs: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Index.build(docs, small_model(DOCS), segment_docs=2)


def test_wrong_arguments() -> None:
    index = Index.build(iter(DOCS.items()), small_model(DOCS))
    for k in (0, -1, True, 2.0):
        with pytest.raises(InputError, match="k must be an integer from 1"):
            index.search("green", k)
    with pytest.raises(InputError, match="expected a string"):
        index.search(["green"])
    with pytest.raises(InputError, match="segment_docs must be an integer from 1 to 65536; got 65537"):
        Index.build(DOCS, small_model(DOCS), segment_docs=65537)
    with pytest.raises(InputError, match="expected a TextModel"):
        Index.build(DOCS, Weights([Identity(n_terms=2)]))
    rows = Index.build_rows(["a"], [[1.0, 0]], Weights([Identity(n_terms=2)]))
    with pytest.raises(InputError, match="weights without words"):
        rows.search("green")
    with pytest.raises(InputError, match="keeps no texts"):
        _ = rows.search_row([[1.0, 0]])[0].text
    with pytest.raises(InputError, match="must have 2 columns"):
        rows.search_row([[1.0]])
    with pytest.raises(InputError, match="not finite"):
        Index.build_rows(["a"], [[np.nan, 0]], Weights([Identity(n_terms=2)]))
    for text, message in ((3, "type int"), (None, "type NoneType"), ("\ud800", "half a surrogate pair")):
        with pytest.raises(InputError, match=f"the text of document 'b' .*{message}"):
            Index.build([("a", "fine"), ("b", text)])
    for ask in (rows.search_row, lambda q: rows.hits_of(q, ["a"])):
        with pytest.raises(InputError, match="q must be one row; got 2"):
            ask(np.eye(2))
    with pytest.raises(InputError, match="queries is of type list; expected texts by id"):
        index.search_many(["ab", "cd"])  # of which each could be an id and a text of one letter


def test_threads_search_at_the_same_time(rng: np.random.Generator) -> None:
    weights = random_weights(rng, ["sparse", "identity"])
    D, Q = random_rows(rng, 3000), random_rows(rng, 40, density=0.5)
    index = Index.build_rows([str(i) for i in range(3000)], D, weights)
    expected = [[(hit.doc_id, hit.score) for hit in index.search_row(Q[i : i + 1])] for i in range(40)]
    wrong: list[int] = []

    def search() -> None:
        for i in range(40):
            if [(hit.doc_id, hit.score) for hit in index.search_row(Q[i : i + 1])] != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_candidates_of_latent_weights_have_a_known_word() -> None:
    index = Index.build(DOCS, small_model(DOCS, latent=True))
    assert has_latent(tc.Weights(index.model.weights.parts))
    assert {hit.doc_id for hit in index.search("sky", 10, cutoff=False)} == set(DOCS) - {"d"}
    assert {hit.doc_id for hit in Index.build(DOCS, small_model(DOCS)).search("sky", 10)} == {"c"}


def assert_best(weights: Weights, q: np.ndarray, D: sparse.csr_array, ks: tuple[int, ...] = (1, 10)) -> None:
    index = Index.build_rows([str(i) for i in range(D.shape[0])], D, weights)
    scores = weights.score(q, D)[0]
    order = np.lexsort((np.arange(len(scores)), -scores))
    for k in ks:
        assert [int(hit.doc_id) for hit in index.search_row(q, k)] == order[:k].tolist()


@pytest.mark.parametrize("size", [1e307, 1e300, 1e155, 1e-155, 1e-300, 1e-315])
def test_scores_of_any_size(size: float, rng: np.random.Generator) -> None:
    D = sparse.csr_array(rng.random((200, 40)).astype(np.float32))
    q = rng.random((1, 40)) / 2
    assert_best(Weights([Identity(n_terms=40, scale=size)]), q, D)
    assert_best(Weights([Identity(n_terms=40)]), q * size, D)
    index = Index.build_rows([str(i) for i in range(200)], D, Weights([Identity(n_terms=40)]))
    index.remove(["0", "77"])
    assert {int(hit.doc_id) for hit in index.search_row(q * size, 200)} == set(range(200)) - {0, 77}


@pytest.mark.parametrize("size", [1e9, 1e12, 1e15])
def test_parts_that_nearly_cancel(size: float, rng: np.random.Generator) -> None:
    # What is left of the scores is rounding, which is far more than the sum of the weights says.
    D = sparse.csr_array((rng.random((3000, 50)) * (rng.random((3000, 50)) < 0.3)).astype(np.float32))
    parts = [Identity(n_terms=50, scale=size), Identity(n_terms=50, scale=-size * (1 - 1e-15))]
    assert_best(Weights(parts), rng.random((1, 50)), D)


@pytest.mark.parametrize(("of_query", "of_doc", "scale"), [(1e30, 1e30, 1e20), (1, 1e-30, 1e-20), (1e15, 1e-35, 1.0)])
def test_latent_vectors_of_any_length(of_query: float, of_doc: float, scale: float, rng: np.random.Generator) -> None:
    D = sparse.csr_array(rng.random((300, 20)).astype(np.float32))
    factors = rng.normal(size=(2, 20, 3))
    queries, docs = (factors[0] * of_query).astype(np.float32), (factors[1] * of_doc).astype(np.float32)
    latent = LowRank(query_factors=queries, doc_factors=docs, scale=scale)
    assert_best(Weights([latent]), rng.random((1, 20)), D)
    index = Index.build_rows([str(i) for i in range(300)], D, Weights([latent]))
    index.remove(["0", "77"])
    assert {int(hit.doc_id) for hit in index.search_row(rng.random((1, 20)), 300)} == set(range(300)) - {0, 77}


def test_a_query_without_a_latent_vector_ranks_by_what_there_is() -> None:
    factors = np.array([[0, 0], [1, 1], [1, -1]], dtype=np.float32)
    D = sparse.csr_array(np.repeat([[1, 1, 0], [0, 1, 1]], 50, axis=0).astype(np.float32))
    latent = LowRank(query_factors=factors, doc_factors=factors + 1)
    assert_best(Weights([latent]), np.array([[1.0, 0, 0]]), D, (1, 60, 100))


def test_a_latent_score_that_single_precision_rounds_the_other_way() -> None:
    # To the score of words, 1, the first document's latent score adds just enough to be rounded up in double precision.
    docs = np.array([[0], [2.0**-53], [2.0**-83], [2.0**-54]], dtype=np.float32)
    latent = LowRank(query_factors=np.ones((4, 1), dtype=np.float32), doc_factors=docs)
    D = sparse.csr_array(np.array([[1, 1, 1, 0], [1, 1, 0, 1]], dtype=np.float32))
    assert_best(Weights([Identity(n_terms=4), latent]), np.array([[1.0, 0, 0, 0]]), D, (1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("latent", [False, True])
def test_scores_closer_than_single_precision_tells(latent: bool, rng: np.random.Generator) -> None:
    D = sparse.csr_array((1 + rng.integers(0, 4, (500, 20)) * 2.0**-23).astype(np.float32))
    factors = rng.random((2, 20, 6)).astype(np.float32)
    part = LowRank(query_factors=factors[0], doc_factors=factors[1]) if latent else Identity(n_terms=20)
    for _ in range(5):
        assert_best(Weights([part]), rng.random((1, 20)), D, (1, 10))


def test_a_document_that_gets_all_from_the_words_looked_at_last(rng: np.random.Generator) -> None:
    # A rare word makes a hundred documents good; one is better, by common words that hardly count in the others.
    D = 0.1 * (rng.random((20_000, 11)) < 0.6)
    D[:, 0] = 0
    D[rng.choice(20_000, 100, replace=False), 0] = 9.5
    D[12_345] = [0, *[1.05] * 10]
    weights = Weights([Identity(n_terms=11)])
    index = Index.build_rows([str(i) for i in range(20_000)], D, weights)
    [best] = index.search_row(np.ones((1, 11)), 1)
    assert (best.doc_id, best.score) == ("12345", pytest.approx(10.5))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([[1e39, 0]]), "beyond 3.4e38"),
        (np.array([[1j, 0]]), "complex"),
        (np.array([["a", "b"]]), "no matrix of real numbers"),
        (sparse.csr_array((np.ones(1), np.array([2]), np.array([0, 1])), shape=(1, 2)), "must be < 2"),
        (sparse.csr_array((np.ones(1), np.array([-1]), np.array([0, 1])), shape=(1, 2)), "must be >= 0"),
    ],
)
def test_rows_that_cannot_be_indexed(rows: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Index.build_rows(["a"], rows, Weights([Identity(n_terms=2)]))


def test_latent_documents_beyond_single_precision_are_refused() -> None:
    factors = np.full((2, 1), 1e30, dtype=np.float32)
    with pytest.raises(InputError, match="latent documents"):
        Index.build_rows(["a"], [[1e20, 0]], Weights([LowRank(query_factors=factors, doc_factors=factors)]))


def test_values_too_small_to_be_kept_are_none() -> None:
    index = Index.build_rows(["a", "b"], [[1e-60, 0], [1, 0]], Weights([Identity(n_terms=2)]))
    assert [hit.doc_id for hit in index.search_row([[1.0, 0]])] == ["b"]


# -- where matches end ------------------------------------------------------------------------------------------------


def tailed_model(latent: float) -> tc.TextModel:
    """Words match themselves, and every document a little: a low-rank part of one dimension."""
    words = tc.Vectorizer().fit(DOCS.values())
    ones = np.full((len(words.words_), 1), latent, dtype=np.float32)
    parts = [Identity(n_terms=len(words.words_)), LowRank(query_factors=ones, doc_factors=ones)]
    return tc.TextModel(words, words, Weights(parts))


def test_results_end_at_the_last_match() -> None:
    index = Index.build(DOCS, tailed_model(0.01))
    found = index.search("sky")
    assert [hit.doc_id for hit in found] == ["c"]
    whole = index.search("sky", cutoff=False)
    assert found.left_off == len(whole) - 1 > 0
    assert (whole.left_off, whole[0].score) == (0, found[0].score)
    assert len(index.search_many({"q": "sky"})["q"]) == len(whole)  # runs are never cut
    assert len(index.search_row(index.model.queries(["sky"]))) == len(whole)
    assert len(index.search_row(index.model.queries(["sky"]), cutoff=True)) == 1


def test_hits_with_a_clear_score_or_a_word_stay() -> None:
    strong = Index.build(DOCS, tailed_model(0.6))
    assert strong.search("sky").left_off == 0  # a learned score of its own
    assert len(strong.search("sky")) > 1
    rows = Index.build_rows(["a", "b", "c"], np.array([[100, 0], [1, 0], [0, 1]]), Weights([lifted()]))
    found = rows.search_row([[1.0, 0]], cutoff=True)
    assert [hit.doc_id for hit in found] == ["a", "b"]  # b has the word, whatever its score
    assert found.left_off == 1
    assert rows.search_row([[-1.0, 0]], cutoff=True).left_off == 0  # no score above 0 to compare with


def lifted() -> Sparse:
    """A word counts for itself, and a little for the other one."""
    return Sparse(weights=sparse.csr_array(np.array([[1.0, 0.5], [0, 1.0]], dtype=np.float32)))


def test_two_vocabularies_have_no_words_in_common() -> None:
    english, german = (tc.Vectorizer().fit([text]) for text in ("green sky", "gruen himmel"))
    factors = [np.array(values, dtype=np.float32) for values in ([[1.0], [0.0]], [[1.0], [0.01]])]
    model = tc.TextModel(english, german, Weights([LowRank(query_factors=factors[0], doc_factors=factors[1])]))
    index = Index.build({"x": "gruen", "y": "himmel"}, model)
    assert [hit.doc_id for hit in index.search("green")] == ["x"]
    assert len(index.search("green", cutoff=False)) == 2
