"""The weights value and its parts, against dense arithmetic."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import oracles
import tercet as tc
from support.random_data import random_texts
from tercet.errors import BundleError, DamagedBundleError, InputError
from tercet.weights import Dense, Diagonal, Hashed, Identity, LowRank, Mapped, Sparse, Weights, hashed, scoring


def random_weights(seed: int, n: int = 8, m: int = 8) -> tuple[Weights, np.ndarray]:
    """A blend of every part that fits the shape, and its W as a dense array."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    def thinned(matrix):
        return sparse.csr_array(matrix * (rng.random(matrix.shape) < 0.3))

    U, V, full, table = normal(n, 3), normal(m, 3), normal(n, m), normal(rng.integers(1, 30))
    thin, P = thinned(full), int(rng.integers(1, 2**31))
    parts = [
        (LowRank(query_factors=U, doc_factors=V, scale=0.5), 0.5 * U.astype(float) @ V.T.astype(float)),
        (Dense(weights=full, scale=-0.3), -0.3 * full.astype(float)),
        (Sparse(weights=thin, scale=2.0), 2.0 * thin.toarray().astype(float)),
        (
            Hashed(table=table, n_query_terms=n, n_doc_terms=m, multiplier=P, scale=0.8),
            0.8 * np.array([[float(table[(s * P + t) % table.size]) for t in range(m)] for s in range(n)]),
        ),
    ]
    if n == m:
        diagonal = normal(n)
        parts += [
            (Identity(n_terms=n, scale=1.5), 1.5 * np.eye(n)),
            (Diagonal(weights=diagonal, scale=3.0), 3.0 * np.diag(diagonal.astype(float))),
        ]
    for part, W in [parts[at] for at in rng.integers(0, len(parts), 2)]:
        A, B = thinned(normal(n, n)), thinned(normal(m, m))
        W = -0.6 * A.toarray().astype(float).T @ W @ B.toarray().astype(float)
        parts.append((Mapped(A=A, B=B, part=part, scale=-0.6), W))
    keep = rng.random(len(parts)) < 0.7
    keep[rng.integers(len(parts))] = True
    chosen = [pair for pair, kept in zip(parts, keep, strict=True) if kept]
    return Weights([part for part, _ in chosen]), np.sum([W for _, W in chosen], axis=0)


def dense_of(part) -> np.ndarray:
    """W of one part."""
    return part.block(*(np.arange(n) for n in part.shape))


@given(seed=st.integers(0, 10**6), m=st.sampled_from([5, 8]))
def test_every_view_of_the_value_is_the_same_w(seed, m):
    weights, W = random_weights(seed, 8, m)
    rng = np.random.default_rng(seed + 1)
    Q, D = random_texts(rng, 6, 8), random_texts(rng, 6, m)
    q, d = Q.toarray().astype(float), D.toarray().astype(float)
    scores = q @ W @ d.T
    np.testing.assert_allclose(weights.score(Q, D), scores, atol=1e-6)
    np.testing.assert_allclose(weights.score_rows(Q, D), np.diag(scores), atol=1e-6)
    np.testing.assert_allclose(weights.expand(Q).toarray(), q @ W, atol=1e-6)
    np.testing.assert_allclose(sum(dense_of(part) for part in weights.parts), W, atol=1e-6)
    for i in range(8):
        expected = sorted(range(m), key=lambda j, i=i: -abs(W[i, j]))
        found = weights.related(i, m)
        assert all(abs(w) >= abs(v) for (_, w), (_, v) in pairwise(found))
        np.testing.assert_allclose([w for _, w in found], W[i, expected][: len(found)], atol=1e-5)


