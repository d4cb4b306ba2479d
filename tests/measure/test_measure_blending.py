"""Validation queries by row, and blends whose amount is chosen on them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from tercet.errors import InputError
from tercet.weights import Diagonal, Identity, LowRank

N_WORDS = 12


@pytest.fixture(scope="module")
def held_out() -> tc.HeldOutQueries:
    rng = np.random.default_rng(0)
    D = sparse.csr_array(rng.random((40, N_WORDS)) * (rng.random((40, N_WORDS)) < 0.4), dtype=np.float32)
    Q = sparse.csr_array(rng.random((15, N_WORDS)) * (rng.random((15, N_WORDS)) < 0.4), dtype=np.float32)
    # Relevant is what two models find together: the identity, and a diagonal that weighs words otherwise.
    scores = (Q @ D.T).toarray() + (Q @ sparse.diags_array(_diagonal().astype(np.float64)) @ D.T).toarray()
    best = np.argsort(-scores, axis=1)[:, :3]
    return tc.HeldOutQueries.from_qrels(
        {q: dict.fromkeys(docs, 1) for q, docs in enumerate(best.tolist())}, Q, D, measure="AP"
    )


def _diagonal() -> np.ndarray:
    return np.linspace(0, 4, N_WORDS, dtype=np.float32)


def identity(scale: float = 1.0) -> tc.Weights:
    return tc.Weights([Identity(n_terms=N_WORDS, scale=scale)])


def diagonal(scale: float = 1.0) -> tc.Weights:
    return tc.Weights([Diagonal(weights=_diagonal(), scale=scale)])


def test_a_blend_is_at_least_as_good_as_its_first_and_here_better_than_both(held_out):
    weights, amount = tc.blend(identity(), diagonal(), held_out)
    assert held_out(weights) > max(held_out(identity()), held_out(diagonal()))
    assert amount > 0


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_neither_matters(held_out, scale):
    plain_weights, plain_amount = tc.blend(identity(), diagonal(), held_out)
    for first, second, factor in ((identity(scale), diagonal(), scale), (identity(), diagonal(scale), 1 / scale)):
        weights, amount = tc.blend(first, second, held_out)
        assert amount == pytest.approx(plain_amount * factor)
        assert held_out(weights) == held_out(plain_weights)


def test_nothing_is_added_where_nothing_is_gained(held_out):
    first = identity()
    for second in (identity(2.0), diagonal(0.0)):
        weights, amount = tc.blend(first, second, held_out)
        assert amount == 0
        assert weights is first


def test_a_first_that_says_nothing_is_no_hindrance(held_out):
    weights, _ = tc.blend(identity(0.0), diagonal(), held_out)
    assert held_out(weights) == held_out(diagonal()) > held_out(identity(0.0))


def test_lower_is_better_where_the_measure_says_so(held_out, monkeypatch):
    noise = np.random.default_rng(1).standard_normal((N_WORDS, 3)).astype(np.float32)
    bad = tc.Weights([LowRank(query_factors=noise, doc_factors=-noise)])
    monkeypatch.setattr(type(held_out.measure), "higher_is_better", False)
    weights, _ = tc.blend(identity(), bad, held_out)
    assert held_out.values(weights).mean() < held_out.values(identity()).mean()


def test_shapes_must_agree(held_out):
    with pytest.raises(InputError, match=r"shapes \(12, 12\) and \(3, 3\) cannot be blended"):
        tc.blend(identity(), tc.Weights([Identity(n_terms=3)]), held_out)


@pytest.mark.parametrize(("qrels", "message"), [({99: {0: 1}}, "the query 99"), ({0: {"d1": 1}}, "the document 'd1'")])
def test_held_out_queries_by_row_are_rows(held_out, qrels, message):
    with pytest.raises(InputError, match=f"{message} has no row"):
        tc.HeldOutQueries.from_qrels(qrels, held_out.Q, held_out.D)


@pytest.mark.parametrize("grade", [0.9, 1.0, "1", True, 2**40, float("nan")])
def test_grades_of_held_out_queries_are_integers(held_out, grade):
    with pytest.raises(InputError, match="the grade of document 1 for query 0 is"):
        tc.HeldOutQueries.from_qrels({0: {0: 1, 1: grade}}, held_out.Q, held_out.D)


def test_links_are_found_among_what_is_not_known():
    X = sparse.csr_array(np.eye(5, 4, dtype=np.float32) + 0.5 * np.ones((5, 4), dtype=np.float32))
    held_out = tc.HeldOutQueries.from_links([(3, 1), (1, 2), (1, 4), (1, 1), (1, 2)], X, known=[(1, 0), (2, 0), (1, 4)])
    assert held_out.qids == ("1", "3")
    np.testing.assert_array_equal(held_out.Q.toarray(), X[[1, 3]].toarray())
    np.testing.assert_array_equal(held_out.grades.toarray(), [[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
    np.testing.assert_array_equal(held_out.hidden.toarray(), [[1, 1, 0, 0, 1], [0, 0, 0, 1, 0]])
    other = tc.HeldOutQueries.from_links([(4, 1)], X, X[:2], exclude_self=False)
    assert other.hidden.nnz == 0
    assert tc.HeldOutQueries.from_links([(4, 1)], X, X[:2]).hidden.nnz == 0  # no document has the query's own row


def test_hidden_documents_are_none_to_be_ranked_above():
    rng = np.random.default_rng(0)
    Q, D = (sparse.csr_array(rng.random((n, 4)), dtype=np.float32) for n in (6, 12))
    grades, hidden = rng.integers(0, 3, (6, 12)), rng.random((6, 12)) < 0.3
    grades[:, 0], hidden[:, 0], hidden[:, 1] = 1, False, True
    grades[hidden] = 0
    measure, weights = tc.measure.parse_measure("RankLoss"), tc.CosineRanker().fit(D).weights_
    names = tuple(f"q{row}" for row in range(6))
    expected = []
    for row in range(6):
        seen = np.flatnonzero(~hidden[row])
        alone = tc.HeldOutQueries(Q[[row]], D[seen], sparse.csr_array(grades[[row]][:, seen]), names[:1], measure)
        expected.append(alone.values(weights)[0])
    assert 0 < min(expected) < max(expected)
    for exclude in (None, np.ones(6, dtype=np.int64)):  # excluded and hidden is no more than either
        held_out = tc.HeldOutQueries(
            Q, D, sparse.csr_array(grades), names, measure, exclude, sparse.csr_array(hidden, dtype=np.int64)
        )
        np.testing.assert_allclose(held_out.values(weights), expected, atol=1e-12)
    X = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=np.float32))
    linked = tc.HeldOutQueries.from_links([(0, 1)], X, measure="RankLoss")
    assert linked(tc.CosineRanker().fit(X).weights_) == -1.0  # below the only other document


@pytest.mark.parametrize(
    ("links", "known", "message"),
    [
        ([(0, 7)], (), r"links\[0\] is \(0, 7\); Q has 3 rows and D 3"),
        ([(0, 1)], [(0.5, 1)], r"known must be integer pairs \(from, to\)"),
        ([(0, 1), (1, 1)], [(0, 1)], "no links to be found"),
        ([], (), "no links to be found"),
    ],
)
def test_links_that_cannot_be(links, known, message):
    X = sparse.eye_array(3, format="csr")
    with pytest.raises(InputError, match=message):
        tc.HeldOutQueries.from_links(links, X, known=known)
