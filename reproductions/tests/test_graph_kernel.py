"""The kernel of labelled graphs: every walk counted, positive semi-definite, and a kernel that RankRLS takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import walk_kernel
from reproductions.graph_kernel import TokenGraph, graph_kernel
from tercet.errors import InputError, ParameterError
from tercet.learn.rls import RankRLS

LABELS = ("protein", "binds", "DNA", "NOUN", "VERB")


@st.composite
def graphs(draw, acyclic: bool = False) -> TokenGraph:
    n = draw(st.integers(1, 4))
    labels = [draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=2, unique=True)) for _ in range(n)]
    pairs = [(i, j) for i in range(n) for j in range(n) if i < j or not acyclic]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=4)) if pairs else []
    types = [draw(st.sampled_from(["subject", "object"])) for _ in edges] if draw(st.booleans()) else []
    weights = [draw(st.sampled_from([0.3, 0.9, 2.0])) for _ in edges] if draw(st.booleans()) else []
    return TokenGraph(labels, edges, types, weights, directed=acyclic or draw(st.booleans()))


def spelt_out(graph: TokenGraph):
    """Labels of nodes and weights of edges, those with a type through a node of their own."""
    labels = [tuple(own) for own in graph.labels] + [(kind,) for kind in graph.types]
    edges: dict[tuple[int, int], float] = {}
    for position, (i, j) in enumerate(graph.edges):
        weight = graph.weights[position] if graph.weights else 1.0
        way = [(i, len(graph.labels) + position), (len(graph.labels) + position, j)] if graph.types else [(i, j)]
        for a, b in way if graph.directed else way + [(b, a) for a, b in way]:
            edges[a, b] = edges.get((a, b), 0.0) + weight
    return labels, edges


@settings(max_examples=60, deadline=None)
@given(graphs(), graphs(), st.sampled_from([0.2, 0.5, 1.5]), st.integers(1, 3))
def test_it_is_the_sum_over_all_walks(first, second, decay, length):
    found = graph_kernel([first], [second], decay=decay, max_length=length, normalise=False)
    assert found.shape == (1, 1)
    assert found[0, 0] == pytest.approx(walk_kernel(spelt_out(first), spelt_out(second), decay, length))


@settings(max_examples=40, deadline=None)
@given(graphs(acyclic=True), graphs(acyclic=True))
def test_all_walks_of_graphs_without_circles_are_those_of_every_length(first, second):
    found = graph_kernel([first], [second], decay=0.9, max_length=None, normalise=False)
    assert found[0, 0] == pytest.approx(walk_kernel(spelt_out(first), spelt_out(second), 0.9, 20), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(graphs(), min_size=1, max_size=5), st.booleans())
def test_it_is_positive_semi_definite(some, normalise):
    K = graph_kernel(some, decay=0.4, max_length=3, normalise=normalise)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K).min() >= -1e-10 * max(1.0, K.max())
    if normalise:
        assert all(own == pytest.approx(1.0) or own == 0.0 for own in K.diagonal())
    np.testing.assert_allclose(graph_kernel(some[:1], some, decay=0.4, max_length=3, normalise=normalise), K[:1])


def test_circles_add_up_while_they_fade():
    circle = TokenGraph(["a", "b"], [(0, 1)])  # both ways: the eigenvalues are 1 and -1
    exact = graph_kernel([circle], decay=0.5, max_length=None, normalise=False)
    many = graph_kernel([circle], decay=0.5, max_length=60, normalise=False)
    np.testing.assert_allclose(exact, many)
    for decay in (1.0, 1.2):
        with pytest.raises(InputError, match="walks of any length do not add up"):
            graph_kernel([circle], decay=decay, max_length=None)


def parses(n_sentences: int, seed: int) -> tuple[list[TokenGraph], np.ndarray, np.ndarray]:
    """Five parses of each made-up sentence; the score is the share of its heads that are right."""
    rng = np.random.default_rng(seed)
    graphs_, scores, sentence = [], [], []
    for number in range(n_sentences):
        kinds = ["VERB", *rng.choice(["NOUN", "ADJ"], 5)]
        right = [
            0 if kind == "NOUN" else int(rng.choice(np.flatnonzero([k != "ADJ" for k in kinds]))) for kind in kinds
        ]
        for _ in range(5):
            is_right = rng.random(6) < rng.random()
            heads = [int(h) if ok else int(rng.integers(0, 6)) for h, ok in zip(right, is_right, strict=True)]
            edges = [(head, node) for node, head in enumerate(heads) if node and head != node]
            graphs_.append(TokenGraph(kinds, edges))
            scores.append(np.mean([a == b for a, b in zip(heads[1:], right[1:], strict=True)]))
            sentence.append(number)
    return graphs_, np.array(scores), np.array(sentence)


def test_rankrls_learns_from_parses_as_graphs():
    train, y, qid = parses(30, 0)
    test, y_test, qid_test = parses(30, 1)
    ranker = RankRLS(kernel="precomputed", l2=0.1).fit(graph_kernel(train), y, qid=qid)
    scores = ranker.predict(graph_kernel(test, train))
    pairs = [
        (y_test[i] - y_test[j]) * (scores[i] - scores[j]) > 0
        for i in range(len(y_test))
        for j in range(i)
        if qid_test[i] == qid_test[j] and y_test[i] != y_test[j]
    ]
    assert np.mean(pairs) > 0.65


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TokenGraph(["a"], [(0, 1)]), r"edges\[0\] is \(0, 1\); the nodes are 0 to 0"),
        (lambda: TokenGraph(["a", "b"], [(0, 1)], types=["x", "y"]), "types has 2 entries for 1 edges"),
        (lambda: TokenGraph(["a", "b"], [(0, 1)], weights=[-1.0]), "weights must be finite and not below 0"),
        (lambda: graph_kernel([TokenGraph(["a"], [])], decay=0.0), "decay is 0.0"),
        (lambda: graph_kernel([TokenGraph(["a"], [])], max_length=0), "max_length must be an integer from 1"),
    ],
)
def test_what_is_no_graph_or_no_kernel_is_refused(make, message):
    with pytest.raises((InputError, ParameterError), match=message):
        make()