@given(seed=st.integers(0, 10**6), n_words=st.integers(1, 60), share=st.floats(0.01, 1))
def test_pairs_of_rows_score_as_all_against_all_do(seed, n_words, share):
    rng = np.random.default_rng(seed)
    W = (rng.standard_normal((n_words, 70)) * (rng.random((n_words, 70)) < share)).astype(np.float32)
    Q, D = random_texts(rng, 5, n_words), random_texts(rng, 5, 70, rng.random())
    expected = Q.toarray().astype(float) @ W.astype(float) @ D.toarray().astype(float).T
    for part in (Dense(weights=W), Sparse(weights=sparse.csr_array(W))):
        np.testing.assert_allclose(part.score(Q, D), expected, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(part.score_rows(Q, D), np.diag(expected), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_score_has_the_same_bits_in_any_company(rng, monkeypatch, share):
    W = (rng.standard_normal((90, 90)) * (rng.random((90, 90)) < share)).astype(np.float32)
    Q, D = random_texts(rng, 150, 90, 0.05), random_texts(rng, 200, 90, 0.1)
    D = sparse.vstack([D, D[:7]]).tocsr()  # the last ones are copies
    alone = Sparse(weights=sparse.csr_array(W), scale=0.3)
    shared = Hashed(table=W[W != 0], n_query_terms=90, n_doc_terms=90, multiplier=1_000_003)
    bins = sparse.csr_array(rng.random((90, 90)) < 0.03)
    parts = (alone, Dense(weights=W), Identity(n_terms=90), shared, Mapped(A=bins, B=bins, part=alone))
    together = [part.score(Q, D) for part in parts]
    for part, scores in zip(parts, together, strict=True):
        assert scores.flags.c_contiguous
        np.testing.assert_array_equal(scores[:, -7:], scores[:, :7])
        np.testing.assert_array_equal(np.vstack([part.score(Q[[i]], D) for i in range(150)]), scores)
        np.testing.assert_array_equal(part.score(Q, D[40:51]), scores[:, 40:51])
    monkeypatch.setattr(scoring, "_EXPANDED_BYTES", 8 * 90 * 11)  # eleven queries at a time
    for cost in (0, 10**6):  # always by postings, never by postings
        monkeypatch.setattr(scoring, "_COST_OF_SCATTERING", cost)
        monkeypatch.setattr(scoring, "_COST_OF_POSTINGS", cost)
        for part, scores in zip(parts, together, strict=True):
            np.testing.assert_array_equal(part.score(Q, D), scores)
    for cost in (0, 10**6):  # always for all words, always for those of the documents only
        monkeypatch.setattr(hashed, "_COST_OF_PICKING", 10**6 - cost)
        np.testing.assert_array_equal(shared.score(Q, D[:90]), together[3][:, :90])


def test_thin_queries_only_look_at_documents_with_their_words(rng, monkeypatch):
    taken = []
    for name in ("score_postings", "score_docs"):
        kernel = getattr(scoring, name)
        monkeypatch.setattr(scoring, name, lambda *a, k=kernel, name=name: (taken.append(name), k(*a)))
    Q, D = random_texts(rng, 60, 400, 0.01), random_texts(rng, 90, 400, 0.1)
    Identity(n_terms=400).score(Q, D)
    assert set(taken) == {"score_postings"}
    taken.clear()
    Identity(n_terms=400).score(Q[:3], D)  # too few to sort the documents by word for
    Dense(weights=np.ones((400, 400), np.float32)).score(Q, D)
    assert set(taken) == {"score_docs"}


def test_words_in_any_order_and_in_pieces_score_the_same(rng):
    weights, W = random_weights(5)
    whole = sparse.csr_array(np.array([[0, 2.0, 0, 1.0, 0, 0, 0, 3.0]], np.float32))
    pieces = sparse.csr_array((np.array([3, 0.5, 1, 1.5], np.float32), [7, 1, 3, 1], [0, 4]), shape=(1, 8))
    before = pieces.indices.copy()
    for Q, D in ((pieces, whole), (whole, pieces), (pieces, pieces)):
        np.testing.assert_allclose(weights.score(Q, D), whole @ W @ whole.T, rtol=1e-6)
        np.testing.assert_allclose(weights.score_rows(Q, D), (whole @ W @ whole.T)[0], rtol=1e-6)
    assert pieces.indices.tolist() == before.tolist()  # the caller's matrix is as it was


@given(seed=st.integers(0, 10**6), m=st.sampled_from([5, 8]))
def test_contributions_sum_to_the_score(seed, m):
    weights, W = random_weights(seed, 8, m)
    rng = np.random.default_rng(seed + 1)
    Q, D = random_texts(rng, 5, 8), random_texts(rng, 5, m)
    for i in range(5):
        why = weights.explain(Q[[i]], D[[i]])
        assert abs(why.contribution.sum() - why.score) <= 1e-6 * np.abs(why.contribution).sum()
        for a, b, c in why:
            assert c == pytest.approx(Q.toarray()[i, a] * W[a, b] * D.toarray()[i, b], abs=1e-6)
        sizes = np.abs(why.contribution)
        assert (sizes[1:] <= sizes[:-1]).all()
        assert len({(a, b) for a, b, _ in why}) == len(why)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), typical=st.floats(0.1, 5))
