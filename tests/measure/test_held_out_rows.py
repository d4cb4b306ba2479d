"""Held-out queries by row, and links."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import tercet as tc
from tercet.errors import InputError

X = sparse.csr_array(np.eye(3, dtype=np.float32))


@pytest.mark.parametrize(("qrels", "message"), [({99: {0: 1}}, "the query 99"), ({0: {"d1": 1}}, "the document 'd1'")])
def test_held_out_queries_by_row_are_rows(qrels, message):
    with pytest.raises(InputError, match=f"{message} has no row"):
        tc.HeldOutQueries.from_qrels(qrels, X, X)


@pytest.mark.parametrize("grade", [0.9, 1.0, "1", True, 2**40, float("nan")])
def test_grades_of_held_out_queries_are_integers(grade):
    with pytest.raises(InputError, match="the grade of document 1 for query 0 is"):
        tc.HeldOutQueries.from_qrels({0: {0: 1, 1: grade}}, X, X)


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
    held_out = tc.HeldOutQueries(
        Q, D, sparse.csr_array(grades), names, measure, sparse.csr_array(hidden, dtype=np.int64)
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


def test_a_query_without_its_own_text_has_no_grade_for_it():
    rng = np.random.default_rng(1)
    Q, D = (sparse.csr_array(rng.random((n, 4)), dtype=np.float32) for n in (5, 8))
    grades, own = rng.integers(0, 3, (5, 8)), np.array([1, 0, 7, 3, 3])
    grades[:, 5] = 1
    names, weights = tuple("abcde"), tc.CosineRanker().fit(D).weights_
    for name in ("AP", "nDCG@3", "RankLoss"):
        measure = tc.measure.parse_measure(name)
        held_out = tc.HeldOutQueries(Q, D, sparse.csr_array(grades), names, measure).without(own)
        for row in range(5):
            seen = np.flatnonzero(np.arange(8) != own[row])
            alone = tc.HeldOutQueries(Q[[row]], D[seen], sparse.csr_array(grades[[row]][:, seen]), ("a",), measure)
            assert held_out.values(weights)[row] == pytest.approx(alone.values(weights)[0])
