"""Queries and answers that are left out: no evidence of theirs stays behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tercet.fitting.leaving_out import alike_notes, folds_of, new_answers, queries_by_text

# -- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(10, 600), st.integers(0, 5))
def test_every_query_is_left_out_once_or_where_there_are_few_twice(n, seed):
    qids = [f"q{i}" for i in range(n)]
    folds = folds_of(qids, seed)
    times = np.array([sum(qid in fold for fold in map(set, folds)) for qid in qids])
    assert set(times) == {2 if n < 300 else 1}
    assert folds == folds_of(qids[::-1], seed)  # whatever the order
    assert folds != folds_of(qids, seed + 1)


def test_of_many_queries_enough_are_left_out_of_few_fits():
    folds = folds_of([f"q{i}" for i in range(3000)], 0)
    assert [len(fold) for fold in folds] == [500]
    folds = folds_of([f"q{i}" for i in range(900)], 0)
    assert [len(fold) for fold in folds] == [180] * 3  # 540 queries


@pytest.mark.slow
@given(st.lists(st.integers(0, 14), min_size=10, max_size=60), st.integers(0, 3))
def test_queries_of_the_same_text_leave_together(numbers, seed):
    texts = {f"q{i}": f"  Green   TEA {number}" if i % 2 else f"green tea {number}" for i, number in enumerate(numbers)}
    alike = queries_by_text(texts, texts)
    assert sorted(map(len, alike.values())) == sorted(np.unique(numbers, return_counts=True)[1].tolist())
    folds = folds_of(list(texts), seed, texts=texts)
    notes = alike_notes(list(texts), texts)
    if len(alike) < 10:
        assert len(notes) == (len(alike) < len(texts))  # too few texts: said, where it matters
        return
    assert notes == ()
    for fold in map(set, folds):
        for same in alike.values():
            assert len(fold.intersection(same)) in (0, len(same))


# -- new answers by components ----------------------------------------------------------------------------------------


def matrix(answers: list[set[int]], n_docs: int) -> sparse.csr_array:
    rows = [row for row, own in enumerate(answers) for _ in own]
    columns = [doc for own in answers for doc in sorted(own)]
    return sparse.csr_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(len(answers), n_docs))


def components(answers: list[set[int]]) -> list[set[int]]:
    """Queries that share an answer, directly or through others; joined one by one."""
    groups: list[tuple[set[int], set[int]]] = []
    for query, own in enumerate(answers):
        touching = [group for group in groups if group[1] & own]
        groups = [group for group in groups if not group[1] & own]
        groups.append(({query}.union(*(q for q, _ in touching)), own.union(*(d for _, d in touching))))
    return [queries for queries, _ in groups]


@pytest.mark.slow
@given(
    st.lists(st.sets(st.integers(0, 39), min_size=1, max_size=2), min_size=10, max_size=40),
    st.integers(0, 100),
)
def test_no_remaining_query_has_an_answer_that_is_left_out(answers, seed):
    """By components, or where one is too large by documents."""
    left_out = new_answers(matrix(answers, 40), sparse.eye_array(40, format="csr"), np.random.default_rng(seed))
    found, largest = components(answers), max(map(len, components(answers)))
    if len(answers) >= 20 and largest <= len(answers) / 5:
        assert left_out is not None
    if left_out is not None and largest <= len(answers) / 2:
        out = set(left_out[0].tolist())
        assert all(len(out & one) in (0, len(one)) for one in found)  # whole components
        assert set(np.flatnonzero(left_out[1]).tolist()) == set().union(*(answers[query] for query in out))
    if left_out is None:
        return
    out, docs = set(left_out[0].tolist()), set(np.flatnonzero(left_out[1]).tolist())
    assert len(out) >= 5
    assert len(answers) - len(out) >= 5
    for query, own in enumerate(answers):
        assert bool(own & docs) == (query in out)


# -- new answers by groups of similar documents -----------------------------------------------------------------------


def one_component(n_queries: int, n_docs: int, seed: int) -> list[set[int]]:
    """Queries in a chain, each with an answer of the one before and a random one."""
    rng = np.random.default_rng(seed)
    return [{query % n_docs, (query + 1) % n_docs, int(rng.integers(n_docs))} for query in range(n_queries)]


@pytest.mark.parametrize("seed", range(5))
def test_similar_documents_leave_together_in_small_groups(seed):
    n_docs, answers = 120, one_component(120, 120, seed)
    assert len(components(answers)) == 1
    rng = np.random.default_rng(seed)
    topics = np.repeat(np.arange(40), 3)  # three documents of a topic are nearly the same
    D = np.eye(40)[topics] + 0.02 * rng.random((n_docs, 40))
    left_out = new_answers(matrix(answers, n_docs), sparse.csr_array(D), np.random.default_rng(seed))
    assert left_out is not None
    docs, queries = np.flatnonzero(left_out[1]), set(left_out[0].tolist())
    assert 0 < docs.size <= 12  # a tenth of the answers
    for topic in np.unique(topics[docs]):
        assert left_out[1][topics == topic].all()
    for query, own in enumerate(answers):
        assert bool(own & set(docs.tolist())) == (query in queries)
    assert len(queries) <= 60


@pytest.mark.slow
def test_a_group_of_more_than_a_twentieth_of_the_catalog_stays():
    n_docs, answers = 100, one_component(100, 100, 0)
    D = np.eye(100)
    D[:8] = D[0]  # eight documents that are the same, and would fit into a tenth of the answers
    for seed in range(100):
        left_out = new_answers(matrix(answers, n_docs), sparse.csr_array(D), np.random.default_rng(seed))
        assert left_out is not None
        assert not left_out[1][:8].any()


def test_documents_without_words_are_similar_to_none():
    answers = one_component(60, 60, 1)
    left_out = new_answers(matrix(answers, 60), sparse.csr_array((60, 5)), np.random.default_rng(0))
    assert left_out is not None
    assert 0 < left_out[1].sum() <= 6


@pytest.mark.parametrize(
    ("answers", "n_docs"),
    [
        ([{0}] * 30, 3),  # all have one answer: nothing would stay to learn from
        ([{query} for query in range(9)], 9),  # too few queries
        ([], 4),
    ],
)
def test_where_too_few_would_be_left_out_nothing_is(answers, n_docs):
    assert (
        new_answers(matrix(answers, n_docs), sparse.eye_array(n_docs, format="csr"), np.random.default_rng(0)) is None
    )