def test_per_document_scale(seed, typical):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((7, 3)).astype(np.float32), rng.standard_normal((7, 3)).astype(np.float32)
    weights = Weights(
        [
            LowRank(query_factors=U, doc_factors=V, typical_length=typical, scale=0.7),
            Identity(n_terms=7, scale=2.0),
        ]
    )
    Q, D = random_texts(rng, 4, 7), random_texts(rng, 5, 7)
    q, d = Q.toarray().astype(float), D.toarray().astype(float)
    for i in range(4):
        for j in range(5):
            latent = 0.0
            if d[j].any():
                latent = oracles.latent_scaled_score(q[i], d[j], U.T.astype(float), V.T.astype(float), typical)
            expected = 0.7 * latent + 2.0 * q[i] @ d[j]
            assert weights.score(Q, D)[i, j] == pytest.approx(expected, abs=1e-9)
            why = weights.explain(Q[[i]], D[[j]])
            assert abs(why.contribution.sum() - why.score) <= 1e-6 * np.abs(why.contribution).sum()
            assert why.score == pytest.approx(expected, abs=1e-9)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 12))
def test_rank_breaks_ties_by_lower_row(seed, k):
    rng = np.random.default_rng(seed)
    Q = sparse.csr_array(np.eye(3, 4, dtype=np.float32))
    D = sparse.csr_array(rng.integers(0, 3, (9, 4)).astype(np.float32))  # many equal scores
    docs, scores = Weights([Identity(n_terms=4)]).rank(Q, D, k)
    assert docs.shape == (3, min(k, 9))
    for i, row in enumerate((Q @ D.T).toarray()):
        assert docs[i].tolist() == oracles.ranking(row)[:k]
        assert scores[i].tolist() == row[docs[i]].tolist()


@given(seed=st.integers(0, 10**6), m=st.sampled_from([5, 8]))
def test_state_round_trip_is_exact(seed, m):
    weights, _ = random_weights(seed, 8, m)
    meta, arrays = weights.to_state()
    meta_again, arrays_again = Weights.from_state(meta, arrays).to_state()
    assert meta == meta_again
    assert arrays.keys() == arrays_again.keys()
    assert all(np.array_equal(arrays[name], arrays_again[name]) for name in arrays)


@pytest.mark.parametrize(
    "make",
    [
        lambda U: Diagonal(weights=U[:, 0]),
        lambda U: Diagonal(weights=[1, 2, 3]),
        lambda U: Dense(weights=U @ U.T),
        lambda U: LowRank(query_factors=U, doc_factors=U),
        lambda U: LowRank(query_factors=U, doc_factors=np.round(U).astype(int)),
        lambda U: Identity(n_terms=np.int64(3)),
    ],
)
def test_a_part_of_other_numbers_than_float32_is_saved_as_it_is_scored(rng, tmp_path, make):
    weights, Q = Weights([make(rng.normal(size=(3, 2)))]), np.eye(3)
    tc.Index.build_rows(["a", "b", "c"], Q, weights, tmp_path / "index")
    loaded = tc.Index.open(tmp_path / "index").model
    assert loaded.score(Q, Q).tobytes() == weights.score(Q, Q).tobytes()


def test_blends_add_scaled_parts(rng):
    one, W_one = random_weights(1)
    two, W_two = random_weights(2)
    Q, D = random_texts(rng, 4, 8), random_texts(rng, 4, 8)
    blend = 0.25 * one + two * 0.75
    expected = Q.toarray() @ (0.25 * W_one + 0.75 * W_two) @ D.toarray().T
    np.testing.assert_allclose(blend.score(Q, D), expected, atol=1e-5)
    assert sum(isinstance(p, Identity) for p in blend.parts) <= 1


def test_merged_views(rng):
    U = rng.standard_normal((4, 2)).astype(np.float32)
    weights = Weights(
        [
            Identity(n_terms=4, scale=2.0),
            Diagonal(weights=np.arange(4, dtype=np.float32), scale=0.5),
            Sparse(weights=sparse.csr_array(np.triu(np.ones((4, 4)))), scale=3.0),
            LowRank(query_factors=U, doc_factors=U, scale=4.0),
        ]
    )
    assert weights.identity == 2.0
    assert weights.diagonal.tolist() == [0, 0.5, 1, 1.5]
    assert weights.sparse.toarray().tolist() == (3 * np.triu(np.ones((4, 4)))).tolist()
    np.testing.assert_array_equal(weights.query_factors, 4 * U)
    np.testing.assert_array_equal(weights.doc_factors, U)
    assert weights.n_stored == 1 + 4 + 10 + 8
    alone = Weights([Identity(n_terms=4)])
    assert alone.diagonal is alone.sparse is alone.query_factors is alone.doc_factors is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Weights([]), "at least one part"),
        (
            lambda: Weights([LowRank(query_factors=np.ones((3, 2)), doc_factors=np.ones((4, 2))), Identity(n_terms=3)]),
            r"identity pairs each word with itself, but the query and document vocabularies differ \(3 and 4 words\)",
        ),
        (lambda: Weights([Identity(n_terms=3), Identity(n_terms=4)]), "parts must have one shape"),
        (lambda: Diagonal(weights=np.array([1, np.nan], np.float32)), r"diagonal\[1\] is nan"),
        (lambda: Dense(weights=np.array([[1, np.inf]], np.float32)), r"W\[0, 1\] is inf"),
        (lambda: Dense(weights=np.array([[1, 1e39]])), r"W\[0, 1\] is inf"),
        (lambda: Diagonal(weights=np.ones((2, 2))), r"diagonal has shape \(2, 2\)"),
        (
            lambda: LowRank(query_factors=np.ones((3, 2)), doc_factors=np.ones((3, 2)), typical_length=-1.0),
            "typical_length must be a number of at least 0, or None; got -1.0",
        ),
        (lambda: LowRank(query_factors=np.ones((3, 2)), doc_factors=np.ones((3, 1))), "2 components"),
        (lambda: Weights([Identity(n_terms=3, scale=np.nan)]), "scale of the identity part is nan"),
        (lambda: Weights([Identity(n_terms=3)]).score(np.eye(2), np.eye(3)), "Q must have 3 columns"),
        (lambda: Weights([Identity(n_terms=3)]).score_rows(np.eye(3)[:2], np.eye(3)), "Q has 2 rows and D 3"),
        (lambda: Weights([Identity(n_terms=3)]).explain(np.eye(3), np.eye(3)), "q must be one row; got 3"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_saved_state_that_does_not_fit_is_refused():
    weights, _ = random_weights(3)
    weights = weights + Weights([Sparse(weights=sparse.csr_array(np.eye(8)))])
    meta, arrays = weights.to_state()
    last = len(weights.parts) - 1
    for changed in (
        ({**meta, "more": 1}, arrays),
        ({"parts": [{**p, "kind": "unheard-of"} for p in meta["parts"]]}, arrays),
        ({"parts": [{**p, "more": 1} for p in meta["parts"]]}, arrays),
        ({"parts": [{**p, "shape": [9, 9]} for p in meta["parts"]]}, arrays),
        ({"parts": [{**p, "scale": "2"} for p in meta["parts"]]}, arrays),
        (meta, arrays | {"9.more": np.ones(2)}),
        (meta, {k: v for k, v in arrays.items() if k != f"{last}.data"}),
        (meta, arrays | {f"{last}.indices": np.full(8, 99, np.int32)}),
        (meta, arrays | {f"{last}.indptr": np.arange(9)[::-1].astype(np.int64)}),
    ):
        with pytest.raises(BundleError):
            Weights.from_state(*changed)
    assert issubclass(DamagedBundleError, BundleError)


def test_blends_have_one_shape():
    one, two = (Weights([Identity(n_terms=n)]) for n in (3, 5))
    with pytest.raises(InputError, match=r"shapes \(3, 3\) and \(5, 5\)"):
        one + two


@pytest.mark.parametrize("term", [-1, 3, "a", 1.5, True, None])
def test_related_wants_a_column(term):
    with pytest.raises(InputError, match="does not exist; there are 3"):
        Weights([Identity(n_terms=3)]).related(term)


# -- hashed ---------------------------------------------------------------------------------------------------------

TERMS = st.lists(st.integers(0, 2**31 - 2), min_size=1, max_size=6, unique=True)


@given(s=TERMS, t=TERMS, P=st.integers(1, 2**31), H=st.integers(1, 50), seed=st.integers(0, 10**6))
def test_hashed_weights_of_any_vocabulary(s, t, P, H, seed):
    rng = np.random.default_rng(seed)
    n = 2**31 - 1
    table = rng.standard_normal(H).astype(np.float32)
    part = Hashed(table=table, n_query_terms=n, n_doc_terms=n, multiplier=P, scale=-2.0)
    s, t = sorted(s), sorted(t)
    W = np.array([[-2.0 * float(table[(a * P + b) % H]) for b in t] for a in s])  # Python's integers are exact
    np.testing.assert_array_equal(part.block(np.array(s), np.array(t)), W)
    q, d = rng.standard_normal(len(s)).astype(np.float32), rng.standard_normal(len(t)).astype(np.float32)
    Q = sparse.csr_array((q, (np.zeros(len(s), np.int32), s)), shape=(1, n))
    D = sparse.csr_array((d, (np.zeros(len(t), np.int32), t)), shape=(1, n))
    expected = pytest.approx(q.astype(float) @ W @ d.astype(float), abs=1e-9)
    weights = Weights([part])
    assert weights.score(Q, D)[0, 0] == expected
    assert weights.score_rows(Q, D)[0] == expected
    assert weights.explain(Q, D).contribution.sum() == expected


def test_a_row_longer_than_the_table_goes_round_it(rng):
    table = rng.standard_normal(7).astype(np.float32)
    part = Hashed(table=table, n_query_terms=3, n_doc_terms=2500, multiplier=5)
    rows = Weights([part]).rows(np.arange(3))
    assert rows.tolist() == [[float(table[(5 * s + t) % 7]) for t in range(2500)] for s in range(3)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"table": np.ones(0, np.float32)}, "table is float32 of shape \\(0,\\)"),
        ({"table": np.ones(3)}, "table is float64"),
        ({"table": np.ones((3, 1), np.float32)}, "shape \\(3, 1\\)"),
        ({"table": np.array([1, np.inf], np.float32)}, "table\\[1\\] is inf"),
        ({"multiplier": 0}, "multiplier of a hashed part must be an integer from 1 to 2147483648; got 0"),
        ({"multiplier": 2**31 + 1}, "multiplier"),
        ({"multiplier": True}, "multiplier"),
        ({"n_doc_terms": 2**31}, "n_doc_terms of a hashed part must be an integer from 0"),
        ({"n_query_terms": 2.0}, "n_query_terms"),
    ],
)
def test_a_hashed_part_that_cannot_be_is_refused(changed, message):
    sound = {"table": np.ones(3, np.float32), "n_query_terms": 4, "n_doc_terms": 4, "multiplier": 7}
    assert Hashed(**sound).n_stored == 3
    with pytest.raises(InputError, match=message):
        Hashed(**sound | changed)


# -- mapped ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), typical=st.floats(0.1, 5), deep=st.booleans())
@settings(max_examples=25)
def test_a_per_document_scale_is_that_of_the_mapped_document(seed, typical, deep):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32)
    A, B = ((rng.standard_normal((k, 7)) * (rng.random((k, 7)) < 0.5)).astype(np.float32) for k in (4, 5))
    part = LowRank(query_factors=U, doc_factors=V, typical_length=typical, scale=0.7)
    mapped = Mapped(A=sparse.csr_array(A), B=sparse.csr_array(B), part=part, scale=-3.0)
    if deep:
        again = sparse.csr_array(np.eye(7)[rng.permutation(7)])
        mapped, A, B = Mapped(A=again, B=again, part=mapped), A @ again, B @ again
    weights = Weights([mapped, Identity(n_terms=7, scale=2.0)])
    Q, D = random_texts(rng, 4, 7), random_texts(rng, 5, 7)
    q, d = Q.toarray().astype(float), D.toarray().astype(float)
    scores = weights.score(Q, D)
    for i in range(4):
        np.testing.assert_allclose(weights.score_rows(Q[[i] * 5], D), scores[i], atol=1e-9)
        for j in range(5):
            Aq, Bd = A.astype(float) @ q[i], B.astype(float) @ d[j]
            latent = 0.0
            if (V.T @ Bd).any():
                latent = oracles.latent_scaled_score(Aq, Bd, U.T.astype(float), V.T.astype(float), typical)
            assert scores[i, j] == pytest.approx(-3.0 * 0.7 * latent + 2.0 * q[i] @ d[j], abs=1e-9)
            why = weights.explain(Q[[i]], D[[j]])
            assert why.score == pytest.approx(scores[i, j], abs=1e-9)
            assert abs(why.contribution.sum() - why.score) <= 1e-6 * np.abs(why.contribution).sum()


def test_words_that_cancel_in_the_map_are_explained_one_by_one():
    opposites = sparse.csr_array([[1.0, -1.0]])
    weights = Weights([Mapped(A=opposites, B=opposites, part=Identity(n_terms=1))])
    both, first = sparse.csr_array([[1.0, 1.0]]), sparse.csr_array([[1.0, 0.0]])
    why = weights.explain(both, first)
    assert why.score == 0
    assert list(why) == [(0, 0, 1.0), (1, 0, -1.0)]
    assert weights.related(1, 2) == [(0, -1.0), (1, 1.0)]


def test_one_map_for_both_sides_is_kept_once(rng):
    bins = sparse.csr_array(rng.random((3, 8)) < 0.4)
    part = Sparse(weights=sparse.csr_array(rng.random((3, 3))))
    weights = Weights([Mapped(A=bins, B=bins, part=part), Mapped(A=bins, B=bins * 2.0, part=part)])
    assert weights.n_stored == 3 * bins.nnz + 9
    meta, arrays = weights.to_state()
    assert [name for name in arrays if ".B." in name] == ["1.B.data"]  # its columns are those of A
    again = Weights.from_state(meta, arrays)
    assert [part.tied for part in again.parts] == [True, False]
    Q = random_texts(rng, 4, 8)
    np.testing.assert_array_equal(again.score(Q, Q), weights.score(Q, Q))


def test_a_mapped_part_keeps_its_own_maps(rng):
    bins = sparse.csr_array(np.ones((2, 3), np.float32))
    part = Mapped(A=bins, B=bins, part=Identity(n_terms=2))
    bins.data[:] = 7
    assert dense_of(part).tolist() == np.full((3, 3), 2.0).tolist()
    with pytest.raises(ValueError, match="read-only"):
        part.A.data[0] = 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"A": sparse.csr_array(np.ones((3, 4)))}, "A and B map to 3 and 2 words; the identity part has 2 and 2"),
        ({"part": Identity(n_terms=2, scale=np.inf)}, "scale of the mapped identity part is inf"),
        ({"B": sparse.csr_array([[1.0, np.nan], [0.0, 1.0]])}, "B.data\\[1\\] is nan"),
    ],
)
def test_a_mapped_part_that_cannot_be_is_refused(changed, message):
    bins = sparse.csr_array(np.ones((2, 4)))
    with pytest.raises(InputError, match=message):
        Mapped(**{"A": bins, "B": bins, "part": Identity(n_terms=2)} | changed)


def test_saved_hashed_and_mapped_parts_that_do_not_fit_are_refused(rng):
    table = rng.standard_normal(5).astype(np.float32)
    inner = Hashed(table=table, n_query_terms=3, n_doc_terms=3, multiplier=7)
    bins = sparse.csr_array(np.eye(3, 8))
    meta, arrays = Weights([Mapped(A=bins, B=bins, part=inner, scale=2.0)]).to_state()
    assert arrays.keys() == {"0.A.data", "0.A.indices", "0.A.indptr", "0.part.table"}
    [part] = meta["parts"]

    def with_inner(**more):
        return {"parts": [part | {"part": part["part"] | more}]}

    Weights.from_state(with_inner(), arrays)
    for changed in (
        (with_inner(multiplier=0), arrays),
        (with_inner(multiplier=2**40), arrays),
        (with_inner(multiplier=7.5), arrays),
        (with_inner(shape=[4, 3]), arrays),
        (with_inner(scale=10**400), arrays),
        (with_inner(kind="unheard-of"), arrays),
        (with_inner(more=1), arrays),
        ({"parts": [part | {"part": []}]}, arrays),
        ({"parts": [part | {"tied": False}]}, arrays),
        ({"parts": [part | {"shape": [8, 9]}]}, arrays),
        (meta, arrays | {"0.part.more": table}),
        (meta, arrays | {"0.B.data": table}),
        (meta, arrays | {"0.part.table": table[:0]}),
        (meta, arrays | {"0.part.table": table.astype(float)}),
        (meta, arrays | {"0.part.table": table * np.float32(np.nan)}),
        (meta, arrays | {"0.A.indices": np.array([0, 1, 8], np.int32)}),
        (meta, {name: a for name, a in arrays.items() if name != "0.part.table"}),
    ):
        with pytest.raises(BundleError):
            Weights.from_state(*changed)
